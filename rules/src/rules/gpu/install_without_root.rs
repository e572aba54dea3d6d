//! A container installs packages of its system without being root.
//!
//! # Why
//! `apt-get`, `apk`, `dnf` and their like write to folders of root. Under `runAsNonRoot` or another `runAsUser`
//! they end with `Permission denied`: with `set -e`, or before `&&`, so does the container, each time that it
//! starts again. It is reported of scripts without `sudo` that do not ask who runs them.
//!
//! # Fix
//! Build an image that has the packages: its pods also start faster, and without the network. `pip install
//! --user` and `pip install --target` work without root.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: build}
//!  spec:
//!    restartPolicy: Never
//!    securityContext: {runAsNonRoot: true, runAsUser: 1000}
//!    containers:
//!      - name: build
//! -      image: ubuntu:24.04
//! -      command: [sh, -c, "apt-get update && apt-get install -y cmake && cmake --build /src"] # <-
//! +      image: registry.example.com/builder:24.04
//! +      command: [sh, -c, "cmake --build /src"]
//!        resources: {requests: {cpu: 4, memory: 8Gi}, limits: {memory: 8Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/security-context/>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::rules::prelude::*;
use crate::workload::command::{SHELLS, Word, base_name, command_at, words};
use crate::workload::security::{User, effective_user};

pub(crate) static RULE: Rule = Rule {
    id: "install-without-root",
    kinds: WORKLOAD_KINDS,
    reads: &POD_POLICIES,
    docs: docs(include_str!("install_without_root.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Managers of packages, and those of their commands that write.
const MANAGERS: [(&str, &[&str]); 8] = [
    ("apt-get", &["install", "update", "upgrade"]),
    ("apt", &["install", "update", "upgrade"]),
    ("apk", &["add", "update", "upgrade"]),
    ("dnf", &["install", "update", "upgrade"]),
    ("microdnf", &["install", "update", "upgrade"]),
    ("yum", &["install", "update", "upgrade"]),
    ("zypper", &["install", "in", "update"]),
    ("tdnf", &["install", "update"]),
];

/// Parts of scripts that change the user, ask who runs them, or go on after an error; and of those that are about another container.
const OTHERWISE: [&str; 13] = [
    "sudo", "su ", "fakeroot", "whoami", "id -u", "EUID", "$UID", "||", "if ", "chroot", "podman", "docker",
    "<<",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    if object.may_lack_fields()
        || may_change_pods(ctx.cluster(), object.namespace_or_default(), PodPart::SecurityContext)
    {
        return None;
    }
    for container in template.all_containers() {
        inspect(template, &container, ctx);
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let User::Other(field) = effective_user(template, container) else { return None };
    let words = words(container);
    let first = words.first().filter(|word| word.known)?;
    if !SHELLS.contains(&base_name(&first.text)) {
        return None;
    }
    let (manager, at) = (0..words.len()).find_map(|at| Some((installs(&words, at)?, at)))?;
    let word = &words[at];
    let script = word.node.raw_text()?;
    // The line decides of what may be done about an error, the script of the user.
    let lines = || script.lines().filter(|line| line.contains(manager));
    let is_caught = lines().any(|line| OTHERWISE.iter().any(|part| line.contains(part)));
    let changes_user = OTHERWISE.iter().filter(|part| **part != "||" && **part != "if " && **part != "<<");
    if is_caught || changes_user.clone().any(|part| script.contains(part)) || is_below_condition(&words[..at])
    {
        return None;
    }
    let ends = script.contains("set -e")
        || script.contains("set -xe")
        || lines().any(|line| line.contains("&&"))
        || words.iter().take(3).any(|word| word.text.starts_with('-') && word.text.contains('e'));
    let name = container.get("name").text().unwrap_or("main");
    let so = if ends { "the container ends" } else { "nothing is installed" };
    let object = ctx.object();
    ctx.report(
        &word.node,
        format!("`{manager}` needs root, and container `{name}` runs as another user: {so}"),
    )
    .severity(if ends { Severity::Warning } else { Severity::Info })
    .help("build an image that has the packages")
    .related(object, &field, "not as root");
    Some(())
}

/// The package manager that a word of a script runs to install something.
fn installs(words: &[Word<'_>], at: usize) -> Option<&'static str> {
    let starts = at.checked_sub(1).is_none_or(|before| {
        let before = words[before].text.as_str();
        matches!(before, ";" | "then" | "do" | "time")
            || before.contains('=')
            || before.starts_with('-') && before.ends_with('c')
    });
    let command = command_at(words, at);
    let (manager, actions) = MANAGERS.iter().find(|(name, _)| base_name(&words[at].text) == *name)?;
    let action = command.get(1..)?.iter().find(|word| !word.text.starts_with('-'))?;
    (starts && actions.contains(&action.text.as_str())).then_some(*manager)
}

/// Whether a word of a script stands in a block of a condition, which may be about the user.
fn is_below_condition(before: &[Word<'_>]) -> bool {
    let count = |names: [&str; 2]| {
        let starts = |at: usize| {
            at.checked_sub(1).is_none_or(|at| {
                let text = before[at].text.as_str();
                matches!(text, ";" | "then" | "do" | "else") || text.starts_with('-') && text.ends_with('c')
            })
        };
        (0..before.len()).filter(|at| names.contains(&before[*at].text.as_str()) && starts(*at)).count()
    };
    count(["if", "case"]) > count(["fi", "esac"])
}
