//! The answers of the API server and KEDA's webhooks to one object, with the fields that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use gpulint_rules::source::{Document, Source, read};
use gpulint_rules::{Authority, ObjectId, Pointer};
use regex::Regex;
use serde_json::Value;

use crate::cluster::keda::Keda;
use crate::cluster::places;
use crate::cluster::server::Cluster;

/// Admission plugins whose decision depends on other objects in the cluster; objects are compared alone.
const OF_THE_CLUSTER: [&str; 4] = ["NamespaceLifecycle", "PodSecurity", "Priority", "RuntimeClass"];

/// Versions that the server serves only if they are enabled.
const ALSO_SERVED: &str = "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true";

/// A server that only answers dry runs.
pub(crate) struct Judge {
    // The webhooks end before the server that they watch.
    _keda: Keda,
    cluster: Cluster,
    /// Group, version and kind to the plural and whether it has namespaces.
    served: BTreeMap<(String, String, String), (String, bool)>,
    groups: BTreeSet<String>,
}

/// The decision on an object.
pub(crate) enum Verdict {
    Accepted,
    Refused(Refusal),
    /// The server does not serve the kind.
    Unserved,
}

/// The reason why an object was rejected.
pub(crate) struct Refusal {
    pub(crate) by: Authority,
    pub(crate) message: String,
    /// The fields in the message; empty if it names none.
    pub(crate) fields: Vec<Field>,
}

/// A field, in a form in which paths of the server and pointers of gpulint can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Steps joined by dots, with keys and indices as steps.
    path: String,
    /// Whether the path lacks indices: Go's JSON reader leaves them out.
    indices: bool,
    /// Whether the field is missing. A finding may be at another field of the mapping that lacks it.
    missing: bool,
}

impl Field {
    /// `spec.containers[0].name`, `spec.limits[nvidia.com/gpu]`, or without indices.
    fn named(path: &str, indices: bool) -> Field {
        let path = match path {
            "<nil>" | "." => "",
            // The scale subresource writes a dot before the first step.
            other => other.strip_prefix('.').unwrap_or(other),
        };
        Field { path: path.replace('[', ".").replace(']', "").replace("..", "."), indices, missing: false }
    }

    pub(crate) fn of(pointer: &Pointer) -> Field {
        Field { path: pointer.steps().join("."), indices: true, missing: false }
    }

    /// Whether the object is rejected because the field is missing.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing
    }

    /// The relation of a finding at `ours` to this field.
    pub(crate) fn meets(&self, ours: &Field) -> Option<Meeting> {
        let ours = if self.indices {
            ours.path.clone()
        } else {
            let steps = ours.path.split('.');
            let kept: Vec<&str> = steps.filter(|s| s.parse::<u32>().is_err()).collect();
            kept.join(".")
        };
        let below =
            |a: &str, b: &str| b.is_empty() || (a.starts_with(b) && a.as_bytes().get(b.len()) == Some(&b'.'));
        if ours == self.path {
            Some(Meeting::Exact)
        } else if below(&ours, &self.path) {
            Some(Meeting::Below)
        } else if below(&self.path, &ours) && (!ours.is_empty() || !self.path.contains('.')) {
            // The object as a whole is above every field, so that it is not a precise location unless the
            // field is at the top level.
            Some(Meeting::Above)
        } else if self.missing && map_of(&ours) == map_of(&self.path) {
            Some(Meeting::Beside)
        } else {
            None
        }
    }
}

/// The path of the mapping that contains a field.
fn map_of(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(map, _)| map)
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.path.is_empty() { "(root)" } else { &self.path })
    }
}

/// The location of a finding, relative to the field that the server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meeting {
    Exact,
    Below,
    Above,
    Beside,
}

impl Judge {
    /// Starts the server with KEDA; `None` if the programs are not available.
    pub(crate) async fn start() -> Option<Judge> {
        let cluster = Cluster::start_with(&OF_THE_CLUSTER, &[ALSO_SERVED]).await?;
        let keda = Keda::start(&cluster).await;
        let mut served = BTreeMap::new();
        let mut groups = BTreeSet::from([String::new()]);
        let mut lists = vec![(String::new(), "v1".to_owned(), "/api/v1".to_owned())];
        let (_, answer) = cluster.get("/apis").await;
        for group in array(&answer["groups"]) {
            let name = text(&group["name"]);
            groups.insert(name.to_owned());
            for version in array(&group["versions"]) {
                let version = text(&version["version"]);
                let path = format!("/apis/{name}/{version}");
                lists.push((name.to_owned(), version.to_owned(), path));
            }
        }
        for (group, version, path) in lists {
            let (_, answer) = cluster.get(&path).await;
            for resource in array(&answer["resources"]) {
                let plural = text(&resource["name"]);
                if plural.contains('/') {
                    continue;
                }
                served.insert(
                    (group.clone(), version.clone(), text(&resource["kind"]).to_owned()),
                    (plural.to_owned(), resource["namespaced"] == true),
                );
            }
        }
        Some(Judge { _keda: keda, cluster, served, groups })
    }

    /// Asks the server whether an object in this form would be accepted.
    pub(crate) async fn ask(&self, id: &ObjectId, media: &str, body: &str) -> Verdict {
        let key = (id.group.clone(), id.version.clone(), id.kind.clone());
        let Some((plural, namespaced)) = self.served.get(&key) else {
            return self.not_served(id);
        };
        let root = if id.group.is_empty() {
            format!("/api/{}", id.version)
        } else {
            format!("/apis/{}/{}", id.group, id.version)
        };
        let namespace = match id.namespace() {
            // A name that is not a valid namespace cannot be in the path; the server then compares it with
            // the one in the path.
            Some(name) if is_path_segment(name) => name,
            _ => "default",
        };
        let folder = if *namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let path = format!("{root}{folder}/{plural}?dryRun=All&fieldValidation=Strict");
        let Some((code, answer)) = self.post(&path, media, body).await else {
            // The server closes the connection when it panics over an object (kube-apiserver 1.34 does over
            // some Jobs). The object is not accepted either.
            return Verdict::Refused(Refusal {
                by: Authority::ApiServer,
                message: "no answer: the API server panics".to_owned(),
                fields: Vec::new(),
            });
        };
        if code == 201 || code == 200 {
            return Verdict::Accepted;
        }
        assert!((400..500).contains(&code) && code != 404, "{path}: {code} {answer}\n{body}");
        let templates = if id.kind == "StatefulSet" { claim_templates(body) } else { 0 };
        // The server names the fields of its own version, which nests the fields that v1beta1 has beside the
        // name.
        let flat = id.group == "resource.k8s.io" && id.version == "v1beta1";
        let place = |path: &str| {
            let path = places::as_written(&places::of_template(path, templates));
            if flat { path.replace(".exactly.", ".") } else { path }
        };
        Verdict::Refused(refusal(&answer, place))
    }

    /// Adds a CustomResourceDefinition, and waits until its first version is served.
    pub(crate) async fn define(&mut self, definition: &Value) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let body = definition.to_string().into_bytes();
        let (code, answer) = self.cluster.post(path, "application/json", body).await;
        assert_eq!(code, 201, "{answer}");
        let spec = &definition["spec"];
        let (group, version) = (text(&spec["group"]), text(&spec["versions"][0]["name"]));
        let plural = text(&spec["names"]["plural"]);
        let list = format!("/apis/{group}/{version}/{plural}");
        self.cluster.until("the definition is served", async || self.cluster.get(&list).await.0 == 200).await;
        let kind = text(&spec["names"]["kind"]).to_owned();
        let served = (plural.to_owned(), spec["scope"] == "Namespaced");
        self.served.insert((group.to_owned(), version.to_owned(), kind), served);
        self.groups.insert(group.to_owned());
    }

    /// Sends a request, and repeats it once: another request on the connection may have broken it.
    async fn post(&self, path: &str, media: &str, body: &str) -> Option<(u16, Value)> {
        for _ in 0..3 {
            let answer = self.cluster.try_send("POST", path, media, body.as_bytes());
            if let Ok((code, _, answer)) = answer.await {
                return Some((code, answer));
            }
        }
        None
    }

    /// A version that no server of the group serves any longer is rejected before the object is read.
    fn not_served(&self, id: &ObjectId) -> Verdict {
        if !self.groups.contains(&id.group) {
            return Verdict::Unserved;
        }
        Verdict::Refused(Refusal {
            by: Authority::ApiServer,
            message: format!("no matches for kind {} in version {}/{}", id.kind, id.group, id.version),
            fields: vec![Field::named("apiVersion", true)],
        })
    }
}

fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The number of volumes that a StatefulSet gets from claim templates.
fn claim_templates(body: &str) -> usize {
    read(&Source::from_text("case.yaml", body))
        .iter()
        .filter_map(Document::root)
        .map(|root| root.path(&["spec", "volumeClaimTemplates"]).items().count())
        .sum()
}

/// Parses a Status that rejects; `place` converts the path of a field to the form of the manifest.
fn refusal(status: &Value, place: impl Fn(&str) -> String) -> Refusal {
    let message = text(&status["message"]).to_owned();
    if message.starts_with("admission webhook") {
        // KEDA's webhooks answer with a sentence.
        return Refusal { by: Authority::KedaAdmission, message, fields: Vec::new() };
    }
    let causes = &status["details"]["causes"];
    let all: Vec<&str> = array(causes).map(|cause| text(&cause["field"])).collect();
    let mut fields: Vec<Field> = array(causes)
        .filter(|cause| {
            // Two causes are not reasons of their own: that errors of the schema came first, and that invalid
            // fields cannot be read.
            let message = text(&cause["message"]);
            !message.contains("some validation rules were not checked") && !message.contains("accessor error")
        })
        .filter_map(|cause| Some((cause["field"].as_str()?, text(&cause["message"]))))
        .filter(|(path, message)| !places::is_echo(path, message, &all))
        .map(|(path, message)| Field {
            missing: message.starts_with("Required value"),
            ..Field::named(&place(path), true)
        })
        .collect();
    if fields.is_empty() {
        fields = decoded_fields(&message);
    }
    Refusal { by: Authority::ApiServer, message, fields }
}

/// The fields in a decoding error, which is one sentence.
fn decoded_fields(message: &str) -> Vec<Field> {
    static STRICT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?:unknown|duplicate) field "([^"]*)""#).unwrap());
    static TYPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"into Go struct field [A-Za-z0-9]+\.(\S+) of type").unwrap());
    let strict = STRICT.captures_iter(message).map(|c| Field::named(&c[1], true));
    let typed = TYPE.captures_iter(message).map(|c| {
        // Go names embedded structs as well, in upper case, as no field of Kubernetes is.
        let is_field = |step: &&str| !step.starts_with(|first: char| first.is_ascii_uppercase());
        let path = &c[1].split('.').filter(is_field).collect::<Vec<_>>().join(".");
        // The metadata of a custom resource is decoded separately, and its fields are named relative to it.
        let whole = ["metadata", "spec", "webhooks"]
            .iter()
            .any(|part| path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
        if whole { Field::named(path, false) } else { Field::named(&format!("metadata.{path}"), false) }
    });
    strict.chain(typed).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
