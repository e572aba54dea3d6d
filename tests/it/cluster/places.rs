//! Places that the API server names in words of its own, and errors that only echo another one.
//!
//! Its validation of core kinds passes paths along by hand, and here and there a step is left out or spelled as Go
//! spells it; and where one part of a pod is wrong, what refers to it is blamed as well. Neither says anything about where the
//! manifest is wrong, so both are put right before places are compared.

use std::sync::LazyLock;

use regex::Regex;

/// What the server writes, and what a manifest writes.
const SPELLINGS: &[(&str, &str)] = &[
    (r"template\.(labels|annotations)$", "template.metadata.$1"),
    (r"\.volumeMounts\.(subPath|subPathExpr|mountPropagation|recursiveReadOnly)$", ".volumeMounts"),
    (r"\.downwardAPI\.(fieldRef|resourceFieldRef|path|mode)(\..*)?$", ".downwardAPI"),
    (r"\.projected\.path$", ".projected"),
    (r"^metadata\.ownerReferences\..*$", "metadata.ownerReferences"),
    // What lacks its limit is the request.
    (r"\.resources\.limits$", ".resources"),
    // The quantity stands under `requests`.
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
    // The server writes this list itself, from `clusterIP`.
    (r"^spec\.clusterIPs(\[0\])?$", "spec"),
    (r"\.Host(PID|IPC)$", ".host$1"),
];

/// A place as a manifest spells it.
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

/// The place of a volume of a StatefulSet's pod: the server puts one for each template of a claim before those that are written.
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

/// Whether an error says no more than another one of the same answer: `all` are the places of all of them.
pub(crate) fn is_echo(path: &str, message: &str, all: &[&str]) -> bool {
    let beside = |from: &str, to: &str| {
        let other = path.replacen(from, to, 1);
        other != path && all.contains(&other.as_str())
    };
    // A volume that is wrong counts as none, so every mount of it is wrong too.
    if message.starts_with("Not found") && path.contains(".volumeMounts[") {
        return all.iter().any(|p| p.contains(".volumes["));
    }
    // The request of a resource is written from its limit.
    beside(".resources.requests[", ".resources.limits[")
        // Without a selector no labels are selected.
        || beside(".template.metadata.labels", ".selector")
        || beside(".succeededCount", ".succeededIndexes")
        // A request that is wrong is none that a constraint could name.
        || (message.contains("must be the name of a request")
            && all.iter().any(|p| p.contains(".devices.requests[")))
        // A claim's name is made of the pod's.
        || (message.contains("PVC name") && all.contains(&"metadata.name"))
        || beside(".minDomains", ".whenUnsatisfiable")
        // A port that is not written is written from the Service's.
        || beside(".targetPort", ".port")
        || beside("spec.metrics", "spec.minReplicas")
        // A Job's name becomes a label of its pods, and their labels become the Job's.
        || (matches!(path, "spec.template.labels" | "metadata.labels") && all.contains(&"metadata.name"))
        || beside("metadata.labels", "spec.template.labels")
        // A volume is mounted and a device: both places are named, and one is enough.
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
