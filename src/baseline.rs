//! The baseline: findings that existed before, which a run counts and does not report.
//!
//! An entry is the fingerprint of a finding, made with the path of its file relative to the folder of the baseline, so
//! that it holds from every current folder.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use gpulint_rules::source::{Source, read};
use gpulint_rules::{CheckReport, Finding, Node, fingerprints_at};

use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{absolute, read_to_string, relative, short_path};
use crate::output;

const VERSION: i64 = 1;
/// Text in every baseline. It also identifies a baseline that a merge has broken.
pub(crate) const MARK: &str = "gpulint check --write-baseline";
const HEADER: &str = "\
# Findings that gpulint does not report, because they were there before.
# Made by `gpulint check --write-baseline FILE`. `gpulint check --update-baseline` removes what no longer matches.
# Paths are relative to the folder of this file.
";

/// A finding that a baseline contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) object: String,
    pub(crate) rule: String,
    pub(crate) fingerprint: String,
    /// Whether the finding is in the output of a program that rendered.
    pub(crate) rendered: bool,
}

#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) path: PathBuf,
    /// The path of the file as the user wrote it.
    pub(crate) shown: String,
    pub(crate) entries: Vec<Entry>,
    /// The fingerprints of each file, by its absolute path.
    by_file: HashMap<PathBuf, HashSet<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Baselines {
    pub(crate) list: Vec<Baseline>,
    /// The baseline of each configuration, as an index into the list.
    pub(crate) of_scope: Vec<Option<usize>>,
}

impl Baselines {
    /// Reads the baseline of each configuration, or the given one for all configurations. Also returns what
    /// is wrong with them.
    pub(crate) fn load(scopes: &Scopes, given: Option<&PathBuf>) -> (Baselines, Vec<String>) {
        let mut all = Baselines { list: Vec::new(), of_scope: vec![None; scopes.all().len()] };
        let mut errors = Vec::new();
        let mut failed = HashSet::new();
        for (number, scope) in scopes.all().iter().enumerate() {
            let Some(path) = given.or(scope.baseline.as_ref()) else { continue };
            let known = all.list.iter().position(|baseline| baseline.path == absolute(path));
            if known.is_some() || failed.contains(path) {
                all.of_scope[number] = known;
                continue;
            }
            match Baseline::load(path) {
                Ok(baseline) => {
                    all.of_scope[number] = Some(all.list.len());
                    all.list.push(baseline);
                }
                Err(error) => {
                    failed.insert(path);
                    errors.push(error);
                }
            }
        }
        (all, errors)
    }

    /// The fingerprints of the findings of a file that the baseline of its configuration contains.
    pub(crate) fn known<'f>(
        &self,
        scope: usize,
        file: &Path,
        findings: impl ExactSizeIterator<Item = &'f Finding>,
    ) -> Vec<Option<String>> {
        let count = findings.len();
        let baseline = self.of_scope.get(scope).copied().flatten().map(|at| &self.list[at]);
        let Some((baseline, known)) = baseline.and_then(|all| Some((all, all.by_file.get(file)?))) else {
            return vec![None; count];
        };
        let path = relative(baseline.folder(), file);
        let findings: Vec<&Finding> = findings.collect();
        let names = fingerprints_at(findings.iter().map(|finding| (*finding, path.as_str())));
        let pairs = names.into_iter().zip(findings);
        pairs.map(|(name, found)| (known.contains(&name) && may_be_known(found)).then_some(name)).collect()
    }

    /// Removes the findings that the baseline contains from the report of a file.
    pub(crate) fn filter(&self, scope: usize, file: &Path, report: &mut CheckReport) {
        if self.list.is_empty() || report.findings.is_empty() {
            return;
        }
        let mut known = self.known(scope, file, report.findings.iter()).into_iter();
        report.findings.retain(|_| match known.next().flatten() {
            Some(fingerprint) => {
                report.baselined.push(fingerprint);
                false
            }
            None => true,
        });
    }
}

impl Baseline {
    pub(crate) fn load(path: &Path) -> Result<Baseline, String> {
        let shown = short_path(path);
        let text = read_to_string(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("{shown}: there is no such baseline; `{MARK} {shown}` makes it")
            }
            _ => format!("{shown}: {error}"),
        })?;
        let path = absolute(path);
        let entries = parse(&shown, &text)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut by_file: HashMap<PathBuf, HashSet<String>> = HashMap::new();
        for entry in &entries {
            let file = absolute(&folder.join(&entry.path));
            by_file.entry(file).or_default().insert(entry.fingerprint.clone());
        }
        Ok(Baseline { path, shown, entries, by_file })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

pub(crate) fn entries_of<'f>(
    folder: &Path,
    file: &Path,
    findings: impl Iterator<Item = &'f Finding>,
) -> Vec<Entry> {
    let path = relative(folder, file);
    let findings: Vec<&Finding> = findings.collect();
    let names = fingerprints_at(findings.iter().map(|finding| (*finding, path.as_str())));
    let pairs = findings.into_iter().zip(names).filter(|(finding, _)| may_be_known(finding));
    pairs
        .map(|(finding, fingerprint)| Entry {
            path: path.clone(),
            object: finding.location.object().map_or_else(String::new, |object| {
                let id = object.id();
                match id.namespace() {
                    Some(namespace) => format!("{namespace}/{}/{}", id.kind, id.name),
                    None => format!("{}/{}", id.kind, id.name),
                }
            }),
            rule: finding.rule.id.to_owned(),
            fingerprint,
            rendered: finding.location.rendered().is_some(),
        })
        .collect()
}

/// Whether a finding may be in a baseline. A finding that something could not be rendered may not: nothing
/// was checked.
fn may_be_known(finding: &Finding) -> bool {
    finding.rule.id != "render-failed"
}

pub(crate) fn parse(shown: &str, text: &str) -> Result<Vec<Entry>, String> {
    let source = Source::from_text(shown, text);
    let documents = read(&source);
    let fail = |at: u32, message: &str| {
        let place = source.lines().position(text, at);
        format!(
            "{shown}:{}:{}: {message}; `{MARK} {shown}` writes the baseline anew",
            place.line, place.column
        )
    };
    let fault = documents.iter().flat_map(|document| &document.diagnostics).next();
    if let Some(fault) = fault {
        return Err(fail(fault.span.start, &fault.message));
    }
    let (Some(root), 1) = (documents.first().and_then(|d| d.root()), documents.len()) else {
        return Err(fail(0, "this is not a baseline"));
    };
    let at = |node: &Node<'_>| node.span().or_else(|| node.key_span()).map_or(0, |span| span.start);
    match root.get("version").int() {
        Some(VERSION) => {}
        Some(newer) if newer > VERSION => {
            return Err(format!(
                "{shown}: a baseline of version {newer} is newer than this gpulint, which reads version {VERSION}"
            ));
        }
        _ => return Err(fail(at(&root.get("version")), "expected `version: 1` of a baseline")),
    }
    let list = root.get("findings");
    if !list.is_sequence() {
        return Err(fail(at(&list), "expected a list of `findings`"));
    }
    let entry = |node: Node<'_>| {
        let text = |key: &str| node.get(key).raw_text().map(str::to_owned);
        let (Some(path), Some(rule), Some(fingerprint)) = (text("path"), text("rule"), text("fingerprint"))
        else {
            return Err(fail(at(&node), "expected `fingerprint`, `rule` and `path` of a finding"));
        };
        if fingerprint.len() != 16 || !fingerprint.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(fail(at(&node.get("fingerprint")), "a fingerprint has 16 hexadecimal digits"));
        }
        let rendered = node.get("rendered").bool() == Some(true);
        Ok(Entry { path, object: text("object").unwrap_or_default(), rule, fingerprint, rendered })
    };
    list.items().map(entry).collect()
}

/// Writes a baseline, completely or not at all.
pub(crate) fn save(path: &Path, shown: &str, entries: &[Entry]) -> Result<(), CliError> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut out = HEADER.to_owned();
    let _ = writeln!(out, "version: {VERSION}");
    out.push_str(if entries.is_empty() { "findings: []\n" } else { "findings:\n" });
    for entry in entries {
        let Entry { path, object, rule, fingerprint, rendered } = entry;
        let _ = write!(out, "- {{fingerprint: \"{fingerprint}\", rule: {rule}, path: {}", quoted(path));
        if !object.is_empty() {
            let _ = write!(out, ", object: {}", quoted(object));
        }
        out.push_str(if *rendered { ", rendered: true}\n" } else { "}\n" });
    }
    replace(path, &out).map_err(|error| CliError::Usage(format!("cannot write {shown}: {error}")))
}

/// Replaces or creates a file, completely or not at all.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::read(&target) {
        Ok(now) if now == text.as_bytes() => return Ok(()),
        Ok(_) if fs::metadata(&target)?.permissions().readonly() => {
            return Err(io::Error::other("it is read-only"));
        }
        _ => {}
    }
    output::replace(&target, text)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_is_wrong_with_a_baseline_is_said_with_its_place() {
        let entry = "- {fingerprint: \"0123456789abcdef\", rule: r, path: a.yaml}\n";
        assert_eq!(parse("b.yaml", &format!("version: 1\nfindings:\n{entry}")).unwrap().len(), 1);
        assert_eq!(parse("b.json", "{\"version\": 1, \"findings\": []}").unwrap().len(), 0);
        for (text, error) in [
            ("", "b.yaml:1:1: this is not a baseline; "),
            ("kind: Pod\n", "expected `version: 1` of a baseline; "),
            ("version: 1\n", "expected a list of `findings`; "),
            ("version: 2\nfindings: []\n", "a baseline of version 2 is newer than this gpulint"),
            ("version: 1\nfindings:\n- {rule: r}\n", "b.yaml:3:3: expected `fingerprint`, `rule` and `path`"),
            (
                "version: 1\nfindings:\n- {fingerprint: abc, rule: r, path: p}\n",
                "b.yaml:3:17: a fingerprint has 16",
            ),
            ("version: 1\nfindings:\n<<<<<<< HEAD\n- {}\n", "b.yaml:3:"),
        ] {
            let said = parse("b.yaml", text).unwrap_err();
            assert!(said.contains(error), "{said}");
        }
    }
}
