//! A program that does not run as root cannot write to its volume.
//!
//! # Why
//! The file system of a new disk belongs to root, who alone may write to it. The images of Prometheus,
//! Alertmanager, Grafana and Loki run as other users: without `fsGroup`, with which the kubelet gives the
//! files of the volume to a group of the pod, they end with `permission denied` at the start. Volumes of a
//! class that is not known as one of disks are left out, and so are clusters of OpenShift, which set
//! `fsGroup` by themselves.
//!
//! # Fix
//! Write `securityContext.fsGroup` in the pod's spec, with the group of the image: 65534 for Prometheus and
//! Alertmanager, 472 for Grafana, 10001 for Loki.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: prometheus, namespace: monitoring}
//!  spec:
//!    replicas: 1
//!    strategy: {type: Recreate}
//!    selector: {matchLabels: {app: prometheus}}
//!    template:
//!      metadata: {labels: {app: prometheus}}
//!      spec:
//! +      securityContext: {fsGroup: 65534}
//!        containers:
//!          - name: prometheus
//!            image: prom/prometheus:v3.5.0
//!            resources: {requests: {cpu: 500m, memory: 2Gi}}
//! -          volumeMounts: [{name: data, mountPath: /prometheus}] # <-
//! +          volumeMounts: [{name: data, mountPath: /prometheus}]
//!        volumes: [{name: data, persistentVolumeClaim: {claimName: prometheus}}]
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: prometheus, namespace: monitoring}
//!  spec:
//!    accessModes: [ReadWriteOnce]
//!    storageClassName: gp3
//!    resources: {requests: {storage: 50Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/security-context/>
//! - <https://github.com/prometheus/prometheus/blob/v3.5.0/Dockerfile>
//! - <https://grafana.com/docs/grafana/latest/setup-grafana/installation/kubernetes/>

use super::volumes::{claim_behind, is_block_claim};
use crate::cluster::versions::Fact;
use crate::rules::prelude::*;
use crate::workload::security::{User, effective_user};

pub(crate) static RULE: Rule = Rule {
    id: "volume-not-writable",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS, Kind::NODE_POOL],
    docs: docs(include_str!("volume_not_writable.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

/// Images, the program in them, and the group to write: by the `USER` of the Dockerfiles of Prometheus and Alertmanager (`nobody`), of
/// Grafana (472) and of Loki (10001), read in November 2026.
const IMAGES: [(&str, &str, i64); 8] = [
    ("prom/prometheus", "Prometheus", 65534),
    ("prometheus/prometheus", "Prometheus", 65534),
    ("prom/alertmanager", "Alertmanager", 65534),
    ("prometheus/alertmanager", "Alertmanager", 65534),
    ("grafana/grafana", "Grafana", 472),
    ("grafana/grafana-oss", "Grafana", 472),
    ("grafana/grafana-enterprise", "Grafana", 472),
    ("grafana/loki", "Loki", 10001),
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let context = template.spec.get("securityContext");
    // An init container may give the files to the user.
    if object.may_lack_fields()
        || template.spec.has_unknown_key()
        || context.has_unknown_key()
        || !context.get("fsGroup").is_absent()
        || template.spec.get("initContainers").is_set()
        || ctx.cluster().is_shown(&Fact::OpenShift)
    {
        return None;
    }
    for container in template.containers() {
        let image = image_of(&container);
        let known = image.and_then(|image| IMAGES.iter().find(|(name, _, _)| image.is(name)));
        let Some((_, program, group)) = known else { continue };
        if !matches!(effective_user(template, &container), User::Image | User::Other(_)) {
            continue;
        }
        let mounts = container.get("volumeMounts");
        let is_written = |mount: &Node<'_>| {
            // A folder of the volume may have another owner.
            !mount.get("readOnly").is_set()
                && !["subPath", "subPathExpr"].iter().any(|key| mount.get(key).is_set())
        };
        let found = mounts.items().filter(is_written).find_map(|mount| {
            let (owner, claim) = claim_behind(object, template, mount.get("name").text()?, ctx)?;
            is_block_claim(&claim, ctx).then(|| (mount.get("mountPath"), owner, claim))
        });
        let Some((path, owner, claim)) = found else { continue };
        let message = format!(
            "{program} does not run as root, and cannot write to `{}`: the disk belongs to root",
            ellipsize(path.text().unwrap_or_default())
        );
        ctx.report(&path, message)
            .help(format!("write `securityContext: {{fsGroup: {group}}}` in the pod's spec"))
            .related(owner, &claim, "the volume");
    }
    None
}
