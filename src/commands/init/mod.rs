//! `gpulint init`: examines a repository and writes a `gpulint.yaml` for it.
//!
//! Settings that follow from the files are written as such; settings that are only likely are written as
//! comments.

mod pins;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use gpulint_rules::{CheckReport, Engine, Finding, Product, Rule, Settings, Severity};

use crate::args::{InitArgs, RuleArgs};
use crate::batch::{Batch, Selection};
use crate::config::{Scopes, in_folder};
use crate::error::CliError;
use crate::files;
use crate::files::{CONFIGURATIONS, Directories, Disk, SkipReason, absolute, display_path, short_path};
use crate::output;
use crate::terminal::{count, print_note};

use pins::{Pin, Pins};

/// Minimum number of findings for a rule to be listed.
const NOISY: usize = 10;
/// Maximum number of rules, sets and places to list.
const MAX_NAMED: usize = 8;

/// Examines a folder, and writes its configuration.
pub(crate) fn run(args: &InitArgs) -> Result<ExitCode, CliError> {
    let is_dash = args.folder.as_os_str() == "-";
    let given = if is_dash { Path::new(".") } else { &args.folder };
    if !given.is_dir() {
        return Err(CliError::Usage(format!("{}: not a folder", given.display())));
    }
    let folder = absolute(given);
    let prints = args.print || is_dash;
    let existing = in_folder(&folder, &Directories::default()).map_err(CliError::Usage)?;
    if let Some(existing) = existing.as_ref().filter(|_| !prints && !args.force) {
        return Err(CliError::Usage(format!(
            "{} exists; --force overwrites it, --print writes to standard output",
            short_path(existing)
        )));
    }
    let text = configuration(given)?;
    if prints {
        output::to_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = existing.unwrap_or_else(|| folder.join(CONFIGURATIONS[0]));
    let shown = short_path(&path);
    fs::write(&path, &text).map_err(|error| CliError::Usage(format!("cannot write {shown}: {error}")))?;
    print_note(&format!("wrote {shown}; `gpulint check {}` reads it", given.display()));
    Ok(ExitCode::SUCCESS)
}

/// The findings of the examination.
struct Seen<'b, 'e> {
    batch: &'b Batch<'e>,
    pins: Pins,
    findings: Vec<Finding>,
    crds: usize,
    folder: &'b Path,
}

fn configuration(folder: &Path) -> Result<String, CliError> {
    let rules = RuleArgs { isolated: true, ..RuleArgs::default() };
    let scopes = Scopes::for_rules(&rules)?;
    let found = files::find(std::slice::from_ref(&folder.to_owned()), Path::new("<stdin>"));
    let pins = Pins::find(&found.inputs, folder);
    let Selection { scopes, mut found, inputs } = Selection::of(scopes, found, false);
    let mut settings: Settings = scopes.get(0).settings.clone();
    for product in Product::ALL {
        if let Some(version) = pins.certain(product).map(|pin| pin.version) {
            settings.platform.state(product, version);
        }
    }
    let engines = [Arc::new(Engine::new(settings))];
    let batch = Batch::read(inputs, &mut found, &Disk::default(), &engines, true);
    let reports: Vec<Option<CheckReport>> = batch.check(None);
    let findings = reports.into_iter().flatten().flat_map(|report| report.findings).collect();
    let skipped = batch.reads.iter().flat_map(|read| &read.skipped);
    let crds = skipped.filter(|one| one.reason == SkipReason::Crd).map(|one| &one.file);
    let crds = crds.collect::<BTreeSet<_>>().len();
    Ok(Seen { batch: &batch, pins, findings, crds, folder }.text())
}

impl Seen<'_, '_> {
    fn text(&self) -> String {
        let mut out = String::new();
        self.header(&mut out);
        self.platform(&mut out);
        self.sets(&mut out);
        self.rendering(&mut out);
        self.rules(&mut out);
        self.rest(&mut out);
        out
    }

    fn header(&self, out: &mut String) {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let files =
            self.batch.reads.iter().filter(|read| read.manifest).filter_map(|read| read.file.as_ref());
        let (mut manifests, mut objects) = (0, 0);
        for file in files {
            manifests += 1;
            objects += file.objects.len();
            for object in &file.objects {
                *kinds.entry(object.id().kind.as_str()).or_default() += 1;
            }
        }
        let mut kinds: Vec<(&str, usize)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(kind, n)| (std::cmp::Reverse(*n), *kind));
        let named: Vec<String> =
            kinds.iter().take(MAX_NAMED).map(|(kind, n)| format!("{n} {kind}")).collect();
        let more = kinds.len().saturating_sub(MAX_NAMED);
        out.push_str("# gpulint checks this folder under this file. Every setting: gpulint schema config\n");
        out.push_str(
            "# What holds for a file, and why:                            gpulint config --show FILE\n",
        );
        if objects > 0 {
            let mut line = format!(
                "Found by gpulint init: {} in {}: {}",
                count(objects, "object"),
                count(manifests, "file"),
                named.join(", ")
            );
            if more > 0 {
                let _ = write!(line, ", and {}", count(more, "other kind"));
            }
            comment(out, &line);
        }
        out.push('\n');
    }

    fn platform(&self, out: &mut String) {
        comment(
            out,
            "What the clusters run. Set the versions: while one is not set, a finding that other supported versions do \
             not share is at most a warning.",
        );
        let certain = Product::ALL.into_iter().any(|product| self.pins.certain(product).is_some())
            || self.pins.region().is_some();
        let _ = writeln!(out, "{}platform:", if certain { "" } else { "# " });
        for product in Product::ALL {
            let key = product.setting().rsplit('.').next().unwrap_or_default();
            if let Some(pin) = self.pins.certain(product) {
                let _ = writeln!(out, "  {key}: \"{}\" # {}", pin.version, pin.place);
                continue;
            }
            let newest = Settings::default().platform.version(product);
            let why = self.pins.why_not(product);
            let why =
                why.unwrap_or_else(|| "no file says which version; this is what gpulint assumes".to_owned());
            let _ = writeln!(out, "  # {key}: \"{newest}\" # {why}");
        }
        match self.pins.region() {
            Some((region, place)) => {
                let _ = writeln!(out, "  region: {region} # {place}");
            }
            None => out
                .push_str("  # region: eu-central-1 # finds instance types that the region does not offer\n"),
        }
        out.push_str("  # timezone: Europe/Berlin # the zone that people think in when they write budget schedules\n\n");
    }

    fn sets(&self, out: &mut String) {
        let sets = &self.batch.sets.partition.sets;
        if sets.is_empty() {
            comment(
                out,
                "Which files are applied to one cluster together. No file says so: all of them are checked as those of \
                 one cluster. If there are several, name their folders:",
            );
        } else {
            let names: Vec<String> = sets.iter().take(MAX_NAMED).map(|set| set.name.to_string()).collect();
            let more = sets.len().saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            comment(
                out,
                &format!(
                    "Which files are applied to one cluster together. The files show {}: {}{more} (gpulint check \
                     --show-sets says why). Where that is wrong, name the folders:",
                    count(sets.len(), "set"),
                    printable_line(&names.join(", "))
                ),
            );
        }
        out.push_str("# clusters:\n# - clusters/* # a cluster for each folder\n\n");
    }

    fn rendering(&self, out: &mut String) {
        let charts = self.batch.folders.root_charts().len();
        let kustomizations = self.batch.folders.kustomization_folders().len();
        if charts + kustomizations > 0 {
            let mut what = Vec::new();
            if charts > 0 {
                what.push(format!("{} (helm template)", count(charts, "chart")));
            }
            if kustomizations > 0 {
                what.push(format!("{} (kustomize build)", count(kustomizations, "kustomization")));
            }
            comment(
                out,
                &format!(
                    "Found: {}. With --render, or with this setting, gpulint checks what these programs print; they \
                     must be installed.",
                    what.join(" and ")
                ),
            );
            out.push_str("# render:\n#   enabled: true\n\n");
        }
        if self.crds > 0 {
            comment(
                out,
                &format!(
                    "{} CustomResourceDefinitions. Objects of their kinds are checked against them if they are named:",
                    if self.crds == 1 {
                        "1 file has".to_owned()
                    } else {
                        format!("{} files have", self.crds)
                    }
                ),
            );
            out.push_str("# crds:\n# - crds/\n\n");
        }
    }

    fn rules(&self, out: &mut String) {
        let mut by_rule: BTreeMap<&str, (&'static Rule, usize, BTreeSet<&str>)> = BTreeMap::new();
        for finding in &self.findings {
            let entry = by_rule.entry(finding.rule.id).or_insert((finding.rule, 0, BTreeSet::new()));
            entry.1 += 1;
            entry.2.extend(finding.location.path());
        }
        let mut rules: Vec<_> = by_rule.values().filter(|(_, n, _)| *n >= NOISY).collect();
        rules.sort_by_key(|(rule, n, _)| (std::cmp::Reverse(*n), rule.id));
        comment(
            out,
            "A rule, a group of rules or `all` as off, on, info, warning or error, or with its parameters (gpulint \
             explain RULE).",
        );
        if rules.is_empty() {
            out.push_str("# rules:\n#   probe-missing: off\n\n");
            return;
        }
        comment(
            out,
            "These have most findings here now. Repair them, write a baseline, or set them otherwise:",
        );
        out.push_str("# rules:\n");
        for (rule, n, files) in rules.into_iter().take(MAX_NAMED) {
            let _ = writeln!(
                out,
                "#   {}: {} # {} in {}: {}",
                rule.id,
                if rule.severity == Severity::Info { "off" } else { "info" },
                count(*n, "finding"),
                count(files.len(), "file"),
                rule.summary()
            );
        }
        out.push('\n');
    }

    fn rest(&self, out: &mut String) {
        comment(out, "Paths that are not checked, as in a .gitignore.");
        out.push_str("# ignore:\n# - vendor/\n\n");
        comment(out, "Rules that are set otherwise for some objects; later entries win.");
        out.push_str("# overrides:\n# - paths: [clusters/dev]\n#   rules: {availability: off}\n\n");
        let from = if display_path(self.folder) == "." {
            String::new()
        } else {
            format!(" {}", display_path(self.folder))
        };
        if !self.findings.is_empty() {
            let now = count(self.findings.len(), "finding");
            comment(
                out,
                &format!(
                    "To report only what is new from now on, write a baseline of what there is now ({now}), and name it here:"
                ),
            );
            let _ = writeln!(out, "#   gpulint check --write-baseline gpulint-baseline.yaml{from}");
            out.push_str("# baseline: gpulint-baseline.yaml\n\n");
        }
        comment(out, "Findings of this severity or a worse one fail a run: error, warning, info or never.");
        out.push_str("# fail-on: warning\n");
    }
}

fn printable_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Writes a comment of several lines.
fn comment(out: &mut String, text: &str) {
    for line in crate::markdown::wrap(&printable_line(text), 98) {
        let _ = writeln!(out, "# {line}");
    }
}

impl Pin {
    /// The text on this pin in a comment on several pins.
    fn short(&self) -> String {
        format!("{} in {}", self.text, self.place)
    }
}
