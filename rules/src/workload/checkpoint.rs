//! Signs that a training run saves its progress, and where.

use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// Words of checkpoints in options, paths and names of variables.
const CHECKPOINTS: [&str; 6] = ["checkpoint", "ckpt", "resume", "--save", "save_dir", "output_dir"];
/// Words of storage outside the pod.
const REMOTE: [&str; 16] = [
    "s3://",
    "gs://",
    "gcs://",
    "az://",
    "abfs://",
    "hdfs://",
    "s3_",
    "_s3",
    "bucket",
    "fsx",
    "lustre",
    "/efs",
    "/mnt/",
    "push_to_hub",
    "/nfs",
    "minio",
];
/// Volumes that end with the pod, or hold no data that it writes.
const SHORT_LIVED: [&str; 6] = ["emptyDir", "configMap", "secret", "downwardAPI", "projected", "image"];

fn says(template: &Template<'_>, signs: &[&str]) -> bool {
    let says = |node: &Node<'_>| {
        node.raw_text().is_some_and(|text| {
            let text = text.to_ascii_lowercase();
            signs.iter().any(|sign| text.contains(sign))
        })
    };
    template.all_containers().any(|container| {
        let mut words = ["command", "args"].into_iter().flat_map(|list| container.get(list).items());
        let mut variables = container.get("env").items();
        words.any(|w| says(&w)) || variables.any(|v| says(&v.get("name")) || says(&v.get("value")))
    })
}

/// Whether options, variables or mounts of a template name checkpoints.
pub(crate) fn names_checkpoints(template: &Template<'_>) -> bool {
    says(template, &CHECKPOINTS) || checkpoint_mounts(template).next().is_some()
}

/// Whether options or variables of a template name storage outside the pod.
pub(crate) fn names_remote_storage(template: &Template<'_>) -> bool {
    says(template, &REMOTE)
}

/// The mounts of checkpoints, by their path.
pub(crate) fn checkpoint_mounts<'a>(template: &Template<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    let mounts = template.all_containers().flat_map(|c| c.get("volumeMounts").items());
    mounts.filter(|mount| {
        mount.get("mountPath").text().is_some_and(|path| {
            let path = path.to_ascii_lowercase();
            path.contains("checkpoint") || path.contains("ckpt")
        })
    })
}

/// The volume of a name.
pub(crate) fn volume<'a>(template: &Template<'a>, name: &str) -> Option<Node<'a>> {
    template.spec.get("volumes").items().find(|volume| volume.get("name").text() == Some(name))
}

/// Whether a volume of the pods outlives them, or may: it is of no type that ends with the pod.
pub(crate) fn has_lasting_volume(object: &Object, template: &Template<'_>) -> bool {
    let claims = object.path(&["spec", "volumeClaimTemplates"]);
    let volumes = template.spec.get("volumes");
    let lasting = |volume: Node<'_>| {
        !volume.is_mapping() || !SHORT_LIVED.iter().any(|kind| !volume.get(kind).is_absent())
    };
    claims.items().next().is_some()
        || volumes.is_unknown()
        || volumes.has_unknown_key()
        || volumes.items().any(lasting)
}
