//! How KServe runs an InferenceService: through Knative, or with Deployments of its own.

use super::knative;
use crate::cluster::Cluster;
use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::{ChartValues, is_for_other_cluster};

/// The kinds that [`mode`] reads, and those with settings of Knative.
pub(super) const READS: &[Kind] = kinds![VERSIONED_CHARTS, knative::SETTINGS];

/// The ConfigMap of KServe with its defaults.
pub(in crate::rules) const CONFIG: &str = "inferenceservice-config";

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

/// The annotation with the mode of an InferenceService.
const MODE: &str = "serving.kserve.io/deploymentMode";

/// Whether ModelMesh serves the model of an InferenceService: KServe makes no container for it.
pub(super) fn is_served_by_model_mesh(object: &Object) -> bool {
    object.annotation(MODE).text() == Some("ModelMesh")
}

/// The mode in the annotation of an InferenceService, if it has one; `Some(None)` if it cannot be read.
pub(super) fn written_mode(object: &Object) -> Option<Option<Mode>> {
    let annotation = object.annotation(MODE);
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

/// The default mode of a chart that an object installs, which may be unknown: `kserve.controller.deploymentMode`, which is Knative
/// where the values have none, until 0.20 at least.
fn by_chart(installer: &Object, cluster: &Cluster) -> Option<Option<Mode>> {
    const LAST_READ: Version = Version::new(0, 20);
    let mut found = None;
    for chart in CHARTS {
        let version = chart_version(installer, chart, cluster).and_then(Version::parse);
        for_each_values(installer, chart, |values| {
            let mode = values.root.path(&["kserve", "controller", "deploymentMode"]);
            found = Some(match mode.text() {
                _ if mode.is_unknown() || is_open(values, installer) => None,
                Some(text) => Mode::of(text),
                None => version.is_none_or(|version| version <= LAST_READ).then_some(Mode::Knative),
            });
        });
    }
    found
}

/// Whether the values of an installation may be others than those that it states.
fn is_open(values: &ChartValues<'_, '_>, installer: &Object) -> bool {
    values.may_differ
        || values.root.has_unknown_key()
        || installer.may_lack_fields()
        || installer.path(&["spec", "postRenderers"]).is_set()
        || is_for_other_cluster(installer)
}

/// Limits in thousandths. `None` where there is none, or it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) cpu: Option<i128>,
    pub(super) memory: Option<i128>,
}

impl Limits {
    /// The limits that KServe adds unless its configuration has others, which are those of its own runtimes as well: in Go code until
    /// 0.14, in the ConfigMap and the values of the chart since 0.15 (`inference_service_defaults.go`, `config/runtimes`; 0.11 to 0.20).
    pub(super) const PUBLISHED: Limits = Limits { cpu: Some(1000), memory: Some((2 << 30) * 1000) };
    const UNKNOWN: Limits = Limits { cpu: None, memory: None };

    pub(super) fn of(container: &Node<'_>) -> Limits {
        let limits = container.path(&["resources", "limits"]);
        let limit = |name: &str| Quantity::at(&limits.get(name)).map(|quantity| quantity.milli());
        Limits { cpu: limit("cpu"), memory: limit("memory") }
    }
}

/// The limits that KServe gives a container of an InferenceService that states none (`setResourceRequirementDefaults`).
pub(super) fn default_limits(ctx: &Context<'_>) -> Limits {
    let mut configs = configs(ctx).peekable();
    if configs.peek().is_some() {
        let mut all = configs.map(|config| limits_by_config(config).unwrap_or(Limits::UNKNOWN));
        let first = all.next().unwrap_or(Limits::UNKNOWN);
        return if all.all(|other| other == first) { first } else { Limits::UNKNOWN };
    }
    let mut installers = chart_installers(ctx.cluster()).filter(|one| ctx.pairs_with(one));
    installers.find_map(limits_by_chart).unwrap_or(Limits::PUBLISHED)
}

fn limits_by_config(config: &Object) -> Option<Limits> {
    let text = config.path(&["data", "inferenceService"]).text()?;
    with_embedded(text, |root| {
        let limit = |name: &str| Quantity::at(&root.path(&["resource", name])).map(|found| found.milli());
        Some(Limits { cpu: limit("cpuLimit"), memory: limit("memoryLimit") })
    })
}

/// The limits in the values of a chart that an object installs: Helm keeps those of the chart where the values have none.
fn limits_by_chart(installer: &Object) -> Option<Limits> {
    let mut found = None;
    for chart in CHARTS {
        for_each_values(installer, chart, |values| {
            let limits = values.root.path(&["kserve", "inferenceservice", "resources", "limits"]);
            let limit = |name: &str, published: Option<i128>| match limits.get(name) {
                written if written.is_absent() => published,
                written => Quantity::at(&written).map(|quantity| quantity.milli()),
            };
            found = Some(if is_open(values, installer) || limits.has_unknown_key() {
                Limits::UNKNOWN
            } else {
                let Limits { cpu, memory } = Limits::PUBLISHED;
                Limits { cpu: limit("cpu", cpu), memory: limit("memory", memory) }
            });
        });
    }
    found
}
