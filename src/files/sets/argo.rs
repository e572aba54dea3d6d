//! Applications of Argo CD and those that ApplicationSets generate: the paths that they apply, and the
//! clusters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::lint::settings::Globs;
use gpulint_rules::source::{Document, ImageChange, Source, read};
use gpulint_rules::{Kind, Node, Object, is_own_cluster};
use serde_json::Value;

use super::claimer::{Checkout, Claimer, Destination, GitOpsObject, Tool, repository};
use super::environments::environment_above;
use super::kustomize::Expansion;
use super::releases::{Release, ReleaseParameter, ReleaseValues, ValuesPlace};
use super::template_patch::PatchedTemplate;
use super::transform::Transform;
use crate::files::Disk;

/// Why values of an ApplicationSet are not known.
const OF_CLUSTER: &str = "only the cluster knows what its generators give";

/// Maximum number of Applications to generate from one ApplicationSet.
const MAX_APPLICATIONS: usize = 2_000;

/// The values of a generator for one Application, by name. `path` is a folder relative to the root of the
/// checkout.
type Parameters = BTreeMap<String, String>;

/// A source of an Application, with the parameters filled in.
struct SourcePath {
    file: usize,
    /// The number of the Application that the source belongs to.
    application: usize,
    repository: String,
    folder: PathBuf,
    /// Whether every repository has the path.
    is_everywhere: bool,
    destination: Destination,
    options: Options,
    how: Transform,
    /// The release of the chart, if the folder is one.
    release: Option<Release>,
}

/// The files to apply from a folder that has neither a chart nor a kustomization.
#[derive(Default)]
struct Options {
    recurse: bool,
    include: Option<String>,
    exclude: Option<String>,
}

/// The Applications in an input that apply files of the input.
pub(super) fn claimers(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<Claimer> {
    let sources = own_sources(checkout, found);
    let mut claimers: BTreeMap<usize, Claimer> = BTreeMap::new();
    let globs = compiled_globs(&sources);
    for source in &sources {
        let claimer = claimers.entry(source.application).or_insert_with(|| Claimer {
            tool: Tool::Argo,
            file: Some(source.file),
            place: checkout.files.list[source.file].input.absolute.clone(),
            destination: source.destination.clone(),
            folders: Vec::new(),
            reach: Vec::new(),
        });
        claimer.folders.push(source.folder.clone());
        apply(checkout, source, &globs, claimer);
    }
    separate_environments(&sources, &mut claimers);
    claimers.into_values().collect()
}

/// Gives each environment a cluster of its own where Applications of several apply a common file to one namespace of the cluster
/// of Argo CD: each environment has an Argo CD, which calls its own cluster so.
fn separate_environments(sources: &[SourcePath], claimers: &mut BTreeMap<usize, Claimer>) {
    let mut users: BTreeMap<(&Path, usize, Option<&str>), BTreeMap<usize, String>> = BTreeMap::new();
    for source in sources {
        let Some(folder) = environment_above(&source.folder) else { continue };
        let claimer = claimers.get(&source.application);
        let claimer = claimer.filter(|claimer| claimer.destination == Destination::Local);
        let (Some(claimer), Some(above)) = (claimer, folder.parent()) else { continue };
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let namespace = source.how.namespace.as_deref().or(source.how.default_namespace.as_deref());
        for (file, _) in &claimer.reach {
            let of_file = users.entry((above, *file, namespace)).or_default();
            of_file.insert(source.application, name.clone().into_owned());
        }
    }
    for of_file in users.into_values() {
        if of_file.values().collect::<BTreeSet<_>>().len() > 1 {
            for (application, name) in of_file {
                if let Some(claimer) = claimers.get_mut(&application) {
                    claimer.destination = Destination::Environment(name);
                }
            }
        }
    }
}

/// The releases of charts of the input.
pub(super) fn releases(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<Release> {
    own_sources(checkout, found).into_iter().filter_map(|source| source.release).collect()
}

/// The sources of all Applications that are in the checkout.
fn own_sources(checkout: &Checkout<'_, '_>, found: &[GitOpsObject<'_>]) -> Vec<SourcePath> {
    let mut sources = Vec::new();
    let mut number = 0;
    for &GitOpsObject { file, object } in found {
        if object.is(Kind::ARGO_APPLICATION) {
            number += 1;
            let root = object.root();
            let application = Application { file, number, object, root, prefix: &[], is_known: true };
            add_sources(checkout, &application, &Parameters::new(), &mut sources);
        } else if object.is(Kind::ARGO_APPLICATION_SET) {
            let spec = object.get("spec");
            let place = &checkout.files.list[file].input.absolute;
            let all = all_parameters(checkout, place, &spec.get("generators"));
            let (template, patch) = (spec.get("template"), spec.get("templatePatch"));
            for parameters in all.into_iter().take(MAX_APPLICATIONS) {
                number += 1;
                let patch = patch.raw_text().map(|patch| fill(patch, &parameters));
                let patched = patch.map(|patch| PatchedTemplate::of(&template, &patch));
                let is_known = !matches!(patched, Some(PatchedTemplate::Unknown));
                let mut application =
                    Application { file, number, object, root: template.clone(), prefix: &[], is_known };
                if let Some(PatchedTemplate::Merged(documents)) = &patched {
                    let Some(root) = documents.first().and_then(Document::root) else { continue };
                    application = Application { root, prefix: &["spec", "template"], ..application };
                }
                add_sources(checkout, &application, &parameters, &mut sources);
            }
        }
    }
    retain_own(&mut sources);
    sources
}

/// Leaves out the sources of other repositories. The repository of the input is the one that most existing
/// paths belong to.
fn retain_own(sources: &mut Vec<SourcePath>) {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_everywhere) {
        *count.entry(repository(&source.repository)).or_default() += 1;
    }
    let own = count.iter().max_by_key(|(_, count)| **count).map(|(name, _)| (*name).to_owned());
    sources.retain(|source| {
        let name = repository(&source.repository);
        is_unknown_repository(name) && !source.is_everywhere || own.as_deref() == Some(name)
    });
}

/// Whether the name of a repository is one that is filled in later.
fn is_unknown_repository(name: &str) -> bool {
    name.is_empty() || name.contains(['{', '$', '<'])
}

/// An Application, or the template of an ApplicationSet.
struct Application<'a> {
    file: usize,
    number: usize,
    object: &'a Object,
    /// The node with its `metadata` and `spec`.
    root: Node<'a>,
    /// The steps to that node in the object, if it is in a document of its own.
    prefix: &'static [&'static str],
    /// Whether the template is known as it is applied.
    is_known: bool,
}

fn add_sources(
    checkout: &Checkout<'_, '_>,
    application: &Application<'_>,
    parameters: &Parameters,
    out: &mut Vec<SourcePath>,
) {
    let place = &checkout.files.list[application.file].input.absolute;
    let spec = application.root.get("spec");
    let text = |node: &Node<'_>| node.raw_text().map(|text| fill(text, parameters));
    let target = spec.get("destination");
    let namespace = text(&target.get("namespace")).filter(|name| !is_template(name) && !name.is_empty());
    let single = spec.get("source");
    for source in spec.get("sources").items().chain(std::iter::once(single)) {
        let Some(path) = text(&source.get("path")).filter(|path| !is_template(path)) else { continue };
        let Some(folder) = checkout.folder(place, &path) else { continue };
        let kustomize = source.get("kustomize");
        let directory = source.get("directory");
        let plain = |field: &str| text(&kustomize.get(field)).filter(|text| !is_template(text));
        let is_chart = checkout.files.folders.is_chart(&folder);
        let release = is_chart.then(|| {
            let mut release = application.release(&folder, parameters, namespace.clone());
            let values = Values { checkout, place, application, source: &source, parameters };
            values.add_to(&mut release);
            if let Destination::Cluster(name) = destination(&target, &text) {
                release.cluster = Some(name);
            }
            release
        });
        let by = Arc::from(format!("{} `{}`", application.object.id().kind, application.object.name()));
        out.push(SourcePath {
            file: application.file,
            application: application.number,
            release,
            repository: text(&source.get("repoURL")).unwrap_or_default(),
            is_everywhere: path.trim_matches(['.', '/']).is_empty(),
            folder,
            destination: destination(&target, &text),
            options: Options {
                recurse: directory.get("recurse").bool() == Some(true),
                include: text(&directory.get("include")),
                exclude: text(&directory.get("exclude")),
            },
            how: patched(
                &kustomize,
                &text,
                Transform {
                    namespace: plain("namespace").map(Arc::from),
                    default_namespace: namespace.as_deref().map(Arc::from),
                    prefix: plain("namePrefix").unwrap_or_default(),
                    suffix: plain("nameSuffix").unwrap_or_default(),
                    images: kustomize
                        .get("images")
                        .items()
                        .filter_map(|image| Some(ImageChange::of_argument(&text(&image)?, &by)))
                        .collect(),
                    ..Transform::default()
                },
            ),
        });
    }
}

/// Adds the patches of a source. One in a file changes its target in a way that is not followed.
fn patched(
    kustomize: &Node<'_>,
    text: &impl Fn(&Node<'_>) -> Option<String>,
    mut how: Transform,
) -> Transform {
    for patch in kustomize.get("patches").items() {
        how.add_patch(&text(&patch.get("patch")).unwrap_or_default(), &patch.get("target"));
    }
    how
}

impl Application<'_> {
    /// Its release of a chart, without values.
    fn release(&self, chart: &Path, parameters: &Parameters, namespace: Option<String>) -> Release {
        let own = self.root.path(&["metadata", "name"]);
        let name =
            own.raw_text().map_or_else(|| self.object.name().to_owned(), |name| fill(name, parameters));
        let object = format!("Application `{name}`");
        Release::new(self.file, chart, object, name, namespace)
    }
}

/// What gives the values of a release.
struct Values<'v, 'f, 'a> {
    checkout: &'v Checkout<'f, 'a>,
    place: &'v Path,
    application: &'v Application<'v>,
    source: &'v Node<'v>,
    parameters: &'v Parameters,
}

impl Values<'_, '_, '_> {
    fn text(&self, node: &Node<'_>) -> Option<String> {
        node.raw_text().map(|text| fill(text, self.parameters))
    }

    /// Where the object has a node. `None` if the object has something else in the place of the `whole` that the node belongs to,
    /// because a patch of the template gives it.
    fn written(&self, node: &Node<'_>, whole: &Node<'_>) -> Option<ValuesPlace> {
        let Application { object, prefix, .. } = self.application;
        let is_own = || object.path(prefix).at(&whole.pointer()).to_json() == whole.to_json();
        let mut place = ValuesPlace::new(self.place, object, node);
        place.steps.splice(0..0, prefix.iter().map(|step| (*step).to_owned()));
        (prefix.is_empty() || is_own()).then_some(place)
    }

    /// Adds the values of a source to its release, in ascending order of precedence.
    fn add_to(&self, release: &mut Release) {
        let helm = self.source.get("helm");
        if let Some(name) = self.text(&helm.get("releaseName")) {
            release.name = name;
        }
        if let Some(namespace) = self.text(&helm.get("namespace")).filter(|name| !is_template(name)) {
            release.namespace = Some(namespace);
        }
        release.kubernetes = self.text(&helm.get("kubeVersion")).filter(|version| !is_template(version));
        release.skips_schema = helm.get("skipSchemaValidation").bool() == Some(true);
        let optional = helm.get("ignoreMissingValueFiles").bool() == Some(true);
        for written in helm.get("valueFiles").items().filter_map(|file| self.text(&file)) {
            if is_template(&written) {
                release.is_unknown(OF_CLUSTER.to_owned());
            } else {
                self.add_file(release, &written, optional);
            }
        }
        let mapping = helm.get("valuesObject");
        if mapping.is_mapping() {
            match self.parameters.is_empty() {
                true => release.add_mapping(&mapping, self.written(&mapping, &mapping)),
                false => release.add_generated(filled(mapping.to_json(), self.parameters)),
            }
        } else if let Some(text) = self.text(&helm.get("values")) {
            let node = helm.get("values");
            release.add_text(&text, self.written(&node, &node));
        }
        for one in helm.get("parameters").items() {
            let texts = (self.text(&one.get("name")), self.text(&one.get("value")));
            let (Some(name), Some(value)) = texts else { continue };
            let is_string = one.get("forceString").bool() == Some(true);
            let place = self.written(&one.get("value"), &one);
            release.parameters.push(ReleaseParameter { name, value, is_string, place });
        }
        self.find_unknown(release);
    }

    fn add_file(&self, release: &mut Release, written: &str, optional: bool) {
        let root = || self.checkout.root_of(self.place);
        let path = match written.strip_prefix('$').and_then(|rest| rest.split_once('/')) {
            Some((name, below)) => {
                let sources = self.application.root.path(&["spec", "sources"]);
                let Some(named) = sources.items().find(|one| one.get("ref").text() == Some(name)) else {
                    release.is_unknown(format!("no source has `ref: {name}`"));
                    return;
                };
                let urls =
                    [&named, self.source].map(|one| self.text(&one.get("repoURL")).unwrap_or_default());
                let [values, chart] = [0, 1].map(|at| repository(&urls[at]));
                if !is_unknown_repository(values) && !is_unknown_repository(chart) && values != chart {
                    release.is_unknown(format!("its values are in the repository `{values}`"));
                    return;
                }
                Some(root().join(below))
            }
            None if written.starts_with('/') => Some(root().join(written.trim_start_matches('/'))),
            None => Some(crate::files::absolute(&release.chart.join(written))),
        };
        release.add_file(path, written, optional);
    }

    /// Records what changes the release in a way that is not followed.
    fn find_unknown(&self, release: &mut Release) {
        let object = self.application.object;
        if self.source.get("plugin").is_set() {
            release.is_unknown("a plugin renders it".to_owned());
        }
        if self.source.path(&["helm", "fileParameters"]).items().next().is_some() {
            release.is_unknown("it sets `fileParameters`".to_owned());
        }
        if !self.application.is_known {
            release.is_unknown("its `templatePatch` may change it".to_owned());
        }
        if object.may_lack_fields() {
            release.is_unknown("a kustomization changes it".to_owned());
        }
        let inline = release.values.iter().filter_map(|values| match values {
            ReleaseValues::Inline(values, _) => Some(values.to_string()),
            ReleaseValues::File(_) => None,
        });
        let texts = inline.chain(release.parameters.iter().map(|one| one.value.clone()));
        if object.is(Kind::ARGO_APPLICATION_SET) && texts.into_iter().any(|text| is_template(&text)) {
            release.is_unknown(OF_CLUSTER.to_owned());
        }
        // The chart decides what a name is that only the cluster knows.
        if is_template(&release.name) {
            release.name.clear();
        }
    }
}

/// A value whose texts are filled in.
fn filled(value: Value, parameters: &Parameters) -> Value {
    match value {
        Value::String(text) => Value::String(fill(&text, parameters)),
        Value::Array(items) => items.into_iter().map(|item| filled(item, parameters)).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(key, value)| (key, filled(value, parameters))).collect()
        }
        other => other,
    }
}

/// The globs of the sources by their texts. Each is compiled once, because all Applications of an
/// ApplicationSet have equal ones. Globs that cannot be parsed are left out.
fn compiled_globs(sources: &[SourcePath]) -> HashMap<&str, Globs> {
    let options = sources.iter().map(|source| &source.options);
    let texts = options.flat_map(|options| [&options.include, &options.exclude]).flatten();
    let texts: BTreeSet<&String> = texts.filter(|text| !text.is_empty()).collect();
    let compile = |text| Some((String::as_str(text), Globs::new(std::slice::from_ref(text)).ok()?));
    texts.into_iter().filter_map(compile).collect()
}

/// The cluster of an Application. If only a cluster can tell, it is assumed to be the one that Argo CD runs
/// in.
fn destination(target: &Node<'_>, text: &impl Fn(&Node<'_>) -> Option<String>) -> Destination {
    let known = |field: &str| text(&target.get(field)).filter(|text| !text.is_empty() && !is_template(text));
    match known("name").or_else(|| known("server")) {
        None => Destination::Local,
        Some(name) if is_own_cluster(&name) => Destination::Local,
        Some(name) => Destination::Cluster(name),
    }
}

fn apply(
    checkout: &Checkout<'_, '_>,
    source: &SourcePath,
    globs: &HashMap<&str, Globs>,
    claimer: &mut Claimer,
) {
    let files = checkout.files;
    let mut expansion = Expansion::new(files);
    if expansion.kustomization(&source.folder, &source.how) {
        claimer.reach.append(&mut expansion.reach);
        return;
    }
    let is_chart = files.folders.is_chart(&source.folder);
    let options = &source.options;
    let [include, exclude] = [&options.include, &options.exclude].map(|text| globs.get(text.as_deref()?));
    for (path, file) in files.below(&source.folder) {
        let Ok(below) = path.strip_prefix(&source.folder) else { continue };
        let is_deep = below.components().count() > 1;
        let below = crate::files::display_path(below);
        let is_listed = include.is_none_or(|include| include.matches(&below))
            && !exclude.is_some_and(|exclude| exclude.matches(&below));
        if is_chart || (!is_deep || options.recurse) && is_listed {
            claimer.reach.push((file, source.how.clone()));
        }
    }
}

/// The values of the generators of an ApplicationSet, for each Application. A generator whose values only a
/// cluster or another service knows gives one Application without values.
fn all_parameters(checkout: &Checkout<'_, '_>, place: &Path, generators: &Node<'_>) -> Vec<Parameters> {
    generators.items().flat_map(|generator| parameters(checkout, place, &generator, 0)).collect()
}

fn parameters(
    checkout: &Checkout<'_, '_>,
    place: &Path,
    generator: &Node<'_>,
    depth: usize,
) -> Vec<Parameters> {
    let mut all = generated(checkout, place, generator, depth);
    // All generators but those of lists and of other generators take values that each Application gets.
    for (_, generator) in generator.entries() {
        for (key, value) in generator.get("values").entries() {
            let Some(text) = value.raw_text() else { continue };
            for one in &mut all {
                let text = fill(text, one);
                one.insert(format!("values.{key}"), text);
            }
        }
    }
    all
}

fn generated(
    checkout: &Checkout<'_, '_>,
    place: &Path,
    generator: &Node<'_>,
    depth: usize,
) -> Vec<Parameters> {
    let git = generator.get("git");
    if git.is_set() {
        let folders = git_folders(checkout, place, &git.get("directories"));
        let mut all: Vec<Parameters> =
            folders.iter().map(|folder| path_parameters(checkout, place, folder)).collect();
        for file in git_files(checkout, place, &git.get("files")) {
            all.extend(file_parameters(checkout, place, file));
        }
        return all;
    }
    let elements = generator.path(&["list", "elements"]);
    if elements.is_sequence() {
        return elements.items().map(|element| flat(&element.to_json())).collect();
    }
    let nested = ["matrix", "merge"].map(|of| (of, generator.path(&[of, "generators"])));
    let Some((of, nested)) =
        nested.into_iter().find(|(_, nested)| nested.is_sequence()).filter(|_| depth < 3)
    else {
        return vec![Parameters::new()];
    };
    let mut parts = nested.items().map(|one| parameters(checkout, place, &one, depth + 1));
    let first = parts.next().unwrap_or_default();
    if of == "merge" {
        let keys = generator.path(&["merge", "mergeKeys"]);
        let keys: Vec<&str> = keys.items().filter_map(|key| key.text()).collect();
        return parts.fold(first, |all, more| merged(all, &more, &keys));
    }
    parts.fold(first, |all, more| {
        let pairs = all.iter().flat_map(|a| {
            more.iter().map(move |b| a.iter().chain(b).map(|(k, v)| (k.clone(), v.clone())).collect())
        });
        pairs.take(MAX_APPLICATIONS).collect()
    })
}

/// The values of the first generator of a `merge`, with those of another one that has equal keys.
fn merged(mut all: Vec<Parameters>, more: &[Parameters], keys: &[&str]) -> Vec<Parameters> {
    for one in &mut all {
        let is_it = |other: &&Parameters| keys.iter().all(|key| one.get(*key) == other.get(*key));
        if let Some(other) = more.iter().find(is_it) {
            one.extend(other.clone());
        }
    }
    all
}

/// The texts of a value by their paths: `a.b`, as placeholders name them.
fn flat(value: &Value) -> Parameters {
    fn add(value: &Value, path: &str, out: &mut Parameters) {
        let mut below = |key: &str, value: &Value| {
            let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            add(value, &path, out);
        };
        match value {
            Value::Object(entries) => entries.iter().for_each(|(key, value)| below(key, value)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value));
            }
            Value::Null => {}
            Value::String(text) => _ = out.insert(path.to_owned(), text.clone()),
            Value::Bool(_) | Value::Number(_) => _ = out.insert(path.to_owned(), value.to_string()),
        }
    }
    let mut out = Parameters::new();
    add(value, "", &mut out);
    out
}

/// The folders that a directory generator names.
fn git_folders<'a>(checkout: &Checkout<'_, 'a>, place: &Path, directories: &Node<'_>) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    for is_exclusion in [false, true] {
        for entry in directories.items().filter(|e| (e.get("exclude").bool() == Some(true)) == is_exclusion) {
            let path = entry.get("path");
            let Some((base, pattern)) = path.raw_text().and_then(|path| base(checkout, place, path, 0))
            else {
                continue;
            };
            let folders = checkout.files.folders_below(&base);
            let fits = |folder: &&Path| {
                has_depth(&pattern, depth(folder).saturating_sub(depth(&base)))
                    && folder.strip_prefix(&base).is_ok_and(|below| matches(&pattern, below))
            };
            if is_exclusion {
                found.retain(|folder| !fits(folder));
            } else {
                found.extend(folders.filter(fits));
                found.extend(checkout.files.folder_of(&base).filter(|_| pattern.is_empty()));
            }
        }
    }
    found
}

/// The files that a file generator names.
fn git_files<'a>(checkout: &Checkout<'_, 'a>, place: &Path, files: &Node<'_>) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    for is_exclusion in [false, true] {
        for entry in files.items().filter(|e| (e.get("exclude").bool() == Some(true)) == is_exclusion) {
            let path = entry.get("path");
            let Some((base, pattern)) = path.raw_text().and_then(|path| base(checkout, place, path, 1))
            else {
                continue;
            };
            let fits = |file: &&Path| file.strip_prefix(&base).is_ok_and(|below| matches(&pattern, below));
            if is_exclusion {
                found.retain(|file| !fits(file));
            } else {
                found.extend(checkout.files.below(&base).map(|(file, _)| file).filter(fits));
            }
        }
    }
    found
}

/// What a file generator gives for a file: an Application for it, or for each item of its list, with the keys of the file and
/// its path.
fn file_parameters(checkout: &Checkout<'_, '_>, place: &Path, file: &Path) -> Vec<Parameters> {
    let mut own = file.parent().map(|folder| path_parameters(checkout, place, folder)).unwrap_or_default();
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    own.insert("path.filenameNormalized".to_owned(), normal(&name));
    own.insert("path.filename".to_owned(), name);
    let text = Disk::default().read_small(file).unwrap_or_default();
    let documents = read(&Source::from_text("file", &text));
    let value = documents.first().and_then(|document| document.root()).map(|root| root.to_json());
    let items = match value {
        Some(Value::Array(items)) => items,
        Some(value) => vec![value],
        None => vec![Value::Null],
    };
    items.iter().map(|item| own.clone().into_iter().chain(flat(item)).collect()).collect()
}

/// The folder before the first wildcard of a pattern, and the rest of the pattern, of at least some parts.
fn base(
    checkout: &Checkout<'_, '_>,
    place: &Path,
    pattern: &str,
    least: usize,
) -> Option<(PathBuf, Vec<String>)> {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_plain = |part: &&str| !part.contains(['*', '?', '[', '{']);
    let plain = parts.iter().copied().take_while(is_plain).count().min(parts.len().saturating_sub(least));
    let base = checkout.folder(place, &parts[..plain].join("/"))?;
    Some((base, parts[plain..].iter().map(|part| (*part).to_owned()).collect()))
}

/// Whether a pattern may match a path with `parts` parts.
fn has_depth(pattern: &[String], parts: usize) -> bool {
    parts == pattern.len() || pattern.iter().any(|part| part == "**")
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

fn matches(pattern: &[String], below: &Path) -> bool {
    let parts: Vec<Cow<'_, str>> =
        below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    matches_parts(pattern, &parts)
}

fn matches_parts(pattern: &[String], parts: &[Cow<'_, str>]) -> bool {
    match (pattern, parts) {
        ([], []) => true,
        ([first, rest @ ..], parts) if first == "**" => {
            (0..=parts.len()).any(|skipped| matches_parts(rest, &parts[skipped..]))
        }
        ([first, rest @ ..], [part, others @ ..]) => matches_part(first, part) && matches_parts(rest, others),
        _ => false,
    }
}

/// Whether a part of a path matches a pattern in which `*` matches any text.
fn matches_part(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((start, rest)) => part.strip_prefix(start).is_some_and(|left| {
            let ends = left.char_indices().map(|(at, _)| at).chain(std::iter::once(left.len()));
            ends.into_iter().any(|at| matches_part(rest, &left[at..]))
        }),
    }
}

fn path_parameters(checkout: &Checkout<'_, '_>, place: &Path, folder: &Path) -> Parameters {
    let root = checkout.root_of(place);
    let path = crate::files::display_path(folder.strip_prefix(&root).unwrap_or(folder));
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut out = Parameters::from([
        ("path.basenameNormalized".to_owned(), normal(&name)),
        ("path.basename".to_owned(), name),
    ]);
    out.extend(path.split('/').enumerate().map(|(at, part)| (format!("path[{at}]"), part.to_owned())));
    out.insert("path".to_owned(), path);
    out
}

/// A name as a generator makes it one of DNS.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Whether a text contains placeholders whose values are unknown.
fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// Replaces placeholders such as `{{path}}` and `{{ .path.basename }}` by the values of a generator.
fn fill(text: &str, parameters: &Parameters) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let whole = &rest[start..start + length + 2];
        let name = whole[2..whole.len() - 2].trim_matches(['-', ' ']).trim_start_matches('.');
        let value = match name {
            "path.path" => parameters.get("path"),
            _ => match name.strip_prefix("index .path.segments ") {
                Some(number) => parameters.get(&format!("path[{}]", number.trim())),
                None => parameters.get(name),
            },
        };
        out.push_str(&rest[..start]);
        out.push_str(value.map_or(whole, String::as_str));
        rest = &rest[start + length + 2..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{Parameters, fill, flat, matches, merged};

    #[test]
    fn keys_of_files_are_named_by_their_paths() {
        let found =
            flat(&json!({"env": "prod", "gpu": {"count": 2, "on": true}, "zones": ["a"], "no": null}));
        let expected = [("env", "prod"), ("gpu.count", "2"), ("gpu.on", "true"), ("zones.0", "a")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn generators_are_merged_by_their_keys() {
        let one = |env: &str, gpu: &str| flat(&json!({"env": env, "gpu": gpu}));
        let all =
            merged(vec![one("dev", "1"), one("prod", "1")], &[one("prod", "4"), one("x", "8")], &["env"]);
        assert_eq!(all, [one("dev", "1"), one("prod", "4")]);
    }

    #[test]
    fn parameters_are_filled_in() {
        let parameters = Parameters::from([
            ("path".to_owned(), "apps/web".to_owned()),
            ("path.basename".to_owned(), "web".to_owned()),
            ("path[0]".to_owned(), "apps".to_owned()),
            ("env".to_owned(), "prod".to_owned()),
        ]);
        for (text, filled) in [
            ("{{path}}", "apps/web"),
            ("{{ .path.path }}", "apps/web"),
            ("x/{{path.basename}}/{{.env}}", "x/web/prod"),
            ("{{ index .path.segments 0 }}", "apps"),
            ("{{server}}", "{{server}}"),
            ("{{ broken", "{{ broken"),
        ] {
            assert_eq!(fill(text, &parameters), filled);
        }
    }

    #[test]
    fn patterns_match_part_by_part() {
        let fits = |pattern: &str, path: &str| {
            let pattern: Vec<String> = pattern.split('/').map(str::to_owned).collect();
            matches(&pattern, Path::new(path))
        };
        assert!(
            fits("*", "web") && fits("*/prod", "web/prod") && fits("a*c", "abc") && fits("**/x", "a/b/x")
        );
        assert!(!fits("*", "web/prod") && !fits("a*c", "abd") && !fits("*/prod", "web/dev"));
    }
}
