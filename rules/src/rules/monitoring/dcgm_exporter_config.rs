//! dcgm-exporter is configured so that metrics are missing, unlabeled or repeated.
//!
//! # Why
//! The exporter learns which pod uses which GPU from the kubelet's socket, if `DCGM_EXPORTER_KUBERNETES` is
//! true: without the variable, or without `/var/lib/kubelet/pod-resources`, its metrics have no pod labels.
//! On nodes of eight GPUs it needs more than 512 MiB of memory, and release 4 up to 490 MiB on any other. A
//! counters file that is not in the image and not mounted stops it, and so does one that lists a field
//! which DCGM does not have, or has a line without three fields: the name, the type, a text without commas.
//! It collects every 30 seconds by default, so a scrape every 15 seconds reads each value twice. Releases 3
//! and earlier have a DCGM that does not know Blackwell GPUs. Labels and UIDs of pods come from the API
//! server, and before 26.3 the GPU Operator gives its exporter no right to read them there. And a node
//! selector on a label of GPU feature discovery holds for nodes that exist: Karpenter plans a new node
//! without the exporter, whose requests may then not fit.
//!
//! # Fix
//! Set the variable, mount the folder, leave it 1 GiB of memory, name a counters file that exists, scrape
//! as often as the exporter collects. Select nodes by `karpenter.k8s.aws/instance-gpu-count`, which
//! Karpenter knows beforehand.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: dcgm-exporter, namespace: gpu-operator}
//!  spec:
//!    selector: {matchLabels: {app: dcgm-exporter}}
//!    template:
//!      metadata: {labels: {app: dcgm-exporter}}
//!      spec:
//!        containers:
//!          - name: exporter
//!            image: nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless
//!            env:
//!              - {name: DCGM_EXPORTER_KUBERNETES, value: "true"} # <-
//! +          volumeMounts:
//! +            - name: pod-resources
//! +              mountPath: /var/lib/kubelet/pod-resources
//! +              readOnly: true
//! +      volumes:
//! +        - name: pod-resources
//! +          hostPath: {path: /var/lib/kubelet/pod-resources}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/dcgm-exporter>
//! - <https://docs.nvidia.com/datacenter/dcgm/latest/gpu-telemetry/dcgm-exporter.html>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1219>

use crate::catalog::Label;
use crate::cluster::values::chart_version;
use crate::promql::metrics::Exporter;
use crate::promql::names::{never_exported_by, of_more_words, right_name};
use crate::promql::sources::{Query, queries};
use crate::rules::gpu::{report_value, selected_types};
use crate::rules::monitoring::dcgm_exporter::{
    COUNTERS_FILES, COUNTERS_FOLDER, Counters, Malformed, counters, exporter, has_argument,
};
use crate::rules::monitoring::monitors::{DcgmMonitors, endpoints};
use crate::rules::prelude::*;
use crate::workload::charts::ChartValues;
use crate::workload::checkpoint::volume;
use crate::workload::environment::{Variables, known, may_define};

pub(crate) static RULE: Rule = Rule {
    id: "dcgm-exporter-config",
    kinds: &[Kind::DAEMON_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: &[
        Kind::OCI_REPOSITORY,
        Kind::FLUX_HELM_CHART,
        Kind::SERVICE_MONITOR,
        Kind::POD_MONITOR,
        Kind::VM_SERVICE_SCRAPE,
        Kind::VM_POD_SCRAPE,
        Kind::NODE_POOL,
        Kind::CONFIG_MAP,
        Kind::PROMETHEUS_RULE,
        Kind::VM_RULE,
        Kind::SCALED_OBJECT,
        Kind::SCALED_JOB,
    ],
    docs: docs(include_str!("dcgm_exporter_config.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

/// Default interval at which the exporter collects, in milliseconds.
const DEFAULT_INTERVAL: i64 = 30_000;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::DAEMON_SET) {
        templates(object).iter().for_each(|template| _ = inspect(template, ctx));
        check_fields(object, ctx);
    } else {
        for_each_values(object, "dcgm-exporter", |values| _ = check_memory_of_chart(values, ctx));
        for_each_values(object, "gpu-operator", |values| _ = check_rights(values, ctx));
    }
    None
}

fn inspect(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let container = exporter(template)?;
    check_labels(template, ctx);
    check_release(&container, ctx);
    check_memory(template, &container, ctx);
    let env = known(&container)?;
    let mounts = container.get("volumeMounts");
    if mounts.has_unknown() {
        return None;
    }
    check_mounts(&container, &env, &mounts, ctx);
    check_socket(template, &container, &env, ctx);
    check_interval(&container, &env, ctx)
}

/// Reports a counters file with a field that DCGM does not have: the exporter rejects the whole file (dcgm-exporter 4.4
/// `internal/pkg/counters`).
fn check_fields(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let Counters::Listed { config: ObjectKey(config), names, malformed } = counters(object, ctx.cluster())?
    else {
        return None;
    };
    if let Some(fault) = malformed {
        return check_lines(object, &config, &fault, ctx);
    }
    let name = names.iter().find(|name| name.starts_with("DCGM_FI_") && never_exported_by(name).is_some())?;
    let templates = templates(object);
    let container = templates.iter().find_map(exporter)?;
    let message =
        format!("dcgm-exporter exports nothing: DCGM has no field `{name}`, which its counters file lists");
    let like =
        right_name(name, Exporter::Dcgm).or_else(|| Some(of_more_words(name, Exporter::Dcgm)?.to_owned()));
    let help = match like {
        Some(like) => format!("write `{like}` in ConfigMap `{}`, or remove the line", config.display_name()),
        None => format!("remove the line from ConfigMap `{}`", config.display_name()),
    };
    let finding = ctx.report(&container.get("image"), message);
    finding.severity(Severity::Warning).help(help).identified_by(name);
    finding.related(&config, &config.get("data"), "its counters file");
    None
}

/// Reports a line of a counters file that the exporter cannot read: it ends at once.
fn check_lines(object: &Object, config: &Object, fault: &Malformed, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    let container = templates.iter().find_map(exporter)?;
    let (message, help) = match fault {
        Malformed::Fields(line, fields) => {
            let line = ellipsize(line);
            let message = match fields {
                1 => format!(
                    "dcgm-exporter does not start: `{line}` in its counters file is one field, not three"
                ),
                more => {
                    format!(
                        "dcgm-exporter does not start: `{line}` in its counters file has {more} fields, not three"
                    )
                }
            };
            let help = match fields {
                1 => "write each line as `DCGM_FI_DEV_GPU_UTIL, gauge, what it is`",
                _ => {
                    "write the field, the type and a text without commas, or the text in quotes without a blank before"
                }
            };
            (message, help)
        }
        Malformed::Type(kind) => (
            format!("dcgm-exporter does not start: `{}` in its counters file is not a type", ellipsize(kind)),
            "write `gauge`, `counter`, `histogram`, `summary` or `label`",
        ),
    };
    let finding = ctx.report(&container.get("image"), message);
    finding.severity(Severity::Warning).help(help);
    finding.related(config, &config.get("data"), "its counters file");
    None
}

/// Reports the folder of the kubelet, or a counters file, that no volume provides.
fn check_mounts(container: &Node<'_>, env: &Variables<'_>, mounts: &Node<'_>, ctx: &mut Context<'_>) {
    let is_mounted = |path: &str| {
        mounts.items().filter_map(|mount| mount.get("mountPath").text()).any(|mount| {
            let mount = mount.trim_end_matches('/');
            path == mount || path.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let socket = is_mounted(SOCKETS);
    let variable = env.get("DCGM_EXPORTER_KUBERNETES");
    let is_off = variable.is_none_or(|node| node.text() == Some("false"));
    // The GPU Operator creates its own exporter.
    let is_owned = ctx.object().is_owned();
    if is_off && !is_owned && !has_argument(container, &["-k", "--kubernetes"]) {
        let node = variable.cloned().unwrap_or_else(|| container.get("image"));
        // Who mounts the socket wants the labels, and so does a query of them.
        let query = query_of_labels(ctx);
        let is_wanted = socket || query.is_some();
        let finding =
            ctx.report(&node, "the metrics get no pod labels: `DCGM_EXPORTER_KUBERNETES` is not true");
        finding.help("set it to `true`, and mount `/var/lib/kubelet/pod-resources`").severity(if is_wanted {
            Severity::Warning
        } else {
            Severity::Info
        });
        if let Some((object, node)) = query {
            finding.related(object, &node, "a query uses the labels of pods");
        }
    }
    if let Some(node) = variable
        && node.text() == Some("true")
        && !socket
    {
        ctx.report(node, "the metrics get no pod labels: `/var/lib/kubelet/pod-resources` is not mounted")
            .help("mount it as a hostPath volume, read-only")
            .severity(Severity::Warning);
    }
    if let Some(node) = env.get("DCGM_EXPORTER_COLLECTORS")
        && let Some(path) = node.text()
        && path.starts_with(COUNTERS_FOLDER)
        && !COUNTERS_FILES.contains(&&path[COUNTERS_FOLDER.len()..])
        && !is_mounted(path)
    {
        ctx.report(node, format!("`{path}` is not among the image's counters files, and no volume has it"))
            .help(format!("write `{COUNTERS_FOLDER}{}`, or mount the file", COUNTERS_FILES[0]));
    }
}

/// A query of GPU metrics by the labels that Prometheus gives to the pods which the exporter names.
fn query_of_labels<'i>(ctx: &Context<'i>) -> Option<(&'i Object, Node<'i>)> {
    let names = |query: &&Query| query.text.contains("DCGM_FI_") && query.text.contains("exported_pod");
    let cluster = ctx.cluster();
    let kinds = [Kind::PROMETHEUS_RULE, Kind::VM_RULE, Kind::SCALED_OBJECT, Kind::SCALED_JOB];
    let mut near = kinds.into_iter().flat_map(|kind| cluster.of(kind)).filter(|other| ctx.pairs_with(other));
    near.find_map(|other| Some((other, queries(other).iter().find(names)?.node(other))))
}

/// The folder in which the kubelet has the socket that says which pod has which GPU.
const SOCKETS: &str = "/var/lib/kubelet/pod-resources";

/// Reports a volume that has another folder of the node in the place of the kubelet's.
fn check_socket(
    template: &Template<'_>,
    container: &Node<'_>,
    env: &Variables<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let by_variable = env.get("DCGM_EXPORTER_KUBERNETES").is_some_and(|node| node.text() == Some("true"));
    if !by_variable && !has_argument(container, &["-k", "--kubernetes"]) {
        return None;
    }
    let is_folder = |mount: &Node<'_>| {
        mount.get("mountPath").text().is_some_and(|path| path.trim_end_matches('/') == SOCKETS)
    };
    let mount = container.get("volumeMounts").items().find(is_folder)?;
    let volume = volume(template, mount.get("name").text()?)?;
    let (empty, host) = (volume.get("emptyDir"), volume.path(&["hostPath", "path"]));
    let (node, what) = if !empty.is_absent() {
        (empty, "an emptyDir".to_owned())
    } else {
        // Some distributions keep the folder of the kubelet elsewhere.
        let path = host.text().filter(|path| !path.trim_end_matches('/').ends_with("pod-resources"))?;
        let what = format!("`{}` of the node", ellipsize(path));
        (host, what)
    };
    ctx.report(
        &node,
        format!("the metrics get no pod labels: {what} is mounted in the place of `pod-resources`"),
    )
    .help(format!("mount the hostPath `{SOCKETS}` there, read-only"))
    .severity(Severity::Warning);
    None
}

/// Variables with which the exporter asks the API server for pods.
const FROM_API: [&str; 2] =
    ["DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID"];
/// The first release of the GPU Operator whose exporter may have a ClusterRole for pods (NVIDIA/gpu-operator#2406 and #2472).
const FIRST_WITH_RIGHTS: Version = Version::new(26, 3);

/// Reports labels of pods for which the exporter of the GPU Operator has no right: a warning in its log, and no labels.
fn check_rights(values: &ChartValues<'_, '_>, ctx: &mut Context<'_>) -> Option<()> {
    let variables = values.root.path(&["dcgmExporter", "env"]);
    let is_asked = |variable: &Node<'_>| {
        variable.get("name").text().is_some_and(|name| FROM_API.contains(&name))
            && (variable.get("value").text() == Some("true") || variable.get("value").bool() == Some(true))
    };
    let variable = variables.items().find(is_asked)?;
    let text = chart_version(ctx.object(), "gpu-operator", ctx.cluster())?;
    let version = Version::parse(text.trim().trim_start_matches('v'))?;
    if version >= FIRST_WITH_RIGHTS {
        return None;
    }
    let message =
        format!("no labels of pods in the metrics: the exporter of GPU Operator {version} may not read pods");
    let place = variable.get("name");
    report_value(values, &place, message, ctx)
        .help("bind `nvidia-dcgm-exporter` to a ClusterRole with `get`, `list` and `watch` for pods");
    Some(())
}

/// Bytes of memory with which the exporter was seen killed on nodes of eight GPUs.
const MEMORY: i128 = 512 << 20;
/// Bytes of memory that it does not reach at rest on such nodes: it is killed every few minutes.
const LITTLE_MEMORY: i128 = 400 << 20;

/// Bytes of memory that release 4 uses at rest beside one GPU.
const MEMORY_OF_ONE_GPU: i128 = 490 << 20;

const MEMORY_MESSAGE: &str =
    "dcgm-exporter needs more than 512 MiB of memory on nodes of eight GPUs, and may be killed at its limit";

/// The memory in the values of the chart. Which pools the exporter runs on is not known.
fn check_memory_of_chart(values: &ChartValues<'_, '_>, ctx: &mut Context<'_>) -> Option<()> {
    let limit = values.root.path(&["resources", "limits", "memory"]);
    if Quantity::at(&limit)?.value() > MEMORY || values.root.get("nodeSelector").is_set() {
        return None;
    }
    let cluster = ctx.cluster();
    let pools = cluster.of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool)).filter_map(NodePool::new);
    let is_large = |pool: &NodePool<'_>| {
        let types = pool.types();
        types.is_some_and(|types| !types.is_empty() && types.iter().all(|one| one.nvidia_gpu >= 8))
    };
    let pool = pools.into_iter().find(is_large)?;
    let pool = pool.object();
    report_value(values, &limit, MEMORY_MESSAGE.to_owned(), ctx)
        .severity(Severity::Info)
        .help("write a limit of `1Gi` or more")
        .related(pool, &pool.path(&["metadata", "name"]), "has types of eight GPUs");
    None
}

/// Reports a memory limit that is too low: of release 4 for any node, as it uses up to 490 MiB at rest beside one GPU
/// (<https://github.com/NVIDIA/dcgm-exporter/issues/609>, <https://github.com/pytorch/ci-infra/issues/1011>), otherwise for
/// nodes of eight GPUs.
fn check_memory(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let limit = container.path(&["resources", "limits", "memory"]);
    let bytes = Quantity::at(&limit)?.value();
    // The engine of another process has the memory then. Variables of a ConfigMap may name it.
    let is_remote = has_argument(container, &["-r", "--remote-hostengine-info"])
        || may_define(container, |name| name == "DCGM_REMOTE_HOSTENGINE_INFO");
    if bytes > MEMORY || is_remote {
        return None;
    }
    let selected = selected_types(template, ctx);
    let large = selected
        .as_ref()
        .map_or(0, |(types, _)| types.iter().filter(|instance| instance.nvidia_gpu >= 8).count());
    let tag = image_of(container).and_then(|image| image.tag);
    let is_too_little = bytes < MEMORY_OF_ONE_GPU && tag.is_some_and(|tag| tag.starts_with("4."));
    let Some((types, pool)) = selected.filter(|_| large > 0) else {
        if is_too_little {
            let message =
                "dcgm-exporter 4 uses up to 490 MiB of memory beside one GPU, and may be killed at its limit";
            ctx.report(&limit, message).severity(Severity::Warning).help("write a limit of `1Gi` or more");
        }
        return None;
    };
    let all = large == types.iter().count();
    let is_sure = is_too_little || all && bytes < LITTLE_MEMORY;
    let severity = if is_sure { Severity::Warning } else { Severity::Info };
    let finding = ctx.report(&limit, MEMORY_MESSAGE);
    finding.severity(severity).help("write a limit of `1Gi` or more");
    if let Some(pool) = pool {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "has types of eight GPUs");
    }
    None
}

/// Reports a monitor that scrapes more often than the exporter collects.
fn check_interval(container: &Node<'_>, env: &Variables<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let collects = match env.get("DCGM_EXPORTER_INTERVAL") {
        Some(node) => node.text()?.parse().ok()?,
        None if has_argument(container, &["-c", "--collect-interval"]) => return None,
        None => DEFAULT_INTERVAL,
    };
    let is_too_often = |endpoint: &Node<'_>| {
        let interval = endpoint.get("interval").text().and_then(|text| GoDuration::parse(text).ok());
        interval.is_some_and(|interval| {
            let scrapes = interval.nanoseconds() / 1_000_000;
            scrapes > 0 && i128::from(scrapes) < i128::from(collects)
        })
    };
    let monitors = ctx.cluster().satisfying::<DcgmMonitors>();
    let (monitor, endpoint) = monitors
        .iter()
        .find_map(|ObjectKey(monitor)| Some((monitor, endpoints(monitor).find(is_too_often)?)))?;
    let interval = endpoint.get("interval");
    let message = format!(
        "`{}` scrapes every {}, but the exporter collects every {} seconds",
        monitor.display_name(),
        interval.text().unwrap_or_default(),
        collects / 1000
    );
    let node = env.get("DCGM_EXPORTER_INTERVAL").cloned().unwrap_or_else(|| container.get("image"));
    ctx.report(&node, message)
        .help("set DCGM_EXPORTER_INTERVAL to the interval of the monitor, in milliseconds, or scrape less often")
        .related(monitor, &interval, "scraped here");
    None
}

/// Labels that only GPU feature discovery and the GPU operator set, on nodes that have joined.
const LATE: [&str; 3] = ["nvidia.com/gpu.", "nvidia.com/cuda.", "feature.node.kubernetes.io/"];

/// Reports a pod that Karpenter does not plan for, because it selects a label that no pool declares.
fn check_labels(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let labels = referenced_labels(template);
    let label = labels.iter().find(|label| {
        label.usage == LabelUse::Required && LATE.iter().any(|prefix| label.key.starts_with(prefix))
    })?;
    // The GPU Operator creates its own exporter.
    if ctx.object().is_owned() {
        return None;
    }
    let cluster = ctx.cluster();
    let pools = cluster.of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool));
    let pool = pools.filter_map(NodePool::new).find(|pool| {
        let declared = pool.object().path(&["spec", "template", "metadata", "labels"]);
        pool.is_gpu_intended()
            && declared.get(label.key).is_absent()
            && !declared.has_unknown_key()
            && !pool
                .template_spec()
                .get("requirements")
                .items()
                .any(|one| one.get("key").text().is_none_or(|key| key == label.key))
    })?;
    let pool = pool.object();
    let message =
        format!("Karpenter reserves no room for this pod: nodes get `{}` after they join", label.key);
    let finding = ctx.report(&label.node, message);
    if label.selector.is_some() {
        finding.at_key();
    }
    finding.help("require `karpenter.k8s.aws/instance-gpu-count` with `Gt` 0 instead").related(
        pool,
        &pool.path(&["metadata", "name"]),
        "this pool does not declare the label",
    );
    None
}

/// Reports a release that does not support the GPUs of a pool.
fn check_release(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let image = container.get("image");
    let tag = image_of(container)?.tag?;
    let release = tag.split('-').next().unwrap_or(tag);
    if !["2.", "3."].iter().any(|old| release.starts_with(old)) {
        return None;
    }
    let cluster = ctx.cluster();
    let pools = cluster.of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool));
    let (pool, gpu) = pools.filter_map(|pool| Some((pool, blackwell(&NodePool::new(pool)?)?))).next()?;
    let message =
        format!("dcgm-exporter {release} does not know the `{gpu}` GPUs of `{}`", pool.display_name());
    ctx.report(&image, message).help("install release 4 or later").severity(Severity::Warning).related(
        pool,
        &pool.path(&["metadata", "name"]),
        "its GPUs are of the Blackwell generation",
    );
    None
}

/// The Blackwell GPU of a pool that has no others.
fn blackwell(pool: &NodePool<'_>) -> Option<&'static str> {
    let mut found = None;
    for instance in pool.types()?.iter() {
        match instance.label("karpenter.k8s.aws/instance-gpu-name") {
            Label::Is(gpu)
                if ["b200", "b300", "gb200", "gb300", "rtx-pro-"]
                    .iter()
                    .any(|name| gpu.starts_with(name)) =>
            {
                found = Some(gpu);
            }
            _ => return None,
        }
    }
    found
}
