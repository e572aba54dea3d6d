//! User data that the nodes cannot use, or that does not do what it seems to.
//!
//! # Why
//! EC2 takes 16 KiB of user data, and Karpenter adds its own part: above that the class never becomes
//! Ready. Each AMI family reads another form: settings in TOML on Bottlerocket, shell, MIME or a
//! NodeConfig on AL2023, where `bootstrap.sh` is gone. What does not fit makes nodes that never join.
//! With `amiFamily: Custom` nobody adds the taint `karpenter.sh/unregistered`, so pods may start on a
//! node before it has its labels. And installing or loading the EFA driver attaches no interface: a
//! node gets EFA interfaces if pods ask for them, or if the class lists them.
//!
//! # Fix
//! Load large scripts from S3 or bake them into the AMI; write the form that the family reads; register
//! nodes of a custom AMI with the taint; ask for `vpc.amazonaws.com/efa` in the pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - alias: bottlerocket@v1.44.0
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
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
//! - <https://karpenter.sh/docs/concepts/scheduling/#accelerators-gpu-resources>

use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;
use crate::workload::gpu::EFA;
use crate::workload::template::WORKLOAD_KINDS;

pub(crate) static RULE: Rule = Rule {
    id: "user-data-suspect",
    reads: WORKLOAD_KINDS,
    rejected_by: &[Authority::Karpenter],
    docs: docs(include_str!("user_data_suspect.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// What EC2 takes, in bytes.
const MOST: usize = 16 * 1024;

/// From here on Karpenter's own part may not fit any more.
const MUCH: usize = 12 * 1024;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = class.user_data().filter(|text| !text.trim().is_empty())?;
    let node = class.get("userData");
    // A template may become anything; the shell's own variables are no such.
    let template = text.contains("{{");
    if text.len() > MUCH && !template {
        let kib = text.len() / 1024;
        if text.len() > MOST {
            let message = format!("user data of {} bytes: EC2 takes 16384", text.len());
            ctx.report(&node, message)
                .at_key()
                .severity(Severity::Error)
                .rejected_by(Some(Authority::Karpenter))
                .help("load what is large from S3 or an image: the class is never Ready with it");
        } else {
            let message = format!("{kib} KiB of user data, to which Karpenter adds its own");
            ctx.report(&node, message)
                .at_key()
                .help("EC2 takes 16 KiB in all: load what is large from S3 or an image");
        }
    }
    if let Some(family) = class.family() {
        form(class, text, family, ctx);
    }
    efa(class, text, ctx);
    None
}

/// What a text is, as far as its first lines say for certain.
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
        let line = lines(first).find(|line| *line != "---").unwrap_or_default();
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

/// The lines that are neither empty nor comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn form(class: &Ec2NodeClass<'_>, text: &str, family: AmiFamily, ctx: &mut Context<'_>) {
    let node = class.get("userData");
    let form = Form::of(text);
    let (name, wrong, wants) = match family {
        AmiFamily::Bottlerocket => (
            "Bottlerocket",
            !matches!(form, Form::Toml | Form::Unknown),
            "write settings in TOML, such as `[settings.kubernetes]`",
        ),
        AmiFamily::Al2023 => (
            "AL2023",
            matches!(form, Form::Toml | Form::PowerShell),
            "write a shell script, a MIME archive or a NodeConfig",
        ),
        AmiFamily::Al2 => (
            "AL2",
            matches!(form, Form::Toml | Form::PowerShell | Form::NodeConfig),
            "write a shell script or a MIME archive",
        ),
        AmiFamily::Windows => (
            "Windows",
            !matches!(form, Form::Unknown),
            "write PowerShell without tags around it: Karpenter adds them",
        ),
        AmiFamily::Custom => {
            unregistered(class, text, ctx);
            return;
        }
    };
    if wrong {
        let message = format!("{name} does not read {} as user data", form.name());
        ctx.report(&node, message).at_key().help(wants);
        return;
    }
    let bootstraps = |line: &str| {
        line.split_whitespace()
            .find(|word| !matches!(*word, "sudo" | "exec" | "bash" | "sh"))
            .is_some_and(|word| word.trim_matches('"') == "/etc/eks/bootstrap.sh")
    };
    if family == AmiFamily::Al2023 && lines(text).any(bootstraps) {
        ctx.report(&node, "`/etc/eks/bootstrap.sh` is for AL2: on AL2023 the call fails")
            .at_key()
            .help("leave the call out: Karpenter configures the node with nodeadm");
    }
}

/// A custom AMI whose user data starts kubelet without the taint that holds pods back.
fn unregistered(class: &Ec2NodeClass<'_>, text: &str, ctx: &mut Context<'_>) {
    let starts = ["/etc/eks/bootstrap.sh", "nodeadm", "node.eks.aws/", "kubelet"];
    if text.contains("karpenter.sh/unregistered") || !starts.iter().any(|s| text.contains(s)) {
        return;
    }
    // An image of EKS's own, whose start nobody here has written, is not judged by its user data.
    let alias = |term: Node<'_>| term.get("alias").is_set() || term.is_unknown();
    if class.get("amiSelectorTerms").items().any(alias) {
        return;
    }
    // A variable may hold the taint.
    let hidden = |line: &str| {
        let lower = line.to_ascii_lowercase();
        lower.contains('$') && (lower.contains("taint") || lower.contains("kubelet-extra-args"))
    };
    if text.contains("{{") || text.lines().any(hidden) {
        return;
    }
    ctx.report(
        &class.get("userData"),
        "nodes start without the taint `karpenter.sh/unregistered`: pods may come too early",
    )
    .at_key()
    .help("register them with `karpenter.sh/unregistered:NoExecute`; Karpenter takes it away");
}

/// A driver for interfaces that nothing asks for.
fn efa(class: &Ec2NodeClass<'_>, text: &str, ctx: &mut Context<'_>) {
    let driver = lines(text).any(|line| line.contains("modprobe efa") || line.contains("efa_installer"))
        || text.contains("aws-efa-installer");
    if driver && !class.get("networkInterfaces").is_set() && !ctx.index().views().is_requested(EFA) {
        ctx.report(&class.get("userData"), "an EFA driver attaches no EFA interface to the node")
            .at_key()
            .severity(Severity::Info)
            .help("nodes get the interfaces where pods ask for `vpc.amazonaws.com/efa`");
    }
}
