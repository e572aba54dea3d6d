//! dcgm-exporter is set up so that its metrics lack something.
//!
//! # Why
//! The exporter learns which pod uses which GPU from the kubelet's socket: without
//! `/var/lib/kubelet/pod-resources` its metrics have no pod labels. A counters file that is not in the
//! image and not mounted stops it. And it collects every 30 seconds by default, so a scrape every 15
//! seconds reads each value twice.
//!
//! # Fix
//! Mount the folder, name a counters file that exists, scrape as often as the exporter collects.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: apps/v1
//! kind: DaemonSet
//! metadata: {name: dcgm-exporter, namespace: gpu-operator}
//! spec:
//!   selector: {matchLabels: {app: dcgm-exporter}}
//!   template:
//!     metadata: {labels: {app: dcgm-exporter}}
//!     spec:
//!       containers:
//!         - name: exporter
//!           image: nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless
//!           env:
//!             - {name: DCGM_EXPORTER_KUBERNETES, value: "true"} # <-
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: apps/v1
//! kind: DaemonSet
//! metadata: {name: dcgm-exporter, namespace: gpu-operator}
//! spec:
//!   selector: {matchLabels: {app: dcgm-exporter}}
//!   template:
//!     metadata: {labels: {app: dcgm-exporter}}
//!     spec:
//!       containers:
//!         - name: exporter
//!           image: nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless
//!           env:
//!             - {name: DCGM_EXPORTER_KUBERNETES, value: "true"}
//!           volumeMounts:
//!             - name: pod-resources
//!               mountPath: /var/lib/kubelet/pod-resources
//!               readOnly: true
//!       volumes:
//!         - name: pod-resources
//!           hostPath: {path: /var/lib/kubelet/pod-resources}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/dcgm-exporter>
//! - <https://docs.nvidia.com/datacenter/dcgm/latest/gpu-telemetry/dcgm-exporter.html>

use crate::facts::duration::GoDuration;
use crate::rules::monitoring::monitors::{POD_MONITOR, SERVICE_MONITOR, dcgm_monitors, endpoints};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "dcgm-exporter-config",
    kinds: &[Kind::DAEMON_SET],
    reads: &[SERVICE_MONITOR, POD_MONITOR],
    docs: docs(include_str!("dcgm_exporter_config.rs")),
    check: Check::PodTemplate(check),
    ..Rule::info(Group::Monitoring)
};

/// The counters files of the image.
const FILES: [&str; 3] =
    ["default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv"];
const FOLDER: &str = "/etc/dcgm-exporter/";
/// How often the exporter collects by default, in milliseconds.
const INTERVAL: i64 = 30_000;

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let container = exporter(template)?;
    let env = env(&container)?;
    let mounts = container.get("volumeMounts");
    if mounts.has_unknown() {
        return None;
    }
    let is_mounted = |path: &str| {
        mounts.items().filter_map(|mount| mount.get("mountPath").text()).any(|mount| {
            let mount = mount.trim_end_matches('/');
            path == mount || path.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let kubernetes = env.get("DCGM_EXPORTER_KUBERNETES");
    if let Some(node) = kubernetes
        && node.text() == Some("true")
        && !is_mounted("/var/lib/kubelet/pod-resources")
    {
        ctx.report(node, "the metrics get no pod labels: `/var/lib/kubelet/pod-resources` is not mounted")
            .help("mount it as a hostPath volume, read-only")
            .severity(Severity::Warning);
    }
    if let Some(node) = env.get("DCGM_EXPORTER_COLLECTORS")
        && let Some(path) = node.text()
        && path.starts_with(FOLDER)
        && !FILES.contains(&&path[FOLDER.len()..])
        && !is_mounted(path)
    {
        ctx.report(node, format!("`{path}` is not among the image's counters files, and no volume has it"))
            .help(format!("write `{FOLDER}{}`, or mount the file", FILES[0]));
    }
    let collects = match env.get("DCGM_EXPORTER_INTERVAL") {
        Some(node) => node.text()?.parse().ok()?,
        None if has_argument(&container, &["-c", "--collect-interval"]) => return None,
        None => INTERVAL,
    };
    let often = |endpoint: &Node<'_>| {
        let interval = GoDuration::parse(endpoint.get("interval").text()?).ok()?;
        let scrapes = interval.nanoseconds() / 1_000_000;
        (scrapes > 0 && i128::from(scrapes) < i128::from(collects)).then_some(())
    };
    let (monitor, endpoint) = dcgm_monitors(ctx).find_map(|monitor| {
        Some((monitor, endpoints(monitor).find(|endpoint| often(endpoint).is_some())?))
    })?;
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

/// The container that runs dcgm-exporter.
fn exporter<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let mut containers = template.containers();
    containers.find(|container| {
        container.get("image").text().is_some_and(|image| {
            let name = image.split('@').next().unwrap_or(image).rsplit('/').next().unwrap_or(image);
            name.split(':').next() == Some("dcgm-exporter")
        })
    })
}

/// The environment of a container by name. `None` if a part of it is not known.
fn env<'a>(container: &Node<'a>) -> Option<std::collections::BTreeMap<&'a str, Node<'a>>> {
    let list = container.get("env");
    if list.has_unknown() || container.get("envFrom").is_set() {
        return None;
    }
    Some(list.items().filter_map(|entry| Some((entry.get("name").text()?, entry.get("value")))).collect())
}

fn has_argument(container: &Node<'_>, names: &[&str]) -> bool {
    let lists = [container.get("command"), container.get("args")];
    lists.iter().flat_map(|list| list.items()).any(|argument| {
        argument.raw_text().is_none_or(|text| names.iter().any(|name| text.starts_with(name)))
    })
}

/// Whether a DaemonSet of dcgm-exporter exports the default metrics; `None` for other DaemonSets.
pub(super) fn uses_default_counters(object: &Object) -> Option<bool> {
    let templates = templates(object);
    let container = templates.iter().find_map(exporter)?;
    let Some(env) = env(&container) else { return Some(false) };
    let file = match env.get("DCGM_EXPORTER_COLLECTORS") {
        Some(node) => match node.text() {
            Some(path) => path,
            None => return Some(false),
        },
        None => "/etc/dcgm-exporter/default-counters.csv",
    };
    let in_image = file.strip_prefix(FOLDER).is_some_and(|name| FILES[..2].contains(&name));
    let is_covered = container
        .get("volumeMounts")
        .items()
        .any(|mount| mount.get("mountPath").text().is_none_or(|path| path.starts_with("/etc/dcgm-exporter")));
    let arguments = has_argument(&container, &["-f", "--collectors", "-m", "--configmap-data"]);
    let other = env.contains_key("DCGM_EXPORTER_CONFIGMAP_DATA");
    Some(in_image && !is_covered && !arguments && !other)
}
