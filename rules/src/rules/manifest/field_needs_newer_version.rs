//! A field or a value that the configured versions do not have yet.
//!
//! # Why
//! The definitions in a cluster are those of the version that is installed there. A field that came
//! later is dropped without a word, or refused where the client asks for strict decoding; a value
//! that came later is refused. Either way the setting has no effect, although the documentation of
//! the newest version shows it.
//!
//! # Fix
//! Update first, or write the setting in the way of the installed version. gpulint judges by the
//! newest Karpenter and KEDA that it knows and by Kubernetes 1.34, unless `platform` in the
//! configuration, or `--karpenter`, `--keda` and `--kubernetes`, name others.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: embedder}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: embedder}
//!    minReplicas: 2
//!    maxReplicas: 6
//!    metrics:
//!      - type: Pods
//!        pods:
//!          metric: {name: queue_length}
//!          target: {type: AverageValue, averageValue: "8"}
//!    behavior:
//!      scaleDown:
//! -      tolerance: "0.05" # <-
//! +      stabilizationWindowSeconds: 600
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/upgrading/upgrade-guide/>
//! - <https://github.com/kedacore/keda/blob/main/CHANGELOG.md>
//! - <https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/>

use crate::karpenter::nodepool::CAPACITY_TYPE;
use crate::karpenter::requirement::Operator;
use crate::platform::{Platform, Version};
use crate::rules::manifest::words::quoted_field;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "field-needs-newer-version",
    kinds: &[
        Kind::NODE_POOL,
        Kind::NODE_CLAIM,
        Kind::NODE_OVERLAY,
        Kind::EC2_NODE_CLASS,
        Kind::SCALED_OBJECT,
        Kind::HPA,
    ],
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("field_needs_newer_version.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// What is versioned.
#[derive(Clone, Copy)]
enum Product {
    Karpenter,
    Keda,
    Kubernetes,
}

/// A field, or some of its values, and the version that brought them.
struct Since {
    kind: Kind,
    /// Steps; `*` is each item of a list.
    path: &'static [&'static str],
    /// Empty: the field itself.
    values: &'static [&'static str],
    product: Product,
    version: (u32, u32),
}

const fn since(
    kind: Kind,
    path: &'static [&'static str],
    values: &'static [&'static str],
    version: (u32, u32),
) -> Since {
    Since { kind, path, values, product: Product::Karpenter, version }
}

const fn of(product: Product, row: Since) -> Since {
    Since { product, ..row }
}

/// From the CRDs of every minor of Karpenter 1.x and from KEDA's changelog; Kubernetes by trial.
static TABLE: &[Since] = &[
    since(Kind::NODE_POOL, &["spec", "replicas"], &[], (1, 8)),
    since(Kind::NODE_POOL, &["spec", "disruption", "consolidationPolicy"], &["Balanced"], (1, 14)),
    since(
        Kind::NODE_POOL,
        &["spec", "template", "spec", "requirements", "*", "operator"],
        &["Gte", "Lte"],
        (1, 9),
    ),
    since(Kind::NODE_CLAIM, &["spec", "requirements", "*", "operator"], &["Gte", "Lte"], (1, 9)),
    since(Kind::NODE_OVERLAY, &["spec", "requirements", "*", "operator"], &["Gte", "Lte"], (1, 9)),
    since(Kind::NODE_OVERLAY, &["apiVersion"], &["karpenter.sh/v1alpha1"], (1, 7)),
    since(Kind::EC2_NODE_CLASS, &["spec", "capacityReservationSelectorTerms"], &[], (1, 3)),
    since(
        Kind::EC2_NODE_CLASS,
        &["spec", "capacityReservationSelectorTerms", "*", "instanceMatchCriteria"],
        &[],
        (1, 8),
    ),
    since(Kind::EC2_NODE_CLASS, &["spec", "amiSelectorTerms", "*", "ssmParameter"], &[], (1, 4)),
    since(
        Kind::EC2_NODE_CLASS,
        &["spec", "blockDeviceMappings", "*", "ebs", "volumeInitializationRate"],
        &[],
        (1, 5),
    ),
    since(Kind::EC2_NODE_CLASS, &["spec", "ipPrefixCount"], &[], (1, 8)),
    since(Kind::EC2_NODE_CLASS, &["spec", "amiFamily"], &["Windows2025"], (1, 9)),
    since(Kind::EC2_NODE_CLASS, &["spec", "amiSelectorTerms", "*", "alias"], &["windows2025@latest"], (1, 9)),
    since(Kind::EC2_NODE_CLASS, &["spec", "networkInterfaces"], &[], (1, 11)),
    since(Kind::EC2_NODE_CLASS, &["spec", "placementGroupSelector"], &[], (1, 11)),
    since(Kind::EC2_NODE_CLASS, &["spec", "connectionTracking"], &[], (1, 13)),
    since(Kind::EC2_NODE_CLASS, &["spec", "cpuOptions"], &[], (1, 13)),
    of(Product::Keda, since(Kind::SCALED_OBJECT, &["spec", "initialCooldownPeriod"], &[], (2, 14))),
    of(Product::Keda, since(Kind::SCALED_OBJECT, &["spec", "fallback", "behavior"], &[], (2, 17))),
    of(
        Product::Keda,
        since(Kind::SCALED_OBJECT, &["spec", "fallback", "behavior"], &["scalingModifiers"], (2, 20)),
    ),
    of(Product::Kubernetes, since(Kind::HPA, &["spec", "behavior", "scaleUp", "tolerance"], &[], (1, 35))),
    of(Product::Kubernetes, since(Kind::HPA, &["spec", "behavior", "scaleDown", "tolerance"], &[], (1, 35))),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    reserved(object, ctx);
    for row in TABLE.iter().filter(|row| object.is(row.kind)) {
        let platform = ctx.platform();
        let (name, installed) = match row.product {
            Product::Karpenter => ("Karpenter", karpenter(object, platform)),
            Product::Keda => ("KEDA", platform.keda),
            Product::Kubernetes => ("Kubernetes", platform.kubernetes),
        };
        let needed = Version::new(row.version.0, row.version.1);
        if installed >= needed {
            continue;
        }
        let mut nodes = Vec::new();
        find(&object.root(), row.path, &mut nodes);
        for node in nodes {
            report(&node, row, name, installed, needed, ctx);
        }
    }
    None
}

/// `reserved` as a capacity type: nobody refuses it earlier, and no node ever has it.
fn reserved(object: &Object, ctx: &mut Context<'_>) {
    let needed = Version::new(1, 3);
    let Some(list) = RequirementList::of(object) else {
        return;
    };
    let installed = list.provider.karpenter_version(ctx.platform());
    if installed >= needed {
        return;
    }
    for item in list.items() {
        if item.key() != Some(CAPACITY_TYPE) || item.operator() != Some(Operator::In) {
            continue;
        }
        for node in item.values().items().filter(|v| v.text() == Some("reserved")) {
            ctx.report(
                &node,
                format!("Karpenter {installed} has no `reserved` nodes, which came with {needed}"),
            )
            .severity(Severity::Warning)
            .help("update Karpenter, or set `platform` in gpulint.yaml if it is newer");
        }
    }
}

/// The version that counts for an object: other providers than AWS' own have their own.
fn karpenter(object: &Object, platform: &Platform) -> Version {
    match RequirementList::of(object) {
        Some(list) => list.provider.karpenter_version(platform),
        None => platform.karpenter,
    }
}

fn report(
    node: &Node<'_>,
    row: &Since,
    name: &str,
    installed: Version,
    needed: Version,
    ctx: &mut Context<'_>,
) {
    let help = format!("update {name}, or set `platform` in gpulint.yaml if it is newer");
    if row.values.is_empty() {
        let field = quoted_field(&node.pointer());
        ctx.report(node, format!("{name} {installed} drops {field}, which came with {needed}"))
            .severity(Severity::Warning)
            .help(help)
            .at_key();
    } else if let Some(value) = node.text().filter(|text| row.values.contains(text)) {
        ctx.report(node, format!("{name} {installed} refuses `{value}`, which came with {needed}"))
            .severity(Severity::Error)
            .rejected_by(Some(Authority::ApiServer))
            .help(help);
    }
}

/// The nodes that a path leads to, where something is written.
fn find<'a>(node: &Node<'a>, path: &[&str], out: &mut Vec<Node<'a>>) {
    match path.split_first() {
        None if node.is_set() => out.push(node.clone()),
        None => {}
        Some((&"*", rest)) => node.items().for_each(|item| find(&item, rest, out)),
        Some((step, rest)) => find(&node.get(step), rest, out),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::cluster::objects::Index;
    use crate::lint::settings::Settings;
    use crate::object::Object;
    use crate::platform::{Platform, Version};
    use crate::{Engine, Severity};

    fn said(object: &Value, karpenter: Version, keda: Version) -> Vec<(Severity, String)> {
        let object = Object::from_json(object).expect("an object");
        let engine = Engine::new(Settings {
            select: vec!["field-needs-newer-version".to_owned()],
            platform: Platform { karpenter, keda, ..Platform::default() },
            ..Settings::default()
        });
        let findings = engine.check_object(&object, &Index::new(false));
        findings.into_iter().map(|f| (f.severity, f.message)).collect()
    }

    #[test]
    fn a_row_speaks_below_its_version_alone() {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
            "spec": {"replicas": 2, "template": {"spec": {"requirements": [
                {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gte", "values": ["4"]},
                {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["64"]},
            ]}}},
        });
        let keda = Version::new(2, 20);
        assert_eq!(said(&pool, Version::new(1, 9), keda), []);
        let refused = "Karpenter 1.8 refuses `Gte`, which came with 1.9".to_owned();
        assert_eq!(said(&pool, Version::new(1, 8), keda), [(Severity::Error, refused)]);
        assert_eq!(said(&pool, Version::new(1, 7), keda).len(), 2);
        let scaled = json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a"},
            "spec": {"fallback": {"behavior": "scalingModifiers"}, "initialCooldownPeriod": null},
        });
        let karpenter = Version::new(1, 14);
        assert_eq!(said(&scaled, karpenter, keda), []);
        assert_eq!(said(&scaled, karpenter, Version::new(2, 19)).len(), 1);
        assert_eq!(said(&scaled, karpenter, Version::new(2, 13)).len(), 2);
    }
}
