//! Knative Serving rejects a field that its configuration does not enable.
//!
//! # Why
//! Knative lets a Service set few fields of its pods. `nodeSelector`, `tolerations`, `affinity` and others
//! that pods on GPU nodes need are rejected (`must not set the field(s)`) unless `config-features` enables
//! each, and so is a `timeoutSeconds` above `max-revision-timeout-seconds` of `config-defaults`, 600 by
//! default. KServe makes such a Service of an InferenceService in the mode `Knative` (`Serverless` before 0.16),
//! which then never becomes ready. It is reported where the input has the ConfigMap in `knative-serving`, or
//! the KnativeServing of Knative's operator; as an info where neither the InferenceService nor KServe's
//! ConfigMap or chart says the mode, because this one is KServe's default.
//!
//! # Fix
//! Enable the feature, or raise the limit, in the ConfigMap or in `spec.config` of the KnativeServing.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: operator.knative.dev/v1beta1
//!  kind: KnativeServing
//!  metadata: {name: knative-serving, namespace: knative-serving}
//!  spec:
//!    config:
//!      features:
//!        kubernetes.podspec-tolerations: enabled
//! +      kubernetes.podspec-nodeselector: enabled
//!  ---
//!  apiVersion: serving.knative.dev/v1
//!  kind: Service
//!  metadata: {name: resize, namespace: media}
//!  spec:
//!    template:
//!      spec:
//!        nodeSelector: {karpenter.sh/nodepool: general} # <-
//!        containers:
//!          - name: main
//!            image: registry.example.com/media/resize:1.8
//!            resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://knative.dev/docs/serving/configuration/feature-flags/>
//! - <https://knative.dev/docs/serving/configuration/config-defaults/>

use super::knative::{self, Part, part};
use super::kserve::{self, Mode};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "knative-service-rejected",
    kinds: &[Kind::KNATIVE_SERVICE, Kind::INFERENCE_SERVICE],
    reads: kserve::READS,
    docs: docs(include_str!("knative_service_rejected.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The fields of a pod that a feature enables, without `kubernetes.podspec-`. All are off by default (`pkg/apis/config/features.go` of
/// Knative Serving 1.10 to 1.19).
const FEATURES: [(&str, &str); 14] = [
    ("affinity", "affinity"),
    ("dnsConfig", "dnsconfig"),
    ("dnsPolicy", "dnspolicy"),
    ("hostAliases", "hostaliases"),
    ("hostIPC", "hostipc"),
    ("hostNetwork", "hostnetwork"),
    ("hostPID", "hostpid"),
    ("initContainers", "init-containers"),
    ("nodeSelector", "nodeselector"),
    ("priorityClassName", "priorityclassname"),
    ("runtimeClassName", "runtimeclassname"),
    ("schedulerName", "schedulername"),
    ("tolerations", "tolerations"),
    ("topologySpreadConstraints", "topologyspreadconstraints"),
];

/// The kinds of volumes that a feature enables.
const VOLUMES: [(&str, &str); 3] = [
    ("persistentVolumeClaim", "persistent-volume-claim"),
    ("hostPath", "volumes-hostpath"),
    ("csi", "volumes-csi"),
];

/// The limit of `timeoutSeconds` without a value.
const MAX_TIMEOUT: i64 = 600;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // KServe makes a Service of Knative.
    let of_kserve = || matches!(kserve::mode(object, ctx), Some(Mode::Knative | Mode::Unsaid));
    if object.is(Kind::INFERENCE_SERVICE) && !of_kserve() || knative::is_of_cloud_run(object) {
        return None;
    }
    let all = templates(object);
    if let Some(features) = part("features", ctx) {
        for template in &all {
            for (field, feature) in FEATURES {
                inspect(&template.spec.get(field), field, feature, &features, ctx);
            }
            for volume in template.spec.get("volumes").items() {
                for (field, feature) in VOLUMES {
                    inspect(&volume.get(field), field, feature, &features, ctx);
                }
            }
        }
    }
    let defaults = part("defaults", ctx)?;
    let written = defaults.entries.get("max-revision-timeout-seconds");
    let max = match written.string_or_number() {
        Some(text) => text.parse().ok()?,
        None => MAX_TIMEOUT,
    };
    let field = if object.is(Kind::KNATIVE_SERVICE) { "timeoutSeconds" } else { "timeout" };
    for template in &all {
        let timeout = template.spec.get(field);
        if let Some(seconds) = timeout.int().filter(|seconds| *seconds > max) {
            let message = format!("Knative rejects a timeout of {seconds} s: its limit is {max} s");
            let help = format!(
                "write `max-revision-timeout-seconds: \"{seconds}\"` in {}",
                place(&defaults, "defaults")
            );
            report(&timeout, message, help, &defaults, ctx);
        }
    }
    None
}

fn inspect(node: &Node<'_>, field: &str, feature: &str, features: &Part<'_>, ctx: &mut Context<'_>) {
    let is_empty = node.entries().is_empty() && node.items().next().is_none();
    let is_off = node.bool() == Some(false) || node.scalar().is_none() && is_empty;
    let key = format!("kubernetes.podspec-{feature}");
    let value = features.entries.get(&key);
    // What is neither of these leaves the default.
    let is_enabled = value
        .raw_text()
        .is_some_and(|text| ["enabled", "allowed"].iter().any(|word| text.eq_ignore_ascii_case(word)));
    if !node.is_set() || node.is_unknown() || is_off || is_enabled {
        return;
    }
    let message = format!("Knative rejects `{field}`: the feature `{key}` is not enabled");
    let help = format!("write `{key}: enabled` in {}", place(features, "features"));
    report(node, message, help, features, ctx);
}

fn place(settings: &Part<'_>, name: &str) -> String {
    match settings.object.is(Kind::CONFIG_MAP) {
        true => format!("ConfigMap `config-{name}`"),
        false => format!("`spec.config.{name}` of the KnativeServing"),
    }
}

fn report(node: &Node<'_>, message: String, help: String, settings: &Part<'_>, ctx: &mut Context<'_>) {
    let (own, object) = (ctx.object(), settings.object);
    // Without a word of KServe's mode this holds with its default.
    let is_assumed = own.is(Kind::INFERENCE_SERVICE) && kserve::mode(own, ctx) == Some(Mode::Unsaid);
    let finding = ctx.report(node, message);
    finding.at_key().help(help).related(object, &object.path(&["metadata", "name"]), "the configuration");
    if is_assumed {
        finding.severity(Severity::Info);
    }
}
