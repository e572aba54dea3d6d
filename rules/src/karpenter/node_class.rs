//! Typed access to an EC2NodeClass of `karpenter.k8s.aws/v1`.

use crate::karpenter::scheduling::AmiFamily;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::scalar::Scalar;

/// The families that an AMI alias can name, with the `amiFamily` of each:
/// <https://karpenter.sh/docs/concepts/nodeclasses/#specamifamily>.
pub(crate) const AMI_FAMILIES: [(&str, &str); 6] = [
    ("al2", "AL2"),
    ("al2023", "AL2023"),
    ("bottlerocket", "Bottlerocket"),
    ("windows2019", "Windows2019"),
    ("windows2022", "Windows2022"),
    ("windows2025", "Windows2025"),
];

/// The signals that `spec.kubelet.eviction*` can name:
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#eviction-signals>.
pub(crate) const EVICTION_SIGNALS: [&str; 6] = [
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// The resources that `spec.kubelet.kubeReserved` and `systemReserved` can name.
pub(crate) const RESERVABLE_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

#[derive(Clone, Debug)]
pub struct Ec2NodeClass<'a> {
    object: &'a Object,
}

impl<'a> Ec2NodeClass<'a> {
    /// Returns a view of the object, or `None` if it is not a v1 EC2NodeClass.
    pub(crate) fn new(object: &'a Object) -> Option<Ec2NodeClass<'a>> {
        let fits = object.is(Kind::EC2_NODE_CLASS) && object.version() == "v1";
        fits.then_some(Ec2NodeClass { object })
    }

    pub(crate) fn object(&self) -> &'a Object {
        self.object
    }

    pub(crate) fn spec(&self) -> Node<'a> {
        self.object.get("spec")
    }

    /// A field of `spec`.
    pub(crate) fn get(&self, name: &str) -> Node<'a> {
        self.spec().get(name)
    }

    /// The AMI family that decides about devices and user data: `amiFamily`, otherwise the family of the
    /// alias. `None` if a placeholder decides or neither is set.
    pub(crate) fn family(&self) -> Option<AmiFamily> {
        self.family_text().map(AmiFamily::parse)
    }

    /// The family of [`Self::family`] as it is written: with the version of an alias.
    pub(crate) fn family_text(&self) -> Option<&'a str> {
        let family = self.get("amiFamily");
        if family.is_set() {
            return family.text();
        }
        let terms = self.get("amiSelectorTerms");
        if terms.is_unknown() || !terms.is_set() {
            return None;
        }
        for term in terms.items() {
            let alias = term.get("alias");
            if alias.is_set() || term.is_unknown() {
                return alias.text();
            }
        }
        Some("Custom")
    }

    /// The alias of an AMI term. `None` if there is none, or if it is a placeholder.
    pub(crate) fn alias(&self) -> Option<Node<'a>> {
        let terms = self.get("amiSelectorTerms");
        let alias = terms.items().map(|t| t.get("alias"));
        alias.into_iter().find(|a| a.text().is_some())
    }

    /// Whether local disks are combined into one volume for images and pods. `None` if this is not known.
    pub(crate) fn raid0(&self) -> Option<bool> {
        let policy = self.get("instanceStorePolicy");
        if policy.is_set() { policy.text().map(|policy| policy == "RAID0") } else { Some(false) }
    }

    /// Whether the configuration of nodeadm in user data joins the local disks for images and pods.
    pub(crate) fn is_joined_by_nodeadm(&self) -> bool {
        self.family() == Some(AmiFamily::Al2023) && self.user_data().is_some_and(joins_local_disks)
    }

    /// The volume for images and pods of a node that has no local disks in use for them.
    pub(crate) fn pod_volume(&self) -> PodVolume<'a> {
        let list = self.get("blockDeviceMappings");
        let Some(family) = self.family().filter(|_| !list.has_unknown()) else {
            return PodVolume::Unknown;
        };
        let mappings: Vec<Node<'a>> = self.block_devices().collect();
        if mappings.is_empty() {
            return match (family, list.is_set()) {
                (AmiFamily::Custom, _) | (_, true) => PodVolume::Unknown,
                (AmiFamily::Windows, _) => PodVolume::Default(50),
                _ => PodVolume::Default(20),
            };
        }
        let root = |m: &&Node<'a>| m.get("rootVolume").bool() == Some(true);
        let device = |m: &&Node<'a>| m.get("deviceName").text() == Some(family.pod_device());
        let found = match family {
            AmiFamily::Custom => mappings.iter().find(root).or(mappings.last()),
            // The image decides, whichever mapping Karpenter takes for the root volume.
            AmiFamily::Bottlerocket => mappings.iter().find(device),
            _ => mappings.iter().find(root).or(mappings.iter().find(device)),
        };
        match found {
            Some(mapping) => PodVolume::Mapped(mapping.get("ebs")),
            None => PodVolume::Unknown,
        }
    }

    /// The user data as written. Text that looks like a placeholder is shell syntax there.
    pub(crate) fn user_data(&self) -> Option<&'a str> {
        match self.get("userData").scalar() {
            Some(Scalar::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// The entries of `blockDeviceMappings` that are mappings.
    pub(crate) fn block_devices(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.get("blockDeviceMappings").items().filter(Node::is_mapping)
    }
}

/// The volume that a node stores images and pods on.
#[derive(Clone, Debug)]
pub(crate) enum PodVolume<'a> {
    /// The mapping that Karpenter adds if there is none, with this size in GiB.
    Default(u64),
    Mapped(Node<'a>),
    /// The AMI or a placeholder decides.
    Unknown,
}

/// Parses the size of a volume as the CRD accepts it: an integer with the unit `Gi`, `G`, `Ti` or `T`, within
/// the limits of EBS. In GiB, rounded down. `None` if the API server rejects the text.
pub(crate) fn volume_gib(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.starts_with('0') {
        return None;
    }
    // The pattern of the CRD also matches a unit without a number; the size is then 0.
    if number.is_empty() {
        return matches!(unit, "Ti" | "T").then_some(0);
    }
    let n: u64 = number.parse().ok()?;
    let decimal = |power: u32| n * 10_u64.pow(power) / (1 << 30);
    match unit {
        "Gi" if n <= 59_000 => Some(n),
        "G" if n <= 64_000 => Some(decimal(9)),
        // A mistake in the pattern of the CRD: a two-digit number of tebibytes matches only if its second
        // digit is 0 to 7.
        "Ti" if n <= 9 || n == 58 || (n <= 57 && n % 10 <= 7) => Some(n * 1024),
        "T" if n <= 64 => Some(decimal(12)),
        _ => None,
    }
}

/// The intended size of a rejected text, in a form that the CRD accepts. `None` if it is ambiguous.
pub(crate) fn suggest_volume(text: &str) -> Option<String> {
    if volume_gib(text).is_some() {
        return None;
    }
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let end = compact.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
    let (number, unit) = compact.split_at(end);
    let (number, unit): (f64, _) = (number.parse().ok()?, unit.to_ascii_lowercase());
    // In MiB, where every possible value is exact as a float.
    let mib = match unit.as_str() {
        "mi" | "mib" => number,
        "gi" | "gib" => number * 1024.0,
        "ti" | "tib" => number * 1024.0 * 1024.0,
        _ => return None,
    };
    let gib = mib / 1024.0;
    if gib < 1.0 || gib.fract() != 0.0 || gib > 59_000.0 {
        return None;
    }
    Some(format!("{gib}Gi"))
}

/// Whether a NodeConfig of nodeadm joins the local disks for images and pods, in block or flow style:
/// <https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/#localstorageoptions>.
pub(crate) fn joins_local_disks(user_data: &str) -> bool {
    let is_syntax = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | '"' | '\'');
    let lines = user_data.lines().filter(|line| !line.trim_start().starts_with('#'));
    let plain: String = lines.flat_map(str::chars).filter(|c| !is_syntax(*c)).collect();
    plain.contains("localStorage:strategy:RAID0") || plain.contains("localStorage:strategy:RAID10")
}
