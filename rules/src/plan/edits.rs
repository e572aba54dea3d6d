//! The fields that differ between two versions of an object, and what each edit does to running nodes.

use serde_json::Value;

use crate::catalog;
use crate::facts::duration::GoDuration;
use crate::facts::quantity::Quantity;
use crate::facts::text::cut;
use crate::karpenter::drift::{self, Departure, Drift, TemplateField};
use crate::karpenter::requirement::normalise;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// Maximum number of characters of a value in an edit.
const MAX_TEXT: usize = 60;

/// A field that differs between two versions of an object.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The version that has the field: the new one, unless the field was removed.
    pub object: Object,
    pub pointer: Pointer,
    /// The path of the field, with the key of a requirement in brackets.
    pub field: String,
    /// The values as short JSON; `None` if absent.
    pub before: Option<String>,
    pub after: Option<String>,
    pub effect: Effect,
}

/// What an edit does to the nodes that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Every node is replaced: the field is part of the hash.
    Replaces,
    /// The nodes that no longer meet the requirements are replaced.
    Departs(Vec<Departure>),
    /// Nodes are replaced if EC2 now selects something else (AMI, subnet, security group, reservation).
    Selects,
    /// A placeholder hides the value.
    Unknown,
    /// The API server rejects the edit.
    Refused,
    /// The API server rejects another edit of the object, and takes none of them.
    NotTaken,
    /// No node is replaced.
    Nothing,
}

impl Effect {
    /// Whether nodes are replaced by the edit, or may be.
    #[must_use]
    pub fn costs_nodes(&self) -> bool {
        matches!(self, Effect::Replaces | Effect::Departs(_) | Effect::Selects | Effect::Unknown)
    }

    /// Whether every node is replaced by the edit, whatever the others do.
    pub(super) fn replaces_all(&self) -> bool {
        match self {
            Effect::Replaces => true,
            Effect::Departs(left) => left.iter().any(|left| left.drift == Drift::All),
            _ => false,
        }
    }

    /// Whether the API server does not take the edit.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Effect::Refused | Effect::NotTaken)
    }

    /// `all`, `some`, `selected`, `unknown`, `refused` or `none`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Effect::Departs(_) if !self.replaces_all() => "some",
            Effect::Replaces | Effect::Departs(_) => "all",
            Effect::Selects => "selected",
            Effect::Unknown => "unknown",
            Effect::Refused | Effect::NotTaken => "refused",
            Effect::Nothing => "none",
        }
    }
}

/// A pair of nodes that differ; either may be absent.
struct Difference<'a> {
    steps: Vec<String>,
    /// The key of the requirement that differs.
    key: Option<String>,
    before: Node<'a>,
    after: Node<'a>,
}

/// The edits of `spec` of a NodePool or Provisioner, with the EC2NodeClass that it used before.
pub(super) fn of_pool(
    before: &Object,
    after: &Object,
    class: Option<&Value>,
    karpenter: Version,
) -> Vec<Edit> {
    let (old, new) = (before.root().to_json(), after.root().to_json());
    let hashed = drift::hashed_differences(&old, &new);
    let departures = drift::departures((&old, class), &new);
    let is_refused = drift::is_refused(&old, &new, karpenter);
    let effect = |difference: &Difference<'_>| {
        let steps: Vec<&str> = difference.steps.iter().map(String::as_str).collect();
        let is_unknown = difference.before.has_unknown() || difference.after.has_unknown();
        match steps.as_slice() {
            ["spec", "replicas"] if is_refused && difference.before.is_set() != difference.after.is_set() => {
                return Effect::Refused;
            }
            ["spec", "template", "spec", "nodeClassRef"]
            | ["spec", "template", "spec", "nodeClassRef", "group" | "kind"]
                if is_refused && difference.before.is_set() =>
            {
                return Effect::Refused;
            }
            // The hash does not have the name of an AWSNodeTemplate, but what that says.
            ["spec", "providerRef", ..] => return Effect::Selects,
            _ => {}
        }
        match drift::template_field(before, &steps) {
            None => Effect::Nothing,
            Some(_) if is_unknown => Effect::Unknown,
            Some(TemplateField::Hashed(field)) if hashed.contains(&field) => Effect::Replaces,
            Some(TemplateField::Hashed(_)) => Effect::Nothing,
            Some(TemplateField::Requirements) => departing(difference.key.as_deref(), &departures),
        }
    };
    edits(before, after, effect)
}

/// The effect of a changed requirement: the nodes that leave by its label, or by their instance type.
fn departing(key: Option<&str>, departures: &[Departure]) -> Effect {
    let decides_type = key.is_none_or(|key| catalog::index(normalise(key)).is_some());
    let left = departures.iter().filter(|left| match &left.key {
        Some(label) => key.is_none_or(|key| normalise(key) == label),
        None => decides_type,
    });
    let left: Vec<Departure> = left.cloned().collect();
    if left.is_empty() { Effect::Nothing } else { Effect::Departs(left) }
}

/// The edits of `spec` of an EC2NodeClass or AWSNodeTemplate.
pub(super) fn of_class(before: &Object, after: &Object, karpenter: Version) -> Vec<Edit> {
    let (old, new) = (before.root().to_json(), after.root().to_json());
    let hashed = drift::hashed_class_differences(&old, &new, karpenter);
    let is_beta = before.version() == "v1beta1";
    let is_literal =
        before.path(&["spec", "amiFamily"]).is_set() || after.path(&["spec", "amiFamily"]).is_set();
    let takes_other_family = || !is_literal && hashed.iter().any(|field| field == "amiFamily");
    edits(before, after, |difference| match difference.steps.as_slice() {
        [spec, name, ..] if spec == "spec" => {
            let is_unknown = difference.before.has_unknown() || difference.after.has_unknown();
            let is_selected = drift::is_selected(name);
            match () {
                // The role of an EC2NodeClass of `v1beta1` may not change (0.37 pkg/apis/v1beta1/ec2nodeclass.go).
                () if is_beta && name == "role" && difference.before.is_set() => Effect::Refused,
                // A shell script has `$(...)`, which no tool fills in.
                () if is_unknown && name != "userData" => Effect::Unknown,
                // A literal family is not hashed itself, but the hash has the family that follows.
                () if hashed.iter().any(|field| field == name) => Effect::Replaces,
                // The family that follows from an alias is part of the hash.
                () if name == "amiSelectorTerms"
                    && (takes_other_family() || has_other_images(&old, &new)) =>
                {
                    Effect::Replaces
                }
                () if is_selected => Effect::Selects,
                () => Effect::Nothing,
            }
        }
        _ => Effect::Nothing,
    })
}

/// Whether two versions of an EC2NodeClass pin images that have none in common: by the version of an alias, or by their ids.
/// A node whose image is not among those of the class has drifted (K-AWS:pkg/cloudprovider/drift.go `isAMIDrifted`).
fn has_other_images(old: &Value, new: &Value) -> bool {
    let pins = |class: &Value| -> Option<Vec<String>> {
        let terms = class.pointer("/spec/amiSelectorTerms")?.as_array()?;
        let pin = |term: &Value| {
            let text = |name: &str| term.get(name)?.as_str();
            let alias = text("alias").filter(|alias| !alias.ends_with("@latest") && alias.contains('@'));
            alias.or(text("id")).map(str::to_owned)
        };
        terms.iter().map(pin).collect()
    };
    // An image of an alias may be the one of an id.
    let is_alias = |pins: &[String]| pins.iter().any(|pin| pin.contains('@'));
    let (Some(old), Some(new)) = (pins(old), pins(new)) else { return false };
    !old.is_empty()
        && !new.is_empty()
        && is_alias(&old) == is_alias(&new)
        && !old.iter().any(|pin| new.contains(pin))
}

/// The edits of an object none of whose fields replaces nodes.
pub(super) fn harmless(before: &Object, after: &Object) -> Vec<Edit> {
    edits(before, after, |_| Effect::Nothing)
}

fn edits(before: &Object, after: &Object, effect: impl Fn(&Difference<'_>) -> Effect) -> Vec<Edit> {
    let mut differences = Vec::new();
    collect(before.get("spec"), after.get("spec"), &mut vec!["spec".to_owned()], &mut differences);
    let edit = |difference: Difference<'_>| {
        let is_removed = difference.after.is_absent() && !difference.before.is_absent();
        let (object, node) =
            if is_removed { (before, &difference.before) } else { (after, &difference.after) };
        let mut field = Pointer::from_steps(difference.steps.iter().cloned()).field_path();
        if let Some(key) = &difference.key {
            field.push_str(&format!("[{key}]"));
        }
        let (before, after) = texts(&difference.before, &difference.after);
        let effect = effect(&difference);
        Edit { object: object.clone(), pointer: node.pointer(), field, before, after, effect }
    };
    let is_current = after.version() == "v1";
    let says_nothing =
        |difference: &Difference<'_>| is_current && is_pruned(difference) || is_same_value(difference);
    let told = differences.into_iter().filter(|difference| !says_nothing(difference));
    let mut edits: Vec<Edit> = told.map(edit).collect();
    if edits.iter().any(|edit| edit.effect == Effect::Refused) {
        let others = edits.iter_mut().filter(|edit| edit.effect != Effect::Refused);
        others.for_each(|edit| edit.effect = Effect::NotTaken);
    }
    edits
}

/// Whether the API server drops the field of an object of `v1`: the reference of `v1beta1`, beside that of `v1`.
fn is_pruned(difference: &Difference<'_>) -> bool {
    let steps: Vec<&str> = difference.steps.iter().map(String::as_str).collect();
    steps == ["spec", "template", "spec", "nodeClassRef", "apiVersion"]
}

/// Whether both values are one duration or one quantity, in other words.
fn is_same_value(difference: &Difference<'_>) -> bool {
    const DURATIONS: [&str; 4] = ["expireAfter", "consolidateAfter", "terminationGracePeriod", "duration"];
    let text = |node: &Node<'_>| node.string_or_number().map(|text| text.into_owned());
    let (Some(old), Some(new)) = (text(&difference.before), text(&difference.after)) else { return false };
    if difference.before.has_unknown() || difference.after.has_unknown() {
        return false;
    }
    let has = |name: &str| difference.steps.iter().any(|step| step == name);
    if difference.steps.last().is_some_and(|last| DURATIONS.contains(&last.as_str())) {
        let of = |text: &str| GoDuration::parse(text).ok().map(GoDuration::nanoseconds);
        return of(&old).is_some_and(|old| Some(old) == of(&new));
    }
    let is_quantity = has("limits") || difference.steps.last().is_some_and(|last| last == "volumeSize");
    let of = |text: &str| Quantity::parse(text).ok().map(Quantity::nano);
    is_quantity && of(&old).is_some_and(|old| Some(old) == of(&new))
}

/// Collects the nodes that differ, as deep as both are mappings; requirements are compared by their key.
fn collect<'a>(before: Node<'a>, after: Node<'a>, steps: &mut Vec<String>, found: &mut Vec<Difference<'a>>) {
    if before.to_json() == after.to_json() && before.is_absent() == after.is_absent() {
        return;
    }
    // What is added as a whole above fields of the hash is compared field by field.
    let names: Vec<&str> = steps.iter().map(String::as_str).collect();
    let is_above =
        matches!(names.as_slice(), ["spec", "template"] | ["spec", "template", "metadata" | "spec"]);
    let is_open = |node: &Node<'_>| node.is_mapping() || is_above && node.is_absent();
    if is_open(&before) && is_open(&after) && (before.is_mapping() || after.is_mapping()) {
        let (old, new) = (before.entries(), after.entries());
        let mut names: Vec<&str> = new.iter().map(|(name, _)| *name).collect();
        names.extend(old.iter().map(|(name, _)| *name).filter(|name| after.get(name).is_absent()));
        for name in names {
            steps.push(name.to_owned());
            collect(before.get(name), after.get(name), steps, found);
            steps.pop();
        }
        return;
    }
    if steps.last().is_some_and(|last| last == "requirements") && before.is_sequence() && after.is_sequence()
    {
        return collect_requirements(before, after, steps, found);
    }
    if let Some(pairs) = long_items(&before, &after) {
        for (at, (before, after)) in pairs.into_iter().enumerate() {
            steps.push(at.to_string());
            collect(before, after, steps, found);
            steps.pop();
        }
        return;
    }
    found.push(Difference { steps: steps.clone(), key: None, before, after });
}

/// The items of two lists of mappings, in pairs, where the items that differ are too long to be shown whole.
fn long_items<'a>(before: &Node<'a>, after: &Node<'a>) -> Option<Vec<(Node<'a>, Node<'a>)>> {
    let items = |list: &Node<'a>| list.items().collect::<Vec<_>>();
    let (old, new) = (items(before), items(after));
    let pairs: Vec<_> = old.iter().cloned().zip(new.iter().cloned()).collect();
    let is_long = |(old, new): &(Node<'a>, Node<'a>)| {
        let of = |node: &Node<'a>| flow(&node.to_json()).chars().count() > MAX_TEXT;
        old.is_mapping() && new.is_mapping() && (of(old) || of(new))
    };
    let all_are_long = pairs.iter().all(|pair| pair.0.to_json() == pair.1.to_json() || is_long(pair));
    (old.len() == new.len() && !pairs.is_empty() && all_are_long).then_some(pairs)
}

/// Collects the requirements that differ, by key. A key with several requirements is compared as a whole list.
fn collect_requirements<'a>(
    before: Node<'a>,
    after: Node<'a>,
    steps: &[String],
    found: &mut Vec<Difference<'a>>,
) {
    let items = |list: &Node<'a>, key: &str| -> Vec<Node<'a>> {
        list.items().filter(|item| item.get("key").text() == Some(key)).collect()
    };
    let mut keys: Vec<&str> = Vec::new();
    for item in after.items().chain(before.items()) {
        match item.get("key").text() {
            Some(key) if keys.contains(&key) => {}
            Some(key) => keys.push(key),
            // A key that a placeholder hides: the list is compared as a whole.
            None => {
                found.push(Difference { steps: steps.to_vec(), key: None, before, after });
                return;
            }
        }
    }
    for key in keys {
        let (old, new) = (items(&before, key), items(&after, key));
        let values = |list: &[Node<'_>]| list.iter().map(Node::to_json).collect::<Vec<_>>();
        if values(&old) == values(&new) {
            continue;
        }
        let absent = |list: &Node<'a>| list.index(usize::MAX);
        let first =
            |list: Vec<Node<'a>>, all: &Node<'a>| list.into_iter().next().unwrap_or_else(|| absent(all));
        let (before, after) = (first(old, &before), first(new, &after));
        found.push(Difference { steps: steps.to_vec(), key: Some(key.to_owned()), before, after });
    }
}

/// The values of a field as short texts; of two lists only the items that the other has not.
fn texts(before: &Node<'_>, after: &Node<'_>) -> (Option<String>, Option<String>) {
    if before.is_sequence() && after.is_sequence() {
        let items = |list: &Node<'_>| list.items().map(|item| item.to_json()).collect::<Vec<_>>();
        let (old, new) = (items(before), items(after));
        let only = |list: &[Value], other: &[Value]| {
            let own: Vec<Value> = list.iter().filter(|item| !other.contains(item)).cloned().collect();
            (!own.is_empty()).then(|| in_one_line(flow(&Value::Array(own))))
        };
        let (gone, come) = (only(&old, &new), only(&new, &old));
        if gone.is_some() || come.is_some() {
            return (gone, come);
        }
    }
    let (old, new) = (before.to_json(), after.to_json());
    if let (Some(old), Some(new)) = (old.as_str(), new.as_str())
        && let Some((old, new)) = first_difference(old, new)
    {
        return (Some(in_one_line(old)), Some(in_one_line(new)));
    }
    (short_text(before), short_text(after))
}

/// The first lines that differ in two long texts, or the parts of two long lines from shortly before the difference; `None` if
/// the texts are short.
fn first_difference(before: &str, after: &str) -> Option<(String, String)> {
    /// What is shown of a line before its first difference.
    const LEAD: usize = 12;
    let is_short = |text: &str| !text.trim_end().contains('\n') && text.chars().count() <= MAX_TEXT;
    if is_short(before) && is_short(after) {
        return None;
    }
    // Blank lines and spaces at an end are told only where nothing else differs.
    let written = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let (old, new) = (written(before), written(after));
    if old == new {
        return Some(("(its lines)".to_owned(), "(its lines, with other blank lines or spaces)".to_owned()));
    }
    let (mut old, mut new) = (old.iter().map(String::as_str), new.iter().map(String::as_str));
    loop {
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (None, None) => return None,
            (Some(old), Some(new)) => {
                let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
                let part = |line: &str| match same.saturating_sub(LEAD) {
                    skipped if same < MAX_TEXT - LEAD || skipped == 0 => line.trim().to_owned(),
                    skipped => format!("…{}", line.chars().skip(skipped).collect::<String>()),
                };
                return Some((part(old), part(new)));
            }
            (old, new) => {
                let line = |line: Option<&str>| line.map_or("(end)", str::trim).to_owned();
                return Some((line(old), line(new)));
            }
        }
    }
}

/// A value as short text; a requirement as `In a, b`.
fn short_text(node: &Node<'_>) -> Option<String> {
    if node.is_absent() {
        return None;
    }
    let text = match node.get("operator").text() {
        Some(operator) if node.get("key").is_set() => {
            let values =
                node.get("values").items().filter_map(|v| v.string_or_number().map(|v| v.into_owned()));
            format!("{operator} {}", values.collect::<Vec<_>>().join(", ")).trim_end().to_owned()
        }
        _ => match node.string_or_number() {
            Some(text) => text.into_owned(),
            None => flow(&node.to_json()),
        },
    };
    Some(in_one_line(text))
}

/// The text in one line, and not too long.
fn in_one_line(text: String) -> String {
    let text = if text.contains('\n') { text.split_whitespace().collect::<Vec<_>>().join(" ") } else { text };
    cut(&text, MAX_TEXT).into_owned()
}

/// A value as people write it in one line of YAML.
fn flow(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", list(items.iter().map(flow).collect())),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{key}: {}", flow(value));
            format!("{{{}}}", list(entries.iter().map(entry).collect()))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
