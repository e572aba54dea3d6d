//! Who scales what.

use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::keda::hpa_name;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use super::View;
use crate::cluster::relation::{MultiIndex, ObjectChange};

/// Namespace, `group/kind` and name of what is scaled.
pub(crate) type ScaleTarget = (String, String, String);

/// HPAs and ScaledObjects by what they scale.
#[derive(Debug)]
pub(super) struct Autoscalers {
    pub(super) hpas: MultiIndex<3, Object>,
    pub(super) scaled_objects: MultiIndex<3, Object>,
    /// ScaledObjects by namespace and the name of their HPA.
    pub(super) by_hpa: MultiIndex<2, Object>,
}

impl View for Autoscalers {
    fn new(index: &Index) -> Autoscalers {
        let mut out = Autoscalers {
            hpas: MultiIndex::new("HPAs of a target"),
            scaled_objects: MultiIndex::new("ScaledObjects of a target"),
            by_hpa: MultiIndex::new("ScaledObjects of an HPA"),
        };
        let all = index.of(Kind::HPA).chain(index.of(Kind::SCALED_OBJECT));
        for object in all {
            out.apply(ObjectChange::Added, object, &mut Invalidations::disabled());
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if object.is_partial() {
            return;
        }
        if object.is(Kind::HPA) {
            if let Some(target) = scale_target(object) {
                self.hpas.apply(change, target_key(&target), object, touched);
            }
        } else if object.is(Kind::SCALED_OBJECT) {
            if let Some(target) = scale_target(object) {
                let key = target_key(&target);
                self.scaled_objects.apply(change, key, object, touched);
            }
            if let Some(name) = hpa_name(object) {
                let key = [object.id().namespace_or_default(), &name];
                self.by_hpa.apply(change, key, object, touched);
            }
        }
    }
}

/// A target as a key.
pub(super) fn target_key(target: &ScaleTarget) -> [&str; 3] {
    [&target.0, &target.1, &target.2]
}

/// Namespace, `group/kind` and name of what an HPA or a ScaledObject scales, KEDA's defaults
/// filled in; `None` where it cannot be read.
#[must_use]
pub fn scale_target(object: &Object) -> Option<(String, String, String)> {
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let name = reference.get("name").text()?;
    let field = |name: &str, default: &str| {
        let node: Node<'_> = reference.get(name);
        if node.is_set() { node.text().map(str::to_owned) } else { Some(default.to_owned()) }
    };
    let version = field("apiVersion", "apps/v1")?;
    let kind = field("kind", "Deployment")?;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Some((object.id().namespace_or_default().to_owned(), format!("{group}/{kind}"), name.to_owned()))
}
