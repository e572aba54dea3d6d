//! An AMI name pattern matches images of several Kubernetes versions.
//!
//! # Why
//! Karpenter takes the newest image that a `name` matches, whatever Kubernetes version it was built
//! for. EKS publishes images for all its versions on one day, and those of a new version before the
//! cluster is upgraded: a kubelet that is newer than the API server is not supported and may not join,
//! and one that is too old comes as easily. An alias picks the image of the cluster's own version.
//!
//! # Fix
//! Write the version of the control plane into the name, or select by an alias, such as
//! `al2023@v20260810`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    amiFamily: AL2023
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - owner: amazon
//! -      name: amazon-eks-node-al2023-x86_64-nvidia-* # <-
//! +      name: amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260810
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>
//! - <https://kubernetes.io/releases/version-skew-policy/#kubelet>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-name-spans-versions",
    docs: docs(include_str!("ami_name_spans_versions.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// Names of the public images for EKS, with `VERSION` for the Kubernetes version. Publishers append different suffixes:
/// <https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-versions-al2023.html>.
const NAMES: [&str; 14] = [
    "amazon-eks-node-VERSION-v20250807",
    "amazon-eks-gpu-node-VERSION-v20250807",
    "amazon-eks-arm64-node-VERSION-v20250807",
    "amazon-eks-node-al2023-x86_64-standard-VERSION-v20250807",
    "amazon-eks-node-al2023-arm64-standard-VERSION-v20250807",
    "amazon-eks-node-al2023-x86_64-nvidia-VERSION-v20250807",
    "amazon-eks-node-al2023-arm64-nvidia-VERSION-v20250807",
    "amazon-eks-node-al2023-x86_64-neuron-VERSION-v20250807",
    "bottlerocket-aws-k8s-VERSION-x86_64-v1.44.0-0123abcd",
    "bottlerocket-aws-k8s-VERSION-aarch64-v1.44.0-0123abcd",
    "bottlerocket-aws-k8s-VERSION-nvidia-x86_64-v1.44.0-0123abcd",
    "bottlerocket-aws-k8s-VERSION-nvidia-aarch64-v1.44.0-0123abcd",
    "ubuntu-eks/k8s_VERSION/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20250807",
    "Windows_Server-2022-English-Core-EKS_Optimized-VERSION-2025.08.07",
];

/// The publishers of these images: Amazon by its alias, EKS, Bottlerocket and Canonical.
const PUBLISHERS: [&str; 4] = ["amazon", "602401143452", "092701018921", "099720109477"];

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for term in class.get("amiSelectorTerms").items() {
        let node = term.get("name");
        let owner = term.get("owner");
        // Images of the own account may have any names, and public images have no tags that others can select.
        let public = !owner.is_set() || owner.string_or_number().is_some_and(|o| PUBLISHERS.contains(&&*o));
        let Some(pattern) = node.text().filter(|_| public && !term.get("tags").is_set()) else {
            continue;
        };
        let Some((first, second)) = versions(pattern) else {
            continue;
        };
        let message =
            format!("the name matches images of Kubernetes {first} to {second}, and the newest image wins");
        ctx.report(&node, message)
            .help("write the version of the control plane into the name, or select by an alias");
    }
    None
}

/// The first and the last version of Kubernetes whose images a pattern matches, if they differ.
fn versions(pattern: &str) -> Option<(String, String)> {
    if !pattern.contains(['*', '?']) {
        return None;
    }
    for name in NAMES {
        let matching = |minor: u32| {
            let version = format!("1.{minor}");
            matches(pattern, &name.replace("VERSION", &version)).then_some(version)
        };
        let mut found = (28..=36).filter_map(matching);
        if let (Some(first), Some(last)) = (found.next(), found.next_back()) {
            return Some((first, last));
        }
    }
    None
}

/// Whether a pattern with `*` and `?` matches a name, as filters of EC2 do.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The last `*`, and where its match ends.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, end)) = star else {
                    return false;
                };
                star = Some((at, end + 1));
                p = at + 1;
                n = end + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::versions;

    #[test]
    fn names_that_match_several_versions() {
        for (pattern, spans) in [
            ("amazon-eks-node-al2023-x86_64-nvidia-*", true),
            ("amazon-eks-node-al2023-x86_64-nvidia-1.3?-v*", true),
            ("amazon-eks-node-al2023-x86_64-nvidia-1.34-v*", false),
            ("amazon-eks-node-al2023-x86_64-standard-1.34-*", false),
            ("amazon-eks-node-*", true),
            ("amazon-eks-node-1.32-*", false),
            ("*amazon-eks-gpu-node*", true),
            ("bottlerocket-aws-k8s-*-x86_64-*", true),
            ("bottlerocket-aws-k8s-1.34-nvidia-x86_64-*", false),
            ("ubuntu-eks/k8s_1.34/images/*", false),
            ("ubuntu-eks/*", true),
            ("Windows_Server-2022-English-Core-EKS_Optimized-*", true),
            ("my-team-gpu-*", false),
            ("eks-gpu-1.34-*", false),
            ("amazon-eks-node-al2023-x86_64-nvidia-1.34-v20250807", false),
            ("*", true),
        ] {
            assert_eq!(versions(pattern).is_some(), spans, "{pattern}");
        }
    }
}
