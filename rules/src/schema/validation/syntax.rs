//! Syntax of names, keys and addresses.

use std::net::{IpAddr, Ipv6Addr};

use crate::facts::names::{
    is_dns_1035_label, is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name,
};
use crate::facts::text::is_digits;

pub(crate) struct Syntax {
    /// The noun phrase that completes "`x` is not a …".
    pub(crate) what: &'static str,
    /// What to write instead.
    pub(crate) help: &'static str,
    pub(crate) accepts: fn(&str) -> bool,
}

/// Names of containers, volumes, ports of Services.
pub(crate) static DNS_LABEL: Syntax = Syntax {
    what: "DNS label",
    help: "write lower-case letters, digits and `-`, 63 at most, a letter or digit at both ends",
    accepts: is_dns_label,
};

/// Names of most objects.
pub(crate) static DNS_SUBDOMAIN: Syntax = Syntax {
    what: "DNS name",
    help: "write lower-case letters, digits, `-` and `.`, a letter or digit at both ends of each part",
    accepts: is_dns_subdomain,
};

/// Names of Services.
pub(crate) static DNS_1035_LABEL: Syntax = Syntax {
    what: "DNS label that starts with a letter",
    help: "write lower-case letters, digits and `-`, 63 at most, a letter first",
    accepts: is_dns_1035_label,
};

/// Keys of labels and annotations, names of conditions and gates.
pub(crate) static QUALIFIED_NAME: Syntax = Syntax {
    what: "qualified name",
    help: "write at most 63 letters, digits, `-`, `_` and `.`, with an optional prefix `domain/`",
    accepts: is_qualified_name,
};

pub(crate) static LABEL_VALUE: Syntax = Syntax {
    what: "label value",
    help: "write letters, digits, `-`, `_` and `.`, 63 at most, a letter or digit at both ends",
    accepts: is_label_value,
};

pub(crate) static PORT_NAME: Syntax = Syntax {
    what: "port name",
    help: "write 15 lower-case letters, digits and single `-` at most, one of them a letter",
    accepts: is_port_name,
};

/// Names of environment variables, as relaxed in Kubernetes 1.32.
pub(crate) static ENV_NAME: Syntax = Syntax {
    what: "name of an environment variable",
    help: "write printable ASCII characters other than `=`",
    accepts: is_env_name,
};

pub(crate) static CONFIG_KEY: Syntax = Syntax {
    what: "key of a ConfigMap or Secret",
    help: "write letters, digits, `-`, `_` and `.`, not `.` or `..` at the start",
    accepts: is_config_key,
};

pub(crate) static HEADER_NAME: Syntax =
    Syntax { what: "name of an HTTP header", help: "write letters, digits and `-`", accepts: is_header_name };

pub(crate) static PATH_SEGMENT: Syntax = Syntax {
    what: "name that fits into a URL path",
    help: "leave out `/` and `%`",
    accepts: is_path_segment,
};

pub(crate) static IP: Syntax = Syntax {
    what: "IP address",
    help: "write an IPv4 or IPv6 address",
    accepts: |text| read_ip(text).is_some(),
};

/// Address ranges.
pub(crate) static CIDR: Syntax = Syntax {
    what: "address range",
    help: "write an address and a prefix length, as `10.0.0.0/8`",
    accepts: is_cidr,
};

pub(crate) static DRIVER_NAME: Syntax = Syntax {
    what: "name of a driver",
    help: "write a DNS name of 63 characters at most",
    accepts: |text| text.len() <= 63 && is_dns_subdomain(&text.to_ascii_lowercase()),
};

pub(crate) static WEBHOOK_NAME: Syntax = Syntax {
    what: "name of a webhook",
    help: "write a DNS name of three parts or more, as `pods.gpulint.example.com`",
    accepts: |text| is_dns_subdomain(text) && text.split('.').count() >= 3,
};

/// Maximum length of a DNS name.
const MAX_SUBDOMAIN_LENGTH: usize = 253;

pub(crate) fn is_port_name(text: &str) -> bool {
    text.len() <= 15
        && is_dns_label(text)
        && !text.contains("--")
        && text.bytes().any(|b| b.is_ascii_lowercase())
}

fn is_env_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| (0x20..0x7F).contains(&b) && b != b'=')
}

pub(crate) fn is_config_key(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_SUBDOMAIN_LENGTH
        && text != "."
        && !text.starts_with("..")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_header_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn is_path_segment(text: &str) -> bool {
    text != "." && text != ".." && !text.contains(['/', '%'])
}

pub(crate) fn is_c_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Parses an IP address. Leading zeros in IPv4 are accepted, as by the API server.
pub(crate) fn read_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if !is_digits(part) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| IpAddr::from(octets))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let digits = is_digits(length);
    let Ok(length) = length.parse::<u8>() else { return false };
    match read_ip(address) {
        Some(IpAddr::V4(_)) => digits && length <= 32,
        Some(IpAddr::V6(_)) => digits && length <= 128,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_the_api_server_spells_them() {
        let long = "a".repeat(64);
        let cases: &[(&Syntax, &[&str], &[&str])] = &[
            (&DNS_LABEL, &["a", "0", "a-b", "a--b", "123"], &["", "-a", "a-", "A", "a.b", "a_b", &long]),
            (
                &DNS_SUBDOMAIN,
                &["a.b", "a-b.c", &long],
                &["", "a..b", ".a", "a.", "nvidia.com/gpu", "A.b", "a_b"],
            ),
            (&DNS_1035_LABEL, &["a", "a1"], &["1a", "", "a.b"]),
            (
                &QUALIFIED_NAME,
                &["a", "A_b.c", "x.y/Z", "1"],
                &["", "/a", "a/", "a/b/c", "-a", "a-", "X/y", &long],
            ),
            (&LABEL_VALUE, &["", "A_b.c-1"], &["a b", "-a", "a/b", &long]),
            (
                &PORT_NAME,
                &["http", "h2", "a-b"],
                &["", "8080", "HTTP", "a--b", "-a", "abcdefghijklmnop", "a_b"],
            ),
            (&ENV_NAME, &["A", "a b", "1", "a.b-c"], &["", "a=b", "ä"]),
            (&CONFIG_KEY, &["a", ".a", "a..b", "A_1"], &["", ".", "..", "..a", "a/b"]),
            (&IP, &["10.0.0.1", "010.0.0.1", "::1"], &["", "10.0.0", "10.0.0.256", "x", "::1%lo"]),
            (&CIDR, &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"]),
            (&WEBHOOK_NAME, &["a.b.c"], &["a.b", "a", "a.b.C"]),
        ];
        for (syntax, good, bad) in cases {
            for text in *good {
                assert!((syntax.accepts)(text), "{} {text:?}", syntax.what);
            }
            for text in *bad {
                assert!(!(syntax.accepts)(text), "{} {text:?}", syntax.what);
            }
            assert!(syntax.help.len() <= 120);
        }
    }
}
