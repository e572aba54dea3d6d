//! Autoscalers by their targets.

use std::sync::Arc;

use crate::cluster::table::{View, ViewSlot};
use crate::keda::{hpa_name, scale_target};
use crate::kind::Kind;
use crate::object::Object;

/// Namespace, `group/kind` and name of the target.
pub(crate) type ScaleTarget = (String, String, String);

pub(crate) struct Autoscalers;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AutoscalerKey {
    Hpa(Arc<ScaleTarget>),
    ScaledObject(Arc<ScaleTarget>),
    /// ScaledObjects by namespace and the name of the HPA that KEDA creates for them.
    ScaledObjectOfHpa(String, String),
}

impl View for Autoscalers {
    const SLOT: ViewSlot = ViewSlot::Autoscalers;
    const KINDS: &'static [Kind] = &[Kind::HPA, Kind::SCALED_OBJECT];
    type Row = Object;
    type Key = AutoscalerKey;

    fn keys(object: &Object) -> Vec<AutoscalerKey> {
        let target = scale_target(object).map(Arc::new);
        if object.is(Kind::HPA) {
            return target.map(AutoscalerKey::Hpa).into_iter().collect();
        }
        let namespace = object.namespace_or_default();
        let of_hpa =
            hpa_name(object).map(|name| AutoscalerKey::ScaledObjectOfHpa(namespace.to_owned(), name));
        target.map(AutoscalerKey::ScaledObject).into_iter().chain(of_hpa).collect()
    }
}

/// Objects from which an operator makes the autoscaler of a workload, by that workload.
pub(crate) struct MadeAutoscalers;

impl View for MadeAutoscalers {
    const SLOT: ViewSlot = ViewSlot::MadeAutoscalers;
    const KINDS: &'static [Kind] = &AUTOSCALER_MAKERS;
    type Row = Object;
    type Key = Arc<ScaleTarget>;

    fn keys(object: &Object) -> Vec<Arc<ScaleTarget>> {
        if object.is(Kind::HTTP_SCALED_OBJECT) {
            // With one of these the add-on leaves the ScaledObject to the user.
            let is_left = ["skip-scaledobject-creation", "orphan-scaledobject"]
                .iter()
                .any(|name| !object.annotation(&format!("httpscaledobject.keda.sh/{name}")).is_absent());
            return scale_target(object).filter(|_| !is_left).map(Arc::new).into_iter().collect();
        }
        scaled_components(object)
            .map(|component| {
                let name = format!("{}-{component}", object.name());
                Arc::new((object.namespace_or_default().to_owned(), "apps/Deployment".to_owned(), name))
            })
            .collect()
    }
}

/// The kinds of [`MadeAutoscalers`].
pub(crate) const AUTOSCALER_MAKERS: [Kind; 2] = [Kind::HTTP_SCALED_OBJECT, Kind::INFERENCE_SERVICE];

/// The components of an InferenceService for whose Deployments KServe makes an HPA, or a ScaledObject: without Knative, and
/// unless the annotation leaves that to others (`autoscaler_reconciler.go` of KServe 0.20).
fn scaled_components(object: &Object) -> impl Iterator<Item = &'static str> {
    let annotation = |name: &str| object.annotation(&format!("serving.kserve.io/{name}"));
    let has_deployments = matches!(annotation("deploymentMode").text(), Some("RawDeployment" | "Standard"));
    let class = annotation("autoscalerClass");
    let makes = has_deployments && (class.is_absent() || matches!(class.text(), Some("hpa" | "keda")));
    ["predictor", "transformer", "explainer"].into_iter().filter(move |component| {
        let component = object.path(&["spec", component]);
        makes && component.is_mapping() && component.get("workerSpec").is_absent()
    })
}

pub(crate) fn as_target(object: &Object) -> Arc<ScaleTarget> {
    let id = object.id();
    let kind = [id.group.as_str(), "/", id.kind.as_str()].concat();
    Arc::new((id.namespace_or_default().to_owned(), kind, id.name.clone()))
}
