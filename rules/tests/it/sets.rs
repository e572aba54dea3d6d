//! Objects are checked together only within a set, and a set applies them with its own namespaces and names.

use std::sync::Arc;

use gpulint_rules::source::{ImageChange, PatchTarget, Source};
use gpulint_rules::{
    Bond, Engine, File, Finding, ManifestSet, Membership, Partition, RunInput, Settings, check_run,
};
use gpulint_testing::{fixtures, is_full, lot, position, relative, sampled, yaml_below};

const SERVER: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: vision}\nspec:\n  replicas: 2\n  \
    selector: {matchLabels: {app: vision}}\n  template:\n    metadata: {labels: {app: vision}}\n    spec:\n      \
    containers:\n        - {name: server, image: 'example.com/vllm:1', command: [vllm, serve]}\n";
const BUDGET: &str = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: vision}\nspec:\n  \
    maxUnavailable: 1\n  unhealthyPodEvictionPolicy: AlwaysAllow\n  selector: {matchLabels: {app: vision}}\n";
const BLOCKING: &str = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: vision}\nspec:\n  \
    minAvailable: 2\n  selector: {matchLabels: {app: vision}}\n";
const UNSELECTIVE: &str = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: vision}\nspec:\n  \
    maxUnavailable: 1\n";
const SCALER: &str = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: vision}\nspec:\n  \
    scaleTargetRef: {name: NAME}\n  triggers: [{type: cpu, metricType: Utilization, metadata: {value: '60'}}]\n";

const HPA: &str = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: vision}\nspec:\n  \
    maxReplicas: 3\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vision}\n";

/// The findings of some rules in files that are members of the sets `prod` and `stage`.
fn found(files: &[(&str, &[Membership])], rules: &[&str]) -> Vec<Finding> {
    let select = rules.iter().map(|rule| (*rule).to_owned()).collect();
    let engine = Engine::new(Settings { complete: true, select, ..Settings::default() });
    let read = |(number, (text, _)): (usize, &(&str, &[Membership]))| {
        File::read(Source::from_text(&format!("{number}.yaml"), text))
    };
    let read: Vec<File> = files.iter().enumerate().map(read).collect();
    let set = |name: &str| ManifestSet {
        name: Arc::from(name),
        bond: Bond::Certain,
        may_be_complete: true,
        ..ManifestSet::default()
    };
    let partition = Partition {
        sets: vec![set("prod"), set("stage")],
        files: files.iter().map(|(_, memberships)| memberships.to_vec()).collect(),
        ..Partition::default()
    };
    let inputs: Vec<_> = read.iter().map(|file| Some(RunInput { engine: &engine, file })).collect();
    check_run(&inputs, &partition, None).into_iter().flatten().flat_map(|report| report.findings).collect()
}

fn names(finding: &Finding) -> Vec<&str> {
    finding.sets.names.iter().map(AsRef::as_ref).collect()
}

fn of(set: usize) -> Membership {
    Membership { set, ..Membership::default() }
}

fn in_namespace(set: usize, namespace: &str) -> Membership {
    Membership { namespace: Some(Arc::from(namespace)), ..of(set) }
}

#[test]
fn a_budget_of_one_set_does_not_cover_pods_of_another() {
    for (server, budget) in [(0, 1), (1, 0)] {
        let findings =
            found(&[(SERVER, &[of(server)]), (BUDGET, &[of(budget)])], &["pdb-missing", "pdb-selector"]);
        let rules: Vec<&str> = findings.iter().map(|finding| finding.rule.id).collect();
        assert_eq!(rules, ["pdb-missing", "pdb-selector"]);
        assert_eq!(names(&findings[0]), [["prod", "stage"][server]]);
    }
    assert_eq!(found(&[(SERVER, &[of(0)]), (BUDGET, &[of(0)])], &["pdb-missing", "pdb-selector"]).len(), 0);
}

#[test]
fn missing_is_what_every_set_of_the_object_lacks() {
    let both: &[Membership] = &[of(0), of(1)];
    assert_eq!(found(&[(SERVER, both), (BUDGET, &[of(1)])], &["pdb-missing"]).len(), 0);
    let findings = found(&[(SERVER, both)], &["pdb-missing"]);
    assert_eq!(findings.len(), 1);
    assert_eq!(names(&findings[0]), ["prod", "stage"]);
    assert!(!findings[0].sets.partial);
}

#[test]
fn what_a_set_has_is_said_of_that_set() {
    let scaler = SCALER.replace("NAME", "vision");
    let findings = found(
        &[(SERVER, &[of(0), of(1)]), (&scaler, &[of(0), of(1)]), (HPA, &[of(1)])],
        &["keda-hpa-conflict"],
    );
    assert_eq!(findings.len(), 1);
    assert_eq!(names(&findings[0]), ["stage"]);
}

#[test]
fn the_same_in_two_sets_is_said_once_with_the_places_of_both() {
    let scaler = SCALER.replace("NAME", "vision");
    let findings = found(
        &[(HPA, &[of(0)]), (HPA, &[of(1)]), (SERVER, &[of(0), of(1)]), (&scaler, &[of(0), of(1)])],
        &["keda-hpa-conflict"],
    );
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    let places: Vec<_> = finding.related.iter().filter_map(|related| related.location.path()).collect();
    assert_eq!(places, ["0.yaml", "1.yaml"]);
    assert_eq!(names(finding), ["prod", "stage"]);
}

#[test]
fn a_namespace_of_a_kustomization_is_that_of_its_objects() {
    let rules = ["pdb-missing", "pdb-selector"];
    let named = BUDGET.replace("{name: vision}", "{name: vision, namespace: ml}");
    // The kustomization puts the server in the namespace of the budget. In another namespace it does not
    // match.
    assert_eq!(found(&[(SERVER, &[in_namespace(0, "ml")]), (&named, &[of(0)])], &rules).len(), 0);
    assert_eq!(found(&[(SERVER, &[in_namespace(0, "other")]), (&named, &[of(0)])], &rules).len(), 2);
    assert_eq!(found(&[(SERVER, &[of(0)]), (&named, &[of(0)])], &rules).len(), 2);
    // A default namespace applies to objects without one.
    let default = Membership { default_namespace: Some(Arc::from("ml")), ..of(0) };
    assert_eq!(
        found(&[(SERVER, std::slice::from_ref(&default)), (&named, std::slice::from_ref(&default))], &rules)
            .len(),
        0
    );
    // The server is in two namespaces, each with its own budget.
    let twice: &[Membership] = &[in_namespace(0, "a"), in_namespace(0, "b")];
    assert_eq!(found(&[(SERVER, twice), (BUDGET, twice)], &rules).len(), 0);
}

#[test]
fn objects_are_found_as_they_are_written_and_as_they_are_named() {
    let prefixed = Membership { prefix: "eu-".to_owned(), ..of(0) };
    for (name, is_found) in [("vision", true), ("eu-vision", true), ("us-vision", false)] {
        let scaler = SCALER.replace("NAME", name);
        let findings = found(
            &[(SERVER, std::slice::from_ref(&prefixed)), (&scaler, &[of(0)])],
            &["keda-target-missing"],
        );
        assert_eq!(findings.is_empty(), is_found, "{name}");
    }
}

#[test]
fn what_a_kustomization_removes_is_not_there() {
    let target = PatchTarget {
        kind: Some("PodDisruptionBudget".to_owned()),
        name: Some("vision".to_owned()),
        ..PatchTarget::default()
    };
    let without = Membership { removed: vec![target], ..of(0) };
    let findings = found(&[(SERVER, &[of(0)]), (BUDGET, &[without])], &["pdb-missing"]);
    assert_eq!(findings.len(), 1);
}

#[test]
fn what_a_patch_of_the_set_changes_is_not_judged() {
    let budget = PatchTarget { kind: Some("PodDisruptionBudget".to_owned()), ..PatchTarget::default() };
    let field = vec!["spec".to_owned(), "minAvailable".to_owned()];
    let other = vec!["spec".to_owned(), "selector".to_owned()];
    let patched = |fields: &[&Vec<String>]| {
        let fields = fields.iter().map(|field| (*field).clone()).collect();
        Membership { patched: vec![PatchTarget { fields, ..budget.clone() }], ..of(0) }
    };
    for (membership, is_found) in
        [(of(0), true), (patched(&[]), true), (patched(&[&other]), true), (patched(&[&other, &field]), false)]
    {
        let findings = found(&[(SERVER, &[of(0)]), (BLOCKING, &[membership])], &["pdb-blocks-evictions"]);
        assert_eq!(!findings.is_empty(), is_found);
    }
    // A field that is not written may be what the patch adds.
    let findings = found(&[(UNSELECTIVE, &[patched(&[])])], &["pdb-selector"]);
    assert!(findings.is_empty());
}

#[test]
fn images_are_those_that_the_set_applies() {
    let server = SERVER
        .replace("example.com/vllm:1", "vllm/vllm-openai:v0.11.0")
        .replace("serve]", "serve, --swap-space=8]");
    let change =
        |text: &str| Membership { images: vec![ImageChange::of_argument(text, &"a test".into())], ..of(0) };
    let speaks =
        |membership: Membership| !found(&[(&server, &[membership])], &["server-option-removed"]).is_empty();
    assert!(!speaks(of(0)) && !speaks(change("example.com/other:v0.19.1")));
    assert!(speaks(change("vllm/vllm-openai:v0.19.1")));
    assert!(speaks(change("vllm/vllm-openai=mirror.example.com/vllm/vllm-openai:v0.19.1")));
    assert!(!speaks(change("vllm/vllm-openai=example.com/own:v0.19.1")));
    // Only one of two overlays has the later release.
    let both: &[Membership] =
        &[change("vllm/vllm-openai:v0.19.1"), Membership { set: 1, ..change("vllm/vllm-openai:v0.12.0") }];
    let findings = found(&[(&server, both)], &["server-option-removed"]);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(names(finding), ["prod"]);
}

#[test]
fn an_image_that_is_an_alias_is_changed_as_well() {
    let server = SERVER
        .replace(
            "{name: vision}\nspec",
            "{name: vision, annotations: {image: &image 'vllm/vllm-openai:v0.11.0'}}\nspec",
        )
        .replace("'example.com/vllm:1'", "*image")
        .replace("serve]", "serve, --swap-space=8]");
    let by = Arc::from("`prod/kustomization.yaml`");
    let change = ImageChange::of_argument("vllm/vllm-openai:v0.19.1", &by);
    let findings =
        found(&[(&server, &[Membership { images: vec![change], ..of(0) }])], &["server-option-removed"]);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    let label = "its release: `prod/kustomization.yaml` makes it `vllm-openai:v0.19.1`";
    assert_eq!(finding.related[0].message, label);
}

#[test]
fn a_copy_under_another_name_is_known_by_the_image_that_was_written() {
    let server = SERVER.replace(
        "'example.com/vllm:1', command: [vllm, serve]",
        "'vllm/vllm-openai:v0.11.0', args: [--model=m, --tensor-parallel-size=4], resources: {limits: {nvidia.com/gpu: 2}}",
    );
    let speaks = |name: &str| {
        let change = ImageChange::of_argument(&format!("vllm/vllm-openai={name}:v0.11.0"), &"a test".into());
        let membership = Membership { images: vec![change], ..of(0) };
        !found(&[(&server, &[membership])], &["gpu-process-count"]).is_empty()
    };
    assert!(speaks("vllm/vllm-openai") && speaks("registry.example.com/llm-engine"));
    for other in
        ["registry.example.com/llm-mock", "registry.example.com/llm-router", "ollama/ollama", "other/engine"]
    {
        assert!(!speaks(other), "{other}");
    }
}

#[test]
fn an_object_that_is_reached_twice_is_no_duplicate_of_itself() {
    let twice: &[Membership] = &[of(0), in_namespace(0, "default"), of(0)];
    assert_eq!(found(&[(SERVER, twice), (BUDGET, twice)], &["duplicate-object", "pdb-overlap"]).len(), 0);
}

#[test]
fn reports_name_objects_as_they_are_written() {
    let findings = found(&[(SERVER, &[in_namespace(0, "ml")])], &["pdb-missing"]);
    let object = findings[0].location.object().unwrap();
    assert_eq!(object.id().namespace(), None);
}

#[test]
fn broken_documents_are_of_the_sets_of_their_file() {
    let findings = found(&[("a: [\n", &[of(1)]), ("b: {\n", &[])], &["yaml-syntax"]);
    assert_eq!(findings.iter().map(names).collect::<Vec<_>>(), [vec!["stage"], vec![]]);
}

/// The findings of a file in a set, each with its rule, severity and location.
fn said_in(set: &str, findings: &[Finding]) -> Vec<String> {
    let holds = |finding: &&Finding| names(finding).contains(&set);
    let own = findings.iter().filter(holds).filter(|finding| !finding.reports_absence);
    let mut said: Vec<String> =
        own.map(|one| format!("{} {:?} {:?}", one.rule.id, one.severity, position(one))).collect();
    said.sort();
    said
}

/// A rule that reads only the object itself runs once for all sets and namespaces: its findings in one
/// namespace do not depend on the others. Each file is compared in one of them; with `FULL` in each.
#[test]
fn what_is_said_in_a_namespace_does_not_depend_on_others() {
    let engine = Engine::new(Settings::default());
    let namespaces = ["shop", "kube-system", "training", "default"];
    let set = |name: &str| ManifestSet {
        name: Arc::from(name),
        bond: Bond::Certain,
        may_be_complete: false,
        ..ManifestSet::default()
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in sampled(yaml_below(&fixtures().join("rules"))) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let file = File::read(Source::from_text("a.yaml", &text));
        let run = |numbers: &[usize]| -> Vec<Finding> {
            let sets = numbers.iter().map(|number| set(namespaces[*number])).collect();
            let places = numbers.iter().enumerate();
            let places = places.map(|(set, number)| in_namespace(set, namespaces[*number])).collect();
            let partition = Partition { sets, files: vec![places], ..Partition::default() };
            let input = Some(RunInput { engine: &engine, file: &file });
            check_run(&[input], &partition, None).into_iter().flatten().flat_map(|r| r.findings).collect()
        };
        let own = lot(&path, 4) as usize;
        let all = if is_full() { run(&[0, 1, 2, 3]) } else { run(&[own, (own + 1) % 4]) };
        for (number, name) in namespaces.iter().enumerate().filter(|(number, _)| is_full() || *number == own)
        {
            let (alone, together) = (said_in(name, &run(&[number])), said_in(name, &all));
            count += alone.len();
            if alone != together {
                wrong.push(format!("{} in {name}: {alone:#?} and {together:#?}", relative(&path)));
            }
        }
    }
    assert!(count > 400, "{count} findings");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
