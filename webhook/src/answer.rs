//! The decision: which findings deny, which warn, and in what words.

use std::collections::BTreeMap;

use gpulint_rules::{Engine, Finding, Index, Object};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::{Cause, Details, Request, Response, ReviewIn, ReviewOut, Status};

/// Longest warning that clients are sure to show, in characters (Kubernetes' own advice).
const WARNING_LENGTH: usize = 120;
/// All warnings together, in bytes (the API server's limit).
const WARNINGS_LENGTH: usize = 4096;

/// What was read is no AdmissionReview.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// No JSON, or JSON of another shape.
    #[error("this is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version or kind.
    #[error("expected AdmissionReview admission.k8s.io/v1, got {kind} {version}")]
    Kind {
        /// The apiVersion that was read.
        version: String,
        /// The kind that was read.
        kind: String,
    },
    /// A review that asks nothing.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// Answers an AdmissionReview v1: denies what the configuration denies, warns of the rest.
///
/// `index` holds the other objects that are known. What cannot be judged (a deletion, a
/// subresource, an object that is no Kubernetes object) is allowed.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub fn review(engine: &Engine, index: &Index, body: &[u8]) -> Result<Vec<u8>, ReviewError> {
    let review: ReviewIn<'_> = serde_json::from_slice(body)?;
    if review.api_version != "admission.k8s.io/v1" || review.kind != "AdmissionReview" {
        return Err(ReviewError::Kind {
            version: review.api_version,
            kind: review.kind,
        });
    }
    let request = review.request.ok_or(ReviewError::NoRequest)?;
    let out = ReviewOut {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response: respond(engine, index, &request),
    };
    Ok(serde_json::to_vec(&out)?)
}

fn respond(engine: &Engine, index: &Index, request: &Request<'_>) -> Response {
    let mut response = Response {
        uid: request.uid.clone(),
        allowed: true,
        ..Response::default()
    };
    let judged = matches!(request.operation.as_str(), "CREATE" | "UPDATE")
        && request
            .sub_resource
            .as_deref()
            .unwrap_or_default()
            .is_empty();
    if !judged || is_exempt(engine, request) {
        return response;
    }
    let Some(object) = parse(request.object, request) else {
        response.warnings.push(
            "gpulint: this is no Kubernetes object with apiVersion and kind; not judged".to_owned(),
        );
        return response;
    };
    let findings = judge(engine, index, &object);
    let mut old = match (request.operation.as_str(), request.old_object) {
        ("UPDATE", Some(_)) => parse(request.old_object, request)
            .map(|old| counts(&judge(engine, index, &old)))
            .unwrap_or_default(),
        _ => BTreeMap::new(),
    };
    let webhook = &engine.settings().webhook;
    let mut denied = Vec::new();
    let mut warned = Vec::new();
    for finding in &findings {
        // What the old object had already cannot deny: an update must not be held up by what it
        // does not make worse.
        let had = old.get_mut(&identity(finding)).is_some_and(|n| {
            let had = *n > 0;
            *n = n.saturating_sub(1);
            had
        });
        if !had && webhook.deny.is_some_and(|least| finding.severity >= least) {
            denied.push(finding);
        } else if webhook.warn.is_some_and(|least| finding.severity >= least) {
            warned.push(finding);
        }
    }
    response.warnings = warnings(&warned);
    if !denied.is_empty() {
        response.allowed = false;
        response.status = Some(status(&object, request, &denied));
    }
    response
}

fn is_exempt(engine: &Engine, request: &Request<'_>) -> bool {
    let namespaces = &engine.settings().webhook.exempt_namespaces;
    request
        .namespace
        .as_ref()
        .is_some_and(|n| namespaces.contains(n))
}

/// The object with the request's namespace and name where it does not say them itself.
fn parse(raw: Option<&RawValue>, request: &Request<'_>) -> Option<Object> {
    let mut value: Value = serde_json::from_str(raw?.get()).ok()?;
    if let Some(root) = value.as_object_mut() {
        let metadata = root
            .entry("metadata")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let (Some(metadata), Some(namespace)) = (metadata.as_object_mut(), &request.namespace)
            && !namespace.is_empty()
        {
            metadata
                .entry("namespace")
                .or_insert_with(|| Value::String(namespace.clone()));
        }
    }
    Object::from_json(&value)
}

fn judge(engine: &Engine, index: &Index, object: &Object) -> Vec<Finding> {
    engine.review_object(object, index).findings
}

/// What makes two findings the same one: the rule, the place, the words.
fn identity(finding: &Finding) -> (&'static str, String, String) {
    let field = finding.place.pointer().map(ToString::to_string);
    (
        finding.rule.id,
        field.unwrap_or_default(),
        finding.message.clone(),
    )
}

fn counts(findings: &[Finding]) -> BTreeMap<(&'static str, String, String), usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(identity(finding)).or_insert(0) += 1;
    }
    counts
}

fn field(finding: &Finding) -> String {
    finding
        .place
        .pointer()
        .map(gpulint_rules::Pointer::field)
        .unwrap_or_default()
}

/// The lines of a denial: as the API server's own validation prints them.
fn status(object: &Object, request: &Request<'_>, denied: &[&Finding]) -> Status {
    let id = object.id();
    let causes: Vec<Cause> = denied
        .iter()
        .map(|finding| Cause {
            reason: "FieldValueInvalid",
            field: field(finding),
            message: cause(finding),
        })
        .collect();
    let lines: Vec<String> = causes
        .iter()
        .map(|cause| {
            if cause.field.is_empty() {
                cause.message.clone()
            } else {
                format!("{}: {}", cause.field, cause.message)
            }
        })
        .collect();
    Status {
        code: 422,
        reason: "Invalid",
        message: lines.join("\n"),
        details: Details {
            name: if id.name.is_empty() {
                request.name.clone()
            } else {
                id.name.clone()
            },
            group: id.group.clone(),
            kind: id.kind.clone(),
            causes,
        },
    }
}

fn cause(finding: &Finding) -> String {
    let mut text = format!("gpulint {}: {}", finding.rule.id, finding.message);
    if let Some(help) = &finding.help {
        text.push_str("; ");
        text.push_str(help);
    }
    text
}

/// Warnings within Kubernetes' limits; what does not fit is counted in the last one.
fn warnings(findings: &[&Finding]) -> Vec<String> {
    const TAIL: usize = 64;
    let mut out = Vec::new();
    let mut length = 0;
    for (at, finding) in findings.iter().enumerate() {
        let text = cut(&format!("gpulint {}: {}", finding.rule.id, finding.message));
        if length + text.len() + TAIL > WARNINGS_LENGTH {
            out.push(format!("gpulint: {} more findings", findings.len() - at));
            break;
        }
        length += text.len();
        out.push(text);
    }
    out
}

fn cut(text: &str) -> String {
    if text.chars().count() <= WARNING_LENGTH {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(WARNING_LENGTH - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpulint_rules::Settings;
    use serde_json::json;

    fn pool(extra: Value) -> Value {
        let mut spec = json!({
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                ]}},
            "limits": {"nvidia.com/gpu": 8},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m",
                           "budgets": [{"nodes": "10%"}]}
        });
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec})
    }

    fn ask(operation: &str, object: Value, old: Value) -> Value {
        let engine = Engine::new(Settings::default());
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "name": "gpu", "operation": operation, "object": object, "oldObject": old}});
        let answer = review(&engine, &Index::new(false), body.to_string().as_bytes()).unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["response"].take()
    }

    #[test]
    fn a_bad_pool_is_denied_as_the_api_server_would() {
        let answer = ask("CREATE", pool(json!({})), Value::Null);
        assert_eq!(answer["allowed"], false);
        assert_eq!(answer["uid"], "u-1");
        assert_eq!(answer["status"]["code"], 422);
        assert_eq!(answer["status"]["reason"], "Invalid");
        assert_eq!(answer["status"]["details"]["name"], "gpu");
        assert_eq!(answer["status"]["details"]["group"], "karpenter.sh");
        let causes = answer["status"]["details"]["causes"].as_array().unwrap();
        let taint = causes
            .iter()
            .find(|c| c["field"] == "spec.template.spec.taints")
            .unwrap();
        let message = taint["message"].as_str().unwrap();
        assert!(
            message.starts_with("gpulint gpu-pool-untainted: "),
            "{message}"
        );
    }

    #[test]
    fn an_update_that_makes_nothing_worse_passes_with_a_warning() {
        let answer = ask("UPDATE", pool(json!({"weight": 10})), pool(json!({})));
        assert_eq!(answer["allowed"], true);
        let warnings = answer["warnings"].to_string();
        assert!(warnings.contains("gpu-pool-untainted"), "{warnings}");
    }

    #[test]
    fn deletions_and_subresources_are_never_judged() {
        assert_eq!(ask("DELETE", Value::Null, pool(json!({})))["allowed"], true);
        let engine = Engine::new(Settings::default());
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "UPDATE", "subResource": "status", "object": pool(json!({}))}});
        let answer = review(&engine, &Index::new(false), body.to_string().as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["allowed"], true);
    }

    #[test]
    fn what_is_no_review_is_an_error() {
        let engine = Engine::new(Settings::default());
        for body in [
            "",
            "{}",
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
        ] {
            assert!(
                review(&engine, &Index::new(false), body.as_bytes()).is_err(),
                "{body}"
            );
        }
    }

    #[test]
    fn warnings_are_cut() {
        assert_eq!(cut(&"x".repeat(121)).chars().count(), 120);
        assert_eq!(cut("short"), "short");
    }
}
