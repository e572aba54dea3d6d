//! Validation: which findings deny a request, which only warn, and the text of the response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpulint_rules::facts::text::cut;
use gpulint_rules::lint::settings::Thresholds;
use gpulint_rules::lint::suppress::{ANNOTATION, is_suppressible};
use gpulint_rules::{Cluster, Engine, Identity, Kind, Lookup, Severity, find_rule};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::confirm::{MAX_READS, ObjectRef, Rivals};
use crate::evaluate::{
    Evaluation, Evaluator, FindingSummary, Verdict, created_at, differ_in_bookkeeping_only,
};
use crate::exemption::{Standing, is_derived, is_exempt, loses_controller, unnamed_operator};
use crate::kinds;
use crate::logs::escaped;
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
/// Maximum length of a user name in a cause, in bytes.
const MAX_USER_BYTES: usize = 256;
/// The field of a cause about the whole object.
const WHOLE_OBJECT: &str = "metadata.name";
/// The field of a cause about suppressions: that of [`ANNOTATION`].
const ANNOTATION_FIELD: &str = "metadata.annotations[gpulint.dev/allow]";
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
pub(crate) enum Decision {
    Allowed,
    Warned,
    Patched,
    Denied,
    /// Allowed without running rules: a deletion, a subresource, an exempt namespace or account, an
    /// object whose controller is checked itself, an update that finishes a deletion.
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
    /// Whether watches fill the snapshot: a kind that is not complete in it has not been listed.
    pub cluster_is_fed: bool,
    /// Whether such a kind may soon be listed, which a warning then says. A kind that the API server does not list is
    /// a matter for the log and `/readyz`: it would be in every answer.
    pub is_syncing: bool,
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
    /// The target and the rivals of an object that is new or gets another target: the snapshot may lack them, so they are read.
    pub(crate) rivals: Option<Rivals>,
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
    review_request(evaluator, context, &parse_request(body)?)
}

/// Like [`review_with()`], for a request that was parsed.
pub(crate) fn review_request(
    evaluator: Evaluator<'_>,
    context: ReviewContext,
    request: &Request<'_>,
) -> Result<ReviewOutcome, ReviewError> {
    let mut decided = decide(evaluator, context, request);
    let may_have_rivals =
        evaluator.confirmed.is_some() && matches!(decided.decision, Decision::Allowed | Decision::Warned);
    let kind = kind(request);
    let rivals = kind.filter(|_| may_have_rivals);
    let rivals = rivals.and_then(|kind| Rivals::of(kind, request, evaluator.cluster));
    decided.response.uid.clone_from(&request.uid);
    Ok(ReviewOutcome {
        body: encode(decided.response)?,
        operation: operation(request),
        kind,
        decision: decided.decision,
        rules: decided.rules,
        unsynced: decided.unsynced,
        to_confirm: decided.to_confirm,
        rivals,
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
        rivals: None,
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
    kinds::checked().iter().copied().find(|kind| request.kind.is(*kind))
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
        || is_derived(evaluator.engine, evaluator.cluster, evaluator.derived, request)
    {
        return Decided::allowed(Decision::Exempt, None);
    }
    let evaluation = evaluator.evaluate(request.object, request);
    if let Some(unchecked) = unchecked(&evaluation) {
        return unchecked;
    }
    let findings = evaluation.findings();
    // The old object is evaluated only if it can change the decision.
    let thresholds = thresholds(evaluator, request);
    let may_deny = thresholds.deny.is_some_and(|least| findings.iter().any(|f| f.severity >= least));
    // An object that lost its controller is judged as a new one.
    let stands_alone = may_deny && loses_controller(request);
    let compares = may_deny || findings.iter().any(|f| f.from_partner);
    let before = match request.operation.as_str() {
        "UPDATE" if compares && !stands_alone => evaluator.evaluate(request.old_object, request),
        _ => Arc::default(),
    };
    let mut sorted = sort(evaluator, context, request, (findings, before.findings()), thresholds);
    // Owners are added without user action, and finalizers have to be removable.
    let rejects = !sorted.denied.is_empty() || !sorted.unconfirmed.is_empty();
    let is_forced =
        rejects && request.operation == "UPDATE" && !stands_alone && differ_in_bookkeeping_only(request);
    if is_forced {
        sorted.warned.append(&mut sorted.denied);
    }
    let mut to_confirm = Vec::new();
    if !is_forced {
        sorted.unread = sorted.unconfirmed.len();
        // One finding denies, and only some objects are read: those of the findings that need the fewest come first.
        sorted.unconfirmed.sort_by_key(|finding| finding.rests_on.len());
        for object in sorted.unconfirmed.iter().flat_map(|finding| &finding.rests_on) {
            if !to_confirm.contains(object) {
                to_confirm.push(object.clone());
            }
        }
    }
    sorted.warned.append(&mut sorted.unconfirmed);
    let decided = respond(evaluator, context, request, &evaluation, (&sorted, thresholds.deny.is_some()));
    Decided { to_confirm, ..decided }
}

/// The decision about an object that was not checked.
fn unchecked(evaluation: &Evaluation) -> Option<Decided> {
    match &evaluation.verdict {
        Verdict::NoObject => {
            let warning = "gpulint: this is no Kubernetes object with apiVersion and kind; not checked";
            Some(Decided::allowed(Decision::Unparsable, Some(warning.to_owned())))
        }
        Verdict::UnknownKind => {
            let name = if evaluation.group.is_empty() {
                evaluation.kind.clone()
            } else {
                format!("{}.{}", evaluation.kind, evaluation.group)
            };
            let warning =
                cut(&format!("gpulint: no rule knows the kind {name}; not checked"), MAX_WARNING_CHARS)
                    .into_owned();
            Some(Decided::allowed(Decision::UnknownKind, Some(warning)))
        }
        Verdict::Findings(_) => None,
    }
}

/// Findings by their effect on a request.
#[derive(Default)]
struct Sorted<'f> {
    denied: Vec<&'f FindingSummary>,
    /// The findings that deny once the objects that they rest on are confirmed.
    unconfirmed: Vec<&'f FindingSummary>,
    warned: Vec<&'f FindingSummary>,
    accepted_by_api_server: Vec<&'f FindingSummary>,
    /// Number of findings that only warn because not all objects that they rest on were read.
    unread: usize,
}

fn sort<'f>(
    evaluator: Evaluator<'_>,
    context: ReviewContext,
    request: &Request<'_>,
    (findings, before): (&'f [FindingSummary], &[FindingSummary]),
    thresholds: Thresholds,
) -> Sorted<'f> {
    let mut old = severities_by_identity(before);
    let mut sorted = Sorted::default();
    let is_settled = is_settled(context, request);
    for finding in findings {
        // An absent object may be applied next, in any order.
        if finding.reports_absence && !is_settled {
            continue;
        }
        // A finding that the old object also has does not deny: an update must not be blocked by a problem that it did
        // not introduce. One that was less severe is new.
        let had = old.get_mut(&finding.identity).is_some_and(|old| {
            let same = old.iter().position(|severity| *severity >= finding.severity);
            same.map(|at| old.remove(at)).is_some()
        });
        // Nor is it told of other objects what was true before.
        if had && finding.from_partner {
            continue;
        }
        let denies = !had && thresholds.deny.is_some_and(|least| finding.severity >= least);
        let accepted_by_server = context.from_api_server && finding.is_for_api_server;
        if denies && accepted_by_server {
            sorted.accepted_by_api_server.push(finding);
        }
        if denies && !accepted_by_server && !finding.reports_absence {
            if evaluator.confirmed.is_none_or(|confirmed| confirmed.holds(&finding.rests_on)) {
                sorted.denied.push(finding);
            } else {
                sorted.unconfirmed.push(finding);
            }
        } else if thresholds.warn.is_some_and(|least| finding.severity >= least) {
            sorted.warned.push(finding);
        }
    }
    sorted
}

/// The response that tells of findings that deny or warn.
fn respond(
    evaluator: Evaluator<'_>,
    context: ReviewContext,
    request: &Request<'_>,
    evaluation: &Evaluation,
    (sorted, may_deny): (&Sorted<'_>, bool),
) -> Decided {
    let Sorted { denied, warned, accepted_by_api_server, .. } = sorted;
    let (group, kind) = (&evaluation.group, &evaluation.kind);
    let unsynced =
        context.cluster_is_fed && !kinds::is_synced_for(evaluator.engine, evaluator.cluster, group, kind);
    let suppression = refused_suppression(evaluator.engine, request);
    let (refusal, ignored) = if may_deny { (suppression, None) } else { (None, suppression) };
    let allowed = denied.is_empty() && refusal.is_none();
    let notes = ignored.into_iter().chain((unsynced && context.is_syncing).then(|| UNSYNCED.to_owned()));
    let notes = notes.chain((allowed && sorted.unread > 0).then(|| unread(sorted.unread)));
    let mut response = Response { allowed, warnings: warnings(warned, notes), ..Response::default() };
    let lists = [("denied", denied), ("warned", warned), ("taken-by-api-server", accepted_by_api_server)];
    for (key, findings) in lists {
        if !findings.is_empty() {
            response.audit_annotations.insert(key, rule_ids(findings).join(","));
        }
    }
    if refusal.is_some() {
        response.audit_annotations.insert("refused-suppression", request.user_info.username.clone());
    }
    let decision = match (allowed, response.warnings.is_empty()) {
        (false, _) => Decision::Denied,
        (true, false) => Decision::Warned,
        (true, true) => Decision::Allowed,
    };
    if decision == Decision::Denied {
        response.status = Some(denial_status(evaluator.engine, evaluation, request, denied, refusal));
    }
    let rules = denied.iter().chain(warned).map(|f| f.rule).collect();
    Decided { response, decision, rules, unsynced, to_confirm: Vec::new() }
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

/// What is wrong with the suppression that a request adds or changes, if its sender may not suppress. An unchanged one
/// may stay, but does not count for this sender.
fn refused_suppression(engine: &Engine, request: &Request<'_>) -> Option<String> {
    if Standing::of(engine, request).may_suppress {
        return None;
    }
    let written = suppression(request.object)?;
    let stored = suppression(request.old_object).filter(|_| request.operation == "UPDATE");
    (stored.as_ref() != Some(&written)).then(|| {
        let user = escaped(&request.user_info.username, MAX_USER_BYTES);
        format!(
            "gpulint: `{user}` may not suppress findings (`webhook.may-suppress`): leave the annotation as it was stored"
        )
    })
}

/// The annotation of an object that suppresses findings.
fn suppression(raw: Option<&RawValue>) -> Option<Value> {
    #[derive(Deserialize)]
    struct Annotated {
        metadata: Annotations,
    }
    #[derive(Deserialize)]
    struct Annotations {
        annotations: BTreeMap<String, Value>,
    }
    let object: Annotated = serde_json::from_str(raw?.get()).ok()?;
    object.metadata.annotations.get(ANNOTATION).cloned()
}

/// Whether the request updates an object that is older than [`SETTLED_AFTER`].
fn is_settled(context: ReviewContext, request: &Request<'_>) -> bool {
    let created = request.old_object.filter(|_| request.operation == "UPDATE").and_then(created_at);
    let age = context.now.zip(created).and_then(|(now, created)| now.duration_since(created).ok());
    age.is_some_and(|age| age > SETTLED_AFTER)
}

/// The distinct rule ids, in the order of the findings.
fn rule_ids(findings: &[&FindingSummary]) -> Vec<&'static str> {
    let mut ids = Vec::new();
    for finding in findings {
        if !ids.contains(&finding.rule) {
            ids.push(finding.rule);
        }
    }
    ids
}

/// The severities of the findings of each identity, the lowest first.
fn severities_by_identity(findings: &[FindingSummary]) -> BTreeMap<&Identity, Vec<Severity>> {
    let mut found: BTreeMap<&Identity, Vec<Severity>> = BTreeMap::new();
    for finding in findings {
        found.entry(&finding.identity).or_default().push(finding.severity);
    }
    found.values_mut().for_each(|severities| severities.sort_unstable());
    found
}

/// The status of a denial, in the form of the API server's own validation errors. Its size is limited: an object may
/// have ten thousand findings.
fn denial_status(
    engine: &Engine,
    evaluation: &Evaluation,
    request: &Request<'_>,
    denied: &[&FindingSummary],
    refusal: Option<String>,
) -> Status {
    let cause = |reason, field: &str, message| {
        // kubectl prints `* FIELD: MESSAGE`. An object as a whole is named by its name.
        let field = if field.is_empty() { WHOLE_OBJECT } else { field };
        Cause { reason, field: cut(field, MAX_CAUSE_CHARS).into_owned(), message }
    };
    let found = denied.iter().take(MAX_CAUSES).map(|finding| {
        let message = cut(&cause_message(finding), MAX_CAUSE_CHARS).into_owned();
        cause("FieldValueInvalid", &finding.field, message)
    });
    let mut causes: Vec<Cause> = found.collect();
    let more = denied.len() - causes.len();
    if more > 0 {
        causes.push(cause("Help", "", format!("gpulint: {more} more findings")));
    }
    causes.extend(refusal.map(|refusal| cause("FieldValueForbidden", ANNOTATION_FIELD, refusal)));
    if let Some(first) = denied.first() {
        let commands: Vec<String> =
            rule_ids(denied).iter().map(|rule| format!("`gpulint explain {rule}`")).collect();
        let verb = if commands.len() == 1 { "says" } else { "say" };
        let commands = commands.join(", ");
        let commands = cut(&commands, MAX_CAUSE_CHARS);
        causes.push(cause("Help", &first.field, format!("{commands} {verb} why, and what to do")));
        let account = unnamed_operator(engine, request);
        causes.extend(account.map(|account| {
            let message = format!(
                "the owner counts only if `webhook.operators` names `{}`",
                cut(&account, MAX_CAUSE_CHARS)
            );
            cause("Help", "metadata.ownerReferences", message)
        }));
        let annotation = annotation_to_pass(engine, request, denied);
        let annotate = annotation.map(|text| format!("to let this object pass, write \"{text}\""));
        causes.extend(annotate.map(|message| cause("Help", ANNOTATION_FIELD, message)));
    }
    let lines: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
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

/// The value of the annotation with which the object is allowed: a suppression of each rule that denies it, after those
/// that it has. `None` if the sender may not suppress one of them.
fn annotation_to_pass(engine: &Engine, request: &Request<'_>, denied: &[&FindingSummary]) -> Option<String> {
    let forbidden = &engine.settings().webhook.forbid_suppressions;
    let may_be_suppressed = |id: &&str| {
        find_rule(id).is_some_and(|rule| {
            let names = [*id, rule.group.name(), "all"];
            is_suppressible(rule) && !forbidden.iter().any(|forbidden| names.contains(&forbidden.as_str()))
        })
    };
    let rules = rule_ids(denied);
    if !Standing::of(engine, request).may_suppress || !rules.iter().all(may_be_suppressed) {
        return None;
    }
    let known = suppression(request.object);
    let known =
        known.as_ref().and_then(Value::as_str).map(|text| text.trim_end_matches([';', ' ']).to_owned());
    let known = known.filter(|text| !text.is_empty());
    let new = rules.iter().map(|rule| format!("{rule}: the reason"));
    Some(known.into_iter().chain(new).collect::<Vec<String>>().join("; "))
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

/// The warning that findings which would deny do not, because of objects that were not read.
fn unread(count: usize) -> String {
    format!(
        "gpulint: {count} of these would deny, but not all objects that they rest on were read ({MAX_READS} at most)"
    )
}

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
        let text = cut(text, MAX_WARNING_CHARS).into_owned();
        if length + text.len() + TAIL > MAX_WARNINGS_BYTES {
            out.push(format!("gpulint: {} more findings", texts.len() - at));
            break;
        }
        length += text.len();
        out.push(text);
    }
    out
}

#[cfg(test)]
mod tests;
