//! User data is too large, or in a form that the AMI family does not read.
//!
//! # Why
//! EC2 accepts 16 KiB of user data, and Karpenter adds its own part: above that the class is never Ready. Each
//! family reads another form: settings in TOML on Bottlerocket, shell or MIME on AL2, PowerShell on Windows, and
//! shell, MIME or a NodeConfig on AL2023, where `bootstrap.sh` is gone. With anything else nodes never join.
//!
//! # Fix
//! Load large scripts from S3 or build them into the AMI, and write the form that the family reads.
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

use super::significant_lines;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

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
        let line = significant_lines(first).find(|line| *line != "---").unwrap_or_default();
        if line.starts_with("[settings") || line.starts_with("settings.") {
            Form::Toml
        } else if line.starts_with("apiVersion:") && line.contains("node.eks.aws/") {
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
    check_form(&node, text, class.family()?, ctx);
    None
}

fn check_form(node: &Node<'_>, text: &str, family: AmiFamily, ctx: &mut Context<'_>) {
    use Form::{Mime, NodeConfig, PowerShell, Shell, Toml};
    let form = Form::of(text);
    let (unreadable, help): (&[Form], _) = match family {
        AmiFamily::Bottlerocket => (
            &[Shell, Mime, NodeConfig, PowerShell],
            "write settings in TOML, such as `[settings.kubernetes]`",
        ),
        AmiFamily::Al2023 => (&[Toml, PowerShell], "write a shell script, a MIME archive or a NodeConfig"),
        AmiFamily::Al2 => (&[Toml, PowerShell, NodeConfig], "write a shell script or a MIME archive"),
        AmiFamily::Windows => (
            &[Shell, Mime, NodeConfig, Toml, PowerShell],
            "write PowerShell without tags around it: Karpenter adds them",
        ),
        AmiFamily::Custom => return,
    };
    if unreadable.contains(&form) {
        ctx.report(node, format!("{} does not read {} as user data", family.name(), form.name()))
            .at_key()
            .help(help);
    } else if family == AmiFamily::Al2023
        && let Some(call) = significant_lines(text).find(|line| calls_bootstrap(line))
    {
        let object = ctx.object();
        let start = call.as_ptr() as usize - text.as_ptr() as usize;
        ctx.report(node, "`/etc/eks/bootstrap.sh` is for AL2: on AL2023 the call fails")
            .at_key()
            .help("leave the call out: Karpenter configures the node with nodeadm")
            .at_part(object, node, start..start + call.len());
    }
}

fn calls_bootstrap(line: &str) -> bool {
    let command = line.split_whitespace().find(|word| !matches!(*word, "sudo" | "exec" | "bash" | "sh"));
    command.is_some_and(|word| word.trim_matches('"') == "/etc/eks/bootstrap.sh")
}
