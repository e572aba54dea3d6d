//! The pods of Argo workflows: each template with a container becomes a pod template, with what the workflow sets for all.
//!
//! Sources: argoproj/argo-workflows `workflow/controller/workflowpod.go` (`createWorkflowPod`, `addSchedulingConstraints`,
//! `addVolumeReferences`, `addMetadata`, `setupServiceAccount`) of v3.6.10; `resourceClaims` of v4.1.2, which came with 4.1.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::tree::Tree;
use crate::tree::node::Node;
use crate::tree::pointer::{Pointer, PointerMap};

/// Fields that a pod takes from its template, or else from the steps or the DAG that run it, or else from the workflow.
const SCHEDULING: [&str; 3] = ["nodeSelector", "affinity", "tolerations"];

/// Fields that a pod takes from its template, or else from the workflow: the name in the pod and in the workflow.
const SHARED: [(&str, &str); 9] = [
    ("schedulerName", "schedulerName"),
    ("priorityClassName", "podPriorityClassName"),
    ("serviceAccountName", "serviceAccountName"),
    ("automountServiceAccountToken", "automountServiceAccountToken"),
    ("securityContext", "securityContext"),
    ("hostNetwork", "hostNetwork"),
    ("dnsPolicy", "dnsPolicy"),
    ("imagePullSecrets", "imagePullSecrets"),
    ("resourceClaims", "resourceClaims"),
];

/// The value of a field that another object may set.
const UNKNOWN: &str = "{{workflow}}";

/// The pod templates of a workflow, in a list of `metadata` and `spec` at the root of a tree of their own, whose nodes
/// point to the fields of the workflow from which they come.
pub(super) fn pod_templates(object: &Object, workflow: &Node<'_>) -> Tree {
    let mut pods = Pods::new(object, workflow);
    // The workflows that run templates of a library decide where their pods go.
    let is_library = pods.is_template && workflow.get("entrypoint").is_absent();
    // Both change the pods in ways that are not read here.
    let is_patched = workflow.get("templateDefaults").is_set() || workflow.get("podSpecPatch").is_set();
    if !is_library && !is_patched {
        for template in workflow.get("templates").items() {
            pods.add(&template);
        }
    }
    let written = object.tree();
    Tree::from_json(&Value::Array(pods.out)).made_from(Arc::clone(written.0), written.1, pods.places)
}

struct Pods<'a> {
    spec: Node<'a>,
    /// Whether other workflows run the templates, and may set what they leave open.
    is_template: bool,
    /// Whether steps or a DAG set fields for the pods that they run.
    nested: [bool; SCHEDULING.len()],
    out: Vec<Value>,
    places: PointerMap,
}

impl<'a> Pods<'a> {
    fn new(object: &Object, spec: &Node<'a>) -> Pods<'a> {
        let runs_others =
            |template: &Node<'_>| template.get("steps").is_set() || template.get("dag").is_set();
        let nested = SCHEDULING.map(|field| {
            spec.get("templates").items().any(|one| runs_others(&one) && one.get(field).is_set())
        });
        let is_template = object.kind().ends_with("WorkflowTemplate");
        Pods { spec: spec.clone(), is_template, nested, out: Vec::new(), places: PointerMap::default() }
    }

    fn add(&mut self, template: &Node<'a>) {
        if template.get("podSpecPatch").is_set() {
            return;
        }
        let base = Pointer::from_steps([self.out.len().to_string(), "spec".to_owned()]);
        let Value::Object(mut pod) = template.to_json() else { return };
        self.places.insert(base.clone(), template.pointer());
        let Some(mut containers) = self.main_containers(&base, template) else { return };
        for sidecar in template.get("sidecars").items() {
            self.push(&base.join("containers"), &mut containers, &sidecar, sidecar.to_json());
        }
        // A template has no `ephemeralContainers`: the API server drops them, and no pod gets them.
        for field in ["container", "script", "containerSet", "sidecars", "metadata", "ephemeralContainers"] {
            pod.remove(field);
        }
        pod.insert("containers".to_owned(), Value::Array(containers));
        self.add_volumes(&base, template, &mut pod);
        let is_silent = |node: &Node<'_>| SCHEDULING.iter().all(|field| !node.get(field).is_set());
        let is_open = self.is_template && is_silent(template) && is_silent(&self.spec);
        for (at, field) in SCHEDULING.into_iter().enumerate() {
            if is_open || (self.nested[at] && !template.get(field).is_set()) {
                pod.insert(field.to_owned(), json!(UNKNOWN));
            } else {
                self.inherit(&base, template, &mut pod, (field, field));
            }
        }
        for names in SHARED {
            self.inherit(&base, template, &mut pod, names);
        }
        let metadata = self.metadata(template);
        self.out.push(json!({"metadata": metadata, "spec": pod}));
    }

    /// The containers that do the work; `None` for templates that run other templates, or pods of other shapes.
    fn main_containers(&mut self, base: &Pointer, template: &Node<'a>) -> Option<Vec<Value>> {
        let at = base.join("containers");
        let mut out = Vec::new();
        let of_set = template.path(&["containerSet", "containers"]);
        for container in of_set.items() {
            self.push(&at, &mut out, &container, container.to_json());
        }
        for field in ["container", "script"] {
            let container = template.get(field);
            if !container.is_mapping() {
                continue;
            }
            self.places.insert(at.clone(), container.pointer());
            let mut value = container.to_json();
            value["name"] = json!("main");
            // The source is a file whose name is the last argument of the command.
            if let Some(source) = container.get("source").raw_text()
                && container.get("args").is_absent()
            {
                let place = at.join(&out.len().to_string()).join("args");
                self.places.insert(place.join("1"), container.get("source").pointer());
                value["args"] = json!(["-c", source]);
            }
            self.push(&at, &mut out, &container, value);
        }
        (!out.is_empty()).then_some(out)
    }

    fn push(&mut self, list: &Pointer, out: &mut Vec<Value>, written: &Node<'_>, value: Value) {
        self.places.insert(list.join(&out.len().to_string()), written.pointer());
        out.push(value);
    }

    /// The volumes of the template, and those of the workflow and of its claims that a container mounts.
    fn add_volumes(&mut self, base: &Pointer, template: &Node<'a>, pod: &mut Map<String, Value>) {
        let mut volumes = Vec::new();
        let at = base.join("volumes");
        let is_mounted = |name: Node<'_>| name.text().is_none_or(|name| mounts(template, name));
        let is_own = |name: Option<&str>| {
            name.is_some() && template.get("volumes").items().any(|own| own.get("name").text() == name)
        };
        let shared = self.spec.get("volumes");
        let shared = shared.items().filter(|volume| {
            let name = volume.get("name");
            !is_own(name.text()) && is_mounted(name)
        });
        for volume in template.get("volumes").items().chain(shared) {
            self.push(&at, &mut volumes, &volume, volume.to_json());
        }
        for claim in self.spec.get("volumeClaimTemplates").items() {
            let name = claim.path(&["metadata", "name"]);
            if !is_mounted(name.clone()) {
                continue;
            }
            let name = name.to_json();
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": UNKNOWN}});
            self.push(&at, &mut volumes, &claim, volume);
        }
        if !volumes.is_empty() {
            pod.insert("volumes".to_owned(), Value::Array(volumes));
        }
    }

    /// Copies a field of the workflow that the template does not set.
    fn inherit(
        &mut self,
        base: &Pointer,
        template: &Node<'a>,
        pod: &mut Map<String, Value>,
        (name, shared): (&str, &str),
    ) {
        let of_workflow = self.spec.get(shared);
        let own = template.get(name);
        let is_empty = !own.is_set() || (own.items().next().is_none() && own.is_sequence());
        if is_empty && of_workflow.is_set() {
            self.places.insert(base.join(name), of_workflow.pointer());
            pod.insert(name.to_owned(), of_workflow.to_json());
        }
    }

    /// The labels and annotations of the workflow's `podMetadata` and of the template, which wins.
    fn metadata(&mut self, template: &Node<'a>) -> Value {
        let base = Pointer::from_steps([self.out.len().to_string(), "metadata".to_owned()]);
        let own = template.get("metadata");
        self.places.insert(base.clone(), own.pointer());
        let mut out = match own.to_json() {
            Value::Object(map) => Value::Object(map),
            Value::Null => json!({}),
            other => return other,
        };
        for field in ["labels", "annotations"] {
            for (key, value) in self.spec.path(&["podMetadata", field]).entries() {
                if own.get(field).get(key).is_absent() && (out[field].is_object() || out[field].is_null()) {
                    self.places.insert(base.join(field).join(key), value.pointer());
                    out[field][key] = value.to_json();
                }
            }
        }
        out
    }
}

/// Whether a container of a template mounts a volume, or may.
fn mounts(template: &Node<'_>, name: &str) -> bool {
    let single = ["container", "script"].map(|field| template.get(field));
    let lists = [&["containerSet", "containers"][..], &["initContainers"], &["sidecars"]];
    let listed = lists.into_iter().flat_map(|path| template.path(path).items().collect::<Vec<_>>());
    single.into_iter().chain(listed).chain([template.get("containerSet")]).any(|container| {
        let list = container.get("volumeMounts");
        list.has_unknown() || list.items().any(|mount| mount.get("name").text() == Some(name))
    })
}

#[cfg(test)]
mod tests {
    use crate::object::Object;
    use crate::workload::template::templates;
    use serde_json::json;

    #[test]
    fn pods_have_the_volumes_that_they_mount() {
        let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"},
        "spec": {"entrypoint": "a",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "volumeClaimTemplates": [{"metadata": {"name": "work"}, "spec": {}}],
            "templates": [
                {"name": "a", "container": {"image": "x:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}},
                {"name": "b", "script": {"image": "x:1", "source": "pass"}, "volumes": [{"name": "own", "emptyDir": {}}]},
                {"name": "c", "container": {"image": "x:1"},
                 "sidecars": [{"name": "s", "image": "x:1", "volumeMounts": [{"name": "work", "mountPath": "/w"}]}]},
            ]}});
        let object = Object::from_json(&workflow).expect("an object");
        let of_pod = |volumes: Vec<_>| volumes.join(" ");
        let names: Vec<String> = templates(&object)
            .iter()
            .map(|template| {
                let volumes = template.spec.get("volumes");
                of_pod(volumes.items().map(|one| one.get("name").text().unwrap_or("?").to_owned()).collect())
            })
            .collect();
        assert_eq!(names, ["data", "own", "work"]);
    }

    #[test]
    fn a_volume_of_the_template_goes_before_that_of_the_workflow() {
        let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"},
        "spec": {"entrypoint": "a",
            "volumes": [{"name": "data", "emptyDir": {}}],
            "templates": [{"name": "a", "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
                "container": {"image": "x:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}}]}});
        let object = Object::from_json(&workflow).expect("an object");
        let volumes = templates(&object)[0].spec.get("volumes");
        assert_eq!(volumes.items().count(), 1);
        assert_eq!(volumes.index(0).path(&["emptyDir", "medium"]).text(), Some("Memory"));
    }
}
