//! What changes pods when they are created: policies and webhooks of the input.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::admission_webhook::{PODS, Webhook};

/// The kinds of policies and webhooks that [`may_change_pods`] reads.
pub(crate) const POD_POLICIES: [Kind; 8] = [
    Kind::MUTATING_ADMISSION_POLICY,
    Kind::MUTATING_WEBHOOK_CONFIGURATION,
    Kind::KYVERNO_CLUSTER_POLICY,
    Kind::KYVERNO_POLICY,
    Kind::MUTATING_POLICY,
    Kind::NAMESPACED_MUTATING_POLICY,
    Kind::GATEKEEPER_ASSIGN,
    Kind::GATEKEEPER_MODIFY_SET,
];

/// A part of a pod that something may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PodPart {
    Environment,
    Labels,
    PullSecrets,
    Resources,
    SecurityContext,
    Tolerations,
    Volumes,
}

impl PodPart {
    /// Parts of the words with which a policy names it, in a patch, a path or an expression.
    fn words(self) -> &'static [&'static str] {
        match self {
            PodPart::Environment => &["env"],
            PodPart::Labels => &["labels"],
            PodPart::PullSecrets => &["imagePullSecrets"],
            PodPart::Resources => &["requests", "limits"],
            PodPart::SecurityContext => &["ecurityContext"],
            PodPart::Tolerations => &["olerations"],
            PodPart::Volumes => &["olumes"],
        }
    }
}

/// Parts of the names of webhooks of well-known products that match pods, and the one part that they change in what is
/// written. Most add containers, labels, gates or volumes (their charts, read in November 2026).
const KNOWN: [(&str, Option<PodPart>); 20] = [
    ("istio", None),
    ("linkerd", None),
    ("consul", None),
    ("aws-load-balancer", None),
    ("elbv2", None),
    ("pod-identity", None),
    ("vpcresources", None),
    ("kueue", None),
    ("jobset", None),
    ("lws", None),
    ("leaderworkerset", None),
    ("yunikorn", None),
    ("volcano", None),
    ("hami", None),
    ("spark", None),
    ("vpa", Some(PodPart::Resources)),
    ("kserve", Some(PodPart::Environment)),
    ("opentelemetry", Some(PodPart::Environment)),
    ("datadog", Some(PodPart::Environment)),
    ("vault", Some(PodPart::Environment)),
];

/// Whether something in the input may change a part of the pods of a namespace when they are created: a policy that names the
/// part, or a webhook of which it is not known what it does.
pub(crate) fn may_change_pods(cluster: &Cluster, namespace: &str, part: PodPart) -> bool {
    cluster.query::<MayChange>(&(Some(Arc::from(namespace)), part))
}

/// Whether something in the input may change a part of the pods of some namespace when they are created.
pub(crate) fn may_change_some_pods(cluster: &Cluster, part: PodPart) -> bool {
    cluster.query::<MayChange>(&(None, part))
}

/// The answer for a namespace, or for some, and a part. Many rules ask for each workload: without the results a check of
/// `fixtures` takes 5 % longer (2026-11, dev build).
struct MayChange;

impl Query for MayChange {
    const SLOT: QuerySlot = QuerySlot::MayChangePods;
    const KINDS: &'static [Kind] = &POD_POLICIES;
    type Key = (Option<Arc<str>>, PodPart);
    type Value = bool;

    fn compute(cluster: &Cluster, (namespace, part): &Self::Key) -> bool {
        let namespace = namespace.as_deref();
        let may_change = |object: &Object| changes(object, namespace, *part);
        let of_namespace = [Kind::KYVERNO_POLICY, Kind::NAMESPACED_MUTATING_POLICY];
        POD_POLICIES.iter().any(|kind| match namespace.filter(|_| of_namespace.contains(kind)) {
            Some(namespace) => cluster.in_namespace(*kind, namespace).any(may_change),
            None => cluster.of(*kind).any(may_change),
        })
    }
}

fn changes(object: &Object, namespace: Option<&str>, part: PodPart) -> bool {
    let names_part = |text: String| part.words().iter().any(|word| text.contains(word));
    if object.is(Kind::MUTATING_WEBHOOK_CONFIGURATION) {
        return object.may_lack_fields() || has_webhook(object, namespace, part);
    }
    if object.group() == Kind::KYVERNO_POLICY.group {
        let mut rules = object.path(&["spec", "rules"]).items();
        return rules.any(|rule| names_part(rule.get("mutate").to_json().to_string()));
    }
    names_part(object.get("spec").to_json().to_string())
}

/// Whether a webhook of a configuration is called for the pods of a namespace, or of some, and may change a part of them.
fn has_webhook(configuration: &Object, namespace: Option<&str>, part: PodPart) -> bool {
    Webhook::of(configuration).iter().any(|webhook| {
        let service = webhook.get("clientConfig").path(&["service", "name"]);
        let names = [configuration.name(), webhook.get("name").raw_text().unwrap_or_default()];
        let words: Vec<&str> =
            names.into_iter().chain(service.raw_text()).flat_map(|name| name.split(['-', '.'])).collect();
        let known = KNOWN.iter().find(|(name, _)| {
            let parts: Vec<&str> = name.split(['-', '.']).collect();
            words.windows(parts.len()).any(|some| some == parts)
        });
        webhook.intercepts(PODS)
            && namespace.is_none_or(|namespace| webhook.covers_namespace(namespace) != Some(false))
            && known.is_none_or(|(_, changed)| *changed == Some(part))
    })
}
