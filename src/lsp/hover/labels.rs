//! Requirements and labels of nodes: those of NodePools, and those by which pods select nodes.

use gpulint_rules::catalog::{self, INSTANCE_TYPE, TypeSet, retired};
use gpulint_rules::fit::admitted_by;
use gpulint_rules::karpenter::meaning;
use gpulint_rules::karpenter::nodepool::{NodePool, types_labelled, types_meeting};
use gpulint_rules::karpenter::provider::Provider;
use gpulint_rules::workload::template::{REQUIRED_AFFINITY, templates};
use gpulint_rules::{Kind, Node, Object, Platform};

use super::catalogue::{of_set, of_type, of_types};
use super::words::{code, count, names, sentence, thousands};
use super::{InSet, Place, in_sets};
use crate::lsp::view::View;

/// Maximum number of workloads to name.
const MAX_NAMES: usize = 5;

/// A requirement, an expression or a label.
struct Asked<'a> {
    /// The key, as it is written.
    key: &'a str,
    /// The whole requirement; `None` for a label, which has one value.
    requirement: Option<Node<'a>>,
    /// The value under the cursor, otherwise the value of the label.
    value: Option<String>,
    /// Whether the cursor is on one of several values.
    is_one_value: bool,
}

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    let asked = asked(place)?;
    if asked.requirement.as_ref().is_some_and(|node| node.get("key").is_unknown()) {
        return None;
    }
    let is_pool = place.object.is(Kind::NODE_POOL);
    if let Some(pool) = NodePool::new(place.object)
        && pool.is_other_provider()
    {
        return None;
    }
    let provider = match NodePool::new(place.object) {
        Some(pool) => pool.provider(),
        None => Provider::naming(asked.key),
    };
    let platform = &view.engine.settings().platform;
    if meaning::of_label(asked.key).is_none() {
        return is_pool.then(|| in_sets(view, place.object, |set| selecting(set, asked.key))).flatten();
    }
    let mut head = Vec::new();
    let is_on_value = asked.is_one_value || asked.requirement.is_none();
    let known =
        asked.value.as_deref().filter(|_| is_on_value && provider.catalogue_key(asked.key) == INSTANCE_TYPE);
    let own = match known.and_then(catalog::find) {
        Some(instance) => {
            head.push(of_type(instance, platform));
            Some(std::iter::once(instance).collect())
        }
        None => of_asked(&asked, provider, platform, &mut head),
    };
    let others = is_pool.then(|| in_sets(view, place.object, |set| of_pool(set, own, is_on_value))).flatten();
    if head.is_empty() && others.is_none() {
        return None;
    }
    let mut out = head.join("\n\n");
    if let Some(others) = others {
        let is_in_list = out.lines().last().is_some_and(|line| line.starts_with("- "));
        out = match (out.is_empty(), others.contains('\n'), is_in_list) {
            (true, ..) => sentence(&others),
            (_, true, _) => format!("{out}\n\n{others}"),
            (_, _, true) => format!("{out}\n- {others}"),
            (_, _, false) => format!("{out}\n\n- {others}"),
        };
    }
    Some(out)
}

/// Describes the key, and the types that remain with this requirement alone.
fn of_asked(
    asked: &Asked<'_>,
    provider: Provider,
    platform: &Platform,
    head: &mut Vec<String>,
) -> Option<TypeSet> {
    let meaning = meaning::of_label(asked.key);
    let written = code(asked.key);
    let total = || thousands(TypeSet::full().without(retired()).len() as u128);
    match (&asked.value, &asked.requirement) {
        (Some(value), requirement) if asked.is_one_value || requirement.is_none() => {
            let types = types_labelled(asked.key, value, provider);
            match types {
                Some(types) if !types.is_empty() => {
                    let current = types.offered();
                    head.push(format!(
                        "{written} is {}: {} of {} types\n\n- {}",
                        code(value),
                        thousands(current.len() as u128),
                        total(),
                        of_set(&types, platform)
                    ));
                    // With several values, the other values count as well.
                    return Some(types);
                }
                _ => head.extend(meaning.map(|meaning| format!("{written}: {meaning}"))),
            }
            None
        }
        (_, Some(requirement)) => {
            head.extend(meaning.map(|meaning| format!("{written}: {meaning}")));
            let types = types_meeting(requirement, provider)?;
            let current = types.offered();
            let details = of_set(&types, platform);
            let details =
                if types.is_empty() || details.is_empty() { String::new() } else { format!(": {details}") };
            head.push(format!(
                "- this requirement alone leaves {} of {} types{details}",
                thousands(current.len() as u128),
                total()
            ));
            Some(types)
        }
        _ => None,
    }
}

/// Describes the types that remain with all requirements of the NodePool, and how many of them have the
/// value.
fn of_pool(set: &InSet<'_>, own: Option<TypeSet>, is_on_value: bool) -> Option<String> {
    let types = admitted_by(set.object, set.set.cluster, set.platform)?;
    let name = code(&set.object.display_name());
    let details = of_types(&types, set.platform);
    let whole = format!("NodePool {name} admits {}: {details}", count(types.len(), "type"));
    let Some(own) = own.filter(|_| is_on_value) else {
        return Some(whole);
    };
    let with = types.iter().filter(|instance| own.contains(instance)).count();
    let in_all = if with == types.len() {
        "and no other types".to_owned()
    } else {
        format!("and {} in all", count(types.len(), "type"))
    };
    Some(match (with, own.len()) {
        (0, 1) => format!("the other requirements of NodePool {name} exclude it"),
        (_, 1) => format!("NodePool {name} admits it, {in_all}"),
        (0, _) => format!("the other requirements of NodePool {name} exclude all of them"),
        (with, _) => format!("NodePool {name} admits {} of them, {in_all}", thousands(with as u128)),
    })
}

/// The workloads that select a NodePool by a custom label.
fn selecting(set: &InSet<'_>, key: &str) -> Option<String> {
    let pool = NodePool::new(set.object)?;
    let found = set.set.cluster.views().selecting(&pool);
    let names_it = |object: &Object| {
        templates(object).iter().any(|template| {
            let affinity = template.spec.path(&["affinity", "nodeAffinity"]);
            let required = affinity.path(&[REQUIRED_AFFINITY, "nodeSelectorTerms"]);
            let expressions =
                required.items().flat_map(|term| term.get("matchExpressions").items().collect::<Vec<_>>());
            template.spec.path(&["nodeSelector", key]).is_set()
                || expressions.map(|expression| expression.get("key")).any(|node| node.text() == Some(key))
        })
    };
    let list: Vec<&Object> =
        found.iter().map(|workload| &workload.object).filter(|object| names_it(object)).collect();
    let verb = if list.len() == 1 { "selects" } else { "select" };
    (!list.is_empty()).then(|| {
        format!(
            "{} {verb} the NodePool by this label: {}",
            count(list.len(), "workload"),
            names(list.into_iter(), MAX_NAMES)
        )
    })
}

/// The requirement or the label that a place belongs to.
fn asked<'a>(place: &Place<'a>) -> Option<Asked<'a>> {
    let path = place.path();
    // A label, with the cursor on its key or on its value.
    let is_label = match path.as_slice() {
        ["spec", "template", "metadata", "labels", _] => place.object.is(Kind::NODE_POOL),
        [.., "nodeSelector", _] => true,
        _ => false,
    };
    if is_label {
        let key = last_key(place)?;
        return Some(Asked {
            key,
            requirement: None,
            value: Some(place.node.text()?.to_owned()),
            is_one_value: false,
        });
    }
    let depth = path.len();
    let list = |above: usize| depth.checked_sub(above).and_then(|at| path.get(at)).copied();
    let is_list = |name: Option<&str>| matches!(name, Some("requirements" | "matchExpressions"));
    let (requirement, is_one_value) = match path.as_slice() {
        [.., "key" | "operator" | "values" | "minValues"] if is_list(list(3)) => {
            (place.ancestor(depth - 1), false)
        }
        [.., "values", _] if is_list(list(4)) => (place.ancestor(depth - 2), true),
        _ => return None,
    };
    // Expressions on labels of pods and namespaces do not select nodes.
    let is_of_nodes = path.contains(&"requirements") || path.contains(&"nodeAffinity");
    if !is_of_nodes {
        return None;
    }
    let key = requirement.get("key").text()?;
    let value = is_one_value.then(|| place.node.string_or_number().map(|text| text.into_owned())).flatten();
    Some(Asked { key, requirement: Some(requirement), value, is_one_value })
}

/// The last step of the path, with the lifetime of the tree.
fn last_key<'a>(place: &Place<'a>) -> Option<&'a str> {
    let parent = place.ancestor(place.steps.len().checked_sub(1)?);
    let last = place.steps.last()?;
    parent.entries().into_iter().find(|(name, _)| name == last).map(|(name, _)| name)
}
