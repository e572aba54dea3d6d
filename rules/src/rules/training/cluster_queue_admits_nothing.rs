//! A ClusterQueue of Kueue admits none of its workloads.
//!
//! # Why
//! A ClusterQueue without `namespaceSelector` selects no namespace: null is not the empty selector, and every
//! workload stays suspended, unless the queue only lends its quota to its cohort. Neither is a workload
//! admitted that requests a resource which no `coveredResources` of the queue lists: a queue for
//! `nvidia.com/gpu` alone admits no Job that requests CPU and memory as well. The same holds for one that
//! requests more than each flavor has as its quota, where the queue is in no cohort to borrow from, for a
//! LocalQueue in a namespace that the selector does not match, and for a flavor that does not exist, or whose
//! Topology does not. Requests that a LimitRange adds count as well. Pods that name a topology level have to
//! find it in the Topology of a flavor. A flavor whose `nodeTaints` the pods do not tolerate, or whose
//! `nodeLabels` are others than they select, is not for them. Kueue reads the template of a Job, which does
//! not yet have the tolerations for GPUs that EKS adds to pods, and the template of the pod that submits a
//! RayJob, which KubeRay makes without any. Kueue rejects a queue with a flavor whose resources are not those
//! of `coveredResources`, in their order, and one with a resource or a flavor in two resource groups. Nothing
//! fails: the Jobs wait with a condition that few people read.
//!
//! # Fix
//! Write `namespaceSelector: {}` for all namespaces, or a selector. List every resource that the pods
//! request, with a quota in each flavor, or leave resources out in the configuration of Kueue
//! (`resources.excludeResourcePrefixes`). Give one flavor a quota for the largest workload.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ClusterQueue
//!  metadata: {name: research}
//! -spec: # <-
//! +spec:
//! +  namespaceSelector: {}
//!    resourceGroups:
//!      - coveredResources: [cpu, memory, nvidia.com/gpu]
//!        flavors:
//!          - name: h100
//!            resources:
//!              - {name: cpu, nominalQuota: 400}
//!              - {name: memory, nominalQuota: 3Ti}
//!              - {name: nvidia.com/gpu, nominalQuota: 16}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#namespace-selector>
//! - <https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources>
//! - <https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/>
//! - <https://github.com/kubernetes-sigs/kueue/issues/5711>

use super::kueue::{QUEUE_LABEL, propose, queue_name};
use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::cluster::queues::requested;
use crate::fit::amount;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::{Taint, Toleration, pod_requests, tolerates};
use crate::rules::prelude::*;
use crate::workload::devices::pods_of;
use crate::workload::gpu::{INSTANCE_RESOURCES, is_extended};
use crate::workload::template::workload_kind;

const TOPOLOGY: Kind = Kind::new("kueue.x-k8s.io", "Topology");

pub(crate) static RULE: Rule = Rule {
    id: "cluster-queue-admits-nothing",
    kinds: &[Kind::CLUSTER_QUEUE],
    reads: kinds![
        [
            Kind::LOCAL_QUEUE,
            Kind::CONFIG_MAP,
            Kind::RESOURCE_FLAVOR,
            TOPOLOGY,
            Kind::LIMIT_RANGE,
            Kind::NAMESPACE
        ],
        POD_POLICIES,
        WORKLOAD_KINDS
    ],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("cluster_queue_admits_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Maximum number of workloads of a namespace that are compared with a queue.
const MOST_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.may_lack_fields() || spec.has_unknown_key() {
        return None;
    }
    other_resources(object, ctx);
    twice_in_groups(object, ctx);
    missing_flavor(object, ctx);
    missing_topology(object, ctx);
    let queues = ctx.cluster().of(Kind::LOCAL_QUEUE);
    let own = queues.filter(|queue| queue.path(&["spec", "clusterQueue"]).text() == Some(object.name()));
    let own: Vec<&Object> = own.filter(|queue| ctx.pairs_with(queue)).collect();
    selects_nothing(object, &own, ctx);
    unselected(object, &own, ctx);
    let groups = spec.get("resourceGroups");
    if groups.has_unknown() || groups.items().next().is_none() || may_exclude(ctx) {
        return None;
    }
    let queued = queued(&own, ctx);
    // With MultiKueue the levels are those of another cluster.
    if !["admissionChecks", "admissionChecksStrategy"].iter().any(|field| spec.get(field).is_set()) {
        unknown_level(object, &queued, ctx);
    }
    if uncovered(object, &queued, ctx).is_none() && no_flavor_fits(object, &queued, ctx).is_none() {
        beyond_quota(object, &queued, ctx);
    }
    None
}

/// The fields of a cohort, of v1beta2 and v1beta1.
const COHORTS: [&str; 2] = ["cohortName", "cohort"];

/// Reports a queue without a selector of namespaces. One that no LocalQueue names may only lend its quota to a cohort.
fn selects_nothing(object: &Object, own: &[&Object], ctx: &mut Context<'_>) {
    let spec = object.get("spec");
    let selector = spec.get("namespaceSelector");
    if selector.is_set() || own.is_empty() && COHORTS.iter().any(|name| spec.get(name).is_set()) {
        return;
    }
    let message =
        format!("ClusterQueue `{}` selects no namespace, and admits no workload", object.display_name());
    ctx.report(&selector, message)
        .reports_absence(false)
        .help("write `namespaceSelector: {}` for all namespaces, or a selector")
        .fix(Fix::unsafe_("select all namespaces").set(&selector, json!({})));
}

/// Reports a flavor whose resources are not those that its group covers, in their order. Kueue's webhook rejects the queue:
/// kueue 0.13 `pkg/webhooks/clusterqueue_webhook.go` (`validateFlavorQuotas`).
fn other_resources(object: &Object, ctx: &mut Context<'_>) {
    for group in object.path(&["spec", "resourceGroups"]).items() {
        let covered = group.get("coveredResources");
        if covered.has_unknown() {
            continue;
        }
        let covered: Vec<&str> = covered.items().filter_map(|name| name.text()).collect();
        for flavor in group.get("flavors").items() {
            let resources = flavor.get("resources");
            let names: Vec<&str> = resources.items().filter_map(|one| one.get("name").text()).collect();
            if flavor.has_unknown() || covered.is_empty() || names == covered {
                continue;
            }
            let is_reordered = names.len() == covered.len()
                && names.iter().all(|name| covered.contains(name))
                && covered.iter().all(|name| names.contains(name));
            let name = flavor.get("name");
            let name = ellipsize(name.text().unwrap_or_default());
            let repeated = names.iter().enumerate().find(|(at, one)| names[..*at].contains(*one));
            let message = match repeated {
                Some((_, one)) => format!("flavor `{name}` has the resource `{one}` twice"),
                None if is_reordered => {
                    format!("flavor `{name}` has the resources of `coveredResources` in another order")
                }
                None => format!("flavor `{name}` has other resources than `coveredResources`"),
            };
            let finding = ctx.report(&resources, message);
            finding.severity(Severity::Error).reports_absence(false);
            // The list is a map by `name`.
            match repeated {
                Some(_) => finding.help("the API server rejects the queue: remove one of the two"),
                None => finding.help(format!(
                    "Kueue rejects the queue: write `{}`, in this order",
                    covered.join("`, `")
                )),
            };
        }
    }
}

/// Reports a resource or a flavor that an earlier group of the queue has as well. Kueue's webhook rejects the queue: kueue 0.6 to
/// 0.17 `pkg/webhooks/clusterqueue_webhook.go` (`validateResourceGroups`).
fn twice_in_groups(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let groups: Vec<Node<'_>> = object.path(&["spec", "resourceGroups"]).items().collect();
    let (what, (node, first)) = match repeated(&groups, |group| {
        group.get("coveredResources").items().collect()
    }) {
        Some(found) => ("resource", found),
        None => {
            let names =
                repeated(&groups, |group| group.get("flavors").items().map(|one| one.get("name")).collect());
            ("flavor", names?)
        }
    };
    let message = format!(
        "the {what} `{}` is in two resource groups: Kueue rejects the queue",
        ellipsize(node.text()?)
    );
    let help = match what {
        "resource" => {
            "write one group with all resources of the flavors, or leave the resource out of one group"
        }
        _ => "write a ResourceFlavor for each group, with labels of its own nodes",
    };
    ctx.report(&node, message).severity(Severity::Error).reports_absence(false).help(help).related(
        object,
        &first,
        "the first one",
    );
    None
}

/// The first name in a list of groups that an earlier group has as well, and that one.
fn repeated<'a>(
    groups: &[Node<'a>],
    names: impl Fn(&Node<'a>) -> Vec<Node<'a>>,
) -> Option<(Node<'a>, Node<'a>)> {
    let mut earlier: Vec<Node<'a>> = Vec::new();
    for group in groups {
        let own = names(group);
        let find =
            |node: &Node<'a>| earlier.iter().find(|one| node.text().is_some() && one.text() == node.text());
        let found = own.iter().find_map(|node| Some((node.clone(), find(node)?.clone())));
        if found.is_some() {
            return found;
        }
        earlier.extend(own);
    }
    None
}

/// Reports a flavor that is not among those of the input.
fn missing_flavor(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let flavors: Vec<&Object> =
        ctx.cluster().of(Kind::RESOURCE_FLAVOR).filter(|flavor| ctx.pairs_with(flavor)).collect();
    let is_missing =
        |node: &Node<'_>| node.text().is_some_and(|name| !flavors.iter().any(|one| one.name() == name));
    let node = flavor_names(object).filter(is_missing).find(|_| !flavors.is_empty())?;
    let name = node.text()?;
    let message = format!("no ResourceFlavor is called `{}`: the queue is inactive", ellipsize(name));
    let finding = ctx.report(&node, message);
    propose(finding, &node, name, &flavors);
    None
}

/// Reports a flavor whose topology is not among those of the input.
fn missing_topology(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let topologies: Vec<&Object> = ctx.cluster().of(TOPOLOGY).filter(|one| ctx.pairs_with(one)).collect();
    if topologies.is_empty() {
        return None;
    }
    let (flavor, name) = flavor_names(object).find_map(|node| {
        let flavor = ctx.partner(Kind::RESOURCE_FLAVOR, "default", node.text()?)?;
        let name = flavor.path(&["spec", "topologyName"]);
        let is_missing = !topologies.iter().any(|one| name.text() == Some(one.name()));
        (name.text().is_some() && is_missing && !flavor.is_partial()).then_some(((node, flavor), name))
    })?;
    let (node, flavor) = flavor;
    let message = format!(
        "ResourceFlavor `{}` names the Topology `{}`, which does not exist: the queue is inactive",
        flavor.display_name(),
        ellipsize(name.text()?)
    );
    let finding = ctx.report(&node, message);
    finding.help(format!("create it, or write `{}` in the flavor", topologies[0].display_name()));
    finding.related(flavor, &name, "the Topology of the flavor");
    None
}

fn flavor_names(object: &Object) -> impl Iterator<Item = Node<'_>> {
    let groups = object.path(&["spec", "resourceGroups"]);
    groups.items().flat_map(|group| group.get("flavors").items()).map(|item| item.get("name"))
}

/// The annotations of pods that name a level of a topology.
const LEVEL_ANNOTATIONS: [&str; 3] = [
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
];

/// Reports a level that queued pods name and that no flavor of the queue has.
fn unknown_level(object: &Object, queued: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    // Another definition of the queue may have the level: the files of two set-ups in one folder.
    let kind = Kind::CLUSTER_QUEUE;
    if ctx.cluster().all(kind.group, kind.kind, "default", object.name()).len() > 1 {
        return None;
    }
    let mut levels: Vec<&str> = Vec::new();
    for node in flavor_names(object) {
        let flavor = ctx.partner(Kind::RESOURCE_FLAVOR, "default", node.text()?)?;
        let name = flavor.path(&["spec", "topologyName"]);
        if flavor.is_partial() || name.is_unknown() {
            return None;
        }
        let Some(name) = name.text() else { continue };
        let topology = ctx.partner(TOPOLOGY, "default", name)?.path(&["spec", "levels"]);
        if topology.has_unknown() {
            return None;
        }
        levels.extend(topology.items().filter_map(|level| level.get("nodeLabel").text()));
    }
    let (workload, annotation, level) = queued.iter().copied().find_map(|workload| {
        templates(workload).iter().find_map(|template| {
            let annotations = template.metadata.get("annotations");
            let named = LEVEL_ANNOTATIONS.into_iter().map(|name| annotations.get(name));
            let found = named.filter_map(|node| Some((node.text()?, node.clone())));
            let (level, node) = found.into_iter().find(|(level, _)| !levels.contains(level))?;
            Some((workload, node, level))
        })
    })?;
    let first = flavor_names(object).next()?;
    let message = format!(
        "no flavor of `{}` has the topology level `{}` of `{}`: it is never admitted",
        object.display_name(),
        ellipsize(level),
        workload.display_name()
    );
    let help = match levels.first() {
        Some(_) => format!("name a level of the Topology: `{}`", levels.join("`, `")),
        None => "give a flavor a `topologyName` whose Topology has the level".to_owned(),
    };
    ctx.report(&first, message)
        .reports_absence(false)
        .help(help)
        .related(workload, &annotation, "this level")
        .related(workload, &queue_name(workload), format!("queued by `{QUEUE_LABEL}`"));
    Some(())
}

/// Reports a LocalQueue in a namespace that the queue does not select.
fn unselected(object: &Object, own: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let selector = object.path(&["spec", "namespaceSelector"]);
    let queue = own.iter().find(|queue| {
        let name = queue.namespace().filter(|_| !queue.is_namespace_unknown());
        name.is_some_and(|name| selects_namespace(&selector, name, ctx) == Some(false))
    })?;
    let namespace = queue.namespace()?;
    let message = format!(
        "ClusterQueue `{}` does not select namespace `{}` of its LocalQueue `{}`: nothing from there is admitted",
        object.display_name(),
        ellipsize(namespace),
        queue.display_name()
    );
    ctx.report(&selector, message)
        .reports_absence(false)
        .help("select the namespace, for example by `kubernetes.io/metadata.name`")
        .related(queue, &queue.path(&["metadata", "namespace"]), "the LocalQueue is in this namespace");
    None
}

/// Whether a selector matches a namespace: by its name, which is a label, and by the labels of its object in the input. `None` if
/// that is not known.
fn selects_namespace(selector: &Node<'_>, name: &str, ctx: &Context<'_>) -> Option<bool> {
    if selector.has_unknown() || !selector.is_set() {
        return None;
    }
    let object = ctx.partner(Kind::NAMESPACE, "default", name).filter(|object| !object.is_partial());
    let labels = object.map(|object| object.path(&["metadata", "labels"]));
    let value = |key: &str| -> Option<Option<&str>> {
        match (key, &labels) {
            ("kubernetes.io/metadata.name", _) => Some(Some(name)),
            (_, Some(labels)) if labels.has_unknown() => None,
            (_, Some(labels)) => Some(labels.get(key).text()),
            (_, None) => None,
        }
    };
    let mut matches = true;
    for (key, wanted) in selector.get("matchLabels").entries() {
        matches &= value(key)? == wanted.text();
    }
    for term in selector.get("matchExpressions").items() {
        let found = value(term.get("key").text()?)?;
        let listed =
            found.is_some_and(|found| term.get("values").items().any(|value| value.text() == Some(found)));
        matches &= match term.get("operator").text()? {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => return None,
        };
    }
    Some(matches)
}

/// The workloads of some LocalQueues.
fn queued<'i>(own: &[&'i Object], ctx: &Context<'i>) -> Vec<&'i Object> {
    let of_queue = |queue: &&'i Object| {
        let around = ctx.cluster().views().workloads_in(queue.namespace_or_default()).take(MOST_COMPARED);
        let name = queue.name();
        let waits =
            |workload: &&Object| queue_name(workload).text() == Some(name) && ctx.pairs_with(workload);
        around.map(|workload| &workload.object).filter(waits).collect::<Vec<_>>()
    };
    own.iter().flat_map(of_queue).collect()
}

/// The annotation with which Kueue admits a Job with fewer pods.
const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";

/// Reports a workload whose pods request more of a resource than any flavor has, in a queue that cannot borrow. All pods of a
/// template get the same flavor.
fn beyond_quota(object: &Object, queued: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let groups = spec.get("resourceGroups");
    let in_cohort = ["cohort", "cohortName"].iter().any(|name| spec.get(name).is_set());
    if in_cohort || spec.get("cohort").is_unknown() {
        return None;
    }
    let flavors = || groups.items().flat_map(|group| group.get("flavors").items());
    let quotas = || flavors().flat_map(|flavor| flavor.get("resources").items());
    for &workload in queued {
        if workload.annotation(MIN_PARALLELISM).is_set() {
            continue;
        }
        for template in templates(workload) {
            let Some(pod) = to_scheduling_pod(&template) else { continue };
            let ends = workload_kind(workload).is_some_and(|row| row.runs_to_completion);
            // The pods of a workload that runs for ever are admitted one by one.
            let pods = if ends { pods_of(workload, &template).unwrap_or(1).max(1) } else { 1 };
            for (resource, each) in pod_requests(&pod) {
                let of_resource =
                    quotas().filter(|quota| quota.get("name").text() == Some(resource.as_str()));
                let nodes: Vec<Node<'_>> = of_resource.map(|quota| quota.get("nominalQuota")).collect();
                let amounts: Option<Vec<i128>> =
                    nodes.iter().map(|node| Quantity::at(node).map(|quota| quota.milli())).collect();
                let Some(most) = amounts.and_then(|amounts| amounts.into_iter().max()) else { continue };
                let all = each * i128::from(pods);
                if all <= most {
                    continue;
                }
                let message = format!(
                    "`{}` requests {} of `{resource}`, and no flavor of `{}` has more than {}: it is never admitted",
                    workload.display_name(),
                    amount(&resource, all),
                    object.display_name(),
                    amount(&resource, most)
                );
                ctx.report(&nodes[0], message)
                    .reports_absence(false)
                    .help("raise the quota, or put the queue into a cohort that it can borrow from")
                    .related(workload, &queue_name(workload), format!("queued by `{QUEUE_LABEL}`"));
                return None;
            }
        }
    }
    None
}

/// Reports a resource that a workload of one of its LocalQueues requests and no resource group covers. `None` if there is none.
fn uncovered(object: &Object, queued: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let groups = object.path(&["spec", "resourceGroups"]);
    let lists: Vec<Node<'_>> = groups.items().map(|group| group.get("coveredResources")).collect();
    let covered: Vec<&str> =
        lists.iter().flat_map(|list| list.items()).filter_map(|one| one.text()).collect();
    let (workload, missing, (requester, node)) = queued.iter().copied().find_map(|workload| {
        let (missing, place) = first_missing(workload, &covered, ctx)?;
        Some((workload, missing, place))
    })?;
    let missing = missing.join("`, `");
    let message = format!(
        "no resource group of `{}` covers `{missing}`, which `{}` requests: it is never admitted",
        object.display_name(),
        workload.display_name()
    );
    ctx.report(&lists[0], message)
        .reports_absence(false)
        .help(format!(
            "cover `{missing}` with a quota in each flavor, or exclude it in Kueue's configuration"
        ))
        .related(requester, &node, "this request")
        .related(workload, &queue_name(workload), format!("queued by `{QUEUE_LABEL}`"));
    Some(())
}

/// Pods for which Kueue looks for flavors.
struct PodSet<'a> {
    /// The resources that they request, which decide the groups of the queue that count.
    requested: Vec<String>,
    /// Absent for the pod with which KubeRay submits a RayJob.
    spec: Node<'a>,
    /// Whether Kueue reads the pods themselves, to which EKS has added the tolerations of the resources.
    are_made: bool,
}

/// The pods of a workload for which Kueue looks for flavors: kueue 0.13 `pkg/controller/jobs`; `getSubmitterTemplate` of `rayjob`.
fn pod_sets<'a>(workload: &'a Object) -> Vec<PodSet<'a>> {
    let are_made = workload.is(Kind::POD) || runs_forever(workload);
    let of_template =
        |template: Template<'a>| PodSet { requested: requested(&template), spec: template.spec, are_made };
    let mut sets: Vec<PodSet<'a>> = templates(workload).into_iter().map(of_template).collect();
    let submitter = workload.path(&["spec", "submitterPodTemplate"]);
    let mode = workload.path(&["spec", "submissionMode"]);
    let by_job = !mode.is_set() || mode.text() == Some("K8sJobMode");
    if workload.is(Kind::RAY_JOB) && by_job && submitter.is_absent() {
        let requested = ["cpu", "memory", "pods"].map(str::to_owned).to_vec();
        sets.push(PodSet { requested, spec: submitter.get("spec"), are_made: false });
    }
    sets
}

/// Why pods do not get a flavor.
enum Misfit<'a> {
    /// A taint that neither they nor the flavor tolerates.
    Taint(Node<'a>, String),
    /// A label that they select with another value.
    Label(Node<'a>, &'a str),
}

/// Why pods do not get a flavor that has some of the labels `keys`. `None` if they may.
fn misfit<'a>(pods: &PodSet<'a>, flavor: &'a Object, keys: &[&str]) -> Option<Misfit<'a>> {
    let spec = flavor.get("spec");
    let lists = [pods.spec.get("tolerations"), spec.get("tolerations"), spec.get("nodeTaints")];
    if flavor.may_lack_fields() || pods.spec.has_unknown_key() || lists.iter().any(Node::has_unknown) {
        return None;
    }
    let of_list = |list: &Node<'a>| list.items().map(|item| toleration(&item)).collect::<Vec<Toleration>>();
    let tolerations = [of_list(&lists[0]), of_list(&lists[1])].concat();
    let text = |node: &Node<'a>, field: &str| node.get(field).text().unwrap_or_default().to_owned();
    for node in lists[2].items() {
        let taint =
            Taint { key: text(&node, "key"), value: text(&node, "value"), effect: text(&node, "effect") };
        let is_added = pods.are_made && pods.requested.contains(&taint.key);
        let keeps_off = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !is_added;
        if keeps_off && !tolerations.iter().any(|one| tolerates(one, &taint)) {
            return Some(Misfit::Taint(node, taint.key));
        }
    }
    let labels = spec.get("nodeLabels");
    let mut selected = pods.spec.get("nodeSelector").entries().into_iter();
    let lacks = |(key, value): &(&'a str, Node<'a>)| {
        let own = labels.get(key);
        keys.contains(key) && value.text().is_some() && !own.is_unknown() && own.text() != value.text()
    };
    selected.find(lacks).map(|(key, value)| Misfit::Label(value, key))
}

/// Reports a workload with pods that get no flavor of a group of resources: kueue 0.13
/// `pkg/scheduler/flavorassigner/flavorassigner.go` (`findFlavorForPodSets`).
fn no_flavor_fits(object: &Object, queued: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let groups = object.path(&["spec", "resourceGroups"]);
    let groups: Vec<(Vec<&str>, Node<'_>, Vec<&Object>)> = groups
        .items()
        .filter_map(|group| {
            let items: Vec<Node<'_>> = group.get("flavors").items().map(|item| item.get("name")).collect();
            let find = |name: &Node<'_>| ctx.partner(Kind::RESOURCE_FLAVOR, "default", name.text()?);
            let flavors = items.iter().map(find).collect::<Option<Vec<&Object>>>()?;
            let covered = group.get("coveredResources").items().filter_map(|name| name.text()).collect();
            Some((covered, items.first()?.clone(), flavors))
        })
        .collect();
    for &workload in queued.iter().filter(|workload| !workload.may_lack_fields()) {
        for pods in pod_sets(workload) {
            for (covered, place, flavors) in &groups {
                let labels = flavors.iter().flat_map(|flavor| flavor.path(&["spec", "nodeLabels"]).entries());
                let keys: Vec<&str> = labels.map(|(key, _)| key).collect();
                let asks = pods.requested.iter().any(|name| covered.contains(&name.as_str()));
                let misfits: Option<Vec<Misfit<'_>>> =
                    flavors.iter().map(|flavor| misfit(&pods, flavor, &keys)).collect();
                // A policy of Kyverno changes the templates of workloads as well, which Kueue reads.
                let is_mended = |misfit: &Misfit<'_>| {
                    let namespace = workload.namespace_or_default();
                    matches!(misfit, Misfit::Taint(..))
                        && may_change_pods(ctx.cluster(), namespace, PodPart::Tolerations)
                };
                let misfits = misfits.filter(|all| asks && !all.iter().any(is_mended));
                if let Some(first) = misfits.and_then(|all| all.into_iter().next()) {
                    report_misfit(place, workload, &pods, flavors, &first, ctx);
                    return Some(());
                }
            }
        }
    }
    None
}

fn report_misfit(
    place: &Node<'_>,
    workload: &Object,
    pods: &PodSet<'_>,
    flavors: &[&Object],
    misfit: &Misfit<'_>,
    ctx: &mut Context<'_>,
) {
    let is_submitter = !pods.spec.is_set();
    let who = if is_submitter { "the submitter of " } else { "" };
    let who = format!("{who}`{}`", workload.display_name());
    let flavor = flavors[0];
    let others = if flavors.len() > 1 { ", and fits no other" } else { "" };
    let (what, help) = match misfit {
        Misfit::Taint(_, key) => (
            format!("does not tolerate `{}` of flavor `{}`", ellipsize(key), flavor.display_name()),
            if is_submitter {
                "tolerate it in `submitterPodTemplate`, or in `tolerations` of the flavor"
            } else {
                "tolerate it in the template of the pods, or in `tolerations` of the flavor"
            },
        ),
        Misfit::Label(_, key) => (
            format!("selects another `{}` than flavor `{}` has", ellipsize(key), flavor.display_name()),
            "leave the selection of nodes to the flavor, or add one for these nodes",
        ),
    };
    let message = format!("{who} {what}{others}: `{}` never admits it", ctx.object().display_name());
    let finding = ctx.report(place, message);
    finding.reports_absence(false).help(help);
    match misfit {
        Misfit::Taint(node, _) => finding.related(flavor, node, "this taint"),
        Misfit::Label(node, _) => finding.related(workload, node, "selected here"),
    };
    finding.related(workload, &queue_name(workload), format!("queued by `{QUEUE_LABEL}`"));
}

/// Whether a configuration of Kueue in the input leaves resources out.
fn may_exclude(ctx: &Context<'_>) -> bool {
    let says = |(_, text): (&str, Node<'_>)| {
        text.raw_text()
            .is_some_and(|text| text.contains("excludeResourcePrefixes") || text.contains("transformations"))
    };
    let maps = ctx.cluster().of(Kind::CONFIG_MAP).filter(|map| map.name().contains("kueue"));
    maps.into_iter().any(|map| map.get("data").entries().into_iter().any(says))
}

/// The resources for which the LimitRanges of a namespace give each container a request: they count like written ones.
fn defaulted<'i>(workload: &Object, ctx: &Context<'i>) -> Vec<(&'i str, &'i Object, Node<'i>)> {
    let ranges = ctx.cluster().of(Kind::LIMIT_RANGE).filter(|range| {
        !range.is_partial()
            && range.namespace_or_default() == workload.namespace_or_default()
            && !range.is_namespace_unknown()
            && ctx.pairs_with(range)
    });
    let of_range = |range: &'i Object| {
        let limits = range.path(&["spec", "limits"]).items();
        let of_containers = limits.filter(|item| item.get("type").text() == Some("Container"));
        // The API server takes a request that is absent from the limit, the maximum or the minimum.
        let fields = ["defaultRequest", "default", "max", "min"];
        let amounts = of_containers.flat_map(move |item| fields.map(|field| item.get(field)));
        amounts.flat_map(|amount| amount.entries()).map(move |(name, node)| (name, range, node))
    };
    ranges.flat_map(of_range).collect()
}

/// The resources that a workload requests and that are not covered, with the first request of one.
fn first_missing<'a>(
    workload: &'a Object,
    covered: &[&str],
    ctx: &Context<'a>,
) -> Option<(Vec<&'a str>, (&'a Object, Node<'a>))> {
    let mut missing: Vec<&str> = Vec::new();
    let mut place = None;
    let is_uncovered = |name: &str, amount: &Node<'_>| {
        Quantity::at(amount).is_some_and(|quantity| !quantity.is_zero()) && !covered.contains(&name)
    };
    for template in templates(workload) {
        for container in template.containers() {
            for side in ["requests", "limits"] {
                let amounts = container.path(&["resources", side]);
                if amounts.has_unknown_key() {
                    return None;
                }
                for (name, amount) in amounts.entries() {
                    // Kueue's configuration may map the resources of other devices to those of the queue.
                    if is_extended(name) && !INSTANCE_RESOURCES.contains(&name) {
                        return None;
                    }
                    if is_uncovered(name, &amount) && !missing.contains(&name) {
                        missing.push(name);
                        place.get_or_insert((workload, amount));
                    }
                }
            }
        }
        for (name, range, amount) in defaulted(workload, ctx) {
            let is_written = |container: &Node<'_>| {
                ["requests", "limits"].iter().any(|side| container.path(&["resources", side, name]).is_set())
            };
            let is_left_out = template.containers().any(|container| !is_written(&container));
            if is_left_out && is_uncovered(name, &amount) && !missing.contains(&name) {
                missing.push(name);
                place.get_or_insert((range, amount));
            }
        }
    }
    Some((missing, place?))
}
