//! An operator does not watch the namespace of an object that it should manage.
//!
//! # Why
//! The charts of KEDA, KubeRay and the Spark operator can be told which namespaces the operator watches. It
//! never sees objects in other namespaces: the API server accepts a RayCluster or a ScaledObject there, and
//! then nothing happens, with no event and no line in a log. The Spark operator watches `default` alone where
//! its chart has no list since version 2.
//!
//! # Fix
//! Add the namespace to the list, or create the object in a namespace that is watched.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: kuberay, namespace: ray-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: kuberay-operator, version: 1.4.2, sourceRef: {kind: HelmRepository, name: kuberay}}
//!    values:
//! -    watchNamespace: [research] # <-
//! +    watchNamespace: [research, vision]
//!  ---
//!  apiVersion: ray.io/v1
//!  kind: RayCluster
//!  metadata: {name: labels, namespace: vision}
//!  spec:
//!    headGroupSpec:
//!      template:
//!        spec:
//!          containers:
//!            - name: ray-head
//!              image: example.com/ray:2.46.0
//!              resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//! ```
//!
//! # References
//! - <https://github.com/ray-project/kuberay/blob/master/helm-chart/kuberay-operator/values.yaml>
//! - <https://github.com/kedacore/charts/blob/main/keda/README.md>
//! - <https://github.com/kubeflow/spark-operator/blob/master/charts/spark-operator-chart/README.md>

use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, installs, is_for_other_cluster};

/// A chart that installs an operator.
struct Operator {
    /// The operator in a sentence.
    name: &'static str,
    /// What the name of everything that installs it has.
    word: &'static str,
    chart: &'static str,
    /// The field of its values with the namespaces: a list, or a text with commas.
    field: &'static [&'static str],
    kinds: &'static [Kind],
}

const SPARK: &str = "spark-operator";

/// Sources: `templates/deployment.yaml` of kuberay-operator 1.4 (`watchNamespace`, joined by commas), `WATCH_NAMESPACE` of keda 2.17, and the
/// README of spark-operator 2.4 (`spark.jobNamespaces`).
const OPERATORS: [Operator; 3] = [
    Operator {
        name: "KubeRay's operator",
        word: "ray",
        chart: "kuberay-operator",
        field: &["watchNamespace"],
        kinds: &[Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE],
    },
    Operator {
        name: "KEDA",
        word: "keda",
        chart: "keda",
        field: &["watchNamespace"],
        kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    },
    Operator {
        name: "the Spark operator",
        word: "spark",
        chart: SPARK,
        field: &["spark", "jobNamespaces"],
        kinds: &[Kind::SPARK_APPLICATION],
    },
];

/// Maximum number of objects of a kind that are compared.
const MAX_COMPARED: usize = 256;

pub(crate) static RULE: Rule = Rule {
    id: "operator-watches-elsewhere",
    kinds: &CHART_KINDS,
    reads: kinds![
        VERSIONED_CHARTS,
        [
            Kind::ARGO_APPLICATION_SET,
            Kind::DEPLOYMENT,
            Kind::RAY_CLUSTER,
            Kind::RAY_JOB,
            Kind::RAY_SERVICE,
            Kind::SCALED_OBJECT,
            Kind::SCALED_JOB,
            Kind::SPARK_APPLICATION
        ]
    ],
    docs: docs(include_str!("operator_watches_elsewhere.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if is_for_other_cluster(object) || object.may_lack_fields() {
        return None;
    }
    for operator in &OPERATORS {
        if !installs(object, operator.chart) {
            continue;
        }
        // Several installations divide the namespaces. Another one may install it as part of another chart, by a reference, or
        // without a chart.
        let is_other = |other: &Object| {
            !other.is_same_resource(object)
                && (installs(other, operator.chart) || other.name().contains(operator.word))
        };
        let is_operator = |one: &Object| is_other(one) && one.name().contains("operator");
        let cluster = ctx.cluster();
        if chart_installers(cluster).any(is_other)
            || cluster.of(Kind::ARGO_APPLICATION_SET).any(is_other)
            || cluster.of(Kind::DEPLOYMENT).any(is_operator)
        {
            return None;
        }
        // From chart 2.0 on `jobNamespaces` is a list, with `default` alone where it is not set.
        let watches_default = operator.chart == SPARK
            && chart_version(object, operator.chart, cluster)
                .and_then(Version::parse)
                .is_some_and(|version| version >= Version::new(2, 0));
        for_each_values(object, operator.chart, |values| {
            let field = values.root.path(operator.field);
            let is_unknown = values.may_differ || field.has_unknown() || values.root.has_unknown_key();
            // A selector of namespaces adds to the list.
            let selects = values.root.path(&["spark", "jobNamespaceSelector"]).is_set();
            let watched: Option<Vec<String>> = if !field.is_set() {
                watches_default.then(|| vec!["default".to_owned()])
            } else if field.is_sequence() {
                field.items().map(|item| item.text().map(str::to_owned)).collect()
            } else {
                field.text().map(|text| text.split(',').map(|name| name.trim().to_owned()).collect())
            };
            // An empty name stands for all namespaces.
            let is_list = |list: &Vec<String>| {
                !list.is_empty() && !list.iter().any(|name| name.is_empty() || is_placeholder(name))
            };
            if let Some(watched) = watched.filter(is_list).filter(|_| !is_unknown && !selects) {
                let _ = compare(operator, &watched, &field, values, ctx);
            }
        });
    }
    None
}

/// Reports the first object in a namespace that is not watched.
fn compare(
    operator: &Operator,
    watched: &[String],
    field: &Node<'_>,
    values: &ChartValues<'_, '_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let is_missed = |other: &&Object| {
        let namespace = other.namespace().filter(|_| !other.is_namespace_unknown());
        namespace.is_some_and(|name| !is_placeholder(name) && !watched.iter().any(|one| one == name))
            && !other.may_lack_fields()
            && !other.path(&["spec", "managedBy"]).is_set()
            && ctx.pairs_with(other)
    };
    let mut kinds = operator.kinds.iter();
    let missed = kinds.find_map(|kind| ctx.cluster().of(*kind).take(MAX_COMPARED).find(is_missed))?;
    let message = format!(
        "{} watches `{}` alone, and never sees {} `{}` in `{}`",
        operator.name,
        watched.join("`, `"),
        missed.kind(),
        missed.display_name(),
        missed.namespace()?
    );
    let name = operator.field.join(".");
    report_value(values, field, message, ctx)
        .help(format!("add `{}` to `{name}`", missed.namespace()?))
        .related(missed, &missed.path(&["metadata", "namespace"]), "nothing manages this object");
    Some(())
}
