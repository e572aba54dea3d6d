//! The pods that controllers make of the pod templates in custom resources.
//!
//! The API server validates the template of a Deployment, and not that of a custom resource: it rejects the pods when the
//! controller creates them, or the Job, the StatefulSet or the ReplicaSet around them. So the templates are checked as pods,
//! as far as the controller takes them as they are written.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::template::{is_workflow, templates, workflow_spec};

use super::acceptor::ValidationOptions;
use super::check::{field_names, schema_at, validation_options};
use super::compiled::CompiledSchema;
use super::validation::{Completion, ControlledTemplate, validate_pods};
use super::violation::{InvalidKind, MAX_VIOLATIONS, Subject, Violation, ViolationKind};
use super::{core, errors, structural};

/// What the controllers of an API group do with pod templates. An empty kind stands for all kinds of the group that have no entry.
///
/// Sources: KubeRay 1.2 to 1.7 `controllers/ray/common/pod.go`, MPI Operator 0.8 `pkg/controller/mpi_job_controller.go`, JobSet
/// 0.12 `pkg/controllers/volume_claim_policy.go`, Knative Serving 1.20 `pkg/apis/serving/k8s_validation.go`, Argo Workflows 4.0
/// `workflow/controller/workflowpod.go` (`addVolumeReferences`).
static CONTROLLERS: [Controller; 12] = [
    Controller::of("", "ReplicationController", Completion::Nothing, &[]).handing_over(),
    Controller::of("argoproj.io", "Rollout", Completion::Nothing, &[]).handing_over(),
    // What a workflow leaves open is set by the defaults of the controller.
    Controller::of("argoproj.io", "", Completion::Fields, &[]),
    Controller::of("batch.volcano.sh", "", Completion::Nothing, &[]),
    Controller::of("jobset.x-k8s.io", "", Completion::Nothing, &[]).handing_over(),
    Controller::of("keda.sh", "", Completion::Nothing, &[]).handing_over(),
    Controller::of(
        "kubeflow.org",
        "",
        Completion::Nothing,
        &["ssh-auth", "mpi-job-config", "mpi-job-kubectl"],
    ),
    Controller::of("leaderworkerset.x-k8s.io", "", Completion::Nothing, &[]),
    Controller::of("ray.io", "", Completion::Nothing, &RAY_VOLUMES),
    // The name of a container, its port, and where a probe connects.
    Controller::of("serving.knative.dev", "", Completion::Fields, &[]).handing_over(),
    // Both merge the template with that of a runtime.
    Controller::of("serving.kserve.io", "", Completion::Lists, &[]).handing_over(),
    Controller::of("trainer.kubeflow.org", "", Completion::Lists, &[]).handing_over(),
];

/// The controllers of other groups may merge the template with another one, as Spark does with its command line.
static OTHERS: Controller = Controller::of("", "", Completion::Lists, &[]);

/// The volumes that KubeRay adds, some of them only where an option asks for them.
const RAY_VOLUMES: [&str; 5] = ["gcs-storage", "ray-logs", "ray-tls", "ray-token", "shared-mem"];

/// Fields that only the template of Knative has beside those of a pod.
const KNATIVE_FIELDS: [&str; 4] =
    ["containerConcurrency", "idleTimeoutSeconds", "responseStartTimeoutSeconds", "timeoutSeconds"];

/// Fields that only the containers of Argo's workflows have.
const WORKFLOW_FIELDS: [&str; 3] = ["dependencies", "mirrorVolumeMounts", "source"];

struct Controller {
    group: &'static str,
    kind: &'static str,
    completion: Completion,
    /// The names of volumes that it adds.
    volumes: &'static [&'static str],
    /// Whether it gives the template to a Deployment, a ReplicaSet or a Job, of which the API server validates it.
    hands_over: bool,
}

/// A part of a pod that has a type of Kubernetes.
struct Part<'a> {
    node: Node<'a>,
    /// The name of the type, without its package.
    of: &'static str,
}

impl Controller {
    const fn of(
        group: &'static str,
        kind: &'static str,
        completion: Completion,
        volumes: &'static [&'static str],
    ) -> Controller {
        Controller { group, kind, completion, volumes, hands_over: false }
    }

    const fn handing_over(self) -> Controller {
        Controller { hands_over: true, ..self }
    }

    /// The controller that makes pods of an object. `None` for kinds whose templates the API server validates.
    fn find(object: &Object) -> Option<&'static Controller> {
        let info = object.kind_info().filter(|info| !info.has_core_schema())?;
        if info.workload.is_none() && !is_serving_runtime(object) {
            return None;
        }
        let mut of_group = CONTROLLERS.iter().filter(|one| one.group == object.group());
        Some(of_group.find(|one| one.kind.is_empty() || one.kind == object.kind()).unwrap_or(&OTHERS))
    }

    /// The names of the volumes of an object's pods that are not written in the template. `None` if they are not known.
    fn added_volumes<'a>(&self, object: &'a Object) -> Option<BTreeSet<&'a str>> {
        if self.completion == Completion::Lists {
            return None;
        }
        let mut names: BTreeSet<&str> = self.volumes.iter().copied().collect();
        let spec = object.get("spec");
        let mut lists: Vec<Node<'a>> = vec![spec.path(&["leaderWorkerTemplate", "volumeClaimTemplates"])];
        lists.extend(spec.get("volumeClaimPolicies").items().map(|policy| policy.get("templates")));
        if let Some(workflow) = workflow_spec(object) {
            // The volumes are those of the workflow that runs the templates.
            if object.kind().ends_with("WorkflowTemplate") || workflow.get("workflowTemplateRef").is_set() {
                return None;
            }
            lists.extend(["volumes", "volumeClaimTemplates"].map(|field| workflow.get(field)));
        }
        for list in lists {
            if list.is_unknown() {
                return None;
            }
            for item in list.items() {
                let name = item.get("name");
                let name = if name.is_set() { name } else { item.path(&["metadata", "name"]) };
                names.insert(name.text()?);
            }
        }
        Some(names)
    }
}

/// Whether the object has the pod that KServe completes for each model, in its `spec`.
fn is_serving_runtime(object: &Object) -> bool {
    object.group() == "serving.kserve.io"
        && matches!(object.kind(), "ServingRuntime" | "ClusterServingRuntime")
}

/// The metadata and the spec of each pod that a controller makes of an object.
fn pods(object: &Object) -> Vec<(Node<'_>, Node<'_>)> {
    if is_serving_runtime(object) {
        let specs = [object.get("spec"), object.path(&["spec", "workerSpec"])];
        return specs.into_iter().map(|spec| (spec.clone(), spec)).collect();
    }
    templates(object).into_iter().map(|template| (template.metadata, template.spec)).collect()
}

/// The parts of a pod that are written as in Kubernetes.
fn parts<'a>(object: &Object, spec: &Node<'a>) -> Vec<Part<'a>> {
    let part = |node: Node<'a>, of: &'static str| node.is_set().then_some(Part { node, of });
    if !is_workflow(object) {
        let model = spec.get("model");
        let model = part(model, "Container").filter(|_| object.is(Kind::INFERENCE_SERVICE));
        return part(spec.clone(), "PodSpec").into_iter().chain(model).collect();
    }
    // The other fields of a template are those of Argo.
    const LISTS: [(&str, &str); 5] = [
        ("containers", "Container"),
        ("initContainers", "Container"),
        ("volumes", "Volume"),
        ("tolerations", "Toleration"),
        ("hostAliases", "HostAlias"),
    ];
    const MAPS: [(&str, &str); 2] = [("affinity", "Affinity"), ("securityContext", "PodSecurityContext")];
    let items = LISTS.into_iter().flat_map(|(list, of)| spec.get(list).items().map(move |item| (item, of)));
    let maps = MAPS.into_iter().map(|(field, of)| (spec.get(field), of));
    items.chain(maps).filter_map(|(node, of)| part(node, of)).collect()
}

fn type_name(of: &str) -> String {
    format!("io.k8s.api.core.v1.{of}")
}

/// The definition of a field of a pod, by its pointer in the object.
pub(super) fn definition_at(object: &Object, field: &Pointer) -> Option<&'static Value> {
    Some(find_definition(object, field)?.0)
}

/// The names of the fields that a pod, or its controller, knows at a pointer in the object.
pub(super) fn fields_at(object: &Object, field: &Pointer) -> Vec<String> {
    let Some((definition, is_part)) = find_definition(object, field) else { return Vec::new() };
    let of_controller = if is_part { extensions(object) } else { &[] };
    let mut names = field_names(definition);
    names.extend(of_controller.iter().map(|name| (*name).to_owned()));
    names
}

/// The definition of a field of a pod, and whether it is a part itself.
fn find_definition(object: &Object, field: &Pointer) -> Option<(&'static Value, bool)> {
    Controller::find(object)?;
    let pods = pods(object);
    let mut parts = pods.iter().flat_map(|(_, spec)| parts(object, spec));
    parts.find_map(|part| {
        let at = part.node.pointer();
        let below = field.steps().strip_prefix(at.steps())?;
        Some((schema_at(core::definition(&type_name(part.of))?, below)?, below.is_empty()))
    })
}

/// Appends the violations of the pods that a controller makes of an object, except for those that are known. `declared` gives
/// the structural schema of the kind.
pub(super) fn check<'s>(object: &Object, declared: impl Fn() -> Option<&'s Value>, out: &mut Vec<Violation>) {
    let Some(controller) = Controller::find(object) else { return };
    let volumes = controller.added_volumes(object);
    for (metadata, spec) in pods(object) {
        if out.len() >= MAX_VIOLATIONS || !spec.is_mapping() {
            continue;
        }
        let completion = controller.completion;
        let mut found = Vec::new();
        for part in parts(object, &spec) {
            add_of_type(object, &part, &declared, &mut found);
        }
        let containers = spec.pointer().join("containers");
        let template = ControlledTemplate {
            metadata,
            spec,
            completion,
            volumes: volumes.as_ref(),
            is_handed_over: controller.hands_over,
        };
        validate_pods(object, &template, MAX_VIOLATIONS - out.len(), &mut found);
        found.retain(|violation| {
            // The definition of the kind says whether a template needs containers.
            violation.pointer != containers
                && !(completion != Completion::Nothing && is_missing(violation))
                // A field that another part of a workflow sets.
                && (is_missing(violation) || object.root().at(&violation.pointer).is_set() || !is_workflow(object))
                && !out.iter().any(|known| is_same(known, violation))
        });
        let subject = match completion {
            _ if controller.group.is_empty() && !controller.kind.is_empty() => Subject::Object,
            Completion::Lists => Subject::MergedPods,
            Completion::Nothing | Completion::Fields => Subject::Pods,
        };
        out.extend(found.into_iter().map(|violation| Violation { subject, ..violation }));
    }
}

fn is_missing(violation: &Violation) -> bool {
    matches!(violation.kind, ViolationKind::Missing | ViolationKind::Invalid { of: InvalidKind::Missing, .. })
}

/// Whether two violations are about one mistake. A schema reports the item of a list that is there twice, and the validation its name.
fn is_same(known: &Violation, other: &Violation) -> bool {
    let is_item = matches!(known.kind, ViolationKind::Duplicate { .. });
    known.pointer == other.pointer || (is_item && known.pointer == other.pointer.above(1))
}

/// Appends the violations of a part of a pod against its type.
fn add_of_type<'s>(
    object: &Object,
    part: &Part<'_>,
    declared: &impl Fn() -> Option<&'s Value>,
    out: &mut Vec<Violation>,
) {
    let schema = CompiledSchema::of_type(&structural::core_reference(&type_name(part.of)));
    let Some((tree, slot)) = part.node.value_slot() else { return };
    let options =
        ValidationOptions { has_placeholders: tree.may_have_placeholders, ..validation_options(object) };
    if schema.accepts(tree, slot, options).is_valid {
        return;
    }
    for violation in errors::violations(&schema, tree, slot) {
        let pointer = part.node.at(&violation.pointer).pointer();
        let is_known_field = || is_extension(object, &violation.pointer) || is_declared(declared(), &pointer);
        if violation.kind != ViolationKind::Unknown || !is_known_field() {
            out.push(Violation { pointer, ..violation });
        }
    }
}

/// Whether a field of a part is not that of a pod, but of its controller.
fn is_extension(object: &Object, field: &Pointer) -> bool {
    let [name] = field.steps() else { return false };
    object.group() == "serving.kserve.io" || extensions(object).contains(&name.as_str())
}

/// The names of the fields of the controller beside those of a part.
fn extensions(object: &Object) -> &'static [&'static str] {
    match object.group() {
        "serving.knative.dev" => &KNATIVE_FIELDS,
        _ if is_workflow(object) => &WORKFLOW_FIELDS,
        _ => &[],
    }
}

/// Whether the schema of a kind says which fields there are beside a field.
fn is_declared(schema: Option<&Value>, field: &Pointer) -> bool {
    let above = schema.and_then(|schema| schema_at(schema, field.above(1).steps()));
    above.is_some_and(|above| above.get("properties").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kind::definitions::CustomResourceDefinitions;
    use crate::object::Object;
    use crate::schema::violation::Subject;
    use crate::schema::violations;

    /// The violations of an object: their fields and what is rejected.
    fn found(api_version: &str, kind: &str, spec: Value) -> Vec<(String, Subject)> {
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let object = Object::from_json(&object).expect("an object");
        let all = violations(&object, &CustomResourceDefinitions::default()).into_owned();
        all.into_iter().map(|violation| (violation.pointer.field_path(), violation.subject)).collect()
    }

    /// A container that requests more than its limit.
    fn container() -> Value {
        let resources = json!({"requests": {"cpu": 2}, "limits": {"cpu": 1}});
        json!({"name": "a", "image": "registry.example.com/a:1", "resources": resources})
    }

    #[test]
    fn requests_are_within_limits() {
        let template = json!({"spec": {"containers": [container()]}});
        let request =
            |at: &str, subject| vec![(format!("{at}.containers[0].resources.requests.cpu"), subject)];
        let head = json!({"headGroupSpec": {"rayStartParams": {}, "template": template}});
        let at = "spec.headGroupSpec.template.spec";
        assert_eq!(found("ray.io/v1", "RayCluster", head), request(at, Subject::Pods));
        let replicas = json!({"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}});
        let at = "spec.pytorchReplicaSpecs.Worker.template.spec";
        assert_eq!(found("kubeflow.org/v1", "PyTorchJob", replicas), request(at, Subject::Pods));
        let knative = json!({"template": template});
        assert_eq!(
            found("serving.knative.dev/v1", "Service", knative.clone()),
            request("spec.template.spec", Subject::Pods)
        );
        let controller = found("v1", "ReplicationController", knative);
        assert_eq!(controller, request("spec.template.spec", Subject::Object));
        let predictor = json!({"predictor": {"containers": [container()]}});
        let service = found("serving.kserve.io/v1beta1", "InferenceService", predictor);
        assert_eq!(service, request("spec.predictor", Subject::MergedPods));
        let workflow = json!({"entrypoint": "a", "templates": [{"name": "a", "container": container()}]});
        let at = "spec.templates[0].container.resources.requests.cpu".to_owned();
        assert_eq!(found("argoproj.io/v1alpha1", "Workflow", workflow), [(at, Subject::Pods)]);
    }

    #[test]
    fn what_the_definition_rejects_is_rejected_once() {
        let containers = json!([container(), container()]);
        let template = json!({"spec": {"containers": containers}});
        let trigger = json!({"type": "cron", "metadata": {"timezone": "UTC", "start": "0 1 * * *",
            "end": "0 2 * * *", "desiredReplicas": "1"}});
        let job = json!({"triggers": [trigger], "jobTargetRef": {"template": template}});
        let places: Vec<String> =
            found("keda.sh/v1alpha1", "ScaledJob", job).into_iter().map(|(at, _)| at).collect();
        let at = "spec.jobTargetRef.template.spec.containers";
        let request = |index: usize| format!("{at}[{index}].resources.requests.cpu");
        assert_eq!(places, [format!("{at}[1]"), request(0), request(1)]);
    }
}
