//! What the cluster runs on: the versions of Kubernetes, Karpenter and KEDA, EKS or not, the region.

use crate::facts::timezone::Zone;

/// A minor version: `1.14`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major part.
    pub major: u32,
    /// The minor part.
    pub minor: u32,
}

impl Version {
    /// A version from its parts.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Version {
        Version { major, minor }
    }

    /// Reads `1.14`, `v1.14` or `1.14.1`; the patch does not count.
    #[must_use]
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

/// What the cluster runs on.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Karpenter's minor version.
    pub karpenter: Version,
    /// KEDA's minor version.
    pub keda: Version,
    /// Kubernetes' minor version.
    pub kubernetes: Version,
    /// Whether the API server is EKS's.
    pub eks: bool,
    /// The AWS region, where known.
    pub region: Option<String>,
    /// The IANA time zone people think in, where set.
    pub timezone: Option<String>,
}

impl Platform {
    /// The time zone people think in, where it is set and known.
    #[must_use]
    pub fn zone(&self) -> Option<Zone> {
        self.timezone.as_deref().and_then(Zone::find)
    }
}

impl Default for Platform {
    /// The newest minors that this version of gpulint knows, on EKS.
    fn default() -> Platform {
        Platform {
            karpenter: Version::new(1, 14),
            keda: Version::new(2, 20),
            kubernetes: Version::new(1, 34),
            eks: true,
            region: None,
            timezone: None,
        }
    }
}
