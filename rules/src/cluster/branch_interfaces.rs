//! Pods with a network interface of their own: EKS adds a request for one to the pods that a SecurityGroupPolicy selects
//! (<https://github.com/aws/amazon-vpc-resource-controller-k8s>, `webhooks/core`).

use crate::cluster::Cluster;
use crate::karpenter::scheduling::Pod;
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::selector::matches;
use crate::workload::template::Template;

/// The resource that EKS adds to the first container.
pub(crate) use crate::karpenter::scheduling::POD_ENI as BRANCH_INTERFACE;

/// Whether a policy certainly selects pods by their labels. The labels of service accounts are not compared.
pub(crate) fn selects(policy: &Object, template: &Template<'_>) -> bool {
    let spec = policy.get("spec");
    let selector = spec.get("podSelector");
    let is_readable = !policy.may_lack_fields() && !selector.has_unknown() && !selector.has_unknown_key();
    // The controller leaves out pods on the network of the node.
    let is_own = template.spec.get("hostNetwork").bool() != Some(true);
    is_readable
        && is_own
        && !spec.get("serviceAccountSelector").is_set()
        && matches(&selector, &template.pod_labels()) == Some(true)
}

/// Whether a policy of the cluster certainly selects the pods of a template.
pub(crate) fn is_selected(template: &Template<'_>, cluster: &Cluster) -> bool {
    let owner = template.place.0;
    let mut policies = cluster.in_namespace(Kind::SECURITY_GROUP_POLICY, owner.namespace_or_default());
    policies.any(|policy| {
        !policy.is_namespace_unknown()
            && !owner.is_namespace_unknown()
            && cluster.pairs(owner, policy)
            && selects(policy, template)
    })
}

/// Adds the request to a pod that a policy selects. Nodes of EKS Auto Mode do not read the policies: beside them it is not known.
pub(crate) fn add(pod: &mut Pod, template: &Template<'_>, cluster: &Cluster) {
    if !is_selected(template, cluster) || cluster.views().has_auto_mode() {
        return;
    }
    let Some(first) = pod.containers.first_mut() else { return };
    for list in [&mut first.requests, &mut first.limits] {
        if !list.contains_key(BRANCH_INTERFACE) {
            list.insert(BRANCH_INTERFACE.to_owned(), 1000);
        }
    }
}
