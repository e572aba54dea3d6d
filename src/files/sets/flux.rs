//! Kustomizations of Flux: the paths that they apply.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::source;
use gpulint_rules::source::{ImageChange, Source};
use gpulint_rules::{Kind, Node, Object};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::claimer::{Checkout, Claimer, Destination, FLUX_OPERATOR, GitOpsObject, Tool, repository};
use super::kustomize::Expansion;
use super::releases::{Release, ValuesPlace};
use super::transform::{Reach, Transform};

const GROUP: &str = "kustomize.toolkit.fluxcd.io";
const KUSTOMIZATION: Kind = Kind::new(GROUP, "Kustomization");
const HELM_CHART: Kind = Kind::new("source.toolkit.fluxcd.io", "HelmChart");
const GIT_REPOSITORY: Kind = Kind::new("source.toolkit.fluxcd.io", "GitRepository");
const FLUX_INSTANCE: Kind = Kind::new(FLUX_OPERATOR, "FluxInstance");

const ARTIFACT_GENERATOR: Kind = Kind::new("source.extensions.fluxcd.io", "ArtifactGenerator");

/// The name that `flux bootstrap` gives to the repository that contains it.
const OWN_SOURCE: &str = "flux-system";

/// The repositories and artifacts in the input that Flux reads.
struct Repositories<'a> {
    /// The address of each repository by name.
    urls: HashMap<&'a str, &'a str>,
    /// The folders of each artifact and where they are copied from, by name.
    artifacts: HashMap<&'a str, Vec<(&'a str, &'a str)>>,
}

impl Repositories<'_> {
    /// Whether a source may be the repository of the input. A path that every repository has is not evidence.
    fn may_be_own(&self, source: &Node<'_>, path: &str) -> bool {
        let name = source.get("name").text().unwrap_or(OWN_SOURCE);
        if name == OWN_SOURCE {
            return true;
        }
        let is_everywhere = path.trim_matches(['.', '/']).is_empty();
        match (self.urls.get(name), self.urls.get(OWN_SOURCE)) {
            (Some(url), Some(own)) => repository(url) == repository(own),
            _ => !is_everywhere,
        }
    }
}

/// The folders of an artifact, each with the folder of the repository that is copied into it.
fn copies<'a>(artifact: &Node<'a>) -> Vec<(&'a str, &'a str)> {
    let copies = artifact.get("copy").items().filter_map(|copy| {
        let to = copy.get("to").text()?.strip_prefix("@artifact")?.trim_matches('/');
        // The syntax is `@SOURCE/FOLDER/**`.
        let (_, from) = copy.get("from").text()?.strip_prefix('@')?.split_once('/')?;
        Some((to, from.trim_end_matches(['*', '/'])))
    });
    copies.collect()
}

/// The folder of the repository that is copied to a path of an artifact.
fn source_of(copies: &[(&str, &str)], path: &str) -> Option<String> {
    let path = path.trim_start_matches("./").trim_matches('/');
    let found = copies.iter().filter_map(|(to, from)| {
        let rest = if to.is_empty() { path } else { path.strip_prefix(to)? };
        (to.is_empty() || rest.is_empty() || rest.starts_with('/')).then_some((to.len(), from, rest))
    });
    let (_, from, rest) = found.max_by_key(|(length, _, _)| *length)?;
    Some(format!("{from}/{}", rest.trim_start_matches('/')))
}

/// The Kustomizations in an input that apply files of the input.
pub(super) fn claimers(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<Claimer> {
    let repositories = Repositories::of(found);
    let claimers = found.par_iter().map(|one| claimer(checkout, &repositories, one.file, one.object));
    claimers.flatten_iter().collect()
}

/// The releases of charts of the input.
pub(super) fn releases(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<Release> {
    let repositories = Repositories::of(found);
    let claimers = claimers(checkout, found);
    let releases = found.iter().filter(|one| one.object.is(Kind::HELM_RELEASE));
    releases
        .filter_map(|one| {
            let object = one.object;
            let spec = object.get("spec");
            let chart = chart_of(&spec, object, found)?;
            let mut release = release(checkout, &repositories, one, &chart)?;
            let target = spec.get("targetNamespace").text();
            let own = given_namespace(checkout, &claimers, one.file);
            let own = own.as_deref().or(object.id().namespace());
            release.namespace = target.or(own).map(str::to_owned);
            Some(release)
        })
        .collect()
}

/// The namespace that the Kustomizations that apply a file give to its objects, if they agree.
fn given_namespace(checkout: &Checkout<'_, '_>, claimers: &[Claimer], file: usize) -> Option<Arc<str>> {
    let path = &checkout.files.list[file].input.absolute;
    let is_it = |of: usize| checkout.files.list[of].input.absolute == *path;
    let reached = claimers.iter().flat_map(|claimer| &claimer.reach).filter(|(of, _)| is_it(*of));
    let mut namespaces = reached.map(|(_, how)| how.namespace.clone());
    let first = namespaces.next()??;
    namespaces.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The description of the chart of a HelmRelease: its own, or that of the HelmChart that it names.
fn chart_of<'a>(spec: &Node<'a>, object: &Object, found: &[GitOpsObject<'a>]) -> Option<Node<'a>> {
    let named = spec.get("chartRef");
    if named.get("kind").text() != Some("HelmChart") {
        return Some(spec.path(&["chart", "spec"]));
    }
    let namespace = named.get("namespace").text().or(object.id().namespace());
    let is_it = |one: &&Object| {
        one.is(HELM_CHART)
            && Some(one.name()) == named.get("name").text()
            && one.id().namespace() == namespace
    };
    found.iter().map(|one| one.object).find(is_it).map(|chart| chart.get("spec"))
}

/// The release of a chart that a HelmRelease installs from a folder of the checkout.
fn release(
    checkout: &Checkout<'_, '_>,
    repositories: &Repositories<'_>,
    of: &GitOpsObject<'_>,
    chart: &Node<'_>,
) -> Option<Release> {
    let object = of.object;
    let spec = object.get("spec");
    let source = chart.get("sourceRef");
    let path = chart.get("chart").text()?;
    if source.get("kind").text() != Some("GitRepository") || !repositories.may_be_own(&source, path) {
        return None;
    }
    let place = &checkout.files.list[of.file].input.absolute;
    let folder = checkout.folder(place, path).filter(|folder| checkout.files.folders.is_chart(folder))?;
    // The default name of `HelmRelease.GetReleaseName` of the API v2 of helm-controller.
    let name = match (spec.get("releaseName").text(), spec.get("targetNamespace").text()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(namespace)) => format!("{namespace}-{}", object.name()),
        (None, None) => object.name().to_owned(),
    };
    let mut release = Release::new(of.file, &folder, format!("HelmRelease `{}`", object.name()), name, None);
    // `valuesFiles` of source-controller v1 are "an alternative list of values files to use as the chart values
    // (values.yaml is not included by default)".
    for written in chart.get("valuesFiles").items().filter_map(|file| file.text()) {
        release.replaces_values = true;
        let root = checkout.root_of(place);
        let path = crate::files::absolute(&root.join(written.trim_start_matches("./")));
        let optional = chart.get("ignoreMissingValuesFiles").bool() == Some(true);
        release.add_file(Some(path), written, optional);
    }
    for from in spec.get("valuesFrom").items() {
        add_values_from(&mut release, checkout, &from, object);
    }
    let values = spec.get("values");
    if values.is_mapping() {
        release.add_mapping(&values, Some(ValuesPlace::new(place, object, &values)));
    }
    release.cluster = kube_config(&spec);
    // A field of the API v2 of helm-controller.
    release.skips_schema = spec.path(&["install", "disableSchemaValidation"]).bool() == Some(true);
    release.changes = Box::new(post_rendered(&spec, &release.object));
    // The older API has patches in other fields.
    let is_older = |one: Node<'_>| {
        ["patchesStrategicMerge", "patchesJson6902"]
            .iter()
            .any(|field| one.path(&["kustomize", field]).is_set())
    };
    if spec.get("postRenderers").items().any(is_older) {
        release.is_unknown("its `postRenderers` change the objects".to_owned());
    }
    if object.may_lack_fields() {
        release.is_unknown("a kustomization changes it".to_owned());
    }
    Some(release)
}

/// The changes that a release makes to what its chart gives: `postRenderers` of helm-controller's API v2, which all are kustomizations.
fn post_rendered(spec: &Node<'_>, by: &str) -> Transform {
    let by = Arc::from(by);
    let mut out = Transform::default();
    for one in spec.get("postRenderers").items() {
        let own = transform_of(&one.get("kustomize"), &by);
        out.removed.extend(own.removed);
        out.patched.extend(own.patched);
        out.images.extend(own.images);
    }
    out
}

/// Adds the values of a ConfigMap of the input. Those of a Secret, or of an object elsewhere, are not known.
fn add_values_from(release: &mut Release, checkout: &Checkout<'_, '_>, from: &Node<'_>, object: &Object) {
    let name = from.get("name").text().unwrap_or_default();
    let key = from.get("valuesKey").text().unwrap_or("values.yaml");
    let is_it = |(_, other): &(usize, &Object)| {
        other.is(Kind::CONFIG_MAP)
            && other.name() == name
            && other.id().namespace() == object.id().namespace()
    };
    let is_config_map = from.get("kind").text() == Some("ConfigMap") && !from.get("targetPath").is_set();
    let files = checkout.files.list.iter().enumerate();
    let mut found = files.flat_map(|(at, file)| file.objects.iter().map(move |one| (at, one))).filter(is_it);
    let map = found.next().filter(|_| is_config_map && found.next().is_none());
    let text = map.and_then(|(at, map)| {
        let node = map.path(&["data", key]);
        let place = ValuesPlace::new(&checkout.files.list[at].input.absolute, map, &node);
        Some((node.text()?.to_owned(), place))
    });
    match text {
        Some((text, place)) => release.add_text(&text, Some(place)),
        None if from.get("optional").bool() == Some(true) => {}
        None => {
            let kind = from.get("kind").text().unwrap_or("object");
            release.is_unknown(format!("its values come from {kind} `{name}`"));
        }
    }
}

impl<'a> Repositories<'a> {
    fn of(found: &'a [GitOpsObject<'a>]) -> Repositories<'a> {
        let objects = || found.iter().map(|one| one.object);
        let sources = objects().filter(|object| object.is(GIT_REPOSITORY));
        let urls = sources.filter_map(|o| Some((o.name(), o.path(&["spec", "url"]).text()?)));
        let urls = urls.collect();
        let mut repositories = Repositories { urls, artifacts: HashMap::new() };
        for object in objects().filter(|object| object.is(ARTIFACT_GENERATOR)) {
            for artifact in object.path(&["spec", "artifacts"]).items() {
                if let Some(name) = artifact.get("name").text() {
                    repositories.artifacts.entry(name).or_default().extend(copies(&artifact));
                }
            }
        }
        repositories
    }
}

/// The files with Kustomizations that apply a folder which the checkout does not have, or another repository.
pub(super) fn elsewhere(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<usize> {
    let repositories = Repositories::of(found);
    let is_elsewhere = |one: &&GitOpsObject<'_>| {
        one.object.is(KUSTOMIZATION)
            && one.object.path(&["spec", "sourceRef"]).is_set()
            && folder_of(checkout, &repositories, one.file, one.object).is_none()
    };
    found.iter().filter(is_elsewhere).map(|one| one.file).collect()
}

/// The folder of the checkout that an object applies.
fn folder_of(
    checkout: &Checkout<'_, '_>,
    repositories: &Repositories<'_>,
    file: usize,
    object: &Object,
) -> Option<PathBuf> {
    if !object.is(KUSTOMIZATION) && !object.is(FLUX_INSTANCE) {
        return None;
    }
    let spec = object.get("spec");
    // A Kustomization without both is a patch, or is completed by one.
    let is_whole = spec.get("path").is_set() || spec.get("sourceRef").is_set();
    let (at, source) = if object.is(KUSTOMIZATION) && is_whole {
        (spec.get("path"), spec.get("sourceRef"))
    } else if object.is(FLUX_INSTANCE) {
        (spec.path(&["sync", "path"]), spec.get("sourceRef"))
    } else {
        return None;
    };
    let path = if at.is_set() { at.text()? } else { "." };
    if object.is(FLUX_INSTANCE) && !at.is_set() || !repositories.may_be_own(&source, path) {
        return None;
    }
    let copied = repositories.artifacts.get(source.get("name").text().unwrap_or_default());
    let is_copied = source.get("kind").text() == Some("ExternalArtifact");
    let copied = copied.filter(|_| is_copied).and_then(|copies| source_of(copies, path));
    let path = copied.as_deref().unwrap_or(path);
    checkout.folder(&checkout.files.list[file].input.absolute, path)
}

fn claimer(
    checkout: &Checkout<'_, '_>,
    repositories: &Repositories<'_>,
    file: usize,
    object: &Object,
) -> Option<Claimer> {
    let folder = folder_of(checkout, repositories, file, object)?;
    let place = &checkout.files.list[file].input.absolute;
    let spec = object.get("spec");
    let how = transform(object);
    let mut expansion = Expansion::new(checkout.files);
    expansion.generated(&folder, &how);
    for component in components_of(&spec, &folder) {
        expansion.component(&component, &how);
    }
    let name = kube_config(&spec);
    Some(Claimer {
        tool: Tool::Flux,
        file: Some(file),
        place: place.clone(),
        destination: name.map_or(Destination::Local, Destination::KubeConfig),
        folders: vec![folder],
        reach: expansion.reach,
    })
}

/// The folders of the components of a Kustomization, which it gives relative to the folder that it applies.
fn components_of(spec: &Node<'_>, folder: &Path) -> Vec<PathBuf> {
    let listed = spec.get("components").items();
    listed.filter_map(|item| Some(crate::files::absolute(&folder.join(item.text()?)))).collect()
}

/// The name of the object that holds the kubeconfig of another cluster.
fn kube_config(spec: &Node<'_>) -> Option<String> {
    let config = spec.get("kubeConfig");
    let names = ["secretRef", "configMapRef"].map(|of| config.path(&[of, "name"]));
    names.iter().find(|name| name.is_set()).and_then(Node::raw_text).map(str::to_owned)
}

/// What a Kustomization adds to the kustomization of the folder that it applies.
#[derive(Clone, Debug)]
pub(crate) struct FluxBuild {
    pub(crate) folder: PathBuf,
    /// The number of the file that has the Kustomization.
    pub(crate) file: usize,
    /// The name for messages.
    pub(crate) object: String,
    /// Whether it applies to its own cluster.
    pub(crate) is_local: bool,
    pub(crate) changes: FluxChanges,
}

/// The changes that kustomize-controller 1 makes: it writes fields into the kustomization, builds it, and then fills in
/// variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FluxChanges {
    /// Fields of a kustomization.
    pub(crate) fields: Map<String, Value>,
    pub(crate) components: Vec<PathBuf>,
    /// The variables that it writes itself.
    pub(crate) variables: BTreeMap<String, String>,
}

/// The Kustomizations in an input that apply a folder of the input.
pub(super) fn builds(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<FluxBuild> {
    const FIELDS: [(&str, &str); 5] = [
        ("targetNamespace", "namespace"),
        ("namePrefix", "namePrefix"),
        ("nameSuffix", "nameSuffix"),
        ("images", "images"),
        ("patches", "patches"),
    ];
    let repositories = Repositories::of(found);
    let own = found.iter().filter(|one| one.object.is(KUSTOMIZATION));
    own.filter_map(|one| {
        let folder = folder_of(checkout, &repositories, one.file, one.object)?;
        let spec = one.object.get("spec");
        let set = FIELDS.iter().filter(|(from, _)| spec.get(from).is_set());
        let mut fields: Map<String, Value> =
            set.map(|(from, to)| ((*to).to_owned(), spec.get(from).to_json())).collect();
        let labels = spec.path(&["commonMetadata", "labels"]);
        if labels.is_mapping() {
            fields.insert("labels".to_owned(), json!([{"pairs": labels.to_json()}]));
        }
        let variables = spec.path(&["postBuild", "substitute"]).entries().into_iter();
        let variables =
            variables.filter_map(|(name, value)| Some((name.to_owned(), value.raw_text()?.to_owned())));
        Some(FluxBuild {
            file: one.file,
            object: format!("Kustomization `{}`", one.object.name()),
            is_local: kube_config(&spec).is_none(),
            changes: FluxChanges {
                fields,
                components: components_of(&spec, &folder),
                variables: variables.collect(),
            },
            folder,
        })
    })
    .collect()
}

/// The changes that a Kustomization makes to all objects that it applies.
fn transform(object: &Object) -> Transform {
    let by = Arc::from(format!("{} `{}`", object.id().kind, object.name()));
    transform_of(&object.get("spec"), &by)
}

fn transform_of(spec: &Node<'_>, by: &Arc<str>) -> Transform {
    let text = |field: &str| spec.get(field).text().filter(|text| !text.is_empty());
    let images = spec.get("images").items().filter_map(|entry| ImageChange::of_entry(&entry, by));
    let mut out = Transform {
        namespace: text("targetNamespace").map(Arc::from),
        prefix: text("namePrefix").unwrap_or_default().to_owned(),
        suffix: text("nameSuffix").unwrap_or_default().to_owned(),
        images: images.collect(),
        ..Transform::default()
    };
    for patch in spec.get("patches").items() {
        out.add_patch(patch.get("patch").text().unwrap_or_default(), &patch.get("target"));
    }
    out
}

/// Applies the patches that Kustomizations and kustomizations make to all Kustomizations among their objects: what such a patch
/// adds is applied to the files of those.
pub(super) fn hand_down<'r>(claimers: &mut [Claimer], reached: impl Iterator<Item = &'r Reach>) {
    let own: Vec<(usize, Arc<str>)> = claimers.iter().flat_map(|one| handed(&one.reach)).collect();
    let all: BTreeSet<(usize, Arc<str>)> = own.into_iter().chain(reached.flat_map(handed)).collect();
    for (file, patch) in all {
        let documents = source::read(&Source::from_text("patch", &patch));
        let by = Arc::from("a patch of its Kustomization");
        for root in documents.iter().filter_map(source::Document::root) {
            let how = transform_of(&root.get("spec"), &by);
            let is_its = |one: &&mut Claimer| one.tool == Tool::Flux && one.file == Some(file);
            let reach = claimers.iter_mut().filter(is_its).flat_map(|one| &mut one.reach);
            reach.for_each(|(_, of)| of.hand_down(&how));
        }
    }
}

/// The files of some objects that patches of Kustomizations reach, each with the patch.
fn handed(reach: &Reach) -> impl Iterator<Item = (usize, Arc<str>)> {
    reach.iter().flat_map(|(file, how)| how.handed.iter().map(move |patch| (*file, Arc::clone(patch))))
}

#[cfg(test)]
mod tests {
    use super::{repository, source_of};

    #[test]
    fn artifacts_are_copies_of_folders() {
        let copies = [("base", "apps/base"), ("production", "apps/production")];
        assert_eq!(source_of(&copies, "./production/x").as_deref(), Some("apps/production/x"));
        assert_eq!(source_of(&copies, "./prod"), None);
        assert_eq!(source_of(&[("", "infra")], "./configs").as_deref(), Some("infra/configs"));
    }

    #[test]
    fn a_repository_is_named_by_the_end_of_its_address() {
        for url in
            ["https://github.com/a/fleet", "ssh://git@github.com/a/fleet.git", "git@github.com:a/fleet.git/"]
        {
            assert_eq!(repository(url), "fleet");
        }
    }
}
