//! A variable in the value of an environment variable is not expanded.
//!
//! # Why
//! No shell reads `env`: Kubernetes replaces `$(NAME)` by variables that the pod defines before, and nothing
//! else. `PATH: /opt/tools/bin:$PATH` gives the container a `PATH` that ends in the four letters `$PATH`, without
//! the folders of its image, and its command is not found. `$(PATH)` does not help either: the variables of the
//! image are not known to Kubernetes. It is reported for lists of folders: `PATH`, `LD_LIBRARY_PATH`,
//! `PYTHONPATH` and the like.
//!
//! # Fix
//! Write the folders of the image in full, or set the variable in a script: `sh -c 'PATH=/opt/bin:$PATH exec …'`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: encode}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/encode:1.4.0
//!            env:
//!              - name: LD_LIBRARY_PATH
//! -              value: /opt/codec/lib:$LD_LIBRARY_PATH # <-
//! +              value: /opt/codec/lib:/usr/local/nvidia/lib64
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "environment-not-expanded",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("environment_not_expanded.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Manifest)
};

/// Variables with lists of folders.
const LISTS: [&str; 8] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "PYTHONPATH",
    "CPATH",
    "CLASSPATH",
    "NODE_PATH",
    "PKG_CONFIG_PATH",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        // The variables of other objects come before those that are written here.
        let may_be_defined = container.get("envFrom").is_set();
        let mut defined: Vec<&str> = Vec::new();
        for entry in container.get("env").items() {
            let value = entry.get("value");
            let name = entry.get("name").text().unwrap_or_default();
            if LISTS.contains(&name)
                && let Some(text) = value.raw_text()
                && let Some(reference) = unexpanded(text, &defined, may_be_defined)
            {
                let message = format!("`{}` is not expanded: `{name}` has it as text", ellipsize(reference));
                ctx.report(&value, message)
                    .help("write the folders of the image in full, or set the variable in a script");
            }
            defined.push(name);
        }
    }
    None
}

/// The first reference to a list of folders, or to the home folder, that Kubernetes leaves as it is.
fn unexpanded<'t>(text: &'t str, defined: &[&str], may_be_defined: bool) -> Option<&'t str> {
    let mut from = 0;
    while let Some(found) = text[from..].find('$') {
        let at = from + found;
        let rest = &text[at + 1..];
        from = at + 1;
        // `$$` is a dollar sign.
        if rest.starts_with('$') {
            from += 1;
            continue;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, length) = match rest.as_bytes().first() {
            Some(open @ (b'{' | b'(')) => {
                let close = if *open == b'{' { '}' } else { ')' };
                let Some(end) = rest.find(close) else { continue };
                // A replacement by Kubernetes of what is defined before.
                let name = &rest[1..end];
                if *open == b'(' && (may_be_defined || defined.contains(&name)) {
                    continue;
                }
                (name.split(':').next().unwrap_or(name), end + 1)
            }
            _ => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                (&rest[..end], end)
            }
        };
        if LISTS.contains(&name) || name == "HOME" {
            return Some(&text[at..at + 1 + length]);
        }
    }
    None
}
