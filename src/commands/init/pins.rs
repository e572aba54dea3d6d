//! The versions that a repository pins: those of charts, images and clusters.

use std::fs;
use std::path::Path;

use gpulint_rules::lint::config::Config;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Node, Product, Version, pins_of};
use ignore::WalkBuilder;

use crate::files::{Input, Terraform, absolute, display_path, is_of_terraform};

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

    fn read_document(&mut self, source: &Source, name: &str, root: &Node<'_>) {
        let place = |node: &Node<'_>| {
            let line = source.lines().position(source.text(), node.span()?.start).line;
            Some(format!("{}:{line}", source.path()))
        };
        pins_of(root, name, &mut |product, node, text| {
            if let Some(place) = place(&node) {
                self.add_text(product, text, place);
            }
        });
        // A cluster of eksctl.
        let region = root.path(&["metadata", "region"]);
        if root.get("kind").text() == Some("ClusterConfig")
            && let (Some(name), Some(place)) = (region.text(), place(&region))
        {
            self.regions.push((name.to_owned(), place));
        }
    }

    /// Adds the versions in Terraform files.
    fn read_terraform(&mut self, folder: &Path) {
        let entries = WalkBuilder::new(folder).require_git(false).build().flatten();
        let files = entries.filter(|entry| is_of_terraform(entry.path())).filter_map(|entry| {
            let is_small = entry.metadata().is_ok_and(|data| data.len() <= MAX_BYTES);
            let text = is_small.then(|| fs::read_to_string(entry.path()).ok()).flatten()?;
            Some((absolute(entry.path()), text))
        });
        let files: Vec<_> = files.collect();
        let terraform = Terraform::new(files.iter().map(|(path, text)| (path.as_path(), text.as_str())));
        let folder = absolute(folder);
        for (path, _) in &files {
            for (product, version, line) in terraform.pins(path) {
                self.add_text(product, version, format!("{}:{line}", short(path, &folder)));
            }
        }
    }
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
