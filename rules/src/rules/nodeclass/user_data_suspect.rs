//! User data is too large, or is not what the AMI family reads.
//!
//! # Why
//! EC2 accepts 16 KiB of user data, and Karpenter adds its own part: above that the class is never Ready.
//! Each family reads another form: settings in TOML on Bottlerocket, shell or MIME on AL2, PowerShell on
//! Windows, and shell, MIME or a NodeConfig on AL2023, where `bootstrap.sh` is gone; AL2 in turn has no
//! nodeadm. The names of public images tell which of them the family `Custom` runs. With anything else
//! nodes never join. Karpenter gives nodeadm any YAML as a NodeConfig, whose keys are read in exactly their
//! letters, and adds its own call of `bootstrap.sh` to user data of AL2. A script for AL2 also edits
//! `/etc/kubernetes/kubelet/kubelet-config.json` or the
//! variable of `--kubelet-extra-args`. AL2023 has neither: nodeadm writes the kubelet's configuration
//! elsewhere, after the script, and the settings are lost without a word. Karpenter itself reads MIME
//! archives and Bottlerocket's TOML, and starts no node with one that it cannot read: `max-pods = "110"` is
//! a text where it decodes a number. Of the TOML it keeps `settings` alone. A script that formats
//! `/dev/nvme1n1` formats what Linux found second: the numbers do not follow the devices of the launch, and
//! another instance type has its own disks before an EBS volume. XFS and Btrfs without `-f` stop where a
//! file system is already, and this is information then.
//!
//! # Fix
//! Load large scripts from S3 or build them into the AMI, and write the form that the family reads.
//! Settings of the kubelet belong to `spec.kubelet` of the class, or to `spec.kubelet.config` of a
//! NodeConfig in the user data.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: bottlerocket@v1.44.0}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    userData: | # <-
//! -    #!/bin/bash
//! -    sysctl -w vm.max_map_count=262144
//! +    [settings.kernel.sysctl]
//! +    "vm.max_map_count" = "262144"
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specuserdata>
//! - <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html>
//! - <https://docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html>

use super::user_data_disks::formats_by_number;
use super::user_data_text::{fault_of_archive, fault_of_form, fault_of_toml, line_outside_settings};
use super::{public_name, significant_lines};
use crate::karpenter::ami_name::{ImageFamily, image_of_parameter, images_named};
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;
use crate::source::with_embedded;

pub(crate) static RULE: Rule = Rule {
    id: "user-data-suspect",
    rejected_by: &[Authority::Karpenter],
    docs: docs(include_str!("user_data_suspect.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// Limit of EC2, in bytes.
const MAX: usize = 16 * 1024;

/// Above this size, the part that Karpenter adds may exceed the limit.
const LARGE: usize = 12 * 1024;

/// The format of a text, if its first lines show it with certainty.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Shell,
    Mime,
    NodeConfig,
    Toml,
    PowerShell,
    CloudConfig,
    Unknown,
}

impl Form {
    fn of(text: &str) -> Form {
        let first = text.trim_start();
        if first.starts_with("#!") {
            return Form::Shell;
        }
        if first.starts_with("MIME-Version:") || first.starts_with("Content-Type:") {
            return Form::Mime;
        }
        if first.starts_with("<powershell>") || first.starts_with("<script>") {
            return Form::PowerShell;
        }
        if first.starts_with("#cloud-config") {
            return Form::CloudConfig;
        }
        let mut lines = significant_lines(first).filter(|line| *line != "---");
        let line = lines.next().unwrap_or_default();
        let names_node_config =
            |line: &str| line.starts_with("apiVersion:") && line.contains(NODE_CONFIG_GROUP);
        if line.starts_with("[settings") || line.starts_with("settings.") {
            Form::Toml
        } else if names_node_config(line)
            || line.starts_with("kind:") && lines.next().is_some_and(names_node_config)
        {
            Form::NodeConfig
        } else {
            Form::Unknown
        }
    }

    fn name(self) -> &'static str {
        match self {
            Form::Shell => "a shell script",
            Form::Mime => "a MIME archive",
            Form::NodeConfig => "a NodeConfig",
            Form::Toml => "Bottlerocket's settings",
            Form::PowerShell => "PowerShell in tags",
            Form::CloudConfig => "a cloud-config",
            Form::Unknown => "something else",
        }
    }
}

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = class.user_data().filter(|text| !text.trim().is_empty())?;
    let node = class.get("userData");
    let size = text.len();
    // A template may become shorter when it is rendered; shell variables do not.
    if size > LARGE && !text.contains("{{") {
        if size > MAX {
            ctx.report(&node, format!("user data has {size} bytes: EC2 allows 16384"))
                .at_key()
                .severity(Severity::Error)
                .rejected_by(Some(Authority::Karpenter))
                .help("load what is large from S3 or an image: the class is never Ready with it");
        } else {
            let kib = size / 1024;
            ctx.report(&node, format!("{kib} KiB of user data, to which Karpenter adds its own"))
                .at_key()
                .help("EC2 allows 16 KiB in all: load large files from S3 or put them into an image");
        }
    }
    // Karpenter formats the disks of the machine itself, which local-disks-set-up-twice reports.
    let is_set_up = class.get("instanceStorePolicy").is_set();
    if let Some((line, is_forced)) = formats_by_number(&node, text).filter(|_| !is_set_up) {
        let message = "the numbers of NVMe devices differ between machines: this may format another disk";
        report_line(&node, text, line, message.to_owned(), ctx)
            .severity(if is_forced { Severity::Warning } else { Severity::Info })
            .help("find the disk below `/dev/disk/by-id`, and format it only if `blkid` shows nothing on it");
    }
    match class.family()? {
        AmiFamily::Custom => {
            if let Some(family) = family_of_images(class) {
                check_system(&node, text, family, ctx);
            }
        }
        family => check_form(&node, text, family, ctx),
    }
    None
}

/// The family of the public images that all AMI terms of a class select.
fn family_of_images(class: &Ec2NodeClass<'_>) -> Option<AmiFamily> {
    let mut families = Vec::new();
    for term in class.get("amiSelectorTerms").items() {
        let images = match term.get("ssmParameter").text() {
            Some(name) => Vec::from_iter(image_of_parameter(name)),
            None => images_named(public_name(&term)?.1),
        };
        images.first()?;
        families.extend(images.into_iter().map(|image| image.family));
    }
    families.dedup();
    match families.as_slice() {
        [ImageFamily::Al2023] => Some(AmiFamily::Al2023),
        [ImageFamily::Al2] => Some(AmiFamily::Al2),
        _ => None,
    }
}

fn check_form(node: &Node<'_>, text: &str, family: AmiFamily, ctx: &mut Context<'_>) {
    use Form::{CloudConfig, Mime, NodeConfig, PowerShell, Shell, Toml};
    let form = Form::of(text);
    let (unreadable, help): (&[Form], _) = match family {
        AmiFamily::Bottlerocket => (
            &[Shell, Mime, NodeConfig, PowerShell, CloudConfig],
            "write settings in TOML, such as `[settings.kubernetes]`",
        ),
        AmiFamily::Al2023 => {
            (&[Toml, PowerShell, CloudConfig], "write a shell script, a MIME archive or a NodeConfig")
        }
        AmiFamily::Al2 => {
            (&[Toml, PowerShell, NodeConfig, CloudConfig], "write a shell script or a MIME archive")
        }
        AmiFamily::Windows => (
            &[Shell, Mime, NodeConfig, Toml, PowerShell, CloudConfig],
            "write PowerShell without tags around it: Karpenter adds them",
        ),
        AmiFamily::Custom => return,
    };
    if unreadable.contains(&form) {
        ctx.report(node, format!("{} does not read {} as user data", family.name(), form.name()))
            .at_key()
            .help(help);
    } else if form == Mime
        && let Some((line, fault)) = fault_of_archive(text)
    {
        report_line(node, text, line, format!("Karpenter cannot read the MIME archive: {fault}"), ctx)
            .severity(Severity::Error)
            .rejected_by(Some(Authority::Karpenter))
            .help("correct the archive: no node starts with it");
    } else if family == AmiFamily::Bottlerocket
        && form == Toml
        && let Some((line, fault)) = fault_of_toml(text)
    {
        report_line(node, text, line, format!("Karpenter cannot read the TOML: {fault}"), ctx)
            .severity(Severity::Error)
            .rejected_by(Some(Authority::Karpenter))
            .help("correct the line: no node starts with it");
    } else if family == AmiFamily::Bottlerocket
        && let Some((line, setting, form)) = fault_of_form(text)
    {
        let message = format!("Karpenter cannot decode `{}`: it is {form}", ellipsize(&setting));
        report_line(node, text, line, message, ctx)
            .severity(Severity::Error)
            .rejected_by(Some(Authority::Karpenter))
            .help("correct the line: no node starts with it");
    } else if family == AmiFamily::Bottlerocket
        && let Some(line) = line_outside_settings(text)
    {
        let message = format!("Karpenter keeps `settings` alone, and ignores `{}`", ellipsize(line));
        report_line(node, text, line, message, ctx)
            .help("write settings of Bottlerocket; it has none for other files, such as containerd's");
    } else if family == AmiFamily::Al2023
        && let Some((line, key, exact)) = misspelt_key(text)
    {
        let message = format!("nodeadm reads `{exact}`, and not `{}`: nodes never join", ellipsize(key));
        report_line(node, text, line, message, ctx).help(format!("write `{exact}`"));
    } else if family == AmiFamily::Al2023 && matches!(form, Form::Unknown | Shell) && is_other_yaml(text) {
        let what = if form == Shell { "this script, which is also YAML," } else { "this" };
        let message = format!("Karpenter gives {what} to nodeadm as a NodeConfig: nodes never join");
        ctx.report(node, message).at_key().help(match form {
            Shell => "write a MIME archive with the part `text/x-shellscript`",
            _ => "begin with `apiVersion: node.eks.aws/v1alpha1` and `kind: NodeConfig`",
        });
    } else if family == AmiFamily::Al2
        && !significant_lines(text).any(guards_bootstrap)
        && let Some(call) = significant_lines(text).find(|line| calls_bootstrap(line))
    {
        let message =
            "Karpenter adds its own call of `bootstrap.sh`: the node is configured twice".to_owned();
        report_line(node, text, call, message, ctx)
            .help("leave the call out: `spec.kubelet` of the class has settings of the kubelet");
    } else {
        check_system(node, text, family, ctx);
    }
}

/// The keys at the top of a NodeConfig. They are read in exactly these letters.
const NODE_CONFIG_KEYS: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];

/// The first line of a NodeConfig with one of its keys in other letters, the key, and the right one.
fn misspelt_key(text: &str) -> Option<(&str, &str, &'static str)> {
    if !text.contains(NODE_CONFIG_GROUP) {
        return None;
    }
    text.lines().find_map(|line| {
        let (key, _) = line.split_once(':')?;
        let exact = NODE_CONFIG_KEYS.into_iter().find(|known| key.eq_ignore_ascii_case(known))?;
        (key != exact).then_some((line, key, exact))
    })
}

/// Whether a text is a mapping in YAML and no NodeConfig: Karpenter takes it for one (`parseUserData` in
/// `pkg/providers/amifamily/bootstrap/nodeadm.go`, 1.15).
fn is_other_yaml(text: &str) -> bool {
    let read = |root: &Node<'_>| {
        let is_config =
            root.get("apiVersion").raw_text().is_none_or(|group| group.starts_with(NODE_CONFIG_GROUP));
        (root.is_mapping() && !(is_config && root.get("apiVersion").is_set())).then_some(())
    };
    !is_placeholder(text) && with_embedded(text, read).is_some()
}

/// Reports what a script or an archive has of the other Amazon Linux.
fn check_system(node: &Node<'_>, text: &str, family: AmiFamily, ctx: &mut Context<'_>) {
    if family == AmiFamily::Al2023
        && !significant_lines(text).any(guards_bootstrap)
        && let Some(call) = significant_lines(text).find(|line| calls_bootstrap(line))
    {
        let message = "`/etc/eks/bootstrap.sh` is for AL2: on AL2023 the call fails".to_owned();
        report_line(node, text, call, message, ctx).help("leave the call out: nodeadm configures the node");
    } else if family == AmiFamily::Al2023
        && let Some((line, name)) = setting_of_al2(text)
    {
        report_line(node, text, line, format!("`{name}` is for AL2: on AL2023 nothing reads it"), ctx)
            .help("write a NodeConfig part with `spec.kubelet.config`: nodeadm configures the kubelet");
    } else if family == AmiFamily::Al2
        && !significant_lines(text).any(|line| SYSTEMS.iter().any(|name| line.contains(name)))
        && let Some((line, what)) =
            significant_lines(text).find_map(|line| Some((line, part_of_al2023(line)?)))
    {
        report_line(node, text, line, format!("{what} is for AL2023: AL2 has no nodeadm"), ctx)
            .help("configure the kubelet by `spec.kubelet` of the class, or go to AL2023");
    }
}

/// What a line of user data has that AL2 has not: a part of a MIME archive for nodeadm, or a call of it.
fn part_of_al2023(line: &str) -> Option<&'static str> {
    let is_part =
        line.to_ascii_lowercase().starts_with("content-type:") && line.contains("application/node.eks.aws");
    let command = line.split_whitespace().find(|word| *word != "sudo");
    let is_call = command.is_some_and(|word| word.rsplit('/').next() == Some("nodeadm"));
    let may_fail = ["|| ", "&& "].iter().any(|word| line.contains(word));
    match (is_part, is_call) {
        (true, _) => Some("the part `application/node.eks.aws`"),
        (_, true) if !may_fail => Some("`nodeadm`"),
        _ => None,
    }
}

/// Reports at a line of the user data.
fn report_line<'c>(
    node: &Node<'_>,
    text: &str,
    line: &str,
    message: String,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let object = ctx.object().clone();
    let start = line.as_ptr() as usize - text.as_ptr() as usize;
    ctx.report(node, message).at_key().at_part(&object, node, start..start + line.len())
}

/// How scripts for AL2 configure the kubelet.
const OF_AL2: [&str; 4] = [
    "/etc/kubernetes/kubelet/kubelet-config.json",
    "/etc/eks/bootstrap.sh",
    "KUBELET_EXTRA_ARGS",
    "--kubelet-extra-args",
];

/// The first line that configures the kubelet as on AL2, and what it names. `None` if the script looks first whether
/// it runs on AL2, or makes itself what it names.
fn setting_of_al2(text: &str) -> Option<(&str, &'static str)> {
    let is_silent = |line: &str| GUARDS.iter().chain(&MAKES).any(|word| line.contains(word));
    if significant_lines(text).any(is_silent) {
        return None;
    }
    significant_lines(text).find_map(|line| {
        let code = line.split(" #").next().unwrap_or(line);
        let name = OF_AL2.into_iter().find(|name| code.contains(name))?;
        // A message or a look does no harm, nor does a command that may fail.
        let command = code.split_whitespace().find(|word| *word != "sudo");
        let writes = code.contains('>') || code.contains("tee ");
        let is_idle = matches!(command, Some("rm" | "ls"))
            || matches!(command, Some("echo" | "cat" | "grep" | "logger")) && !writes;
        let may_fail = ["|| ", "&& ", "2>"].iter().any(|word| code.contains(word));
        (!is_idle && !may_fail).then_some((line, name))
    })
}

/// Parts of a script that asks whether a file is there, or on which system it runs.
const GUARDS: [&str; 12] = [
    "[ -f",
    "[ -e",
    "[ -d",
    "[ -s",
    "[ -x",
    "! -f",
    "! -e",
    "test -",
    "os-release",
    "VERSION_ID",
    "exists(",
    "nodeadm",
];

/// Parts of a script that makes what it names: a unit with a variable of its own, a file that the kubelet is told to read, and an own
/// script with the name of AL2's.
const MAKES: [&str; 6] = [
    "EnvironmentFile",
    "Environment=",
    "kubelet.service.d",
    "/etc/systemd/system",
    "--config",
    "> /etc/eks/bootstrap.sh",
];

/// Parts of a script that asks on which system it runs.
const SYSTEMS: [&str; 6] =
    ["os-release", "system-release", "VERSION_ID", "PLATFORM_ID", "amzn", "command -v nodeadm"];

/// The API group of nodeadm's configuration.
const NODE_CONFIG_GROUP: &str = "node.eks.aws/";

/// Whether a line of a script asks for the script of AL2, or for the system.
fn guards_bootstrap(line: &str) -> bool {
    SYSTEMS.iter().any(|name| line.contains(name))
        || line.contains("nodeadm")
        || line.contains("bootstrap.sh")
            && (["command -v", "which "].iter().chain(&GUARDS).any(|word| line.contains(word)))
}

fn calls_bootstrap(line: &str) -> bool {
    let command = line.split_whitespace().find(|word| !matches!(*word, "sudo" | "exec" | "bash" | "sh"));
    command.is_some_and(|word| word.trim_matches('"') == "/etc/eks/bootstrap.sh")
}
