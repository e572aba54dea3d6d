//! Validation beyond the schema: constraints between fields, syntax of names, unions.
//!
//! A port of the Go code of kube-apiserver 1.37, with its default feature gates and on create (immutable
//! fields are not checked):
//!
//! | files here | Go files in `k8s.io/kubernetes` |
//! |---|---|
//! | `pod`, `container`, `volume`, `probe`, `resources`, `security`, `placement`, `service`, `data` | `pkg/apis/core/validation/validation.go` |
//! | `workload` | `pkg/apis/apps/validation/validation.go` |
//! | `job`, `cron_job` | `pkg/apis/batch/validation/validation.go` |
//! | `autoscaler` | `pkg/apis/autoscaling/validation/validation.go` |
//! | `pdb` | `pkg/apis/policy/validation/validation.go` |
//! | `dra`, `dra_request` | `pkg/apis/resource/validation/validation.go` |
//! | `admission` | `pkg/apis/admissionregistration/validation/validation.go`, `k8s.io/apiserver/pkg/util/webhook/validation.go` |
//! | `selector` | `k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go` |
//! | `syntax` | `k8s.io/apimachinery/pkg/util/validation/validation.go` |
//!
//! `karpenter` has the CEL rules of Karpenter's CRDs that no named rule covers. Types and unknown fields are
//! left to the schema. Pod templates of custom resources are checked as the pods that controllers make of them
//! (`crate::schema::pods`). Placeholders are unknown, and a patch has no missing fields.

use std::collections::BTreeSet;

use crate::kind::Kind;
use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::schema::violation::{InvalidKind, Violation};
use crate::steps;
use crate::tree::PATCH_DIRECTIVE;
use crate::tree::node::Node;
use crate::workload::template::runs_forever;

mod admission;
mod autoscaler;
mod container;
mod cron_job;
pub(super) mod data;
mod dra;
pub(crate) mod dra_request;
mod job;
mod karpenter;
pub(crate) mod pdb;
mod placement;
mod pod;
mod probe;
mod resources;
mod security;
pub(crate) mod selector;
mod service;
mod syntax;
#[cfg(test)]
mod tests;
mod volume;
mod workload;

use syntax::Syntax;

/// Steps for an error, in addition to those for its message.
const STEPS_PER_ERROR: usize = 50;

/// Appends the first `limit` violations of an object whose kind has a schema in its version.
pub(crate) fn validate(object: &Object, limit: usize, out: &mut Vec<Violation>) {
    let mut report = Checker { limit, ..Checker::new(object) };
    let spec = object.get("spec");
    let Some(info) = object.kind_info() else { return };
    match info.kind {
        Kind::RESOURCE_CLAIM | Kind::RESOURCE_CLAIM_TEMPLATE | Kind::DEVICE_CLASS => {
            dra::claim(object, &mut report);
        }
        Kind::VALIDATING_WEBHOOK_CONFIGURATION | Kind::MUTATING_WEBHOOK_CONFIGURATION => {
            admission::configuration(object, &mut report);
        }
        _ if !spec.is_mapping() => {}
        Kind::POD => {
            pod::pod(&spec, pod::PodSpecOwner::Pod, Some(&BTreeSet::new()), &mut report);
            let labels = object.path(&["metadata", "labels"]);
            placement::own_labels(&labels, &spec, &mut report);
            pod::profiles(&object.root(), &mut report);
        }
        Kind::SERVICE => service::service(object, &spec, &mut report),
        Kind::DEPLOYMENT | Kind::STATEFUL_SET | Kind::DAEMON_SET | Kind::REPLICA_SET => {
            workload::workload(object, &spec, &mut report);
        }
        Kind::JOB | Kind::CRON_JOB => job::job(object, &spec, &mut report),
        Kind::EC2_NODE_CLASS => karpenter::node_class(&spec, &mut report),
        Kind::NODE_OVERLAY => karpenter::overlay(&spec, &mut report),
        Kind::HPA if object.version() == "v2" => autoscaler::autoscaler(&spec, &mut report),
        _ => {}
    }
    out.extend(report.into_errors().into_iter().map(FieldError::into_violation));
}

/// What a controller adds to a pod template before it creates pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// Nothing that a pod requires.
    Nothing,
    /// Fields of the pod and of its containers.
    Fields,
    /// Fields, and items of lists, such as containers and volumes.
    Lists,
}

/// A pod template in a custom resource, and what its controller does with it.
pub(super) struct ControlledTemplate<'p, 'a> {
    pub(super) metadata: Node<'a>,
    pub(super) spec: Node<'a>,
    pub(super) completion: Completion,
    /// The names of the volumes that the controller adds; `None` if they are not known.
    pub(super) volumes: Option<&'p BTreeSet<&'a str>>,
    /// Whether the controller gives the template to a Deployment, a ReplicaSet or a Job, of which the API server validates it.
    pub(super) is_handed_over: bool,
}

/// Appends the first `limit` violations of the pods that a controller makes of a template in a custom resource.
pub(super) fn validate_pods<'a>(
    object: &'a Object,
    template: &ControlledTemplate<'_, 'a>,
    limit: usize,
    out: &mut Vec<Violation>,
) {
    let mut report = Checker { limit, ..Checker::new(object) };
    if !report.partial {
        report.partial = template.completion != Completion::Nothing;
        report.completion = template.completion;
    }
    let labels = template.metadata.get("labels");
    selector::labels(&labels, &mut report);
    pod::annotations(&template.metadata.get("annotations"), &mut report);
    let owner = if template.is_handed_over { pod::PodSpecOwner::Template } else { pod::PodSpecOwner::Pod };
    pod::pod(&template.spec, owner, template.volumes, &mut report);
    placement::own_labels(&labels, &template.spec, &mut report);
    if runs_forever(object) {
        workload::runs_for_ever(object.kind(), &template.spec, &mut report);
    }
    out.extend(report.into_errors().into_iter().map(FieldError::into_violation));
}

/// A field that the API server rejects, like Go's `field.Error`.
#[derive(Debug)]
pub(crate) struct FieldError<'a> {
    /// The field, which may be absent.
    pub(crate) node: Node<'a>,
    pub(crate) kind: InvalidKind,
    /// Lower case, no full stop, at most 120 characters.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) help: Option<String>,
    /// The fix, where there is only one.
    pub(crate) fix: Option<Fix>,
    /// Another field that is involved, with its role. Only rules that report errors directly use it.
    pub(crate) related: Option<(Node<'a>, &'static str)>,
    /// Whether the error is about the key and not the value. Only rules that report errors directly use it.
    pub(crate) at_key: bool,
}

impl<'a> FieldError<'a> {
    fn new(node: &Node<'a>, message: String) -> FieldError<'a> {
        let kind = InvalidKind::Other;
        FieldError { node: node.clone(), kind, message, help: None, fix: None, related: None, at_key: false }
    }

    pub(crate) fn help(&mut self, text: impl Into<String>) -> &mut FieldError<'a> {
        self.help = Some(text.into());
        self
    }

    pub(crate) fn fix(&mut self, fix: Fix) -> &mut FieldError<'a> {
        self.fix = Some(fix);
        self
    }

    fn related(&mut self, node: &Node<'a>, role: &'static str) -> &mut FieldError<'a> {
        self.related = Some((node.clone(), role));
        self
    }

    fn at_key(&mut self) -> &mut FieldError<'a> {
        self.at_key = true;
        self
    }

    /// Converts the error for the rules over the schema.
    fn into_violation(self) -> Violation {
        let mut violation = Violation::invalid(&self.node, self.message).about(self.kind);
        if let Some(help) = self.help {
            violation = violation.help(help);
        }
        if let Some(fix) = self.fix {
            violation = violation.fix(fix);
        }
        violation
    }
}

/// Collects errors, and provides the checks that several kinds share.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    errors: Vec<FieldError<'a>>,
    /// Receives errors that are not reported, so that callers can always chain `help` and `fix`.
    discarded: Option<FieldError<'a>>,
    /// Maximum number of errors to keep.
    limit: usize,
    /// Whether the object is a patch or a fragment, so that no field counts as missing.
    pub(crate) partial: bool,
    /// What a controller adds to the pod template of an object that is `partial` only for that.
    completion: Completion,
    /// Whether a kustomization lists the file, which may add labels and selectors.
    pub(crate) kustomized: bool,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(object: &Object) -> Checker<'a> {
        Checker {
            errors: Vec::new(),
            discarded: None,
            limit: usize::MAX,
            partial: object.is_partial(),
            completion: Completion::Nothing,
            kustomized: object.origin().is_some_and(|origin| origin.source.is_kustomized()),
        }
    }

    pub(crate) fn into_errors(self) -> Vec<FieldError<'a>> {
        self.errors
    }

    pub(crate) fn error(&mut self, node: &Node<'a>, message: impl Into<String>) -> &mut FieldError<'a> {
        let message = message.into();
        steps::take(STEPS_PER_ERROR + message.len());
        let error = FieldError::new(node, message);
        let at = self.errors.len();
        if at >= self.limit {
            return self.discarded.insert(error);
        }
        self.errors.push(error);
        &mut self.errors[at]
    }

    /// Reports a missing field of `parent`. Nothing is reported in patches, or if a placeholder may provide
    /// the field.
    pub(crate) fn missing(
        &mut self,
        parent: &Node<'a>,
        field: &str,
        message: impl Into<String>,
    ) -> &mut FieldError<'a> {
        let node = parent.get(field);
        if self.partial || may_hold_more_fields(parent) || node.is_unknown() {
            return self.discarded.insert(FieldError::new(&node, String::new()));
        }
        self.error(&node, message)
    }

    /// Reports a missing field in the words for all of them. Otherwise like [`Checker::missing`].
    pub(crate) fn required(&mut self, parent: &Node<'a>, field: &str) -> &mut FieldError<'a> {
        let error = self.missing(parent, field, format!("`{field}` is required"));
        error.kind = InvalidKind::Missing;
        error
    }

    /// Requires a non-empty text and returns it.
    pub(crate) fn required_text(&mut self, parent: &Node<'a>, field: &str) -> Option<&'a str> {
        let node = parent.get(field);
        if !node.is_set() {
            self.required(parent, field);
            return None;
        }
        match node.text() {
            Some("") => {
                let error = self.error(&node, format!("`{field}` is required and may not be empty"));
                error.kind = InvalidKind::Missing;
                None
            }
            text => text,
        }
    }

    /// Like [`Checker::required_text`], but the text must also have the syntax.
    pub(crate) fn required_name(
        &mut self,
        parent: &Node<'a>,
        field: &str,
        syntax: &Syntax,
    ) -> Option<&'a str> {
        let text = self.required_text(parent, field)?;
        self.check_syntax(&parent.get(field), syntax);
        Some(text)
    }

    /// Requires the syntax of a text if it is set. The empty text is checked too.
    pub(crate) fn check_syntax(&mut self, node: &Node<'a>, syntax: &Syntax) {
        if let Some(text) = text_of(node)
            && !(syntax.accepts)(text)
        {
            let article = if syntax.what.starts_with(['a', 'e', 'i', 'o', 'I']) { "an" } else { "a" };
            self.error(node, format!("{} is not {article} {}", quote(text), syntax.what)).help(syntax.help);
        }
    }

    /// Like [`Checker::check_syntax`], but the empty text is treated as absent.
    pub(crate) fn check_syntax_unless_empty(&mut self, node: &Node<'a>, syntax: &Syntax) {
        if node.text().is_some_and(|t| !t.is_empty()) {
            self.check_syntax(node, syntax);
        }
    }

    /// Requires one of the given values. The empty text is treated as absent.
    pub(crate) fn choice(&mut self, node: &Node<'a>, words: &[&str]) {
        if node.text() != Some("") {
            self.strict_choice(node, words);
        }
    }

    /// Requires one of the given values. The empty text is rejected.
    pub(crate) fn strict_choice(&mut self, node: &Node<'a>, words: &[&str]) {
        let Some(text) = node.text() else { return };
        if words.contains(&text) {
            return;
        }
        let same = words.iter().find(|w| w.eq_ignore_ascii_case(text));
        let error = self.error(node, format!("{} is not one of the allowed values", quote(text)));
        if let Some(word) = same {
            error.help(format!("write `{word}`")).fix(
                Fix::new(format!("write `{word}`"), Safety::Safe).set(node, serde_json::Value::from(*word)),
            );
        } else {
            error.help(format!("write {}", join_or(words)));
        }
    }

    /// Requires the field, with one of the given values.
    pub(crate) fn required_choice(&mut self, parent: &Node<'a>, field: &str, words: &[&str]) {
        let node = parent.get(field);
        if node.is_set() {
            self.strict_choice(&node, words);
        } else {
            self.required(parent, field).help(format!("write {}", join_or(words)));
        }
    }

    /// Requires an integer to be within bounds if it is set.
    pub(crate) fn between(&mut self, node: &Node<'a>, least: i64, most: i64) {
        if let Some(value) = node.int()
            && !(least..=most).contains(&value)
        {
            let name = field_name(node);
            let error = if value < least {
                self.error(node, format!("`{name}` {value} is below {least}"))
            } else {
                self.error(node, format!("`{name}` {value} is above {most}"))
            };
            if most == i64::MAX {
                error.help(format!("write {least} or more"));
            } else {
                error.help(format!("write a number from {least} to {most}"));
            }
        }
    }

    /// Requires an integer to be at least 0 if it is set.
    pub(crate) fn not_negative(&mut self, node: &Node<'a>) {
        self.between(node, 0, i64::MAX);
    }

    /// Limits the number of items of a list.
    pub(crate) fn at_most(&mut self, list: &Node<'a>, most: usize) {
        let count = list.items().count();
        if count > most {
            self.error(list, format!("{count} items are more than {most}"))
                .help(format!("the API server allows {most} at most"));
        }
    }

    /// Requires keys to be unique; reports the node of each repetition.
    pub(crate) fn unique(&mut self, nodes: impl Iterator<Item = (Node<'a>, String)>, what: &str) {
        let mut seen = BTreeSet::new();
        for (node, key) in nodes {
            if !seen.insert(key.clone()) {
                self.error(&node, format!("{what} {} is used twice", quote(&key)));
            }
        }
    }

    /// Requires exactly one of the given fields of `parent`. Reports the second one, or the parent if none is
    /// set.
    pub(crate) fn exactly_one(&mut self, parent: &Node<'a>, fields: &[&str]) {
        let mut written = fields.iter().filter(|f| is_kept(&parent.get(f)));
        let first = written.next();
        match (first, written.next()) {
            (Some(a), Some(b)) => {
                self.error(&parent.get(b), format!("`{a}` and `{b}` exclude each other"))
                    .help(format!("write one of {}", join_or(fields)));
            }
            (None, _) if !self.partial && !may_hold_more_fields(parent) => {
                self.error(parent, format!("one of {} is required", join_or(fields)));
            }
            _ => {}
        }
    }
}

/// Whether a placeholder may provide further fields of this mapping.
pub(crate) fn may_hold_more_fields(node: &Node<'_>) -> bool {
    node.is_unknown() || node.has_unknown_key()
}

/// The items that are mappings. Go decodes null in a list of structs to an empty struct.
pub(crate) fn mapping_items<'a>(list: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    list.items().filter(|n| n.is_mapping() || n.is_null())
}

/// The text of a node. Go decodes null in a list of strings to the empty string.
pub(crate) fn text_of<'a>(node: &Node<'a>) -> Option<&'a str> {
    if node.is_null() && field_name(node).parse::<usize>().is_ok() {
        return Some("");
    }
    node.text()
}

pub(crate) fn field_name(node: &Node<'_>) -> String {
    node.pointer().steps().last().cloned().unwrap_or_default()
}

/// Formats user text for a message: in backticks, truncated, control characters replaced.
pub(crate) fn quote(text: &str) -> String {
    const MOST: usize = 253;
    if text.is_empty() {
        return "the empty text".to_owned();
    }
    let plain = |c: char| if c.is_control() || c == '`' { '?' } else { c };
    if text.chars().count() <= MOST {
        format!("`{}`", text.chars().map(plain).collect::<String>())
    } else {
        let cut: String = text.chars().take(MOST - 1).map(plain).collect();
        format!("`{cut}…`")
    }
}

/// Formats "`a`, `b` or `c`", truncated to the length of a help line.
pub(crate) fn join_or(words: &[&str]) -> String {
    let mut out = String::new();
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            out.push_str(if i + 1 == words.len() { " or " } else { ", " });
        }
        if out.chars().count() + word.len() > 90 && i + 1 < words.len() {
            out.push('…');
            break;
        }
        out.push('`');
        out.push_str(word);
        out.push('`');
    }
    out
}

/// Whether a node is set, and is not a patch directive that removes the field.
fn is_kept(node: &Node<'_>) -> bool {
    node.is_set() && node.get(PATCH_DIRECTIVE).text() != Some("delete")
}
