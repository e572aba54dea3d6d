//! What EKS Auto Mode decides of its nodes: its node classes, and the NodePools that it brings.
//!
//! Source: <https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html> and
//! <https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html>.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::facts::quantity::Quantity;
use crate::karpenter::scheduling::{NodeClass, Reservations};
use crate::kind::Kind;
use crate::object::Object;

/// The name of the class that EKS Auto Mode brings.
pub(crate) const BUILT_IN_CLASS: &str = "default";

/// A NodeClass of EKS Auto Mode as input of the scheduler. `None` if it is not one, or if a field that decides
/// cannot be read.
pub(crate) fn node_class(object: &Object) -> Option<NodeClass> {
    let spec = object.get("spec");
    let (storage, terms) = (spec.get("ephemeralStorage"), spec.get("capacityReservationSelectorTerms"));
    let unknown = storage.has_unknown() || terms.is_unknown() || spec.is_unknown() || object.is_partial();
    if !object.is(Kind::AUTO_MODE_NODE_CLASS) || unknown {
        return None;
    }
    let size = storage.get("size");
    let class = match size.is_set() {
        true => NodeClass::in_auto_mode(Quantity::at(&size)?.milli()),
        false => NodeClass::built_in(),
    };
    let selects = terms.items().next().is_some();
    let reservations = if selects { Reservations::Unknown } else { Reservations::None };
    Some(NodeClass { reservations, ..class })
}

/// The NodePools that EKS Auto Mode brings. People can switch them off, and cannot edit them.
pub(crate) fn built_in_pools() -> &'static [Object] {
    static POOLS: LazyLock<Vec<Object>> = LazyLock::new(|| {
        let system = json!([{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]);
        let all = [
            built_in_pool("general-purpose", json!(["amd64"]), json!([])),
            built_in_pool("system", json!(["amd64", "arm64"]), system),
        ];
        all.iter().filter_map(Object::from_json).collect()
    });
    &POOLS
}

/// Whether EKS Auto Mode brings a NodePool of this name.
pub(crate) fn is_built_in_pool(name: &str) -> bool {
    built_in_pools().iter().any(|pool| pool.name() == name)
}

fn built_in_pool(name: &str, architectures: Value, taints: Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": {
                "budgets": [{"nodes": "10%"}],
                "consolidateAfter": "30s",
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
            },
            "template": {"spec": {
                "expireAfter": "336h",
                "terminationGracePeriod": "24h",
                "nodeClassRef": {
                    "group": Kind::AUTO_MODE_NODE_CLASS.group,
                    "kind": Kind::AUTO_MODE_NODE_CLASS.kind,
                    "name": BUILT_IN_CLASS,
                },
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "eks.amazonaws.com/instance-category", "operator": "In", "values": ["c", "m", "r"]},
                    {"key": "eks.amazonaws.com/instance-generation", "operator": "Gt", "values": ["4"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": architectures},
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                ],
                "taints": taints,
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::built_in_pools;
    use crate::karpenter::nodepool::NodePool;

    #[test]
    fn the_built_in_pools_can_be_read() {
        let names: Vec<&str> = built_in_pools().iter().map(crate::object::Object::name).collect();
        assert_eq!(names, ["general-purpose", "system"]);
        for object in built_in_pools() {
            let pool = NodePool::new(object).expect("it is a NodePool");
            let types = pool.types().expect("its types are known");
            assert!(types.names().any(|name| name == "m7i.xlarge"), "{}", object.name());
            assert!(!types.names().any(|name| name == "c7g.medium"), "{}", object.name());
        }
    }
}
