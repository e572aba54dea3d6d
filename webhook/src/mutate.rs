//! Mutation: the fixes of an object as one JSON Patch.
//!
//! Applies safe fixes that replace no nodes, and fixes of rules that the configuration names. After each fix the rules
//! run again, until none is left, so that the patched object gets no further patch (reinvocation is idempotent).
//! Findings that the old object of an update also has are not fixed: changing a field that the client did not touch
//! could make the update fail.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpulint_rules::lint::fix::rounds::{FixOutcome, FixTarget};
use gpulint_rules::lint::fix::value;
use gpulint_rules::lint::settings::Mutation;
use gpulint_rules::{Cluster, Draft, Engine, Finding, Fix, Identity, Object, Operation, Safety};
use serde_json::Value;

use crate::evaluate::Evaluator;
use crate::exemption::{is_derived, is_exempt};
use crate::review::{Decision, ReviewError, ReviewOutcome, bounded, encode, kind, operation, parse_request};
use crate::wire::{Request, Response};

/// Maximum number of fixes of one object; more indicate fixes that undo each other.
const MAX_FIXES: usize = 64;

/// Members that a mutating webhook must not change.
const IMMUTABLE_MEMBERS: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

/// Answers an AdmissionReview v1 with the JSON Patch of the object's fixes. It never denies.
///
/// # Errors
/// [`ReviewError`] if `body` is not an AdmissionReview v1 with a request.
pub fn mutate(engine: &Engine, cluster: &Cluster, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    mutate_with(Evaluator::new(engine, cluster), body)
}

/// Like [`mutate()`], with an evaluator that may have a cache.
pub(crate) fn mutate_with(evaluator: Evaluator<'_>, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let mut response = Response { uid: request.uid.clone(), allowed: true, ..Response::default() };
    let mut decision = Decision::Allowed;
    let mut rules = Vec::new();
    if is_exempt(evaluator.engine, &request)
        || is_derived(evaluator.engine, evaluator.cluster, evaluator.derived, &request)
    {
        decision = Decision::Exempt;
    } else if let Some(patch) = build_patch(evaluator, &request) {
        let sends = evaluator.engine.settings().webhook.mutate != Mutation::Warn;
        response.warnings = repair_warnings(&patch, sends);
        decision = Decision::Warned;
        if sends {
            response.patch = Some(STANDARD.encode(serde_json::to_vec(&patch.operations)?));
            response.patch_type = Some("JSONPatch");
            decision = Decision::Patched;
            let mut ids = patch.rules.clone();
            ids.dedup();
            response.audit_annotations.insert("patched", ids.join(","));
        }
        rules = patch.rules;
    }
    Ok(ReviewOutcome {
        body: encode(response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision,
        rules,
        unsynced: false,
        to_confirm: Vec::new(),
        rivals: None,
    })
}

struct Patch {
    operations: Vec<Operation>,
    rules: Vec<&'static str>,
    descriptions: Vec<Description>,
}

/// The effect of a fix.
enum Description {
    /// Sets a scalar, possibly replacing another one.
    Wrote { new: String, old: Option<String> },
    /// Any other fix, described by its title.
    Titled(String),
}

/// A warning for each fix, so that the manifest can be corrected.
fn repair_warnings(patch: &Patch, sent: bool) -> Vec<String> {
    const HINT: &str = "change it in your manifest";
    let repairs = patch.rules.iter().zip(&patch.descriptions).map(|(rule, description)| {
        let wrote = if sent { "wrote" } else { "would write" };
        let text = match description {
            Description::Wrote { new, old: Some(old) } => format!("{wrote} `{new}` for `{old}`; {HINT}"),
            Description::Wrote { new, old: None } => format!("{wrote} `{new}`; {HINT}"),
            Description::Titled(title) if sent => format!("repaired: {title}; {HINT}"),
            Description::Titled(title) => format!("would {title}; {HINT}"),
        };
        format!("gpulint {rule}: {text}")
    });
    bounded(repairs.collect())
}

impl Description {
    fn of(fix: &Fix) -> Description {
        let scalar = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        let described = match fix.operations.as_slice() {
            [Operation::Test { value: old, .. }, Operation::Replace { value: new, .. }] => {
                scalar(new).zip(scalar(old)).map(|(new, old)| Description::Wrote { new, old: Some(old) })
            }
            [Operation::Add { path, value }] => {
                let key = path.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
                let is_index = key == "-" || key.bytes().all(|byte| byte.is_ascii_digit());
                let value = scalar(value).filter(|_| !is_index);
                value.map(|value| Description::Wrote { new: format!("{key}: {value}"), old: None })
            }
            _ => None,
        };
        described.unwrap_or_else(|| Description::Titled(fix.title.clone()))
    }
}

fn build_patch(evaluator: Evaluator<'_>, request: &Request<'_>) -> Option<Patch> {
    let engine = evaluator.engine;
    let webhook = &engine.settings().webhook;
    if webhook.mutate == Mutation::Off && webhook.mutate_rules.is_empty() {
        return None;
    }
    // Most objects have no fix, which the cached evaluation shows without parsing the object again.
    let examined = evaluator.examine(request.object, request);
    if !examined.evaluation.findings().iter().any(|found| found.fixable) {
        return None;
    }
    let findings = match examined.findings {
        Some(findings) => findings,
        None => evaluator.check(&evaluator.object(request.object?, request)?, request).0,
    };
    if !findings.iter().any(|f| applicable_fix(engine, request, f).is_some()) {
        return None;
    }
    let sent = request.object?.get();
    let sent: Value =
        serde_json::from_str(sent).or_else(|_| Draft::read(sent).map(|sent| sent.to_json())).ok()?;
    // The validating webhook also evaluates the old object.
    let before = match request.operation.as_str() {
        "UPDATE" => evaluator.evaluate(request.old_object, request),
        _ => Arc::default(),
    };
    let old_findings = before.findings().iter().map(|found| found.identity.clone()).collect();
    let patch = Patch { operations: Vec::new(), rules: Vec::new(), descriptions: Vec::new() };
    let mut target = ObjectToFix {
        evaluator,
        request,
        patched: sent.clone(),
        sent,
        old_findings,
        patch,
        is_readable: true,
    };
    let first = target.edit(&findings);
    let outcome = Engine::fix(&mut target, first);
    // If two rules undo each other's fixes, a person has to decide.
    let is_whole = outcome == FixOutcome::Stable && target.is_readable;
    let patch = target.patch;
    (is_whole && !patch.rules.is_empty() && patch.rules.len() <= MAX_FIXES).then_some(patch)
}

/// The object of a request while fixes are applied to it.
struct ObjectToFix<'r> {
    evaluator: Evaluator<'r>,
    request: &'r Request<'r>,
    sent: Value,
    patched: Value,
    /// Findings of the old object, whose fixes are not applied.
    old_findings: BTreeSet<Identity>,
    patch: Patch,
    /// Whether the patched value could be parsed as an object after each fix.
    is_readable: bool,
}

/// One fix with the resulting value.
struct ObjectEdit {
    rule: &'static str,
    operations: Vec<Operation>,
    description: Description,
    value: Value,
}

impl ObjectToFix<'_> {
    /// The first applicable fix that changes something.
    fn edit(&self, findings: &[Finding]) -> Vec<(usize, ObjectEdit)> {
        let new = findings.iter().filter(|finding| !self.old_findings.contains(&finding.identity()));
        let edits = new.filter_map(|finding| {
            let fix = applicable_fix(self.evaluator.engine, self.request, finding)?;
            let value = value::apply(&self.patched, fix).ok()?;
            let allowed = !value::semantic_eq(&value, &self.patched)
                && IMMUTABLE_MEMBERS.iter().all(|at| value.pointer(at) == self.sent.pointer(at));
            let edit = ObjectEdit {
                rule: finding.rule.id,
                operations: fix.operations.clone(),
                description: Description::of(fix),
                value,
            };
            allowed.then_some((0, edit))
        });
        edits.take(1).collect()
    }
}

impl FixTarget for ObjectToFix<'_> {
    type Edit = ObjectEdit;

    fn plan(&mut self, only: Option<&BTreeSet<usize>>) -> Vec<(usize, ObjectEdit)> {
        // There is one unit, which was checked after its last edit.
        if only.is_none() {
            return Vec::new();
        }
        let draft = self.evaluator.normalized(Draft::of(&self.patched), self.request);
        match Object::from_draft(draft.clone()) {
            Some(object) => {
                let (findings, _) = self.evaluator.check(&object, self.request);
                let edits = self.edit(&findings);
                if edits.is_empty() {
                    self.evaluator.remember(&draft, &object, &findings, self.request);
                }
                edits
            }
            None => {
                self.is_readable = false;
                Vec::new()
            }
        }
    }

    fn content(&self, _: usize) -> Option<Cow<'_, str>> {
        Some(self.patched.to_string().into())
    }

    fn edited(edit: &ObjectEdit) -> Cow<'_, str> {
        edit.value.to_string().into()
    }

    fn apply(&mut self, _: usize, edit: ObjectEdit) {
        self.patch.operations.extend(edit.operations);
        self.patch.rules.push(edit.rule);
        self.patch.descriptions.push(edit.description);
        self.patched = edit.value;
    }
}

/// The fix of a finding if it is safe, or if the configuration names its rule. A fix that replaces nodes is only
/// applied to new objects, regardless of the configuration.
fn applicable_fix<'f>(engine: &Engine, request: &Request<'_>, finding: &'f Finding) -> Option<&'f Fix> {
    let webhook = &engine.settings().webhook;
    let fix = finding.fix.as_ref()?;
    let safe = webhook.mutate != Mutation::Off && fix.safety == Safety::Safe && !fix.replaces_nodes;
    let named = webhook.mutate_rules.iter().any(|id| id == finding.rule.id);
    let replaces_nodes = fix.replaces_nodes && request.operation != "CREATE";
    // A patch cannot create other objects.
    ((safe || named) && !replaces_nodes && fix.creates.is_empty()).then_some(fix)
}

#[cfg(test)]
mod tests {
    use gpulint_rules::Settings;
    use gpulint_rules::platform::{Product, Version};
    use serde_json::json;

    use super::*;

    /// A pool without accelerators. Without `consolidateAfter` the API server rejects it before Karpenter 1.15.
    fn pool(consolidate_after: Value) -> Value {
        let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "web", "annotations": {}},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "web"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c6i", "m6i"]}
                ]}},
            "limits": {"cpu": 100},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}
        }});
        if !consolidate_after.is_null() {
            pool["spec"]["disruption"]["consolidateAfter"] = consolidate_after;
        }
        pool
    }

    fn ask(
        settings: Settings,
        operation: &str,
        object: &Value,
        old: &Value,
    ) -> (ReviewOutcome, Option<Value>) {
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "name": "gpu", "operation": operation, "object": object, "oldObject": old}});
        let mut settings = settings;
        settings.platform.state(Product::Karpenter, Version::new(1, 14));
        let engine = Engine::new(settings);
        let answer = mutate(&engine, &Cluster::new(false), body.to_string().as_bytes()).unwrap();
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["response"]["allowed"], true);
        let patch = body["response"]["patch"].as_str().map(|patch| {
            assert_eq!(body["response"]["patchType"], "JSONPatch");
            serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap()
        });
        (answer, patch)
    }

    #[test]
    fn the_patched_object_gets_no_further_patch() {
        let before = pool(Value::Null);
        let (answer, patch) = ask(Settings::default(), "CREATE", &before, &Value::Null);
        assert_eq!(answer.decision, Decision::Patched);
        assert_eq!(answer.rules, ["consolidate-after-missing"]);
        let patch: json_patch::Patch = serde_json::from_value(patch.unwrap()).unwrap();
        let mut after = before;
        json_patch::patch(&mut after, &patch).unwrap();
        let (answer, patch) = ask(Settings::default(), "CREATE", &after, &Value::Null);
        assert_eq!((answer.decision, patch), (Decision::Allowed, None));
    }

    #[test]
    fn each_repair_is_said() {
        let warnings = |settings: Settings, object: &Value| {
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u-1", "operation": "CREATE", "object": object}});
            let engine = Engine::new(settings);
            let answer = mutate(&engine, &Cluster::new(false), body.to_string().as_bytes()).unwrap();
            let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
            (body["response"]["warnings"].take(), body["response"]["patch"].is_string(), answer.decision)
        };
        let mut misspelt = pool(json!("5m"));
        misspelt["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["C6i", "m6i"]);
        let (warnings_sent, patched, decision) = warnings(Settings::default(), &misspelt);
        assert_eq!(
            warnings_sent,
            json!(["gpulint requirement-value-unknown: wrote `c6i` for `C6i`; change it in your manifest"])
        );
        assert!(patched && decision == Decision::Patched);
        let mut older = Settings::default();
        older.platform.state(Product::Karpenter, Version::new(1, 14));
        let (warnings_sent, _, _) = warnings(older, &pool(Value::Null));
        assert!(warnings_sent.to_string().contains("; change it in your manifest"), "{warnings_sent}");
        // Only warned about.
        let mut only = Settings::default();
        only.webhook.mutate = Mutation::Warn;
        let (warnings_sent, patched, decision) = warnings(only, &misspelt);
        assert_eq!(
            warnings_sent,
            json!([
                "gpulint requirement-value-unknown: would write `c6i` for `C6i`; change it in your manifest"
            ])
        );
        assert!(!patched && decision == Decision::Warned);
    }

    #[test]
    fn findings_of_the_old_object_are_not_fixed() {
        let before = pool(Value::Null);
        let (_, patch) = ask(Settings::default(), "UPDATE", &before, &before);
        assert_eq!(patch, None);
        let (_, patch) = ask(Settings::default(), "UPDATE", &before, &pool(json!("5m")));
        assert!(patch.is_some());
    }

    /// The patched object, under a configuration that names one rule.
    fn switched_on(rule: &str, operation: &str, object: &Value, old: &Value) -> Value {
        let mut settings = Settings::default();
        settings.webhook.mutate_rules = vec![rule.to_owned()];
        let (answer, patch) = ask(settings.clone(), operation, object, old);
        let mut after = object.clone();
        let Some(patch) = patch else { return after };
        assert!(answer.rules.contains(&rule), "{:?}", answer.rules);
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
        assert_eq!(ask(settings, operation, &after, old).1, None, "{after}");
        after
    }

    fn training(resources: Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bert", "namespace": "ml"},
            "spec": {"backoffLimit": 3, "template": {"metadata": {"labels": {"app": "bert"}}, "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"karpenter.sh/capacity-type": "spot"},
                "containers": [{"name": "trainer", "image": "registry.example.com/ml/bert:v3",
                    "command": ["torchrun", "--nproc_per_node=1", "train.py"], "resources": resources}]}}}})
    }

    #[test]
    fn each_mutation_can_be_switched_on_by_its_rule() {
        let job = training(json!({"limits": {"nvidia.com/gpu": 1}}));
        let pod = "/spec/template/spec";
        let on_demand = switched_on("training-on-spot", "CREATE", &job, &Value::Null);
        assert_eq!(
            on_demand.pointer(&format!("{pod}/nodeSelector/karpenter.sh~1capacity-type")),
            Some(&json!("on-demand"))
        );
        // Pods that cannot run on Spot capacity can be protected from disruption.
        let protected = switched_on("do-not-disrupt-missing", "CREATE", &on_demand, &Value::Null);
        let annotation = "/spec/template/metadata/annotations/karpenter.sh~1do-not-disrupt";
        assert_eq!(protected.pointer(annotation), Some(&json!("true")));
        // EKS itself adds the toleration for whole GPUs.
        let slice = training(json!({"limits": {"nvidia.com/mig-1g.10gb": 1}}));
        let tolerating = switched_on("gpu-toleration-missing", "CREATE", &slice, &Value::Null);
        assert_eq!(
            tolerating.pointer(&format!("{pod}/tolerations")),
            Some(&json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]))
        );
        let requests = training(json!({"requests": {"nvidia.com/gpu": 1}}));
        let limited = switched_on("gpu-limit-mismatch", "CREATE", &requests, &Value::Null);
        assert_eq!(
            limited.pointer(&format!("{pod}/containers/0/resources/limits")),
            Some(&json!({"nvidia.com/gpu": 1}))
        );
        // None of these fixes is applied by default.
        assert_eq!(ask(Settings::default(), "CREATE", &job, &Value::Null).1, None);
    }

    #[test]
    fn fixes_that_replace_nodes_are_for_new_pools() {
        let mut gpus = pool(json!("5m"));
        gpus["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["g5", "g6"]);
        let tainted = switched_on("gpu-pool-untainted", "CREATE", &gpus, &Value::Null);
        assert_ne!(tainted, gpus);
        // The old pool had no accelerators.
        let kept = switched_on("gpu-pool-untainted", "UPDATE", &gpus, &pool(json!("5m")));
        assert_eq!(kept, gpus);
    }

    #[test]
    fn unsafe_fixes_need_the_name_of_their_rule() {
        let mut untainted = pool(json!("5m"));
        untainted["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["g5", "g6"]);
        let (_, patch) = ask(Settings::default(), "CREATE", &untainted, &Value::Null);
        assert_eq!(patch, None);
        let mut named = Settings::default();
        named.webhook.mutate_rules = vec!["gpu-pool-untainted".to_owned()];
        let (_, patch) = ask(named, "CREATE", &untainted, &Value::Null);
        assert!(patch.unwrap().to_string().contains("NoSchedule"));
        let mut off = Settings::default();
        off.webhook.mutate = Mutation::Off;
        assert_eq!(ask(off, "CREATE", &pool(Value::Null), &Value::Null).1, None);
    }
}
