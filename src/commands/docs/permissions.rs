//! The page on what the webhook may read in a cluster, and for what.

use gpulint_webhook::kinds;

/// The page, in Markdown: each kind with the rules that read its objects.
pub(super) fn page() -> String {
    let mut out = "# What the webhook may read\n\n\
        Its ClusterRole grants `get`, `list` and `watch` on these resources, and nothing else in other namespaces but its own webhook \
        configurations (`get`, `update`) and, with `--events`, `create` on Events. A resource whose rules are all off is neither granted nor \
        watched: `gpulint webhook manifests --config gpulint.yaml` leaves it out, and so does the chart for rules that its `config` turns \
        off by their own names. Of what arrives, managed fields, the status and kubectl's `last-applied` annotation are not kept; of \
        a ConfigMap, 64 KiB of values are. Pods that have ended are not asked for. ConfigMaps, HelmReleases and Applications are \
        read whole, because rules know the configuration of an operator by its content. What you do not want to be read, \
        remove from the ClusterRole: the rules that read it are silent, and `/readyz?verbose` names it. Secrets are never read, but \
        the one with the webhook's own certificates, in its namespace.\n\n\
        | resource | for the rules |\n|---|---|\n"
        .to_owned();
    for (kind, rules) in kinds::readers() {
        let Some(info) = kind.info() else { continue };
        let resource = if kind.group.is_empty() {
            info.plural.to_owned()
        } else {
            format!("{}.{}", info.plural, kind.group)
        };
        let links: Vec<String> = rules.iter().map(|rule| format!("[{rule}](../rules/{rule}.md)")).collect();
        let reason = if links.is_empty() {
            "namespaces that the configuration selects".to_owned()
        } else {
            links.join(", ")
        };
        out.push_str(&format!("| `{resource}` | {reason} |\n"));
    }
    out
}
