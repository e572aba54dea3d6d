//! The configuration of Knative Serving.

use crate::rules::prelude::*;

/// The kinds with settings of Knative Serving.
pub(super) const SETTINGS: [Kind; 2] = [Kind::KNATIVE_SERVING, Kind::CONFIG_MAP];

/// A setting of Knative Serving in the ConfigMap `config-<map>`, and the object that has it, or may have it. Knative's operator writes the
/// ConfigMaps from the KnativeServing, over what they have, and takes their names with the prefix as well as without
/// (<https://knative.dev/docs/install/operator/configuring-with-operator/>).
pub(super) fn setting<'i>(ctx: &Context<'i>, map: &str, key: &str) -> Option<(&'i Object, Node<'i>)> {
    let name = format!("config-{map}");
    let cluster = ctx.cluster();
    let of_operator = cluster.of(Kind::KNATIVE_SERVING).flat_map(|one| {
        let config = one.path(&["spec", "config"]);
        [map, name.as_str()].map(|map| (one, config.path(&[map, key])))
    });
    let is_named = |one: &&Object| one.name() == name;
    let maps = cluster.of(Kind::CONFIG_MAP).filter(is_named).map(|one| (one, one.path(&["data", key])));
    let mut found = of_operator.chain(maps).filter(|(one, _)| ctx.pairs_with(one));
    found.find(|(one, node)| node.is_set() || one.may_lack_fields())
}
