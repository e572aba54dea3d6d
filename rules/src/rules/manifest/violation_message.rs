//! Message, help and fix for a violation of a schema.

use crate::facts::duration;
use crate::facts::duration::DurationField;
use crate::facts::suggest;
use crate::karpenter::drift::is_hashed;
use crate::rules::manifest::message_parts::{list_names, quoted_field, quoted_value, with_article};
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{InvalidKind, LengthUnit, Violation, ViolationKind};
use crate::tree::node::Shape;
use crate::tree::scalar::{Scalar, resolve_plain};

/// The text of a finding about a violation, and its fix.
pub(super) struct Description {
    pub message: String,
    pub help: Option<String>,
    pub fix: Option<Fix>,
}

impl Description {
    fn new(message: String) -> Description {
        Description { message, help: None, fix: None }
    }

    fn help(mut self, help: impl Into<String>) -> Description {
        self.help = Some(help.into());
        self
    }

    /// Adds a fix that writes another value, and help if there is none.
    fn write_instead(mut self, object: &Object, node: &Node<'_>, value: &Value) -> Description {
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

/// Puts a violation into words.
pub(super) fn describe(object: &Object, node: &Node<'_>, violation: &Violation) -> Description {
    let at = quoted_field(&violation.pointer);
    match &violation.kind {
        ViolationKind::Missing => {
            let kind = object.kind();
            let message = item_without_field(object, &violation.pointer)
                .unwrap_or_else(|| format!("{at} is missing, which {} needs", with_article(kind)));
            let help = format!("add it; `kubectl explain {}` describes the fields", kind.to_lowercase());
            Description::new(message).help(help)
        }
        ViolationKind::Unknown => Description::new(format!("{at} is not a field")),
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
            Description::new(format!("{at} is {}, and must be {bound} {limit}", written_value(node)))
        }
        ViolationKind::Count { of, limit, lower } => of_length(node, &at, of, *limit, *lower),
        ViolationKind::Duplicate { keys } if keys.is_empty() => {
            Description::new(format!("{at} repeats an earlier item")).help("remove one of the two")
        }
        ViolationKind::Duplicate { keys } => {
            let keys: Vec<String> = keys.iter().map(|k| format!("`{k}`")).collect();
            Description::new(format!("{at} has the {} of an earlier item", keys.join(" and ")))
                .help("remove one of the two, or give it another")
        }
        ViolationKind::Invalid { of, message, help, fix } => Description {
            message: (*of == InvalidKind::Missing)
                .then(|| item_without_field(object, &violation.pointer))
                .flatten()
                .unwrap_or_else(|| message.clone()),
            help: help.clone(),
            fix: fix.as_deref().cloned(),
        },
    }
}

/// Says which item of a list lacks a required field: "container `web` has no `image`".
fn item_without_field(object: &Object, pointer: &Pointer) -> Option<String> {
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

fn written_value(node: &Node<'_>) -> String {
    match node.shape() {
        Shape::Mapping => "a map".to_owned(),
        Shape::Sequence => "a list".to_owned(),
        Shape::Absent => "missing".to_owned(),
        Shape::Scalar => quoted_value(node.raw_text().unwrap_or_default()),
    }
}

fn of_length(node: &Node<'_>, at: &str, of: &LengthUnit, limit: u64, lower: bool) -> Description {
    let (unit, units) = match of {
        LengthUnit::Characters => ("character", "characters"),
        LengthUnit::Items => ("item", "items"),
        LengthUnit::Entries => ("entry", "entries"),
    };
    let unit = if limit == 1 { unit } else { units };
    let bound = if lower { "at least" } else { "at most" };
    let is_empty = node.text() == Some("") || node.shape() != Shape::Scalar;
    let is = if lower && limit == 1 && is_empty { "is empty, and " } else { "" };
    let description = Description::new(format!("{at} {is}must have {bound} {limit} {unit}"));
    match of {
        LengthUnit::Characters if !lower => description.help("write a shorter text"),
        _ => description,
    }
}

fn of_type(object: &Object, node: &Node<'_>, at: &str, expected: &[&str]) -> Description {
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
    let description = Description::new(format!("{at} must be {wanted}, not {}", article(found)));
    let Some(text) = node.raw_text().filter(|_| node.shape() == Shape::Scalar) else {
        return match node.pointer().steps() {
            [_, key] if is_data(object) && expected == ["string"] => {
                description.help(format!("write it as text, indented below `{}: |`", ellipsize(key)))
            }
            _ => description,
        };
    };
    if expected.contains(&"string") && matches!(found, "integer" | "number" | "boolean") {
        // The text as written was intended: `1.0` and `yes` are kept as strings.
        return description.write_instead(object, node, &json!(text));
    }
    if found == "string" {
        if expected.contains(&"integer")
            && let Ok(number) = text.parse::<i64>()
            && number.to_string() == text
        {
            return description.write_instead(object, node, &json!(number));
        }
        if expected.contains(&"boolean")
            && let Ok(truth) = text.parse::<bool>()
        {
            return description.write_instead(object, node, &json!(truth));
        }
        if expected == ["list"] && !text.is_empty() {
            return description.help("write a list, with an item for each part");
        }
    }
    description
}

/// Whether an object has texts of other programs as its values.
fn is_data(object: &Object) -> bool {
    object.is(Kind::CONFIG_MAP) || object.is(Kind::SECRET)
}

fn of_enum(object: &Object, node: &Node<'_>, at: &str, allowed: &[String]) -> Description {
    let description = Description::new(format!("{at} does not accept {}", written_value(node)));
    let Some(text) = node.text() else {
        return description.help(list_names("valid values:", allowed));
    };
    let differs_in_case = |word: &&String| word.eq_ignore_ascii_case(text);
    // The name of the policy in v1beta1.
    let renamed = (text == "WhenUnderutilized").then(|| "WhenEmptyOrUnderutilized".to_owned());
    if let Some(word) = allowed.iter().find(differs_in_case).cloned().or(renamed)
        && allowed.contains(&word)
    {
        return description.write_instead(object, node, &json!(word));
    }
    match suggest::nearest(text, allowed.iter().map(String::as_str)) {
        // Short names are too similar to each other for a suggestion.
        Some(near) if near.len() > 4 => description.help(format!("did you mean `{near}`?")),
        _ => description.help(list_names("valid values:", allowed)),
    }
}

/// The kind of duration that a field of Karpenter's objects contains.
pub(super) fn duration_field(object: &Object, node: &Node<'_>) -> Option<DurationField> {
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

fn of_pattern(object: &Object, node: &Node<'_>, at: &str, pattern: &str) -> Description {
    let written = written_value(node);
    if let Some(field) = duration_field(object, node) {
        let units = match field {
            DurationField::BudgetDuration => "hours and minutes, as in `8h` or `1h30m`",
            DurationField::TerminationGracePeriod => "hours, minutes and seconds, as in `1h30m`",
            _ => "hours, minutes and seconds, as in `1h30m`, or `Never`",
        };
        let description =
            Description::new(format!("{at} is {written}, which is not a duration that Karpenter reads"))
                .help(format!("write {units}"));
        let text = node.text().unwrap_or_default();
        return match duration::suggest(field, text) {
            Some(better) => {
                let description = Description { help: None, ..description };
                description.write_instead(object, node, &json!(better))
            }
            None => description,
        };
    }
    let description = Description::new(format!("{at} does not accept {written}"));
    if node.text() == Some("") {
        return description.help("write a value, or leave the field out");
    }
    match pattern.chars().count() {
        0..=80 => description.help(format!("it must match {pattern}")),
        _ => description
            .help(format!("`kubectl explain {}` describes the field", object.kind().to_lowercase())),
    }
}

fn of_format(node: &Node<'_>, at: &str, format: &str) -> Description {
    let written = written_value(node);
    let (what, help) = match format {
        "quantity" | schema::GO_QUANTITY => {
            ("a quantity", "write a number with or without a unit: `500m`, `2`, `16Gi`")
        }
        "date-time" | schema::CRD_DATE_TIME => ("a moment", "write it as `2027-01-31T08:00:00Z`"),
        "duration" => ("a duration", "write it as `90s` or `1h30m`"),
        "byte" => ("base64", "encode it, padding included"),
        _ => ("in the format of the field", "see the field's documentation"),
    };
    Description::new(format!("{at} is {written}, which is not {what}")).help(help)
}
