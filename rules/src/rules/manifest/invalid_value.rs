//! The API server rejects the value of a field.
//!
//! # Why
//! A number where the field is a string, `30d` where Karpenter reads hours, minutes and seconds, a label
//! with a blank in it, a port above 65535: the API server answers with an error, and the rollout
//! stops there. gpulint reports the same error earlier, at the value, with what to write instead.
//!
//! # Fix
//! Write a value that the field accepts: quotes around a number that is meant as text, another unit, one of
//! the valid values. `kubectl explain KIND.FIELD` describes a field; the references below have the formats
//! of names and durations. If the value is a placeholder that a tool fills in later, run that tool first, or
//! write it in a form that gpulint knows, such as `${NAME}`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -      expireAfter: 30d # <-
//! +      expireAfter: 720h
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>
//! - <https://karpenter.sh/docs/concepts/nodepools/>

use crate::facts::duration;
use crate::facts::duration::DurationField;
use crate::facts::suggest;
use crate::karpenter::drift::is_hashed;
use crate::karpenter::requirement_list::Provider;
use crate::kind::SCHEMA_KINDS;
use crate::platform::{Platform, Version};
use crate::rules::manifest::manifest_incomplete::{is_incomplete, is_part};
use crate::rules::manifest::misplaced::{follows, misplaced};
use crate::rules::manifest::placeholder_unexpanded::stand_in;
use crate::rules::manifest::words::{list_names, quoted_field, quoted_value, with_article};
use crate::rules::precedence::EarlierReports;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{LengthUnit, Violation, ViolationKind};
use crate::tree::node::Shape;
use crate::tree::pointer::Pointer;
use crate::tree::scalar::Scalar;
use crate::tree::scalar::resolve_plain;

pub(crate) static RULE: Rule = Rule {
    id: "invalid-value",
    kinds: SCHEMA_KINDS,
    // A CRD accepts a number that does not fit into a Go integer, but no controller can then decode it.
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    // A value that Karpenter's CRDs accept but its controllers cannot decode stops Karpenter.
    alternates: &["crashes-karpenter", "duration-undecodable"],
    docs: docs(include_str!("invalid_value.rs")),
    check: Check::CatchAll(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let violations = schema::violations(object, ctx.definitions());
    if violations.is_empty() {
        return None;
    }
    let owned = EarlierReports::of(object, ctx);
    let outdated = schema::outdated_schemas(object, ctx.platform(), ctx.definitions());
    let incomplete = is_incomplete(object, ctx.definitions());
    // What follows from a field that unknown-field reports is not told a second time.
    let misplaced =
        if ctx.is_rule_enabled("unknown-field") { misplaced(object, ctx.definitions()) } else { Vec::new() };
    for violation in violations.iter() {
        if is_let_through(object, violation, ctx.platform())
            || violation.kind == ViolationKind::Unknown
            || is_part(violation)
            || owned.covers(violation)
        {
            continue;
        }
        let node = object.root().at(&violation.pointer);
        // What was written for another value is reported by placeholder-unexpanded.
        if incomplete && node.is_absent()
            || stand_in(violation, &node).is_some()
            || follows(object, violation, &misplaced)
        {
            continue;
        }
        let mut said = say(object, &node, violation);
        // A newer version may accept more values, but not one that differs from a known one in its case alone.
        let outdated =
            outdated.filter(|_| matches!(violation.kind, ViolationKind::Enum { .. }) && said.fix.is_none());
        if let Some(product) = outdated {
            said.message = format!("{} up to {} {}", said.message, product.name(), product.newest());
        }
        let finding = ctx.report(&node, said.message);
        finding.rejected_by(Some(refuser(object, violation)));
        if outdated.is_some() {
            finding.severity(Severity::Warning);
        }
        if let Some(help) = said.help {
            finding.help(help);
        }
        if let Some(fix) = said.fix {
            finding.fix(fix);
        }
    }
    None
}

/// Whether the platform's version accepts what the newest CRD rejects: for Karpenter a duration, for KEDA a
/// replica count below its minimum, which is reported by keda-replica-bounds.
fn is_let_through(object: &Object, violation: &Violation, platform: &Platform) -> bool {
    if object.group() == "keda.sh" && platform.keda < Version::new(2, 20) {
        let last = violation.pointer.steps().last().map_or("", String::as_str);
        let count = matches!(last, "minReplicaCount" | "maxReplicaCount" | "idleReplicaCount");
        return count
            && matches!(&violation.kind, ViolationKind::Range { lower: true, limit, .. } if *limit != i32::MIN.to_string());
    }
    let node = object.root().at(&violation.pointer);
    let text = node.text().filter(|_| matches!(violation.kind, ViolationKind::Pattern { .. }));
    text.zip(duration_field(object, &node)).is_some_and(|(text, field)| {
        let version = Provider::of_object(object).karpenter_version(platform);
        duration::passes_unanchored_pattern(field, text, version)
    })
}

/// The component that rejects it: in custom resources the API server accepts numbers beyond 32 bits, and
/// quantities that Go cannot parse. KEDA's webhooks decode the objects that they validate, and reject both.
fn refuser(object: &Object, violation: &Violation) -> Authority {
    let decoded = match &violation.kind {
        ViolationKind::Range { limit, .. } => {
            *limit == i32::MAX.to_string() || *limit == i32::MIN.to_string()
        }
        // The value matches the pattern of the CRD.
        ViolationKind::Format { format } => format == schema::GO_QUANTITY,
        _ => false,
    };
    match object.group() {
        "keda.sh" if decoded => Authority::KedaAdmission,
        _ => Authority::ApiServer,
    }
}

/// The text of a finding about a violation.
struct Said {
    message: String,
    help: Option<String>,
    fix: Option<Fix>,
}

impl Said {
    fn new(message: String) -> Said {
        Said { message, help: None, fix: None }
    }

    fn help(mut self, help: impl Into<String>) -> Said {
        self.help = Some(help.into());
        self
    }

    /// Adds a fix with another value, and help if there is none.
    fn instead(mut self, object: &Object, node: &Node<'_>, value: &Value) -> Said {
        let text = match value {
            // Quoted if YAML would parse it as another type without quotes.
            Value::String(text) if !matches!(resolve_plain(text), Scalar::Str(_)) => {
                format!("\"{text}\"")
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let title = format!("write `{text}`");
        self.help.get_or_insert_with(|| title.clone());
        let fix = Fix::safe(title).set(node, value.clone());
        self.fix = Some(if is_hashed(object, &node.pointer()) { fix.replaces_nodes() } else { fix });
        self
    }
}

fn say(object: &Object, node: &Node<'_>, violation: &Violation) -> Said {
    let at = quoted_field(&violation.pointer);
    match &violation.kind {
        ViolationKind::Missing => {
            let kind = object.kind();
            let message = without_field(object, &violation.pointer)
                .unwrap_or_else(|| format!("{at} is missing, which {} needs", with_article(kind)));
            let help = format!("add it; `kubectl explain {}` describes the fields", kind.to_lowercase());
            Said::new(message).help(help)
        }
        ViolationKind::Unknown => Said::new(format!("{at} is not a field")),
        ViolationKind::Type { expected } => of_type(object, node, &at, expected),
        ViolationKind::Enum { allowed } => of_enum(object, node, &at, allowed),
        ViolationKind::Pattern { pattern } => of_pattern(object, node, &at, pattern),
        ViolationKind::Format { format } => of_format(node, &at, format),
        ViolationKind::Range { limit, lower, exclusive } => {
            let bound = match (lower, exclusive) {
                (true, false) => "at least",
                (true, true) => "more than",
                (false, false) => "at most",
                (false, true) => "less than",
            };
            let written = shown(node);
            Said::new(format!("{at} is {written}, and must be {bound} {limit}"))
        }
        ViolationKind::Count { of, limit, lower } => {
            let what = match of {
                LengthUnit::Characters => "character",
                LengthUnit::Items => "item",
                LengthUnit::Entries => "entry",
            };
            let many = match (*limit, what) {
                (1, what) => what.to_owned(),
                (_, "entry") => "entries".to_owned(),
                (_, what) => format!("{what}s"),
            };
            let bound = if *lower { "at least" } else { "at most" };
            let empty = *lower && (node.text() == Some("") || node.shape() != Shape::Scalar);
            let said = Said::new(if empty && *limit == 1 {
                format!("{at} is empty, and must have {bound} {limit} {many}")
            } else {
                format!("{at} must have {bound} {limit} {many}")
            });
            match of {
                LengthUnit::Characters if !lower => said.help("write a shorter text"),
                _ => said,
            }
        }
        ViolationKind::Duplicate { keys } if keys.is_empty() => {
            Said::new(format!("{at} repeats an earlier item")).help("remove one of the two")
        }
        ViolationKind::Duplicate { keys } => {
            let keys: Vec<String> = keys.iter().map(|k| format!("`{k}`")).collect();
            Said::new(format!("{at} has the {} of an earlier item", keys.join(" and ")))
                .help("remove one of the two, or give it another")
        }
        ViolationKind::Invalid { message, help, fix } => Said {
            message: (message.ends_with("` is required") && message.matches('`').count() == 2)
                .then(|| without_field(object, &violation.pointer))
                .flatten()
                .unwrap_or_else(|| message.clone()),
            help: help.clone(),
            fix: fix.as_deref().cloned(),
        },
    }
}

/// Says which item of a list lacks a required field: "container `web` has no `image`".
fn without_field(object: &Object, pointer: &Pointer) -> Option<String> {
    let (field, above) = pointer.steps().split_last()?;
    let index = above.iter().rposition(|step| step.parse::<usize>().is_ok())?;
    let (item, between) = above.split_at(index + 1);
    let what = match above.get(index.checked_sub(1)?)?.as_str() {
        "containers" => "container",
        "initContainers" => "init container",
        "ephemeralContainers" => "ephemeral container",
        "volumes" => "volume",
        "env" => "environment variable",
        "ports" => "port",
        "volumeMounts" => "volume mount",
        "triggers" => "trigger",
        _ => return None,
    };
    let item = object.root().at(&Pointer::from_steps(item.iter().cloned()));
    let name = quoted_value(item.get("name").text().filter(|name| !name.is_empty())?);
    Some(match between {
        [] => format!("{what} {name} has no `{field}`"),
        _ => format!("`{}` of {what} {name} has no `{field}`", between.join(".")),
    })
}

/// The written value, for a message.
fn shown(node: &Node<'_>) -> String {
    match node.shape() {
        Shape::Mapping => "a map".to_owned(),
        Shape::Sequence => "a list".to_owned(),
        Shape::Absent => "missing".to_owned(),
        Shape::Scalar => quoted_value(node.raw_text().unwrap_or_default()),
    }
}

fn of_type(object: &Object, node: &Node<'_>, at: &str, expected: &[&str]) -> Said {
    let found = match node.shape() {
        Shape::Mapping => "map",
        Shape::Sequence => "list",
        // The API server treats a float without a fraction as an integer.
        _ if node.int().is_some() => "integer",
        _ => node.scalar().map_or("null", |s| s.type_name()),
    };
    let article = |name: &str| match name {
        "integer" => "an integer".to_owned(),
        "null" => "null".to_owned(),
        name => format!("a {name}"),
    };
    let wanted: Vec<String> = expected.iter().filter(|e| **e != "null").map(|e| article(e)).collect();
    let wanted = wanted.join(" or ");
    let said = Said::new(format!("{at} must be {wanted}, not {}", article(found)));
    let Some(text) = node.raw_text().filter(|_| node.shape() == Shape::Scalar) else {
        return said;
    };
    if expected.contains(&"string") && matches!(found, "integer" | "number" | "boolean") {
        // The text as written was intended: `1.0` and `yes` are kept as strings.
        return said.instead(object, node, &json!(text));
    }
    if found == "string" {
        if expected.contains(&"integer")
            && let Ok(number) = text.parse::<i64>()
            && number.to_string() == text
        {
            return said.instead(object, node, &json!(number));
        }
        if expected.contains(&"boolean")
            && let Ok(truth) = text.parse::<bool>()
        {
            return said.instead(object, node, &json!(truth));
        }
        if expected == ["list"] && !text.is_empty() {
            return said.help("write a list, with an item for each part");
        }
    }
    said
}

fn of_enum(object: &Object, node: &Node<'_>, at: &str, allowed: &[String]) -> Said {
    let said = Said::new(format!("{at} does not accept {}", shown(node)));
    let Some(text) = node.text() else {
        return said.help(list_names("valid values:", allowed));
    };
    let same = |word: &&String| word.eq_ignore_ascii_case(text);
    // The name of the policy in v1beta1.
    let renamed = (text == "WhenUnderutilized").then(|| "WhenEmptyOrUnderutilized".to_owned());
    if let Some(word) = allowed.iter().find(same).cloned().or(renamed)
        && allowed.contains(&word)
    {
        return said.instead(object, node, &json!(word));
    }
    match suggest::nearest(text, allowed.iter().map(String::as_str)) {
        // Short names are too similar to each other for a suggestion.
        Some(near) if near.len() > 4 => said.help(format!("did you mean `{near}`?")),
        _ => said.help(list_names("valid values:", allowed)),
    }
}

/// The kind of duration that a field of Karpenter's objects contains.
fn duration_field(object: &Object, node: &Node<'_>) -> Option<DurationField> {
    if !object.is(Kind::NODE_POOL) && !object.is(Kind::NODE_CLAIM) {
        return None;
    }
    let pointer = node.pointer();
    match pointer.steps().last()?.as_str() {
        "expireAfter" => Some(DurationField::ExpireAfter),
        "consolidateAfter" => Some(DurationField::ConsolidateAfter),
        "terminationGracePeriod" => Some(DurationField::TerminationGracePeriod),
        "duration" => Some(DurationField::BudgetDuration),
        _ => None,
    }
}

fn of_pattern(object: &Object, node: &Node<'_>, at: &str, pattern: &str) -> Said {
    let written = shown(node);
    if let Some(field) = duration_field(object, node) {
        let takes = match field {
            DurationField::BudgetDuration => "hours and minutes, as in `8h` or `1h30m`",
            DurationField::TerminationGracePeriod => "hours, minutes and seconds, as in `1h30m`",
            _ => "hours, minutes and seconds, as in `1h30m`, or `Never`",
        };
        let said = Said::new(format!("{at} is {written}, which is not a duration that Karpenter reads"))
            .help(format!("write {takes}"));
        let text = node.text().unwrap_or_default();
        return match duration::suggest(field, text) {
            Some(better) => {
                let said = Said { help: None, ..said };
                said.instead(object, node, &json!(better))
            }
            None => said,
        };
    }
    let said = Said::new(format!("{at} does not accept {written}"));
    if node.text() == Some("") {
        return said.help("write a value, or leave the field out");
    }
    match pattern.chars().count() {
        0..=80 => said.help(format!("it must match {pattern}")),
        _ => said.help(format!("`kubectl explain {}` describes the field", object.kind().to_lowercase())),
    }
}

fn of_format(node: &Node<'_>, at: &str, format: &str) -> Said {
    let written = shown(node);
    let (what, help) = match format {
        "quantity" | schema::GO_QUANTITY => {
            ("a quantity", "write a number with or without a unit: `500m`, `2`, `16Gi`")
        }
        "date-time" | schema::CRD_DATE_TIME => ("a moment", "write it as `2027-01-31T08:00:00Z`"),
        "duration" => ("a duration", "write it as `90s` or `1h30m`"),
        "byte" => ("base64", "encode it, padding included"),
        _ => ("in the format of the field", "see the field's documentation"),
    };
    Said::new(format!("{at} is {written}, which is not {what}")).help(help)
}
