//! The activity of a connection: its protocol, and whether it is in use.
//!
//! hyper limits the time for the head of an HTTP/1.1 request. It has no limit for a connection that sends no request
//! over HTTP/2, or no further one; without one, such connections would hold their slots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The requests of a connection.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    state: Mutex<ActivityState>,
    /// Notified by the first request.
    first_request: Notify,
}

#[derive(Debug)]
struct ActivityState {
    /// Start times of the requests without a complete response, by number.
    in_flight: BTreeMap<u64, Instant>,
    /// The number of the next request.
    next: u64,
    /// Whether there has been a request.
    had_request: bool,
    http2: bool,
    /// When the connection was accepted or the last response was sent.
    last_activity: Instant,
}

impl ConnectionActivity {
    pub(super) fn new() -> Arc<ConnectionActivity> {
        Arc::new(ConnectionActivity {
            state: Mutex::new(ActivityState {
                in_flight: BTreeMap::new(),
                next: 0,
                had_request: false,
                http2: false,
                last_activity: Instant::now(),
            }),
            first_request: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(super) fn request_started(self: &Arc<ConnectionActivity>, http2: bool) -> RequestGuard {
        let mut now = self.lock();
        let number = now.next;
        now.next += 1;
        now.in_flight.insert(number, Instant::now());
        now.http2 = http2;
        let first = !std::mem::replace(&mut now.had_request, true);
        drop(now);
        if first {
            self.first_request.notify_waiters();
        }
        RequestGuard { activity: Arc::clone(self), number }
    }

    /// Whether the connection speaks HTTP/2; false before the first request.
    pub(super) fn is_http2(&self) -> bool {
        self.lock().http2
    }

    pub(super) async fn wait_for_first_request(&self) {
        // Created before the check, so that a request in between is not missed.
        let notified = self.first_request.notified();
        if !self.lock().had_request {
            notified.await;
        }
    }

    /// Waits until the connection exceeds one of two limits: `first`, the time until its first request, or `later`, the
    /// time after the last response.
    pub(super) async fn idle_timeout(&self, first: Duration, later: Duration) {
        loop {
            let left = {
                let now = self.lock();
                let limit = if now.had_request { later } else { first };
                match now.in_flight.is_empty() {
                    true => limit.saturating_sub(now.last_activity.elapsed()),
                    false => limit,
                }
            };
            if left.is_zero() {
                return;
            }
            // At most the shorter limit, because a request in the meantime selects the other one.
            tokio::time::sleep(left.min(later)).await;
        }
    }

    /// Waits until a request has been in flight for longer than `limit`.
    pub(super) async fn stuck(&self, limit: Duration) {
        loop {
            let oldest = self.lock().in_flight.values().next().map(Instant::elapsed);
            let left = limit.saturating_sub(oldest.unwrap_or_default());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct RequestGuard {
    activity: Arc<ConnectionActivity>,
    number: u64,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut now = self.activity.lock();
        now.in_flight.remove(&self.number);
        now.last_activity = Instant::now();
    }
}
