//! Whether Karpenter or the Cluster Autoscaler starts the nodes that pods of the input run on.

use crate::cluster::together::{Around, Company, folder, of_folders};
use crate::cluster::values::version_field;
use crate::cluster::versions::{Fact, OutsideFact};
use crate::cluster::views::{KARPENTERS, KarpenterObject};
use crate::fit::label_of_other_nodes;
use crate::karpenter::installation;
use crate::rules::gpu::pools_by_label;
use crate::rules::prelude::*;
use crate::rules::scheduling::node_helpers::may_install;
use crate::workload::node_labels::{is_off_karpenter, names_karpenter};

/// The kinds that the functions of this module read, and Namespaces, which declare classes of workloads.
pub(super) const READS: &[Kind] = kinds![KARPENTERS, [Kind::NAMESPACE], WORKLOAD_KINDS];

/// The name of the Cluster Autoscaler, of its chart and of its image.
pub(super) const CLUSTER_AUTOSCALER: &str = "cluster-autoscaler";

/// The version of Karpenter that an object installs, with the field that says so: the tag of the controller's image, or the
/// version of the chart. A rule that asks reads
/// [`crate::cluster::values::CHART_SOURCES`].
pub(super) fn installed_version<'a>(object: &'a Object, cluster: &'a Cluster) -> Option<(Node<'a>, Version)> {
    if object.is(Kind::DEPLOYMENT) {
        let container = installation::controller(object)?;
        let version = image_of(&container)?.version()?;
        return Some((container.get("image"), version));
    }
    let (field, version) = version_field(object, installation::CHART, cluster)?;
    Some((field, Version::parse(version)?))
}

/// Whether the input or the configuration shows that Karpenter starts nodes.
pub(super) fn uses_karpenter(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let around = cluster.around(ctx.object());
    let is_named =
        || cluster.views().referenced_labels().name_karpenter(|other| around.pairs(cluster, other));
    karpenter_object(ctx).is_some() || is_stated(ctx) || is_named() && !is_beside_others(ctx)
}

/// Whether a version of Karpenter is stated that counts for the object: the configuration is often that of several clusters, and a script
/// may be for a cluster of tests.
fn is_stated(ctx: &Context<'_>) -> bool {
    let shown = ctx.cluster().shown_version(Product::Karpenter);
    let is_certain = ctx.is_configured(Product::Karpenter) || shown.is_some_and(|shown| !shown.is_mentioned);
    is_certain && !is_beside_others(ctx)
}

/// Whether something that may be in the cluster of the object shows that it has other nodes: pods that require those of another
/// cloud; in related folders also the Cluster Autoscaler, or the configuration of an API server, which nobody has for EKS.
fn is_beside_others(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let around = cluster.around(ctx.object());
    if cluster.views().referenced_labels().require_other_cloud(|other| around.pairs(cluster, other)) {
        return true;
    }
    let Around::Folder(here) = &around else { return false };
    let is_near = |one: &OutsideFact| of_folders(here, folder(&one.path)) != Company::Apart;
    let autoscalers = cluster.satisfying::<ClusterAutoscalers>();
    autoscalers.iter().any(|other| around.pairs(cluster, &other.0))
        || cluster
            .outside_facts()
            .iter()
            .any(|one| matches!(one.fact, Fact::ServerVersion(_)) && is_near(one))
}

/// Whether the input shows a platform on which Karpenter's annotations mean nothing, and neither Karpenter nor EKS: OpenShift, pods for
/// the nodes of another cloud, or images of the object from the registry of one.
pub(super) fn is_on_other_platform(ctx: &Context<'_>) -> bool {
    /// Registries of clouds that are rarely used from elsewhere.
    const REGISTRIES: [&str; 3] = [".nebius.cloud", ".ocir.io", ".azurecr.io"];
    let cluster = ctx.cluster();
    if karpenter_object(ctx).is_some() || is_stated(ctx) || cluster.is_shown(&Fact::Eks) {
        return false;
    }
    let templates = templates(ctx.object());
    let mut images = templates.iter().flat_map(Template::all_containers).filter_map(|one| {
        let image = one.get("image").raw_text()?;
        Some(image.split('/').next().unwrap_or(image).to_owned())
    });
    cluster.is_shown(&Fact::OpenShift)
        || cluster.views().referenced_labels().require_other_cloud(|_| true)
        || images.any(|host| REGISTRIES.iter().any(|end| host.ends_with(end)))
}

/// Whether the input or the configuration shows that Karpenter starts nodes for the pods of a template.
pub(super) fn is_on_karpenter(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let shown = names_karpenter(template) || karpenter_object(ctx).is_some() || is_stated(ctx);
    shown && !is_off_karpenter(template)
}

/// Whether Karpenter may start nodes for the pods of a template: nothing shows that others do.
pub(super) fn may_be_on_karpenter(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    is_on_karpenter(template, ctx) || !is_off_karpenter(template) && !is_beside_others(ctx)
}

/// Whether Karpenter certainly starts the nodes of a template: the configuration or the pods show it, or the pods select a
/// NodePool of the input.
pub(super) fn is_surely_on_karpenter(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let shown = names_karpenter(template) || !pools_by_label(template, ctx).is_empty() || is_stated(ctx);
    shown && !is_off_karpenter(template)
}

/// Whether nothing else starts nodes for a template of which Karpenter may: nothing is in the whole cluster, and the pods ask for
/// none of its nodes.
pub(super) fn are_no_others(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    ctx.cluster().is_complete()
        && label_of_other_nodes(template).is_none()
        && ctx.other_nodes_for(template).is_none()
}

/// An object of the input that shows that Karpenter runs in the cluster.
pub(super) fn karpenter_object(ctx: &Context<'_>) -> Option<Object> {
    let around = ctx.cluster().around(ctx.object());
    ctx.cluster().query::<KarpenterObject>(&around).map(|object| object.0)
}

/// Names the object that shows that Karpenter runs in the cluster.
pub(super) fn shown_by(finding: &mut Finding, shown: Option<Object>) {
    if let Some(object) = shown {
        finding.related(&object, &object.path(&["metadata", "name"]), "shows that Karpenter starts nodes");
    }
}

/// The Deployments of the Cluster Autoscaler: they are called after it or have its image.
pub(super) struct ClusterAutoscalers;

impl Predicate for ClusterAutoscalers {
    const SLOT: QuerySlot = QuerySlot::ClusterAutoscalers;
    const KINDS: &'static [Kind] = &[Kind::DEPLOYMENT];

    fn is_satisfied(one: &Object) -> bool {
        one.name().contains(CLUSTER_AUTOSCALER)
            || templates(one).iter().flat_map(Template::containers).any(|c| is_cluster_autoscaler(&c))
    }
}

/// Whether a container has the image of the Cluster Autoscaler.
pub(super) fn is_cluster_autoscaler(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.last().contains(CLUSTER_AUTOSCALER))
}

/// Whether the Cluster Autoscaler runs in the cluster, or may: by a Deployment, or a chart may install it. A rule that calls this
/// reads Deployments and the kinds of charts.
pub(super) fn may_have_cluster_autoscaler(ctx: &Context<'_>) -> bool {
    !ctx.cluster().satisfying::<ClusterAutoscalers>().is_empty() || may_install(&[CLUSTER_AUTOSCALER], ctx)
}
