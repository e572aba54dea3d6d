//! The patch of every fixture applies, and the patched object gets no further one.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpulint_rules::lint::settings::Globs;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Cluster, Engine, Object, RULES, Settings};
use serde_json::{Value, json};

use gpulint_testing::{sampled, yaml_below};

/// The patched object; `None` if it gets no patch.
fn patched(engine: &Engine, cluster: &Cluster, object: &Value) -> Option<Value> {
    let request = json!({"uid": "u", "operation": "CREATE", "object": object,
        "namespace": object["metadata"]["namespace"]});
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer = gpulint_webhook::mutate(engine, cluster, body.to_string().as_bytes()).unwrap();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["response"]["allowed"], true);
    let patch = STANDARD.decode(body["response"]["patch"].as_str()?).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut after = object.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    Some(after)
}

#[test]
fn a_second_answer_patches_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = sampled(yaml_below(&root.join("fixtures")));
    let mut everything = Settings::default();
    everything.webhook.exempt_namespaces = Globs::default();
    let safe = everything.clone();
    everything.webhook.mutate_rules =
        RULES.iter().filter(|rule| rule.fix.is_some()).map(|rule| rule.id.to_owned()).collect();
    let engines = [Engine::new(everything), Engine::new(safe)];
    let (mut asked, mut counts, mut wrong) = (0, [0, 0], Vec::new());
    for path in files {
        let file = path.strip_prefix(root).unwrap().display().to_string();
        let source = Arc::new(Source::new(&file, std::fs::read(&path).unwrap()));
        let objects: Vec<Object> = read(&source)
            .iter()
            .flat_map(|document| Object::from_document(&source, document, false))
            .collect();
        let mut cluster = Cluster::new(true);
        for object in &objects {
            cluster.apply(object.clone());
        }
        for object in &objects {
            let value = object.root().to_json();
            asked += 1;
            for (engine, count) in engines.iter().zip(&mut counts) {
                // Safe fixes are some of all fixes: where nothing is patched with all, nothing is with these.
                let Some(after) = patched(engine, &cluster, &value) else { break };
                *count += 1;
                // The cluster contains the patched object.
                let mut cluster = Cluster::new(true);
                let id = object.id();
                for other in &objects {
                    let same = other.id() == id;
                    let other = if same { Object::from_json(&after) } else { Some(other.clone()) };
                    cluster.apply(other.unwrap());
                }
                if let Some(again) = patched(engine, &cluster, &after) {
                    wrong.push(format!("{file} {}: {after}\nbecame {again}", id.name));
                }
            }
        }
    }
    let [every, safe] = counts;
    println!("{asked} objects: {safe} patched by safe fixes, {every} where every rule is named");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(safe > 40 && every > safe, "{safe} {every}");
}
