//! Validation: which findings deny a request, which only warn, and the text of the response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpulint_rules::lint::settings::Thresholds;
use gpulint_rules::lint::suppress::ANNOTATION;
use gpulint_rules::{Cluster, Engine, Identity, Kind, Lookup, Settings, find_rule};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::confirm::ObjectRef;
use crate::evaluate::{
    Evaluation, Evaluator, FindingSummary, Verdict, created_at, differ_in_bookkeeping_only,
};
use crate::exemption::{is_derived, is_exempt};
use crate::kinds;
use crate::logs::cut;
use crate::wire::{Cause, Details, Request, Response, ReviewIn, ReviewOut, Status};

/// Maximum length of a warning, in characters. The API server may truncate longer ones:
/// <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response>.
const MAX_WARNING_CHARS: usize = 120;
/// Maximum size of all warnings together, in bytes; the API server drops the rest.
const MAX_WARNINGS_BYTES: usize = 4096;

/// Maximum number of causes of a denial; further ones are counted.
const MAX_CAUSES: usize = 100;
/// Maximum length of the field and of the message of a cause, in characters: names and values in an object have no
/// such limit.
const MAX_CAUSE_CHARS: usize = 1024;
/// Minimum age of an object for warnings about absent other objects on its update. Objects that are applied together
/// with it exist by then.
const SETTLED_AFTER: Duration = Duration::from_secs(600);

/// The body is not an AdmissionReview with a request.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or fields of the wrong type.
    #[error("this is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected AdmissionReview admission.k8s.io/v1, got {kind} {version}")]
    Kind { version: String, kind: String },
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// The outcome of a review; a label value of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    Allowed,
    Warned,
    Patched,
    Denied,
    /// Allowed without running rules: a deletion, a subresource, an exempt namespace or account, an
    /// object whose controller is checked itself.
    Exempt,
    /// Allowed, because no rule checks the kind.
    UnknownKind,
    /// Allowed, because it is not a Kubernetes object.
    Unparsable,
    /// Allowed, because a rule panicked.
    Failed,
}

impl Decision {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Decision::Allowed => "allowed",
            Decision::Warned => "warned",
            Decision::Patched => "patched",
            Decision::Denied => "denied",
            Decision::Exempt => "exempt",
            Decision::UnknownKind => "unknown-kind",
            Decision::Unparsable => "unparsable",
            Decision::Failed => "failed",
        }
    }
}

/// The sender of a review. The default is a person with `gpulint review`, before the API server has validated the
/// object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReviewContext {
    /// Whether the API server sends it. It calls validating webhooks after its own validation has passed, so a finding
    /// that says that the API server rejects the object is wrong (gpulint's schemas are older than the cluster's), and
    /// warns instead of denying.
    pub from_api_server: bool,
    /// Whether watches fill the snapshot: a kind that is not complete in it has not been listed yet.
    pub cluster_is_fed: bool,
    /// The time of the review, which determines the age of an updated object; without it every object counts as new.
    pub now: Option<SystemTime>,
}

/// A response, with the values of its metrics.
#[derive(Debug)]
pub struct ReviewOutcome {
    /// The AdmissionReview to send back.
    pub body: Vec<u8>,
    /// The operation: one of the four known ones, or `OTHER`.
    pub(crate) operation: &'static str,
    /// The kind, if a rule checks it.
    pub(crate) kind: Option<Kind>,
    pub(crate) decision: Decision,
    /// The rule of each finding that was sent.
    pub(crate) rules: Vec<&'static str>,
    /// Whether some rules could not report, because a kind that they read has not been listed yet.
    pub(crate) unsynced: bool,
    /// The objects on which a denial depends and that have to be read first; until then its findings warn.
    pub(crate) to_confirm: Vec<ObjectRef>,
}

/// Answers an AdmissionReview v1: denies or warns as configured.
///
/// `cluster` contains the other known objects of the cluster. Requests that no rule can check (a deletion, a
/// subresource, an object without `kind`) are allowed.
///
/// # Errors
/// [`ReviewError`] if `body` is not an AdmissionReview v1 with a request.
pub fn review(engine: &Engine, cluster: &Cluster, body: &[u8]) -> Result<Vec<u8>, ReviewError> {
    review_in_context(engine, cluster, ReviewContext::default(), body).map(|outcome| outcome.body)
}

/// Like [`review()`], in a context, with the values of the metrics.
///
/// # Errors
/// [`ReviewError`] if `body` is not an AdmissionReview v1 with a request.
pub fn review_in_context(
    engine: &Engine,
    cluster: &Cluster,
    context: ReviewContext,
    body: &[u8],
) -> Result<ReviewOutcome, ReviewError> {
    review_with(Evaluator::new(engine, cluster), context, body)
}

/// Like [`review_in_context()`], with an evaluator that may have a cache.
pub(crate) fn review_with(
    evaluator: Evaluator<'_>,
    context: ReviewContext,
    body: &[u8],
) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let mut decided = decide(evaluator, context, &request);
    decided.response.uid.clone_from(&request.uid);
    Ok(ReviewOutcome {
        body: encode(decided.response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision: decided.decision,
        rules: decided.rules,
        unsynced: decided.unsynced,
        to_confirm: decided.to_confirm,
    })
}

/// Allows a request because evaluating it failed, with a warning.
///
/// # Errors
/// [`ReviewError`] if `body` is not an AdmissionReview v1 with a request.
pub(crate) fn fail_open(body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let response = Response {
        uid: request.uid.clone(),
        allowed: true,
        warnings: vec!["gpulint: checking this failed, which is a defect of gpulint".to_owned()],
        ..Response::default()
    };
    Ok(ReviewOutcome {
        body: encode(response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision: Decision::Failed,
        rules: Vec::new(),
        unsynced: false,
        to_confirm: Vec::new(),
    })
}

/// Parses the request of an AdmissionReview v1.
pub(crate) fn parse_request(body: &[u8]) -> Result<Request<'_>, ReviewError> {
    let review: ReviewIn<'_> = serde_json::from_slice(body)?;
    if review.api_version != "admission.k8s.io/v1" || review.kind != "AdmissionReview" {
        return Err(ReviewError::Kind { version: review.api_version, kind: review.kind });
    }
    review.request.ok_or(ReviewError::NoRequest)
}

/// Serializes the AdmissionReview of a response.
pub(crate) fn encode(response: Response) -> Result<Vec<u8>, ReviewError> {
    Ok(serde_json::to_vec(&ReviewOut {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    })?)
}

/// The operation as a label value.
pub(crate) fn operation(request: &Request<'_>) -> &'static str {
    ["CREATE", "UPDATE", "DELETE", "CONNECT"]
        .into_iter()
        .find(|known| *known == request.operation)
        .unwrap_or("OTHER")
}

/// The kind of the request, if a rule checks it.
pub(crate) fn kind(request: &Request<'_>) -> Option<Kind> {
    kinds::checked().iter().copied().find(|k| k.group == request.kind.group && k.kind == request.kind.kind)
}

/// A decision before it is serialized.
struct Decided {
    response: Response,
    decision: Decision,
    rules: Vec<&'static str>,
    unsynced: bool,
    to_confirm: Vec<ObjectRef>,
}

impl Decided {
    /// Allowed without running rules.
    fn allowed(decision: Decision, warning: Option<String>) -> Decided {
        Decided {
            response: Response {
                allowed: true,
                warnings: warning.into_iter().collect(),
                ..Response::default()
            },
            decision,
            rules: Vec::new(),
            unsynced: false,
            to_confirm: Vec::new(),
        }
    }
}

fn decide(evaluator: Evaluator<'_>, context: ReviewContext, request: &Request<'_>) -> Decided {
    if is_exempt(evaluator.engine, request)
        || is_derived(evaluator.cluster, evaluator.derived, request.object, request)
    {
        return Decided::allowed(Decision::Exempt, None);
    }
    let refused = refused_suppression(evaluator.engine, request);
    let object = refused.as_ref().map(|refused| &*refused.object).or(request.object);
    let evaluation = evaluator.evaluate(object, request);
    let findings = match &evaluation.verdict {
        Verdict::NoObject => {
            let warning = "gpulint: this is no Kubernetes object with apiVersion and kind; not checked";
            return Decided::allowed(Decision::Unparsable, Some(warning.to_owned()));
        }
        Verdict::Exempt => return Decided::allowed(Decision::Exempt, None),
        Verdict::UnknownKind => {
            let name = if evaluation.group.is_empty() {
                evaluation.kind.clone()
            } else {
                format!("{}.{}", evaluation.kind, evaluation.group)
            };
            let warning = truncate(&format!("gpulint: no rule knows the kind {name}; not checked"));
            return Decided::allowed(Decision::UnknownKind, Some(warning));
        }
        Verdict::Findings(findings) => findings,
    };
    // The old object is evaluated only if it can change the decision.
    let thresholds = thresholds(evaluator, request);
    let may_deny = thresholds.deny.is_some_and(|least| findings.iter().any(|f| f.severity >= least));
    let before = match request.operation.as_str() {
        "UPDATE" if may_deny => evaluator.evaluate(request.old_object, request),
        _ => Arc::default(),
    };
    let mut old = count_by_identity(before.findings());
    let (mut denied, mut unconfirmed, mut warned) = (Vec::new(), Vec::new(), Vec::new());
    let mut accepted_by_api_server = Vec::new();
    let is_settled = is_settled(context, request);
    for finding in findings {
        // An absent object may be applied next, in any order.
        if finding.reports_absence && !is_settled {
            continue;
        }
        // A finding that the old object also has does not deny: an update must not be blocked by a problem that it did
        // not introduce.
        let had = old.get_mut(&finding.identity).is_some_and(|n| {
            let had = *n > 0;
            *n = n.saturating_sub(1);
            had
        });
        let denies = !had && thresholds.deny.is_some_and(|least| finding.severity >= least);
        let accepted_by_server = context.from_api_server && finding.is_for_api_server;
        if denies && accepted_by_server {
            accepted_by_api_server.push(finding);
        }
        if denies && !accepted_by_server && !finding.reports_absence {
            if evaluator.confirmed.is_none_or(|confirmed| confirmed.holds(&finding.rests_on)) {
                denied.push(finding);
            } else {
                unconfirmed.push(finding);
            }
        } else if thresholds.warn.is_some_and(|least| finding.severity >= least) {
            warned.push(finding);
        }
    }
    // Owners change without user action, and finalizers have to be removable.
    let rejects = !denied.is_empty() || !unconfirmed.is_empty();
    let is_forced = rejects && request.operation == "UPDATE" && differ_in_bookkeeping_only(request);
    if is_forced {
        warned.append(&mut denied);
    }
    let mut to_confirm = Vec::new();
    for object in unconfirmed.iter().flat_map(|finding| &finding.rests_on).filter(|_| !is_forced) {
        if !to_confirm.contains(object) {
            to_confirm.push(object.clone());
        }
    }
    warned.append(&mut unconfirmed);
    let (group, kind) = (&evaluation.group, &evaluation.kind);
    let unsynced =
        context.cluster_is_fed && !kinds::is_synced_for(evaluator.engine, evaluator.cluster, group, kind);
    let notes = refused.map(|refused| refused.warning).into_iter();
    let notes = notes.chain(unsynced.then(|| UNSYNCED.to_owned()));
    let mut response =
        Response { allowed: denied.is_empty(), warnings: warnings(&warned, notes), ..Response::default() };
    let lists = [("denied", &denied), ("warned", &warned), ("taken-by-api-server", &accepted_by_api_server)];
    for (key, findings) in lists {
        if !findings.is_empty() {
            response.audit_annotations.insert(key, rule_ids(findings));
        }
    }
    let decision = match (denied.is_empty(), response.warnings.is_empty()) {
        (false, _) => Decision::Denied,
        (true, false) => Decision::Warned,
        (true, true) => Decision::Allowed,
    };
    if decision == Decision::Denied {
        response.status = Some(denial_status(evaluator.engine.settings(), &evaluation, request, &denied));
    }
    let rules = denied.iter().chain(&warned).map(|f| f.rule).collect();
    Decided { response, decision, rules, unsynced, to_confirm }
}

/// The thresholds for the namespace of a request.
fn thresholds(evaluator: Evaluator<'_>, request: &Request<'_>) -> Thresholds {
    let name = request.namespace.as_deref().filter(|name| !name.is_empty());
    let webhook = &evaluator.engine.settings().webhook;
    let by_labels = webhook.namespaces.iter().any(|policy| policy.selector.is_some());
    let namespace = name.filter(|_| by_labels).and_then(|name| {
        match evaluator.cluster.find(Kind::NAMESPACE, "default", name) {
            Lookup::Found(namespace) => Some(namespace),
            _ => None,
        }
    });
    let labels = namespace.map(|namespace| namespace.path(&["metadata", "labels"]));
    webhook.thresholds(name, labels.as_ref())
}

/// A suppression that is ignored, because the sender of the request may not suppress.
struct RefusedSuppression {
    /// The object with the suppressions that it had before.
    object: Box<RawValue>,
    warning: String,
}

/// The suppression that a request adds or changes, if its sender may not. An unchanged one is valid for any sender.
fn refused_suppression(engine: &Engine, request: &Request<'_>) -> Option<RefusedSuppression> {
    let suppressors = engine.settings().webhook.may_suppress.as_ref()?;
    let user = &request.user_info;
    if suppressors.include(&user.username, &user.groups) {
        return None;
    }
    let read = |raw: Option<&RawValue>| serde_json::from_str::<Value>(raw?.get()).ok();
    let allows = |object: &Value| object.get("metadata")?.get("annotations")?.get(ANNOTATION).cloned();
    let mut object = read(request.object)?;
    let allowed = allows(&object)?;
    let before = read(request.old_object).and_then(|old| allows(&old));
    if before.as_ref() == Some(&allowed) {
        return None;
    }
    let annotations = object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?;
    match before {
        Some(before) => annotations.insert(ANNOTATION.to_owned(), before),
        None => annotations.remove(ANNOTATION),
    };
    Some(RefusedSuppression {
        object: serde_json::value::to_raw_value(&object).ok()?,
        warning: format!(
            "gpulint: the annotation `{ANNOTATION}` does not count: you may not suppress findings"
        ),
    })
}

/// Whether the request updates an object that is older than [`SETTLED_AFTER`].
fn is_settled(context: ReviewContext, request: &Request<'_>) -> bool {
    let created = request.old_object.filter(|_| request.operation == "UPDATE").and_then(created_at);
    let age = context.now.zip(created).and_then(|(now, created)| now.duration_since(created).ok());
    age.is_some_and(|age| age > SETTLED_AFTER)
}

/// The distinct rule ids, in the order of the findings.
fn rule_ids(findings: &[&FindingSummary]) -> String {
    let mut ids: Vec<&str> = Vec::new();
    for finding in findings {
        if !ids.contains(&finding.rule) {
            ids.push(finding.rule);
        }
    }
    ids.join(",")
}

fn count_by_identity(findings: &[FindingSummary]) -> BTreeMap<&Identity, usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(&finding.identity).or_insert(0) += 1;
    }
    counts
}

/// The status of a denial, in the form of the API server's own validation errors. Its size is limited: an object may
/// have ten thousand findings.
fn denial_status(
    settings: &Settings,
    evaluation: &Evaluation,
    request: &Request<'_>,
    denied: &[&FindingSummary],
) -> Status {
    let mut causes: Vec<Cause> = denied
        .iter()
        .take(MAX_CAUSES)
        .map(|finding| Cause {
            reason: "FieldValueInvalid",
            field: cut(&finding.field, MAX_CAUSE_CHARS),
            message: cut(&cause_message(finding), MAX_CAUSE_CHARS),
        })
        .collect();
    let more = denied.len() - causes.len();
    let more = (more > 0).then(|| format!("gpulint: {more} more findings"));
    let user = &request.user_info;
    let may_suppress = settings.webhook.may_suppress.as_ref();
    let may_suppress = may_suppress.is_none_or(|who| who.include(&user.username, &user.groups));
    let help = more.into_iter().chain(what_to_do(settings, may_suppress, denied));
    causes.extend(help.map(|message| Cause { reason: "Help", field: String::new(), message }));
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
            name: if evaluation.name.is_empty() { request.name.clone() } else { evaluation.name.clone() },
            group: evaluation.group.clone(),
            kind: evaluation.kind.clone(),
            causes,
        },
    }
}

/// Where the reasons are documented, and how to let one object pass.
fn what_to_do(settings: &Settings, may_suppress: bool, denied: &[&FindingSummary]) -> Option<String> {
    let rule = denied.first()?.rule;
    let mut text = format!("`gpulint explain {rule}` says why, and what to do");
    let group = find_rule(rule).map(|rule| rule.group.name());
    let forbidden = &settings.webhook.forbid_suppressions;
    if may_suppress && !forbidden.iter().any(|f| f == rule || f == "all" || Some(f.as_str()) == group) {
        text.push_str(&format!(
            "; to let this object pass, annotate it: {ANNOTATION}: \"{rule}: the reason\""
        ));
    }
    Some(text)
}

fn cause_message(finding: &FindingSummary) -> String {
    let mut text = format!("gpulint {}: {}", finding.rule, finding.message);
    if let Some(help) = &finding.help {
        text.push_str("; ");
        text.push_str(help);
    }
    text
}

/// The warning of [`ReviewOutcome::unsynced`].
const UNSYNCED: &str = "gpulint: the cluster's objects are not all known yet; rules about them kept silent";

/// The warnings of findings, after other notes.
fn warnings(findings: &[&FindingSummary], notes: impl Iterator<Item = String>) -> Vec<String> {
    let findings = findings.iter().map(|finding| format!("gpulint {}: {}", finding.rule, finding.message));
    bounded(notes.chain(findings).collect())
}

/// Limits warnings to Kubernetes' sizes; the last one counts those that did not fit.
pub(crate) fn bounded(texts: Vec<String>) -> Vec<String> {
    const TAIL: usize = 64;
    let mut out: Vec<String> = Vec::new();
    let mut length = 0;
    for (at, text) in texts.iter().enumerate() {
        let text = truncate(text);
        if length + text.len() + TAIL > MAX_WARNINGS_BYTES {
            out.push(format!("gpulint: {} more findings", texts.len() - at));
            break;
        }
        length += text.len();
        out.push(text);
    }
    out
}

fn truncate(text: &str) -> String {
    if text.chars().count() <= MAX_WARNING_CHARS {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MAX_WARNING_CHARS - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
