//! KEDA's admission refuses a TriggerAuthentication.
//!
//! # Why
//! KEDA's webhook reads the pod identity and the OAuth block of a TriggerAuthentication: an empty
//! identity, an external id without the role that it belongs to, a role beside the workload's own
//! identity, a token address that is no web address. The object is refused, and every trigger
//! that names it has no credentials.
//!
//! # Fix
//! Leave out what is empty; write `roleArn` with `externalID`, and only where KEDA itself takes
//! the role; give OAuth a client id and an `https://` address.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: queue, namespace: chat}
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
    let spec = object.get("spec");
    let identity = spec.get("podIdentity");
    if identity.is_unknown() {
        return None;
    }
    if identity.is_set() {
        match identity.get("provider").text() {
            Some("azure-workload") => azure(&identity, ctx),
            Some("aws") => aws(&identity, ctx),
            // KEDA looks at nothing else then, not even at the OAuth block.
            _ => return None,
        }
    }
    let oauth = spec.get("oauth2");
    if oauth.is_set() {
        client(&oauth, ctx);
    }
    None
}

fn azure(identity: &Node<'_>, ctx: &mut Context<'_>) {
    let tenant = identity.get("identityTenantId");
    let host = identity.get("identityAuthorityHost");
    empty(&identity.get("identityId"), ctx);
    if host.is_unknown() || tenant.is_unknown() {
        return;
    }
    if blank(&host) {
        empty(&tenant, ctx);
    } else if blank(&tenant) {
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
    if !blank(&role) && identity.get("identityOwner").text() == Some("workload") {
        ctx.report(&role, "`roleArn` cannot stand beside `identityOwner: workload`")
            .help("leave one of the two out: only KEDA itself takes a role");
    }
    if !blank(&external) && !external.is_unknown() && blank(&role) {
        ctx.report(&external, "`externalID` needs a `roleArn` beside it")
            .help("write the role that trusts this external id");
    }
}

fn client(oauth: &Node<'_>, ctx: &mut Context<'_>) {
    let id = oauth.get("clientId");
    if id.text() == Some("") {
        ctx.report(&id, "`clientId` is empty").help("write the id of the client");
    }
    let address = oauth.get("tokenUrl");
    if let Some(text) = address.text()
        && !is_web_address(text)
    {
        ctx.report(&address, "`tokenUrl` is no `http` or `https` address")
            .help("write the whole address, such as `https://login.example.com/token`");
    }
}

/// Reports a text that is written and empty.
fn empty(node: &Node<'_>, ctx: &mut Context<'_>) {
    if node.text() != Some("") {
        return;
    }
    let name = node.pointer().steps().last().cloned().unwrap_or_default();
    ctx.report(node, format!("`{name}` is empty"))
        .help("write it, or leave it out")
        .fix(Fix::safe(format!("remove the empty `{name}`")).remove(node));
}

/// Whether nothing is written, or an empty text.
fn blank(node: &Node<'_>) -> bool {
    !node.is_unknown() && (!node.is_set() || node.text() == Some(""))
}

/// Whether Go reads the text as an address with the scheme `http` or `https` and a host. Spellings
/// that only Go's reader could judge count as fine.
fn is_web_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !host.is_empty()
        && !host.contains(' ')
        && !text.chars().any(|c| c.is_ascii_control())
}
