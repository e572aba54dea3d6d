//! A value still holds the placeholder that a template or a person was to fill in.
//!
//! # Why
//! `role: KarpenterNodeRole-${CLUSTER_NAME}` is a text like any other to the API server. Where the
//! tool that fills it in does not run, or does not know the name, the EC2NodeClass never finds its
//! role, its subnets or its image, and no node of the pool ever starts. What a placeholder hides is
//! not checked either: the other rules take the value as unknown.
//!
//! # Fix
//! Write the value, or run the tool before gpulint: `kustomize build`, `helm template`, `envsubst`.
//! Where manifests are filled in at the very end, by Flux for example, switch the rule off for them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: embedder}
//!  spec:
//! -  scaleTargetRef:
//! -    name: ${DEPLOYMENT} # <-
//! +  scaleTargetRef: {name: embedder}
//!    minReplicaCount: 1
//!    maxReplicaCount: 4
//!    triggers:
//!      - type: rabbitmq
//!        metadata:
//!          queueName: work
//!          mode: QueueLength
//!          value: "20"
//!          hostFromEnv: RABBIT
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/>
//! - <https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution>

use std::collections::BTreeMap;

use crate::kind::SCHEMA_KINDS;
use crate::rules::prelude::*;
use crate::tree::node::Shape;
use crate::tree::placeholder::{find_placeholder, is_placeholder};

pub(crate) static RULE: Rule = Rule {
    id: "placeholder-unexpanded",
    kinds: SCHEMA_KINDS,
    docs: docs(include_str!("placeholder_unexpanded.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Fields in which such text is common: shell scripts and queries, environment variables that the kubelet
/// expands, configuration of other programs, descriptions.
const ORDINARY: &[&str] = &[
    "userData",
    "command",
    "args",
    "env",
    "annotations",
    "lifecycle",
    "exec",
    "httpHeaders",
    "query",
    "formula",
    "subPathExpr",
    "parameters",
    "cel",
    "matchConditions",
    "expression",
    "context",
    "status",
    "managedFields",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !object.root().has_unknown() {
        return None;
    }
    let mut found = Vec::new();
    collect(&object.root(), &mut found);
    let mut by_text: BTreeMap<&str, Vec<&Node<'_>>> = BTreeMap::new();
    for (text, node) in &found {
        by_text.entry(text).or_default().push(node);
    }
    for (text, _) in &found {
        let Some(places) = by_text.remove(text) else {
            continue;
        };
        let [first, more @ ..] = places.as_slice() else {
            continue;
        };
        let shown = super::words::quoted_value(text);
        let message = match more.len() {
            0 => format!("{shown} is a placeholder that nothing has filled in"),
            1 => format!("{shown} is a placeholder that nothing has filled in, here and once more"),
            n => format!("{shown} is a placeholder that nothing has filled in, here and {n} times more"),
        };
        let finding = ctx.report(first, message);
        finding.help("write the value, or run the tool that fills it in before gpulint");
        for node in more {
            finding.related(object, node, "and here");
        }
    }
    None
}

/// The placeholders below a node with their nodes, in document order.
fn collect<'a>(node: &Node<'a>, out: &mut Vec<(&'a str, Node<'a>)>) {
    match node.shape() {
        Shape::Absent => {}
        Shape::Scalar => {
            // A text of several lines is a script or an embedded file.
            if let Some(text) = node.raw_text().filter(|t| node.is_unknown() && !t.contains('\n')) {
                out.push((find_placeholder(text).unwrap_or(text), node.clone()));
            }
        }
        Shape::Sequence => node.items().for_each(|item| collect(&item, out)),
        Shape::Mapping => {
            for (key, child) in node.entries() {
                if !ORDINARY.contains(&key) && !is_placeholder(key) {
                    collect(&child, out);
                }
            }
        }
    }
}
