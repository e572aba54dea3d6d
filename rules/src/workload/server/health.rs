//! How long a server takes to answer a probe.

use super::ServerId;
use super::release::published;
use crate::platform::Release;
use crate::tree::node::Node;
use crate::workload::attention::heads_of;
use crate::workload::environment::{is_open, variable};
use crate::workload::launcher::Launch;

/// The first release of SGLang in which one function answers `/health` and `/health_generate` (`http_server.py` of 0.4.10 and 0.5.1).
const ONE_FUNCTION: Release = [0, 5, 1];
/// The first release with a variable that makes `/health` answer at once (`http_server.py` of 0.5.5 and 0.5.6).
const SWITCHED: Release = [0, 5, 6];
/// The first release in which `/health_generate` waits (`http_server.py` of 0.4.0 and 0.4.5).
const FIRST_WAIT: Release = [0, 4, 5];
const SWITCH: &str = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION";
const BYPASS: &str = "SGLANG_DIAG_BYPASS_HEALTH_GENERATE";

/// Whether a container surely runs a release of SGLang whose `/health` answers without the engine, other than `/health_generate`.
pub(crate) fn has_own_health(container: &Node<'_>) -> bool {
    published(container).is_some_and(|(id, release)| id == ServerId::Sglang && release < ONE_FUNCTION)
}

/// How certain it is that a server takes more than a second to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    Surely,
    /// Releases from 0.5.1 on do, and that of the container is not known.
    IfNewer,
    /// Something that is not known may have it answer at once: a variable of another object, or another option.
    UnlessSwitched,
}

/// Whether a server answers a path after more than a second. SGLang sleeps for a second before it looks whether a token was generated
/// (`http_server.py`, 0.4.5 to 0.5.23).
pub(crate) fn answers_late(container: &Node<'_>, path: &str) -> Option<Late> {
    let launch = Launch::of(container).filter(|launch| launch.program.is(ServerId::Sglang))?;
    // An encoder has a server of its own, as have models that make images with `sglang serve`.
    let is_text = || launch.model(container).is_some_and(|(model, _)| heads_of(&model).is_some());
    if launch.word_of("encoder-only").is_some() || launch.line().contains("sglang serve") && !is_text() {
        return None;
    }
    let release = published(container).map(|(_, release)| release);
    let is_before = |first: Release| release.is_some_and(|release| release < first);
    let is_off = |name: &str, off: &[&str]| {
        let value = variable(container, name).flatten();
        value.is_some_and(|(text, _)| off.contains(&text.to_ascii_lowercase().as_str()))
    };
    let answers_at_once = match path {
        "/health" => {
            is_before(ONE_FUNCTION) || !is_before(SWITCHED) && is_off(SWITCH, &["false", "0", "no", "n"])
        }
        "/health_generate" => is_before(FIRST_WAIT),
        _ => true,
    };
    if answers_at_once || is_off(BYPASS, &["true", "1", "yes", "y"]) {
        return None;
    }
    let may_be_switched = path == "/health" && !is_before(SWITCHED) && is_open(container);
    Some(match release {
        Some(_) if launch.may_be_installed => Late::IfNewer,
        Some(_) if may_be_switched || launch.may_have_more_options() => Late::UnlessSwitched,
        Some(_) => Late::Surely,
        None => Late::IfNewer,
    })
}
