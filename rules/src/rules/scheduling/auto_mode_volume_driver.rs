//! Volumes are made by a driver that the nodes of their pods do not have.
//!
//! # Why
//! EKS Auto Mode has an EBS driver of its own, `ebs.csi.eks.amazonaws.com`, and its nodes mount no EBS
//! volume of another one: the add-on of `ebs.csi.aws.com` keeps off them, and the in-tree name
//! `kubernetes.io/aws-ebs` leads to the add-on too. Nodes of node groups and of an installed Karpenter in
//! turn do not have the driver of Auto Mode. A pod whose claim has a class of the wrong driver stays
//! Pending, or in ContainerCreating. Reported are classes and volumes of workloads that are pinned to nodes
//! of one of both, and, where all NodePools are of EKS Auto Mode and the input shows no other nodes, of all
//! workloads. Unless the input is the whole cluster (`--complete`) the latter is an info: a node group may
//! be made elsewhere.
//!
//! Where the input has NodePools of EKS Auto Mode and of an installed Karpenter, a class is reported whose
//! volumes are of pods that both take: Karpenter does not look at drivers.
//!
//! # Fix
//! Name the other driver, in a class of another name where volumes of this one exist: the provisioner of a
//! class cannot be changed, and a volume keeps its driver. EFS and FSx have one driver for all nodes. A class
//! with `allowedTopologies` for `eks.amazonaws.com/compute-type` keeps its pods on nodes of Auto Mode.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: storage.k8s.io/v1
//!  kind: StorageClass
//!  metadata: {name: fast}
//! -provisioner: ebs.csi.aws.com # <-
//! +provisioner: ebs.csi.eks.amazonaws.com
//!  volumeBindingMode: WaitForFirstConsumer
//!  parameters: {type: gp3}
//!  ---
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: search}
//!  spec:
//!    serviceName: search
//!    replicas: 1
//!    selector: {matchLabels: {app: search}}
//!    template:
//!      metadata: {labels: {app: search}}
//!      spec:
//!        nodeSelector: {eks.amazonaws.com/compute-type: auto}
//!        terminationGracePeriodSeconds: 60
//!        containers:
//!          - name: main
//!            image: example.com/search:1.4.0
//!            volumeMounts: [{name: index, mountPath: /index}]
//!    volumeClaimTemplates:
//!      - metadata: {name: index}
//!        spec:
//!          accessModes: [ReadWriteOnce]
//!          storageClassName: fast
//!          resources: {requests: {storage: 50Gi}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html>

use super::node_helpers::{INSTALLING_KINDS, helpers, may_install};
use super::pod_fits_no_pool::pinned_pools;
use crate::cluster::storage::{AUTO_MODE_EBS_DRIVER, EBS_DRIVER, IN_TREE_EBS_DRIVER, is_default};
use crate::karpenter::installation::is_controller;
use crate::karpenter::provider::is_auto_mode_label;
use crate::rules::prelude::*;
use crate::workload::node_labels::is_of_other_nodes;

const COMPUTE_TYPE: &str = "eks.amazonaws.com/compute-type";

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-volume-driver",
    kinds: &[Kind::STORAGE_CLASS, Kind::PERSISTENT_VOLUME],
    reads: kinds![
        [
            Kind::PERSISTENT_VOLUME_CLAIM,
            Kind::PERSISTENT_VOLUME,
            Kind::STORAGE_CLASS,
            Kind::NODE,
            Kind::NODE_POOL,
            Kind::EC2_NODE_CLASS
        ],
        INSTALLING_KINDS,
        WORKLOAD_KINDS
    ],
    docs: docs(include_str!("auto_mode_volume_driver.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The nodes that a driver of EBS volumes runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    AutoMode,
    Others,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let node = if object.is(Kind::STORAGE_CLASS) {
        object.get("provisioner")
    } else {
        object.path(&["spec", "csi", "driver"])
    };
    let driver = node.text()?;
    let lacking = match driver {
        EBS_DRIVER | IN_TREE_EBS_DRIVER => Side::AutoMode,
        AUTO_MODE_EBS_DRIVER => Side::Others,
        _ => return None,
    };
    let is_whole = ctx.cluster().is_complete();
    let is_only = lacking == Side::AutoMode && is_all_auto_mode(ctx) && (is_whole || !has_other_class(ctx));
    let all: Vec<&Object> = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind)).collect();
    let find = |is_only: bool| {
        all.iter().copied().find(|workload| {
            uses(workload, object, ctx)
                && runs_only_on(workload, lacking, is_only, ctx)
                && ctx.pairs_with(workload)
        })
    };
    if lacking == Side::AutoMode && has_driver_on_all_nodes(ctx.cluster()) {
        return None;
    }
    let pinned = find(false);
    let Some(workload) = pinned.or_else(|| is_only.then(|| find(true))?) else {
        return on_either_side(object, (&node, driver), lacking, &all, ctx);
    };
    let name = workload.display_name();
    let (nodes, other) = match lacking {
        Side::AutoMode => ("nodes of EKS Auto Mode", AUTO_MODE_EBS_DRIVER),
        Side::Others => ("nodes outside EKS Auto Mode", EBS_DRIVER),
    };
    let certain = is_whole || pinned.is_some();
    let message = if certain {
        format!("pods of `{name}` run on {nodes} only, which mount no volume of `{driver}`")
    } else {
        format!("all NodePools are of EKS Auto Mode: pods of `{name}` get no volume of `{driver}` there")
    };
    let place = templates(workload).into_iter().next().map_or_else(|| workload.root(), |one| one.spec);
    ctx.report(&node, message)
        .severity(if certain { Severity::Warning } else { Severity::Info })
        .help(if object.is(Kind::PERSISTENT_VOLUME) {
            format!("restore a snapshot of it as a volume of `{other}`, or move the pods to other nodes")
        } else {
            format!("write `{other}`, in a class of another name where volumes of this one exist")
        })
        .related(workload, &place, "where these pods run");
    None
}

/// Reports a class of which pods have volumes that NodePools of both sides take: Karpenter does not look at drivers.
fn on_either_side(
    class: &Object,
    (node, driver): (&Node<'_>, &str),
    lacking: Side,
    workloads: &[&Object],
    ctx: &mut Context<'_>,
) -> Option<()> {
    // A topology other than zones chooses the nodes.
    let chooses_nodes = |term: Node<'_>| {
        let mut labels = term.get("matchLabelExpressions").items();
        labels.any(|label| label.get("key").text().is_none_or(|key| !key.contains("zone")))
    };
    let topologies = class.get("allowedTopologies");
    if !class.is(Kind::STORAGE_CLASS) || topologies.has_unknown() || topologies.items().any(chooses_nodes) {
        return None;
    }
    let (wanted, other) = match lacking {
        Side::AutoMode => (Provider::AutoMode, Provider::Aws),
        Side::Others => (Provider::Aws, Provider::AutoMode),
    };
    let (workload, pool) = workloads.iter().find_map(|workload| {
        if !uses(workload, class, ctx) || !ctx.cluster().surely_pairs(class, workload) {
            return None;
        }
        let found: Vec<_> =
            templates(workload).iter().map(|template| ctx.pools_for(template)).collect::<Option<_>>()?;
        let mut pools = found.iter().flat_map(|found| found.pools.iter()).map(|pool| pool.object());
        let is_sure = |pool: &Object| ctx.cluster().surely_pairs(class, pool);
        let lacks = pools.clone().find(|pool| is_pool_of(pool, wanted) && is_sure(pool))?;
        let has = pools.any(|pool| is_pool_of(pool, other) && is_sure(pool));
        has.then(|| (*workload, lacks.clone()))
    })?;
    let message = format!(
        "pods of `{}` may go to nodes of `{}`, which mount no volume of `{driver}`",
        workload.display_name(),
        pool.display_name()
    );
    let place = templates(workload).into_iter().next().map_or_else(|| workload.root(), |one| one.spec);
    ctx.report(node, message)
        .help(match lacking {
            Side::Others => {
                "limit the class by `allowedTopologies`: `eks.amazonaws.com/compute-type` with `auto`"
            }
            Side::AutoMode => "select the other nodes in the pods, or give the pool of EKS Auto Mode a taint",
        })
        .related(workload, &place, "nothing here selects the nodes with the driver")
        .related(&pool, &pool.path(&["metadata", "name"]), "Karpenter does not look at drivers");
    None
}

/// Whether pods of a workload have a volume of a class, or a given volume.
fn uses(workload: &Object, object: &Object, ctx: &Context<'_>) -> bool {
    if workload.may_lack_fields() {
        return false;
    }
    let claim_of = |spec: &Node<'_>| asks_for(spec, object, ctx);
    let own = || {
        workload.is(Kind::STATEFUL_SET)
            && workload.path(&["spec", "volumeClaimTemplates"]).items().any(|one| claim_of(&one.get("spec")))
    };
    let of_pod = |volume: &Node<'_>| {
        let template = volume.path(&["ephemeral", "volumeClaimTemplate", "spec"]);
        let name = volume.path(&["persistentVolumeClaim", "claimName"]);
        if template.is_set() {
            return claim_of(&template);
        }
        let namespace = workload.namespace_or_default();
        let claim =
            name.text().and_then(|name| ctx.cluster().unique(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name));
        claim.is_some_and(|claim| {
            !claim.may_lack_fields()
                && ctx.cluster().likely_pairs(workload, claim)
                && claim_of(&claim.get("spec"))
        })
    };
    let in_pods =
        || templates(workload).iter().any(|one| one.spec.get("volumes").items().any(|v| of_pod(&v)));
    own() || in_pods()
}

/// Whether a claim gets a volume of a class, or names a volume.
fn asks_for(spec: &Node<'_>, object: &Object, ctx: &Context<'_>) -> bool {
    let (volume, class) = (spec.get("volumeName"), spec.get("storageClassName"));
    if spec.has_unknown_key() || volume.is_unknown() || class.is_unknown() {
        return false;
    }
    if object.is(Kind::PERSISTENT_VOLUME) {
        return volume.text() == Some(object.name());
    }
    // A volume that exists already, or the copy of another one, says itself which driver it has.
    if volume.is_set() {
        return false;
    }
    match class.text() {
        Some(name) => name == object.name(),
        None => {
            is_default(object)
                && ctx.cluster().of(Kind::STORAGE_CLASS).filter(|one| is_default(one)).count() == 1
        }
    }
}

/// Whether the pods of a workload run on nodes of one side only: they select these, or there are no others.
fn runs_only_on(workload: &Object, side: Side, is_only: bool, ctx: &Context<'_>) -> bool {
    let templates = templates(workload);
    !templates.is_empty()
        && templates
            .iter()
            .all(|template| is_pinned(template, side, ctx) || is_only && may_run_anywhere(template, ctx))
}

/// Whether a class of the driver of Auto Mode is there too: the other one may then be for other nodes.
fn has_other_class(ctx: &Context<'_>) -> bool {
    let mut classes = ctx.cluster().of(Kind::STORAGE_CLASS);
    classes.any(|class| class.get("provisioner").text() == Some(AUTO_MODE_EBS_DRIVER))
}

/// Whether the pods of a template run on nodes of EKS Auto Mode alone: they select these. A rule that asks reads NodePools.
pub(super) fn is_pinned_to_auto_mode(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    is_pinned(template, Side::AutoMode, ctx)
}

/// Whether a template selects nodes of one side, by a label that only these have or by the name of a NodePool.
fn is_pinned(template: &Template<'_>, side: Side, ctx: &Context<'_>) -> bool {
    let selector = template.spec.get("nodeSelector");
    if selector.entries().iter().any(|(key, value)| is_label_of(key, &[value.text()], side)) {
        return true;
    }
    let terms: Vec<Node<'_>> = template.required_terms().items().collect();
    let of_term = |term: &Node<'_>| {
        term.get("matchExpressions").items().any(|one| {
            let values: Vec<Node<'_>> = one.get("values").items().collect();
            let texts: Vec<Option<&str>> = values.iter().map(Node::text).collect();
            let key = one.get("key");
            match one.get("operator").text() {
                Some("In") => key.text().is_some_and(|key| is_label_of(key, &texts, side)),
                Some("Exists" | "Gt" | "Lt") => key.text().is_some_and(|key| is_label_of(key, &[], side)),
                _ => false,
            }
        })
    };
    if !terms.is_empty() && terms.iter().all(of_term) {
        return true;
    }
    let wanted = if side == Side::AutoMode { Provider::AutoMode } else { Provider::Aws };
    let of_side = |name: &String| {
        let pool = ctx.partner(Kind::NODE_POOL, "default", name);
        pool.is_some_and(|pool| is_pool_of(pool, wanted))
    };
    pinned_pools(template).is_some_and(|names| names.iter().all(of_side))
}

/// Whether a NodePool states a class of one provider.
fn is_pool_of(pool: &Object, provider: Provider) -> bool {
    let group = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
    !pool.is_partial() && group.text().is_some() && Provider::of_group(&group) == provider
}

/// Whether only nodes of one side have a label, with one of the values if there are any.
fn is_label_of(key: &str, values: &[Option<&str>], side: Side) -> bool {
    let every = |wanted: &str| !values.is_empty() && values.iter().all(|value| *value == Some(wanted));
    match side {
        Side::AutoMode if key == COMPUTE_TYPE => every("auto"),
        Side::AutoMode => key.starts_with("eks.amazonaws.com/instance-") && is_auto_mode_label(key),
        Side::Others => {
            key == "eks.amazonaws.com/nodegroup" || key.starts_with("karpenter.k8s.aws/instance-")
        }
    }
}

/// Whether nothing that a placeholder hides may pin the pods of a template, and a pool may take them: those that no pool of the
/// input takes have nodes elsewhere.
fn may_run_anywhere(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let has_no_pool =
        || ctx.pools_for(template).is_some_and(|found| found.all_nodes().is_some_and(<[_]>::is_empty));
    let spec = &template.spec;
    !spec.has_unknown_key()
        && !spec.get("nodeSelector").has_unknown()
        && !spec.get("affinity").has_unknown()
        && !spec.get("nodeName").is_set()
        && !has_no_pool()
}

/// Whether all NodePools of the input are of EKS Auto Mode, and nothing in it shows other nodes. The caller reads NodePools,
/// EC2NodeClasses, Nodes, workloads and what [`may_install`] does.
pub(super) fn is_all_auto_mode(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    if cluster.has_any(Kind::EC2_NODE_CLASS) {
        return false;
    }
    let mut pools = cluster.of(Kind::NODE_POOL).peekable();
    pools.peek().is_some()
        && pools.all(|pool| is_pool_of(pool, Provider::AutoMode) && ctx.pairs_with(pool))
        && cluster
            .of(Kind::NODE)
            .all(|node| node.path(&["metadata", "labels", COMPUTE_TYPE]).text() == Some("auto"))
        && !may_install(&["karpenter", "ebs-csi"], ctx)
        && !WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)).any(shows_other_nodes)
}

/// Whether a workload selects or avoids nodes as only a cluster with other nodes needs it, or makes them or serves them.
fn shows_other_nodes(workload: &Object) -> bool {
    templates(workload).iter().any(|template| {
        let of_others = |key: &str| {
            is_of_other_nodes(key) || key == COMPUTE_TYPE || key.starts_with("karpenter.k8s.aws/")
        };
        let is_pinned = |key: &str, values: &[Node<'_>]| {
            let texts: Vec<Option<&str>> = values.iter().map(Node::text).collect();
            is_label_of(key, &texts, Side::AutoMode)
        };
        referenced_labels(template).iter().any(|label| {
            let required = label.usage == LabelUse::Required && is_pinned(label.key, &label.values);
            of_others(label.key) && !required
        }) || template.containers().any(|container| is_controller(&container))
            || template.spec.get("schedulerName").text() == Some("fargate-scheduler")
            || helpers(template).any(|helper| helper.image == "aws-ebs-csi-driver")
    })
}

/// Whether a DaemonSet of the input brings the driver of the add-on to all nodes, those of Auto Mode among them.
fn has_driver_on_all_nodes(cluster: &Cluster) -> bool {
    cluster.of(Kind::DAEMON_SET).any(|set| {
        templates(set).iter().any(|template| {
            let is_driver = helpers(template).any(|helper| helper.image == "aws-ebs-csi-driver");
            let is_kept_off = |key: &str| key == COMPUTE_TYPE || is_of_other_nodes(key);
            is_driver && !referenced_labels(template).iter().any(|label| is_kept_off(label.key))
        })
    })
}
