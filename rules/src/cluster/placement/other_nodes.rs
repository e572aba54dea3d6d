//! Whether nodes that Karpenter does not start may take the pods of a template.

use std::sync::Arc;

use globset::Glob;

use crate::cluster::other_nodes::{Nodes, OtherNodes};
use crate::cluster::placement::feasibility::{Evaluation, Feasibility, FeasibleKey, shape_of};
use crate::cluster::placement::pools::CandidatePool;
use crate::karpenter::provider::is_karpenter_label;
use crate::karpenter::requirement::Requirements;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::Template;

impl OtherNodes {
    fn may_take(&self, template: &Template<'_>, key: &FeasibleKey, evaluation: &Evaluation<'_>) -> bool {
        let shape = &key.shape;
        let meets = |own: Option<&Requirements>| {
            shape.alternatives.iter().any(|wanted| !wants_karpenter(wanted, own))
        };
        match &self.nodes {
            Nodes::Any => meets(None),
            Nodes::Like(pool) => {
                let pool = Arc::new(CandidatePool::of_others(&self.object, (**pool).clone()));
                meets(Some(&pool.requirements)) && evaluation.admit(&[pool]).is_none_or(|admits| admits[0])
            }
            Nodes::Fargate => self.place().1.get("selectors").items().any(|one| selects(&one, template)),
        }
    }
}

/// Whether pods require a label of Karpenter's nodes that a group does not set itself.
fn wants_karpenter(wanted: &Requirements, own: Option<&Requirements>) -> bool {
    let is_own = |key: &str| own.is_some_and(|own| own.get(key).is_some_and(|own| !own.allows_absence()));
    wanted.iter().any(|(key, one)| is_karpenter_label(key) && !one.allows_absence() && !is_own(key))
}

/// Whether a selector of a Fargate profile matches pods: their namespace, in which `*` and `?` may stand for any characters, and all
/// labels. What cannot be read matches.
fn selects(selector: &Node<'_>, template: &Template<'_>) -> bool {
    let (object, _) = template.place;
    let labels = template.pod_labels();
    let is_in = |pattern: &str| {
        let own = object.namespace_or_default();
        object.is_namespace_unknown()
            || Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(own))
    };
    let has = |(key, value): &(&str, Node<'_>)| {
        let own = labels.iter().find(|(label, _)| label == key);
        own.is_some_and(|(_, own)| own.is_unknown() || value.is_unknown() || own.text() == value.text())
    };
    selector.has_unknown_key()
        || selector.get("namespace").text().is_none_or(is_in)
            && selector.get("labels").entries().iter().all(has)
}

impl<'i> Feasibility<'i> {
    /// The first nodes that Karpenter does not start and that may take the pods of a template, of those that an object which is near
    /// declares.
    pub(crate) fn other_nodes_for(
        &self,
        template: &Template<'_>,
        is_near: impl Fn(&Object) -> bool,
    ) -> Option<&'i OtherNodes> {
        let mut groups = self.cluster.other_nodes().iter().filter(|group| is_near(&group.object)).peekable();
        groups.peek()?;
        let key = FeasibleKey { shape: shape_of(template)?, eks: self.eks };
        let evaluation = Evaluation::new(self.cluster, &key);
        groups.find(|group| group.may_take(template, &key, &evaluation))
    }
}
