//! The findings of the rules for an object of a request, reduced to what a decision and a response need.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use gpulint_rules::lint::suppress::ANNOTATION;
use gpulint_rules::{Authority, Cluster, Draft, Engine, Finding, Identity, Object, Pointer, Severity};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::confirm::{Confirmed, ObjectRef};
use crate::evaluation_cache::{EvaluationCache, Generation, HeapSize};
use crate::exemption::{DerivedOwners, Standing};
use crate::kinds;
use crate::wire::Request;

/// Metadata that the API server sets on stored objects. No rule reads it, and it differs between
/// requests for otherwise equal objects.
const SERVER_MANAGED_FIELDS: [&str; 5] =
    ["managedFields", "resourceVersion", "generation", "creationTimestamp", "selfLink"];

/// Labels with the uid of a Job that the API server gives to its pods and to its selector, before it calls validating
/// webhooks: `generateSelector` of `k8s.io/kubernetes/pkg/registry/batch/job`.
const CONTROLLER_UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

pub(crate) type Evaluations = EvaluationCache<Evaluation>;

/// The engine for the current configuration, and the objects of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluator<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) cluster: &'a Cluster,
    /// The objects that were created by controllers and own others.
    pub(crate) derived: Option<&'a DerivedOwners>,
    /// The objects that were read to confirm a denial; `None` if the snapshot is not older than the cluster.
    pub(crate) confirmed: Option<&'a Confirmed>,
    cache: Option<(&'a Evaluations, Generation)>,
}

/// The result of the rules for an object, without the object itself.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
}

/// An evaluation, with the findings that it summarizes if the rules have just run.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub(crate) evaluation: Arc<Evaluation>,
    pub(crate) findings: Option<Vec<Finding>>,
    /// Whether a rule read other objects.
    reads_cluster: bool,
}

/// The findings, or the reason why the rules did not run.
#[derive(Debug, Default)]
pub(crate) enum Verdict {
    /// It is not a Kubernetes object with `apiVersion` and `kind`.
    #[default]
    NoObject,
    /// No rule checks its kind.
    UnknownKind,
    Findings(Vec<FindingSummary>),
}

/// A finding without its object.
#[derive(Debug)]
pub(crate) struct FindingSummary {
    pub(crate) rule: &'static str,
    pub(crate) severity: Severity,
    /// Whether only the API server rejects the object for it.
    pub(crate) is_for_api_server: bool,
    pub(crate) reports_absence: bool,
    /// Whether it is about another object, which names this one.
    pub(crate) from_partner: bool,
    pub(crate) fixable: bool,
    /// The field in the API server's notation; empty if the finding is about the whole object.
    pub(crate) field: String,
    pub(crate) identity: Identity,
    /// Other objects on which the finding depends.
    pub(crate) rests_on: Vec<ObjectRef>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(engine: &'a Engine, cluster: &'a Cluster) -> Evaluator<'a> {
        Evaluator { engine, cluster, derived: None, confirmed: None, cache: None }
    }

    /// Sets the owners that are not in the snapshot.
    pub(crate) fn with_derived(self, derived: &'a DerivedOwners) -> Evaluator<'a> {
        Evaluator { derived: Some(derived), ..self }
    }

    /// Uses another snapshot, without a cache.
    pub(crate) fn on_index<'b>(self, cluster: &'b Cluster) -> Evaluator<'b>
    where
        'a: 'b,
    {
        Evaluator { cluster, cache: None, ..self }
    }

    /// Sets the objects that were read to confirm a denial, initially none. Denials that depend on other objects
    /// become warnings, and are reported for confirmation.
    pub(crate) fn with_confirmed(self, confirmed: &'a Confirmed) -> Evaluator<'a> {
        Evaluator { confirmed: Some(confirmed), ..self }
    }

    /// Looks objects up in `cache` first. `generation` is that of the engine and the snapshot.
    pub(crate) fn with_cache(self, cache: &'a Evaluations, generation: Generation) -> Evaluator<'a> {
        Evaluator { cache: Some((cache, generation)), ..self }
    }

    fn standing(&self, request: &Request<'_>) -> Standing {
        Standing::of(self.engine, request)
    }

    /// Parses an object of a request.
    pub(crate) fn object(&self, raw: &RawValue, request: &Request<'_>) -> Option<Object> {
        Object::from_draft(self.normalized(Draft::read(raw.get()).ok()?, request))
    }

    /// An object of a request in the form that rules read.
    pub(crate) fn normalized(&self, object: Draft, request: &Request<'_>) -> Draft {
        normalized(object, request, self.standing(request))
    }

    /// Evaluates an object of a request.
    pub(crate) fn evaluate(&self, raw: Option<&RawValue>, request: &Request<'_>) -> Arc<Evaluation> {
        self.examine(raw, request).evaluation
    }

    /// Evaluates an object of a request, and returns its findings if the rules ran for it.
    pub(crate) fn examine(&self, raw: Option<&RawValue>, request: &Request<'_>) -> Examined {
        let Some(raw) = raw else {
            return Examined::default();
        };
        let Some((cache, generation)) = self.cache else {
            return self.run_rules(self.object(raw, request), request);
        };
        let is_new = request.operation == "CREATE";
        let context = (request.namespace.as_deref(), is_new, self.standing(request));
        let text_key = cache.key_of_text(context, raw.get());
        if let Some(known) = cache.get(generation, text_key) {
            cache.record_lookup(true);
            return Examined { evaluation: known, ..Examined::default() };
        }
        let Ok(draft) = Draft::read(raw.get()) else {
            return Examined::default();
        };
        let draft = self.normalized(draft, request);
        let value_key = cache.key_of_value(self.standing(request), &draft);
        let known = cache.get(generation, value_key);
        cache.record_lookup(known.is_some());
        if let Some(evaluation) = known {
            // The reads of the cached evaluation are not known any more.
            cache.insert(generation, text_key, &evaluation, true);
            return Examined { evaluation, ..Examined::default() };
        }
        let examined = self.run_rules(Object::from_draft(draft), request);
        for key in [value_key, text_key] {
            cache.insert(generation, key, &examined.evaluation, examined.reads_cluster);
        }
        examined
    }

    /// Caches the findings for a patched object, because the validating webhook receives it next.
    pub(crate) fn remember(
        &self,
        draft: &Draft,
        object: &Object,
        findings: &[Finding],
        request: &Request<'_>,
    ) {
        if let Some((cache, generation)) = self.cache {
            let key = cache.key_of_value(self.standing(request), draft);
            cache.insert(generation, key, &Arc::new(Evaluation::from_findings(object, findings)), true);
        }
    }

    /// The findings for an object, and whether a rule read others. The suppressions of others count like those of the
    /// sender: who wrote them is not known.
    pub(crate) fn check(&self, object: &Object, request: &Request<'_>) -> (Vec<Finding>, bool) {
        let others_suppress = self.standing(request).may_suppress;
        let (report, reads) = self.engine.review_object_with_reads(object, self.cluster, others_suppress);
        (report.findings, reads)
    }

    fn run_rules(&self, object: Option<Object>, request: &Request<'_>) -> Examined {
        let Some(object) = object else {
            return Examined::default();
        };
        let id = object.id();
        if !kinds::is_checked(&id.group, &id.kind) {
            let evaluation = Arc::new(Evaluation::new(&object, Verdict::UnknownKind));
            return Examined { evaluation, ..Examined::default() };
        }
        let (findings, reads_cluster) = self.check(&object, request);
        let evaluation = Arc::new(Evaluation::from_findings(&object, &findings));
        Examined { evaluation, findings: Some(findings), reads_cluster }
    }
}

impl Evaluation {
    fn new(object: &Object, verdict: Verdict) -> Evaluation {
        let id = object.id();
        Evaluation { group: id.group.clone(), kind: id.kind.clone(), name: id.name.clone(), verdict }
    }

    fn from_findings(object: &Object, findings: &[Finding]) -> Evaluation {
        Evaluation::new(object, Verdict::Findings(findings.iter().map(FindingSummary::from).collect()))
    }

    /// The findings; empty if the rules did not run.
    pub(crate) fn findings(&self) -> &[FindingSummary] {
        match &self.verdict {
            Verdict::Findings(found) => found,
            _ => &[],
        }
    }
}

impl HeapSize for Evaluation {
    fn bytes(&self) -> usize {
        let id = self.group.len() + self.kind.len() + self.name.len();
        let found = self.findings().iter().map(|found| {
            let help = found.help.as_ref().map_or(0, String::len);
            let texts = found.field.len() + found.identity.heap_bytes() + found.message.len() + help;
            let refs = found.rests_on.iter().map(|object| size_of::<ObjectRef>() + object.heap_bytes());
            size_of::<FindingSummary>() + texts + refs.sum::<usize>()
        });
        size_of::<Evaluation>() + id + found.sum::<usize>()
    }
}

impl From<&Finding> for FindingSummary {
    fn from(finding: &Finding) -> FindingSummary {
        let pointer = finding.location.pointer();
        FindingSummary {
            identity: finding.identity(),
            rests_on: if finding.rule.reads.is_empty() { Vec::new() } else { ObjectRef::of_finding(finding) },
            rule: finding.rule.id,
            severity: finding.severity,
            is_for_api_server: finding.rejected_by == Some(Authority::ApiServer)
                && finding.otherwise_rejected_by.is_none(),
            reports_absence: finding.reports_absence,
            from_partner: finding.from_partner,
            fixable: finding.fix.is_some(),
            field: pointer.map(Pointer::field_path).unwrap_or_default(),
            message: finding.message.clone(),
            help: finding.help.clone(),
        }
    }
}

/// An object of a request in the form that rules read: with the namespace of the request if it has none, and without
/// what the API server writes: [`SERVER_MANAGED_FIELDS`], the selector of a Job, and the status of a stored object. A new object has a uid at
/// the validating webhook, but none at the mutating one; for the rules it is new at both. Suppressions and owners are
/// removed, from the old object as well, if those of the sender do not count: anybody may have stored them.
fn normalized(mut object: Draft, request: &Request<'_>, standing: Standing) -> Draft {
    if !object.is_mapping(&[]) {
        return object;
    }
    if !standing.may_suppress {
        object.remove(&["metadata", "annotations", ANNOTATION]);
    }
    if !standing.may_own {
        object.remove(&["metadata", "ownerReferences"]);
    }
    if !object.has(&["metadata"]) {
        object.add_mapping(&[], "metadata");
    }
    let is_new = request.operation == "CREATE";
    let has_uid = object.string(&["metadata", "uid"]).is_some();
    if let Some(namespace) = &request.namespace
        && !namespace.is_empty()
        && !object.has(&["metadata", "namespace"])
    {
        object.set_string(&["metadata", "namespace"], namespace);
    }
    if has_uid {
        remove_generated_selector(&mut object);
        for key in SERVER_MANAGED_FIELDS {
            object.remove(&["metadata", key]);
        }
        if is_new {
            object.remove(&["metadata", "uid"]);
        } else {
            // Rules distinguish stored objects from new ones, but not stored objects from each other.
            object.set_string(&["metadata", "uid"], "0");
        }
    } else if object.is_list(&["metadata", "managedFields"]) {
        object.remove(&["metadata", "managedFields"]);
    }
    // The API server adds a status to new objects of its own kinds, and removes it from others.
    let version = object.string(&["apiVersion"]).unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let is_built_in = !group.contains('.') || group.ends_with(".k8s.io");
    if has_uid || (is_built_in && is_new) {
        object.remove(&["status"]);
    }
    object
}

/// Removes the labels of a Job's selector and pods that the API server has generated from its uid.
fn remove_generated_selector(object: &mut Draft) {
    if object.string(&["kind"]) != Some("Job") {
        return;
    }
    let Some(uid) = object.string(&["metadata", "uid"]).map(str::to_owned) else { return };
    for labels in [&["spec", "selector", "matchLabels"][..], &["spec", "template", "metadata", "labels"]] {
        for label in CONTROLLER_UID_LABELS {
            let path = [labels, &[label]].concat();
            if object.string(&path) == Some(&*uid) {
                object.remove(&path);
            }
        }
    }
}

/// The time at which an object was created: its `metadata.creationTimestamp`, which the API server sets.
pub(crate) fn created_at(raw: &RawValue) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        metadata: Created<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created<'a> {
        #[serde(borrow)]
        creation_timestamp: Option<Cow<'a, str>>,
    }
    let stored: Stored<'_> = serde_json::from_str(raw.get()).ok()?;
    let created: Timestamp = stored.metadata.creation_timestamp?.parse().ok()?;
    Some(SystemTime::from(created))
}

/// Whether two versions of an object differ only in metadata other than labels and annotations: owners, finalizers,
/// fields that the API server manages.
pub(crate) fn differ_in_bookkeeping_only(request: &Request<'_>) -> bool {
    let read = |raw: Option<&RawValue>| {
        let mut value = Draft::read(raw?.get()).ok()?.to_json();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| key == "labels" || key == "annotations");
        }
        Some(value)
    };
    let (new, old) = (read(request.object), read(request.old_object));
    new.is_some() && new == old
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use gpulint_rules::source::Source;
    use gpulint_rules::{File, Kind, Settings};
    use gpulint_testing::{fixtures, is_full, lot, relative, sampled, yaml_below};
    use serde_json::json;

    use super::*;
    use crate::metrics::Metrics;
    use crate::mutate::{mutate, mutate_with};
    use crate::review::{ReviewContext, review_in_context, review_with};

    /// A GPU pool without a taint, as stored.
    fn pool() -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "gpu", "uid": "7e1a", "resourceVersion": "10", "generation": 1,
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "managedFields": [{"manager": "kubectl", "operation": "Update"}]},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": [{"key": "karpenter.k8s.aws/instance-family", "operator": "In",
                    "values": ["g5", "g6"]}]}}},
            "status": {"resources": {"cpu": "8"}}})
    }

    fn review(uid: &str, operation: &str, object: &Value, old: &Value) -> Vec<u8> {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": uid, "operation": operation, "name": "gpu",
            "kind": {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"},
            "object": object, "oldObject": old}})
        .to_string()
        .into_bytes()
    }

    /// The parts of a server's state that change between requests.
    struct Server {
        engine: Arc<Engine>,
        cluster: Cluster,
        cache: Evaluations,
        metrics: Arc<Metrics>,
        generation: Generation,
    }

    impl Server {
        fn new() -> Server {
            let mut cluster = Cluster::new(false);
            cluster.mark_complete(Kind::EC2_NODE_CLASS);
            Server::with(Arc::new(Engine::new(Settings::default())), cluster)
        }

        fn with(engine: Arc<Engine>, cluster: Cluster) -> Server {
            let metrics = Arc::new(Metrics::new());
            Server {
                engine,
                cluster,
                cache: Evaluations::new(Arc::clone(&metrics)),
                metrics,
                generation: Generation::default(),
            }
        }

        /// Sends a review to both webhooks and asserts that the responses are the same as without a cache. Returns the
        /// validating response and the number of objects for which the rules ran.
        fn send(&self, body: &[u8]) -> (String, usize) {
            let before = self.by_rules();
            let evaluator =
                Evaluator::new(&self.engine, &self.cluster).with_cache(&self.cache, self.generation);
            let context = ReviewContext { now: Some(SystemTime::now()), ..ReviewContext::default() };
            let validated = review_with(evaluator, context, body).unwrap();
            let patched = mutate_with(evaluator, body).unwrap();
            let fresh = review_in_context(&self.engine, &self.cluster, context, body).unwrap();
            assert_eq!(validated.body, fresh.body);
            assert_eq!((validated.rules, validated.decision), (fresh.rules, fresh.decision));
            let fresh = mutate(&self.engine, &self.cluster, body).unwrap();
            assert_eq!(patched.body, fresh.body);
            let text = String::from_utf8(validated.body).unwrap();
            (text, self.by_rules() - before)
        }

        fn by_rules(&self) -> usize {
            let text = self.metrics.text();
            let line = "gpulint_evaluations_total{by=\"rules\"} ";
            let line = text.lines().find_map(|l| l.strip_prefix(line));
            line.unwrap().parse().unwrap()
        }
    }

    #[test]
    fn an_equal_object_is_evaluated_once() {
        let server = Server::new();
        let (first, evaluated) = server.send(&review("u-1", "CREATE", &pool(), &Value::Null));
        assert_eq!(evaluated, 1);
        assert!(first.contains("\"u-1\"") && first.contains("\"allowed\":false"), "{first}");
        let (again, evaluated) = server.send(&review("u-2", "CREATE", &pool(), &Value::Null));
        assert_eq!(evaluated, 0);
        assert_eq!(again, first.replace("u-1", "u-2"));
        // The stored object has another key, which both versions share; the update adds no findings.
        let (update, evaluated) = server.send(&review("u-3", "UPDATE", &pool(), &pool()));
        assert_eq!(evaluated, 1);
        assert!(update.contains("\"allowed\":true"), "{update}");
        // Fields that the API server manages do not change the key.
        let mut touched = pool();
        touched["metadata"]["resourceVersion"] = "11".into();
        touched["metadata"]["managedFields"] = json!([]);
        touched["status"] = json!({"resources": {"cpu": "16"}});
        assert_eq!(server.send(&review("u-4", "UPDATE", &touched, &Value::Null)).1, 0);
    }

    #[test]
    fn both_webhooks_share_what_is_found_in_a_new_object() {
        let server = Server::new();
        let mutate = |body: &[u8]| {
            let before = server.by_rules();
            let evaluator =
                Evaluator::new(&server.engine, &server.cluster).with_cache(&server.cache, server.generation);
            let answer: Value = serde_json::from_slice(&mutate_with(evaluator, body).unwrap().body).unwrap();
            (answer["response"]["patch"].as_str().map(str::to_owned), server.by_rules() - before)
        };
        // The API server writes these in between.
        let stored = |mut object: Value| {
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.insert("uid".into(), "7e1a".into());
            metadata.insert("generation".into(), 1.into());
            metadata.insert("creationTimestamp".into(), "2026-01-02T03:04:05Z".into());
            metadata.insert("managedFields".into(), json!([{"manager": "kubectl"}, {"manager": "gpulint"}]));
            object
        };
        let mut new = pool();
        new.as_object_mut().unwrap().remove("status");
        let metadata = new["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| key == "name" || key == "managedFields");
        assert_eq!(mutate(&review("u-1", "CREATE", &new, &Value::Null)), (None, 1));
        assert_eq!(server.send(&review("u-2", "CREATE", &stored(new), &Value::Null)).1, 0);

        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ml"},
            "spec": {"containers": [{"name": "a", "image": "a:1"}]}, "status": {}});
        assert_eq!(mutate(&review("u-3", "CREATE", &pod, &Value::Null)), (None, 1));
        let mut admitted = stored(pod);
        admitted["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
        assert_eq!(server.send(&review("u-4", "CREATE", &admitted, &Value::Null)).1, 0);

        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "ml"},
            "spec": {"backoffLimit": 1, "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
                "restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}}, "status": {}});
        let mut admitted = stored(job);
        for label in CONTROLLER_UID_LABELS {
            admitted["spec"]["template"]["metadata"]["labels"][label] = "7e1a".into();
        }
        admitted["spec"]["selector"] = json!({"matchLabels": {CONTROLLER_UID_LABELS[0]: "7e1a"}});
        for (operation, old) in [("CREATE", Value::Null), ("UPDATE", admitted.clone())] {
            let (answer, _) = server.send(&review("u-7", operation, &admitted, &old));
            assert!(!answer.contains("selector"), "{answer}");
        }
        admitted["spec"]["selector"]["matchLabels"][CONTROLLER_UID_LABELS[0]] = "90ab".into();
        let (answer, _) = server.send(&review("u-8", "CREATE", &admitted, &Value::Null));
        assert!(answer.contains("writes a Job's `selector` itself"), "{answer}");

        // Also with a patch.
        let mut misspelt = pool();
        misspelt["metadata"] = json!({"name": "web"});
        misspelt.as_object_mut().unwrap().remove("status");
        misspelt["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["C6i", "m6i"]);
        let (patch, _) = mutate(&review("u-5", "CREATE", &misspelt, &Value::Null));
        let patch =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, patch.unwrap()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut misspelt, &patch).unwrap();
        assert_eq!(server.send(&review("u-6", "CREATE", &stored(misspelt), &Value::Null)).1, 0);
    }

    #[test]
    fn a_change_of_cluster_configuration_date_or_object_is_evaluated_again() {
        let mut server = Server::new();
        let body = review("u-1", "UPDATE", &pool(), &pool());
        let (before, _) = server.send(&body);
        assert!(before.contains("node-class-missing"), "{before}");

        // The cluster.
        let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "gpu"}, "spec": {"role": "gpu"}});
        server.cluster.apply(Object::from_json(&class).unwrap());
        server.generation.snapshot += 1;
        let (with_class, evaluated) = server.send(&body);
        assert_eq!(evaluated, 1);
        assert!(!with_class.contains("node-class-missing"), "{with_class}");

        // The configuration.
        let body = review("u-1", "CREATE", &pool(), &Value::Null);
        let mut settings = Settings::default();
        settings.webhook.deny = None;
        server.engine = Arc::new(Engine::new(settings));
        server.generation.config += 1;
        let (allowed, evaluated) = server.send(&body);
        assert_eq!(evaluated, 1);
        assert!(allowed.contains("\"allowed\":true"), "{allowed}");

        // The date: a suppression expires.
        let mut suppressed = pool();
        suppressed["metadata"]["annotations"] =
            json!({"gpulint.dev/allow": "gpu-pool-untainted until=2026-06-30: being moved"});
        let body = review("u-1", "CREATE", &suppressed, &Value::Null);
        for (day, silent) in [("2026-06-30", true), ("2026-07-01", false)] {
            let today = gpulint_rules::facts::date::Date::parse(day);
            server.engine = Arc::new(Engine::new(Settings { today, ..Settings::default() }));
            server.generation.config += 1;
            let (answer, evaluated) = server.send(&body);
            assert_eq!(evaluated, 1);
            let reported = answer.contains("gpulint gpu-pool-untainted: ");
            assert_eq!(reported, !silent, "{day}: {answer}");
        }

        // The object, and the old object of an update.
        let mut limited = pool();
        limited["spec"]["limits"] = json!({"nvidia.com/gpu": 8});
        let changed = review("u-1", "CREATE", &limited, &Value::Null);
        assert_eq!(server.send(&changed).1, 1);
        let update = review("u-1", "UPDATE", &pool(), &limited);
        let (worse, _) = server.send(&update);
        assert!(worse.contains("\"allowed\":false"), "{worse}");
        let (same, _) = server.send(&review("u-1", "UPDATE", &pool(), &pool()));
        assert!(same.contains("\"allowed\":true"), "{same}");
    }

    #[test]
    fn what_rests_on_no_other_object_is_evaluated_once_for_all_snapshots() {
        let mut server = Server::new();
        let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": "gpu"}, "spec": {}});
        let body = review("u-1", "CREATE", &class, &Value::Null);
        assert_eq!(server.send(&body).1, 1);
        let other = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "gpu"}, "spec": {"role": "gpu"}});
        server.cluster.apply(Object::from_json(&other).unwrap());
        server.generation.snapshot += 1;
        assert_eq!(server.send(&body).1, 0);
        server.cluster.mark_complete(Kind::NODE_POOL);
        server.generation.snapshot += 1;
        server.generation.complete += 1;
        assert_eq!(server.send(&body).1, 1);
    }

    /// Asks about a third of the fixtures, each object four times with the cache and without; with `FULL` about all.
    #[test]
    fn no_answer_depends_on_the_cache() {
        let mut settings = Settings::default();
        settings.webhook.deny = Some(Severity::Warning);
        settings.webhook.warn = Some(Severity::Info);
        let engine = Arc::new(Engine::new(settings));
        let (mut looked_up, mut by_rules) = (0, 0);
        let is_asked = |path: &PathBuf| is_full() || lot(path, 3) == 0;
        for path in sampled(yaml_below(&fixtures().join("rules"))).into_iter().filter(is_asked) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let objects = File::read(Source::from_text(&relative(&path), &text)).objects;
            let objects: Vec<Value> = objects.iter().map(|object| object.root().to_json()).collect();
            if text.len() > 10_000 || objects.len() > 12 {
                continue;
            }
            let mut cluster = Cluster::new(true);
            objects.iter().filter_map(Object::from_json).for_each(|object| cluster.apply(object));
            let mut server = Server::with(Arc::clone(&engine), cluster);
            for object in objects.iter().filter(|object| object["metadata"]["name"].is_string()) {
                let create = review("u", "CREATE", object, &Value::Null);
                // `send` compares both answers with those without a cache.
                server.send(&review("u", "UPDATE", object, object));
                server.send(&create);
                assert_eq!(server.send(&create).1, 0, "{}", path.display());
                server.generation.snapshot += 1;
                by_rules += server.send(&create).1;
                looked_up += 1;
            }
        }
        // Some depend on no other object, so they are valid for the next snapshot.
        assert!(looked_up > 150 && by_rules < looked_up, "{by_rules} of {looked_up}");
    }

    #[test]
    fn equal_objects_in_two_namespaces_are_evaluated_separately() {
        let server = Server::new();
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
        let body = |namespace: &str| {
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "operation": "CREATE", "namespace": namespace, "object": object}})
            .to_string()
            .into_bytes()
        };
        assert_eq!(server.send(&body("a")).1, 1);
        assert_eq!(server.send(&body("b")).1, 1);
        assert_eq!(server.send(&body("a")).1, 0);
    }
}
