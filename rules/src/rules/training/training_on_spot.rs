//! A training run may land on Spot nodes.
//!
//! # Why
//! EC2 takes a Spot node back with two minutes' notice, and GPU types are taken back the most. The run
//! goes back to its last checkpoint, a distributed one with all of its workers, and waits for capacity
//! that has just become scarce. No annotation prevents it, do-not-disrupt included. Where a pool allows
//! Spot and on-demand, Karpenter buys Spot first. The severity is info if the run seems to resume from
//! checkpoints, or if the finding is already reported on a training pool.
//!
//! # Fix
//! Ask for `karpenter.sh/capacity-type: on-demand` or `reserved` in the pods' node selector. Or
//! save checkpoints, resume from them, and suppress this with a reason.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training}
//!  spec:
//!    backoffLimit: 3
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//!        terminationGracePeriodSeconds: 120
//! -      nodeSelector:
//! -        karpenter.sh/capacity-type: spot # <-
//! +      nodeSelector: {karpenter.sh/capacity-type: on-demand}
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/bert]
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#capacity-type>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::cluster::placement::{requested_capacity_types, requests_of};
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::prelude::*;
use crate::workload::class::Classified;
use crate::workload::template::{is_short_deadline, is_short_lived};

/// The pools, and the workloads that determine the purpose of a pool.
const READS: &[Kind] = kinds![[Kind::NODE_POOL, Kind::NAMESPACE], WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "training-on-spot",
    kinds: WORKLOAD_KINDS,
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("training_on_spot.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Words that indicate that a run resumes from a checkpoint.
const RESUMES: [&str; 3] = ["resume", "checkpoint", "ckpt"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // DaemonSet pods run on every node; pods with a controller are checked in its template.
    if object.is_partial()
        || object.is(Kind::DAEMON_SET)
        || object.controller().is_some()
        || is_short_lived(object)
    {
        return None;
    }
    let classified = ctx.class_of(object);
    if !classified.is(WorkloadClass::Training) {
        return None;
    }
    for template in templates(object) {
        if uses_device(&template)
            && requests_of(&template).is_some()
            && !is_short_deadline(&template.spec.get("activeDeadlineSeconds"))
        {
            inspect(object, &template, &classified, ctx);
        }
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, classified: &Classified, ctx: &mut Context<'_>) {
    let name = object.display_name();
    let asked = requested_capacity_types(template);
    if asked.as_ref().is_some_and(|asked| !asked.contains("spot")) {
        return;
    }
    let selector = template.spec.path(&["nodeSelector", CAPACITY_TYPE]);
    let advice = resumes(template);
    if asked.is_some() {
        let message =
            format!("training run `{name}` asks for Spot nodes, which EC2 reclaims with two minutes' notice");
        let node = if selector.is_set() { selector.clone() } else { template.spec.get("affinity") };
        let finding = ctx.report(&node, message);
        finding.help("ask for `on-demand` or `reserved`, or say in a suppression that the run resumes");
        if advice {
            finding.severity(Severity::Info);
        }
        if selector.text() == Some("spot") && !template.spec.get("affinity").is_set() {
            finding.fix(on_demand(&selector));
        }
        add_class_evidence(finding, object, classified);
        return;
    }
    let Some(found) = ctx.pools_for(template) else { return };
    let pools = &found.pools;
    let heaviest = pools.iter().map(|pool| pool.weight()).max();
    let spot = |first: bool| {
        let mut found = pools.iter().filter(|pool| pool.allows_capacity_type("spot"));
        found.find(|pool| !first || Some(pool.weight()) == heaviest)
    };
    let (pool, surely) = match (spot(true), spot(false)) {
        (Some(pool), _) => (pool, !found.has_unreadable()),
        (None, Some(pool)) => (pool, false),
        (None, None) => return,
    };
    let pool = pool.object();
    let says_so = NodePool::new(pool)
        .and_then(|spec| ctx.cluster().views().purpose(&spec))
        .is_some_and(|(class, _)| class == WorkloadClass::Training);
    let elsewhere = pools.iter().any(|pool| pool.allows_capacity_type("on-demand"));
    let host = pool.display_name();
    let message = format!(
        "training run `{name}` may land on Spot nodes of `{host}`, which go with two minutes' notice"
    );
    let finding = ctx.report(&selector, message);
    finding
        .help("ask for `karpenter.sh/capacity-type: on-demand`, or say in a suppression that it resumes")
        .related(pool, &pool.path(&["metadata", "name"]), "may take the pods, and allows Spot");
    if !surely || says_so || advice {
        finding.severity(Severity::Info);
    }
    if elsewhere {
        finding.fix(on_demand(&selector));
    }
    add_class_evidence(finding, object, classified);
}

fn on_demand(selector: &Node<'_>) -> Fix {
    let title = "ask for on-demand nodes; check that a pool has them";
    Fix::new(title, Safety::Unsafe).set(selector, json!("on-demand"))
}

/// Whether the command and environment of a container indicate that the run resumes. Text that contains shell
/// variables or placeholders is searched as well.
fn resumes(template: &Template<'_>) -> bool {
    let says = |text: &str| mentions(text, &RESUMES);
    template.all_containers().any(|container| {
        let words = ["command", "args"].map(|list| container.get(list));
        let mut words = words.iter().flat_map(Node::items);
        let mut names = container.get("env").items().map(|e| e.get("name"));
        words.any(|w| w.raw_text().is_some_and(says)) || names.any(|n| n.raw_text().is_some_and(says))
    })
}
