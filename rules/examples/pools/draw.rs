//! Random numbers from a seed, and random changes to values and text.

use serde_json::{Value, json};

/// SplitMix64, which is small and gives the same numbers on every platform.
pub(crate) struct Random(u64);

impl Random {
    /// A separate sequence for each seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    /// A number below `end`; 0 for 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    /// True with a probability of one in `times`.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A random item.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// A value of any shape.
    pub(crate) fn odd(&mut self) -> Value {
        match self.below(10) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(-1),
            3 => json!(1.5),
            4 => json!(i64::MAX),
            5 => json!([]),
            6 => json!({}),
            7 => json!([null, {"a": [1]}, "x"]),
            8 => json!({"key": "a", "operator": ["In"], "values": "b"}),
            _ => json!("\u{1f980} ${X}"),
        }
    }
}

/// Replaces, removes or renames a random part of the value.
pub(crate) fn reshape(value: &mut Value, random: &mut Random) {
    let stop = random.one_in(4);
    match value {
        Value::Object(map) if !map.is_empty() && !stop => {
            let key = map.keys().nth(random.below(map.len())).unwrap().clone();
            match random.below(8) {
                0 => {
                    map.remove(&key);
                }
                1 => {
                    let moved = map.remove(&key).unwrap();
                    map.insert(format!("{key}s"), moved);
                }
                _ => reshape(map.get_mut(&key).unwrap(), random),
            }
        }
        Value::Array(items) if !items.is_empty() && !stop => {
            let at = random.below(items.len());
            match random.below(8) {
                0 => {
                    items.remove(at);
                }
                1 => {
                    let twice = items[at].clone();
                    items.push(twice);
                }
                _ => reshape(&mut items[at], random),
            }
        }
        _ => *value = random.odd(),
    }
}

/// Cuts, repeats or damages some of the text.
pub(crate) fn break_text(text: &mut String, random: &mut Random) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    let at = random.below(lines.len());
    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
    match random.below(7) {
        0 => lines.truncate(at),
        1 => lines.insert(at, lines[at].clone()),
        2 => lines[at].insert(0, '\t'),
        3 => lines[at].push_str(" ]"),
        4 => lines[at].push_str(": :"),
        5 => lines[at].insert_str(0, "   "),
        _ => lines[at] = "{{ if .Values.gpu }}".to_owned(),
    }
    *text = lines.join("\n");
}
