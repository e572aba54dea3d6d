//! A pod or a claim names an object that the cluster does not have.
//!
//! # Why
//! The API server rejects pods with a RuntimeClass, a PriorityClass or a ServiceAccount that does not
//! exist: the Deployment stays at zero, and only the events of its ReplicaSet say why. A claim with a
//! StorageClass that does not exist, or without one where none is the default, stays Pending, and so do its
//! pods, as do pods with a claim that does not exist; no controller serves an Ingress of a class that does
//! not exist; a claim of devices with a DeviceClass that does not exist is never allocated; a container
//! with a variable from a key that its ConfigMap or Secret lacks does not start, nor does a pod that mounts
//! the key. On EKS the images for NVIDIA make its runtime the default: there is no RuntimeClass `nvidia`
//! unless the GPU Operator or somebody makes one. Absent objects are known only of a whole cluster, so they
//! are reported only with `--complete`, and not where charts, generators, operators, eksctl, policies or
//! other repositories may bring them. Many Secrets come from elsewhere, so that an absent one is reported
//! only beside one that is written almost the same, and an absent claim only where the namespace has
//! others. A Secret or ConfigMap in a file that is to be copied by its name, such as
//! `secrets.example.yaml`, or whose values are all placeholders, shows that there is one, and not which
//! keys it has. Without `--complete` an absent ConfigMap is a warning where the only one beside the pods
//! has the key that they read, and an absent claim where the only one of the file is used by nothing.
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
//! - <https://kubernetes.io/docs/concepts/configuration/secret/#using-a-secret>

use crate::cluster::storage::{DEFAULT_CLASS, is_built_in_elsewhere};
use crate::cluster::together::{Company, are_misplaced, company, routes};
use crate::cluster::versions::Fact;
use crate::facts::base64::decoded;
use crate::rules::manifest_purpose::{is_example, is_template, is_to_be_copied};
use crate::rules::prelude::*;
use crate::workload::charts::spec_of;
use crate::workload::dra::class_blocks;

pub(crate) static RULE: Rule = Rule {
    id: "reference-missing",
    kinds: kinds![
        [Kind::PERSISTENT_VOLUME_CLAIM, Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE, Kind::INGRESS],
        WORKLOAD_KINDS
    ],
    reads: kinds![
        [
            Kind::RUNTIME_CLASS,
            Kind::PRIORITY_CLASS,
            Kind::SERVICE_ACCOUNT,
            Kind::STORAGE_CLASS,
            Kind::NODE_POOL,
            Kind::INGRESS_CLASS,
            Kind::PERSISTENT_VOLUME,
            Kind::PERSISTENT_VOLUME_CLAIM,
            Kind::STATEFUL_SET,
            Kind::CONFIG_MAP,
            Kind::SECRET,
            Kind::DATA_VOLUME,
            Kind::FLUID_DATASET,
            Kind::REPLICATION_DESTINATION,
            Kind::NIM_CACHE,
            Kind::DEVICE_CLASS,
            Kind::DAEMON_SET,
            Kind::CLUSTER_POLICY,
            Kind::EXTERNAL_SECRET,
            Kind::SEALED_SECRET,
            Kind::HELM_RELEASE,
            Kind::ARGO_APPLICATION,
            Kind::ARGO_APPLICATION_SET,
        ],
        WORKLOAD_KINDS
    ],
    reports_absence: true,
    docs: docs(include_str!("reference_missing.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// Words in the names of ConfigMaps with root certificates.
const CERTIFICATES: [&str; 9] = ["ca", "cas", "cert", "certs", "crt", "root", "roots", "trust", "bundle"];

/// Published charts that bring no classes. Read in the templates of kube-prometheus-stack 88.5.3,
/// aws-load-balancer-controller 3.5.0 and keda 2.20.2 (August 2026); of the others by what they install.
const CHARTS_WITHOUT_CLASSES: [&str; 9] = [
    "aws-load-balancer-controller",
    "cert-manager",
    "cluster-autoscaler",
    "external-dns",
    "ingress-nginx",
    "karpenter",
    "keda",
    "kube-prometheus-stack",
    "metrics-server",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.controller().is_some() {
        return None;
    }
    let templates = templates(object);
    for template in &templates {
        keys(object, template, ctx);
        sibling_claim(object, template, ctx);
    }
    // Charts, applications and other repositories that are not rendered may bring any object.
    let cluster = ctx.cluster();
    let mut charts = chart_installers(cluster).chain(cluster.of(Kind::ARGO_APPLICATION_SET));
    if !cluster.is_complete() || cluster.is_shown(&Fact::Elsewhere) || !charts.all(has_no_classes) {
        return None;
    }
    if object.is(Kind::PERSISTENT_VOLUME_CLAIM) {
        storage_class(object, &object.get("spec"), ctx);
        return None;
    }
    let has_charts = may_bring_objects(cluster);
    if !has_charts {
        device_class(object, ctx);
        ingress_class(object, ctx);
    }
    for claim in object.path(&["spec", "volumeClaimTemplates"]).items() {
        storage_class(object, &claim.get("spec"), ctx);
    }
    for template in &templates {
        classes(template, ctx);
        if !has_charts {
            service_account(object, template, ctx);
            sources(object, template, ctx);
            claims_of(object, template, ctx);
        }
    }
    None
}

/// Whether an object installs only charts that bring no classes, and is given no other manifests.
fn has_no_classes(object: &Object) -> bool {
    let spec = spec_of(object);
    let chart = match object.is(Kind::HELM_RELEASE) {
        true => spec.path(&["chart", "spec", "chart"]),
        false => spec.path(&["source", "chart"]),
    };
    let values = [&["values"][..], &["source", "helm", "valuesObject"]].map(|path| spec.path(path));
    let is_plain = values.iter().all(|values| !values.has_unknown() && !adds_manifests(values, 2));
    let elsewhere = [&["valuesFrom"][..], &["sources"], &["postRenderers"], &["source", "helm", "values"]];
    is_plain
        && chart.text().is_some_and(|chart| CHARTS_WITHOUT_CLASSES.contains(&chart))
        && !elsewhere.iter().any(|path| spec.path(path).is_set())
        && !spec.path(&["source", "helm", "valueFiles"]).is_set()
}

/// Whether values of a chart, or of the charts in it, have a field such as `extraObjects` or `extraManifests`.
fn adds_manifests(values: &Node<'_>, depth: usize) -> bool {
    values.entries().iter().any(|(key, value)| {
        key.to_ascii_lowercase().contains("extra") || (depth > 0 && adds_manifests(value, depth - 1))
    })
}

/// The RuntimeClass and the PriorityClass of a pod.
fn classes(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let runtime = template.spec.get("runtimeClassName");
    // The GPU Operator makes the class, and others for its containers.
    let by_operator = runtime.text().is_some_and(|name| name.starts_with("nvidia"))
        && ctx.cluster().has_any(Kind::CLUSTER_POLICY);
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
    if is_absent(Kind::PRIORITY_CLASS, "default", name, ctx) {
        let message = format!("there is no PriorityClass `{name}`: the API server rejects the pods");
        let near = nearest(name, ctx.cluster().of(Kind::PRIORITY_CLASS).map(Object::name)).map(str::to_owned);
        ctx.report(&priority, message)
            .identified_by("PriorityClass")
            .help(near.map_or_else(|| format!("remove it, or add a PriorityClass `{name}`"), did_you_mean));
    }
    None
}

fn did_you_mean(name: String) -> String {
    format!("did you mean `{name}`?")
}

/// Whether a workload is a custom resource, whose operator may make what its pods name.
fn is_custom(object: &Object) -> bool {
    !matches!(object.group(), "" | "apps" | "batch")
}

/// The ServiceAccount of a pod; each namespace has one named `default`.
fn service_account(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = template.spec.get("serviceAccountName");
    let name = field.text().filter(|name| !name.is_empty() && *name != "default")?;
    let namespace = object.namespace_or_default();
    // An operator makes the account of a custom resource of its own, and an add-on of EKS its own in `kube-system`.
    if is_custom(object)
        || object.is_namespace_unknown()
        || namespace == "kube-system"
        || !is_absent(Kind::SERVICE_ACCOUNT, namespace, name, ctx)
    {
        return None;
    }
    if let Some(other) = ctx.cluster().written_as(Kind::SERVICE_ACCOUNT, name).next() {
        // A tool that sets namespaces later may bring both together.
        let mut others = ctx.cluster().written_as(Kind::SERVICE_ACCOUNT, name);
        if others.all(|other| are_misplaced(object, other)) {
            let place = other.namespace_or_default();
            let message = format!(
                "ServiceAccount `{name}` is in namespace `{place}`, not in `{namespace}`: the API server rejects the pods"
            );
            ctx.report(&field, message)
                .identified_by("ServiceAccount")
                .help(format!("add the account to `{namespace}`: pods use those of their own namespace"))
                .related(other, &other.path(&["metadata", "namespace"]), "the account");
        }
        return None;
    }
    let near = nearest(name, ctx.cluster().in_namespace(Kind::SERVICE_ACCOUNT, namespace).map(Object::name))
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

/// The class of an Ingress. The controllers of other clouds take the names of theirs without an object.
fn ingress_class(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = object.path(&["spec", "ingressClassName"]);
    let is_here = object.is(Kind::INGRESS) && ctx.platform().eks;
    let name = field.text().filter(|name| is_here && !name.is_empty())?;
    let is_of_cloud =
        ["gce", "azure", "webapprouting", "openshift"].iter().any(|word| name.starts_with(word));
    // k3s has Traefik, MicroK8s nginx by the name `public`, AKS its add-on.
    let is_built_in =
        ["traefik", "public", "addon-http-application-routing"].contains(&name) && !ctx.cluster().shows_eks();
    if is_of_cloud || is_built_in || !is_absent(Kind::INGRESS_CLASS, "default", name, ctx) {
        return None;
    }
    let near = nearest(name, ctx.cluster().of(Kind::INGRESS_CLASS).map(Object::name)).map(str::to_owned);
    ctx.report(&field, format!("there is no IngressClass `{name}`: no controller makes a load balancer"))
        .identified_by("IngressClass")
        .severity(Severity::Warning)
        .help(near.map_or_else(
            || format!("add an IngressClass `{name}` that names its controller, or name one that exists"),
            did_you_mean,
        ));
    None
}

/// The StorageClass of a claim. A volume of the same class binds without the object, and EKS creates `gp2`.
fn storage_class(object: &Object, spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = spec.get("storageClassName");
    if !field.is_set() {
        return default_class(object, spec, ctx);
    }
    let name = field.text().filter(|name| !name.is_empty() && *name != "gp2")?;
    if spec.get("volumeName").is_set() || !is_absent(Kind::STORAGE_CLASS, "default", name, ctx) {
        return None;
    }
    // A cluster of which nothing says that it is one of EKS may be any other.
    if is_built_in_elsewhere(name) && !ctx.cluster().shows_eks() {
        return None;
    }
    let is_static = |volume: &Object| {
        let class = volume.path(&["spec", "storageClassName"]);
        class.is_unknown() || class.text() == Some(name)
    };
    if ctx.cluster().of(Kind::PERSISTENT_VOLUME).any(is_static) {
        return None;
    }
    let near = nearest(name, ctx.cluster().of(Kind::STORAGE_CLASS).map(Object::name)).map(str::to_owned);
    let whose = if object.is(Kind::PERSISTENT_VOLUME_CLAIM) { "the claim stays" } else { "the claims stay" };
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

/// The default StorageClass, where the input has classes. Clusters made before Kubernetes 1.30 have `gp2` as the default, so
/// that this is no error.
fn default_class(object: &Object, spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const ANNOTATIONS: [&str; 2] = [DEFAULT_CLASS, "storageclass.beta.kubernetes.io/is-default-class"];
    let cluster = ctx.cluster();
    let may_be_default = |class: &Object| {
        let annotations = class.path(&["metadata", "annotations"]);
        let says = |key: &&str| {
            let value = annotations.get(key);
            value.is_set() && value.raw_text() != Some("false")
        };
        class.may_lack_fields()
            || annotations.is_unknown()
            || annotations.has_unknown_key()
            || ANNOTATIONS.iter().any(says)
    };
    let has_no_class = |volume: &Object| !volume.path(&["spec", "storageClassName"]).is_set();
    let class = cluster.of(Kind::STORAGE_CLASS).next()?.clone();
    let is_bound = ["volumeName", "dataSource", "dataSourceRef", "selector"]
        .iter()
        .any(|field| spec.get(field).is_set());
    if is_bound
        || !cluster.is_complete_for(Kind::STORAGE_CLASS)
        || cluster.of(Kind::STORAGE_CLASS).any(may_be_default)
        || cluster.of(Kind::PERSISTENT_VOLUME).any(has_no_class)
    {
        return None;
    }
    let whose = if object.is(Kind::PERSISTENT_VOLUME_CLAIM) { "the claim stays" } else { "the claims stay" };
    ctx.report(&spec.get("storageClassName"), format!("no StorageClass is the default: {whose} Pending"))
        .severity(Severity::Warning)
        .identified_by("StorageClass")
        .help(format!("write `storageClassName`, such as `{}`, or make a class the default", class.name()))
        .related(&class, &class.path(&["metadata", "name"]), "it is not the default");
    None
}

/// The DeviceClass of a claim. Drivers of vendors make their own classes, and are mostly installed by charts.
fn device_class(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    const VENDORS: [&str; 6] =
        ["nvidia.com", "intel.com", "amd.com", "aws.com", "amazonaws.com", "google.com"];
    for block in class_blocks(object) {
        let field = block.get("deviceClassName");
        let Some(name) = field.text().filter(|name| !name.is_empty()) else { continue };
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
        if ctx.cluster().has_any(Kind::CLUSTER_POLICY) || ctx.cluster().of(Kind::DAEMON_SET).any(is_driver) {
            return None;
        }
        ctx.report(&field, format!("there is no DeviceClass `{name}`: the claim is never allocated"))
            .identified_by("DeviceClass")
            .help("install the DRA driver that makes the class, or add it");
    }
    None
}

/// The ConfigMaps and Secrets that a pod cannot start without.
fn sources(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    // An operator makes those of its own resources, a kustomization may generate them, and EKS has its own.
    if is_custom(object)
        || object.is_namespace_unknown()
        || namespace == "kube-system"
        || !routes(object).is_empty()
        || template.spec.has_unknown_key()
    {
        return None;
    }
    let mut reported: Vec<(Kind, &str)> = Vec::new();
    for (kind, node) in &required_sources(template) {
        let Some(name) = node.text().filter(|name| !reported.contains(&(*kind, *name))) else { continue };
        reported.push((*kind, name));
        source_object(*kind, namespace, name, node, ctx);
    }
    None
}

/// The claims that a pod mounts, in a namespace for which the input writes claims: those with data are often made apart from all
/// manifests. Operators make those of their own resources, some of them called like the resource.
fn claims_of(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    if is_custom(object)
        || object.is_namespace_unknown()
        || !routes(object).is_empty()
        || template.spec.has_unknown_key()
    {
        return None;
    }
    ctx.cluster().in_namespace(Kind::PERSISTENT_VOLUME_CLAIM, namespace).next()?;
    for volume in template.spec.get("volumes").items() {
        let field = volume.path(&["persistentVolumeClaim", "claimName"]);
        let Some(name) = field.text().filter(|name| !name.is_empty() && !is_placeholder(name)) else {
            continue;
        };
        let cluster = ctx.cluster();
        if is_absent(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name, ctx)
            && cluster.written_as(Kind::PERSISTENT_VOLUME_CLAIM, name).next().is_none()
            && !is_of_stateful_set(name, namespace, cluster)
            && !is_made_by_operator(name, cluster)
        {
            let claims = cluster.in_namespace(Kind::PERSISTENT_VOLUME_CLAIM, namespace).map(Object::name);
            let near = nearest(name, claims).map(str::to_owned);
            let add = || format!("add a PersistentVolumeClaim `{name}`, or name one that exists");
            let message = format!("there is no PersistentVolumeClaim `{name}`: the pods stay Pending");
            ctx.report(&field, message)
                .severity(Severity::Warning)
                .identified_by("PersistentVolumeClaim")
                .help(near.map_or_else(add, did_you_mean));
        }
    }
    None
}

/// Kinds whose controllers make a claim with the name of the object (CDI, Fluid, VolSync), or with `-pvc` behind it (the NIM Operator).
const CLAIM_MAKERS: [Kind; 4] =
    [Kind::DATA_VOLUME, Kind::FLUID_DATASET, Kind::REPLICATION_DESTINATION, Kind::NIM_CACHE];

fn is_made_by_operator(name: &str, cluster: &Cluster) -> bool {
    let own = name.strip_suffix("-pvc").unwrap_or(name);
    let is_maker =
        |kind: &Kind| [name, own].iter().any(|name| cluster.written_as(*kind, name).next().is_some());
    CLAIM_MAKERS.iter().any(is_maker)
}

/// Whether a claim has the name of one that a StatefulSet makes for its pods: `data-db-0`.
fn is_of_stateful_set(name: &str, namespace: &str, cluster: &Cluster) -> bool {
    let Some((rest, number)) = name.rsplit_once('-') else { return false };
    let is_own = |set: &Object| {
        let templates = set.path(&["spec", "volumeClaimTemplates"]);
        let mut names = templates.items().filter_map(|claim| claim.path(&["metadata", "name"]).text());
        rest.strip_suffix(set.name())
            .and_then(|rest| rest.strip_suffix('-'))
            .is_some_and(|own| templates.has_unknown() || names.any(|name| name == own))
    };
    number.bytes().all(|byte| byte.is_ascii_digit())
        && cluster.in_namespace(Kind::STATEFUL_SET, namespace).any(is_own)
}

/// The names of the ConfigMaps and Secrets of a pod that are not optional.
fn required_sources<'a>(template: &Template<'a>) -> Vec<(Kind, Node<'a>)> {
    let required = |kind: Kind, holder: &Node<'a>, field: &str, name: &str| {
        let reference = holder.get(field);
        let optional = reference.get("optional");
        let is_optional = optional.is_set() && optional.bool() != Some(false);
        (reference.is_mapping() && !is_optional).then(|| (kind, reference.get(name)))
    };
    let mut out = Vec::new();
    for container in template.all_containers() {
        for from in container.get("envFrom").items() {
            out.extend(required(Kind::CONFIG_MAP, &from, "configMapRef", "name"));
            out.extend(required(Kind::SECRET, &from, "secretRef", "name"));
        }
        for source in container.get("env").items().map(|variable| variable.get("valueFrom")) {
            out.extend(required(Kind::CONFIG_MAP, &source, "configMapKeyRef", "name"));
            out.extend(required(Kind::SECRET, &source, "secretKeyRef", "name"));
        }
    }
    for volume in template.spec.get("volumes").items() {
        out.extend(required(Kind::CONFIG_MAP, &volume, "configMap", "name"));
        out.extend(required(Kind::SECRET, &volume, "secret", "secretName"));
        for source in volume.path(&["projected", "sources"]).items() {
            out.extend(required(Kind::CONFIG_MAP, &source, "configMap", "name"));
            out.extend(required(Kind::SECRET, &source, "secret", "name"));
        }
    }
    let pulls = template.spec.get("imagePullSecrets");
    out.extend(pulls.items().map(|pull| (Kind::SECRET, pull.get("name"))));
    out
}

/// A ConfigMap that the cluster lacks, or a Secret beside one whose name differs in separators or the plural alone.
fn source_object(
    kind: Kind,
    namespace: &str,
    name: &str,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let cluster = ctx.cluster();
    // Controllers put root certificates into each namespace: the API server, meshes, trust-manager.
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric());
    let has_certificates = kind == Kind::CONFIG_MAP && words().any(|word| CERTIFICATES.contains(&word));
    if has_certificates
        || !is_absent(kind, namespace, name, ctx)
        || cluster.written_as(kind, name).next().is_some()
    {
        return None;
    }
    let plain = |name: &str| {
        let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        letters.trim_end_matches('s').to_owned()
    };
    let makers = [kind, Kind::EXTERNAL_SECRET, Kind::SEALED_SECRET]
        .into_iter()
        .take(if kind == Kind::SECRET { 3 } else { 1 });
    let made = makers.flat_map(|maker| cluster.in_namespace(maker, namespace)).flat_map(|object| {
        [Some(object.name()), object.path(&["spec", "target", "name"]).text()].into_iter().flatten()
    });
    let made: Vec<&str> = made.collect();
    let near = made.iter().find(|other| plain(other) == plain(name)).map(|name| (*name).to_owned());
    if made.contains(&name) || (kind == Kind::SECRET && near.is_none()) {
        return None;
    }
    let pulls = node.pointer().steps().iter().any(|step| step == "imagePullSecrets");
    let effect = if pulls { "images are pulled without it" } else { "the pods do not start" };
    ctx.report(node, format!("there is no {} `{name}`: {effect}", kind.kind))
        .severity(Severity::Warning)
        .identified_by(kind.kind)
        .help(near.map_or_else(
            || "add it, name one that exists, or write `optional: true`".to_owned(),
            did_you_mean,
        ));
    None
}

/// The keys of ConfigMaps and Secrets that the containers and volumes of a pod name.
fn keys(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) {
    for variable in template.all_containers().flat_map(|container| container.get("env").items()) {
        let source = variable.get("valueFrom");
        for (kind, reference) in
            [(Kind::CONFIG_MAP, source.get("configMapKeyRef")), (Kind::SECRET, source.get("secretKeyRef"))]
        {
            if reference.get("optional").bool() != Some(true) {
                key_of(object, kind, &reference.get("name"), &reference.get("key"), ctx);
                if kind == Kind::CONFIG_MAP {
                    sibling(object, &reference.get("name"), &reference.get("key"), ctx);
                }
            }
        }
    }
    for volume in template.spec.get("volumes").items() {
        let sources = volume.path(&["projected", "sources"]);
        for source in std::iter::once(volume).chain(sources.items()) {
            for (kind, field) in [(Kind::CONFIG_MAP, "configMap"), (Kind::SECRET, "secret")] {
                let files = source.get(field);
                if files.get("optional").bool() == Some(true) {
                    continue;
                }
                let by_volume = files.get("secretName");
                let name = if by_volume.is_set() { by_volume } else { files.get("name") };
                for item in files.get("items").items() {
                    key_of(object, kind, &name, &item.get("key"), ctx);
                }
            }
        }
    }
}

/// A key of a ConfigMap or a Secret of the input.
fn key_of(object: &Object, kind: Kind, name: &Node<'_>, key: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (name, text) = (name.text()?, key.text()?);
    let source = ctx.cluster().unique(kind, object.namespace_or_default(), name)?;
    let parts = ["data", "stringData", "binaryData"].map(|field| source.get(field));
    let hidden = parts.iter().any(|part| part.is_unknown() || part.has_unknown_key());
    if hidden
        || source.root().has_unknown_key()
        || source.may_lack_fields()
        || is_example(source)
        || is_template(source)
        || is_to_be_copied(source)
        || is_generated(ctx.cluster(), name)
        || !ctx.cluster().likely_pairs(object, source)
    {
        return None;
    }
    let entries: Vec<(&str, Node<'_>)> = parts.iter().flat_map(Node::entries).collect();
    let keys: Vec<&str> = entries.iter().map(|(key, _)| *key).collect();
    // What is empty, or has only values to fill in, is made by another program or from another file.
    if keys.contains(&text) || entries.iter().all(|(_, value)| is_to_be_filled_in(value)) {
        return None;
    }
    let near = nearest(text, keys.iter().copied()).map(str::to_owned);
    let message = format!("{} `{name}` has no key `{text}`: the container does not start", kind.kind);
    ctx.report(key, message)
        .identified_by(name)
        .help(near.map_or_else(
            || "add the key, name one that exists, or write `optional: true`".to_owned(),
            did_you_mean,
        ))
        .related(source, &source.path(&["metadata", "name"]), format!("the {}", kind.kind));
    None
}

/// Reports a ConfigMap that the input lacks, where the only one beside the pods has the key that they read.
fn sibling(object: &Object, name: &Node<'_>, key: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // Keys that many ConfigMaps have.
    const COMMON: [&str; 8] =
        ["ca.crt", "ENV", "ENVIRONMENT", "LOG_LEVEL", "NAMESPACE", "REGION", "AWS_REGION", "TZ"];
    let (cluster, namespace) = (ctx.cluster(), object.namespace_or_default());
    let (missing, text) = (name.text()?, key.text().filter(|key| !COMMON.contains(key))?);
    if is_custom(object)
        || object.is_namespace_unknown()
        || object.may_lack_fields()
        // Of a whole cluster it is known that there is none.
        || cluster.is_complete_for(Kind::CONFIG_MAP)
        || cluster.written_as(Kind::CONFIG_MAP, missing).next().is_some()
        || may_be_made(cluster, Kind::CONFIG_MAP, namespace, missing)
        || cluster.is_shown(&Fact::Elsewhere)
    {
        return None;
    }
    let mut beside =
        cluster.in_namespace(Kind::CONFIG_MAP, namespace).filter(|one| cluster.likely_pairs(object, one));
    let (only, None) = (beside.next()?, beside.next()) else { return None };
    let is_kept_apart = is_example(only) || is_template(only) || is_to_be_copied(only);
    if is_kept_apart || only.may_lack_fields() || !only.get("data").get(text).is_set() {
        return None;
    }
    let other = only.display_name();
    let message =
        format!("ConfigMap `{missing}` is not in the input, and `{other}` beside it has the key `{text}`");
    ctx.report(name, message)
        .severity(Severity::Warning)
        .identified_by("ConfigMap")
        .help(format!("did you mean `{other}`? Without the ConfigMap the container does not start"))
        .related(only, &only.path(&["data", text]), "the key");
    None
}

/// Reports a claim that the input lacks, where the only one of the file is used by nothing.
fn sibling_claim(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const KIND: Kind = Kind::PERSISTENT_VOLUME_CLAIM;
    let (cluster, namespace) = (ctx.cluster(), object.namespace_or_default());
    // Of a whole cluster it is known that there is none.
    if is_custom(object)
        || object.is_namespace_unknown()
        || cluster.is_complete_for(KIND)
        || cluster.is_shown(&Fact::Elsewhere)
    {
        return None;
    }
    let volumes = template.spec.get("volumes");
    let claims = volumes.items().map(|volume| volume.path(&["persistentVolumeClaim", "claimName"]));
    let mut claims = claims.filter(Node::is_set);
    let (named, None) = (claims.next()?, claims.next()) else { return None };
    let missing = named.text().filter(|name| !name.is_empty())?;
    // Other files of the folder may be templates, which are not read.
    let is_in_file = |one: &&Object| company(object, one) == Company::File;
    let mut beside = cluster.in_namespace(KIND, namespace).filter(is_in_file);
    let (only, None) = (beside.next()?, beside.next()) else { return None };
    if cluster.written_as(KIND, missing).next().is_some()
        || is_of_stateful_set(missing, namespace, cluster)
        || is_made_by_operator(missing, cluster)
        || is_example(only)
        || is_template(only)
        || only.may_lack_fields()
        || !cluster.views().users_of_claim(namespace, only.name()).is_empty()
        || cluster.objects().iter().filter(is_in_file).any(|other| names_claim(other, only.name()))
    {
        return None;
    }
    let other = only.display_name();
    let message = format!(
        "PersistentVolumeClaim `{missing}` is not in the input, and `{other}` beside it is mounted by no pod"
    );
    ctx.report(&named, message)
        .severity(Severity::Warning)
        .identified_by("PersistentVolumeClaim")
        .help(format!("did you mean `{other}`? Without the claim the pods stay Pending"))
        .related(only, &only.path(&["metadata", "name"]), "the claim");
    None
}

/// Whether a text of an object other than a claim names a claim, such as a `storageUri` or the resource of an operator.
fn names_claim(object: &Object, claim: &str) -> bool {
    fn holds(node: &Node<'_>, claim: &str) -> bool {
        node.text().is_some_and(|text| text.contains(claim))
            || node.entries().iter().any(|(_, value)| holds(value, claim))
            || node.items().any(|item| holds(&item, claim))
    }
    !object.is(Kind::PERSISTENT_VOLUME_CLAIM) && holds(&object.get("spec"), claim)
}

/// Whether the value of a key is empty or a placeholder, also in base64.
fn is_to_be_filled_in(value: &Node<'_>) -> bool {
    const WORDS: [&str; 12] = [
        "<",
        "changeit",
        "changeme",
        "fillin",
        "fillme",
        "placeholder",
        "replaceme",
        "replacewith",
        "tobefilled",
        "todo",
        "xxxx",
        "your",
    ];
    let says_so = |text: &str| {
        let plain = text.trim().to_ascii_lowercase().replace(['-', '_', ' '], "");
        plain.is_empty() || plain == "..." || WORDS.iter().any(|word| plain.starts_with(word))
    };
    let Some(text) = value.text() else { return value.is_unknown() || value.is_null() };
    let inner = decoded(text).and_then(|bytes| String::from_utf8(bytes).ok());
    says_so(text) || inner.is_some_and(|inner| is_placeholder(&inner) || says_so(&inner))
}

/// Whether the cluster certainly has no object of a kind and name.
fn is_absent(kind: Kind, namespace: &str, name: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    cluster.is_complete_for(kind)
        && !cluster.has(kind, namespace, name)
        && !may_be_made(cluster, kind, namespace, name)
}
