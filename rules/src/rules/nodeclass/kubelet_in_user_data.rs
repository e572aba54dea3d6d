//! User data configures the kubelet in a way that Karpenter does not count.
//!
//! # Why
//! Karpenter computes what a node offers from `spec.kubelet` and reads nothing of it in user data. Where
//! user data sets `maxPods`, `kubeReserved` or `systemReserved`, or gives nodeadm a `maxPodsExpression`,
//! the node offers something else than Karpenter expects: it starts too many nodes for many small pods, or
//! nodes on which the pods that it started them for do not fit, and then the next ones.
//!
//! # Fix
//! Move the settings to `spec.kubelet`. With `amiFamily: Custom` Karpenter adds nothing to user data: write
//! them in both places.
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
//! -    apiVersion: node.eks.aws/v1alpha1
//! -    kind: NodeConfig
//! -    spec:
//! -      kubelet:
//! -        config:
//! -          maxPods: 110
//! +  kubelet: {maxPods: 110}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>

use super::significant_lines;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "kubelet-in-user-data",
    docs: docs(include_str!("kubelet_in_user_data.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// The fields that decide what a node offers, as NodeConfig, the kubelet's flags and Bottlerocket's settings write them.
const FIELDS: [(&str, &str, &str); 3] = [
    ("maxPods", "--max-pods", "max-pods"),
    ("kubeReserved", "--kube-reserved", "kube-reserved"),
    ("systemReserved", "--system-reserved", "system-reserved"),
];

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = class.user_data()?;
    let kubelet = class.get("kubelet");
    // Karpenter gives the settings to the kubelet itself, except with custom user data.
    let is_custom = class.get("amiFamily").text() == Some("Custom");
    let too = if is_custom { " as well" } else { "" };
    let sets = |(field, flag, setting): &(&str, &str, &str)| {
        significant_lines(text).any(|line| is_set_by(line, field, flag, setting))
    };
    if let Some(line) = expression(text)
        && !kubelet.is_unknown()
        && !kubelet.get("maxPods").is_set()
    {
        let (object, node) = (ctx.object(), class.get("userData"));
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        ctx.report(&node, "user data sets `maxPodsExpression` of nodeadm, which Karpenter does not count")
            .at_key()
            .help(format!("write the number as `spec.kubelet.maxPods`{too}, from which Karpenter computes what a node offers"))
            .at_part(object, &node, start..start + line.len());
        return None;
    }
    if kubelet.is_unknown() {
        return None;
    }
    let found = FIELDS.iter().filter(|names| !kubelet.get(names.0).is_set() && sets(names));
    let fields: Vec<&str> = found.map(|(field, ..)| *field).collect();
    let (last, others) = fields.split_last()?;
    let (listed, place) = match others {
        [] => (format!("`{last}`"), format!("it as `spec.kubelet.{last}`")),
        _ => (format!("`{}` and `{last}`", others.join("`, `")), "them in `spec.kubelet`".to_owned()),
    };
    let message = format!("user data sets {listed} of the kubelet, which Karpenter does not count");
    ctx.report(&class.get("userData"), message)
        .at_key()
        .help(format!("write {place}{too}, from which Karpenter computes what a node offers"));
    None
}

/// The line of a NodeConfig that computes the number of pods otherwise than Karpenter does.
fn expression(text: &str) -> Option<&str> {
    // The number that nodeadm computes without an expression, and the formula of Karpenter's default.
    const SAME: [&str; 3] =
        ["max_pods", "default_enis*(ips_per_eni-1)+2", "(default_enis*(ips_per_eni-1))+2"];
    significant_lines(text).find(|line| {
        let value = line.strip_prefix("maxPodsExpression").map(str::trim_start);
        value.and_then(|rest| rest.strip_prefix(':')).is_some_and(|value| {
            let value = value.split(" #").next().unwrap_or(value);
            let bare: String =
                value.chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'')).collect();
            let inner = bare.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(&bare);
            let is_default = SAME.contains(&&*bare) || SAME.contains(&inner);
            !bare.is_empty() && !bare.contains(['$', '{', '|', '>']) && !is_default
        })
    })
}

/// Whether a line sets a field: `maxPods: 110`, `--max-pods=110`, `max-pods = 110`, `[settings.kubernetes.kube-reserved]`.
fn is_set_by(line: &str, field: &str, flag: &str, setting: &str) -> bool {
    let starts = |name: &str, sign: char| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.trim_start().starts_with(sign) && rest.trim_start().len() > 1)
    };
    let has_flag = line.match_indices(flag).any(|(at, _)| {
        let value = line[at + flag.len()..].trim_start_matches(['=', ' ']);
        line[at + flag.len()..].starts_with(['=', ' '])
            && value.starts_with(|c: char| c.is_ascii_alphanumeric())
    });
    let in_yaml = line == format!("{field}:") || starts(field, ':');
    // A value that a script computes may be what Karpenter expects.
    let is_computed = line.contains('$');
    !is_computed
        && (in_yaml
            || has_flag
            || starts(setting, '=')
            || starts(&format!("settings.kubernetes.{setting}"), '=')
            || line == format!("[settings.kubernetes.{setting}]"))
}
