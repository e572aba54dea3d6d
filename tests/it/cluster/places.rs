//! Paths that the API server spells differently, and errors that only repeat another one.
//!
//! The validation of core kinds passes paths along by hand, and in some cases a step is missing or spelled as
//! in Go. If one part of a pod is invalid, references to it are reported as well. Neither is an error in the
//! location of a finding, so both are corrected before locations are compared.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns of the server's spelling, and the spelling in a manifest.
const SPELLINGS: &[(&str, &str)] = &[
    (r"template\.(labels|annotations)$", "template.metadata.$1"),
    (r"\.volumeMounts\.(subPath|subPathExpr|mountPropagation|recursiveReadOnly)$", ".volumeMounts"),
    (r"\.downwardAPI\.(fieldRef|resourceFieldRef|path|mode)(\..*)?$", ".downwardAPI"),
    (r"\.projected\.path$", ".projected"),
    (r"^metadata\.ownerReferences\..*$", "metadata.ownerReferences"),
    // The limit is missing for the request.
    (r"\.resources\.limits$", ".resources"),
    // The quantity is under `requests`.
    (r"\.resources\[storage\]$", ".resources"),
    (r"Execution(\[\d+\](\.podAffinityTerm)?)\.namespace$", "Execution$1.namespaces"),
    (
        r"((?:\.topologySpreadConstraints|Execution)\[\d+\](?:\.podAffinityTerm)?)\[(\d+)\]$",
        "$1.matchLabelKeys[$2]",
    ),
    (r"\.topologySpreadConstraints\[\d+\]\.\{.*\}$", ".topologySpreadConstraints"),
    (r"\.resources\.containers\[(\d+)\]\[(.+)\]\.limits$", ".containers[$1].resources.limits[$2]"),
    (r"\.securityContext\.shareProcessNamespace$", ".shareProcessNamespace"),
    (r"^spec\.LoadBalancerSourceRanges", "spec.loadBalancerSourceRanges"),
    // The server fills in this list from `clusterIP`.
    (r"^spec\.clusterIPs(\[0\])?$", "spec"),
    (r"\.Host(PID|IPC)$", ".host$1"),
];

/// A path in the spelling of a manifest.
pub(crate) fn as_written(path: &str) -> String {
    static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        SPELLINGS.iter().map(|(server, manifest)| (Regex::new(server).unwrap(), *manifest)).collect()
    });
    let mut path = path.to_owned();
    for (server, manifest) in COMPILED.iter() {
        path = server.replace(&path, *manifest).into_owned();
    }
    path
}

/// The path of a volume of a StatefulSet's pod: the server puts one for each claim template before the
/// written ones.
pub(crate) fn of_template(path: &str, templates: usize) -> String {
    static VOLUME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^spec\.template\.spec\.volumes\[(\d+)\](.*)$").unwrap());
    let volume = VOLUME.captures(path).and_then(|c| Some((c[1].parse::<usize>().ok()?, c[2].to_owned())));
    match volume {
        Some((number, _)) if number < templates => format!("spec.volumeClaimTemplates[{number}]"),
        Some((number, rest)) => {
            format!("spec.template.spec.volumes[{}]{rest}", number - templates)
        }
        None => path.to_owned(),
    }
}

/// Whether an error only repeats another one of the same answer: `all` are the paths of all errors.
pub(crate) fn is_echo(path: &str, message: &str, all: &[&str]) -> bool {
    let beside = |from: &str, to: &str| {
        let other = path.replacen(from, to, 1);
        other != path && all.contains(&other.as_str())
    };
    // An invalid volume is treated as missing, so that every mount of it is an error too.
    if message.starts_with("Not found") && path.contains(".volumeMounts[") {
        return all.iter().any(|p| p.contains(".volumes["));
    }
    // The server fills in the request of a resource from its limit.
    beside(".resources.requests[", ".resources.limits[")
        // Without a selector, no labels match.
        || beside(".template.metadata.labels", ".selector")
        || beside(".succeededCount", ".succeededIndexes")
        // A constraint cannot refer to an invalid request.
        || (message.contains("must be the name of a request")
            && all.iter().any(|p| p.contains(".devices.requests[")))
        // The name of a claim is derived from that of the pod.
        || (message.contains("PVC name") && all.contains(&"metadata.name"))
        || beside(".minDomains", ".whenUnsatisfiable")
        // A target port that is not set is filled in from the port of the Service.
        || beside(".targetPort", ".port")
        || beside("spec.metrics", "spec.minReplicas")
        // The name of a Job becomes a label of its pods, and their labels become those of the Job.
        || (matches!(path, "spec.template.labels" | "metadata.labels") && all.contains(&"metadata.name"))
        || beside("metadata.labels", "spec.template.labels")
        // A volume is both mounted and a device: both paths are reported, and one finding is enough.
        || (message.contains("in volumeDevices") && all.iter().any(|p| p.contains(".volumeDevices[")))
}

#[test]
fn places_are_spelled_as_manifests_spell_them() {
    for (server, manifest) in [
        ("spec.template.labels", "spec.template.metadata.labels"),
        ("spec.containers[0].name", "spec.containers[0].name"),
        ("spec.resources.containers[1][memory].limits", "spec.containers[1].resources.limits[memory]"),
        ("spec.clusterIPs[0]", "spec"),
    ] {
        assert_eq!(as_written(server), manifest);
    }
    for (server, written) in [
        ("spec.template.spec.volumes[1].name", "spec.template.spec.volumes[0].name"),
        ("spec.template.spec.volumes[0].name", "spec.volumeClaimTemplates[0]"),
        ("spec.replicas", "spec.replicas"),
    ] {
        assert_eq!(of_template(server, 1), written);
    }
    let all = ["spec.selector", "spec.template.metadata.labels"];
    assert!(is_echo(all[1], "Invalid value", &all));
    assert!(!is_echo(all[1], "Invalid value", &all[1..]));
}
