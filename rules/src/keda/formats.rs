//! Formats of metadata values, as KEDA's scalers parse them. A value is rejected only if the scaler certainly
//! rejects it.

use crate::facts::text::is_digits;
use serde_json::Value;

use super::patterns::{is_glob, is_go_regex, is_label_selector};
use super::value::boolean;

#[derive(Debug)]
pub(super) struct Format {
    /// The name in `constraints.txt`.
    name: &'static str,
    /// The expected form, for a message.
    pub(super) wanted: &'static str,
    /// Whether a text may have this format.
    pub(super) accepts: fn(&str) -> bool,
}

const fn format(name: &'static str, wanted: &'static str, accepts: fn(&str) -> bool) -> Format {
    Format { name, wanted, accepts }
}

static FORMATS: &[Format] = &[
    format("artemis_template", "a URL with `broker=`, `address=` and `queue=`", |text| {
        is_request_uri(text) && ["broker=", "address=", "queue="].iter().all(|part| text.contains(part))
    }),
    format("bool", "`true` or `false`", |text| boolean(text).is_some()),
    format("braces", "a query with a scope in braces, such as `{service:a}`", |text| {
        text.lines().any(|line| line.find('{').is_some_and(|at| line[at..].contains('}')))
    }),
    format("glob", "a glob such as `logs/[a-z]*.json`", is_glob),
    format("go_regex", "a regular expression of Go", is_go_regex),
    format("http_urls", "a URL with `http` or `https`", |text| text.split(',').all(is_http_url)),
    format("json_object", "a JSON object", |text| {
        serde_json::from_str(text).is_ok_and(|value: Value| value.is_object())
    }),
    format("json_strings", "a JSON object of strings", is_json_of_strings),
    format("kafka_version", "a version such as `2.5.0`", is_kafka_version),
    format("label_selector", "a label selector such as `app=a,tier in (b, c)`", is_label_selector),
    format("long_duration", "a duration such as `7d` or `2h`", is_long_duration),
    format("no_star", "a pattern without `*`", |text| !text.contains('*')),
    format("no_trailing_slash", "a URL that does not end in `/`", |text| !text.ends_with('/')),
    format("partitions", "partitions such as `1,2,5-7`", |text| {
        text.split(',').all(|part| is_partition(part.trim()))
    }),
    format("port", "a port", |text| text.parse::<u16>().is_ok_and(|port| port > 0)),
    format("queue_url", "a queue's name, or its URL with `/ACCOUNT/NAME`", is_queue_url),
    format("rabbit_url", "a URL with `amqp`, `amqps`, `http` or `https`", is_rabbit_url),
    format("request_uri", "a URL such as `https://example.com`", is_request_uri),
    format("rest_template", "a URL with `brokerName=` and `destinationName=`", is_rest_template),
    format("semp_urls", "a URL with `http` or `https`, host and port", |text| {
        text.split(',').all(is_semp_url)
    }),
    format("stat_period", "1, 5, 10, 30 or a multiple of 60", |text| {
        text.parse().map_or(true, |n: i64| matches!(n, 1 | 5 | 10 | 30) || (n > 0 && n % 60 == 0))
    }),
    format("temporal_name", "letters, digits and `-_./:`", |text| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b))
    }),
    format("three_parts", "`NAMESPACE/TYPE/NAME`", |text| text.split('/').count() == 3),
    format("two_numbers", "`hh:mm`", |text| text.split(':').count() == 2),
    format("three_numbers", "`hh:mm:ss`", |text| text.split(':').count() == 3),
    format("url", "a URL such as `http://prometheus:9090`", is_absolute_url),
];

impl Format {
    /// The format with this name in `constraints.txt`.
    pub(super) fn named(name: &str) -> Result<&'static Format, String> {
        FORMATS.iter().find(|format| format.name == name).ok_or_else(|| format!("no format `{name}`"))
    }
}

fn is_http_url(text: &str) -> bool {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    (lower.starts_with("http://") || lower.starts_with("https://")) && is_url(text)
}

fn is_json_of_strings(text: &str) -> bool {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    serde_json::from_str(text).is_ok_and(|value: Value| {
        value.is_null() || value.as_object().is_some_and(|map| map.values().all(is_text))
    })
}

fn is_rest_template(text: &str) -> bool {
    let has = |name: &str| {
        let rest = text.find(name).map(|at| &text[at + name.len()..]);
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with([',', '/', '&']))
    };
    is_request_uri(text) && has("destinationName=") && has("brokerName=")
}

/// Whether the text is a URL with something after its scheme.
fn is_absolute_url(text: &str) -> bool {
    let rest = text.split_once(':').is_some_and(|(_, rest)| !rest.trim_matches('/').is_empty());
    is_url(text) && scheme(text).is_some() && rest
}

/// The scheme of a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let first = scheme.bytes().next()?.is_ascii_alphabetic();
    let rest = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (first && rest).then_some(scheme)
}

/// Whether Go's `url.Parse` may accept the text.
fn is_url(text: &str) -> bool {
    if text.bytes().any(|b| b.is_ascii_control()) {
        return false;
    }
    let bytes = text.as_bytes();
    let path = text.find(['?', '#']).unwrap_or(text.len());
    let escaped = (0..path)
        .filter(|at| bytes[*at] == b'%')
        .all(|at| bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)));
    let rest = match scheme(text) {
        Some(scheme) => &text[scheme.len() + 1..],
        // A URL without a scheme must not have a colon in its first segment.
        None if text.split('/').next().is_some_and(|first| first.contains(':')) => return false,
        None => text,
    };
    let host = rest.strip_prefix("//").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    escaped && host.is_none_or(is_host)
}

fn is_host(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or(authority);
    if let Some(rest) = host.strip_prefix('[') {
        return rest.contains(']');
    }
    let port = host.split_once(':').map_or("", |(_, port)| port);
    port.bytes().all(|b| b.is_ascii_digit())
        && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
}

/// Whether Go's `url.ParseRequestURI` may accept the text: an absolute URL or path.
fn is_request_uri(text: &str) -> bool {
    (text.starts_with('/') || scheme(text).is_some()) && is_url(text)
}

fn is_queue_url(text: &str) -> bool {
    // The scaler uses a text that is not a URL as the name of a queue.
    if !is_request_uri(text) {
        return true;
    }
    let rest = scheme(text).map_or(text, |scheme| &text[scheme.len() + 1..]);
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("", |at| &rest[at..]),
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), [_, _, name] if !name.is_empty())
}

fn is_rabbit_url(text: &str) -> bool {
    let known =
        |scheme: &str| ["amqp", "amqps", "http", "https"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
    is_url(text) && scheme(text).is_some_and(known)
}

/// Whether the text may be a SEMP URL. It is enough that a part of the text is one.
fn is_semp_url(text: &str) -> bool {
    ["http://", "https://"].iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let host = text[at + start.len()..].bytes();
            host.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')).count() >= 2
        })
    })
}

fn is_kafka_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let count = if text.starts_with("0.") { 4 } else { 3 };
    parts.len() == count && parts.iter().all(|part| is_digits(part))
}

fn is_partition(part: &str) -> bool {
    let number = |text: &str| text.trim().parse::<i32>().is_ok();
    match part.split_once('-') {
        Some((from, to)) => number(from) && number(to),
        None => number(part),
    }
}

fn is_long_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        rest = &rest[number..];
        let unit = rest.bytes().take_while(|b| !b.is_ascii_digit() && *b != b'.').count();
        if number == 0 || !matches!(&rest[..unit], "w" | "d" | "h" | "m" | "s" | "ms" | "us" | "µs" | "ns") {
            return false;
        }
        rest = &rest[unit..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn formats_accept_and_reject() {
        for (format, good, bad) in [
            ("braces", vec!["avg:a{b:c}", "a{}"], vec!["avg:a", "}a{"]),
            ("http_urls", vec!["http://a:1,https://b"], vec!["a:1", "ftp://a", "http://a,b"]),
            ("json_strings", vec!["{\"#a\":\"b\"}"], vec!["a", "{\"a\":1}", "[]"]),
            ("json_object", vec!["{\":a\":{\"S\":\"b\"}}"], vec!["a", "[1]"]),
            ("kafka_version", vec!["2.5.0", "0.10.2.0"], vec!["2.5", "v2.5.0", "0.10.2"]),
            ("long_duration", vec!["7d", "2h30m", "1.5w", "0"], vec!["7", "d", "7x", ""]),
            ("partitions", vec!["1", "1-3, 5"], vec!["x", "1-", "1,,2"]),
            (
                "queue_url",
                vec!["jobs", "https://sqs.us-east-1.amazonaws.com/1/jobs"],
                vec!["https://sqs.us-east-1.amazonaws.com/jobs", "/a", "https://a/b/"],
            ),
            ("rabbit_url", vec!["amqp://a", "HTTPS://b/c"], vec!["a:5672", "rabbit", "ftp://a"]),
            (
                "request_uri",
                vec!["https://a", "/a b", "mailto:x"],
                vec!["a", "127.0.0.1:1", "http://a b", "http://[::1"],
            ),
            (
                "rest_template",
                vec!["http://a/b:brokerName=x,destinationName=y"],
                vec!["http://a", "/brokerName=,"],
            ),
            (
                "semp_urls",
                vec!["http://ab:80", "https://ab.c, http://de"],
                vec!["http://h", "ab", "http://ab,"],
            ),
            ("stat_period", vec!["1", "60", "300"], vec!["2", "90", "0", "-60"]),
            ("url", vec!["http://a", "x:y"], vec!["a", "/a", "http://"]),
        ] {
            let accepts = Format::named(format).expect("a format").accepts;
            for text in good {
                assert!(accepts(text), "{format} {text}");
            }
            for text in bad {
                assert!(!accepts(text), "{format} {text}");
            }
        }
    }
}
