//! The pod identity of a TriggerAuthentication contradicts itself.
//!
//! # Why
//! KEDA's admission checks the pod identities `azure-workload` and `aws`: an empty id, an authority
//! host without its tenant, an external id without the role that trusts it, a role beside the
//! workload's own identity. The object is rejected, and every trigger that names it has no
//! credentials.
//!
//! # Fix
//! Leave out what is empty; write `roleArn` with `externalID`, and only where KEDA itself assumes the
//! role.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: queue}
//!  spec:
//!    podIdentity:
//!      provider: azure-workload
//! -    identityId: "" # <-
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/>
//! - <https://keda.sh/docs/latest/authentication-providers/aws/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-invalid",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    rejected_by: &[Authority::KedaAdmission],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("keda_auth_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let principal = object.path(&["spec", "azureServicePrincipal"]);
    if principal.is_mapping() && !principal.has_unknown_key() && !object.is_partial() {
        service_principal(&principal, ctx);
    }
    let identity = object.path(&["spec", "podIdentity"]);
    match identity.get("provider").text()? {
        "azure-workload" => azure(&identity, ctx),
        "aws" => aws(&identity, ctx),
        _ => {}
    }
    None
}

fn azure(identity: &Node<'_>, ctx: &mut Context<'_>) {
    let tenant = identity.get("identityTenantId");
    let host = identity.get("identityAuthorityHost");
    report_empty(&identity.get("identityId"), ctx);
    if host.is_unknown() || tenant.is_unknown() {
        return;
    }
    if is_blank(&host) {
        report_empty(&tenant, ctx);
    } else if is_blank(&tenant) {
        ctx.report(&tenant, "`identityAuthorityHost` needs an `identityTenantId` beside it")
            .help("write the tenant, or leave the authority host out");
    }
}

fn aws(identity: &Node<'_>, ctx: &mut Context<'_>) {
    let role = identity.get("roleArn");
    let external = identity.get("externalID");
    if role.is_unknown() {
        return;
    }
    if !is_blank(&role) && identity.get("identityOwner").text() == Some("workload") {
        ctx.report(&role, "`roleArn` cannot stand beside `identityOwner: workload`")
            .help("remove one of the two: only KEDA's own identity can assume a role");
    }
    if is_blank(&role) && !is_blank(&external) && !external.is_unknown() {
        ctx.report(&external, "`externalID` needs a `roleArn` beside it")
            .help("write the role that trusts this external id");
    }
}

/// KEDA's admission wants a client with one kind of credential, and an endpoint for the cloud `Private` alone.
fn service_principal(principal: &Node<'_>, ctx: &mut Context<'_>) {
    let [secret, certificate, password, cloud, endpoint] = [
        "clientSecret",
        "clientCertificate",
        "clientCertificatePassword",
        "cloud",
        "activeDirectoryEndpoint",
    ]
    .map(|field| principal.get(field));
    for name in ["tenantId", "clientId"] {
        let node = principal.get(name);
        if node.text() == Some("") {
            ctx.report(&node, format!("`{name}` is empty"))
                .help("write the id, or remove `azureServicePrincipal`");
        }
    }
    if secret.is_set() && certificate.is_set() {
        ctx.report(&certificate, "`clientCertificate` excludes `clientSecret`")
            .at_key()
            .help("keep one of the two");
    } else if !secret.is_set() && !certificate.is_set() {
        ctx.report(principal, "`azureServicePrincipal` has neither `clientSecret` nor `clientCertificate`")
            .at_key()
            .help("name the Secret with one of the two");
    }
    if password.is_set() && !certificate.is_set() {
        ctx.report(&password, "`clientCertificatePassword` needs a `clientCertificate` beside it")
            .at_key()
            .help("name the certificate, or remove the password");
    }
    if cloud.is_unknown() || endpoint.is_unknown() {
        return;
    }
    let is_private = cloud.text().is_some_and(|cloud| cloud.eq_ignore_ascii_case("private"));
    if is_private && is_blank(&endpoint) {
        ctx.report(&cloud, "the cloud `Private` needs an `activeDirectoryEndpoint` beside it")
            .help("write the endpoint of the cloud's Entra ID");
    } else if !is_private && !is_blank(&endpoint) {
        ctx.report(&endpoint, "`activeDirectoryEndpoint` is rejected without the cloud `Private`")
            .at_key()
            .help("remove it, or write `cloud: Private`");
    }
}

fn report_empty(node: &Node<'_>, ctx: &mut Context<'_>) {
    if node.text() == Some("") {
        let name = node.pointer().steps().last().cloned().unwrap_or_default();
        ctx.report(node, format!("`{name}` is empty"))
            .help("set a value, or remove the field")
            .fix(Fix::safe(format!("remove the empty `{name}`")).remove(node));
    }
}

/// Whether the value is absent or an empty string.
fn is_blank(node: &Node<'_>) -> bool {
    !node.is_set() || node.text() == Some("")
}
