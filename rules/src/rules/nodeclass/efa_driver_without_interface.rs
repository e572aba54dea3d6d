//! User data installs an EFA driver, but nodes get no EFA interface.
//!
//! # Why
//! Installing or loading the driver attaches no interface. A node has EFA interfaces where its pods request
//! `vpc.amazonaws.com/efa`, or where the class lists them in `networkInterfaces`; without one NCCL uses TCP.
//!
//! # Fix
//! Request `vpc.amazonaws.com/efa` in the pods, or remove the driver.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  userData: | # <-
//! -    #!/bin/bash
//! -    modprobe efa
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#accelerators-gpu-resources>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html>

use super::significant_lines;
use crate::rules::prelude::*;
use crate::workload::gpu::EFA;

pub(crate) static RULE: Rule = Rule {
    id: "efa-driver-without-interface",
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("efa_driver_without_interface.rs")),
    check: Check::NodeClass(check),
    ..Rule::info(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = class.user_data()?;
    let loads = |line: &str| line.contains("modprobe efa") || line.contains("efa_installer");
    let driver = text.contains("aws-efa-installer") || significant_lines(text).any(loads);
    if driver && !class.get("networkInterfaces").is_set() && !ctx.cluster().views().is_requested(EFA) {
        ctx.report(&class.get("userData"), "an EFA driver attaches no EFA interface to the node")
            .at_key()
            .help("nodes get the interfaces where pods ask for `vpc.amazonaws.com/efa`");
    }
    None
}
