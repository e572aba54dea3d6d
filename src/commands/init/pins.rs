//! The versions that a repository pins: those of charts, images and clusters.

use std::fs;
use std::path::Path;

use gpulint_rules::lint::config::Config;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Node, Product, Version};
use ignore::WalkBuilder;

use crate::files::{Input, display_path};

/// Maximum size in bytes of a file that is searched for pins.
const MAX_BYTES: u64 = 4 << 20;
/// Maximum number of places to list.
const MAX_PLACES: usize = 3;

/// A version that a file names.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    pub(super) product: Product,
    pub(super) version: Version,
    pub(super) text: String,
    /// The location, relative to the folder of the configuration: `clusters/prod/karpenter.yaml:12`.
    pub(super) place: String,
}

#[derive(Debug, Default)]
pub(super) struct Pins {
    pins: Vec<Pin>,
    regions: Vec<(String, String)>,
    /// Versions that are ranges or that gpulint does not support, with their places.
    unclear: Vec<(Product, String, String)>,
}

impl Pins {
    pub(super) fn find(inputs: &[Input], folder: &Path) -> Pins {
        let mut pins = Pins::default();
        for input in inputs.iter().filter(|input| input.unapplied.is_none() && input.stream.is_none()) {
            let is_small = fs::metadata(&input.path).is_ok_and(|data| data.len() <= MAX_BYTES);
            let Some(bytes) = is_small.then(|| fs::read(&input.path).ok()).flatten() else { continue };
            let short = short(&input.path, folder);
            // Files without such words are not parsed, to save time.
            let text = String::from_utf8_lossy(&bytes);
            if !["karpenter", "keda", "ClusterConfig", "ControlPlane"].iter().any(|word| text.contains(word))
            {
                continue;
            }
            let source = Source::new(&short, bytes);
            let name = input.path.file_name().unwrap_or_default().to_string_lossy();
            for document in read(&source) {
                if let Some(root) = document.root() {
                    pins.read_document(&source, &name, &root);
                }
            }
        }
        pins.read_terraform(folder);
        pins.pins.sort_by(|a, b| a.place.cmp(&b.place));
        pins
    }

    /// The version of a product, if all files agree and gpulint supports it.
    pub(super) fn certain(&self, product: Product) -> Option<&Pin> {
        let mut own = self.pins.iter().filter(|pin| pin.product == product);
        let first = own.next()?;
        let is_sure = own.all(|pin| pin.version == first.version)
            && product.note_on(first.version) == Ok(None)
            && !self.unclear.iter().any(|(other, ..)| *other == product);
        is_sure.then_some(first)
    }

    /// The reason why the version of a product is not certain, if files name one.
    pub(super) fn why_not(&self, product: Product) -> Option<String> {
        let own: Vec<&Pin> = self.pins.iter().filter(|pin| pin.product == product).collect();
        let mut versions: Vec<Version> = own.iter().map(|pin| pin.version).collect();
        versions.sort_unstable();
        versions.dedup();
        if let [version] = versions.as_slice()
            && let Err(problem) | Ok(Some(problem)) = product.note_on(*version)
        {
            return Some(format!("{}: {problem}", own[0].short()));
        }
        let mut places: Vec<String> = Vec::new();
        for version in &versions {
            places.extend(own.iter().find(|pin| pin.version == *version).map(|pin| pin.short()));
        }
        let unclear = self.unclear.iter().filter(|(other, ..)| *other == product);
        places.extend(unclear.map(|(_, text, place)| format!("{text} in {place}")));
        if let ([], [one]) = (versions.as_slice(), places.as_slice()) {
            return Some(format!("{one} is not one version"));
        }
        let more = places.len().saturating_sub(MAX_PLACES);
        places.truncate(MAX_PLACES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!places.is_empty()).then(|| format!("the files do not agree on one: {}{more}", places.join(", ")))
    }

    /// The region, if all files agree, with its place.
    pub(super) fn region(&self) -> Option<(&str, &str)> {
        let (first, place) = self.regions.first()?;
        let agree = self.regions.iter().all(|(region, _)| region == first);
        // The region must be valid in a configuration.
        let is_known = Config::parse("", &format!("platform: {{region: {first}}}"))
            .is_ok_and(|config| config.resolve().notes.is_empty());
        (agree && is_known).then_some((first, place))
    }

    fn add(&mut self, source: &Source, product: Product, node: &Node<'_>) {
        let (Some(text), Some(span)) = (node.raw_text(), node.span()) else { return };
        let line = source.lines().position(source.text(), span.start).line;
        self.add_text(product, text, format!("{}:{line}", source.path()));
    }

    fn add_text(&mut self, product: Product, text: &str, place: String) {
        let text = text.trim();
        // A placeholder is not a version.
        if text.is_empty() || text.contains(['{', '$', '<']) || !text.contains(|c: char| c.is_ascii_digit()) {
            return;
        }
        let exact = text.strip_suffix(".x").or_else(|| text.strip_suffix(".*")).unwrap_or(text);
        let exact = exact.split(['@', '+', '-']).next().unwrap_or(exact);
        match Version::parse(exact) {
            Some(version) => self.pins.push(Pin { product, version, text: text.to_owned(), place }),
            None => self.unclear.push((product, text.to_owned(), place)),
        }
    }

    /// Adds the version of a chart, if it is a chart of a product.
    fn chart(&mut self, source: &Source, name: &Node<'_>, version: &Node<'_>) {
        let product = match name.text().map(|name| name.rsplit('/').next().unwrap_or(name)) {
            Some("karpenter" | "karpenter-crd") => Product::Karpenter,
            Some("keda") => Product::Keda,
            _ => return,
        };
        self.add(source, product, version);
    }

    fn read_document(&mut self, source: &Source, name: &str, root: &Node<'_>) {
        match (name, root.get("kind").text()) {
            ("Chart.yaml", _) => {
                for one in root.get("dependencies").items() {
                    self.chart(source, &one.get("name"), &one.get("version"));
                }
            }
            ("kustomization.yaml" | "kustomization.yml" | "Kustomization", _) => {
                for one in root.get("helmCharts").items() {
                    self.chart(source, &one.get("name"), &one.get("version"));
                }
            }
            (_, Some("HelmRelease")) => {
                let spec = root.path(&["spec", "chart", "spec"]);
                self.chart(source, &spec.get("chart"), &spec.get("version"));
            }
            (_, Some("OCIRepository")) => {
                let spec = root.get("spec");
                self.chart(source, &spec.get("url"), &spec.path(&["ref", "tag"]));
            }
            (_, Some("Application")) => self.argo(source, &root.get("spec")),
            (_, Some("ApplicationSet")) => self.argo(source, &root.path(&["spec", "template", "spec"])),
            // A cluster configuration of eksctl.
            (_, Some("ClusterConfig")) => {
                let metadata = root.get("metadata");
                self.add(source, Product::Kubernetes, &metadata.get("version"));
                let region = metadata.get("region");
                if let (Some(name), Some(span)) = (region.text(), region.span()) {
                    let line = source.lines().position(source.text(), span.start).line;
                    self.regions.push((name.to_owned(), format!("{}:{line}", source.path())));
                }
            }
            (_, Some("AWSManagedControlPlane")) => {
                self.add(source, Product::Kubernetes, &root.path(&["spec", "version"]));
            }
            (_, Some("Deployment")) => {
                let containers = root.path(&["spec", "template", "spec", "containers"]);
                for image in containers.items().map(|container| container.get("image")) {
                    self.image(source, &image);
                }
            }
            (_, Some("CustomResourceDefinition")) => {
                let group = root.path(&["spec", "group"]);
                if group.text() == Some("keda.sh") {
                    let label = root.path(&["metadata", "labels", "app.kubernetes.io/version"]);
                    self.add(source, Product::Keda, &label);
                }
            }
            _ => {}
        }
    }

    fn argo(&mut self, source: &Source, spec: &Node<'_>) {
        let one = spec.get("source");
        for one in spec.get("sources").items().chain(std::iter::once(one)) {
            self.chart(source, &one.get("chart"), &one.get("targetRevision"));
        }
    }

    /// Adds the version of an image, if it is that of a controller.
    fn image(&mut self, source: &Source, image: &Node<'_>) {
        let Some((name, tag)) = image.text().and_then(|text| text.split('@').next()?.rsplit_once(':')) else {
            return;
        };
        let product = if name.ends_with("/karpenter/controller") {
            Product::Karpenter
        } else if name.ends_with("kedacore/keda") {
            Product::Keda
        } else {
            return;
        };
        let Some(span) = image.span() else { return };
        let line = source.lines().position(source.text(), span.start).line;
        self.add_text(product, tag, format!("{}:{line}", source.path()));
    }

    /// Adds the version of EKS in Terraform files, if it is a literal.
    fn read_terraform(&mut self, folder: &Path) {
        let files = WalkBuilder::new(folder).require_git(false).build().flatten();
        for entry in files.filter(|entry| entry.path().extension().is_some_and(|end| end == "tf")) {
            let is_small = entry.metadata().is_ok_and(|data| data.len() <= MAX_BYTES);
            let Some(text) = is_small.then(|| fs::read_to_string(entry.path()).ok()).flatten() else {
                continue;
            };
            for (number, line) in text.lines().enumerate() {
                if let Some(version) = eks_version(line) {
                    let place = format!("{}:{}", short(entry.path(), folder), number + 1);
                    self.add_text(Product::Kubernetes, version, place);
                }
            }
        }
    }
}

/// The version in a line such as `cluster_version = "1.33"`.
fn eks_version(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_prefix("cluster_version").or_else(|| line.strip_prefix("kubernetes_version"))?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    let version = value.split('"').next()?;
    Version::parse(version).map(|_| version)
}

/// The path relative to the folder of the configuration.
fn short(path: &Path, folder: &Path) -> String {
    display_path(path.strip_prefix(folder).unwrap_or(path)).trim_start_matches("./").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(name: &str, text: &str) -> Pins {
        let source = Source::from_text(name, text);
        let mut pins = Pins::default();
        for document in read(&source) {
            pins.read_document(&source, name, &document.root().unwrap());
        }
        pins
    }

    #[test]
    fn versions_are_read_where_they_are_pinned() {
        for (name, text, product, version) in [
            (
                "a.yaml",
                "kind: HelmRelease\nspec: {chart: {spec: {chart: karpenter, version: 1.9.0}}}\n",
                Product::Karpenter,
                "1.9",
            ),
            (
                "a.yaml",
                "kind: Application\nspec:\n  sources:\n  - {chart: keda, targetRevision: 2.17.2}\n",
                Product::Keda,
                "2.17",
            ),
            (
                "a.yaml",
                "kind: OCIRepository\nspec: {url: 'oci://public.ecr.aws/karpenter/karpenter', ref: {tag: 1.8.1}}\n",
                Product::Karpenter,
                "1.8",
            ),
            ("Chart.yaml", "dependencies: [{name: karpenter, version: 1.6.x}]\n", Product::Karpenter, "1.6"),
            ("kustomization.yaml", "helmCharts: [{name: keda, version: v2.18.0}]\n", Product::Keda, "2.18"),
            ("a.yaml", "kind: ClusterConfig\nmetadata: {version: '1.33'}\n", Product::Kubernetes, "1.33"),
            (
                "a.yaml",
                "kind: Deployment\nspec: {template: {spec: {containers: [{image: 'ghcr.io/kedacore/keda:2.16.1'}]}}}\n",
                Product::Keda,
                "2.16",
            ),
        ] {
            let pins = pins(name, text);
            let pin = pins.certain(product).unwrap_or_else(|| panic!("{text}: {pins:?}"));
            assert_eq!(pin.version.to_string(), version, "{text}");
        }
        assert_eq!(eks_version("  cluster_version   = \"1.33\" # EKS"), Some("1.33"));
        assert_eq!(eks_version("cluster_version = var.version"), None);
    }

    #[test]
    fn what_files_do_not_agree_on_is_not_certain() {
        let release = |version: &str| {
            format!(
                "kind: HelmRelease\nspec: {{chart: {{spec: {{chart: karpenter, version: '{version}'}}}}}}\n"
            )
        };
        let two = pins("a.yaml", &format!("{}---\n{}", release("1.9.0"), release("1.13.0")));
        assert!(two.certain(Product::Karpenter).is_none());
        assert_eq!(
            two.why_not(Product::Karpenter).unwrap(),
            "the files do not agree on one: 1.9.0 in a.yaml:2, 1.13.0 in a.yaml:5"
        );
        for version in ["0.37.0", "1.99.0", ">=1.0.0 <2", "{{ .version }}"] {
            assert!(pins("a.yaml", &release(version)).certain(Product::Karpenter).is_none(), "{version}");
        }
    }
}
