//! `karpenter.sh/do-not-disrupt` is written where Karpenter does not read it.
//!
//! # Why
//! Karpenter looks at running pods and at nodes. On a Deployment, a Job, a CronJob or another
//! controller the annotation stays on that object and never reaches its pods; on a NodePool's own
//! metadata, a Namespace, a PodDisruptionBudget or a Service nobody reads it. The run looks
//! protected in the manifest and is evicted all the same.
//!
//! # Fix
//! Write it in the metadata of the pod template, or, to protect whole nodes, in
//! `spec.template.metadata.annotations` of the NodePool.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//! -metadata:
//! -  name: bert-training
//! -  namespace: models
//! -  annotations:
//! -    team: language
//! -    karpenter.sh/do-not-disrupt: "true" # <-
//! +metadata: {name: bert-training, namespace: models, annotations: {team: language}}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    ttlSecondsAfterFinished: 86400
//!    template:
//! -    metadata: {labels: {app: bert-training}}
//! +    metadata:
//! +      labels: {app: bert-training}
//! +      annotations: {karpenter.sh/do-not-disrupt: "true"}
//!      spec:
//!        restartPolicy: Never
//!        terminationGracePeriodSeconds: 120
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/bert]
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://karpenter.sh/docs/concepts/disruption/#node-level-controls>

use crate::rules::prelude::*;

/// Controllers that do not copy their own annotations to their pods, and kinds without pods. KServe's
/// InferenceService and Kubeflow's Notebook do copy them.
const KINDS: &[Kind] = &[
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::DAEMON_SET,
    Kind::JOB,
    Kind::CRON_JOB,
    Kind::SCALED_JOB,
    Kind::REPLICATION_CONTROLLER,
    Kind::REPLICA_SET,
    Kind::JOB_SET,
    Kind::LEADER_WORKER_SET,
    Kind::PYTORCH_JOB,
    Kind::TF_JOB,
    Kind::XGBOOST_JOB,
    Kind::PADDLE_JOB,
    Kind::JAX_JOB,
    Kind::MPI_JOB,
    Kind::RAY_CLUSTER,
    Kind::RAY_JOB,
    Kind::RAY_SERVICE,
    Kind::ROLLOUT,
    Kind::VOLCANO_JOB,
    Kind::NODE_POOL,
    Kind::EC2_NODE_CLASS,
    Kind::NAMESPACE,
    Kind::SERVICE,
    Kind::PDB,
    Kind::HPA,
    Kind::SCALED_OBJECT,
];

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-misplaced",
    kinds: KINDS,
    fix: Some(Safety::Safe),
    docs: docs(include_str!("do_not_disrupt_misplaced.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Disruption)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let kind = object.kind();
    inspect(object, &object.annotation(DO_NOT_DISRUPT), kind, ctx);
    if object.is(Kind::CRON_JOB) {
        // The Job that a CronJob creates is such a controller too.
        let annotations = object.path(&["spec", "jobTemplate", "metadata", "annotations"]);
        inspect(object, &annotations.get(DO_NOT_DISRUPT), "Job", ctx);
    }
    None
}

fn inspect(object: &Object, node: &Node<'_>, kind: &str, ctx: &mut Context<'_>) {
    // The value "false" has no effect anywhere.
    if !node.is_set() || node.text() == Some("false") || node.bool() == Some(false) {
        return;
    }
    let templates = templates(object);
    let annotations: Vec<Node<'_>> = templates.iter().map(|t| t.annotation(DO_NOT_DISRUPT)).collect();
    let unreadable = templates.iter().any(|t| t.metadata.get("annotations").is_unknown());
    let finding = ctx.report(
        node,
        format!("`karpenter.sh/do-not-disrupt` does nothing on a {kind}: its pods do not get it"),
    );
    if object.is(Kind::NODE_POOL) {
        finding.message = format!(
            "`karpenter.sh/do-not-disrupt` on NodePool `{}` itself does nothing",
            object.display_name()
        );
        finding.help("put it on the pods, or in `spec.template.metadata.annotations` for all nodes");
        return;
    }
    if templates.is_empty() {
        finding.message = format!("`karpenter.sh/do-not-disrupt` does nothing on a {kind}");
        finding.help("put it on the pods that shall be protected");
        return;
    }
    if annotations.iter().all(Node::is_set) {
        finding.severity(Severity::Info).help("the pod template carries it too; remove it here");
        return;
    }
    finding.help("put it in the metadata of the pod template");
    if let [annotation] = annotations.as_slice()
        && !annotation.is_set()
        && !unreadable
    {
        finding.fix(Fix::new("move it to the pod template", Safety::Safe).move_to(node, annotation));
    }
}
