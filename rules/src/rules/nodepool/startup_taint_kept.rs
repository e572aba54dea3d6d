//! A startup taint stays on its nodes, or one that an agent adds is not declared.
//!
//! # Why
//! Karpenter starts nodes for pods that do not tolerate a startup taint, and expects that something removes
//! it. The drivers of EBS, EFS, FSx and S3, Cilium and Istio remove their own key alone. Under another key
//! no pod lands on the node, which is never initialized, and Karpenter does not disrupt it. In `taints` the
//! key keeps pods away for good: no node is started for them. A key and value that are also a label of the nodes
//! dedicate these to some pods, and nothing removes them. Istio removes its taint only if
//! `taint.enabled` is set for istiod, and Cilium only the key of its configuration. Nothing removes a taint
//! that is named after an accelerator, such as `nvidia.com/gpu`. Cilium's operator taints
//! nodes by itself: where the pool does not declare that, pods cannot be bound for a while, and Karpenter
//! starts more nodes for them.
//!
//! # Fix
//! Write the key that the agent removes, in `startupTaints`. A taint for certain pods belongs to `taints`.
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
//!        startupTaints:
//! -        - {key: ebs.csi.aws.com/node-not-ready, effect: NoExecute} # <-
//! +        - {key: ebs.csi.aws.com/agent-not-ready, effect: NoExecute}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#cilium-startup-taint>
//! - <https://docs.cilium.io/en/stable/installation/taints/>
//! - <https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/install.md>
//! - <https://istio.io/latest/docs/setup/additional-setup/cni/>

use crate::catalog::OS;
use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::prelude::*;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "startup-taint-kept",
    reads: kinds![
        VERSIONED_CHARTS,
        [
            Kind::CONFIG_MAP,
            Kind::DEPLOYMENT,
            Kind::STATEFUL_SET,
            Kind::DAEMON_SET,
            Kind::JOB,
            Kind::CRON_JOB,
            Kind::EC2_NODE_CLASS
        ]
    ],
    docs: docs(include_str!("startup_taint_kept.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

/// The key of Cilium's taint, by default (`agentNotReadyTaintKey`).
const OF_CILIUM: &str = "node.cilium.io/agent-not-ready";
/// The key of Istio's taint, by default (`PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME`).
const OF_ISTIO: &str = "cni.istio.io/not-ready";
/// The first version of Cilium whose operator taints nodes by itself (`operator.setNodeTaints` of its chart).
const SETS_TAINTS: Version = Version::new(1, 14);
/// The taints that agents remove, with any effect: `AgentNotReadyNodeTaintKey` of the drivers, and the defaults above.
const REMOVED: [&str; 6] = [
    "ebs.csi.aws.com/agent-not-ready",
    "efs.csi.aws.com/agent-not-ready",
    "fsx.csi.aws.com/agent-not-ready",
    "s3.csi.aws.com/agent-not-ready",
    OF_CILIUM,
    OF_ISTIO,
];

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let spec = pool.template_spec();
    let (lasting, startup) = (spec.get("taints"), spec.get("startupTaints"));
    if pool.object().is_partial() || pool.is_auto_mode() && !startup.is_set() {
        return None;
    }
    for key in lasting.items().map(|taint| taint.get("key")) {
        if let Some(name) = key.text().filter(|name| REMOVED.contains(name)) {
            let message = format!(
                "`{name}` in `taints` keeps every pod off that does not tolerate it: no node is started"
            );
            ctx.report(&key, message)
                .help("move it to `startupTaints`: its agent removes it when it is ready");
        }
    }
    for taint in startup.items() {
        let key = taint.get("key");
        if let Some(name) = key.text() {
            startup_key(&key, name, ctx);
            dedication(pool, &taint, name, ctx);
        }
    }
    undeclared(pool, ctx)
}

/// Reports the key of a startup taint that nothing removes.
fn startup_key(key: &Node<'_>, name: &str, ctx: &mut Context<'_>) {
    // Device plugins and operators of accelerators remove no taint.
    if KARPENTER_ACCELERATORS.contains(&name) {
        ctx.report(key, format!("nothing removes `{name}`: the nodes are never initialized"))
            .help("move it to `taints`: pods that request the device tolerate it");
        return;
    }
    let domain = name.split('/').next().unwrap_or(name);
    let of_agent = REMOVED.into_iter().find(|known| known.split('/').next() == Some(domain));
    // The values of these charts may name another key.
    let is_of_chart = [(OF_CILIUM, "cilium"), (OF_ISTIO, "istiod")]
        .iter()
        .any(|(key, name)| of_agent == Some(*key) && chart(ctx, name, |_| true).is_some());
    let is_configured = rendered(ctx).is_some_and(|(_, own)| own == name);
    let of_agent = of_agent.filter(|_| !is_of_chart && !is_configured);
    if let Some(known) = of_agent.filter(|known| *known != name && name.contains('/')) {
        let message = format!("its agent does not remove `{}`, but `{known}` alone", ellipsize(name));
        ctx.report(key, message).help(format!("write `{known}`, unless you changed the key of the agent"));
    }
    if name == OF_CILIUM
        && let Some(cilium) = with_other_key(ctx)
    {
        ctx.report(key, "Cilium does not remove this taint: its configuration has another key")
            .help("write that of `agent-not-ready-taint-key` (`agentNotReadyTaintKey` of its chart)")
            .related(cilium, &cilium.path(&["metadata", "name"]), "Cilium, with another key");
    }
    if name == OF_ISTIO
        && let Some(istiod) = chart(ctx, "istiod", leaves_taint).filter(|one| is_near(one, ctx))
        && chart(ctx, "istiod", |values| !leaves_taint(values)).is_none()
    {
        ctx.report(key, "istiod does not remove the taint: its chart has `taint.enabled` off")
            .help("set `taint.enabled: true` in the values of istiod")
            .related(istiod, &istiod.path(&["metadata", "name"]), "istiod");
    }
}

/// Words in the keys of taints that something removes once a node is ready.
const TEMPORARY: [&str; 21] = [
    "ready",
    "readi",
    "agent",
    "startup",
    "start-up",
    "init",
    "wait",
    "boot",
    "pending",
    "provision",
    "setup",
    "set-up",
    "warm",
    "cni",
    "csi",
    "join",
    "prepare",
    "progress",
    "unschedul",
    "health",
    "install",
];

/// Reports a startup taint that dedicates the nodes to some pods, and that no object of the input removes: the nodes
/// have a label with its key and value, or pods tolerate it by both.
fn dedication(pool: &NodePool<'_>, taint: &Node<'_>, name: &str, ctx: &mut Context<'_>) -> Option<()> {
    const EFFECT: &str = "nothing here removes the taint, and the nodes are never initialized";
    const HELP: &str = "move it to `taints`: pods that tolerate it then have the nodes for themselves";
    let value = taint.get("value").text().filter(|value| !value.is_empty())?;
    let is_temporary = mentions(name, &TEMPORARY) || mentions(value, &TEMPORARY);
    // A domain is that of a product, whose controller may remove its taint.
    if is_temporary || name.contains('/') || is_removed(name, value, ctx) {
        return None;
    }
    let (key, short) = (taint.get("key"), ellipsize(name));
    let label = pool.labels().get(name);
    if label.text() == Some(value) {
        ctx.report(&key, format!("`{short}` is also a label of the nodes: {EFFECT}")).help(HELP).related(
            pool.object(),
            &label,
            "the label",
        );
        return None;
    }
    // An agent may tolerate the taint that it removes itself.
    let all = [Kind::DEPLOYMENT, Kind::STATEFUL_SET].into_iter().flat_map(|kind| ctx.cluster().of(kind));
    let (owner, toleration) = all.filter(|owner| ctx.pairs_with(owner)).find_map(|owner| {
        let tolerations = templates(owner).into_iter().map(|template| template.spec.get("tolerations"));
        let mut items = tolerations.flat_map(|list| list.items().collect::<Vec<_>>());
        let names =
            |one: &Node<'_>| one.get("key").text() == Some(name) && one.get("value").text() == Some(value);
        Some((owner, items.find(names)?))
    })?;
    ctx.report(&key, format!("pods of `{}` tolerate `{short}`: {EFFECT}", owner.display_name()))
        .severity(Severity::Info)
        .help(HELP)
        .related(owner, &toleration, "by its value, as they would a lasting taint");
    None
}

/// Whether a script or a program of the input may remove a taint: its text has the key as a taint.
fn is_removed(name: &str, value: &str, ctx: &Context<'_>) -> bool {
    let forms = [format!("{name}-"), format!("{name}:"), format!("{name}={value}")];
    let removes = |text: &str| mentions(text, &["taint"]) && forms.iter().any(|form| text.contains(form));
    let cluster = ctx.cluster();
    let has = |object: &Object, path: &[&str]| removes(&object.path(path).to_json().to_string());
    let of_scripts = cluster.of(Kind::CONFIG_MAP).any(|object| has(object, &["data"]));
    let of_classes = cluster.of(Kind::EC2_NODE_CLASS).any(|object| has(object, &["spec", "userData"]));
    let of_pods = [Kind::DEPLOYMENT, Kind::DAEMON_SET, Kind::JOB, Kind::CRON_JOB].iter().any(|kind| {
        cluster.of(*kind).flat_map(templates).any(|template| {
            template.all_containers().any(|container| {
                let fields =
                    ["command", "args", "env"].map(|field| container.get(field).to_json().to_string());
                removes(&fields.join(" "))
            })
        })
    });
    of_scripts || of_classes || of_pods
}

/// Whether what installs an agent surely serves the nodes of the pool: in another folder it may be that of another cluster.
fn is_near(agent: &Object, ctx: &Context<'_>) -> bool {
    ctx.cluster().likely_pairs(ctx.object(), agent)
}

/// What installs or configures Cilium with another key than the default, if nothing has the default.
fn with_other_key<'i>(ctx: &Context<'i>) -> Option<&'i Object> {
    let is_other =
        |values: &Node<'_>| values.get("agentNotReadyTaintKey").text().is_some_and(|key| key != OF_CILIUM);
    let by_chart = chart(ctx, "cilium", is_other);
    if chart(ctx, "cilium", |values| !is_other(values)).is_some() {
        return None;
    }
    let configured = || configured(ctx).filter(|(_, key)| *key != OF_CILIUM).map(|(config, _)| config);
    by_chart.or_else(configured).filter(|one| is_near(one, ctx))
}

/// Reports a pool that does not declare the taint that Cilium's operator adds to its nodes.
fn undeclared(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let spec = pool.template_spec();
    let (lasting, startup) = (spec.get("taints"), spec.get("startupTaints"));
    // Cilium has no agents on nodes of Windows.
    let is_windows = spec.get("requirements").items().any(|requirement| {
        let mut values = requirement.get("values").items();
        requirement.get("key").text() == Some(OS) && values.any(|value| value.text() == Some("windows"))
    });
    let is_unknown = spec.has_unknown_key() || startup.is_unknown() || lasting.is_unknown();
    if is_windows || is_unknown {
        return None;
    }
    let cilium = installed(ctx).map(|one| (one, OF_CILIUM)).or_else(|| configured(ctx));
    let (cilium, key) = cilium.filter(|(one, _)| is_near(one, ctx))?;
    let mut keys = lasting.items().chain(startup.items()).map(|taint| taint.get("key"));
    if keys.any(|own| own.text().is_none_or(|own| own == key || own.contains("cilium"))) {
        return None;
    }
    let message = format!(
        "Cilium taints new nodes of NodePool `{}`, which does not declare it",
        pool.object().display_name()
    );
    let key = ellipsize(key);
    ctx.report(&startup, message)
        .help(format!(
            "add `{{key: {key}, effect: NoExecute}}`, or Karpenter starts more nodes than it needs"
        ))
        .related(cilium, &cilium.path(&["metadata", "name"]), "Cilium, whose operator adds the taint");
    None
}

/// What installs Cilium by its chart, with values by which its operator taints nodes under the default key.
fn installed<'i>(ctx: &Context<'i>) -> Option<&'i Object> {
    let cilium = chart(ctx, "cilium", |values| {
        let is_on = |field: &[&str]| !values.path(field).is_set() || values.path(field).bool() == Some(true);
        // The operator taints nodes on which the agent is scheduled.
        let changed = ["agentNotReadyTaintKey", "extraConfig", "nodeSelector", "affinity"]
            .iter()
            .any(|field| values.get(field).is_set());
        is_on(&["operator", "setNodeTaints"])
            && is_on(&["operator", "removeNodeTaints"])
            && is_on(&["operator", "enabled"])
            && is_on(&["agent"])
            && !changed
    })?;
    let sets_taints = |text: &str| Version::parse(text).is_some_and(|version| version >= SETS_TAINTS);
    chart_version(cilium, "cilium", ctx.cluster()).is_none_or(sets_taints).then_some(cilium)
}

/// The ConfigMap of Cilium as its chart renders it, if there is one, and the key of the taint.
fn rendered<'i>(ctx: &Context<'i>) -> Option<(&'i Object, &'i str)> {
    let mut all = ctx.cluster().written_as(Kind::CONFIG_MAP, "cilium-config");
    let config = all.next().filter(|config| all.next().is_none() && ctx.pairs_with(config))?;
    let key = config.path(&["data", "agent-not-ready-taint-key"]);
    let key = if key.is_set() { key.text()? } else { OF_CILIUM };
    (!config.may_lack_fields()).then_some((config, key))
}

/// The ConfigMap and the key with which the operator taints nodes. It taints those on which the agent is scheduled. One of the two
/// shows in the input that the ConfigMap is that of a cluster.
fn configured<'i>(ctx: &Context<'i>) -> Option<(&'i Object, &'i str)> {
    let (config, key) = rendered(ctx)?;
    let setting = |name: &str| config.path(&["data", name]).text();
    let is_on = setting("set-cilium-node-taints") == Some("true")
        && matches!(setting("remove-cilium-node-taints"), Some("true") | None);
    let of_image = |kind: Kind, is: fn(&str) -> bool| {
        let runs = |template: &Template<'i>| {
            let mut images = template.containers().filter_map(|container| image_of(&container));
            images.any(|image| is(image.repository))
        };
        let all = ctx.cluster().of(kind).filter(|object| ctx.pairs_with(object));
        all.flat_map(templates).find(runs)
    };
    let selects = |agent: &Template<'_>| {
        let mut labels = agent.spec.get("nodeSelector").entries().into_iter();
        labels.any(|(label, _)| label != OS) || agent.spec.path(&["affinity", "nodeAffinity"]).is_set()
    };
    // Envoy has a DaemonSet of its own, `cilium/cilium-envoy`.
    let agent = of_image(Kind::DAEMON_SET, |image| image.ends_with("cilium/cilium"));
    let operator = of_image(Kind::DEPLOYMENT, |image| image.contains("cilium/operator"));
    let runs = operator.map_or(agent.is_some(), |operator| {
        let is_started = replicas(operator.place.0).is_none_or(|pods| pods > 0);
        is_started && !operator.containers().any(|container| sets_taints(&container))
    });
    (is_on && runs && agent.is_none_or(|agent| !selects(&agent))).then_some((config, key))
}

/// Whether the operator has options of its taints besides the ConfigMap, which they precede: arguments, or variables whose names
/// are `CILIUM_` and the option in capitals.
fn sets_taints(operator: &Node<'_>) -> bool {
    let is_about = |text: &str| {
        let text = text.to_ascii_lowercase().replace('_', "-");
        text.contains("cilium-node-taints") || text.contains("agent-not-ready")
    };
    let mut variables = operator.get("env").items().map(|variable| variable.get("name"));
    words(operator).iter().any(|word| is_about(&word.text))
        || variables.any(|name| name.text().is_none_or(is_about))
        || operator.get("envFrom").is_set()
}

/// Whether istiod leaves its taint on nodes, by its values. `pilot` has them in older charts.
fn leaves_taint(values: &Node<'_>) -> bool {
    let enabled = values.path(&["taint", "enabled"]);
    !values.path(&["pilot", "taint"]).is_set() && (!enabled.is_set() || enabled.bool() == Some(false))
}

/// What installs a chart with values for which a condition certainly holds.
fn chart<'i>(ctx: &Context<'i>, name: &str, holds: impl Fn(&Node<'_>) -> bool) -> Option<&'i Object> {
    chart_installers(ctx.cluster()).find(|object| {
        let mut found = false;
        for_each_values(object, name, |values| {
            found |= !values.may_differ && !values.root.has_unknown() && holds(values.root);
        });
        found && ctx.pairs_with(object)
    })
}
