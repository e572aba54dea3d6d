//! Labels that a pod selects together although no instance type has both.

use crate::catalog::{self, INSTANCE_TYPE};
use crate::fit::gpu_name;
use crate::rules::prelude::*;
use crate::rules::scheduling::pod_fits_no_pool;
use crate::workload::node_labels::labels_of_all_nodes;

use super::instance_label_other_provider::missing_everywhere;
use super::requested_values::short_name;

/// The label of GPU feature discovery with the name that the driver gives a GPU.
const GPU_PRODUCT: &str = "nvidia.com/gpu.product";

/// Maximum number of labels of a pod that are compared, and of values of each.
const MAX_COMPARED: usize = 32;

/// A label that nodes must have, and the instance types that can have it.
struct Selected<'a> {
    key: &'a str,
    /// One of its values, and how many more there are.
    node: Node<'a>,
    value: &'a str,
    more: usize,
    /// `None` if the label says nothing of the type, or a value may be newer than the catalogue.
    types: Option<TypeSet>,
}

impl<'a> Selected<'a> {
    fn new(key: &'a str, values: Vec<Node<'a>>) -> Option<Selected<'a>> {
        let texts: Vec<&'a str> = values.iter().map(Node::text).collect::<Option<_>>()?;
        if texts.len() > MAX_COMPARED {
            return None;
        }
        let sets: Option<Vec<TypeSet>> = texts.iter().map(|value| types_with(key, value)).collect();
        let union = |sets: Vec<TypeSet>| sets.iter().fold(TypeSet::EMPTY, |all, types| all.or(types));
        let (node, value) = (values.into_iter().next()?, *texts.first()?);
        Some(Selected { key, node, value, more: texts.len() - 1, types: sets.map(union) })
    }

    /// The provider whose nodes alone have the label.
    fn provider(&self) -> Option<Provider> {
        let provider = Provider::naming(self.key);
        let catalogued = provider.catalogue_key(self.key);
        catalogued.starts_with("karpenter.k8s.aws/instance-").then_some(provider)
    }

    /// Whether only nodes of EC2 have the value. Machines elsewhere have other processors beside a GPU.
    fn is_of_ec2(&self) -> bool {
        let key = Provider::naming(self.key).catalogue_key(self.key);
        key == INSTANCE_TYPE || key.starts_with("karpenter.k8s.aws/")
    }

    /// The end of the key and the value, as in `instance-family: g5`.
    fn short(&self) -> String {
        let more = if self.more > 0 { ", …" } else { "" };
        format!("{}: {}{more}", short_name(self.key), ellipsize(self.value))
    }
}

/// Reports two labels of a pod that exclude each other.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.controller().is_some() {
        return None;
    }
    for template in templates(object) {
        let labels = labels_of_all_nodes(&template).into_iter().take(MAX_COMPARED);
        let selected: Vec<_> = labels.filter_map(|(key, values)| Selected::new(key, values)).collect();
        let Some((first, second)) = conflict(&selected, ctx) else { continue };
        if pod_fits_no_pool::is_reported(object, &template, ctx) {
            continue;
        }
        let message = match (first.provider(), second.provider()) {
            (Some(one), Some(other)) if one != other => {
                let of =
                    |provider| if provider == Provider::AutoMode { "EKS Auto Mode" } else { "Karpenter" };
                let (first, second) = (short_name(first.key), short_name(second.key));
                format!("no node has both: `{first}` of {} and `{second}` of {}", of(one), of(other))
            }
            _ => format!("no instance type has `{}` and `{}` together", first.short(), second.short()),
        };
        ctx.report(&second.node, message)
            .severity(Severity::Warning)
            .help("change or remove one of both: no node ever comes for the pod")
            .related(object, &first.node, "the other label");
    }
    None
}

/// The first two labels that no node has together.
fn conflict<'s, 'a>(
    selected: &'s [Selected<'a>],
    ctx: &Context<'_>,
) -> Option<(&'s Selected<'a>, &'s Selected<'a>)> {
    let pairs =
        selected.iter().enumerate().flat_map(|(at, one)| selected[at + 1..].iter().map(move |o| (one, o)));
    // Where all nodes are of one provider, instance-label-other-provider reports the labels of the other one.
    let is_told = |label: &Selected<'_>| missing_everywhere(label.key, ctx).is_some();
    let excludes = |(one, other): &(&Selected<'_>, &Selected<'_>)| match (one.provider(), other.provider()) {
        (Some(a), Some(b)) if a != b => !is_told(one) && !is_told(other),
        _ => {
            (one.is_of_ec2() || other.is_of_ec2())
                && one.types.zip(other.types).is_some_and(|(one, other)| one.is_disjoint(&other))
        }
    };
    pairs.into_iter().find(excludes)
}

/// The instance types that can have a label with a value.
fn types_with(key: &str, value: &str) -> Option<TypeSet> {
    if key == GPU_PRODUCT {
        // The driver writes the name between dashes, as in `NVIDIA-A100-SXM4-80GB`.
        let product = value.to_ascii_lowercase();
        let has = |name: &str| product.split('-').any(|part| part == name);
        let types = TypeSet::matching(|instance| gpu_name(instance).is_some_and(has));
        return (!types.is_empty()).then_some(types);
    }
    let index = catalog::index(&Provider::naming(key).catalogue_key(key))?;
    Some(index.with(value)?.or(index.unknown()))
}
