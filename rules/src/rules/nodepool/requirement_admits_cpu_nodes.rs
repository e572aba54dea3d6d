//! A GPU pool excludes some GPUs, and so also admits instances without any.
//!
//! # Why
//! `NotIn` and `DoesNotExist` also hold for a machine that lacks the label. `instance-gpu-name NotIn
//! [t4]` therefore admits every CPU type that exists, and those are the cheapest: the pool's taint
//! keeps ordinary pods away from nodes that have nothing to protect, and pods that tolerate it
//! without asking for a GPU get them.
//!
//! # Fix
//! Require that there is a GPU as well: `karpenter.k8s.aws/instance-gpu-count Gt 0`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//! -        - key: karpenter.k8s.aws/instance-gpu-name
//! -          operator: NotIn # <-
//! -          values: [t4, m60]
//! +        - key: karpenter.k8s.aws/instance-gpu-name
//! +          operator: NotIn
//! +          values: [t4, m60]
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#set-based-requirement>

use crate::catalog;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-admits-cpu-nodes",
    kinds: &[Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("requirement_admits_cpu_nodes.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (pool, list) = (NodePool::new(object)?, ctx.requirements()?);
    let speaks_of_devices = |item: &RequirementItem<'_>| {
        let key = item.key().map(|key| list.provider.catalogue_key(key));
        key.is_some_and(|k| {
            k.starts_with("karpenter.k8s.aws/instance-gpu-")
                || k.starts_with("karpenter.k8s.aws/instance-accelerator-")
        })
    };
    let excludes = |item: &RequirementItem<'_>| match item.operator() {
        Some(Operator::NotIn) => item.count().is_some_and(|n| n > 0),
        Some(Operator::DoesNotExist) => true,
        _ => false,
    };
    let item = list.items().find(|item| excludes(item) && speaks_of_devices(item))?;
    let types = pool.types()?;
    if pool.hardware() != Hardware::Mixed {
        return None;
    }
    // A limit alone may also be the limit of a general-purpose pool.
    let limited = (pool.limits().entries().iter())
        .any(|(name, amount)| KARPENTER_ACCELERATORS.contains(name) && amount.int() != Some(0));
    let tainted = pool.has_accelerator_taint();
    if !tainted && !limited {
        return None;
    }
    let neuron = !(pool.template_spec().get("taints").items())
        .filter_map(|t| t.get("key").text())
        .any(|k| KARPENTER_ACCELERATORS.contains(&k) && !k.starts_with("aws.amazon.com/"));
    let key = if tainted && neuron {
        "karpenter.k8s.aws/instance-accelerator-count"
    } else {
        "karpenter.k8s.aws/instance-gpu-count"
    };
    let (key, operator) = (list.provider.provider_key(key), item.node.get("operator"));
    let finding = ctx.report(
        &operator,
        format!(
            "`{}` lets machines without a device in: the pool admits {}",
            operator.text().unwrap_or_default(),
            plain_example(&types)
        ),
    );
    if !tainted {
        finding.severity(Severity::Info);
    }
    finding.help(format!("require `{key} Gt 0` as well"));
    // A pool of accelerators without a taint or an architecture would have the findings of one.
    if tainted && pool.requirement(catalog::ARCH).is_some() {
        finding.fix(
            Fix::new("require a device; check that nothing runs on the machines without", Safety::Unsafe)
                .append(&pool.requirements(), json!({"key": key, "operator": "Gt", "values": ["0"]}))
                .replaces_nodes(),
        );
    }
    None
}

/// A well-known type without accelerator.
fn plain_example(types: &TypeSet) -> &'static str {
    let known = ["m7i.large", "m7g.large", "c7i.large", "m5.large"];
    (known.iter().filter_map(|name| catalog::find(name)))
        .chain(types.iter())
        .find(|t| types.contains(t) && !t.is_accelerated())
        .map_or("CPU types", |t| t.name)
}
