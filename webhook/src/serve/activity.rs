//! What happens on a connection: which protocol it speaks, and whether it is in use.
//!
//! hyper limits the time for the head of an HTTP/1.1 request. It has no limit for a connection that never
//! sends a request over HTTP/2, or no further one; without one, such connections would hold their slots.

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
    /// Requests without a response yet.
    in_flight: usize,
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
                in_flight: 0,
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
        now.in_flight += 1;
        now.http2 = http2;
        let first = !std::mem::replace(&mut now.had_request, true);
        drop(now);
        if first {
            self.first_request.notify_waiters();
        }
        RequestGuard(Arc::clone(self))
    }

    /// Whether the connection speaks HTTP/2; false before the first request.
    pub(super) fn is_http2(&self) -> bool {
        self.lock().http2
    }

    /// Waits for the first request of the connection.
    pub(super) async fn wait_for_first_request(&self) {
        // Created before the check, so that a request in between is not missed.
        let notified = self.first_request.notified();
        if !self.lock().had_request {
            notified.await;
        }
    }

    /// Waits until there was no first request for `first`, or no further one for `later`.
    pub(super) async fn idle_timeout(&self, first: Duration, later: Duration) {
        loop {
            let left = {
                let now = self.lock();
                let limit = if now.had_request { later } else { first };
                match now.in_flight {
                    0 => limit.saturating_sub(now.last_activity.elapsed()),
                    _ => limit,
                }
            };
            if left.is_zero() {
                return;
            }
            // Sleeps no longer than the shorter limit, because a request in the meantime selects the other.
            tokio::time::sleep(left.min(later)).await;
        }
    }
}

/// A request in flight.
pub(super) struct RequestGuard(Arc<ConnectionActivity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut now = self.0.lock();
        now.in_flight = now.in_flight.saturating_sub(1);
        now.last_activity = Instant::now();
    }
}
