//! Pods in the network of their node cannot resolve names of the cluster.
//!
//! # Why
//! With `hostNetwork: true` the policy `ClusterFirst`, which is the default, is ignored: the pod has the resolver
//! of its node, which does not know the Services of the cluster. The workers of a distributed run wait for the
//! name of the first one until they time out, with all their GPUs, and a server waits for its leader. Runs over
//! EFA or InfiniBand are often in the network of the node.
//!
//! The operators of MPIJobs and of Volcano's Jobs write the policy themselves where it is absent. A workload with
//! GPUs is reported as well if a variable or an argument has the address of a Service.
//!
//! # Fix
//! Write `dnsPolicy: ClusterFirstWithHostNet`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v1
//!  kind: PyTorchJob
//!  metadata: {name: speech}
//!  spec:
//!    runPolicy: {backoffLimit: 3}
//!    pytorchReplicaSpecs:
//!      Worker:
//!        replicas: 4
//!        restartPolicy: OnFailure
//!        template:
//!          spec:
//! -          hostNetwork: true # <-
//! +          hostNetwork: true
//! +          dnsPolicy: ClusterFirstWithHostNet
//!            containers:
//!              - name: pytorch
//!                image: registry.example.com/speech/train:3.0.0
//!                command: [torchrun, train.py]
//!                resources: {requests: {cpu: 40, memory: 200Gi}, limits: {nvidia.com/gpu: 4}}
//!                volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!            volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy>

use super::training_sidecar_injected::communicates;
use crate::rules::prelude::*;
use crate::workload::devices::pods_of;

static KINDS: [Kind; 16] = [
    Kind::PYTORCH_JOB,
    Kind::TF_JOB,
    Kind::XGBOOST_JOB,
    Kind::PADDLE_JOB,
    Kind::JAX_JOB,
    Kind::VOLCANO_JOB,
    Kind::JOB_SET,
    Kind::TRAIN_JOB,
    Kind::LEADER_WORKER_SET,
    Kind::RAY_CLUSTER,
    Kind::RAY_JOB,
    Kind::RAY_SERVICE,
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::JOB,
    Kind::POD,
];

pub(crate) static RULE: Rule = Rule {
    id: "host-network-without-dns",
    kinds: &KINDS,
    reads: &RUNTIMES,
    fix: Some(Safety::Safe),
    docs: docs(include_str!("host_network_without_dns.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// The policy with which pods in the network of their node ask the resolver of the cluster.
const POLICY: &str = "ClusterFirstWithHostNet";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.is_owned() {
        return None;
    }
    let all = templates(object);
    let mut found = all
        .iter()
        .filter(|template| lacks_resolver(object, template))
        .filter_map(|template| Some((template, name_needed(object, template, &all)?)));
    let (first, name) = found.next()?;
    let policy = first.spec.get("dnsPolicy");
    let mut fix = Fix::new("resolve the names of the cluster", Safety::Safe).set(&policy, json!(POLICY));
    let others: Vec<Node<'_>> = found.map(|(template, _)| template.spec.clone()).collect();
    for spec in &others {
        fix = fix.set(&spec.get("dnsPolicy"), json!(POLICY));
    }
    let message =
        format!("in the network of its node a pod of `{}` cannot resolve {name}", object.display_name());
    let finding = ctx.report(&first.spec.get("hostNetwork"), message);
    finding.help(format!("write `dnsPolicy: {POLICY}`")).fix(fix);
    for spec in &others {
        finding.related(object, &spec.get("hostNetwork"), "and here");
    }
    None
}

/// Whether the pods of a template have the resolver of their node (`GetPodDNS` of the kubelet). Volcano's webhook sets the policy where
/// it is absent (`mutateSpec` of `mutate_job.go`, 1.7 to 1.15).
fn lacks_resolver(object: &Object, template: &Template<'_>) -> bool {
    let spec = &template.spec;
    let policy = spec.get("dnsPolicy");
    let is_default =
        policy.text() == Some("ClusterFirst") || !policy.is_set() && !object.is(Kind::VOLCANO_JOB);
    spec.get("hostNetwork").bool() == Some(true)
        && is_default
        && !spec.has_unknown_key()
        && !["dnsConfig", "hostAliases"].iter().any(|field| spec.get(field).is_set())
}

/// The name that the pods of a template have to resolve, for a message.
fn name_needed(object: &Object, template: &Template<'_>, all: &[Template<'_>]) -> Option<String> {
    let pointer = template.spec.pointer();
    let is_below = |name: &str| pointer.steps().iter().any(|step| step == name);
    let pods = || all.iter().map(|one| pods_of(object, one)).sum::<Option<i64>>();
    let by_operator = match object.group() {
        // The operator gives each worker the name of the first pod: no operator of Kubeflow's v1 sets the policy but MPIJob's (1.9.4).
        "kubeflow.org" => (!is_below("Master") && pods()? > 1).then_some("the name of the first pod"),
        // The name of the head's Service, for which an init container waits.
        "ray.io" => is_below("workerGroupSpecs").then_some("the Service of the head"),
        "leaderworkerset.x-k8s.io" => mentioned(template, &|text: &str| text.contains("LWS_LEADER_ADDRESS"))
            .then_some("the name of its leader"),
        "trainer.kubeflow.org" | "jobset.x-k8s.io" | "batch.volcano.sh" => {
            (pods()? > 1 && communicates(object, all)).then_some("the name of the first pod")
        }
        _ => None,
    };
    if let Some(name) = by_operator {
        return Some(name.to_owned());
    }
    if !uses_device(template) {
        return None;
    }
    mentioned(template, &is_address_of_service).then(|| "the address of a Service".to_owned())
}

/// Whether the value of a variable or a word of a command line of the ordinary containers meets a condition.
fn mentioned(template: &Template<'_>, is: &dyn Fn(&str) -> bool) -> bool {
    template.containers().any(|container| {
        let lists = ["command", "args"].map(|list| container.get(list));
        let words = lists.iter().flat_map(|list| list.items());
        let values = container.get("env").items().map(|variable| variable.get("value"));
        words.chain(values).any(|word| word.raw_text().is_some_and(is))
    })
}

/// Whether a text is a URL of a Service by its name in the cluster, such as `redis://cache.models.svc:6379`. That of the API server is
/// also the name of its issuer.
fn is_address_of_service(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', ' ', '"', ',']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default();
    let host = host.strip_suffix(".cluster.local").unwrap_or(host);
    host.strip_suffix(".svc")
        .is_some_and(|name| name.split('.').count() >= 2 && !name.starts_with("kubernetes."))
}
