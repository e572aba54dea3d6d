//! The container of dcgm-exporter, and how it is configured.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use crate::cluster::query::ObjectKey;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::charts::for_each_values;
use crate::workload::checkpoint::volume;
use crate::workload::command::{OptionValue, option, words};
use crate::workload::environment::known;
use crate::workload::image::images_of;
use crate::workload::template::{Template, templates};

pub(super) const COUNTERS_FILES: [&str; 3] =
    ["default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv"];
pub(super) const COUNTERS_FOLDER: &str = "/etc/dcgm-exporter/";
pub(super) fn exporter<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let is_exporter =
        |container: &Node<'_>| images_of(container).any(|image| image.last() == "dcgm-exporter");
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
    Listed {
        config: ObjectKey,
        names: BTreeSet<String>,
        /// A line that the exporter cannot read.
        malformed: Option<Malformed>,
    },
    /// The fields of a file that is not known.
    Unknown,
}

/// What is wrong with a line of a counters file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Malformed {
    /// It has not three fields: the line and their number.
    Fields(String, usize),
    /// Its second field is not a type of metrics.
    Type(String),
}

/// The types of metrics that a counters file may name (dcgm-exporter 4.4 `internal/pkg/counters/variables.go`).
const METRIC_TYPES: [&str; 5] = ["gauge", "counter", "histogram", "summary", "label"];

/// The first line that the exporter cannot read, with which it ends (`ExtractCounters`, as in releases 2 and 3).
fn malformed(text: &str) -> Option<Malformed> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    // Quotes join fields, and a template may put in anything.
    let mut lines = lines.filter(|line| !line.contains(['"', '{', '$']));
    lines.find_map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, kind, _] = fields.as_slice() else {
            return Some(Malformed::Fields(line.to_owned(), fields.len()));
        };
        // The exporter does not look at the type of its own metrics.
        (name.starts_with("DCGM_FI_") && !METRIC_TYPES.contains(kind))
            .then(|| Malformed::Type((*kind).to_owned()))
    })
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
    let text = config.get("data").get(key).text().filter(|_| !config.may_lack_fields())?;
    let (config, names) = (ObjectKey(config.clone()), names_in(text));
    Some(Counters::Listed { config, names, malformed: malformed(text) })
}

/// The first columns of a counters file.
fn names_in(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split_once(',')?.0.trim().to_owned())).collect()
}

/// The counters that a ClusterPolicy of the GPU Operator, its chart or the chart of dcgm-exporter gives to an exporter that they
/// install. If they state none, the exporter has those of its image, or a copy of them in the chart (`etc/*.csv` and
/// `deployment/templates/metrics-configmap.yaml` of dcgm-exporter 4.0 to 4.5, `assets/state-dcgm-exporter` of gpu-operator 23.9 to 26.7).
/// `None` if they install no exporter.
pub(super) fn stated_counters(object: &Object, cluster: &Cluster) -> Option<Counters> {
    if object.is(Kind::CLUSTER_POLICY) {
        let is_open = object.may_lack_fields();
        return of_operator(&object.path(&["spec", "dcgmExporter"]), is_open, object, cluster);
    }
    let mut found = None;
    for_each_values(object, "gpu-operator", |values| {
        let exporter = values.root.get("dcgmExporter");
        found = found.take().or(of_operator(&exporter, values.may_differ, object, cluster));
    });
    for_each_values(object, "dcgm-exporter", |values| {
        let list = values.root.get("customMetrics");
        let is_open = values.may_differ
            || ["arguments", "extraEnv", "extraConfigMapVolumes"]
                .iter()
                .any(|key| values.root.get(key).is_set());
        found = found.take().or(match list.text().filter(|text| !text.is_empty()) {
            Some(text) => Some(in_values(text, object)),
            None if list.is_unknown() || is_open => Some(Counters::Unknown),
            None => Some(Counters::Default),
        });
    });
    found
}

fn in_values(text: &str, object: &Object) -> Counters {
    Counters::Listed { config: ObjectKey(object.clone()), names: names_in(text), malformed: None }
}

/// The counters of `dcgmExporter` of the GPU Operator, which mounts the key `dcgm-metrics.csv` of a ConfigMap in its own namespace
/// (gpu-operator 25.3 `controllers/object_controls.go`).
fn of_operator(exporter: &Node<'_>, is_open: bool, object: &Object, cluster: &Cluster) -> Option<Counters> {
    if exporter.get("enabled").bool() == Some(false) {
        return None;
    }
    let config = exporter.get("config");
    if let Some(text) = config.get("data").text() {
        return Some(in_values(text, object));
    }
    if let Some(name) = config.get("name").text().filter(|name| !name.is_empty()) {
        let mut named = cluster.of(Kind::CONFIG_MAP).filter(|map| map.name() == name);
        let only = named.next().filter(|_| named.next().is_none());
        return Some(only.and_then(|map| listed(map, "dcgm-metrics.csv")).unwrap_or(Counters::Unknown));
    }
    let is_open =
        is_open || exporter.has_unknown() || ["env", "args"].iter().any(|key| exporter.get(key).is_set());
    Some(if is_open { Counters::Unknown } else { Counters::Default })
}
