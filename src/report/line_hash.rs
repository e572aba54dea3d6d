//! The fingerprint `primaryLocationLineHash` of SARIF, as the upload action of GitHub computes it for results
//! without one.
//!
//! The fingerprint is a hash of the first 100 characters from the start of a line, a colon, and the ordinal
//! number of the line among those with this hash in the file. Spaces and tabs are skipped, and every line end
//! (`\r\n`, `\n`, `\r`) counts as `\n`. The characters are UTF-16 code units, including a byte order mark.
//! The text is followed by 65535 and by as many 0 as are needed. The hash is a polynomial over 37, modulo
//! 2^64.

use std::collections::{BTreeMap, BTreeSet, HashMap};

const WINDOW: usize = 100;
const FACTOR: u64 = 37;
const END: u16 = u16::MAX;

/// The fingerprints of some lines, which are counted from 1. Lines that the text does not have get none.
pub(super) fn line_hashes(text: &str, lines: &BTreeSet<u32>) -> BTreeMap<u32, String> {
    let mut hasher = Hasher::new(lines);
    let mut after_cr = false;
    for unit in text.encode_utf16() {
        let was_cr = std::mem::replace(&mut after_cr, unit == u16::from(b'\r'));
        match u8::try_from(unit) {
            Ok(b' ' | b'\t') => {}
            Ok(b'\n') if was_cr => {}
            Ok(b'\r') => hasher.add(u16::from(b'\n')),
            _ => hasher.add(unit),
        }
    }
    hasher.add(END);
    hasher.finish()
}

struct Hasher<'a> {
    wanted: &'a BTreeSet<u32>,
    /// The last characters, each with the number of the line that starts at it.
    window: [(u16, Option<u32>); WINDOW],
    at: usize,
    hash: u64,
    /// The factor of the character that leaves the window.
    oldest: u64,
    line: u32,
    starts_line: bool,
    seen: HashMap<u64, u32>,
    found: BTreeMap<u32, String>,
}

impl<'a> Hasher<'a> {
    fn new(wanted: &'a BTreeSet<u32>) -> Hasher<'a> {
        Hasher {
            wanted,
            window: [(0, None); WINDOW],
            at: 0,
            hash: 0,
            oldest: (0..WINDOW).fold(1, |power: u64, _| power.wrapping_mul(FACTOR)),
            line: 0,
            starts_line: true,
            seen: HashMap::new(),
            found: BTreeMap::new(),
        }
    }

    fn add(&mut self, unit: u16) {
        let mut starts = None;
        if std::mem::replace(&mut self.starts_line, unit == u16::from(b'\n')) {
            self.line += 1;
            starts = Some(self.line);
        }
        self.push(unit, starts);
    }

    /// Moves the window by one character. If the window began at the start of a line, the hash of that line
    /// is complete.
    fn push(&mut self, unit: u16, starts: Option<u32>) {
        let (first, line) = std::mem::replace(&mut self.window[self.at], (unit, starts));
        if let Some(line) = line {
            let count = self.seen.entry(self.hash).or_default();
            *count += 1;
            if self.wanted.contains(&line) {
                self.found.insert(line, format!("{:x}:{count}", self.hash));
            }
        }
        let leaving = self.oldest.wrapping_mul(u64::from(first));
        self.hash = self.hash.wrapping_mul(FACTOR).wrapping_add(u64::from(unit)).wrapping_sub(leaving);
        self.at = (self.at + 1) % WINDOW;
    }

    fn finish(mut self) -> BTreeMap<u32, String> {
        (0..WINDOW).for_each(|_| self.push(0, None));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::line_hashes;

    fn hashes(text: &str) -> Vec<String> {
        line_hashes(text, &(1..1000).collect()).into_values().collect()
    }

    /// The expected hash was computed by hand: the window of an empty file is 65535 and 99 zeros.
    #[test]
    fn an_empty_text_has_one_line() {
        let hash = (0..99).fold(65535_u64, |hash, _| hash.wrapping_mul(37));
        assert_eq!(hashes(""), [format!("{hash:x}:1")]);
        assert_eq!(line_hashes("a\nb", &[9].into()).len(), 0);
    }

    #[test]
    fn white_space_and_the_kind_of_line_end_do_not_count() {
        let unix = hashes("a: 1\n\nb: 2\n  c: 3\n");
        assert_eq!(unix.len(), 5);
        assert_eq!(hashes("a: 1\r\n\r\nb: 2\r\n  c: 3\r\n"), unix);
        assert_eq!(hashes("a: 1\r\rb: 2\r\tc: 3\r"), unix);
        assert_eq!(hashes("a:1\n\nb:2\nc:3\n"), unix);
        assert_ne!(hashes("\u{feff}a: 1\n\nb: 2\n  c: 3\n"), unix);
    }

    #[test]
    fn equal_lines_are_counted() {
        let all = hashes(&"- {name: a, image: b, command: [sleep, infinity]}\n".repeat(6));
        let (hash, _) = all[0].split_once(':').unwrap();
        let expected: Vec<String> = (1..=3).map(|count| format!("{hash}:{count}")).collect();
        assert_eq!(all[..3], expected);
        assert!(all[5..].iter().all(|other| !other.starts_with(hash)), "{all:?}");
    }
}
