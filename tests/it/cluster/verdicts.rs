//! gpulint and the API server check the same objects, and agree.
//!
//! If the server rejects an object, gpulint must have an error at each field that the server names. If it
//! accepts the object, no finding may claim a rejection. Disagreements are written to
//! `target/cluster/disagreements.txt`; `VERDICTS=report` does not fail for them, and
//! `VERDICTS_KIND=NodePool,Pod` compares only these kinds.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulint_rules::{Authority, Engine, Severity, kind};
use gpulint_testing::is_full;

use crate::cluster::cases::{Case, Claim, claims, documents, engine, value};
use crate::cluster::judge::{Judge, Meeting, Refusal, Verdict};
use crate::cluster::mutants::{mutants, written_mutants};
use crate::cluster::tally::Tally;

/// Number of concurrent requests.
const AT_ONCE: usize = 8;
/// Interval at which the mutants of a valid fixture that is not a seed are compared.
const SPARSE: usize = 244;

/// A case with the results of both sides.
pub(crate) struct Judged {
    pub(crate) case: Case,
    pub(crate) verdict: Verdict,
    pub(crate) claims: Vec<Claim>,
}

/// The relation of the two results.
pub(crate) enum Outcome {
    /// The server does not serve the kind, or gpulint does not check it.
    NotCompared,
    /// They agree; for a rejection, with the relation of the fields.
    Agreed(Option<Meeting>),
    Disagreed(&'static str),
}

impl Judged {
    /// Whether gpulint checks this kind against a schema, and should therefore report what the server
    /// rejects.
    pub(crate) fn is_of_ours(&self) -> bool {
        let info = kind::find(&self.case.id.group, &self.case.id.kind);
        // Rules reject the kinds of Karpenter before 0.33 without a schema.
        info.is_some_and(|i| {
            i.schemas.is_some_and(|schemas| !schemas.is_empty()) || i.kind.group.starts_with("karpenter.")
        })
    }

    /// Compares the two.
    pub(crate) fn outcome(&self) -> Outcome {
        match &self.verdict {
            Verdict::Unserved => Outcome::NotCompared,
            Verdict::Accepted if self.claims.iter().any(Claim::claims_refusal) => {
                Outcome::Disagreed("claimed, but accepted")
            }
            Verdict::Accepted => Outcome::Agreed(None),
            Verdict::Refused(_) if !self.is_of_ours() => Outcome::NotCompared,
            Verdict::Refused(refusal) => match meeting(refusal, &self.claims) {
                Ok(worst) => Outcome::Agreed(Some(worst)),
                // The values that are filled in later decide, and the server saw the object without them.
                Err(_) if self.case.unexpanded => Outcome::Agreed(None),
                Err(sort) => Outcome::Disagreed(sort),
            },
        }
    }
}

/// The relation of errors to the fields that the server names: the worst one, or the missing part.
fn meeting(refusal: &Refusal, claims: &[Claim]) -> Result<Meeting, &'static str> {
    let errors: Vec<&Claim> = claims.iter().filter(|c| c.severity == Severity::Error).collect();
    if errors.is_empty() {
        return Err("refused, and no error");
    }
    if refusal.fields.is_empty() {
        // A message without a field: the component that rejects must be correct, if it is a webhook.
        let named = errors.iter().any(|c| c.refused_by == Some(refusal.by));
        return if named || refusal.by == Authority::ApiServer {
            Ok(Meeting::Exact)
        } else {
            Err("refused, and no error says by whom")
        };
    }
    // Missing fields of a fragment are reported once, and not field by field.
    let fragment = errors.iter().any(|c| c.rule == "manifest-incomplete");
    let mut worst = Meeting::Exact;
    for field in &refusal.fields {
        if fragment && field.is_missing() {
            worst = Meeting::Beside;
            continue;
        }
        let best = errors
            .iter()
            .filter_map(|c| match &c.field {
                Some(ours) => c.more.iter().chain([ours]).filter_map(|ours| field.meets(ours)).min(),
                // Findings of the parser are about the text as a whole.
                None => Some(Meeting::Above),
            })
            .min();
        worst = worst.max(best.ok_or("refused, and no error at a field it names")?);
    }
    Ok(worst)
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_and_gpulint_agree() {
    let Some(judge) = Judge::start().await else {
        return;
    };
    let (judge, engine) = (Arc::new(judge), Arc::new(engine()));
    let only = std::env::var("VERDICTS_KIND").unwrap_or_default();
    let mut written = documents(&root(), &root().join("fixtures"));
    written.retain(|case| {
        let kind = &case.id.kind;
        only.is_empty() || only.split(',').any(|k| k.eq_ignore_ascii_case(kind))
    });
    let mut tally = Tally::new(&root().join("tests/cluster/differences.yaml"));
    let mut second = Vec::new();
    for judged in ask(&judge, &engine, written).await {
        second.extend(mutants_of(&judged, &mut tally));
        tally.add(judged);
    }
    for judged in ask(&judge, &engine, second).await {
        tally.add(judged);
    }
    drop(judge);
    tally.finish(&root().join("target/cluster/disagreements.txt"), only.is_empty());
}

/// The mutants of an accepted document: a twelfth of a seed's, and all that are written; a few of any other. With `FULL`, or where
/// some kinds are asked for, all of a seed.
fn mutants_of(judged: &Judged, tally: &mut Tally) -> Vec<Case> {
    let case = &judged.case;
    let seed = case.name.starts_with("fixtures/verdicts/");
    let good = matches!(judged.verdict, Verdict::Accepted);
    if seed && !good {
        tally.wrong_seed(&case.name, &judged.verdict);
    }
    let Some(value) = value(case).filter(|_| good && judged.is_of_ours()) else {
        return Vec::new();
    };
    // Select other mutants for each file.
    let offset = case.name.len();
    let every = match seed {
        true if is_full() || std::env::var_os("VERDICTS_KIND").is_some() => 1,
        true => 12,
        false => SPARSE,
    };
    let mut cases =
        // Not the same kind of change at every field.
        mutants(&case.name, &case.id, &value, |number| (number + number / 7 + offset).is_multiple_of(every));
    if seed {
        let file = case.name.split('#').next().unwrap_or_default();
        let path = root().join(file);
        cases.extend(written_mutants(&path, &case.name, &case.id, &value));
    }
    cases
}

/// Runs both sides on all cases, some concurrently, and preserves their order.
async fn ask(judge: &Arc<Judge>, engine: &Arc<Engine>, cases: Vec<Case>) -> Vec<Judged> {
    let cases = Arc::new(cases);
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (judge, engine) = (Arc::clone(judge), Arc::clone(engine));
            let (cases, next) = (Arc::clone(&cases), Arc::clone(&next));
            tokio::spawn(async move {
                let mut answers = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else {
                        return answers;
                    };
                    let verdict = judge.ask(&case.id, case.media, &case.text).await;
                    answers.push((number, verdict, claims(&engine, case)));
                }
            })
        })
        .collect();
    let mut answers = Vec::new();
    for worker in workers {
        answers.extend(worker.await.expect("the server answers"));
    }
    answers.sort_by_key(|(number, ..)| *number);
    let cases = Arc::into_inner(cases).expect("the workers have ended");
    cases
        .into_iter()
        .zip(answers)
        .map(|(case, (_, verdict, claims))| Judged { case, verdict, claims })
        .collect()
}
