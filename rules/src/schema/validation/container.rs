//! Containers: names, ports, environment and mounts.

use std::collections::BTreeSet;

use serde_json::json;

use crate::facts::names::{is_dns_subdomain, is_qualified_name};
use crate::facts::quantity::Quantity;
use crate::lint::fix::{Fix, Safety};
use crate::schema::violation::InvalidKind;
use crate::tree::node::Node;

use super::pod::{PodContext, PodSpecOwner};
use super::syntax::{CONFIG_KEY, DNS_LABEL, DNS_SUBDOMAIN, ENV_NAME, PORT_NAME, is_config_key, is_port_name};
use super::volume::{is_subscript, no_backsteps, relative};
use super::{
    Checker, Completion, is_kept, mapping_items, may_hold_more_fields, probe, quote, resources, security,
};

pub(super) fn containers<'a>(pod: &PodContext<'a>, report: &mut Checker<'a>) {
    let spec = &pod.spec;
    let list = spec.get("containers");
    if list.is_sequence() && list.items().next().is_none() && !report.partial {
        report.error(&list, "a pod needs a container").help("write at least one under `containers`");
    }
    let mut named = Vec::new();
    for container in mapping_items(&list) {
        common(pod, &container, report);
        probe::lifecycle(&container, pod.grace_period, report);
        probe::probes(&container, report);
        named.extend(name_of(&container));
    }
    for container in mapping_items(&spec.get("initContainers")) {
        common(pod, &container, report);
        init(pod, &container, report);
        named.extend(name_of(&container));
    }
    report.unique(named.into_iter(), "the name");
    // The container of an InferenceService that the runtime of its model completes.
    let model = spec.get("model");
    if report.completion == Completion::Lists && model.is_mapping() {
        common(pod, &model, report);
        probe::lifecycle(&model, pod.grace_period, report);
        probe::probes(&model, report);
    }
    host_ports(pod, report);
    resources::pod(spec, report);
}

fn name_of<'a>(container: &Node<'a>) -> Option<(Node<'a>, String)> {
    let node = container.get("name");
    let name = node.text()?.to_owned();
    Some((node, name))
}

/// An init container. With `restartPolicy: Always` it is a sidecar.
fn init<'a>(pod: &PodContext<'a>, container: &Node<'a>, report: &mut Checker<'a>) {
    let policy = container.get("restartPolicy");
    if policy.is_unknown() {
        return;
    }
    if policy.text() == Some("Always") {
        probe::lifecycle(container, pod.grace_period, report);
        probe::probes(container, report);
        return;
    }
    if report.partial || may_hold_more_fields(container) {
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let node = container.get(field);
        if node.is_set() {
            report
                .error(&node, format!("an init container that ends has no `{field}`"))
                .help("write `restartPolicy: Always` for a sidecar, or leave it out");
        }
    }
}

fn common<'a>(pod: &PodContext<'a>, container: &Node<'a>, report: &mut Checker<'a>) {
    report.required_name(container, "name", &DNS_LABEL);
    let image = container.get("image");
    if let Some(text) = report.required_text(container, "image")
        && pod.owner == PodSpecOwner::Pod
        && text.trim() != text
    {
        report
            .error(&image, "`image` has blanks at an end")
            .fix(Fix::new("remove the blanks", Safety::Safe).set(&image, json!(text.trim())));
    }
    ports(container, report);
    env(container, report);
    env_from(container, report);
    mounts(pod, container, report);
    devices(pod, container, report);
    resources::container(container, report);
    claims(pod, &container.path(&["resources", "claims"]), report);
    let own_users = pod.spec.get("hostUsers").bool() == Some(false);
    security::container(
        &container.get("securityContext"),
        own_users || pod.spec.get("hostUsers").is_unknown(),
        report,
    );
    // Kubernetes before 1.35 accepts none for a container, and only `Always` for an init container.
    let restart = container.get("restartPolicy");
    if restart.text().is_some_and(|policy| !matches!(policy, "Always" | "Never" | "OnFailure")) {
        let policy = quote(restart.text().unwrap_or_default());
        report
            .error(&restart, format!("`restartPolicy` {policy} is none of `Always`, `Never` and `OnFailure`"))
            .help("write `Always` for a sidecar, or leave it out");
    }
    let mut resized = Vec::new();
    for policy in mapping_items(&container.get("resizePolicy")) {
        let restart = policy.get("restartPolicy");
        if restart.text() == Some("RestartContainer") && pod.spec.get("restartPolicy").text() == Some("Never")
        {
            report
                .error(
                    &restart,
                    "`RestartContainer` is not allowed where the pod's `restartPolicy` is `Never`",
                )
                .help("write `NotRequired`");
        }
        let resource = policy.get("resourceName");
        resized.extend(resource.text().map(|t| (policy.clone(), t.to_owned())));
    }
    report.unique(resized.into_iter(), "the resource");
}

fn ports<'a>(container: &Node<'a>, report: &mut Checker<'a>) {
    let mut named = Vec::new();
    for port in mapping_items(&container.get("ports")) {
        let name = port.get("name");
        report.check_syntax_unless_empty(&name, &PORT_NAME);
        if let Some(text) = name.text()
            && is_port_name(text)
        {
            named.push((name, text.to_owned()));
        }
    }
    report.unique(named.into_iter(), "the port name");
}

/// Host ports: unique, and equal to the container port with `hostNetwork`.
fn host_ports<'a>(pod: &PodContext<'a>, report: &mut Checker<'a>) {
    let network = pod.spec.get("hostNetwork");
    let shared = network.bool() == Some(true);
    let mut seen = BTreeSet::new();
    for container in mapping_items(&pod.spec.get("containers")) {
        for port in mapping_items(&container.get("ports")) {
            let (host, inner) = (port.get("hostPort"), port.get("containerPort"));
            if let (Some(h), Some(c)) = (host.int(), inner.int())
                && shared
                && h != 0
                && h != c
            {
                report
                    .error(&host, "with `hostNetwork` it must equal `containerPort`")
                    .help(format!("write {c}, or leave `hostPort` out"));
            }
            // In a Pod, but not in a template, the API server defaults the host port to the container port.
            let number = match host.int() {
                Some(0) | None if shared && pod.owner == PodSpecOwner::Pod && !host.is_unknown() => {
                    inner.int()
                }
                other => other,
            };
            let Some(number) = number.filter(|n| *n != 0) else { continue };
            let protocol = port.get("protocol");
            let address = port.get("hostIP");
            if protocol.is_unknown() || address.is_unknown() {
                continue;
            }
            let protocol = protocol.text().filter(|p| !p.is_empty()).unwrap_or("TCP");
            let address = address.text().unwrap_or_default();
            if !seen.insert((protocol, address, number)) {
                report
                    .error(&host, format!("port {number} of the node is taken twice"))
                    .help("give each container its own port");
            }
        }
    }
}

fn env<'a>(container: &Node<'a>, report: &mut Checker<'a>) {
    for variable in mapping_items(&container.get("env")) {
        report.required_name(&variable, "name", &ENV_NAME);
        let from = variable.get("valueFrom");
        if !from.is_mapping() || !is_kept(&from) {
            continue;
        }
        let value = variable.get("value");
        if value.text().is_some_and(|v| !v.is_empty()) {
            report.error(&from, "`value` and `valueFrom` exclude each other").help("leave one of them out");
        }
        const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
        let written = SOURCES.iter().filter(|s| is_kept(&from.get(s))).count();
        if written > 1 || (written == 0 && !report.partial && !may_hold_more_fields(&from)) {
            report
                .error(&from, format!("`valueFrom` requires one source and has {written}"))
                .help(format!("write one of {}", super::join_or(SOURCES)));
        }
        field_ref(&from.get("fieldRef"), report);
        resource_ref(&from.get("resourceFieldRef"), report);
        for field in ["configMapKeyRef", "secretKeyRef"] {
            let reference = from.get(field);
            if reference.is_mapping() {
                report.required_name(&reference, "name", &DNS_SUBDOMAIN);
                if report.required_text(&reference, "key").is_some_and(|k| !is_config_key(k)) {
                    report.check_syntax(&reference.get("key"), &CONFIG_KEY);
                }
            }
        }
    }
}

fn field_ref<'a>(reference: &Node<'a>, report: &mut Checker<'a>) {
    const PATHS: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if !reference.is_mapping() {
        return;
    }
    let Some(path) = report.required_text(reference, "fieldPath") else { return };
    if PATHS.contains(&path) || is_subscript(path) {
        return;
    }
    let node = reference.get("fieldPath");
    let refusal = report.error(&node, format!("no variable can hold {}", quote(path)));
    if matches!(path, "metadata.labels" | "metadata.annotations") {
        refusal.help(format!("name one: `{path}['key']`"));
    } else if let Some(near) = crate::facts::suggest::nearest(path, PATHS.iter().copied()) {
        refusal.help(format!("did you mean `{near}`?"));
    }
}

fn resource_ref<'a>(reference: &Node<'a>, report: &mut Checker<'a>) {
    if !reference.is_mapping() {
        return;
    }
    let Some(resource) = report.required_text(reference, "resource") else { return };
    let node = reference.get("resource");
    let rest = resource.strip_prefix("limits.").or_else(|| resource.strip_prefix("requests."));
    let cpu = rest == Some("cpu");
    let known = rest
        .is_some_and(|r| matches!(r, "cpu" | "memory" | "ephemeral-storage") || r.starts_with("hugepages-"));
    if !known {
        report
            .error(&node, format!("no variable can hold {}", quote(resource)))
            .help("write `limits.` or `requests.` and `cpu`, `memory` or `ephemeral-storage`");
        return;
    }
    let divisor = reference.get("divisor");
    let Some(amount) = Quantity::at_or_zero(&divisor).filter(|q| !q.is_zero()) else { return };
    let units: &[&str] = if cpu {
        &["1", "1m"]
    } else {
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
    };
    if !units.iter().any(|u| Quantity::decode(u) == Ok(amount)) {
        report.error(&divisor, "`divisor` is not a unit of this resource").help(if cpu {
            "write `1` or `1m`"
        } else {
            "write 1, or 1 with a suffix such as `Mi`"
        });
    }
}

fn env_from<'a>(container: &Node<'a>, report: &mut Checker<'a>) {
    for source in mapping_items(&container.get("envFrom")) {
        report.check_syntax_unless_empty(&source.get("prefix"), &ENV_NAME);
        report.exactly_one(&source, &["configMapRef", "secretRef"]);
        for field in ["configMapRef", "secretRef"] {
            let reference = source.get(field);
            if reference.is_mapping() {
                // The API server validates this name as a prefix, which may end in `-`.
                if let Some(name) = report.required_text(&reference, "name")
                    && !is_dns_subdomain(name.strip_suffix('-').unwrap_or(name))
                {
                    report.check_syntax(&reference.get("name"), &DNS_SUBDOMAIN);
                }
            }
        }
    }
}

fn mounts<'a>(pod: &PodContext<'a>, container: &Node<'a>, report: &mut Checker<'a>) {
    let privileged = container.path(&["securityContext", "privileged"]);
    let mut paths = Vec::new();
    for mount in mapping_items(&container.get("volumeMounts")) {
        let name = mount.get("name");
        if let Some(text) = report.required_text(&mount, "name")
            && let Some(volumes) = &pod.volumes
            && !volumes.contains(text)
        {
            unknown_volume(&name, text, volumes, report);
        }
        if let Some(path) = report.required_text(&mount, "mountPath") {
            paths.push((mount.get("mountPath"), path.to_owned()));
        }
        for field in ["subPath", "subPathExpr"] {
            let node = mount.get(field);
            if node.text().is_some_and(|t| !t.is_empty()) {
                relative(&node, report);
            }
        }
        let both = |n: &Node<'_>| n.is_set() && n.text() != Some("");
        let (sub, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
        if both(&sub) && both(&expression) {
            report.error(&expression, "`subPath` and `subPathExpr` exclude each other");
        }
        let propagation = mount.get("mountPropagation");
        if propagation.text() == Some("Bidirectional")
            && privileged.bool() != Some(true)
            && !privileged.is_unknown()
            && !report.partial
        {
            report
                .error(&propagation, "`Bidirectional` needs a privileged container")
                .help("write `HostToContainer`");
        }
        let recursive = mount.get("recursiveReadOnly");
        if matches!(recursive.text(), Some("Enabled" | "IfPossible")) {
            let read_only = mount.get("readOnly");
            if read_only.bool() != Some(true) && !read_only.is_unknown() && !report.partial {
                report
                    .error(&recursive, "`recursiveReadOnly` needs `readOnly: true`")
                    .help("write `readOnly: true`");
            }
            if matches!(propagation.text(), Some("Bidirectional" | "HostToContainer")) {
                report.error(&recursive, "`recursiveReadOnly` excludes `mountPropagation`");
            }
        }
    }
    report.unique(paths.into_iter(), "the path");
}

fn unknown_volume<'a>(node: &Node<'a>, name: &str, volumes: &BTreeSet<&'a str>, report: &mut Checker<'a>) {
    let refusal = report.error(node, format!("the pod has no volume {}", quote(name)));
    refusal.kind = InvalidKind::UnknownVolume;
    match crate::facts::suggest::nearest(name, volumes.iter().copied()) {
        Some(near) => refusal.help(format!("did you mean `{near}`?")),
        None => refusal.help("write it under `volumes`"),
    };
}

/// `volumeDevices`: volumes mounted as block devices.
fn devices<'a>(pod: &PodContext<'a>, container: &Node<'a>, report: &mut Checker<'a>) {
    let mounted: Vec<(Option<&str>, Option<&str>)> = mapping_items(&container.get("volumeMounts"))
        .map(|m| (m.get("name").text(), m.get("mountPath").text()))
        .collect();
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for device in mapping_items(&container.get("volumeDevices")) {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        if let Some(text) = report.required_text(&device, "name") {
            if let Some(volumes) = &pod.volumes {
                if !volumes.contains(text) {
                    unknown_volume(&name, text, volumes, report);
                } else if !pod.claim_volumes.contains(text) {
                    report
                        .error(&name, format!("the volume {} is not a claim", quote(text)))
                        .help("only a claim can be a block device");
                }
            }
            if mounted.iter().any(|(n, _)| *n == Some(text)) {
                report.error(&name, format!("{} is mounted as well", quote(text)));
            }
            names.push((name, text.to_owned()));
        }
        if let Some(text) = report.required_text(&device, "devicePath") {
            no_backsteps(&path, report);
            if mounted.iter().any(|(_, p)| *p == Some(text)) {
                report.error(&path, format!("{} is a mount's path as well", quote(text)));
            }
            paths.push((path, text.to_owned()));
        }
    }
    report.unique(names.into_iter(), "the volume");
    report.unique(paths.into_iter(), "the path");
}

/// `resources.claims`: references to resource claims of the pod.
fn claims<'a>(pod: &PodContext<'a>, list: &Node<'a>, report: &mut Checker<'a>) {
    let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
    for claim in mapping_items(list) {
        let Some(name) = report.required_text(&claim, "name") else { continue };
        // If the claims of the pod are known, an invalid name is reported as not found.
        let known = pod.resource_claims.as_ref().is_some_and(|devices| !devices.contains(name));
        if !is_qualified_name(name) && !known {
            continue;
        }
        let request = claim.get("request");
        report.check_syntax_unless_empty(&request, &DNS_LABEL);
        if request.is_unknown() {
            continue;
        }
        let part = request.text().unwrap_or_default();
        let whole = used.contains(&(name, ""));
        let other = part.is_empty() && used.iter().any(|(n, _)| *n == name);
        if whole || other || !used.insert((name, part)) {
            report
                .error(&claim, format!("the claim {} is used twice", quote(name)))
                .help("use it once, or name another `request` each time");
        }
        if let Some(devices) = &pod.resource_claims
            && !devices.contains(name)
        {
            let refusal = report.error(&claim, format!("the pod has no claim {}", quote(name)));
            match crate::facts::suggest::nearest(name, devices.iter().copied()) {
                Some(near) => refusal.help(format!("did you mean `{near}`?")),
                None => refusal.help("write it under the pod's `resourceClaims`"),
            };
        }
    }
}
