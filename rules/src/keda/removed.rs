//! Metadata keys and trigger types that KEDA no longer reads, with the version and the replacement.

use crate::platform::Version;

#[derive(Debug)]
pub(crate) struct RemovedKey {
    pub key: &'static str,
    /// The trigger types that read it before; empty if all types did.
    pub trigger_types: &'static [&'static str],
    /// The first version that ignores it, which may be a future version.
    pub since: Version,
    /// What to use instead.
    pub replacement: &'static str,
}

/// Keys that scalers ignore or will ignore. Keys that a version of a scaler rejects are in `scalers.txt`. A
/// key that a scaler still reads is not reported for that scaler.
pub(crate) const REMOVED_KEYS: &[RemovedKey] = &[
    RemovedKey {
        key: "metricName",
        trigger_types: &[],
        since: Version::new(2, 12),
        replacement: "remove it: KEDA names the metric itself, and `name` names the trigger",
    },
    RemovedKey {
        key: "cortexOrgID",
        trigger_types: &["prometheus"],
        since: Version::new(2, 15),
        replacement: "write `customHeaders: X-Scope-OrgID=…`",
    },
    RemovedKey {
        key: "tls",
        trigger_types: &["ibmmq"],
        since: Version::new(2, 18),
        replacement: "write `unsafeSsl`",
    },
    RemovedKey {
        key: "tlsCertFile",
        trigger_types: &["external", "external-push"],
        since: Version::new(2, 17),
        replacement: "give `caCert` in a TriggerAuthentication",
    },
];

/// Trigger types that were removed: name, first version without it, replacement.
pub(crate) const REMOVED_TYPES: &[(&str, Version, &str)] = &[("stan", Version::new(2, 19), "nats-jetstream")];

/// The entry of a key that this trigger type no longer reads.
pub(crate) fn removed_key(kind: &str, key: &str) -> Option<&'static RemovedKey> {
    REMOVED_KEYS
        .iter()
        .find(|old| old.key == key && (old.trigger_types.is_empty() || old.trigger_types.contains(&kind)))
}

/// The entry of a removed trigger type.
pub(crate) fn removed_type(kind: &str) -> Option<(Version, &'static str)> {
    REMOVED_TYPES.iter().find(|(name, _, _)| *name == kind).map(|(_, version, instead)| (*version, *instead))
}
