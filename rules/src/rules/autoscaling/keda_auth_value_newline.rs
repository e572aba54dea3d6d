//! A parameter of a TriggerAuthentication ends with a line break.
//!
//! # Why
//! KEDA hands the value of a Secret or a ConfigMap to the scaler as it is. A token that ends with a line break is
//! no valid header (`invalid header field value`), a password with one is another password, and an address with
//! one cannot be parsed: the scaler fails at each poll. `echo` writes the line break into what `base64`
//! encodes, and so does a YAML text after `|`.
//!
//! Values of several lines, such as certificates, and JSON are not reported, nor is the token of Azure Pipelines,
//! from which KEDA removes the line break.
//!
//! # Fix
//! Encode the value without it, as `printf %s "$TOKEN" | base64` does; in `stringData` and in a ConfigMap write
//! `|-`, or quotes.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: Secret
//! metadata: {name: metrics, namespace: search}
//! stringData:
//!   token: |
//!     example-token
//! ---
//! apiVersion: keda.sh/v1alpha1
//! kind: TriggerAuthentication
//! metadata: {name: metrics, namespace: search}
//! spec:
//!   secretTargetRef:
//!     - {parameter: bearerToken, name: metrics, key: token} # <-
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: v1
//! kind: Secret
//! metadata: {name: metrics, namespace: search}
//! stringData:
//!   token: example-token
//! ---
//! apiVersion: keda.sh/v1alpha1
//! kind: TriggerAuthentication
//! metadata: {name: metrics, namespace: search}
//! spec:
//!   secretTargetRef:
//!     - {parameter: bearerToken, name: metrics, key: token}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/#secrets>
//! - <https://github.com/kedacore/keda/issues/4960>

use crate::facts::base64::decoded;
use crate::rules::autoscaling::keda_auth_source_missing::{OperatorNamespace, operator_namespace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-value-newline",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    reads: &[Kind::SECRET, Kind::CONFIG_MAP, Kind::DEPLOYMENT, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    docs: docs(include_str!("keda_auth_value_newline.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The parameter whose line break the scaler removes: `azure_pipelines_scaler.go`, KEDA 2.14 to 2.21.
const TRIMMED: &str = "personalAccessToken";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for (list, kind) in [("secretTargetRef", Kind::SECRET), ("configMapTargetRef", Kind::CONFIG_MAP)] {
        for item in object.path(&["spec", list]).items() {
            parameter(object, &item, kind, ctx);
        }
    }
    None
}

fn parameter(object: &Object, item: &Node<'_>, kind: Kind, ctx: &mut Context<'_>) -> Option<()> {
    let (key, name) = (item.get("key"), item.get("name").text()?);
    let parameter = item.get("parameter").text().filter(|parameter| *parameter != TRIMMED)?;
    let namespace = match object.is(Kind::CLUSTER_TRIGGER_AUTHENTICATION).then(|| operator_namespace(ctx)) {
        None => object.namespace_or_default().to_owned(),
        Some(OperatorNamespace::Known(namespace)) => namespace,
        Some(_) => return None,
    };
    let source = ctx.partner(kind, &namespace, name)?;
    let (text, data) = (source.get("stringData").get(key.text()?), source.get("data").get(key.text()?));
    let (value, is_encoded) = if text.is_set() { (text, false) } else { (data, kind == Kind::SECRET) };
    let written = value.text()?;
    let ends =
        if is_encoded { ends_with_break(&decoded(written)?) } else { ends_with_break(written.as_bytes()) };
    if !ends {
        return None;
    }
    let kind = source.kind();
    ctx.report(
        &key,
        format!("`{}` ends with a line break, as {kind} `{}` has it", ellipsize(parameter), ellipsize(name)),
    )
    .help(if is_encoded {
        "encode the value without it: `printf %s VALUE | base64`"
    } else {
        "write the value in quotes, or after `|-`"
    })
    .related(source, &value, "the value");
    None
}

/// Whether a value is one line with a line break after it. JSON and files may end so.
fn ends_with_break(value: &[u8]) -> bool {
    let Some(line) = value.strip_suffix(b"\n") else { return false };
    !line.is_empty() && !line.contains(&b'\n') && !line.starts_with(b"{") && !line.starts_with(b"---")
}
