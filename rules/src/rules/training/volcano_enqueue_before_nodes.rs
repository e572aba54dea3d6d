//! Volcano makes pods when nodes have room, and Karpenter starts nodes for pods.
//!
//! # Why
//! With the action `enqueue` the plugin `overcommit` admits a job only if its minimum fits the nodes that
//! exist, with a fifth more; `proportion` and `capacity` measure queues by these nodes too. Until then the job
//! is Pending and has no pods. Karpenter looks at pods alone, so a pool whose nodes are gone after the last run
//! is never scaled up again: the job waits for nodes, and they for the job.
//!
//! # Fix
//! Leave `enqueue` out of `actions`, so that the pods of each job are made at once, and `gang` still binds
//! them together. Quotas are kept by `allocate`. Where `enqueue` has to stay, keep nodes running.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
//!  data:
//! -  volcano-scheduler.conf: | # <-
//! +  volcano-scheduler.conf: |
//! -    actions: "enqueue, allocate, backfill"
//! +    actions: "allocate, backfill"
//!      tiers:
//!        - plugins:
//!            - name: gang
//!            - name: overcommit
//!  ---
//!  apiVersion: batch.volcano.sh/v1alpha1
//!  kind: Job
//!  metadata: {name: detector, namespace: vision}
//!  spec:
//!    schedulerName: volcano
//!    minAvailable: 2
//!    tasks:
//!      - name: worker
//!        replicas: 2
//!        template:
//!          spec:
//!            restartPolicy: Never
//!            containers:
//!              - name: train
//!                image: example.com/detector:2.1.0
//!                resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge, g6.2xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://volcano.sh/en/docs/actions/#enqueue>
//! - <https://github.com/volcano-sh/volcano/issues/3910>

use crate::rules::prelude::*;
use crate::rules::training::starting_pool;
use crate::source::with_embedded;

pub(crate) static RULE: Rule = Rule {
    id: "volcano-enqueue-before-nodes",
    kinds: &[Kind::CONFIG_MAP],
    reads: &[Kind::CONFIG_MAP, Kind::VOLCANO_JOB, Kind::NODE_POOL],
    docs: docs(include_str!("volcano_enqueue_before_nodes.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Maximum number of jobs that are asked for their nodes.
const MAX_JOBS: usize = 64;

/// The file of Volcano's scheduler in its ConfigMap.
pub(super) const FILE: &str = "volcano-scheduler.conf";

/// The plugins that compare the minimum of a job with existing nodes (`AddJobEnqueueableFn` in volcano
/// `pkg/scheduler/plugins/{overcommit,proportion,capacity}`, read in November 2026).
const ASKING: [&str; 3] = ["overcommit", "proportion", "capacity"];

fn check(map: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let file = map.path(&["data", FILE]);
    // The plugin `sla` admits a job when it has waited for some time.
    let has_words = |text: &&str| text.contains("enqueue") && !text.contains("sla");
    let text = file.text().filter(has_words)?;
    let mut others = ctx.cluster().of(Kind::CONFIG_MAP).filter(|other| !other.is_same_resource(map));
    if others.any(|other| other.path(&["data", FILE]).is_set()) {
        return None;
    }
    let mut waits = false;
    with_embedded(text, |root| {
        let has_action = root.get("actions").text()?.split(',').any(|action| action.trim() == "enqueue");
        let plugins = root.get("tiers").items().flat_map(|tier| tier.get("plugins").items());
        let mut asking = plugins
            .filter(|plugin| plugin.get("name").text().is_some_and(|name| ASKING.contains(&name)))
            .peekable();
        // With arguments the author has chosen how much may wait, and may switch off what is asked.
        waits = has_action && asking.peek().is_some() && asking.all(|plugin| plugin.entries().len() == 1);
        Some(())
    });
    let asks = |job: &&Object| {
        let scheduler = job.path(&["spec", "schedulerName"]);
        let is_of_volcano = !scheduler.is_set() || scheduler.text() == Some("volcano");
        is_of_volcano && uses_accelerators(job) && !job.is_partial() && ctx.pairs_with(job)
    };
    if !waits {
        return None;
    }
    let mut jobs = ctx.cluster().of(Kind::VOLCANO_JOB).take(MAX_JOBS).filter(asks);
    let (job, pool) = jobs.find_map(|job| Some((job, starting_pool(job, ctx)?)))?;
    let message = format!(
        "`enqueue` makes no pods of `{}` before nodes have room, and Karpenter starts none without pods",
        job.display_name()
    );
    ctx.report(&file, message)
        .at_key()
        .help("leave `enqueue` out of `actions`: `gang` still binds the pods of a job together")
        .related(job, &job.path(&["metadata", "name"]), "the job waits for nodes")
        .related(&pool, &pool.path(&["metadata", "name"]), "the pool waits for pods");
    None
}
