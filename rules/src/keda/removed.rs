//! What KEDA once read in a trigger and no longer does, with the version and what to write now.

use crate::platform::Version;

/// A metadata key of the past.
#[derive(Debug)]
pub struct RemovedKey {
    /// The key.
    pub key: &'static str,
    /// The trigger types that read it once; empty where all did.
    pub trigger_types: &'static [&'static str],
    /// Since when it is ignored, or will be.
    pub since: Version,
    /// The versions that refuse the trigger over it: from, and before.
    pub rejected_between: Option<(Version, Version)>,
    /// What to write instead.
    pub replacement: &'static str,
}

/// Keys that scalers ignore or will ignore. Those that a scaler refuses for good stand in its own
/// table, and a key that a scaler still reads is not one of these for it.
pub const REMOVED_KEYS: &[RemovedKey] = &[
    RemovedKey {
        key: "metricName",
        trigger_types: &[],
        since: Version::new(2, 12),
        rejected_between: None,
        replacement: "remove it: KEDA names the metric itself, and `name` names the trigger",
    },
    RemovedKey {
        key: "cortexOrgID",
        trigger_types: &["prometheus"],
        since: Version::new(2, 15),
        rejected_between: None,
        replacement: "write `customHeaders: X-Scope-OrgID=…`",
    },
    RemovedKey {
        key: "tls",
        trigger_types: &["ibmmq"],
        since: Version::new(2, 18),
        rejected_between: Some((Version::new(2, 18), Version::new(2, 20))),
        replacement: "write `unsafeSsl`",
    },
    RemovedKey {
        key: "tlsCertFile",
        trigger_types: &["external", "external-push"],
        since: Version::new(2, 17),
        rejected_between: None,
        replacement: "give `caCert` in a TriggerAuthentication",
    },
    RemovedKey {
        key: "buildId",
        trigger_types: &["temporal"],
        since: Version::new(2, 21),
        rejected_between: None,
        replacement: "write `workerDeploymentName` and `workerDeploymentBuildId`",
    },
    RemovedKey {
        key: "selectAllActive",
        trigger_types: &["temporal"],
        since: Version::new(2, 21),
        rejected_between: None,
        replacement: "remove it, or write `workerDeploymentName` and `workerDeploymentBuildId`",
    },
    RemovedKey {
        key: "selectUnversioned",
        trigger_types: &["temporal"],
        since: Version::new(2, 21),
        rejected_between: None,
        replacement: "remove it, or write `workerDeploymentName` and `workerDeploymentBuildId`",
    },
];

/// Trigger types of the past: name, the version without it, what to use.
pub const REMOVED_TYPES: &[(&str, Version, &str)] = &[("stan", Version::new(2, 19), "nats-jetstream")];

/// The entry of a key that a trigger of this type may still carry.
#[must_use]
pub fn removed_key(kind: &str, key: &str) -> Option<&'static RemovedKey> {
    REMOVED_KEYS
        .iter()
        .find(|old| old.key == key && (old.trigger_types.is_empty() || old.trigger_types.contains(&kind)))
}

/// The entry of a trigger type.
#[must_use]
pub fn removed_type(kind: &str) -> Option<(Version, &'static str)> {
    REMOVED_TYPES.iter().find(|(name, _, _)| *name == kind).map(|(_, version, instead)| (*version, *instead))
}
