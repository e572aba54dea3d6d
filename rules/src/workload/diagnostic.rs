//! Workloads that only test a GPU: samples, benchmarks, `nvidia-smi`.

use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::class::{Evidence, WorkloadClass, own_class};
use crate::workload::command::{Word, base_name, command_and_args, words};
use crate::workload::image::image_of;
use crate::workload::template::templates;

/// Parts of images and commands of such workloads.
const SIGNS: [&str; 25] = [
    "nvidia-smi",
    "vectoradd",
    "vector-add",
    "cuda-sample",
    "cuda-test",
    "nvidia/samples",
    "nccl-test",
    "nccl_test",
    "all_reduce_perf",
    "dcgmproftester",
    "gpu-burn",
    "gpu_burn",
    "devicequery",
    "nbody",
    "bandwidthtest",
    "nvbandwidth",
    "neuron-ls",
    "neuron-top",
    "nccl_preflight",
    "nccl-preflight",
    "amd-smi",
    "xpu-smi",
    "rocm-smi",
    "hl-smi",
    "rocminfo",
];

pub(crate) fn is_test(object: &Object) -> bool {
    // What a Namespace declares for all, or is called, says nothing about a single test.
    let own = own_class(object);
    let is_by_namespace = matches!(own.evidence, Evidence::NamespaceName { workload: None, .. });
    if matches!(own.class, WorkloadClass::Training | WorkloadClass::Realtime | WorkloadClass::Interactive)
        && !is_by_namespace
    {
        return false;
    }
    let has_sign = |text: &str| {
        let text = text.to_ascii_lowercase();
        SIGNS.iter().any(|sign| text.contains(sign))
    };
    templates(object).iter().flat_map(|t| t.all_containers()).any(|container| {
        let mut words = command_and_args(&container);
        // Containers of such a test are called after it.
        ["image", "name"].iter().any(|field| container.get(field).raw_text().is_some_and(has_sign))
            || words.any(|w| w.raw_text().is_some_and(has_sign))
    })
}

/// Programs that show the accelerators of a node, and do nothing with them.
const QUERIES: [&str; 13] = [
    "nvidia-smi",
    "nvidia-debugdump",
    "amd-smi",
    "rocm-smi",
    "rocminfo",
    "xpu-smi",
    "hl-smi",
    "sycl-ls",
    "clinfo",
    "neuron-ls",
    "neuron-top",
    "deviceQuery",
    "npu-smi",
];

/// The program with which a container asks for its accelerators, if it does nothing else: `nvidia-smi`, alone or in a script that
/// prints texts and waits.
pub(crate) fn only_queries(container: &Node<'_>) -> Option<&'static str> {
    let words = words(container);
    let mut found = None;
    for command in commands_of(&words) {
        let mut words = command.iter().map(|word| base_name(&word.text));
        let first = words.find(|word| !matches!(*word, "do" | "exec" | "while" | "watch"));
        match QUERIES.iter().find(|query| first == Some(**query)) {
            Some(query) => found = Some(*query),
            None => match first {
                None | Some("sleep" | "echo" | "set" | "date" | "true" | ":" | "done" | "exit" | "ls") => {}
                Some(_) => return None,
            },
        }
    }
    found
}

/// The commands of a container: those of the script of a shell, or its only one.
fn commands_of<'w, 'a>(words: &'w [Word<'a>]) -> impl Iterator<Item = &'w [Word<'a>]> + use<'w, 'a> {
    let is_shell = |word: &Word<'_>| matches!(base_name(&word.text), "sh" | "bash" | "ash");
    let script = match words {
        [shell, rest @ ..] if is_shell(shell) => {
            &rest[rest.iter().take_while(|word| word.text.starts_with('-')).count()..]
        }
        all => all,
    };
    script.split(|word| word.text == ";")
}

/// Whether a workload only waits, so that its node can be used or inspected manually.
pub(crate) fn only_waits(object: &Object) -> bool {
    let templates = templates(object);
    !templates.is_empty() && templates.iter().flat_map(|t| t.all_containers()).all(|c| only_sleeps(&c))
}

/// Whether a workload only waits, for an hour or longer: `sleep infinity`, `sleep 86400`, `tail -f`.
pub(crate) fn waits_for_hours(object: &Object) -> bool {
    let templates = templates(object);
    let is_long = |word: &Word<'_>| {
        let text = word.text.as_str();
        matches!(text, "infinity" | "inf" | "tail")
            || text.parse::<u64>().is_ok_and(|seconds| seconds >= 3600)
            || text
                .strip_suffix('h')
                .or_else(|| text.strip_suffix('d'))
                .is_some_and(|n| n.parse::<u64>().is_ok())
    };
    only_waits(object)
        && templates
            .iter()
            .flat_map(|t| t.containers())
            .any(|container| words(&container).iter().any(is_long))
}

/// Whether the script of a container waits without end once its work is done: its last command is `sleep infinity`, `tail -f` or a loop
/// that sleeps. A script with a server in the background does not only wait.
pub(crate) fn ends_in_wait(container: &Node<'_>) -> bool {
    let lists = [container.get("command"), container.get("args")];
    let scripts: Vec<Node<'_>> = lists.iter().flat_map(|list| list.items()).collect();
    let is_flag =
        |node: &Node<'_>| node.text().is_some_and(|text| text.starts_with('-') && text.ends_with('c'));
    let after_flag = scripts.iter().position(is_flag).and_then(|at| scripts.get(at + 1));
    after_flag.and_then(Node::text).is_some_and(script_ends_in_wait)
}

fn script_ends_in_wait(script: &str) -> bool {
    let lines = script.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let text = lines.collect::<Vec<&str>>().join(" ; ").replace("&&", " ; ").replace(';', " ; ");
    let mut words: Vec<&str> = text.split_whitespace().collect();
    while words.last() == Some(&";") {
        words.pop();
    }
    let is_background = |word: &str| word.ends_with('&') || word.contains("sshd") || word.contains("<<");
    if words.iter().any(|word| is_background(word)) {
        return false;
    }
    if words.last() == Some(&"done") {
        let start = words.iter().rposition(|word| *word == "while");
        let inner = start.and_then(|start| words.get(start + 1..words.len() - 1)).unwrap_or_default();
        let inner: Vec<&str> = inner.iter().copied().filter(|word| *word != ";").collect();
        return matches!(inner.as_slice(), ["true" | ":", "do", "sleep", _]);
    }
    let last = words.rsplit(|word| *word == ";").next().unwrap_or_default();
    match last.strip_prefix(&["exec"]).unwrap_or(last) {
        ["sleep", time] => {
            matches!(*time, "infinity" | "inf") || time.parse::<u64>().is_ok_and(|seconds| seconds >= 86_400)
        }
        ["tail", "-f", _] => true,
        _ => false,
    }
}

/// Whether the command of a container only waits: `sleep infinity`, or a shell script that prints a text and sleeps.
pub(crate) fn only_sleeps(container: &Node<'_>) -> bool {
    // The pause image of Kubernetes does nothing else.
    if words(container).is_empty() {
        return image_of(container).is_some_and(|image| image.last() == "pause");
    }
    ends_in(container, &["sleep", "tail"], &[])
}

/// Whether the command of a container serves nothing: it waits, or makes load, as `stress-ng` does, perhaps after it has installed
/// that.
pub(crate) fn never_listens(container: &Node<'_>) -> bool {
    const LASTING: [&str; 5] = ["sleep", "tail", "stress", "stress-ng", "yes"];
    const SETUP: [&str; 7] = ["set", "apk", "apt", "apt-get", "dnf", "yum", "date"];
    let has_background = words(container).iter().any(|word| !word.known || word.text.ends_with('&'));
    !has_background && ends_in(container, &LASTING, &SETUP)
}

/// Whether a container runs one of some programs, and beside it only what prints, waits or is named as setup.
fn ends_in(container: &Node<'_>, lasting: &[&str], setup: &[&str]) -> bool {
    let words = words(container);
    let mut waits = false;
    for command in commands_of(&words) {
        let mut words = command.iter().map(|word| word.text.as_str());
        match words.find(|word| !matches!(*word, "do" | "exec" | "while")) {
            Some(program) if lasting.contains(&base_name(program)) => waits = true,
            Some(program) if setup.contains(&program) => {}
            None | Some("echo" | "trap" | "wait" | ":" | "true" | "done" | "exit") => {}
            Some(_) => return false,
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::script_ends_in_wait;

    #[test]
    fn scripts_that_wait_after_their_work() {
        for script in [
            "sleep infinity",
            "set -x\npython compile.py\n# done\nwhile true; do sleep 3600; done\n",
            "python train.py && exec sleep inf",
            "python train.py; tail -f /dev/null",
            "while :\ndo\n  sleep 60\ndone",
        ] {
            assert!(script_ends_in_wait(script), "{script}");
        }
        for script in [
            "python train.py || sleep infinity",
            "python server.py & sleep infinity",
            "/usr/sbin/sshd; sleep infinity",
            "if test -n \"$DEBUG\"; then sleep infinity; fi",
            "while true; do python step.py; done",
            "while ! test -f /done; do sleep 5; done",
            "sleep 60",
            "python train.py",
        ] {
            assert!(!script_ends_in_wait(script), "{script}");
        }
    }
}
