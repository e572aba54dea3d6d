//! EKS does not read the annotation with a role for pods, or its role is none.
//!
//! # Why
//! EKS gives pods the role that their ServiceAccount names in `eks.amazonaws.com/role-arn`. The annotation on
//! a Deployment, a workflow or the pods themselves is read by nobody, and neither is one with a similar name:
//! the pods have the role of their node, without an error. A value that is not the ARN of a role, such as its
//! name, is handed to the pods as it is, and AWS answers that it may not be assumed.
//!
//! Nothing is lost where the ServiceAccount has the annotation as well, and where the input does not have the
//! account it is not known: this is information then.
//!
//! # Fix
//! Write the annotation on the ServiceAccount that `serviceAccountName` of the pods names, or make an association
//! of EKS Pod Identity for it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ServiceAccount
//!  metadata:
//!    name: trainer
//!    namespace: research
//! +  annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::111122223333:role/trainer"}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata:
//!    name: prepare
//!    namespace: research
//! -  annotations:
//! -    eks.amazonaws.com/role-arn: arn:aws:iam::111122223333:role/trainer # <-
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        serviceAccountName: trainer
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: registry.example.com/prepare:1.4.0
//!            resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "role-annotation-unread",
    kinds: kinds![[Kind::SERVICE_ACCOUNT], WORKLOAD_KINDS],
    reads: &[Kind::SERVICE_ACCOUNT],
    docs: docs(include_str!("role_annotation_unread.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// What the webhook of EKS reads (`aws/amazon-eks-pod-identity-webhook`, `pkg`).
const ROLE: &str = "eks.amazonaws.com/role-arn";

/// Names that are written for it.
const ALIKE: [&str; 7] = [
    "eks.amazon.com/role-arn",
    "eks.amazonaws.com/iam-role-arn",
    "eks.amazonaws.com/role",
    "eks.amazonaws.com/roleArn",
    "eks.amazonaws.com/role_arn",
    "eks.aws.com/role-arn",
    "iam.amazonaws.com/role-arn",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let own = object.path(&["metadata", "annotations"]);
    if object.is(Kind::SERVICE_ACCOUNT) {
        return on_account(&own, ctx);
    }
    if object.controller().is_some() {
        return None;
    }
    let all = templates(object);
    let first = all.first();
    let of_pods = first.map(|template| template.metadata.get("annotations").get(ROLE));
    let node = if own.get(ROLE).is_set() { own.get(ROLE) } else { of_pods.filter(Node::is_set)? };
    let spec = first.map_or_else(|| object.get("spec"), |template| template.spec.clone());
    let field = spec.get("serviceAccountName");
    let name = if field.is_set() { field.text() } else { Some("default") };
    let account =
        name.and_then(|name| ctx.partner(Kind::SERVICE_ACCOUNT, object.namespace_or_default(), name));
    let given = account.map(|account| account.annotation(ROLE)).filter(Node::is_set);
    let is_lost = given.is_none()
        && all.len() == 1
        && !spec.has_unknown_key()
        && (account.is_some_and(|account| !account.may_lack_fields()) || name == Some("default"));
    let message = match given {
        Some(_) => "EKS reads the role on the ServiceAccount, and not here".to_owned(),
        None => format!(
            "EKS reads a role on ServiceAccounts alone: pods of `{}` do not get it here",
            object.display_name()
        ),
    };
    let finding = ctx.report(&node, message);
    finding.at_key().severity(if is_lost { Severity::Warning } else { Severity::Info }).help(match name {
        Some("default") | None => {
            "write it on a ServiceAccount, and name that in `serviceAccountName` of the pods".to_owned()
        }
        Some(_) if given.is_some() => "remove it".to_owned(),
        Some(name) => format!("write it on ServiceAccount `{}`", ellipsize(name)),
    });
    if let Some(account) = account {
        finding.related(account, &account.path(&["metadata", "name"]), "the account of the pods");
    }
    None
}

/// Reports a misspelt annotation of a ServiceAccount, or a value that is not the ARN of a role.
fn on_account(annotations: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let role = annotations.get(ROLE);
    if let Some(text) = role.text().filter(|text| !text.is_empty()) {
        // A number of an account that is written as letters is filled in by somebody.
        let is_role = text.starts_with("arn:") && text.contains(":role/");
        if !is_role {
            ctx.report(
                &role,
                format!("`{}` is not the ARN of a role: AWS lets nobody assume it", ellipsize(text)),
            )
            .help("write `arn:aws:iam::ACCOUNT:role/NAME`");
        }
        return None;
    }
    let alike = ALIKE.into_iter().find(|name| annotations.get(name).is_set() && !role.is_set())?;
    let node = annotations.get(alike);
    ctx.report(&node, format!("EKS does not read `{alike}`: pods get no role by it"))
        .at_key()
        .help(format!("write `{ROLE}`"));
    None
}
