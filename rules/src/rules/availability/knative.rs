//! The configuration of Knative Serving.

use crate::rules::prelude::*;

pub(super) const SETTINGS: [Kind; 2] = [Kind::KNATIVE_SERVING, Kind::CONFIG_MAP];

/// A setting of Knative Serving in the ConfigMap `config-<map>`, and the object that has it, or may have it. Knative's operator writes the
/// ConfigMaps from the KnativeServing, over what they have, and takes their names with the prefix as well as without
/// (<https://knative.dev/docs/install/operator/configuring-with-operator/>).
pub(super) fn setting<'i>(ctx: &Context<'i>, map: &str, key: &str) -> Option<(&'i Object, Node<'i>)> {
    let name = format!("config-{map}");
    let cluster = ctx.cluster();
    let of_operator = cluster
        .of(Kind::KNATIVE_SERVING)
        .flat_map(|one| of_operator(one, map).map(|entries| (one, entries.get(key))));
    let is_named = |one: &&Object| one.name() == name;
    let maps = cluster.of(Kind::CONFIG_MAP).filter(is_named).map(|one| (one, one.path(&["data", key])));
    let mut found = of_operator.chain(maps).filter(|(one, _)| ctx.pairs_with(one));
    found.find(|(one, node)| node.is_set() || one.may_lack_fields())
}

/// The entries that Knative's operator writes into the ConfigMap `config-<map>`: by its name without the prefix, and with it.
fn of_operator<'a>(operator: &'a Object, map: &str) -> [Node<'a>; 2] {
    let config = operator.path(&["spec", "config"]);
    [config.get(map), config.get(&format!("config-{map}"))]
}

/// Whether a Service is one of Cloud Run, which has the API of Knative and other limits.
pub(super) fn is_of_cloud_run(object: &Object) -> bool {
    let is_of_google = |key: &str| key.starts_with("run.googleapis.com/");
    let all = [
        object.path(&["metadata", "annotations"]),
        object.path(&["spec", "template", "metadata", "annotations"]),
    ];
    all.iter().any(|annotations| annotations.entries().iter().any(|(key, _)| is_of_google(key)))
}

/// A part of the configuration that is known as a whole.
pub(super) struct Part<'a> {
    /// The ConfigMap or the KnativeServing.
    pub(super) object: &'a Object,
    pub(super) entries: Node<'a>,
}

/// The ConfigMap `config-<map>` in `knative-serving`, or what the operator writes into it. `None` if it is not known.
pub(super) fn part<'a>(map: &str, ctx: &Context<'a>) -> Option<Part<'a>> {
    let written = ctx.partner(Kind::CONFIG_MAP, "knative-serving", &format!("config-{map}"));
    let mut operators = ctx.cluster().of(Kind::KNATIVE_SERVING);
    let (object, entries) = match (written, operators.next()) {
        (Some(written), None) => (written, written.get("data")),
        (None, Some(operator)) if operators.next().is_none() && ctx.pairs_with(operator) => {
            let [short, long] = of_operator(operator, map);
            (operator, if long.is_set() { long } else { short })
        }
        _ => return None,
    };
    // Manifests of one's own may have other defaults than those of the release.
    let spec = object.get("spec");
    if ["manifests", "additionalManifests"].iter().any(|field| spec.get(field).is_set()) {
        return None;
    }
    let is_unknown = entries.has_unknown() || entries.has_unknown_key() || spec.is_unknown();
    (!is_unknown && !object.may_lack_fields()).then_some(Part { object, entries })
}
