//! The decision: which findings deny, which warn, and in what words.

use std::collections::BTreeMap;

use gpulint_rules::{Engine, Finding, Index, Kind, Object};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::kinds;
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

/// What was decided; the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// Allowed without a word.
    Allowed,
    /// Allowed with warnings.
    Warned,
    /// Allowed with a patch.
    Patched,
    /// Denied.
    Denied,
    /// Not to be judged: a deletion, a subresource, an exempt namespace or account, an object
    /// that a controller made from one that was judged.
    Exempt,
    /// Allowed, because no rule knows the kind.
    UnknownKind,
    /// Allowed, because it is no Kubernetes object.
    Unparsable,
}

impl Decision {
    /// The name that programs read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Decision::Allowed => "allowed",
            Decision::Warned => "warned",
            Decision::Patched => "patched",
            Decision::Denied => "denied",
            Decision::Exempt => "exempt",
            Decision::UnknownKind => "unknown-kind",
            Decision::Unparsable => "unparsable",
        }
    }
}

/// An answer, and what a server counts of it.
#[derive(Debug)]
pub struct Answer {
    /// The AdmissionReview to send back.
    pub body: Vec<u8>,
    /// The operation: one of the four that exist, or `OTHER`.
    pub operation: &'static str,
    /// The kind, where a rule is asked about it.
    pub kind: Option<Kind>,
    /// What was decided.
    pub decision: Decision,
    /// The rules of the findings that were sent, one entry a finding.
    pub rules: Vec<&'static str>,
}

/// Answers an AdmissionReview v1: denies what the configuration denies, warns of the rest.
///
/// `index` holds the other objects that are known. What cannot be judged (a deletion, a
/// subresource, an object that is no Kubernetes object) is allowed.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub fn review(engine: &Engine, index: &Index, body: &[u8]) -> Result<Vec<u8>, ReviewError> {
    answer(engine, index, body).map(|answer| answer.body)
}

/// As [`review()`], with what a server counts.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub fn answer(engine: &Engine, index: &Index, body: &[u8]) -> Result<Answer, ReviewError> {
    let request = request(body)?;
    let (response, decision, rules) = respond(engine, index, &request);
    Ok(Answer {
        body: sent(response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision,
        rules,
    })
}

/// Reads the request of an AdmissionReview v1.
pub(crate) fn request(body: &[u8]) -> Result<Request<'_>, ReviewError> {
    let review: ReviewIn<'_> = serde_json::from_slice(body)?;
    if review.api_version != "admission.k8s.io/v1" || review.kind != "AdmissionReview" {
        return Err(ReviewError::Kind {
            version: review.api_version,
            kind: review.kind,
        });
    }
    review.request.ok_or(ReviewError::NoRequest)
}

/// Writes the AdmissionReview of a response.
pub(crate) fn sent(response: Response) -> Result<Vec<u8>, ReviewError> {
    Ok(serde_json::to_vec(&ReviewOut {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    })?)
}

/// The operation as a word of a fixed set.
pub(crate) fn operation(request: &Request<'_>) -> &'static str {
    ["CREATE", "UPDATE", "DELETE", "CONNECT"]
        .into_iter()
        .find(|known| *known == request.operation)
        .unwrap_or("OTHER")
}

/// The kind of the request, where a rule is asked about it.
pub(crate) fn kind(request: &Request<'_>) -> Option<Kind> {
    kinds::judged()
        .iter()
        .copied()
        .find(|k| k.group == request.kind.group && k.kind == request.kind.kind)
}

/// Whether the request is one that is never judged, whatever it holds.
pub(crate) fn is_exempt(engine: &Engine, request: &Request<'_>) -> bool {
    let judged = matches!(request.operation.as_str(), "CREATE" | "UPDATE")
        && request
            .sub_resource
            .as_deref()
            .unwrap_or_default()
            .is_empty();
    let namespaces = &engine.settings().webhook.exempt_namespaces;
    let namespace = request.namespace.as_ref();
    !judged || is_karpenter(request) || namespace.is_some_and(|n| namespaces.contains(n))
}

/// Karpenter's own account: it annotates pools, makes claims, and must never be held up.
fn is_karpenter(request: &Request<'_>) -> bool {
    request
        .user_info
        .username
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(_, account)| account == "karpenter")
}

/// Whether a controller made the object from one that was judged itself. To deny a Pod would not
/// stop its Deployment; it would only keep what runs already from being replaced.
pub(crate) fn is_derived(object: &Object) -> bool {
    let owners = object.path(&["metadata", "ownerReferences"]);
    owners.items().any(|owner| {
        let group = owner
            .get("apiVersion")
            .text()
            .map(|v| match v.split_once('/') {
                Some((group, _)) => group,
                None => "",
            });
        let kind = owner.get("kind").text();
        owner.get("controller").bool() == Some(true)
            && kinds::judged()
                .iter()
                .any(|k| Some(k.group) == group && Some(k.kind) == kind)
    })
}

/// Whether the object is being deleted: what is left is to let its finalizers go.
pub(crate) fn is_going(object: &Object) -> bool {
    object.path(&["metadata", "deletionTimestamp"]).exists()
}

fn respond(
    engine: &Engine,
    index: &Index,
    request: &Request<'_>,
) -> (Response, Decision, Vec<&'static str>) {
    let mut response = Response {
        uid: request.uid.clone(),
        allowed: true,
        ..Response::default()
    };
    if is_exempt(engine, request) {
        return (response, Decision::Exempt, Vec::new());
    }
    let Some(object) = parse(request.object, request) else {
        response.warnings.push(
            "gpulint: this is no Kubernetes object with apiVersion and kind; not judged".to_owned(),
        );
        return (response, Decision::Unparsable, Vec::new());
    };
    if is_derived(&object) || is_going(&object) {
        return (response, Decision::Exempt, Vec::new());
    }
    let id = object.id();
    if !kinds::is_judged(&id.group, &id.kind) {
        let name = if id.group.is_empty() {
            id.kind.clone()
        } else {
            format!("{}.{}", id.kind, id.group)
        };
        response.warnings.push(cut(&format!(
            "gpulint: no rule knows the kind {name}; not judged"
        )));
        return (response, Decision::UnknownKind, Vec::new());
    }
    let findings = judge(engine, index, &object);
    let mut old = match (request.operation.as_str(), request.old_object) {
        ("UPDATE", Some(_)) if !findings.is_empty() => parse(request.old_object, request)
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
    for (key, findings) in [("denied", &denied), ("warned", &warned)] {
        if !findings.is_empty() {
            response.audit_annotations.insert(key, ids(findings));
        }
    }
    let decision = match (denied.is_empty(), warned.is_empty()) {
        (false, _) => Decision::Denied,
        (true, false) => Decision::Warned,
        (true, true) => Decision::Allowed,
    };
    if decision == Decision::Denied {
        response.allowed = false;
        response.status = Some(status(&object, request, &denied));
    }
    let rules = denied.iter().chain(&warned).map(|f| f.rule.id).collect();
    (response, decision, rules)
}

/// The rule ids, each once, in the order of the findings.
fn ids(findings: &[&Finding]) -> String {
    let mut ids: Vec<&str> = Vec::new();
    for finding in findings {
        if !ids.contains(&finding.rule.id) {
            ids.push(finding.rule.id);
        }
    }
    ids.join(",")
}

/// The object with the request's namespace and name where it does not say them itself.
pub(crate) fn parse(raw: Option<&RawValue>, request: &Request<'_>) -> Option<Object> {
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
pub(crate) fn identity(finding: &Finding) -> (&'static str, String, String) {
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
        assert!(
            answer["auditAnnotations"]["denied"]
                .as_str()
                .unwrap()
                .contains("gpu-pool-untainted")
        );
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

    fn decide(extra: &Value) -> Answer {
        let engine = Engine::new(Settings::default());
        let mut request =
            json!({"uid": "u-1", "name": "gpu", "operation": "CREATE", "object": pool(json!({}))});
        request
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        answer(&engine, &Index::new(false), body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn karpenter_and_derived_objects_are_never_held_up() {
        let user = json!({"userInfo": {"username": "system:serviceaccount:kube-system:karpenter"}});
        assert_eq!(decide(&user).decision, Decision::Exempt);
        let user = json!({"userInfo": {"username": "system:serviceaccount:karpenter:someone"}});
        assert_eq!(decide(&user).decision, Decision::Denied);
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "controller": true});
        let pod = |owner: &Value| {
            json!({"object": {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "x-1", "ownerReferences": [owner]}, "spec": {"containers": []}}})
        };
        assert_eq!(decide(&pod(&owner)).decision, Decision::Exempt);
        let mut other = owner.clone();
        other["controller"] = false.into();
        assert_ne!(decide(&pod(&other)).decision, Decision::Exempt);
        other = owner;
        other["apiVersion"] = "example.com/v1".into();
        assert_ne!(decide(&pod(&other)).decision, Decision::Exempt);
    }

    #[test]
    fn what_no_rule_knows_is_allowed_with_a_warning() {
        let unknown =
            decide(&json!({"object": {"apiVersion": "example.com/v1", "kind": "NodePool"}}));
        assert_eq!(unknown.decision, Decision::UnknownKind);
        assert!(
            String::from_utf8(unknown.body)
                .unwrap()
                .contains("NodePool.example.com")
        );
        let broken = decide(&json!({"object": ["no", "object"]}));
        assert_eq!(broken.decision, Decision::Unparsable);
        assert!(String::from_utf8(broken.body).unwrap().contains("warnings"));
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
