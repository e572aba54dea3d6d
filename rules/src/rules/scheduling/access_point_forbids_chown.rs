//! A container changes the owner of files on EFS, which an access point forbids.
//!
//! # Why
//! The driver of EFS makes an access point for each claim, which gives all files to one user: that of `uid`
//! and `gid` of the StorageClass, or one from a range of groups. Whoever writes through it is that user,
//! root as well, so `chown` fails with "Operation not permitted". Images of databases change the owner of
//! their data when they start as root and then exit, and PostgreSQL does not start on a folder that another
//! user owns.
//!
//! # Fix
//! Set `uid` and `gid` in the StorageClass to the user of the image (999 for `postgres`) and run the
//! container as that user. Databases are better off on EBS: EFS is slow for them. Leave `chown` of init
//! containers out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: storage.k8s.io/v1
//!  kind: StorageClass
//!  metadata: {name: efs}
//!  provisioner: efs.csi.aws.com
//!  parameters:
//!    provisioningMode: efs-ap
//!    fileSystemId: fs-0f1e2d3c4b5a69788
//!    directoryPerms: "700"
//! +  uid: "999"
//! +  gid: "999"
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: runs, namespace: tracking}
//!  spec:
//!    storageClassName: efs
//!    accessModes: [ReadWriteMany]
//!    resources: {requests: {storage: 20Gi}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: runs, namespace: tracking}
//!  spec:
//!    serviceName: runs
//!    selector: {matchLabels: {app: runs}}
//!    template:
//!      metadata: {labels: {app: runs}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: postgres:17.5 # <-
//!            resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2Gi}}
//!            volumeMounts: [{name: data, mountPath: /var/lib/postgresql/data}]
//!        volumes: [{name: data, persistentVolumeClaim: {claimName: runs}}]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/efs/latest/ug/enforce-identity-access-points.html>
//! - <https://github.com/kubernetes-sigs/aws-efs-csi-driver/issues/300>

use std::borrow::Cow;

use super::access_modes::{class_of, own_claim};
use crate::cluster::storage::EFS_DRIVER;
use crate::rules::prelude::*;
use crate::workload::command::{base_name, command_at};
use crate::workload::environment::variable;
use crate::workload::security::effective_user;

pub(crate) static RULE: Rule = Rule {
    id: "access-point-forbids-chown",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS],
    docs: docs(include_str!("access_point_forbids_chown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Official images whose entrypoint changes the owner of the data if it runs as root, and their folders of data.
const CHANGES_OWNER: [(&str, &str); 4] = [
    ("mysql", "/var/lib/mysql"),
    ("mariadb", "/var/lib/mysql"),
    ("mongo", "/data/db"),
    ("valkey/valkey", "/data"),
];
/// Images of PostgreSQL, which starts only on a folder of its own user.
const POSTGRES: [&str; 6] = [
    "postgres",
    "postgis/postgis",
    "pgvector/pgvector",
    "bitnami/postgresql",
    "timescale/timescaledb",
    "bitnamilegacy/postgresql",
];
const DATA_OF_POSTGRES: [&str; 2] = ["/var/lib/postgresql", "/bitnami/postgresql"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    for template in templates(object) {
        for container in template.all_containers() {
            inspect(object, &template, &container, ctx);
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    for mount in container.get("volumeMounts").items() {
        let Some((name, path)) = mount.get("name").text().zip(mount.get("mountPath").text()) else {
            continue;
        };
        let Some(class) = own_claim(object, template, name, ctx).and_then(|spec| class_of(&spec, ctx)) else {
            continue;
        };
        if !has_access_points_of_others(class) {
            continue;
        }
        let Some((node, what)) = changes_owner(template, container, path.trim_end_matches('/')) else {
            continue;
        };
        let message =
            format!("{what}, which the access points of StorageClass `{}` forbid", class.display_name());
        ctx.report(&node, message)
            .help("set `uid` and `gid` of that class to the user of the image, or take a volume of EBS")
            .related(class, &class.get("parameters"), "its access points choose the owner of all files");
        return Some(());
    }
    None
}

/// Whether a class makes access points whose user is chosen by the driver.
fn has_access_points_of_others(class: &Object) -> bool {
    let parameters = class.get("parameters");
    let first = parameters.get("gidRangeStart").text();
    class.get("provisioner").text() == Some(EFS_DRIVER)
        && !class.may_lack_fields()
        && !parameters.has_unknown_key()
        && parameters.get("provisioningMode").text() == Some("efs-ap")
        // A range of one number is that of the author.
        && (first.is_none() || first != parameters.get("gidRangeEnd").text())
        && ["uid", "gid"].iter().all(|field| parameters.get(field).is_absent())
}

/// The place that shows that a container changes the owner of files in a folder, or needs another owner.
fn changes_owner<'a>(
    template: &Template<'a>,
    container: &Node<'a>,
    folder: &str,
) -> Option<(Node<'a>, String)> {
    let words = words(container);
    let chown = words.iter().enumerate().filter(|(_, word)| word.known && base_name(&word.text) == "chown");
    for (at, word) in chown {
        // A script goes on after a command that fails, unless it is told to stop.
        let command = command_at(&words, at);
        let mut rest = words[at + command.len()..].iter().filter(|word| word.text != ";");
        let next = rest.next().map(|word| word.text.as_str());
        let stops = word.node.raw_text().is_some_and(|text| text.contains("&&") || text.contains("set -e"));
        let is_guarded = word.node.raw_text().is_some_and(|text| {
            text.contains("||") || text.contains("set +e") || text.split_whitespace().any(|word| word == "if")
        });
        let may_fail = is_guarded || next.is_some_and(|next| next == "true" || !stops);
        let is_below = |text: &str| {
            text.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !may_fail && command.iter().skip(1).any(|word| is_below(word.text.trim_matches(['"', '\'']))) {
            return Some((
                word.node.clone(),
                format!("`chown` changes the owner of files in `{}`", ellipsize(folder)),
            ));
        }
    }
    let image = container.get("image");
    let name = image_of(container)?.repository;
    let name = name.strip_prefix("library/").unwrap_or(name);
    // Other commands start something else, and so do arguments that are no options.
    let first = container.get("args").items().next();
    let is_other = first.is_some_and(|one| one.text().is_none_or(|text| !text.starts_with('-')));
    if container.get("command").is_set() || is_other {
        return None;
    }
    // Backups and the like are kept below the folder as well.
    let holds = |data: &str| {
        let below = folder.strip_prefix(data);
        below.is_some_and(|rest| rest.is_empty() || rest == "/data" || rest.starts_with("/data/"))
    };
    let is_here = |data: Option<(Cow<'_, str>, _)>| data.is_none_or(|(path, _)| path.starts_with(folder));
    if !variable(container, "PGDATA").is_some_and(is_here) {
        return None;
    }
    if POSTGRES.contains(&name) && DATA_OF_POSTGRES.iter().any(|data| holds(data)) {
        return Some((image, format!("`{name}` has to own the folder of its data")));
    }
    let of_root = CHANGES_OWNER.iter().any(|(image, data)| *image == name && holds(data))
        && effective_user(template, container).may_be_root();
    of_root.then(|| (image, format!("`{name}` starts as root and changes the owner of its data")))
}
