//! Fixes applied to text: edits among other documents, and the law on random input. `fixtures/fixes` tests
//! each operation in each YAML style.
//!
//! The law is that reading the edited text gives exactly the patched value, and that everything else is
//! unchanged. The editor checks this itself before it answers. Here it is checked independently, on random
//! documents and random patches, together with the rate at which the editor rejects a fix.

use gpulint_rules::lint::fix::text::{apply_edits, edits};
use gpulint_rules::lint::fix::value;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Fix, FixError, Object, Operation, Safety};
use gpulint_testing::{objects, values};
use serde_json::{Value, json};

/// The text after a fix of the object with this number. Checks the law.
#[track_caller]
fn edited(text: &str, number: usize, fix: &Fix) -> String {
    let before = objects(text);
    let edits = edits(&before[number], fix).unwrap();
    let new = apply_edits(text, &edits).expect("edits are in order");
    let mut expected = values(text);
    expected[number] = value::apply(&expected[number], fix).expect("the editor applied it");
    for created in fix.creates.iter().rev() {
        expected.insert(number + 1, created.clone());
    }
    let after = values(&new);
    assert!(
        value::semantic_eq(&Value::Array(after.clone()), &Value::Array(expected.clone())),
        "the law is broken:\n{text}\n{:?}\n{new}\n{after:?}\n{expected:?}",
        fix.operations
    );
    new
}

#[test]
fn an_object_without_text_has_no_edits() {
    let object = Object::from_json(&json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
    assert_eq!(edits(&object, &Fix::new("a test", Safety::Safe)), Err(FixError::NoText));
}

#[test]
fn other_documents_and_items_stay() {
    let text = "\u{FEFF}# first\n---\napiVersion: v1\nkind: A\n---\n# the list\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: B\n  # b\n- kind: C\n  apiVersion: v1\n...\n---\napiVersion: v1\nkind: D";
    let mut set = Fix::new("a test", Safety::Safe);
    set.operations.push(Operation::Add { path: "/x".to_owned(), value: json!({"z": [1]}) });
    let new = |number: usize, fix: &Fix| edited(text, number, fix);
    let x = "x:\n  z:\n    - 1";
    assert_eq!(new(0, &set), text.replace("kind: A\n", &format!("kind: A\n{x}\n")));
    assert_eq!(new(1, &set), text.replace("kind: B\n", "kind: B\n  x:\n    z:\n    - 1\n"));
    assert_eq!(new(2, &set), text.replace("v1\n...", "v1\n  x:\n    z:\n    - 1\n..."));
    assert_eq!(new(3, &set), format!("{text}\n{x}"));
    set.creates.push(json!({"apiVersion": "v1", "kind": "New", "spec": {"a": "b"}}));
    assert_eq!(
        new(0, &set),
        text.replace("kind: A\n", &format!("kind: A\n{x}\n---\napiVersion: v1\nkind: New\nspec:\n  a: b\n"))
    );
    assert_eq!(new(3, &set), format!("{text}\n{x}\n---\napiVersion: v1\nkind: New\nspec:\n  a: b"));
}

/// The law on random documents and patches.
mod law {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    /// A separate generator (splitmix64), so that a case is identified by one number.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) % sides as u64) as usize
        }

        fn one_in(&mut self, sides: usize) -> bool {
            self.roll(sides) == 0
        }

        fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
            from[self.roll(from.len())]
        }
    }

    const KEYS: [&str; 14] =
        ["a", "b", "c", "spec", "x.y/z", "\"q\"", "'s'", "on", "0777", "key", "values", "d e", "é", "limits"];
    const PLAIN: [&str; 22] = [
        "x",
        "1",
        "0.5",
        "true",
        "off",
        "~",
        "null",
        "10Gi",
        "a:b",
        "g5.xlarge",
        "0x1F",
        "ü",
        "1e3",
        "''",
        "'it''s'",
        "\"d\\n\"",
        "\"\"",
        "' '",
        "\"a # b\"",
        "http://x",
        "-x",
        "{}",
    ];
    const TEXTS: [&str; 24] = [
        "",
        "x",
        "true",
        "on",
        "1",
        "a: b",
        "x #y",
        "- a",
        " a",
        "a ",
        "two\nlines",
        "three\n\nlines\n",
        "é\u{85}",
        "'",
        "\"",
        "{x}",
        "[x",
        "*a",
        "&a",
        "@daily",
        "#",
        "a,b",
        "\ttab",
        "x:",
    ];

    /// Writes random YAML.
    struct Writer<'d> {
        dice: &'d mut Dice,
        out: String,
        anchors: Vec<(String, bool)>,
        left: usize,
    }

    impl Writer<'_> {
        fn indent(&mut self, column: usize) {
            self.out.push_str(&" ".repeat(column));
        }

        fn line_end(&mut self) {
            if self.dice.one_in(8) {
                self.out.push_str("  # end");
            }
            self.out.push('\n');
        }

        fn between(&mut self, column: usize) {
            while self.dice.one_in(6) {
                let at = [column, column, column + 2, 0][self.dice.roll(4)];
                if self.dice.one_in(3) {
                    self.out.push('\n');
                } else {
                    self.indent(at);
                    self.out.push_str("# note: - x\n");
                }
            }
        }

        fn mapping(&mut self, column: usize, depth: usize, first_inline: bool) {
            let count = 1 + self.dice.roll(4);
            let offset = self.dice.roll(KEYS.len());
            for at in 0..count {
                if at > 0 || !first_inline {
                    self.between(column);
                    self.indent(column);
                }
                let merge = self.anchors.iter().position(|(_, map)| *map);
                if at > 0
                    && self.dice.one_in(25)
                    && let Some(anchor) = merge
                {
                    let name = self.anchors[anchor].0.clone();
                    self.out.push_str(&format!("<<: *{name}\n"));
                    continue;
                }
                if self.dice.one_in(120) {
                    self.out.push_str("? ");
                    self.out.push_str(KEYS[(offset + at) % KEYS.len()]);
                    self.out.push('\n');
                    self.indent(column);
                    self.out.push_str(": x\n");
                    continue;
                }
                self.out.push_str(KEYS[(offset + at * 3) % KEYS.len()]);
                self.out.push(':');
                self.value(column, depth, false);
            }
        }

        fn sequence(&mut self, column: usize, depth: usize, first_inline: bool) {
            for at in 0..1 + self.dice.roll(3) {
                if at > 0 || !first_inline {
                    self.between(column);
                    self.indent(column);
                }
                self.out.push('-');
                if depth > 0 && self.dice.one_in(2) {
                    let width = 1 + usize::from(self.dice.one_in(6)) * 2;
                    self.out.push_str(&" ".repeat(width));
                    if self.dice.one_in(4) {
                        self.sequence(column + 1 + width, depth - 1, true);
                    } else {
                        self.mapping(column + 1 + width, depth - 1, true);
                    }
                } else {
                    self.value(column, depth, true);
                }
            }
        }

        /// Writes the value after a colon or a dash.
        fn value(&mut self, column: usize, depth: usize, item: bool) {
            self.left = self.left.saturating_sub(1);
            let depth = if self.left == 0 { 0 } else { depth };
            let mut map_anchor = None;
            if self.dice.one_in(20) {
                let name = format!("n{}", self.anchors.len());
                self.out.push_str(&format!(" &{name}"));
                map_anchor = Some(name);
            } else if self.dice.one_in(30) && !self.anchors.is_empty() {
                let at = self.dice.roll(self.anchors.len());
                let name = self.anchors[at].0.clone();
                self.out.push_str(&format!(" *{name}"));
                self.line_end();
                return;
            }
            let mut is_map = false;
            match self.dice.roll(if depth > 0 { 12 } else { 7 }) {
                0 => {
                    if self.dice.one_in(3) {
                        self.out.push_str(" !!str");
                    }
                    self.line_end();
                }
                1 if self.dice.one_in(2) => {
                    let header = self.dice.pick(&["|", ">", "|-", ">-", "|+", "| # c"]);
                    let deeper = column + 1 + self.dice.roll(3) + usize::from(item);
                    self.out.push_str(&format!(" {header}\n"));
                    for _ in 0..1 + self.dice.roll(3) {
                        if self.dice.one_in(5) {
                            self.out.push('\n');
                        }
                        self.indent(deeper);
                        self.out.push_str("text # no: comment\n");
                    }
                    if self.dice.one_in(3) {
                        self.out.push_str("\n\n");
                    }
                }
                2 if self.dice.one_in(3) => {
                    let deeper = " ".repeat(column + 2);
                    let text = self.dice.pick(&["one@two", "'one@two'", "\"one@@two\"", "@one"]);
                    self.out.push(' ');
                    self.out.push_str(&text.replace('@', &format!("\n{deeper}")));
                    self.line_end();
                }
                3 | 4 if depth > 0 => {
                    self.out.push(' ');
                    is_map = self.flow(column, depth);
                    self.line_end();
                }
                7..=9 => {
                    is_map = true;
                    self.line_end();
                    let deeper = column + 1 + self.dice.roll(4);
                    self.mapping(deeper, depth - 1, false);
                }
                10 | 11 => {
                    self.line_end();
                    let deeper = if item { 1 } else { 0 } + self.dice.roll(2) * 2;
                    self.sequence(column + deeper, depth - 1, false);
                }
                _ => {
                    let gap = 1 + usize::from(self.dice.one_in(9)) * 3;
                    self.out.push_str(&" ".repeat(gap));
                    let text = self.dice.pick(&PLAIN);
                    self.out.push_str(text);
                    self.line_end();
                }
            }
            if let Some(name) = map_anchor {
                self.anchors.push((name, is_map));
            }
        }

        /// Writes a flow collection. Returns whether it is a mapping.
        fn flow(&mut self, column: usize, depth: usize) -> bool {
            let mapping = self.dice.one_in(2);
            let (open, close) = if mapping { ('{', '}') } else { ('[', ']') };
            let lines = self.dice.one_in(3);
            let json = self.dice.one_in(4);
            self.out.push(open);
            let count = self.dice.roll(4);
            let pad = self.dice.one_in(3) && !lines;
            for at in 0..count {
                if lines {
                    self.out.push_str(self.dice.pick(&["\n", "\n", " # c\n", "\n\n"]));
                    self.indent(column + 2);
                    if self.dice.one_in(6) {
                        self.out.push_str("# note\n");
                        self.indent(column + 2);
                    }
                } else if pad || at > 0 && !self.dice.one_in(5) {
                    self.out.push(' ');
                }
                if mapping {
                    if json {
                        self.out.push_str(&format!("\"k{at}\""));
                    } else {
                        self.out.push_str(["a", "b", "key", "'s'", "x.y/z"][at]);
                    }
                    if self.dice.one_in(15) {
                        // A key alone.
                        if at + 1 < count {
                            self.out.push(',');
                        }
                        continue;
                    }
                    self.out.push(':');
                    if !(json && self.dice.one_in(3)) {
                        self.out.push(' ');
                    }
                }
                if depth > 1 && self.dice.one_in(4) {
                    self.flow(column + 2, depth - 1);
                } else {
                    let text = if json {
                        self.dice.pick(&["\"x\"", "1", "null", "\"on\""])
                    } else {
                        self.dice.pick(&["x", "1", "'s'", "\"d\"", "true", "a b"])
                    };
                    self.out.push_str(text);
                }
                if at + 1 < count || self.dice.one_in(6) {
                    self.out.push_str(if self.dice.one_in(9) { " ," } else { "," });
                }
            }
            if lines {
                self.out.push('\n');
                let deeper = usize::from(self.dice.one_in(3)) * 2;
                self.indent(column + deeper);
                if column == 0 {
                    self.out.push(' ');
                }
            } else if pad {
                self.out.push(' ');
            }
            self.out.push(close);
            mapping
        }
    }

    fn object_text(dice: &mut Dice, column: usize) -> String {
        let mut writer = Writer { dice, out: String::new(), anchors: Vec::new(), left: 24 };
        let early = writer.dice.one_in(2);
        let head = |writer: &mut Writer<'_>| {
            for line in ["apiVersion: v1", "kind: Pod"] {
                writer.indent(column);
                writer.out.push_str(line);
                writer.line_end();
            }
        };
        if early {
            head(&mut writer);
        }
        writer.mapping(column, 4, false);
        if !early {
            head(&mut writer);
        }
        writer.out
    }

    fn random_text(dice: &mut Dice) -> String {
        let mut text = String::new();
        if dice.one_in(30) {
            text.push('\u{FEFF}');
        }
        if dice.one_in(4) {
            text.push_str("# file\n---\n");
        }
        let documents = 1 + dice.roll(3);
        for at in 0..documents {
            if at > 0 {
                text.push_str(dice.pick(&["---\n", "--- # next\n", "...\n---\n"]));
            }
            if dice.one_in(5) {
                let column = [0, 2][dice.roll(2)];
                text.push_str("apiVersion: v1\nkind: List\nitems:\n");
                for _ in 0..1 + dice.roll(3) {
                    let mut item = object_text(dice, column + 2);
                    let lead = item.len() - item.trim_start_matches(' ').len();
                    if lead == column + 2 {
                        item.replace_range(column..column + 1, "-");
                    } else {
                        item = format!("{}-\n{item}", " ".repeat(column));
                    }
                    text.push_str(&item);
                }
            } else if dice.one_in(12) {
                let value = random_value(dice, 3);
                let object = json!({"apiVersion": "v1", "kind": "Pod", "spec": value});
                text.push_str(&if dice.one_in(2) {
                    serde_json::to_string_pretty(&object).unwrap()
                } else {
                    object.to_string()
                });
                text.push('\n');
            } else {
                let column = usize::from(dice.one_in(15)) * 2;
                text.push_str(&object_text(dice, column));
            }
        }
        if dice.one_in(6) {
            text.pop();
        }
        if dice.one_in(4) {
            text = text.replace('\n', "\r\n");
        }
        text
    }

    fn random_value(dice: &mut Dice, depth: usize) -> Value {
        match dice.roll(if depth > 0 { 9 } else { 6 }) {
            0 => Value::Null,
            1 => json!(dice.one_in(2)),
            2 => json!(dice.roll(1000) as i64 - 500),
            3 => json!(0.25),
            4 | 5 => json!(dice.pick(&TEXTS)),
            6 => Value::Array((0..dice.roll(4)).map(|_| random_value(dice, depth - 1)).collect()),
            _ => Value::Object(
                (0..dice.roll(4))
                    .map(|_| {
                        let key = dice
                            .pick(&["a", "b", "key", "on", "1", "x y", "x.y/z", "", "é", "#", "<<", "a: b"]);
                        (key.to_owned(), random_value(dice, depth - 1))
                    })
                    .collect(),
            ),
        }
    }

    /// The path of a random value, not the root.
    fn random_place(dice: &mut Dice, value: &Value) -> String {
        let mut path = String::new();
        let mut at = value;
        loop {
            let (step, next) = match at {
                Value::Object(map) if !map.is_empty() => {
                    let (key, next) = map.iter().nth(dice.roll(map.len())).unwrap();
                    (key.replace('~', "~0").replace('/', "~1"), next)
                }
                Value::Array(items) if !items.is_empty() => {
                    let index = dice.roll(items.len());
                    (index.to_string(), &items[index])
                }
                _ => return path,
            };
            path.push('/');
            path.push_str(&step);
            at = next;
            if dice.one_in(3) {
                return path;
            }
        }
    }

    /// A random path at which a value can be added.
    fn random_target(dice: &mut Dice, value: &Value) -> String {
        let place = random_place(dice, value);
        match value.pointer(&place) {
            Some(Value::Object(_)) => {
                format!("{place}/{}", dice.pick(&["new", "a", "x.y~1z", "on"]))
            }
            Some(Value::Array(items)) if dice.one_in(2) => {
                format!("{place}/{}", dice.roll(items.len() + 1))
            }
            Some(Value::Array(_)) => format!("{place}/-"),
            _ => place,
        }
    }

    fn random_fix(dice: &mut Dice, value: &Value) -> Fix {
        let mut fix = Fix::new("random", Safety::Safe);
        let mut now = value.clone();
        for _ in 0..1 + dice.roll(3) {
            let operation = match dice.roll(5) {
                0 => Operation::Add { path: random_target(dice, &now), value: random_value(dice, 3) },
                1 => Operation::Replace { path: random_place(dice, &now), value: random_value(dice, 2) },
                2 => Operation::Remove { path: random_place(dice, &now) },
                3 => Operation::Move { from: random_place(dice, &now), path: random_target(dice, &now) },
                _ => {
                    let path = random_place(dice, &now);
                    Operation::Test { value: now.pointer(&path).cloned().unwrap(), path }
                }
            };
            let mut next = fix.clone();
            next.operations.push(operation);
            if let Ok(after) = value::apply(value, &next) {
                now = after;
                fix = next;
            }
        }
        if dice.one_in(12) {
            fix.creates.push(json!({"apiVersion": "v1", "kind": "Pod", "spec": random_value(dice, 2)}));
        }
        fix
    }

    #[derive(Default)]
    struct Counts {
        unreadable: usize,
        applied: usize,
        refused: BTreeMap<&'static str, usize>,
    }

    fn reason(refused: &FixError) -> &'static str {
        match refused {
            FixError::Alias(_) | FixError::Merge(_) | FixError::Anchor(_) => "read elsewhere",
            FixError::Layout(_) => "layout",
            FixError::VerificationFailed => "would read differently",
            FixError::Patch(_) => "does not apply",
            FixError::NoText | FixError::Encoding => "no text",
        }
    }

    fn try_one(seed: u64, counts: &mut Counts) {
        let mut dice = Dice(seed);
        let text = random_text(&mut dice);
        let found = objects(&text);
        let source = Source::from_text("a.yaml", &text);
        let broken = read(&source).iter().any(|d| d.tree.is_none() || !d.diagnostics.is_empty());
        if found.is_empty() || broken {
            counts.unreadable += 1;
            return;
        }
        let number = dice.roll(found.len());
        let fix = random_fix(&mut dice, &found[number].root().to_json());
        match check(&text, &found, number, &fix) {
            Ok(()) => counts.applied += 1,
            Err(refused) => {
                if std::env::var_os("SHOW_REFUSED").is_some_and(|r| r == reason(&refused)) {
                    println!("--- {seed} {refused}\n{text}\n{:?}\n", fix.operations);
                }
                *counts.refused.entry(reason(&refused)).or_default() += 1;
            }
        }
    }

    /// Checks the law independently, on documents and not on objects, because a patch may remove `kind`.
    fn check(text: &str, found: &[Object], number: usize, fix: &Fix) -> Result<(), FixError> {
        let object = &found[number];
        let edits = edits(object, fix)?;
        let new = apply_edits(text, &edits).expect("edits are in order");
        let values = |text: &str| -> Vec<Value> {
            let source = Source::from_text("a.yaml", text);
            read(&source).iter().map(|d| d.root().map_or(Value::Null, |r| r.to_json())).collect()
        };
        let mut meant = values(text);
        let document = object.origin().unwrap().document as usize;
        let before = object.root().to_json();
        let after = value::apply(&before, fix).expect("the editor applied it");
        let first = found.iter().position(|o| o.origin().unwrap().document as usize == document).unwrap();
        if meant[document]["kind"] == "List" {
            meant[document]["items"][number - first] = after;
        } else {
            meant[document] = after;
        }
        // Created objects come behind the part of the text that holds the document: here, where
        // every document has its own.
        for created in fix.creates.iter().rev() {
            meant.insert(document + 1, created.clone());
        }
        let is = values(&new);
        assert!(
            value::semantic_eq(&Value::Array(is.clone()), &Value::Array(meant.clone())),
            "the law is broken:\n{text}\n{:?}\n{new}\n{is:?}\n{meant:?}",
            fix.operations
        );
        Ok(())
    }

    #[test]
    fn parsing_the_edited_text_gives_the_patched_value() {
        let counts = RefCell::new(Counts::default());
        let mut runner = TestRunner::new(ProptestConfig {
            failure_persistence: None,
            max_shrink_iters: 0,
            ..ProptestConfig::default()
        });
        let outcome = runner.run(&any::<u64>(), |seed| {
            try_one(seed, &mut counts.borrow_mut());
            Ok(())
        });
        let counts = counts.into_inner();
        let refused: usize = counts.refused.values().sum();
        let tried = counts.applied + refused;
        println!(
            "{tried} fixes tried, {} applied, {refused} refused ({:?}); {} texts did not read",
            counts.applied, counts.refused, counts.unreadable
        );
        outcome.unwrap();
        // A node that is not read elsewhere can nearly always be edited.
        let read_elsewhere = counts.refused.get("read elsewhere").copied().unwrap_or_default();
        assert!(tried < 100 || (refused - read_elsewhere) * 20 < tried, "too many are refused");
        assert!(counts.unreadable < tried, "too few texts are read");
    }
}
