//! The container of dcgm-exporter, and how it is configured.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use crate::cluster::query::ObjectKey;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::checkpoint::volume;
use crate::workload::command::{OptionValue, option, words};
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

/// The fields of DCGM that an exporter exports.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Counters {
    /// The fields of a file of the image.
    Default,
    /// The fields that a ConfigMap of the input lists.
    Listed { config: ObjectKey, names: BTreeSet<String> },
    /// The fields of a file that is not known.
    Unknown,
}

/// The counters of a DaemonSet of dcgm-exporter; `None` for other DaemonSets. dcgm-exporter 4.4 `pkg/cmd/app.go`: a ConfigMap that is
/// named has precedence over a file.
pub(super) fn counters(object: &Object, cluster: &Cluster) -> Option<Counters> {
    let templates = templates(object);
    let (template, container) = templates.iter().find_map(|one| Some((one, exporter(one)?)))?;
    Some(counters_of(object, template, &container, cluster).unwrap_or(Counters::Unknown))
}

fn counters_of(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    cluster: &Cluster,
) -> Option<Counters> {
    if object.may_lack_fields() {
        return None;
    }
    let env = known(container)?;
    let words = words(container);
    let set = |options: &[&str], variable: &str| match option(&words, options) {
        OptionValue::Text(text, _) => Some(Some(text)),
        OptionValue::Unknown => None,
        OptionValue::Absent => match env.get(variable) {
            Some(node) => Some(Some(node.text()?.to_owned())),
            None => Some(None),
        },
    };
    let named = set(&["m", "configmap-data"], "DCGM_EXPORTER_CONFIGMAP_DATA")?;
    let file = set(&["f", "collectors"], "DCGM_EXPORTER_COLLECTORS")?;
    if let Some(named) = named.filter(|named| named != "none") {
        let (namespace, name) = named.split_once(':')?;
        return listed(cluster.unique(Kind::CONFIG_MAP, namespace, name)?, "metrics");
    }
    let path = file.unwrap_or_else(|| format!("{COUNTERS_FOLDER}{}", COUNTERS_FILES[0]));
    let mounts = container.get("volumeMounts");
    if mounts.has_unknown() {
        return None;
    }
    let below = |mount: &Node<'_>| {
        let rest = path.strip_prefix(mount.get("mountPath").text()?.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
    };
    let Some((mount, rest)) = mounts.items().find_map(|mount| Some((mount.clone(), below(&mount)?))) else {
        let in_image =
            path.strip_prefix(COUNTERS_FOLDER).is_some_and(|name| COUNTERS_FILES[..2].contains(&name));
        return in_image.then_some(Counters::Default);
    };
    let volume = volume(template, mount.get("name").text()?)?.get("configMap");
    let sub = mount.get("subPath");
    let at = if sub.is_set() { sub.text()?.to_owned() } else { rest };
    let items = volume.get("items");
    let key = match items.is_set() {
        true => {
            items.items().find(|item| item.get("path").text() == Some(&at))?.get("key").text()?.to_owned()
        }
        false => at,
    };
    let config =
        cluster.unique(Kind::CONFIG_MAP, object.namespace_or_default(), volume.get("name").text()?)?;
    listed(config, &key)
}

/// The first columns of a counters file in a ConfigMap.
fn listed(config: &Object, key: &str) -> Option<Counters> {
    let text = config.get("data").get(key).text().filter(|_| !config.may_lack_fields())?.to_owned();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| Some(line.split_once(',')?.0.trim().to_owned())).collect();
    Some(Counters::Listed { config: ObjectKey(config.clone()), names })
}
