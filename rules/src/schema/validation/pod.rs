//! Pods and pod templates: fields of the pod as a whole.

use std::collections::BTreeSet;

use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

use super::syntax::{DNS_LABEL, DNS_SUBDOMAIN, IP, QUALIFIED_NAME};
use super::{
    Checker, Completion, container, mapping_items, may_hold_more_fields, placement, quote, security,
    selector, text_of, volume,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodSpecOwner {
    Pod,
    /// The pod template of another kind.
    Template,
    /// The pod template of a StatefulSet, which sets host name and subdomain.
    StatefulSet,
}

/// The parts of a pod that its containers refer to.
pub(super) struct PodContext<'a> {
    pub(super) spec: Node<'a>,
    pub(super) owner: PodSpecOwner,
    /// Names of volumes; `None` if not all are known.
    pub(super) volumes: Option<BTreeSet<&'a str>>,
    /// Names of volumes from claims; only these can be block devices.
    pub(super) claim_volumes: BTreeSet<&'a str>,
    /// Names of resource claims; `None` if not all are known.
    pub(super) resource_claims: Option<BTreeSet<&'a str>>,
    /// Termination grace period in seconds, if known.
    pub(super) grace_period: Option<i64>,
}

/// The names of the items of a list; `None` if one is unknown or the list may be incomplete.
fn known_names<'a>(list: &Node<'a>, report: &Checker<'a>) -> Option<BTreeSet<&'a str>> {
    // A controller that completes fields adds no items.
    if report.partial && report.completion != Completion::Fields || list.is_unknown() {
        return None;
    }
    let mut out = BTreeSet::new();
    for item in list.items() {
        let name = item.get("name");
        if item.is_unknown() || may_hold_more_fields(&item) || name.is_unknown() {
            return None;
        }
        out.extend(name.text());
    }
    Some(out)
}

/// A pod template with its labels, annotations and spec. `claimed` are the names of the claim templates of a
/// StatefulSet, which are volumes too; `None` if they are not known.
pub(super) fn template<'a>(
    template: &Node<'a>,
    of: PodSpecOwner,
    claimed: Option<&BTreeSet<&'a str>>,
    report: &mut Checker<'a>,
) {
    if template.is_mapping() {
        selector::labels(&template.path(&["metadata", "labels"]), report);
        annotations(&template.path(&["metadata", "annotations"]), report);
        if !template.get("spec").is_set() {
            report.missing(template, "spec", "a pod template needs `spec`");
        }
        pod(&template.get("spec"), of, claimed, report);
        profiles(template, report);
    }
}

/// Keys of annotations. The API server lowercases them first.
pub(super) fn annotations<'a>(map: &Node<'a>, report: &mut Checker<'a>) {
    for (key, value) in map.entries() {
        if !is_placeholder(key) && !(QUALIFIED_NAME.accepts)(&key.to_lowercase()) {
            report
                .error(&value, format!("the key {} is not a qualified name", quote(key)))
                .help(QUALIFIED_NAME.help);
        }
    }
}

/// Whether another program makes pods of a Pod, with volumes of its own or of its configuration: Spark, also in EMR on EKS
/// (<https://spark.apache.org/docs/latest/running-on-kubernetes.html#pod-template>), Airflow and the Kubernetes plugin of Jenkins. It
/// has the container that they look for, or mounts a volume that they add.
fn is_completed_elsewhere(spec: &Node<'_>) -> bool {
    const CONTAINERS: [&str; 4] = ["spark-kubernetes-driver", "spark-kubernetes-executor", "base", "jnlp"];
    // The last one is of the brokers of Knative Eventing for Kafka, whose webhook adds it.
    const VOLUMES: [&str; 5] = [
        "emr-container-",
        "spark-conf-volume-",
        "spark-local-dir-",
        "workspace-volume",
        "contract-resources",
    ];
    let mut containers = ["containers", "initContainers"].into_iter().flat_map(|list| spec.get(list).items());
    let is_added = |mount: Node<'_>| {
        mount.get("name").text().is_some_and(|name| VOLUMES.iter().any(|start| name.starts_with(start)))
    };
    containers.any(|container| {
        container.get("name").text().is_some_and(|name| CONTAINERS.contains(&name))
            || container.get("volumeMounts").items().any(is_added)
    })
}

pub(super) fn pod<'a>(
    spec: &Node<'a>,
    of: PodSpecOwner,
    claimed: Option<&BTreeSet<&'a str>>,
    report: &mut Checker<'a>,
) {
    if !spec.is_mapping() {
        return;
    }
    let open = may_hold_more_fields(spec);
    // The API server does not look at the containers of a StatefulSet, of which the pods are completed.
    let is_made = matches!(of, PodSpecOwner::Pod | PodSpecOwner::StatefulSet);
    let is_completed = is_made && is_completed_elsewhere(spec);
    let mut volumes = known_names(&spec.get("volumes"), report).filter(|_| !open && !is_completed);
    match (&mut volumes, claimed) {
        (Some(volumes), Some(claimed)) => volumes.extend(claimed.iter()),
        (_, None) => volumes = None,
        _ => {}
    }
    let grace = spec.get("terminationGracePeriodSeconds");
    let mut claims: BTreeSet<&str> = claimed.into_iter().flatten().copied().collect();
    claims.extend(
        mapping_items(&spec.get("volumes"))
            .filter(|v| v.get("persistentVolumeClaim").is_set() || v.get("ephemeral").is_set())
            .filter_map(|v| v.get("name").text()),
    );
    let pod = PodContext {
        spec: spec.clone(),
        owner: of,
        volumes,
        claim_volumes: claims,
        resource_claims: known_names(&spec.get("resourceClaims"), report).filter(|_| !open),
        grace_period: if grace.is_set() {
            grace.int()
        } else if report.partial || open {
            None
        } else {
            Some(30)
        },
    };
    volume::volumes(&spec.get("volumes"), of, claimed, report);
    resource_claims(&spec.get("resourceClaims"), report);
    container::containers(&pod, report);
    if spec.get("ephemeralContainers").items().next().is_some() {
        let message = match of {
            PodSpecOwner::Pod => "a new Pod has no `ephemeralContainers`",
            _ => "a pod template has no `ephemeralContainers`",
        };
        report
            .error(&spec.get("ephemeralContainers"), message)
            .help("`kubectl debug` adds them to a running pod");
    }
    security::pod(spec, report);
    // Controllers complete no tolerations or terms of an affinity.
    let is_partial = report.partial;
    report.partial &= report.completion == Completion::Nothing;
    placement::placement(spec, of, report);
    report.partial = is_partial;
    network(&pod, report);
    scheduling_gates(spec, of, report);
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        report.check_syntax_unless_empty(&spec.get(field), &DNS_SUBDOMAIN);
    }
    report.check_syntax(&spec.get("runtimeClassName"), &DNS_SUBDOMAIN);
    // A projected token requires `serviceAccountName`, which admission sets to `default` before validation.
}

fn resource_claims<'a>(list: &Node<'a>, report: &mut Checker<'a>) {
    let mut named = Vec::new();
    for claim in mapping_items(list) {
        if let Some(name) = report.required_name(&claim, "name", &DNS_LABEL) {
            named.push((claim.get("name"), name.to_owned()));
        }
        // Before Kubernetes 1.31 the two fields were under `source`, which is an unknown field now.
        if !claim.get("source").is_set() {
            report.exactly_one(&claim, &["resourceClaimName", "resourceClaimTemplateName"]);
        }
        report.check_syntax(&claim.get("resourceClaimName"), &DNS_SUBDOMAIN);
        report.check_syntax(&claim.get("resourceClaimTemplateName"), &DNS_SUBDOMAIN);
    }
    report.unique(named.into_iter(), "the claim");
}

/// Host names and name resolution.
fn network<'a>(pod: &PodContext<'a>, report: &mut Checker<'a>) {
    let spec = &pod.spec;
    if pod.owner != PodSpecOwner::StatefulSet {
        report.check_syntax_unless_empty(&spec.get("hostname"), &DNS_LABEL);
        report.check_syntax_unless_empty(&spec.get("subdomain"), &DNS_LABEL);
    }
    for alias in mapping_items(&spec.get("hostAliases")) {
        report.check_syntax(&alias.get("ip"), &IP);
        for name in alias.get("hostnames").items() {
            report.check_syntax(&name, &DNS_SUBDOMAIN);
        }
    }
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").text() == Some("None")
        && !config.is_unknown()
        && !may_hold_more_fields(&config)
        && !servers.is_unknown()
        && servers.items().next().is_none()
    {
        let message = "`dnsPolicy: None` needs a nameserver in `dnsConfig`";
        if !config.is_set() {
            report.missing(spec, "dnsConfig", message);
        } else if servers.is_set() {
            report.error(&servers, message);
        } else {
            report.missing(&config, "nameservers", message);
        }
    }
    report.at_most(&servers, 3);
    for server in servers.items() {
        report.check_syntax(&server, &IP);
    }
    let searches = config.get("searches");
    report.at_most(&searches, 32);
    for search in searches.items() {
        if let Some(text) = text_of(&search)
            && text != "."
        {
            let bare = text.strip_suffix('.').unwrap_or(text).replace('_', "-");
            if !(DNS_SUBDOMAIN.accepts)(&bare) {
                report.error(&search, format!("{} is not a DNS name", quote(text))).help(DNS_SUBDOMAIN.help);
            }
        }
    }
    for option in mapping_items(&config.get("options")) {
        report.required_text(&option, "name");
    }
}

/// Readiness gates and scheduling gates.
fn scheduling_gates<'a>(spec: &Node<'a>, of: PodSpecOwner, report: &mut Checker<'a>) {
    for gate in mapping_items(&spec.get("readinessGates")) {
        report.check_syntax(&gate.get("conditionType"), &QUALIFIED_NAME);
    }
    let gates = spec.get("schedulingGates");
    let mut named = Vec::new();
    for gate in mapping_items(&gates) {
        if let Some(name) = report.required_name(&gate, "name", &QUALIFIED_NAME) {
            named.push((gate.get("name"), name.to_owned()));
        }
    }
    report.unique(named.into_iter(), "the gate");
    let node = spec.get("nodeName");
    if of == PodSpecOwner::Pod && gates.items().next().is_some() && node.text().is_some_and(|n| !n.is_empty())
    {
        report
            .error(&node, "`nodeName` is not allowed while there are `schedulingGates`")
            .help("leave one of them out");
    }
}

/// AppArmor annotations from before 1.30, whose keys contain container names.
pub(super) fn profiles<'a>(template: &Node<'a>, report: &mut Checker<'a>) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let spec = template.get("spec");
    if report.partial || may_hold_more_fields(&spec) {
        return;
    }
    for (key, value) in template.path(&["metadata", "annotations"]).entries() {
        let Some(container) = key.strip_prefix(PREFIX) else { continue };
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let mut all = lists.iter().flat_map(|list| spec.get(list).items());
        if !is_placeholder(key)
            && !all.any(|c| {
                c.is_unknown() || may_hold_more_fields(&c) || {
                    let name = c.get("name");
                    name.is_unknown() || name.text() == Some(container)
                }
            })
        {
            report
                .error(&value, format!("there is no container {}", quote(container)))
                .help("write `securityContext.appArmorProfile` on the container instead");
        }
    }
}
