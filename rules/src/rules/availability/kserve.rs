//! How KServe runs an InferenceService: through Knative, or with Deployments of its own.

use super::knative;
use crate::cluster::Cluster;
use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::is_for_other_cluster;

/// The kinds that [`mode`] reads, and those with settings of Knative.
pub(super) const READS: [Kind; 6] = joined(&VERSIONED_CHARTS, &knative::SETTINGS);

/// The ConfigMap of KServe with its defaults.
pub(super) const CONFIG: &str = "inferenceservice-config";

/// The names of the chart: until KServe 0.15, and from 0.16 on.
const CHARTS: [&str; 2] = ["kserve", "kserve-resources"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Knative,
    Deployments,
    /// Neither the object nor another of the input says it. Every release of KServe has Knative as its default.
    Unsaid,
}

impl Mode {
    /// A mode by its older and its newer name.
    fn of(text: &str) -> Option<Mode> {
        match text {
            "Serverless" | "Knative" => Some(Mode::Knative),
            "RawDeployment" | "Standard" => Some(Mode::Deployments),
            _ => None,
        }
    }
}

/// The mode in the annotation of an InferenceService, if it has one; `Some(None)` if it cannot be read.
pub(super) fn written_mode(object: &Object) -> Option<Option<Mode>> {
    let annotation = object.annotation("serving.kserve.io/deploymentMode");
    (!annotation.is_absent()).then(|| annotation.text().and_then(Mode::of))
}

/// The mode of an InferenceService: as its annotation says, otherwise the default of the ConfigMap of KServe, otherwise that of the
/// chart that installs it (`GetDeploymentMode` in `pkg/controller/v1beta1/inferenceservice/utils` of KServe 0.11 to 0.20).
pub(super) fn mode(object: &Object, ctx: &Context<'_>) -> Option<Mode> {
    if let Some(written) = written_mode(object) {
        return written;
    }
    if object.may_lack_fields() {
        return None;
    }
    let mut configs = configs(ctx).peekable();
    if configs.peek().is_some() {
        let all: Vec<Mode> = configs.map(by_config).collect::<Option<_>>()?;
        return all.first().copied().filter(|first| all.iter().all(|one| one == first));
    }
    let cluster = ctx.cluster();
    let mut installers = chart_installers(cluster).filter(|one| ctx.pairs_with(one));
    installers.find_map(|one| by_chart(one, cluster)).unwrap_or(Some(Mode::Unsaid))
}

/// The ConfigMaps of KServe in the cluster of an object.
pub(super) fn configs<'a>(ctx: &Context<'a>) -> impl Iterator<Item = &'a Object> {
    let all = ctx.cluster().of(Kind::CONFIG_MAP);
    let near: Vec<&Object> = all.filter(|one| one.name() == CONFIG && ctx.pairs_with(one)).collect();
    near.into_iter()
}

fn by_config(config: &Object) -> Option<Mode> {
    let deploy = config.path(&["data", "deploy"]);
    with_embedded(deploy.text()?, |root| root.get("defaultDeploymentMode").text().and_then(Mode::of))
}

/// The default of a chart that an object installs, which may be unknown: `kserve.controller.deploymentMode`, which is Knative where
/// the values have none, until 0.20 at least.
fn by_chart(installer: &Object, cluster: &Cluster) -> Option<Option<Mode>> {
    const LAST_READ: Version = Version::new(0, 20);
    let mut found = None;
    for chart in CHARTS {
        let version = chart_version(installer, chart, cluster)
            .and_then(|text| Version::parse(text.trim_start_matches('v')));
        for_each_values(installer, chart, |values| {
            let mode = values.root.path(&["kserve", "controller", "deploymentMode"]);
            let is_open = values.may_differ
                || mode.is_unknown()
                || values.root.has_unknown_key()
                || installer.may_lack_fields()
                || installer.path(&["spec", "postRenderers"]).is_set()
                || is_for_other_cluster(installer);
            found = Some(match mode.text() {
                _ if is_open => None,
                Some(text) => Mode::of(text),
                None => version.is_none_or(|version| version <= LAST_READ).then_some(Mode::Knative),
            });
        });
    }
    found
}
