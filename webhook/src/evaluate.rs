//! What the rules say of an object: enough to decide by and to answer with, without the object.

use std::borrow::Cow;
use std::sync::Arc;

use gpulint_rules::{Authority, Engine, Finding, Index, Object, Pointer, Severity};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::evaluation_cache::{EvaluationCache, Generation};
use crate::kinds;
use crate::wire::Request;

/// Of an object that is stored, what the API server keeps there itself. It says nothing about what
/// somebody wants, and is different in every request.
const SERVER_MANAGED_FIELDS: [&str; 5] =
    ["managedFields", "resourceVersion", "generation", "creationTimestamp", "selfLink"];

/// The rules in force and what is known of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluator<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) index: &'a Index,
    cache: Option<(&'a EvaluationCache, Generation)>,
}

/// What is said of an object.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
}

/// Whether it was judged, and what was found.
#[derive(Debug, Default)]
pub(crate) enum Verdict {
    /// It is no Kubernetes object.
    #[default]
    NoObject,
    /// It is being deleted, or a controller made it from one that is judged itself.
    Exempt,
    /// No rule knows its kind.
    UnknownKind,
    /// What was found, in the order of the rules.
    Findings(Vec<FindingSummary>),
}

/// A finding without its object.
#[derive(Debug)]
pub(crate) struct FindingSummary {
    pub(crate) rule: &'static str,
    pub(crate) severity: Severity,
    pub(crate) rejected_by: Option<Authority>,
    pub(crate) may_be_transient: bool,
    /// There is a fix for it.
    pub(crate) fixable: bool,
    /// The field as the API server writes it; empty where it is the whole object.
    pub(crate) field: String,
    /// The field without the numbers of list items.
    pointer_without_indexes: String,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// What makes two findings the same one: the rule, the place, the words. Places in lists have no
/// number: an item that is put before others makes none of them worse.
pub(crate) type Identity<'a> = (&'static str, &'a str, &'a str);

impl<'a> Evaluator<'a> {
    pub(crate) fn new(engine: &'a Engine, index: &'a Index) -> Evaluator<'a> {
        Evaluator { engine, index, cache: None }
    }

    /// Asks the memory first. `generation` is that of the rules and the index.
    pub(crate) fn with_cache(self, memory: &'a EvaluationCache, generation: Generation) -> Evaluator<'a> {
        Evaluator { cache: Some((memory, generation)), ..self }
    }

    /// What is said of an object of a request.
    pub(crate) fn evaluate(&self, raw: Option<&RawValue>, request: &Request<'_>) -> Arc<Evaluation> {
        let Some(raw) = raw else {
            return Arc::default();
        };
        // Most of what a cluster asks about is this, and each of it comes once.
        if PartialObjectMetadata::read(raw).is_some_and(|head| head.has_checked_controller()) {
            return Arc::new(Evaluation { verdict: Verdict::Exempt, ..Evaluation::default() });
        }
        let Some((memory, generation)) = self.cache else {
            return match normalized_value(raw, request) {
                Some(value) => self.run_rules(&value),
                None => Arc::default(),
            };
        };
        let text = memory.key_of_text(request.namespace.as_deref(), raw.get());
        if let Some(known) = memory.get(generation, text) {
            memory.record_lookup(true);
            return known;
        }
        let Some(value) = normalized_value(raw, request) else {
            return Arc::default();
        };
        let name = memory.key_of_value(&value);
        let known = memory.get(generation, name);
        memory.record_lookup(known.is_some());
        let judgement = known.unwrap_or_else(|| {
            let judgement = self.run_rules(&value);
            memory.insert(generation, name, &judgement);
            judgement
        });
        memory.insert(generation, text, &judgement);
        judgement
    }

    fn run_rules(&self, value: &Value) -> Arc<Evaluation> {
        let object = Object::from_json(value);
        let judgement = object.map(|object| Evaluation::of(self.engine, self.index, &object));
        Arc::new(judgement.unwrap_or_default())
    }
}

impl Evaluation {
    /// What the rules say of an object.
    pub(crate) fn of(engine: &Engine, index: &Index, object: &Object) -> Evaluation {
        let id = object.id();
        let verdict = if has_checked_controller(object) || is_terminating(object) {
            Verdict::Exempt
        } else if !kinds::is_checked(&id.group, &id.kind) {
            Verdict::UnknownKind
        } else {
            let findings = engine.review_object(object, index).findings;
            Verdict::Findings(findings.into_iter().map(FindingSummary::from).collect())
        };
        Evaluation { group: id.group.clone(), kind: id.kind.clone(), name: id.name.clone(), verdict }
    }

    /// What was found; nothing where nothing was judged.
    pub(crate) fn findings(&self) -> &[FindingSummary] {
        match &self.verdict {
            Verdict::Findings(found) => found,
            _ => &[],
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let id = self.group.len() + self.kind.len() + self.name.len();
        let found = self.findings().iter().map(|found| {
            let help = found.help.as_ref().map_or(0, String::len);
            let texts = found.field.len() + found.pointer_without_indexes.len() + found.message.len() + help;
            size_of::<FindingSummary>() + texts
        });
        size_of::<Evaluation>() + id + found.sum::<usize>()
    }
}

impl FindingSummary {
    pub(crate) fn identity(&self) -> Identity<'_> {
        (self.rule, &self.pointer_without_indexes, &self.message)
    }
}

impl From<Finding> for FindingSummary {
    fn from(finding: Finding) -> FindingSummary {
        let pointer = finding.location.pointer();
        FindingSummary {
            rule: finding.rule.id,
            severity: finding.severity,
            rejected_by: finding.rejected_by,
            may_be_transient: finding.may_be_transient,
            fixable: finding.fix.is_some(),
            field: pointer.map(Pointer::field_path).unwrap_or_default(),
            pointer_without_indexes: pointer_without_indexes(&finding),
            message: finding.message,
            help: finding.help,
        }
    }
}

/// The field of a finding without the numbers of list items.
pub(crate) fn pointer_without_indexes(finding: &Finding) -> String {
    let field = finding.location.pointer().map(ToString::to_string);
    let field = field.unwrap_or_default();
    let is_number = |step: &&str| !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
    let steps: Vec<&str> = field.split('/').filter(|step| !is_number(step)).collect();
    steps.join("/")
}

/// An object of a request.
pub(crate) fn object(raw: Option<&RawValue>, request: &Request<'_>) -> Option<Object> {
    Object::from_json(&normalized_value(raw?, request)?)
}

/// An object of a request as the rules see it: with the request's namespace where it does not say
/// one itself, and where it is stored, without what the API server keeps there.
fn normalized_value(raw: &RawValue, request: &Request<'_>) -> Option<Value> {
    let mut value: Value = serde_json::from_str(raw.get()).ok()?;
    if let Some(root) = value.as_object_mut() {
        let mut stored = false;
        let metadata = root.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            if let Some(namespace) = &request.namespace
                && !namespace.is_empty()
            {
                metadata.entry("namespace").or_insert_with(|| Value::String(namespace.clone()));
            }
            if let Some(uid) = metadata.get_mut("uid")
                && uid.is_string()
            {
                // That there is one says where the object comes from.
                *uid = Value::String("0".to_owned());
                stored = true;
                for key in SERVER_MANAGED_FIELDS {
                    metadata.remove(key);
                }
            }
        }
        if stored {
            root.remove("status");
        }
    }
    Some(value)
}

/// Whether a controller made the object from one that was judged itself. To deny a Pod would not
/// stop its Deployment; it would only keep what runs already from being replaced.
pub(crate) fn has_checked_controller(object: &Object) -> bool {
    let owners = object.path(&["metadata", "ownerReferences"]);
    owners.items().any(|owner| {
        let version = owner.get("apiVersion");
        let kind = owner.get("kind");
        owner.get("controller").bool() == Some(true) && is_checked_owner(version.text(), kind.text())
    })
}

fn is_checked_owner(api_version: Option<&str>, kind: Option<&str>) -> bool {
    let group = api_version.map(|v| v.split_once('/').map_or("", |(group, _)| group));
    kinds::checked().iter().any(|k| Some(k.group) == group && Some(k.kind) == kind)
}

/// What tells that an object is not judged, read without the rest of it. Where anything in it is
/// odd it cannot be read, and the whole object is looked at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialObjectMetadata<'a> {
    #[serde(borrow, rename = "apiVersion")]
    _version: Cow<'a, str>,
    #[serde(borrow, rename = "kind")]
    _kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    owner_references: Vec<OwnerReference<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    controller: bool,
}

impl<'a> PartialObjectMetadata<'a> {
    fn read(raw: &'a RawValue) -> Option<PartialObjectMetadata<'a>> {
        serde_json::from_str(raw.get()).ok()
    }

    /// As [`is_derived`].
    fn has_checked_controller(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|o| o.controller && is_checked_owner(Some(&o.api_version), Some(&o.kind)))
    }
}

/// Whether the object is being deleted: what is left is to let its finalizers go.
fn is_terminating(object: &Object) -> bool {
    object.path(&["metadata", "deletionTimestamp"]).is_set()
}

#[cfg(test)]
mod tests {
    use gpulint_rules::{Kind, Settings};
    use serde_json::json;

    use super::*;
    use crate::metrics::Metrics;
    use crate::mutate::{mutate, mutate_with};
    use crate::review::{ReviewContext, review_in_context, review_with};

    /// A GPU pool without a taint, as it is stored.
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

    /// A server's state that changes between requests.
    struct Bench {
        engine: Engine,
        index: Index,
        memory: EvaluationCache,
        metrics: Arc<Metrics>,
        generation: Generation,
    }

    impl Bench {
        fn new() -> Bench {
            let metrics = Arc::new(Metrics::new());
            let mut index = Index::new(false);
            index.mark_complete(Kind::EC2_NODE_CLASS);
            Bench {
                engine: Engine::new(Settings::default()),
                index,
                memory: EvaluationCache::new(Arc::clone(&metrics)),
                metrics,
                generation: Generation::default(),
            }
        }

        /// Answers, by both webhooks and as without a memory; says how often the rules were asked.
        fn ask(&self, body: &[u8]) -> (String, usize) {
            let before = self.by_rules();
            let judge = Evaluator::new(&self.engine, &self.index).with_cache(&self.memory, self.generation);
            let circumstances = ReviewContext::default();
            let validated = review_with(judge, circumstances, body).unwrap();
            let patched = mutate_with(judge, body).unwrap();
            let fresh = review_in_context(&self.engine, &self.index, circumstances, body).unwrap();
            assert_eq!(validated.body, fresh.body);
            assert_eq!((validated.rules, validated.decision), (fresh.rules, fresh.decision));
            let fresh = mutate(&self.engine, &self.index, body).unwrap();
            assert_eq!(patched.body, fresh.body);
            let text = String::from_utf8(validated.body).unwrap();
            (text, self.by_rules() - before)
        }

        fn by_rules(&self) -> usize {
            let text = self.metrics.text();
            let line = "gpulint_judgements_total{by=\"rules\"} ";
            let line = text.lines().find_map(|l| l.strip_prefix(line));
            line.unwrap().parse().unwrap()
        }
    }

    #[test]
    fn an_object_that_comes_again_is_not_judged_again() {
        let bench = Bench::new();
        let (first, asked) = bench.ask(&review("u-1", "CREATE", &pool(), &Value::Null));
        assert_eq!(asked, 1);
        assert!(first.contains("\"u-1\"") && first.contains("\"allowed\":false"), "{first}");
        let (again, asked) = bench.ask(&review("u-2", "CREATE", &pool(), &Value::Null));
        assert_eq!(asked, 0);
        assert_eq!(again, first.replace("u-1", "u-2"));
        // The same findings, and another answer: the update makes nothing worse.
        let (update, asked) = bench.ask(&review("u-3", "UPDATE", &pool(), &pool()));
        assert_eq!(asked, 0);
        assert!(update.contains("\"allowed\":true"), "{update}");
        // What the API server keeps for itself makes no other object of it.
        let mut touched = pool();
        touched["metadata"]["resourceVersion"] = "11".into();
        touched["metadata"]["managedFields"] = json!([]);
        touched["status"] = json!({"resources": {"cpu": "16"}});
        assert_eq!(bench.ask(&review("u-4", "UPDATE", &touched, &Value::Null)).1, 0);
    }

    #[test]
    fn whatever_an_answer_rests_on_is_asked_again_when_it_changes() {
        let mut bench = Bench::new();
        let body = review("u-1", "CREATE", &pool(), &Value::Null);
        let (before, _) = bench.ask(&body);
        assert!(before.contains("node-class-missing"), "{before}");

        // The cluster.
        let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "gpu"}, "spec": {"role": "gpu"}});
        bench.index.apply(Object::from_json(&class).unwrap());
        bench.generation.snapshot += 1;
        let (with_class, asked) = bench.ask(&body);
        assert_eq!(asked, 1);
        assert!(!with_class.contains("node-class-missing"), "{with_class}");

        // The configuration.
        let mut settings = Settings::default();
        settings.webhook.deny = None;
        bench.engine = Engine::new(settings);
        bench.generation.config += 1;
        let (allowed, asked) = bench.ask(&body);
        assert_eq!(asked, 1);
        assert!(allowed.contains("\"allowed\":true"), "{allowed}");

        // The day: a suppression ends with it.
        let mut suppressed = pool();
        suppressed["metadata"]["annotations"] =
            json!({"gpulint.dev/allow": "gpu-pool-untainted until=2026-06-30: being moved"});
        let body = review("u-1", "CREATE", &suppressed, &Value::Null);
        for (day, silent) in [("2026-06-30", true), ("2026-07-01", false)] {
            bench.engine = Engine::new(Settings {
                today: gpulint_rules::facts::date::Date::parse(day),
                ..Settings::default()
            });
            bench.generation.config += 1;
            let (answer, asked) = bench.ask(&body);
            assert_eq!(asked, 1);
            let said = answer.contains("gpulint gpu-pool-untainted: ");
            assert_eq!(said, !silent, "{day}: {answer}");
        }

        // The object, in a word or in an annotation, and the object before it.
        let mut limited = pool();
        limited["spec"]["limits"] = json!({"nvidia.com/gpu": 8});
        let changed = review("u-1", "CREATE", &limited, &Value::Null);
        assert_eq!(bench.ask(&changed).1, 1);
        let update = review("u-1", "UPDATE", &pool(), &limited);
        let (worse, _) = bench.ask(&update);
        assert!(worse.contains("\"allowed\":false"), "{worse}");
        let (same, _) = bench.ask(&review("u-1", "UPDATE", &pool(), &pool()));
        assert!(same.contains("\"allowed\":true"), "{same}");
    }

    #[test]
    fn what_a_controller_made_is_told_from_its_head_as_from_the_whole() {
        let pod = |owners: Value| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "ownerReferences": owners}, "spec": {"containers": []}})
        };
        let owner = |version: &str, kind: &str, controller: Value| json!([{"apiVersion": version, "kind": kind, "name": "a", "controller": controller}]);
        let cases = [
            (pod(Value::Null), false),
            (pod(json!([])), false),
            (pod(owner("apps/v1", "ReplicaSet", true.into())), true),
            (pod(owner("apps/v1", "ReplicaSet", false.into())), false),
            (pod(owner("apps/v1", "ReplicaSet", Value::Null)), false),
            (pod(owner("apps/v1", "ReplicaSet", "true".into())), false),
            (pod(owner("v1", "ReplicaSet", true.into())), false),
            (pod(owner("example.com/v1", "ReplicaSet", true.into())), false),
            (pod(json!([{"controller": true}, "odd"])), false),
            (pod(json!({"controller": true})), false),
            (json!({"kind": "Pod", "metadata": {"ownerReferences": []}}), false),
            (json!([1]), false),
        ];
        for (value, derived) in cases {
            let raw = serde_json::value::to_raw_value(&value).unwrap();
            let head = PartialObjectMetadata::read(&raw).is_some_and(|head| head.has_checked_controller());
            let whole = Object::from_json(&value).is_some_and(|object| has_checked_controller(&object));
            assert_eq!((head, whole), (derived, derived), "{value}");
        }
    }

    #[test]
    fn one_object_in_two_namespaces_is_two() {
        let bench = Bench::new();
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
        let body = |namespace: &str| {
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "operation": "CREATE", "namespace": namespace, "object": object}})
            .to_string()
            .into_bytes()
        };
        assert_eq!(bench.ask(&body("a")).1, 1);
        assert_eq!(bench.ask(&body("b")).1, 1);
        assert_eq!(bench.ask(&body("a")).1, 0);
    }
}
