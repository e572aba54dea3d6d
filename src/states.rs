//! States of the manifests that are judged one after the other, such as both sides of a change. What is equal in two of them is
//! read once; the rules run again only for what differs from the state before, and where they read something that differs.
//!
//! A workspace costs a tenth more than a run that keeps nothing, for files that are in one set, and up to 40 % more where eight
//! sets share all files.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;

use gpulint_rules::{CheckReport, Engine, FileChange, Membership, Workspace};

use crate::batch::{Batch, ScopedInput};
use crate::files::{Disk, KnownFiles};

pub(crate) struct States {
    workspace: Workspace,
    /// The rules under each configuration of the last state.
    engines: Vec<Arc<Engine>>,
    files: Arc<KnownFiles>,
}

impl States {
    pub(crate) fn begin() -> States {
        States { workspace: Workspace::new(), engines: Vec::new(), files: Arc::default() }
    }

    /// The files of the next state: those that are equal in another one are not read again.
    pub(crate) fn disk(&self, disk: &Disk) -> Disk {
        disk.with_known(&self.files)
    }

    /// Takes the rules of the last state for configurations that are alike: the workspace keeps what a set of rules found only
    /// for that very one.
    pub(crate) fn take_known(&self, engines: &mut [Arc<Engine>]) {
        for engine in engines {
            let is_known = |known: &&Arc<Engine>| known.settings().are_alike(engine.settings());
            if let Some(known) = self.engines.iter().find(is_known) {
                *engine = Arc::clone(known);
            }
        }
    }

    /// Checks the inputs of the next state; one report for each, as of [`Batch::check`].
    pub(crate) fn check(&mut self, batch: &Batch<'_>) -> Vec<Option<CheckReport>> {
        let keys = keys(&batch.inputs);
        let partition = &batch.sets.partition;
        let mut gone: BTreeSet<String> = self.workspace.paths().map(str::to_owned).collect();
        let mut memberships: BTreeMap<String, Vec<Membership>> = BTreeMap::new();
        let mut changes: Vec<FileChange> = Vec::new();
        for (at, (key, read)) in keys.iter().zip(&batch.reads).enumerate() {
            let Some(file) = &read.file else { continue };
            let engine = batch.engine(at);
            gone.remove(key);
            memberships.insert(key.clone(), partition.memberships(at).to_vec());
            let has_text =
                self.workspace.file(key).is_some_and(|known| Arc::ptr_eq(&known.source, &file.source));
            let has_engine = self.workspace.engine(key).is_some_and(|known| Arc::ptr_eq(known, engine));
            if !has_text || !has_engine {
                changes.push((key.clone(), Some((file.clone(), Arc::clone(engine)))));
            }
        }
        changes.extend(gone.into_iter().map(|key| (key, None)));
        self.workspace.set_rest(partition);
        self.workspace.update(changes, &partition.sets, &memberships);
        // The report of a command is whole, or there is none.
        if let Some(panic) = self.workspace.take_panics().pop() {
            resume_unwind(Box::new(panic.message));
        }
        self.engines = batch.engines.to_vec();
        let reports = batch.inputs.iter().zip(&keys);
        let reports =
            reports.map(|(one, key)| self.workspace.report(key).filter(|_| !one.is_context).cloned());
        let mut reports: Vec<Option<CheckReport>> = reports.collect();
        batch.leave_out(&mut reports);
        reports
    }
}

/// A name for each input, which is the same in all states: its path, and its number among those of the path, as of two streams.
fn keys(inputs: &[ScopedInput]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let keys = inputs.iter().map(|one| {
        let path = &one.input.display_path;
        let count = counts.entry(path).or_default();
        *count += 1;
        if *count == 1 { path.clone() } else { format!("{path}\n{count}") }
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use gpulint_rules::{Finding, Location};

    use super::*;
    use crate::args::RuleArgs;
    use crate::batch::Selection;
    use crate::checkout::temporary_folder;
    use crate::config::Scopes;
    use crate::files;

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Judges the files of a folder as the next state. `prepare` may replace the rules before they run.
    fn next<T>(
        states: &mut States,
        folder: &Path,
        prepare: impl Fn(Arc<Engine>) -> Arc<Engine>,
        of: impl FnOnce(&mut States, &Batch<'_>) -> T,
    ) -> T {
        let found = files::find(&[folder.to_owned()], Path::new("<stdin>"));
        let scopes = Scopes::for_rules(&RuleArgs::default()).unwrap();
        let mut selection = Selection::of(scopes, found, false);
        let mut engines: Vec<Arc<Engine>> = selection.engines().unwrap().into_iter().map(prepare).collect();
        states.take_known(&mut engines);
        let Selection { mut found, inputs, .. } = selection;
        let disk = states.disk(&Disk::default());
        of(states, &Batch::read(inputs, &mut found, &disk, &engines, false))
    }

    fn place(place: &Location) -> String {
        let at = place.resolve_span().map(|(source, document, span)| (source.path(), document, span));
        format!("{at:?} {:?}", place.pointer())
    }

    fn line(finding: &Finding) -> String {
        let related = finding.related.iter().map(|one| format!("{} {}", one.message, place(&one.location)));
        format!(
            "{} {} {:?} {} {:?} {:?} {:?} {:?}",
            finding.rule.id,
            place(&finding.location),
            finding.severity,
            finding.message,
            finding.help,
            finding.sets,
            finding.fix,
            related.collect::<Vec<_>>()
        )
    }

    fn lines(reports: &[Option<CheckReport>]) -> Vec<String> {
        let all = reports.iter().flatten();
        all.flat_map(|one| {
            one.findings
                .iter()
                .map(line)
                .chain([format!("{} suppressed", one.suppressed)])
                .collect::<Vec<_>>()
        })
        .collect()
    }

    fn pool(team: &str) -> String {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n  template:\n    metadata: {{labels: \
             {{team: {team}}}}}\n    spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      \
             requirements:\n        - {{key: karpenter.sh/capacity-type, operator: In, values: [spot]}}\n"
        )
    }

    fn deployment(name: &str, team: &str) -> String {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: ml}}\nspec:\n  replicas: 2\n  selector: \
             {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
             nodeSelector: {{team: {team}}}\n      containers: [{{name: a, image: 'a:1'}}]\n"
        )
    }

    fn guard(of: &str) -> String {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: guard, namespace: ml}}\nspec:\n  maxUnavailable: \
             0\n  selector: {{matchLabels: {{app: {of}}}}}\n"
        )
    }

    fn karpenter(version: &str) -> String {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: karpenter, namespace: karpenter}}\nspec:\n  \
             interval: 1h\n  chart: {{spec: {{chart: karpenter, version: {version}, sourceRef: {{kind: HelmRepository, name: \
             a}}}}}}\n"
        )
    }

    const SETS: &str = "clusters: [{name: east, paths: [east, base]}, {name: west, paths: [west, base]}]\n";

    #[test]
    fn each_state_has_the_findings_of_a_check() {
        let folder = temporary_folder().unwrap();
        let folder = folder.path();
        let first = [
            ("gpulint.yaml", SETS.to_owned()),
            ("base/web.yaml", deployment("web", "ml")),
            ("base/guard.yaml", guard("web")),
            ("east/pool.yaml", pool("ml")),
            ("east/train.yaml", deployment("train", "ml")),
            ("west/pool.yaml", pool("ml")),
            ("west/fixed.yaml", pool("ml").replace("gpu}\nspec:", "fixed}\nspec:\n  replicas: 1")),
            ("west/karpenter.yaml", karpenter("1.11.0")),
        ];
        first.iter().for_each(|(file, text)| write(folder, file, text));
        let mut states = States::begin();
        let mut judged = || {
            next(
                &mut states,
                folder,
                |engine| engine,
                |states, batch| (lines(&states.check(batch)), lines(&batch.check(None))),
            )
        };
        let (mut before, check) = judged();
        assert_eq!(before, check);
        let off = format!("{SETS}rules: {{pdb-blocks-evictions: off}}\n");
        let older = format!("{SETS}platform: {{karpenter: 1.0}}\n");
        for (what, file, text) in [
            ("a pool without the label", "west/pool.yaml", Some(pool("web"))),
            ("a pool in another place", "west/pool.yaml", Some(format!("# x\n\n{}", pool("web")))),
            ("no Deployment", "base/web.yaml", None),
            ("a Deployment in one set", "east/web.yaml", Some(deployment("web", "ml"))),
            ("no pool", "east/pool.yaml", None),
            ("an old Karpenter in a cluster", "west/karpenter.yaml", Some(karpenter("1.5.0"))),
            ("another configuration", "gpulint.yaml", Some(off)),
            ("another version in it", "gpulint.yaml", Some(older)),
            ("one set", "gpulint.yaml", Some("clusters: []\n".to_owned())),
            ("all as it was", "gpulint.yaml", Some(SETS.to_owned())),
        ] {
            match text {
                Some(text) => write(folder, file, &text),
                None => fs::remove_file(folder.join(file)).unwrap(),
            }
            let (now, check) = judged();
            assert_eq!(now, check, "{what}");
            assert_ne!(now, before, "{what}");
            before = now;
        }
    }

    #[test]
    fn rules_run_again_only_for_what_a_change_concerns() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        /// A clock that counts how often it is read, which is twice for each rule and object.
        fn count() -> Duration {
            RUNS.fetch_add(1, Ordering::Relaxed);
            Duration::ZERO
        }
        let folder = temporary_folder().unwrap();
        let folder = folder.path();
        let mut states = States::begin();
        let mut runs = || {
            let counted =
                |engine: Arc<Engine>| Arc::new(Engine::new(engine.settings().clone()).with_timings(count));
            next(&mut states, folder, counted, |states, batch| _ = states.check(batch));
            RUNS.swap(0, Ordering::Relaxed)
        };
        write(folder, "gpulint.yaml", "rules: {pdb-missing: off}\n");
        write(folder, "pool.yaml", &pool("ml"));
        (0..60).for_each(|n| write(folder, &format!("{n}.yaml"), &deployment(&format!("app-{n}"), "ml")));
        let first = runs();
        drop(States::begin());
        assert_eq!(runs(), 0, "nothing differs, and other states are not those");
        write(folder, "gpulint.yaml", "# x\nrules: {pdb-missing: off}\n");
        assert_eq!(runs(), 0, "the configuration says as much");
        write(folder, "7.yaml", &format!("# x\n{}", deployment("app-7", "ml")));
        let second = runs();
        assert!((1..first / 30).contains(&second), "{second} of {first} runs");
        write(folder, "gpulint.yaml", "rules: {pdb-missing: warning}\n");
        assert!(runs() >= first, "every finding may be another one");
    }
}
