//! The identity of a finding, which does not change when its object and its file are edited elsewhere.
//!
//! It is rule, object, place and the parameters that the rule names. The place is the pointer with list items
//! named by their key. Neither values nor words nor list indexes take part: a replica count of 3 that becomes 2
//! is the same finding, and so is an item behind another one that was inserted before it. Several findings of an
//! object may have one identity; they are compared as multisets.

use std::collections::HashMap;
use std::fmt::Write;

use rayon::prelude::*;

use crate::lint::finding::Finding;
use crate::object::Object;
use crate::tree::pointer::{Pointer, escape};

/// The fields that identify an item of a list, the most specific first: those of Kubernetes' own list maps, and those
/// of the lists of Karpenter, KEDA and Prometheus.
const ITEM_KEYS: [&str; 13] = [
    "name",
    "key",
    "containerPort",
    "port",
    "mountPath",
    "deviceName",
    "topologyKey",
    "parameter",
    "groupName",
    "alert",
    "record",
    "ip",
    "type",
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    rule: &'static str,
    /// Group, kind, namespace and name; empty if the finding is about text outside of objects.
    object: [String; 4],
    /// The pointer: `/spec/template/spec/containers/~[name=server]/image`. Empty for a place in a text.
    place: String,
    /// The parameters of the finding ([`Finding::identified_by`]).
    parameters: Vec<String>,
}

impl Identity {
    pub fn heap_bytes(&self) -> usize {
        let strings = self.object.iter().chain(&self.parameters).map(String::len).sum::<usize>();
        strings + self.place.len() + self.parameters.len() * size_of::<String>()
    }
}

impl Finding {
    /// The identity, which a finding of an earlier or later version of the object may share.
    pub fn identity(&self) -> Identity {
        let object = self.location.object().map(|object| {
            let id = object.id();
            [id.group.clone(), id.kind.clone(), id.namespace_or_default().to_owned(), id.name.clone()]
        });
        let place = match (self.location.object(), self.location.pointer()) {
            (Some(object), Some(pointer)) => keyed_pointer(object, pointer),
            _ => String::new(),
        };
        Identity {
            rule: self.rule.id,
            object: object.unwrap_or_default(),
            place,
            parameters: self.parameters.clone(),
        }
    }

    /// The identity among the findings of a file. That of a merged finding is what its parts have in common, because
    /// the first of them may be fixed while others remain.
    fn identity_in_file(&self) -> Identity {
        match &self.merge {
            Some(merge) => Identity {
                rule: self.rule.id,
                object: Default::default(),
                place: String::new(),
                parameters: vec![merge.key().to_owned()],
            },
            None => self.identity(),
        }
    }
}

/// A pointer whose list items are identified by their key; an item without one is not identified. No step of a pointer
/// begins with `~[`, because a tilde is escaped.
fn keyed_pointer(object: &Object, pointer: &Pointer) -> String {
    let mut out = String::new();
    let mut node = object.root();
    for step in pointer.steps() {
        match step.parse::<usize>() {
            Ok(index) if node.is_sequence() => {
                node = node.index(index);
                out.push_str("/~[");
                let key = ITEM_KEYS.iter().find_map(|key| Some((key, node.get(key).string_or_number()?)));
                if let Some((key, name)) = key {
                    let _ = write!(out, "{key}={}", escape(&name));
                }
                out.push(']');
            }
            _ => {
                node = node.get(step);
                let _ = write!(out, "/{}", escape(step));
            }
        }
    }
    out
}

/// A unique name for each finding of a report, which does not change when the file is edited elsewhere: 16 hexadecimal
/// digits from its identity, the path of its file, and its ordinal among the findings with both in common.
pub fn fingerprints(findings: &[Finding]) -> Vec<String> {
    let hash = |finding: &Finding| hash_in_file(finding, finding.location.path().unwrap_or_default());
    numbered(findings.par_iter().map(hash).collect::<Vec<Fnv>>().into_iter())
}

/// Like [`fingerprints`], with the path to use for each finding, which may differ from the reported one.
pub fn fingerprints_at<'f>(findings: impl Iterator<Item = (&'f Finding, &'f str)>) -> Vec<String> {
    numbered(findings.map(|(finding, path)| hash_in_file(finding, path)))
}

fn hash_in_file(finding: &Finding, path: &str) -> Fnv {
    let identity = finding.identity_in_file();
    let mut hash = Fnv::new();
    hash.write(identity.rule);
    identity.object.iter().for_each(|part| hash.write(part));
    hash.write(&identity.place);
    identity.parameters.iter().for_each(|parameter| hash.write(parameter));
    hash.write("");
    hash.write(path);
    hash
}

/// Makes names from hashes, with an ordinal for equal ones.
fn numbered(hashes: impl Iterator<Item = Fnv>) -> Vec<String> {
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let names = hashes.map(|mut hash| {
        let ordinal = seen.entry(hash.0).or_default();
        hash.write(&ordinal.to_string());
        *ordinal += 1;
        format!("{:016x}", hash.0)
    });
    names.collect()
}

/// FNV-1a, 64 bits: stable over versions of Rust, unlike the standard hasher.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, text: &str) {
        for byte in text.bytes().chain(std::iter::once(0xFF)) {
            self.0 ^= u64::from(byte);
            self.0 = self.0.wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::lint::finding::{Location, Merge};
    use crate::lint::rule::{Group, Rule};
    use crate::tree::pointer::Pointer;

    static RULE: Rule = Rule { id: "odd", ..Rule::error(Group::Gpu) };

    fn object(value: Value) -> Object {
        Object::from_json(&value).unwrap()
    }

    fn finding(object: &Object, pointer: &str, message: &str) -> Finding {
        let location =
            Location::Field { object: object.clone(), pointer: Pointer::parse(pointer).unwrap(), key: false };
        Finding::new(&RULE, location, message.to_owned())
    }

    fn deployment(replicas: u32, containers: Value) -> Object {
        object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}}))
    }

    #[test]
    fn value_words_and_index_do_not_take_part() {
        let before = deployment(3, json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]));
        let after = deployment(2, json!([{"name": "c"}, {"name": "b", "image": "y"}, {"name": "a"}]));
        let same = |one: Finding, other: Finding| assert_eq!(one.identity(), other.identity());
        same(finding(&before, "/spec/replicas", "3 is few"), finding(&after, "/spec/replicas", "2 is few"));
        let containers = "/spec/template/spec/containers";
        same(
            finding(&before, &format!("{containers}/1/image"), "x"),
            finding(&after, &format!("{containers}/1/image"), "y"),
        );
        same(
            finding(&before, &format!("{containers}/0"), "x"),
            finding(&after, &format!("{containers}/2"), "x"),
        );
        let other = finding(&after, &format!("{containers}/0"), "x");
        assert_ne!(finding(&before, &format!("{containers}/0"), "x").identity(), other.identity());
    }

    #[test]
    fn the_namespace_of_a_kind_without_one_takes_no_part() {
        let of = |kind: &str, metadata: Value| {
            let object =
                json!({"apiVersion": "karpenter.sh/v1", "kind": kind, "metadata": metadata, "spec": {}});
            fingerprints(&[finding(&self::object(object), "/spec", "x")])
        };
        let written = json!({"name": "a", "namespace": "kube-system"});
        assert_eq!(of("NodePool", written.clone()), of("NodePool", json!({"name": "a"})));
        assert_ne!(of("Other", written), of("Other", json!({"name": "a"})));
    }

    #[test]
    fn parameters_take_part() {
        let object = deployment(3, json!([]));
        let mut one = finding(&object, "/spec", "x");
        assert_eq!(one.identity(), finding(&object, "/spec", "x").identity());
        one.identified_by("nvidia.com/gpu");
        assert_ne!(one.identity(), finding(&object, "/spec", "x").identity());
    }

    #[test]
    fn fingerprints_are_unique_in_a_report() {
        let object = deployment(3, json!(["a", "b"]));
        let of = |pointer: &str| finding(&object, pointer, "x");
        let item = "/spec/template/spec/containers";
        let all = [of("/spec"), of(&format!("{item}/0")), of(&format!("{item}/1")), of("/spec")];
        let names = fingerprints(&all);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
        // Earlier findings do not change the names of later ones.
        assert_eq!(fingerprints(&all[1..3]), names[1..3]);
        assert!(names.iter().all(|name| name.len() == 16));
    }

    #[test]
    fn copies_in_two_files_have_two_fingerprints() {
        let object = deployment(3, json!([]));
        let one = finding(&object, "/spec", "x");
        let names = fingerprints_at([(&one, "a.yaml"), (&one, "b.yaml"), (&one, "a.yaml")].into_iter());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 3, "{names:?}");
        assert_eq!(fingerprints_at(std::iter::once((&one, "b.yaml"))), names[1..2]);
    }

    #[test]
    fn what_was_made_of_several_findings_does_not_depend_on_the_first() {
        let of = |name: &str| {
            let mut found = finding(
                &object(json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": name}})),
                "/spec",
                "x",
            );
            found.merge = Some(Box::new(Merge::new("key", name, |merge| merge.key().to_owned())));
            found
        };
        assert_eq!(fingerprints(&[of("a")]), fingerprints(&[of("b")]));
        assert_ne!(of("a").identity(), of("b").identity());
    }
}
