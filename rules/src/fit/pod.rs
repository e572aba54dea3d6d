//! The pod that Karpenter sees for a template, with what other objects of the cluster add to it.

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::cluster::queues::{Additions, Queued, queued};
use crate::fit::{Situation, read};
use crate::karpenter::scheduling::{Pod, Toleration, Uncertainty, Verdict};
use crate::workload::template::Template;

impl Situation<'_> {
    /// The pod of a template, with the additions of its RuntimeClass and its queue. `None` if a field that decides cannot
    /// be read.
    pub(super) fn pod(&self, template: &Template<'_>) -> Option<Pod> {
        let mut pod = read::pod(template, &self.runtime_classes, self.cluster)?;
        self.find_companions(&mut pod, template);
        let queued = queued(template, self.cluster);
        if let Queued::OneOf(choices) = &queued {
            pod = self.with_flavor(&pod, choices)?;
        }
        // What nobody knows of a queue or a policy may be the toleration that the pod lacks.
        let is_queued = queued == Queued::Unknown;
        let has_policies = POD_POLICIES.iter().any(|kind| self.cluster.has_any(*kind));
        if !(is_queued || has_policies) || self.is_placed(&pod) {
            return Some(pod);
        }
        let namespace = template.place.0.namespace_or_default();
        let adder = match is_queued {
            true => Some(Uncertainty::QueueFlavor),
            false => may_change_pods(self.cluster, namespace, PodPart::Tolerations)
                .then_some(Uncertainty::PodPolicy),
        };
        if let Some(adder) = adder {
            pod.tolerations.push(Toleration { operator: "Exists".to_owned(), ..Toleration::default() });
            pod.uncertainties.push(adder);
        }
        Some(pod)
    }

    /// The pod with the first choice of flavors with which it fits a pool, or with the first one if it fits with none.
    fn with_flavor(&self, pod: &Pod, choices: &[Additions]) -> Option<Pod> {
        let with = |choice: &Additions| {
            let mut pod = pod.clone();
            pod.node_selector.extend(choice.node_selector.iter().cloned());
            pod.tolerations.extend(choice.tolerations.iter().cloned());
            pod
        };
        let [first, more @ ..] = choices else { return None };
        if more.is_empty() {
            return Some(with(first));
        }
        match choices.iter().map(with).find(|pod| self.is_placed(pod)) {
            // Kueue may choose another one, as its quota decides.
            Some(mut pod) => {
                pod.uncertainties.push(Uncertainty::QueueFlavor);
                Some(pod)
            }
            None => Some(with(first)),
        }
    }

    fn is_placed(&self, pod: &Pod) -> bool {
        !matches!(self.scheduler().decide(pod), Verdict::DoesNotFit(_))
    }
}
