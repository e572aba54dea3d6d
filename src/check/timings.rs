//! `--timings`: the rules that took most time.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use gpulint_rules::{Engine, Rule};

use crate::terminal::print_note;

/// Maximum number of rules that are listed.
const MAX_RULES: usize = 15;

pub(super) fn record(engine: &Arc<Engine>) -> Arc<Engine> {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Arc::new(Engine::new(engine.settings().clone()).with_timings(|| START.elapsed()))
}

/// Prints the rules that took most time, under all configurations.
pub(super) fn print(engines: &[Arc<Engine>]) {
    let mut rules: BTreeMap<&str, Duration> = BTreeMap::new();
    for (Rule { id, .. }, taken) in engines.iter().flat_map(|engine| engine.timings()) {
        *rules.entry(id).or_default() += taken;
    }
    let all: Duration = rules.values().sum();
    let mut rules: Vec<(&str, Duration)> = rules.into_iter().filter(|(_, taken)| !taken.is_zero()).collect();
    rules.sort_by_key(|(id, taken)| (std::cmp::Reverse(*taken), *id));
    let listed = rules.len().min(MAX_RULES);
    let head = format!("{listed} of {} rules by time, on all threads", rules.len());
    let in_ms = |taken: &Duration| taken.as_secs_f64() * 1000.0;
    print_note(&format!("{head}; together they took {:.1} ms:", in_ms(&all)));
    for (id, taken) in &rules[..listed] {
        let share = 100.0 * taken.as_secs_f64() / all.as_secs_f64();
        print_note(&format!("{:>9.1} ms {share:>5.1} %  {id}", in_ms(taken)));
    }
}
