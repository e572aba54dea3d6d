//! `cargo bench -p gpulint-rules --bench edits -- [DIR] [complete]`: the cost of a key stroke in an editor.
//!
//! Opens the manifests of a folder as a language server does (by default 1,400 files of the `manifests`
//! example), makes edits of several kinds with one update each, and prints the time for reading, opening and
//! editing, and the resident memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

#[allow(dead_code)]
#[path = "../examples/manifests.rs"]
mod manifests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulint_rules::file::File;
use gpulint_rules::source::Source;
use gpulint_rules::{Engine, Membership, Settings, Workspace};
use gpulint_testing::Dice;
use rayon::prelude::*;

const CLASS: &str = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu\nspec:\n  role: nodes\n  \
    amiSelectorTerms: [{alias: al2023@v20250701}]\n  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]\n  \
    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]\n";

/// Maximum number of edits of a kind. Each is undone by another edit.
const EDITS_OF_A_KIND: usize = 40;

/// The name of a kind of edits, and the function that edits a text; `None` if it does not apply.
type Kind = (&'static str, fn(&str, &mut Dice) -> Option<String>);

const KINDS: [Kind; 8] = [
    ("a digit", |text, dice| with_line(text, dice, is_number, |line| format!("{line}1"))),
    ("a label", |text, dice| with_line(text, dice, is_label, |line| line.replacen("app-", "app-x", 1))),
    ("a comment", |text, _| Some(format!("# x\n{text}"))),
    ("a name", |text, dice| with_line(text, dice, is_name, |line| format!("{line}x"))),
    ("a class's name", |text, dice| {
        let is_class = text.contains("kind: EC2NodeClass");
        is_class.then(|| with_line(text, dice, is_name, |line| format!("{line}x")))?
    }),
    ("a pool's name", |text, dice| {
        let is_pool = text.contains("kind: NodePool");
        is_pool.then(|| with_line(text, dice, is_name, |line| format!("{line}x")))?
    }),
    ("broken syntax", |text, dice| {
        with_line(text, dice, |line| line.contains(": "), |line| format!("{line}: [\""))
    }),
    ("a file", |_, _| Some(String::new())),
];

fn is_number(line: &str) -> bool {
    line.contains(": ") && line.ends_with(|last: char| last.is_ascii_digit())
}

fn is_label(line: &str) -> bool {
    line.contains("app-") && (line.contains("app: ") || line.contains("name: "))
}

fn is_name(line: &str) -> bool {
    line.starts_with("  name: ")
}

/// The text with one of the suitable lines replaced.
fn with_line(
    text: &str,
    dice: &mut Dice,
    fits: impl Fn(&str) -> bool,
    edit: impl Fn(&str) -> String,
) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let fitting: Vec<usize> = (0..lines.len()).filter(|at| fits(lines[*at])).collect();
    let at = *fitting.get(dice.below(fitting.len()))?;
    let lines =
        lines.iter().enumerate().map(|(n, line)| if n == at { edit(line) } else { (*line).to_owned() });
    Some(lines.collect::<Vec<_>>().join("\n") + "\n")
}

fn manifests_below(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            manifests_below(&path, out);
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            out.push(path);
        }
    }
}

/// The current and the maximum resident memory in MB, as Linux reports it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    match (of("VmRSS:"), of("VmHWM:")) {
        (Some(now), Some(most)) => format!("{} MB resident, {} MB at most", now / 1024, most / 1024),
        _ => "unknown memory".to_owned(),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let complete = arguments.iter().any(|argument| argument == "complete");
    let folder = arguments.iter().find(|argument| *argument != "complete");
    let engine = Arc::new(Engine::new(Settings { complete, ..Settings::default() }));
    println!("before: {}", resident());

    let start = Instant::now();
    let mut texts: Vec<(String, String)> = match folder {
        Some(folder) => {
            let mut paths = Vec::new();
            manifests_below(Path::new(folder), &mut paths);
            let relative =
                |path: &PathBuf| path.strip_prefix(folder).unwrap().to_string_lossy().replace('\\', "/");
            let text = |path: &PathBuf| String::from_utf8(std::fs::read(path).unwrap()).ok();
            paths.par_iter().filter_map(|path| Some((relative(path), text(path)?))).collect()
        }
        None => (0..1400).map(|n| (format!("app-{n}.yaml"), manifests::cluster(n))).collect(),
    };
    if !texts.iter().any(|(_, text)| text.contains("kind: EC2NodeClass")) {
        texts.push(("class.yaml".to_owned(), CLASS.to_owned()));
    }
    let read = |path: &str, text: &str| File::read(Source::from_text(path, text));
    let change = |(path, text): (String, String)| {
        let file = read(&path, &text);
        (path, Some((file, Arc::clone(&engine))))
    };
    let files: Vec<_> = texts.into_par_iter().map(change).collect();
    let reading = start.elapsed();
    let (count, objects) =
        (files.len(), files.iter().map(|(_, new)| new.as_ref().unwrap().0.objects.len()).sum::<usize>());
    println!("read {count} files, {objects} objects: {reading:?}; {}", resident());

    let start = Instant::now();
    let mut workspace = Workspace::new();
    let memberships: BTreeMap<String, Vec<Membership>> =
        files.iter().map(|(path, _)| (path.clone(), Vec::new())).collect();
    workspace.update(files, &[], &memberships);
    let opening = start.elapsed();
    let findings = |workspace: &Workspace| -> usize {
        memberships.keys().filter_map(|path| workspace.report(path)).map(|report| report.findings.len()).sum()
    };
    println!(
        "opened: {opening:?}, with reading {:?}; {}; {} findings",
        reading + opening,
        resident(),
        findings(&workspace)
    );

    let mut dice = Dice(1);
    let paths: Vec<&String> = memberships.keys().collect();
    let mut all = Vec::new();
    for (name, edit) in KINDS {
        let mut times = Vec::new();
        let mut most = 0;
        let candidates: Vec<&String> = paths
            .iter()
            .copied()
            .filter(|path| edit(workspace.file(path).unwrap().source.text(), &mut Dice(1)).is_some())
            .collect();
        for _ in 0..EDITS_OF_A_KIND.min(4 * candidates.len()) {
            let path = candidates[dice.below(candidates.len())];
            let before = workspace.file(path).unwrap().source.text().to_owned();
            let Some(text) = edit(&before, &mut dice) else { continue };
            for text in [text, before] {
                let start = Instant::now();
                let new = (!text.is_empty()).then(|| (read(path, &text), Arc::clone(&engine)));
                let changed = workspace.update(vec![(path.clone(), new)], &[], &memberships);
                times.push(start.elapsed());
                most = most.max(changed.len());
            }
        }
        report(name, &mut times, &format!("; at most {most} files changed"));
        all.append(&mut times);
    }
    report("all", &mut all, "");
    println!("after: {}; {} findings", resident(), findings(&workspace));
}

fn report(name: &str, times: &mut [Duration], more: &str) {
    times.sort();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).or(times.last());
    if let (Some(median), Some(p99), Some(worst)) = (at(0.5), at(0.99), times.last()) {
        println!(
            "{name}: {} edits, median {median:.1?}, p99 {p99:.1?}, worst {worst:.1?}{more}",
            times.len()
        );
    }
}
