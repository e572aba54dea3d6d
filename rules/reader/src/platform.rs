//! The platform of the cluster: versions of Kubernetes, Karpenter and KEDA, EKS or not, the region.

use std::collections::BTreeMap;

use crate::facts::timezone::Zone;

/// A minor version: `1.14`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl Version {
    pub const fn new(major: u32, minor: u32) -> Version {
        Version { major, minor }
    }

    /// Parses `1.14`, `v1.14` or `1.14.1`; the patch version is ignored.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let number = |part: Option<&str>| part?.parse::<u32>().ok();
        let version = Version::new(number(parts.next())?, number(parts.next())?);
        match parts.next() {
            None => Some(version),
            patch => number(patch).filter(|_| parts.next().is_none()).map(|_| version),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A release: major, minor, patch.
pub type Release = [u32; 3];

/// The release with which a version or the tag of an image begins: `v0.5.3`, `0.5.3-eksbuild.1`, `v0.5.5.post1-cu126`. `None` for a
/// range, and for a build before a release, such as `v0.18.0rc1`.
pub fn release_of(text: &str) -> Option<Release> {
    let numbers = text.strip_prefix('v').unwrap_or(text).split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// The versions of a product that have something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionRange {
    /// The first version. `None` if the oldest supported one has it.
    pub since: Option<Version>,
    /// The last version. `None` if the newest supported one has it.
    pub until: Option<Version>,
}

impl VersionRange {
    /// Reads two cells of a table; `-` is no bound. `None` if one is neither that nor a version.
    pub fn parse(since: &str, until: &str) -> Option<VersionRange> {
        let bound = |text: &str| match text {
            "-" => Some(None),
            text => Version::parse(text).map(Some),
        };
        Some(VersionRange { since: bound(since)?, until: bound(until)? })
    }

    /// Whether a version is in the range.
    pub fn contains(self, version: Version) -> bool {
        self.since.is_none_or(|since| since <= version) && self.until.is_none_or(|until| version <= until)
    }
}

/// A product that has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// Karpenter with the AWS provider.
    Karpenter,
    Keda,
    Kubernetes,
}

impl Product {
    pub const ALL: [Product; 3] = [Product::Karpenter, Product::Keda, Product::Kubernetes];

    /// Name of the setting for the version.
    pub fn setting(self) -> &'static str {
        match self {
            Product::Karpenter => "platform.karpenter",
            Product::Keda => "platform.keda",
            Product::Kubernetes => "platform.kubernetes",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Product::Karpenter => "Karpenter",
            Product::Keda => "KEDA",
            Product::Kubernetes => "Kubernetes",
        }
    }

    /// A note on a version that is newer than gpulint knows.
    ///
    /// # Errors
    /// gpulint knows nothing of its major version.
    pub fn note_on(self, version: Version) -> Result<Option<String>, String> {
        let (name, first, last) = (self.name(), self.oldest(), self.newest());
        if version.major != last.major {
            return Err(format!("gpulint knows {name} {first} to {last}, not {version}"));
        }
        let newer = version > last;
        Ok(newer.then(|| format!("{name} {version} is judged as {last}, the newest that gpulint knows")))
    }

    /// The versions that gpulint knows, of one major version: the oldest and the newest that it supports, and the one that
    /// is the default. For Kubernetes the default is the newest version that Amazon EKS documents
    /// (<https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html>, read 2026-11-26).
    const fn versions(self) -> [Version; 3] {
        match self {
            Product::Karpenter => [Version::new(1, 0), Version::new(1, 15), Version::new(1, 15)],
            Product::Keda => [Version::new(2, 14), Version::new(2, 21), Version::new(2, 21)],
            Product::Kubernetes => [Version::new(1, 32), Version::new(1, 37), Version::new(1, 36)],
        }
    }

    /// The oldest minor version that is supported.
    pub const fn oldest(self) -> Version {
        self.versions()[0]
    }

    /// The newest supported version. Its schemas are those that objects are checked against.
    pub const fn newest(self) -> Version {
        self.versions()[1]
    }

    /// The version that is assumed if none is stated.
    const fn default_version(self) -> Version {
        self.versions()[2]
    }

    /// The product whose version determines the kinds of an API group. `None` for EKS Auto Mode, which has no
    /// versions.
    pub fn of_group(group: &str) -> Option<Product> {
        match group {
            "karpenter.sh" | "karpenter.k8s.aws" => Some(Product::Karpenter),
            "eks.amazonaws.com" => None,
            "keda.sh" | "keda.k8s.io" => Some(Product::Keda),
            _ => Some(Product::Kubernetes),
        }
    }

    pub fn supported(self) -> impl Iterator<Item = Version> {
        let (first, last) = (self.oldest(), self.newest());
        (first.minor..=last.minor).map(move |minor| Version::new(last.major, minor))
    }
}

/// The minor version of KEDA 2, and the first and last minor version of Kubernetes 1 that it is tested with:
/// <https://keda.sh/docs/2.21/operate/cluster/>, of 2026-11.
const KEDA_IS_TESTED_WITH: [(u32, u32, u32); 8] = [
    (14, 27, 29),
    (15, 28, 30),
    (16, 29, 31),
    (17, 30, 32),
    (18, 31, 33),
    (19, 32, 34),
    (20, 33, 35),
    (21, 34, 36),
];

/// The version of Kubernetes whose pod fields the newest supported version of KEDA has in its CRDs: that of `k8s.io/api` in
/// its `go.mod`.
pub const KEDA_POD_FIELDS: Version = Version::new(1, 36);

/// What Karpenter does if too few types remain for `minValues`: its setting `MIN_VALUES_POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// It starts no node, as by default.
    Strict,
    /// It starts a node all the same.
    BestEffort,
}

impl MinValuesPolicy {
    pub const ALL: [MinValuesPolicy; 2] = [MinValuesPolicy::Strict, MinValuesPolicy::BestEffort];

    /// The name in Karpenter's settings.
    pub fn name(self) -> &'static str {
        match self {
            MinValuesPolicy::Strict => "Strict",
            MinValuesPolicy::BestEffort => "BestEffort",
        }
    }

    /// Parses the name in Karpenter's settings.
    pub fn parse(text: &str) -> Option<MinValuesPolicy> {
        MinValuesPolicy::ALL.into_iter().find(|policy| policy.name() == text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    pub karpenter: Version,
    pub keda: Version,
    pub kubernetes: Version,
    /// The products whose version is set by the configuration or a flag.
    pub stated: Vec<Product>,
    pub eks: bool,
    /// The AWS region, if known.
    pub region: Option<String>,
    /// The IANA name of the local time zone of the users, if set.
    pub timezone: Option<String>,
    /// The feature gates of Karpenter that are stated, by name, and whether each is on.
    pub feature_gates: BTreeMap<String, bool>,
    /// Karpenter's policy for `minValues`, if stated.
    pub min_values_policy: Option<MinValuesPolicy>,
}

impl Platform {
    pub fn version(&self, product: Product) -> Version {
        match product {
            Product::Karpenter => self.karpenter,
            Product::Keda => self.keda,
            Product::Kubernetes => self.kubernetes,
        }
    }

    /// The version of a product, to be changed.
    pub fn version_mut(&mut self, product: Product) -> &mut Version {
        match product {
            Product::Karpenter => &mut self.karpenter,
            Product::Keda => &mut self.keda,
            Product::Kubernetes => &mut self.kubernetes,
        }
    }

    /// Sets the version of a product, and marks it as stated.
    pub fn state(&mut self, product: Product, version: Version) {
        *self.version_mut(product) = version;
        if !self.is_stated(product) {
            self.stated.push(product);
        }
    }

    /// Whether the version of a product was set.
    pub fn is_stated(&self, product: Product) -> bool {
        self.stated.contains(&product)
    }

    /// A clause on the version of a product: `this is 1.14` where the version is stated, otherwise `1.14 is assumed`.
    pub fn version_clause(&self, product: Product, version: Version) -> String {
        if self.is_stated(product) { format!("this is {version}") } else { format!("{version} is assumed") }
    }

    /// Marks all versions as stated.
    pub fn with_all_stated(self) -> Platform {
        Platform { stated: Product::ALL.to_vec(), ..self }
    }

    /// Notes on stated versions that do not go together. KEDA names the versions of Kubernetes that it is tested with, and
    /// refuses no other.
    pub fn notes(&self) -> Vec<String> {
        let stated = [Product::Keda, Product::Kubernetes].into_iter().all(|product| self.is_stated(product));
        let tested = KEDA_IS_TESTED_WITH.iter().find(|(keda, ..)| stated && *keda == self.keda.minor);
        let other = tested.filter(|(_, from, to)| !(*from..=*to).contains(&self.kubernetes.minor));
        let note = other.map(|(_, from, to)| {
            let (keda, kubernetes) = (self.keda, self.kubernetes);
            format!("KEDA {keda} is tested with Kubernetes 1.{from} to 1.{to}, not with {kubernetes}")
        });
        note.into_iter().collect()
    }

    /// The local time zone of the users, if it is set and known.
    pub fn zone(&self) -> Option<Zone> {
        self.timezone.as_deref().and_then(Zone::find)
    }
}

impl Default for Platform {
    /// The default versions, on EKS.
    fn default() -> Platform {
        Platform {
            karpenter: Product::Karpenter.default_version(),
            keda: Product::Keda.default_version(),
            kubernetes: Product::Kubernetes.default_version(),
            stated: Vec::new(),
            eks: true,
            region: None,
            timezone: None,
            feature_gates: BTreeMap::new(),
            min_values_policy: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEDA_IS_TESTED_WITH, Platform, Product, Version, release_of};

    #[test]
    fn a_version_begins_with_a_release() {
        for (text, release) in [
            ("1.8.2", Some([1, 8, 2])),
            ("v0.5.3-eksbuild.1", Some([0, 5, 3])),
            ("0.5.3+up1", Some([0, 5, 3])),
            ("v0.5.5.post1-cu126", Some([0, 5, 5])),
            ("v0.18.0rc1", None),
            ("1.8", None),
            ("~1.8.2", None),
            ("1.8.x", None),
            ("latest", None),
        ] {
            assert_eq!(release_of(text), release, "{text}");
        }
    }

    #[test]
    fn stated_versions_that_are_not_tested_together_are_noted() {
        let notes = |keda, kubernetes: Option<u32>| {
            let mut platform = Platform::default();
            platform.state(Product::Keda, Version::new(2, keda));
            if let Some(minor) = kubernetes {
                platform.state(Product::Kubernetes, Version::new(1, minor));
            }
            platform.notes()
        };
        assert_eq!(notes(18, Some(34)), ["KEDA 2.18 is tested with Kubernetes 1.31 to 1.33, not with 1.34"]);
        assert!(
            notes(19, Some(34)).is_empty() && notes(18, None).is_empty() && notes(30, Some(34)).is_empty()
        );
        let known: Vec<u32> = Product::Keda.supported().map(|version| version.minor).collect();
        assert_eq!(KEDA_IS_TESTED_WITH.map(|(keda, ..)| keda).to_vec(), known);
    }
}
