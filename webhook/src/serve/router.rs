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

use super::Shared;
use crate::answer::{Answer, Decision, ReviewError, answer};
use crate::limits::deadline;
use crate::metrics::{CONTENT_TYPE, Failure};
use crate::mutate::mutate;

/// A larger body is judged on a thread of its own, where the deadline can leave it behind; a
/// smaller one takes less time than to hand it over.
const INLINE: usize = 64 * 1024;

/// The admission side.
pub(crate) fn admission(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/validate", post(judge_objects))
        .route("/mutate", post(patch_objects))
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
    let waiting = shared.waiting_for();
    if waiting.is_empty() {
        return "ok\n".into_response();
    }
    let text = format!("not ready: {}\n", waiting.join(", "));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    (
        [(header::CONTENT_TYPE, CONTENT_TYPE)],
        shared.metrics.text(),
    )
        .into_response()
}

async fn judge_objects(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    admit(shared, "validate", request, judge).await
}

async fn patch_objects(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    admit(shared, "mutate", request, patch).await
}

type Judge = fn(&Shared, &[u8]) -> Result<Answer, ReviewError>;

fn judge(shared: &Shared, body: &[u8]) -> Result<Answer, ReviewError> {
    let index = shared.cache.index();
    let answer = answer(&shared.policy.engine(), &index, body)?;
    if !index.is_complete() && !matches!(answer.decision, Decision::Exempt) && shared.cache.is_fed()
    {
        shared.metrics.unsynced();
    }
    Ok(answer)
}

fn patch(shared: &Shared, body: &[u8]) -> Result<Answer, ReviewError> {
    mutate(&shared.policy.engine(), &shared.cache.index(), body)
}

/// What every admission request goes through: one of so many at once, read up to a limit,
/// answered before the API server stops waiting. What cannot be answered gets an HTTP error, and
/// the failure policy of the webhook decides.
async fn admit(
    shared: Arc<Shared>,
    webhook: &'static str,
    request: Request,
    judge: Judge,
) -> Response {
    let began = Instant::now();
    let response = match answered(&shared, webhook, request, judge).await {
        Ok(answer) => {
            shared.metrics.answered(webhook, &answer);
            json(answer.body)
        }
        Err(failure) => {
            shared.metrics.failed(webhook, failure);
            refusal(failure)
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    shared.metrics.took(webhook, seconds);
    response
}

async fn answered(
    shared: &Arc<Shared>,
    webhook: &'static str,
    request: Request,
    judge: Judge,
) -> Result<Answer, Failure> {
    let deadline = tokio::time::Instant::now() + deadline(request.uri().query());
    let permit = Arc::clone(&shared.reviews)
        .try_acquire_owned()
        .map_err(|_| Failure::Shed)?;
    let held = shared.metrics.in_flight();
    let body = tokio::time::timeout_at(deadline, read(shared.limits.body, request))
        .await
        .map_err(|_| Failure::Deadline)??;
    if body.len() <= INLINE {
        return guarded(shared, webhook, &body, judge);
    }
    let shared = Arc::clone(shared);
    // The permit goes along: work that is left behind still counts as work.
    let work = tokio::task::spawn_blocking(move || {
        let _kept = (permit, held);
        guarded(&shared, webhook, &body, judge)
    });
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::Panic),
        Err(_) => Err(Failure::Deadline),
    }
}

/// A defect in a rule must cost one answer, not the server.
fn guarded(
    shared: &Shared,
    webhook: &'static str,
    body: &[u8],
    judge: Judge,
) -> Result<Answer, Failure> {
    match catch_unwind(AssertUnwindSafe(|| judge(shared, body))) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            // serde_json's messages name types, lines and columns. One could quote a value, so
            // only the class of the error is logged.
            let kind = match &error {
                ReviewError::Json(error) => format!("{:?}", error.classify()),
                other => other.to_string(),
            };
            tracing::warn!(webhook, error = %kind, "not an AdmissionReview");
            Err(Failure::Malformed)
        }
        Err(_) => {
            tracing::error!(webhook, "a review panicked; the failure policy decides");
            Err(Failure::Panic)
        }
    }
}

/// The length is looked at first: over HTTP/2 a body that is cut short may reach the client as a
/// broken stream instead of an answer.
async fn read(limit: usize, request: Request) -> Result<Bytes, Failure> {
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(Failure::TooLarge);
    }
    match Limited::new(request.into_body(), limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
        Err(_) => Err(Failure::Malformed),
    }
}

fn json(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// No `Retry-After`: with it the API server would wait and ask again instead of deciding.
fn refusal(failure: Failure) -> Response {
    let (status, text) = match failure {
        Failure::Shed => (StatusCode::TOO_MANY_REQUESTS, "too many reviews at once\n"),
        Failure::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
        Failure::Deadline => (StatusCode::GATEWAY_TIMEOUT, "the review took too long\n"),
        Failure::Malformed => (StatusCode::BAD_REQUEST, "this is no AdmissionReview\n"),
        Failure::Panic => (StatusCode::INTERNAL_SERVER_ERROR, "the review failed\n"),
    };
    (status, text).into_response()
}
