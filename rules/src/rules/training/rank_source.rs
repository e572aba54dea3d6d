//! What the variables and the scripts of a distributed run say of the rank of a pod and of the address of the
//! first one.

use crate::lint::context::Context;
use crate::lint::finding::{Severity, ellipsize};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::class::command_line;
use crate::workload::command::{base_name, command_and_args, shell_script};
use crate::workload::template::Template;

/// The name from whose end a script takes a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankName {
    /// The host name, which for a Job is that of the pod or, if it is Indexed, `<Job>-<index>`.
    Host,
    /// The name of the pod.
    Pod,
}

/// Words of a line that gives a pod its rank.
const RANK_WORDS: [&str; 4] = ["rank", "ordinal", "index", "shard"];
/// Parts of a line that take the end of a name, in lower case.
const ENDS: [&[&str]; 8] = [
    &["##*-}"],
    &["grep -o", "[0-9]"],
    &["awk", "{print $nf}"],
    &["sed", ".*-"],
    &["sed", "[^0-9]"],
    &["tr -dc", "0-9"],
    &["rev", "cut "],
    &["split(", "[-1]"],
];

/// Where a container takes a rank from the end of its host name or of the pod's name, and from which of them.
pub(super) fn rank_in_name<'a>(
    template: &Template<'a>,
    container: &Node<'a>,
) -> Option<(Node<'a>, RankName)> {
    let is_own = ["hostname", "hostNetwork"].iter().any(|field| template.spec.get(field).is_set());
    if is_own || template.spec.has_unknown_key() {
        return None;
    }
    let env = container.get("env");
    let of_pod: Vec<String> = env
        .items()
        .filter(|entry| entry.path(&["valueFrom", "fieldRef", "fieldPath"]).text() == Some("metadata.name"))
        .filter_map(|entry| Some(entry.text_at("name")?.to_ascii_lowercase()))
        .collect();
    let defines_host = env.items().any(|entry| entry.text_at("name") == Some("HOSTNAME"));
    let name_of = |line: &str| {
        let line = line.trim().to_ascii_lowercase();
        let takes_end = ENDS.iter().any(|parts| parts.iter().all(|part| line.contains(part)));
        if line.starts_with('#') || !takes_end || !RANK_WORDS.iter().any(|word| line.contains(word)) {
            return None;
        }
        if of_pod.iter().any(|name| line.contains(name.as_str())) {
            return Some(RankName::Pod);
        }
        (line.contains("hostname") && !defines_host).then_some(RankName::Host)
    };
    command_and_args(container).find_map(|item| {
        let name = item.raw_text()?.lines().find_map(name_of)?;
        Some((item, name))
    })
}

/// Variables that programs read as a number of a process or of a pod.
const RANKS: [&str; 6] = ["RANK", "NODE_RANK", "GROUP_RANK", "LOCAL_RANK", "MACHINE_RANK", "PET_NODE_RANK"];

/// Fields of a pod that are not numbers.
const NAMES: [(&str, &str); 5] = [
    ("metadata.name", "the pod's name"),
    ("metadata.labels['statefulset.kubernetes.io/pod-name']", "the pod's name"),
    ("metadata.uid", "the pod's UID"),
    ("status.podIP", "the pod's address"),
    ("spec.nodeName", "the node's name"),
];

/// Reports a variable for a rank that is a name.
pub(super) fn names_as_ranks(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.containers() {
        let line = command_line(&container);
        for entry in container.get("env").items() {
            let Some(name) = entry.text_at("name").filter(|name| RANKS.contains(name)) else { continue };
            let path = entry.path(&["valueFrom", "fieldRef", "fieldPath"]);
            let Some((_, what)) = NAMES.iter().find(|(known, _)| path.text() == Some(*known)) else {
                continue;
            };
            // A script may take the number out of it.
            let is_changed = ["##", "%", "sed", "grep", "awk", "cut ", "tr ", "split", "rev", "=~"]
                .iter()
                .any(|sign| line.contains(sign))
                || line.contains(&format!("{name}="));
            if is_changed {
                continue;
            }
            let help = match object.kind() {
                "StatefulSet" => "take it from the label `apps.kubernetes.io/pod-index`",
                "Job" | "CronJob" | "ScaledJob" | "JobSet" => {
                    "read the annotation `batch.kubernetes.io/job-completion-index` of an Indexed Job"
                }
                "PyTorchJob" => "leave it out: the operator sets the rank of each pod",
                _ => "give each pod a number, as a StatefulSet and an Indexed Job do",
            };
            let finding = ctx.report(&path, format!("`{name}` is {what}, where programs read a number"));
            finding.reports_absence(false).help(help);
            // The script of an image may do the same.
            if !is_read_by_program(&container) {
                finding.severity(Severity::Warning);
            }
        }
    }
    None
}

/// Whether a command of the container is a program that reads its variables itself.
fn is_read_by_program(container: &Node<'_>) -> bool {
    const PROGRAMS: [&str; 6] = ["python", "python3", "torchrun", "accelerate", "deepspeed", "java"];
    let is_one = |word: &str| PROGRAMS.contains(&base_name(word));
    match shell_script(command_and_args(container)) {
        Some(script) => script.node.raw_text().is_some_and(|text| text.split_whitespace().any(is_one)),
        None => command_and_args(container).next().is_some_and(|first| first.text().is_some_and(is_one)),
    }
}

/// Reports an address for the first pod that is a Service of all pods of the template, so that each pod may reach
/// another one.
pub(super) fn meets_at_any_pod(
    object: &Object,
    template: &Template<'_>,
    (pods, host, node): (i64, &str, &Node<'_>),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let namespace = object.namespace_or_default();
    let labels: Vec<&str> = host.split('.').collect();
    let name = match labels.as_slice() {
        [name] => name,
        [name, of] | [name, of, "svc", ..] if *of == namespace => name,
        _ => return None,
    };
    let service = ctx.cluster().views().services_of(namespace, template);
    let service = service.into_iter().find(|service| service.name() == *name && ctx.pairs_with(service))?;
    let spec = service.get("spec");
    if service.may_lack_fields() || spec.get("type").text() == Some("ExternalName") {
        return None;
    }
    let first = match object.kind() {
        "StatefulSet" => format!("meet at the first pod: `{}-0.<headless Service>`", object.name()),
        _ => format!(
            "make the Job Indexed, write a headless Service as `subdomain`, and meet at `{}-0.<subdomain>`",
            object.name()
        ),
    };
    let message = format!(
        "workers of `{}` meet at Service `{}`, which selects all {pods} pods: each may reach another one",
        object.display_name(),
        ellipsize(name)
    );
    ctx.report(node, message).reports_absence(false).help(first).related(
        service,
        &spec.get("selector"),
        "selects every pod of the run",
    );
    Some(())
}
