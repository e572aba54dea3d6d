//! An image has a tag that moves, or none.
//!
//! # Why
//! `latest`, `nightly` or `main` is another image after each release, and an image without a tag is
//! `latest`. A pod that restarts, a new replica or a new node then runs another version than its
//! neighbours: an engine with other flags, a CUDA version that the driver does not support. A rollback
//! restores nothing, because the old tag has moved too. It is a warning where the pods use
//! accelerators, train or serve a model, and information for others. Init containers, DaemonSets and
//! infrastructure are left out, and so are images whose tag a kustomization sets. A name without a registry
//! that is not an official image of Docker Hub, with `IfNotPresent`, is what kind, minikube or k3s has from an
//! import: information, because nothing moves its tag but the next import. Knative resolves a tag once
//! for each revision, whose pods all run one image: there, and where KServe may use Knative, it is information.
//!
//! NVIDIA publishes no `latest` tag of `nvidia/cuda` and of `nvcr.io/nvidia/tritonserver`, so that these
//! images cannot be pulled at all. Most other images below `nvcr.io/nvidia` have none either.
//!
//! # Fix
//! Write the version that was tested, or its digest.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 600
//!    ttlSecondsAfterFinished: 86400
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//! -          image: example.com/ml/embed:latest # <-
//! +          image: example.com/ml/embed:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 16Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/containers/images/#image-names>
//! - <https://kubernetes.io/docs/concepts/configuration/overview/>
//! - <https://knative.dev/docs/serving/tag-resolution/>
//! - <https://gitlab.com/nvidia/container-images/cuda#announcement>
//! - <https://github.com/triton-inference-server/server/issues/5359>

use super::kserve;
use super::serving::is_owned;
use crate::lint::finding::Merge;
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::manifest_purpose::{is_copy, is_example, is_template};
use crate::rules::prelude::*;
use crate::tree::placeholder::is_stand_in;
use crate::workload::template::is_workflow;

pub(crate) static RULE: Rule = Rule {
    id: "image-tag-latest",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("image_tag_latest.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Repositories without the tag `latest`, with a tag that they have: NVIDIA's announcement in the README of the CUDA images, of
/// 2020-12, and its answer in triton-inference-server/server#5359, of 2023-03.
const WITHOUT_LATEST: [(&str, &str); 4] = [
    ("nvidia/cuda", "12.8.1-base-ubuntu24.04"),
    ("docker.io/nvidia/cuda", "12.8.1-base-ubuntu24.04"),
    ("nvcr.io/nvidia/cuda", "12.8.1-base-ubuntu24.04"),
    ("nvcr.io/nvidia/tritonserver", "25.03-py3"),
];

/// Tags that each build moves to another image.
const MOVING: [&str; 8] = ["latest", "nightly", "main", "master", "edge", "dev", "develop", "devel"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if is_owned(object) || object.is_patch() {
        return None;
    }
    let classified = ctx.class_of(object);
    let serves = classified.serves_requests();
    let trains = classified.is(WorkloadClass::Training);
    // A Pod without a controller is a test, unless it declares its class.
    if classified.is(WorkloadClass::Infra) || (object.is(Kind::POD) && !serves && !trains) {
        return None;
    }
    for template in templates(object) {
        let device = uses_device(&template);
        // The steps of a workflow are short, and many: the image counts where the step holds an accelerator.
        if !device && is_workflow(object) {
            continue;
        }
        for container in template.containers() {
            let node = container.get("image");
            let Some(image) = node.text() else { continue };
            let Some(mut message) = moves(image, object) else { continue };
            let is_local = is_of_node(&container, image);
            if is_local {
                let ImageRef { name, tag, .. } = ImageRef::parse(image);
                let tag = tag.unwrap_or("latest");
                message = format!("tag `{tag}` of image `{name}` does not say which build a node has");
            }
            // A kustomization set the image: the author of the object did not write it.
            let written = object.as_written().root().at(&node.pointer());
            if written.text() != node.text() || container.get("imagePullPolicy").text() == Some("Never") {
                continue;
            }
            // One finding for an image of a file, with its other places.
            let merge = Merge::new(message.clone(), "", |merge| merge.key().to_owned());
            let finding = ctx.report(&node, message).merges(merge);
            if let Some(tag) = existing_tag(image) {
                finding.help(format!("write the tag of a release, such as `{tag}`"));
                continue;
            }
            finding.help("write the version that was tested, or its digest");
            // A container beside the one with the accelerator.
            let helper = template.containers().count() > 1 && !is_main(&container);
            // A label of the component is also on the Jobs that prepare a run, such as downloads.
            let may_only_prepare =
                trains && !device && classified.confidence != Confidence::High && !classified.is_declared();
            let is_less = is_example(object)
                || is_copy(object)
                || is_template(object)
                || has_version(&node)
                || may_only_prepare;
            if (!device && !trains) || helper || is_less || is_local || are_resolved(object) != Some(false) {
                finding.severity(Severity::Info);
            } else if trains && !device {
                add_class_evidence(finding, object, &classified);
            }
        }
    }
    None
}

/// Whether the nodes have an image from elsewhere than a registry, as far as it shows: its name has no registry and is not one of the
/// official images of Docker Hub, and the kubelet pulls it only where it is not there. kind, minikube and k3s import such images.
fn is_of_node(container: &Node<'_>, image: &str) -> bool {
    let ImageRef { name, .. } = ImageRef::parse(image);
    container.get("imagePullPolicy").text() == Some("IfNotPresent")
        && !image.contains('/')
        && !name.contains('/')
        && !OFFICIAL.contains(&name)
}

/// Official images of Docker Hub that clusters run (`docker-library/official-images`, `library`).
const OFFICIAL: [&str; 68] = [
    "adminer",
    "almalinux",
    "alpine",
    "amazonlinux",
    "bash",
    "busybox",
    "buildpack-deps",
    "caddy",
    "cassandra",
    "chronograf",
    "clickhouse",
    "composer",
    "consul",
    "couchdb",
    "debian",
    "docker",
    "drupal",
    "eclipse-mosquitto",
    "eclipse-temurin",
    "elasticsearch",
    "erlang",
    "fedora",
    "flink",
    "fluentd",
    "ghost",
    "golang",
    "gradle",
    "haproxy",
    "hello-world",
    "httpd",
    "influxdb",
    "jenkins",
    "joomla",
    "kibana",
    "kong",
    "logstash",
    "mariadb",
    "maven",
    "memcached",
    "mongo",
    "mongo-express",
    "mysql",
    "nats",
    "neo4j",
    "nextcloud",
    "nginx",
    "node",
    "openjdk",
    "percona",
    "php",
    "postgres",
    "python",
    "rabbitmq",
    "redis",
    "registry",
    "rockylinux",
    "ruby",
    "rust",
    "solr",
    "sonarqube",
    "spark",
    "telegraf",
    "tomcat",
    "traefik",
    "ubuntu",
    "vault",
    "wordpress",
    "zookeeper",
];

/// Whether a container itself asks for devices, or is a known server.
fn is_main(container: &Node<'_>) -> bool {
    let resources = container.get("resources");
    let sides = ["limits", "requests"].map(|side| resources.get(side));
    resources.get("claims").is_set()
        || sides.iter().flat_map(Node::entries).any(|(name, _)| name.contains('/'))
        || server_of(container).is_some()
}

/// Whether the name of the repository contains the version: `ray-2.41.0-py310`.
fn has_version(image: &Node<'_>) -> bool {
    let bytes = ImageRef::parse(image.text().unwrap_or_default()).last().as_bytes();
    bytes.windows(3).any(|w| w[0].is_ascii_digit() && matches!(w[1], b'.' | b'-') && w[2].is_ascii_digit())
}

/// The problem with the tag of an image. `None` if the tag is fixed, or a tool may set it.
fn moves(image: &str, object: &Object) -> Option<String> {
    let ImageRef { name: repository, tag, digest, .. } = ImageRef::parse(image);
    let lower = |text: &str| !text.contains(|c: char| c.is_ascii_uppercase() || c.is_whitespace());
    let is_set = object.origin().is_some_and(|origin| origin.source.sets_tag_of(repository));
    // An image stream of OpenShift: its tags are set in the cluster.
    if image.starts_with("image-registry.openshift-image-registry.svc") {
        return None;
    }
    // What was to write the name wrote nothing: the image cannot be pulled, whatever its tag.
    if repository.is_empty() {
        return None;
    }
    if digest.is_some() || !lower(repository) || is_stand_in(image, "image") || is_set {
        return None;
    }
    if existing_tag(image).is_some() {
        return Some(format!("image `{repository}` cannot be pulled: it has no tag `latest`"));
    }
    if image.starts_with("nvcr.io/nvidia/") && tag.is_none_or(|tag| tag == "latest") {
        return Some(format!("image `{repository}` names no release, and may have no tag `latest`"));
    }
    let Some(tag) = tag else {
        // Tools that build images, such as Skaffold and Tilt, add the tag to an image name without one.
        let has_registry = image.contains('/');
        return has_registry.then(|| match are_resolved(object) {
            Some(true) => format!("a new revision may run another image: `{image}` has no tag"),
            _ => format!("image `{image}` has no tag, so nodes pull `latest`"),
        });
    };
    let mut words = tag.split(['-', '_', '.']);
    let whole = MOVING.contains(&tag);
    let part = words.any(|word| matches!(word, "latest" | "nightly"));
    // A nightly build with its date or commit in the tag does not move.
    let dated = tag.chars().filter(char::is_ascii_digit).count() >= 4;
    (whole || (part && !dated)).then(|| match are_resolved(object) {
        Some(true) => format!("a new revision may run another image: tag `{tag}` of `{repository}` moves"),
        _ => format!("tag `{tag}` of image `{repository}` moves to each new release"),
    })
}

/// A tag of an image whose reference is to a tag `latest` that does not exist.
fn existing_tag(image: &str) -> Option<&'static str> {
    let ImageRef { name, tag, digest, .. } = ImageRef::parse(image);
    let is_latest = digest.is_none() && tag.is_none_or(|tag| tag == "latest");
    let known = WITHOUT_LATEST.iter().find(|(known, _)| is_latest && *known == name)?;
    Some(known.1)
}

/// Whether Knative resolves the tags of an object to digests, once for each revision, so that all of its pods run one image. `None`
/// if KServe may run it with Knative or without.
fn are_resolved(object: &Object) -> Option<bool> {
    if !object.is(Kind::INFERENCE_SERVICE) {
        return Some(object.is(Kind::KNATIVE_SERVICE));
    }
    Some(kserve::written_mode(object)?? == kserve::Mode::Knative)
}
