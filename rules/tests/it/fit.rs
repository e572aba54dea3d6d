//! Placement of pods: the cases of `tests/scheduling/cases.txt`, and laws.

use std::sync::LazyLock;

use gpulint_rules::catalog::find;
use gpulint_rules::fit::{Answer, Change, Explanation, FitVerdict, Situation, uncertainty_code};
use gpulint_rules::lint::fix::value::apply;
use gpulint_rules::platform::MinValuesPolicy;
use gpulint_rules::{Cluster, Engine, Object, Platform, Settings};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::remedies::Manifests;

const CASES: &str =
    concat!(include_str!("../scheduling/cases.txt"), include_str!("../scheduling/auto_mode.txt"));

/// The objects of a scene: pools, classes, DaemonSets, overlays, and what is stated beside them.
#[derive(Clone, Default)]
struct Scene {
    rule: String,
    objects: Vec<Value>,
    /// Whether the objects are all that there are.
    complete: bool,
    platform: Platform,
}

impl Scene {
    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::new(self.complete);
        let has_class = self.objects.iter().any(|object| object["kind"] == "EC2NodeClass");
        let class = object("EC2NodeClass", "default", json!({"amiFamily": "AL2023"}));
        for value in self.objects.iter().chain((!has_class).then_some(&class)) {
            cluster.apply(Object::from_json(value).expect("an object"));
        }
        cluster
    }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let version = match kind {
        "NodePool" => "karpenter.sh/v1",
        "NodeOverlay" => "karpenter.sh/v1alpha1",
        "EC2NodeClass" => "karpenter.k8s.aws/v1",
        "NodeClass" => "eks.amazonaws.com/v1",
        "DaemonSet" => "apps/v1",
        _ => "v1",
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The full name of a label.
fn key(short: &str) -> String {
    let aws = [
        "family",
        "category",
        "generation",
        "size",
        "cpu",
        "memory",
        "gpu-name",
        "gpu-count",
        "gpu-memory",
        "hypervisor",
        "tenancy",
    ];
    if aws.contains(&short) {
        return format!("karpenter.k8s.aws/instance-{short}");
    }
    if let Some(name) = short.strip_prefix("eks/") {
        return format!("eks.amazonaws.com/instance-{name}");
    }
    let whole = match short {
        "it" => "node.kubernetes.io/instance-type",
        "acc-name" => "karpenter.k8s.aws/instance-accelerator-name",
        "acc-count" => "karpenter.k8s.aws/instance-accelerator-count",
        "nvme" => "karpenter.k8s.aws/instance-local-nvme",
        "arch" => "kubernetes.io/arch",
        "os" => "kubernetes.io/os",
        "zone" => "topology.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        "zone-id" => "topology.k8s.aws/zone-id",
        "capacity" => "karpenter.sh/capacity-type",
        "nodepool" => "karpenter.sh/nodepool",
        other => other,
    };
    whole.to_owned()
}

/// `KEY OPERATOR VALUES [min N]`.
fn requirement(words: &[&str]) -> Value {
    let mut value = json!({"key": key(words[0]), "operator": words[1]});
    if let Some(values) = words.get(2).filter(|values| **values != "-") {
        value["values"] = values.split(',').collect();
    }
    if let Some(least) = words.get(4) {
        value["minValues"] = json!(least.parse::<u32>().expect("a number"));
    }
    value
}

/// `K=V:EFFECT`; value and effect are optional.
fn taint(text: &str) -> Value {
    let (rest, effect) = text.rsplit_once(':').map_or((text, None), |(rest, effect)| (rest, Some(effect)));
    let mut value = json!({"key": rest.split('=').next()});
    if let Some((_, text)) = rest.split_once('=') {
        value["value"] = json!(text);
    }
    if let Some(effect) = effect {
        value["effect"] = json!(effect);
    }
    value
}

fn toleration(text: &str) -> Value {
    if text == "*" {
        return json!({"operator": "Exists"});
    }
    let mut value = taint(text);
    if value["value"].is_null() {
        value["operator"] = json!("Exists");
    }
    value
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn parts(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.split(';').skip(1).map(|part| part.split_whitespace().collect())
}

fn pool(line: &str) -> Value {
    let name = line.split([' ', ';']).nth(1).expect("a name");
    let mut spec = json!({"template": {"spec": {"requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}});
    for words in parts(line) {
        let template = &mut spec["template"];
        match words.as_slice() {
            ["weight", number] => spec["weight"] = json!(number.parse::<i64>().expect("a number")),
            ["replicas", number] => spec["replicas"] = json!(number.parse::<i64>().expect("a number")),
            ["limit", resource, amount] => spec["limits"][resource] = json!(amount),
            ["class", name] => template["spec"]["nodeClassRef"]["name"] = json!(name),
            ["auto", class @ ..] => {
                template["spec"]["nodeClassRef"] = json!({"group": "eks.amazonaws.com", "kind": "NodeClass",
                    "name": class.first().unwrap_or(&"default")});
            }
            ["foreign"] => template["spec"]["nodeClassRef"]["group"] = json!("karpenter.azure.com"),
            ["label", text] => {
                let (name, value) = text.split_once('=').expect("a label");
                template["metadata"]["labels"][key(name)] = json!(value);
            }
            ["taint", text] => push(&mut template["spec"]["taints"], taint(text)),
            ["startup", text] => push(&mut template["spec"]["startupTaints"], taint(text)),
            words => push(&mut template["spec"]["requirements"], requirement(words)),
        }
    }
    object("NodePool", name, spec)
}

fn pod_spec(line: &str) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "resources": {}}]});
    // Text in braces must not contain semicolons either.
    for (words, text) in parts(line).zip(line.split(';').skip(1)) {
        let affinity = |spec: &mut Value, list: &str, item: Value| {
            push(&mut spec["affinity"]["nodeAffinity"][list], item);
        };
        let container = |amounts: (&str, &str, &str)| {
            let (side, resource, amount) = amounts;
            json!({"name": "i", "resources": {side: {resource: amount}}})
        };
        match words.as_slice() {
            ["sel", text] => {
                let (name, value) = text.split_once('=').expect("a label");
                spec["nodeSelector"][key(name)] = json!(value);
            }
            ["term", rest @ ..] => {
                let expressions: Vec<Value> = rest.split(|word| *word == "&").map(requirement).collect();
                let required =
                    &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
                push(&mut required["nodeSelectorTerms"], json!({"matchExpressions": expressions}));
            }
            ["pref", weight, rest @ ..] => {
                let weight = weight.parse::<i64>().expect("a number");
                let item = json!({"weight": weight, "preference": {"matchExpressions": [requirement(rest)]}});
                affinity(&mut spec, "preferredDuringSchedulingIgnoredDuringExecution", item);
            }
            ["tol", text] => push(&mut spec["tolerations"], toleration(text)),
            ["req", resource, amount] => {
                spec["containers"][0]["resources"]["requests"][resource] = json!(amount)
            }
            ["limit", resource, amount] => {
                spec["containers"][0]["resources"]["limits"][resource] = json!(amount)
            }
            ["init", resource, amount] => {
                push(&mut spec["initContainers"], container(("requests", resource, amount)));
            }
            ["sidecar", resource, amount] => {
                let mut sidecar = container(("requests", resource, amount));
                sidecar["restartPolicy"] = json!("Always");
                push(&mut spec["initContainers"], sidecar);
            }
            ["port", text] => {
                let (port, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
                let port = port.parse::<u16>().expect("a port");
                let port = json!({"containerPort": port, "hostPort": port, "protocol": protocol});
                push(&mut spec["containers"][0]["ports"], port);
            }
            ["spec", "{preferred:", _] => {
                let term = json!({"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "other"}}}});
                push(
                    &mut spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
                    term,
                );
            }
            ["spec", ..] => {
                let more = text.trim().strip_prefix("spec ").expect("a spec");
                let more: Map<String, Value> =
                    serde_yaml::from_str(more).unwrap_or_else(|e| panic!("{line}: {e}"));
                spec.as_object_mut().expect("a spec").extend(more);
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    spec
}

fn pod(line: &str) -> Object {
    let mut pod = object("Pod", "p", pod_spec(line));
    pod["metadata"]["labels"] = json!({"app": "p"});
    Object::from_json(&pod).expect("a pod")
}

/// `class NAME {SPEC}`.
fn with_spec(kind: &str, line: &str) -> Value {
    let (head, spec) = line.split_once('{').expect("a spec");
    let name = head.split_whitespace().nth(1).expect("a name");
    object(kind, name, serde_yaml::from_str(&format!("{{{spec}")).unwrap_or_else(|e| panic!("{line}: {e}")))
}

/// `object {MANIFEST}`.
fn whole(line: &str) -> Value {
    serde_yaml::from_str(line.strip_prefix("object ").expect("a manifest"))
        .unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// The scenes, each with its pods and their expected results.
type Scenes = Vec<(Scene, Vec<(String, String)>)>;

static SCENES: LazyLock<Scenes> = LazyLock::new(scenes);

fn scenes() -> Scenes {
    let mut out: Scenes = Vec::new();
    for line in CASES.lines().filter(|line| !line.is_empty() && !line.starts_with("# ") && *line != "#") {
        if let Some(rule) = line.strip_prefix("## ") {
            out.push((Scene { rule: rule.to_owned(), ..Scene::default() }, Vec::new()));
            continue;
        }
        let (scene, pods) = out.last_mut().expect("a scene");
        match line.split([' ', ';']).next() {
            Some("pool") => scene.objects.push(pool(line)),
            Some("auto") => scene.objects.push(with_spec("NodeClass", line)),
            Some("class") => scene.objects.push(with_spec("EC2NodeClass", line)),
            Some("object") => scene.objects.push(whole(line)),
            Some("complete") => scene.complete = true,
            Some("region") => scene.platform.region = line.split(' ').nth(1).map(str::to_owned),
            Some("gate") => {
                let (name, on) = line[5..].split_once('=').expect("a gate");
                scene.platform.feature_gates.insert(name.to_owned(), on == "true");
            }
            Some("policy") => scene.platform.min_values_policy = MinValuesPolicy::parse(&line[7..]),
            Some("overlay") => scene.objects.push(with_spec("NodeOverlay", line)),
            Some("ds") => {
                let name = line.split([' ', ';']).nth(1).expect("a name");
                scene.objects.push(object("DaemonSet", name, json!({"template": {"spec": pod_spec(line)}})));
            }
            Some("pod") => pods.push((line.to_owned(), String::new())),
            Some("=>") => pods.last_mut().expect("a pod").1 = line[3..].to_owned(),
            _ => panic!("{line}"),
        }
    }
    out
}

fn explain(scene: &Scene, cluster: &Cluster, pod: &Object) -> Explanation {
    let situation = Situation::read(cluster, &scene.platform, Some(pod));
    situation.explain(pod).into_iter().next().expect("a pod")
}

/// The difference between an explanation and the expected result, if there is one.
fn difference(explanation: &Explanation, expected: &str) -> Option<String> {
    let words: Vec<&str> = expected.split(' ').collect();
    let codes: Vec<&str> = explanation.uncertainties.iter().map(uncertainty_code).collect();
    let actual = match (explanation.verdict, &explanation.ignored) {
        (_, Some(ignored)) => format!("ignored {}", ignored.code),
        (FitVerdict::Unknown, _) => format!("unknown {}", codes.join(",")),
        (FitVerdict::Fits, _) => format!("fits {}", explanation.first_pool()?.object.name()),
        (FitVerdict::DoesNotFit, _) => match &explanation.pools.first()?.answer {
            Answer::Rejects { obstacles, .. } => format!("no {}", obstacles.first()?.stage.name()),
            other => format!("no pool fits, but {other:?}"),
        },
    };
    if actual != words[..2].join(" ") {
        return Some(actual);
    }
    let Some(Answer::Admits { types, capacity_types, .. }) =
        explanation.first_pool().map(|pool| &pool.answer)
    else {
        return None;
    };
    let has = |name: &str| types.iter().any(|t| t.name == name);
    for pair in words[2..].chunks(2) {
        let names: Vec<&str> = pair[1].split(',').collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let holds = match pair[0] {
            "only" => {
                let mut found: Vec<&str> = types.iter().map(|t| t.name).collect();
                found.sort_unstable();
                found == sorted
            }
            "families" => {
                let mut found: Vec<&str> = types.iter().map(|t| t.family()).collect();
                found.sort_unstable();
                found.dedup();
                found == sorted
            }
            "has" => names.iter().all(|name| has(name)),
            "lacks" => names.iter().all(|name| !has(name) && find(name).is_some()),
            "on" => *capacity_types == names,
            other => panic!("{other}"),
        };
        if !holds {
            let found: Vec<&str> = types.iter().map(|t| t.name).take(20).collect();
            return Some(format!("{actual}: {} types on {capacity_types:?}: {found:?}", types.len()));
        }
    }
    None
}

#[test]
fn pods_go_where_karpenter_sends_them() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (scene, pods) in SCENES.iter() {
        let cluster = scene.cluster();
        for (line, expected) in pods {
            count += scene.objects.iter().filter(|object| object["kind"] == "NodePool").count();
            if let Some(actual) = difference(&explain(scene, &cluster, &pod(line)), expected) {
                wrong.push(format!("{}\n  {line}\n  expected {expected}\n  is {actual}", scene.rule));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 150, "{count} pairs of a pod and a pool");
}

#[test]
fn auto_mode_has_its_cases() {
    let of_auto_mode = SCENES.iter().filter(|(scene, _)| scene.rule.starts_with("auto "));
    let cases: usize = of_auto_mode.map(|(_, pods)| pods.len()).sum();
    assert!(cases >= 40, "{cases} cases");
}

/// The changes that an explanation proposes lead to a pool that admits the pod, and each names a field.
#[test]
fn what_keeps_a_pod_out_is_at_a_place() {
    for (scene, pods) in SCENES.iter() {
        let cluster = scene.cluster();
        for (line, _) in pods {
            for pool in &explain(scene, &cluster, &pod(line)).pools {
                let Answer::Rejects { obstacles, reachable } = &pool.answer else { continue };
                assert!(!obstacles.is_empty(), "{}: {line}", scene.rule);
                for obstacle in obstacles {
                    assert!(!obstacle.places.is_empty(), "{}: {line}: {obstacle:?}", scene.rule);
                    assert!(
                        !reachable
                            || !obstacle.changes.is_empty()
                            || matches!(obstacle.stage.name(), "resources" | "topology" | "types" | "volumes")
                            // The pods of a managed node group have no NodePool to change.
                            || obstacle.reason.contains("belongs to no NodePool"),
                        "{line}: {obstacle:?}"
                    );
                }
            }
        }
    }
}

/// Making each change that is proposed for a pool, with the first change for its other obstacles, lets the pool admit the pod.
#[test]
fn what_is_proposed_is_enough() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for (scene, pods) in SCENES.iter() {
        let cluster = scene.cluster();
        for (line, _) in pods {
            let pod = pod(line);
            for pool in &explain(scene, &cluster, &pod).pools {
                let Answer::Rejects { obstacles, reachable: true } = &pool.answer else { continue };
                if obstacles.iter().any(|obstacle| obstacle.changes.is_empty()) {
                    continue;
                }
                let alternatives = obstacles
                    .iter()
                    .enumerate()
                    .flat_map(|(at, one)| (0..one.changes.len()).map(move |n| (at, n)));
                for (changed, number) in alternatives {
                    tried += 1;
                    let plan = obstacles.iter().enumerate();
                    let plan: Vec<&Change> =
                        plan.map(|(at, one)| &one.changes[if at == changed { number } else { 0 }]).collect();
                    let answer = answer_after(scene, &pod, pool.object.name(), &plan);
                    if matches!(answer, None | Some(Answer::Rejects { .. })) {
                        let texts: Vec<&str> = plan.iter().map(|change| change.text.as_str()).collect();
                        wrong.push(format!("{}\n  {line}\n  {texts:?}\n  {answer:?}", scene.rule));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried >= 100, "{tried} changes");
}

/// The answer of a pool alone once changes are made.
fn answer_after(scene: &Scene, pod: &Object, pool: &str, changes: &[&Change]) -> Option<Answer> {
    let mut objects: Vec<Value> =
        scene.cluster().objects().iter().map(|object| object.root().to_json()).collect();
    objects.retain(|object| object["kind"] != "NodePool" || object["metadata"]["name"] == pool);
    let mut pod = pod.root().to_json();
    let at = objects.iter().position(|object| object["kind"] == "NodePool").expect("the pool");
    let mut changed = objects.swap_remove(at);
    let name = changed["spec"]["template"]["spec"]["nodeClassRef"]["name"].clone();
    let class = objects.iter_mut().find(|o| o["kind"] == "EC2NodeClass" && o["metadata"]["name"] == name);
    let mut manifests = Manifests { pod: &mut pod, pool: &mut changed, class };
    changes.iter().for_each(|change| manifests.apply(change));
    objects.push(changed);
    let mut cluster = Cluster::new(scene.complete);
    objects.iter().for_each(|object| cluster.apply(Object::from_json(object).expect("an object")));
    let explanation = explain(scene, &cluster, &Object::from_json(&pod).expect("a pod"));
    explanation.pools.into_iter().next().map(|pool| pool.answer)
}

/// The order of the objects does not matter.
#[test]
fn the_verdict_does_not_depend_on_the_order_of_objects() {
    for (scene, pods) in SCENES.iter() {
        let mut turned = scene.clone();
        turned.objects.reverse();
        let (cluster, other) = (scene.cluster(), turned.cluster());
        for (line, _) in pods {
            let pod = pod(line);
            let show = |explanation: &Explanation| {
                let pools: Vec<_> = explanation
                    .pools
                    .iter()
                    .map(|pool| (pool.object.name().to_owned(), pool.verdict()))
                    .collect();
                (explanation.verdict, explanation.first, pools, explanation.uncertainties.clone())
            };
            assert_eq!(
                show(&explain(scene, &cluster, &pod)),
                show(&explain(scene, &other, &pod)),
                "{}: {line}",
                scene.rule
            );
        }
    }
}

/// A change of a scene that can only make more pods fit.
#[derive(Clone, Debug)]
enum Relief {
    Toleration,
    NoTaint,
    HigherLimits,
    AnotherType,
    AnotherPool,
}

fn relieved(scene: &Scene, relief: &Relief) -> Scene {
    let mut scene = scene.clone();
    for object in scene.objects.iter_mut().filter(|object| object["kind"] == "NodePool") {
        match relief {
            Relief::NoTaint => object["spec"]["template"]["spec"]["taints"] = json!([]),
            Relief::HigherLimits => {
                let limits = object["spec"]["limits"].as_object_mut();
                for (_, limit) in limits.into_iter().flatten() {
                    *limit = json!("1000000000Ti");
                }
            }
            Relief::AnotherType => {
                let requirements = object["spec"]["template"]["spec"]["requirements"].as_array_mut();
                for requirement in requirements.into_iter().flatten().filter(|r| r["operator"] == "In") {
                    let more = match requirement["key"].as_str().expect("a key") {
                        "node.kubernetes.io/instance-type" => "m7i.4xlarge",
                        "karpenter.k8s.aws/instance-family" => "m7i",
                        _ => continue,
                    };
                    push(&mut requirement["values"], json!(more));
                }
            }
            Relief::Toleration | Relief::AnotherPool => {}
        }
    }
    if matches!(relief, Relief::AnotherPool) {
        scene.objects.push(pool("pool another; family In m5,g6; weight 100"));
    }
    scene
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Only the DaemonSets of the scene are counted. Removing a taint admits more of them, so scenes with
    /// DaemonSets are skipped for this change.
    #[test]
    fn relief_never_makes_a_pod_misfit(at in 0usize..1000, relief in prop::sample::select(vec![
        Relief::Toleration, Relief::NoTaint, Relief::HigherLimits, Relief::AnotherType, Relief::AnotherPool,
    ])) {
        let (scene, pods) = &SCENES[at % SCENES.len()];
        let has_daemonsets = scene.objects.iter().any(|object| object["kind"] == "DaemonSet");
        prop_assume!(!(has_daemonsets && matches!(relief, Relief::NoTaint)));
        let (before, after) = (scene.cluster(), relieved(scene, &relief).cluster());
        for (line, _) in pods {
            let more = if matches!(relief, Relief::Toleration) { "; tol *" } else { "" };
            let was = explain(scene, &before, &pod(line));
            let is = explain(scene, &after, &pod(&format!("{line}{more}")));
            let lost = was.verdict == FitVerdict::Fits && is.verdict == FitVerdict::DoesNotFit;
            prop_assert!(!lost, "{}: {line}: {relief:?}", scene.rule);
        }
    }
}

/// Whether `pod-fits-no-pool` is to report a verdict. A pod that Karpenter does not consider is left to other rules; a pool that takes no
/// pods at all is reported by itself.
pub(crate) fn is_told(explanation: &Explanation) -> bool {
    let takes_pods = explanation.pools.iter().any(|pool| match &pool.answer {
        // No rule about the pool says that it has no nodes and gets none.
        Answer::Rejects { obstacles, .. }
            if obstacles.iter().any(|one| one.reason.contains("has no nodes")) =>
        {
            true
        }
        Answer::Rejects { obstacles, .. } => {
            // A pod that names a pool has that one to be told about, if it exists.
            !obstacles.iter().any(|one| one.reason.contains("asks for another NodePool"))
                && obstacles
                    .iter()
                    .any(|one| !["static", "invalid", "no-types", "not-ready"].contains(&one.stage.name()))
        }
        _ => false,
    });
    explanation.verdict == FitVerdict::DoesNotFit && explanation.ignored.is_none() && takes_pods
}

/// The rule reports a pod of a complete cluster exactly if the explanation says that it fits no pool.
#[test]
fn the_rule_and_the_explanation_agree() {
    let mut found = 0;
    for (scene, pods) in SCENES.iter() {
        let mut settings =
            Settings { select: vec!["pod-fits-no-pool".to_owned()], complete: true, ..Settings::default() };
        settings.platform = scene.platform.clone();
        let engine = Engine::new(settings);
        for (line, _) in pods {
            let pod = pod(line);
            let mut cluster = Cluster::new(true);
            scene.cluster().objects().iter().for_each(|object| cluster.apply(object.clone()));
            cluster.apply(pod.clone());
            let explanation = explain(scene, &cluster, &pod);
            // What nodes that are known take is an info, and unsure.
            if explanation.within_memory_estimate {
                continue;
            }
            let findings = engine.check_object(&pod, &cluster);
            found += findings.len();
            assert_eq!(
                !findings.is_empty(),
                is_told(&explanation),
                "{}: {line}: {:?}",
                scene.rule,
                explanation.verdict,
            );
        }
    }
    assert!(found >= 60, "{found} findings");
}

/// A pod with the fix of `pod-fits-no-pool` fits a pool.
#[test]
fn the_fix_lets_the_pod_fit() {
    let (mut fixed, mut wrong) = (0, Vec::new());
    for (scene, pods) in SCENES.iter() {
        let select = vec!["pod-fits-no-pool".to_owned()];
        let settings =
            Settings { select, complete: true, platform: scene.platform.clone(), ..Settings::default() };
        let engine = Engine::new(settings);
        for (line, _) in pods {
            let pod = pod(line);
            let mut cluster = Cluster::new(true);
            scene.cluster().objects().iter().for_each(|object| cluster.apply(object.clone()));
            cluster.apply(pod.clone());
            for fix in engine.check_object(&pod, &cluster).iter().filter_map(|finding| finding.fix.as_ref()) {
                fixed += 1;
                let value = apply(&pod.root().to_json(), fix).expect("it applies");
                let after = explain(scene, &cluster, &Object::from_json(&value).expect("a pod"));
                if !after.pools.iter().any(|pool| pool.verdict() == "fits") {
                    wrong.push(format!("{}\n  {line}\n  {}: {:?}", scene.rule, fix.title, after.verdict));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(fixed >= 5, "{fixed} fixes");
}

/// Packing one pod agrees with the explanation: the verdict, the pool, and a type that the explanation lists.
#[test]
fn the_capacity_and_the_explanation_agree() {
    let mut wrong = Vec::new();
    let mut packed = 0;
    for (scene, pods) in SCENES.iter() {
        for (line, _) in pods {
            let pod = pod(line);
            let mut cluster = scene.cluster();
            cluster.apply(pod.clone());
            let explanation = explain(scene, &cluster, &pod);
            if explanation.ignored.as_ref().is_some_and(|ignored| ["bound", "gated"].contains(&ignored.code))
            {
                continue;
            }
            let load = Situation::read(&cluster, &scene.platform, None).capacity(&cluster).floor;
            let expected = explanation.verdict;
            if load.verdict != expected {
                wrong.push(format!("{}: {line}: {:?}, not {expected:?}", scene.rule, load.verdict));
                continue;
            }
            if let (Some(pool), [node]) = (explanation.first_pool(), load.nodes.as_slice()) {
                packed += 1;
                let Answer::Admits { types, .. } = &pool.answer else { panic!("{line}: {:?}", pool.answer) };
                let admitted = types.iter().any(|t| t.name == node.instance.name);
                // All nodes of a static pool stand, however few the pod needs.
                let nodes = node.pool.path(&["spec", "replicas"]).int().unwrap_or(1);
                let as_expected =
                    pool.object.name() == node.pool.name() && i64::try_from(node.nodes) == Ok(nodes);
                if !admitted || !as_expected {
                    wrong.push(format!("{}: {line}: {node:?}", scene.rule));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(packed >= 60, "{packed} pods are packed");
}

/// The answers for editors about one pod or pool agree with those of the commands about all of them.
#[test]
fn answers_about_one_object_are_those_about_all() {
    let mut homes = 0;
    for (scene, pods) in SCENES.iter() {
        let platform = scene.platform.clone();
        let mut cluster = scene.cluster();
        for (line, _) in pods {
            let pod = pod(line);
            let situation = Situation::read(&cluster, &platform, None);
            for (whole, near) in situation.explain(&pod).iter().zip(&situation.explain_nearest(&pod, 2)) {
                assert_eq!(near.verdict, whole.verdict, "{}: {line}", scene.rule);
                assert_eq!(near.uncertainties, whole.uncertainties, "{}: {line}", scene.rule);
                let first = |of: &Explanation| of.first_pool().map(|pool| format!("{pool:?}"));
                assert_eq!(first(near), first(whole), "{}: {line}", scene.rule);
                assert!(near.pools.len() <= whole.pools.len(), "{}: {line}", scene.rule);
                let admits =
                    |of: &Explanation| of.pools.iter().filter(|pool| pool.verdict() == "fits").count();
                assert_eq!(admits(near), admits(whole), "{}: {line}", scene.rule);
            }
            cluster.apply(pod);
        }
        let situation = Situation::read(&cluster, &platform, None);
        for pool in situation.overview(&cluster, &platform).pools {
            homes += pool.tenants.len();
            let one = situation.summary_of(&pool.object, &cluster, &platform).expect("the pool is there");
            assert_eq!(format!("{one:?}"), format!("{pool:?}"), "{}", scene.rule);
        }
    }
    assert!(homes >= 60, "{homes} pods have a home");
}

/// Admission adds the overhead, node selector and tolerations of the RuntimeClass that a pod names.
#[test]
fn the_runtime_class_of_a_pod_counts() {
    let runtime = |rest: Value| {
        let mut class = object("RuntimeClass", "kata", Value::Null);
        class["apiVersion"] = json!("node.k8s.io/v1");
        class.as_object_mut().expect("an object").remove("spec");
        class.as_object_mut().expect("an object").extend(rest.as_object().cloned().expect("fields"));
        class
    };
    let small = object(
        "NodePool",
        "small",
        json!({"template": {
            "metadata": {"labels": {"sandbox": "kata"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.large"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "taints": [{"key": "sandbox", "effect": "NoSchedule"}],
            },
        }}),
    );
    let tolerated = json!([{"key": "sandbox", "operator": "Exists"}]);
    let verdict = |class: Option<Value>, pod: Value| {
        let mut spec = json!({
            "runtimeClassName": "kata",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        });
        spec.as_object_mut().expect("a spec").extend(pod.as_object().cloned().expect("fields"));
        let scene =
            Scene { objects: std::iter::once(small.clone()).chain(class).collect(), ..Scene::default() };
        let pod = Object::from_json(&object("Pod", "p", spec)).expect("a pod");
        explain(&scene, &scene.cluster(), &pod).verdict
    };
    let overhead = |cpu: &str| json!({"overhead": {"podFixed": {"cpu": cpu}}});
    let tolerating = json!({"tolerations": tolerated});
    assert_eq!(verdict(None, tolerating.clone()), FitVerdict::Fits);
    assert_eq!(verdict(Some(runtime(overhead("250m"))), tolerating.clone()), FitVerdict::Fits);
    assert_eq!(verdict(Some(runtime(overhead("1"))), tolerating.clone()), FitVerdict::DoesNotFit);
    assert_eq!(verdict(Some(runtime(overhead("${CPU}"))), tolerating.clone()), FitVerdict::Unknown);
    // The pod already contains the fields that admission sets.
    let admitted = json!({"tolerations": tolerated, "overhead": {"cpu": "100m"}});
    assert_eq!(verdict(Some(runtime(overhead("1"))), admitted), FitVerdict::Fits);
    let scheduling = |selector: &str| json!({"scheduling": {"nodeSelector": {"sandbox": selector}, "tolerations": tolerated}});
    assert_eq!(verdict(None, json!({})), FitVerdict::DoesNotFit);
    assert_eq!(verdict(Some(runtime(scheduling("kata"))), json!({})), FitVerdict::Fits);
    assert_eq!(verdict(Some(runtime(scheduling("gvisor"))), json!({})), FitVerdict::DoesNotFit);
}

/// EKS adds a request for a branch interface to the pods that a SecurityGroupPolicy selects.
#[test]
fn the_security_groups_of_a_pod_count() {
    let pool = object(
        "NodePool",
        "general",
        json!({"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t3.large", "m7i.large"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            ],
        }}}),
    );
    let types = |policy: Value, pod: Value| {
        let mut policy = object("SecurityGroupPolicy", "ledger", policy);
        policy["apiVersion"] = json!("vpcresources.k8s.aws/v1beta1");
        let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]});
        spec.as_object_mut().expect("a spec").extend(pod.as_object().cloned().expect("fields"));
        let mut pod = object("Pod", "p", spec);
        pod["metadata"]["labels"] = json!({"app": "ledger"});
        let scene = Scene { objects: vec![pool.clone(), policy], ..Scene::default() };
        let pod = Object::from_json(&pod).expect("a pod");
        match &explain(&scene, &scene.cluster(), &pod).pools[0].answer {
            Answer::Admits { types, .. } => types.iter().map(|one| one.name).collect::<Vec<_>>(),
            _ => Vec::new(),
        }
    };
    let selecting = |app: &str| json!({"podSelector": {"matchLabels": {"app": app}}});
    assert_eq!(types(selecting("ledger"), json!({})), ["m7i.large"]);
    assert_eq!(types(selecting("web"), json!({})), ["t3.large", "m7i.large"]);
    assert_eq!(types(selecting("ledger"), json!({"hostNetwork": true})), ["t3.large", "m7i.large"]);
    // The labels of the service account decide as well.
    let mut both = selecting("ledger");
    both["serviceAccountSelector"] = json!({"matchLabels": {"team": "a"}});
    assert_eq!(types(both, json!({})), ["t3.large", "m7i.large"]);
}
