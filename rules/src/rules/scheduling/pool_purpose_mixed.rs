//! Training runs and model servers share one GPU pool.
//!
//! # Why
//! A pool has one disruption policy, one list of capacity types and one limit, and the two kinds of
//! work need opposite ones. Training has to run undisturbed on on-demand or reserved capacity; servers
//! gain from Spot and from consolidation of half-empty nodes. In one pool, consolidation evicts a run,
//! or a run that is protected keeps the servers' nodes from being consolidated; and a run that uses up
//! the GPU limit leaves none for the servers. It is reported where the pool is the first choice of both,
//! because their pods select it or because nothing separates them, and where the files are surely
//! applied to one cluster: one file, one kustomization, one set, or `--complete`.
//!
//! # Fix
//! Make a pool for each purpose, with a taint or a label of its own, and let each workload tolerate or
//! select its pool.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//! -metadata: {name: gpu} # <-
//! +metadata: {name: gpu-inference}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
//! -  limits: {nvidia.com/gpu: 32}
//! +  limits: {nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 2m}
//!  ---
//! +apiVersion: karpenter.sh/v1
//! +kind: NodePool
//! +metadata: {name: gpu-training}
//! +spec:
//! +  template:
//! +    spec:
//! +      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//! +      expireAfter: Never
//! +      requirements:
//! +        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//! +        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//! +        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +      taints: [{key: example.com/training, effect: NoSchedule}]
//! +  limits: {nvidia.com/gpu: 16}
//! +  disruption:
//! +    consolidationPolicy: WhenEmpty
//! +    consolidateAfter: 30m
//! +    budgets: [{nodes: "1"}]
//! +---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: finetune}
//!  spec:
//!    template:
//! +    metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//! +      terminationGracePeriodSeconds: 120
//! +      nodeSelector: {karpenter.sh/nodepool: gpu-training}
//! +      tolerations: [{key: example.com/training, operator: Exists}]
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/finetune:v3
//!            command: [torchrun, train.py, --save-to=s3://runs/finetune]
//!            resources: {requests: {cpu: 3, memory: 12Gi}, limits: {nvidia.com/gpu: 1}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            resources: {requests: {cpu: 3, memory: 12Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pool-purpose-mixed",
    reads: kinds![[Kind::NODE_POOL, Kind::NAMESPACE], WORKLOAD_KINDS],
    docs: docs(include_str!("pool_purpose_mixed.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    if pool.is_static() || object.is_partial() || !pool.is_gpu_intended() {
        return None;
    }
    let cluster = ctx.cluster();
    let used = cluster.views().accelerators_on(object, ctx.platform());
    // A pool that is not known may be the one that keeps the two apart.
    if used.training.is_empty()
        || used.serving.is_empty()
        || cluster.views().feasibility(ctx.platform()).has_other_pools()
    {
        return None;
    }
    // Examples of one folder are often alternatives.
    let certain = |a: &Object, b: &Object| cluster.surely_pairs(a, b);
    let near = |workload: &&Object| certain(object, workload);
    let servers: Vec<&Object> = used.serving.iter().filter(near).collect();
    let mut pairs = used.training.iter().filter(near).flat_map(|run| {
        let together = servers.iter().filter(move |server| certain(run, server));
        together.map(move |server| (run, *server))
    });
    let (run, server) = pairs.next()?;
    let (name, trains, serves) = (object.display_name(), run.display_name(), server.display_name());
    let place = object.path(&["metadata", "name"]);
    let noun = pool.noun();
    let message =
        format!("{noun} `{name}` is the first choice of training `{trains}` and of server `{serves}`");
    ctx.report(&place, message)
        .help("make a pool for each purpose, with a taint or a label that its pods tolerate or select")
        .related(run, &run.path(&["metadata", "name"]), "a training run")
        .related(server, &server.path(&["metadata", "name"]), "a server");
    None
}
