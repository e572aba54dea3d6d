//! A relabeling writes an address without a host.
//!
//! # Why
//! `__address__` is the host and the port that Prometheus connects to. A relabeling that takes only the
//! port from an annotation writes `8000` or `8000:` there, and no pod is scraped: `replacement` can refer
//! to what the groups of `regex` match in the values of `source_labels`, joined with `;`, and to nothing
//! else. `${x}` with the name of a label is empty. A `regex` without the `;` between two labels never
//! matches, so that the port of the annotation is never used.
//!
//! # Fix
//! Read both labels, and match both:
//! `source_labels: [__address__, __meta_kubernetes_pod_annotation_prometheus_io_port]`,
//! `regex: '([^:]+)(?::\d+)?;(\d+)'`, `replacement: '$1:$2'`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: prometheus, namespace: monitoring}
//!  data:
//!    prometheus.yml: |
//!      scrape_configs:
//!        - job_name: pods
//!          kubernetes_sd_configs: [{role: pod}]
//!          relabel_configs:
//! -          - source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_port]
//! -            regex: (.+)
//! -            replacement: ${1} # <-
//! +          - source_labels: [__address__, __meta_kubernetes_pod_annotation_prometheus_io_port]
//! +            regex: ([^:]+)(?::\d+)?;(\d+)
//! +            replacement: $1:$2
//!              target_label: __address__
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#relabel_config>
//! - <https://github.com/prometheus/prometheus/blob/v3.5.0/documentation/examples/prometheus-kubernetes.yml>

use regex::Regex;

use crate::rules::gpu::report_place;
use crate::rules::monitoring::monitors::{MONITORS, RELABELINGS, endpoints, target_label};
use crate::rules::monitoring::scrape_jobs::{JOB_KINDS, for_each_job};
use crate::rules::prelude::*;
use crate::workload::charts::ValuePlace;

pub(crate) static RULE: Rule = Rule {
    id: "scrape-address-broken",
    kinds: kinds![[Kind::SCRAPE_CONFIG], MONITORS, JOB_KINDS],
    docs: docs(include_str!("scrape_address_broken.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let lists: Vec<Node<'_>> = if object.is(Kind::SCRAPE_CONFIG) {
        vec![object.path(&["spec", "relabelings"])]
    } else if MONITORS.iter().any(|kind| object.is(*kind)) {
        endpoints(object).flat_map(|one| RELABELINGS.map(|list| one.get(list))).collect()
    } else {
        Vec::new()
    };
    for relabeling in lists.iter().flat_map(Node::items) {
        report(&relabeling, &|node| ValuePlace::of(object.root().at(&node.pointer())), ctx);
    }
    for_each_job(object, &mut |job| {
        for relabeling in job.node.get("relabel_configs").items() {
            report(&relabeling, &|node| job.place(node), ctx);
        }
    });
    None
}

fn report<'a>(
    relabeling: &Node<'_>,
    place: &dyn Fn(&Node<'_>) -> ValuePlace<'a>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (field, message) = match fault(relabeling)? {
        Fault::NoHost(address) => {
            ("replacement", format!("this relabeling makes `__address__` `{address}`, which has no host"))
        }
        Fault::NeverMatches => (
            "regex",
            "`regex` never matches the labels, which are joined with `;`: the address stays as it is"
                .to_owned(),
        ),
    };
    let node = Some(relabeling.get(field)).filter(Node::is_set).unwrap_or_else(|| target_label(relabeling));
    report_place(&place(&node), message, ctx)
        .help("read `[__address__, …_port]`, match `([^:]+)(?::\\d+)?;(\\d+)`, and write `$1:$2`");
    None
}

enum Fault {
    /// The address that it gives.
    NoHost(String),
    NeverMatches,
}

/// Hosts and ports as service discovery gives them: with the port of a container, without one, and by IPv6.
const ADDRESSES: [&str; 3] = ["10.0.0.1:8080", "10.0.0.1", "[fd00::1]:8080"];

/// What is wrong with a relabeling of the address. `None` if the values of a label that it reads are not known.
fn fault(relabeling: &Node<'_>) -> Option<Fault> {
    if relabeling.has_unknown_key() || target_label(relabeling).raw_text() != Some("__address__") {
        return None;
    }
    let action = relabeling.get("action");
    if action.is_set() && !action.text()?.eq_ignore_ascii_case("replace") {
        return None;
    }
    let either = |snake: &str, camel: &str| {
        let node = relabeling.get(camel);
        if node.is_set() { node } else { relabeling.get(snake) }
    };
    let labels = either("source_labels", "sourceLabels");
    let labels: Vec<Source> = labels.items().map(|label| Source::of(label.text()?)).collect::<Option<_>>()?;
    if labels.is_empty() {
        return None;
    }
    let text = |node: Node<'_>, default: &'static str| match node.raw_text() {
        Some(text) => Some(text.to_owned()),
        None => node.is_absent().then(|| default.to_owned()),
    };
    let separator = text(relabeling.get("separator"), ";")?;
    let regex = text(relabeling.get("regex"), "(.*)")?;
    let replacement = text(relabeling.get("replacement"), "$1")?;
    if [&regex, &replacement].iter().any(|text| text.contains("{{")) {
        return None;
    }
    let pattern = Regex::new(&format!("^(?s:{regex})$")).ok()?;
    if !names_groups(&replacement, &pattern) {
        return None;
    }
    let mut result = None;
    for address in ADDRESSES {
        let values: Vec<&str> = labels.iter().map(|label| label.value(address)).collect();
        let joined = values.join(&separator);
        let Some(found) = pattern.captures(&joined) else { continue };
        let mut written = String::new();
        found.expand(&replacement, &mut written);
        if has_host(&written) {
            return None;
        }
        result = Some(written);
    }
    match result {
        Some(address) => Some(Fault::NoHost(address)),
        // A relabeling may be for addresses of one form only.
        None if labels.len() > 1 && !regex.contains(separator.as_str()) => Some(Fault::NeverMatches),
        None => None,
    }
}

/// A label of a discovered target.
#[derive(Clone, Copy)]
enum Source {
    Address,
    Port,
    /// Another label that names a host.
    Host,
}

impl Source {
    fn of(label: &str) -> Option<Source> {
        match label {
            "__address__" => Some(Source::Address),
            _ if label.ends_with("_port") || label.ends_with("_port_number") => Some(Source::Port),
            _ if label.ends_with("_ip") => Some(Source::Host),
            _ => None,
        }
    }

    fn value(self, address: &str) -> &str {
        match self {
            Source::Address => address,
            Source::Port => "9090",
            Source::Host if address.starts_with('[') => "fd00::1",
            Source::Host => "10.0.0.1",
        }
    }
}

/// Whether a replacement refers to groups of the pattern only, or to names that a label has, which are empty. Others may be
/// placeholders that a tool fills in.
fn names_groups(replacement: &str, pattern: &Regex) -> bool {
    let mut rest = replacement;
    while let Some((_, after)) = rest.split_once('$') {
        rest = after;
        let name = match after.strip_prefix('{') {
            Some(inside) => inside.split('}').next().unwrap_or(inside),
            None => after.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or(after),
        };
        let is_group = name.bytes().next().is_some_and(|first| first.is_ascii_digit())
            || pattern.capture_names().flatten().any(|known| known == name);
        if !is_group && !name.starts_with("__") && !after.starts_with('$') {
            return false;
        }
    }
    true
}

/// Whether an address has a host: a port alone, or text between a `:` and nothing, is none.
fn has_host(address: &str) -> bool {
    let host = match address.rsplit_once(':') {
        Some((host, _)) => host,
        None => address,
    };
    !host.is_empty() && !host.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (address, expected) in [
            ("10.0.0.1:80", true),
            ("[fd00::1]:80", true),
            ("pods:80", true),
            ("80", false),
            (":80", false),
            ("80:", false),
        ] {
            assert_eq!(has_host(address), expected, "{address}");
        }
    }
}
