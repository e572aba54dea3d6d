//! A container defines a variable twice, with different values.
//!
//! # Why
//! Of several entries of one name in `env` the last one counts. The API server accepts them all, and only
//! `kubectl` prints a warning that few see in the output of a pipeline. Whoever changes the first one waits
//! for an effect that never comes. A patch of Kustomize, or an overlay of Helm values, merges the list by
//! names and may change the other one of the two.
//!
//! Entries with the same value are not reported, nor is one whose value uses the one before: `$(NAME)`.
//!
//! # Fix
//! Keep one entry.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: scorer}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: scorer}}
//!    template:
//!      metadata: {labels: {app: scorer}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/scorer:1.4.0
//!            env:
//! -            - {name: BATCH_SIZE, value: "16"} # <-
//!              - {name: WORKERS, value: "4"}
//!              - {name: BATCH_SIZE, value: "64"}
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/>

use std::collections::BTreeMap;

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "environment-defined-twice",
    docs: docs(include_str!("environment_defined_twice.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Manifest)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    if object.is_partial() || object.is_owned() {
        return None;
    }
    for container in template.all_containers() {
        let entries: Vec<Node<'_>> = container.get("env").items().collect();
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            let Some(name) = entry.get("name").text() else { continue };
            if let Some(before) = last.insert(name, at)
                && is_lost(&entries[before..=at], name)
            {
                let message =
                    format!("`{}` is defined again below: this value has no effect", ellipsize(name));
                ctx.report(&entries[before].get("name"), message)
                    .help("remove the entry that is not meant: the last one counts")
                    .related(object, &entry.get("name"), "this one counts");
            }
        }
    }
    None
}

/// Whether the first entry has another value than the last one, and no value between them uses it.
fn is_lost(entries: &[Node<'_>], name: &str) -> bool {
    let [first, others @ ..] = entries else { return false };
    let Some(last) = others.last() else { return false };
    let reference = format!("$({name})");
    let uses = |entry: &Node<'_>| {
        let value = entry.get("value");
        value.raw_text().is_some_and(|text| text.contains(&reference))
    };
    first.to_json() != last.to_json() && !others.iter().any(uses)
}
