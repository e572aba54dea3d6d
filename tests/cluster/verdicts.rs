//! gpulint and the server judge the same objects, and agree.
//!
//! Refused there: an error here at each field that the server names. Accepted there: no finding here that claims a refusal.
//! What they disagree on is written to `target/cluster/disagreements.txt`; `VERDICTS=report` fails for none of it, and
//! `VERDICTS_KIND=NodePool,Pod` asks about these kinds alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulint_rules::{Authority, Severity};

use crate::cases::{Case, Claim, claims, documents, engine, value};
use crate::differences::Differences;
use crate::judge::{Judge, Meeting, Refusal, Verdict};
use crate::mutants::{mutants, written_mutants};

/// How many requests are under way at once.
const AT_ONCE: usize = 8;
/// Of a good fixture that is no seed, one mutant in this many is judged.
const SPARSE: usize = 61;
/// The kinds that gpulint judges; of others it must only not claim a refusal that does not happen.
const JUDGED: &[&str] = &[
    "NodePool",
    "NodeClaim",
    "NodeOverlay",
    "EC2NodeClass",
    "Provisioner",
    "Machine",
    "AWSNodeTemplate",
    "ScaledObject",
    "ScaledJob",
    "TriggerAuthentication",
    "ClusterTriggerAuthentication",
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "Job",
    "CronJob",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "Service",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceClass",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];
/// The kinds that must be judged often: this many refused, and as many accepted.
const WELL_JUDGED: (&[&str], usize) = (
    &["NodePool", "EC2NodeClass", "ScaledObject", "Deployment"],
    100,
);

/// A case on which gpulint and the server do not agree.
pub(crate) struct Disagreement {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) class: String,
    sort: &'static str,
    /// What the server said; `accepted` where it accepted.
    pub(crate) server: String,
    /// The rules that claim a refusal which did not happen.
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

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_and_gpulint_agree() {
    let Some(judge) = Judge::start().await else {
        return;
    };
    let judge = Arc::new(judge);
    let only = std::env::var("VERDICTS_KIND").unwrap_or_default();
    let wanted = |case: &Case| {
        only.is_empty()
            || only
                .split(',')
                .any(|kind| kind.eq_ignore_ascii_case(&case.id.kind))
    };
    let mut written = documents(&root(), &root().join("fixtures"));
    written.retain(wanted);
    let mut tally = Tally::default();
    let verdicts = ask(&judge, &written).await;
    let mut second = Vec::new();
    for (case, verdict) in written.iter().zip(&verdicts) {
        tally.compare(case, verdict);
        let seed = case.name.starts_with("fixtures/verdicts/");
        let good = matches!(verdict, Verdict::Accepted);
        if !JUDGED.contains(&case.id.kind.as_str()) {
            continue;
        }
        if seed && !good {
            tally
                .wrong_seeds
                .push(format!("{}: {}", case.name, said(verdict)));
        }
        let Some(value) = value(case).filter(|_| good) else {
            continue;
        };
        let offset = case.name.len();
        second.extend(mutants(&case.name, &case.id, &value, |number| {
            seed || (number + offset).is_multiple_of(SPARSE)
        }));
        if seed {
            let file = case.name.split('#').next().unwrap_or_default();
            second.extend(written_mutants(
                &root().join(file),
                &case.name,
                &case.id,
                &value,
            ));
        }
    }
    let verdicts = ask(&judge, &second).await;
    for (case, verdict) in second.iter().zip(&verdicts) {
        tally.compare(case, verdict);
    }
    drop(judge);
    tally.finish(only.is_empty());
}

/// Asks about all of them, some at once, and keeps their order.
async fn ask(judge: &Arc<Judge>, cases: &[Case]) -> Vec<Verdict> {
    let requests: Arc<Vec<_>> = Arc::new(
        cases
            .iter()
            .map(|c| (c.id.clone(), c.media, c.text.clone()))
            .collect(),
    );
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (judge, requests, next) = (judge.clone(), requests.clone(), next.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((id, media, text)) = requests.get(number) else {
                        return answers;
                    };
                    answers.push((number, judge.ask(id, media, text).await));
                }
            })
        })
        .collect();
    let mut answers = Vec::new();
    for worker in workers {
        answers.extend(worker.await.expect("the server answers"));
    }
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, verdict)| verdict).collect()
}

fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accepted => "accepted".to_owned(),
        Verdict::Unserved => "not served".to_owned(),
        Verdict::Refused(refusal) => refusal.message.clone(),
    }
}

#[derive(Default)]
struct Tally {
    kinds: BTreeMap<String, Count>,
    disagreements: Vec<Disagreement>,
    unserved: BTreeMap<String, usize>,
    unjudged: BTreeMap<String, usize>,
    wrong_seeds: Vec<String>,
    differences: Option<Differences>,
    engine: Option<gpulint_rules::Engine>,
}

impl Tally {
    fn compare(&mut self, case: &Case, verdict: &Verdict) {
        let engine = self.engine.get_or_insert_with(engine);
        let claims = claims(engine, case);
        let (sort, exact) = match verdict {
            Verdict::Unserved => {
                *self.unserved.entry(case.id.kind.clone()).or_default() += 1;
                return;
            }
            Verdict::Accepted => {
                let claimed = claims.iter().any(Claim::claims_refusal);
                (claimed.then_some("claimed, but accepted"), false)
            }
            Verdict::Refused(_) if !JUDGED.contains(&case.id.kind.as_str()) => {
                *self.unjudged.entry(case.id.kind.clone()).or_default() += 1;
                return;
            }
            Verdict::Refused(refusal) => match meeting(refusal, &claims) {
                Ok(worst) => (None, worst == Meeting::Exact),
                // What fills it in decides, and the server saw only what stands there now.
                Err(_) if case.unexpanded => (None, false),
                Err(sort) => (Some(sort), false),
            },
        };
        let count = self.kinds.entry(case.id.kind.clone()).or_default();
        match verdict {
            Verdict::Accepted => count.accepted += 1,
            _ => count.refused += 1,
        }
        let Some(sort) = sort else {
            count.agreed += 1;
            count.exact += usize::from(exact);
            return;
        };
        let accepted = matches!(verdict, Verdict::Accepted);
        let false_claims = claims.iter().filter(|c| accepted && c.claims_refusal());
        let disagreement = Disagreement {
            kind: case.id.kind.clone(),
            name: case.name.clone(),
            class: case.class.clone(),
            sort,
            server: said(verdict),
            false_claims: false_claims.map(|c| c.rule.to_owned()).collect(),
            ours: ours(&claims),
            text: case.text.clone(),
        };
        let differences = self.differences.get_or_insert_with(|| {
            Differences::read(&root().join("tests/cluster/differences.yaml"))
        });
        if differences.cover(&disagreement) {
            count.listed += 1;
        } else {
            self.disagreements.push(disagreement);
        }
    }

    fn finish(mut self, whole: bool) {
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
        for (what, kinds) in [
            ("served by nobody", &self.unserved),
            ("refused, and not judged by gpulint", &self.unjudged),
        ] {
            let kinds: Vec<String> = kinds
                .iter()
                .map(|(kind, n)| format!("{kind} {n}"))
                .collect();
            let _ = writeln!(table, "{what}: {}", kinds.join(", "));
        }
        // Not through the test runner, which would keep it to itself.
        let _ = write!(std::io::stderr(), "{table}");

        let path = root().join("target/cluster/disagreements.txt");
        self.disagreements.sort_by(|a, b| {
            (&a.kind, a.sort, &a.class, &a.name).cmp(&(&b.kind, b.sort, &b.class, &b.name))
        });
        write_report(&path, &table, &self.disagreements);
        let report = !std::env::var("VERDICTS").is_ok_and(|v| v == "strict");
        assert!(
            self.wrong_seeds.is_empty(),
            "seeds that the server refuses:\n{}",
            self.wrong_seeds.join("\n")
        );
        if whole && !report {
            for kind in WELL_JUDGED.0 {
                let count = self
                    .kinds
                    .get(*kind)
                    .map_or((0, 0), |c| (c.refused, c.accepted));
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
            self.disagreements
                .iter()
                .take(10)
                .map(brief)
                .collect::<String>()
        );
        if let Some(differences) = self.differences.filter(|_| whole) {
            let unused = differences.unused();
            assert!(
                unused.is_empty(),
                "entries of differences.yaml that nothing needs: {unused:#?}"
            );
        }
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

/// How well errors meet the fields that the server names: the worst of them, or what is missing.
fn meeting(refusal: &Refusal, claims: &[Claim]) -> Result<Meeting, &'static str> {
    let errors: Vec<&Claim> = claims
        .iter()
        .filter(|c| c.severity == Severity::Error)
        .collect();
    if errors.is_empty() {
        return Err("refused, and no error");
    }
    if refusal.fields.is_empty() {
        // A sentence without a field: what matters is that the one who refuses is named, where a webhook does.
        let named = errors.iter().any(|c| c.refused_by == Some(refusal.by));
        return if named || refusal.by == Authority::ApiServer {
            Ok(Meeting::Exact)
        } else {
            Err("refused, and no error says by whom")
        };
    }
    let mut worst = Meeting::Exact;
    for field in &refusal.fields {
        let best = errors
            .iter()
            .filter_map(|c| match &c.field {
                Some(ours) => field.meets(ours),
                // What the reader says is about the text as a whole.
                None => Some(Meeting::Above),
            })
            .min();
        worst = worst.max(best.ok_or("refused, and no error at a field it names")?);
    }
    Ok(worst)
}

fn ours(claims: &[Claim]) -> String {
    let mut out = String::new();
    for claim in claims {
        let refused_by = claim.refused_by.map_or("-", Authority::name);
        let field = claim
            .field
            .as_ref()
            .map_or("(text)".to_owned(), ToString::to_string);
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

/// First how many of what, then each with its manifest.
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
        let _ = write!(
            text,
            "\n---- {}: {}: {}\n{}{}\n",
            d.kind,
            d.sort,
            d.class,
            brief(d),
            d.text.trim_end()
        );
    }
    fs::create_dir_all(path.parent().unwrap_or(path)).expect("target can be written");
    fs::write(path, text).expect("target can be written");
}
