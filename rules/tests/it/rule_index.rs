//! `docs/rules.tsv` lists every rule; `UPDATE=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use gpulint_rules::RULES;

#[test]
fn the_index_lists_every_rule() {
    let mut index = String::from(
        "# Generated from the rule table: UPDATE=1 cargo test -p gpulint-rules --test it rule_index\n",
    );
    index.push_str("id\tgroup\tseverity\tsummary\n");
    for rule in RULES {
        let _ = writeln!(
            index,
            "{}\t{}\t{}\t{}",
            rule.id,
            rule.group.name(),
            rule.severity.name(),
            rule.summary()
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rules.tsv");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &index).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, index, "docs/rules.tsv is out of date: run with UPDATE=1");
}
