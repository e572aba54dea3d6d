//! Makes the first review as fast as later ones: the lazily built data of rules (schemas, patterns, tables of instance
//! types) is built before the server is ready, by checking the examples in their manuals.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, File, RULES};

/// Checks the examples of all manuals, and discards the findings. The example of a rule has what builds its data, so that the
/// other rules see only the first object of each kind: all of them on every example take four times as long.
pub(crate) fn warm_up(engine: &Engine, cluster: &Cluster) {
    let mut kinds = BTreeSet::new();
    for rule in RULES {
        for text in examples(&rule.markdown()) {
            // A defect in one rule must not prevent serving.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                for object in File::read(Source::from_text(rule.id, &text)).objects {
                    match kinds.insert((**object.id()).clone()) {
                        true => engine.check_object(&object, cluster),
                        false => engine.check_object_by(rule, &object, cluster),
                    };
                }
            }));
        }
    }
}

/// The manifests of a manual; for a diff, the manifest before the change.
fn examples(manual: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let (mut open, mut diff) = (false, false);
    for line in manual.lines() {
        if line.starts_with("```yaml") {
            open = true;
            diff = line.contains("diff");
            out.push(String::new());
        } else if line.starts_with("```") {
            open = false;
        } else if open
            && let Some(text) = out.last_mut()
            && let Some(line) = if diff { line.strip_prefix([' ', '-']) } else { Some(line) }
        {
            text.push_str(line);
            text.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_runs_on_objects_has_an_example_that_can_be_read() {
        for rule in RULES.iter().filter(|rule| rule.check.runs_on_objects()) {
            let examples = examples(&rule.markdown());
            assert!(!examples.is_empty(), "{}", rule.id);
            for text in examples {
                let file = File::read(Source::from_text(rule.id, &text));
                assert!(!file.objects.is_empty(), "{}: {text}", rule.id);
            }
        }
    }
}
