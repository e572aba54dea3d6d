//! A value is set for a chart, and no template of the chart reads it.
//!
//! # Why
//! Helm passes any value to a chart, and a misspelled, misplaced or removed one changes nothing: no error
//! says that `serviceMonitr.enabled` was not read, that `operator.tolerations` of KEDA's chart came with
//! 2.20 only, or that Karpenter's chart has had no `webhook` since 1.1. The values that templates read are
//! known for the charts of Karpenter, KEDA, the GPU Operator, dcgm-exporter, NVIDIA's device plugin,
//! KubeRay, Ollama and kube-prometheus-stack, at two levels, and for Ollama as a part of Open WebUI. Values
//! that are empty or `false` are left out, and one that an older version read is information, as is one that
//! switches on a part that always runs (`operator.enabled: true`).
//!
//! # Fix
//! Write the value where the chart of this version reads it; `helm show values` prints them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Application
//!  metadata: {name: keda, namespace: argocd}
//!  spec:
//!    project: platform
//!    destination: {server: "https://kubernetes.default.svc", namespace: keda}
//!    syncPolicy: {syncOptions: [ServerSideApply=true]}
//!    source:
//!      repoURL: https://kedacore.github.io/charts
//!      chart: keda
//!      targetRevision: 2.17.2
//!      helm:
//!        valuesObject:
//! -        watchNamespaces: chat # <-
//! +        watchNamespace: chat
//! ```
//!
//! # References
//! - <https://helm.sh/docs/chart_template_guide/values_files/>
//! - <https://github.com/aws/karpenter-provider-aws/tree/main/charts/karpenter>
//! - <https://github.com/kedacore/charts/blob/main/keda/README.md>
//! - <https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml>

use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;
use crate::workload::chart_keys::{ChartKeys, Elsewhere};
use crate::workload::charts::{ChartValues, chart_sources, installs, names};

pub(crate) static RULE: Rule = Rule {
    id: "chart-value-unknown",
    kinds: &CHART_KINDS,
    reads: VERSIONED_CHARTS,
    docs: docs(include_str!("chart_value_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// The charts, with a part of the address of their authors' repository. Charts of the same name elsewhere have other values.
const CHARTS: [(&str, &str); 9] = [
    ("dcgm-exporter", "nvidia.github.io"),
    ("gpu-operator", "nvidia"),
    ("karpenter", "public.ecr.aws/karpenter"),
    ("keda", "kedacore"),
    ("kube-prometheus-stack", "prometheus-community"),
    ("kuberay-operator", "ray-project.github.io/kuberay-helm"),
    ("nvidia-device-plugin", "nvidia.github.io"),
    ("ollama", "otwld"),
    ("ray-cluster", "ray-project.github.io/kuberay-helm"),
];
/// Charts with another chart as a part, whose values they pass on below its name: the chart, the address of its authors, and the part,
/// of which they take any version.
const PARTS: [(&str, &str, &str); 1] = [("open-webui", "openwebui", "ollama")];
/// The value with which a chart installs its part, or not.
const SWITCH: &str = "enabled";
/// The parts that a chart installs in any case.
const MAIN_PARTS: [&str; 3] = ["controller", "operator", "validator"];
/// Values of Karpenter's chart that other rules report, with what follows from them.
const OF_OTHER_RULES: [&str; 4] = ["aws", "interruptionQueueName", "interruptionQueue", "reservedENIs"];
/// Minimum length of the name of a repository that says whose it is.
const SHORTEST: usize = 4;
/// Maximum number of findings for one installation: hundreds of unknown values are those of another chart.
const MAX_REPORTED: usize = 8;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for (chart, address) in CHARTS {
        if !installs(object, chart) || !is_of_authors(object, chart, address) {
            continue;
        }
        let written = chart_version(object, chart, ctx.cluster());
        // A range may be any of its versions.
        let version = written.and_then(Version::parse);
        let Some(keys) = ChartKeys::of(chart, version) else { continue };
        for_each_values(object, chart, |values| {
            for unread in unread(values.root, chart, &keys).into_iter().take(MAX_REPORTED) {
                report(&unread, (chart, ""), version, &keys, values, ctx);
            }
        });
    }
    for (chart, address, part) in PARTS {
        let Some(keys) = ChartKeys::of(part, None) else { continue };
        if !installs(object, chart) || !is_of_authors(object, chart, address) {
            continue;
        }
        for_each_values(object, chart, |values| {
            let own = unread(&values.root.get(part), part, &keys).into_iter();
            for unread in own.filter(|unread| unread.key != SWITCH).take(MAX_REPORTED) {
                report(&unread, (part, &format!("{part}.")), None, &keys, values, ctx);
            }
        });
    }
    None
}

/// Whether an object installs a chart from the repository of its authors.
fn is_of_authors(object: &Object, chart: &str, address: &str) -> bool {
    let spec = object.get("spec");
    let Some(source) = chart_sources(&spec).find(|source| names(source, chart)) else { return false };
    let url = source.get("repoURL");
    if url.is_set() {
        return url.text().is_some_and(|url| url.contains(address));
    }
    let reference = source.get("sourceRef");
    if reference.get("kind").text() != Some("HelmRepository") {
        return false;
    }
    // People call a repository after its chart or its authors; Bitnami has charts of other operators.
    reference.get("name").text().is_some_and(|name| {
        name.len() >= SHORTEST && (name.contains(chart) || address.contains(name) || name.contains(address))
    })
}

/// A value that no template reads.
struct Unread<'a> {
    key: String,
    node: Node<'a>,
}

fn unread<'a>(root: &Node<'a>, chart: &str, keys: &ChartKeys) -> Vec<Unread<'a>> {
    let mut out = Vec::new();
    for (key, node) in root.entries() {
        if is_aside(key) || OF_OTHER_RULES.contains(&key) {
            continue;
        }
        if key.contains('.') || !keys.has(key) {
            out.push(Unread { key: key.to_owned(), node });
        } else if !keys.has(&format!("{key}.*")) {
            for (below, node) in node.entries() {
                let path = format!("{key}.{below}");
                let is_of_other_rule = chart == "karpenter" && OF_OTHER_RULES.contains(&below);
                if !is_aside(below) && !is_of_other_rule && !keys.has(&path) {
                    out.push(Unread { key: path, node });
                }
            }
        }
    }
    out.retain(|unread| asks(&unread.node));
    out
}

/// Whether a key has values for anchors, or a placeholder stands for its name.
fn is_aside(key: &str) -> bool {
    key.starts_with(['_', '.', '&', '<'])
        || key.starts_with("x-")
        || key.contains("nchor")
        || is_placeholder(key)
}

/// Whether a value asks for something: it is not empty, and not off.
fn asks(node: &Node<'_>) -> bool {
    if node.is_unknown() || node.is_null() || node.bool() == Some(false) || node.text() == Some("") {
        return false;
    }
    let is_group = node.scalar().is_none();
    if !is_group {
        return true;
    }
    let fields = node.entries();
    // What only switches something off is left from an older version.
    fields.iter().any(|(_, field)| asks(field)) || node.items().next().is_some()
}

/// Reports a value; `prefix` is the path of the values of the chart, where it is a part of another one.
fn report(
    Unread { key, node }: &Unread<'_>,
    (chart, prefix): (&str, &str),
    version: Option<Version>,
    keys: &ChartKeys,
    values: &ChartValues<'_, '_>,
    ctx: &mut Context<'_>,
) {
    // A key of the top may have a dot, and a path has the key above.
    let is_dotted = node.pointer().steps().last().is_some_and(|last| last == key);
    let (above, name) = key.split_once('.').filter(|_| !is_dotted).unwrap_or(("", key));
    let below = |above: &str| keys.below(above).into_iter();
    let path = |name: &str| match above {
        "" => format!("{prefix}{name}"),
        _ => format!("{prefix}{above}.{name}"),
    };
    let elsewhere = keys.elsewhere(key).filter(|_| !(is_dotted && key.contains('.')));
    let of_version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let message = match prefix {
        "" => format!("no template of chart `{chart}`{of_version} reads `{key}`: the value has no effect"),
        // Values of the part may have the name of the part once more.
        _ => format!("chart `{chart}`{of_version} reads no `{key}`: `{prefix}{key}` has no effect"),
    };
    let help = if !keys.has(chart) && (name == chart || above == chart) {
        "write these values at the top: they are passed to the chart itself".to_owned()
    } else if above.is_empty() && name.contains('.') {
        "nest the keys: a dot in a key does not lead to a value below".to_owned()
    } else if let Some(near) = nearest(name, below(above)) {
        format!("write `{}`", path(near))
    } else if !above.is_empty() && keys.has(name) {
        match prefix {
            "" => format!("write `{name}` at the top of the values"),
            _ => format!("write `{prefix}{name}`"),
        }
    } else if let Some(other) = keys.only_with_name(name).filter(|_| above.is_empty()) {
        format!("write `{prefix}{other}`")
    } else {
        match elsewhere {
            Some(Elsewhere::Until(last)) => format!("remove it: charts until {last} read it"),
            Some(Elsewhere::Since(first)) => {
                format!("install {first} or later, which reads it, or remove it")
            }
            None => "remove it, or look for its name in the `values.yaml` of the chart".to_owned(),
        }
    };
    let finding = report_value(values, node, message, ctx).help(help).identified_by(key);
    // What an older version read is often left there on purpose, and a part that always runs need not be switched on.
    let is_on = name == SWITCH && MAIN_PARTS.contains(&above) && node.bool() == Some(true);
    if is_on || matches!(elsewhere, Some(Elsewhere::Until(_))) {
        finding.severity(Severity::Info);
    }
    if values.text.is_none() {
        finding.at_key();
    }
}
