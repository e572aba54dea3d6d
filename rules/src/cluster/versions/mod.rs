//! Versions of Karpenter, KEDA and Kubernetes that the manifests of a set show: the chart that a HelmRelease or an Application
//! installs, the labels of a rendered chart, the image of the operator, the cluster of eksctl.
//!
//! They are the platform of the set where the configuration states no version. A set that shows two minor versions of a product shows
//! none. Objects count before files that install something, and these before scripts and documentation.

mod scripts;
mod terraform;
#[cfg(test)]
mod tests;
mod unread;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::cluster::Cluster;
use crate::cluster::together::{Company, folder, of_folders};
use crate::facts::image::ImageRef;
use crate::facts::text::{is_digits, mentions};
use crate::karpenter::minors::assume_karpenter;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::provider::Provider;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::{Platform, Product, Version};
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

pub use scripts::facts_of_script;
pub use terraform::{TerraformFile, TerraformValues};
pub use unread::unread_objects;

/// What a file that is no manifest shows of the cluster: a kustomization, a file of Terraform, the configuration of Talos, the values
/// of a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    Version(Product, Version),
    /// A version in a script, a file of variables or documentation. It counts where nothing that installs the product states one.
    Mentioned(Product, Version),
    /// The version of Kubernetes in the configuration of an API server, as of Talos or kubeadm: nobody has one for EKS.
    ServerVersion(Version),
    /// A feature gate of Kubernetes is on.
    FeatureGate(String),
    /// The API server serves an API version, as `group/version`, or the versions of a stage, as `api/beta`.
    ServedApi(String),
    /// The cluster runs on Amazon EKS.
    Eks,
    /// The cluster is one of OpenShift, whose operators make objects of their own.
    OpenShift,
    /// Something names the label of nodes that chooses an entry of the configuration of NVIDIA's device plugin.
    DevicePluginLabel,
    /// A metrics adapter serves metrics to HorizontalPodAutoscalers.
    MetricsAdapter,
    /// A metrics adapter reads the labels `exported_pod` and the like.
    ExportedLabels,
    /// The updater of the VerticalPodAutoscaler has an option with which it acts on a single pod, or may.
    UpdaterOption,
    /// Flux applies other files, and does not reach these.
    Unreached,
    /// A kustomization has charts or remote resources, or Flux applies another repository: the cluster has objects that the input
    /// does not have.
    Elsewhere,
    /// A kustomization generates a ConfigMap or a Secret of this name, or a script creates it.
    Generated(String),
    /// A document that is not read, such as a template, has an object of this kind, with its name if that is written.
    Unread(String, Option<String>),
    /// Something other than the kinds that install charts installs this: the name of a chart or of an add-on, or the address of
    /// manifests ([`Fact::installs`]).
    Installs(String),
}

/// Parts of the names for which rules ask what may be installed. Other names are not kept: large repositories have thousands.
pub(crate) const INSTALLED: [&str; 19] = [
    "nvidia",
    "gpu",
    "device-plugin",
    "hami",
    "dra-driver",
    "amd",
    "rocm",
    "neuron",
    "inferentia",
    "trainium",
    "habana",
    "gaudi",
    "efa-",
    "feature-discovery",
    "nfd",
    "load-balancer",
    "karpenter",
    "ebs-csi",
    "cluster-autoscaler",
];

impl Fact {
    /// The fact that something of this name is installed. `None` if no rule asks for it.
    pub fn installs(name: &str) -> Option<Fact> {
        mentions(name, &INSTALLED).then(|| Fact::Installs(name.to_owned()))
    }

    /// Whether it matters only that the input shows it, and not where.
    pub fn is_flag(&self) -> bool {
        matches!(self, Fact::Eks | Fact::OpenShift | Fact::Elsewhere | Fact::DevicePluginLabel)
    }

    pub fn version(&self) -> Option<(Product, Version)> {
        match self {
            Fact::Version(product, version) | Fact::Mentioned(product, version) => Some((*product, *version)),
            Fact::ServerVersion(version) => Some((Product::Kubernetes, *version)),
            _ => None,
        }
    }
}

/// A fact, with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutsideFact {
    pub fact: Fact,
    /// The path of the file as reported.
    pub path: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

/// Where a version is shown.
#[derive(Clone, Debug)]
pub enum VersionPlace {
    Field(Object, Pointer),
    Line(Arc<str>, u32),
}

impl VersionPlace {
    /// The path of the file as reported, and the line, counted from 1.
    pub(crate) fn line(&self) -> Option<(&str, u32)> {
        match self {
            VersionPlace::Line(path, line) => Some((path, *line)),
            VersionPlace::Field(object, pointer) => {
                let source = &object.origin()?.source;
                let span = object.root().at(pointer).span()?;
                Some((source.path(), source.lines().position(source.text(), span.start).line))
            }
        }
    }
}

/// A version that a set shows.
#[derive(Clone, Debug)]
pub struct ShownVersion {
    pub product: Product,
    pub version: Version,
    /// The first place that shows it.
    pub place: VersionPlace,
    /// A script or documentation mentions it, and nothing that is applied shows it.
    pub is_mentioned: bool,
}

impl ShownVersion {
    /// The patch version, where it is written beside the minor version.
    pub(crate) fn patch(&self) -> Option<u32> {
        let VersionPlace::Field(object, pointer) = &self.place else { return None };
        let node = object.root().at(pointer);
        let rest = node.text()?.split(&format!("{}.", self.version)).nth(1)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

/// The names of charts, and the ends of the names of images, by product.
const CHARTS: [(&str, Product); 3] =
    [("karpenter", Product::Karpenter), ("karpenter-crd", Product::Karpenter), ("keda", Product::Keda)];
const IMAGES: [(&str, Product); 4] = [
    ("karpenter/controller", Product::Karpenter),
    ("kedacore/keda", Product::Keda),
    ("kedacore/keda-metrics-apiserver", Product::Keda),
    ("kedacore/keda-admission-webhooks", Product::Keda),
];

/// The product that a chart installs, by its name or its address.
pub(crate) fn product_of_chart(chart: &str) -> Option<Product> {
    let name = chart.trim_end_matches('/').rsplit('/').next()?;
    CHARTS.iter().find(|(known, _)| *known == name).map(|(_, product)| *product)
}

/// The minor version that the version of a chart, or a tag, stands for. `None` for a range of minor versions.
pub fn minor_of(text: &str) -> Option<Version> {
    let text = text.trim();
    if text.contains([' ', ',', '|']) {
        return None;
    }
    let text = text.strip_prefix(['~', '=']).unwrap_or(text).trim_start();
    let text = text.split(['-', '+']).next()?;
    let mut parts = text.splitn(3, '.');
    let minor = [parts.next()?, parts.next()?].join(".");
    // `1.8.x` and `1.8.*` keep the minor version; a chart at `1.8` is what Helm reads as `1.8.0`.
    let patch = parts.next().is_none_or(|patch| matches!(patch, "x" | "X" | "*") || is_digits(patch));
    Version::parse(&minor).filter(|_| patch)
}

/// The versions that an object shows, each with the field.
pub(crate) fn shown_by(object: &Object) -> Vec<(Product, Version, Node<'_>)> {
    let mut found = Vec::new();
    pins_of(&object.root(), "", &mut |product, node, text| {
        found.extend(minor_of(text).map(|version| (product, version, node)));
    });
    found
}

/// The names of files that list releases of charts: those of helmfile, and of modules of Terraform that read such a list.
pub const CHART_LISTS: [&str; 6] = [
    "helmfile.yaml",
    "helmfile.yml",
    "helm-releases.yaml",
    "helm-releases.yml",
    "helm_releases.yaml",
    "helm_releases.yml",
];

/// The versions that a document pins, as written: `add` gets the product, the field and its text. `name` is the name of the file, by
/// which charts and kustomizations are known.
pub fn pins_of<'a>(root: &Node<'a>, name: &str, add: &mut dyn FnMut(Product, Node<'a>, &str)) {
    let mut pins = Pins { add };
    let spec = root.get("spec");
    match (name, root.get("kind").text()) {
        ("Chart.yaml", _) => pins.charts(&root.get("dependencies")),
        (name, _) if CHART_LISTS.contains(&name) => {
            let is_on = |release: &Node<'a>| release.get("enabled").bool() != Some(false);
            for release in root.get("releases").items().filter(is_on) {
                let versions = ["version", "chart_version"].map(|field| release.get(field));
                let version = versions.into_iter().find(Node::is_set);
                version.into_iter().for_each(|version| pins.chart(&release.get("chart"), version));
            }
        }
        ("kustomization.yaml" | "kustomization.yml" | "Kustomization", _) => {
            pins.charts(&root.get("helmCharts"));
            pins.remotes(root);
        }
        (_, Some("HelmRelease")) => {
            let chart = spec.path(&["chart", "spec"]);
            pins.chart(&chart.get("chart"), chart.get("version"));
        }
        // Those of Flux and of k3s.
        (_, Some("HelmChart")) => pins.chart(&spec.get("chart"), spec.get("version")),
        (_, Some("OCIRepository")) => pins.chart(&spec.get("url"), spec.path(&["ref", "tag"])),
        (_, Some("Application")) => pins.sources(&spec),
        (_, Some("ApplicationSet")) => pins.sources(&spec.path(&["template", "spec"])),
        // A cluster of eksctl.
        (_, Some("ClusterConfig")) => {
            pins.add(Product::Kubernetes, root.path(&["metadata", "version"]));
            pins.add(Product::Karpenter, root.path(&["karpenter", "version"]));
        }
        (_, Some("AWSManagedControlPlane")) => pins.add(Product::Kubernetes, spec.get("version")),
        (_, Some("Deployment")) => {
            for container in spec.path(&["template", "spec", "containers"]).items() {
                pins.image(container.get("image"));
            }
        }
        (_, Some("CustomResourceDefinition")) if spec.get("group").text() == Some("keda.sh") => {
            pins.add(Product::Keda, root.path(&["metadata", "labels", "app.kubernetes.io/version"]));
        }
        _ => {}
    }
    pins.rendered(root.path(&["metadata", "labels", "helm.sh/chart"]));
}

/// The charts that a document installs which is no object of the kinds that install charts: a chart by its dependencies, a helmfile, and
/// the HelmCharts of K3s and RKE2.
pub fn charts_of<'a>(root: &Node<'a>, name: &str) -> Vec<Node<'a>> {
    let all = |list: &str, field: &str| root.get(list).items().map(|one| one.get(field)).collect();
    match name {
        "Chart.yaml" => all("dependencies", "name"),
        name if CHART_LISTS.contains(&name) => all("releases", "chart"),
        _ if root.get("apiVersion").text().is_some_and(|text| text.starts_with(K3S_CHARTS)) => {
            vec![root.path(&["spec", "chart"])]
        }
        _ => Vec::new(),
    }
}

/// The group of the HelmCharts of K3s and RKE2.
pub const K3S_CHARTS: &str = "helm.cattle.io/";

/// What an assignment installs, as it is written in Terraform or in YAML: a chart, or an add-on.
fn installed_by<'t>(key: &'t str, value: &'t str) -> Option<&'t str> {
    if let Some(addon) = key.strip_prefix("enable_") {
        return (value == "true").then_some(addon);
    }
    // A map of add-ons has their names, which have a dash.
    if value.starts_with('{') {
        return key.contains('-').then_some(key);
    }
    matches!(key, "chart" | "addon_name" | "source").then(|| value.trim_matches(['"', '\'']))
}

/// The charts that a template of a helmfile installs, or another text that may be YAML, each with its line, counted from 1.
pub fn charts_of_template(text: &str) -> Vec<(Fact, u32)> {
    let of_line = |line: &str| {
        let line = line.trim().trim_start_matches("- ");
        let (key, value) = line.split_once(':').filter(|_| !line.starts_with('#'))?;
        let name = installed_by(key.trim().trim_matches('"'), value.trim())?;
        Fact::installs(&name.replace('_', "-"))
    };
    text.lines().zip(1..).filter_map(|(line, number)| Some((of_line(line)?, number))).collect()
}

/// The pins of a document while they are collected.
struct Pins<'c, 'a> {
    add: &'c mut dyn FnMut(Product, Node<'a>, &str),
}

impl<'a> Pins<'_, 'a> {
    fn add(&mut self, product: Product, node: Node<'a>) {
        if let Some(text) = node.string_or_number().or_else(|| node.raw_text().map(Cow::Borrowed)) {
            let text = text.into_owned();
            (self.add)(product, node, &text);
        }
    }

    fn chart(&mut self, chart: &Node<'a>, version: Node<'a>) {
        if let Some(product) = chart.text().and_then(product_of_chart) {
            self.add(product, version);
        }
    }

    fn charts(&mut self, list: &Node<'a>) {
        for chart in list.items() {
            self.chart(&chart.get("name"), chart.get("version"));
        }
    }

    /// The releases that a kustomization takes manifests from.
    fn remotes(&mut self, root: &Node<'a>) {
        let entries = ["resources", "bases"].into_iter().flat_map(|field| root.get(field).items());
        for entry in entries {
            let releases = entry.text().into_iter().flat_map(scripts::releases_in);
            releases.for_each(|(product, version)| (self.add)(product, entry.clone(), version));
        }
    }

    /// The charts of an Application.
    fn sources(&mut self, spec: &Node<'a>) {
        for source in std::iter::once(spec.get("source")).chain(spec.get("sources").items()) {
            self.chart(&source.get("chart"), source.get("targetRevision"));
        }
    }

    /// The image of an operator.
    fn image(&mut self, image: Node<'a>) {
        let Some(parsed) = image.text().map(ImageRef::parse) else { return };
        let known = IMAGES.iter().find(|(known, _)| parsed.is(known));
        if let Some(((_, product), tag)) = known.zip(parsed.tag.map(str::to_owned)) {
            (self.add)(*product, image, &tag);
        }
    }

    /// The label of an object that Helm rendered from a chart: `karpenter-1.8.2`.
    fn rendered(&mut self, label: Node<'a>) {
        let Some(text) = label.text() else { return };
        let version = |(chart, product): &(&str, Product)| {
            let version = text.strip_prefix(chart)?.strip_prefix('-')?;
            version
                .starts_with(|c: char| c.is_ascii_digit() || c == 'v')
                .then(|| (*product, version.to_owned()))
        };
        if let Some((product, version)) = CHARTS.iter().find_map(version) {
            (self.add)(product, label, &version);
        }
    }
}

/// Settings of the API server, as a flag, in the configuration of Talos, kubeadm, k0s, k3s or kind, and in Terraform. The gate is
/// named in other ways as well, as in an environment variable.
const SERVER_SETTINGS: [&str; 7] = [
    "feature-gates",
    "featureGates",
    "feature_gates",
    "runtime-config",
    "runtimeConfig",
    "runtime_config",
    "HPAScaleToZero",
];
/// What only files about Amazon EKS have.
const EKS_WORDS: [&str; 5] =
    ["eks.amazonaws.com", "karpenter.k8s.aws", "eksctl.io/", "aws_eks_", "terraform-aws-modules/eks"];
/// The group of the configuration of k0s.
const K0S_WORD: &str = "k0s.k0sproject.io";
/// The groups of OpenShift, as in `apiVersion: route.openshift.io/v1`.
const OPENSHIFT_WORD: &str = ".openshift.io/v";
/// The label of nodes that the device plugin of NVIDIA reads.
const PLUGIN_LABEL: &str = "nvidia.com/device-plugin.config";
/// What only files have that configure a cluster and its version: those of talhelper, Talos and kubeadm.
const VERSION_WORDS: [&str; 3] = ["talosVersion", "apiServer:", "kubeadm.k8s.io"];
/// The rules of prometheus-adapter.
const ADAPTER_RULES: &str = "seriesQuery";
/// Options of the updater of the VerticalPodAutoscaler.
const UPDATER_OPTIONS: [&str; 2] = ["min-replicas", "in-place-skip-disruption-budget"];

/// Whether a line sets an option of the VPA's updater, as a flag or in the values of a chart, with which it may act on a single pod
/// (`--min-replicas` is 2 by default; VPA 1.7).
fn is_updater_option(code: &str) -> bool {
    let is_other_number = |(_, rest): (&str, &str)| rest.trim_matches(|c: char| !c.is_ascii_digit()) != "2";
    code.contains(UPDATER_OPTIONS[1]) || code.split_once(UPDATER_OPTIONS[0]).is_some_and(is_other_number)
}

/// What a file of other programs shows: the gates, served APIs and versions of Talos, kubeadm, k0s, k3s and kind, the rules of
/// prometheus-adapter, options of the VPA's updater, that the cluster is one of EKS. Each with its line, counted from 1.
pub fn facts_of_text(text: &str) -> Vec<(Fact, u32)> {
    // Most files have none of the words: one pass over the text finds that, instead of fifteen.
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        let few = [K0S_WORD, OPENSHIFT_WORD, PLUGIN_LABEL, ADAPTER_RULES];
        let words = SERVER_SETTINGS.iter().chain(&VERSION_WORDS).chain(&UPDATER_OPTIONS).chain(&few);
        let words: Vec<String> = words.map(|word| regex::escape(word)).collect();
        Regex::new(&words.join("|")).expect("words are a pattern")
    });
    let find = |words: &[&str]| {
        words.iter().any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some())
    };
    let has_any = WORDS.is_match(text);
    let has = |words: &[&str]| has_any && find(words);
    let (has_settings, has_version) = (has(&SERVER_SETTINGS), has(&VERSION_WORDS));
    let (has_updater, has_adapter) = (has(&UPDATER_OPTIONS), has(&[ADAPTER_RULES]));
    // A flag is looked for until the first line that has it: most files show no more than the first.
    let (mut is_eks, mut is_openshift) = (find(&EKS_WORDS), has(&[OPENSHIFT_WORD]));
    let mut has_label = has(&[PLUGIN_LABEL]);
    let mut found = Vec::new();
    let mut has_rules = false;
    let (is_of_k0s, mut gate) = (has_settings && has(&[K0S_WORD]), None);
    for (line, number) in text.lines().zip(1..) {
        let has_flag = is_eks || is_openshift || has_label;
        if !(has_settings || has_version || has_updater || has_adapter || has_flag) {
            break;
        }
        let code = line.split(" #").next().unwrap_or(line).trim_start();
        if code.starts_with('#') {
            continue;
        }
        if has_settings {
            found.extend(turned_on(code).map(|fact| (fact, number)));
            found.extend(listed_gate(code, &mut gate).filter(|_| is_of_k0s).map(|fact| (fact, number)));
        }
        if has_version {
            found.extend(version_of_server(code).map(|fact| (fact, number)));
        }
        if is_eks && EKS_WORDS.iter().any(|word| code.contains(*word)) {
            found.push((Fact::Eks, number));
            is_eks = false;
        }
        if is_openshift && code.contains(OPENSHIFT_WORD) {
            found.push((Fact::OpenShift, number));
            is_openshift = false;
        }
        if has_label && code.contains(PLUGIN_LABEL) {
            found.push((Fact::DevicePluginLabel, number));
            has_label = false;
        }
        if has_updater && is_updater_option(code) {
            found.push((Fact::UpdaterOption, number));
        }
        if has_adapter && code.contains(ADAPTER_RULES) {
            has_rules = true;
            found.push((Fact::MetricsAdapter, number));
        }
        if has_rules && code.contains("exported_") {
            found.push((Fact::ExportedLabels, number));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|(fact, _)| seen.insert(fact.clone()));
    found
}

/// The feature gates and the API versions that a line sets to true, as in `A=true,B=true` and `"api/beta": "true"`.
fn turned_on(code: &str) -> impl Iterator<Item = Fact> {
    const BETWEEN: [char; 3] = ['"', '\'', ' '];
    code.match_indices("true").filter_map(|(at, _)| {
        let before = code[..at].trim_end_matches(BETWEEN).strip_suffix(['=', ':'])?;
        let before = before.trim_end_matches(BETWEEN);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/');
        let name = &before[before.trim_end_matches(is_part).len()..];
        match name.split_once('/') {
            Some((group, version)) => {
                // A resource of a version stands for the version.
                let version = version.split('/').next()?;
                let is_version =
                    version.starts_with('v') && version[1..].starts_with(|c: char| c.is_ascii_digit());
                let is_stage = group == "api" && matches!(version, "all" | "alpha" | "beta");
                (is_version || is_stage).then(|| Fact::ServedApi(format!("{group}/{version}")))
            }
            None => {
                name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| Fact::FeatureGate(name.to_owned()))
            }
        }
    })
}

/// The gate that an entry of `spec.featureGates` of k0s switches on, in its line or in one after that of its name (k0s,
/// `FeatureGate` in pkg/apis/k0s/v1beta1/feature_gates.go).
fn listed_gate<'t>(code: &'t str, gate: &mut Option<&'t str>) -> Option<Fact> {
    let entry = code.trim_start_matches(['-', ' ', '{']);
    if let Some(name) = entry.strip_prefix("name:") {
        *gate = name.split([',', '}']).next().map(|name| name.trim().trim_matches(['"', '\'']));
    }
    let name = gate.filter(|_| code.contains("enabled: true"))?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| Fact::FeatureGate(name.to_owned()))
}

/// The version of Kubernetes that a line of the configuration of a cluster states: `kubernetesVersion`, or the image of the API
/// server.
fn version_of_server(code: &str) -> Option<Fact> {
    let of_image = || Some(code.strip_prefix("image:")?.split_once("kube-apiserver:")?.1);
    let value = code.strip_prefix("kubernetesVersion:").or_else(of_image)?;
    let value = value.trim().trim_matches(['"', '\'']);
    Some(Fact::ServerVersion(minor_of(value)?))
}

/// The versions that a set shows, one for a product.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownVersions {
    all: Vec<ShownVersion>,
    /// A version of Karpenter that does not serve objects of the set.
    contradicted: Option<ShownVersion>,
}

impl ShownVersions {
    /// The versions that objects show, or else those that are shown outside of them.
    pub(super) fn of(objects: &[Object], outside: &[OutsideFact]) -> ShownVersions {
        let signs: Vec<(&Object, (Product, Version, Node<'_>))> = objects
            .iter()
            .flat_map(|object| shown_by(object).into_iter().map(move |sign| (object, sign)))
            .collect();
        // Files of Talos or kubeadm in another folder are about a cluster that is not one of EKS.
        let of_eks = if shows_server_version(outside) { folders_of_eks(objects.iter()) } else { Vec::new() };
        let is_elsewhere = |one: &OutsideFact| {
            let is_apart = |here: &&str| of_folders(here, folder(&one.path)) == Company::Apart;
            matches!(one.fact, Fact::ServerVersion(_)) && of_eks.iter().any(is_apart)
        };
        let mut found: Vec<ShownVersion> = Vec::new();
        for product in Product::ALL {
            let of_objects = signs.iter().filter(|(_, (of, ..))| *of == product).map(|(object, sign)| {
                let place = VersionPlace::Field((*object).clone(), sign.2.pointer());
                ShownVersion { product, version: sign.1, place, is_mentioned: false }
            });
            let of_files = |mentioned: bool| {
                let here = outside.iter().filter(|one| !is_elsewhere(one));
                let own = here.filter(move |one| matches!(one.fact, Fact::Mentioned(..)) == mentioned);
                own.filter_map(move |one| {
                    let (_, version) = one.fact.version().filter(|(of, _)| *of == product)?;
                    let place = VersionPlace::Line(Arc::clone(&one.path), one.line);
                    Some(ShownVersion { product, version, place, is_mentioned: mentioned })
                })
            };
            let said = only(of_objects).or_else(|| only(of_files(false))).or_else(|| only(of_files(true)));
            found.extend(said.version());
        }
        // Karpenter serves `v1` since 1.0: an older one is not what reads the objects, or not for long.
        let is_old =
            |shown: &ShownVersion| shown.product == Product::Karpenter && shown.version < FIRST_WITH_V1;
        let old = found.iter().position(is_old).filter(|_| objects.iter().any(is_v1_of_karpenter));
        let contradicted = old.map(|at| found.remove(at));
        ShownVersions { all: found, contradicted }
    }

    pub(crate) fn all(&self) -> &[ShownVersion] {
        &self.all
    }

    pub(crate) fn numbers(&self) -> Vec<(Product, Version)> {
        self.all.iter().map(|shown| (shown.product, shown.version)).collect()
    }

    /// The patch versions of the products, in their order.
    pub(super) fn patches(&self) -> Vec<Option<u32>> {
        self.all.iter().map(ShownVersion::patch).collect()
    }

    /// The version of Karpenter that objects contradict.
    pub(super) fn contradicted(&self) -> Option<Version> {
        self.contradicted.as_ref().map(|shown| shown.version)
    }
}

/// The first version of Karpenter that serves `v1`.
const FIRST_WITH_V1: Version = Version::new(1, 0);

/// Whether an object is of an API version that Karpenter serves from 1.0 on.
pub(crate) fn is_v1_of_karpenter(object: &Object) -> bool {
    object.version() == "v1" && object.group().starts_with("karpenter")
}

/// The versions that objects show, one for a product, or else those that are shown outside of them.
pub fn fill_versions(objects: &[Object], outside: &[OutsideFact]) -> Vec<ShownVersion> {
    ShownVersions::of(objects, outside).all
}

/// What several places say together.
enum Said {
    Nothing,
    One(ShownVersion),
    /// Different minor versions.
    Several,
}

impl Said {
    /// What others say, where nothing is said.
    fn or_else(self, other: impl FnOnce() -> Said) -> Said {
        if matches!(self, Said::Nothing) { other() } else { self }
    }

    fn version(self) -> Option<ShownVersion> {
        match self {
            Said::One(shown) => Some(shown),
            Said::Nothing | Said::Several => None,
        }
    }
}

/// Whether facts have a version of an API server, which counts only if no NodePool for Amazon EC2 is in another folder.
pub(super) fn shows_server_version(outside: &[OutsideFact]) -> bool {
    outside.iter().any(|one| matches!(one.fact, Fact::ServerVersion(_)))
}

/// The folders with NodePools for Amazon EC2: what is there runs on Amazon EKS.
fn folders_of_eks<'o>(objects: impl Iterator<Item = &'o Object>) -> Vec<&'o str> {
    let is_on_aws =
        |object: &&Object| NodePool::new(object).is_some_and(|pool| pool.provider() != Provider::Other);
    objects.filter(is_on_aws).filter_map(|object| Some(folder(object.origin()?.source.path()))).collect()
}

/// The number of folders that two paths of folders have in common.
fn shared_folders(a: &str, b: &str) -> usize {
    a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b && !a.is_empty()).count()
}

/// The version that all places share, with the first of them.
fn only(mut all: impl Iterator<Item = ShownVersion>) -> Said {
    let Some(first) = all.next() else { return Said::Nothing };
    if all.any(|other| other.version != first.version) { Said::Several } else { Said::One(first) }
}

impl Cluster {
    /// The versions that the set shows. None where the cluster is not one of files.
    fn shown_versions(&self) -> &[ShownVersion] {
        self.shown().map_or(&[], ShownVersions::all)
    }

    /// The version of a product that the set shows, with its place.
    pub(crate) fn shown_version(&self, product: Product) -> Option<&ShownVersion> {
        self.shown_versions().iter().find(|shown| shown.product == product)
    }

    /// The version of Karpenter that files of the set show and that does not serve objects of the set, with its place.
    pub(crate) fn contradicted_karpenter(&self) -> Option<&ShownVersion> {
        self.shown()?.contradicted.as_ref()
    }

    /// The patch version of a product that the set shows.
    pub(crate) fn shown_patch(&self, product: Product) -> Option<u32> {
        self.shown_version(product)?.patch()
    }

    /// Whether a file that is no manifest shows a fact.
    pub(crate) fn is_shown(&self, fact: &Fact) -> bool {
        self.outside_facts().iter().any(|one| one.fact == *fact)
    }

    /// Whether a file that is no manifest turns on a feature gate of Kubernetes.
    pub(crate) fn is_gate_shown(&self, name: &str) -> bool {
        let is_on = |gate: &str| self.is_shown(&Fact::FeatureGate(gate.to_owned()));
        [name, "AllAlpha", "AllBeta"].into_iter().any(is_on)
    }

    /// Whether a file that is no manifest turns on the API version of an object, such as `resource.k8s.io/v1beta1`, and no NodePool
    /// for Amazon EKS, where nobody can, is nearer to the object than all such files. A rule that asks reads NodePools.
    pub(crate) fn is_api_shown(&self, object: &Object) -> bool {
        let api_version = object.id().api_version();
        let stage = if api_version.contains("alpha") { "api/alpha" } else { "api/beta" };
        let is_on = |one: &&OutsideFact| match &one.fact {
            Fact::ServedApi(api) => *api == api_version || api == stage || api == "api/all",
            _ => false,
        };
        let here = object.origin().map_or("", |origin| folder(origin.source.path()));
        let files = self.outside_facts().iter().filter(is_on);
        files.map(|one| shared_folders(here, folder(&one.path))).max().is_some_and(|nearest| {
            let of_eks = folders_of_eks(self.of(Kind::NODE_POOL));
            !of_eks.iter().any(|there| shared_folders(here, there) > nearest)
        })
    }

    /// Whether the input shows that the cluster runs on Amazon EKS, or has Karpenter.
    pub(crate) fn shows_eks(&self) -> bool {
        self.is_shown(&Fact::Eks) || self.of(Kind::NODE_POOL).next().is_some()
    }

    /// A platform with the versions that the set shows in the place of those that the configuration does not state.
    pub fn platform<'p>(&self, configured: &'p Platform) -> Cow<'p, Platform> {
        let shown = self.shown_versions().iter();
        let mut open = shown.filter(|shown| !configured.is_stated(shown.product)).peekable();
        if open.peek().is_none() && !configured.is_stated(Product::Kubernetes) {
            return Cow::Borrowed(configured);
        }
        let mut platform = configured.clone();
        open.for_each(|shown| platform.state(shown.product, shown.version));
        assume_karpenter(&mut platform);
        Cow::Owned(platform)
    }
}
