//! Limits of the server. A request above a limit is answered with an HTTP error at once, and the API server
//! applies the webhook's `failurePolicy`.

use std::time::Duration;

/// Sizes in bytes, numbers, and times.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Size of a body. The API server accepts objects of up to 3 MiB, and sends two of them on updates.
    pub body: usize,
    /// Size of all large bodies in flight. Evaluating a body takes about twenty times its size in memory.
    /// Further bodies wait, at most until their deadline; a body above the limit waits for all others.
    pub large: usize,
    /// Reviews in flight.
    pub reviews: usize,
    /// Open connections; further ones wait in the backlog.
    pub connections: usize,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time until the first request of a connection, and until the head of an HTTP/1.1 request is complete,
    /// counted from the end of the request before.
    pub head: Duration,
    /// Time after which an idle connection is closed.
    pub idle: Duration,
    /// Time between SIGTERM, when readiness fails, and the end of listening: endpoints of Services are
    /// removed in the meantime.
    pub drain_delay: Duration,
    /// Time for requests in flight after that.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 8 * 1024 * 1024,
            large: 4 * 1024 * 1024,
            reviews: 64,
            connections: 1024,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            drain_delay: Duration::from_secs(10),
            drain: Duration::from_secs(20),
        }
    }
}

/// Assumed timeout of the API server if the request does not contain it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Time for a review, from the query of its request (`timeout=3s`). It is shorter than the API server's
/// timeout, so that the response arrives.
pub(crate) fn deadline(query: Option<&str>) -> Duration {
    let timeout = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(seconds)
        .unwrap_or(TIMEOUT);
    timeout.saturating_sub((timeout / 10).max(Duration::from_millis(200)))
}

/// Parses whole seconds, as the API server writes them.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: u64 = text.strip_suffix('s')?.parse().ok()?;
    (1..=30).contains(&seconds).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_before_the_timeout_of_the_api_server() {
        assert_eq!(deadline(Some("timeout=3s")), Duration::from_millis(2700));
        assert_eq!(deadline(Some("a=b&timeout=1s")), Duration::from_millis(800));
        for odd in [None, Some(""), Some("timeout=1m"), Some("timeout=-1s"), Some("timeout=99s")] {
            assert_eq!(deadline(odd), Duration::from_millis(2700), "{odd:?}");
        }
    }
}
