//! The routes: `/validate` and `/mutate` over TLS, health and metrics on the plain port.
//!
//! The limits of an admission request are applied here by hand, not by layers of tower and tower-http (`load_shed`,
//! `timeout`, `limit`, `catch_panic`), because each needs something that a layer does not have:
//! - a body is read before anything is taken for its review, and what it holds counts against its sender;
//! - what a review takes goes along into the blocking task, so that work which is abandoned at its deadline
//!   still counts as work;
//! - the deadline follows from the `timeout` parameter that the API server puts into the URL;
//! - a panic is answered with an AdmissionReview that allows the request and repeats its `uid`;
//! - a large body waits for its sender's turn at a thread, and a very large one for a share of memory.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use gpulint_rules::steps::{Interrupt, Interrupted, interruptible};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::Shared;
use super::body::{Guarded, read};
use super::peers::{Peer, Room};
use super::turns::{Claimant, Turn};
use super::utf8::body_as_utf8;
use crate::confirm::Confirmed;
use crate::evaluate::Evaluator;
use crate::evaluation_cache::Generation;
use crate::limits::{MEDIUM_BODY_MAX, deadline};
use crate::logs::RateLimit;
use crate::metrics::{CONTENT_TYPE, Failure, Metrics};
use crate::mutate::mutate_with;
use crate::review::{
    Decision, ReviewContext, ReviewError, ReviewOutcome, fail_open, parse_request, review_request,
};

/// Maximum size in bytes of bodies that are evaluated on the async worker: handing them to another thread takes longer
/// than evaluating them. Larger ones run on a blocking thread, where they can be abandoned at the deadline.
const INLINE_BODY_MAX: usize = 16 * 1024;

pub(crate) fn admission(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/validate", post(validate_objects))
        .route("/mutate", post(mutate_objects))
        .with_state(shared)
}

pub(crate) fn operations(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shared)
}

/// With `?verbose`, lists every check, like the API server's endpoint.
async fn ready(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let waiting = shared.not_ready_reasons();
    let mut text = String::new();
    let is_verbose = |parameter: &str| parameter.split('=').next() == Some("verbose");
    if query.is_some_and(|query| query.split('&').any(is_verbose)) {
        for check in shared.checks() {
            let _ = match (&check.fails, check.counts) {
                (None, _) => match &check.note {
                    None => writeln!(text, "[+]{} ok", check.name),
                    Some(note) => writeln!(text, "[+]{} ok: {note}", check.name),
                },
                (Some(why), true) => writeln!(text, "[-]{} failed: {why}", check.name),
                (Some(why), false) => writeln!(text, "[!]{} failed, and does not count: {why}", check.name),
            };
        }
    }
    if waiting.is_empty() {
        return (text + "ok\n").into_response();
    }
    let text = format!("{text}not ready: {}\n", waiting.join(", "));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], shared.metrics.text()).into_response()
}

async fn validate_objects(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    admit(shared, "validate", request, validate).await
}

async fn mutate_objects(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    admit(shared, "mutate", request, mutate).await
}

/// Time that is reserved for evaluating again after other objects were read.
const CONFIRMED_REVIEW: Duration = Duration::from_millis(200);

type ReviewFn = fn(&Shared, &[u8]) -> Result<ReviewOutcome, ReviewError>;

fn validate(shared: &Shared, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    validate_confirmed(shared, body, &Confirmed::default())
}

/// Reviews an object beside the snapshot, what was admitted a moment ago, and what was read from the API server.
fn validate_confirmed(
    shared: &Shared,
    body: &[u8],
    confirmed: &Confirmed,
) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let recent = match shared.cache.has_recent() {
        true => shared.cache.recent_beside(&request),
        false => Vec::new(),
    };
    let newer = Confirmed::of(recent).updated_by(confirmed);
    with_evaluator(shared, |evaluator| {
        let cluster = newer.applied_to(evaluator.cluster, evaluator.derived);
        // The cache has no results for a modified snapshot.
        let evaluator = cluster.as_ref().map_or(evaluator, |cluster| evaluator.on_index(cluster));
        let evaluator = match &shared.reader {
            Some(_) => evaluator.with_confirmed(confirmed),
            None => evaluator,
        };
        review_request(evaluator, context(shared), &request)
    })
}

fn context(shared: &Shared) -> ReviewContext {
    ReviewContext {
        from_api_server: true,
        cluster_is_fed: shared.cache.has_cluster(),
        is_syncing: shared.cache.is_syncing(),
        now: Some(SystemTime::now()),
    }
}

fn mutate(shared: &Shared, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    with_evaluator(shared, |evaluator| mutate_with(evaluator, body))
}

/// Calls `work` with the current configuration and snapshot. It does not block: both are replaced as a whole.
fn with_evaluator<T>(shared: &Shared, work: impl FnOnce(Evaluator<'_>) -> T) -> T {
    let (engine, snapshot) = (shared.live_config.engine(), shared.cache.snapshot());
    let generation =
        Generation { config: engine.version, snapshot: snapshot.version, complete: snapshot.value.complete };
    let evaluator = Evaluator::new(&engine.value, &snapshot.value.cluster)
        .with_derived(&snapshot.value.derived)
        .with_cache(&shared.evaluation_cache, generation);
    work(evaluator)
}

/// Answers an admission request, or fails with an HTTP error, on which the API server applies the webhook's
/// `failurePolicy`. Memory and time of a request are limited.
async fn admit(shared: Arc<Shared>, webhook: &'static str, request: Request, review: ReviewFn) -> Response {
    let mut attempt = Attempt::new(&shared, webhook);
    let answered = match handle(&shared, &mut attempt, request, review).await {
        Ok((outcome, mut room)) => {
            count(&shared.metrics, webhook, &outcome);
            // Held until the client has received it.
            if room.grow(outcome.body.len()) { Ok((outcome.body, room)) } else { Err(Failure::Shed) }
        }
        Err(failure) => Err(failure),
    };
    attempt.end(answered.as_ref().err().copied());
    match answered {
        Ok((body, room)) => json_response(body, room),
        Err(failure) => failure_response(failure),
    }
}

/// A request until it is answered. If its client gives up first, this future is dropped; that is a failure as well.
struct Attempt<'a> {
    shared: &'a Shared,
    webhook: &'static str,
    began: Instant,
    /// The body, when it is whole.
    body: Option<Bytes>,
    ended: bool,
}

impl<'a> Attempt<'a> {
    fn new(shared: &'a Shared, webhook: &'static str) -> Attempt<'a> {
        shared.metrics.requested(webhook);
        Attempt { shared, webhook, began: Instant::now(), body: None, ended: false }
    }

    fn end(&mut self, failure: Option<Failure>) {
        self.ended = true;
        let Shared { metrics, denials, .. } = self.shared;
        if let Some(failure) = failure {
            metrics.failed(self.webhook, failure);
            denials.record_failure(self.body.as_deref(), failure);
        }
        metrics.observe_duration(self.webhook, self.began.elapsed().as_secs_f64());
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Some(Failure::Gone));
        }
    }
}

fn count(metrics: &Metrics, webhook: &'static str, outcome: &ReviewOutcome) {
    metrics.answered(webhook, outcome.operation, outcome.kind, outcome.decision.name());
    outcome.rules.iter().for_each(|rule| metrics.finding_sent(rule));
    if outcome.unsynced {
        metrics.reviewed_unsynced();
    }
}

/// The outcome of a review, and the room of its client for the response.
async fn handle(
    shared: &Arc<Shared>,
    attempt: &mut Attempt<'_>,
    request: Request,
    review: ReviewFn,
) -> Result<(ReviewOutcome, Room), Failure> {
    let (limits, webhook) = (&shared.limits, attempt.webhook);
    let deadline = tokio::time::Instant::now() + deadline(request.uri().query(), limits.timeout);
    let in_flight = shared.metrics.in_flight();
    // The accept loop adds it to every connection.
    let peer = request.extensions().get::<Arc<Peer>>().cloned().ok_or(Failure::Malformed)?;
    // Checked before reading: an HTTP/2 client whose body is cut off may see a stream reset instead of the response.
    if content_length(&request).is_some_and(|length| length > limits.body) {
        return Err(Failure::TooLarge);
    }
    let mut room = peer.room();
    let body = body_as_utf8(read(request.into_body(), limits, &mut room, deadline).await?);
    attempt.body = Some(body.clone());
    let for_answer = peer.room();
    if body.len() <= INLINE_BODY_MAX {
        let outcome = catch_review_panic(webhook, || review(shared, &body), &body, deadline)?;
        let outcome = confirm_refusal(shared, webhook, &peer, &body, outcome, deadline).await?;
        record(shared, webhook, &peer, &body, &outcome);
        return Ok((outcome, for_answer));
    }
    let account = account_of(&body);
    let claimant = Claimant { address: peer.address(), account };
    let counted = peer.review(account).ok_or(Failure::Shed)?;
    let memory = tokio::time::timeout_at(deadline, memory_to_check(shared, claimant, body.len()));
    let memory = memory.await.map_err(|_| Failure::Deadline)?;
    let thread = tokio::time::timeout_at(deadline, shared.threads.wait(claimant));
    let thread = thread.await.map_err(|_| Failure::Deadline)?;
    let (checking, checked) = (Arc::clone(shared), body.clone());
    // All of it moves into the task: a review that is abandoned at its deadline still counts.
    let work = tokio::task::spawn_blocking(move || {
        let outcome = catch_review_panic(webhook, || review(&checking, &checked), &checked, deadline);
        drop(thread);
        (outcome, (in_flight, room, counted, memory))
    });
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok((outcome, _held))) => {
            let outcome = confirm_refusal(shared, webhook, &peer, &body, outcome?, deadline).await?;
            record(shared, webhook, &peer, &body, &outcome);
            Ok((outcome, for_answer))
        }
        Ok(Err(_)) => Err(Failure::Panic),
        Err(_) => Err(Failure::Deadline),
    }
}

/// Records the outcome of a review, and what it admitted.
fn record(shared: &Shared, webhook: &'static str, peer: &Peer, body: &[u8], outcome: &ReviewOutcome) {
    peer.reviewed();
    shared.denials.record(body, outcome);
    let is_admitted =
        webhook == "validate" && matches!(outcome.decision, Decision::Allowed | Decision::Warned);
    let kind = outcome.kind.filter(|kind| is_admitted && shared.cache.keeps_admitted(*kind));
    if let Some(kind) = kind.filter(|_| body.len() <= MEDIUM_BODY_MAX)
        && let Ok(request) = parse_request(body)
    {
        shared.cache.admitted(kind, &request);
    }
}

/// Reads the objects on which a denial depends, and the rivals of an object that is allowed, and evaluates again, until nothing
/// more is to be read. What cannot be read in time denies nothing: its findings stay warnings.
async fn confirm_refusal(
    shared: &Arc<Shared>,
    webhook: &'static str,
    peer: &Peer,
    body: &Bytes,
    mut outcome: ReviewOutcome,
    deadline: tokio::time::Instant,
) -> Result<ReviewOutcome, Failure> {
    let Some(reader) = &shared.reader else {
        return Ok(outcome);
    };
    let mut confirmed = Confirmed::default();
    let mut lacks_rivals;
    loop {
        let until = deadline - CONFIRMED_REVIEW;
        let has_read =
            reader.read_missing(&outcome.to_confirm, outcome.rivals.as_ref(), until, &mut confirmed).await;
        lacks_rivals = confirmed.lacks_rivals();
        if !has_read {
            break;
        }
        match review_again(shared, webhook, peer, body, confirmed, deadline).await? {
            Some(newer) => (outcome, confirmed) = newer,
            None => break,
        }
    }
    if lacks_rivals && outcome.decision != Decision::Denied {
        shared.metrics.reviewed_unconfirmed();
        shared.denials.record_unconfirmed(body);
    }
    Ok(outcome)
}

/// Evaluates again with what was read; `None` if the deadline came first.
async fn review_again(
    shared: &Arc<Shared>,
    webhook: &'static str,
    peer: &Peer,
    body: &Bytes,
    confirmed: Confirmed,
    deadline: tokio::time::Instant,
) -> Result<Option<(ReviewOutcome, Confirmed)>, Failure> {
    let claimant = Claimant { address: peer.address(), account: account_of(body) };
    let Ok(thread) = tokio::time::timeout_at(deadline, shared.threads.wait(claimant)).await else {
        return Ok(None);
    };
    let (shared, body) = (Arc::clone(shared), body.clone());
    let work = tokio::task::spawn_blocking(move || {
        let review = || validate_confirmed(&shared, &body, &confirmed);
        let outcome = catch_review_panic(webhook, review, &body, deadline);
        drop(thread);
        outcome.map(|outcome| (outcome, confirmed))
    });
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(reviewed)) => reviewed.map(Some),
        Ok(Err(_)) => Err(Failure::Panic),
        Err(_) => Ok(None),
    }
}

/// Runs the review of a body until the deadline. After a panic in a rule this request is allowed with a warning.
fn catch_review_panic(
    webhook: &'static str,
    review: impl FnOnce() -> Result<ReviewOutcome, ReviewError>,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> Result<ReviewOutcome, Failure> {
    static PANICS: RateLimit = RateLimit::new(5, Duration::from_secs(10));
    static MALFORMED: RateLimit = RateLimit::new(5, Duration::from_secs(10));
    let late: Interrupt = Arc::new(move || tokio::time::Instant::now() >= deadline);
    let result = catch_unwind(AssertUnwindSafe(|| interruptible(&late, review)));
    let result = result.unwrap_or_else(|_| {
        // The panic message is not logged: it may quote the object.
        if let Some(left_out) = PANICS.admit() {
            tracing::error!(webhook, left_out, "a review panicked; its request is allowed");
        }
        Ok(fail_open(body))
    });
    let result = result.map_err(|Interrupted| Failure::Deadline)?;
    result.map_err(|error| {
        if let Some(left_out) = MALFORMED.admit() {
            tracing::warn!(webhook, error = in_words(&error), left_out, "not an AdmissionReview");
        }
        Failure::Malformed
    })
}

/// What is wrong with a request, without quoting it: messages of parsers quote their input.
fn in_words(error: &ReviewError) -> &'static str {
    match error {
        ReviewError::Json(error) => match error.classify() {
            serde_json::error::Category::Io => "it cannot be read",
            serde_json::error::Category::Syntax => "it is not JSON",
            serde_json::error::Category::Data => "fields have the wrong type",
            serde_json::error::Category::Eof => "it ends too early",
        },
        ReviewError::Kind { .. } => "another kind or version than AdmissionReview admission.k8s.io/v1",
        ReviewError::NoRequest => "it has no request",
    }
}

/// A hash of the account that sent a request to the API server; that of the empty name if the body has none.
fn account_of(body: &[u8]) -> u64 {
    #[derive(Default, Deserialize)]
    struct Body<'a> {
        #[serde(borrow, default)]
        request: Asked<'a>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked<'a> {
        #[serde(borrow, default)]
        user_info: User<'a>,
    }
    #[derive(Default, Deserialize)]
    struct User<'a> {
        #[serde(borrow, default)]
        username: Cow<'a, str>,
    }
    let body: Body<'_> = serde_json::from_slice(body).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    body.request.user_info.username.hash(&mut hasher);
    hasher.finish()
}

/// The `Content-Length`, if there is one.
fn content_length(request: &Request) -> Option<usize> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Waits for the resources to check a very large body: a turn, and memory. Smaller bodies need none.
async fn memory_to_check(
    shared: &Shared,
    claimant: Claimant,
    length: usize,
) -> Option<(Turn, Option<OwnedSemaphorePermit>)> {
    if length <= MEDIUM_BODY_MAX {
        return None;
    }
    let turn = shared.large_turns.wait(claimant).await;
    let bytes = u32::try_from(length.min(shared.limits.large)).unwrap_or(u32::MAX);
    // The only error is that the semaphore is closed, which never happens.
    let memory = Arc::clone(&shared.large_body_budget).acquire_many_owned(bytes).await.ok();
    Some((turn, memory))
}

/// The room is released when the body was sent.
fn json_response(body: Vec<u8>, room: Room) -> Response {
    let mut response = Response::new(Body::new(Guarded::new(Body::from(body), room)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Responds without `Retry-After`, with which the API server would wait and retry instead of applying the failure
/// policy.
fn failure_response(failure: Failure) -> Response {
    let (status, text) = match failure {
        Failure::Shed => (StatusCode::TOO_MANY_REQUESTS, "too many reviews at once\n"),
        Failure::Slow => (StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
        Failure::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
        Failure::Deadline => (StatusCode::GATEWAY_TIMEOUT, "the review took too long\n"),
        Failure::Malformed => (StatusCode::BAD_REQUEST, "this is no AdmissionReview\n"),
        // Nobody receives the answer to the latter.
        Failure::Panic | Failure::Gone => (StatusCode::INTERNAL_SERVER_ERROR, "the review failed\n"),
    };
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use axum::http;
    use gpulint_rules::Settings;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::cache::Cache;
    use crate::evaluate::Evaluations;
    use crate::limits::Limits;
    use crate::metrics::Metrics;
    use crate::registration::RegistrationState;
    use crate::serve::Silence;
    use crate::serve::denials::Denials;
    use crate::serve::live_config::LiveConfig;
    use crate::serve::peers::Peers;
    use crate::serve::turns::Turns;
    use crate::tls::{Tls, TlsFloor};

    /// The registered timeout is the longest possible one, unless `limits` are set otherwise.
    fn patient() -> Limits {
        Limits { timeout: Duration::from_secs(30), ..Limits::default() }
    }

    fn shared(limits: Limits) -> Arc<Shared> {
        let metrics = Arc::new(Metrics::new());
        let read = Arc::new(|| Ok(Settings::default()));
        Arc::new(Shared {
            live_config: LiveConfig::new(read, Vec::new(), Vec::new()).unwrap(),
            cache: Arc::new(Cache::new(false, BTreeSet::new(), Arc::clone(&metrics))),
            evaluation_cache: Evaluations::new(Arc::clone(&metrics)),
            peers: Peers::new(limits.clone()),
            large_body_budget: Arc::new(Semaphore::new(limits.large)),
            large_turns: Turns::new(1),
            threads: Turns::new(2),
            tls: Arc::new(Tls::new(TlsFloor::Tls12)),
            reader: None,
            registration: RegistrationState::default(),
            api_server: Silence::default(),
            denials: Denials::new(false),
            warm: AtomicBool::new(true),
            draining: AtomicBool::new(false),
            limits,
            metrics,
        })
    }

    /// An AdmissionReview of slightly more than `bytes` bytes.
    fn review(bytes: usize) -> Vec<u8> {
        serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "7e1a", "operation": "CREATE", "object": {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "annotations": {"filler": "x".repeat(bytes)}}}}})
        .to_string()
        .into_bytes()
    }

    /// A request on a connection from an address.
    fn request_from(shared: &Shared, address: [u8; 4], body: Body, timeout: &str) -> Request {
        let peer = shared.peers.connect(address.into());
        let mut request = http::Request::post(format!("/validate?timeout={timeout}")).body(body).unwrap();
        request.extensions_mut().insert(peer);
        request
    }

    const LOCAL: [u8; 4] = [127, 0, 0, 1];

    async fn send(shared: &Arc<Shared>, bytes: usize, review_fn: ReviewFn) -> (StatusCode, String) {
        post_with_timeout(shared, bytes, "30s", review_fn).await
    }

    async fn post_with_timeout(
        shared: &Arc<Shared>,
        bytes: usize,
        timeout: &str,
        review_fn: ReviewFn,
    ) -> (StatusCode, String) {
        let request = request_from(shared, LOCAL, Body::from(review(bytes)), timeout);
        answer(shared, request, review_fn).await
    }

    async fn answer(shared: &Arc<Shared>, request: Request, review_fn: ReviewFn) -> (StatusCode, String) {
        let response = admit(Arc::clone(shared), "validate", request, review_fn).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_panic_allows_the_request_with_a_warning_and_is_counted() {
        let shared = shared(patient());
        // On the async worker, and on a blocking thread.
        for bytes in [0, 2 * INLINE_BODY_MAX] {
            let (status, body) = send(&shared, bytes, |_, _| panic!("hunter2")).await;
            assert_eq!(status, StatusCode::OK);
            assert!(body.contains(r#""uid":"7e1a","allowed":true"#), "{body}");
            assert!(body.contains("defect") && !body.contains("hunter2"), "{body}");
        }
        let text = shared.metrics.text();
        assert!(text.contains(r#"decision="failed"} 2"#), "{text}");
        // All permits are returned.
        assert_eq!(shared.peers.used(), (0, 0));
        assert_eq!(shared.large_body_budget.available_permits(), shared.limits.large);
    }

    /// Polls until a condition holds.
    async fn until(what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(60), "waited: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Blocks a review until the gate opens.
    fn wait_for(gate: &AtomicBool) {
        while !gate.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slow_review_is_abandoned_at_its_deadline() {
        static GATE: AtomicBool = AtomicBool::new(false);
        let shared = shared(patient());
        let (status, _) = post_with_timeout(&shared, 2 * INLINE_BODY_MAX, "1s", |shared, body| {
            wait_for(&GATE);
            validate(shared, body)
        })
        .await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
        // It counts as in flight until it has ended.
        assert_eq!(shared.peers.used().1, 1);
        GATE.store(true, Ordering::SeqCst);
        until("it has ended", || shared.peers.used() == (0, 0)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_stops_at_its_deadline() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        struct Ended;
        impl Drop for Ended {
            fn drop(&mut self) {
                ENDED.fetch_add(1, Ordering::SeqCst);
            }
        }
        let endless: ReviewFn = |_, _| {
            let _ended = Ended;
            let object = serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool"});
            let object = gpulint_rules::Object::from_json(&object).unwrap();
            let engine = gpulint_rules::Engine::new(gpulint_rules::Settings::default());
            loop {
                let _ = engine.review_object(&object, &gpulint_rules::Cluster::new(true));
            }
        };
        // On the async worker, and on a blocking thread.
        for (round, size) in [16, 2 * INLINE_BODY_MAX].into_iter().enumerate() {
            let shared = shared(patient());
            let (status, _) = post_with_timeout(&shared, size, "1s", endless).await;
            assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
            until("it has ended", || ENDED.load(Ordering::SeqCst) == round + 1).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_bodies_use_as_many_threads_as_there_are_cores() {
        static GATE: AtomicBool = AtomicBool::new(false);
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        let shared = shared(patient());
        let slow: ReviewFn = |shared, body| {
            let others = AT_ONCE.fetch_add(1, Ordering::SeqCst);
            assert!(others < 2);
            wait_for(&GATE);
            std::thread::sleep(Duration::from_millis(5));
            AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            validate(shared, body)
        };
        let large = [2; 6].map(|size| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { send(&shared, size * INLINE_BODY_MAX, slow).await })
        });
        until("two are evaluated", || AT_ONCE.load(Ordering::SeqCst) == 2).await;
        assert_eq!(send(&shared, 0, validate).await.0, StatusCode::OK);
        // A request that gets no thread fails at its deadline.
        let late = post_with_timeout(&shared, 2 * INLINE_BODY_MAX, "1s", validate).await;
        assert_eq!(late.0, StatusCode::GATEWAY_TIMEOUT);
        GATE.store(true, Ordering::SeqCst);
        for answer in large {
            let (status, body) = answer.await.unwrap();
            assert_eq!(status, StatusCode::OK);
            assert!(!body.contains("defect"), "{body}");
        }
        assert_eq!(shared.threads.free(), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn very_large_bodies_share_memory_and_others_do_not_wait() {
        static GATE: AtomicBool = AtomicBool::new(false);
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let shared = shared(Limits { large: 5 * MEDIUM_BODY_MAX, ..patient() });
        let slow: ReviewFn = |shared, body| {
            MOST.fetch_max(AT_ONCE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            wait_for(&GATE);
            std::thread::sleep(Duration::from_millis(20));
            AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            validate(shared, body)
        };
        // The last one needs more than the memory limit.
        let sizes = [2, 2, 2, 2, 2, 9];
        let large = sizes.map(|size| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { send(&shared, size * MEDIUM_BODY_MAX, slow).await.0 })
        });
        until("one is evaluated", || AT_ONCE.load(Ordering::SeqCst) > 0).await;
        for size in [0, 2 * INLINE_BODY_MAX] {
            assert_eq!(send(&shared, size, validate).await.0, StatusCode::OK);
        }
        assert!(!GATE.swap(true, Ordering::SeqCst));
        for answer in large {
            assert_eq!(answer.await.unwrap(), StatusCode::OK);
        }
        assert_eq!(MOST.load(Ordering::SeqCst), 1, "one thread is left to others");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reviews_above_the_limit_are_left_to_the_policy_at_once() {
        static GATE: AtomicBool = AtomicBool::new(false);
        let shared = shared(Limits { reviews: 2, ..patient() });
        let held = {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let waits: ReviewFn = |shared, body| {
                    wait_for(&GATE);
                    validate(shared, body)
                };
                send(&shared, 2 * INLINE_BODY_MAX, waits).await.0
            })
        };
        until("one is checked", || shared.peers.used().1 == 1).await;
        let from = |address| {
            let body = Body::from(review(2 * INLINE_BODY_MAX));
            answer(&shared, request_from(&shared, address, body, "30s"), validate)
        };
        assert_eq!(from(LOCAL).await.0, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(from([10, 0, 0, 1]).await.0, StatusCode::OK, "another address has its half");
        assert_eq!(send(&shared, 0, validate).await.0, StatusCode::OK, "small ones are checked at once");
        GATE.store(true, Ordering::SeqCst);
        assert_eq!(held.await.unwrap(), StatusCode::OK);
    }

    #[tokio::test]
    async fn who_sends_slowly_holds_nothing_but_what_arrived() {
        let limits = Limits { read: Duration::from_millis(300), reviews: 1, ..patient() };
        let shared = shared(limits);
        let slow = (0..200).map(|number| {
            let shared = Arc::clone(&shared);
            // Clients that send nothing, or one byte, and then wait.
            let begun =
                (number % 2 == 0).then(|| Ok::<_, axum::Error>(Frame::data(Bytes::from_static(b"{"))));
            let frames = futures::stream::iter(begun);
            let frames = futures::StreamExt::chain(frames, futures::stream::pending());
            let request = request_from(&shared, LOCAL, Body::new(StreamBody::new(frames)), "30s");
            tokio::spawn(async move { answer(&shared, request, validate).await.0 })
        });
        let slow: Vec<_> = slow.collect();
        until("they have begun", || shared.peers.used().0 == 100).await;
        for bytes in [0, 2 * INLINE_BODY_MAX, 2 * MEDIUM_BODY_MAX] {
            assert_eq!(send(&shared, bytes, validate).await.0, StatusCode::OK);
        }
        for answer in slow {
            assert_eq!(answer.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
        }
        assert_eq!(shared.peers.used(), (0, 0));
    }

    /// The API server closes the request when its timeout has passed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_its_client_gives_up_is_counted_as_a_failure() {
        static GATE: AtomicBool = AtomicBool::new(false);
        let shared = shared(patient());
        let waits: ReviewFn = |shared, body| {
            wait_for(&GATE);
            validate(shared, body)
        };
        let given_up = send(&shared, 2 * INLINE_BODY_MAX, waits);
        assert!(tokio::time::timeout(Duration::from_millis(300), given_up).await.is_err());
        GATE.store(true, Ordering::SeqCst);
        let line = r#"gpulint_admission_failures_total{webhook="validate",reason="gone"} 1"#;
        assert!(shared.metrics.text().contains(line), "{}", shared.metrics.text());
        until("it has ended", || shared.peers.used() == (0, 0)).await;
    }

    /// All replicas would leave the Service at once.
    #[tokio::test]
    async fn a_silent_api_server_is_named_and_leaves_the_server_ready() {
        let shared = shared(patient());
        let checks = |shared: &Shared| {
            let found = shared.checks().into_iter().find(|check| check.name == "api-server");
            found.map(|check| (check.counts, check.fails.is_some()))
        };
        assert_eq!(checks(&shared), None);
        shared.api_server.record(false);
        assert_eq!(checks(&shared), Some((false, true)));
        assert!(shared.not_ready_reasons().iter().all(|reason| !reason.contains("answer")));
        shared.api_server.record(true);
        assert_eq!(checks(&shared), None);
    }

    #[tokio::test]
    async fn what_a_client_does_not_take_counts_against_it() {
        let shared = shared(Limits { held: 4000, ..patient() });
        let mut kept = Vec::new();
        let refused = loop {
            let request = request_from(&shared, LOCAL, Body::from(review(0)), "30s");
            let response = admit(Arc::clone(&shared), "validate", request, validate).await;
            if response.status() != StatusCode::OK || kept.len() > 100 {
                break response.status();
            }
            kept.push(response);
        };
        assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
        assert!(!kept.is_empty());
        drop(kept);
        assert_eq!(shared.peers.used(), (0, 0));
    }
}
