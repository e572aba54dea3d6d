//! The objects of Argo CD and Flux that apply a manifest: what they add to it, and what they do about a field that something else
//! changes.

use crate::kind::Kind;
use crate::lint::context::Context;
use crate::lint::settings::Globs;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::charts::{sources, spec_of};
use crate::workload::suspended::is_suspended;

/// The kinds that apply files of a repository.
pub(super) const DELIVERERS: [Kind; 3] =
    [Kind::ARGO_APPLICATION, Kind::ARGO_APPLICATION_SET, Kind::FLUX_KUSTOMIZATION];

/// What a GitOps controller does about a field of an object that it applies.
pub(super) struct Delivery<'a> {
    /// The Application, ApplicationSet or Kustomization.
    pub(super) by: &'a Object,
    /// How far it leaves the field to others.
    pub(super) ignored: Ignored<'a>,
    /// Whether it writes the field back without a new deployment, as soon as another writes it.
    pub(super) heals: bool,
}

/// The option with which a sync of Argo CD leaves alone what `ignoreDifferences` names.
pub(super) const RESPECTS: &str = "RespectIgnoreDifferences=true";

/// How far Argo CD leaves a field to others.
#[derive(Clone, Debug)]
pub(super) enum Ignored<'a> {
    No,
    /// The comparison with the cluster leaves it out, by this entry of `ignoreDifferences`; a sync writes it.
    InComparison(Node<'a>),
    Always,
}

/// The controller that applies the file of an object. `None` if no path in the set leads to the file, or several do.
pub(super) fn delivery_of<'a>(object: &Object, field: &[&str], ctx: &Context<'a>) -> Option<Delivery<'a>> {
    let mut all = deliverers(ctx).filter(|by| applies(by, object));
    let (by, None) = (all.next()?, all.next()) else { return None };
    if by.is(Kind::FLUX_KUSTOMIZATION) {
        return Some(Delivery { by, ignored: Ignored::No, heals: is_suspended(by) != Some(true) });
    }
    let spec = spec_of(by);
    let policy = spec.get("syncPolicy");
    let automated = policy.get("automated");
    // `enabled: false` came with Argo CD 3.1.
    let is_off = automated.get("enabled").is_set() && automated.get("enabled").bool() != Some(true);
    let ignored = match ignored(&spec, object, field) {
        // A patch may add the option.
        Ignored::InComparison(_) if by.may_lack_fields() || by.path(&["spec", "templatePatch"]).is_set() => {
            Ignored::Always
        }
        known => known,
    };
    // What is ignored makes nothing out of sync, so that nothing is healed until something else is.
    let heals = automated.get("selfHeal").bool() == Some(true) && !is_off && matches!(ignored, Ignored::No);
    Some(Delivery { by, ignored, heals })
}

/// Whether a path of a controller's object leads to the file of another object.
pub(super) fn applies(by: &Object, object: &Object) -> bool {
    paths(by).any(|path| path.applies(by, object))
}

/// The option with which Argo CD merges objects into those of the cluster.
const MERGES: &str = "ServerSideApply=true";

/// Whether a controller of the set merges an object into the one that the cluster has, so that it may be a part of one: Flux applies
/// everything so, Argo CD with an option.
pub(super) fn is_merged(object: &Object, ctx: &Context<'_>) -> bool {
    let merges = |by: &Object| {
        let spec = spec_of(by);
        let mut options = spec.path(&["syncPolicy", "syncOptions"]).items();
        by.is(Kind::FLUX_KUSTOMIZATION) || options.any(|option| option.text() == Some(MERGES))
    };
    deliverers(ctx).any(|by| merges(by) && applies(by, object))
}

/// The Kustomization of Flux that applies an object and fails with it: it waits for all objects, or names it in its health
/// checks (`spec.wait` and `spec.healthChecks` of kustomize-controller 1.0 to 1.7).
pub(super) fn waiting_for<'a>(object: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let Delivery { by, heals, .. } = delivery_of(object, &[], ctx)?;
    let spec = by.get("spec");
    let is_named = |check: Node<'_>| {
        let is = |field: &str, own: &str| check.get(field).text() == Some(own);
        is("kind", object.kind()) && is("name", object.name())
    };
    let waits = spec.get("wait").bool() == Some(true) || spec.get("healthChecks").items().any(is_named);
    (by.is(Kind::FLUX_KUSTOMIZATION) && heals && waits).then_some(by)
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

/// Whether the metadata of an object may get more labels when it is applied: by a kustomization, or by what applies it.
pub(super) fn gets_labels(object: &Object, ctx: &Context<'_>) -> bool {
    object.source().is_some_and(|source| source.sets_labels())
        || gets(object, ctx, |path| path.adds("labels", "commonLabels", |_| true))
}

/// Whether the metadata of an object may get an annotation when it is applied.
pub(super) fn gets_annotation(object: &Object, key: &str, ctx: &Context<'_>) -> bool {
    let is_it = |added: &str| added == key;
    object.source().is_some_and(|source| source.sets_annotation(key))
        || gets(object, ctx, |path| path.adds("annotations", "commonAnnotations", is_it))
}

fn gets(object: &Object, ctx: &Context<'_>, adds: impl Fn(&DeliveredPath<'_>) -> bool) -> bool {
    deliverers(ctx).any(|by| paths(by).any(|path| adds(&path) && path.may_apply(by, object)))
}

fn deliverers<'a>(ctx: &Context<'a>) -> impl Iterator<Item = &'a Object> + use<'a> {
    let cluster = ctx.cluster();
    DELIVERERS.into_iter().flat_map(move |kind| cluster.of(kind))
}

/// A folder that a controller applies: a source of an Application, or the specification of a Kustomization of Flux.
struct DeliveredPath<'a> {
    source: Node<'a>,
    is_flux: bool,
}

fn paths(by: &Object) -> impl Iterator<Item = DeliveredPath<'_>> {
    let (spec, is_flux) = (spec_of(by), by.is(Kind::FLUX_KUSTOMIZATION));
    let own = is_flux.then(|| spec.clone());
    let of_argo = sources(&spec).filter(move |_| !is_flux);
    own.into_iter().chain(of_argo).map(move |source| DeliveredPath { source, is_flux })
}

/// What is above a folder in a path that ends in it: empty, or with a slash at its end.
fn above<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    path.strip_suffix(folder).filter(|above| above.is_empty() || above.ends_with('/'))
}

impl DeliveredPath<'_> {
    /// Whether it leads to the file of an object: to a kustomization that lists it, or to a folder above it.
    fn applies(&self, by: &Object, object: &Object) -> bool {
        let (node, source) = (self.source.get("path"), object.source());
        let (Some(path), Some(source)) = (node.text(), source) else { return false };
        let folder = path.trim_start_matches("./").trim_matches('/');
        let leads_to = |root: &str| above(root, folder).is_some();
        if folder.is_empty() {
            return false;
        }
        let (file, here) = (source.path(), by.source().map(|source| source.path()));
        // The path is relative to a folder above both: a folder of this name elsewhere is that of another repository.
        let mut ends = file.match_indices('/').map(|(at, _)| at);
        let is_below = |end: &usize| {
            above(&file[..*end], folder).is_some_and(|root| here.is_none_or(|here| here.starts_with(root)))
        };
        let Some(end) = ends.find(is_below) else {
            return !file.contains(&format!("{folder}/"))
                && source.routes().iter().any(|route| leads_to(&route.root));
        };
        // A kustomization beside the file that does not list it leaves it out.
        source.routes().iter().any(|route| leads_to(&route.root))
            || !source.is_left_out() && (self.is_flux || self.takes(&file[end + 1..]))
    }

    /// Whether Argo CD takes a file of a folder that has no kustomization, given its path there: those of subfolders only with
    /// `recurse`. The templates of a chart are those of a rendered one.
    fn takes(&self, below: &str) -> bool {
        let directory = self.source.get("directory");
        let matches = |field: &str| {
            let glob = directory.get(field).text().filter(|glob| !glob.is_empty())?.to_owned();
            Some(Globs::new(&[glob]).ok()?.matches(below))
        };
        let is_template = below.split('/').rev().skip(1).any(|folder| folder == "templates");
        let is_read = !below.contains('/') || directory.get("recurse").bool() == Some(true);
        let is_listed = matches("include") != Some(false) && matches("exclude") != Some(true);
        is_template || is_read && is_listed
    }

    /// Whether it leads to the file of an object, or only the cluster knows where it leads.
    fn may_apply(&self, by: &Object, object: &Object) -> bool {
        let path = self.source.get("path");
        let is_open = path.text().is_none_or(|path| path.trim_matches(['.', '/']).is_empty());
        is_open || self.applies(by, object)
    }

    /// Whether it adds a label or an annotation for which a condition holds: by a field of its own, or by a patch.
    fn adds(&self, field: &str, of_kustomize: &str, is_it: impl Fn(&str) -> bool) -> bool {
        let (added, patches) = if self.is_flux {
            (self.source.path(&["commonMetadata", field]), self.source.get("patches"))
        } else {
            let kustomize = self.source.get("kustomize");
            (kustomize.get(of_kustomize), kustomize.get("patches"))
        };
        let patches = || patches.items().filter_map(|patch| patch.get("patch").raw_text());
        added.has_unknown_key()
            || added.entries().iter().any(|(key, _)| is_it(key))
            || patches().any(|patch| patch.contains(field))
    }
}

/// Whether Argo CD leaves a field of an object as it is, also when it applies the object.
fn ignores(spec: &Node<'_>, object: &Object, field: &[&str]) -> bool {
    matches!(ignored(spec, object, field), Ignored::Always)
}

/// How far Argo CD leaves a field of an object to others, given the `spec` of an Application. A sync applies what
/// `ignoreDifferences` names as it is written, unless an option of the sync says otherwise (Argo CD 2.3 and later).
fn ignored<'a>(spec: &Node<'a>, object: &Object, field: &[&str]) -> Ignored<'a> {
    let mut entries = spec.get("ignoreDifferences").items();
    let entry = entries.find(|entry| !field.is_empty() && is_about(entry, object) && names(entry, field));
    let Some(entry) = entry else { return Ignored::No };
    let options = spec.path(&["syncPolicy", "syncOptions"]);
    let respects = options.items().any(|option| option.text() == Some(RESPECTS));
    if respects || options.has_unknown() { Ignored::Always } else { Ignored::InComparison(entry) }
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

#[cfg(test)]
mod tests {
    use super::paths;
    use crate::file::File;
    use crate::object::Object;
    use crate::source::{KustomizeRoute, Source};
    use std::sync::Arc;

    fn object(path: &str, text: &str, roots: &[&str], is_left_out: bool) -> Object {
        let route = |root: &&str| KustomizeRoute {
            root: Arc::from(*root),
            namespace: None,
            affixes: Arc::default(),
            renames: false,
        };
        let routes: Vec<KustomizeRoute> = roots.iter().map(route).collect();
        let source = Source::from_text(path, text).with_routes(routes).with_left_out(is_left_out);
        File::read(source).objects[0].clone()
    }

    fn job(path: &str, roots: &[&str], is_left_out: bool) -> Object {
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {}}\n";
        object(path, text, roots, is_left_out)
    }

    #[test]
    fn sources_of_argo_cd_apply_what_they_read() {
        let applies = |source: &str, job: &Object| {
            let text = format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a}}\nspec: {{source: {source}}}\n"
            );
            let by = object("repo/argo/app.yaml", &text, &[], false);
            paths(&by).any(|path| path.applies(&by, job))
        };
        let at = |path: &str| job(path, &[], false);
        assert!(applies("{path: jobs}", &at("repo/jobs/a.yaml")));
        assert!(applies("{path: argo/jobs}", &at("repo/argo/jobs/a.yaml")));
        assert!(!applies("{path: jobs}", &at("repo/team/jobs/a.yaml")), "of another repository");
        assert!(!applies("{path: jobs}", &at("repo/jobs/x/a.yaml")));
        assert!(applies("{path: jobs, directory: {recurse: true}}", &at("repo/jobs/x/a.yaml")));
        let excluded = "{path: jobs, directory: {recurse: true, exclude: 'x/*'}}";
        assert!(!applies(excluded, &at("repo/jobs/x/a.yaml")));
        assert!(!applies("{path: jobs, directory: {include: '*.json'}}", &at("repo/jobs/a.yaml")));
        assert!(applies("{path: chart}", &at("repo/chart/templates/a.yaml")));
        assert!(!applies("{path: jobs}", &job("repo/jobs/a.yaml", &[], true)), "not listed");
        assert!(applies("{path: overlay}", &job("repo/base/a.yaml", &["/x/repo/overlay"], false)));
        assert!(applies("{path: jobs}", &job("repo/jobs/x/a.yaml", &["/x/repo/jobs"], false)));
    }

    #[test]
    fn kustomizations_of_flux_apply_what_is_below() {
        let text = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: ./jobs, commonMetadata: {labels: {a: b}}}\n";
        let by = object("jobs.yaml", text, &[], false);
        let applies = |job: &Object| paths(&by).any(|path| path.applies(&by, job));
        assert!(applies(&job("jobs/x/a.yaml", &[], false)));
        assert!(!applies(&job("jobs/x/a.yaml", &[], true)));
        assert!(!applies(&job("other/jobs/a.yaml", &[], false)));
        assert!(paths(&by).any(|path| path.adds("labels", "commonLabels", |key| key == "a")));
        assert!(!paths(&by).any(|path| path.adds("annotations", "commonAnnotations", |_| true)));
    }
}
