//! Lists the reasons why a pool rejects a pod, one by one, and the changes that would remove each.
//!
//! The scheduler reports only the first reason. To find the next one, the pod or the pool is changed as the
//! message proposes and the scheduler runs again, until it admits the pod. This ensures that all changes
//! together are enough.

use crate::catalog::{InstanceType, TypeSet, cheapest_first, retired};
use crate::fit::words::{amount, conflict};
use crate::fit::{Answer, Change, Obstacle, Place, Side, Situation};
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::requirement::{Clash, Operator, Requirement, Requirements, is_well_known, normalise};
use crate::karpenter::scheduling::{
    Outcome, Pod, Pool, RejectionStage, Scheduler, Taint, Toleration, admitted, allocatable, capacity,
    effective_tolerations, matching, pod_requests, pool_requirements,
};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// Maximum number of obstacles to find in one pool.
const MAX_OBSTACLES: usize = 16;

/// A pod and a pool that are changed until they fit.
struct Attempt<'s> {
    situation: &'s Situation,
    workload: &'s Object,
    template: &'s Template<'s>,
    object: &'s Object,
    pod: Pod,
    pool: Pool,
}

impl Situation {
    /// The reasons why the pool at a position rejects the pod of a template.
    pub(super) fn obstacles(
        &self,
        position: usize,
        workload: &Object,
        template: &Template<'_>,
        pod: &Pod,
    ) -> Answer {
        let mut attempt = Attempt {
            situation: self,
            workload,
            template,
            object: &self.objects[position],
            // The pod keeps the tolerations that EKS adds for the resources that it requests now.
            pod: Pod { tolerations: effective_tolerations(pod, &self.options), ..pod.clone() },
            pool: self.pools[position].clone(),
        };
        let mut obstacles = Vec::new();
        let mut last = None;
        while obstacles.len() < MAX_OBSTACLES {
            let Some(stage) = attempt.next_stage() else {
                return Answer::Rejects { obstacles, reachable: true };
            };
            // The last change had no effect.
            if last.as_ref() == Some(&stage) {
                break;
            }
            let terminal = matches!(
                stage,
                RejectionStage::Static | RejectionStage::Invalid(_) | RejectionStage::NoTypes(_)
            );
            let found = attempt.remove(&stage);
            obstacles.extend(found);
            if terminal {
                break;
            }
            last = Some(stage);
        }
        Answer::Rejects { obstacles, reachable: false }
    }
}

impl Attempt<'_> {
    /// The stage at which the pool rejects the pod. `None` if it may admit it.
    fn next_stage(&self) -> Option<RejectionStage> {
        let pools = std::slice::from_ref(&self.pool);
        let scheduler = Scheduler::new(pools, &self.situation.daemonsets, &self.situation.options);
        match scheduler.survey(&self.pod).into_iter().next()?.1 {
            Outcome::Rejects(stage) => Some(stage),
            Outcome::Admits(_) | Outcome::Undecided(_) => None,
        }
    }

    /// The limits that prevent the pool from having a type for the pod.
    fn limits_in_the_way(&self) -> Vec<String> {
        if self.pool.limits.is_empty() {
            return Vec::new();
        }
        let open = Pool { limits: Vec::new(), ..self.pool.clone() };
        let scheduler =
            Scheduler::new(std::slice::from_ref(&open), &self.situation.daemonsets, &self.situation.options);
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

    /// Describes the obstacles of a stage and removes them.
    fn remove(&mut self, stage: &RejectionStage) -> Vec<Obstacle> {
        if matches!(stage, RejectionStage::Resources(_) | RejectionStage::Requirements) {
            let limits = self.limits_in_the_way();
            if !limits.is_empty() {
                return self.limits(&limits);
            }
        }
        match stage {
            RejectionStage::Static => vec![self.static_pool()],
            RejectionStage::Invalid(problem) => {
                let reason = format!("Karpenter rejects the NodePool: {problem}");
                vec![self.of_pool("invalid", reason, &self.object.path(&["metadata", "name"]))]
            }
            RejectionStage::NoTypes(why) => vec![self.no_types(why.as_ref())],
            RejectionStage::Taint(taint) => vec![self.taint(taint)],
            RejectionStage::Label(clash) => vec![self.label(clash)],
            RejectionStage::NodesLimit => vec![self.nodes_limit()],
            RejectionStage::Limits(names) => self.limits(names),
            RejectionStage::Requirements => vec![self.requirements()],
            RejectionStage::HostPort => vec![self.host_port()],
            RejectionStage::Resources(names) => self.resources(names),
            RejectionStage::MinValues { key, wanted, found } => vec![self.min_values(key, *wanted, *found)],
        }
    }

    fn of_pool(&self, stage: &'static str, reason: String, node: &Node<'_>) -> Obstacle {
        let places = vec![Place::new(self.object, node, "this NodePool")];
        Obstacle { stage, reason, places, changes: Vec::new() }
    }

    fn pool_spec(&self) -> Node<'_> {
        self.object.path(&["spec", "template", "spec"])
    }

    fn change_pod(&self, node: &Node<'_>, text: String) -> Change {
        Change { side: Side::Pod, place: Place::new(self.workload, node, "here"), text }
    }

    fn change_pool(&self, node: &Node<'_>, text: String) -> Change {
        Change { side: Side::Pool, place: Place::new(self.object, node, "here"), text }
    }

    fn static_pool(&self) -> Obstacle {
        let node = self.object.path(&["spec", "replicas"]);
        let mut obstacle =
            self.of_pool("static", "the pool has `replicas`: it takes no pending pods".to_owned(), &node);
        obstacle.changes.push(self.change_pool(&node, "remove `replicas`".to_owned()));
        obstacle
    }

    fn no_types(&self, why: Option<&crate::karpenter::scheduling::Conflict>) -> Obstacle {
        let reason = why.map_or_else(|| "the pool admits no instance type".to_owned(), conflict);
        let node = why.and_then(|why| self.pool_keys(&why.key).into_iter().next());
        let node = node.unwrap_or_else(|| self.pool_spec().get("requirements"));
        self.of_pool("no-types", reason, &node)
    }

    fn taint(&mut self, taint: &Taint) -> Obstacle {
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
        let at = near.unwrap_or(tolerations);
        let changes = vec![
            self.change_pod(&at, format!("tolerate `{written}`")),
            self.change_pool(&node, format!("remove the taint `{written}`")),
        ];
        let reason = format!("the pod does not tolerate the taint `{written}`");
        self.pod.tolerations.push(Toleration {
            key: taint.key.clone(),
            operator: "Exists".to_owned(),
            value: String::new(),
            effect: taint.effect.clone(),
        });
        Obstacle { stage: "taint", reason, places, changes }
    }

    /// The fields of the pool that restrict a label.
    fn pool_keys(&self, key: &str) -> Vec<Node<'_>> {
        let is = |node: &Node<'_>| node.get("key").text().is_some_and(|text| normalise(text) == key);
        let mut nodes: Vec<Node<'_>> = self.pool_spec().get("requirements").items().filter(is).collect();
        let labels = self.object.path(&["spec", "template", "metadata", "labels"]).entries();
        nodes.extend(labels.into_iter().filter(|(name, _)| normalise(name) == key).map(|(_, node)| node));
        nodes
    }

    /// The fields of the pod that restrict a label.
    fn pod_keys(&self, key: &str) -> Vec<Node<'_>> {
        let spec = &self.template.spec;
        let selector = spec.get("nodeSelector").entries();
        let mut nodes: Vec<Node<'_>> =
            selector.into_iter().filter(|(name, _)| normalise(name) == key).map(|(_, node)| node).collect();
        let affinity = spec.path(&["affinity", "nodeAffinity"]);
        let required =
            affinity.get("requiredDuringSchedulingIgnoredDuringExecution").get("nodeSelectorTerms");
        let expressions = required.items().flat_map(|term| term.get("matchExpressions").items());
        nodes.extend(expressions.filter(|e| e.get("key").text().is_some_and(|text| normalise(text) == key)));
        nodes
    }

    fn label(&mut self, clash: &Clash) -> Obstacle {
        let key = &clash.key;
        let mut places: Vec<Place> = self
            .pod_keys(key)
            .iter()
            .map(|node| Place::new(self.workload, node, "what the pod asks for"))
            .collect();
        let pool_nodes = self.pool_keys(key);
        places.extend(pool_nodes.iter().map(|node| Place::new(self.object, node, "what the pool has")));
        let pod_node =
            self.pod_keys(key).into_iter().next().unwrap_or_else(|| self.template.spec.get("affinity"));
        let wanted = (clash.theirs.operator() == Operator::In).then(|| clash.theirs.values.join(", "));
        let mut changes = Vec::new();
        let reason = match &clash.ours {
            _ if key == NODEPOOL_LABEL => {
                changes
                    .push(self.change_pod(&pod_node, format!("ask for the NodePool `{}`", self.pool.name)));
                format!("the pod asks for another NodePool: `{key}` {}", clash.theirs)
            }
            None => {
                changes.push(self.change_pod(&pod_node, format!("do not ask for `{key}`")));
                let labels = self.object.path(&["spec", "template", "metadata", "labels"]);
                let text = match &wanted {
                    Some(values) => format!("add the label `{key}: {values}`"),
                    None => format!("add the label `{key}`"),
                };
                changes.push(self.change_pool(&labels, text));
                format!("the nodes of the pool have no label `{key}`; the pod asks for it: {}", clash.theirs)
            }
            Some(ours) => {
                let text = match ours.values.iter().next() {
                    Some(value) if !ours.complement => format!("ask for `{value}` in `{key}`"),
                    _ => format!("do not ask for `{key}`"),
                };
                changes.push(self.change_pod(&pod_node, text));
                if let (Some(values), Some(node)) = (&wanted, pool_nodes.first()) {
                    changes.push(self.change_pool(node, format!("allow {values} in `{key}`")));
                }
                format!("`{key}`: the pool has {ours}, the pod asks for {}", clash.theirs)
            }
        };
        self.drop_key(&clash.key);
        Obstacle { stage: "label", reason, places, changes }
    }

    /// Removes all requirements of the pod on a label.
    fn drop_key(&mut self, key: &str) {
        self.pod.node_selector.retain(|(name, _)| normalise(name) != key);
        let preferred = self.pod.preferences.iter_mut().map(|preference| &mut preference.term);
        for term in self.pod.terms.iter_mut().chain(preferred) {
            term.expressions.retain(|expression| normalise(&expression.key) != key);
        }
    }

    fn nodes_limit(&mut self) -> Obstacle {
        let node = self.object.path(&["spec", "limits", "nodes"]);
        self.pool.limits.retain(|(name, _)| name != "nodes");
        let changes = vec![self.change_pool(&node, "raise `limits.nodes`".to_owned())];
        let places = vec![Place::new(self.object, &node, "this limit")];
        let reason = "`limits.nodes` is 0: the pool starts no nodes".to_owned();
        Obstacle { stage: "nodes-limit", reason, places, changes }
    }

    fn limits(&mut self, names: &[String]) -> Vec<Obstacle> {
        let limits: Vec<(String, i128)> =
            self.pool.limits.iter().filter(|(name, _)| names.contains(name)).cloned().collect();
        self.pool.limits.retain(|(name, _)| !names.contains(name));
        // The resources that the smallest possible node for the pod needs.
        let types = self.types_for_pod();
        let class = self.pool.class.as_ref();
        let options = &self.situation.options;
        limits
            .into_iter()
            .map(|(name, limit)| {
                let node = self.object.path(&["spec", "limits"]).get(&name);
                let size = |t: &'static InstanceType| (capacity(t, class, options).get(&name), t.name);
                let least = types.iter().map(size).min();
                let written = amount(&name, limit);
                let (reason, text) = match least {
                    Some((least, instance)) if least > limit => (
                        format!(
                            "the limit {written} of `{name}` is below one node: {instance} has {}",
                            amount(&name, least)
                        ),
                        format!("raise the limit of `{name}` to {}", amount(&name, least)),
                    ),
                    _ => (
                        format!("the limit {written} of `{name}` excludes the types that the pod needs"),
                        format!("raise the limit of `{name}`"),
                    ),
                };
                let places = vec![Place::new(self.object, &node, "this limit")];
                let changes = vec![self.change_pool(&node, text)];
                Obstacle { stage: "limit", reason, places, changes }
            })
            .collect()
    }

    /// The types that the pool, with its changes so far, admits for the pod.
    fn types_for_pod(&self) -> TypeSet {
        let pools = std::slice::from_ref(&self.pool);
        let scheduler = Scheduler::new(pools, &self.situation.daemonsets, &self.situation.options);
        match scheduler.survey(&self.pod).into_iter().next() {
            Some((_, Outcome::Admits(admission))) => admission.types,
            _ => TypeSet::EMPTY,
        }
    }

    /// The requirements of the pod on nodes, with the last of its alternatives.
    fn wanted(&self) -> Requirements {
        let mut wanted = Requirements::new();
        for (key, value) in &self.pod.node_selector {
            wanted.add(key, Requirement::is(value));
        }
        for spec in self.pod.terms.last().iter().flat_map(|term| &term.expressions) {
            wanted.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
        }
        wanted
    }

    fn requirements(&mut self) -> Obstacle {
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
        let mut places = Vec::new();
        let mut changes = Vec::new();
        for key in &keys {
            for node in self.pod_keys(key) {
                places.push(Place::new(self.workload, &node, "what the pod asks for"));
            }
        }
        if let Some(place) = places.first().cloned() {
            let text = format!("do not ask for {}", quoted(&keys));
            changes.push(Change { side: Side::Pod, place, text });
        }
        changes.extend(self.wider_pool(&wanted));
        let reason = match asked.len() {
            0 => "no instance type of the pool meets what the pod asks for".to_owned(),
            _ => format!("no instance type of the pool has {}", asked.join(" and ")),
        };
        if keys.is_empty() {
            self.pod.node_selector.clear();
            self.pod.terms.clear();
        }
        for key in &keys {
            self.drop_key(key);
        }
        Obstacle { stage: "types", reason, places, changes }
    }

    /// The change that lets the pool admit the cheapest suitable type which it excludes now.
    fn wider_pool(&self, wanted: &Requirements) -> Option<Change> {
        let options = &self.situation.options;
        let class = self.pool.class.as_ref();
        let need = pod_requests(&self.pod);
        let mut fitting = TypeSet::full().without(retired());
        for (key, requirement) in wanted.iter() {
            if let Some(set) = matching(key, requirement, class, options) {
                fitting = fitting.and(&set);
            }
        }
        let roomy = |t: &&'static InstanceType| {
            let node = allocatable(t, class, options);
            !node.is_negative() && node.insufficient(&need).next().is_none()
        };
        let plain = |t: &&'static InstanceType| !t.is_metal();
        let candidates: Vec<&'static InstanceType> = fitting.iter().filter(roomy).collect();
        let region = options.region.as_deref();
        let cheapest = cheapest_first(candidates.iter().copied().filter(plain), region);
        let best =
            cheapest.first().copied().or_else(|| cheapest_first(candidates, region).first().copied())?;
        let own = pool_requirements(&self.pool);
        let excludes = own.iter().find(|(key, requirement)| {
            is_well_known(key)
                && matching(key, requirement, class, options).is_some_and(|set| !set.contains(best))
        });
        let Some((key, _)) = excludes else {
            return self.higher_limit(best);
        };
        let node = self.pool_keys(key).into_iter().next()?;
        let price = best.list_price(region);
        let price = price.map_or(String::new(), |price| format!(", ${:.2} an hour", price.dollars()));
        Some(self.change_pool(&node, format!("admit {} or a larger type in `{key}`{price}", best.name)))
    }

    fn higher_limit(&self, instance: &'static InstanceType) -> Option<Change> {
        let node = capacity(instance, self.pool.class.as_ref(), &self.situation.options);
        let (name, _) = self.pool.limits.iter().find(|(name, limit)| node.get(name) > *limit)?;
        let least = amount(name, node.get(name));
        let field = self.object.path(&["spec", "limits"]).get(name);
        Some(self.change_pool(
            &field,
            format!("raise the limit of `{name}` to {least}: {} has as much", instance.name),
        ))
    }

    fn host_port(&mut self) -> Obstacle {
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
        let changes = places
            .first()
            .map(|place| Change {
                side: Side::Pod,
                place: place.clone(),
                text: "use another host port, or none".to_owned(),
            })
            .into_iter()
            .collect();
        self.pod.containers.iter_mut().for_each(|container| container.host_ports.clear());
        Obstacle { stage: "host-port", reason, places, changes }
    }

    fn resources(&mut self, names: &[String]) -> Vec<Obstacle> {
        let need = pod_requests(&self.pod);
        let wanted = self.wanted();
        let wider = self.wider_pool(&wanted);
        let before = self.pod.clone();
        let clear = |pod: &mut Pod, name: Option<&String>| {
            let containers = pod.containers.iter_mut().chain(&mut pod.init_containers);
            let lists = containers.flat_map(|c| [&mut c.requests, &mut c.limits]);
            for list in lists.chain([&mut pod.requests, &mut pod.overhead]) {
                list.retain(|key, _| name.is_some_and(|name| key != name));
            }
        };
        // The types that would remain if the pod had no requirements.
        clear(&mut self.pod, None);
        let types = self.types_for_pod();
        self.pod = before;
        let pools = std::slice::from_ref(&self.pool);
        let scheduler = Scheduler::new(pools, &self.situation.daemonsets, &self.situation.options);
        let most = |name: &str| {
            types.iter().map(|t| (scheduler.room(t, name), t.name)).max_by_key(|(room, _)| *room)
        };
        let mut out = Vec::new();
        for name in names {
            let asked = need.get(name).copied().unwrap_or(0);
            let node = self.request_node(name);
            let places = vec![Place::new(self.workload, &node, "this request")];
            let mut changes = Vec::new();
            let reason = match most(name) {
                Some((room, _)) if room <= 0 => {
                    if name != "pods" {
                        changes.push(self.change_pod(&node, format!("do not ask for `{name}`")));
                    }
                    format!(
                        "no instance type of the pool has `{name}`; the pod asks for {}",
                        amount(name, asked)
                    )
                }
                Some((room, instance)) => {
                    let room = amount(name, room);
                    changes.push(self.change_pod(&node, format!("ask for at most {room} of `{name}`")));
                    format!(
                        "the pod needs {} of `{name}`; {instance}, which has most, has {room} left",
                        amount(name, asked)
                    )
                }
                None => format!("no instance type of the pool has {} of `{name}`", amount(name, asked)),
            };
            changes.extend(wider.clone());
            out.push(Obstacle { stage: "resources", reason, places, changes });
        }
        if names.is_empty() {
            let shortest = types
                .iter()
                .map(|t| {
                    let short = need.iter().filter(|(name, asked)| **asked > scheduler.room(t, name));
                    (short.map(|(name, _)| name.clone()).collect::<Vec<_>>(), t.name)
                })
                .min_by_key(|(short, _)| short.len());
            let node = self.template.spec.get("containers");
            let reason = match &shortest {
                Some((short, instance)) => format!(
                    "no instance type of the pool has enough of everything; {instance} has too little {}",
                    quoted(short)
                ),
                None => "no instance type of the pool has enough of everything".to_owned(),
            };
            let mut changes = Vec::new();
            if let Some((short, instance)) = &shortest {
                let of = |name: &String| {
                    let t = types.iter().find(|t| t.name == *instance);
                    let room = t.map_or(0, |t| scheduler.room(t, name));
                    format!("at most {} of `{name}`", amount(name, room))
                };
                let all: Vec<String> = short.iter().map(of).collect();
                changes.push(self.change_pod(&node, format!("ask for {}", all.join(" and "))));
            }
            changes.extend(wider);
            let places = vec![Place::new(self.workload, &node, "these requests")];
            out.push(Obstacle { stage: "resources", reason, places, changes });
            clear(&mut self.pod, None);
        }
        for name in names {
            clear(&mut self.pod, Some(name));
        }
        if names.iter().any(|name| name == "pods") {
            // A pod counts towards the maximum number of pods of a node, independent of its requests.
            self.pool.class = None;
        }
        out
    }

    /// The field in which the pod requests a resource.
    fn request_node(&self, name: &str) -> Node<'_> {
        let spec = &self.template.spec;
        let level = spec.path(&["resources", "requests"]).get(name);
        if level.is_set() {
            return level;
        }
        for list in ["containers", "initContainers"] {
            for container in spec.get(list).items() {
                for side in ["requests", "limits"] {
                    let node = container.path(&["resources", side]).get(name);
                    if node.is_set() {
                        return node;
                    }
                }
            }
        }
        spec.get("containers")
    }

    fn min_values(&mut self, key: &str, wanted: u32, found: usize) -> Obstacle {
        let node = self.pool_keys(key).into_iter().find(|node| node.get("minValues").is_set());
        let node = node.map_or_else(|| self.pool_spec().get("requirements"), |node| node.get("minValues"));
        let places = vec![Place::new(self.object, &node, "this minValues")];
        let changes = vec![self.change_pool(&node, format!("lower `minValues` of `{key}` to {found}"))];
        let reason =
            format!("`minValues: {wanted}` of `{key}`: the types that are left for the pod have {found}");
        for spec in self.pool.requirements.iter_mut().filter(|spec| normalise(&spec.key) == key) {
            spec.min_values = None;
        }
        Obstacle { stage: "min-values", reason, places, changes }
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
