//! The law of a workspace: after any edit, the findings of every file equal those of a run over all files,
//! and exactly the files whose findings changed are reported as changed.
//!
//! The files contain the documents of all fixtures, shuffled, so that every rule sees objects of other
//! fixtures. Edits swap documents, remove and repeat lines, and write names of one object into another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use gpulint_rules::file::File;
use gpulint_rules::lint::settings::RuleSettings;
use gpulint_rules::source::{PatchTarget, Source, split_documents};
use gpulint_rules::{
    Bond, CheckReport, Cluster, Engine, Finding, Location, ManifestSet, Membership, Partition, RULES,
    RunInput, Settings, Workspace, check_run,
};
use gpulint_testing::Dice;

fn documents() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut out = Vec::new();
    for folder in ["rules", "sets", "practices"] {
        for path in gpulint_testing::yaml_below(&root.join(folder)) {
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            // A document that exceeds all limits is not useful here.
            let parts = split_documents(&text).into_iter().map(|part| text[part].to_owned());
            out.extend(parts.filter(|t| t.len() < 5000));
        }
    }
    assert!(out.len() > 300, "the fixtures are found");
    out
}

/// Objects of a small cluster that are closely related: pools, pods that may run on them, PDBs that protect
/// the pods, and autoscalers that scale them.
fn cluster() -> Vec<String> {
    let mut dice = Dice(7);
    let mut out = Vec::new();
    for _ in 0..150 {
        out.push(pool(&mut dice));
        out.push(workload(&mut dice));
        out.push(workload(&mut dice));
        out.push(guard(&mut dice));
    }
    out
}

fn pool(dice: &mut Dice) -> String {
    let name = dice.one(&["a", "b", "c", "d", "${POOL}"]);
    let limits = dice.one(&["", "  limits: {nvidia.com/gpu: 8}\n", "  replicas: 2\n"]);
    let weight = dice.below(3);
    let labels = dice.one(&["", "team: x", "team: y"]);
    let period = dice.one(&["", "10s", "1h", "48h"]);
    let period =
        if period.is_empty() { String::new() } else { format!("      terminationGracePeriod: {period}\n") };
    let expire = dice.one(&["720h", "Never"]);
    let taints = dice.one(&["", "{key: nvidia.com/gpu, effect: NoSchedule}"]);
    let family = dice.one(&["g5", "g6", "c7i", "{{ .Values.family }}"]);
    let capacity = dice.one(&["spot", "on-demand", "spot, on-demand"]);
    // One of an old API counts as what it becomes.
    let version = dice.one(&["v1", "v1", "v1", "v1beta1"]);
    format!(
        "apiVersion: karpenter.sh/{version}\nkind: NodePool\nmetadata:\n  name: {name}\nspec:\n  weight: {weight}\n{limits}  template:\n    \
         metadata:\n      labels: {{{labels}}}\n    spec:\n      expireAfter: {expire}\n{period}      taints: [{taints}]\n      \
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      requirements:\n        \
         - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [{family}]}}\n        \
         - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}}\n"
    )
}

fn workload(dice: &mut Dice) -> String {
    let (kind, api) =
        *dice.one(&[("Deployment", "apps/v1"), ("StatefulSet", "apps/v1"), ("Job", "batch/v1")]);
    let name = dice.one(&["one", "two", "three", "four"]);
    let replicas = dice.below(4);
    let replicas = match kind {
        "Job" => String::new(),
        _ => format!("  replicas: {replicas}\n  selector: {{matchLabels: {{app: {name}}}}}\n"),
    };
    let annotation = dice.one(&["", "karpenter.sh/do-not-disrupt: \"true\""]);
    let selector = dice.one(&["", "team: x", "team: y", "karpenter.sh/nodepool: b"]);
    let grace = dice.one(&["", "      terminationGracePeriodSeconds: 7200\n"]);
    let tolerations = dice.one(&["", "{key: nvidia.com/gpu, operator: Exists}"]);
    let command = dice.one(&["[vllm, serve]", "[torchrun, train.py]"]);
    let gpu = dice.one(&["", "nvidia.com/gpu: 1"]);
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: ml\nspec:\n{replicas}  template:\n    metadata:\n      \
         labels: {{app: {name}}}\n      annotations: {{{annotation}}}\n    spec:\n{grace}      nodeSelector: {{{selector}}}\n      \
         tolerations: [{tolerations}]\n      containers:\n        - name: main\n          image: example.com/a:1\n          \
         command: {command}\n          resources: {{limits: {{{gpu}}}}}\n"
    )
}

fn guard(dice: &mut Dice) -> String {
    let name = dice.one(&["one", "two", "three", "four"]);
    let number = dice.below(4);
    match dice.below(3) {
        0 => format!(
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: {name}\n  namespace: ml\nspec:\n  \
             scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}\n  minReplicas: 1\n  maxReplicas: {number}\n"
        ),
        _ => {
            let what = dice.one(&["maxUnavailable", "minAvailable"]);
            let other = dice.below(2);
            format!(
                "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: {name}-{other}\n  namespace: ml\nspec:\n  \
                 {what}: {number}\n  selector: {{matchLabels: {{app: {name}}}}}\n"
            )
        }
    }
}

fn place(place: &Location) -> String {
    let at = place.resolve_span().map(|(source, document, span)| {
        // An editor counts columns in other units than a report.
        let positions = [span.start, span.end].map(|at| {
            let position = source.lines().position(source.text(), at);
            let start = source.lines().start_of(position.line as usize - 1, source.text());
            (position, source.text()[start as usize..at as usize].encode_utf16().count())
        });
        (source.path().to_owned(), document, span.start, span.end, positions)
    });
    let pointer = place.pointer().map(ToString::to_string);
    format!("{at:?} {pointer:?} {:?}", place.object().map(|o| o.id().clone()))
}

fn line(finding: &Finding) -> String {
    let related: Vec<String> =
        finding.related.iter().map(|r| format!("{} {}", r.message, place(&r.location))).collect();
    format!(
        "{} {:?} {:?} {:?} {} | {} | {:?} | {:?} | {related:?}",
        finding.rule.id,
        finding.sets,
        finding.severity,
        finding.rejected_by,
        place(&finding.location),
        finding.message,
        finding.help,
        (&finding.fix, &finding.schedule_grid)
    )
}

fn shown(checked: &CheckReport) -> Vec<String> {
    let mut lines: Vec<String> = checked.findings.iter().map(line).collect();
    lines.push(format!("{} suppressed", checked.suppressed));
    lines
}

fn read(path: &str, text: &str) -> File {
    File::read(Source::from_text(path, text))
}

/// Shows the lines that differ.
#[track_caller]
fn assert_same(checked: &[String], expected: &[String], at: &str) {
    let without = |some: &[String], others: &[String]| -> String {
        some.iter().filter(|line| !others.contains(line)).map(|line| format!("\n  {line}")).collect()
    };
    assert!(
        checked == expected,
        "{at}\nthe workspace alone says:{}\nthe run alone says:{}",
        without(checked, expected),
        without(expected, checked)
    );
}

/// After an edit of the file `own` (or of none), the workspace has for each file the findings `now` of a full
/// run, and has reported the other files whose findings changed. Returns the number of these files.
#[track_caller]
fn assert_law(
    workspace: &Workspace,
    now: &BTreeMap<String, Vec<String>>,
    before: &BTreeMap<String, Vec<String>>,
    told: &[String],
    own: Option<&String>,
    at: &str,
) -> usize {
    assert!(workspace.paths().eq(now.keys().map(String::as_str)), "{at}");
    for (path, expected) in now {
        let checked = shown(workspace.report(path).unwrap());
        assert_same(&checked, expected, &format!("{at}: {path}"));
    }
    let changed = now.iter().filter(|(other, said)| own != Some(*other) && before.get(*other) != Some(said));
    let different: BTreeSet<&String> = changed.map(|(path, _)| path).collect();
    assert_eq!(told.iter().collect::<BTreeSet<_>>(), different, "{at}");
    different.len()
}

/// The findings of each file, checked one after the other beside all objects, where no version that one shows counts.
fn one_by_one(texts: &BTreeMap<String, String>, engine: &Engine) -> BTreeMap<String, Vec<String>> {
    let files: Vec<File> = texts.iter().map(|(path, text)| read(path, text)).collect();
    let mut cluster = Cluster::new(engine.settings().complete);
    for object in files.iter().flat_map(|file| &file.objects) {
        cluster.apply(object.clone());
    }
    let said = files.iter().map(|file| shown(&engine.check_file(file, &cluster)));
    texts.keys().cloned().zip(said).collect()
}

/// The findings of each file in a run over all files.
fn afresh(texts: &BTreeMap<String, String>, engine: &Engine) -> BTreeMap<String, Vec<String>> {
    let files: Vec<File> = texts.iter().map(|(path, text)| read(path, text)).collect();
    let inputs: Vec<_> = files.iter().map(|file| Some(RunInput { engine, file })).collect();
    let reports = check_run(&inputs, &Partition::default(), None);
    texts.keys().cloned().zip(reports.iter().map(|report| shown(report.as_ref().unwrap()))).collect()
}

/// A changed text: documents swapped, and lines removed, repeated, or taken from other documents.
fn edited(text: &str, documents: &[String], dice: &mut Dice) -> String {
    let mut parts: Vec<String> =
        split_documents(text).into_iter().map(|part| text[part].to_owned()).collect();
    let at = dice.below(parts.len());
    match dice.below(8) {
        0 => parts.push(dice.one(documents).clone()),
        1 if parts.len() > 1 => {
            parts.remove(at);
        }
        2 if !parts.is_empty() => parts[at] = dice.one(documents).clone(),
        3 => parts.insert(0, "# nothing but a line more\n".to_owned()),
        _ if !parts.is_empty() => {
            let mut lines: Vec<&str> = parts[at].lines().collect();
            let other = dice.one(documents);
            let line = dice.below(lines.len());
            let written = lines.get(line).copied().unwrap_or_default();
            let key = written.split(':').next().unwrap_or_default();
            let theirs: Vec<&str> = other.lines().filter(|l| l.split(':').next() == Some(key)).collect();
            match dice.below(3) {
                _ if !theirs.is_empty() && line < lines.len() => lines[line] = *dice.one(&theirs),
                0 if line < lines.len() => {
                    lines.remove(line);
                }
                _ => lines.insert(line, "# a comment"),
            }
            parts[at] = lines.join("\n") + "\n";
        }
        _ => {}
    }
    parts
        .iter()
        .map(|part| part.trim_start_matches("---").trim_end().to_owned() + "\n")
        .collect::<Vec<_>>()
        .join("---\n")
}

fn law(documents: &[String], complete: bool, seed: u64, steps: usize) {
    let mut dice = Dice(seed);
    let settings = Settings { complete, ..Settings::default() };
    let engine = Arc::new(Engine::new(settings));
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut workspace = Workspace::new();
    // Nested folders, and sibling folders whose objects do not affect each other.
    let folders = ["", "a/", "a/b/", "a/c/", "d/"];
    let paths: Vec<String> = (0..24).map(|n| format!("{}file-{n}.yaml", folders[n % 5])).collect();
    for path in &paths[..12] {
        let text = (0..4).map(|_| dice.one(documents).clone()).collect::<Vec<_>>().join("\n---\n");
        texts.insert(path.clone(), text);
    }
    workspace.open(texts.iter().map(|(path, text)| (read(path, text), Arc::clone(&engine))));
    let mut before = afresh(&texts, &engine);
    let mut others = 0;
    for step in 0..steps {
        let path = dice.one(&paths).clone();
        let told = if dice.below(8) == 0 && texts.contains_key(&path) {
            texts.remove(&path);
            workspace.remove(&path)
        } else {
            let text = edited(texts.get(&path).map_or("", String::as_str), documents, &mut dice);
            texts.insert(path.clone(), text.clone());
            workspace.set(read(&path, &text), &engine)
        };
        let now = afresh(&texts, &engine);
        let at = format!("step {step}, seed {seed}");
        others += assert_law(&workspace, &now, &before, &told, Some(&path), &at);
        before = now;
    }
    // A few edits of objects that are drawn by chance may concern no other file.
    assert!(
        others > steps / 30 || steps < 50,
        "{others} of {steps} edits change what is said of other files"
    );
}

/// The findings of each file in a run over all files, if the files are in several sets.
fn afresh_in_sets(
    texts: &BTreeMap<String, String>,
    partition: &BTreeMap<String, Vec<Membership>>,
    engine: &Engine,
) -> BTreeMap<String, Vec<String>> {
    let files: Vec<File> = texts.iter().map(|(path, text)| read(path, text)).collect();
    let inputs: Vec<_> = files.iter().map(|file| Some(RunInput { engine, file })).collect();
    let memberships = texts.keys().map(|path| partition.get(path).cloned().unwrap_or_default());
    let partition = Partition { sets: sets(), files: memberships.collect(), ..Partition::default() };
    let reports = check_run(&inputs, &partition, None);
    texts.keys().cloned().zip(reports.iter().map(|report| shown(report.as_ref().unwrap()))).collect()
}

fn sets() -> Vec<ManifestSet> {
    let bonds = [("prod", Bond::Certain), ("stage", Bond::Likely), ("dev", Bond::Folders)];
    bonds
        .map(|(name, bond)| ManifestSet {
            name: Arc::from(name),
            bond,
            may_be_complete: bond != Bond::Folders,
            ..ManifestSet::default()
        })
        .to_vec()
}

/// Memberships of a file in none, one or several of the sets.
fn memberships(dice: &mut Dice) -> Vec<Membership> {
    let mut out = Vec::new();
    for _ in 0..*dice.one(&[0, 1, 1, 2, 3]) {
        let mut membership = Membership { set: dice.below(3), ..Membership::default() };
        match dice.below(6) {
            0 => membership.namespace = Some(Arc::from("ml")),
            1 => membership.namespace = Some(Arc::from(*dice.one(&["other", "kube-system", "training"]))),
            2 => membership.default_namespace = Some(Arc::from("ml")),
            3 => membership.prefix = "x-".to_owned(),
            4 => {
                let name = (*dice.one(&["one", "two", "a", "gpu"])).to_owned();
                let removed = PatchTarget { name: Some(name), ..PatchTarget::default() };
                membership.removed.push(removed);
            }
            _ => {}
        }
        if !out.contains(&membership) {
            out.push(membership);
        }
    }
    out.sort_by_key(|membership| membership.set);
    out
}

fn law_in_sets(documents: &[String], complete: bool, seed: u64, steps: usize) {
    let mut dice = Dice(seed);
    let engine = Arc::new(Engine::new(Settings { complete, ..Settings::default() }));
    let paths: Vec<String> = (0..16).map(|n| format!("{}/file-{n}.yaml", ["a", "b"][n % 2])).collect();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut places: BTreeMap<String, Vec<Membership>> = BTreeMap::new();
    for path in &paths[..10] {
        let text = (0..4).map(|_| dice.one(documents).clone()).collect::<Vec<_>>().join("\n---\n");
        texts.insert(path.clone(), text);
        places.insert(path.clone(), memberships(&mut dice));
    }
    let mut workspace = Workspace::new();
    let partition =
        Partition { sets: sets(), files: places.values().cloned().collect(), ..Partition::default() };
    let files: Vec<_> = texts.iter().map(|(path, text)| (read(path, text), Arc::clone(&engine))).collect();
    workspace.open_in_sets(files, &partition);
    let mut before = afresh_in_sets(&texts, &places, &engine);
    for step in 0..steps {
        let path = dice.one(&paths).clone();
        let (told, own) = match dice.below(10) {
            0 if texts.contains_key(&path) => {
                texts.remove(&path);
                places.remove(&path);
                (workspace.remove(&path), Some(path))
            }
            1 | 2 if texts.contains_key(&path) => {
                places.insert(path, memberships(&mut dice));
                (workspace.repartition(&sets(), &places), None)
            }
            _ => {
                let text = edited(texts.get(&path).map_or("", String::as_str), documents, &mut dice);
                texts.insert(path.clone(), text.clone());
                (workspace.set(read(&path, &text), &engine), Some(path))
            }
        };
        let now = afresh_in_sets(&texts, &places, &engine);
        assert_law(&workspace, &now, &before, &told, own.as_ref(), &format!("step {step}, seed {seed}"));
        before = now;
    }
}

/// Engines with the different configurations of files.
fn engines() -> [Arc<Engine>; 3] {
    let mut quiet = Settings { complete: true, ..Settings::default() };
    for rule in RULES.iter().step_by(3) {
        let off = RuleSettings { enabled: Some(false), ..RuleSettings::default() };
        quiet.rules.insert(rule.id.to_owned(), off);
    }
    [Settings::default(), Settings { complete: true, ..Settings::default() }, quiet]
        .map(|set| Arc::new(Engine::new(set)))
}

/// A file as input of a run over all files.
#[derive(Clone)]
struct Written {
    text: String,
    engine: usize,
}

/// The findings of each file in a run over all files, if they have several configurations.
fn afresh_of_all(
    files: &BTreeMap<String, Written>,
    sets: &[ManifestSet],
    places: &BTreeMap<String, Vec<Membership>>,
    engines: &[Arc<Engine>],
) -> BTreeMap<String, Vec<String>> {
    let read: Vec<(File, &Engine)> =
        files.iter().map(|(path, file)| (read(path, &file.text), &*engines[file.engine])).collect();
    let inputs: Vec<_> = read.iter().map(|(file, engine)| Some(RunInput { engine, file })).collect();
    let memberships = files.keys().map(|path| places.get(path).cloned().unwrap_or_default());
    let partition = Partition { sets: sets.to_vec(), files: memberships.collect(), ..Partition::default() };
    let reports = check_run(&inputs, &partition, None);
    files.keys().cloned().zip(reports.iter().map(|report| shown(report.as_ref().unwrap()))).collect()
}

/// Many changes at once: of texts, of configurations, and of memberships in sets.
fn law_of_updates(documents: &[String], seed: u64, steps: usize) {
    let mut dice = Dice(seed);
    let engines = engines();
    let paths: Vec<String> = (0..16).map(|n| format!("{}/file-{n}.yaml", ["a", "b"][n % 2])).collect();
    let mut files: BTreeMap<String, Written> = BTreeMap::new();
    let mut places: BTreeMap<String, Vec<Membership>> = BTreeMap::new();
    let mut present: Vec<usize> = Vec::new();
    let mut workspace = Workspace::new();
    let mut before: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut complete = 0;
    for step in 0..steps {
        let mut changed: BTreeSet<String> = BTreeSet::new();
        for _ in 0..if step == 0 { 10 } else { dice.below(4) } {
            let path = dice.one(&paths).clone();
            match (files.get(&path).cloned(), dice.below(6)) {
                (Some(_), 0) => _ = files.remove(&path),
                (Some(file), 1) => {
                    let engine = dice.below(engines.len());
                    files.insert(path.clone(), Written { engine, ..file });
                }
                (file, _) => {
                    let old = file.unwrap_or_else(|| Written {
                        text: (0..3).map(|_| dice.one(documents).clone()).collect::<Vec<_>>().join("\n---\n"),
                        // Some files declare that the input is complete, so that sets become complete and
                        // cease to be.
                        engine: if dice.below(3) == 0 { 1 } else { 0 },
                    });
                    let text = edited(&old.text, documents, &mut dice);
                    files.insert(path.clone(), Written { text, ..old });
                }
            }
            changed.insert(path);
        }
        if step % 3 == 0 {
            // Sets are added and removed, and their numbers change.
            present = (0..3).filter(|_| dice.below(4) > 0).collect();
            if dice.below(2) == 0 {
                present.reverse();
            }
        }
        if step == 0 || dice.below(3) == 0 {
            let path = dice.one(&paths).clone();
            places.insert(path, memberships(&mut dice));
        }
        let all = sets();
        let sets: Vec<ManifestSet> = present.iter().map(|set| all[*set].clone()).collect();
        let numbered = |membership: &Membership| {
            let set = present.iter().position(|set| *set == membership.set)?;
            Some(Membership { set, ..membership.clone() })
        };
        let of_file = |(path, all): (&String, &Vec<Membership>)| {
            let mut numbered: Vec<Membership> = all.iter().filter_map(numbered).collect();
            numbered.sort_by_key(|membership| membership.set);
            (path.clone(), numbered)
        };
        let memberships: BTreeMap<String, Vec<Membership>> = places.iter().map(of_file).collect();
        let change = |path: &String| {
            let new = files.get(path);
            let new = new.map(|file| (read(path, &file.text), Arc::clone(&engines[file.engine])));
            (path.clone(), new)
        };
        let told = workspace.update(changed.iter().map(change).collect(), &sets, &memberships);
        let now = afresh_of_all(&files, &sets, &memberships, &engines);
        let at = format!("step {step}, seed {seed}");
        assert!(workspace.paths().eq(now.keys().map(String::as_str)), "{at}");
        for (path, expected) in &now {
            let checked = shown(workspace.report(path).unwrap());
            assert_same(&checked, expected, &format!("{at}: {path}"));
        }
        let nothing = shown(&CheckReport::default());
        let said = |all: &BTreeMap<String, Vec<String>>, path| all.get(path).unwrap_or(&nothing).clone();
        let different = paths.iter().filter(|path| said(&now, *path) != said(&before, *path));
        assert_eq!(told.iter().collect::<BTreeSet<_>>(), different.collect(), "{at}");
        assert!(told.is_sorted(), "{at}");
        let clusters = paths.iter().flat_map(|path| workspace.clusters_of(path));
        complete += clusters.filter(|(_, cluster)| cluster.is_complete()).count();
        before = now;
    }
    assert!(complete > 0, "some sets are whole clusters");
}

/// The edits of each law; the weekly run makes two hundred.
fn steps() -> usize {
    let asked = std::env::var("WORKSPACE_STEPS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(20)
}

#[test]
fn a_workspace_says_what_a_run_over_all_files_says() {
    law(&documents(), false, 1, steps());
}

#[test]
fn and_so_where_what_is_absent_does_not_exist() {
    law(&documents(), true, 2, steps());
}

#[test]
fn pods_and_the_pools_they_go_to_are_told_of_each_other() {
    law(&cluster(), true, 3, 3 * steps());
}

#[test]
fn files_of_several_clusters_are_judged_in_each_of_them() {
    law_in_sets(&cluster(), false, 4, 2 * steps());
    law_in_sets(&cluster(), true, 5, 2 * steps());
    law_in_sets(&documents(), true, 6, steps());
}

#[test]
fn many_changes_at_once_are_one_update() {
    law_of_updates(&cluster(), 21, 3 * steps());
    law_of_updates(&documents(), 22, steps());
}

/// With many objects, pods are placed before any rule runs, and each rule checks several objects in parallel,
/// in small files and in a large one. The findings equal those of each object checked alone.
#[test]
fn rules_say_the_same_of_many_objects_as_of_each() {
    let documents = cluster();
    for (complete, in_a_file) in [(false, 10), (true, 10), (false, documents.len())] {
        let files = documents.chunks(in_a_file).map(|some| some.join("---\n")).enumerate();
        let texts: BTreeMap<String, String> =
            files.map(|(at, text)| (format!("file-{at}.yaml"), text)).collect();
        let engine = Engine::new(Settings { complete, ..Settings::default() });
        let files: Vec<File> = texts.iter().map(|(path, text)| read(path, text)).collect();
        let inputs: Vec<_> = files.iter().map(|file| Some(RunInput { engine: &engine, file })).collect();
        let reports = check_run(&inputs, &Partition::default(), None);
        let found: usize = reports.iter().flatten().map(|report| report.findings.len()).sum();
        assert!(found > 1000, "{found}");
        for ((path, expected), report) in one_by_one(&texts, &engine).iter().zip(&reports) {
            assert_same(&shown(report.as_ref().unwrap()), expected, path);
        }
    }
}

/// For a given partition, the findings in a set do not depend on the other sets of the input.
#[test]
fn the_findings_of_a_set_do_not_depend_on_other_sets() {
    let mut dice = Dice(11);
    let documents = cluster();
    let engine = Engine::new(Settings { complete: true, ..Settings::default() });
    for _ in 0..12 {
        let texts: Vec<String> = (0..9)
            .map(|_| (0..4).map(|_| dice.one(&documents).clone()).collect::<Vec<_>>().join("\n---\n"))
            .collect();
        let files: Vec<File> =
            texts.iter().enumerate().map(|(n, text)| read(&format!("{n}.yaml"), text)).collect();
        let of_set = |n: usize| vec![Membership { set: n % 3, ..Membership::default() }];
        let whole =
            Partition { sets: sets(), files: (0..files.len()).map(of_set).collect(), ..Partition::default() };
        let inputs: Vec<_> = files.iter().map(|file| Some(RunInput { engine: &engine, file })).collect();
        let together = check_run(&inputs, &whole, None);
        for set in 0..3 {
            let alone: Vec<_> = (0..files.len()).map(|n| inputs[n].filter(|_| n % 3 == set)).collect();
            let alone = check_run(&alone, &whole, None);
            for (number, report) in alone.iter().enumerate().filter(|(number, _)| number % 3 == set) {
                let (alone, together) = (report.as_ref().unwrap(), together[number].as_ref().unwrap());
                assert_eq!(shown(alone), shown(together));
                let other = &sets()[set].name;
                assert!(together.findings.iter().all(|finding| *finding.sets.names == [Arc::clone(other)]));
            }
        }
    }
}

#[test]
fn of_the_pools_of_many_clusters_nobody_knows_who_goes_where() {
    let pool = |n: usize| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: pool-{n}}}\nspec:\n  template:\n    spec:\n      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      requirements:\n        \
             - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}}\n        \
             - {{key: karpenter.sh/capacity-type, operator: In, values: [spot]}}\n"
        )
    };
    let run = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: run, namespace: ml}\nspec:\n  template:\n    spec:\n      containers:\n        \
         - {name: main, image: example.com/a:1, command: [torchrun, train.py], resources: {limits: {nvidia.com/gpu: 1}}}\n";
    let on_spot = |workspace: &Workspace| {
        let checked = workspace.report("run.yaml").unwrap();
        checked.findings.iter().any(|f| f.rule.id == "training-on-spot")
    };
    let engine = Arc::new(Engine::new(Settings::default()));
    let most: Vec<String> = (0..500).map(pool).collect();
    let mut workspace = Workspace::new();
    workspace.set(read("pools.yaml", &most.join("---\n")), &engine);
    workspace.set(read("run.yaml", run), &engine);
    assert!(on_spot(&workspace));
    assert_eq!(workspace.set(read("more.yaml", &pool(500)), &engine), ["run.yaml"]);
    assert!(!on_spot(&workspace));
    assert_eq!(workspace.remove("more.yaml"), ["run.yaml"]);
    assert!(on_spot(&workspace));
}

#[test]
fn files_come_and_go() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: a\nspec:\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n";
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu\n";
    let missing = |workspace: &Workspace| {
        let checked = workspace.report("pool.yaml").unwrap();
        checked.findings.iter().any(|f| f.rule.id == "node-class-missing")
    };
    let settings = Settings { complete: true, ..Settings::default() };
    let engine = Arc::new(Engine::new(settings));
    let mut workspace = Workspace::new();
    assert_eq!(workspace.set(read("pool.yaml", pool), &engine), [] as [&str; 0]);
    assert!(missing(&workspace));
    assert_eq!(workspace.set(read("class.yaml", class), &engine), ["pool.yaml"]);
    assert!(!missing(&workspace));
    let moved = format!("\n{class}");
    assert_eq!(workspace.set(read("class.yaml", &moved), &engine), [] as [&str; 0]);
    assert_eq!(workspace.remove("class.yaml"), ["pool.yaml"]);
    assert!(missing(&workspace));
    assert_eq!(workspace.remove("class.yaml"), [] as [&str; 0]);
    assert!(workspace.file("class.yaml").is_none());
    let cluster = workspace.clusters_of("pool.yaml").next();
    assert_eq!(cluster.map(|(_, cluster)| cluster.objects().len()), Some(1));
}
