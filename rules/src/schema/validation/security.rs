//! Security contexts of pods and containers.

use crate::tree::node::Node;

use super::{Report, maps, shown};

pub(super) fn pod<'a>(spec: &Node<'a>, report: &mut Report<'a>) {
    let context = spec.get("securityContext");
    for group in context.get("supplementalGroups").items() {
        if let Some(id) = group.int()
            && !(0..=i64::from(i32::MAX)).contains(&id)
        {
            report.at(&group, format!("{id} is no group id")).help("write a number from 0 to 2147483647");
        }
    }
    if spec.get("shareProcessNamespace").bool() == Some(true) && spec.get("hostPID").bool() == Some(true) {
        report
            .at(
                &spec.get("shareProcessNamespace"),
                "`shareProcessNamespace` and `hostPID` exclude each other",
            )
            .help("leave one of them out");
    }
    if spec.get("hostUsers").bool() == Some(false) {
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            let node = spec.get(field);
            if node.bool() == Some(true) {
                report.at(&node, format!("`hostUsers: false` excludes `{field}`"));
            }
        }
    }
    let mut named = Vec::new();
    for sysctl in maps(&context.get("sysctls")) {
        let Some(name) = report.text(&sysctl, "name") else {
            continue;
        };
        let node = sysctl.get("name");
        if !is_sysctl(name) {
            report.at(&node, format!("{} is no sysctl", shown(name)));
        }
        for (switch, prefixes) in [
            ("hostNetwork", &["net."][..]),
            ("hostIPC", &["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."][..]),
        ] {
            let dotted = name.replace('/', ".");
            if spec.get(switch).bool() == Some(true) && prefixes.iter().any(|p| dotted.starts_with(p)) {
                report.at(&node, format!("{} is the host's with `{switch}`", shown(name)));
            }
        }
        named.push((node, name.to_owned()));
    }
    report.unique(named.into_iter(), "the sysctl");
    profiles(&context, report);
}

/// The context of a container; `own_users` says that the pod has its own user namespace.
pub(super) fn container<'a>(context: &Node<'a>, own_users: bool, report: &mut Report<'a>) {
    if !context.is_mapping() {
        return;
    }
    let escalation = context.get("allowPrivilegeEscalation");
    if escalation.bool() == Some(false) {
        if context.get("privileged").bool() == Some(true) {
            report
                .at(context, "`privileged` and `allowPrivilegeEscalation: false` exclude each other")
                .help("leave one of them out");
        }
        let added = context.path(&["capabilities", "add"]);
        if added.items().any(|c| c.text() == Some("CAP_SYS_ADMIN")) {
            report
                .at(context, "`CAP_SYS_ADMIN` excludes `allowPrivilegeEscalation: false`")
                .help("leave one of them out");
        }
    }
    let mount = context.get("procMount");
    if mount.text() == Some("Unmasked") && !own_users {
        report
            .at(&mount, "`procMount: Unmasked` needs `hostUsers: false`")
            .help("write `hostUsers: false` in the pod spec");
    }
    profiles(context, report);
}

/// Seccomp and AppArmor: only a profile of the node has a name.
fn profiles<'a>(context: &Node<'a>, report: &mut Report<'a>) {
    for field in ["seccompProfile", "appArmorProfile"] {
        let profile = context.get(field);
        if !profile.is_mapping() {
            continue;
        }
        let name = profile.get("localhostProfile");
        let Some(kind) = profile.get("type").text() else {
            continue;
        };
        if kind == "Localhost" {
            if !name.exists() {
                report.missing(&profile, "localhostProfile", "`type: Localhost` needs `localhostProfile`");
            } else if let Some(text) = name.text() {
                if field == "appArmorProfile" && (text.is_empty() || text.trim() != text) {
                    report.at(&name, format!("{} is no profile's name", shown(text)));
                } else if field == "seccompProfile" {
                    super::volume::relative(&name, report);
                }
            }
        } else if name.exists() {
            report
                .at(&name, "`localhostProfile` needs `type: Localhost`")
                .help("leave it out, or write `type: Localhost`");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().copied().is_some_and(inner)
                && bytes.last().copied().is_some_and(inner)
                && bytes.iter().all(|b| inner(*b) || matches!(b, b'-' | b'_'))
        })
}
