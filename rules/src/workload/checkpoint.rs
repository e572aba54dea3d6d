//! Evidence that a training run saves its progress, and where.

use std::path::Path;

use crate::facts::image::ImageRef;
use crate::facts::text;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::command::{OptionValue, Word, base_name, option, words, words_of_line};
use crate::workload::environment::variable;
use crate::workload::node_labels::{LabelReference, LabelUse, referenced_labels};
use crate::workload::server::may_be_rebuilt;
use crate::workload::template::Template;

/// Words of checkpoints in options, paths and names of variables.
static CHECKPOINTS: Words = Words::new(&["checkpoint", "ckpt", "resume", "--save", "save_dir", "output_dir"]);
/// Words of runs that go on from a checkpoint, or write one after a number of steps: an eviction costs them the steps since.
static RESUMES: Words = Words::new(&[
    "resume",
    "save_steps",
    "save-steps",
    "save_every",
    "save-every",
    "save_freq",
    "save-freq",
    "save_interval",
    "save-interval",
    "checkpoint_interval",
    "checkpoint-interval",
    "checkpoint_every",
    "checkpoint-every",
]);
/// Words of storage outside the pod.
static REMOTE: Words = Words::new(&[
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
]);
/// Words of programs and options that copy checkpoints out of the pod.
static UPLOADS: Words = Words::new(&[
    "s3://",
    "gs://",
    "gcs://",
    "az://",
    "abfs://",
    "hdfs://",
    "s3_",
    "_s3",
    "bucket",
    "push_to_hub",
    "hub_model_id",
    "minio",
    "rsync",
    "rclone",
    "azcopy",
    "gsutil",
    "aws s3",
    "s5cmd",
]);
/// Options of training scripts that name the folder of checkpoints.
const DESTINATIONS: [&str; 11] = [
    "output-dir",
    "output-path",
    "save-dir",
    "save-path",
    "save",
    "checkpoints-dir",
    "default-root-dir",
    // Those of nanoGPT, of verl, and of NeMo.
    "out-dir",
    "default-local-dir",
    "exp-dir",
    "results-dir",
];
/// Options that name it in some scripts, and in others the checkpoint from which a run starts: what another option says counts before.
const EITHER: [&str; 4] = ["checkpoint-dir", "checkpoint-path", "ckpt-dir", "ckpt-path"];
/// Variables that name it.
const DESTINATION_VARIABLES: [&str; 5] =
    ["CHECKPOINT_DIR", "CHECKPOINT_PATH", "CKPT_DIR", "SAVE_DIR", "OUTPUT_DIR"];
/// Words in paths of hosts on which a shared file system is mounted.
const SHARED: [&str; 18] = [
    "fsx",
    "efs",
    "nfs",
    "lustre",
    "shared",
    "ceph",
    "weka",
    "gpfs",
    "beegfs",
    "gluster",
    "juicefs",
    "s3",
    "nas",
    "vast",
    "netapp",
    "filestore",
    "smb",
    "cifs",
];
/// Types of volumes that end with the pod, or to which it cannot write.
const SHORT_LIVED: [&str; 6] = ["emptyDir", "configMap", "secret", "downwardAPI", "projected", "image"];

/// Folders of a host that hold its devices, its state and its settings: pods mount them to reach the hardware, its sockets, or
/// a memory file system.
const OF_HOST: [&str; 6] = ["/dev", "/sys", "/proc", "/run", "/var/run", "/etc"];

/// Words in lower case that are searched for, ignoring case.
struct Words {
    words: &'static [&'static str],
    /// For each byte, the set of words that begin with it, one bit each; the lowest bit is that of the first word.
    beginnings: [u32; 256],
}

impl Words {
    const fn new(words: &'static [&'static str]) -> Words {
        assert!(words.len() <= 32);
        let mut beginnings = [0; 256];
        let mut at = 0;
        while at < words.len() {
            let first = words[at].as_bytes()[0];
            beginnings[first as usize] |= 1 << at;
            beginnings[first.to_ascii_uppercase() as usize] |= 1 << at;
            at += 1;
        }
        Words { words, beginnings }
    }

    fn are_in(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        bytes.iter().enumerate().any(|(at, byte)| {
            let mut beginning = self.beginnings[usize::from(*byte)];
            while beginning != 0 {
                let word = self.words[beginning.trailing_zeros() as usize].as_bytes();
                if bytes.get(at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word)) {
                    return true;
                }
                beginning &= beginning - 1;
            }
            false
        })
    }
}

fn mentions(template: &Template<'_>, signs: &Words) -> bool {
    let mentions = |node: &Node<'_>| node.raw_text().is_some_and(|text| signs.are_in(text));
    // What a RayJob submits to its cluster, with the environment of all processes.
    let (object, _) = template.place;
    if object.is(Kind::RAY_JOB)
        && ["entrypoint", "runtimeEnvYAML"].iter().any(|field| mentions(&object.path(&["spec", field])))
    {
        return true;
    }
    template.all_containers().any(|container| {
        let lists = ["command", "args"].map(|list| container.get(list));
        let hooks =
            ["preStop", "postStart"].map(|hook| container.path(&["lifecycle", hook, "exec", "command"]));
        let mut words = lists.iter().chain(&hooks).flat_map(|list| list.items());
        let mut variables = container.get("env").items();
        words.any(|w| mentions(&w))
            || variables.any(|v| mentions(&v.get("name")) || mentions(&v.get("value")))
    })
}

/// Whether a template copies what it writes to storage outside the pod.
pub(crate) fn uploads(template: &Template<'_>) -> bool {
    mentions(template, &UPLOADS)
}

/// Where a training script writes its checkpoints.
pub(crate) struct Destination<'a> {
    /// The folder, absolute.
    pub(crate) path: String,
    /// The item that names it.
    pub(crate) node: Node<'a>,
}

/// The folder of checkpoints in the command line of a container, or in a variable. `None` if none is named, it is outside
/// the pod, or it is relative to a folder that is not known.
pub(crate) fn destination<'a>(container: &Node<'a>) -> Option<Destination<'a>> {
    /// Commands with which a path leads to another folder.
    const LINKS: [&str; 3] = ["ln", "mount", "bindfs"];
    /// Options of launchers that change the folder: of uv, env and npm.
    const FOLDERS: [&str; 5] = ["--directory", "--project", "-C", "--chdir", "--pwd"];
    let words = words(container);
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&base_name(&word.text)));
    if has(&LINKS) {
        return None;
    }
    let (path, node) = match stated_destination(&words) {
        OptionValue::Text(path, node) => (path, node),
        OptionValue::Unknown => return None,
        OptionValue::Absent => {
            let mut names = DESTINATION_VARIABLES.iter();
            let (path, node) = names.find_map(|name| variable(container, name).flatten())?;
            (path.into_owned(), node)
        }
    };
    if path.starts_with('/') {
        return absolute(path, node);
    }
    if !is_of_pod(&path) || has(&FOLDERS) {
        return None;
    }
    // The last `cd` of a script, or the folder in which the container starts.
    let changes = words.windows(2).filter(|pair| changes_folder(&pair[0]) && pair[1].known);
    let folder =
        changes.map(|pair| pair[1].text.clone()).next_back().filter(|folder| folder.starts_with('/'));
    let base = match folder {
        Some(folder) => folder,
        None if words.iter().any(changes_folder) => return None,
        None if container.get("workingDir").is_set() => container.get("workingDir").text()?.to_owned(),
        None => folder_of_image(container)?.to_owned(),
    };
    let path = path.trim_start_matches("./");
    (!path.starts_with(".."))
        .then(|| Destination { path: format!("{}/{path}", base.trim_end_matches('/')), node })
}

fn changes_folder(word: &Word<'_>) -> bool {
    matches!(word.text.as_str(), "cd" | "pushd")
}

/// The folder in which the containers of an image start (`WORKDIR` of its Dockerfile): PyTorch 1.0 to 2.9, NVIDIA's PyTorch and
/// TensorFlow 20.01 to 25.10, Ray 2.0 to 2.51.
const FOLDERS_OF_IMAGES: [(&str, &str); 5] = [
    ("pytorch/pytorch", "/workspace"),
    ("nvidia/pytorch", "/workspace"),
    ("nvidia/tensorflow", "/workspace"),
    ("rayproject/ray", "/home/ray"),
    ("rayproject/ray-ml", "/home/ray"),
];

/// The folder in which a container starts, if that of its image is known.
fn folder_of_image(container: &Node<'_>) -> Option<&'static str> {
    let image = container.get("image").text().filter(|image| !may_be_rebuilt(image)).map(ImageRef::parse)?;
    FOLDERS_OF_IMAGES.iter().find(|(name, _)| image.is(name)).map(|(_, folder)| *folder)
}

/// The folder of checkpoints in what a RayJob submits to its cluster.
pub(crate) fn destination_of_entrypoint(object: &Object) -> Option<Destination<'_>> {
    if !object.is(Kind::RAY_JOB) {
        return None;
    }
    match stated_destination(&words_of_line(&object.path(&["spec", "entrypoint"]))) {
        OptionValue::Text(path, node) => absolute(path, node),
        _ => None,
    }
}

/// The folder that an option names, or a setting of Hydra, which has no dashes: `trainer.default_root_dir=/out`.
fn stated_destination<'a>(words: &[Word<'a>]) -> OptionValue<'a> {
    match named_folder(words, &DESTINATIONS) {
        OptionValue::Absent => named_folder(words, &EITHER),
        stated => stated,
    }
}

fn named_folder<'a>(words: &[Word<'a>], names: &[&str]) -> OptionValue<'a> {
    let setting = |word: &Word<'a>| {
        let (name, value) = word.text.split_once('=').filter(|_| word.known)?;
        let name = name.rsplit('.').next()?.replace('_', "-");
        let is_setting = names.contains(&name.as_str()) && !word.text.starts_with('-');
        is_setting.then(|| OptionValue::Text(value.to_owned(), word.node.clone()))
    };
    match option(words, names) {
        OptionValue::Absent => words.iter().find_map(setting).unwrap_or(OptionValue::Absent),
        stated => stated,
    }
}

fn absolute(path: String, node: Node<'_>) -> Option<Destination<'_>> {
    (path.starts_with('/') && is_of_pod(&path)).then_some(Destination { path, node })
}

/// Whether a text is a path in the pod of which all parts are known.
fn is_of_pod(path: &str) -> bool {
    path.contains('/') && !path.contains("://") && !path.starts_with('~') && !path.contains('$')
}

/// What holds a folder of a container.
pub(crate) enum Holder<'a> {
    /// The container's own file system.
    Container,
    EmptyDir(Node<'a>),
    /// A folder of the node that is no shared file system.
    Host(Node<'a>),
    /// A mount to which the container cannot write, by this field.
    ReadOnly(Node<'a>),
    /// A volume that outlives the pod, or may.
    Lasting,
}

/// What holds a path in a container. `None` if a mount is not known.
pub(crate) fn holder<'a>(template: &Template<'a>, container: &Node<'a>, path: &str) -> Option<Holder<'a>> {
    let Some(mount) = mount_of(template, container, path)? else {
        return Some(Holder::Container);
    };
    let name = mount.get("name").text()?;
    if let Some(field) = read_only(template, &mount) {
        return Some(Holder::ReadOnly(field));
    }
    let Some(volume) = volume(template, name) else {
        return Some(Holder::Lasting);
    };
    let host = volume.path(&["hostPath", "path"]);
    let empty = volume.get("emptyDir");
    // A sidecar may copy what is written there.
    let mounted = |container: Node<'a>| {
        let mut mounts = container.get("volumeMounts").items();
        mounts.any(|mount| mount.get("name").text() == Some(name))
    };
    let starts = template.spec.get("initContainers").items();
    let sidecars = starts.filter(|container| container.get("restartPolicy").text() == Some("Always"));
    let is_alone = template.containers().chain(sidecars).filter(|one| mounted(one.clone())).count() < 2;
    Some(if !is_alone {
        Holder::Lasting
    } else if !empty.is_absent() {
        Holder::EmptyDir(empty)
    } else if host.text().is_some_and(|path| !text::mentions(path, &SHARED)) && !is_pinned(template) {
        Holder::Host(host)
    } else {
        Holder::Lasting
    })
}

/// Whether the pods are on one node, which the next pod finds again.
fn is_pinned(template: &Template<'_>) -> bool {
    let is_host = |label: &LabelReference<'_>| {
        label.usage == LabelUse::Required && label.key == "kubernetes.io/hostname"
    };
    template.spec.get("nodeName").is_set() || referenced_labels(template).iter().any(is_host)
}

/// The mount of a container that holds a path, or `None` without one. The outer value is `None` if that is unknown.
pub(crate) fn mount_of<'a>(
    template: &Template<'a>,
    container: &Node<'a>,
    path: &str,
) -> Option<Option<Node<'a>>> {
    let mounts = container.get("volumeMounts");
    if mounts.has_unknown() || template.spec.get("volumes").is_unknown() || template.spec.has_unknown_key() {
        return None;
    }
    let covers = |mount: &Node<'a>| {
        let folder = mount.get("mountPath").text()?.trim_end_matches('/');
        let rest = path.strip_prefix(folder)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(folder.len())
    };
    Some(mounts.items().filter(|mount| covers(mount).is_some()).max_by_key(|mount| covers(mount)))
}

/// The field that makes a mount read-only: its own, or that of its claim.
pub(crate) fn read_only<'a>(template: &Template<'a>, mount: &Node<'a>) -> Option<Node<'a>> {
    let of_claim = mount
        .get("name")
        .text()
        .and_then(|name| volume(template, name))
        .map(|volume| volume.path(&["persistentVolumeClaim", "readOnly"]));
    std::iter::once(mount.get("readOnly")).chain(of_claim).find(|field| field.bool() == Some(true))
}

/// Whether options, variables or mounts of a template name checkpoints.
pub(crate) fn names_checkpoints(template: &Template<'_>) -> bool {
    mentions(template, &CHECKPOINTS) || checkpoint_mounts(template).next().is_some()
}

/// Whether options or variables of a template say that a run goes on from its last checkpoint.
pub(crate) fn resumes(template: &Template<'_>) -> bool {
    mentions(template, &RESUMES)
}

/// Whether options or variables of a template name storage outside the pod.
pub(crate) fn names_remote_storage(template: &Template<'_>) -> bool {
    mentions(template, &REMOTE)
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

pub(crate) fn volume<'a>(template: &Template<'a>, name: &str) -> Option<Node<'a>> {
    template.spec.get("volumes").items().find(|volume| volume.get("name").text() == Some(name))
}

/// Whether the pods write to a volume that outlives them, or may: its type does not end with the pod.
pub(crate) fn has_lasting_volume(object: &Object, template: &Template<'_>) -> bool {
    let claims = object.path(&["spec", "volumeClaimTemplates"]);
    let volumes = template.spec.get("volumes");
    let lasting = |volume: &Node<'_>| {
        let host = volume.path(&["hostPath", "path"]);
        let is_of_host =
            host.text().is_some_and(|path| OF_HOST.iter().any(|own| Path::new(path).starts_with(own)));
        !volume.is_mapping() || !is_of_host && !SHORT_LIVED.iter().any(|kind| !volume.get(kind).is_absent())
    };
    let is_read_only = |place: Node<'_>| place.get("readOnly").bool() == Some(true);
    let is_written = |volume: Node<'_>| {
        let Some(name) = volume.get("name").text() else { return true };
        !is_read_only(volume.get("persistentVolumeClaim"))
            && template.all_containers().any(|container| {
                let mounts = container.get("volumeMounts");
                let writes = |mount: Node<'_>| {
                    mount.get("name").text().is_none_or(|mounted| mounted == name) && !is_read_only(mount)
                };
                container.has_unknown_key() || mounts.has_unknown() || mounts.items().any(writes)
            })
    };
    claims.items().next().is_some()
        || volumes.is_unknown()
        || volumes.has_unknown_key()
        || volumes.items().filter(lasting).any(is_written)
}

#[cfg(test)]
mod tests {
    use super::{CHECKPOINTS, REMOTE};

    #[test]
    fn words_are_found_as_in_a_text_of_small_letters() {
        let mut texts = vec![String::new(), "s3:/".to_owned(), "é/EFS".to_owned(), "ckp".to_owned()];
        for word in CHECKPOINTS.words.iter().chain(REMOTE.words) {
            let (start, end) = word.split_at(word.len() - 1);
            for text in [
                word.to_uppercase(),
                format!("x{word}"),
                format!("{word}y"),
                start.to_owned(),
                end.to_owned(),
            ] {
                texts.push(text);
            }
        }
        for words in [&CHECKPOINTS, &REMOTE] {
            for text in &texts {
                let small = text.to_ascii_lowercase();
                let is_there = words.words.iter().any(|word| small.contains(word));
                assert_eq!(words.are_in(text), is_there, "{text}");
            }
        }
    }
}
