//! The kubelet settings that an EC2NodeClass computes with expressions for each instance type, from Karpenter 1.15 on
//! (`pkg/cel` and `pkg/providers/instancetype` of the AWS provider).

use std::collections::BTreeMap;

use crate::catalog::{InstanceType, all};
use crate::cel::NumberExpression;
use crate::facts::quantity::Quantity;
use crate::karpenter::scheduling::{ComputedKubelet, Kubelet, NodeClass, SchedulerOptions, capacity};
use crate::tree::node::Node;

const MIB: i128 = (1 << 20) * 1000;
const GIB: i128 = (1 << 30) * 1000;

/// The expressions of a class, parsed.
struct Expressions {
    max_pods: Option<NumberExpression>,
    kube_reserved: Vec<(String, NumberExpression)>,
    system_reserved: Vec<(String, NumberExpression)>,
}

/// Adds what the expressions of `spec.kubelet` give for each type to a class that has its other settings. `None` if the value of one
/// is not known for some type.
pub(super) fn compute(kubelet: &Node<'_>, class: &mut NodeClass) -> Option<()> {
    let pods = kubelet.get("maxPods");
    let expressions = Expressions {
        max_pods: pods.text().map(NumberExpression::parse).map_or(Some(None), |parsed| parsed.map(Some))?,
        kube_reserved: of_resources(&kubelet.get("kubeReserved"))?,
        system_reserved: of_resources(&kubelet.get("systemReserved"))?,
    };
    let computed =
        all().iter().map(|instance| Some((instance.name, for_type(&expressions, instance, class)?)));
    class.kubelet.computed = computed.collect::<Option<_>>()?;
    Some(())
}

fn of_resources(node: &Node<'_>) -> Option<Vec<(String, NumberExpression)>> {
    let expressions = node.entries().into_iter().filter_map(|(name, value)| {
        let text = value.text().filter(|text| Quantity::decode(text).is_err())?;
        Some(NumberExpression::parse(text).map(|parsed| (name.to_owned(), parsed)))
    });
    expressions.collect()
}

fn for_type(
    expressions: &Expressions,
    instance: &'static InstanceType,
    class: &NodeClass,
) -> Option<ComputedKubelet> {
    let value = |expression: &NumberExpression, max_pods: i64| {
        let numbers = [
            ("vcpus", i64::from(instance.vcpu)),
            ("memory_mib", i64::from(instance.memory_mib)),
            ("default_enis", i64::from(instance.enis)),
            ("ips_per_eni", i64::from(instance.ipv4_per_eni)),
            ("max_pods", max_pods),
        ];
        expression.evaluate(&numbers, &[("instance_type", instance.name)]).filter(|value| *value >= 0)
    };
    let pods_of = |class: &NodeClass| {
        let pods = capacity(instance, Some(class), &SchedulerOptions::default()).pods / 1000;
        i64::try_from(pods).unwrap_or(0)
    };
    let mut computed = ComputedKubelet::default();
    if let Some(expression) = &expressions.max_pods {
        computed.max_pods = Some(u32::try_from(value(expression, pods_of(class))?).ok()?);
    }
    // What is reserved may depend on the number of pods that results.
    let own = BTreeMap::from([(instance.name, computed.clone())]);
    let class = NodeClass { kubelet: Kubelet { computed: own, ..class.kubelet.clone() }, ..class.clone() };
    let max_pods = pods_of(&class);
    let amounts = |list: &[(String, NumberExpression)]| -> Option<Vec<(String, i128)>> {
        let amount = |(name, expression): &(String, NumberExpression)| {
            Some((name.clone(), amount_of(name, value(expression, max_pods)?)))
        };
        list.iter().map(amount).collect()
    };
    computed.kube_reserved = amounts(&expressions.kube_reserved)?;
    computed.system_reserved = amounts(&expressions.system_reserved)?;
    Some(computed)
}

/// The amount of a resource in thousandths: millicores in steps of 10, MiB in steps of 16, GiB, or a count (`formatResourceResult`).
fn amount_of(name: &str, value: i64) -> i128 {
    let value = i128::from(value);
    let rounded = |step: i128| (value + step - 1) / step * step;
    match name {
        "cpu" => rounded(10),
        "memory" => rounded(16) * MIB,
        "ephemeral-storage" => value * GIB,
        _ => value * 1000,
    }
}
