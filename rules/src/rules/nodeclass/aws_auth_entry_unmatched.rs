//! An entry of the ConfigMap `aws-auth` matches nobody, or gives no groups.
//!
//! # Why
//! EKS compares the ARN of an entry with that of the caller as it is written. The ARN of a session of a role
//! has no path, so that `role/team/nodes` matches nobody; an instance profile, a session of STS, or a user in
//! `mapRoles`, is no role at all. Nodes of a role that is not matched are Unauthorized and never join, and
//! EKS says nothing in the ConfigMap.
//!
//! The authorizer of nodes lets a node in that is in the group `system:nodes` and whose name begins with
//! `system:node:`. The template is `{{EC2PrivateDNSName}}`, in exactly these letters. `groups` is a list: a
//! text gives no groups. Of two entries for one role the last counts alone.
//!
//! # Fix
//! Write `arn:aws:iam::ACCOUNT:role/NAME`, without the path of the role.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: aws-auth, namespace: kube-system}
//!  data:
//!    mapRoles: |
//! -    - rolearn: arn:aws:iam::111122223333:role/platform/nodes # <-
//! +    - rolearn: arn:aws:iam::111122223333:role/nodes
//!        username: system:node:{{EC2PrivateDNSName}}
//!        groups: [system:bootstrappers, system:nodes]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html>
//! - <https://github.com/kubernetes-sigs/aws-iam-authenticator/issues/268>
//! - <https://kubernetes.io/docs/reference/access-authn-authz/node/>

use crate::cluster::together::is_in_written_namespace;
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::ValuePlace;

pub(crate) static RULE: Rule = Rule {
    id: "aws-auth-entry-unmatched",
    kinds: &[Kind::CONFIG_MAP],
    docs: docs(include_str!("aws_auth_entry_unmatched.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodeClass)
};

/// What EKS writes into user names (`pkg/server` of aws-iam-authenticator).
const TEMPLATES: [&str; 5] =
    ["{{AccessKeyID}}", "{{AccountID}}", "{{EC2PrivateDNSName}}", "{{SessionName}}", "{{SessionNameRaw}}"];

/// A fault of an entry, with the bytes of the text that it is about.
struct Fault {
    part: std::ops::Range<usize>,
    message: String,
    help: String,
}

fn check(map: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // EKS watches this name in this namespace (`pkg/mapper/configmap`).
    let is_elsewhere = is_in_written_namespace(map) && map.namespace() != Some("kube-system");
    if map.name() != "aws-auth" || map.may_lack_fields() || is_elsewhere {
        return None;
    }
    for list in [List::Roles, List::Users] {
        let field = map.path(&["data", list.field()]);
        // The templates of user names look like placeholders.
        let Some(text) = field.raw_text().filter(|text| !text.trim().is_empty()) else { continue };
        for fault in faults(text, list) {
            let place = ValuePlace { node: field.clone(), is_in_text: true, part: Some(fault.part) };
            report_place(&place, fault.message, ctx).help(fault.help);
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Roles,
    Users,
}

impl List {
    fn field(self) -> &'static str {
        match self {
            List::Roles => "mapRoles",
            List::Users => "mapUsers",
        }
    }

    fn key(self) -> &'static str {
        match self {
            List::Roles => "rolearn",
            List::Users => "userarn",
        }
    }
}

fn faults(text: &str, list: List) -> Vec<Fault> {
    let mut found = Vec::new();
    with_embedded(text, |root| {
        let entries: Vec<Node<'_>> = root.items().filter(|entry| !entry.has_unknown_key()).collect();
        for (index, entry) in entries.iter().enumerate() {
            // EKS reads the keys in any case, and none of them is needed for what is said here.
            let arn = entry.get(list.key());
            let is_replaced =
                entries.iter().skip(index + 1).any(|other| is_same(&arn, &other.get(list.key())));
            let fault = fault_of_arn(&arn, list)
                .or_else(|| is_replaced.then(|| replaced(&arn))?)
                .or_else(|| fault_of_groups(entry))
                .or_else(|| fault_of_node(entry));
            found.extend(fault);
        }
        Some(())
    });
    found
}

/// A value without placeholders.
fn written<'a>(node: &Node<'a>) -> Option<&'a str> {
    node.raw_text().map(str::trim).filter(|text| !is_placeholder(text))
}

fn fault(node: &Node<'_>, message: String, help: String) -> Option<Fault> {
    let span = node.span()?;
    Some(Fault { part: span.start as usize..span.end as usize, message, help })
}

/// The service, the account and the resource of an ARN with the number of an account.
fn parts(arn: &str) -> Option<(&str, &str, &str)> {
    let mut parts = arn.strip_prefix("arn:")?.splitn(5, ':');
    let (partition, service, _, account, resource) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    (partition.starts_with("aws") && is_account).then_some((service, account, resource))
}

fn fault_of_arn(node: &Node<'_>, list: List) -> Option<Fault> {
    let arn = written(node)?;
    let (service, account, resource) = parts(arn)?;
    let (kind, rest) = resource.split_once('/')?;
    let name = rest.rsplit('/').next().filter(|name| !name.is_empty())?;
    let role = |name: &str| format!("write `arn:aws:iam::{account}:role/{}`", ellipsize(name));
    match (list, service, kind) {
        (List::Roles, "iam", "role") if rest.contains('/') => fault(
            node,
            "the ARN of a session has no path, so nobody matches a role with one".to_owned(),
            format!("leave the path out: {}", role(name)),
        ),
        (List::Roles, "iam", "instance-profile") => fault(
            node,
            "an instance profile is not a role, so nobody matches it".to_owned(),
            format!("name the role of the profile: {}", role("NAME")),
        ),
        (List::Roles, "sts", "assumed-role") => fault(
            node,
            "EKS compares the role and not its session, so nobody matches this".to_owned(),
            role(rest.split('/').next()?),
        ),
        (List::Roles, "iam", "user") => fault(
            node,
            "a user in `mapRoles` matches nobody".to_owned(),
            "move the entry to `mapUsers`, with the key `userarn`".to_owned(),
        ),
        (List::Users, "iam", "role") => fault(
            node,
            "a role in `mapUsers` matches nobody".to_owned(),
            "move the entry to `mapRoles`, with the key `rolearn`".to_owned(),
        ),
        _ => None,
    }
}

fn is_same(arn: &Node<'_>, other: &Node<'_>) -> bool {
    let pair = written(arn).zip(written(other));
    pair.is_some_and(|(arn, other)| parts(arn).is_some() && arn.eq_ignore_ascii_case(other))
}

fn replaced(arn: &Node<'_>) -> Option<Fault> {
    fault(
        arn,
        "a later entry has the same ARN, and that one counts alone".to_owned(),
        "write both into one entry, with all groups".to_owned(),
    )
}

fn fault_of_groups(entry: &Node<'_>) -> Option<Fault> {
    let groups = entry.get("groups");
    let text = written(&groups).filter(|text| !text.is_empty() && !groups.is_sequence())?;
    fault(
        &groups,
        "`groups` is a list: from a text EKS reads no groups".to_owned(),
        format!("write `groups: [{}]`", ellipsize(text)),
    )
}

/// What keeps the authorizer of nodes from letting in the nodes of an entry.
fn fault_of_node(entry: &Node<'_>) -> Option<Fault> {
    let (user, groups) = (entry.get("username"), entry.get("groups"));
    let name = user.raw_text().map(str::trim)?;
    let template = name.find("{{").zip(name.rfind("}}")).and_then(|(from, to)| name.get(from..to + 2));
    let plain = |text: &str| text.replace([' ', '_', '-'], "").to_ascii_lowercase();
    if let Some(template) = template.filter(|template| !TEMPLATES.contains(template))
        && let Some(meant) = TEMPLATES.into_iter().find(|known| plain(known) == plain(template))
    {
        return fault(
            &user,
            format!("EKS fills in `{meant}`, and not `{}`", ellipsize(template)),
            format!("write `{meant}`"),
        );
    }
    let all: Option<Vec<&str>> = groups.items().map(|group| written(&group)).collect();
    let all = all.filter(|_| groups.is_sequence() || groups.is_absent())?;
    let is_of_nodes = all.contains(&"system:nodes");
    let is_node = name.starts_with("system:node:");
    // Nodes of Fargate and of Windows have these groups and more.
    match (is_node, is_of_nodes) {
        (true, false) => fault(
            &user,
            "nodes need the group `system:nodes`: without it they do not join".to_owned(),
            "write `groups: [system:bootstrappers, system:nodes]`".to_owned(),
        ),
        (false, true) if template.is_none_or(|template| TEMPLATES.contains(&template)) => fault(
            &user,
            "the name of a node begins with `system:node:`: with another one it does not join".to_owned(),
            "write `username: system:node:{{EC2PrivateDNSName}}`".to_owned(),
        ),
        _ => None,
    }
}
