//! A pod or a claim names an object that the cluster does not have.
//!
//! # Why
//! The API server rejects pods with a RuntimeClass, a PriorityClass or a ServiceAccount that does not exist:
//! the Deployment stays at zero, and only the events of its ReplicaSet say why. A claim with a StorageClass
//! that does not exist stays Pending, and so do its pods; a claim of devices with a DeviceClass that does not
//! exist is never allocated; a container whose variable comes from a key that its ConfigMap lacks does not
//! start. On EKS the images for NVIDIA make its runtime the default: there is
//! no RuntimeClass `nvidia` unless the GPU Operator or somebody makes one. Known only of a whole cluster, so
//! this is reported only with `--complete`, and not where charts or applications may bring the object.
//!
//! # Fix
//! Remove the reference, or add the object.
//!
//! # Example
//! ```yaml,diff
//!  # gpulint check --complete
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//! -      runtimeClassName: nvidia # <-
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 3, memory: 12Gi}
//!              limits: {memory: 12Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/containers/runtime-class/>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#class-1>

use crate::cluster::placement::has_controller;
use crate::rules::prelude::*;
use crate::workload::dra::class_blocks;

const CLAIM: Kind = Kind::new("", "PersistentVolumeClaim");
const CONFIG_MAP: Kind = Kind::new("", "ConfigMap");
const SERVICE_ACCOUNT: Kind = Kind::new("", "ServiceAccount");
const PRIORITY_CLASS: Kind = Kind::new("scheduling.k8s.io", "PriorityClass");
const STORAGE_CLASS: Kind = Kind::new("storage.k8s.io", "StorageClass");
const VOLUME: Kind = Kind::new("", "PersistentVolume");
const CLUSTER_POLICY: Kind = Kind::new("nvidia.com", "ClusterPolicy");

const KINDS: [Kind; WORKLOAD_KINDS.len() + 3] =
    with_workloads(&[CLAIM, Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE]);

pub(crate) static RULE: Rule = Rule {
    id: "reference-missing",
    kinds: &KINDS,
    reads: &[
        Kind::RUNTIME_CLASS,
        PRIORITY_CLASS,
        SERVICE_ACCOUNT,
        STORAGE_CLASS,
        VOLUME,
        CONFIG_MAP,
        Kind::DEVICE_CLASS,
        Kind::DAEMON_SET,
        CLUSTER_POLICY,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
    ],
    reports_absence: true,
    docs: docs(include_str!("reference_missing.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if !cluster.is_complete() || object.is_partial() || object.is_patched_by_kustomize() {
        return None;
    }
    if has_controller(object) {
        return None;
    }
    // Charts and applications that are not rendered may bring any object.
    if cluster.has_any(Kind::HELM_RELEASE) || cluster.has_any(Kind::ARGO_APPLICATION) {
        return None;
    }
    if object.is(CLAIM) {
        storage_class(object, &object.get("spec"), ctx);
        return None;
    }
    device_class(object, ctx);
    for claim in object.path(&["spec", "volumeClaimTemplates"]).items() {
        storage_class(object, &claim.get("spec"), ctx);
    }
    for template in templates(object) {
        classes(&template, ctx);
        service_account(object, &template, ctx);
        for container in template.all_containers() {
            for variable in container.get("env").items() {
                config_key(object, &variable.path(&["valueFrom", "configMapKeyRef"]), ctx);
            }
        }
    }
    None
}

/// The RuntimeClass and the PriorityClass of a pod.
fn classes(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let runtime = template.spec.get("runtimeClassName");
    // The GPU Operator makes the class, and others for its containers.
    let by_operator = runtime.text().is_some_and(|name| name.starts_with("nvidia"))
        && ctx.cluster().has_any(CLUSTER_POLICY);
    if let Some(name) =
        runtime.text().filter(|name| !by_operator && is_absent(Kind::RUNTIME_CLASS, "default", name, ctx))
    {
        let message = format!("there is no RuntimeClass `{name}`: the API server rejects the pods");
        ctx.report(&runtime, message).identified_by("RuntimeClass").help(match name {
            "nvidia" => {
                "remove it: the images of EKS for NVIDIA use its runtime by default; or add the class"
                    .to_owned()
            }
            name => format!("remove it, or add a RuntimeClass `{name}`"),
        });
    }
    let priority = template.spec.get("priorityClassName");
    let name = priority.text().filter(|name| !name.is_empty() && !name.starts_with("system-"))?;
    if is_absent(PRIORITY_CLASS, "default", name, ctx) {
        let message = format!("there is no PriorityClass `{name}`: the API server rejects the pods");
        let near = nearest(name, ctx.cluster().of(PRIORITY_CLASS).map(Object::name)).map(str::to_owned);
        ctx.report(&priority, message)
            .identified_by("PriorityClass")
            .help(near.map_or_else(|| format!("remove it, or add a PriorityClass `{name}`"), did_you_mean));
    }
    None
}

fn did_you_mean(name: String) -> String {
    format!("did you mean `{name}`?")
}

/// The ServiceAccount of a pod; each namespace has one named `default`.
fn service_account(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = template.spec.get("serviceAccountName");
    let name = field.text().filter(|name| !name.is_empty() && *name != "default")?;
    let namespace = object.namespace_or_default();
    // An operator makes the account of a custom resource of its own.
    let is_custom = !matches!(object.group(), "" | "apps" | "batch");
    if is_custom || object.is_namespace_unknown() || !is_absent(SERVICE_ACCOUNT, namespace, name, ctx) {
        return None;
    }
    // In another namespace it is a mistake of its own, which may be one of the tool that sets namespaces.
    if ctx.cluster().written_as(SERVICE_ACCOUNT, name).next().is_some() {
        return None;
    }
    let near = nearest(name, ctx.cluster().in_namespace(SERVICE_ACCOUNT, namespace).map(Object::name))
        .map(str::to_owned);
    ctx.report(&field, format!("there is no ServiceAccount `{name}`: the API server rejects the pods"))
        .identified_by("ServiceAccount")
        .help(
            near.map_or_else(
                || format!("add a ServiceAccount `{name}`, or remove the reference"),
                did_you_mean,
            ),
        );
    None
}

/// The StorageClass of a claim. A volume of the same class binds without the object, and EKS creates `gp2`.
fn storage_class(object: &Object, spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = spec.get("storageClassName");
    let name = field.text().filter(|name| !name.is_empty() && *name != "gp2")?;
    if spec.get("volumeName").is_set() || !is_absent(STORAGE_CLASS, "default", name, ctx) {
        return None;
    }
    let is_static = |volume: &Object| {
        let class = volume.path(&["spec", "storageClassName"]);
        class.is_unknown() || class.text() == Some(name)
    };
    if ctx.cluster().of(VOLUME).any(is_static) {
        return None;
    }
    let near = nearest(name, ctx.cluster().of(STORAGE_CLASS).map(Object::name)).map(str::to_owned);
    let whose = if object.is(CLAIM) { "the claim stays" } else { "the claims stay" };
    ctx.report(&field, format!("there is no StorageClass `{name}`: {whose} Pending"))
        .identified_by("StorageClass")
        .help(
            near.map_or_else(
                || format!("add a StorageClass `{name}`, or name one that exists"),
                did_you_mean,
            ),
        );
    None
}

/// The DeviceClass of a claim. Drivers of vendors make their own classes, and are mostly installed by charts.
fn device_class(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    const VENDORS: [&str; 6] =
        ["nvidia.com", "intel.com", "amd.com", "aws.com", "amazonaws.com", "google.com"];
    for block in class_blocks(object) {
        let field = block.get("deviceClassName");
        let Some(name) = field.text().filter(|name| !name.is_empty()) else {
            continue;
        };
        let is_vendors = VENDORS.iter().any(|vendor| name.ends_with(vendor));
        if is_vendors || !is_absent(Kind::DEVICE_CLASS, "default", name, ctx) {
            continue;
        }
        let is_driver = |object: &Object| {
            let templates = templates(object);
            let mut images = templates.iter().flat_map(Template::containers).map(|one| one.get("image"));
            object.name().contains("dra")
                || images.any(|image| image.raw_text().is_none_or(|text| text.contains("dra")))
        };
        if ctx.cluster().has_any(CLUSTER_POLICY) || ctx.cluster().of(Kind::DAEMON_SET).any(is_driver) {
            return None;
        }
        ctx.report(&field, format!("there is no DeviceClass `{name}`: the claim is never allocated"))
            .identified_by("DeviceClass")
            .help("install the DRA driver that makes the class, or add it");
    }
    None
}

/// A key of a ConfigMap of the input. Which ConfigMaps a tool generates is not known, so that an absent one is not reported.
fn config_key(object: &Object, reference: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (name, key) = (reference.get("name").text()?, reference.get("key"));
    if reference.get("optional").bool() == Some(true) {
        return None;
    }
    let map = ctx.cluster().unique(CONFIG_MAP, object.namespace_or_default(), name)?;
    let text = key.text()?;
    let (data, binary) = (map.get("data"), map.get("binaryData"));
    let hidden = [&data, &binary].iter().any(|part| part.is_unknown() || part.has_unknown_key());
    if hidden || map.is_partial() || map.is_patched_by_kustomize() || !ctx.cluster().likely_pairs(object, map)
    {
        return None;
    }
    if !data.get(text).is_absent() || !binary.get(text).is_absent() {
        return None;
    }
    let near = nearest(text, data.entries().into_iter().map(|(key, _)| key)).map(str::to_owned);
    ctx.report(&key, format!("ConfigMap `{name}` has no key `{text}`: the container does not start"))
        .help(near.map_or_else(
            || "add the key, name one that exists, or write `optional: true`".to_owned(),
            did_you_mean,
        ))
        .related(map, &map.path(&["metadata", "name"]), "the ConfigMap");
    None
}

/// Whether the cluster certainly has no object of a kind and name.
fn is_absent(kind: Kind, namespace: &str, name: &str, ctx: &Context<'_>) -> bool {
    ctx.cluster().is_complete_for(kind) && !ctx.cluster().has(kind, namespace, name)
}
