//! The host of a URL or of an address, and the Service that it names.

/// What is between the scheme, if there is one, and the path: `user@host:port`.
pub fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// The host without a user and a port; an address of IPv6 with its brackets.
pub fn host(text: &str) -> &str {
    let authority = authority(text);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    &host[..end.unwrap_or(host.len())]
}

/// The name of the Service that a host in the cluster means, and its namespace, if that is written. `None` for a host with
/// another domain (<https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/>).
pub fn service_of(host: &str) -> Option<(&str, Option<&str>)> {
    let mut labels = host.split('.');
    let name = labels.next().filter(|name| !name.is_empty())?;
    let namespace = labels.next();
    labels.next().is_none_or(|label| label == "svc").then_some((name, namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (text, expected) in [
            ("http://prometheus.monitoring.svc:9090/api", "prometheus.monitoring.svc"),
            ("https://user:secret@queue.shop?depth=1", "queue.shop"),
            ("tcp://[fd00::1]:29500", "[fd00::1]"),
            ("trainer-0.trainer:29500", "trainer-0.trainer"),
            ("localhost", "localhost"),
            ("http://:80", ""),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }

    #[test]
    fn services() {
        assert_eq!(service_of("queue.shop.svc.cluster.local"), Some(("queue", Some("shop"))));
        assert_eq!(service_of("queue"), Some(("queue", None)));
        assert_eq!(service_of("queue.example.com"), None);
    }
}
