//! Checks text in the same sequence as the program, without files.

use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Cluster, Engine, File, Finding, Object, Partition, RunInput, check_run};
use serde_json::Value;

/// Reads every source as a file of manifests, puts all objects into one index, and checks file by file.
pub fn check(engine: &Engine, sources: impl IntoIterator<Item = Source>) -> CheckReport {
    let files: Vec<File> = sources.into_iter().map(File::read).collect();
    check_files(engine, &files)
}

/// [`check`], for files that were read already.
pub fn check_files(engine: &Engine, files: &[File]) -> CheckReport {
    let inputs: Vec<_> = files.iter().map(|file| Some(RunInput { engine, file })).collect();
    let mut all = CheckReport::default();
    for report in check_run(&inputs, &Partition::default(), None).into_iter().flatten() {
        all.findings.extend(report.findings);
        all.suppressed += report.suppressed;
    }
    all
}

/// An index of objects. If the engine's settings say so, it counts as the whole cluster.
pub fn cluster<'a>(engine: &Engine, objects: impl IntoIterator<Item = &'a Object>) -> Cluster {
    let mut cluster = Cluster::new(engine.settings().complete);
    for object in objects {
        cluster.apply(object.clone());
    }
    cluster
}

/// The objects of a text.
pub fn objects(text: &str) -> Vec<Object> {
    File::read(Source::from_text("a.yaml", text)).objects
}

/// The objects of a text as JSON values.
pub fn values(text: &str) -> Vec<Value> {
    objects(text).iter().map(|object| object.root().to_json()).collect()
}

/// Line and column of a finding, both from 1.
///
/// # Panics
/// If the finding is of an object that did not come from text.
#[track_caller]
pub fn position(finding: &Finding) -> (u32, u32) {
    let (source, _, span) = finding.location.resolve_span().expect("the object came from text");
    let at = source.lines().position(source.text(), span.start);
    (at.line, at.column)
}
