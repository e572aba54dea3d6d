//! Workers of a distributed run wait for pods or a host that do not exist.
//!
//! # Why
//! A launcher with a fixed number of nodes starts when that many workers have met at one address. If
//! the Job runs fewer pods, they wait until they time out, with all their GPUs; if it runs more, the
//! others fail. The address must be a name that resolves: that of a Service, or of the first pod in a
//! headless Service, `<job>-0.<service>`, which the pods name as their `subdomain`.
//!
//! # Fix
//! Write the number of pods as `--nnodes`. For the address make the Job Indexed, create a headless
//! Service that selects its pods, and write the Service's name as `subdomain`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    parallelism: 2
//!    completions: 2
//!    completionMode: Indexed
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata:
//!        annotations: {karpenter.sh/do-not-disrupt: "true"}
//!        labels: {app: bert}
//!      spec:
//!        subdomain: bert
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command:
//!              - torchrun
//!              - --nproc_per_node=1
//! -            - --nnodes=4 # <-
//! +            - --nnodes=2
//!              - --master_addr=bert-training-0.bert
//!              - train.py
//!              - --save-to=s3://runs/bert
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: bert, namespace: models}
//!  spec: {clusterIP: None, selector: {app: bert}}
//! ```
//!
//! # References
//! - <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode>

use crate::cluster::objects::Lookup;
use crate::rules::prelude::*;
use crate::rules::training::is_owned;
use crate::workload::devices::pods_of;
use crate::workload::launcher::Launch;

const SERVICE: Kind = Kind::new("", "Service");

pub(crate) static RULE: Rule = Rule {
    id: "job-rendezvous-mismatch",
    kinds: &[
        Kind::JOB,
        Kind::CRON_JOB,
        Kind::SCALED_JOB,
        Kind::STATEFUL_SET,
        Kind::new("jobset.x-k8s.io", "JobSet"),
        Kind::new("kubeflow.org", "PyTorchJob"),
        Kind::new("batch.volcano.sh", "Job"),
    ],
    reads: &[SERVICE],
    reports_absence: true,
    docs: docs(include_str!("job_rendezvous_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !uses_accelerators(object) || is_owned(object) || object.is_partial() {
        return None;
    }
    let templates = templates(object);
    let mut pods = Some(0i64);
    let mut first = None;
    for template in &templates {
        let Some(launch) = template.containers().find_map(|c| Launch::of(&c)) else {
            continue;
        };
        pods = pods.zip(pods_of(object, template)).map(|(sum, more)| sum.saturating_add(more));
        first.get_or_insert((launch, template));
    }
    let (launch, template) = first?;
    let (nodes, node) = launch.nodes()?;
    let name = object.display_name();
    // An elastic job changes the number of its pods.
    if object.path(&["spec", "elasticPolicy"]).is_set() {
        return None;
    }
    if let Some(pods) = pods.filter(|pods| *pods > 0 && *pods != nodes && (nodes > *pods || nodes > 1)) {
        // Each node may be a separate Job, which then sets its rank.
        if pods == 1 && launch.option(&["node-rank", "machine-rank"]).node().is_some() {
            return None;
        }
        let plural = if pods == 1 { "pod" } else { "pods" };
        let message = format!("`{name}` waits for {nodes} nodes and runs {pods} {plural}");
        let finding = ctx.report(&node, message);
        finding.reports_absence(false).help("write the same number of pods and nodes");
        // Several groups of workers may share one template, and the other nodes may be Jobs of their own.
        if nodes < pods || pods == 1 {
            finding.severity(Severity::Warning);
        }
        return None;
    }
    if nodes < 2 {
        return None;
    }
    address(object, template, &launch, ctx)
}

/// Reports a host that neither a Service nor the first pod has.
fn address(
    object: &Object,
    template: &Template<'_>,
    launch: &Launch<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    // The controllers of the other kinds create names and Services for their pods.
    if !matches!(object.group(), "batch" | "apps") {
        return None;
    }
    let (host, node) = launch.rendezvous()?;
    let is_ip = host.parse::<std::net::IpAddr>().is_ok();
    if host.is_empty() || host == "localhost" || is_ip || !host.bytes().all(is_host_byte) {
        return None;
    }
    let namespace = object.namespace_or_default();
    let labels: Vec<&str> = host.split('.').collect();
    // A name of the cluster: `service`, `service.namespace`, `pod.service`, each with `svc` and a domain.
    let svc = labels.iter().position(|label| *label == "svc").unwrap_or(labels.len());
    let labels = &labels[..svc];
    let index = ctx.cluster();
    let exists =
        |namespace: &str, name: &str| matches!(index.find(SERVICE, namespace, name), Lookup::Found(_));
    let found = match labels {
        [service] => exists(namespace, service),
        [a, b] => exists(b, a) || exists(namespace, b),
        [_, service, namespace] => exists(namespace, service),
        _ => true,
    };
    let names_service = template.spec.get("subdomain");
    let own = names_service.is_unknown()
        || names_service.text().is_some_and(|subdomain| labels.get(1) == Some(&subdomain))
        || object.path(&["spec", "serviceName"]).text().is_some_and(|own| labels.get(1) == Some(&own));
    // A name with a domain may be one outside the cluster.
    if found || own || labels.len() > 2 || (labels.len() == 2 && svc == host.split('.').count()) {
        return None;
    }
    let name = object.display_name();
    let message = format!("workers of `{name}` meet at `{host}`, and no Service of the input has that name");
    ctx.report(&node, message)
        .severity(Severity::Warning)
        .help("create a headless Service, and meet at the first pod of an Indexed Job: `<job>-0.<service>`");
    None
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
