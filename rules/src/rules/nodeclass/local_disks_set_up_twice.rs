//! User data sets up the local disks that `instanceStorePolicy: RAID0` sets up.
//!
//! # Why
//! With `instanceStorePolicy: RAID0` the node joins its local NVMe disks into one volume at boot and puts
//! the directories of kubelet and containerd on it. User data that creates an array, a volume group or a
//! file system on the same disks runs before or after that: the second one fails because the disks are in
//! use, or wipes what the first one has set up, and the node has less disk than Karpenter counted, or does
//! not join. On Bottlerocket Karpenter 1.1 and later adds a bootstrap command for it, beside those of user
//! data.
//!
//! # Fix
//! Leave it to one of both: remove the commands from user data, or `instanceStorePolicy`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: scratch}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  instanceStorePolicy: RAID0
//! -  userData: | # <-
//! -    #!/bin/bash
//! -    mdadm --create /dev/md0 --level=0 --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1
//! -    mkfs.xfs /dev/md0
//! +  instanceStorePolicy: RAID0
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specinstancestorepolicy>

use super::significant_lines;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "local-disks-set-up-twice",
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("local_disks_set_up_twice.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if class.raid0() != Some(true) {
        return None;
    }
    let text = class.user_data()?;
    // The only volume holds the system, so that other devices are local disks, unless the script attaches volumes.
    let mappings = class.get("blockDeviceMappings");
    let names_volumes = ["/dev/xvd", "/dev/sd", "attach-volume"].iter().any(|word| text.contains(word));
    let has_one_volume = !mappings.has_unknown() && mappings.items().count() == 1 && !names_volumes;
    // A bootstrap command with the name of Karpenter's is replaced by it.
    let adds_command = class.family() == Some(AmiFamily::Bottlerocket)
        && ctx.platform().karpenter >= Version::new(1, 1)
        && !text.contains("000-mount-instance-storage");
    let command = significant_lines(text)
        .find_map(|line| sets_up_disks(line, has_one_volume))
        .filter(|command| adds_command || *command != BOTTLEROCKET)?;
    let node = class.get("userData");
    let policy = class.get("instanceStorePolicy");
    ctx.report(
        &node,
        format!("`{command}` sets up the local disks, and so does `instanceStorePolicy: RAID0`"),
    )
    .at_key()
    .help("remove the commands from user data, or `instanceStorePolicy`")
    .related(class.object(), &policy, "joins the local disks at boot");
    None
}

/// The command of Bottlerocket, and of Karpenter's user data for it: `pkg/providers/amifamily/bootstrap/bottlerocket.go` of
/// Karpenter's AWS provider 1.1.1.
const BOTTLEROCKET: &str = "apiclient ephemeral-storage init";

/// The program of a line that writes to local disks. EBS volumes are NVMe devices as well, so that a line has to name an
/// array, or local disks in a way that EBS volumes have not, unless the node has one volume alone.
fn sets_up_disks(line: &str, has_one_volume: bool) -> Option<&str> {
    // A NodeConfig's field, and the helper of Amazon Linux.
    if line.starts_with("strategy:") && line.contains("RAID") {
        return None;
    }
    let words: Vec<&str> = line
        .split(|c: char| {
            c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '[' | ']' | ',' | '`' | '"' | '\'')
        })
        .filter(|word| !word.is_empty())
        .collect();
    let names_local = line.contains("Instance_Storage") || line.contains("instance-store");
    words.iter().enumerate().find_map(|(at, word)| {
        let program = word.rsplit('/').next().unwrap_or(word);
        let rest = &words[at + 1..];
        let is_on = |part: &str| rest.iter().any(|word| word.contains(part));
        let found = match program {
            "mdadm" => rest.iter().any(|word| matches!(*word, "--create" | "-C")),
            "setup-local-disks" => rest.iter().any(|word| matches!(*word, "raid0" | "raid10" | "mount")),
            name if name.starts_with("mkfs") => {
                names_local || is_on("/dev/md") || is_on("vg_") || has_one_volume && is_on("/dev/nvme")
            }
            "pvcreate" | "vgcreate" => names_local || is_on("/dev/nvme"),
            "apiclient" if rest.starts_with(&["ephemeral-storage", "init"]) => return Some(BOTTLEROCKET),
            "zpool" => rest.first() == Some(&"create") && is_on("nvme"),
            _ => false,
        };
        found.then_some(program)
    })
}
