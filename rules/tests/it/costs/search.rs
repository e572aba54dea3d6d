//! Searches for the most expensive objects, within a time limit.
//!
//! All fields are tried with little content. The most expensive ones of each kind are tried with more, and
//! finally with as much as an object allows; then two or three fields of one kind together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::heavy::{self, Place};
use super::{Cost, Judge, LARGEST};

/// Maximum number of expensive fields of a kind that are tried together.
const TOGETHER: usize = 8;
/// Distance between fields that are tried one after the other.
const STRIDE: usize = 13;
/// Maximum number of objects of a kind to report.
const REPORTED: usize = 4;

/// The most expensive objects of each kind, the most expensive first.
pub(super) fn worst(judge: &Judge, places: &[Place], time: Duration) -> Vec<(String, Cost)> {
    let began = Instant::now();
    let mut seen = "";
    for place in places {
        // The first use compiles schemas, which is not a cost of the object.
        if place.kind() != seen {
            judge.cost(place.value());
            seen = place.kind();
        }
    }
    let mut found: BTreeMap<&str, Vec<(String, Cost)>> = BTreeMap::new();
    // Neighbouring fields are of one kind. The stride makes sure that some of each kind are tried if the time
    // does not suffice for all.
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

/// The most expensive field of each kind, then the second of each kind, and so on. Half of them are chosen by
/// time, half by steps.
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

/// Objects with two and with three long fields of one kind.
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
