//! Intended differences between gpulint and the server: `differences.yaml`, reviewed, with the reason of
//! each.

use std::path::Path;

use gpulint_rules::source::{Source, read};

use crate::cluster::tally::Disagreement;

/// One entry of the file. Absent fields match everything.
pub(crate) struct Difference {
    kind: Option<String>,
    /// The mutation's kind; `written` for documents.
    class: Option<String>,
    /// Part of the case's name.
    case: Option<String>,
    /// Part of the message of the server.
    server: Option<String>,
    /// The rule that claims a rejection that does not happen.
    rule: Option<String>,
    reason: String,
    used: usize,
}

impl Difference {
    fn covers(&self, disagreement: &Disagreement) -> bool {
        let part =
            |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|w| text.contains(w.as_str()));
        self.kind.as_ref().is_none_or(|k| *k == disagreement.kind)
            && self.class.as_ref().is_none_or(|c| *c == disagreement.class)
            && part(&self.case, &disagreement.name)
            && part(&self.server, &disagreement.server)
            && self.rule.as_ref().is_none_or(|rule| disagreement.false_claims.iter().any(|c| c == rule))
    }
}

/// The reviewed list.
pub(crate) struct Differences(Vec<Difference>);

impl Differences {
    /// Reads the list; an entry without a reason, or one that matches everything, is an error.
    pub(crate) fn read(path: &Path) -> Differences {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let root = read(&Source::from_text("differences.yaml", &text))
            .first()
            .and_then(|d| d.root().map(|root| root.to_json()))
            .unwrap_or_default();
        let entries = root.as_array().cloned().unwrap_or_default();
        Differences(
            entries
                .iter()
                .map(|entry| {
                    let text = |key: &str| entry[key].as_str().map(str::to_owned);
                    let known = ["kind", "class", "case", "server", "rule", "reason"];
                    let keys: Vec<&String> = entry.as_object().into_iter().flat_map(|m| m.keys()).collect();
                    assert!(
                        keys.iter().all(|k| known.contains(&k.as_str())) && keys.len() > 1,
                        "{}: {entry}",
                        path.display()
                    );
                    Difference {
                        kind: text("kind"),
                        class: text("class"),
                        case: text("case"),
                        server: text("server"),
                        rule: text("rule"),
                        reason: text("reason")
                            .unwrap_or_else(|| panic!("{}: no reason: {entry}", path.display())),
                        used: 0,
                    }
                })
                .collect(),
        )
    }

    /// Whether a disagreement is on the list.
    pub(crate) fn cover(&mut self, disagreement: &Disagreement) -> bool {
        let entry = self.0.iter_mut().find(|d| d.covers(disagreement));
        if let Some(entry) = entry {
            entry.used += 1;
            return true;
        }
        false
    }

    /// The reasons of entries that matched nothing.
    pub(crate) fn unused(&self) -> Vec<&str> {
        let unused = self.0.iter().filter(|d| d.used == 0);
        unused.map(|d| d.reason.as_str()).collect()
    }
}
