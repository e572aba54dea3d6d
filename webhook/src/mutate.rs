//! The patch: which fixes an admission request gets, as one JSON Patch.
//!
//! Sent are safe fixes that replace no nodes, and the fixes of rules that the configuration
//! names. Each is applied and the object judged again, until nothing is left, so that an answer
//! to the patched object patches nothing. What a request already carried before an update stays:
//! to change what its author did not touch could make the update itself impossible.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpulint_rules::lint::fix::value;
use gpulint_rules::{Engine, Finding, Fix, Index, Object, Operation, Safety};
use serde_json::Value;

use crate::evaluate::{Evaluator, Verdict, object, pointer_without_indexes};
use crate::review::{
    Decision, ReviewError, ReviewOutcome, encode, is_exempt, kind, operation, parse_request,
};
use crate::wire::{Request, Response};

/// More fixes than this on one object, and something goes in circles.
const MAX_FIXES: usize = 64;

/// Members that admission must leave as they are, or the API server refuses the patch.
const IMMUTABLE_MEMBERS: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

/// Answers an AdmissionReview v1 with the JSON Patch that repairs its object. It never denies.
///
/// # Errors
/// [`ReviewError`] where `body` is no AdmissionReview v1 with a request.
pub fn mutate(engine: &Engine, index: &Index, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    mutate_with(Evaluator::new(engine, index), body)
}

/// As [`mutate()`], by a judge who may remember.
pub(crate) fn mutate_with(judge: Evaluator<'_>, body: &[u8]) -> Result<ReviewOutcome, ReviewError> {
    let request = parse_request(body)?;
    let mut response = Response { uid: request.uid.clone(), allowed: true, ..Response::default() };
    let mut decision = Decision::Allowed;
    let mut rules = Vec::new();
    if is_exempt(judge.engine, &request) {
        decision = Decision::Exempt;
    } else if let Some(repair) = build_patch(judge, &request) {
        response.patch = Some(STANDARD.encode(serde_json::to_vec(&repair.operations)?));
        response.patch_type = Some("JSONPatch");
        decision = Decision::Patched;
        let mut ids = repair.rules.clone();
        ids.dedup();
        response.audit_annotations.insert("patched", ids.join(","));
        rules = repair.rules;
    }
    Ok(ReviewOutcome {
        body: encode(response)?,
        operation: operation(&request),
        kind: kind(&request),
        decision,
        rules,
        unsynced: false,
    })
}

struct Patch {
    operations: Vec<Operation>,
    rules: Vec<&'static str>,
}

fn build_patch(judge: Evaluator<'_>, request: &Request<'_>) -> Option<Patch> {
    let (engine, index) = (judge.engine, judge.index);
    let webhook = &engine.settings().webhook;
    if !webhook.mutate && webhook.mutate_rules.is_empty() {
        return None;
    }
    // Nearly every object ends here, before it is held as a value to patch.
    let judgement = judge.evaluate(request.object, request);
    let is_judged = matches!(judgement.verdict, Verdict::Findings(_));
    if !is_judged || !judgement.findings().iter().any(|found| found.fixable) {
        return None;
    }
    let judge = |object: &Object| engine.review_object(object, index).findings;
    let mut findings = judge(&object(request.object, request)?);
    if !findings.iter().any(|f| applicable_fix(engine, request, f).is_some()) {
        return None;
    }
    let sent: Value = serde_json::from_str(request.object?.get()).ok()?;
    let had: BTreeSet<_> = match request.operation.as_str() {
        "UPDATE" => object(request.old_object, request)
            .map(|old| judge(&old).iter().map(identity).collect())
            .unwrap_or_default(),
        _ => BTreeSet::new(),
    };
    let mut repair = Patch { operations: Vec::new(), rules: Vec::new() };
    let mut patched = sent.clone();
    let mut seen: BTreeSet<String> = BTreeSet::from([patched.to_string()]);
    loop {
        let wanted = findings.iter().filter(|finding| !had.contains(&identity(finding)));
        let next = wanted.filter_map(|finding| {
            let fix = applicable_fix(engine, request, finding)?;
            let after = value::apply(&patched, fix).ok()?;
            let allowed = !value::semantic_eq(&after, &patched)
                && IMMUTABLE_MEMBERS.iter().all(|at| after.pointer(at) == sent.pointer(at));
            allowed.then_some((finding, fix, after))
        });
        let Some((finding, fix, after)) = next.into_iter().next() else {
            break;
        };
        // Two rules that undo each other's work would patch for ever: leave it to a person.
        if repair.rules.len() == MAX_FIXES || !seen.insert(after.to_string()) {
            return None;
        }
        repair.operations.extend(fix.operations.iter().cloned());
        repair.rules.push(finding.rule.id);
        patched = after;
        let raw = serde_json::value::to_raw_value(&patched).ok()?;
        findings = judge(&object(Some(&raw), request)?);
    }
    (!repair.rules.is_empty()).then_some(repair)
}

/// The finding's fix, where it may be applied unseen or the configuration wants it. What replaces
/// nodes is done to new pools alone, whatever the configuration names.
fn applicable_fix<'f>(engine: &Engine, request: &Request<'_>, finding: &'f Finding) -> Option<&'f Fix> {
    let webhook = &engine.settings().webhook;
    let fix = finding.fix.as_ref()?;
    let safe = webhook.mutate && fix.safety == Safety::Safe && !fix.replaces_nodes;
    let named = webhook.mutate_rules.iter().any(|id| id == finding.rule.id);
    let replaces_nodes = fix.replaces_nodes && request.operation != "CREATE";
    // A webhook cannot make other objects.
    ((safe || named) && !replaces_nodes && fix.creates.is_empty()).then_some(fix)
}

/// What makes two findings the same one, as for the decision.
fn identity(finding: &Finding) -> (&'static str, String, String) {
    (finding.rule.id, pointer_without_indexes(finding), finding.message.clone())
}

#[cfg(test)]
mod tests {
    use gpulint_rules::Settings;
    use serde_json::json;

    use super::*;

    /// A pool of plain machines; the one without `consolidateAfter` is what the API server refuses.
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
        let engine = Engine::new(settings);
        let answer = mutate(&engine, &Index::new(false), body.to_string().as_bytes()).unwrap();
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["response"]["allowed"], true);
        let patch = body["response"]["patch"].as_str().map(|patch| {
            assert_eq!(body["response"]["patchType"], "JSONPatch");
            serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap()
        });
        (answer, patch)
    }

    #[test]
    fn a_new_object_is_repaired_and_then_left_alone() {
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
    fn what_an_update_does_not_touch_stays() {
        let before = pool(Value::Null);
        let (_, patch) = ask(Settings::default(), "UPDATE", &before, &before);
        assert_eq!(patch, None);
        let (_, patch) = ask(Settings::default(), "UPDATE", &before, &pool(json!("5m")));
        assert!(patch.is_some());
    }

    /// What a patch makes of an object, under a configuration that names one rule.
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
        // Where pods are kept off Spot, or do not ask for it, they can be protected.
        let protected = switched_on("do-not-disrupt-missing", "CREATE", &on_demand, &Value::Null);
        let annotation = "/spec/template/metadata/annotations/karpenter.sh~1do-not-disrupt";
        assert_eq!(protected.pointer(annotation), Some(&json!("true")));
        let tolerating = switched_on("gpu-toleration-missing", "CREATE", &job, &Value::Null);
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
        // None of them is done unasked.
        assert_eq!(ask(Settings::default(), "CREATE", &job, &Value::Null).1, None);
    }

    #[test]
    fn only_new_pools_get_what_replaces_nodes() {
        let mut gpus = pool(json!("5m"));
        gpus["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["g5", "g6"]);
        let tainted = switched_on("gpu-pool-untainted", "CREATE", &gpus, &Value::Null);
        assert_ne!(tainted, gpus);
        // The pool was one of plain machines before.
        let kept = switched_on("gpu-pool-untainted", "UPDATE", &gpus, &pool(json!("5m")));
        assert_eq!(kept, gpus);
    }

    #[test]
    fn unsafe_fixes_need_their_rules_name() {
        let mut untainted = pool(json!("5m"));
        untainted["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["g5", "g6"]);
        let (_, patch) = ask(Settings::default(), "CREATE", &untainted, &Value::Null);
        assert_eq!(patch, None);
        let mut named = Settings::default();
        named.webhook.mutate_rules = vec!["gpu-pool-untainted".to_owned()];
        let (_, patch) = ask(named, "CREATE", &untainted, &Value::Null);
        assert!(patch.unwrap().to_string().contains("NoSchedule"));
        let mut off = Settings::default();
        off.webhook.mutate = false;
        assert_eq!(ask(off, "CREATE", &pool(Value::Null), &Value::Null).1, None);
    }
}
