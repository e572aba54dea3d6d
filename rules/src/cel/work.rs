//! Estimates the cost of evaluating an expression, because the evaluator has no limit of its own.
//!
//! Each part of an expression is evaluated once for each iteration of the loops around it, and a loop has at most as
//! many iterations as the largest collection of the value has items. This exceeds the real cost of most evaluations,
//! but is small for usual values.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};

/// Number of steps of one part of an expression.
const STEPS_PER_PART: u64 = 10;
/// Number of steps for comparing or copying an item of a list.
const STEPS_PER_ITEM: u64 = 4;
/// Number of steps for compiling a pattern in the expression, once.
const STEPS_PER_PATTERN: u64 = 5_000;
/// Number of steps for compiling a pattern from the value.
const STEPS_PER_UNKNOWN_PATTERN: u64 = 1_000_000;
/// Number of bytes of a text that a function reads in one step.
const BYTES_PER_STEP: u64 = 8;
/// Functions and operators that read whole texts.
const OF_TEXTS: &[&str] = &[
    "matches",
    "find",
    "contains",
    "lowerAscii",
    "upperAscii",
    "trim",
    "split",
    "join",
    "size",
    "quantity",
    "isQuantity",
    operators::ADD,
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Number of items of the largest collection.
    items: u64,
    /// Number of bytes of the longest text.
    text: u64,
}

impl Size {
    pub(super) fn collection(&mut self, items: usize) {
        self.items = self.items.max(items as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.text = self.text.max(text.len() as u64);
    }
}

/// The work by depth of loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    loops: Vec<Parts>,
    /// Whether it creates lists of texts.
    splits: bool,
}

/// The parts of an expression with the same number of enclosing loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    steps: u64,
    /// Number of parts that read whole texts.
    texts: u64,
}

impl Work {
    pub(super) fn of(expression: &IdedExpr) -> Work {
        let mut work = Work::default();
        work.add(expression, 0);
        work
    }

    /// The number of steps for a value.
    pub(super) fn steps(&self, size: &Size) -> usize {
        let items = if self.splits { size.items.max(size.text) } else { size.items };
        let of = |(at, parts): (usize, &Parts)| {
            let times = items.max(1).saturating_pow(u32::try_from(at).unwrap_or(u32::MAX));
            let texts = parts.texts.saturating_mul(size.text / BYTES_PER_STEP);
            times.saturating_mul(parts.steps.saturating_add(texts))
        };
        let all = self.loops.iter().enumerate().map(of).fold(0, u64::saturating_add);
        usize::try_from(all).unwrap_or(usize::MAX)
    }

    fn at(&mut self, loops: usize) -> &mut Parts {
        if self.loops.len() <= loops {
            self.loops.resize(loops + 1, Parts::default());
        }
        &mut self.loops[loops]
    }

    fn add(&mut self, expression: &IdedExpr, loops: usize) {
        self.at(loops).steps += STEPS_PER_PART;
        match &expression.expr {
            Expr::Select(select) => self.add(&select.operand, loops),
            Expr::List(list) => list.elements.iter().for_each(|item| self.add(item, loops)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.add(&entry.key, loops);
                        self.add(&entry.value, loops);
                    }
                }
            }
            Expr::Comprehension(comprehension) => {
                for part in [&comprehension.iter_range, &comprehension.accu_init, &comprehension.result] {
                    self.add(part, loops);
                }
                for part in [&comprehension.loop_cond, &comprehension.loop_step] {
                    self.add(part, loops + 1);
                }
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                self.splits |= name == "split";
                if OF_TEXTS.contains(&name) {
                    self.at(loops).texts += 1;
                }
                match name {
                    // A list is searched from its start.
                    operators::IN | "isSorted" | "sum" | "min" | "max" | "join" => {
                        self.at(loops + 1).steps += STEPS_PER_ITEM;
                    }
                    // `map` and `filter` copy their result for each item.
                    operators::ADD if call.args.iter().any(is_accumulator) => {
                        self.at(loops + 1).steps += STEPS_PER_ITEM;
                    }
                    "matches" | "find" => {
                        if call.args.iter().all(|pattern| matches!(pattern.expr, Expr::Literal(_))) {
                            self.at(0).steps += STEPS_PER_PATTERN;
                        } else {
                            self.at(loops).steps += STEPS_PER_UNKNOWN_PATTERN;
                        }
                    }
                    _ => {}
                }
                call.target.iter().for_each(|target| self.add(target, loops));
                call.args.iter().for_each(|argument| self.add(argument, loops));
            }
            _ => {}
        }
    }
}

/// Whether an expression is the variable in which a loop accumulates its result.
fn is_accumulator(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name.starts_with('@'))
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::Program;

    use super::*;

    fn steps(expression: &str, items: usize, text: &str) -> usize {
        let mut size = Size::default();
        size.collection(items);
        size.text(text);
        Work::of(Program::compile(expression).unwrap().expression()).steps(&size)
    }

    #[test]
    fn loops_multiply() {
        let flat = steps("self.a == 'b'", 1000, "x");
        assert_eq!(flat, steps("self.a == 'b'", 1, "x"));
        let once = steps("self.all(a, a > 1)", 1000, "x");
        assert!((1000..1_000_000).contains(&once), "{once}");
        let twice = steps("self.all(a, self.exists(b, a == b))", 1000, "x");
        assert!(twice > 100 * once, "{twice}");
        let mapped = steps("self.map(a, a + 1).size() > 0", 1000, "x");
        assert!(mapped > 2_000_000, "{mapped}");
        assert_eq!(
            steps("self.all(a, self.all(b, self.all(c, self.all(d, a < d))))", 1 << 40, "x"),
            usize::MAX
        );
    }

    #[test]
    fn texts_and_patterns_count() {
        let long = "x".repeat(80_000);
        assert!(steps("self.matches('a+b')", 1, &long) > steps("self.matches('a+b')", 1, "x") + 9_000);
        assert!(steps("self.a.matches(self.b)", 1, "x") > 100_000);
        assert!(steps("self.split(',').all(a, a == '')", 1, &long) > 1_000_000);
    }
}
