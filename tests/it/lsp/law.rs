//! The invariant of the server: after any edits, its diagnostics equal those of a fresh `gpulint check`.
//!
//! The folder is a generated repository: three Flux clusters that share bases, kustomizations with patches, folders of
//! environments, a chart, a script that fills in placeholders, ignored files, a configuration. Edits change texts in
//! the editor, files on the disk, and the configuration. A copy of the folder has the texts as the server should see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gpulint_testing::Dice;
use serde_json::Value;

use super::client::{Client, Setup};
use super::text::{Encoding, position};
use crate::support::Folder;

/// Number of edits of all tests together; `GPULINT_EDITS` sets it, and the weekly run makes a thousand.
fn edits() -> usize {
    std::env::var("GPULINT_EDITS").map_or(100, |count| count.parse().expect("GPULINT_EDITS is a number"))
}

#[test]
fn diagnostics_are_those_of_a_fresh_check_with_seed_1() {
    edit_at_random(1, &["utf-8", "utf-16"]);
}

#[test]
fn diagnostics_are_those_of_a_fresh_check_with_seed_2() {
    edit_at_random(2, &["utf-16"]);
}

#[test]
fn diagnostics_are_those_of_a_fresh_check_with_seed_3() {
    edit_at_random(3, &["utf-32"]);
}

#[test]
fn diagnostics_are_those_of_a_fresh_check_with_seed_4() {
    edit_at_random(4, &["utf-16"]);
}

fn repository() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut add = |path: &str, text: String| _ = files.insert(path.to_owned(), text);
    for (cluster, region) in [("east", "us-east-1"), ("west", "us-west-2"), ("lab", "eu-west-1")] {
        add(
            &format!("clusters/{cluster}/apps.yaml"),
            flux("apps", &format!("./apps/{cluster}"), "")
                + "---\n"
                + &flux("pools", &format!("./pools/{cluster}"), ""),
        );
        add(
            &format!("apps/{cluster}/kustomization.yaml"),
            "resources:\n- ../base/serve\n- ../base/train\n- extra.yaml\npatches:\n- path: patch.yaml\n"
                .to_owned(),
        );
        add(
            &format!("apps/{cluster}/extra.yaml"),
            workload("Deployment", &format!("web-{region}"), "serving", 0),
        );
        add(
            &format!("apps/{cluster}/patch.yaml"),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: serve\nspec:\n  replicas: 3\n"
                .to_owned(),
        );
        add(
            &format!("pools/{cluster}/kustomization.yaml"),
            format!("namePrefix: {cluster}-\nresources:\n- ../base\n"),
        );
    }
    add("apps/base/serve/kustomization.yaml", "resources:\n- serve.yaml\n- scaled.yaml\n".to_owned());
    add(
        "apps/base/serve/serve.yaml",
        workload("Deployment", "serve", "serving", 1) + "---\n" + &guard("serve"),
    );
    add("apps/base/serve/scaled.yaml", scaled("serve"));
    add(
        "apps/base/train/kustomization.yaml",
        "namespace: train\nresources:\n- train.yaml\n- guard.yaml\n".to_owned(),
    );
    add("apps/base/train/train.yaml", workload("Job", "train", "training", 8));
    add("apps/base/train/guard.yaml", guard("train"));
    add("pools/base/kustomization.yaml", "resources:\n- gpu.yaml\n- class.yaml\n- general.yaml\n".to_owned());
    add("pools/base/gpu.yaml", pool("gpu", "p5, g6e", "- {key: nvidia.com/gpu, effect: NoSchedule}"));
    add("pools/base/general.yaml", pool("general", "m7i, c7i", ""));
    add("pools/base/class.yaml", class("gpu"));
    for environment in ["prod", "staging"] {
        add(&format!("envs/{environment}/pool.yaml"), pool("gpu", "g5", ""));
        add(&format!("envs/{environment}/serve.yaml"), workload("Deployment", "serve", "serving", 1));
        add(&format!("envs/{environment}/guard.yaml"), guard("serve") + "---\n" + &guard("train"));
    }
    add("filled/pool.yaml", pool("${POOL}", "${FAMILY}", ""));
    add("filled/apply.sh", "envsubst < filled/pool.yaml | kubectl apply -f -\n".to_owned());
    add("plain/pool.yaml", pool("${POOL}", "g5", "").replace('\n', "\r\n"));
    add(
        "plain/old.yaml",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: old}\nspec: {}\n".to_owned(),
    );
    add("plain/list.json", r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {"maxUnavailable": 0}}]}"#.to_owned());
    add("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n".to_owned());
    add("chart/values.yaml", "kind: Pod\napiVersion: v1\n".to_owned());
    add("chart/templates/pool.yaml", pool("charted", "g5", ""));
    add("ignored/pool.yaml", pool("ignored", "g5", ""));
    add(".gitignore", "ignored/\n".to_owned());
    add("gpulint.yaml", CONFIGURATIONS[0].to_owned());
    files
}

const CONFIGURATIONS: [&str; 5] = [
    "platform: {karpenter: 1.8}\n",
    "platform: {karpenter: 1.2}\nignore: [envs/staging]\n",
    "rules: {pdb-missing: off, gpu-pool-untainted: error}\n",
    "clusters:\n- {name: one, paths: [\"envs/**\"]}\n",
    "platform: {keda: 2.16, kubernetes: 1.31}\nignore: [\"*-copy.yaml\"]\n",
];

/// Names that several objects have, or refer to.
const NAMES: [&str; 10] =
    ["serve", "train", "gpu", "general", "ml", "default", "east-gpu", "spot", "on-demand", "${POOL}"];

fn flux(name: &str, path: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: flux-system\nspec:\n  \
         interval: 10m\n  prune: true\n  path: {path}\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}"
    )
}

fn pool(name: &str, families: &str, taints: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: {name}\nspec:\n  template:\n    spec:\n      expireAfter: 720h\n      \
         taints: # wer duldet das? 😀 日本\n      {taints}\n      nodeClassRef:\n        group: karpenter.k8s.aws\n        kind: EC2NodeClass\n        \
         name: gpu\n      requirements:\n      - key: karpenter.k8s.aws/instance-family\n        operator: In\n        values: [{families}]\n      \
         - key: karpenter.sh/capacity-type\n        operator: In\n        values: [spot, on-demand]\n"
    )
}

fn class(name: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: {name}\nspec:\n  role: nodes\n  amiSelectorTerms:\n  \
         - alias: al2023@latest\n  subnetSelectorTerms:\n  - tags: {{cluster: x}}\n  securityGroupSelectorTerms:\n  - tags: {{cluster: x}}\n"
    )
}

fn workload(kind: &str, name: &str, purpose: &str, gpus: u32) -> String {
    let (api, head) = match kind {
        "Job" => ("batch/v1", "  backoffLimit: 3\n".to_owned()),
        _ => ("apps/v1", format!("  replicas: 2\n  selector:\n    matchLabels: {{app: {name}}}\n")),
    };
    let command = if purpose == "training" { "[torchrun, train.py]" } else { "[vllm, serve]" };
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: ml\nspec:\n{head}  template:\n    metadata:\n      \
         labels: {{app: {name}}}\n    spec:\n      restartPolicy: {}\n      nodeSelector: {{karpenter.sh/nodepool: gpu}}\n      tolerations:\n      \
         - {{key: nvidia.com/gpu, operator: Exists}}\n      containers:\n      - name: main\n        image: example.com/main:1\n        \
         command: {command}\n        resources:\n          limits: {{nvidia.com/gpu: {gpus}}}\n",
        if kind == "Job" { "Never" } else { "Always" }
    )
}

fn guard(name: &str) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: {name}\n  namespace: ml\nspec:\n  maxUnavailable: 0\n  \
         selector:\n    matchLabels: {{app: {name}}}\n"
    )
}

fn scaled(name: &str) -> String {
    format!(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata:\n  name: {name}\n  namespace: ml\nspec:\n  scaleTargetRef: {{name: {name}}}\n  \
         minReplicaCount: 0\n  maxReplicaCount: 20\n  triggers:\n  - type: prometheus\n    metadata:\n      serverAddress: http://prometheus:9090\n      \
         query: sum(queue)\n      threshold: \"5\"\n"
    )
}

/// The kind of edit that was made.
enum Step {
    /// A change in the editor.
    Typed,
    /// A change on the disk.
    Disk,
}

struct Session {
    client: Client,
    /// The folder that the server reads.
    folder: Folder,
    /// The folder as the server should see it.
    mirror: Folder,
    /// The original texts.
    original: BTreeMap<String, String>,
    dice: Dice,
    /// The edits that were made, for the message of a failure.
    log: Vec<String>,
}

fn edit_at_random(seed: u64, encodings: &[&str]) {
    let original = repository();
    let make = || original.iter().fold(Folder::new(), |folder, (path, text)| folder.with(path, text));
    let (folder, mirror) = (make(), make());
    // The folder above has no repository, so that ignore files and paths of Flux count from here.
    for root in [&folder, &mirror] {
        fs::create_dir(root.0.join(".git")).unwrap();
    }
    let client = Client::start(&folder.0, Setup::push().encodings(encodings));
    let mut session = Session { client, folder, mirror, original, dice: Dice(seed), log: Vec::new() };
    session.compare();
    // Most of the time goes into the checks to compare with, and an edit that is handled wrongly shows for long.
    for number in 0..edits() / 4 {
        session.edit();
        if number % 2 == 0 {
            session.compare();
        }
    }
    session.compare();
    session.client.end();
}

impl Session {
    fn edit(&mut self) {
        let is_edited = |path: &&String| *path != "gpulint.yaml" && *path != ".gitignore";
        let paths: Vec<String> = self.original.keys().filter(is_edited).cloned().collect();
        let path = self.dice.one(&paths).clone();
        let exists = self.folder.0.join(&path).is_file();
        let is_text = path.ends_with(".yaml") || path.ends_with(".json");
        let step = match self.dice.below(20) {
            0 if exists => self.delete(&path),
            1..=3 if !exists => self.write(&path, &self.original[&path].clone()),
            4 => self.copy(&path),
            5 => self.ignore(),
            6 => self.configure(),
            7 => self.close(&path),
            8 => self.save(&path),
            9 if exists => {
                let text = self.mutated(&self.disk(&path));
                self.write(&path, &text)
            }
            10 if exists => self.write(&path, &self.original[&path].clone()),
            _ if exists && is_text => self.write_in_editor(&path),
            _ => Step::Disk,
        };
        if matches!(step, Step::Typed) {
            self.show(&path);
        }
    }

    fn disk(&self, path: &str) -> String {
        fs::read_to_string(self.folder.0.join(path)).unwrap_or_default()
    }

    fn is_open(&self, path: &str) -> bool {
        self.client.buffers().any(|(open, _)| open == path)
    }

    /// Writes the text that the server should see to the copy.
    fn show(&self, path: &str) {
        let copy = self.mirror.0.join(path);
        // A file that is deleted and open exists in the editor.
        if !self.folder.0.join(path).is_file() && !self.is_open(path) {
            let _ = fs::remove_file(copy);
            return;
        }
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, self.client.text(path)).unwrap();
    }

    fn write_in_editor(&mut self, path: &str) -> Step {
        if !self.is_open(path) {
            self.client.open(path);
        }
        let before = self.client.text(path);
        let after = match self.dice.below(8) {
            0 => self.original[path].clone(),
            _ => self.mutated(&before),
        };
        self.log.push(format!("type in {path}"));
        // One change of the smallest range, as an editor sends it, or a whole text.
        if self.dice.below(10) == 0 {
            self.client.set(path, &after);
            return Step::Typed;
        }
        let mut start = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
        while !before.is_char_boundary(start) || !after.is_char_boundary(start) {
            start -= 1;
        }
        let most = before.len().min(after.len()) - start;
        let ends = before.bytes().rev().zip(after.bytes().rev());
        let mut end = ends.take(most).take_while(|(a, b)| a == b).count();
        while !before.is_char_boundary(before.len() - end) || !after.is_char_boundary(after.len() - end) {
            end -= 1;
        }
        self.client.splice(path, start..before.len() - end, &after[start..after.len() - end]);
        Step::Typed
    }

    fn mutated(&mut self, text: &str) -> String {
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        if lines.is_empty() {
            return "kind: Pod\n".to_owned();
        }
        let at = self.dice.below(lines.len());
        let name = *self.dice.one(&NAMES);
        match self.dice.below(10) {
            0 => _ = lines.remove(at),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = self.dice.below(lines.len());
                lines.swap(at, other);
            }
            // An edit that breaks the document, or only seems to.
            3 => {
                let broken = *self.dice.one(&["\t", "- [", "# 😀 日本 ", "é: ", "\"", "---\n", "  "]);
                lines[at].insert_str(0, broken);
            }
            4 | 5 => {
                // A digit becomes another one.
                let digit = char::from(b'0' + u8::try_from(self.dice.below(10)).unwrap());
                let digits: Vec<usize> =
                    text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
                if !digits.is_empty() {
                    let at = *self.dice.one(&digits);
                    return format!("{}{digit}{}", &text[..at], &text[at + 1..]);
                }
            }
            _ => {
                // A name becomes another one.
                let found: Vec<(usize, &str)> = NAMES.iter().flat_map(|n| text.match_indices(n)).collect();
                if !found.is_empty() {
                    let (at, old) = *self.dice.one(&found);
                    return format!("{}{name}{}", &text[..at], &text[at + old.len()..]);
                }
            }
        }
        lines.concat()
    }

    fn write(&mut self, path: &str, text: &str) -> Step {
        self.log.push(format!("write {path}"));
        self.client.on_disk(path, text);
        Step::Typed
    }

    fn delete(&mut self, path: &str) -> Step {
        self.log.push(format!("delete {path}"));
        self.client.delete(path);
        Step::Typed
    }

    /// Copies a file to a path beside it, or removes such a copy.
    fn copy(&mut self, path: &str) -> Step {
        let Some(stem) = path.strip_suffix(".yaml") else { return Step::Disk };
        let copy = format!("{stem}-copy.yaml");
        if self.folder.0.join(&copy).is_file() {
            self.log.push(format!("delete {copy}"));
            self.client.delete(&copy);
        } else {
            self.log.push(format!("make {copy}"));
            let text = self.mutated(&self.original[path].clone());
            self.client.on_disk(&copy, text);
        }
        self.show(&copy);
        Step::Disk
    }

    fn ignore(&mut self) -> Step {
        let text = *self.dice.one(&["ignored/\n", "", "plain/\n", "*-copy.yaml\nenvs/prod/\n"]);
        self.log.push(format!("ignore {text:?}"));
        self.client.on_disk(".gitignore", text);
        self.show(".gitignore");
        Step::Disk
    }

    fn configure(&mut self) -> Step {
        let text = *self.dice.one(&CONFIGURATIONS);
        self.log.push(format!("configure {text:?}"));
        self.client.on_disk("gpulint.yaml", text);
        self.show("gpulint.yaml");
        Step::Disk
    }

    fn close(&mut self, path: &str) -> Step {
        if !self.is_open(path) {
            return Step::Disk;
        }
        self.log.push(format!("close {path}"));
        self.client.close(path);
        Step::Typed
    }

    fn save(&mut self, path: &str) -> Step {
        if !self.is_open(path) || !self.folder.0.join(path).is_file() {
            return Step::Disk;
        }
        self.log.push(format!("save {path}"));
        self.client.save(path);
        Step::Typed
    }

    /// Compares what the server published with a run over the copy.
    fn compare(&mut self) {
        self.client.settle();
        let run = self.mirror.run(&["check", ".", "--format", "json"]);
        let report: Value =
            serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {run:?}\n{}", self.steps()));
        let expected: BTreeSet<String> = report["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| {
                let path = finding["file"].as_str().unwrap();
                let text = fs::read_to_string(self.mirror.0.join(path)).unwrap();
                line(path, &text, finding, self.client.encoding)
            })
            .collect();
        let mut found = BTreeSet::new();
        for (path, published) in self.client.published() {
            for one in &published.diagnostics {
                let severity = one["severity"].as_i64().unwrap();
                let message = one["message"].as_str().unwrap().lines().next().unwrap_or_default();
                found.insert(format!(
                    "{path}:{} {severity} {} {message}",
                    range(&one["range"]),
                    one["code"].as_str().unwrap()
                ));
            }
        }
        let missing: Vec<&String> = expected.difference(&found).collect();
        let extra: Vec<&String> = found.difference(&expected).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "the server has not:\n{missing:#?}\nand has:\n{extra:#?}\n{}\n{}",
            self.steps(),
            self.texts(missing.iter().chain(&extra).copied()),
        );
    }

    /// The files of some findings.
    fn texts<'a>(&self, lines: impl Iterator<Item = &'a String>) -> String {
        let paths: BTreeSet<&str> = lines.filter_map(|line| line.split(':').next()).collect();
        let text = |path: &&str| fs::read_to_string(self.mirror.0.join(path)).unwrap_or_default();
        paths.iter().map(|path| format!("{path}:\n{}", text(path))).collect()
    }

    fn steps(&self) -> String {
        let log = self.client.log();
        format!(
            "after {} edits, the last:\n{}\n{log}",
            self.log.len(),
            self.log[self.log.len().saturating_sub(6)..].join("\n")
        )
    }
}

/// A finding of the report in the form of the server.
fn line(path: &str, text: &str, finding: &Value, encoding: Encoding) -> String {
    let at = |end: &str| {
        let offset = usize::try_from(finding["range"][end]["offset"].as_u64().unwrap()).unwrap();
        position(text, offset, encoding)
    };
    let severity = match finding["severity"].as_str().unwrap() {
        "error" => 1,
        "warning" => 2,
        _ => 3,
    };
    let range = range(&serde_json::json!({"start": at("start"), "end": at("end")}));
    let message = finding["message"].as_str().unwrap().lines().next().unwrap_or_default();
    format!("{path}:{range} {severity} {} {message}", finding["rule"].as_str().unwrap())
}

fn range(range: &Value) -> String {
    let at = |end: &str| format!("{}:{}", range[end]["line"], range[end]["character"]);
    format!("{}-{}", at("start"), at("end"))
}
