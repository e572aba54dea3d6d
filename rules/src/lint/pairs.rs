//! Findings that rest on two objects, from the side of the other one.
//!
//! A rule about a ScaledObject may name the Deployment that it scales. The admission webhook reviews one object at a
//! time, so a change of the Deployment has to ask that rule for its findings on the ScaledObject. The rule declares it
//! (`Rule::pairs`), with how the objects to ask about are found: by views, never by a search through the cluster.

use crate::cluster::Cluster;
use crate::lint::engine::{Engine, STEPS_PER_OBJECT};
use crate::lint::finding::{Finding, Related};
use crate::lint::rule::Pair;
use crate::lint::subject::Subject;
use crate::lint::suppress;
use crate::object::Object;

/// Maximum number of objects that a rule is asked about for one other object. Who adds objects that name another must not
/// be able to hide one of them; what the rules cost is bounded by steps.
const MAX_PARTNERS: usize = 64;
/// Maximum number of objects beside a pair. With more, the rule is not asked: it would miss some.
const MAX_BESIDE: usize = 64;

impl Engine {
    /// The findings on other objects that name this one, told from its side. They have no fix: it is the other object
    /// that a fix would change. Objects of files have none: there each finding is reported where its rule finds it.
    /// `others_suppress`: the annotations of the other objects count.
    pub(crate) fn check_pairs(
        &self,
        object: &Object,
        cluster: &Cluster,
        others_suppress: bool,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        if object.origin().is_some() {
            return found;
        }
        let mut left = STEPS_PER_OBJECT;
        for (at, pair) in self.pairs_with(object) {
            let partners = (pair.partners)(object, cluster);
            let is_other = |other: &&Object| other.origin().is_none() && !other.is_same_resource(object);
            for partner in partners.iter().filter(is_other).take(MAX_PARTNERS) {
                let Some(small) = pair.cluster(object, partner, cluster) else { continue };
                let mut findings = Vec::new();
                left -= self.run_rule(at, &Subject::new(partner), &small, left, &mut findings).steps;
                let suppressing = if others_suppress { std::slice::from_ref(partner) } else { &[] };
                let kept = suppress::apply(&self.rules, findings, &[], suppressing);
                let of_rule = |finding: &Finding| std::ptr::eq(finding.rule, self.rule(at));
                let told = kept.findings.iter().filter(|f| of_rule(f)).filter_map(|f| f.told_from(object));
                found.extend(told);
                if left == 0 {
                    return found;
                }
            }
        }
        found
    }
}

impl Pair {
    /// The two objects with all others that the rule reads for them: as if it were the whole cluster. `None` if these
    /// are too many.
    fn cluster(&self, object: &Object, partner: &Object, cluster: &Cluster) -> Option<Cluster> {
        let mut all = vec![object.clone(), partner.clone()];
        for other in (self.beside)(object, partner, cluster) {
            if all.len() > MAX_BESIDE {
                return None;
            }
            if !all.iter().any(|known| known.is_same_resource(&other)) {
                all.push(other);
            }
        }
        let mut small = cluster.excerpt();
        all.into_iter().for_each(|object| small.apply(object));
        Some(small)
    }
}

impl Finding {
    /// The finding at the place where it names `object`, with the object that it is about as the related one. `None` if
    /// it does not name it.
    fn told_from(&self, object: &Object) -> Option<Finding> {
        let about = self.location.object()?;
        let is_it =
            |related: &&Related| related.location.object().is_some_and(|o| o.is_same_resource(object));
        let named = self.related.iter().find(is_it)?;
        let others = self.related.iter().filter(|related| !is_it(related)).cloned();
        let mut told = Finding::new(self.rule, named.location.clone(), String::new());
        told.message = format!("{} `{}`: {}", about.kind(), about.display_name(), self.message);
        told.help = self.help.clone();
        told.severity = self.severity;
        // It is the other object that is rejected, where it is not accepted already.
        told.rejected_by = None;
        told.reports_absence = self.reports_absence;
        told.related = others.collect();
        let place = Related { location: self.location.clone(), message: self.message.clone() };
        told.related.insert(0, place);
        told.parameters = self.parameters.clone();
        let id = about.id();
        told.parameters.push(format!("{} {}/{}", id.kind, id.namespace_or_default(), id.name));
        told.from_partner = true;
        Some(told)
    }
}
