//! Volumes of pods, and PersistentVolumeClaims.

use std::collections::BTreeSet;

use crate::facts::quantity::Quantity;
use crate::schema::violation::InvalidKind;
use crate::tree::node::Node;

use super::pod::PodSpecOwner;
use super::selector;
use super::selector::selector;
use super::syntax::{DNS_LABEL, DNS_SUBDOMAIN, DRIVER_NAME};
use super::{Checker, field_name, is_kept, mapping_items, may_hold_more_fields, quote};

/// The sources of a volume, in the order in which the API server checks them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

/// The volumes of a pod, without those that a StatefulSet replaces by its claim templates.
pub(super) fn volumes<'a>(
    list: &Node<'a>,
    of: PodSpecOwner,
    claimed: Option<&BTreeSet<&'a str>>,
    report: &mut Checker<'a>,
) {
    let mut named = Vec::new();
    for volume in mapping_items(list) {
        let name = volume.get("name");
        if of == PodSpecOwner::StatefulSet
            && name.text().is_some_and(|n| claimed.is_none_or(|c| c.contains(n)))
        {
            continue;
        }
        if let Some(text) = report.required_name(&volume, "name", &DNS_LABEL) {
            named.push((name, text.to_owned()));
        }
        let mut written = SOURCES.iter().filter(|s| is_kept(&volume.get(s)));
        if let (Some(a), Some(b)) = (written.next(), written.next()) {
            report
                .error(&volume.get(b), format!("a volume is one thing, not `{a}` and `{b}`"))
                .help("write two volumes");
            continue;
        }
        source(&volume, report);
    }
    report.unique(named.into_iter(), "the volume");
}

fn source<'a>(volume: &Node<'a>, report: &mut Checker<'a>) {
    let limit = volume.path(&["emptyDir", "sizeLimit"]);
    if Quantity::at_or_zero(&limit).is_some_and(|q| q < Quantity::ZERO) {
        report.error(&limit, "`sizeLimit` is below 0");
    }
    let host = volume.get("hostPath");
    if host.is_mapping() && report.required_text(&host, "path").is_some() {
        no_backsteps(&host.get("path"), report);
    }
    for (kind, name) in [("secret", "secretName"), ("configMap", "name")] {
        let block = volume.get(kind);
        if block.is_mapping() {
            report.required_text(&block, name);
            mode(&block, "defaultMode", report);
            items(&block, report);
        }
    }
    let claim = volume.get("persistentVolumeClaim");
    if claim.is_mapping() {
        report.required_text(&claim, "claimName");
    }
    let nfs = volume.get("nfs");
    if nfs.is_mapping() {
        report.required_text(&nfs, "server");
        if report.required_text(&nfs, "path").is_some_and(|p| !p.starts_with('/')) {
            report.error(&nfs.get("path"), "`path` is not absolute").help("begin it with `/`");
        }
    }
    let csi = volume.get("csi");
    if csi.is_mapping() {
        report.required_name(&csi, "driver", &DRIVER_NAME);
        let secret = csi.get("nodePublishSecretRef");
        if secret.is_mapping() {
            report.required_name(&secret, "name", &DNS_SUBDOMAIN);
        }
    }
    let downward = volume.get("downwardAPI");
    mode(&downward, "defaultMode", report);
    for file in mapping_items(&downward.get("items")) {
        downward_file(&file, report);
    }
    projected(&volume.get("projected"), report);
    let ephemeral = volume.get("ephemeral");
    if ephemeral.is_mapping() {
        let template = ephemeral.get("volumeClaimTemplate");
        if !template.is_set() {
            report.required(&ephemeral, "volumeClaimTemplate");
        }
        own_metadata(&template.get("metadata"), report);
        claim_spec(&template.get("spec"), report);
    }
}

/// The metadata of a claim template; the controller sets the name.
pub(super) fn own_metadata<'a>(metadata: &Node<'a>, report: &mut Checker<'a>) {
    selector::labels(&metadata.get("labels"), report);
    for field in ["name", "generateName", "namespace", "finalizers", "ownerReferences"] {
        let node = metadata.get(field);
        if node.is_set() && node.text() != Some("") && !node.is_unknown() {
            report
                .error(&node, format!("a template has no `{field}` of its own"))
                .help("leave it out: labels and annotations are what a template can give");
        }
    }
}

/// File permission bits.
fn mode<'a>(block: &Node<'a>, field: &str, report: &mut Checker<'a>) {
    let node = block.get(field);
    if let Some(bits) = node.int()
        && !(0..=0o777).contains(&bits)
    {
        report
            .error(&node, format!("`{field}` {bits} is not a file mode"))
            .help("write an octal number from 0000 to 0777, in JSON a decimal one to 511");
    }
}

fn items<'a>(block: &Node<'a>, report: &mut Checker<'a>) {
    for item in mapping_items(&block.get("items")) {
        report.required_text(&item, "key");
        if report.required_text(&item, "path").is_some() {
            relative(&item.get("path"), report);
            reserved(&item.get("path"), report);
        }
        mode(&item, "mode", report);
    }
}

fn downward_file<'a>(file: &Node<'a>, report: &mut Checker<'a>) {
    if report.required_text(file, "path").is_some() {
        relative(&file.get("path"), report);
        reserved(&file.get("path"), report);
    }
    mode(file, "mode", report);
    report.exactly_one(file, &["fieldRef", "resourceFieldRef"]);
    let field = file.path(&["fieldRef", "fieldPath"]);
    if let Some(path) = field.text()
        && !matches!(
            path,
            "metadata.name"
                | "metadata.namespace"
                | "metadata.labels"
                | "metadata.annotations"
                | "metadata.uid"
        )
        && !is_subscript(path)
    {
        report
            .error(&field, format!("{} cannot be a file", quote(path)))
            .help("write name, namespace, uid, labels or annotations under `metadata.`");
    }
    let resource = file.get("resourceFieldRef");
    if resource.is_mapping() {
        report.required_text(&resource, "containerName");
    }
}

/// A field path of the downward API, such as `metadata.labels['key']`.
pub(super) fn is_subscript(path: &str) -> bool {
    ["metadata.labels['", "metadata.annotations['"].iter().any(|prefix| {
        path.strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix("']"))
            .is_some_and(|key| crate::facts::names::is_qualified_name(&key.to_lowercase()))
    })
}

fn projected<'a>(block: &Node<'a>, report: &mut Checker<'a>) {
    const KINDS: &[&str] =
        &["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"];
    mode(block, "defaultMode", report);
    let mut paths = Vec::new();
    for source in mapping_items(&block.get("sources")) {
        let mut written = KINDS.iter().filter(|k| is_kept(&source.get(k)));
        if let (Some(a), Some(b)) = (written.next(), written.next()) {
            report
                .error(&source, format!("a source is one thing, not `{a}` and `{b}`"))
                .help("write two sources");
        }
        for kind in ["secret", "configMap"] {
            let inner = source.get(kind);
            if inner.is_mapping() {
                report.required_text(&inner, "name");
                items(&inner, report);
                paths.extend(mapping_items(&inner.get("items")).map(|i| i.get("path")));
            }
        }
        for file in mapping_items(&source.path(&["downwardAPI", "items"])) {
            downward_file(&file, report);
            paths.push(file.get("path"));
        }
        let token = source.get("serviceAccountToken");
        if token.is_mapping() {
            report.between(&token.get("expirationSeconds"), 600, 1 << 32);
            if report.required_text(&token, "path").is_some() {
                relative(&token.get("path"), report);
                reserved(&token.get("path"), report);
            }
        }
    }
    let written = paths.into_iter().filter_map(|n| n.text().map(str::to_owned).map(|t| (n, t)));
    report.unique(written, "the path");
}

/// A relative path without `..`.
pub(super) fn relative<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    if node.text().is_some_and(|t| t.starts_with('/')) {
        report
            .error(node, format!("`{}` is not relative", field_name(node)))
            .help("leave out the `/` at the start");
    }
    no_backsteps(node, report);
}

pub(super) fn no_backsteps<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    if node.text().is_some_and(|t| t.split('/').any(|p| p == "..")) {
        report.error(node, format!("`{}` holds `..`", field_name(node)));
    }
}

/// A file name; the kubelet reserves names that start with two dots.
fn reserved<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    if node.text().is_some_and(|t| t.starts_with("..") && !t.starts_with("../")) {
        report.error(node, format!("`{}` begins with `..`", field_name(node)));
    }
}

/// The spec of a PersistentVolumeClaim.
pub(super) fn claim_spec<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    if !spec.is_mapping() {
        return;
    }
    selector(&spec.get("selector"), report);
    let modes = spec.get("accessModes");
    if !modes.is_unknown() && modes.items().next().is_none() {
        let error = if modes.is_set() {
            report.error(&modes, "`accessModes` is required")
        } else {
            report.required(spec, "accessModes")
        };
        error.kind = InvalidKind::Missing;
        error.help("write `[ReadWriteOnce]`, or what the storage offers");
    }
    let single = modes.items().any(|m| m.text() == Some("ReadWriteOncePod"));
    if single && modes.items().count() > 1 {
        report.error(&modes, "`ReadWriteOncePod` allows no other mode beside it");
    }
    let resources = spec.get("resources");
    let requests = resources.get("requests");
    let storage = requests.get("storage");
    if resources.is_unknown() || requests.is_unknown() {
        return;
    }
    if !storage.is_set() {
        if !report.partial
            && !may_hold_more_fields(&resources)
            && !may_hold_more_fields(&requests)
            && !may_hold_more_fields(spec)
        {
            report
                .error(&resources, "a claim needs `requests.storage`")
                .help("write how much, for example `100Gi`");
        }
    } else if Quantity::at_or_zero(&storage).is_some_and(|q| q <= Quantity::ZERO) {
        report.error(&storage, "`storage` is not above 0");
    }
    report.check_syntax_unless_empty(&spec.get("storageClassName"), &DNS_SUBDOMAIN);
}
