//! The ports of a model server beside that of its HTTP API, with what each is for.

use crate::tree::node::Node;
use crate::workload::command::{OptionValue, Word, option, words};
use crate::workload::environment::may_define;

use super::table::{Server, ServerId};

/// The use of a port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortUse {
    /// Its HTTP API.
    Http,
    Grpc,
    /// Metrics alone.
    Metrics,
    /// Another one, or one that is not known.
    Other,
}

impl PortUse {
    /// The use that the name of a port says, such as `http-metrics`.
    pub(crate) fn of_name(name: &str) -> Option<PortUse> {
        const WORDS: [(PortUse, &[&str]); 3] = [
            (PortUse::Metrics, &["metrics", "prometheus", "prom", "monitoring"]),
            (PortUse::Grpc, &["grpc"]),
            (PortUse::Http, &["http", "rest", "api"]),
        ];
        let has = |word: &&str| name.split(['-', '_', '.']).any(|part| part == *word);
        WORDS.into_iter().find(|(_, words)| words.iter().any(has)).map(|(of, _)| of)
    }
}

/// A port: what it is for, the option that sets it, and the default.
type FurtherPort = (PortUse, &'static str, i64);

/// Triton's port for metrics answers a GET of any other path with 200 since 2.42 and with 400 before, in both cases without a look at
/// the server (`HTTPMetricsServer::Handle` in its `http_server.cc`); those of TGI and TEI answer any, and both have their metrics on
/// the port of the API as well.
const PORTS: [(ServerId, &[FurtherPort]); 5] = [
    (
        ServerId::Triton,
        &[
            (PortUse::Grpc, "grpc-port", 8001),
            (PortUse::Metrics, "metrics-port", 8002),
            (PortUse::Other, "sagemaker-port", 8080),
            (PortUse::Other, "vertex-ai-port", 8080),
        ],
    ),
    (ServerId::Tgi, &[(PortUse::Other, "prometheus-port", 9000)]),
    (ServerId::Tei, &[(PortUse::Other, "prometheus-port", 9000)]),
    (ServerId::HuggingFace, &[(PortUse::Grpc, "grpc-port", 8081)]),
    (ServerId::TensorFlow, &[(PortUse::Grpc, "port", 8500)]),
];

/// Options that open a port, which is closed without them, and the variable that does so as well.
const OPENED_BY: [(&str, &str, &str); 2] = [
    ("sagemaker-port", "allow-sagemaker", "SAGEMAKER_BIND_TO_PORT"),
    ("vertex-ai-port", "allow-vertex-ai", "AIP_MODE"),
];
/// Options that close a port with `false`, and leave it open with `true` (`ParseOption` in Triton's `command_line_parser.cc`).
const CLOSED_BY: [(&str, &str); 2] = [("grpc-port", "allow-grpc"), ("metrics-port", "allow-metrics")];

/// Whether an option of Triton that is on by default leaves what it is about on. `None` if its value is not known.
pub(crate) fn is_allowed(words: &[Word<'_>], name: &str) -> Option<bool> {
    match option(words, &[name]) {
        OptionValue::Absent => Some(true),
        OptionValue::Unknown => None,
        OptionValue::Text(text, _) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
    }
}

impl Server {
    /// Whether the server has a port of its own for a use, unless its options close it.
    pub(crate) fn may_have_port_for(&self, wanted: PortUse) -> bool {
        let known = PORTS.iter().find(|(id, _)| *id == self.id);
        known.is_some_and(|(_, ports)| ports.iter().any(|(of, ..)| *of == wanted))
    }

    /// The further ports of the server in a container. `None` if one is unknown.
    pub(crate) fn further_ports(&self, container: &Node<'_>) -> Option<Vec<(PortUse, i64)>> {
        let words = words(container);
        let is_set = |name: &str| !matches!(option(&words, &[name]), OptionValue::Absent);
        let is_closed = |name: &str| {
            OPENED_BY.iter().any(|(port, opens, variable)| {
                *port == name
                    && ![*opens, name].into_iter().any(is_set)
                    && !may_define(container, |name| name == *variable)
            })
        };
        let allowed = |name: &str| {
            let by = CLOSED_BY.iter().find(|(port, _)| *port == name).filter(|_| self.id == ServerId::Triton);
            by.map_or(Some(true), |(_, by)| is_allowed(&words, by))
        };
        let known = PORTS.iter().find(|(id, _)| *id == self.id).map_or(&[][..], |(_, ports)| *ports);
        let open = known.iter().filter(|(_, name, _)| !is_closed(name) && allowed(name) != Some(false));
        let port = |(of, name, default): &FurtherPort| {
            let of = if allowed(name).is_none() { PortUse::Other } else { *of };
            Some((of, option(&words, &[name]).int_or(*default)?))
        };
        open.map(port).collect()
    }
}
