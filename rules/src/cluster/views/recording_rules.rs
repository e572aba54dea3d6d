//! The series that Prometheus recording rules define.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;
use crate::promql::sources::{PROMETHEUS_RULE_KINDS, rule_groups};

pub(crate) struct RecordingRules;

impl View for RecordingRules {
    const SLOT: ViewSlot = ViewSlot::RecordingRules;
    const KINDS: &'static [Kind] = &PROMETHEUS_RULE_KINDS;
    type Row = Object;
    type Key = String;

    fn keys(object: &Object) -> Vec<String> {
        recording_rule_names(object)
    }
}

pub(crate) fn recording_rule_names(object: &Object) -> Vec<String> {
    rule_groups(object)
        .items()
        .flat_map(|group| group.get("rules").items())
        .filter_map(|rule| rule.get("record").text().map(str::to_owned))
        .collect()
}
