//! How much the server takes on: sizes, numbers and times. Past a limit the answer comes at once,
//! and the failure policy of the webhook decides.

use std::time::Duration;

/// The limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a body; the API server itself sends at most 3 MiB an object, twice on updates.
    pub body: usize,
    /// Bytes of large bodies at once, of which each takes some twenty times its size while it is
    /// judged; further ones wait until their deadline. A larger one is alone.
    pub large: usize,
    /// Reviews at once.
    pub reviews: usize,
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the first request of a connection, and for the head of an HTTP/1.1 request, idle
    /// time before it included.
    pub head: Duration,
    /// How long a connection may go without a request before it is closed. API servers open a new
    /// one when they need it.
    pub idle: Duration,
    /// How long the server goes on after SIGTERM while it says that it is not ready, so that
    /// Services have stopped sending before it stops listening.
    pub drain_delay: Duration,
    /// How long open requests may then take.
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

/// What the API server waits where its request does not say.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How long a review may take, from the query of its request (`timeout=3s`): less than the API
/// server waits, so that our own answer arrives.
pub(crate) fn deadline(query: Option<&str>) -> Duration {
    let timeout = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(seconds)
        .unwrap_or(TIMEOUT);
    timeout.saturating_sub((timeout / 10).max(Duration::from_millis(200)))
}

/// Whole seconds, as the API server writes them; anything else is no timeout of its.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: u64 = text.strip_suffix('s')?.parse().ok()?;
    (1..=30).contains(&seconds).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_below_what_the_api_server_waits() {
        assert_eq!(deadline(Some("timeout=3s")), Duration::from_millis(2700));
        assert_eq!(deadline(Some("a=b&timeout=1s")), Duration::from_millis(800));
        for odd in [None, Some(""), Some("timeout=1m"), Some("timeout=-1s"), Some("timeout=99s")] {
            assert_eq!(deadline(odd), Duration::from_millis(2700), "{odd:?}");
        }
    }
}
