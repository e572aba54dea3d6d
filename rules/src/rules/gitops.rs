//! The objects of Argo CD and Flux that apply a manifest, and what they do about a field that something else changes.

use crate::cluster::values::sources;
use crate::kind::Kind;
use crate::lint::context::Context;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::suspended::is_suspended;

/// What a GitOps controller does about a field of an object that it applies.
pub(super) struct Delivery<'a> {
    /// The Application, ApplicationSet or Kustomization.
    pub(super) by: &'a Object,
    /// Whether it leaves the field to others.
    pub(super) ignores: bool,
    /// Whether it writes the field back without a new deployment.
    pub(super) heals: bool,
}

/// The controller that applies the file of an object. `None` if no path in the set leads to the file, or several do.
pub(super) fn delivery_of<'a>(object: &Object, field: &[&str], ctx: &Context<'a>) -> Option<Delivery<'a>> {
    let file = object.origin()?.source.path();
    let cluster = ctx.cluster();
    let applications = cluster.of(Kind::ARGO_APPLICATION).chain(cluster.of(Kind::ARGO_APPLICATION_SET));
    let applications = applications.filter(|app| {
        let spec = spec_of(app);
        sources(&spec).any(|source| holds(&source.get("path"), file))
    });
    let kustomizations =
        cluster.of(Kind::FLUX_KUSTOMIZATION).filter(|one| holds(&one.path(&["spec", "path"]), file));
    let mut all = applications.chain(kustomizations);
    let (by, None) = (all.next()?, all.next()) else { return None };
    if by.is(Kind::FLUX_KUSTOMIZATION) {
        return Some(Delivery { by, ignores: false, heals: is_suspended(by) != Some(true) });
    }
    let spec = spec_of(by);
    let policy = spec.get("syncPolicy");
    let automated = policy.get("automated");
    // `enabled: false` came with Argo CD 3.1.
    let is_off = automated.get("enabled").is_set() && automated.get("enabled").bool() != Some(true);
    let heals = automated.get("selfHeal").bool() == Some(true) && !is_off;
    Some(Delivery { by, ignores: ignores(&spec, object, field), heals })
}

/// Whether an ApplicationSet whose folders are not known, because a generator names them, may apply an object, and
/// leaves the field to others.
pub(super) fn may_be_ignored(object: &Object, field: &[&str], ctx: &Context<'_>) -> bool {
    ctx.cluster().of(Kind::ARGO_APPLICATION_SET).any(|set| {
        let spec = spec_of(set);
        sources(&spec).any(|source| source.get("path").raw_text().is_some_and(|path| path.contains("{{")))
            && ignores(&spec, object, field)
    })
}

/// Whether an Application or an ApplicationSet of the input leaves a field of an object to others, should it apply the object.
pub(super) fn may_leave(object: &Object, field: &[&str], ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let mut all = cluster.of(Kind::ARGO_APPLICATION).chain(cluster.of(Kind::ARGO_APPLICATION_SET));
    all.any(|one| ignores(&spec_of(one), object, field))
}

/// The specification of an Application, or of those that an ApplicationSet makes.
fn spec_of(object: &Object) -> Node<'_> {
    let spec = object.get("spec");
    if object.is(Kind::ARGO_APPLICATION_SET) { spec.path(&["template", "spec"]) } else { spec }
}

/// Whether Argo CD leaves a field of an object as it is, also when it applies the object.
fn ignores(spec: &Node<'_>, object: &Object, field: &[&str]) -> bool {
    let mut options = spec.path(&["syncPolicy", "syncOptions"]).items();
    options.any(|option| option.text() == Some("RespectIgnoreDifferences=true"))
        && spec.get("ignoreDifferences").items().any(|entry| is_about(&entry, object) && names(&entry, field))
}

/// Whether a file is below a folder of the repository.
fn holds(folder: &Node<'_>, file: &str) -> bool {
    let Some(folder) = folder.text() else { return false };
    let folder = folder.trim_start_matches("./").trim_matches('/');
    let below = |at: usize| file[at..].strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    !folder.is_empty() && (below(0) || file.match_indices('/').any(|(at, _)| below(at + 1)))
}

/// Whether an entry of `ignoreDifferences` is about an object.
fn is_about(entry: &Node<'_>, object: &Object) -> bool {
    let is = |name: &str, own: &str| {
        let node = entry.get(name);
        node.text().is_none_or(|text| text.is_empty() || text == "*" || text == own)
    };
    is("group", object.group())
        && is("kind", object.kind())
        && is("name", object.name())
        && is("namespace", object.namespace_or_default())
}

/// Whether an entry of `ignoreDifferences` names a field, as a JSON pointer or as an expression of jq, or one above it, or leaves
/// it to those who manage it.
fn names(entry: &Node<'_>, field: &[&str]) -> bool {
    let pointer = format!("/{}", field.join("/"));
    let path = format!(".{}", field.join("."));
    let is_above = |whole: &str, part: &str, separator: char| {
        whole.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with(separator))
    };
    let mut pointers = entry.get("jsonPointers").items();
    let mut paths = entry.get("jqPathExpressions").items();
    pointers.any(|node| node.text().is_some_and(|text| is_above(&pointer, text, '/')))
        || paths.any(|node| node.text().is_some_and(|text| is_above(&path, text.trim(), '.')))
        || entry.get("managedFieldsManagers").items().next().is_some()
}
