//! `gpulint plan`: what a change does to nodes, pods, dollars and findings.
//!
//! Both sides are judged as `gpulint check` would judge them (`judge`), each with its folder as the current one (`checkout`); the
//! engine compares the objects of each set (`gpulint_rules::plan`), this room the findings and the versions.

mod alike;
mod changes;
mod head;
mod pairs;
mod sides;
mod unrendered;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use gpulint_rules::Cluster;
use gpulint_rules::plan::{Side, plan};

use crate::args::{Color, PlanArgs, PlanFormat, PlanStyle};
use crate::checkout::Checkout;
use crate::commands::loaded::no_set;
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, Disk};
use crate::judge::{Judged, JudgedSet, Reading, judge};
use crate::output;
use crate::report::{BudgetCheck, PlanReport, PlannedSet};
use crate::states::States;
use crate::terminal::{RenderOptions, print_error};

use changes::is_same;
use pairs::Pair;
use sides::Sides;

pub(crate) use head::{Head, NodeFate, fates};

pub(crate) fn run(args: &PlanArgs, color: Color) -> Result<ExitCode, CliError> {
    let sides = Sides::of(args)?;
    let report = report(args, &sides, &Disk::default())?;
    for error in &report.errors {
        print_error(error);
    }
    write(args, &report, color)?;
    Ok(ExitCode::from(report.exit_code()))
}

/// Judges both sides and compares them. `disk` has the texts of an editor, which belong to the side after the change.
fn report(args: &PlanArgs, sides: &Sides, disk: &Disk) -> Result<PlanReport, CliError> {
    let mut states = States::begin();
    let before = side(args, &sides.before, sides, &Disk::default(), &mut states)?;
    let after = side(args, &sides.after, sides, disk, &mut states)?;
    compare(args, sides, before, after)
}

/// Judges one side, in its folder.
fn side(
    args: &PlanArgs,
    checkout: &Checkout,
    sides: &Sides,
    disk: &Disk,
    states: &mut States,
) -> Result<Judged, CliError> {
    let paths: Vec<PathBuf> = sides.paths.iter().map(|path| checkout.path(path, &sides.root)).collect();
    let judged = checkout.inside(|| {
        let reading = Reading {
            paths: &paths,
            root: checkout.root(),
            no_default_ignore: args.no_default_ignore,
            render: args.render,
            render_limit: args.render_limit,
            disk,
        };
        judge(Scopes::for_plan(args)?, &reading, Some(states))
    });
    judged.map_err(|error| error.of(&checkout.name))
}

fn compare(
    args: &PlanArgs,
    sides: &Sides,
    mut before: Judged,
    mut after: Judged,
) -> Result<PlanReport, CliError> {
    let mut report = PlanReport {
        before: short_name(&sides.before.name),
        after: short_name(&sides.after.name),
        root: sides.root.clone(),
        links: args.links.clone(),
        fails_on_replacement: args.fail_on_replacement,
        ..PlanReport::default()
    };
    report.errors = errors(&report, &before, &after);
    if let Some(at) = before.absent.intersection(&after.absent).next() {
        let path = files::display_path(&sides.paths[*at]);
        let (before, after) = (&sides.before.name, &sides.after.name);
        return Err(CliError::Usage(format!("{path}: neither `{before}` nor `{after}` has it")));
    }
    let is_empty =
        |judged: &Judged| judged.objects == 0 && judged.findings.is_empty() && judged.unrendered.is_empty();
    if is_empty(&before) && is_empty(&after) {
        return Err(CliError::Usage(format!(
            "no Kubernetes object found in `{}` and `{}`",
            sides.before.name, sides.after.name
        )));
    }
    before.follow(&after.inventory);
    let (before_findings, after_findings) =
        (std::mem::take(&mut before.findings), std::mem::take(&mut after.findings));
    report.unread = alike::complete(&mut before, &mut after);
    let mut pairs = pairs::pairs(&before.sets, &after.sets);
    pairs::share(&mut before.sets, &mut after.sets, &mut pairs);
    report.upgrades = changes::upgrades(&before, &after, &pairs);
    if !args.render {
        report.uncompared = unrendered::uncompared(&before, &after, &pairs);
        report.uncompared.retain(|(name, _)| report.unread.iter().all(|unread| unread.file != *name));
    }
    report.sets = sets(args, &before.sets, &after.sets, pairs)?;
    report.region = after.sets.first().or(before.sets.first()).and_then(|set| set.platform.region.clone());
    report.budget = args.budget.map(|limit| BudgetCheck { limit, most: total(&after.sets, &report.sets) });
    let moved = |old: &str, new: &str| {
        let file = |judged: &Judged, path: &str| {
            judged.files.get(path).is_some_and(|file| judged.inventory.has(file))
        };
        !file(&after, old) && !file(&before, new)
    };
    report.findings = changes::findings(before_findings, after_findings, &after.unread, &moved);
    let unknown =
        args.nodes.iter().filter(|(pool, _)| !is_pool(&before.sets, pool)).map(|(pool, _)| pool.as_str());
    if let Some(unknown) = unknown.into_iter().next() {
        return Err(CliError::Usage(format!("--nodes: there is no NodePool `{unknown}` before the change")));
    }
    Ok(report)
}

/// What could not be read or rendered, with its side; what both sides lack once.
fn errors(report: &PlanReport, before: &Judged, after: &Judged) -> Vec<String> {
    let (old, new) = (&report.before, &report.after);
    let of_old = before.errors.iter().map(|error| match after.errors.contains(error) {
        true => format!("{old} and {new}: {error}"),
        false => format!("{old}: {error}"),
    });
    let of_new = after.errors.iter().filter(|error| !before.errors.contains(error));
    of_old.chain(of_new.map(|error| format!("{new}: {error}"))).collect()
}

/// The name of a state, with the hashes of commits as git shortens them.
fn short_name(name: &str) -> String {
    /// Digits of a hash, and how many of them are written.
    const DIGITS: usize = 40;
    const WRITTEN: usize = 10;
    let short = |word: &str| {
        let hash = word.chars().take_while(char::is_ascii_hexdigit).count();
        if hash == DIGITS { format!("{}{}", &word[..WRITTEN], &word[DIGITS..]) } else { word.to_owned() }
    };
    name.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

fn is_pool(sets: &[JudgedSet], name: &str) -> bool {
    let mut pools = sets.iter().flat_map(|set| set.cluster.of(gpulint_rules::Kind::NODE_POOL));
    pools.any(|pool| pool.name() == name)
}

/// The sets that a change touches, with what it does to them.
fn sets(
    args: &PlanArgs,
    before: &[JudgedSet],
    after: &[JudgedSet],
    mut pairs: Vec<Pair>,
) -> Result<Vec<PlannedSet>, CliError> {
    let sides = |(old, new): Pair| (old.map(|at| &before[at]), new.map(|at| &after[at]));
    let name = |pair: Pair| -> Option<&Arc<str>> {
        let (old, new) = sides(pair);
        new.or(old)?.name.as_ref()
    };
    if let Some(only) = args.only.as_deref() {
        let known: Vec<&str> = pairs.iter().filter_map(|pair| Some(&**name(*pair)?)).collect();
        if !known.contains(&only) {
            return Err(no_set(only, &known));
        }
        pairs.retain(|pair| name(*pair).is_some_and(|name| **name == *only));
    }
    let counts: BTreeMap<String, u64> = args.nodes.iter().cloned().collect();
    let nothing = Cluster::new(false);
    let mut planned = Vec::new();
    for pair in pairs {
        let (old, new) = sides(pair);
        let Some(platform) = new.or(old).map(|set| &set.platform) else { continue };
        if let (Some(old), Some(new)) = (old, new)
            && old.platform == new.platform
            && is_same(&old.cluster, &new.cluster)
        {
            continue;
        }
        let old_cluster = old.map_or(&nothing, |set| &set.cluster);
        let new_cluster = new.map_or(&nothing, |set| &set.cluster);
        let (old_alike, new_alike) = alike::alike(old_cluster, new_cluster);
        let old_cluster = old_alike.as_ref().unwrap_or(old_cluster);
        let new_cluster = new_alike.as_ref().unwrap_or(new_cluster);
        let old_side = Side { cluster: old_cluster, platform: old.map_or(platform, |set| &set.platform) };
        let new_side = Side { cluster: new_cluster, platform };
        let one = plan(old_side, new_side, &counts);
        if !one.is_empty() {
            planned.push(PlannedSet {
                name: name(pair).map(Arc::clone),
                plan: one,
                is_new: old.is_none(),
                is_gone: new.is_none(),
            });
        }
    }
    Ok(planned)
}

/// What the nodes of all sets cost an hour with the most replicas after the change, in millionths of a dollar; `None` if a
/// type has no list price.
fn total(after: &[JudgedSet], planned: &[PlannedSet]) -> Option<i128> {
    let of = |set: &JudgedSet| {
        let known = planned.iter().find(|one| one.name == set.name).and_then(|one| one.plan.money.as_ref());
        match known {
            Some(money) => money.after.ceiling.micro_dollars,
            None => {
                let situation = gpulint_rules::fit::Situation::read(&set.cluster, &set.platform, None);
                if situation.is_empty() {
                    Some(0)
                } else {
                    situation.capacity(&set.cluster).ceiling.micro_dollars
                }
            }
        }
    };
    after.iter().map(of).sum()
}

fn write(args: &PlanArgs, report: &PlanReport, color: Color) -> Result<(), CliError> {
    const DEFAULT: &[PlanFormat] = &[PlanFormat { style: PlanStyle::Text, file: None }];
    let formats = if args.formats.is_empty() { DEFAULT } else { &args.formats };
    for format in formats {
        let look = match &format.file {
            None => RenderOptions::for_stdout(color),
            Some(_) => RenderOptions::for_file(color),
        };
        let print = |out: &mut dyn std::io::Write| report.write(out, format.style, look);
        match &format.file {
            Some(path) => output::to_file(path, print)?,
            None => output::to_stdout(print)?,
        }
    }
    Ok(())
}
