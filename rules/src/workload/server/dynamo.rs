//! Workers of NVIDIA Dynamo: modules that run the engine of a server and take its options. Requests come from `dynamo.frontend`, which
//! finds the workers through Dynamo's discovery and not through a Service.
//!
//! Sources, read in November 2026: `components/src/dynamo/{vllm,sglang,trtllm}` of Dynamo 0.4 to 1.0.

use super::{Server, ServerId, table::SERVERS};
use crate::tree::node::Node;
use crate::workload::command::{base_name, words};

/// The modules that run an engine, and the server whose options they pass on to it.
const ENGINES: [(&str, ServerId); 3] = [
    ("dynamo.vllm", ServerId::Vllm),
    ("dynamo.sglang", ServerId::Sglang),
    ("dynamo.trtllm", ServerId::TensorRtLlm),
];

/// The module of a worker that starts with a word of a command line, and the server whose engine it runs.
pub(crate) fn engine_at(word: &str) -> Option<(&'static str, &'static Server)> {
    let (module, id) = ENGINES.iter().find(|(module, _)| *module == word)?;
    SERVERS.iter().find(|server| server.id == *id).map(|server| (*module, server))
}

/// Whether a container runs a part of Dynamo that gets its requests through Dynamo's discovery. At SIGTERM such a part leaves the
/// discovery first, and serves on for some seconds (`DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS`, 5 by default). It is not registered
/// before its model is loaded.
pub(crate) fn is_discovered(container: &Node<'_>) -> bool {
    words(container).iter().any(|word| {
        let module = base_name(&word.text).strip_prefix("dynamo.");
        module.is_some_and(|module| module != "frontend" && !module.starts_with("frontend."))
    })
}
