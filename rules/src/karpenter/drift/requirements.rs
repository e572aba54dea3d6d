//! Which nodes of a NodePool no longer meet its requirements.

use serde_json::Value;

use super::{Drift, value_at};
use crate::catalog;
use crate::catalog::{CAPACITY_TYPE, OS, REGION, TypeSet, ZONE};
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::{Operator, Requirement, Requirements};
use crate::karpenter::scheduling;

/// Nodes of a NodePool that a new version of it no longer admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The label by which they leave; `None` if it is their instance type.
    pub key: Option<String>,
    /// Whether it may be some of the nodes, or is all of them.
    pub drift: Drift,
    /// The values of the label that are no longer admitted, if the old version lists its values.
    pub values: Vec<String>,
    /// The instance types that are no longer admitted, if these are the reason.
    pub types: Vec<&'static str>,
}

/// The nodes that a NodePool can have.
pub(super) struct Nodes {
    labels: Requirements,
    types: TypeSet,
    provider: Provider,
}

impl Nodes {
    /// The nodes of a template. `None` if it can have none.
    pub(super) fn of(template: &Value, class: Option<&Value>) -> Option<Nodes> {
        let group = value_at(template, &["spec", "nodeClassRef", "group"]);
        let provider = Provider::of_group_name(group.as_str().unwrap_or_default());
        let mut labels = template_requirements(template, provider)?;
        let reserves = |class: &Value| {
            let terms = value_at(class, &["spec", "capacityReservationSelectorTerms"]);
            terms.as_array().is_some_and(|terms| !terms.is_empty())
        };
        if class.is_some_and(|class| !reserves(class)) {
            labels.add(CAPACITY_TYPE, Requirement::new(Operator::In, &["on-demand", "spot"], None));
            if labels.get(CAPACITY_TYPE).is_some_and(|types| !types.has("on-demand") && !types.has("spot")) {
                return None;
            }
        }
        if class.is_some_and(|class| !is_of_windows(class)) && labels.get(OS).is_none() {
            labels.add(OS, Requirement::is("linux"));
        }
        let types = admitted_types(&labels);
        (!types.is_empty()).then_some(Nodes { labels, types, provider })
    }

    /// How many of the nodes drift if the template becomes another.
    pub(super) fn drift(&self, template: &Value) -> Drift {
        self.departures(template).iter().map(|left| left.drift).fold(Drift::None, Drift::max)
    }

    /// The nodes that another template no longer admits, by what they have.
    pub(super) fn departures(&self, template: &Value) -> Vec<Departure> {
        let all = Departure {
            key: None,
            drift: Drift::All,
            values: Vec::new(),
            types: self.types.names().collect(),
        };
        let Some(wanted) = template_requirements(template, self.provider) else {
            return vec![all];
        };
        // Keys that the instance type decides are compared by the types, so that a value which no type has can be removed.
        let kept = admitted_types(&wanted);
        let by_type = match (self.types.is_subset(&kept), self.types.is_disjoint(&kept)) {
            (true, _) => Drift::None,
            (_, true) => Drift::All,
            _ => Drift::Some,
        };
        let types = self.types.without(&kept).names().collect();
        let keys =
            wanted.iter().filter(|(key, _)| catalog::index(&self.provider.catalogue_key(key)).is_none());
        let by_label = keys.map(|(key, wanted)| Departure {
            key: Some(key.to_owned()),
            drift: self.by_label(key, wanted),
            values: self.values_without(key, wanted),
            types: Vec::new(),
        });
        let mut found = vec![Departure { drift: by_type, types, ..all }];
        found.extend(by_label);
        found.retain(|left| left.drift != Drift::None);
        found
    }

    /// The values of a label that nodes may have and a requirement rejects, as far as they are listed.
    fn values_without(&self, key: &str, wanted: &Requirement) -> Vec<String> {
        let listed = self.labels.get(key).filter(|had| had.operator() == Operator::In);
        let values = listed.into_iter().flat_map(|had| had.values.iter());
        values.filter(|value| !wanted.has(value)).cloned().collect()
    }

    /// How many of the nodes have a label that a requirement rejects. Nodes have a custom label if a requirement names one, with a
    /// value that pods ask for or a random number (K:pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go
    /// `resolveCustomLabelsFromRequirements`).
    fn by_label(&self, key: &str, wanted: &Requirement) -> Drift {
        let is_of_all = || [CAPACITY_TYPE, ZONE, REGION, OS].contains(&key);
        match self.labels.get(key).filter(|had| had.operator() != Operator::DoesNotExist) {
            None if wanted.allows_absence() && !self.provider.is_well_known(key) => Drift::None,
            None if wanted.operator() == Operator::Exists && is_of_all() => Drift::None,
            // A label that nodes have, with any value, or a custom one that they do not have.
            None if self.provider.is_well_known(key) => Drift::Some,
            None => Drift::All,
            Some(had) if had == wanted || had.intersect(wanted) == *had => Drift::None,
            Some(had) if !had.meets(wanted) || wanted.operator() == Operator::DoesNotExist => Drift::All,
            Some(_) => Drift::Some,
        }
    }
}

/// Whether the nodes of an EC2NodeClass run Windows. Those of all other AMI families, of `Custom` as well, have the label of
/// Linux (K-AWS:pkg/providers/instancetype/types.go `getOS`).
fn is_of_windows(class: &Value) -> bool {
    let spec = value_at(class, &["spec"]);
    let family = spec.get("amiFamily").and_then(Value::as_str).unwrap_or_default();
    let terms = spec.get("amiSelectorTerms").and_then(Value::as_array).into_iter().flatten();
    let mut aliases = terms.filter_map(|term| term.get("alias")?.as_str());
    family.starts_with("Windows") || aliases.any(|alias| alias.starts_with("windows"))
}

/// The requirements and labels of a node template. `None` if no node can meet them.
fn template_requirements(template: &Value, provider: Provider) -> Option<Requirements> {
    let mut all = Requirements::of(provider);
    let mut add = |key: &str, requirement: Requirement| {
        // A label of another provider is treated as a custom label that may have any value.
        if provider != Provider::AutoMode || !key.starts_with("karpenter.k8s.aws/") {
            all.add(key, requirement);
        }
    };
    let list = value_at(template, &["spec", "requirements"]);
    for item in list.as_array().into_iter().flatten() {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let (Some(key), Some(Ok(operator))) = (text("key"), text("operator").map(str::parse::<Operator>))
        else {
            continue;
        };
        let values = item.get("values").and_then(Value::as_array);
        let values: Vec<String> = values
            .into_iter()
            .flatten()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            // No node has a label value that does not exist.
            .filter(|v| operator != Operator::In || is_possible_value(provider, key, v))
            .collect();
        if operator == Operator::In && values.is_empty() {
            return None;
        }
        add(key, Requirement::new(operator, &values, None));
    }
    let labels = value_at(template, &["metadata", "labels"]);
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str()?;
        if !is_possible_value(provider, key, value) {
            return None;
        }
        add(key, Requirement::is(value));
    }
    Some(all)
}

/// Whether a node can have the value: the catalogue contains it, or does not contain the key.
fn is_possible_value(provider: Provider, key: &str, value: &str) -> bool {
    catalog::values(&provider.catalogue_key(key)).is_none_or(|values| values.contains(value))
}

/// The instance types that meet the requirements. Requirements on other keys do not reduce them.
fn admitted_types(requirements: &Requirements) -> TypeSet {
    let mut of_types = requirements.clone();
    let provider = requirements.provider();
    of_types.retain(|key, _| catalog::index(&provider.catalogue_key(key)).is_some());
    scheduling::admitted_without_class(&of_types).types
}
