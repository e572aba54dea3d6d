//! The changes for a pod that is too large for the types of a pool: a larger type, other settings of the class, or fewer requests.

use crate::catalog::{ARCH, INSTANCE_TYPE, InstanceType, Label, cheapest_first, index, retired};
use crate::facts::quantity::amount;
use crate::fit::edits::{allow, clear, edit};
use crate::fit::obstacles::{Attempt, Remedy};
use crate::fit::{Change, Place, Side, read};
use crate::karpenter::node_class::joins_local_disks;
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::normalise;
use crate::karpenter::scheduling::{
    AmiFamily, NodeClass, Pool, RejectionStage, admitted, capacity, matching, pod_requests, pod_volume,
    pool_requirements, resize_pod_volume,
};
use crate::object::Object;
use crate::tree::node::Node;

/// In thousandths of a byte.
const GIB: i128 = (1 << 30) * 1000;
/// The largest volume that EBS has, in GiB.
const MAX_VOLUME: i128 = 16_384;
/// Maximum number of larger types that are tried.
const MAX_TYPES: usize = 6;
/// Maximum number of requirements of a pool that are changed for one type.
const MAX_KEYS: usize = 3;

impl Attempt<'_> {
    /// The change that lets the pool admit a suitable type which it excludes now: one of its own families before others, one that
    /// needs few changes, and the cheapest of those. It has an architecture that the types of the pool have, for which the images are
    /// built, or the one that the pod asks for.
    pub(super) fn wider_pool(&self, stage: &RejectionStage) -> Option<Remedy> {
        let own = pool_requirements(&self.pool);
        let options = &self.situation.options;
        let (class, region) = (self.pool.class.as_ref(), options.region.as_deref());
        let now = admitted(&self.pool, &own, options).types;
        let families: Vec<&str> = now.iter().map(InstanceType::family).collect();
        let is_built_for = |t: &InstanceType| {
            now.is_empty() || self.asks_for_architecture() || now.iter().any(|known| known.arch == t.arch)
        };
        let open = self.with(&edit(|_, pool| {
            pool.requirements.retain(|spec| !is_of_types(normalise(&spec.key)));
            pool.labels.retain(|(key, _)| !is_of_types(normalise(key)));
            pool.limits.clear();
        }));
        let excluding = |t: &'static InstanceType| -> Vec<&str> {
            let excludes = own.iter().filter(|(key, requirement)| {
                is_of_types(key)
                    && matching(key, requirement, class, options).is_some_and(|set| !set.contains(t))
            });
            excludes.map(|(key, _)| key).collect()
        };
        let types = cheapest_first(open.types_for_pod().without(retired()).iter(), region);
        let mut ranked: Vec<(bool, bool, Vec<&str>, &'static InstanceType)> = types
            .into_iter()
            .filter(|t| is_built_for(t))
            .map(|t| (!families.contains(&t.family()), t.is_metal(), excluding(t), t))
            .filter(|(_, _, keys, t)| {
                keys.len() <= MAX_KEYS && keys.iter().all(|key| matches!(t.label(key), Label::Is(_)))
            })
            .collect();
        ranked.sort_by_key(|(other, metal, keys, _)| (*other, *metal, keys.len()));
        ranked.into_iter().take(MAX_TYPES).find_map(|(_, _, keys, t)| {
            let remedy = self.admit_type(t, &keys)?;
            self.with(&remedy.edit).is_past(stage).then_some(remedy)
        })
    }

    fn asks_for_architecture(&self) -> bool {
        let in_terms = self.pod.terms.iter().flat_map(|term| &term.expressions).map(|one| &one.key);
        let mut keys = self.pod.node_selector.iter().map(|(key, _)| key).chain(in_terms);
        keys.any(|key| normalise(key) == ARCH)
    }

    /// The change of a pool that admits a type: of the requirements that exclude it, or of the limits.
    fn admit_type(&self, t: &'static InstanceType, keys: &[&str]) -> Option<Remedy> {
        let options = &self.situation.options;
        let node = capacity(t, self.pool.class.as_ref(), options);
        let limits: Vec<(String, i128)> = self
            .pool
            .limits
            .iter()
            .filter(|(name, limit)| node.get(name) > *limit)
            .map(|(name, _)| (name.clone(), node.get(name)))
            .collect();
        let mut values: Vec<(String, String)> = Vec::new();
        let mut texts: Vec<String> = Vec::new();
        for key in keys {
            let Label::Is(value) = t.label(key) else { return None };
            values.push(((*key).to_owned(), value.to_owned()));
            texts.push(format!("allow `{value}` in `{key}`"));
        }
        for (name, least) in &limits {
            texts.push(format!("raise the limit of `{name}` to {}", amount(name, *least)));
        }
        let place = match keys.first() {
            Some(key) => self.pool_keys(key).into_iter().next()?,
            None => self.object.path(&["spec", "limits"]).get(&limits.first()?.0),
        };
        let price = t.list_price(options.region.as_deref());
        let price = price.map_or(String::new(), |price| format!(", ${:.2} an hour", price.dollars()));
        let named = if keys == [INSTANCE_TYPE] { String::new() } else { format!(" for {}", t.name) };
        Some(self.in_pool(&place, format!("{}{named}{price}", texts.join(" and ")), move |_, pool| {
            values.iter().for_each(|(key, value)| allow(pool, key, std::slice::from_ref(value)));
            raise(pool, &limits);
        }))
    }

    /// The change of a pod that requests as much as is left.
    pub(super) fn fewer(&self, node: &Node<'_>, rooms: Vec<(String, i128)>) -> Option<Remedy> {
        // The overhead of the pod's runtime stays.
        let overhead = |name: &str| self.pod.overhead.get(name).copied().unwrap_or(0);
        let rooms: Vec<(String, i128)> = rooms
            .into_iter()
            .map(|(name, room)| {
                let left = room - overhead(&name);
                (name, left)
            })
            .collect();
        if rooms.is_empty() || rooms.iter().any(|(name, room)| *room <= 0 || name == "pods") {
            return None;
        }
        let each = |(name, room): &(String, i128)| format!("at most {} of `{name}`", amount(name, *room));
        let text = format!("ask for {}", rooms.iter().map(each).collect::<Vec<_>>().join(" and "));
        Some(self.of_pod(node, text, move |pod, _| {
            for (name, room) in &rooms {
                let overhead = pod.overhead.get(name).copied().unwrap_or(0);
                let at_level = pod.requests.contains_key(name);
                clear(pod, Some(name));
                let list = match pod.containers.first_mut() {
                    Some(first) if !at_level => &mut first.requests,
                    _ => &mut pod.requests,
                };
                list.insert(name.clone(), *room);
                if overhead > 0 {
                    pod.overhead.insert(name.clone(), overhead);
                }
            }
        }))
    }

    /// The changes of the node class, where its settings leave too little.
    pub(super) fn changed_class(&self, names: &[String]) -> Vec<Remedy> {
        let (Some(class), Some(object)) =
            (self.pool.class.as_ref(), read::class_object(self.object, self.situation.cluster))
        else {
            return Vec::new();
        };
        let spec = object.get("spec");
        let kubelet = spec.get("kubelet");
        let lacks = |name: &str| names.is_empty() || names.iter().any(|lacking| lacking == name);
        let mut remedies = Vec::new();
        let mut add = |node: &Node<'_>, text: String, change: fn(&mut NodeClass, i128), amount: i128| {
            remedies.push(in_class(&object, node, text, change, amount));
        };
        let need = pod_requests(&self.pod).get("ephemeral-storage").copied().unwrap_or(0);
        // The kubelet keeps 1 GiB and a tenth of the volume.
        let size = ((need + GIB) * 10) / (9 * GIB) + 1;
        // A NodeClass of EKS Auto Mode says how large the volume is, and nothing else that pods need.
        if class.provider == Provider::AutoMode {
            if lacks("ephemeral-storage") && need > 0 {
                let text = format!("set `ephemeralStorage.size` to {size}Gi");
                let change: fn(&mut NodeClass, i128) = |class, size| {
                    class.block_devices.iter_mut().for_each(|device| device.volume_size = Some(size));
                };
                add(&spec.path(&["ephemeralStorage", "size"]), text, change, size * GIB);
            }
            return remedies;
        }
        if lacks("pods") && class.kubelet.max_pods.is_some() {
            let least = self.pods_per_node();
            let text = format!("raise `maxPods` to {least} or more");
            add(
                &kubelet.get("maxPods"),
                text,
                |class, least| {
                    class.kubelet.max_pods = u32::try_from(least).ok();
                },
                least,
            );
        }
        if lacks("pods") && class.kubelet.pods_per_core.is_some() {
            let text = "remove `podsPerCore`".to_owned();
            add(&kubelet.get("podsPerCore"), text, |class, _| class.kubelet.pods_per_core = None, 0);
        }
        for field in ["kubeReserved", "systemReserved", "evictionHard"] {
            if kubelet.get(field).is_set()
                && ["cpu", "memory", "ephemeral-storage"].iter().any(|name| lacks(name))
            {
                let change: fn(&mut NodeClass, i128) = match field {
                    "kubeReserved" => |class, _| class.kubelet.kube_reserved.clear(),
                    "systemReserved" => |class, _| class.kubelet.system_reserved.clear(),
                    _ => |class, _| class.kubelet.eviction_hard.clear(),
                };
                add(&kubelet.get(field), format!("remove `{field}`"), change, 0);
            }
        }
        if lacks("ephemeral-storage") && !class.instance_store_raid0 {
            // Karpenter does not read the configuration of nodeadm.
            let has_other = spec.get("userData").text().is_some_and(joins_local_disks);
            let instead = if has_other { " in the place of nodeadm's `localStorage`" } else { "" };
            let text = format!("set `instanceStorePolicy: RAID0`{instead}");
            add(&spec.get("instanceStorePolicy"), text, |class, _| class.instance_store_raid0 = true, 0);
        }
        if lacks("ephemeral-storage") && need > 0 {
            let mappings: Vec<Node<'_>> = spec.get("blockDeviceMappings").items().collect();
            let (at, device) = pod_volume(class);
            let size = (size + 9) / 10 * 10;
            // The volume of pods is another one in the images of Bottlerocket.
            let root = mappings.iter().map(|mapping| mapping.get("rootVolume")).find(Node::is_set);
            if let Some(root) = root.filter(|_| class.ami_family == AmiFamily::Bottlerocket) {
                let change: fn(&mut NodeClass, i128) = |class, _| {
                    class.block_devices.iter_mut().for_each(|device| device.root_volume = false);
                };
                add(&root, "remove `rootVolume`".to_owned(), change, 0);
            } else if size <= MAX_VOLUME {
                let node = match at.and_then(|at| mappings.get(at)) {
                    Some(mapping) => mapping.path(&["ebs", "volumeSize"]),
                    None => spec.get("blockDeviceMappings"),
                };
                let text = format!("give `{device}` a `volumeSize` of {size}Gi");
                add(&node, text, resize_pod_volume, size * GIB);
            }
        }
        remedies
    }

    /// The number of pods on a node of the pool with the fewest DaemonSets, the pod included.
    fn pods_per_node(&self) -> i128 {
        // EKS puts these on each node, and they are seldom in the input.
        let of_eks = ["aws-node", "kube-proxy"].into_iter();
        let is_listed = |name: &&str| self.situation.daemonsets.iter().any(|set| set.name == **name);
        let missing = of_eks.filter(|name| self.situation.options.eks && !is_listed(name)).count();
        let missing = i128::try_from(missing).unwrap_or(0);
        self.pods_of_daemonsets().map_or(0, |(_, taken)| taken) + missing + 1
    }

    /// How many pods a node of the pool with the fewest DaemonSets takes, and how many of them are those of DaemonSets.
    pub(super) fn pods_of_daemonsets(&self) -> Option<(i128, i128)> {
        let scheduler = self.situation.scheduler_for(std::slice::from_ref(&self.pool));
        let types = admitted(&self.pool, &pool_requirements(&self.pool), &self.situation.options).types;
        let class = self.pool.class.as_ref();
        let of_type = |t: &'static InstanceType| {
            let all = capacity(t, class, &self.situation.options).get("pods");
            (all / 1000, (all - scheduler.room(t, "pods")) / 1000)
        };
        types.iter().map(of_type).min_by_key(|(_, taken)| *taken)
    }
}

fn in_class(
    object: &Object,
    node: &Node<'_>,
    text: String,
    change: fn(&mut NodeClass, i128),
    amount: i128,
) -> Remedy {
    let place = Place::new(object, node, "here");
    let apply = move |pool: &mut Pool| pool.class.iter_mut().for_each(|class| change(class, amount));
    let change = Change { side: Side::Other, place, text, edit: None };
    Remedy { change, edit: edit(move |_, pool| apply(pool)) }
}

fn raise(pool: &mut Pool, limits: &[(String, i128)]) {
    for (name, limit) in &mut pool.limits {
        if let Some((_, least)) = limits.iter().find(|(key, _)| key == name) {
            *limit = *least;
        }
    }
}

/// Whether a key is a label of instance types that a pool may open: all but the architecture, for which images are built.
fn is_of_types(key: &str) -> bool {
    key != ARCH && index(key).is_some()
}
