//! What an installation of Karpenter says of its feature gates: its Deployment, or the values of its Helm chart in a HelmRelease or
//! an Application.

use crate::karpenter::minors::{Gate, GateList, gates};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::{MinValuesPolicy, Version};
use crate::tree::node::Node;
use crate::workload::image::{image_of, images_of};
use crate::workload::template::{Template, templates};

/// The kinds that install Karpenter.
pub(crate) const INSTALLERS: [Kind; 3] = [Kind::DEPLOYMENT, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION];

/// A gate in an installation.
#[derive(Clone, Debug)]
pub(crate) struct GateSetting<'a> {
    /// Where the gate is set, or would be set.
    pub node: Node<'a>,
    /// Whether the gate is on. `None`: it is not set, so that the default of the version counts.
    pub on: Option<bool>,
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

/// The policy for `minValues` that an installation sets.
pub(crate) fn min_values_policy(object: &Object) -> Option<MinValuesPolicy> {
    if !object.is(Kind::DEPLOYMENT) {
        return MinValuesPolicy::parse(values(object)?.path(&["settings", "minValuesPolicy"]).text()?);
    }
    let templates = templates(object);
    let containers = templates.iter().flat_map(Template::containers);
    let variables = containers.into_iter().filter(names_gates).flat_map(|c| c.get("env").items());
    let mut policies = variables.filter(|entry| entry.get("name").text() == Some("MIN_VALUES_POLICY"));
    MinValuesPolicy::parse(policies.next()?.get("value").text()?)
}

/// A gate that is set in the other list, where it has no effect.
pub(crate) fn misplaced<'a>(object: &'a Object, gate: &Gate) -> Option<Node<'a>> {
    let other = if gate.list == GateList::Aws { GateList::Core } else { GateList::Aws };
    let found = setting_in(object, gate, other)?;
    found.on.map(|_| found.node)
}

/// Where an option would be set that an installation certainly leaves out, or sets to an empty text: by its name in the values of the
/// chart, or that of its environment variable.
pub(crate) fn unset_option<'a>(object: &'a Object, setting: &str, variable: &str) -> Option<Node<'a>> {
    if object.is(Kind::DEPLOYMENT) {
        let containers: Vec<Node<'a>> = templates(object).iter().flat_map(Template::containers).collect();
        let container = containers.into_iter().find(is_controller)?;
        let env = container.get("env");
        let mut entries = env.items().filter(|entry| entry.get("name").text() == Some(variable));
        // Options may also be arguments.
        let is_elsewhere = ["envFrom", "args", "command"].iter().any(|field| container.get(field).is_set());
        let (entry, None) = (entries.next(), entries.next()) else { return None };
        let Some(entry) = entry else {
            return (env.is_set() && !env.has_unknown() && !is_elsewhere).then_some(env);
        };
        let value = entry.get("value");
        return (value.text() == Some("") && !is_elsewhere).then_some(value);
    }
    let values = values(object)?;
    let (settings, env) = (values.get("settings"), values.path(&["controller", "env"]));
    if !settings.get("clusterName").is_set()
        || values.has_unknown_key()
        || settings.has_unknown_key()
        || env.has_unknown()
        || env.items().any(|entry| entry.get("name").text() == Some(variable))
        || values.path(&["controller", "envFrom"]).is_set()
        || has_other_values(object)
    {
        return None;
    }
    let node = settings.get(setting);
    (!node.is_set() || node.text() == Some("")).then_some(node)
}

fn setting_in<'a>(object: &'a Object, gate: &Gate, list: GateList) -> Option<GateSetting<'a>> {
    if object.is(Kind::DEPLOYMENT) {
        let templates = templates(object);
        let containers = templates.iter().flat_map(Template::containers);
        return containers.into_iter().find_map(|container| in_environment(&container, gate, list));
    }
    let values = values(object)?;
    let settings = values.get("settings");
    let gates = settings.get(list.setting());
    let node = gates.get(gate.chart);
    // A chart without `settings` is an old version of Karpenter's, or wraps it.
    if !settings.is_mapping() || values.has_unknown_key() || settings.has_unknown_key() || gates.has_unknown()
    {
        return None;
    }
    // One setting turns both gates for DRA on.
    if gate.list == list && gate.name.starts_with("DRA") && settings.get("enableDRA").bool() == Some(true) {
        return Some(GateSetting { node, on: Some(true) });
    }
    match node.bool() {
        Some(on) => Some(GateSetting { node, on: Some(on) }),
        None if node.is_set() || has_other_values(object) => None,
        None => Some(GateSetting { node, on: None }),
    }
}

fn in_environment<'a>(container: &Node<'a>, gate: &Gate, list: GateList) -> Option<GateSetting<'a>> {
    let value = variable(container, list)?;
    let mut states = states(value.text()?);
    let state = states.find(|(name, _)| *name == gate.name).map(|(_, state)| state);
    let on = state.map(|state| matches!(state, "true" | "True" | "TRUE" | "t" | "T" | "1"));
    names_gates(container).then_some(GateSetting { node: value, on })
}

/// The value of the environment variable of a list.
fn variable<'a>(container: &Node<'a>, list: GateList) -> Option<Node<'a>> {
    let is = |entry: &Node<'_>| entry.get("name").text() == Some(list.variable());
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

/// The version of Karpenter that an object installs, with the field that says so: the tag of the controller's image, or the
/// version of the chart.
pub(crate) fn version(object: &Object) -> Option<(Node<'_>, Version)> {
    if object.is(Kind::DEPLOYMENT) {
        let templates = templates(object);
        let containers = templates.iter().flat_map(Template::containers);
        let container = containers.into_iter().find(is_controller)?;
        let version = Version::parse(image_of(&container)?.tag?)?;
        return Some((container.get("image"), version));
    }
    values(object)?;
    let spec = object.get("spec");
    let node = if object.is(Kind::HELM_RELEASE) {
        spec.path(&["chart", "spec", "version"])
    } else {
        spec.path(&["source", "targetRevision"])
    };
    let version = Version::parse(node.text()?)?;
    Some((node, version))
}

/// Whether a container runs Karpenter's controller.
pub(crate) fn is_controller(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.is("karpenter/controller"))
}

/// The values of Karpenter's chart.
fn values(object: &Object) -> Option<Node<'_>> {
    let spec = object.get("spec");
    if object.is(Kind::HELM_RELEASE) {
        let chart = spec.path(&["chart", "spec", "chart"]);
        return (chart.text()? == "karpenter").then(|| spec.get("values"));
    }
    let source = spec.get("source");
    (source.get("chart").text()? == "karpenter").then(|| source.path(&["helm", "valuesObject"]))
}

/// Whether values are also set outside this object.
fn has_other_values(object: &Object) -> bool {
    let spec = object.get("spec");
    let helm = spec.path(&["source", "helm"]);
    ["valuesFrom", "postRenderers"].iter().any(|field| spec.get(field).is_set())
        || ["values", "valueFiles", "parameters", "fileParameters"]
            .iter()
            .any(|field| helm.get(field).is_set())
}
