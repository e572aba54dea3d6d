//! Objects that are equal but for their names, those of one file or those that come to an admission webhook: a rule that
//! found nothing in one of them, and read nothing that tells them apart, finds nothing in the others. What it read of the
//! cluster is the same for all of them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::cluster::Cluster;
use crate::cluster::dependencies::notice;
use crate::facts::names::is_dns_1035_label;
use crate::lint::engine::{Engine, STEPS_PER_OBJECT, STEPS_PER_RULE};
use crate::lint::finding::Finding;
use crate::lint::fix::Fix;
use crate::lint::report::CheckReport;
use crate::object::Object;
use crate::steps;
use crate::tree::SharedNodes;
use crate::tree::watched::watch;
use crate::workload::class::{WorkloadClass, purpose};

/// What is known of the objects of one file, in one set, by the nodes that they share.
#[derive(Default)]
pub(super) struct AlikeObjects(RwLock<HashMap<usize, Arc<AlikeOutcome>>>);

/// What rules know of a name without reading it. Those of two objects that are equal but for their names tell them apart
/// where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlikeName {
    length: usize,
    /// What it says that the object is for.
    purpose: Option<WorkloadClass>,
}

impl AlikeName {
    /// What is known of a name. `None` for one that some API does not accept: it is no label of RFC 1035.
    #[must_use]
    pub fn of(name: &str) -> Option<AlikeName> {
        is_dns_1035_label(name).then(|| AlikeName { length: name.len(), purpose: purpose(name) })
    }
}

/// What the rules said of one object, as far as they say the same of all that are equal but for their names.
#[derive(Debug, Default)]
pub struct AlikeOutcome {
    /// The rules that still have to be asked about the others, in their order.
    rules_left: Vec<usize>,
    /// The number of steps of those that need not.
    steps: u64,
    /// Whether one of those read from the cluster.
    reads_cluster: bool,
    /// Whether no rule has to be asked, because none told the object from the others: what was found in it, if anything, is
    /// found in them as well.
    is_whole: bool,
    /// What mends the first one, to be kept once for all that it mends.
    fixes: Vec<Arc<Fix>>,
}

impl AlikeOutcome {
    /// Whether the same is found in the others, so that they need not be looked at. No finding names the object.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether it holds beside the same objects only.
    #[must_use]
    pub fn reads_cluster(&self) -> bool {
        self.reads_cluster
    }

    /// The number of rules that still have to be asked.
    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.rules_left.len()
    }

    /// Counts a rule that was asked: whether it need not be asked about the others.
    fn record(&mut self, at: usize, steps: u64, reads_cluster: bool, is_silent: bool) {
        if is_silent {
            self.steps += steps;
            self.reads_cluster |= reads_cluster;
        } else {
            self.rules_left.push(at);
        }
    }

    /// Keeps a fix that is known only once.
    fn share_fixes(&self, findings: &mut [Finding]) {
        for fix in findings.iter_mut().filter_map(|finding| finding.fix.as_mut()) {
            if let Some(known) = self.fixes.iter().find(|known| *known == fix) {
                *fix = Arc::clone(known);
            }
        }
    }
}

/// What a review found in an object, and what it says of others that are equal but for their names, if these have the same
/// [`AlikeName`].
#[derive(Debug, Default)]
pub struct AlikeReview {
    /// What it found.
    pub report: CheckReport,
    /// Whether a rule read from the cluster.
    pub reads_cluster: bool,
    /// What it says of others beside whatever objects, as long as the cluster is complete for the same kinds.
    pub alone: Option<AlikeOutcome>,
    /// What it says of others beside the same objects.
    pub beside: Option<AlikeOutcome>,
}

impl AlikeObjects {
    fn of(&self, nodes: &Arc<SharedNodes>) -> Option<Arc<AlikeOutcome>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&Arc::as_ptr(nodes).addr()).cloned()
    }

    fn add(&self, nodes: &Arc<SharedNodes>, known_outcome: AlikeOutcome) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(Arc::as_ptr(nodes).addr(), Arc::new(known_outcome));
    }
}

/// The nodes that an object has in common with others of its file.
fn shared_with_others(object: &Object) -> Option<&Arc<SharedNodes>> {
    // One handle of them is that of the object itself.
    object.alike().filter(|nodes| Arc::strong_count(nodes) > 1)
}

/// Whether others of the file of an object share its nodes.
pub(super) fn is_like_others(object: &Object) -> bool {
    shared_with_others(object).is_some()
}

impl Engine {
    /// [`Engine::check_object`] for an object of a file as it is written. `known` is of this file and of this cluster.
    pub(super) fn check_alike(
        &self,
        object: &Object,
        cluster: &Cluster,
        known: &AlikeObjects,
    ) -> Vec<Finding> {
        let Some(nodes) = shared_with_others(object) else {
            return self.check_object(object, cluster);
        };
        let Some(known_outcome) = known.of(nodes) else {
            let (findings, known_outcome) = self.check_first_alike(object, cluster);
            if let Some(known_outcome) = known_outcome {
                known.add(nodes, known_outcome);
            }
            return findings;
        };
        let mut findings = Vec::new();
        let mut left = STEPS_PER_OBJECT - known_outcome.steps;
        for at in &known_outcome.rules_left {
            left -= self.run_rule(*at, object, cluster, left, &mut findings).steps;
            if left == 0 {
                // Which rule was the last may depend on their order.
                return self.check_object(object, cluster);
            }
        }
        steps::stop_if_interrupted();
        known_outcome.share_fixes(&mut findings);
        if cfg!(debug_assertions) {
            debug_assert_eq!(said(&findings), said(&self.check_object(object, cluster)), "{:?}", object.id());
        }
        findings
    }

    /// The findings for the first of them, and what they say of the others; nothing if a rule is expensive.
    fn check_first_alike(&self, object: &Object, cluster: &Cluster) -> (Vec<Finding>, Option<AlikeOutcome>) {
        let name = object.name_slot();
        let mut findings = Vec::new();
        let mut left = STEPS_PER_OBJECT;
        let mut known_outcome = AlikeOutcome::default();
        let mut is_cheap = true;
        for at in self.rules_for(object) {
            let from = findings.len();
            let run = || self.run_rule(at, object, cluster, left, &mut findings);
            let (outcome, is_told_apart) = watch(name, run);
            left -= outcome.steps;
            is_cheap &= outcome.steps < STEPS_PER_RULE / 2;
            let is_silent = findings.len() == from && !outcome.reads_earlier_findings;
            if is_silent && !is_told_apart && !self.is_overridden(at) {
                known_outcome.steps += outcome.steps;
            } else {
                known_outcome.rules_left.push(at);
            }
            if left == 0 {
                break;
            }
        }
        steps::stop_if_interrupted();
        is_cheap &= left > STEPS_PER_OBJECT / 2;
        known_outcome.fixes = findings.iter().filter_map(|finding| finding.fix.clone()).collect();
        (findings, is_cheap.then_some(known_outcome))
    }

    /// [`Engine::review_object_with_reads`] for an object that is equal to another one but for its name, and has the same
    /// [`AlikeName`]. `known` is what was learned of that one under this configuration and beside these objects.
    #[must_use]
    pub fn review_alike(
        &self,
        object: &Object,
        cluster: &Cluster,
        known: Option<&AlikeOutcome>,
    ) -> AlikeReview {
        let id = object.id();
        let is_held = cluster.holds(&id.group, &id.kind, id.namespace_or_default(), &id.name);
        if is_held || AlikeName::of(&id.name).is_none() || !object.path(&["metadata", "name"]).is_set() {
            let (report, reads_cluster) = self.review_object_with_reads(object, cluster);
            return AlikeReview { report, reads_cluster, ..AlikeReview::default() };
        }
        let Some((findings, mut review)) = self.check_rules_left(object, cluster, known) else {
            let (report, reads_cluster) = self.review_object_with_reads(object, cluster);
            let reads_cluster = reads_cluster || known.is_some_and(AlikeOutcome::reads_cluster);
            return AlikeReview { report, reads_cluster, ..AlikeReview::default() };
        };
        let (report, is_told_apart) = object.watch_name(|| self.finish_review(object, findings));
        for known_outcome in [&mut review.alone, &mut review.beside].into_iter().flatten() {
            known_outcome.is_whole &= !is_told_apart;
        }
        AlikeReview { report, ..review }
    }

    /// The findings of the rules that have to be asked, and what is learned of that. `None` where there are too few steps
    /// for them.
    fn check_rules_left(
        &self,
        object: &Object,
        cluster: &Cluster,
        known: Option<&AlikeOutcome>,
    ) -> Option<(Vec<Finding>, AlikeReview)> {
        let of_known = |known_outcome: &AlikeOutcome| {
            (known_outcome.rules_left.clone(), known_outcome.steps, known_outcome.reads_cluster)
        };
        let (rules, steps, mut reads_cluster) =
            known.map_or_else(|| (self.rules_for(object).collect(), 0, false), of_known);
        let known_outcome = || AlikeOutcome { steps, reads_cluster, ..AlikeOutcome::default() };
        let (mut alone, mut beside) = (known_outcome(), known_outcome());
        let mut findings = Vec::new();
        let mut left = STEPS_PER_OBJECT - steps;
        let (mut is_cheap, mut is_any_told_apart) = (true, false);
        for at in rules {
            let from = findings.len();
            let run = || notice(|| self.run_rule(at, object, cluster, left, &mut findings));
            let ((outcome, reads), is_told_apart) = object.watch_name(run);
            left -= outcome.steps;
            is_cheap &= outcome.steps < STEPS_PER_RULE / 2;
            reads_cluster |= reads;
            let is_told_apart = is_told_apart || self.is_overridden(at);
            is_any_told_apart |= is_told_apart;
            let is_silent = findings.len() == from && !outcome.reads_earlier_findings && !is_told_apart;
            beside.record(at, outcome.steps, reads, is_silent);
            alone.record(at, outcome.steps, reads, is_silent && !reads);
            if left == 0 {
                if known.is_some() {
                    // Which rule was the last may depend on their order.
                    return None;
                }
                break;
            }
        }
        steps::stop_if_interrupted();
        if known.is_some() && cfg!(debug_assertions) {
            debug_assert_eq!(said(&findings), said(&self.check_object(object, cluster)), "{:?}", object.id());
        }
        is_cheap &= left > STEPS_PER_OBJECT / 2;
        alone.is_whole = !is_any_told_apart && !reads_cluster;
        beside.is_whole = !is_any_told_apart;
        // What was found rests on it as well.
        beside.reads_cluster |= beside.is_whole && reads_cluster;
        let learned = |known_outcome: AlikeOutcome| is_cheap.then_some(known_outcome);
        let (alone, beside) = (learned(alone), learned(beside));
        Some((findings, AlikeReview { report: CheckReport::default(), reads_cluster, alone, beside }))
    }
}

/// Findings as who compares them sees them.
fn said(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{} {}", finding.rule.id, finding.message)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::lint::settings::Settings;

    fn object(value: &Value) -> Object {
        Object::from_json(value).unwrap()
    }

    fn pod_spec() -> Value {
        json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 60,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "main", "image": "registry.example.com/team/model:1.2.3",
                "args": ["--name", "$(POD_NAME)"],
                "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"}},
                "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}]})
    }

    fn pod(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "ml", "labels": {"app": "model"}}, "spec": pod_spec()})
    }

    fn job(name: &str) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ml"},
            "spec": {"backoffLimit": 3, "template": {"metadata": {"labels": {"app": "model"}}, "spec": pod_spec()}}})
    }

    fn deployment(name: &str) -> Value {
        let mut spec = pod_spec();
        spec.as_object_mut().unwrap().remove("restartPolicy");
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "ml"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "model"}},
                "template": {"metadata": {"labels": {"app": "model"}}, "spec": spec}}})
    }

    fn pool(name: &str) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"weight": 10, "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "expireAfter": "720h",
                "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}},
                "limits": {"nvidia.com/gpu": "16"},
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m",
                    "budgets": [{"nodes": "1"}]}}})
    }

    /// The rules that have to be asked again beside the same objects, with those that found something in brackets; none where
    /// the same is found.
    fn asked_again(engine: &Engine, of: &Value, cluster: &Cluster) -> Vec<String> {
        let object = object(of);
        let review = engine.review_alike(&object, cluster, None);
        let found = |id: &str| review.report.findings.iter().any(|finding| finding.rule.id == id);
        let beside = review.beside.unwrap();
        let rest = if beside.is_whole { Vec::new() } else { beside.rules_left };
        let ids = rest.iter().map(|at| engine.rule(*at).id);
        ids.map(|id| if found(id) { format!("[{id}]") } else { id.to_owned() }).collect()
    }

    #[test]
    fn few_rules_have_to_be_asked_about_objects_like_another_one() {
        let engine = Engine::new(Settings::default());
        let mut beside = Cluster::new(true);
        for value in [pod("a-1"), job("b-1"), deployment("c-1"), pool("d-1")] {
            beside.apply(object(&value));
        }
        let alone = Cluster::new(false);
        let again =
            [pod("model-a1"), job("model-a1"), deployment("model-a1"), pool("model-a1")].map(|value| {
                let beside_others = asked_again(&engine, &value, &beside);
                format!("{} {:?} {beside_others:?}", value["kind"], asked_again(&engine, &value, &alone))
            });
        // What is found in them names them; `replicas-with-autoscaler` looks for what scales an object of this name.
        assert_eq!(
            again,
            [
                r#""Pod" ["[bare-gpu-pod]"] ["[request-overflows-instance]", "[bare-gpu-pod]"]"#,
                r#""Job" ["[finished-job-kept]", "[gpu-job-unbounded]", "[job-failure-policy]"] ["[request-overflows-instance]", "[finished-job-kept]", "[gpu-job-unbounded]", "[job-failure-policy]"]"#,
                r#""Deployment" ["replicas-with-autoscaler", "[gpu-rollout-needs-surge]"] ["max-replicas-exceed-gpu-limit", "replicas-with-autoscaler", "[gpu-rollout-needs-surge]", "[request-overflows-instance]"]"#,
                r#""NodePool" [] ["expiry-kills-training", "[node-class-missing]", "pool-overlap", "pool-purpose-mixed"]"#,
            ]
        );
    }

    #[test]
    fn what_is_known_is_used_and_added_to() {
        let engine = Engine::new(Settings::default());
        let mut cluster = Cluster::new(true);
        cluster.apply(object(&pod("a-1")));
        let first = engine.review_alike(&object(&job("model-a1")), &cluster, None);
        let (alone, beside) = (first.alone.unwrap(), first.beside.unwrap());
        assert!(!alone.reads_cluster() && alone.rules_left() > beside.rules_left());
        // Another snapshot: what read from it has to be asked again, and is learned again.
        cluster.apply(object(&pod("a-2")));
        let second = engine.review_alike(&object(&job("model-a2")), &cluster, Some(&alone));
        let again = second.beside.unwrap();
        assert_eq!((again.rules_left(), again.steps > 0), (beside.rules_left(), true));
        // One that the cluster has is not new.
        cluster.apply(object(&job("model-a3")));
        let stored = engine.review_alike(&object(&job("model-a3")), &cluster, Some(&again));
        assert!(stored.alone.is_none() && stored.beside.is_none());
    }
}
