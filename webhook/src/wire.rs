//! The fields of `admission.k8s.io/v1` that gpulint reads and writes.
//!
//! These are not the types of kube-core: here the object stays unparsed JSON until it is known that rules check it,
//! and a response has the `causes` that kubectl prints line by line.

use std::collections::BTreeMap;

use gpulint_rules::Kind;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Debug, Deserialize)]
pub(crate) struct ReviewIn<'a> {
    #[serde(rename = "apiVersion")]
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(borrow)]
    pub(crate) request: Option<Request<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a> {
    pub(crate) uid: String,
    /// Kind of the object in the request. With `matchPolicy: Equivalent`, the one for which the webhook is registered.
    #[serde(default)]
    pub(crate) kind: GroupKind,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) user_info: User,
    #[serde(default)]
    pub(crate) operation: String,
    pub(crate) sub_resource: Option<String>,
    pub(crate) dry_run: Option<bool>,
    #[serde(borrow)]
    pub(crate) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) old_object: Option<&'a RawValue>,
}

/// Group and kind of an object.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct GroupKind {
    #[serde(default)]
    pub(crate) group: String,
    #[serde(default)]
    pub(crate) kind: String,
}

impl GroupKind {
    pub(crate) fn is(&self, kind: Kind) -> bool {
        kind.group == self.group && kind.kind == self.kind
    }
}

/// The client of the API server.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub(crate) username: String,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ReviewOut {
    #[serde(rename = "apiVersion")]
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) response: Response,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Response {
    pub(crate) uid: String,
    pub(crate) allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// A base64-encoded JSON Patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) patch_type: Option<&'static str>,
    /// Rule ids for the audit log; the API server prefixes each key with the name of the webhook.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) audit_annotations: BTreeMap<&'static str, String>,
}

/// The reason for a denial.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Details,
}

/// Details that kubectl prints instead of the message.
#[derive(Debug, Serialize)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) causes: Vec<Cause>,
}

/// One line of kubectl's output.
#[derive(Debug, Serialize)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}
