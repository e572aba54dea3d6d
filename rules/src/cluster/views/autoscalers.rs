//! Who scales what.

use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::keda::hpa_name;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use super::Kept;
use crate::cluster::relation::{Change, Relation};

/// Namespace, `group/kind` and name of what is scaled.
pub(crate) type Target = (String, String, String);

/// HPAs and ScaledObjects by what they scale.
#[derive(Debug)]
pub(super) struct Scalers {
    pub(super) hpas: Relation<3, Object>,
    pub(super) scaled_objects: Relation<3, Object>,
    /// ScaledObjects by namespace and the name of their HPA.
    pub(super) by_hpa: Relation<2, Object>,
}

impl Kept for Scalers {
    fn new(index: &Index) -> Scalers {
        let mut out = Scalers {
            hpas: Relation::new("HPAs of a target"),
            scaled_objects: Relation::new("ScaledObjects of a target"),
            by_hpa: Relation::new("ScaledObjects of an HPA"),
        };
        let all = index.of(Kind::HPA).chain(index.of(Kind::SCALED_OBJECT));
        for object in all {
            out.change(Change::Come, object, &mut Touched::unwanted());
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if object.is_partial() {
            return;
        }
        if object.is(Kind::HPA) {
            if let Some(target) = target(object) {
                self.hpas.change(change, key(&target), object, touched);
            }
        } else if object.is(Kind::SCALED_OBJECT) {
            if let Some(target) = target(object) {
                let key = key(&target);
                self.scaled_objects.change(change, key, object, touched);
            }
            if let Some(name) = hpa_name(object) {
                let key = [object.id().namespace_or_default(), &name];
                self.by_hpa.change(change, key, object, touched);
            }
        }
    }
}

/// A target as a key.
pub(super) fn key(target: &Target) -> [&str; 3] {
    [&target.0, &target.1, &target.2]
}

/// Namespace, `group/kind` and name of what an HPA or a ScaledObject scales, KEDA's defaults
/// filled in; `None` where it cannot be read.
#[must_use]
pub fn target(object: &Object) -> Option<(String, String, String)> {
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let name = reference.get("name").text()?;
    let field = |name: &str, default: &str| {
        let node: Node<'_> = reference.get(name);
        if node.exists() { node.text().map(str::to_owned) } else { Some(default.to_owned()) }
    };
    let version = field("apiVersion", "apps/v1")?;
    let kind = field("kind", "Deployment")?;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Some((object.id().namespace_or_default().to_owned(), format!("{group}/{kind}"), name.to_owned()))
}
