//! No scheduler has the name that pods ask for.
//!
//! # Why
//! A scheduler looks only at pods whose `schedulerName` is its own. Pods with another name stay Pending
//! without an event, and no autoscaler starts a node for them. It is reported for names that are nearly those
//! of a scheduler, such as `volcano-scheduler`, the name of Volcano's Deployment: its pods ask for `volcano`.
//! With `--complete`, it is an info for other names that no workload or ConfigMap of the input mentions, if no
//! chart is installed. `my-scheduler` is what AWS Neuron calls the scheduler of its chart.
//!
//! # Fix
//! Write the name of the scheduler, or remove the field.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: tasks}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: tasks}}
//!    template:
//!      metadata: {labels: {app: tasks}}
//!      spec:
//! -      schedulerName: yunicorn # <-
//! +      schedulerName: yunikorn
//!        containers:
//!          - name: main
//!            image: example.com/tasks:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/>
//! - <https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html>

use crate::cluster::values::{CHART_KINDS, may_bring_objects};
use crate::facts::suggest::is_within;
use crate::rules::prelude::*;
use crate::workload::command::words;

static READS: [Kind; WORKLOAD_KINDS.len() + 4] =
    with_workloads(&[Kind::CONFIG_MAP, CHART_KINDS[0], CHART_KINDS[1], Kind::ARGO_APPLICATION_SET]);

pub(crate) static RULE: Rule = Rule {
    id: "scheduler-unknown",
    kinds: WORKLOAD_KINDS,
    reads: &READS,
    fix: Some(Safety::Unsafe),
    reports_absence: true,
    docs: docs(include_str!("scheduler_unknown.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Scheduling)
};

/// Names of schedulers in their own charts: Kubernetes, Volcano, KAI, Run:ai, YuniKorn, scheduler-plugins, Koordinator, nos, HAMi,
/// Neuron, GKE, Crane, Stork, kube-batch.
const KNOWN: [&str; 14] = [
    "default-scheduler",
    "volcano",
    "kai-scheduler",
    "runai-scheduler",
    "yunikorn",
    "scheduler-plugins-scheduler",
    "koord-scheduler",
    "nos-scheduler",
    "hami-scheduler",
    "my-scheduler",
    "gke.io/optimize-utilization-scheduler",
    "crane-scheduler",
    "stork",
    "kube-batch",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = template.spec.get("schedulerName");
    let name = field.text().filter(|name| !name.is_empty() && !KNOWN.contains(name))?;
    let near = KNOWN.into_iter().find(|known| is_near(name, known));
    let is_whole = ctx.cluster().is_complete()
        && !may_bring_objects(ctx.cluster())
        && !ctx.cluster().has_any(Kind::ARGO_APPLICATION_SET);
    if near.is_none() && !is_whole || is_mentioned(name, ctx) {
        return None;
    }
    let shown = ellipsize(name);
    let finding = ctx.report(&field, format!("no scheduler is called `{shown}`: the pods stay Pending"));
    match near {
        Some(known) => {
            finding
                .help(format!("did you mean `{known}`?"))
                .fix(Fix::unsafe_(format!("write `{known}`")).set(&field, json!(known)));
        }
        None => {
            finding.severity(Severity::Info).help("add the scheduler with this name, or remove the field");
        }
    }
    None
}

/// Whether a name is a scheduler's own with or without its ending, or one typing error from it. Short names are one letter from
/// many others.
fn is_near(name: &str, known: &str) -> bool {
    let stem = |name: &str| name.strip_suffix("-scheduler").unwrap_or(name).to_owned();
    let own = stem(known);
    let is_long = own.len() > 5 || name.starts_with(&format!("{own}-"));
    stem(name) == own || is_long && is_within(name, known, 1)
}

/// Whether a workload or a ConfigMap of the input may bring a scheduler of this name.
fn is_mentioned(name: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let in_command = |container: Node<'_>| words(&container).iter().any(|word| word.text.contains(name));
    let starts = |object: &Object| templates(object).iter().flat_map(Template::containers).any(in_command);
    let configures = |map: &Object| {
        let data = map.get("data").entries();
        data.iter().any(|(_, value)| value.raw_text().is_some_and(|text| text.contains(name)))
    };
    let kinds = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET, Kind::POD];
    cluster.of(Kind::CONFIG_MAP).any(configures)
        || kinds.iter().flat_map(|kind| cluster.of(*kind)).any(starts)
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, is_near};

    #[test]
    fn names_are_near_those_of_schedulers() {
        for (name, expected) in [
            ("kai-schedular", Some("kai-scheduler")),
            ("volcano-scheduler", Some("volcano")),
            ("default", Some("default-scheduler")),
            ("yunicorn", Some("yunikorn")),
            ("ml-scheduler", None),
            ("ray-scheduler", None),
            ("dense-packer", None),
        ] {
            assert_eq!(KNOWN.into_iter().find(|known| is_near(name, known)), expected, "{name}");
        }
    }
}
