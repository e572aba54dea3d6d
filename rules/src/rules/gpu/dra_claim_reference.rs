//! A pod refers to a resource claim that neither the pod nor the cluster defines.
//!
//! # Why
//! A container names one of the pod's `resourceClaims`, and each of these names a ResourceClaim or a
//! ResourceClaimTemplate of the namespace, exactly one. The API server checks that in Pods and its own
//! workloads; the pods of other kinds are rejected later, when their controller creates them. A pod
//! whose claim does not exist stays Pending: that is a warning where the input is complete, and advice
//! where a name of the input is similar.
//!
//! # Fix
//! Write the claim under the pod's `resourceClaims`, with the name of a claim or template of its
//! namespace.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: jobset.x-k8s.io/v1alpha2
//!  kind: JobSet
//!  metadata: {name: embed}
//!  spec:
//!    replicatedJobs:
//!      - name: workers
//!        template:
//!          spec:
//!            template:
//!              spec:
//!                restartPolicy: Never
//!                resourceClaims: [{name: gpu, resourceClaimTemplateName: single-gpu}]
//!                containers:
//!                  - name: main
//!                    image: example.com/embed:1.4.0
//!                    resources:
//!                      requests: {cpu: 4, memory: 16Gi}
//! -                    claims: [{name: gpus}] # <-
//! +                    claims: [{name: gpu}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>

use crate::cluster::objects::Lookup;
use crate::kind::KindInfo;
use crate::rules::gpu::dra_claims::{claims, target, used};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "dra-claim-reference",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    reports_absence: true,
    docs: docs(include_str!("dra_claim_reference.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        let list = template.spec.get("resourceClaims");
        if list.is_unknown() || template.spec.has_unknown_key() || object.may_lack_fields() {
            continue;
        }
        // The rules over the schema report what the API server rejects.
        if !object.kind_info().is_some_and(KindInfo::has_core_schema) {
            inside(&template, ctx);
        }
        for claim in claims(&template) {
            missing(object, &claim, ctx);
        }
    }
    None
}

/// References within the pod.
fn inside(template: &Template<'_>, ctx: &mut Context<'_>) {
    let names: Vec<Node<'_>> = claims(template).map(|claim| claim.get("name")).collect();
    if names.iter().any(Node::is_unknown) {
        return;
    }
    for use_ in used(template) {
        let name = use_.get("name");
        let Some(text) = name.text() else { continue };
        if names.iter().any(|known| known.text() == Some(text)) {
            continue;
        }
        let near = nearest(text, names.iter().filter_map(Node::text));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "write it under the pod's `resourceClaims`".to_owned(),
        };
        ctx.report(&name, format!("the pod has no claim `{text}`: its controller cannot create it"))
            .reports_absence(false)
            .help(help);
    }
    for claim in claims(template) {
        let fields = ["resourceClaimName", "resourceClaimTemplateName"].map(|field| claim.get(field));
        let written = fields.iter().filter(|field| field.is_set()).count();
        if written != 1 && !claim.has_unknown_key() && !claim.get("source").is_set() {
            let message = "a claim of a pod names either a ResourceClaim or a ResourceClaimTemplate";
            ctx.report(&claim, message)
                .reports_absence(false)
                .help("write one of `resourceClaimName` and `resourceClaimTemplateName`");
        }
    }
}

/// References to objects of the namespace.
fn missing(object: &Object, claim: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (kind, node) = target(claim)?;
    let name = node.text()?;
    let namespace = object.namespace_or_default();
    let index = ctx.cluster();
    let noun = kind.kind;
    match index.find(kind, namespace, name) {
        Lookup::Found(_) => {}
        Lookup::Missing => {
            ctx.report(&node, format!("namespace `{namespace}` has no {noun} `{name}`"))
                .severity(Severity::Warning)
                .help("create it in the namespace of the pods");
        }
        Lookup::Unknown => {
            let near = nearest(name, index.in_namespace(kind, namespace).map(Object::name))?.to_owned();
            ctx.report(&node, format!("no {noun} of the input is called `{name}`"))
                .severity(Severity::Info)
                .help(format!("did you mean `{near}`?"));
        }
    }
    None
}
