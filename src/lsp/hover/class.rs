//! Node classes, and the NodePools that refer to them.

use gpulint_rules::{Cluster, Kind, Node, Object};

use super::words::{code, count, more, written_at};
use super::{InSet, Place, has_node_class_ref, in_sets};
use crate::lsp::view::View;

/// Maximum number of terms, disks or pools to name.
const MOST: usize = 4;

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    let path = place.path();
    let is_class = place.object.is(Kind::EC2_NODE_CLASS) || place.object.is(Kind::AUTO_MODE_NODE_CLASS);
    if is_class && matches!(path.as_slice(), ["metadata", "name"] | ["kind"]) && !place.object.is_partial() {
        return in_sets(view, place.object, |set| Some(of_class(set.set.cluster, set.object, false)));
    }
    if !path.contains(&"nodeClassRef") {
        return None;
    }
    let reference = has_node_class_ref(place.object).filter(|reference| !reference.has_unknown())?;
    let (group, kind, name) =
        (reference.get("group").text()?, reference.get("kind").text()?, reference.get("name").text()?);
    in_sets(view, place.object, |set| of_reference(set, group, kind, name))
}

fn of_reference(set: &InSet<'_>, group: &str, kind: &str, name: &str) -> Option<String> {
    let cluster = set.set.cluster;
    let title = format!("{kind} {}", code(name));
    match cluster.all(group, kind, "default", name) {
        [one] => Some(of_class(cluster, one, true)),
        [] if group == Kind::AUTO_MODE_NODE_CLASS.group && name == "default" => {
            Some(format!("{title} is built into EKS Auto Mode."))
        }
        [] if cluster.is_complete() => Some(format!("**{title} does not exist.**")),
        [] => Some(format!("{title} is not in the input.")),
        several => {
            let places: Vec<String> =
                several.iter().take(MOST).map(|class| written_at(class).trim().to_owned()).collect();
            let others = several.len().saturating_sub(MOST);
            Some(format!("{title} is written several times: {}", more(places, others)))
        }
    }
}

fn of_class(cluster: &Cluster, class: &Object, with_place: bool) -> String {
    let place = if with_place { written_at(class) } else { String::new() };
    let mut out = format!("**{} {}**{place}\n", class.id().kind, code(&class.display_name()));
    let spec = class.get("spec");
    let mut lines = Vec::new();
    lines.extend(image(&spec));
    for field in ["role", "instanceProfile"] {
        lines.extend(spec.get(field).text().map(|text| format!("{field}: {}", code(text))));
    }
    lines.extend(disks(&spec));
    let policy = spec.get("instanceStorePolicy");
    if class.is(Kind::EC2_NODE_CLASS) {
        match policy.text() {
            Some("RAID0") => lines.push("local NVMe disks: one RAID 0 volume for images and pods".to_owned()),
            _ if !policy.is_set() => lines.push("local NVMe disks: not used for images and pods".to_owned()),
            _ => {}
        }
    }
    if class.is(Kind::AUTO_MODE_NODE_CLASS) {
        let size = spec.path(&["ephemeralStorage", "size"]);
        let size = size.text().map_or_else(|| "80Gi, the default".to_owned(), str::to_owned);
        lines.push(format!("disk: {size}, or the local NVMe disks as one volume"));
        lines.push("at most 110 pods on a node".to_owned());
    }
    if let Some(pods) = spec.path(&["kubelet", "maxPods"]).int() {
        lines.push(format!("at most {pods} pods on a node"));
    }
    let id = class.id();
    let uses = |pool: &&Object| {
        has_node_class_ref(pool).is_some_and(|reference| {
            reference.get("name").text() == Some(&id.name)
                && reference.get("kind").text() == Some(&id.kind)
                && reference.get("group").text() == Some(&id.group)
        })
    };
    let pools: Vec<String> = cluster
        .of(Kind::NODE_POOL)
        .filter(|pool| uses(pool) && cluster.pairs(class, pool))
        .map(|pool| code(&pool.display_name()))
        .collect();
    if !pools.is_empty() {
        let (number, hidden) = (pools.len(), pools.len().saturating_sub(MOST));
        let shown = pools.into_iter().take(MOST).collect();
        let verb = if number == 1 { "uses" } else { "use" };
        lines.push(format!("{} {verb} it: {}", count(number, "NodePool"), more(shown, hidden)));
    }
    for line in lines {
        out.push_str(&format!("\n- {line}"));
    }
    out.trim_end().to_owned()
}

/// The AMIs that the class selects. `None` if a placeholder decides it, or nothing is set.
fn image(spec: &Node<'_>) -> Option<String> {
    let terms = spec.get("amiSelectorTerms");
    if terms.has_unknown() {
        return None;
    }
    let mut texts: Vec<String> = Vec::new();
    for term in terms.items() {
        let fields: Vec<String> = ["alias", "id", "name", "owner", "ssmParameter"]
            .iter()
            .filter_map(|field| Some(format!("{field} {}", code(term.get(field).text()?))))
            .chain(term.get("tags").entries().into_iter().filter_map(|(key, value)| {
                Some(format!("tag {}", code(&format!("{key}={}", value.text()?))))
            }))
            .collect();
        texts.push(fields.join(" and "));
    }
    let family = spec.get("amiFamily").text().map(|family| format!(" (family {})", code(family)));
    let others = texts.len().saturating_sub(MOST);
    texts.truncate(MOST);
    (!texts.is_empty()).then(|| format!("AMI: {}{}", more(texts, others), family.unwrap_or_default()))
}

fn disks(spec: &Node<'_>) -> Option<String> {
    let list = spec.get("blockDeviceMappings");
    if list.has_unknown() || !list.is_set() {
        return None;
    }
    let mut texts: Vec<String> = Vec::new();
    for device in list.items() {
        let ebs = device.get("ebs");
        let mut parts: Vec<String> = Vec::new();
        parts.extend(device.get("deviceName").text().map(code));
        parts.extend(ebs.get("volumeSize").string_or_number().map(|size| size.into_owned()));
        parts.extend(ebs.get("volumeType").text().map(str::to_owned));
        if ebs.get("encrypted").bool() == Some(true) {
            parts.push("encrypted".to_owned());
        }
        texts.push(parts.join(" "));
    }
    let others = texts.len().saturating_sub(MOST);
    texts.truncate(MOST);
    (!texts.is_empty()).then(|| format!("disks: {}", more(texts, others)))
}
