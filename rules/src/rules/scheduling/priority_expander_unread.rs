//! The Cluster Autoscaler does not read the ConfigMap with its priorities.
//!
//! # Why
//! With `--expander=priority` it reads one ConfigMap, `cluster-autoscaler-priority-expander`, in the namespace
//! of its option `--namespace`, which is `kube-system` by default wherever it runs. Neither is an option to
//! change. Without that ConfigMap all node groups have one priority: pods get Spot or on-demand nodes by
//! chance, or by the expander that comes next. Reported is a ConfigMap with `priorities` of another name or
//! namespace, where the input does not have that one.
//!
//! # Fix
//! Give the ConfigMap this name and namespace, or set `--namespace`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//! -metadata: {name: autoscaler-priorities, namespace: kube-system}
//! +metadata: {name: cluster-autoscaler-priority-expander, namespace: kube-system}
//!  data:
//!    priorities: |
//!      10: [".*on-demand.*"]
//!      50: [".*spot.*"]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: cluster-autoscaler, namespace: kube-system}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: cluster-autoscaler}}
//!    template:
//!      metadata: {labels: {app: cluster-autoscaler}}
//!      spec:
//!        priorityClassName: system-cluster-critical
//!        containers:
//!          - name: main
//!            image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0
//! -          command: [./cluster-autoscaler, --cloud-provider=aws, --expander=priority] # <-
//! +          command: [./cluster-autoscaler, --cloud-provider=aws, --expander=priority]
//!            resources: {requests: {cpu: 100m, memory: 600Mi}, limits: {memory: 600Mi}}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md>

use crate::cluster::together::is_in_written_namespace;
use crate::rules::karpenter_in_use::is_cluster_autoscaler;
use crate::rules::prelude::*;
use crate::workload::command::may_have_more_options;

pub(crate) static RULE: Rule = Rule {
    id: "priority-expander-unread",
    kinds: &[Kind::DEPLOYMENT],
    reads: &[Kind::CONFIG_MAP, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    docs: docs(include_str!("priority_expander_unread.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// `PriorityConfigMapName` in `expander/priority/priority.go` of the Cluster Autoscaler 1.33, and the default of `--namespace`.
const CONFIG: &str = "cluster-autoscaler-priority-expander";
const NAMESPACE: &str = "kube-system";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || may_bring_objects(ctx.cluster()) {
        return None;
    }
    let container = templates(object).first()?.containers().find(is_cluster_autoscaler)?;
    let words = words(&container);
    let OptionValue::Text(expander, node) = option(&words, &["expander"]) else { return None };
    let namespace = match option(&words, &["namespace"]) {
        OptionValue::Absent if !may_have_more_options(&words) => NAMESPACE.to_owned(),
        OptionValue::Text(namespace, _) => namespace,
        _ => return None,
    };
    let is_read = |config: &Object| {
        config.name() == CONFIG
            && (config.is_namespace_unknown()
                || !is_in_written_namespace(config)
                || config.namespace_or_default() == namespace)
    };
    let configs: Vec<&Object> = ctx.cluster().of(Kind::CONFIG_MAP).collect();
    if !expander.split(',').any(|one| one == "priority") || configs.iter().any(|one| is_read(one)) {
        return None;
    }
    let has_priorities = |config: &&Object| {
        let text = config.path(&["data", "priorities"]);
        // Numbers with a list of patterns each.
        let is_table = |text: &str| text.lines().any(|line| is_priority(line.trim()));
        text.text().is_some_and(is_table) && !config.may_lack_fields() && ctx.pairs_with(config)
    };
    let config = configs.into_iter().find(has_priorities)?;
    let message =
        format!("`priority` reads ConfigMap `{CONFIG}` in `{namespace}`, and the priorities are in another");
    ctx.report(&node, message)
        .help(format!("give the ConfigMap the name `{CONFIG}` in `{namespace}`"))
        .related(config, &config.path(&["metadata", "name"]), "has priorities that are not read");
    None
}

/// Whether a line begins the patterns of a priority: `10:`.
fn is_priority(line: &str) -> bool {
    line.split_once(':').is_some_and(|(number, _)| number.parse::<i64>().is_ok())
}
