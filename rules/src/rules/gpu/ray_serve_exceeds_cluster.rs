//! The applications of a RayService need more GPUs than its cluster has.
//!
//! # Why
//! Ray places a replica where the GPUs are that its deployment asks for: `num_gpus` of an actor on one
//! node, and a bundle for each rank of an LLM (`tensor_parallel_size` times `pipeline_parallel_size`).
//! `num_gpus` of an LLM is for the actor beside its ranks: Ray adds it to the first bundle, so that one
//! node needs that and a GPU more. If the worker groups never have as many, the replica stays pending, the
//! application never becomes healthy, and the GPUs that were started wait for it. If it is only the
//! `max_replicas` of an autoscaled deployment for which there are too few GPUs, the replicas above are never
//! placed, and load meets fewer than intended: a warning where no worker group scales.
//!
//! # Fix
//! Raise the replicas of the worker group or the GPUs of its pods, or ask for fewer.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayService
//!  metadata: {name: chat}
//!  spec:
//!    serveConfigV2: |
//!      applications:
//!        - name: chat
//!          import_path: chat:app
//!          deployments:
//! -          - name: Model # <-
//! +          - name: Model
//!              num_replicas: 2
//! -            ray_actor_options: {num_gpus: 2}
//! +            ray_actor_options: {num_gpus: 1}
//!    rayClusterConfig:
//!      headGroupSpec:
//!        rayStartParams: {}
//!        template:
//!          spec:
//!            containers:
//!              - name: head
//!                image: rayproject/ray:2.49.2
//!                resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!      workerGroupSpecs:
//!        - groupName: gpu
//!          replicas: 2
//!          rayStartParams: {}
//!          template:
//!            spec:
//!              containers:
//!                - name: worker
//!                  image: rayproject/ray:2.49.2
//!                  resources:
//!                    requests: {cpu: 4, memory: 16Gi}
//!                    limits: {memory: 16Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/serve/resource-allocation.html>
//! - <https://docs.ray.io/en/latest/serve/llm/index.html>
//! - <https://github.com/ray-project/ray/issues/58328>

use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::image::image_of;
use crate::workload::ray::{Extent, gpus_of_group, group_pods};

pub(crate) static RULE: Rule = Rule {
    id: "ray-serve-exceeds-cluster",
    kinds: &[Kind::RAY_SERVICE],
    docs: docs(include_str!("ray_serve_exceeds_cluster.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

/// A version whose actor and first rank are in one bundle.
const MERGES_SINCE: Version = Version::new(2, 49);

/// The GPUs of a cluster, in thousandths.
struct Capacity {
    /// The GPUs of its largest pod.
    pod: i64,
    all: i64,
    /// All GPUs if Ray's autoscaler ran each group up to its `maxReplicas`. `None` where it runs, or a group has no such limit.
    scaled: Option<i64>,
    /// Whether no worker group scales.
    is_fixed: bool,
}

/// Help where the groups may have enough pods, and nothing starts them.
const SCALE: &str =
    "set `enableInTreeAutoscaling: true`: without it `replicas` counts, and `maxReplicas` starts no pods";

impl Capacity {
    /// The help where more GPUs are needed than the pods of the cluster have.
    fn help(&self, needed: i64, other: &'static str) -> &'static str {
        match self.scaled {
            Some(scaled) if scaled >= needed => SCALE,
            _ => other,
        }
    }
}

/// What one deployment asks for, in thousandths of GPUs.
struct Demand {
    name: String,
    /// The most that one actor asks for, on one node.
    actor: i64,
    replica: i64,
    replicas: i64,
    /// The replicas to which it scales, at least those that always run.
    most: i64,
    /// What an LLM asks for beside the GPUs of its ranks.
    beside: i64,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let config = object.path(&["spec", "serveConfigV2"]);
    let text = config.text().filter(|_| !object.is_partial())?;
    let capacity = capacity(object).filter(|capacity| capacity.all > 0)?;
    let merges = merges_bundles(object);
    let demands = with_embedded(text, |root| Some(demands(root, merges)))?;
    let name = object.display_name();
    let help = |demand: &Demand, other: &'static str| {
        if demand.beside > 0 { "remove `num_gpus`: each rank has a GPU without it" } else { other }
    };
    // Versions before have other bundles for the actor beside the ranks.
    let severity = |demand: &Demand| {
        if demand.beside > 0 && !merges { Severity::Warning } else { Severity::Error }
    };
    for demand in &demands {
        let deployment = ellipsize(&demand.name);
        if demand.actor > capacity.pod {
            let message = format!(
                "an actor of `{deployment}` in `{name}` asks for {} GPUs, and the largest pod has {}",
                gpus(demand.actor),
                gpus(capacity.pod)
            );
            at_name(ctx.report(&config, message), object, &config, &demand.name)
                .severity(severity(demand))
                .help(help(demand, "ask for fewer, or give the pods of the group more GPUs"));
            return None;
        }
        if demand.replica > capacity.all {
            let message = format!(
                "a replica of `{deployment}` in `{name}` needs {} GPUs, and the cluster has at most {}",
                gpus(demand.replica),
                gpus(capacity.all)
            );
            at_name(ctx.report(&config, message), object, &config, &demand.name)
                .severity(severity(demand))
                .help(help(
                    demand,
                    capacity
                        .help(demand.replica, "raise the replicas of the worker group, or use fewer ranks"),
                ));
            return None;
        }
    }
    let total: i64 = demands.iter().map(|demand| demand.replica.saturating_mul(demand.replicas)).sum();
    if total > capacity.all {
        let message = format!(
            "the replicas of `{name}` need {} GPUs, and the cluster has at most {}",
            gpus(total),
            gpus(capacity.all)
        );
        let beside: i64 = demands.iter().map(|demand| demand.beside.saturating_mul(demand.replicas)).sum();
        let fits_without = beside > 0 && total - beside <= capacity.all;
        ctx.report(&config, message).at_key().severity(Severity::Warning).help(if fits_without {
            "remove `num_gpus`: each rank has a GPU without it"
        } else {
            capacity.help(total, "raise the replicas of the worker group, or run fewer replicas")
        });
        return None;
    }
    scales_beyond(&demands, &capacity, object, ctx)
}

/// Points a finding at the name of a deployment or model in the text of the configuration.
fn at_name<'f>(finding: &'f mut Finding, object: &Object, config: &Node<'_>, name: &str) -> &'f mut Finding {
    let text = config.text().unwrap_or_default();
    let is_name = |at: &usize| {
        let (before, after) = (&text[..*at], &text[at + name.len()..]);
        let key = before.trim_end_matches([' ', '"', '\'']);
        (key.ends_with("name:") || key.ends_with("model_id:"))
            && !after.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    };
    // An application before its deployments may have the name as well.
    let at = text.match_indices(name).map(|(at, _)| at).filter(is_name).last();
    match at.filter(|_| !name.is_empty()) {
        Some(at) => finding.at_key().at_part(object, config, at..at + name.len()),
        None => finding.at_key(),
    }
}

/// A number of GPUs for a message, given its thousandths.
fn gpus(thousandths: i64) -> String {
    if thousandths % 1000 == 0 {
        format!("{}", thousandths / 1000)
    } else {
        format!("{:.1}", thousandths as f64 / 1000.0)
    }
}

/// Whether Ray is known to add the GPUs of the actor to the bundle of the first rank. Before, the actor had a bundle of its own.
fn merges_bundles(object: &Object) -> bool {
    let head = object.path(&["spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "containers"]);
    let version = head.items().next().and_then(|first| {
        let image = image_of(&first)?;
        let is_of_ray = ["rayproject/ray", "rayproject/ray-llm"].iter().any(|known| image.is(known));
        image.version().filter(|_| is_of_ray)
    });
    version.is_some_and(|version| version >= MERGES_SINCE)
}

/// Reports a deployment that scales to more replicas than there are GPUs for. Several deployments may share GPUs at different
/// times, so that each is looked at alone.
fn scales_beyond(
    demands: &[Demand],
    capacity: &Capacity,
    object: &Object,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let demand = demands.iter().find(|demand| demand.replica.saturating_mul(demand.most) > capacity.all)?;
    let deployment = ellipsize(&demand.name);
    let placed = capacity.all / demand.replica.max(1);
    let message =
        format!("`{deployment}` scales to {} replicas, and the cluster has GPUs for {placed}", demand.most);
    let config = object.path(&["spec", "serveConfigV2"]);
    at_name(ctx.report(&config, message), object, &config, &demand.name)
        .severity(if capacity.is_fixed { Severity::Warning } else { Severity::Info })
        .help(capacity.help(
            demand.replica.saturating_mul(demand.most),
            "raise `maxReplicas` of the worker group, or lower `max_replicas`",
        ));
    None
}

/// The GPUs of all pods at the most. `None` if they are not known.
fn capacity(object: &Object) -> Option<Capacity> {
    let cluster = object.path(&["spec", "rayClusterConfig"]);
    let head = gpus_of_group(&cluster.get("headGroupSpec"))?;
    let scales = cluster.get("enableInTreeAutoscaling").bool() == Some(true);
    let scaled = (!scales).then_some(head * 1000);
    let mut capacity = Capacity { pod: head * 1000, all: head * 1000, scaled, is_fixed: true };
    for group in cluster.get("workerGroupSpecs").items() {
        let each = gpus_of_group(&group)?;
        let pods = group_pods(&cluster, &group, Extent::Most)?;
        capacity.is_fixed &= group_pods(&cluster, &group, Extent::Least) == Some(pods);
        let most = group.get("maxReplicas").int().zip(group.get("numOfHosts").int_or(1));
        let most =
            most.and_then(|(most, hosts)| most.checked_mul(hosts)?.checked_mul(each)?.checked_mul(1000));
        capacity.scaled = capacity.scaled.zip(most).and_then(|(all, most)| all.checked_add(most));
        capacity.all = capacity.all.checked_add(pods.checked_mul(each)?.checked_mul(1000)?)?;
        if pods > 0 {
            capacity.pod = capacity.pod.max(each * 1000);
        }
    }
    Some(capacity)
}

/// What the deployments in a configuration of Ray Serve ask for, as far as it is written.
fn demands(root: &Node<'_>, merges: bool) -> Vec<Demand> {
    let mut out = Vec::new();
    for application in root.get("applications").items() {
        let name = application.get("name").text().unwrap_or("default").to_owned();
        for deployment in application.get("deployments").items() {
            let own = deployment.get("name").text().unwrap_or(&name).to_owned();
            if let Some(actor) = thousandths(&deployment.path(&["ray_actor_options", "num_gpus"]))
                && !deployment.get("placement_group_bundles").is_set()
            {
                let (replicas, most) = replicas(&deployment);
                out.push(Demand { name: own, actor, replica: actor, replicas, most, beside: 0 });
            }
        }
        for model in application.path(&["args", "llm_configs"]).items() {
            let engine = model.get("engine_kwargs");
            let options = model.path(&["deployment_config", "ray_actor_options", "num_gpus"]);
            let beside = if options.is_set() { thousandths(&options) } else { Some(0) };
            let other = engine.has_unknown()
                || ["placement_group_config", "resources_per_bundle"]
                    .iter()
                    .any(|field| model.get(field).is_set());
            let ranks =
                ["tensor_parallel_size", "pipeline_parallel_size"].map(|field| engine.get(field).int_or(1));
            let [Some(tensor), Some(pipeline)] = ranks else { continue };
            let Some(beside) = beside
                .filter(|beside| !other && (*beside > 0 || engine.get("tensor_parallel_size").is_set()))
            else {
                continue;
            };
            let own = model.path(&["model_loading_config", "model_id"]).text().unwrap_or(&name).to_owned();
            let replica = tensor.saturating_mul(pipeline).saturating_mul(1000).saturating_add(beside);
            let (replicas, most) = replicas(&model.get("deployment_config"));
            let actor = if merges { 1000 + beside } else { beside.max(1000) };
            out.push(Demand { name: own, actor, replica, replicas, most, beside });
        }
    }
    out
}

/// The number of replicas that always run, and the one to which the deployment scales, if that is written.
fn replicas(deployment: &Node<'_>) -> (i64, i64) {
    let scaling = deployment.get("autoscaling_config");
    if !scaling.is_set() {
        let fixed = deployment.get("num_replicas").int_or(1).unwrap_or(1);
        return (fixed, fixed);
    }
    let least = scaling.get("min_replicas").int_or(1).unwrap_or(0);
    (least, scaling.get("max_replicas").int().unwrap_or(least).max(least))
}

/// A number of GPUs, in thousandths.
fn thousandths(node: &Node<'_>) -> Option<i64> {
    let number: f64 = node.string_or_number()?.parse().ok()?;
    (0.0..100_000.0).contains(&number).then(|| (number * 1000.0).round() as i64)
}
