//! Karpenter is installed without a setting that the nodes of the input need.
//!
//! # Why
//! Without `interruptionQueue` Karpenter does not learn that EC2 takes a Spot node back: the node
//! disappears two minutes later with its pods still running, which are not evicted and get no replacement
//! before. Its setting was `settings.aws.interruptionQueueName` until 0.32. Later charts ignore that, as all
//! below `settings.aws`: the finding is where it stands, and Karpenter does not start without
//! `settings.clusterName`. With custom networking (`AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG`) the first network
//! interface of a node has no addresses for pods. Karpenter counts them all the same unless `reservedENIs` is
//! 1: it places pods on nodes that then stay in ContainerCreating. The same is true of security groups for pods,
//! whose interface takes one of those places. Where an ENIConfig or a SecurityGroupPolicy alone shows it, it is
//! an info: prefixes may give the nodes other numbers.
//!
//! # Fix
//! Create the queue with its EventBridge rules and set `settings.interruptionQueue` to its name. With
//! custom networking set `settings.reservedENIs: "1"`, or `maxPods` in each EC2NodeClass.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: karpenter, version: 1.14.1, sourceRef: {kind: HelmRepository, name: karpenter}}
//!    values:
//!      settings:
//!        clusterName: prod
//! -      interruptionQueueName: prod-karpenter # <-
//! +      interruptionQueue: prod-karpenter
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: batch}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: batch}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>
//! - <https://karpenter.sh/docs/reference/settings/>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network.html>

use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::karpenter::installation::{CHART, INSTALLERS, unset_option};
use crate::rules::gpu::{report_place, report_value};
use crate::rules::prelude::*;
use crate::workload::charts::installs;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-setting-missing",
    kinds: &INSTALLERS,
    reads: kinds![
        VERSIONED_CHARTS,
        [
            Kind::NODE_POOL,
            Kind::EC2_NODE_CLASS,
            Kind::AUTO_MODE_NODE_CLASS,
            Kind::DAEMON_SET,
            Kind::DEPLOYMENT,
            Kind::ENI_CONFIG,
            Kind::SECURITY_GROUP_POLICY
        ]
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("karpenter_setting_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Another program that drains Spot nodes, by the name of its chart, DaemonSet or Deployment.
pub(super) const DRAINS_SPOT: &str = "aws-node-termination-handler";

/// Options and defaults: karpenter-provider-aws 1.15.1 `pkg/operator/options/options.go`.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    interruption_queue(object, ctx).or_else(|| old_block(object, ctx));
    reserved_interfaces(object, ctx);
    None
}

/// The settings below `settings.aws` that Karpenter's chart had until 0.32, with the key that each has below `settings` today, and
/// the variable of the controller's environment.
const OLD_SETTINGS: [(&str, &str, &str); 6] = [
    ("clusterName", "clusterName", "CLUSTER_NAME"),
    ("clusterEndpoint", "clusterEndpoint", "CLUSTER_ENDPOINT"),
    ("clusterCABundle", "clusterCABundle", "CLUSTER_CA_BUNDLE"),
    ("interruptionQueueName", "interruptionQueue", "INTERRUPTION_QUEUE"),
    ("reservedENIs", "reservedENIs", "RESERVED_ENIS"),
    ("vmMemoryOverheadPercent", "vmMemoryOverheadPercent", "VM_MEMORY_OVERHEAD_PERCENT"),
];

/// Reports the first setting that the values have at its place until 0.32 alone.
fn old_block(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let version = chart_version(object, CHART, ctx.cluster()).and_then(Version::parse)?;
    if version < Version::new(0, 33) {
        return None;
    }
    let mut is_found = None;
    for_each_values(object, CHART, |values| {
        let settings = values.root.get("settings");
        let env = values.root.path(&["controller", "env"]);
        let is_given = |variable: &str| env.items().any(|entry| entry.get("name").text() == Some(variable));
        let old = OLD_SETTINGS.into_iter().find_map(|(old, new, variable)| {
            let node = settings.path(&["aws", old]);
            // What older versions of the chart had as a default is empty.
            let is_missing = node.text() != Some("") && settings.get(new).is_absent() && !is_given(variable);
            (node.is_set() && is_missing).then_some((node, new))
        });
        let Some((node, setting)) = old.filter(|_| !values.may_differ && !settings.has_unknown_key()) else {
            return;
        };
        let effect = match setting {
            "clusterName" => ", and Karpenter does not start without the name of its cluster",
            _ => "",
        };
        let message = format!("the chart reads nothing below `settings.aws` since 0.33{effect}");
        report_value(values, &node, message, ctx).help(format!("write it as `settings.{setting}`"));
        is_found = Some(());
    });
    is_found
}

/// Reports that Spot nodes end without a drain. `Some` if a setting of older charts is why.
fn interruption_queue(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let names = ["interruptionQueueName", "interruptionQueue"];
    let unset = unset_option(object, "interruptionQueue", "INTERRUPTION_QUEUE", &names)?;
    let pool = own_pool(ctx, |pool| pool.capacity_types().is_some_and(|all| all.contains(&"spot")))?;
    let cluster = ctx.cluster();
    let named = |kind: Kind| cluster.of(kind).any(|one| one.name().contains(DRAINS_SPOT));
    let by_chart = chart_installers(cluster).any(|one| installs(one, DRAINS_SPOT));
    if by_chart || CHART_KINDS.into_iter().chain([Kind::DAEMON_SET, Kind::DEPLOYMENT]).any(named) {
        return None;
    }
    let end = format!("Spot nodes of NodePool `{}` end without a drain", pool.display_name());
    let finding = match &unset.old {
        Some(old) => {
            let message = format!("charts since 0.33 do not read this: {end}");
            let finding = report_place(old, message, ctx).help("write `settings.interruptionQueue`");
            if old.is_in_text {
                finding
            } else {
                let fix = Fix::unsafe_("write its name").move_to(&old.node, &unset.place.node);
                finding.at_key().fix(fix)
            }
        }
        None => report_place(&unset.place, format!("Karpenter has no interruption queue: {end}"), ctx)
            .help("set `settings.interruptionQueue` (`INTERRUPTION_QUEUE`) to the name of its SQS queue"),
    };
    finding.related(pool, &pool.path(&["metadata", "name"]), "this pool starts Spot nodes");
    unset.old.map(|_| ())
}

fn reserved_interfaces(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let unset = unset_option(object, "reservedENIs", "RESERVED_ENIS", &["reservedENIs"])?;
    let cause = with_custom_networking(ctx).map(|plugin| (plugin, Reserve::Surely));
    let (cause, reserve) = cause.or_else(|| shown_by_objects(ctx))?;
    let counts = |pool: &NodePool<'_>| {
        let name = pool.template_spec().path(&["nodeClassRef", "name"]);
        let class = name.text().and_then(|name| ctx.partner(Kind::EC2_NODE_CLASS, "default", name));
        class.is_some_and(|class| {
            !class.may_lack_fields() && class.path(&["spec", "kubelet", "maxPods"]).is_absent()
        })
    };
    let pool = own_pool(ctx, counts)?;
    let (message, what) = match reserve {
        Reserve::Surely | Reserve::Networking => (
            "with custom networking no pods are on the first interface of a node, and Karpenter counts it",
            "the custom networking",
        ),
        Reserve::Groups => (
            "an interface for groups of pods takes the place of one for other pods, and Karpenter counts both",
            "the groups of pods",
        ),
    };
    report_place(unset.old.as_ref().unwrap_or(&unset.place), message.to_owned(), ctx)
        .severity(if matches!(reserve, Reserve::Surely) { Severity::Warning } else { Severity::Info })
        .help("set `settings.reservedENIs: \"1\"` (`RESERVED_ENIS`), or `maxPods` in each EC2NodeClass")
        .related(cause, &cause.path(&["metadata", "name"]), what)
        .related(pool, &pool.path(&["metadata", "name"]), "the pods of its nodes are counted");
    None
}

/// Why one interface of a node is not for ordinary pods.
#[derive(Clone, Copy)]
enum Reserve {
    /// The configuration of the network plugin says so.
    Surely,
    /// There are ENIConfigs: custom networking, with prefixes or without.
    Networking,
    /// There are groups for pods.
    Groups,
}

/// An object that has an effect with a reserved interface alone, where the network plugin is not in the input.
fn shown_by_objects<'i>(ctx: &Context<'i>) -> Option<(&'i Object, Reserve)> {
    let cluster = ctx.cluster();
    let is_plugin =
        |object: &&Object| object.name().contains("aws-node") || object.name().contains("vpc-cni");
    let has_plugin = cluster.of(Kind::DAEMON_SET).any(|set| is_plugin(&set))
        || chart_installers(cluster).any(|one| is_plugin(&one) || installs(one, "aws-vpc-cni"));
    if has_plugin || cluster.views().has_auto_mode() {
        return None;
    }
    let of = |kind: Kind| cluster.of(kind).find(|one| ctx.pairs_with(one));
    let networking = of(Kind::ENI_CONFIG).map(|object| (object, Reserve::Networking));
    networking.or_else(|| of(Kind::SECURITY_GROUP_POLICY).map(|object| (object, Reserve::Groups)))
}

/// The first NodePool of Karpenter's own nodes for which a condition holds.
fn own_pool<'i>(ctx: &Context<'i>, holds: impl Fn(&NodePool<'_>) -> bool) -> Option<&'i Object> {
    ctx.cluster().of(Kind::NODE_POOL).find(|object| {
        let group = object.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
        let is_own = Provider::of_group(&group) == Provider::Aws && group.text().is_some();
        is_own && ctx.pairs_with(object) && NodePool::new(object).is_some_and(|pool| holds(&pool))
    })
}

/// The network plugin, or what installs it, if it certainly has custom networking and no prefixes, which give nodes other numbers.
fn with_custom_networking<'i>(ctx: &Context<'i>) -> Option<&'i Object> {
    let is_on = |read: &dyn Fn(&str) -> Option<String>| {
        let is = |name: &str| read(name).as_deref() == Some("true");
        is("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG") && !is("ENABLE_PREFIX_DELEGATION")
    };
    let by_set = |set: &&Object| {
        let containers: Vec<Node<'_>> = templates(set).iter().flat_map(Template::containers).collect();
        let env = || containers.iter().flat_map(|one| one.get("env").items());
        let read = |name: &str| {
            let entry = env().find(|entry| entry.get("name").text() == Some(name))?;
            entry.get("value").text().map(str::to_owned)
        };
        set.name() == "aws-node" && ctx.pairs_with(set) && is_on(&read)
    };
    let by_chart = |object: &&Object| {
        let mut found = false;
        for_each_values(object, "aws-vpc-cni", |values| {
            let env = values.root.get("env");
            found |= !values.may_differ && is_on(&|name| env.get(name).raw_text().map(str::to_owned));
        });
        found && ctx.pairs_with(object)
    };
    let cluster = ctx.cluster();
    cluster.of(Kind::DAEMON_SET).find(by_set).or_else(|| chart_installers(cluster).find(by_chart))
}
