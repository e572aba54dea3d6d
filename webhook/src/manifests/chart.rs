//! What the Helm chart takes from the rule table: two data files in its `files/`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::NODE_BLOCKING;
use super::webhooks::match_conditions;
use crate::kinds;

const HEAD: &str =
    "# Generated from the rule table: `UPDATE=1 cargo test -p gpulint-webhook chart` writes it.\n";

/// The chart's generated files: their paths from the chart's folder, and their texts.
///
/// # Errors
/// A value that cannot be written; none of ours.
pub fn chart_files() -> Result<Vec<(&'static str, String)>, serde_saphyr::ser::Error> {
    let kinds = format!("{HEAD}{}", serde_saphyr::to_string(&table())?);
    let conditions = format!("{HEAD}{}", serde_saphyr::to_string(&match_conditions())?);
    Ok(vec![("files/kinds.yaml", kinds), ("files/conditions.yaml", conditions)])
}

fn table() -> Value {
    let mut groups: BTreeMap<&str, (Vec<Value>, Vec<&str>)> = BTreeMap::new();
    for kind in kinds::checked() {
        if let Some(resource) = kind.info() {
            groups.entry(kind.group).or_default().0.push(json!({
                "kind": kind.kind, "resource": resource.plural, "mutated": kinds::is_mutated(*kind)
            }));
        }
    }
    for kind in kinds::watched() {
        if let Some(resource) = kind.info() {
            groups.entry(kind.group).or_default().1.push(resource.plural);
        }
    }
    let groups = groups.into_iter().map(|(group, (judged, mut read))| {
        read.sort_unstable();
        json!({"group": group, "judged": judged, "read": read})
    });
    let blocking: Vec<&str> = NODE_BLOCKING
        .iter()
        .copied()
        .filter(|name| kinds::checked().iter().any(|k| k.kind == *name))
        .collect();
    json!({"nodeBlocking": blocking, "groups": groups.collect::<Vec<Value>>()})
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_chart_is_in_step_with_the_rule_table() {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("chart");
        for (path, text) in chart_files().unwrap() {
            let path = chart.join(path);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == text, "{} is old: UPDATE=1 cargo test writes it", path.display());
        }
    }

    #[test]
    fn the_versions_are_one() {
        let chart = include_str!("../../chart/Chart.yaml");
        for key in ["version", "appVersion"] {
            let line = format!("\n{key}: {}\n", env!("CARGO_PKG_VERSION"));
            assert!(chart.contains(&line), "{key}");
        }
    }
}
