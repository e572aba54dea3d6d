//! The AWS Load Balancer Controller asks instance metadata that it cannot reach.
//!
//! # Why
//! Without `--aws-vpc-id` and `--aws-region` the controller reads both from the instance metadata service. The
//! classes of Karpenter let a response make one hop by default (`httpPutResponseHopLimit: 1`), which ends at
//! the node: the controller ends with `failed to get VPC ID`, and no load balancer is made or changed any more.
//! It works on the nodes of a node group with another limit, until its pods move to one of Karpenter's.
//!
//! # Fix
//! Write both arguments (`region` and `vpcId` in the values of its chart). A higher limit would give the
//! credentials of the node to all pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!    limits: {cpu: 400}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: aws-load-balancer-controller, namespace: kube-system}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: aws-load-balancer-controller}}
//!    template:
//!      metadata: {labels: {app: aws-load-balancer-controller}}
//!      spec:
//!        containers:
//!          - name: controller
//!            image: public.ecr.aws/eks/aws-load-balancer-controller:v2.13.4
//! -          args: [--cluster-name=prod] # <-
//! +          args: [--cluster-name=prod, --aws-region=eu-west-1, --aws-vpc-id=vpc-0a1b2c3d4e5f60718]
//!            resources: {requests: {cpu: 100m, memory: 128Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/deploy/installation/>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specmetadataoptions>

use super::PLACEMENT_READS;
use super::karpenter_on_own_nodes::pool_that_takes;
use crate::rules::prelude::*;
use crate::workload::command::may_have_more_options;
use crate::workload::environment::known;

pub(crate) static RULE: Rule = Rule {
    id: "load-balancer-controller-without-vpc",
    kinds: &[Kind::DEPLOYMENT],
    reads: &PLACEMENT_READS,
    docs: docs(include_str!("load_balancer_controller_without_vpc.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The hops of a response unless the class says otherwise, in the definition of `karpenter.k8s.aws/v1`.
const DEFAULT_HOPS: i64 = 1;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let template = templates(object).into_iter().next()?;
    let container = template.containers().find(is_load_balancer_controller)?;
    if template.spec.get("hostNetwork").bool() == Some(true) || template.spec.has_unknown_key() {
        return None;
    }
    let missing = missing(&container)?;
    let pool = pool_that_takes(object, &template, ctx)?;
    let name = pool.path(&["spec", "template", "spec", "nodeClassRef", "name"]);
    let class = ctx.partner(Kind::EC2_NODE_CLASS, "default", name.text()?)?;
    let hops = class.path(&["spec", "metadataOptions", "httpPutResponseHopLimit"]);
    if class.is_partial() || hops.int_or(DEFAULT_HOPS)? > 1 {
        return None;
    }
    let message = format!(
        "without {missing} the controller asks the instance metadata, which pods on nodes of `{}` cannot reach",
        pool.display_name()
    );
    ctx.report(&container.get("args"), message)
        .help("write `--aws-region` and `--aws-vpc-id`: a response makes one hop, to the node")
        .related(class, &hops, "one hop, which is the default");
    None
}

/// Whether a container runs the AWS Load Balancer Controller.
pub(super) fn is_load_balancer_controller(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.is("aws-load-balancer-controller"))
}

/// The arguments that are missing, in words. `None` if there are none, or if that is not known.
fn missing(container: &Node<'_>) -> Option<&'static str> {
    let words = words(container);
    let env = known(container).filter(|_| !may_have_more_options(&words))?;
    let is_set = |names: &[&str]| !matches!(option(&words, names), OptionValue::Absent);
    let by_variable = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| env.contains_key(*name));
    let region = is_set(&["aws-region"]) || by_variable;
    match (region, is_set(&["aws-vpc-id", "aws-vpc-tags"])) {
        (true, true) => None,
        (true, false) => Some("`--aws-vpc-id`"),
        (false, true) => Some("`--aws-region`"),
        (false, false) => Some("`--aws-region` and `--aws-vpc-id`"),
    }
}
