//! What KEDA once read in a trigger and no longer does, with the version and what to write now.

use crate::platform::Version;

/// A metadata key of the past.
#[derive(Debug)]
pub struct OldKey {
    /// The key.
    pub key: &'static str,
    /// The trigger types that read it once; empty where all did.
    pub of: &'static [&'static str],
    /// Since when it is ignored, or will be.
    pub since: Version,
    /// The versions that refuse the trigger over it: from, and before.
    pub refused: Option<(Version, Version)>,
    /// What to write instead.
    pub instead: &'static str,
}

/// Keys that scalers ignore or will ignore. Those that a scaler refuses for good stand in its own
/// table, and a key that a scaler still reads is not one of these for it.
pub const OLD_KEYS: &[OldKey] = &[
    OldKey {
        key: "metricName",
        of: &[],
        since: Version::new(2, 12),
        refused: None,
        instead: "remove it: KEDA names the metric itself, and `name` names the trigger",
    },
    OldKey {
        key: "cortexOrgID",
        of: &["prometheus"],
        since: Version::new(2, 15),
        refused: None,
        instead: "write `customHeaders: X-Scope-OrgID=…`",
    },
    OldKey {
        key: "tls",
        of: &["ibmmq"],
        since: Version::new(2, 18),
        refused: Some((Version::new(2, 18), Version::new(2, 20))),
        instead: "write `unsafeSsl`",
    },
    OldKey {
        key: "tlsCertFile",
        of: &["external", "external-push"],
        since: Version::new(2, 17),
        refused: None,
        instead: "give `caCert` in a TriggerAuthentication",
    },
    OldKey {
        key: "buildId",
        of: &["temporal"],
        since: Version::new(2, 21),
        refused: None,
        instead: "write `workerDeploymentName` and `workerDeploymentBuildId`",
    },
    OldKey {
        key: "selectAllActive",
        of: &["temporal"],
        since: Version::new(2, 21),
        refused: None,
        instead: "remove it, or write `workerDeploymentName` and `workerDeploymentBuildId`",
    },
    OldKey {
        key: "selectUnversioned",
        of: &["temporal"],
        since: Version::new(2, 21),
        refused: None,
        instead: "remove it, or write `workerDeploymentName` and `workerDeploymentBuildId`",
    },
];

/// Trigger types of the past: name, the version without it, what to use.
pub const OLD_TYPES: &[(&str, Version, &str)] = &[("stan", Version::new(2, 19), "nats-jetstream")];

/// The entry of a key that a trigger of this type may still carry.
#[must_use]
pub fn old_key(kind: &str, key: &str) -> Option<&'static OldKey> {
    OLD_KEYS.iter().find(|old| old.key == key && (old.of.is_empty() || old.of.contains(&kind)))
}

/// The entry of a trigger type.
#[must_use]
pub fn old_type(kind: &str) -> Option<(Version, &'static str)> {
    OLD_TYPES.iter().find(|(name, _, _)| *name == kind).map(|(_, version, instead)| (*version, *instead))
}
