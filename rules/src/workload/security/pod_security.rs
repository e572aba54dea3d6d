//! Pod Security admission: what the levels `baseline` and `restricted` forbid in pods.
//!
//! The checks are those of `k8s.io/pod-security-admission/policy`, Kubernetes 1.37, with the version of each; `procMount` is
//! left out, which other validation forbids without a user namespace. Values that are unknown are not reported.

use crate::platform::Version;
use crate::tree::node::Node;
use crate::workload::template::Template;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Baseline,
    Restricted,
}

/// A field with which a level rejects a pod.
pub(crate) struct Breach<'a> {
    pub(crate) node: Node<'a>,
    /// For messages: the field, with its value if that is wrong.
    pub(crate) what: String,
    /// Whether the level demands what is not there.
    pub(crate) is_absent: bool,
    /// The lowest level that rejects it.
    pub(crate) level: Level,
}

/// What a level rejects in the pods of a template, by the checks of a version of Kubernetes.
pub(crate) fn breaches<'a>(template: &Template<'a>, level: Level, version: Version) -> Vec<Breach<'a>> {
    let mut out = Found { out: Vec::new(), level: Level::Baseline };
    host(template, &mut out);
    for context in contexts(template) {
        profiles(&context, version, &mut out);
    }
    sysctls(template, version, &mut out);
    for container in template.all_containers() {
        if version >= Version::new(1, 34) {
            handlers(&container, &mut out);
        }
        capabilities(&container, &CAPABILITIES, &mut out);
    }
    if level == Level::Restricted {
        out.level = Level::Restricted;
        restricted(template, version, &mut out);
    }
    out.out
}

/// The breaches that were found, and the level whose checks run.
struct Found<'a> {
    out: Vec<Breach<'a>>,
    level: Level,
}

impl<'a> Found<'a> {
    fn add(&mut self, node: Node<'a>, what: impl Into<String>) {
        self.out.push(Breach { node, what: what.into(), is_absent: false, level: self.level });
    }

    fn lacks(&mut self, node: Node<'a>, what: &str) {
        self.out.push(Breach { node, what: what.to_owned(), is_absent: true, level: self.level });
    }
}

/// The security contexts of the pod and of its containers.
fn contexts<'a>(template: &Template<'a>) -> Vec<Node<'a>> {
    let places = std::iter::once(template.spec.clone()).chain(template.all_containers());
    places.map(|place| place.get("securityContext")).collect()
}

/// What pods share with their node.
fn host<'a>(template: &Template<'a>, out: &mut Found<'a>) {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        let node = template.spec.get(field);
        if node.bool() == Some(true) {
            out.add(node, format!("`{field}`"));
        }
    }
    for volume in template.spec.get("volumes").items() {
        let path = volume.get("hostPath");
        if path.is_mapping() {
            out.add(path, "`hostPath`");
        }
    }
    for container in template.all_containers() {
        for port in container.get("ports").items().map(|port| port.get("hostPort")) {
            if port.int().is_some_and(|port| port != 0) {
                out.add(port, "`hostPort`");
            }
        }
        let privileged = container.path(&["securityContext", "privileged"]);
        if privileged.bool() == Some(true) {
            out.add(privileged, "`privileged`");
        }
    }
}

fn profiles<'a>(context: &Node<'a>, version: Version, out: &mut Found<'a>) {
    for profile in ["seccompProfile", "appArmorProfile"] {
        let node = context.path(&[profile, "type"]);
        if node.text() == Some("Unconfined") {
            out.add(node, format!("an unconfined `{profile}`"));
        }
    }
    let process = context.path(&["windowsOptions", "hostProcess"]);
    if process.bool() == Some(true) {
        out.add(process, "`hostProcess`");
    }
    for field in ["user", "role", "type"] {
        let node = context.path(&["seLinuxOptions", field]);
        let is_allowed = |value: &str| match value {
            "" => true,
            "container_t" | "container_init_t" | "container_kvm_t" => field == "type",
            "container_engine_t" => field == "type" && version >= Version::new(1, 31),
            _ => false,
        };
        if node.text().is_some_and(|value| !is_allowed(value)) {
            out.add(node, format!("`{field}` of `seLinuxOptions`"));
        }
    }
}

/// The parameters of the kernel that pods may set, with the version that allows each.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_notsent_lowat", 37),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
];

fn sysctls<'a>(template: &Template<'a>, version: Version, out: &mut Found<'a>) {
    for sysctl in template.spec.path(&["securityContext", "sysctls"]).items() {
        let name = sysctl.get("name");
        let is_allowed = |text: &str| {
            SYSCTLS.iter().any(|(known, minor)| *known == text && version >= Version::new(1, *minor))
        };
        if let Some(text) = name.text().filter(|text| !is_allowed(text)) {
            out.add(name, format!("`{text}`"));
        }
    }
}

/// The capabilities that `baseline` allows.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn capabilities<'a>(container: &Node<'a>, allowed: &[&str], out: &mut Found<'a>) {
    for added in container.path(&["securityContext", "capabilities", "add"]).items() {
        if let Some(name) = added.text().filter(|name| !allowed.contains(name)) {
            out.add(added, format!("the capability `{name}`"));
        }
    }
}

/// The hosts that probes and hooks of the lifecycle connect to.
fn handlers<'a>(container: &Node<'a>, out: &mut Found<'a>) {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| container.get(probe));
    let hooks = ["postStart", "preStop"].map(|hook| container.path(&["lifecycle", hook]));
    for handler in probes.into_iter().chain(hooks) {
        for host in ["httpGet", "tcpSocket"].map(|action| handler.path(&[action, "host"])) {
            if host.text().is_some_and(|host| !host.is_empty()) {
                out.add(host, "`host` in a probe or hook");
            }
        }
    }
}

/// The types of volumes that `restricted` forbids, beside `hostPath`.
const VOLUMES: [&str; 20] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// The checks of `restricted` beside those of `baseline`.
fn restricted<'a>(template: &Template<'a>, version: Version, out: &mut Found<'a>) {
    for volume in template.spec.get("volumes").items() {
        for (kind, source) in volume.entries() {
            if VOLUMES.contains(&kind) && source.is_mapping() {
                out.add(source, format!("`{kind}`"));
            }
        }
    }
    // Pods in a user namespace may run as root since 1.35, before that by a feature gate.
    let users = template.spec.get("hostUsers");
    let may_be_root = users.is_unknown() || users.bool() == Some(false);
    for context in contexts(template) {
        let (user, non_root) = (context.get("runAsUser"), context.get("runAsNonRoot"));
        if user.int() == Some(0) && !may_be_root && version >= Version::new(1, 23) {
            out.add(user, "`runAsUser: 0`");
        }
        if non_root.bool() == Some(false) && !may_be_root {
            out.add(non_root, "`runAsNonRoot: false`");
        }
        let escalation = context.get("allowPrivilegeEscalation");
        if escalation.bool() == Some(true) {
            out.add(escalation, "`allowPrivilegeEscalation: true`");
        }
    }
    if version >= Version::new(1, 22) {
        for container in template.all_containers() {
            capabilities(&container, &["NET_BIND_SERVICE"], out);
        }
    }
    demanded(template, version, may_be_root, out);
}

/// What `restricted` demands of each container.
fn demanded<'a>(template: &Template<'a>, version: Version, may_be_root: bool, out: &mut Found<'a>) {
    let pod = template.spec.get("securityContext");
    let system = template.spec.path(&["os", "name"]);
    let is_open = |node: &Node<'_>| node.is_unknown() || node.has_unknown_key();
    if is_open(&template.spec) || is_open(&pod) {
        return;
    }
    let is_linux = !system.is_unknown() && system.text() != Some("windows");
    for container in template.all_containers() {
        let context = container.get("securityContext");
        if is_open(&container) || is_open(&context) {
            continue;
        }
        let is_absent = |field: &str| !context.get(field).is_set() && !pod.get(field).is_set();
        if is_absent("runAsNonRoot") && !may_be_root {
            out.lacks(context.get("runAsNonRoot"), "`runAsNonRoot`");
        }
        if !is_linux {
            continue;
        }
        let escalation = context.get("allowPrivilegeEscalation");
        if !escalation.is_set() && version >= Version::new(1, 8) {
            out.lacks(escalation, "`allowPrivilegeEscalation`");
        }
        if is_absent("seccompProfile") && version >= Version::new(1, 19) {
            out.lacks(context.get("seccompProfile"), "`seccompProfile`");
        }
        let list = context.path(&["capabilities", "drop"]);
        let has_all = list.items().any(|one| one.is_unknown() || one.text() == Some("ALL"));
        let is_unknown = list.is_unknown() || is_open(&context.get("capabilities"));
        if !has_all && !is_unknown && version >= Version::new(1, 22) {
            out.lacks(list, "`drop: [ALL]`");
        }
    }
}
