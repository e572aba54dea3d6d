//! A database keeps its data in a volume that ends with its pod.
//!
//! # Why
//! An `emptyDir` is deleted with the pod. Karpenter replaces nodes to save money, on drift and when they expire,
//! and the evicted database starts anew on another node: empty. It is a warning where a NodePool of the input
//! moves pods that run, and information where no pool is there. Redis and the like are databases where their
//! options or their configuration ask for a file of the data: `appendonly yes`, `save 60 1`.
//!
//! A queue is data as well: Redis without a volume, on whose lists a trigger of KEDA counts what is to be
//! done, forgets all of it with its pod.
//!
//! A file of SQLite that an option or a variable names (`sqlite:///./orders.db`) is such a database, too:
//! without a volume it is in the file system of the container, which ends with it, and each replica has its
//! own.
//!
//! # Fix
//! Mount a PersistentVolumeClaim, best by `volumeClaimTemplates` of a StatefulSet.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: orders-db, namespace: shop}
//!  spec:
//!    serviceName: orders-db
//!    selector: {matchLabels: {app: orders-db}}
//!    template:
//!      metadata: {labels: {app: orders-db}}
//!      spec:
//! -      volumes:
//! -        - {name: data, emptyDir: {}} # <-
//!        containers:
//!          - name: postgres
//!            image: postgres:16.4
//!            volumeMounts: [{name: data, mountPath: /var/lib/postgresql/data}]
//!            resources: {requests: {cpu: 1, memory: 2Gi}}
//! +  volumeClaimTemplates:
//! +    - metadata: {name: data}
//! +      spec:
//! +        accessModes: [ReadWriteOnce]
//! +        resources: {requests: {storage: 20Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>
//! - <https://karpenter.sh/docs/concepts/disruption/>

use crate::facts::url::host;
use crate::karpenter::do_not_disrupt::keeps_busy_nodes;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "database-on-empty-dir",
    kinds: WORKLOAD_KINDS,
    reads: kinds![
        [Kind::NODE_POOL, Kind::HPA, Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::CONFIG_MAP, Kind::SERVICE],
        WORKLOAD_KINDS
    ],
    docs: docs(include_str!("database_on_empty_dir.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The ends of the names of images of databases that one pod runs, and the folders of their data.
const DATABASES: [(&[&str], &[&str]); 6] = [
    (
        &["postgres", "postgresql", "postgis", "pgvector", "timescaledb", "timescaledb-ha"],
        &["/var/lib/postgresql", "/bitnami/postgresql", "/home/postgres/pgdata"],
    ),
    (
        &["mysql", "mysql-server", "mariadb", "percona-server"],
        &["/var/lib/mysql", "/bitnami/mysql", "/bitnami/mariadb"],
    ),
    (&["mongo", "mongodb", "mongodb-community-server"], &["/data/db", "/bitnami/mongodb"]),
    (&["influxdb"], &["/var/lib/influxdb", "/var/lib/influxdb2"]),
    (&["neo4j"], &["/data"]),
    (&["qdrant"], &["/qdrant/storage"]),
];

/// Caches that keep their data if they are told to.
const CACHES: (&[&str], &[&str]) = (
    &["redis", "redis-stack", "redis-stack-server", "valkey", "keydb", "dragonfly"],
    &["/data", "/bitnami/redis/data", "/bitnami/valkey/data", "/var/lib/redis"],
);

/// Whether options ask a cache to write its data to the disk.
fn has_persistence(container: &Node<'_>) -> bool {
    let line = command_line(container);
    let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    let is_asked = |pair: &[&str]| match pair[0] {
        "--appendonly" => pair[1] == "yes",
        "--save" => pair[1].starts_with(|c: char| c.is_ascii_digit()),
        "--snapshot_cron" => !pair[1].is_empty(),
        _ => false,
    };
    words.windows(2).any(is_asked)
}

/// The file of configuration that asks a cache to write its data to the disk, with its ConfigMap.
fn persistent_configuration<'a>(
    container: &Node<'_>,
    template: &Template<'_>,
    ctx: &Context<'a>,
) -> Option<(&'a Object, Node<'a>)> {
    if !command_line(container).contains(".conf") {
        return None;
    }
    let is_setting = |line: &str| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("appendonly"), Some(value)) => value == "yes",
            (Some("save"), Some(value)) => value.starts_with(|c: char| c.is_ascii_digit()),
            _ => false,
        }
    };
    let namespace = ctx.object().namespace_or_default();
    let mut configs = template.spec.get("volumes").items().filter_map(|volume| {
        let name = volume.path(&["configMap", "name"]);
        ctx.cluster().unique(Kind::CONFIG_MAP, namespace, name.text()?)
    });
    configs.find_map(|config| {
        let mut files = config.get("data").entries().into_iter().filter(|(name, _)| name.ends_with(".conf"));
        let is_asking = |text: &str| text.lines().any(is_setting);
        let (_, file) = files.find(|(_, file)| file.raw_text().is_some_and(is_asking))?;
        Some((config, file))
    })
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !runs_forever(object) || object.is_partial() || object.is_owned() {
        return None;
    }
    for template in templates(object) {
        check_queue(object, &template, ctx);
        for container in template.containers() {
            check_sqlite(object, &container, ctx);
        }
    }
    // Replicas have copies of the data.
    if ctx.cluster().views().replicas(object).is_some_and(|replicas| replicas.max > 1) {
        return None;
    }
    for template in templates(object) {
        let found = template.containers().find_map(|container| {
            let image = image_of(&container)?;
            let all = DATABASES.iter().chain([&CACHES]);
            let (names, folders) = all.into_iter().find(|(names, _)| names.contains(&image.last()))?;
            // A cache is not a database until it is told to keep its data.
            let is_cache = *names == CACHES.0;
            let by_file = is_cache.then(|| persistent_configuration(&container, &template, ctx)).flatten();
            if is_cache && by_file.is_none() && !has_persistence(&container) {
                return None;
            }
            let mut mounts = container.get("volumeMounts").items();
            let mount = mounts.find(|mount| {
                let path = mount.get("mountPath").text().map(|path| path.trim_end_matches('/'));
                path.is_some_and(|path| folders.iter().any(|folder| is_at_or_below(path, folder)))
            })?;
            let name = mount.get("name");
            let mut volumes = template.spec.get("volumes").items();
            let volume =
                volumes.find(|volume| volume.get("name").text() == name.text() && name.text().is_some())?;
            volume.get("emptyDir").is_set().then(|| (volume.get("emptyDir"), mount.get("mountPath"), by_file))
        });
        let Some((volume, path, by_file)) = found else { continue };
        let pool = moving_pool(ctx);
        let name = object.display_name();
        let path = path.text().unwrap_or_default();
        let finding = ctx.report(
            &volume,
            format!("the data of database `{name}` is gone with each pod: its volume is an emptyDir"),
        );
        finding.help(format!("mount a PersistentVolumeClaim at `{}`", ellipsize(path)));
        if let Some((config, file)) = by_file {
            finding.related(config, &file, "asks it to keep its data");
        }
        weigh_by_pool(finding, pool.filter(|_| !is_example(object)));
    }
    None
}

/// A pool whose nodes Karpenter replaces while pods run, and which takes pods without a toleration.
fn moving_pool<'i>(ctx: &Context<'i>) -> Option<&'i Object> {
    let moves = |pool: &&Object| {
        let is_open = pool.path(&["spec", "template", "spec", "taints"]).items().next().is_none();
        ctx.pairs_with(pool) && is_open && !pool.is_partial() && !keeps_busy_nodes(pool)
    };
    ctx.cluster().of(Kind::NODE_POOL).find(moves)
}

/// Shows the pool whose nodes are replaced while pods run. Without one the loss is seldom, and the finding an info.
fn weigh_by_pool(finding: &mut Finding, pool: Option<&Object>) {
    match pool {
        Some(pool) => {
            let name = pool.path(&["metadata", "name"]);
            finding.related(pool, &name, "its nodes are replaced while pods run");
        }
        None => {
            finding.severity(Severity::Info);
        }
    }
}

/// Reports a queue in the memory of a pod, by the trigger that counts it.
fn check_queue(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_cache = |container: &Node<'_>| {
        image_of(container)
            .is_some_and(|image| CACHES.0.contains(&image.last()) && image.last() != "dragonfly")
    };
    let container = template.containers().find(is_cache)?;
    // A volume may have a copy of the data, which Redis writes when it ends.
    let volumes = template.spec.get("volumes");
    let is_passing = |volume: &Node<'_>| {
        ["emptyDir", "configMap", "secret"].iter().any(|kind| !volume.get(kind).is_absent())
    };
    if !volumes.items().all(|volume| is_passing(&volume))
        || volumes.has_unknown()
        || object.path(&["spec", "volumeClaimTemplates"]).is_set()
        || has_persistence(&container)
        || object.may_lack_fields()
        || is_example(object)
    {
        return None;
    }
    let cluster = ctx.cluster();
    let (scaled, address) = [Kind::SCALED_OBJECT, Kind::SCALED_JOB]
        .into_iter()
        .flat_map(|kind| cluster.of(kind))
        .filter(|scaled| ctx.pairs_with(scaled))
        .find_map(|scaled| Some((scaled, queue_in(scaled, object, cluster)?)))?;
    let pool = moving_pool(ctx);
    let message = format!(
        "the work that `{}` counts is gone with each pod of `{}`, which has it in memory alone",
        scaled.display_name(),
        object.display_name()
    );
    let finding = ctx.report(&container.get("image"), message);
    finding.help("mount a PersistentVolumeClaim at `/data`, and start it with `--appendonly yes`").related(
        scaled,
        &address,
        "its trigger counts here",
    );
    weigh_by_pool(finding, pool);
    None
}

/// The address of a trigger that counts in a Redis which a workload runs.
fn queue_in<'a>(scaled: &'a Object, workload: &Object, cluster: &Cluster) -> Option<Node<'a>> {
    let is_redis = |trigger: &Trigger<'_>| trigger.kind().is_some_and(|kind| kind.starts_with("redis"));
    triggers(scaled).filter(is_redis).find_map(|trigger| {
        let metadata = trigger.metadata();
        let address = ["address", "host"].map(|key| metadata.get(key)).into_iter().find(Node::is_set)?;
        let mut labels = host(address.text()?.trim()).split('.');
        let (name, namespace) = (labels.next()?, labels.next().unwrap_or(scaled.namespace_or_default()));
        let service = cluster.unique(Kind::SERVICE, namespace, name)?;
        let (selected, _) = cluster.views().selected_by_service(service);
        selected.iter().any(|one| one.object.ptr_eq(workload)).then_some(address)
    })
}

/// Reports a file of SQLite that no volume of the container can have.
fn check_sqlite(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let mounts = container.get("volumeMounts");
    let env = container.get("env");
    if mounts.has_unknown() || container.has_unknown_key() || is_example(object) {
        return None;
    }
    // A folder that is relative may be that of any volume.
    let has_volume = mounts.items().next().is_some();
    let is_mounted = |path: &str| {
        mounts.items().filter_map(|mount| mount.get("mountPath").text()).any(|mount| {
            let mount = mount.trim_end_matches('/');
            is_at_or_below(path, mount) || is_at_or_below(&format!("/{path}"), mount)
        })
    };
    let is_lost = |path: &&str| {
        if path.starts_with('/') { !is_mounted(path) } else { !has_volume }
    };
    let namespace = object.namespace_or_default();
    let configs = container.get("envFrom").items().filter_map(|source| {
        let name = source.path(&["configMapRef", "name"]);
        let config = ctx.partner(Kind::CONFIG_MAP, namespace, name.text()?)?;
        // A variable of the container itself has precedence.
        let is_own = |key: &str| env.items().any(|entry| entry.text_at("name") == Some(key));
        let entries = config.get("data").entries().into_iter().filter(|(key, _)| !is_own(key));
        let setting = entries
            .map(|(_, value)| value)
            .find(|value| value.text().and_then(sqlite_file).filter(is_lost).is_some())?;
        Some((name, setting.clone(), Some((config, setting))))
    });
    let variables = env.items().map(|entry| entry.get("value"));
    let options = ["command", "args"].map(|field| container.get(field));
    let options = options.iter().flat_map(|list| list.items());
    let written = variables.chain(options).map(|node| (node.clone(), node, None));
    let (node, path, config) = written.chain(configs).find_map(|(node, value, config)| {
        let path = sqlite_file(value.text()?).filter(is_lost)?.to_owned();
        Some((node, path, config))
    })?;
    let pool = moving_pool(ctx);
    let message = format!(
        "the data of `{}` is gone with each pod: `{}` is a file of SQLite in the container itself",
        object.display_name(),
        ellipsize(&path)
    );
    let finding = ctx.report(&node, message);
    finding.help("write a path on a PersistentVolumeClaim, or use a server such as PostgreSQL");
    if let Some((config, setting)) = config {
        finding.related(config, &setting, "the file is named here");
    }
    weigh_by_pool(finding, pool);
    None
}

/// The file that an address of SQLite names: `sqlite:///./orders.db`, `sqlite+aiosqlite:////data/orders.db`.
fn sqlite_file(text: &str) -> Option<&str> {
    let at = text.find("sqlite")?;
    let (before, rest) = (&text[..at], &text[at..]);
    let (driver, path) = rest.split_once(":///")?;
    let path = path.split(['?', '#']).next()?;
    let is_address = (before.is_empty() || before.ends_with('='))
        && driver.chars().all(|c| c.is_ascii_alphanumeric() || c == '+');
    // Data that nobody means to keep.
    let is_passing =
        path.is_empty() || path.starts_with("/tmp/") || mentions(path, &["memory", "test", "cache"]);
    let is_plain = !path.contains(['$', '{', '<', ' ', '"', '\n']);
    (is_address && is_plain && !is_passing).then_some(path)
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
