//! Tests of the decisions on requests.

use super::*;
use gpulint_rules::Settings;
use serde_json::json;

fn pool(extra: Value) -> Value {
    let mut spec = json!({
        "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            "requirements": [
                {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
            ]}},
        "limits": {"nvidia.com/gpu": 8},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m",
                       "budgets": [{"nodes": "10%"}]}
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec})
}

fn ask(operation: &str, object: Value, old: Value) -> Value {
    let engine = Engine::new(Settings::default());
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "name": "gpu", "operation": operation, "object": object, "oldObject": old}});
    let answer = review(&engine, &Cluster::new(false), body.to_string().as_bytes()).unwrap();
    serde_json::from_slice::<Value>(&answer).unwrap()["response"].take()
}

#[test]
fn a_denial_has_the_form_of_a_validation_error() {
    let answer = ask("CREATE", pool(json!({"limits": null})), Value::Null);
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["uid"], "u-1");
    assert_eq!(answer["status"]["code"], 422);
    assert_eq!(answer["status"]["reason"], "Invalid");
    assert_eq!(answer["status"]["details"]["name"], "gpu");
    assert_eq!(answer["status"]["details"]["group"], "karpenter.sh");
    let causes = answer["status"]["details"]["causes"].as_array().unwrap();
    let taint = causes.iter().find(|c| c["field"] == "spec.template.spec.taints").unwrap();
    assert!(answer["auditAnnotations"]["denied"].as_str().unwrap().contains("gpu-pool-untainted"));
    let message = taint["message"].as_str().unwrap();
    assert!(message.starts_with("gpulint gpu-pool-untainted: "), "{message}");
    let help = &causes[causes.len() - 2];
    let explained = help["message"].as_str().unwrap();
    for rule in answer["auditAnnotations"]["denied"].as_str().unwrap().split(',') {
        assert!(explained.contains(&format!("`gpulint explain {rule}`")), "{explained}");
    }
    let help = causes.last().unwrap();
    let denied = answer["auditAnnotations"]["denied"].as_str().unwrap();
    let suppressed: Vec<String> = denied.split(',').map(|rule| format!("{rule}: the reason")).collect();
    assert!(suppressed.len() > 1, "{denied}");
    let wanted = format!("to let this object pass, write \"{}\"", suppressed.join("; "));
    assert_eq!(help["field"], "metadata.annotations[gpulint.dev/allow]");
    assert_eq!(help["message"], wanted.as_str());
    assert!(causes.iter().all(|cause| cause["field"] != ""), "{causes:?}");
    assert!(answer["status"]["message"].as_str().unwrap().ends_with(&wanted));
}

/// What an API server returns as it was sent: nested deeper than `serde_json` reads, halves of surrogate pairs.
#[test]
fn an_object_with_odd_json_is_judged() {
    let body = |operation: &str, odd: &str, old: &str| {
        let with = |odd: &str, more: Value| pool(more).to_string().replace("\"ODD\"", odd);
        let new = with(odd, json!({"limits": null, "extra": "ODD"}));
        let old = with(old, json!({"extra": "ODD"}));
        format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {{"uid": "u", "operation": "{operation}", "object": {new}, "oldObject": {old}}}}}"#
        )
    };
    let engine = Engine::new(Settings::default());
    let deep = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    for odd in [deep(127), deep(200), deep(9_990), r#""\ud83d""#.to_owned(), "1e999".to_owned()] {
        for (operation, old) in [("CREATE", "1"), ("UPDATE", odd.as_str())] {
            let body = body(operation, &odd, old);
            let outcome =
                review_in_context(&engine, &Cluster::new(false), ReviewContext::default(), body.as_bytes());
            let outcome = outcome.unwrap();
            assert_eq!(outcome.decision, Decision::Denied, "{operation}");
            assert!(crate::mutate::mutate(&engine, &Cluster::new(false), body.as_bytes()).is_ok());
        }
    }
}

#[test]
fn an_object_that_is_being_deleted_is_judged_when_its_spec_changes() {
    let going = |limits: Value, finalizers: Value| {
        let mut pool = pool(json!({"limits": limits}));
        pool["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        pool["metadata"]["finalizers"] = finalizers;
        pool
    };
    let some = json!({"nvidia.com/gpu": 8});
    let old = going(some.clone(), json!(["a", "b"]));
    let decide = |new: &Value| {
        let answer = ask("UPDATE", new.clone(), old.clone());
        (answer["allowed"].clone(), answer["warnings"].is_null())
    };
    let mut released = going(some, json!([]));
    released["status"] = json!({"nodes": 1});
    assert_eq!(decide(&released), (true.into(), true));
    assert_eq!(decide(&going(Value::Null, json!([]))).0, false);
}

#[test]
fn a_denial_is_bounded() {
    let odd: Vec<Value> = (0..300)
        .map(|n| json!({"key": format!("karpenter.sh/{n}-{}", "x".repeat(3000)), "operator": "Inside"}))
        .collect();
    let mut pool = pool(json!({}));
    pool["spec"]["template"]["spec"]["requirements"] = odd.into();
    let answer = ask("CREATE", pool, Value::Null);
    let causes = answer["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), MAX_CAUSES + 3, "{}", causes.len());
    let more = causes[MAX_CAUSES]["message"].as_str().unwrap();
    assert!(more.starts_with("gpulint: ") && more.ends_with(" more findings"), "{more}");
    let length = answer.to_string().len();
    assert!(length < 500_000, "{length}");
}

#[test]
fn an_update_that_adds_no_finding_gets_warnings() {
    let answer = ask("UPDATE", pool(json!({"weight": 10})), pool(json!({})));
    assert_eq!(answer["allowed"], true);
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("gpu-pool-untainted"), "{warnings}");
}

#[test]
fn an_old_fault_that_moved_in_its_list_does_not_deny() {
    // The message names the place: `spec.template.spec.requirements[1].operator` does not accept `Inside`.
    let requirements = |items: &[Value]| {
        let mut pool = pool(json!({}));
        pool["spec"]["template"]["spec"]["requirements"] = Value::from(items);
        pool["spec"]["template"]["spec"]["taints"] =
            json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]);
        pool
    };
    let good = json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6"]});
    let bad = json!({"key": "example.com/a", "operator": "Inside", "values": ["x"]});
    let other = json!({"key": "example.com/b", "operator": "Within", "values": ["x"]});
    let old = requirements(&[good.clone(), bad.clone()]);
    let moved = requirements(&[bad.clone(), good.clone()]);
    let answer = ask("CREATE", moved.clone(), Value::Null);
    assert_eq!(answer["allowed"], false, "{answer}");
    assert!(answer["status"]["message"].to_string().contains("requirements[0]"), "{answer}");
    let answer = ask("UPDATE", moved, old.clone());
    assert_eq!(answer["allowed"], true, "{answer}");
    // The same invalid value again, or another one in its place, is a new fault.
    let answer = ask("UPDATE", requirements(&[bad.clone(), good.clone(), bad]), old.clone());
    assert_eq!(answer["allowed"], false, "{answer}");
    let answer = ask("UPDATE", requirements(&[other, good]), old);
    assert_eq!(answer["allowed"], false, "{answer}");
}

#[test]
fn another_number_in_the_words_is_no_new_fault() {
    let scaled = |min: u32| {
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": {"name": "chat", "namespace": "ml"},
            "spec": {"scaleTargetRef": {"name": "chat"}, "minReplicaCount": min, "maxReplicaCount": 1,
                "triggers": [{"type": "cron", "metadata": {"timezone": "UTC", "start": "0 8 * * *",
                    "end": "0 18 * * *", "desiredReplicas": "1"}}]}})
    };
    let created = ask("CREATE", scaled(3), Value::Null);
    assert!(created["status"]["message"].to_string().contains('3'), "{created}");
    let answer = ask("UPDATE", scaled(2), scaled(3));
    assert_eq!(answer["allowed"], true, "{answer}");
}

#[test]
fn of_a_long_suppression_the_first_entries_count() {
    let mut pool = pool(json!({}));
    let others: Vec<String> = (0..20_000).map(|n| format!("rule-{n}: the team agreed")).collect();
    let text = |first: &str, last: &str| format!("{first}{}{last}", others.join("; "));
    let denied = |pool: &Value| {
        let answer = ask("CREATE", pool.clone(), Value::Null);
        let causes = answer["status"]["details"]["causes"].to_string();
        assert!(answer["warnings"].to_string().contains("more than 512 entries"), "{answer}");
        (answer["allowed"] == false, causes.contains("gpulint gpu-pool-untainted: "))
    };
    pool["metadata"]["annotations"] = json!({ANNOTATION: text("gpu-pool-untainted: agreed; ", "")});
    assert_eq!(denied(&pool), (true, false), "names of unknown rules deny");
    pool["metadata"]["annotations"] = json!({ANNOTATION: text("", "; gpu-pool-untainted: agreed")});
    assert_eq!(denied(&pool), (true, true));
}

#[test]
fn a_warning_that_becomes_an_error_is_new() {
    let finding = |severity| {
        let pool = pool(json!({"limits": null}));
        let object = gpulint_rules::Object::from_json(&pool).unwrap();
        let mut found = Engine::new(Settings::default()).check_object(&object, &Cluster::new(false));
        found.retain(|finding| finding.rule.id == "gpu-pool-untainted");
        found[0].severity = severity;
        FindingSummary::from(&found[0])
    };
    let (warning, error) = (finding(Severity::Warning), finding(Severity::Error));
    let engine = Engine::new(Settings::default());
    let cluster = Cluster::new(false);
    let request: Request<'_> = serde_json::from_str(r#"{"uid": "u", "operation": "UPDATE"}"#).unwrap();
    let denied = |new: FindingSummary, old: FindingSummary| {
        let evaluator = Evaluator::new(&engine, &cluster);
        let thresholds = thresholds(evaluator, &request);
        let new = [new];
        sort(evaluator, ReviewContext::default(), &request, (&new, &[old]), thresholds).denied.len()
    };
    assert_eq!(denied(error, warning), 1);
    assert_eq!(denied(finding(Severity::Error), finding(Severity::Error)), 0);
    assert_eq!(denied(finding(Severity::Warning), finding(Severity::Error)), 0);
}

#[test]
fn deletions_and_subresources_are_exempt() {
    assert_eq!(ask("DELETE", Value::Null, pool(json!({})))["allowed"], true);
    let engine = Engine::new(Settings::default());
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "UPDATE", "subResource": "status", "object": pool(json!({}))}});
    let answer = review(&engine, &Cluster::new(false), body.to_string().as_bytes()).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["allowed"], true);
}

fn decide(extra: &Value) -> ReviewOutcome {
    let engine = Engine::new(Settings::default());
    let mut request = json!({"uid": "u-1", "name": "gpu", "operation": "CREATE", "object": pool(json!({}))});
    request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let cluster = Cluster::new(false);
    review_in_context(&engine, &cluster, ReviewContext::default(), body.to_string().as_bytes()).unwrap()
}

/// 2026-01-01T00:00:00Z.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// Reviews a request of the API server.
fn live(settings: Settings, cluster: &Cluster, request: &Value) -> (ReviewOutcome, Value) {
    let context =
        ReviewContext { from_api_server: true, cluster_is_fed: true, is_syncing: true, now: Some(now()) };
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let engine = Engine::new(settings);
    let answer = review_in_context(&engine, cluster, context, body.to_string().as_bytes()).unwrap();
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
    (answer, body["response"].take())
}

/// The settings of a configuration file.
fn configured(text: &str) -> Settings {
    let config = gpulint_rules::lint::config::Config::parse("gpulint.yaml", text).unwrap();
    config.resolve()
}

#[test]
fn findings_that_the_api_server_rejects_an_object_do_not_deny_its_requests() {
    // Our schemas do not have the field; the schema of the API server, which has accepted it, is newer.
    let object = pool(json!({"fromTheFuture": true}));
    let request = json!({"uid": "u", "operation": "CREATE", "object": object});
    let complete = Cluster::new(true);
    let (_, by_hand) = {
        let answer = decide(&json!({"object": object}));
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
        (answer, body["response"].take())
    };
    let fields = |response: &Value| response["status"]["details"]["causes"].to_string();
    assert!(fields(&by_hand).contains("spec.fromTheFuture"), "{by_hand}");

    let (_, response) = live(Settings::default(), &complete, &request);
    // Other findings still deny.
    assert!(fields(&response).contains("gpu-pool-untainted"), "{response}");
    assert!(!fields(&response).contains("fromTheFuture"), "{response}");
    let warnings = response["warnings"].to_string();
    assert!(warnings.contains("fromTheFuture"), "{response}");
    let taken = &response["auditAnnotations"]["taken-by-api-server"];
    assert_eq!(taken, "unknown-field", "{response}");
}

#[test]
fn a_version_that_karpenter_does_not_read_denies_although_it_is_served() {
    let mut old = pool(json!({}));
    old["apiVersion"] = "karpenter.sh/v1beta1".into();
    let request = json!({"uid": "u", "operation": "CREATE", "object": old});
    let decision = |karpenter: &str| {
        // The rules of the new API look at old objects as well.
        let rules = "rules: {nodepool: off, nodeclass: off, disruption: off, gpu: off, scheduling: off}";
        let settings = configured(&format!("platform: {{{karpenter}}}\n{rules}"));
        live(settings, &Cluster::new(true), &request).0
    };
    let denied = decision("karpenter: \"1.14\"");
    assert_eq!(denied.decision, Decision::Denied);
    assert!(denied.rules.contains(&"karpenter-legacy-api"), "{:?}", denied.rules);
    // Karpenter 1.0 reads it, and may be installed.
    for karpenter in ["karpenter: \"1.0\"", ""] {
        let warned = decision(karpenter);
        assert_eq!(warned.decision, Decision::Warned, "{karpenter}: {warned:?}");
        assert!(warned.rules.contains(&"karpenter-legacy-api"), "{:?}", warned.rules);
    }
}

#[test]
fn what_is_absent_denies_nothing_and_warns_on_updates_of_old_objects() {
    // A pool and its node class, or a Deployment and its PDB, are often applied together, in any order.
    let stored = |mut object: Value, created: &str| {
        object["metadata"]["uid"] = "7e1a".into();
        object["metadata"]["creationTimestamp"] = created.into();
        object
    };
    let mut tainted = pool(json!({}));
    let taint = json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]);
    tainted["spec"]["template"]["spec"]["taints"] = taint;
    let server = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "chat"}}, "template": {
            "metadata": {"labels": {"app": "chat"}},
            "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.8.4",
                "args": ["--model", "m"], "ports": [{"containerPort": 8000}],
                "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "chat"}}}});
    for (object, rule) in [(tainted, "node-class-missing"), (server, "pdb-missing"), (budget, "pdb-selector")]
    {
        let ask = |old: Value| {
            let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
            let request = json!({"uid": "u", "operation": operation, "object": object, "oldObject": old});
            let settings = configured("webhook: {deny: warning, warn: info}");
            let (_, response) = live(settings, &Cluster::new(true), &request);
            let denied = response["status"].to_string().contains(rule);
            (denied, response["warnings"].to_string().contains(rule))
        };
        // The old object has no findings, so that those of the new one are new.
        let old = |created: &str| {
            let mut old = stored(object.clone(), created);
            old["spec"] = json!({});
            old
        };
        assert_eq!(ask(Value::Null), (false, false), "{rule}");
        assert_eq!(ask(old("2025-12-31T23:50:01Z")), (false, false), "{rule}");
        assert_eq!(ask(old("2025-12-31T23:49:59Z")), (false, true), "{rule}");
        assert_eq!(ask(old("yesterday")), (false, false), "{rule}");
    }
}

#[test]
fn kinds_that_are_not_listed_yet_give_a_warning() {
    let request = json!({"uid": "u", "operation": "CREATE", "object": pool(json!({}))});
    let said = |response: &Value| response["warnings"].to_string().contains("not all known");
    let (answer, response) = live(Settings::default(), &Cluster::new(false), &request);
    assert!(answer.unsynced && said(&response), "{response}");
    // The API server does not list it: the log and `/readyz` tell.
    let context = ReviewContext { from_api_server: true, cluster_is_fed: true, ..ReviewContext::default() };
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let engine = Engine::new(Settings::default());
    let answer =
        review_in_context(&engine, &Cluster::new(false), context, body.to_string().as_bytes()).unwrap();
    assert!(answer.unsynced && !String::from_utf8(answer.body).unwrap().contains("not all known"));
    let (answer, response) = live(Settings::default(), &Cluster::new(true), &request);
    assert!(!answer.unsynced && !said(&response), "{response}");
    // All kinds that rules about pools read are complete.
    let mut cluster = Cluster::new(false);
    for kind in kinds::watched() {
        cluster.mark_complete(*kind);
    }
    let (answer, response) = live(Settings::default(), &cluster, &request);
    assert!(!answer.unsynced && !said(&response), "{response}");
}

#[test]
fn a_finding_that_moves_within_a_list_is_not_new() {
    let requirement = json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["many"]});
    let mut old = pool(json!({}));
    let requirements = |pool: &mut Value, at: usize, item: &Value| {
        let list = pool["spec"]["template"]["spec"]["requirements"].as_array_mut();
        list.unwrap().insert(at, item.clone());
    };
    requirements(&mut old, 3, &requirement);
    let mut new = old.clone();
    let other = json!({"key": "example.com/team", "operator": "In", "values": ["ml"]});
    requirements(&mut new, 0, &other);
    assert_eq!(ask("CREATE", new.clone(), Value::Null)["allowed"], false);
    let answer = ask("UPDATE", new.clone(), old.clone());
    assert_eq!(answer["allowed"], true, "{answer}");
    // A second finding of the same identity is new.
    requirements(&mut new, 5, &requirement);
    let answer = ask("UPDATE", new, old);
    assert_eq!(answer["allowed"], false, "{answer}");
}

#[test]
fn namespaces_and_suppressions_as_configured() {
    let chart = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "tools", "annotations": {
            "gpulint.dev/allow": "do-not-disrupt-invalid-value: the next release reads it",
            "karpenter.sh/do-not-disrupt": "yes"}},
        "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}});
    let request = json!({"uid": "u", "operation": "CREATE", "namespace": "tools", "object": chart});
    let decision = |text: &str| live(configured(text), &Cluster::new(true), &request).0.decision;
    let suppressed = decision("{}");
    assert!(matches!(suppressed, Decision::Allowed | Decision::Warned), "{suppressed:?}");
    let forbidden = "webhook: {forbid-suppressions: [do-not-disrupt-invalid-value]}";
    assert_eq!(decision(forbidden), Decision::Denied);
    let exempt = "webhook: {forbid-suppressions: [do-not-disrupt-invalid-value], exempt-namespaces: [tools]}";
    assert_eq!(decision(exempt), Decision::Exempt);
}

#[test]
fn namespaces_have_thresholds_of_their_own() {
    let config = "webhook:\n  exempt-namespaces: [\"infra-*\"]\n  namespaces:\n  \
                  - {names: [\"team-*\"], selector: {matchLabels: {stage: dev}}, deny: off}\n  \
                  - {names: [\"team-*\"], deny: warning}\n  \
                  - {selector: {matchLabels: {stage: dev}}, deny: off, warn: off}\n  \
                  - {selector: {matchExpressions: [{key: stage, operator: NotIn, values: [prod, dev]}, \
                     {key: owner, operator: DoesNotExist}]}, deny: off}\n";
    let mut cluster = Cluster::new(true);
    for (name, stage) in
        [("team-a", "prod"), ("team-b", "dev"), ("other", "prod"), ("lab", "dev"), ("try", "test")]
    {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"stage": stage}}});
        cluster.apply(gpulint_rules::Object::from_json(&namespace).unwrap());
    }
    // An error and a warning.
    let decision = |namespace: &str, error: bool| {
        let annotation = if error { "yes" } else { "true" };
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": namespace,
                "annotations": {"karpenter.sh/do-not-disrupt": annotation}},
            "spec": {"restartPolicy": "Never", "nodeSelector": {"karpenter.sh/capacity-type": "spot"},
                "containers": [{"name": "trainer", "image": "registry.example.com/ml/bert:v3",
                "command": ["torchrun", "train.py"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}});
        let request = json!({"uid": "u", "operation": "CREATE", "namespace": namespace, "object": pod});
        live(configured(config), &cluster, &request).0.decision
    };
    for (namespace, error, expected) in [
        ("team-a", false, Decision::Denied),
        ("team-b", true, Decision::Warned),
        // Its labels are not known, so that the second entry fits.
        ("team-c", false, Decision::Denied),
        ("other", true, Decision::Denied),
        ("other", false, Decision::Warned),
        ("lab", true, Decision::Allowed),
        ("try", true, Decision::Warned),
        // An unknown namespace may have any labels.
        ("unseen", true, Decision::Denied),
        ("infra-dns", true, Decision::Exempt),
    ] {
        assert_eq!(decision(namespace, error), expected, "{namespace} {error}");
    }
}

#[test]
fn suppressions_count_of_those_who_may_suppress() {
    let pod = |allow: &str| {
        let mut annotations = json!({"karpenter.sh/do-not-disrupt": "yes"});
        if !allow.is_empty() {
            annotations["gpulint.dev/allow"] = allow.into();
        }
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "tools", "annotations": annotations},
            "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}})
    };
    let config = "webhook: {may-suppress: {users: [admin], groups: [sre]}}";
    let ask = |user: &str, groups: &[&str], new: &str, old: Option<&str>| {
        let mut request = json!({"uid": "u", "operation": "CREATE", "namespace": "tools", "object": pod(new),
            "userInfo": {"username": user, "groups": groups}});
        if let Some(old) = old {
            request["operation"] = "UPDATE".into();
            request["oldObject"] = pod(old);
        }
        let (outcome, response) = live(configured(config), &Cluster::new(true), &request);
        let causes = response["status"]["details"]["causes"].to_string();
        assert!(!causes.contains("to let this object pass") || user == "admin", "{causes}");
        (outcome.decision == Decision::Denied, causes.contains("`somebody` may not suppress findings"))
    };
    let allow = "do-not-disrupt-invalid-value: the next release reads it";
    assert_eq!(ask("admin", &[], allow, None), (false, false));
    assert_eq!(ask("somebody", &["sre"], allow, None), (false, false));
    assert_eq!(ask("somebody", &[], allow, None), (true, true));
    assert_eq!(ask("somebody", &[], "", None), (true, false));
    // It may not be added, nor changed, although the update adds no finding.
    assert_eq!(ask("somebody", &[], allow, Some("")), (true, true));
    assert_eq!(ask("somebody", &[], "gpu-limit-mismatch: x", Some(allow)), (true, true));
    assert_eq!(ask("admin", &[], "gpu-limit-mismatch: x", Some(allow)), (true, false));
    // What is stored may stay, or go. It hides nothing: the finding is not new.
    assert_eq!(ask("somebody", &[], allow, Some(allow)), (false, false));
    assert_eq!(ask("somebody", &[], "", Some(allow)), (false, false));
    // Nor does it let anything new pass.
    let update = |user: &str| {
        let mut old = pod(allow);
        old["metadata"]["annotations"].as_object_mut().unwrap().remove("karpenter.sh/do-not-disrupt");
        let request = json!({"uid": "u", "operation": "UPDATE", "namespace": "tools", "object": pod(allow),
            "oldObject": old, "userInfo": {"username": user}});
        live(configured(config), &Cluster::new(true), &request).0.decision == Decision::Denied
    };
    assert!(update("somebody"));
    assert!(!update("admin"));
    // Without denials it is only said.
    let request = json!({"uid": "u", "operation": "CREATE", "namespace": "tools", "object": pod(allow)});
    let warns = configured("webhook: {deny: off, may-suppress: {users: [admin]}}");
    let (outcome, response) = live(warns, &Cluster::new(true), &request);
    assert_eq!(outcome.decision, Decision::Warned);
    let warnings = response["warnings"].to_string();
    assert!(warnings.contains("may not suppress") && warnings.contains("do-not-disrupt-invalid-value"));
    // Nobody may suppress, whoever sends the request.
    for forbidden in ["all", "[all]", "[disruption]", "[do-not-disrupt-invalid-value]"] {
        let settings = configured(&format!("webhook: {{forbid-suppressions: {forbidden}}}"));
        assert_eq!(live(settings, &Cluster::new(true), &request).0.decision, Decision::Denied, "{forbidden}");
    }
}

#[test]
fn findings_that_do_not_fit_into_the_warnings_are_counted() {
    let containers: Vec<Value> = (0..200)
        .map(|n| {
            json!({"name": format!("c{n}"), "image": "registry.example.com/a:1",
            "resources": {"requests": {"nvidia.com/gpu": 1}}})
        })
        .collect();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": containers}});
    let request = json!({"uid": "u", "operation": "CREATE", "object": pod});
    let (answer, response) = live(Settings::default(), &Cluster::new(true), &request);
    let warnings = response["warnings"].as_array().unwrap();
    let length: usize = warnings.iter().map(|w| w.as_str().unwrap().len()).sum();
    assert!(length <= 4096, "{length}");
    for warning in warnings {
        assert!(warning.as_str().unwrap().chars().count() <= 120, "{warning}");
    }
    let last = warnings.last().unwrap().as_str().unwrap();
    let left: usize = last
        .strip_prefix("gpulint: ")
        .and_then(|rest| rest.strip_suffix(" more findings"))
        .and_then(|count| count.parse().ok())
        .unwrap();
    let denied = response["status"]["details"]["causes"].as_array();
    let denied = denied.into_iter().flatten().filter(|cause| cause["reason"] == "FieldValueInvalid").count();
    assert_eq!(warnings.len() - 1 + left + denied, answer.rules.len());
}

#[test]
fn an_invented_controller_exempts_nothing() {
    let invented = |mut object: Value| {
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true}]);
        object
    };
    assert_eq!(decide(&json!({"object": invented(pool(json!({})))})).decision, Decision::Denied);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x-1", "namespace": "ml"},
        "spec": {"containers": []}});
    assert_ne!(decide(&json!({"object": invented(pod), "namespace": "ml"})).decision, Decision::Exempt);
}

#[test]
fn an_operator_that_is_not_named_is_told_so() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sweep-1", "namespace": "ml",
            "ownerReferences": [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "sweep", "uid": "7e1a",
                "controller": true}]},
        "spec": {"template": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "yes"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "registry.example.com/a:1"}]}}}});
    let ask = |user: &str| {
        let request = json!({"uid": "u", "operation": "CREATE", "namespace": "ml", "object": job,
            "userInfo": {"username": user}});
        live(Settings::default(), &Cluster::new(true), &request)
    };
    let (outcome, response) = ask("system:serviceaccount:ray:kuberay-operator");
    assert_eq!(outcome.decision, Decision::Denied);
    let wanted = "the owner counts only if `webhook.operators` names `ray/kuberay-operator`";
    assert!(response["status"]["message"].as_str().unwrap().contains(wanted), "{response:#}");
    let (outcome, response) = ask("somebody");
    assert!(
        outcome.decision == Decision::Denied && !response.to_string().contains("operators"),
        "{response:#}"
    );
}

#[test]
fn who_takes_a_controller_from_an_object_answers_for_it() {
    // Kubernetes' own controllers, which release objects, are exempt.
    let annotated = json!({"karpenter.sh/do-not-disrupt": "yes"});
    let orphan = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "ml", "uid": "7e1a"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": annotated},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]}}}});
    let mut owned = orphan.clone();
    owned["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "90ab", "controller": true}]);
    assert_eq!(ask("CREATE", orphan.clone(), Value::Null)["allowed"], false);
    assert_eq!(ask("UPDATE", orphan.clone(), owned.clone())["allowed"], false);
    let mut other = owned.clone();
    other["metadata"]["ownerReferences"][0]["uid"] = "cdef".into();
    assert_eq!(ask("UPDATE", other, owned.clone())["allowed"], false);
    let mut released = owned.clone();
    released["metadata"]["ownerReferences"][0]["controller"] = false.into();
    assert_eq!(ask("UPDATE", released, owned.clone())["allowed"], false);
    // What it had already is no finding of who only adds an owner, or changes something else.
    assert_eq!(ask("UPDATE", owned.clone(), orphan.clone())["allowed"], true);
    let mut labelled = owned.clone();
    labelled["metadata"]["labels"] = json!({"team": "ml"});
    assert_eq!(ask("UPDATE", labelled, owned.clone())["allowed"], true);
    // Only bookkeeping differs.
    let mut released = orphan.clone();
    released["metadata"]["finalizers"] = json!([]);
    let review =
        json!({"uid": "u", "operation": "UPDATE", "object": released, "oldObject": owned}).to_string();
    assert!(differ_in_bookkeeping_only(&serde_json::from_str(&review).unwrap()));
    for at in ["/metadata/labels", "/metadata/annotations", "/spec/replicas"] {
        let mut changed = orphan.clone();
        let (parent, key) = at.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[key] = json!({"a": "b"});
        let review =
            json!({"uid": "u", "operation": "UPDATE", "object": changed, "oldObject": owned}).to_string();
        assert!(!differ_in_bookkeeping_only(&serde_json::from_str(&review).unwrap()), "{at}");
    }
}

#[test]
fn an_unknown_kind_is_allowed_with_a_warning() {
    let unknown = decide(&json!({"object": {"apiVersion": "example.com/v1", "kind": "NodePool"}}));
    assert_eq!(unknown.decision, Decision::UnknownKind);
    assert!(String::from_utf8(unknown.body).unwrap().contains("NodePool.example.com"));
    let broken = decide(&json!({"object": ["no", "object"]}));
    assert_eq!(broken.decision, Decision::Unparsable);
    assert!(String::from_utf8(broken.body).unwrap().contains("warnings"));
}

#[test]
fn a_body_that_is_not_a_review_is_an_error() {
    let engine = Engine::new(Settings::default());
    for body in [
        "",
        "{}",
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
    ] {
        assert!(review(&engine, &Cluster::new(false), body.as_bytes()).is_err(), "{body}");
    }
}

/// Who does what a denial says gets the object in, for every denied object of the fixtures.
#[test]
fn the_annotation_of_a_denial_lets_the_object_pass() {
    use gpulint_rules::source::Source;
    use gpulint_testing::{fixtures, relative, sampled, yaml_below};
    let engine = Engine::new(Settings::default());
    let context = ReviewContext { from_api_server: true, ..ReviewContext::default() };
    let ask = |cluster: &Cluster, object: &Value| {
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "namespace": object["metadata"]["namespace"], "object": object}});
        let answer = review_in_context(&engine, cluster, context, body.to_string().as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        let causes =
            answer["response"]["status"]["details"]["causes"].as_array().cloned().unwrap_or_default();
        let hint = causes.iter().find_map(|cause| {
            assert!(cause["field"] != "", "{cause}");
            cause["message"].as_str()?.strip_prefix("to let this object pass, write \"")?.strip_suffix('"')
        });
        (answer["response"]["allowed"] == true, hint.map(str::to_owned), causes.clone())
    };
    let (mut passed, mut wrong) = (0, Vec::new());
    for path in sampled(yaml_below(&fixtures().join("rules"))) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let file = gpulint_rules::File::read(Source::from_text(&relative(&path), &text));
        let objects: Vec<Value> = file.objects.iter().map(|object| object.root().to_json()).collect();
        if text.len() > 10_000 || objects.len() > 12 {
            continue;
        }
        let mut cluster = Cluster::new(true);
        objects.iter().filter_map(gpulint_rules::Object::from_json).for_each(|object| cluster.apply(object));
        for object in objects.iter().filter(|object| object["metadata"].is_object()) {
            let (allowed, hint, causes) = ask(&cluster, object);
            let Some(hint) = hint.filter(|_| !allowed) else {
                let suppression = causes.iter().any(|cause| cause.to_string().contains("suppression-"));
                if !allowed && !suppression {
                    wrong.push(format!("{}: no hint: {causes:?}", relative(&path)));
                }
                continue;
            };
            let mut annotated = object.clone();
            if !annotated["metadata"]["annotations"].is_object() {
                annotated["metadata"]["annotations"] = json!({});
            }
            annotated["metadata"]["annotations"][ANNOTATION] = hint.clone().into();
            let (allowed, _, causes) = ask(&cluster, &annotated);
            passed += 1;
            if !allowed {
                wrong.push(format!("{}: {hint}: {causes:?}", relative(&path)));
            }
        }
    }
    assert!(passed > 100, "{passed}");
    assert!(wrong.is_empty(), "{} of {passed}\n{}", wrong.len(), wrong.join("\n"));
}
