//! What an installation of Karpenter says of its settings: its Deployment, or the values of its Helm chart.

use crate::karpenter::minors::{Gate, GateList, gates};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::MinValuesPolicy;
use crate::tree::node::Node;
use crate::workload::charts::{ChartValues, ValuePlace, find_in_values};
use crate::workload::image::images_of;
use crate::workload::template::{Template, templates};

/// The kinds that install Karpenter.
pub(crate) const INSTALLERS: [Kind; 3] = [Kind::DEPLOYMENT, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION];

/// Karpenter's chart.
pub(crate) const CHART: &str = "karpenter";

/// A gate in an installation.
#[derive(Clone, Debug)]
pub(crate) struct GateSetting<'a> {
    /// Where the gate is set, or would be set.
    pub(crate) place: ValuePlace<'a>,
    /// Whether the gate is on. `None`: it is not set, so that the default of the version counts.
    pub(crate) on: Option<bool>,
}

/// An option that an installation leaves out.
pub(crate) struct UnsetOption<'a> {
    /// Where it would be set.
    pub(crate) place: ValuePlace<'a>,
    /// The value that it has under a name of charts before 0.33.
    pub(crate) old: Option<ValuePlace<'a>>,
}

impl GateList {
    /// The environment variable of the list.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            GateList::Core => "FEATURE_GATES",
            GateList::Aws => "AWS_FEATURE_GATES",
        }
    }

    /// The name of the list in the values of the chart.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            GateList::Core => "featureGates",
            GateList::Aws => "awsFeatureGates",
        }
    }
}

/// What an installation says of a gate. `None` if the object installs something else, or does not tell.
pub(crate) fn setting<'a>(object: &'a Object, gate: &Gate) -> Option<GateSetting<'a>> {
    setting_in(object, gate, gate.list)
}

/// Whether an object may set gates: it installs the chart, or is a Deployment with the variable of a list. Otherwise nobody need look
/// for each of them.
pub(crate) fn may_set_gates(object: &Object) -> bool {
    if !object.is(Kind::DEPLOYMENT) {
        return find_in_values(object, CHART, |_| Some(())).is_some();
    }
    let has_list = |container: Node<'_>| {
        [GateList::Core, GateList::Aws].iter().any(|list| variable(&container, *list).is_some())
    };
    templates(object).iter().flat_map(Template::containers).any(has_list)
}

/// The policy for `minValues` that an installation sets.
pub(crate) fn min_values_policy(object: &Object) -> Option<MinValuesPolicy> {
    if !object.is(Kind::DEPLOYMENT) {
        return find_in_values(object, CHART, |values| {
            MinValuesPolicy::parse(values.root.path(&["settings", "minValuesPolicy"]).text()?)
        });
    }
    let templates = templates(object);
    let containers = templates.iter().flat_map(Template::containers);
    let variables = containers.into_iter().filter(names_gates).flat_map(|c| c.get("env").items());
    let mut policies = variables.filter(|entry| entry.get("name").text() == Some("MIN_VALUES_POLICY"));
    MinValuesPolicy::parse(policies.next()?.get("value").text()?)
}

/// A gate that is set in the other list, where it has no effect.
pub(crate) fn misplaced<'a>(object: &'a Object, gate: &Gate) -> Option<ValuePlace<'a>> {
    let other = if gate.list == GateList::Aws { GateList::Core } else { GateList::Aws };
    let found = setting_in(object, gate, other)?;
    found.on.map(|_| found.place)
}

/// An option that an installation sets, with its text: by its name in the values of the chart, or that of its environment variable.
pub(crate) fn set_option<'a>(
    object: &'a Object,
    setting: &str,
    variable: &str,
) -> Option<(ValuePlace<'a>, String)> {
    set_value(object, &["settings", setting], variable)
}

/// A value of the chart that an installation sets, with its text, or the environment variable that the chart makes of it.
pub(crate) fn set_value<'a>(
    object: &'a Object,
    path: &[&str],
    variable: &str,
) -> Option<(ValuePlace<'a>, String)> {
    if object.is(Kind::DEPLOYMENT) {
        let mut entries = controller(object)?.get("env").items();
        let value = entries.find(|entry| entry.get("name").text() == Some(variable))?.get("value");
        return Some((ValuePlace::of(value.clone()), value.text()?.to_owned()));
    }
    find_in_values(object, CHART, |values| {
        let node = values.root.path(path);
        let text = node.string_or_number()?;
        // Charts before 0.33, and others of this name, have other settings.
        values
            .root
            .path(&["settings", "clusterName"])
            .is_set()
            .then(|| (values.place(&node, object), text.into_owned()))
    })
}

/// The annotation of a ServiceAccount with the ARN of the role that its pods get.
const ROLE_ARN: &str = "eks.amazonaws.com/role-arn";

/// The role that Karpenter itself gets, with its ARN: by the values of the chart, or the annotation of its ServiceAccount.
pub(crate) fn controller_role(object: &Object) -> Option<(ValuePlace<'_>, String)> {
    if object.is(Kind::SERVICE_ACCOUNT) {
        let node = object.path(&["metadata", "annotations", ROLE_ARN]);
        let arn = node.text().filter(|_| object.name() == CHART)?.to_owned();
        return Some((ValuePlace::of(node), arn));
    }
    find_in_values(object, CHART, |values| {
        let node = values.root.path(&["serviceAccount", "annotations", ROLE_ARN]);
        let arn = node.text().filter(|_| values.root.path(&["settings", "clusterName"]).is_set())?;
        Some((values.place(&node, object), arn.to_owned()))
    })
}

/// An option that an installation certainly leaves out, or sets to an empty text: by its name in the values of the chart, that of its
/// environment variable, and those that it had in values of charts before 0.33.
pub(crate) fn unset_option<'a>(
    object: &'a Object,
    setting: &str,
    variable: &str,
    old: &[&str],
) -> Option<UnsetOption<'a>> {
    if !object.is(Kind::DEPLOYMENT) {
        return find_in_values(object, CHART, |values| unset_value(object, values, (setting, variable), old));
    }
    let container = controller(object)?;
    let env = container.get("env");
    let mut entries = env.items().filter(|entry| entry.get("name").text() == Some(variable));
    // Options may also be arguments.
    let is_elsewhere = ["envFrom", "args", "command"].iter().any(|field| container.get(field).is_set());
    let (entry, None) = (entries.next(), entries.next()) else { return None };
    let (node, is_unset) = match entry.map(|entry| entry.get("value")) {
        Some(value) => (value.clone(), value.text() == Some("")),
        None => (env.clone(), env.is_set() && !env.has_unknown()),
    };
    (is_unset && !is_elsewhere).then(|| UnsetOption { place: ValuePlace::of(node), old: None })
}

fn unset_value<'a>(
    object: &'a Object,
    values: &ChartValues<'_, 'a>,
    (setting, variable): (&str, &str),
    old: &[&str],
) -> Option<UnsetOption<'a>> {
    let root = values.root;
    let (settings, env) = (root.get("settings"), root.path(&["controller", "env"]));
    if !settings.get("clusterName").is_set()
        || root.has_unknown_key()
        || settings.has_unknown_key()
        || env.has_unknown()
        || env.items().any(|entry| entry.get("name").text() == Some(variable))
        || root.path(&["controller", "envFrom"]).is_set()
        || may_differ(object, values)
    {
        return None;
    }
    let node = settings.get(setting);
    if node.is_set() && node.text() != Some("") {
        return None;
    }
    // Charts before 0.33 had the settings for AWS below `settings.aws`.
    let mut places = old.iter().flat_map(|name| [settings.path(&["aws", *name]), settings.get(name)]);
    let old = places.find(|place| place.text().is_some_and(|text| !text.is_empty()));
    let old = old.map(|place| values.place(&place, object));
    Some(UnsetOption { place: values.place(&node, object), old })
}

/// The container of a Deployment that runs Karpenter.
pub(crate) fn controller(object: &Object) -> Option<Node<'_>> {
    templates(object).iter().flat_map(Template::containers).find(is_controller)
}

fn setting_in<'a>(object: &'a Object, gate: &Gate, list: GateList) -> Option<GateSetting<'a>> {
    if object.is(Kind::DEPLOYMENT) {
        let templates = templates(object);
        let containers = templates.iter().flat_map(Template::containers);
        return containers.into_iter().find_map(|container| in_environment(&container, gate, list));
    }
    find_in_values(object, CHART, |values| in_values(object, values, gate, list))
}

fn in_values<'a>(
    object: &'a Object,
    values: &ChartValues<'_, 'a>,
    gate: &Gate,
    list: GateList,
) -> Option<GateSetting<'a>> {
    let settings = values.root.get("settings");
    let gates = settings.get(list.setting());
    let node = gates.get(gate.chart);
    // A chart without `settings` is an old version of Karpenter's, or wraps it.
    let is_unknown = values.root.has_unknown_key() || settings.has_unknown_key() || gates.has_unknown();
    if !settings.is_mapping() || is_unknown {
        return None;
    }
    let place = values.place(&node, object);
    // One setting turns both gates for DRA on.
    if gate.list == list && gate.name.starts_with("DRA") && settings.get("enableDRA").bool() == Some(true) {
        return Some(GateSetting { place, on: Some(true) });
    }
    match node.bool() {
        Some(on) => Some(GateSetting { place, on: Some(on) }),
        None if node.is_set() || may_differ(object, values) => None,
        None => Some(GateSetting { place, on: None }),
    }
}

fn in_environment<'a>(container: &Node<'a>, gate: &Gate, list: GateList) -> Option<GateSetting<'a>> {
    let value = variable(container, list)?;
    let mut states = states(value.text()?);
    let state = states.find(|(name, _)| *name == gate.name).map(|(_, state)| state);
    let on = state.map(|state| matches!(state, "true" | "True" | "TRUE" | "t" | "T" | "1"));
    names_gates(container).then(|| GateSetting { place: ValuePlace::of(value), on })
}

/// The value of the environment variable of a list.
fn variable<'a>(container: &Node<'a>, list: GateList) -> Option<Node<'a>> {
    let is = |entry: &Node<'_>| entry.text_at("name") == Some(list.variable());
    Some(container.get("env").items().find(is)?.get("value"))
}

fn states(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|one| one.split_once('=')).map(|(name, state)| (name.trim(), state.trim()))
}

/// Whether a variable names gates of Karpenter: other programs have feature gates too.
fn names_gates(container: &Node<'_>) -> bool {
    let known = |name: &str| gates().iter().any(|gate| gate.name == name);
    [GateList::Core, GateList::Aws].into_iter().any(|list| {
        let value = variable(container, list);
        value.and_then(|value| value.text()).is_some_and(|text| states(text).any(|(name, _)| known(name)))
    })
}

/// Whether a container runs Karpenter's controller.
pub(crate) fn is_controller(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.is("karpenter/controller"))
}

/// Whether values, or what the chart makes of them, are also set outside of these.
fn may_differ(object: &Object, values: &ChartValues<'_, '_>) -> bool {
    values.may_differ || object.path(&["spec", "postRenderers"]).is_set()
}
