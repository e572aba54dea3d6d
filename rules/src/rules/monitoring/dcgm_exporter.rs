//! The container of dcgm-exporter, and how it is configured.

use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::command::words;
use crate::workload::environment::known;
use crate::workload::image::image_of;
use crate::workload::template::{Template, templates};

pub(super) const COUNTERS_FILES: [&str; 3] =
    ["default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv"];
pub(super) const COUNTERS_FOLDER: &str = "/etc/dcgm-exporter/";
pub(super) fn exporter<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let is_exporter =
        |container: &Node<'_>| image_of(container).is_some_and(|image| image.last() == "dcgm-exporter");
    template.containers().find(is_exporter)
}

/// Whether a command line has one of these options, or may have it.
pub(super) fn has_argument(container: &Node<'_>, names: &[&str]) -> bool {
    let lists = [container.get("command"), container.get("args")];
    lists.iter().flat_map(|list| list.items()).any(|argument| argument.raw_text().is_none())
        || words(container).iter().any(|word| names.iter().any(|name| word.text.starts_with(name)))
}

/// Whether a DaemonSet of dcgm-exporter exports the default metrics; `None` for other DaemonSets.
pub(super) fn uses_default_counters(object: &Object) -> Option<bool> {
    let templates = templates(object);
    let container = templates.iter().find_map(exporter)?;
    let Some(env) = known(&container) else { return Some(false) };
    let file = match env.get("DCGM_EXPORTER_COLLECTORS") {
        Some(node) => match node.text() {
            Some(path) => path,
            None => return Some(false),
        },
        None => "/etc/dcgm-exporter/default-counters.csv",
    };
    let in_image = file.strip_prefix(COUNTERS_FOLDER).is_some_and(|name| COUNTERS_FILES[..2].contains(&name));
    let is_covered = container
        .get("volumeMounts")
        .items()
        .any(|mount| mount.get("mountPath").text().is_none_or(|path| path.starts_with("/etc/dcgm-exporter")));
    let arguments = has_argument(&container, &["-f", "--collectors", "-m", "--configmap-data"]);
    let other = env.contains_key("DCGM_EXPORTER_CONFIGMAP_DATA");
    Some(in_image && !is_covered && !arguments && !other)
}
