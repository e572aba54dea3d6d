//! Servers over several pods of which the first alone answers requests.

use crate::cluster::views::Labels;
use crate::rules::prelude::*;
use crate::workload::launcher::{ServerSize, is_later_rank, joins_server};
use crate::workload::ports;
use crate::workload::template::replicas;

/// A group of pods that all get requests, although the first alone answers them.
pub(super) struct SilentRanks {
    /// The label that the first pod has, and its value.
    pub(super) label: (String, String),
    /// Whether the label stands in the template of the first pod alone; otherwise a controller sets it.
    pub(super) is_written: bool,
    /// The pods that answer, in a message.
    pub(super) who: &'static str,
}

/// Paths that ranks of SGLang after the first answer as well (`launch_dummy_health_check_server` in its `common.py`, 0.5).
const DUMMY_PATHS: [&str; 3] = ["/health", "/health_generate", "/ping"];

impl SilentRanks {
    /// `None` unless all pods of a workload surely get requests for the port of its server, and most surely answer none. `targets`
    /// are the ports to which requests go.
    pub(super) fn of(
        workload: &Object,
        selects: &dyn Fn(Labels<'_, '_>) -> Option<bool>,
        targets: &[Node<'_>],
    ) -> Option<SilentRanks> {
        let all = templates(workload);
        let is_group = workload.is(Kind::LEADER_WORKER_SET);
        let (first, later) = match all.as_slice() {
            [first, later] if is_group => (first, later),
            [both] => (both, both),
            _ => return None,
        };
        let size = workload.path(&["spec", "leaderWorkerTemplate", "size"]);
        let pods = if is_group { size.int() } else { replicas(workload) };
        let is_selected = |template: &Template<'_>| selects(&template.pod_labels()) == Some(true);
        if pods.is_none_or(|pods| pods < 2) || !is_selected(first) || !is_selected(later) {
            return None;
        }
        let server = first.containers().find(|container| server_of(container).is_some())?;
        let (port, _) = server_of(&server)?.listens_on(&server)?;
        let (mut pod, None) = (later.containers(), later.sidecars().next()) else { return None };
        let (rank, None) = (pod.next()?, pod.next()) else { return None };
        let is_silent = match all.len() {
            2 => is_later_rank(later, &rank) || joins_server(&rank),
            _ => is_counted(workload, &rank),
        };
        let gets = |target: &Node<'_>| {
            ports::number(&server, target).is_some_and(|(number, _)| number == port)
                && ports::number(&rank, target).is_some()
        };
        if !is_silent || !targets.iter().any(gets) || is_never_ready(&rank) || balances_itself(&rank) {
            return None;
        }
        Some(SilentRanks::named(workload, first, later))
    }

    fn named(workload: &Object, first: &Template<'_>, later: &Template<'_>) -> SilentRanks {
        let is_group = workload.is(Kind::LEADER_WORKER_SET);
        let others = later.labels();
        let own = first.labels().into_iter().find_map(|(key, value)| {
            let value = value.text()?;
            let is_shared = others.iter().any(|(other, node)| *other == key && node.text() == Some(value));
            (!is_shared).then(|| (key.to_owned(), value.to_owned()))
        });
        let is_written = own.is_some();
        let by_controller = || match is_group {
            true => ("leaderworkerset.sigs.k8s.io/worker-index".to_owned(), "0".to_owned()),
            false => ("statefulset.kubernetes.io/pod-name".to_owned(), format!("{}-0", workload.name())),
        };
        let who = if is_group { "only the leader" } else { "only the first pod" };
        SilentRanks { label: own.unwrap_or_else(by_controller), is_written, who }
    }
}

/// Whether the pods of one template are the ranks of one SGLang, each with its own number.
fn is_counted(workload: &Object, container: &Node<'_>) -> bool {
    let is_of_group = || match workload.is(Kind::LEADER_WORKER_SET) {
        true => command_line(container).contains("LWS_WORKER_INDEX"),
        false => {
            workload.is(Kind::STATEFUL_SET)
                && replicas(workload).map(ServerSize::Pods) == Some(ServerSize::of(container))
        }
    };
    let launch = Launch::of(container).filter(|launch| launch.program.is(ServerId::Sglang));
    launch.is_some_and(|launch| matches!(launch.option(&["node-rank"]), OptionValue::Unknown))
        && is_of_group()
}

/// Whether a probe keeps a rank that answers no requests from being ready, so that it gets none.
fn is_never_ready(container: &Node<'_>) -> bool {
    let is_sglang = server_of(container).is_some_and(|server| server.id == ServerId::Sglang);
    ["startupProbe", "readinessProbe"].iter().any(|name| {
        let probe = container.get(name);
        let path = probe.path(&["httpGet", "path"]);
        let is_answered = is_sglang && path.text().is_some_and(|path| DUMMY_PATHS.contains(&path));
        probe.is_set() && !is_answered
    })
}

/// Whether each pod of vLLM has an API server for its own data-parallel ranks.
fn balances_itself(container: &Node<'_>) -> bool {
    let words = words(container);
    ["--data-parallel-hybrid-lb", "--data-parallel-external-lb"]
        .iter()
        .any(|flag| words.iter().any(|word| word.text.replace('_', "-") == *flag))
}
