//! A `nodeClassRef` lacks group, kind or name.
//!
//! # Why
//! In `karpenter.sh/v1` a reference needs all three, and the API server rejects a NodePool that lacks one.
//! The v1beta1 field `apiVersion` became `group`, which takes no version.
//!
//! # Fix
//! On self-managed Karpenter write `group: karpenter.k8s.aws` and `kind: EC2NodeClass`; in EKS Auto Mode
//! `group: eks.amazonaws.com` and `kind: NodeClass`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//! -      nodeClassRef: {name: web} # <-
//! +      nodeClassRef: {name: web, group: karpenter.k8s.aws, kind: EC2NodeClass}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecnodeclassref>
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-ref-incomplete",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    owns: &[
        Ownership { path: "**/nodeClassRef/**", aspect: Aspect::Whole },
        Ownership { path: "**/nodeClassRef/apiVersion", aspect: Aspect::Unknown },
    ],
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("node_class_ref_incomplete.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

const AWS: Kind = Kind::EC2_NODE_CLASS;
const AUTO: Kind = Kind::AUTO_MODE_NODE_CLASS;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let reference = super::node_class_ref(object)?;
    if reference.is_unknown() {
        return None;
    }
    if !reference.is_set() {
        ctx.report_missing(&reference, "`nodeClassRef` is missing, so the API server rejects the object")
            .help("add it with `group`, `kind` and `name`");
        return None;
    }
    if !reference.is_mapping() {
        return None;
    }
    let version = reference.get("apiVersion");
    let group = reference.get("group");
    if version.is_set() && empty(&group) {
        old_field(&reference, &version, ctx);
    } else if let Some((prefix, _)) = group.text().and_then(|g| g.split_once('/')) {
        let finding = ctx.report(&group, "`nodeClassRef.group` must be a group without a version");
        finding
            .help(format!("write `{prefix}`"))
            .fix(Fix::new("drop the version", Safety::Safe).set(&group, json!(prefix)));
    } else {
        missing(&reference, object, ctx);
    }
    None
}

/// Absent, null or an empty string.
fn empty(node: &Node<'_>) -> bool {
    !node.is_set() || node.text() == Some("")
}

/// `apiVersion`, as in v1beta1.
fn old_field(reference: &Node<'_>, version: &Node<'_>, ctx: &mut Context<'_>) {
    let group = version.text().map(|v| v.split('/').next().unwrap_or(v));
    let complete = !empty(&reference.get("kind")) && !empty(&reference.get("name"));
    let finding = ctx.report(version, "`nodeClassRef.apiVersion` was replaced by `group` in v1");
    finding.help("replace it by `group`, which is what stands before the `/`");
    if let Some(group) = group.filter(|g| g.contains('.') && complete) {
        finding.fix(
            Fix::new(format!("write `group: {group}` instead"), Safety::Safe)
                .set(&reference.get("group"), json!(group))
                .remove(version),
        );
    }
}

/// Reports all absent or empty fields together.
fn missing(reference: &Node<'_>, object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (group, kind) = (reference.get("group"), reference.get("kind"));
    let fields = ["group", "kind", "name"];
    let lacking: Vec<&str> = fields.into_iter().filter(|f| empty(&reference.get(f))).collect();
    let first = lacking.first()?;
    if lacking.iter().any(|field| object.may_be_set_by_patch(&reference.get(field))) {
        return None;
    }
    let words: Vec<String> = lacking.iter().map(|f| format!("`{f}`")).collect();
    let guess = guess(&group, &kind, object, ctx);
    let since_1_1 = ctx.platform().karpenter >= Version::new(1, 1);
    // If several are missing, the location is the whole reference.
    let node =
        if lacking.len() > 1 && !object.is_partial() { reference.clone() } else { reference.get(first) };
    let words = match words.as_slice() {
        [one, two, three] => format!("{one}, {two} and {three}"),
        few => few.join(" and "),
    };
    let finding = ctx.report_missing(&node, format!("`nodeClassRef` lacks {words}, which v1 requires"));
    // Empty strings are rejected since 1.1.
    let written = lacking.iter().all(|f| reference.get(f).is_set());
    if written && !since_1_1 {
        finding.rejected_by(None);
    }
    let Some((class, safety)) = guess else {
        finding.help("write `group`, `kind` and `name` of the class");
        return None;
    };
    finding.help(format!("on this provider it is `{}` of group `{}`", class.kind, class.group));
    // A name cannot be guessed.
    if !lacking.contains(&"name") {
        let mut fix = Fix::new(format!("refer to the {class}"), safety);
        if lacking.contains(&"group") {
            fix = fix.set(&group, json!(class.group));
        }
        if lacking.contains(&"kind") {
            fix = fix.set(&kind, json!(class.kind));
        }
        finding.fix(fix);
    }
    None
}

/// The intended kind of class, and the safety of the fix.
fn guess(group: &Node<'_>, kind: &Node<'_>, object: &Object, ctx: &Context<'_>) -> Option<(Kind, Safety)> {
    if !empty(group) {
        let class = [AWS, AUTO].into_iter().find(|k| group.text() == Some(k.group))?;
        return Some((class, Safety::Safe));
    }
    if !empty(kind) {
        let class = [AWS, AUTO].into_iter().find(|k| kind.text() == Some(k.kind))?;
        // Other providers may use the name `NodeClass` too.
        let safety = if class == AWS { Safety::Safe } else { Safety::Unsafe };
        return Some((class, safety));
    }
    let cluster = ctx.cluster();
    let others = || cluster.views().node_classes().groups_of_other_pools(object);
    let auto = cluster.of(AUTO).next().is_some() || others().any(|g| g == AUTO.group);
    let aws = cluster.of(AWS).next().is_some() || others().any(|g| g == AWS.group);
    let foreign = others().any(|g| g != AUTO.group && g != AWS.group);
    let sure = !auto && !foreign && ctx.platform().eks;
    let class = if auto && !aws { AUTO } else { AWS };
    Some((class, if sure { Safety::Safe } else { Safety::Unsafe }))
}
