//! Security contexts of pods and containers.

use crate::tree::node::Node;

use super::{Checker, mapping_items, quote};

pub(super) fn pod<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let context = spec.get("securityContext");
    for group in context.get("supplementalGroups").items() {
        if let Some(id) = group.int()
            && !(0..=i64::from(i32::MAX)).contains(&id)
        {
            report
                .error(&group, format!("{id} is not a group id"))
                .help("write a number from 0 to 2147483647");
        }
    }
    if spec.get("shareProcessNamespace").bool() == Some(true) && spec.get("hostPID").bool() == Some(true) {
        report
            .error(
                &spec.get("shareProcessNamespace"),
                "`shareProcessNamespace` and `hostPID` exclude each other",
            )
            .help("leave one of them out");
    }
    if spec.get("hostUsers").bool() == Some(false) {
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            let node = spec.get(field);
            if node.bool() == Some(true) {
                report.error(&node, format!("`hostUsers: false` excludes `{field}`"));
            }
        }
    }
    let mut named = Vec::new();
    for sysctl in mapping_items(&context.get("sysctls")) {
        let Some(name) = report.required_text(&sysctl, "name") else { continue };
        let node = sysctl.get("name");
        if !is_sysctl(name) {
            report.error(&node, format!("{} is not a sysctl", quote(name)));
        }
        for (switch, prefixes) in [
            ("hostNetwork", &["net."][..]),
            ("hostIPC", &["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."][..]),
        ] {
            let dotted = name.replace('/', ".");
            if spec.get(switch).bool() == Some(true) && prefixes.iter().any(|p| dotted.starts_with(p)) {
                report.error(&node, format!("{} is the host's with `{switch}`", quote(name)));
            }
        }
        named.push((node, name.to_owned()));
    }
    report.unique(named.into_iter(), "the sysctl");
    profiles(&context, report);
}

/// The security context of a container; `own_users`: the pod has its own user namespace (`hostUsers: false`).
pub(super) fn container<'a>(context: &Node<'a>, own_users: bool, report: &mut Checker<'a>) {
    if !context.is_mapping() {
        return;
    }
    let escalation = context.get("allowPrivilegeEscalation");
    if escalation.bool() == Some(false) {
        if context.get("privileged").bool() == Some(true) {
            report
                .error(context, "`privileged` and `allowPrivilegeEscalation: false` exclude each other")
                .help("leave one of them out");
        }
        let added = context.path(&["capabilities", "add"]);
        if added.items().any(|c| c.text() == Some("CAP_SYS_ADMIN")) {
            report
                .error(context, "`CAP_SYS_ADMIN` excludes `allowPrivilegeEscalation: false`")
                .help("leave one of them out");
        }
    }
    let mount = context.get("procMount");
    if mount.text() == Some("Unmasked") && !own_users {
        report
            .error(&mount, "`procMount: Unmasked` needs `hostUsers: false`")
            .help("write `hostUsers: false` in the pod spec");
    }
    profiles(context, report);
}

/// Seccomp and AppArmor profiles: only those of type `Localhost` have a name.
fn profiles<'a>(context: &Node<'a>, report: &mut Checker<'a>) {
    for field in ["seccompProfile", "appArmorProfile"] {
        let profile = context.get(field);
        if !profile.is_mapping() {
            continue;
        }
        let name = profile.get("localhostProfile");
        let Some(kind) = profile.get("type").text() else { continue };
        if kind == "Localhost" {
            if !name.is_set() {
                report.missing(&profile, "localhostProfile", "`type: Localhost` needs `localhostProfile`");
            } else if let Some(text) = name.text() {
                if field == "appArmorProfile" && (text.is_empty() || text.trim() != text) {
                    report.error(&name, format!("{} is not a profile's name", quote(text)));
                } else if field == "seccompProfile" {
                    super::volume::relative(&name, report);
                }
            }
        } else if name.is_set() {
            report
                .error(&name, "`localhostProfile` needs `type: Localhost`")
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
