//! Limits of the server. A request above a limit is answered with an HTTP error at once, and the API server
//! applies the webhook's `failurePolicy`.

use std::time::Duration;

/// Sizes in bytes, numbers, and times.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of a body. The API server accepts objects of up to 3 MiB, and sends two of them on updates.
    pub body: usize,
    /// Maximum number of bytes of bodies and responses that are held for clients, counted as they arrive. One
    /// connection may hold a quarter of them, one address half.
    pub held: usize,
    /// Maximum size of all large bodies that are checked at a time. Checking a body takes about twenty times its size
    /// in memory. Further bodies wait, at most until their deadline; a body above the limit waits for all others.
    pub large: usize,
    /// Maximum number of reviews that are running or waiting, except those of small bodies. One address may have half
    /// of them, and one account of an address half of those.
    pub reviews: usize,
    /// Maximum number of connections with a TLS session, and half of the maximum number before one. A further one takes
    /// the place of another one of the address that holds most.
    pub connections: usize,
    /// The `timeoutSeconds` of the webhook configurations. Clients may request less, but not more.
    pub timeout: Duration,
    /// Time for a body to arrive, extended by a second for each [`BODY_RATE`] bytes of it.
    pub read: Duration,
    /// Time from the acceptance of a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// Time until the first request of a connection, and until the head of an HTTP/1.1 request is complete, counted
    /// from the end of the previous request.
    pub head: Duration,
    /// Time after which an idle connection is closed.
    pub idle: Duration,
    /// Time between SIGTERM, when readiness fails, and the end of listening, in which endpoints of Services are
    /// removed.
    pub drain_delay: Duration,
    /// Time for requests in flight after [`Limits::drain_delay`].
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 8 * 1024 * 1024,
            held: 64 * 1024 * 1024,
            large: 4 * 1024 * 1024,
            reviews: 128,
            connections: 1024,
            timeout: Duration::from_secs(3),
            read: Duration::from_secs(1),
            handshake: Duration::from_secs(2),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            drain_delay: Duration::from_secs(10),
            drain: Duration::from_secs(20),
        }
    }
}

/// Minimum rate of a body in bytes per second, after its first second.
const BODY_RATE: usize = 1024 * 1024;

/// Time for a review, from the query of its request (`timeout=3s`), but at most that for `registered`, the timeout of
/// the webhook configurations. It is shorter than the API server's timeout, so that the response arrives.
pub(crate) fn deadline(query: Option<&str>, registered: Duration) -> Duration {
    let timeout = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(seconds)
        .map_or(registered, |timeout| timeout.min(registered));
    timeout.saturating_sub((timeout / 10).max(Duration::from_millis(200)))
}

/// Maximum size in bytes of a body that does not count against [`Limits::large`]. Objects written by people are far
/// smaller. Larger ones leave one thread to others.
pub(crate) const MEDIUM_BODY_MAX: usize = 256 * 1024;

/// Maximum rate in bytes per second of large bodies from one address; reading is delayed above it. Decrypting and
/// copying them takes time from other requests, and a large object is not checked faster.
pub(crate) const LARGE_BODY_RATE: usize = 24 * 1024 * 1024;

impl Limits {
    /// Time from the head of a request until `received` bytes of its body and the rest must have arrived.
    pub(crate) fn read_time(&self, received: usize) -> Duration {
        self.read + Duration::from_secs((received / BODY_RATE) as u64)
    }
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
        let registered = Duration::from_secs(3);
        assert_eq!(deadline(Some("timeout=3s"), registered), Duration::from_millis(2700));
        assert_eq!(deadline(Some("a=b&timeout=1s"), registered), Duration::from_millis(800));
        for odd in [None, Some(""), Some("timeout=1m"), Some("timeout=-1s"), Some("timeout=99s")] {
            assert_eq!(deadline(odd, registered), Duration::from_millis(2700), "{odd:?}");
        }
    }

    #[test]
    fn nobody_asks_for_more_than_the_registered_timeout() {
        let registered = Duration::from_secs(1);
        for more in ["timeout=2s", "timeout=30s"] {
            assert_eq!(deadline(Some(more), registered), Duration::from_millis(800));
        }
        assert_eq!(deadline(Some("timeout=30s"), Duration::from_secs(30)), Duration::from_secs(27));
    }

    #[test]
    fn a_large_body_has_more_time() {
        let limits = Limits::default();
        assert_eq!(limits.read_time(20_000), Duration::from_secs(1));
        assert_eq!(limits.read_time(3 * BODY_RATE), Duration::from_secs(4));
    }
}
