//! The search for the objects that cost most, bounded in time.
//!
//! All places are tried with little in them. What costs most of each kind is tried with more, and at last as large as an
//! object can be; then two or three places of one kind together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::heavy::{self, Place};
use super::{Cost, Judge, LARGEST};

/// How many of the dearest places of a kind are tried together.
const TOGETHER: usize = 8;
/// So far apart are the places that are tried one after the other.
const STRIDE: usize = 13;
/// How many objects of a kind are reported.
const REPORTED: usize = 4;

/// What costs most of each kind, the dearest first.
pub(super) fn worst(judge: &Judge, places: &[Place], time: Duration) -> Vec<(String, Cost)> {
    let began = Instant::now();
    let mut seen = "";
    for place in places {
        // What is compiled at the first use is no cost of an object.
        if place.kind() != seen {
            judge.cost(place.value());
            seen = place.kind();
        }
    }
    let mut found: BTreeMap<&str, Vec<(String, Cost)>> = BTreeMap::new();
    // Neighbours are of one kind: if the time is too short for all, some of each kind are tried.
    let mut field: Vec<&Place> =
        (0..STRIDE).flat_map(|from| places.iter().skip(from).step_by(STRIDE)).collect();
    for (size, until) in [(LARGEST / 40, 0.3), (LARGEST / 8, 0.5), (LARGEST, 0.75)] {
        let mut results = Vec::new();
        for place in &field {
            if began.elapsed() > time.mul_f64(until) {
                break;
            }
            if let Some(cost) = judge.cost(&place.grow(size)) {
                results.push((*place, cost));
            }
        }
        println!("{} of {} places with {size} bytes, {:?}", results.len(), field.len(), began.elapsed());
        if size == LARGEST {
            for (place, cost) in &results {
                found.entry(place.kind()).or_default().push((place.to_string(), cost.clone()));
            }
        }
        field = dearest_of_each_kind(results);
    }
    together(judge, &field, began + time, &mut found);
    let mut out = Vec::new();
    for (_, mut costs) in found {
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse((cost.time, cost.steps)));
        out.extend(costs.into_iter().take(REPORTED));
    }
    out.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.time));
    out
}

/// The dearest of each kind, then the second of each kind, and so on. Half of them are by time, half by steps.
fn dearest_of_each_kind(results: Vec<(&Place, Cost)>) -> Vec<&Place> {
    let mut ranks: Vec<(usize, &Place)> = Vec::new();
    for by_time in [true, false] {
        let key = |cost: &Cost| if by_time { cost.time.as_nanos() } else { u128::from(cost.steps) };
        let mut sorted: Vec<&(&Place, Cost)> = results.iter().collect();
        sorted.sort_by_key(|(_, cost)| std::cmp::Reverse(key(cost)));
        let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, _) in sorted {
            let rank = of_kind.entry(place.kind()).or_default();
            ranks.push((*rank, place));
            *rank += 1;
        }
    }
    ranks.sort_by_key(|(rank, _)| *rank);
    let mut out: Vec<&Place> = Vec::new();
    for (_, place) in ranks {
        if !out.iter().any(|other| std::ptr::eq(*other, place)) {
            out.push(place);
        }
    }
    out
}

/// Two and three places of one kind, in one object.
fn together<'p>(
    judge: &Judge,
    field: &[&'p Place],
    until: Instant,
    found: &mut BTreeMap<&'p str, Vec<(String, Cost)>>,
) {
    let mut kinds: BTreeMap<&str, Vec<&'p Place>> = BTreeMap::new();
    for place in field {
        let of_kind = kinds.entry(place.kind()).or_default();
        if of_kind.len() < TOGETHER {
            of_kind.push(place);
        }
    }
    let mut tried = 0;
    'all: for distance in 1..TOGETHER {
        for (kind, places) in &kinds {
            for (at, first) in places.iter().enumerate().filter(|(at, _)| at + distance < places.len()) {
                if Instant::now() > until {
                    break 'all;
                }
                let mut parts = vec![*first, places[at + distance]];
                parts.extend(places.get(at + 2 * distance));
                if let Some(cost) = judge.cost(&heavy::together(&parts, LARGEST)) {
                    tried += 1;
                    let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
                    found.entry(kind).or_default().push((names.join(" + "), cost));
                }
            }
        }
    }
    println!("{tried} objects with several long places");
}
