//! The taints that the pods of workloads tolerate. Many workloads share few distinct lists, so a pool is compared with
//! each list once.

use crate::cluster::placement::starts_nodes;
use crate::cluster::queues::is_queued;
use crate::cluster::table::{View, ViewSlot};
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::{Taint, Toleration, tolerates};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::gpu::requested_extended_resources;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

/// The workloads whose pods can cause Karpenter to start nodes, by the taints that they tolerate.
pub(crate) struct Tolerances;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tolerance {
    /// A placeholder, a patch or a controller may add tolerations.
    Unknown,
    /// What the template says.
    Written {
        /// Key, operator, value and effect of each toleration.
        tolerations: Vec<[String; 4]>,
        /// The extended resources that the pods request: EKS adds a toleration for each one.
        resources: Vec<String>,
        /// The RuntimeClass of the pods, which may add tolerations.
        runtime_class: Option<String>,
        /// Whether Kueue admits the pods, and adds the tolerations of a flavor.
        queued: bool,
    },
}

impl View for Tolerances {
    const SLOT: ViewSlot = ViewSlot::Tolerances;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    const PARTIAL: bool = true;
    type Row = Object;
    type Key = Tolerance;

    fn keys(object: &Object) -> Vec<Tolerance> {
        if object.is(Kind::DAEMON_SET) {
            return Vec::new();
        }
        let templates = templates(object);
        if object.is_partial() {
            let adds = templates.iter().any(|template| template.spec.get("tolerations").is_set());
            return if adds { vec![Tolerance::Unknown] } else { Vec::new() };
        }
        if !starts_nodes(object) {
            return Vec::new();
        }
        // The runtime of an InferenceService or a TrainJob adds tolerations.
        if object.is_patched_by_kustomize()
            || [Kind::INFERENCE_SERVICE, Kind::TRAIN_JOB].iter().any(|kind| object.is(*kind))
        {
            return vec![Tolerance::Unknown];
        }
        let bound = |template: &&Template<'_>| template.spec.get("nodeName").is_set();
        templates.iter().filter(|template| !bound(template)).map(Tolerance::of).collect()
    }
}

impl Tolerance {
    fn of(template: &Template<'_>) -> Tolerance {
        let spec = &template.spec;
        let list = spec.get("tolerations");
        let open = |container: crate::tree::node::Node<'_>| {
            let resources = container.get("resources");
            resources.is_unknown()
                || ["limits", "requests"].iter().any(|side| {
                    let amounts = resources.get(side);
                    amounts.is_unknown() || amounts.has_unknown_key()
                })
        };
        if spec.is_unknown()
            || spec.has_unknown_key()
            || list.has_unknown()
            || template.all_containers().any(open)
        {
            return Tolerance::Unknown;
        }
        let mut tolerations: Vec<[String; 4]> = list
            .items()
            .map(|node| {
                let Toleration { key, operator, value, effect } = toleration(&node);
                [key, operator, value, effect]
            })
            .collect();
        tolerations.sort_unstable();
        tolerations.dedup();
        let mut resources: Vec<String> =
            requested_extended_resources(template).into_iter().map(str::to_owned).collect();
        resources.sort_unstable();
        resources.dedup();
        let runtime_class = spec.get("runtimeClassName");
        if runtime_class.is_unknown() {
            return Tolerance::Unknown;
        }
        let runtime_class = runtime_class.text().map(str::to_owned);
        Tolerance::Written { tolerations, resources, runtime_class, queued: is_queued(template) }
    }

    /// Whether the pods tolerate a taint, including the tolerations that EKS adds if `eks` is true.
    pub(crate) fn covers(&self, taint: &Taint, eks: bool) -> bool {
        let Tolerance::Written { resources, .. } = self else { return true };
        eks && taint.effect == "NoSchedule" && resources.contains(&taint.key)
            || self.written().any(|toleration| tolerates(&toleration, taint))
    }

    pub(crate) fn runtime_class(&self) -> Option<&str> {
        match self {
            Tolerance::Unknown => None,
            Tolerance::Written { runtime_class, .. } => runtime_class.as_deref(),
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self, Tolerance::Written { queued: true, .. })
    }

    /// Whether a toleration of the pods matches a taint and names its key: they are meant for such nodes.
    pub(crate) fn names(&self, taint: &Taint) -> bool {
        self.written().any(|toleration| toleration.key == taint.key && tolerates(&toleration, taint))
    }

    fn written(&self) -> impl Iterator<Item = Toleration> {
        let list: &[[String; 4]] = match self {
            Tolerance::Unknown => &[],
            Tolerance::Written { tolerations, .. } => tolerations,
        };
        list.iter().map(|[key, operator, value, effect]| Toleration {
            key: key.clone(),
            operator: operator.clone(),
            value: value.clone(),
            effect: effect.clone(),
        })
    }
}
