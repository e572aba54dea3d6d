//! A DeviceTaintRule evicts the pods of every device of a driver.
//!
//! # Why
//! A DeviceTaintRule with `effect: NoExecute` evicts each pod that has a matching device allocated and does
//! not tolerate the taint. Its selector is the whole of what limits it: an empty one matches every device
//! of every driver, one with the driver alone each GPU of the cluster. Written for one broken device, it
//! ends all training and serving at once, and the pods cannot be scheduled again while the rule is there.
//!
//! # Fix
//! Name the `pool`, which is the node for devices of a node, and the `device`. To keep pods off without
//! ending those that run, write `effect: NoSchedule`; `effect: None` shows in the status of the rule how
//! many pods would be evicted.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {kubernetes: "1.37"}
//!  apiVersion: resource.k8s.io/v1
//!  kind: DeviceTaintRule
//!  metadata: {name: broken-gpu}
//!  spec:
//!    deviceSelector: # <-
//!      driver: gpu.nvidia.com
//! +    pool: ip-10-0-3-17.ec2.internal
//! +    device: gpu-5
//!    taint: {key: example.com/broken, effect: NoExecute}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-taints-and-tolerations>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "device-taint-rule-evicts",
    kinds: &[Kind::DEVICE_TAINT_RULE],
    docs: docs(include_str!("device_taint_rule_evicts.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let selector = spec.get("deviceSelector");
    // Without a selector, no device matches.
    if object.is_partial() || !selector.is_mapping() || selector.has_unknown_key() {
        return None;
    }
    // v1alpha3 has more criteria, the class of a device and expressions.
    let mut limits = selector.entries().into_iter().filter(|(name, _)| *name != "driver");
    if limits.any(|(_, value)| value.is_set()) {
        return None;
    }
    if spec.path(&["taint", "effect"]).text() != Some("NoExecute") {
        return None;
    }
    let driver = selector.get("driver");
    let devices = match driver.text() {
        Some(driver) => format!("a device of `{}`", ellipsize(driver)),
        None if driver.is_set() => "a device of the driver".to_owned(),
        None => "a device of any driver".to_owned(),
    };
    ctx.report(&selector, format!("every pod with {devices} is evicted that does not tolerate the taint"))
        .at_key()
        .help("name `pool` and `device`, or write `effect: NoSchedule`, which lets running pods finish");
    None
}
