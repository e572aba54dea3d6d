//! A label of EKS Auto Mode is used for other nodes, or the reverse.
//!
//! # Why
//! With an EC2NodeClass the labels of instance types start with `karpenter.k8s.aws/`, in EKS Auto Mode with
//! `eks.amazonaws.com/`. In a pool of the other kind such a key is a label of its own that says nothing about
//! instance types. A pod that selects it waits where all pools are of the other kind.
//!
//! # Fix
//! Write the prefix of the provider whose nodes are meant.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//! -        - key: eks.amazonaws.com/instance-category # <-
//! -          operator: In
//! -          values: [c, m, r]
//! +        - key: karpenter.k8s.aws/instance-category
//! +          operator: In
//! +          values: [c, m, r]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html>

use crate::karpenter::labels::key::{KeyLocation, rejection};
use crate::karpenter::provider::is_documented_in_auto_mode;
use crate::karpenter::requirement::WELL_KNOWN_AWS;
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "instance-label-other-provider",
    kinds: KINDS_AND_WORKLOADS,
    reads: &[Kind::NODE_POOL],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("instance_label_other_provider.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(list) = ctx.requirements() {
        for node in list.items().map(|item| item.node.get("key")) {
            if let Some(key) = node.text() {
                check_key(&node, key, list.location, list.provider, ctx);
            }
        }
        for (key, node) in NodePool::new(object)?.labels().entries() {
            check_key(&node, key, KeyLocation::TemplateLabel, list.provider, ctx);
        }
        return None;
    }
    // Karpenter starts no node for a DaemonSet.
    for template in templates(object).into_iter().filter(|_| !object.is(Kind::DAEMON_SET)) {
        for (key, node) in template.spec.get("nodeSelector").entries() {
            check_pod_key(&node, key, true, ctx);
        }
        let terms = super::required_keys(&template);
        // A pod needs only one term that nodes can match.
        let is_dead =
            |term: &Vec<(&str, Node<'_>)>| term.iter().any(|(key, _)| missing_everywhere(key, ctx).is_some());
        if terms.iter().all(is_dead) {
            for (key, node) in terms.iter().flatten() {
                check_pod_key(node, key, false, ctx);
            }
        }
    }
    None
}

/// A key of a NodePool, NodeClaim or NodeOverlay. `node` is the text of a requirement's key, or the value of a
/// label.
fn check_key(node: &Node<'_>, key: &str, location: KeyLocation, provider: Provider, ctx: &mut Context<'_>) {
    let Some(other) = other_prefix(key, provider).filter(|_| !is_placeholder(key)) else { return };
    // Rejected keys are reported by requirement-key-restricted.
    let version = provider.karpenter_version(ctx.platform());
    if rejection(key, location, version, provider == Provider::Aws).is_some() {
        return;
    }
    let key = ellipsize(key);
    let (message, with) = match provider {
        Provider::AutoMode => {
            (format!("nodes of EKS Auto Mode do not have the label `{key}`"), "in Auto Mode")
        }
        _ => (format!("`{key}` is a label of EKS Auto Mode alone"), "with an EC2NodeClass"),
    };
    let finding = ctx.report(node, message);
    finding.reports_absence(false);
    // Of some labels AWS documents none for EKS Auto Mode.
    let is_known = provider != Provider::AutoMode || is_documented_in_auto_mode(&other);
    if is_known {
        finding.help(format!("{with} the key is `{other}`"));
    } else {
        finding.help("AWS documents no such label of EKS Auto Mode: choose types by family, size or GPU");
    }
    if location == KeyLocation::TemplateLabel {
        finding.at_key();
    } else if is_known {
        finding.fix(super::rename_key(node, &other));
    }
}

/// The equivalent label of the other provider, if there is one.
fn other_prefix(key: &str, provider: Provider) -> Option<String> {
    const AUTO: &str = "eks.amazonaws.com/";
    const AWS: &str = "karpenter.k8s.aws/";
    let (from, to) = match provider {
        Provider::Aws => (AUTO, AWS),
        Provider::AutoMode => (AWS, AUTO),
        Provider::Other => return None,
    };
    let name = key.strip_prefix(from)?;
    let known = name.starts_with("instance-") && WELL_KNOWN_AWS.contains(&name);
    known.then(|| format!("{to}{name}"))
}

/// If all pools are of one provider, and the key is a label of the other one: the provider of the nodes, and
/// the name of the label there.
pub(in crate::rules) fn missing_everywhere(key: &str, ctx: &Context<'_>) -> Option<(Provider, String)> {
    // Most keys belong to neither provider.
    other_prefix(key, Provider::Aws).or_else(|| other_prefix(key, Provider::AutoMode))?;
    // Pools of unrelated folders may be those of another cluster.
    ctx.cluster().of(Kind::NODE_POOL).find(|pool| ctx.pairs_with(pool))?;
    let provider = match ctx.cluster().views().node_classes().unique_group()? {
        "eks.amazonaws.com" => Provider::AutoMode,
        // The built-in pools of Auto Mode are in no file.
        "karpenter.k8s.aws" if ctx.cluster().is_complete_for(Kind::NODE_POOL) => Provider::Aws,
        _ => return None,
    };
    other_prefix(key, provider).map(|other| (provider, other))
}

/// A key that the nodes of no pool have.
fn check_pod_key(node: &Node<'_>, key: &str, selector: bool, ctx: &mut Context<'_>) {
    let Some((provider, other)) = missing_everywhere(key, ctx) else { return };
    let key = ellipsize(key);
    let message = match provider {
        Provider::AutoMode => format!("no node has `{key}`: all pools are EKS Auto Mode's"),
        _ => format!("no node has `{key}`: no pool is EKS Auto Mode's"),
    };
    let severity =
        if ctx.cluster().is_complete_for(Kind::NODE_POOL) { Severity::Error } else { Severity::Warning };
    let finding = ctx.report(node, message);
    let is_known = provider != Provider::AutoMode || is_documented_in_auto_mode(&other);
    finding.severity(severity);
    if is_known {
        finding.help(format!("the nodes of these pools have `{other}`"));
    } else {
        finding.help("AWS documents no such label of EKS Auto Mode: choose nodes by family, size or GPU");
    }
    if selector {
        finding.at_key();
    } else if is_known {
        let title = format!("write `{other}`; check which nodes the pod then gets");
        finding.fix(Fix::new(title, Safety::Unsafe).set(node, json!(other)));
    }
}
