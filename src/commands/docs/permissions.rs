//! The page on what the webhook may read and write in a cluster, and for what.

use gpulint_webhook::kinds;
use gpulint_webhook::manifests::{GRANTS, On};

const HEAD: &str = "# What the webhook may do in a cluster

The tables are those from which `gpulint webhook manifests` and the chart make its ClusterRole and its Role: it has no other permission.

## What it writes, and its own Secret

| resource | verbs | objects | for what |
|---|---|---|---|
";

const WATCHED: &str = "
Every account may read the API server's versions and schemas, and its own name, without a grant.

## What it reads

It may `get`, `list` and `watch` these resources in all namespaces, for rules about an object that look at others. A resource whose rules
are all off is neither granted nor watched: `gpulint webhook manifests --config gpulint.yaml` leaves it out, and so does the chart for
rules that its `config` turns off by their own names. When the configuration changes later, the server watches less at once; what
is granted changes with the next `kubectl apply` or `helm upgrade`.

Objects are kept in memory without managed fields, status and kubectl's `last-applied` annotation, and of some kinds only a part, as the table
says. RBAC grants whole objects: the part is what the server keeps, not what it might read. ConfigMaps, HelmReleases and Applications are kept
with their values, because rules know the configuration of an operator by its content. What you do not want to be read, remove from
the ClusterRole: the rules that read it are silent, and `/readyz?verbose` names it. Secrets are never read, but its own.

| resource | kept of it | for the rules |
|---|---|---|
";

/// The page, in Markdown.
pub(super) fn page() -> String {
    let mut out = HEAD.to_owned();
    for grant in &GRANTS {
        let resources: Vec<String> = grant.resources.iter().map(|one| resource(one, grant.group)).collect();
        let objects = match grant.on {
            On::Registration => "its own two",
            On::AllIfEvents => "all, only with `--events`",
            On::OwnNamespace => "its namespace",
            On::OwnSecret => "the one with its certificates, in its namespace",
        };
        let (resources, verbs) = (resources.join(", "), grant.verbs.join(", "));
        out.push_str(&format!("| {resources} | {verbs} | {objects} | {} |\n", grant.reason));
    }
    out.push_str(WATCHED);
    for (kind, rules) in kinds::readers() {
        let Some(info) = kind.info() else { continue };
        let links: Vec<String> = rules.iter().map(|rule| format!("[{rule}](../rules/{rule}.md)")).collect();
        let reason = if links.is_empty() {
            "namespaces that the configuration selects".to_owned()
        } else {
            links.join(", ")
        };
        let part = gpulint_webhook::kept(kind);
        let part = if part.is_empty() { "the manifest" } else { part };
        out.push_str(&format!("| {} | {part} | {reason} |\n", resource(info.plural, kind.group)));
    }
    out
}

fn resource(plural: &str, group: &str) -> String {
    if group.is_empty() { format!("`{plural}`") } else { format!("`{plural}.{group}`") }
}
