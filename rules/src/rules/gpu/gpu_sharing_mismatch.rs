//! Pods ask for GPUs in a way that the sharing of their nodes rejects.
//!
//! # Why
//! Where NVIDIA's device plugin shares GPUs, `nvidia.com/gpu: 4` is four shares and not four GPUs. MPS gives a
//! pod one share and no more, and so does time slicing with `failRequestsGreaterThanOne`: the kubelet ends the
//! pod with `UnexpectedAdmissionError`, and its controller starts the next one. With `renameByDefault` the nodes
//! have `nvidia.com/gpu.shared` alone: a pod that asks for `nvidia.com/gpu` stays Pending, and Karpenter, which
//! counts on the resource of the instance type, starts nodes for it that never become initialized.
//!
//! # Fix
//! Ask for one share, or run pods that need whole GPUs on nodes of their own: a configuration of the device
//! plugin without sharing, selected by the node label `nvidia.com/device-plugin.config`. Ask for the name that
//! the configuration gives the resource.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: device-plugin, namespace: kube-system}
//!  data:
//!    all: |
//!      version: v1
//!      sharing:
//!        mps:
//!          resources:
//!            - {name: nvidia.com/gpu, replicas: 8}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: render}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!        containers:
//!          - name: main
//!            image: example.com/render:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//! -            limits: {nvidia.com/gpu: 2} # <-
//! +            limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus>
//! - <https://bottlerocket.dev/en/os/latest/#/api/settings/kubelet-device-plugins/>

use crate::rules::gpu::sharing::CONFIG_LABEL;
use crate::rules::gpu::{gpu_templates, label_of_nodes, sharing};
use crate::rules::prelude::*;

/// What writes configurations of the device plugin: ConfigMaps, and the charts of the plugin and of the GPU Operator.
pub(in crate::rules) const SHARING_SOURCES: [Kind; 3] =
    [Kind::CONFIG_MAP, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION];

pub(crate) static RULE: Rule = Rule {
    id: "gpu-sharing-mismatch",
    kinds: WORKLOAD_KINDS,
    reads: kinds![SHARING_SOURCES, [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NAMESPACE]],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_sharing_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// How nodes share a resource.
#[derive(Clone, PartialEq)]
struct Sharing {
    mode: &'static str,
    /// Whether a pod gets at most one share.
    one_share: bool,
    /// Whether nodes have `<resource>.shared` in its place.
    renamed: bool,
}

/// The ConfigMaps, and the charts that write some, that share GPUs.
struct SharingConfigs;

impl Predicate for SharingConfigs {
    const SLOT: QuerySlot = QuerySlot::SharingConfigs;
    const KINDS: &'static [Kind] = &SHARING_SOURCES;

    fn is_satisfied(map: &Object) -> bool {
        let mut shares = false;
        sharing::for_each(map, |_, _| shares = true);
        shares
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object, ctx) {
        if template.spec.get("nodeName").is_set() || template.spec.has_unknown_key() {
            continue;
        }
        for (resource, devices) in pod_devices(&template) {
            if resource.starts_with("nvidia.com/") {
                inspect(object, &template, (resource, devices.count), ctx);
            }
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    (resource, count): (&str, i64),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let plain = resource.strip_suffix(".shared").unwrap_or(resource);
    let (sharing, place, node) = of_nodes(template, plain, ctx)?;
    let is_renamed = plain != resource;
    let name = object.display_name();
    // The message is about the container that asks for more than one share, or for the first one.
    let mut containers = template.all_containers().filter_map(|c| devices_of(&c, resource));
    let mode = sharing.mode;
    if sharing.renamed && !is_renamed {
        let devices = containers.next()?;
        let shared = format!("{resource}.shared");
        let message = format!("`{name}` asks for `{resource}`, and its nodes have only `{shared}` ({mode})");
        let finding = ctx.report(&devices.node, message);
        // No fix: Karpenter starts no node for the other resource.
        finding.at_key().help(format!("share without renaming: Karpenter starts no node for `{shared}`"));
        finding.related(&place, &node, "nodes share their GPUs");
    } else if sharing.one_share && count > 1 && sharing.renamed == is_renamed {
        let devices = containers.find(|devices| devices.count > 1)?;
        let message = format!(
            "`{name}` asks for {} shares of a GPU, and the device plugin gives a container one ({mode})",
            devices.count
        );
        let request = parent(ctx, &parent(ctx, &devices.node)).path(&["requests", resource]);
        let mut fix = Fix::unsafe_("ask for one share").set(&devices.node, json!(1));
        if request.is_set() {
            fix = fix.set(&request, json!(1));
        }
        ctx.report(&devices.node, message)
            .help("ask for 1, or run it on nodes that do not share their GPUs")
            .fix(fix)
            .related(&place, &node, "nodes share their GPUs");
    }
    None
}

/// The sharing of the nodes that a template certainly uses, and what states it.
fn of_nodes<'a>(
    template: &Template<'_>,
    resource: &str,
    ctx: &Context<'a>,
) -> Option<(Sharing, Object, Node<'a>)> {
    of_plugin(template, resource, ctx).or_else(|| of_bottlerocket(template, resource, ctx))
}

/// Whether the amount of a resource is a number of shares, not of GPUs. `None` if it may be: some nodes of the input
/// share them.
pub(in crate::rules) fn counts_shares(
    template: &Template<'_>,
    resource: &str,
    ctx: &Context<'_>,
) -> Option<bool> {
    let resource = resource.strip_suffix(".shared").unwrap_or(resource);
    if of_nodes(template, resource, ctx).is_some() {
        return Some(true);
    }
    let maps = ctx.cluster().satisfying::<SharingConfigs>();
    if maps.is_empty() {
        return Some(false);
    }
    let selected = label_of_nodes(template, CONFIG_LABEL, ctx);
    let mut may_share = false;
    for ObjectKey(map) in maps.iter().filter(|ObjectKey(map)| ctx.pairs_with(map)) {
        let entries = sharing::entries(map);
        sharing::for_each(map, |entry, config| {
            let own = entries.iter().any(|(key, value)| {
                value.pointer() == entry.pointer() && selected.as_deref().is_none_or(|wanted| wanted == *key)
            });
            let shared = ["timeSlicing", "mps"].iter().any(|field| {
                let place = config.path(&["sharing", field]);
                let named = |one: Node<'_>| one.get("name").text() == Some(resource);
                place.has_unknown() || place.get("resources").items().any(named)
            });
            may_share |= own && shared;
        });
    }
    if may_share { None } else { Some(false) }
}

/// Whether something in the cluster of the object shares GPUs.
pub(in crate::rules) fn shares_gpus(ctx: &Context<'_>) -> bool {
    ctx.cluster().satisfying::<SharingConfigs>().iter().any(|ObjectKey(map)| ctx.pairs_with(map))
}

/// The mapping that holds a node of the object.
fn parent<'a>(ctx: &Context<'a>, node: &Node<'_>) -> Node<'a> {
    let pointer = node.pointer();
    let steps = pointer.steps();
    let above = steps[..steps.len().saturating_sub(1)].iter().cloned();
    ctx.object().root().at(&crate::tree::pointer::Pointer::from_steps(above))
}

/// The sharing that every configuration of the device plugin in the input states for a resource, if the nodes of a
/// template certainly use one of them.
fn of_plugin<'a>(
    template: &Template<'_>,
    resource: &str,
    ctx: &Context<'a>,
) -> Option<(Sharing, Object, Node<'a>)> {
    let maps = ctx.cluster().satisfying::<SharingConfigs>();
    let mut near = maps.iter().filter(|ObjectKey(map)| ctx.pairs_with(map));
    let (ObjectKey(map), None) = (near.next()?, near.next()) else { return None };
    let mut holders = SHARING_SOURCES.into_iter().flat_map(|kind| ctx.cluster().of(kind));
    let map = holders.find(|known| known.ptr_eq(map))?;
    let selected = label_of_nodes(template, CONFIG_LABEL, ctx);
    let wanted = selected.as_deref();
    let entries = sharing::entries(map);
    let mut found: Option<(Sharing, Node<'a>)> = None;
    let mut shared = 0;
    let mut agree = true;
    sharing::for_each(map, |entry, config| {
        let key = entries.iter().find(|(_, value)| value.pointer() == entry.pointer()).map(|(key, _)| *key);
        if wanted.is_some() && key != wanted {
            return;
        }
        shared += 1;
        let own = sharing_of(config, resource);
        match (&found, own) {
            (None, Some(own)) => {
                let node = entries.iter().find(|(name, _)| Some(*name) == key).map(|(_, node)| node.clone());
                found = node.map(|node| (own, node));
            }
            (Some((known, _)), Some(own)) if *known == own => {}
            _ => agree = false,
        }
    });
    // Nodes may use an entry that shares nothing.
    let all = if wanted.is_some() { 1 } else { entries.len() };
    let (sharing, node) = found.filter(|_| agree && shared == all)?;
    Some((sharing, map.clone(), node))
}

/// What a configuration of the device plugin says of a resource.
fn sharing_of(config: &Node<'_>, resource: &str) -> Option<Sharing> {
    for (field, mode) in [("timeSlicing", "time slicing"), ("mps", "MPS")] {
        let place = config.path(&["sharing", field]);
        let named = |one: Node<'_>| one.get("name").text() == Some(resource);
        if place.has_unknown() || !place.get("resources").items().any(named) {
            continue;
        }
        // For MPS it is true unless it is written.
        let fails = place.get("failRequestsGreaterThanOne");
        let one_share = if fails.is_set() { fails.bool()? } else { field == "mps" };
        let renamed = place.get("renameByDefault").bool() == Some(true);
        return Some(Sharing { mode, one_share, renamed });
    }
    None
}

/// The sharing in the user data of the Bottlerocket class of every pool that admits the pods.
fn of_bottlerocket<'a>(
    template: &Template<'_>,
    resource: &str,
    ctx: &Context<'a>,
) -> Option<(Sharing, Object, Node<'a>)> {
    if resource != "nvidia.com/gpu" {
        return None;
    }
    let pools = ctx.pools_for(template)?;
    let mut found: Option<(Sharing, Object, Node<'a>)> = None;
    for pool in pools.all_known()? {
        let name =
            NodePool::new(pool.object())?.template_spec().path(&["nodeClassRef", "name"]).text()?.to_owned();
        let class = ctx.partner(Kind::EC2_NODE_CLASS, "default", &name)?;
        let data = class.path(&["spec", "userData"]);
        let sharing = of_user_data(data.text()?)?;
        if found.as_ref().is_some_and(|(known, ..)| *known != sharing) {
            return None;
        }
        found.get_or_insert((sharing, class.clone(), data));
    }
    found
}

/// The settings of Bottlerocket that share GPUs, in TOML. Their defaults are those of its template for the device plugin.
fn of_user_data(text: &str) -> Option<Sharing> {
    const PREFIX: &str = "settings.kubelet-device-plugins.nvidia";
    let mut table = String::new();
    // Both are true unless they are written.
    let (mut strategy, mut renamed, mut one_share) = (None, [true; 2], true);
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = name.trim().replace('"', "");
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let path = format!("{table}.{key}").replace([' ', '"'], "");
        let Some(setting) = path.trim_start_matches('.').strip_prefix(PREFIX) else { continue };
        match (setting, value.trim().trim_matches('"')) {
            ("" | ".time-slicing" | ".mps", _) => return None,
            (".device-sharing-strategy", value) => strategy = Some(value.to_owned()),
            (".time-slicing.rename-by-default", value) => renamed[0] = value.parse().ok()?,
            (".mps.rename-by-default", value) => renamed[1] = value.parse().ok()?,
            (".time-slicing.fail-requests-greater-than-one", value) => one_share = value.parse().ok()?,
            _ => {}
        }
    }
    let (mode, one_share, renamed) = match strategy?.as_str() {
        "time-slicing" => ("time slicing", one_share, renamed[0]),
        "mps" => ("MPS", true, renamed[1]),
        _ => return None,
    };
    Some(Sharing { mode, one_share, renamed })
}
