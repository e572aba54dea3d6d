//! A model server does not start: its release does not have one of its options.
//!
//! # Why
//! vLLM and SGLang end at once when their command line has an option that they do not know: the container
//! restarts again and again on a node that costs money. Both remove options some releases after they have
//! deprecated them, so that a change of the image's tag is enough: vLLM removed `--task` in 0.13,
//! `--disable-log-requests` in 0.17 and `--swap-space` in 0.18. An option of another server has the same effect:
//! `--mem-fraction-static` is SGLang's, and no release of vLLM has had it. Only images of these servers, and
//! AWS's Deep Learning Containers of them, with a release in their tag are judged, as kustomizations, Flux and
//! Argo CD of the input set it, and not where a command before the server installs something. `latest`, `nightly`
//! and an image without a tag are the newest release that gpulint knows at the next pull, which is a warning: a
//! node may still have an older one.
//!
//! # Fix
//! Remove the option, or write what has replaced it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.18.0
//!        resources: {requests: {cpu: 6, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//!        args:
//!          - --model=Qwen/Qwen3-8B
//! -        - --swap-space=8 # <-
//! ```
//!
//! # References
//! - <https://github.com/vllm-project/vllm/releases>
//! - <https://github.com/sgl-project/sglang/releases>

use std::sync::LazyLock;

use crate::facts::table;
use crate::platform::Release;
use crate::rules::prelude::*;
use crate::workload::server::release::{newest, published, release};

/// A runtime of KServe is judged where it is written: its InferenceServices start its command line.
const SERVING_RUNTIMES: [Kind; 2] = [Kind::SERVING_RUNTIME, Kind::CLUSTER_SERVING_RUNTIME];

pub(crate) static RULE: Rule = Rule {
    id: "server-option-removed",
    kinds: kinds![SERVING_RUNTIMES, WORKLOAD_KINDS],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("server_option_removed.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

/// An option that is gone.
struct Removed {
    server: &'static str,
    option: &'static str,
    /// The first release without it, as it is written and as a number. `None` if no release has had it.
    since: Option<(&'static str, Release)>,
    /// The last minor in which no longer name stands for it.
    until: Option<Version>,
    instead: &'static str,
}

static REMOVED: LazyLock<Vec<Removed>> = LazyLock::new(|| {
    let row = |[server, option, since, until, instead]: [&'static str; 5]| {
        let until = if until == "-" { None } else { Some(Version::parse(until)?) };
        let since = if since == "never" { None } else { Some((since, release(since)?)) };
        Some(Removed { server, option, since, until, instead })
    };
    table::read(include_str!("server_option_removed.tsv"), row).collect()
});

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let of_runtime = object.path(&["spec", "containers"]);
    let of_runtime = of_runtime.items().filter(|_| SERVING_RUNTIMES.iter().any(|kind| object.is(*kind)));
    let templates = templates(object);
    for container in templates.iter().flat_map(Template::containers).chain(of_runtime) {
        inspect(object, &container, ctx);
    }
    None
}

/// The newest releases whose options the table has: those that a tag such as `latest` stands for, or older ones.
const NEWEST: [(ServerId, Release); 2] = [(ServerId::Vllm, [0, 33, 0]), (ServerId::Sglang, [0, 5, 10])];

fn inspect(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = container.get("image");
    let (id, release, moving) = match published(container) {
        Some((id, release)) => (id, release, None),
        None => {
            let (id, tag) = newest(container)?;
            let (_, release) = NEWEST.into_iter().find(|(server, _)| *server == id)?;
            (id, release, Some(tag))
        }
    };
    let launch = Launch::of(container).filter(|launch| !launch.may_be_installed)?;
    let server = launch.program.server().filter(|_| launch.program.is(id))?;
    let minor = Version::new(release[0], release[1]);
    let is_gone = |row: &&Removed| {
        row.server == server.name
            && row.since.is_none_or(|(_, since)| since <= release)
            && row.until.is_none_or(|until| minor <= until)
    };
    for row in REMOVED.iter().filter(is_gone) {
        let Some(word) = launch.word_of(row.option) else { continue };
        let since = row.since.map_or_else(String::new, |(since, _)| format!(" since {since}"));
        let message = match moving {
            None => format!("{} has no `--{}`{since}, and does not start with it", server.name, row.option),
            Some(tag) => format!(
                "{} has no `--{}`{since}: what `{tag}` pulls does not start with it",
                server.name, row.option
            ),
        };
        let finding = ctx.report(&word.node, message);
        finding.identified_by(row.option).help(row.instead).related(object, &node, "its release");
        // A node may still have the image of an older release.
        if moving.is_some() {
            finding.severity(Severity::Warning);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::REMOVED;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert!(REMOVED.len() > 50);
    }
}
