//! A value in `data` of a Secret is not base64.
//!
//! # Why
//! The API server decodes each value in `data` and rejects the Secret if one is plain text: `illegal base64
//! data`. Pods that take a token or a password from it then wait with `CreateContainerConfigError`, or keep
//! the value of an older Secret. Kubernetes encodes what is in `stringData` by itself.
//!
//! Values that stand for another one are left alone, and so are those that a tool decrypts or looks up when it
//! applies the Secret.
//!
//! # Fix
//! Move the value to `stringData`, or encode it without a line break: `printf %s "$TOKEN" | base64`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Secret
//!  metadata: {name: database, namespace: shop}
//! -data:
//! -  user: shop_writer # <-
//! +stringData:
//! +  user: shop_writer
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/secret/#restriction-names-data>

use super::secret_forms::stands_in;
use crate::facts::base64::decoded;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "secret-not-encoded",
    kinds: &[Kind::SECRET],
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("secret_not_encoded.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let data = object.get("data");
    // SOPS encrypts each value, and may have decrypted them before they are applied.
    if object.get("sops").is_set() || object.is_partial() || data.has_unknown_key() {
        return None;
    }
    for (key, value) in data.entries() {
        let Some(text) = value.text() else { continue };
        if decoded(text).is_some() || !is_plain(text) {
            continue;
        }
        ctx.report(&value, format!("`{}` is not base64: the API server rejects the Secret", ellipsize(key)))
            .identified_by(key)
            .rejected_by(Some(Authority::ApiServer))
            .help("move it to `stringData`, or encode it: `printf %s VALUE | base64`");
    }
    None
}

/// Whether a text is a value, and not what stands for one: a template, a reference to a store of secrets, an explanation.
fn is_plain(text: &str) -> bool {
    const SIGNS: [char; 12] = ['$', '{', '}', '<', '>', '[', ']', '%', '*', '#', '|', '@'];
    let lower = text.to_ascii_lowercase();
    !text.contains(SIGNS)
        && !text.contains("://")
        && !text.contains(char::is_whitespace)
        && !stands_in(&lower)
        && !["base64", "encoded", "todo", "fill", "here", "none", "null", "vault:", "fake"]
            .iter()
            .any(|word| lower.contains(word))
}
