//! What installs charts in a cluster, and at which versions. The values are read in [`crate::workload::charts`].

use crate::cluster::Cluster;
use crate::kind::{Kind, kinds};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::charts::{CHART_KINDS, chart_sources, name_of, names, sources, spec_of};

/// The kinds to which `chartRef` of a HelmRelease refers (helm-controller 1.0), which have the version of the chart.
pub(crate) const CHART_SOURCES: [Kind; 2] = [Kind::OCI_REPOSITORY, Kind::FLUX_HELM_CHART];

/// The kinds that name the version of a chart.
pub(crate) const VERSIONED_CHARTS: &[Kind] = kinds![CHART_KINDS, CHART_SOURCES];

/// The objects that install charts: HelmReleases first.
pub(crate) fn chart_installers(cluster: &Cluster) -> impl Iterator<Item = &Object> {
    CHART_KINDS.iter().flat_map(|kind| cluster.of(*kind))
}

/// The names of the charts that an object installs. `None` if not all are known, as where a folder is applied. A rule that asks reads
/// [`CHART_SOURCES`].
pub(crate) fn installed_charts<'a>(object: &'a Object, cluster: &'a Cluster) -> Option<Vec<&'a str>> {
    let spec = spec_of(object);
    if object.is(Kind::HELM_RELEASE) {
        let own = spec.path(&["chart", "spec"]);
        let source = if own.is_set() { own } else { referred(object, cluster)?.get("spec") };
        return Some(vec![name_of(&source)?]);
    }
    // A source with a name for others has only their values.
    let is_read = |source: &Node<'_>| {
        source.is_set()
            && (["chart", "path"].iter().any(|field| source.get(field).is_set())
                || !source.get("ref").is_set())
    };
    sources(&spec).filter(is_read).map(|source| name_of(&source)).collect()
}

/// The version of a chart that an object installs: a version or a range. `None` if it names none. A rule that asks reads
/// [`CHART_SOURCES`].
pub(crate) fn chart_version<'a>(object: &'a Object, chart: &str, cluster: &'a Cluster) -> Option<&'a str> {
    version_field(object, chart, cluster).map(|(_, version)| version)
}

/// The version of a chart, and the field of the installing object that states it or refers to what does.
pub(crate) fn version_field<'a>(
    object: &'a Object,
    chart: &str,
    cluster: &'a Cluster,
) -> Option<(Node<'a>, &'a str)> {
    let spec = object.get("spec");
    if let Some(source) = chart_sources(&spec).find(|source| names(source, chart)) {
        let fields = [source.get("version"), source.get("targetRevision")];
        return fields.into_iter().find_map(|field| Some((field.clone(), field.text()?)));
    }
    let source = referred(object, cluster)?.get("spec");
    let (range, reference) = (source.path(&["ref", "semver"]), source.get("ref"));
    let version = match reference.is_set() {
        true if range.is_set() => range,
        true => reference.get("tag"),
        false => source.get("version"),
    };
    if !names(&source, chart) {
        return None;
    }
    Some((spec.get("chartRef"), version.text()?))
}

/// The object to which a HelmRelease refers for its chart, if the input has just one that nothing changes.
fn referred<'a>(release: &Object, cluster: &'a Cluster) -> Option<&'a Object> {
    let reference = release.path(&["spec", "chartRef"]);
    let named = reference.get("kind").text()?;
    let kind = CHART_SOURCES.into_iter().find(|kind| kind.kind == named)?;
    let namespace = reference.get("namespace");
    let namespace = if namespace.is_set() { namespace.text()? } else { release.namespace_or_default() };
    let found = cluster.unique(kind, namespace, reference.get("name").text()?)?;
    (!found.may_lack_fields()).then_some(found)
}
