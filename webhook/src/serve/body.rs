//! Reads the body of a request, and holds the body of a response.
//!
//! A body is read before other resources are allocated for its request: a client that sends slowly, or announces much
//! and sends nothing, only uses its own bytes and no shared resources.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, sleep, timeout_at};

use super::peers::Room;
use crate::limits::{Limits, MEDIUM_BODY_MAX};
use crate::metrics::Failure;

/// Reads a body of up to [`Limits::body`] bytes within [`Limits::read_time`], at most until `deadline`. The room grows
/// with the received bytes.
pub(super) async fn read(
    mut body: Body,
    limits: &Limits,
    room: &mut Room,
    deadline: Instant,
) -> Result<Bytes, Failure> {
    let mut began = Instant::now();
    let mut first = Bytes::new();
    // Most bodies arrive in one piece, which is not copied.
    let mut rest: Option<BytesMut> = None;
    let mut received = 0;
    loop {
        let until = deadline.min(began + limits.read_time(received));
        let frame = match timeout_at(until, body.frame()).await {
            Err(_) => return Err(Failure::Slow),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Failure::Malformed),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        if received > limits.body {
            return Err(Failure::TooLarge);
        }
        if !room.grow(data.len()) {
            return Err(Failure::Shed);
        }
        if received > MEDIUM_BODY_MAX {
            let pause = room.pace(data.len());
            if pause > Duration::ZERO && timeout_at(deadline, sleep(pause)).await.is_err() {
                return Err(Failure::Slow);
            }
            // Pauses of the server are not counted as slow sending.
            began += pause;
        }
        match &mut rest {
            Some(rest) => rest.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let mut both = BytesMut::with_capacity(2 * (first.len() + data.len()));
                both.extend_from_slice(&first);
                both.extend_from_slice(&data);
                rest = Some(both);
            }
        }
    }
    Ok(rest.map_or(first, BytesMut::freeze))
}

/// A body with a guard that is dropped when the body was sent, or when sending was aborted.
pub(super) struct Guarded<G> {
    body: Body,
    _guard: G,
}

impl<G> Guarded<G> {
    pub(super) fn new(body: Body, guard: G) -> Guarded<G> {
        Guarded { body, _guard: guard }
    }
}

impl<G: Unpin> hyper::body::Body for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
