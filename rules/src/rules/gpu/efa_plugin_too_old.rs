//! The device plugin of EFA counts network devices of B200 nodes that are not EFA.
//!
//! # Why
//! Beside its 8 EFA devices a node of type `p6-b200` has 2 RDMA devices for its NVLink switches. The device
//! plugin of EFA before 0.5.6 advertises all 10 as `vpc.amazonaws.com/efa`: a pod is given one of the other kind,
//! and NCCL fails or goes on over TCP. It is reported for a NodePool that names such a type.
//!
//! # Fix
//! Install 0.5.6 or a later release, which is in the chart from 0.5.11 on.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: efa, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: aws-efa-k8s-device-plugin
//! -      version: v0.5.7 # <-
//! +      version: v0.5.30
//!        sourceRef: {kind: HelmRepository, name: eks}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: b200}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        expireAfter: 336h
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [p6-b200.48xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [reserved]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}
//! ```
//!
//! # References
//! - <https://github.com/aws-ia/terraform-aws-eks-data-addons/issues/53>
//! - <https://github.com/aws/sagemaker-hyperpod-cli/pull/282>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html>

use crate::cluster::values::{CHART_SOURCES, chart_version};
use crate::platform::{Release, release_of};
use crate::rules::prelude::*;
use crate::workload::charts::{installs, is_for_other_cluster};

pub(crate) static RULE: Rule = Rule {
    id: "efa-plugin-too-old",
    kinds: &[Kind::DAEMON_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: kinds![[Kind::NODE_POOL], CHART_SOURCES],
    docs: docs(include_str!("efa_plugin_too_old.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// The name of the chart.
const PLUGIN: &str = "aws-efa-k8s-device-plugin";
/// The first release of the plugin that counts the devices of a B200 node, and of the chart that has it (`Chart.yaml` of eks-charts).
const FIRST: Release = [0, 5, 6];
const FIRST_CHART: Release = [0, 5, 11];

/// Maximum number of NodePools that are looked at.
const MAX_POOLS: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    if object.is(Kind::DAEMON_SET) {
        let all = templates(object);
        let mut images = all.iter().flat_map(Template::containers).map(|container| container.get("image"));
        let is_plugin = |text: &str| ImageRef::parse(text).is("eks/aws-efa-k8s-device-plugin");
        let image = images.find(|image| image.text().is_some_and(is_plugin))?;
        let tag = ImageRef::parse(image.text()?).tag?;
        let release = release_of(tag).filter(|release| *release < FIRST)?;
        return report(&image, "release", release, ctx);
    }
    // Values may name another image.
    let mut is_plain = true;
    for_each_values(object, PLUGIN, |values| {
        let image = values.root.get("image");
        is_plain &= !values.may_differ && !image.is_set() && !values.root.has_unknown_key();
    });
    if !installs(object, PLUGIN) || !is_plain || is_for_other_cluster(object) {
        return None;
    }
    let text = chart_version(object, PLUGIN, ctx.cluster())?;
    let release = release_of(text.trim()).filter(|release| *release < FIRST_CHART)?;
    // Another object may have the version.
    let fields = [["chart", "spec", "version"].as_slice(), &["source", "targetRevision"]];
    let own = fields.map(|field| object.get("spec").path(field)).into_iter().find(Node::is_set);
    let node = own.unwrap_or_else(|| object.path(&["metadata", "name"]));
    report(&node, "chart", release, ctx)
}

fn report(node: &Node<'_>, what: &str, [major, minor, patch]: Release, ctx: &mut Context<'_>) -> Option<()> {
    let names = |pool: &&Object| {
        let items = pool.path(&["spec", "template", "spec", "requirements"]);
        items.items().any(|item| {
            item.get("operator").text() == Some("In")
                && item
                    .get("values")
                    .items()
                    .any(|value| value.text().is_some_and(|text| text.split('.').next() == Some("p6-b200")))
        })
    };
    let pool =
        ctx.cluster().of(Kind::NODE_POOL).take(MAX_POOLS).find(|pool| names(pool) && ctx.pairs_with(pool))?;
    let message = format!(
        "{what} {major}.{minor}.{patch} of EFA's device plugin gives pods on B200 nodes other devices than EFA"
    );
    ctx.report(node, message)
        .help("install 0.5.6 or a later release, which the chart has from 0.5.11 on")
        .related(pool, &pool.path(&["metadata", "name"]), "it starts B200 nodes");
    None
}
