//! The routes: `/validate` and `/mutate` over TLS, health and metrics on the plain port.
//!
//! The limits of an admission request are applied here by hand, not by layers of tower and tower-http
//! (`load_shed`, `timeout`, `limit`, `catch_panic`), because each needs something that a layer does not
//! have:
//! - the permits of a review go along into the blocking task, so that work which is abandoned at its
//!   deadline still counts as work;
//! - the deadline follows from the `timeout` parameter that the API server puts into the URL;
//! - a panic is answered with an AdmissionReview that allows the request and repeats its `uid`;
//! - a large body waits for a share of memory before it is read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::OwnedSemaphorePermit;

use super::Shared;
use crate::evaluate::Evaluator;
use crate::evaluation_cache::Generation;
use crate::limits::deadline;
use crate::metrics::{CONTENT_TYPE, Failure, Metrics};
use crate::mutate::mutate_with;
use crate::review::{ReviewContext, ReviewError, ReviewOutcome, fail_open, review_with};

/// Bodies up to this size, in bytes, are evaluated on the async worker: handing them to another thread
/// takes longer than evaluating them. Larger ones run on a blocking thread, where they can be abandoned
/// at the deadline, and share [`Limits::large`](crate::Limits::large).
const INLINE_BODY_MAX: usize = 16 * 1024;

/// Routes of the admission port.
pub(crate) fn admission(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/validate", post(validate_objects))
        .route("/mutate", post(mutate_objects))
        .with_state(shared)
}

/// Routes of the operations port.
pub(crate) fn operations(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shared)
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let waiting = shared.not_ready_reasons();
    if waiting.is_empty() {
        return "ok\n".into_response();
    }
    let text = format!("not ready: {}\n", waiting.join(", "));
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

type ReviewFn = fn(&Shared, &[u8]) -> Result<ReviewOutcome, ReviewError>;

fn validate(shared: &Shared, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    let context = ReviewContext { from_api_server: true, index_is_fed: shared.cache.has_cluster() };
    with_evaluator(shared, |evaluator| review_with(evaluator, context, body))
}

fn mutate(shared: &Shared, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    with_evaluator(shared, |evaluator| mutate_with(evaluator, body))
}

/// Calls `work` with the configuration and the index snapshot of this moment.
fn with_evaluator<T>(shared: &Shared, work: impl FnOnce(Evaluator<'_>) -> T) -> T {
    let (engine, index) = (shared.live_config.engine(), shared.cache.index());
    let generation = Generation { config: engine.version, snapshot: index.version };
    work(Evaluator::new(&engine.value, &index.value).with_cache(&shared.evaluation_cache, generation))
}

/// Answers an admission request, or fails with an HTTP error, on which the API server applies the
/// webhook's `failurePolicy`. The number of requests, the size of the body and the time are limited.
async fn admit(shared: Arc<Shared>, webhook: &'static str, request: Request, review: ReviewFn) -> Response {
    let began = Instant::now();
    let response = match handle(&shared, webhook, request, review).await {
        Ok(outcome) => {
            count(&shared.metrics, webhook, &outcome);
            json_response(outcome.body)
        }
        Err(failure) => {
            shared.metrics.failed(webhook, failure);
            failure_response(failure)
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    shared.metrics.observe_duration(webhook, seconds);
    response
}

fn count(metrics: &Metrics, webhook: &'static str, outcome: &ReviewOutcome) {
    metrics.answered(webhook, outcome.operation, outcome.kind, outcome.decision.name());
    outcome.rules.iter().for_each(|rule| metrics.finding_sent(rule));
    if outcome.unsynced {
        metrics.reviewed_unsynced();
    }
}

async fn handle(
    shared: &Arc<Shared>,
    webhook: &'static str,
    request: Request,
    review: ReviewFn,
) -> Result<ReviewOutcome, Failure> {
    let deadline = tokio::time::Instant::now() + deadline(request.uri().query());
    let permit = Arc::clone(&shared.reviews).try_acquire_owned().map_err(|_| Failure::Shed)?;
    let in_flight = shared.metrics.in_flight();
    let length = content_length(&request);
    // Checked before reading: over HTTP/2, a client whose body is cut off may see a stream reset instead
    // of the response.
    if length.is_some_and(|length| length > shared.limits.body) {
        return Err(Failure::TooLarge);
    }
    // Acquired before reading: a request that waits holds no body in memory.
    let budget = tokio::time::timeout_at(deadline, body_budget(shared, length))
        .await
        .map_err(|_| Failure::Deadline)?;
    let body = tokio::time::timeout_at(deadline, read_body(shared.limits.body, request))
        .await
        .map_err(|_| Failure::Deadline)??;
    if body.len() <= INLINE_BODY_MAX {
        return catch_review_panic(shared, webhook, &body, review);
    }
    let thread = Arc::clone(&shared.threads).acquire_owned();
    let thread = tokio::time::timeout_at(deadline, thread).await.map_err(|_| Failure::Deadline)?;
    let shared = Arc::clone(shared);
    // The permits move into the task: a review that is abandoned at its deadline still counts.
    let work = tokio::task::spawn_blocking(move || {
        let _held = (permit, in_flight, budget, thread);
        catch_review_panic(&shared, webhook, &body, review)
    });
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::Panic),
        Err(_) => Err(Failure::Deadline),
    }
}

/// Runs a review. A panic in a rule allows this one request with a warning.
fn catch_review_panic(
    shared: &Shared,
    webhook: &'static str,
    body: &[u8],
    review: ReviewFn,
) -> Result<ReviewOutcome, Failure> {
    let result = catch_unwind(AssertUnwindSafe(|| review(shared, body)));
    let result = result.unwrap_or_else(|_| {
        // The panic message is not logged: it may quote the object.
        tracing::error!(webhook, "a review panicked; its request is allowed");
        fail_open(body)
    });
    match result {
        Ok(answer) => Ok(answer),
        Err(error) => {
            // Messages of serde_json may quote a value of the body, so only the error's category is
            // logged.
            let kind = match &error {
                ReviewError::Json(error) => format!("{:?}", error.classify()),
                other => other.to_string(),
            };
            tracing::warn!(webhook, error = %kind, "not an AdmissionReview");
            Err(Failure::Malformed)
        }
    }
}

/// The `Content-Length`, if there is one.
fn content_length(request: &Request) -> Option<usize> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Acquires the share of a large body; a small one needs none. A body of unknown length counts as one of
/// the largest size.
async fn body_budget(shared: &Shared, length: Option<usize>) -> Option<OwnedSemaphorePermit> {
    let length = length.unwrap_or(shared.limits.body);
    if length <= INLINE_BODY_MAX {
        return None;
    }
    let bytes = u32::try_from(length.min(shared.limits.large)).unwrap_or(u32::MAX);
    let budget = Arc::clone(&shared.large_body_budget).acquire_many_owned(bytes).await;
    // The only error is that the semaphore is closed, which never happens.
    budget.ok()
}

async fn read_body(limit: usize, request: Request) -> Result<Bytes, Failure> {
    match Limited::new(request.into_body(), limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
        Err(_) => Err(Failure::Malformed),
    }
}

fn json_response(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Without `Retry-After`: the API server would wait and retry instead of applying the failure policy.
fn failure_response(failure: Failure) -> Response {
    let (status, text) = match failure {
        Failure::Shed => (StatusCode::TOO_MANY_REQUESTS, "too many reviews at once\n"),
        Failure::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
        Failure::Deadline => (StatusCode::GATEWAY_TIMEOUT, "the review took too long\n"),
        Failure::Malformed => (StatusCode::BAD_REQUEST, "this is no AdmissionReview\n"),
        Failure::Panic => (StatusCode::INTERNAL_SERVER_ERROR, "the review failed\n"),
    };
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use axum::http;
    use gpulint_rules::Settings;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::cache::Cache;
    use crate::evaluation_cache::EvaluationCache;
    use crate::limits::Limits;
    use crate::metrics::Metrics;
    use crate::serve::live_config::LiveConfig;
    use crate::tls::{Tls, TlsFloor};

    fn shared(limits: Limits) -> Arc<Shared> {
        let metrics = Arc::new(Metrics::new());
        let read = Arc::new(|| Ok(Settings::default()));
        Arc::new(Shared {
            live_config: LiveConfig::new(read, None, Vec::new()).unwrap(),
            cache: Arc::new(Cache::new(false, Arc::clone(&metrics))),
            evaluation_cache: EvaluationCache::new(Arc::clone(&metrics)),
            reviews: Arc::new(Semaphore::new(limits.reviews)),
            large_body_budget: Arc::new(Semaphore::new(limits.large)),
            threads: Arc::new(Semaphore::new(2)),
            tls: Arc::new(Tls::new(TlsFloor::Tls12)),
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

    fn request(body: Vec<u8>, timeout: &str) -> Request {
        http::Request::post(format!("/validate?timeout={timeout}"))
            .header(header::CONTENT_LENGTH, body.len())
            .body(Body::from(body))
            .unwrap()
    }

    async fn send(shared: &Arc<Shared>, bytes: usize, review_fn: ReviewFn) -> (StatusCode, String) {
        post_with_timeout(shared, bytes, "30s", review_fn).await
    }

    async fn post_with_timeout(
        shared: &Arc<Shared>,
        bytes: usize,
        timeout: &str,
        review_fn: ReviewFn,
    ) -> (StatusCode, String) {
        let request = request(review(bytes), timeout);
        let response = admit(Arc::clone(shared), "validate", request, review_fn).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_panic_allows_the_request_with_a_warning_and_is_counted() {
        let shared = shared(Limits::default());
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
        assert_eq!(shared.reviews.available_permits(), shared.limits.reviews);
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
        let shared = shared(Limits::default());
        let (status, _) = post_with_timeout(&shared, 2 * INLINE_BODY_MAX, "1s", |shared, body| {
            wait_for(&GATE);
            validate(shared, body)
        })
        .await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
        // It counts as in flight until it has ended.
        let free = || shared.reviews.available_permits();
        assert_eq!(free(), shared.limits.reviews - 1);
        GATE.store(true, Ordering::SeqCst);
        until("its permit is returned", || free() == shared.limits.reviews).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_bodies_use_as_many_threads_as_there_are_cores() {
        static GATE: AtomicBool = AtomicBool::new(false);
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        let shared = shared(Limits::default());
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
        // One that gets no thread fails at its deadline.
        let late = post_with_timeout(&shared, 2 * INLINE_BODY_MAX, "1s", validate).await;
        assert_eq!(late.0, StatusCode::GATEWAY_TIMEOUT);
        GATE.store(true, Ordering::SeqCst);
        for answer in large {
            let (status, body) = answer.await.unwrap();
            assert_eq!(status, StatusCode::OK);
            assert!(!body.contains("defect"), "{body}");
        }
        assert_eq!(shared.threads.available_permits(), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_bodies_share_a_budget_and_small_ones_do_not_wait() {
        static GATE: AtomicBool = AtomicBool::new(false);
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let shared = shared(Limits { large: 5 * INLINE_BODY_MAX, ..Limits::default() });
        let slow: ReviewFn = |shared, body| {
            MOST.fetch_max(AT_ONCE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            wait_for(&GATE);
            std::thread::sleep(Duration::from_millis(20));
            AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            validate(shared, body)
        };
        // Two of them fit at once; the last one is larger than the whole budget.
        let sizes = [2, 2, 2, 2, 2, 9];
        let large = sizes.map(|size| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { send(&shared, size * INLINE_BODY_MAX, slow).await.0 })
        });
        until("one is evaluated", || AT_ONCE.load(Ordering::SeqCst) > 0).await;
        assert_eq!(send(&shared, 0, validate).await.0, StatusCode::OK);
        assert!(!GATE.swap(true, Ordering::SeqCst));
        for answer in large {
            assert_eq!(answer.await.unwrap(), StatusCode::OK);
        }
        assert!(MOST.load(Ordering::SeqCst) <= 2, "{MOST:?}");
    }
}
