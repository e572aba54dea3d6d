//! Lists the reasons why a pool rejects a pod, one by one, and the changes that would remove each.
//!
//! The scheduler reports only the first reason. To find the next one, the first change that is proposed is made to the pod, the pool
//! or its class, and the scheduler runs again, until it admits the pod. No change is proposed that does not get the pod past the reason,
//! and of an obstacle's alternatives only those are kept that, with the first changes of the others, admit the pod.

use std::rc::Rc;

use crate::catalog::TypeSet;
use crate::cluster::branch_interfaces::BRANCH_INTERFACE;
use crate::facts::quantity::amount;
use crate::fit::edits::{Edit, clear, drop_key, edit};
use crate::fit::words::conflict;
use crate::fit::{Answer, Change, Obstacle, Place, Side, Situation, Stage, ValueEdit};
use crate::karpenter::requirement::{Requirement, Requirements, normalise};
use crate::karpenter::scheduling::{
    Container, Outcome, Pod, Pool, RejectionStage, ResourceList, Scheduler, Taint, Term, Toleration,
    admitted, capacity, effective_tolerations, matching, pod_requests, pool_requirements,
};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::gpu::is_accelerator;
use crate::workload::template::Template;
use serde_json::json;

/// Maximum number of obstacles to find in one pool.
const MAX_OBSTACLES: usize = 16;

/// A change, with what it does.
pub(super) struct Remedy {
    pub(super) change: Change,
    pub(super) edit: Edit,
}

/// An obstacle before its changes are tried.
pub(super) struct Draft {
    pub(super) obstacle: Obstacle,
    pub(super) remedies: Vec<Remedy>,
    /// Takes the obstacle away if no change does.
    pub(super) without: Edit,
}

/// A pod and a pool that are changed until they fit.
pub(super) struct Attempt<'s> {
    pub(super) situation: &'s Situation<'s>,
    pub(super) workload: &'s Object,
    pub(super) template: &'s Template<'s>,
    pub(super) object: &'s Object,
    pub(super) pod: Pod,
    pub(super) pool: Pool,
    proposes: Proposes,
}

/// Whether changes are proposed. To find and to prove them takes most of the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proposes {
    Changes,
    Nothing,
}

impl Situation<'_> {
    /// The reasons why the pool at a position rejects the pod of a template.
    pub(super) fn obstacles(
        &self,
        position: usize,
        workload: &Object,
        template: &Template<'_>,
        pod: &Pod,
        proposes: Proposes,
    ) -> Answer {
        let pool = self.pools[position].clone();
        let object = &self.objects[position];
        let start = Attempt { situation: self, workload, template, object, pod: pod.clone(), pool, proposes };
        let mut attempt = start.clone();
        let mut drafts: Vec<Draft> = Vec::new();
        let mut next = attempt.next_stage();
        let reachable = loop {
            let Some(stage) = next else { break true };
            let terminal = matches!(
                stage,
                RejectionStage::Static | RejectionStage::Invalid(_) | RejectionStage::NoTypes(_)
            );
            if drafts.len() == MAX_OBSTACLES {
                break false;
            }
            let mut draft = attempt.draft(&stage);
            match proposes {
                Proposes::Changes => {
                    // Nobody can edit the NodePools that EKS Auto Mode brings.
                    let is_open = |change: &Change| !attempt.pool.is_built_in || change.side == Side::Pod;
                    draft.remedies.retain(|remedy| {
                        is_open(&remedy.change) && attempt.with(&remedy.edit).is_past(&stage)
                    });
                }
                Proposes::Nothing => draft.remedies.clear(),
            }
            let edit = draft.remedies.first().map_or(&draft.without, |remedy| &remedy.edit);
            attempt = attempt.with(edit);
            next = attempt.next_stage();
            drafts.push(draft);
            if terminal || !is_past(&stage, next.as_ref()) {
                break false;
            }
        };
        if reachable && proposes == Proposes::Changes {
            start.shorten(&mut drafts);
            let is_proven = start.prefer_proven(&mut drafts);
            start.keep_sufficient(&mut drafts, is_proven);
            if !is_proven {
                withhold_edits(&mut drafts);
            }
        } else {
            withhold_edits(&mut drafts);
        }
        let told = drafts.into_iter().map(|draft| Obstacle {
            changes: draft.remedies.into_iter().map(|remedy| remedy.change).collect(),
            ..draft.obstacle
        });
        Answer::Rejects { obstacles: told.collect(), reachable }
    }

    /// A scheduler for some of the pools or changed ones.
    pub(super) fn scheduler_for<'p>(&'p self, pools: &'p [Pool]) -> Scheduler<'p> {
        let scheduler = Scheduler::new(pools, &self.daemonsets, &self.options);
        if self.overlays_on == Some(true) { scheduler.with_overlays(&self.overlays) } else { scheduler }
    }
}

impl<'s> Attempt<'s> {
    fn clone(&self) -> Attempt<'s> {
        Attempt { pod: self.pod.clone(), pool: self.pool.clone(), ..*self }
    }

    /// The attempt after a change.
    pub(super) fn with(&self, edit: &Edit) -> Attempt<'s> {
        let mut changed = self.clone();
        edit(&mut changed.pod, &mut changed.pool);
        changed
    }

    /// Leaves out the obstacles that the changes for the others remove: another alternative of an earlier one may get the pod past a
    /// later one, and a later change may set the value that an earlier one sets.
    fn shorten(&self, drafts: &mut Vec<Draft>) {
        // What no change takes away stays told.
        if drafts.iter().any(|draft| draft.remedies.is_empty()) {
            return;
        }
        while drafts.len() > 1 {
            let last = drafts.len() - 1;
            if let Some((at, number)) = self.alternative(&drafts[..last], |end| end.next_stage().is_none()) {
                drafts[at].remedies.swap(0, number);
                drafts.truncate(last);
                continue;
            }
            let all = first_edits(drafts);
            let is_superfluous = |at: &usize| {
                let mut rest = all.clone();
                rest.remove(*at);
                self.after(&rest).next_stage().is_none()
            };
            match (0..last).find(is_superfluous) {
                Some(at) => drop(drafts.remove(at)),
                None => break,
            }
        }
    }

    /// Puts an alternative first with which the pool certainly admits the pod, where that is not known of the first changes. Whether
    /// it is certain of those that are first then.
    fn prefer_proven(&self, drafts: &mut [Draft]) -> bool {
        if self.after(&first_edits(drafts)).is_admitted() {
            return true;
        }
        let proven = self.alternative(drafts, |end| end.is_admitted());
        if let Some((at, number)) = proven {
            drafts[at].remedies.swap(0, number);
        }
        proven.is_some()
    }

    /// The obstacle, and the number of its change, that together with the first changes of the others leads where it should.
    fn alternative(
        &self,
        drafts: &[Draft],
        is_reached: impl Fn(&Attempt<'_>) -> bool,
    ) -> Option<(usize, usize)> {
        let plan = first_edits(drafts);
        drafts.iter().enumerate().find_map(|(at, draft)| {
            let leads_there = |one: &Remedy| is_reached(&self.after(&replaced(&plan, at, &one.edit)));
            Some((at, 1 + draft.remedies.iter().skip(1).position(leads_there)?))
        })
    }

    /// Removes the alternatives that do not admit the pod together with the first changes of the other obstacles. One after which that is
    /// not known is kept where it is not known of the first changes either.
    fn keep_sufficient(&self, drafts: &mut [Draft], is_proven: bool) {
        let plan = first_edits(drafts);
        for (at, draft) in drafts.iter_mut().enumerate() {
            let mut number = 0;
            draft.remedies.retain(|remedy| {
                number += 1;
                let end = || self.after(&replaced(&plan, at, &remedy.edit));
                number == 1 || if is_proven { end().is_admitted() } else { end().next_stage().is_none() }
            });
        }
    }

    /// The attempt after several changes.
    fn after(&self, edits: &[Edit]) -> Attempt<'s> {
        edits.iter().fold(self.clone(), |attempt, edit| attempt.with(edit))
    }

    /// The verdict of the scheduler on the pod in this pool alone.
    fn outcome(&self) -> Option<Outcome> {
        let scheduler = self.situation.scheduler_for(std::slice::from_ref(&self.pool));
        scheduler.survey(&self.pod).into_iter().next().map(|(_, outcome)| outcome)
    }

    /// Whether the pool certainly admits the pod.
    fn is_admitted(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::Admits(_)))
    }

    /// The stage at which the pool rejects the pod. `None` if it may admit it.
    fn next_stage(&self) -> Option<RejectionStage> {
        match self.outcome()? {
            // While a node takes no pod, no type has room for the other resources.
            Outcome::Rejects(RejectionStage::Resources(mut names)) => {
                names.sort_by_key(|name| name != "pods");
                Some(RejectionStage::Resources(names))
            }
            Outcome::Rejects(stage) => Some(stage),
            Outcome::Admits(_) | Outcome::Undecided(_) => None,
        }
    }

    /// Whether the pod gets past a stage at which it was rejected.
    pub(super) fn is_past(&self, stage: &RejectionStage) -> bool {
        is_past(stage, self.next_stage().as_ref())
    }

    /// The limits that prevent the pool from having a type for the pod.
    fn limits_in_the_way(&self) -> Vec<String> {
        if self.pool.limits.is_empty() {
            return Vec::new();
        }
        let open = Pool { limits: Vec::new(), ..self.pool.clone() };
        let scheduler = self.situation.scheduler_for(std::slice::from_ref(&open));
        let Some((_, Outcome::Admits(admission))) = scheduler.survey(&self.pod).into_iter().next() else {
            return Vec::new();
        };
        let (class, options) = (open.class.as_ref(), &self.situation.options);
        let exceeded = |name: &str, limit: i128| {
            admission.types.iter().all(|t| capacity(t, class, options).get(name) > limit)
        };
        let limits = self.pool.limits.iter().filter(|(name, limit)| exceeded(name, *limit));
        limits.map(|(name, _)| name.clone()).collect()
    }

    /// Describes the obstacle of a stage, with changes that may remove it.
    fn draft(&self, stage: &RejectionStage) -> Draft {
        if matches!(stage, RejectionStage::Resources(_) | RejectionStage::Requirements) {
            let limits = self.limits_in_the_way();
            if !limits.is_empty() {
                return self.limits(&limits);
            }
        }
        match stage {
            RejectionStage::Static => self.static_pool(),
            RejectionStage::Invalid(problem) => {
                let reason = format!("Karpenter rejects the NodePool: {problem}");
                self.of_pool(Stage::Invalid, reason, &self.object.path(&["metadata", "name"]))
            }
            RejectionStage::NoTypes(why) => self.no_types(why.as_ref()),
            RejectionStage::Taint(taint) => self.taint(taint),
            RejectionStage::Label(clash) => self.label(clash),
            RejectionStage::NodesLimit => self.nodes_limit(),
            RejectionStage::Limits(names) => self.limits(names),
            RejectionStage::Volumes(clash) => self.volumes(clash),
            RejectionStage::Topology { kind, key } => self.topology(*kind, key),
            RejectionStage::Requirements => self.requirements(),
            RejectionStage::HostPort => self.host_port(),
            RejectionStage::Resources(names) => self.resources(names),
            RejectionStage::MinValues { key, wanted, found } => self.min_values(key, *wanted, *found),
        }
    }

    fn of_pool(&self, stage: Stage, reason: String, node: &Node<'_>) -> Draft {
        let places = vec![Place::new(self.object, node, "this NodePool")];
        let obstacle = Obstacle { stage, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies: Vec::new(), without: edit(|_, _| ()) }
    }

    fn pool_spec(&self) -> Node<'_> {
        self.object.path(&["spec", "template", "spec"])
    }

    pub(super) fn of_pod(
        &self,
        node: &Node<'_>,
        text: String,
        change: impl Fn(&mut Pod, &mut Pool) + 'static,
    ) -> Remedy {
        let place = Place::new(self.workload, node, "here");
        Remedy { change: Change { side: Side::Pod, place, text, edit: None }, edit: edit(change) }
    }

    pub(super) fn in_pool(
        &self,
        node: &Node<'_>,
        text: String,
        change: impl Fn(&mut Pod, &mut Pool) + 'static,
    ) -> Remedy {
        let place = Place::new(self.object, node, "here");
        Remedy { change: Change { side: Side::Pool, place, text, edit: None }, edit: edit(change) }
    }

    fn static_pool(&self) -> Draft {
        if !self.situation.options.standing_nodes {
            let reason = "the feature gate `StaticCapacity` is off: the static pool has no nodes".to_owned();
            return self.of_pool(Stage::Static, reason, &self.object.path(&["spec", "replicas"]));
        }
        let node = self.object.path(&["spec", "replicas"]);
        let reason = "the static pool has no nodes, and starts none for pending pods".to_owned();
        let mut draft = self.of_pool(Stage::Static, reason, &node);
        draft
            .remedies
            .push(self.in_pool(&node, "raise `replicas`".to_owned(), |_, pool| pool.replicas = Some(1)));
        draft
    }

    fn no_types(&self, why: Option<&crate::karpenter::scheduling::Conflict>) -> Draft {
        let reason = why.map_or_else(|| "the pool admits no instance type".to_owned(), conflict);
        let node = why.and_then(|why| self.pool_keys(&why.key).into_iter().next());
        let node = node.unwrap_or_else(|| self.pool_spec().get("requirements"));
        self.of_pool(Stage::NoTypes, reason, &node)
    }

    fn taint(&self, taint: &Taint) -> Draft {
        let written = display(taint);
        let spec = self.pool_spec();
        let of_taint = |node: &Node<'_>| {
            node.get("key").text() == Some(&taint.key)
                && node.get("effect").text() == Some(&taint.effect)
                && node.get("value").text().unwrap_or_default() == taint.value
        };
        let node = spec.get("taints").items().find(of_taint).unwrap_or_else(|| spec.get("taints"));
        let tolerations = self.template.spec.get("tolerations");
        let near = tolerations.items().find(|node| node.get("key").text() == Some(&taint.key));
        let mut places = vec![Place::new(self.object, &node, "this taint")];
        if let Some(near) = &near {
            places.push(Place::new(self.workload, near, "this toleration is for another value or effect"));
        }
        let is_new = near.is_none();
        let at = near.unwrap_or(tolerations);
        let toleration = Toleration {
            key: taint.key.clone(),
            operator: "Exists".to_owned(),
            value: String::new(),
            effect: taint.effect.clone(),
        };
        let tolerate = move |pod: &mut Pod, _: &mut Pool| pod.tolerations.push(toleration.clone());
        let removed = taint.clone();
        let remove = move |_: &mut Pod, pool: &mut Pool| pool.taints.retain(|other| *other != removed);
        let mut tolerated = self.of_pod(&at, format!("tolerate `{written}`"), tolerate.clone());
        let entry = match taint.value.as_str() {
            "" => json!({"key": taint.key, "operator": "Exists", "effect": taint.effect}),
            value => json!({"key": taint.key, "operator": "Equal", "value": value, "effect": taint.effect}),
        };
        tolerated.change.edit = is_new.then(|| ValueEdit::Append(at.pointer(), entry));
        let remedies = vec![tolerated, self.in_pool(&node, format!("remove the taint `{written}`"), remove)];
        let reason = format!("the pod does not tolerate the taint `{written}`");
        let obstacle =
            Obstacle { stage: Stage::Taint(taint.key.clone()), reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without: edit(tolerate) }
    }

    /// The fields of the pool that restrict a label.
    pub(super) fn pool_keys(&self, key: &str) -> Vec<Node<'_>> {
        let is = |node: &Node<'_>| node.get("key").text().is_some_and(|text| normalise(text) == key);
        let mut nodes: Vec<Node<'_>> = self.pool_spec().get("requirements").items().filter(is).collect();
        let labels = self.object.path(&["spec", "template", "metadata", "labels"]).entries();
        nodes.extend(labels.into_iter().filter(|(name, _)| normalise(name) == key).map(|(_, node)| node));
        nodes
    }

    fn nodes_limit(&self) -> Draft {
        let node = self.object.path(&["spec", "limits", "nodes"]);
        let raise = |_: &mut Pod, pool: &mut Pool| pool.limits.retain(|(name, _)| name != "nodes");
        let remedies = vec![self.in_pool(&node, "raise `limits.nodes`".to_owned(), raise)];
        let places = vec![Place::new(self.object, &node, "this limit")];
        let reason = "`limits.nodes` is 0: the pool starts no nodes".to_owned();
        let obstacle = Obstacle { stage: Stage::NodesLimit, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without: edit(raise) }
    }

    /// The first of the limits that leave no type for the pod.
    fn limits(&self, names: &[String]) -> Draft {
        let name = names.first().cloned().unwrap_or_default();
        let limit = self.pool.limits.iter().find(|(key, _)| *key == name).map_or(0, |(_, limit)| *limit);
        let node = self.object.path(&["spec", "limits"]).get(&name);
        let open = name.clone();
        let without = edit(move |_, pool| pool.limits.retain(|(key, _)| *key != open));
        // The resources that the smallest possible node for the pod needs, within the other limits or else without them.
        let mut types = self.with(&without).types_for_pod();
        if types.is_empty() {
            let all = names.to_vec();
            types = self
                .with(&edit(move |_, pool| pool.limits.retain(|(key, _)| !all.contains(key))))
                .types_for_pod();
        }
        let (class, options) = (self.pool.class.as_ref(), &self.situation.options);
        let least = types.iter().map(|t| (capacity(t, class, options).get(&name), t.name)).min();
        let written = amount(&name, limit);
        let (reason, text, raised) = match least {
            Some((least, instance)) if least > limit => (
                format!(
                    "the limit {written} of `{name}` is below one node: {instance} has {}",
                    amount(&name, least)
                ),
                format!("raise the limit of `{name}` to {}", amount(&name, least)),
                Some(least),
            ),
            _ => (
                format!("the limit {written} of `{name}` excludes the types that the pod needs"),
                format!("raise the limit of `{name}`"),
                None,
            ),
        };
        let places = vec![Place::new(self.object, &node, "this limit")];
        let remedy = self.in_pool(&node, text, move |_, pool| match raised {
            Some(least) => {
                pool.limits.iter_mut().filter(|(key, _)| *key == name).for_each(|(_, limit)| *limit = least)
            }
            None => pool.limits.retain(|(key, _)| *key != name),
        });
        let obstacle = Obstacle { stage: Stage::Limit, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies: vec![remedy], without }
    }

    /// The types that the pool, with its changes so far, admits for the pod.
    pub(super) fn types_for_pod(&self) -> TypeSet {
        match self.outcome() {
            Some(Outcome::Admits(admission)) => admission.types,
            _ => TypeSet::EMPTY,
        }
    }

    /// The requirements of the pod on nodes, with the alternative that gets furthest: the first of those whose requirements leave no
    /// type.
    fn wanted(&self) -> Requirements {
        let mut wanted = Requirements::new();
        for (key, value) in &self.pod.node_selector {
            wanted.add(key, Requirement::is(value));
        }
        let ends_here = |term: &&Term| {
            let alone = self.with(&edit({
                let term = (*term).clone();
                move |pod, _| pod.terms = vec![term.clone()]
            }));
            alone.next_stage() == Some(RejectionStage::Requirements)
        };
        let terms = &self.pod.terms;
        let term = if terms.len() > 1 { terms.iter().find(ends_here) } else { None };
        for spec in term.or(terms.last()).iter().flat_map(|term| &term.expressions) {
            wanted.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
        }
        wanted
    }

    fn requirements(&self) -> Draft {
        let options = &self.situation.options;
        let class = self.pool.class.as_ref();
        let own = pool_requirements(&self.pool);
        let types = admitted(&self.pool, &own, options).types;
        let wanted = self.wanted();
        let mut both = own.clone();
        both.add_all(&wanted);
        let sets: Vec<(&str, TypeSet)> = wanted
            .iter()
            .filter_map(|(key, _)| Some((key, matching(key, both.get(key)?, class, options)?)))
            .collect();
        let alone = sets.iter().find(|(_, set)| types.is_disjoint(set)).map(|(key, _)| vec![*key]);
        let pair = || {
            sets.iter().enumerate().find_map(|(at, (a, first))| {
                let rest = types.and(first);
                let second = sets[at + 1..].iter().find(|(_, second)| rest.is_disjoint(second))?;
                Some(vec![*a, second.0])
            })
        };
        let keys = alone.or_else(pair).unwrap_or_else(|| sets.iter().map(|(key, _)| *key).collect());
        let asked: Vec<String> = keys
            .iter()
            .filter_map(|key| wanted.get(key).map(|requirement| format!("`{key}` {requirement}")))
            .collect();
        let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        let places: Vec<Place> = keys
            .iter()
            .flat_map(|key| self.pod_keys(key))
            .map(|node| Place::new(self.workload, &node, "what the pod asks for"))
            .collect();
        let reason = match asked.len() {
            0 => "no instance type of the pool meets what the pod asks for".to_owned(),
            _ => format!("no instance type of the pool has {}", asked.join(" and ")),
        };
        let text = format!("do not ask for {}", quoted(&keys));
        let do_not_ask = move |pod: &mut Pod, _: &mut Pool| {
            if keys.is_empty() {
                pod.node_selector.clear();
                pod.terms.clear();
            }
            keys.iter().for_each(|key| drop_key(pod, key));
        };
        let without = edit(do_not_ask);
        let mut remedies = Vec::new();
        if let Some(place) = places.first().cloned() {
            let change = Change { side: Side::Pod, place, text, edit: None };
            remedies.push(Remedy { change, edit: without.clone() });
        }
        if self.proposes == Proposes::Changes {
            remedies.extend(self.wider_pool(&RejectionStage::Requirements));
        }
        let obstacle = Obstacle { stage: Stage::Types, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without }
    }

    fn host_port(&self) -> Draft {
        let spec = &self.template.spec;
        let mut reason = "a DaemonSet of the pool's nodes uses a host port of the pod".to_owned();
        let mut places = Vec::new();
        for container in spec.get("containers").items() {
            for port in container.get("ports").items() {
                let Some(number) = port.get("hostPort").int() else { continue };
                for (set, object) in self.situation.daemonsets.iter().zip(&self.situation.daemonset_objects) {
                    let mut ports = set.pod.containers.iter().flat_map(|c| &c.host_ports);
                    if ports.any(|taken| i64::from(taken.port) == number) {
                        reason = format!(
                            "the DaemonSet `{}` uses host port {number} on the nodes of the pool",
                            set.name
                        );
                        places.push(Place::new(self.workload, &port.get("hostPort"), "this host port"));
                        places.push(Place::new(
                            object,
                            &object.path(&["metadata", "name"]),
                            "this DaemonSet",
                        ));
                    }
                }
            }
        }
        let without = edit(|pod, _| pod.containers.iter_mut().for_each(|one| one.host_ports.clear()));
        let text = "use another host port, or none".to_owned();
        let remedy = places.first().map(|place| Remedy {
            change: Change { side: Side::Pod, place: place.clone(), text, edit: None },
            edit: without.clone(),
        });
        let obstacle = Obstacle { stage: Stage::HostPort, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies: remedy.into_iter().collect(), without }
    }

    /// The first resource that no type has enough of, or all of them where only their combination is too much.
    fn resources(&self, names: &[String]) -> Draft {
        let need = pod_requests(&self.pod);
        let types = self.types_without_requests();
        let scheduler = self.situation.scheduler_for(std::slice::from_ref(&self.pool));
        let mut remedies = Vec::new();
        let mut lacking: Vec<String> = names.iter().take(1).cloned().collect();
        let (reason, node) = match names.first() {
            Some(name) => {
                let node = self.request_node(name);
                (self.too_little(name, &types, &scheduler, &mut remedies), node)
            }
            None => {
                let shortest = types
                    .iter()
                    .map(|t| {
                        let short = need.iter().filter(|(name, asked)| **asked > scheduler.room(t, name));
                        (short.map(|(name, _)| name.clone()).collect::<Vec<_>>(), t)
                    })
                    .min_by_key(|(short, _)| short.len());
                let node = self.template.spec.get("containers");
                let reason = match shortest {
                    Some((short, instance)) => {
                        let rooms = short.iter().map(|name| (name.clone(), scheduler.room(instance, name)));
                        remedies.extend(self.fewer(&node, rooms.collect()));
                        lacking = short;
                        format!(
                            "no instance type of the pool has enough of everything; {} has too little {}",
                            instance.name,
                            quoted(&lacking)
                        )
                    }
                    None => "no instance type of the pool has enough of everything".to_owned(),
                };
                (reason, node)
            }
        };
        if self.proposes == Proposes::Changes {
            remedies.splice(0..0, self.changed_class(names));
            remedies.extend(self.wider_pool(&RejectionStage::Resources(names.to_vec())));
        }
        let text = if names.is_empty() { "these requests" } else { "this request" };
        let places = vec![Place::new(self.workload, &node, text)];
        let obstacle = Obstacle { stage: Stage::Resources(lacking), reason, places, changes: Vec::new() };
        let (first, kept) =
            (names.first().cloned(), effective_tolerations(&self.pod, &self.situation.options));
        let without = edit(move |pod, pool| {
            pod.tolerations.clone_from(&kept);
            clear(pod, first.as_ref());
            if first.as_deref() == Some("pods") {
                // A pod counts towards the maximum number of pods of a node, independent of its requests.
                pool.class = None;
            }
        });
        Draft { obstacle, remedies, without }
    }

    /// That no type has enough of a resource, with the changes of the pod that help.
    fn too_little(
        &self,
        name: &String,
        types: &TypeSet,
        scheduler: &Scheduler<'_>,
        remedies: &mut Vec<Remedy>,
    ) -> String {
        let need = pod_requests(&self.pod).get(name).copied().unwrap_or(0);
        let (asked, node) = (amount(name, need), self.request_node(name));
        match types.iter().map(|t| (scheduler.room(t, name), t)).max_by_key(|(room, _)| *room) {
            None | Some((..=0, _)) if name == "pods" => self.pods_taken(),
            Some((..=0, _)) if need == 0 => {
                format!("DaemonSets need more `{name}` than any instance type of the pool has")
            }
            Some((..=0, instance)) => {
                // A pod does not run without its accelerators: another pool has them, or a wider one.
                if !is_accelerator(name) {
                    let gone = name.clone();
                    let change = move |pod: &mut Pod, _: &mut Pool| clear(pod, Some(&gone));
                    remedies.push(self.of_pod(&node, without_resource(name), change));
                }
                let left = if scheduler.capacity_of(instance, name) > 0 { " left" } else { "" };
                format!("no instance type of the pool has `{name}`{left}; the pod asks for {asked}")
            }
            Some((room, instance)) => {
                remedies.extend(self.fewer(&node, vec![(name.clone(), room)]));
                let (room, instance) = (amount(name, room), instance.name);
                format!("the pod needs {asked} of `{name}`; {instance}, which has most, has {room} left")
            }
            None => format!("no instance type of the pool has {asked} of `{name}`"),
        }
    }

    /// The types that would remain if the pod requested nothing, as far as EC2 still offers any of them.
    fn types_without_requests(&self) -> TypeSet {
        self.types_for_no_requests().offered()
    }

    /// The types for a pod that requests nothing and keeps the tolerations that EKS adds for what it requests; without DaemonSets and
    /// `minValues` where nothing remains beside them.
    fn types_for_no_requests(&self) -> TypeSet {
        let kept = effective_tolerations(&self.pod, &self.situation.options);
        let empty = self.with(&edit(move |pod, _| {
            pod.tolerations.clone_from(&kept);
            clear(pod, None);
        }));
        let types = empty.types_for_pod();
        if !types.is_empty() {
            return types;
        }
        let mut open = empty.pool.clone();
        open.requirements.iter_mut().for_each(|spec| spec.min_values = None);
        let alone = [open];
        let scheduler = Scheduler::new(&alone, &[], &self.situation.options);
        match scheduler.survey(&empty.pod).into_iter().next() {
            Some((_, Outcome::Admits(admission))) => admission.types,
            _ => TypeSet::EMPTY,
        }
    }

    fn pods_taken(&self) -> String {
        match self.pods_of_daemonsets() {
            Some((all, taken)) => {
                format!("a node of the pool has {all} of `pods`, and DaemonSets take {taken}")
            }
            None => "no node of the pool takes another pod".to_owned(),
        }
    }

    /// The field that decides how much of a resource the pod requests.
    fn request_node(&self, name: &str) -> Node<'_> {
        let (spec, pod) = (&self.template.spec, &self.pod);
        let of = |list: &ResourceList| list.get(name).copied();
        let runtime = spec.get("runtimeClassName");
        let total = pod_requests(pod).get(name).copied().unwrap_or(0);
        if runtime.is_set() && of(&pod.overhead).is_some_and(|overhead| overhead * 2 > total) {
            return runtime;
        }
        let each = |one: &Container| of(&one.requests).or_else(|| of(&one.limits)).unwrap_or(0);
        let at_level = |side: &str| spec.path(&["resources", side]).get(name);
        let is_of_containers = pod.containers.iter().chain(&pod.init_containers).any(|one| each(one) > 0);
        if of(&pod.requests).is_some() {
            return at_level("requests");
        }
        if of(&pod.limits).is_some() && !is_of_containers {
            return at_level("limits");
        }
        let together: i128 = pod.containers.iter().map(each).sum();
        let is_initial = pod.init_containers.iter().any(|one| each(one) > together);
        let (field, list) = match is_initial {
            true => ("initContainers", &pod.init_containers),
            false => ("containers", &pod.containers),
        };
        let nodes: Vec<Node<'_>> = spec.get(field).items().collect();
        // The first of those that request most.
        let most = list.iter().zip(&nodes).rev().max_by_key(|(one, _)| each(one)).map(|(_, node)| node);
        let sides = ["requests", "limits"].into_iter();
        let written = most.and_then(|container| {
            sides.map(|side| container.path(&["resources", side]).get(name)).find(Node::is_set)
        });
        written.unwrap_or_else(|| spec.get("containers"))
    }

    fn min_values(&self, key: &str, wanted: u32, found: usize) -> Draft {
        let node = self.pool_keys(key).into_iter().find(|node| node.get("minValues").is_set());
        let node = node.map_or_else(|| self.pool_spec().get("requirements"), |node| node.get("minValues"));
        let places = vec![Place::new(self.object, &node, "this minValues")];
        let (lowered, fewer) = (key.to_owned(), u32::try_from(found).ok().filter(|found| *found > 0));
        let lower = move |_: &mut Pod, pool: &mut Pool| {
            for spec in pool.requirements.iter_mut().filter(|spec| normalise(&spec.key) == lowered) {
                spec.min_values = spec.min_values.and(fewer);
            }
        };
        let text = format!("lower `minValues` of `{key}` to {found}");
        let remedies = vec![self.in_pool(&node, text, lower.clone())];
        let reason =
            format!("`minValues: {wanted}` of `{key}`: the types that are left for the pod have {found}");
        let obstacle = Obstacle { stage: Stage::MinValues, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without: edit(lower) }
    }
}

/// Proposes the changes only in words: with the edits of values the pod is not certain to be admitted.
fn withhold_edits(drafts: &mut [Draft]) {
    let all = drafts.iter_mut().flat_map(|draft| &mut draft.remedies);
    all.for_each(|remedy| remedy.change.edit = None);
}

/// The first change of each obstacle, or what takes it away where no change does.
fn first_edits(drafts: &[Draft]) -> Vec<Edit> {
    let first = |draft: &Draft| draft.remedies.first().map_or(&draft.without, |one| &one.edit).clone();
    drafts.iter().map(first).collect()
}

/// A plan with one of its changes replaced.
fn replaced(plan: &[Edit], at: usize, edit: &Edit) -> Vec<Edit> {
    let mut plan = plan.to_vec();
    plan[at] = Rc::clone(edit);
    plan
}

/// Whether a pod that was rejected at one stage, and now at another or at none, got past the first.
fn is_past(stage: &RejectionStage, next: Option<&RejectionStage>) -> bool {
    match (stage, next) {
        (_, None) => true,
        (RejectionStage::Label(before), Some(RejectionStage::Label(after))) => before.key != after.key,
        (RejectionStage::Resources(before), Some(RejectionStage::Resources(after))) => {
            before != after && before.first().is_none_or(|name| !after.contains(name))
        }
        (RejectionStage::Limits(before), Some(RejectionStage::Limits(after))) => {
            before.first().is_some_and(|name| !after.contains(name))
        }
        (before, Some(after)) => before.depth() <= after.depth() && before != after,
    }
}

/// What keeps a resource out of a pod that no type of the pool has. The VPC resource controller of EKS writes addresses and branch
/// interfaces into pods while they are created (<https://github.com/aws/amazon-vpc-resource-controller-k8s>, `webhooks/core`).
fn without_resource(name: &str) -> String {
    match name {
        BRANCH_INTERFACE => {
            format!("let no SecurityGroupPolicy select the pod: for one that does EKS adds `{name}`")
        }
        "vpc.amazonaws.com/PrivateIPv4Address" => {
            format!("let the pod run on Linux: for Windows EKS adds `{name}`")
        }
        _ => format!("do not ask for `{name}`"),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
}

/// A taint in kubectl's notation.
pub(super) fn display(taint: &Taint) -> String {
    if taint.value.is_empty() {
        format!("{}:{}", taint.key, taint.effect)
    } else {
        format!("{}={}:{}", taint.key, taint.value, taint.effect)
    }
}
