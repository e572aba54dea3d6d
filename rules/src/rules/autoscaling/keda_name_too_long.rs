//! A ScaledObject's name is too long for the HPA that KEDA makes.
//!
//! # Why
//! KEDA names its HPA `keda-hpa-` and the ScaledObject's name, and writes both names into labels,
//! which hold 63 characters. Since 2.20 its admission rejects what is longer; before, the object
//! was taken and the HPA never made.
//!
//! # Fix
//! Name the HPA in `spec.advanced.horizontalPodAutoscalerConfig.name`, or keep the ScaledObject's
//! name to 54 characters.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//! -metadata:
//! -  name: recommendations-embedding-service-production-us-east-1-blue # <-
//! +metadata: {name: embedding-production-us-east-1-blue}
//!  spec:
//!    scaleTargetRef: {name: embedder}
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: "app=llm-client", value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#advanced>

use crate::keda::hpa_name;
use crate::rules::prelude::*;

/// Maximum length of a label value.
const LONGEST: usize = 63;

pub(crate) static RULE: Rule = Rule {
    id: "keda-name-too-long",
    kinds: &[Kind::SCALED_OBJECT],
    rejected_by: &[Authority::KedaAdmission],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_name_too_long.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let name = object.path(&["metadata", "name"]);
    let custom = object.path(&["spec", "advanced", "horizontalPodAutoscalerConfig", "name"]);
    // Before 2.20 the admission webhook accepts it, and creating the HPA fails.
    let refused = (ctx.platform().keda >= Version::new(2, 20)).then_some(Authority::KedaAdmission);
    if let Some(text) = name.text()
        && text.len() > LONGEST
    {
        ctx.report(&name, format!("the name has {} characters, KEDA allows {LONGEST}", text.len()))
            .help("shorten it: it becomes a label value")
            .rejected_by(refused);
        return None;
    }
    let hpa = hpa_name(object)?;
    if hpa.len() <= LONGEST {
        return None;
    }
    let (node, help) = if custom.text().is_some_and(|t| !t.is_empty()) {
        (&custom, "write a shorter name")
    } else {
        (&name, "name the HPA in `spec.advanced.horizontalPodAutoscalerConfig.name`, or use 54 characters")
    };
    ctx.report(node, format!("the HPA's name has {} characters, KEDA allows {LONGEST}", hpa.len()))
        .help(help)
        .rejected_by(refused);
    None
}
