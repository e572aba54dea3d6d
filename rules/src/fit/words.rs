//! The text of the scheduler's answers.

use crate::fit::Ignored;
use crate::karpenter::scheduling::{Cause, Conflict, IgnoreReason, TopologyKind, Uncertainty};

pub fn uncertainty_code(uncertainty: &Uncertainty) -> &'static str {
    match uncertainty {
        Uncertainty::NewTypes(_) => "new-types",
        Uncertainty::Retired => "retired-types",
        Uncertainty::Reservations => "capacity-reservations",
        Uncertainty::PlacementGroup => "placement-group",
        Uncertainty::Region => "region",
        Uncertainty::Subnets(_) => "subnets",
        Uncertainty::ZonePair => "zone-pair",
        Uncertainty::MinValuesOf(_) => "min-values-of-zones",
        Uncertainty::MinValuesCut => "min-values-of-many-types",
        Uncertainty::DaemonSetTerms(_) => "daemonset-terms",
        Uncertainty::NoClass(_) | Uncertainty::NoAutoModeClass(_) => "node-class",
        Uncertainty::AutoModeReserve => "auto-mode-reserve",
        Uncertainty::AutoModeLabel(_) => "auto-mode-label",
        Uncertainty::BuiltInPool(_) => "built-in-pool",
        Uncertainty::OtherController(_) => "other-controller",
        Uncertainty::StandingTypes(_) => "standing-types",
        Uncertainty::OtherProvider(_) => "other-provider",
        Uncertainty::Windows => "windows",
        Uncertainty::KubeletExpressions(_) => "kubelet-expressions",
        Uncertainty::LabelValues(_) => "label-values",
        Uncertainty::UnreadablePod => "unreadable-pod",
        Uncertainty::UnreadablePool(_) => "unreadable-pool",
        Uncertainty::UnreadableDaemonSet(_) => "unreadable-daemonset",
        Uncertainty::Overlay(_) => "node-overlay",
        Uncertainty::Crash(_) => "crash",
        Uncertainty::BranchInterfaces => "branch-interfaces",
        Uncertainty::PreferredPodAffinity => "preferred-pod-affinity",
        Uncertainty::Volumes => "volumes",
        Uncertainty::ClaimToBind => "claim-to-bind",
        Uncertainty::QueueFlavor => "queue-flavor",
        Uncertainty::PodPolicy => "pod-policy",
        Uncertainty::PodAffinity => "pod-affinity",
        Uncertainty::TopologySpread => "topology-spread",
        Uncertainty::DomainTaken(_) => "domain-taken",
        Uncertainty::SpreadOver(_) => "spread-over",
        Uncertainty::Replicas => "replicas",
        Uncertainty::MemoryEstimate => "memory-estimate",
    }
}

pub fn uncertainty_text(uncertainty: &Uncertainty) -> String {
    match uncertainty {
        Uncertainty::NewTypes(names) => {
            format!("{} may be newer than gpulint's catalogue of instance types", quoted(names))
        }
        Uncertainty::Retired => "only instance types remain that EC2 no longer offers".to_owned(),
        Uncertainty::Reservations => {
            "which capacity reservations the class selects, and what they have left, is not known".to_owned()
        }
        Uncertainty::PlacementGroup => "which placement group the class selects is not known".to_owned(),
        Uncertainty::Region => "the region of the cluster is not known (`platform.region`)".to_owned(),
        Uncertainty::Subnets(zone) => {
            format!(
                "no NodePool names the zone {zone}: whether the node class has a subnet there is not known"
            )
        }
        Uncertainty::ZonePair => "whether the zone and the zone id belong together is not known".to_owned(),
        Uncertainty::MinValuesOf(key) => format!("how many values `{key}` has in the cluster is not known"),
        Uncertainty::MinValuesCut => {
            "more than 600 types remain, of which Karpenter keeps the cheapest before it counts `minValues`"
                .to_owned()
        }
        Uncertainty::DaemonSetTerms(name) => {
            format!(
                "whether the DaemonSet `{name}`, which has several node selector terms, counts differs by run"
            )
        }
        Uncertainty::NoClass(name) => {
            format!("the EC2NodeClass `{name}` is not in the input: the defaults of AL2023 are assumed")
        }
        Uncertainty::NoAutoModeClass(name) => {
            format!("the NodeClass `{name}` of EKS Auto Mode is not in the input: its defaults are assumed")
        }
        Uncertainty::AutoModeReserve => {
            "how much of a node EKS Auto Mode keeps for itself is not known".to_owned()
        }
        Uncertainty::AutoModeLabel(key) => {
            format!("whether nodes of EKS Auto Mode have the label `{key}` is not documented")
        }
        Uncertainty::BuiltInPool(name) => {
            format!("whether the built-in NodePool `{name}` of EKS Auto Mode is switched on is not known")
        }
        Uncertainty::OtherController(name) => format!(
            "EKS Auto Mode and Karpenter are two controllers: the other one starts a node of the NodePool `{name}` for it as well"
        ),
        Uncertainty::StandingTypes(name) => {
            format!("which of its types the nodes of the static NodePool `{name}` have is not known")
        }
        Uncertainty::OtherProvider(name) => {
            format!("the node class `{name}` is one of another provider than AWS")
        }
        Uncertainty::Windows => "the nodes run Windows".to_owned(),
        Uncertainty::KubeletExpressions(name) => format!(
            "what the expressions of the EC2NodeClass `{name}` give is not known (feature gate `NodeClassCEL`)"
        ),
        Uncertainty::LabelValues(key) => {
            format!("the catalogue does not know the label `{key}` of the types that are left")
        }
        Uncertainty::UnreadablePod => "a placeholder or an unreadable value of the pod decides".to_owned(),
        Uncertainty::UnreadablePool(name) => {
            format!("a placeholder or an unreadable value of the NodePool `{name}` decides")
        }
        Uncertainty::UnreadableDaemonSet(name) => {
            format!("what the DaemonSet `{name}` takes of each node is not known: it is not counted")
        }
        Uncertainty::Overlay(name) => {
            format!("the NodeOverlay `{name}` counts only with Karpenter's feature gate `NodeOverlay`")
        }
        Uncertainty::Crash(name) => format!("`{name}` makes Karpenter panic while it schedules"),
        Uncertainty::BranchInterfaces => {
            "how many branch interfaces some of the types have is not known".to_owned()
        }
        Uncertainty::PreferredPodAffinity => {
            "preferred pod affinity costs the pod its earlier alternatives unless other pods satisfy it"
                .to_owned()
        }
        Uncertainty::Volumes => "the zone of its volumes may exclude nodes".to_owned(),
        Uncertainty::ClaimToBind => {
            "Karpenter ignores it until its claim is bound, and then it has to be in the zone of the volume"
                .to_owned()
        }
        Uncertainty::QueueFlavor => {
            "the flavor that its queue chooses, with its node labels and tolerations, is not known".to_owned()
        }
        Uncertainty::PodPolicy => "a policy or a webhook may add tolerations to the pod".to_owned(),
        Uncertainty::PodAffinity => "where the pods are that its pod affinity names is not known".to_owned(),
        Uncertainty::TopologySpread => "the domains that it has to spread over are not known".to_owned(),
        Uncertainty::DomainTaken(key) => format!(
            "Karpenter takes any value of `{key}` to place its pods by, and not every one leaves an instance type"
        ),
        Uncertainty::SpreadOver(key) => {
            format!("its pods spread over `{key}`, whose values are not known: they may need more nodes")
        }
        Uncertainty::Replicas => "how many pods it runs is not known".to_owned(),
        Uncertainty::MemoryEstimate => {
            "it fits only if nodes have more memory than Karpenter expects before the first one".to_owned()
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Why Karpenter ignores a pod.
pub(super) fn ignored(reason: &IgnoreReason) -> Ignored {
    let (code, text) = match reason {
        IgnoreReason::RestrictedKey(key) => (
            "restricted-key",
            format!("the pod asks for `{key}`: Karpenter ignores pods that choose nodes by it"),
        ),
        IgnoreReason::RefusedPreference(key) => (
            "refused-preference",
            format!("the pod prefers nodes without `{key}`: the API server rejects the NodeClaims for it"),
        ),
        IgnoreReason::MatchFields => {
            ("match-fields", "node affinity uses `matchFields`: Karpenter ignores such pods".to_owned())
        }
        IgnoreReason::Malformed(what) => {
            ("malformed", format!("the node affinity on `{what}` is malformed: Karpenter ignores such pods"))
        }
        IgnoreReason::NoValidValue(key) => {
            ("no-valid-value", format!("no value for `{key}` is one that the label can have"))
        }
        IgnoreReason::NoNodePool => (
            "no-node-pool",
            "the pod asks for nodes that belong to no NodePool: Karpenter ignores such pods".to_owned(),
        ),
        IgnoreReason::Volumes(fault) => ("volumes", format!("{fault}: Karpenter ignores such pods")),
        IgnoreReason::ResourceClaims => {
            ("resource-claims", "Karpenter starts no node for a pod with resource claims".to_owned())
        }
    };
    Ignored { code, text, place: None }
}

/// Why a rule of spread or pod affinity keeps a pod from a pool.
pub(super) fn unsatisfied(kind: TopologyKind, key: &str) -> String {
    match kind {
        TopologyKind::Affinity => format!("no pod is there that its required pod affinity names (`{key}`)"),
        TopologyKind::AntiAffinity | TopologyKind::Spread => {
            format!("its pods spread over `{key}`, for which the nodes of the pool have no value")
        }
    }
}

/// Why a pool admits no type.
pub(super) fn conflict(conflict: &Conflict) -> String {
    let key = &conflict.key;
    let asked = format!("`{key}` {}", conflict.requirement);
    match conflict.cause {
        Cause::Alone => format!("no instance type has {asked}: the pool starts no nodes"),
        Cause::Together => {
            format!(
                "no instance type has {asked} and meets the pool's other requirements: it starts no nodes"
            )
        }
        Cause::Class => "the node class leaves no instance type: the pool starts no nodes".to_owned(),
        Cause::AutoMode => {
            "EKS Auto Mode starts none of its instance types: the pool starts no nodes".to_owned()
        }
        Cause::Negative => "what the kubelet reserves is more than any of the types has".to_owned(),
        Cause::MinValues { wanted, found } => {
            format!("`minValues: {wanted}` of `{key}` is not met: the types have {found}")
        }
    }
}
