//! The AWS Load Balancer Controller asks instance metadata that it cannot reach.
//!
//! # Why
//! Without `--aws-vpc-id` and `--aws-region` the controller reads both from the instance metadata service. The
//! classes of Karpenter let a response make one hop by default (`httpPutResponseHopLimit: 1`), which ends at
//! the node: the controller ends with `failed to get VPC ID`, and no load balancer is made or changed any more.
//! It works on the nodes of a node group with another limit, until its pods move to one of Karpenter's. In EKS
//! Auto Mode the limit is always 1. The AWS Gateway API Controller asks in the same way for what its variables
//! `CLUSTER_VPC_ID`, `REGION`, `AWS_ACCOUNT_ID` and `CLUSTER_NAME` do not say.
//!
//! # Fix
//! Write both arguments (`region` and `vpcId` in the values of its chart). A higher limit would give the
//! credentials of the node to all pods. EKS Auto Mode makes load balancers without this controller.
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
//! - <https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html>
//! - <https://github.com/aws/containers-roadmap/issues/2633>

use super::PLACEMENT_READS;
use super::karpenter_on_own_nodes::pool_that_takes;
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, ValuePlace, is_for_other_cluster};
use crate::workload::command::may_have_more_options;
use crate::workload::environment::known;

pub(crate) static RULE: Rule = Rule {
    id: "load-balancer-controller-without-vpc",
    kinds: kinds![[Kind::DEPLOYMENT], CHART_KINDS],
    reads: PLACEMENT_READS,
    docs: docs(include_str!("load_balancer_controller_without_vpc.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The hops of a response unless the class says otherwise, in the definition of `karpenter.k8s.aws/v1`.
const DEFAULT_HOPS: i64 = 1;

/// The chart of the controller, in the repository `eks-charts`.
const CHART: &str = "aws-load-balancer-controller";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        if !is_for_other_cluster(object) && !object.path(&["spec", "postRenderers"]).is_set() {
            for_each_values(object, CHART, |values| _ = of_chart(object, values, ctx));
        }
        return None;
    }
    let template = templates(object).into_iter().next()?;
    if let Some(container) = template.containers().find(is_gateway_controller) {
        let env = known(&container)?;
        let missing = GATEWAY_VARIABLES.iter().filter(|name| !env.contains_key(**name));
        let missing: Vec<String> = missing.map(|name| (*name).to_owned()).collect();
        return report(object, &template, &missing, &ValuePlace::of(container.get("env")), ctx);
    }
    let container = template.containers().find(is_load_balancer_controller)?;
    let missing = missing(&container)?;
    let place = ValuePlace::of(container.get("args"));
    report(object, &template, &missing.map(|field| format!("--aws-{field}")), &place, ctx)
}

/// Reports values of the chart, which have the fields of a pod that decide about its place beside the options of the controller
/// (`templates/deployment.yaml` of the chart 1.13).
fn of_chart<'a>(object: &'a Object, values: &ChartValues<'_, 'a>, ctx: &mut Context<'_>) -> Option<()> {
    let root = values.root;
    let (region, vpc, tags) = (root.get("region"), root.get("vpcId"), root.get("vpcTags"));
    let env = root.get("env");
    let is_unknown = [&region, &vpc, &tags, &env].iter().any(|node| node.is_unknown());
    if values.may_differ || is_unknown || root.has_unknown_key() || env.has_unknown_key() {
        return None;
    }
    let is_written = |node: &Node<'_>| node.is_set() && node.text() != Some("");
    let has_region = is_written(&region) || REGION_VARIABLES.iter().any(|name| env.get(name).is_set());
    let missing = Missing { region: !has_region, vpc: !is_written(&vpc) && tags.entries().is_empty() };
    let template = Template { metadata: root.get("metadata"), spec: root.clone(), place: (object, 0) };
    let place = values.place(if missing.vpc { &vpc } else { &region }, object);
    let name = |field: &str| if field == "vpc-id" { "vpcId" } else { "region" }.to_owned();
    report(object, &template, &missing.map(name), &place, ctx)
}

/// Reports the options that are missing, by their names, if a pool takes the pods whose nodes do not answer them.
fn report(
    object: &Object,
    template: &Template<'_>,
    missing: &[String],
    place: &ValuePlace<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let of_node = template.spec.get("hostNetwork");
    if missing.is_empty()
        || of_node.is_unknown()
        || of_node.bool() == Some(true)
        || template.spec.has_unknown_key()
    {
        return None;
    }
    let pool = pool_that_takes(object, template, &[Provider::Aws, Provider::AutoMode], ctx)?;
    let reference = pool.path(&["spec", "template", "spec", "nodeClassRef"]);
    let limit = match Provider::of_group(&reference.get("group")) {
        // It is always 1, and the NodeClass has no field for it.
        Provider::AutoMode => None,
        _ => {
            let class = ctx.partner(Kind::EC2_NODE_CLASS, "default", reference.get("name").text()?)?;
            let hops = class.path(&["spec", "metadataOptions", "httpPutResponseHopLimit"]);
            if class.is_partial() || hops.int_or(DEFAULT_HOPS)? > 1 {
                return None;
            }
            Some((class, hops))
        }
    };
    let (first, all) = (missing.len().min(2), missing.len());
    let message = format!(
        "without `{}` the controller asks instance metadata, out of reach on nodes of `{}`",
        missing[..first].join("` and `"),
        pool.display_name()
    );
    let missing = format!("`{}`", missing.join(if all > 2 { "`, `" } else { "` and `" }));
    let finding = report_place(place, message, ctx);
    finding.help(format!("write {missing}: a response makes one hop, to the node"));
    match limit {
        Some((class, hops)) => finding.related(class, &hops, "one hop, which is the default"),
        None => finding.related(&pool, &reference, "nodes of EKS Auto Mode, where it is always one hop"),
    };
    None
}

/// The variables of the AWS Gateway API Controller whose values it looks for in the instance metadata (`configInit`).
const GATEWAY_VARIABLES: [&str; 4] = ["CLUSTER_VPC_ID", "REGION", "AWS_ACCOUNT_ID", "CLUSTER_NAME"];

/// Whether a container runs the AWS Gateway API Controller, which is for Amazon VPC Lattice.
fn is_gateway_controller(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.is("aws-gateway-controller"))
}

/// Whether a container runs the AWS Load Balancer Controller.
pub(super) fn is_load_balancer_controller(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.is("aws-load-balancer-controller"))
}

/// The variables in which the controller looks for the region before it asks.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// What the controller has to find out.
struct Missing {
    region: bool,
    vpc: bool,
}

impl Missing {
    fn map(self, name: impl Fn(&str) -> String) -> Vec<String> {
        let fields = [(self.region, "region"), (self.vpc, "vpc-id")];
        fields.into_iter().filter(|(is, _)| *is).map(|(_, field)| name(field)).collect()
    }
}

/// The arguments that are missing. `None` if that is not known.
fn missing(container: &Node<'_>) -> Option<Missing> {
    let words = words(container);
    let env = known(container).filter(|_| !may_have_more_options(&words))?;
    let is_set = |names: &[&str]| !matches!(option(&words, names), OptionValue::Absent);
    let by_variable = REGION_VARIABLES.iter().any(|name| env.contains_key(*name));
    Some(Missing {
        region: !is_set(&["aws-region"]) && !by_variable,
        vpc: !is_set(&["aws-vpc-id", "aws-vpc-tags"]),
    })
}
