use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, File, Object, Settings};
use gpulint_testing::{fixtures, relative, yaml_below};
use serde_json::{Value, json};

use super::*;
use crate::evaluate::{Evaluations, Evaluator};
use crate::evaluation_cache::Generation;
use crate::metrics::Metrics;
use crate::mutate::{mutate, mutate_with};
use crate::review::{ReviewContext, review_in_context, review_with};

/// What two texts that are alike have in common, and what tells them apart, as bytes.
fn parts(text: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    struct Bytes(Vec<u8>);
    impl Hasher for Bytes {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let alike = AlikeText::of(text)?;
    let (mut common, mut rest) = (Bytes(Vec::new()), Bytes(Vec::new()));
    alike.hash_common(&mut common);
    alike.hash_rest(&mut rest);
    Some((common.0, rest.0))
}

#[test]
fn texts_are_alike_but_for_name_and_bookkeeping() {
    let object = |metadata: &str| {
        format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},"spec":{{"a":1}}}}"#)
    };
    let same = |a: &str, b: &str| {
        let (a, b) = (object(a), object(b));
        let (a, b) = (parts(&a).unwrap(), parts(&b).unwrap());
        assert_ne!(a.1, b.1);
        a.0 == b.0
    };
    assert!(same(r#"{"name":"a-1"}"#, r#"{"name":"a-2"}"#));
    assert!(same(
        r#"{ "name" : "a-1" , "uid":"1","generation":1,"managedFields":[{"a":"}\"]"}], "labels":{"a":"b"}}"#,
        r#"{ "name" : "b-2" , "uid":"22","generation":10,"managedFields":[{"a":["b"]}], "labels":{"a":"b"}}"#,
    ));
    assert!(same(r#"{"managedFields":[{"a":"b"}],"name":"a-1"}"#, r#"{"managedFields":[],"name":"a-2"}"#,));
    // Of another length, with a word that rules know, with other labels.
    assert!(!same(r#"{"name":"a-1"}"#, r#"{"name":"a-22"}"#));
    assert!(!same(r#"{"name":"a-train"}"#, r#"{"name":"a-trail"}"#));
    assert!(!same(r#"{"name":"a-1","labels":{"a":"1"}}"#, r#"{"name":"a-2","labels":{"a":"2"}}"#));
    // Without a uid it is not the API server that wrote them.
    assert!(!same(r#"{"name":"a-1","generation":1}"#, r#"{"name":"a-2","generation":2}"#));
    assert!(!same(
        r#"{"name":"a-1","uid":null,"generation":1}"#,
        r#"{"name":"a-2","uid":null,"generation":2}"#
    ));
    assert!(!same(r#"{"name":"a-1","uid":"1"}"#, r#"{"name":"a-2"}"#));
    for no_text in [
        r#"{"generateName":"a-"}"#,
        r#"{"name":7}"#,
        r#"{"name":"A"}"#,
        r#"{"name":"a.b"}"#,
        r#"{"name":"a\u002d1"}"#,
        r#"{"na\u006de":"a-1"}"#,
        r#"{"name":"a-1","name":"a-2"}"#,
        r#"{"name":"a-1","uid":"1","uid":"2"}"#,
        "{}",
        "[]",
        "null",
    ] {
        assert!(AlikeText::of(&object(no_text)).is_none(), "{no_text}");
    }
    for no_object in ["1", "[]", "{}", r#"{"spec":{},"metadata":{"name":"a"}}"#, r#"{"metadata":"a"}"#] {
        assert!(AlikeText::of(no_object).is_none(), "{no_object}");
    }
}

#[test]
fn a_repeated_key_is_noticed() {
    let is_plain = |text: &str| AlikeText::of(text).unwrap().is_unambiguous();
    assert!(is_plain(r#"{"kind":"a","metadata":{"name":"a-1","labels":{"name":"a","uid":"b"}}}"#));
    assert!(!is_plain(r#"{"metadata":{"name":"a-1"},"metadata":{"name":"a-2"}}"#));
    assert!(!is_plain(r#"{"metadata":{"name":"a-1"},"meta\u0064ata":{"name":"a-2"}}"#));
    // Who writes keys of metadata with escapes is no API server.
    assert!(AlikeText::of(r#"{"metadata":{"name":"a-1","na\u006de":"a-2"}}"#).is_none());
}

/// A webhook beside objects, with a cache.
struct Server {
    engine: Arc<Engine>,
    cluster: Cluster,
    cache: Evaluations,
    metrics: Arc<Metrics>,
    generation: Generation,
}

impl Server {
    fn new(engine: &Arc<Engine>, objects: &[Value]) -> Server {
        let metrics = Arc::new(Metrics::new());
        let mut cluster = Cluster::new(true);
        objects.iter().filter_map(Object::from_json).for_each(|object| cluster.apply(object));
        let cache = Evaluations::new(Arc::clone(&metrics));
        Server { engine: Arc::clone(engine), cluster, cache, metrics, generation: Generation::default() }
    }

    /// Asserts that both webhooks answer as without a cache.
    fn send(&self, operation: &str, object: &Value, file: &str) {
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"], "object": object}});
        let body = body.to_string().into_bytes();
        let evaluator =
            || Evaluator::new(&self.engine, &self.cluster).with_cache(&self.cache, self.generation);
        let context = ReviewContext { cluster_is_fed: true, ..ReviewContext::default() };
        let cached = review_with(evaluator(), context, &body).unwrap();
        let fresh = review_in_context(&self.engine, &self.cluster, context, &body).unwrap();
        assert_eq!(cached.body, fresh.body, "{file}");
        let cached = mutate_with(evaluator(), &body).unwrap();
        let fresh = mutate(&self.engine, &self.cluster, &body).unwrap();
        assert_eq!(cached.body, fresh.body, "{file}");
    }

    /// How many objects were evaluated by the rules.
    fn by_rules(&self) -> usize {
        let text = self.metrics.text();
        let line = "gpulint_evaluations_total{by=\"rules\"} ";
        text.lines().find_map(|l| l.strip_prefix(line)).unwrap().parse().unwrap()
    }
}

fn named(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["name"] = name.into();
    object
}

#[test]
fn what_is_known_of_like_objects_changes_no_answer() {
    let mut settings = Settings::default();
    settings.webhook.deny = Some(gpulint_rules::Severity::Warning);
    settings.webhook.warn = Some(gpulint_rules::Severity::Info);
    let engine = Arc::new(Engine::new(settings));
    let (mut copies, mut by_rules) = (0, 0);
    // One in three: all of them take minutes in a debug build.
    for path in yaml_below(&fixtures().join("rules")).into_iter().step_by(3) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let file = relative(&path);
        let objects = File::read(Source::from_text(&file, &text)).objects;
        let objects: Vec<Value> = objects.iter().map(|object| object.root().to_json()).collect();
        if text.len() > 10_000 || objects.len() > 12 {
            continue;
        }
        let mut server = Server::new(&engine, &objects);
        for object in objects.iter().filter(|object| object["metadata"]["name"].is_string()) {
            // A stored one, which is the object of the cluster.
            server.send("UPDATE", object, &file);
            for name in ["alike-one", "alike-two", "train-one"] {
                server.send("CREATE", &named(object, name), &file);
            }
            server.generation.snapshot += 1;
            let before = server.by_rules();
            server.send("CREATE", &named(object, "alike-six"), &file);
            server.send("CREATE", &named(object, "alike-ten"), &file);
            by_rules += server.by_rules() - before;
            copies += 2;
            // One of this name exists.
            let name = object["metadata"]["name"].as_str().unwrap();
            if name.len() == "alike-one".len() {
                server.send("CREATE", object, &file);
            }
        }
    }
    // In examples of rules there is nearly always something to be found, which names the object.
    assert!(copies > 1_500 && by_rules < copies * 95 / 100, "{by_rules} of {copies}");
}

#[test]
fn an_object_like_another_one_is_not_evaluated() {
    let object = |name: &str, uid: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml", "uid": uid},
            "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}})
    };
    let engine = Arc::new(Engine::new(Settings::default()));
    let mut server = Server::new(&engine, &[]);
    let by_rules = |server: &Server, object: &Value| {
        let before = server.by_rules();
        server.send("CREATE", object, "");
        server.by_rules() - before
    };
    assert_eq!(by_rules(&server, &object("chat-x2x1", "1")), 1);
    assert_eq!(by_rules(&server, &object("chat-y5z9", "2")), 0);
    assert_eq!(by_rules(&server, &object("chat-123456", "3")), 1);
    server.generation.config += 1;
    assert_eq!(by_rules(&server, &object("chat-y5z9", "4")), 1);
    // Beside one of its name, which it may be.
    server.generation.snapshot += 1;
    server.cluster.apply(Object::from_json(&object("chat-y5z0", "5")).unwrap());
    assert_eq!(by_rules(&server, &object("chat-y5z0", "5")), 1);
}
