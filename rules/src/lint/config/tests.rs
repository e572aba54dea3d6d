//! Tests of parameters. They use a rule of their own, to be independent of the parameters of real rules.

use std::collections::BTreeMap;

use super::reader::ConfigReader;
use crate::lint::finding::Severity;
use crate::lint::rule::{Group, Param, ParamDefault, Rule};
use crate::lint::settings::{ParamValue, RuleSettings};
use crate::source::{Source, read};
use crate::tree::node::Node;

static RULE: Rule = Rule {
    id: "scale-down-too-fast",
    params: &[
        Param {
            name: "seconds",
            description: "the shortest window, in seconds",
            default: ParamDefault::Int { default: 300, min: 0, max: 3600 },
        },
        Param { name: "labels", description: "labels that count", default: ParamDefault::Strings(&["a"]) },
    ],
    ..Rule::warning(Group::Autoscaling)
};

fn rule(text: &str) -> (RuleSettings, Vec<String>) {
    let source = Source::from_text("gpulint.yaml", text);
    let documents = read(&source);
    let tree = documents[0].tree.as_ref().unwrap();
    let mut reader = ConfigReader::new(&source, &[]);
    let settings = reader.rule(&Node::new(tree, 0), Some(&RULE), RULE.id);
    let errors = reader.errors.iter().map(ToString::to_string).collect();
    (settings, errors)
}

#[test]
fn parameters_are_read() {
    let (settings, errors) = rule("{severity: error, seconds: 600, labels: [x, \"1\"]}");
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(settings.severity, Some(Severity::Error));
    assert_eq!(settings.enabled, None);
    assert_eq!(
        settings.params,
        BTreeMap::from([
            ("seconds".to_owned(), ParamValue::Int(600)),
            ("labels".to_owned(), ParamValue::Strings(vec!["x".to_owned(), "1".to_owned()])),
        ])
    );
}

#[test]
fn parameters_are_checked() {
    let (settings, errors) = rule("seconds: 3601\nlabels: [x, 1]\nsecnds: 1\nenabled: maybe\n");
    assert!(settings.params.is_empty());
    assert_eq!(
        errors,
        [
            "gpulint.yaml:3:1: unknown key `secnds` of `scale-down-too-fast`; did you mean `seconds`?",
            "gpulint.yaml:4:10: expected `true` or `false`, found `maybe`",
            "gpulint.yaml:2:13: expected a string, found `1`",
            "gpulint.yaml:1:10: `seconds` is 3601, not 0 to 3600",
        ]
    );
    let (_, errors) = rule("seconds: 5m\nlabels: x\n");
    assert_eq!(
        errors,
        [
            "gpulint.yaml:2:9: expected a list, found `x`",
            "gpulint.yaml:1:10: expected a whole number from 0 to 3600, found `5m`",
        ]
    );
}
