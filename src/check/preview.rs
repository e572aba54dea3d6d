//! The changes that another version makes to the findings: a preview of an upgrade.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpulint_rules::lint::preview::{UpgradeNote, VersionChange, karpenter_changes, karpenter_upgrade};
use gpulint_rules::{Engine, Finding, Platform, Product, Version, fingerprints};

use crate::batch::Batch;
use crate::config::{Scope, Scopes};
use crate::render::Renders;
use crate::report::{Preview, ShownBySet, Step, shown_versions};

/// The rules under the versions of the clusters, if the command line names others.
pub(super) struct Before {
    steps: Vec<Step>,
    /// The versions of the command line that are compared with none.
    alone: Vec<(Product, Version)>,
    engines: Vec<Arc<Engine>>,
}

impl Before {
    /// Compares the versions of the configuration, or else those that the files show, with those of the command line;
    /// `None` if they are equal. A version for which neither has one is compared only if it is newer than the assumed one.
    pub(super) fn of(scopes: &Scopes, batch: &Batch<'_>) -> Option<Before> {
        let products = || Product::ALL.into_iter();
        let is_named = |scope: &Scope| products().any(|product| scope.names_other(product));
        if !scopes.all().iter().any(is_named) {
            return None;
        }
        let shown = shown_versions(batch);
        let mut steps: Vec<Step> = Vec::new();
        let mut alone: Vec<(Product, Version)> = Vec::new();
        let mut engines = Vec::new();
        for (number, scope) in scopes.all().iter().enumerate() {
            let mut settings = scope.settings.clone();
            for product in products().filter(|product| scope.names_other(*product)) {
                let to = settings.platform.version(product);
                let known = match scope.configured.is_stated(product) {
                    true => vec![scope.configured.version(product)],
                    false => shown_by(&shown, batch, number, product),
                };
                let is_known = !known.is_empty();
                let from = if is_known { known } else { vec![Platform::default().version(product)] };
                // If the configuration has no version, an older one on the command line is the version of the
                // cluster, not an upgrade.
                let is_step =
                    |from: &Version| *from < to || *from > to && scope.configured.is_stated(product);
                let from: Vec<Version> = from.into_iter().filter(is_step).collect();
                let Some(last) = from.last() else {
                    let has_files = batch.inputs.iter().any(|one| one.scope == number && !one.is_context);
                    if !is_known && has_files && !alone.contains(&(product, to)) {
                        alone.push((product, to));
                    }
                    continue;
                };
                settings.platform.state(product, *last);
                if from.len() > 1 {
                    // Each set is judged by its own version.
                    settings.platform.stated.retain(|stated| *stated != product);
                }
                let new = from.into_iter().map(|from| Step { product, from, to });
                steps.extend(new.filter(|step| !steps.contains(step)).collect::<Vec<_>>());
            }
            engines.push(Arc::new(Engine::new(settings)));
        }
        // The first scope is for files without a configuration. It may have no files.
        (!steps.is_empty() || !alone.is_empty()).then_some(Before { steps, alone, engines })
    }

    /// Compares the findings of a run with those under the other versions.
    pub(super) fn compare<'e>(
        &'e self,
        batch: &mut Batch<'e>,
        renders: &Renders,
        findings: &[Finding],
    ) -> Preview {
        if self.steps.is_empty() {
            return Preview { alone: self.alone.clone(), upgrade: self.upgrade(), ..Preview::default() };
        }
        let engines = std::mem::replace(&mut batch.engines, &self.engines);
        let reports = batch.check(None);
        let rendered = renders.check(batch);
        batch.engines = engines;
        let before: Vec<Finding> = reports
            .into_iter()
            .flatten()
            .flat_map(|report| report.findings)
            .chain(rendered.findings.into_iter().map(|(_, finding)| finding))
            .collect();
        let now = fingerprints(findings);
        let then = fingerprints(&before);
        let known: HashMap<&str, &Finding> = then.iter().map(String::as_str).zip(&before).collect();
        let is_new = |(at, finding): (usize, &Finding)| {
            let same = known.get(now[at].as_str());
            same.is_none_or(|same| same.severity < finding.severity).then_some(at)
        };
        let new = findings.iter().enumerate().filter_map(is_new).collect();
        let now: BTreeSet<&str> = now.iter().map(String::as_str).collect();
        let gone = before.iter().zip(&then).filter(|(_, print)| !now.contains(print.as_str()));
        let gone = gone.map(|(finding, _)| finding.clone()).collect();
        Preview {
            steps: self.steps.clone(),
            alone: self.alone.clone(),
            new,
            gone,
            upgrade: self.upgrade(),
            changes: self.changes(batch),
        }
    }

    /// The notes on each upgrade of Karpenter; several configurations may have several.
    fn upgrade(&self) -> Vec<UpgradeNote> {
        let steps = self.steps.iter().filter(|step| step.product == Product::Karpenter);
        let alone = self.alone.iter().filter(|(product, _)| *product == Product::Karpenter);
        let ranges = steps.map(|step| (step.from, step.to)).chain(alone.map(|(_, to)| (before(*to), *to)));
        let mut notes: Vec<UpgradeNote> = ranges.flat_map(|(from, to)| karpenter_upgrade(from, to)).collect();
        notes.sort_by_key(|note| note.version);
        notes.dedup();
        notes
    }

    fn changes(&self, batch: &Batch<'_>) -> Vec<VersionChange> {
        let mut changes = Vec::new();
        for (at, read) in batch.reads.iter().enumerate().filter(|(at, _)| !batch.inputs[*at].is_context) {
            let versions =
                |engines: &[Arc<Engine>]| engines[batch.inputs[at].scope].settings().platform.karpenter;
            let (from, to) = (versions(&self.engines), versions(batch.engines));
            let objects = read.file.iter().flat_map(|file| &file.objects);
            changes.extend(objects.flat_map(|object| karpenter_changes(object, from, to)));
        }
        changes
    }
}

/// The minor version before another one.
fn before(version: Version) -> Version {
    Version::new(version.major, version.minor.saturating_sub(1))
}

/// The versions of a product that the sets with files of a configuration show, in ascending order.
fn shown_by(shown: &[ShownBySet], batch: &Batch<'_>, scope: usize, product: Product) -> Vec<Version> {
    let has_files = |set: &&ShownBySet| set.members.iter().any(|at| batch.inputs[*at].scope == scope);
    let versions = shown.iter().filter(has_files).flat_map(|set| &set.versions);
    let versions = versions.filter(|shown| shown.product == product).map(|shown| shown.version);
    versions.collect::<BTreeSet<Version>>().into_iter().collect()
}
