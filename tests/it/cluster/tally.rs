//! Counts the comparisons by kind, and collects the disagreements for review.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use gpulint_rules::Authority;
use gpulint_testing::is_full;

use crate::cluster::cases::Claim;
use crate::cluster::differences::Differences;
use crate::cluster::judge::{Meeting, Verdict};
use crate::cluster::verdicts::{Judged, Outcome};

/// The kinds that must be compared often: the minimum number of rejected objects, and of accepted ones.
const WELL_JUDGED: (&[&str], usize) = (&["NodePool", "EC2NodeClass", "ScaledObject", "Deployment"], 100);

/// A case on which gpulint and the server do not agree.
pub(crate) struct Disagreement {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) class: String,
    sort: &'static str,
    /// The message of the server; `accepted` if it accepted the object.
    pub(crate) server: String,
    /// The rules that claim a rejection that did not happen.
    pub(crate) false_claims: Vec<String>,
    ours: String,
    text: String,
}

#[derive(Default)]
struct Count {
    refused: usize,
    accepted: usize,
    agreed: usize,
    exact: usize,
    listed: usize,
}

/// All comparisons.
pub(crate) struct Tally {
    kinds: BTreeMap<String, Count>,
    disagreements: Vec<Disagreement>,
    unserved: BTreeMap<String, usize>,
    unjudged: BTreeMap<String, usize>,
    wrong_seeds: Vec<String>,
    differences: Differences,
}

impl Tally {
    /// A tally without comparisons; the intended differences are read from a file.
    pub(crate) fn new(differences: &Path) -> Tally {
        Tally {
            kinds: BTreeMap::new(),
            disagreements: Vec::new(),
            unserved: BTreeMap::new(),
            unjudged: BTreeMap::new(),
            wrong_seeds: Vec::new(),
            differences: Differences::read(differences),
        }
    }

    /// Records that the server rejects a seed: the mutants of an invalid object prove nothing.
    pub(crate) fn wrong_seed(&mut self, name: &str, verdict: &Verdict) {
        self.wrong_seeds.push(format!("{name}: {}", said(verdict)));
    }

    /// Counts one case.
    pub(crate) fn add(&mut self, judged: Judged) {
        let kind = judged.case.id.kind.clone();
        let outcome = judged.outcome();
        if matches!(outcome, Outcome::NotCompared) {
            let served = !matches!(judged.verdict, Verdict::Unserved);
            let kinds = if served { &mut self.unjudged } else { &mut self.unserved };
            *kinds.entry(kind).or_default() += 1;
            return;
        }
        let count = self.kinds.entry(kind.clone()).or_default();
        let accepted = matches!(judged.verdict, Verdict::Accepted);
        if accepted {
            count.accepted += 1;
        } else {
            count.refused += 1;
        }
        let sort = match outcome {
            Outcome::Disagreed(sort) => sort,
            Outcome::Agreed(meeting) => {
                count.agreed += 1;
                count.exact += usize::from(meeting == Some(Meeting::Exact));
                return;
            }
            Outcome::NotCompared => return,
        };
        let false_claims = judged.claims.iter().filter(|c| accepted && c.claims_refusal());
        let disagreement = Disagreement {
            kind,
            sort,
            server: said(&judged.verdict),
            false_claims: false_claims.map(|c| c.rule.to_owned()).collect(),
            ours: ours(&judged.claims),
            name: judged.case.name,
            class: judged.case.class,
            text: judged.case.text,
        };
        if self.differences.cover(&disagreement) {
            count.listed += 1;
        } else {
            self.disagreements.push(disagreement);
        }
    }

    /// Prints the table, writes the disagreements, and fails if there are any that are not intended. `whole`:
    /// all kinds were compared.
    pub(crate) fn finish(mut self, path: &Path, whole: bool) {
        let mut table = format!(
            "{:<32}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
            "kind", "compared", "refused", "accepted", "agreeing", "exactly", "listed"
        );
        let mut sum = Count::default();
        for (kind, count) in &self.kinds {
            table.push_str(&row(kind, count));
            sum.refused += count.refused;
            sum.accepted += count.accepted;
            sum.agreed += count.agreed;
            sum.exact += count.exact;
            sum.listed += count.listed;
        }
        table.push_str(&row("all", &sum));
        for (what, kinds) in
            [("served by nobody", &self.unserved), ("refused, and not judged by gpulint", &self.unjudged)]
        {
            let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
            let _ = writeln!(table, "{what}: {}", kinds.join(", "));
        }
        // The test runner would capture the output.
        let _ = write!(std::io::stderr(), "{table}");

        self.disagreements
            .sort_by(|a, b| (&a.kind, a.sort, &a.class, &a.name).cmp(&(&b.kind, b.sort, &b.class, &b.name)));
        write_report(path, &table, &self.disagreements);
        let report = std::env::var("VERDICTS").is_ok_and(|v| v == "report");
        assert!(
            self.wrong_seeds.is_empty(),
            "seeds that the server refuses:\n{}",
            self.wrong_seeds.join("\n")
        );
        if whole && !report {
            for kind in WELL_JUDGED.0 {
                let count = self.kinds.get(*kind).map_or((0, 0), |c| (c.refused, c.accepted));
                assert!(
                    count.0 >= WELL_JUDGED.1 && count.1 >= WELL_JUDGED.1,
                    "{kind}: {} refused and {} accepted; {} of each are wanted",
                    count.0,
                    count.1,
                    WELL_JUDGED.1
                );
            }
        }
        if report {
            return;
        }
        assert!(
            self.disagreements.is_empty(),
            "{} disagreements, see {}\n{}",
            self.disagreements.len(),
            path.display(),
            self.disagreements.iter().take(10).map(brief).collect::<String>()
        );
        // A part of the mutants does not need all of them.
        let unused = if whole && is_full() { self.differences.unused() } else { Vec::new() };
        assert!(unused.is_empty(), "entries of differences.yaml that nothing needs: {unused:#?}");
    }
}

fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accepted => "accepted".to_owned(),
        Verdict::Unserved => "not served".to_owned(),
        Verdict::Refused(refusal) => refusal.message.clone(),
    }
}

fn row(kind: &str, count: &Count) -> String {
    format!(
        "{kind:<32}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        count.refused + count.accepted,
        count.refused,
        count.accepted,
        count.agreed,
        count.exact,
        count.listed
    )
}

fn ours(claims: &[Claim]) -> String {
    let mut out = String::new();
    for claim in claims {
        let refused_by = claim.refused_by.map_or("-", Authority::name);
        let field = claim.field.as_ref().map_or("(text)".to_owned(), ToString::to_string);
        let _ = writeln!(
            out,
            "    {}[{}] refused by {refused_by} at {field}: {}",
            claim.severity.name(),
            claim.rule,
            claim.message
        );
    }
    out
}

fn brief(disagreement: &Disagreement) -> String {
    format!(
        "{} {}\n  server: {}\n  gpulint:\n{}",
        disagreement.kind,
        disagreement.name,
        disagreement.server.replace('\n', "\n    "),
        disagreement.ours
    )
}

/// Writes the table, and then each disagreement with its manifest.
fn write_report(path: &Path, table: &str, disagreements: &[Disagreement]) {
    let mut groups: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for d in disagreements {
        *groups.entry((&d.kind, d.sort, &d.class)).or_default() += 1;
    }
    let mut text = format!("{table}\n{} disagreements\n\n", disagreements.len());
    for ((kind, sort, class), count) in groups {
        let _ = writeln!(text, "{count:>6} {kind}: {sort}: {class}");
    }
    for d in disagreements {
        let _ =
            write!(text, "\n---- {}: {}: {}\n{}{}\n", d.kind, d.sort, d.class, brief(d), d.text.trim_end());
    }
    fs::create_dir_all(path.parent().unwrap_or(path)).expect("target can be written");
    fs::write(path, text).expect("target can be written");
}
