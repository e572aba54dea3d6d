//! Evidence that a training run saves its progress, and where.

use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// Words of checkpoints in options, paths and names of variables.
static CHECKPOINTS: Words = Words::new(&["checkpoint", "ckpt", "resume", "--save", "save_dir", "output_dir"]);
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
/// Types of volumes that end with the pod, or to which it cannot write.
const SHORT_LIVED: [&str; 6] = ["emptyDir", "configMap", "secret", "downwardAPI", "projected", "image"];

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
    template.all_containers().any(|container| {
        let mut words = ["command", "args"].into_iter().flat_map(|list| container.get(list).items());
        let mut variables = container.get("env").items();
        words.any(|w| mentions(&w))
            || variables.any(|v| mentions(&v.get("name")) || mentions(&v.get("value")))
    })
}

/// Whether options, variables or mounts of a template name checkpoints.
pub(crate) fn names_checkpoints(template: &Template<'_>) -> bool {
    mentions(template, &CHECKPOINTS) || checkpoint_mounts(template).next().is_some()
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

/// Whether a volume of the pods outlives them, or may: its type does not end with the pod.
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
