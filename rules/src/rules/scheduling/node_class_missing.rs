//! A NodePool refers to a node class that does not exist.
//!
//! # Why
//! A pool whose `nodeClassRef` names no existing class is not Ready, and Karpenter skips it: the
//! events of the pods that wait do not mention it. Mostly the name is mistyped, or the class was
//! renamed. It is an error with `--complete`, a warning where the input has a class of a similar
//! name, and otherwise information, because the class may be kept elsewhere. Where the input has
//! no node class at all, one finding says that they were not checked.
//!
//! # Fix
//! Correct the name, or add the class. To check references for certain, lint pools and classes
//! together.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//! -      nodeClassRef:
//! -        group: karpenter.k8s.aws
//! -        kind: EC2NodeClass
//! -        name: generel # <-
//! +      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecnodeclassref>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/>

use crate::cluster::views::class_kind;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-missing",
    kinds: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    reads: &[Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS],
    reports_absence: true,
    docs: docs(include_str!("node_class_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::EC2_NODE_CLASS) {
        orphan(object, ctx);
        return None;
    }
    let (kind, node, class) = reference(object)?;
    let index = ctx.cluster();
    if index.has(kind, "default", class) {
        return None;
    }
    let complete = index.is_complete_for(kind);
    // A class in another namespace is a different mistake, and a patch or a placeholder may be the class.
    if index.views().node_classes().may_exist(kind, class) {
        return None;
    }
    if !index.has_any(kind) && !complete {
        if is_first(object, index) {
            ctx.report(&node, format!("no {} is in the input, so `{class}` was not checked", kind.kind))
                .severity(Severity::Info)
                .help("lint NodePools together with their node classes");
        }
        return None;
    }
    let names = index.of(kind).filter(|class| ctx.pairs_with(class)).map(Object::name);
    let near = nearest(class, names);
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("add the {} `{class}`, or name one that exists", kind.kind),
    };
    let kind = kind.kind;
    let finding = if complete {
        ctx.report(&node, format!("there is no {kind} `{class}`, so the pool is never Ready"))
            .severity(Severity::Error)
    } else {
        ctx.report(
            &node,
            format!("no {kind} `{class}` is among the classes here; without it the pool is not Ready"),
        )
        .severity(if near.is_some() { Severity::Warning } else { Severity::Info })
    };
    finding.help(help);
    None
}

/// The class that a pool references: its kind, node and name. `None` if another rule, another provider or a
/// placeholder is responsible. Auto Mode has a built-in class `default`.
fn reference(object: &Object) -> Option<(Kind, Node<'_>, &str)> {
    let reference = NodePool::new(object)?.template_spec().get("nodeClassRef");
    let kind = class_kind(&reference)?;
    let node = reference.get("name");
    let name = node.text()?;
    Some((kind, node, name))
}

/// Whether this is the first pool to which the advice applies: it is reported once.
fn is_first(object: &Object, cluster: &Cluster) -> bool {
    let kinds = [Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS];
    let absent = kinds.into_iter().filter(|kind| !cluster.has_any(*kind));
    let classes = cluster.views().node_classes();
    let firsts = absent.filter_map(|kind| classes.first_pool(kind));
    let first = firsts.min_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    first.is_some_and(|first| first.is_same_resource(object))
}

/// Reports a class that no pool references, if all pools are known.
fn orphan(object: &Object, ctx: &mut Context<'_>) {
    let cluster = ctx.cluster();
    let name = object.display_name();
    if !cluster.is_complete() || object.is_partial() || name.to_string().is_empty() {
        return;
    }
    let used = cluster.views().node_classes().is_used(object.name());
    if !used {
        ctx.report(&object.path(&["metadata", "name"]), format!("no NodePool uses EC2NodeClass `{name}`"))
            .severity(Severity::Info)
            .help("remove it, or let a pool refer to it");
    }
}
