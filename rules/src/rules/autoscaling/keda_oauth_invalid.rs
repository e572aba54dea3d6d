//! The OAuth block of a TriggerAuthentication has no client or no address.
//!
//! # Why
//! With `oauth2` KEDA asks `tokenUrl` for a token in the name of `clientId`. Its admission rejects an
//! empty id, and an address that is no `http` or `https` URL.
//!
//! # Fix
//! Write the id of the client and the whole address of the token endpoint.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: queue}
//!  spec:
//!    oauth2:
//!      type: clientCredentials
//!      clientId: gpu-scaler
//! -    tokenUrl: login.example.com/token # <-
//! +    tokenUrl: https://login.example.com/token
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/>

use crate::facts::url::authority;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-oauth-invalid",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("keda_oauth_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let identity = object.path(&["spec", "podIdentity"]);
    // With other pod identities KEDA does not check the block.
    if identity.is_set() && !matches!(identity.get("provider").text()?, "azure-workload" | "aws") {
        return None;
    }
    let oauth = object.path(&["spec", "oauth2"]);
    let client = oauth.get("clientId");
    if client.text() == Some("") {
        ctx.report(&client, "`clientId` is empty").help("write the id of the client");
    }
    let address = oauth.get("tokenUrl");
    if !is_http_url(address.text()?) {
        ctx.report(&address, "`tokenUrl` is not an `http` or `https` address")
            .help("write the whole address, such as `https://login.example.com/token`");
    }
    None
}

/// Whether Go parses the text as a URL with the scheme `http` or `https` and a host. If only Go's parser
/// could decide, the result is true.
fn is_http_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else { return false };
    let host = authority(text);
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !host.is_empty()
        && !host.contains(' ')
        && !text.chars().any(|c| c.is_ascii_control())
}
