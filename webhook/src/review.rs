//! The decision: which findings deny, which warn, and in what words.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulint_rules::{Authority, Engine, Index, Kind};

use crate::evaluate::{Evaluation, Evaluator, FindingSummary, Identity, Verdict};
use crate::kinds;
use crate::wire::{Cause, Details, Request, Response, ReviewIn, ReviewOut, Status};

/// Longest warning that clients are sure to show, in characters (Kubernetes' own advice).
const MAX_WARNING_CHARS: usize = 120;
/// All warnings together, in bytes (the API server's limit).
const MAX_WARNINGS_BYTES: usize = 4096;

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
    /// Allowed, because judging it failed: a defect of ours.
    Failed,
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
            Decision::Failed => "failed",
        }
    }
}

/// Under what circumstances a review is answered. By default: by hand, before anybody else has
/// judged the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReviewContext {
    /// The API server asks. It calls validating webhooks when its own validation has passed, so
    /// what it would refuse by our schemas it did not refuse by its own: ours are older, and such a
    /// finding warns instead of denying.
    /// What is missing may be the next to be applied, so it warns as well.
    pub from_api_server: bool,
    /// Watches feed the index: a kind that it does not know is not listed yet.
    pub index_is_fed: bool,
}

/// An answer, and what a server counts of it.
#[derive(Debug)]
pub struct ReviewOutcome {
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
    /// Rules about other objects kept silent, because those are not listed yet.
    pub unsynced: bool,
}

/// Answers an AdmissionReview v1: denies what the configuration denies, warns of the rest.
///
/// `index` holds the other objects that are known. What cannot be judged (a deletion, a
/// subresource, an object that is no Kubernetes object) is allowed.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub fn review(engine: &Engine, index: &Index, body: &[u8]) -> Result<Vec<u8>, ReviewError> {
    review_in_context(engine, index, ReviewContext::default(), body).map(|answer| answer.body)
}

/// As [`review()`], under given circumstances and with what a server counts.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub fn review_in_context(
    engine: &Engine,
    index: &Index,
    circumstances: ReviewContext,
    body: &[u8],
) -> Result<ReviewOutcome, ReviewError> {
    review_with(Evaluator::new(engine, index), circumstances, body)
}

/// As [`answer()`], by a judge who may remember.
pub(crate) fn review_with(
    judge: Evaluator<'_>,
    circumstances: ReviewContext,
    body: &[u8],
) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let mut ruling = decide(judge, circumstances, &request);
    ruling.response.uid.clone_from(&request.uid);
    Ok(ReviewOutcome {
        body: encode(ruling.response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision: ruling.decision,
        rules: ruling.rules,
        unsynced: ruling.unsynced,
    })
}

/// Allows a request that could not be judged, and says so.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub(crate) fn fail_open(body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let response = Response {
        uid: request.uid.clone(),
        allowed: true,
        warnings: vec!["gpulint: judging this failed, which is a defect of gpulint".to_owned()],
        ..Response::default()
    };
    Ok(ReviewOutcome {
        body: encode(response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision: Decision::Failed,
        rules: Vec::new(),
        unsynced: false,
    })
}

/// Reads the request of an AdmissionReview v1.
pub(crate) fn parse_request(body: &[u8]) -> Result<Request<'_>, ReviewError> {
    let review: ReviewIn<'_> = serde_json::from_slice(body)?;
    if review.api_version != "admission.k8s.io/v1" || review.kind != "AdmissionReview" {
        return Err(ReviewError::Kind { version: review.api_version, kind: review.kind });
    }
    review.request.ok_or(ReviewError::NoRequest)
}

/// Writes the AdmissionReview of a response.
pub(crate) fn encode(response: Response) -> Result<Vec<u8>, ReviewError> {
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
    kinds::checked().iter().copied().find(|k| k.group == request.kind.group && k.kind == request.kind.kind)
}

/// Whether the request is one that is never judged, whatever it holds.
pub(crate) fn is_exempt(engine: &Engine, request: &Request<'_>) -> bool {
    let judged = matches!(request.operation.as_str(), "CREATE" | "UPDATE")
        && request.sub_resource.as_deref().unwrap_or_default().is_empty();
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

/// What is decided, before it is written.
struct Decided {
    response: Response,
    decision: Decision,
    rules: Vec<&'static str>,
    unsynced: bool,
}

impl Decided {
    /// Allowed without being judged.
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
        }
    }
}

fn decide(judge: Evaluator<'_>, circumstances: ReviewContext, request: &Request<'_>) -> Decided {
    if is_exempt(judge.engine, request) {
        return Decided::allowed(Decision::Exempt, None);
    }
    let judgement = judge.evaluate(request.object, request);
    let findings = match &judgement.verdict {
        Verdict::NoObject => {
            let warning = "gpulint: this is no Kubernetes object with apiVersion and kind; not judged";
            return Decided::allowed(Decision::Unparsable, Some(warning.to_owned()));
        }
        Verdict::Exempt => return Decided::allowed(Decision::Exempt, None),
        Verdict::UnknownKind => {
            let name = if judgement.group.is_empty() {
                judgement.kind.clone()
            } else {
                format!("{}.{}", judgement.kind, judgement.group)
            };
            let warning = truncate(&format!("gpulint: no rule knows the kind {name}; not judged"));
            return Decided::allowed(Decision::UnknownKind, Some(warning));
        }
        Verdict::Findings(findings) => findings,
    };
    // What the old object had matters only to what would deny.
    let deny = judge.engine.settings().webhook.deny;
    let may_deny = deny.is_some_and(|least| findings.iter().any(|f| f.severity >= least));
    let before = match request.operation.as_str() {
        "UPDATE" if may_deny => judge.evaluate(request.old_object, request),
        _ => Arc::default(),
    };
    let mut old = count_by_identity(before.findings());
    let engine = judge.engine;
    let webhook = &engine.settings().webhook;
    let (mut denied, mut warned, mut accepted_by_api_server) = (Vec::new(), Vec::new(), Vec::new());
    for finding in findings {
        // What the old object had already cannot deny: an update must not be held up by what it
        // does not make worse.
        let had = old.get_mut(&finding.identity()).is_some_and(|n| {
            let had = *n > 0;
            *n = n.saturating_sub(1);
            had
        });
        let denies = !had && webhook.deny.is_some_and(|least| finding.severity >= least);
        let accepted_by_server =
            circumstances.from_api_server && finding.rejected_by == Some(Authority::ApiServer);
        let may_be_transient = circumstances.from_api_server && finding.may_be_transient;
        if denies && accepted_by_server {
            accepted_by_api_server.push(finding);
        }
        if denies && !accepted_by_server && !may_be_transient {
            denied.push(finding);
        } else if webhook.warn.is_some_and(|least| finding.severity >= least) {
            warned.push(finding);
        }
    }
    let (group, kind) = (&judgement.group, &judgement.kind);
    let unsynced = circumstances.index_is_fed && !kinds::is_synced_for(judge.index, group, kind);
    let mut response =
        Response { allowed: denied.is_empty(), warnings: warnings(&warned, unsynced), ..Response::default() };
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
        response.status = Some(denial_status(&judgement, request, &denied));
    }
    Decided { response, decision, rules: denied.iter().chain(&warned).map(|f| f.rule).collect(), unsynced }
}

/// The rule ids, each once, in the order of the findings.
fn rule_ids(findings: &[&FindingSummary]) -> String {
    let mut ids: Vec<&str> = Vec::new();
    for finding in findings {
        if !ids.contains(&finding.rule) {
            ids.push(finding.rule);
        }
    }
    ids.join(",")
}

fn count_by_identity(findings: &[FindingSummary]) -> BTreeMap<Identity<'_>, usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.identity()).or_insert(0) += 1;
    }
    counts
}

/// The lines of a denial: as the API server's own validation prints them.
fn denial_status(judgement: &Evaluation, request: &Request<'_>, denied: &[&FindingSummary]) -> Status {
    let causes: Vec<Cause> = denied
        .iter()
        .map(|finding| Cause {
            reason: "FieldValueInvalid",
            field: finding.field.clone(),
            message: cause_message(finding),
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
            name: if judgement.name.is_empty() { request.name.clone() } else { judgement.name.clone() },
            group: judgement.group.clone(),
            kind: judgement.kind.clone(),
            causes,
        },
    }
}

fn cause_message(finding: &FindingSummary) -> String {
    let mut text = format!("gpulint {}: {}", finding.rule, finding.message);
    if let Some(help) = &finding.help {
        text.push_str("; ");
        text.push_str(help);
    }
    text
}

/// Said where a rule would have to know objects that are not listed yet.
const UNSYNCED: &str = "gpulint: the cluster's objects are not all known yet; rules about them kept silent";

/// Warnings within Kubernetes' limits; what does not fit is counted in the last one.
fn warnings(findings: &[&FindingSummary], unsynced: bool) -> Vec<String> {
    const TAIL: usize = 64;
    let mut out: Vec<String> = Vec::new();
    out.extend(unsynced.then(|| UNSYNCED.to_owned()));
    let mut length: usize = out.iter().map(String::len).sum();
    for (at, finding) in findings.iter().enumerate() {
        let text = truncate(&format!("gpulint {}: {}", finding.rule, finding.message));
        if length + text.len() + TAIL > MAX_WARNINGS_BYTES {
            out.push(format!("gpulint: {} more findings", findings.len() - at));
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
