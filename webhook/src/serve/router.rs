//! The paths: `/validate` and `/mutate` over TLS, health and metrics on the plain port.

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
use crate::metrics::{CONTENT_TYPE, Failure};
use crate::mutate::mutate_with;
use crate::review::{ReviewContext, ReviewError, ReviewOutcome, fail_open, review_with};

/// A larger body is judged on a thread of its own, where the deadline can leave it behind, and
/// counts among the large ones; a smaller one takes less time than to hand it over.
const INLINE_BODY_MAX: usize = 16 * 1024;

/// The admission side.
pub(crate) fn admission(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/validate", post(validate_objects))
        .route("/mutate", post(mutate_objects))
        .with_state(shared)
}

/// Health and metrics.
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
    let circumstances = ReviewContext { from_api_server: true, index_is_fed: shared.cache.has_cluster() };
    with_evaluator(shared, |judge| review_with(judge, circumstances, body))
}

fn mutate(shared: &Shared, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    with_evaluator(shared, |judge| mutate_with(judge, body))
}

/// Does something with the rules in force and what is known of the cluster now.
fn with_evaluator<T>(shared: &Shared, work: impl FnOnce(Evaluator<'_>) -> T) -> T {
    let (engine, index) = (shared.live_config.engine(), shared.cache.index());
    let generation = Generation { config: engine.version, snapshot: index.version };
    work(Evaluator::new(&engine.value, &index.value).with_cache(&shared.evaluation_cache, generation))
}

/// What every admission request goes through: one of so many at once, read up to a limit,
/// answered before the API server stops waiting. What cannot be answered gets an HTTP error, and
/// the failure policy of the webhook decides.
async fn admit(shared: Arc<Shared>, webhook: &'static str, request: Request, judge: ReviewFn) -> Response {
    let began = Instant::now();
    let response = match handle(&shared, webhook, request, judge).await {
        Ok(answer) => {
            shared.metrics.answered(webhook, &answer);
            json_response(answer.body)
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

async fn handle(
    shared: &Arc<Shared>,
    webhook: &'static str,
    request: Request,
    judge: ReviewFn,
) -> Result<ReviewOutcome, Failure> {
    let deadline = tokio::time::Instant::now() + deadline(request.uri().query());
    let permit = Arc::clone(&shared.reviews).try_acquire_owned().map_err(|_| Failure::Shed)?;
    let held = shared.metrics.in_flight();
    let length = content_length(&request);
    // The length is looked at first: over HTTP/2 a body that is cut short may reach the client as a
    // broken stream instead of an answer.
    if length.is_some_and(|length| length > shared.limits.body) {
        return Err(Failure::TooLarge);
    }
    // Before it is read: what waits costs no memory.
    let room = tokio::time::timeout_at(deadline, body_budget(shared, length))
        .await
        .map_err(|_| Failure::Deadline)?;
    let body = tokio::time::timeout_at(deadline, read_body(shared.limits.body, request))
        .await
        .map_err(|_| Failure::Deadline)??;
    if body.len() <= INLINE_BODY_MAX {
        return catch_review_panic(shared, webhook, &body, judge);
    }
    let thread = Arc::clone(&shared.threads).acquire_owned();
    let thread = tokio::time::timeout_at(deadline, thread).await.map_err(|_| Failure::Deadline)?;
    let shared = Arc::clone(shared);
    // The permits go along: work that is left behind still counts as work.
    let work = tokio::task::spawn_blocking(move || {
        let _kept = (permit, held, room, thread);
        catch_review_panic(&shared, webhook, &body, judge)
    });
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::Panic),
        Err(_) => Err(Failure::Deadline),
    }
}

/// A defect in a rule must cost one answer, not the server.
fn catch_review_panic(
    shared: &Shared,
    webhook: &'static str,
    body: &[u8],
    judge: ReviewFn,
) -> Result<ReviewOutcome, Failure> {
    let judged = catch_unwind(AssertUnwindSafe(|| judge(shared, body)));
    let judged = judged.unwrap_or_else(|_| {
        // What it panicked on could be in the message, so nothing of it is logged here.
        tracing::error!(webhook, "a review panicked; its request is allowed");
        fail_open(body)
    });
    match judged {
        Ok(answer) => Ok(answer),
        Err(error) => {
            // serde_json's messages name types, lines and columns. One could quote a value, so
            // only the class of the error is logged.
            let kind = match &error {
                ReviewError::Json(error) => format!("{:?}", error.classify()),
                other => other.to_string(),
            };
            tracing::warn!(webhook, error = %kind, "not an AdmissionReview");
            Err(Failure::Malformed)
        }
    }
}

/// How long the body will be, where its head says so.
fn content_length(request: &Request) -> Option<usize> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Room for a large body; a small one needs none. One of unknown length may be as large as any.
async fn body_budget(shared: &Shared, length: Option<usize>) -> Option<OwnedSemaphorePermit> {
    let length = length.unwrap_or(shared.limits.body);
    if length <= INLINE_BODY_MAX {
        return None;
    }
    let bytes = u32::try_from(length.min(shared.limits.large)).unwrap_or(u32::MAX);
    let room = Arc::clone(&shared.large_body_budget).acquire_many_owned(bytes).await;
    // An error would say that the semaphore is closed, which nobody does.
    room.ok()
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

/// No `Retry-After`: with it the API server would wait and ask again instead of deciding.
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

    /// A review with a pod of so many bytes and a little more.
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

    async fn ask(shared: &Arc<Shared>, bytes: usize, judge: ReviewFn) -> (StatusCode, String) {
        ask_for(shared, bytes, "30s", judge).await
    }

    async fn ask_for(
        shared: &Arc<Shared>,
        bytes: usize,
        timeout: &str,
        judge: ReviewFn,
    ) -> (StatusCode, String) {
        let request = request(review(bytes), timeout);
        let response = admit(Arc::clone(shared), "validate", request, judge).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_panic_is_an_allowed_request_with_a_warning_and_counted() {
        let shared = shared(Limits::default());
        // On the runtime's own thread, and on one of its own.
        for bytes in [0, 2 * INLINE_BODY_MAX] {
            let (status, body) = ask(&shared, bytes, |_, _| panic!("hunter2")).await;
            assert_eq!(status, StatusCode::OK);
            assert!(body.contains(r#""uid":"7e1a","allowed":true"#), "{body}");
            assert!(body.contains("defect") && !body.contains("hunter2"), "{body}");
        }
        let text = shared.metrics.text();
        assert!(text.contains(r#"decision="failed"} 2"#), "{text}");
        // Nothing is held for ever.
        assert_eq!(shared.reviews.available_permits(), shared.limits.reviews);
        assert_eq!(shared.large_body_budget.available_permits(), shared.limits.large);
    }

    /// Waits until something holds.
    async fn until(what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(60), "waited: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A review that takes until it is let go.
    fn wait_for(gate: &AtomicBool) {
        while !gate.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slow_review_is_left_behind_at_the_deadline() {
        static GATE: AtomicBool = AtomicBool::new(false);
        let shared = shared(Limits::default());
        let (status, _) = ask_for(&shared, 2 * INLINE_BODY_MAX, "1s", |shared, body| {
            wait_for(&GATE);
            validate(shared, body)
        })
        .await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
        // It still counts as work until it has ended.
        let free = || shared.reviews.available_permits();
        assert_eq!(free(), shared.limits.reviews - 1);
        GATE.store(true, Ordering::SeqCst);
        until("its place is free", || free() == shared.limits.reviews).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_bodies_take_turns_on_as_many_threads_as_there_are_cores() {
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
            tokio::spawn(async move { ask(&shared, size * INLINE_BODY_MAX, slow).await })
        });
        until("two are judged", || AT_ONCE.load(Ordering::SeqCst) == 2).await;
        assert_eq!(ask(&shared, 0, validate).await.0, StatusCode::OK);
        // One that does not get its turn is left to the policy in time.
        let late = ask_for(&shared, 2 * INLINE_BODY_MAX, "1s", validate).await;
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
    async fn large_bodies_wait_for_each_other_and_small_ones_for_none() {
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
        // Two of them fit at once; the last is larger than all the room there is.
        let sizes = [2, 2, 2, 2, 2, 9];
        let large = sizes.map(|size| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { ask(&shared, size * INLINE_BODY_MAX, slow).await.0 })
        });
        until("one is judged", || AT_ONCE.load(Ordering::SeqCst) > 0).await;
        assert_eq!(ask(&shared, 0, validate).await.0, StatusCode::OK);
        assert!(!GATE.swap(true, Ordering::SeqCst));
        for answer in large {
            assert_eq!(answer.await.unwrap(), StatusCode::OK);
        }
        assert!(MOST.load(Ordering::SeqCst) <= 2, "{MOST:?}");
    }
}
