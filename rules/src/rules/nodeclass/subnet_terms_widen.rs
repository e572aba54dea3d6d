//! Subnets are selected by any of several tags, of which one names the cluster.
//!
//! # Why
//! The terms of `subnetSelectorTerms` are alternatives: a subnet needs one of them. Where each term has one
//! tag and one of these is the tag of the cluster, such as `karpenter.sh/discovery`, the others do not narrow
//! the selection. They add subnets of other clusters and VPCs of the region that have a common tag like
//! `kubernetes.io/role/internal-elb`, public ones among them: instances cannot start there with the security
//! groups of this VPC, or get a public address.
//!
//! Several values of one tag, and terms with ids, are not reported.
//!
//! # Fix
//! Write all tags that a subnet has to have into one term.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms:
//!      - tags:
//!          karpenter.sh/discovery: prod
//! -    - tags: # <-
//!          kubernetes.io/role/internal-elb: "1"
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specsubnetselectorterms>
//! - <https://github.com/aws/karpenter-provider-aws/issues/5097>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "subnet-terms-widen",
    docs: docs(include_str!("subnet_terms_widen.rs")),
    check: Check::NodeClass(check),
    ..Rule::info(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms: Vec<Node<'_>> = class.get("subnetSelectorTerms").items().collect();
    let mut keys: Vec<&str> = Vec::new();
    for term in &terms {
        let tags = term.get("tags").entries();
        let [(key, _)] = tags.as_slice() else { return None };
        if term.get("id").is_set() || is_placeholder(key) || term.has_unknown_key() || keys.contains(key) {
            return None;
        }
        keys.push(*key);
    }
    let names_cluster =
        |key: &&str| **key == *"karpenter.sh/discovery" || key.starts_with("kubernetes.io/cluster/");
    let own = keys.iter().position(names_cluster)?;
    let other = keys.iter().position(|key| !names_cluster(key))?;
    let message =
        format!("these terms are alternatives: subnets without the tag `{}` are selected too", keys[own]);
    ctx.report(&terms[other], message)
        .help("write the tags into one term, if a subnet has to have all of them")
        .related(class.object(), &terms[own], "the tag of the cluster");
    None
}
