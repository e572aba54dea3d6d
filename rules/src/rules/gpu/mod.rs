//! What pods ask of GPUs.

pub(crate) mod argument_with_blank;
pub(crate) mod command_never_reached;
pub(crate) mod context_exceeds_gpu_memory;
pub(crate) mod debug_variable_left;
pub(crate) mod device_taint_rule_evicts;
pub(crate) mod dra_allocation_invalid;
pub(crate) mod dra_and_device_plugin;
pub(crate) mod dra_claim_reference;
pub(crate) mod dra_claim_shared;
pub(crate) mod dra_claim_unused;
mod dra_claims;
pub(crate) mod dra_device_class_name;
pub(crate) mod dra_device_class_unknown;
pub(crate) mod dra_mig_without_profile;
pub(crate) mod dra_not_provisioned;
pub(crate) mod dra_request_shape;
pub(crate) mod dra_selector;
pub(crate) mod driver_capability_missing;
pub(crate) mod efa_plugin_too_old;
pub(crate) mod gpu_count_unsatisfiable;
pub(crate) mod gpu_cpu_memory_unrequested;
pub(crate) mod gpu_generation_unsupported;
pub(crate) mod gpu_limit_mismatch;
pub(crate) mod gpu_not_requested;
pub(crate) mod gpu_operator_driver_on_eks_ami;
pub(crate) mod gpu_oversized_for_model;
pub(crate) mod gpu_process_count;
pub(crate) mod gpu_resource_not_provisioned;
pub(crate) mod gpu_resource_unknown;
pub(crate) mod gpu_sharing_config_invalid;
pub(crate) mod gpu_sharing_mismatch;
pub(crate) mod gpu_taint_tolerated_without_gpu;
pub(crate) mod gpu_toleration_missing;
pub(crate) mod helper_holds_gpu;
pub(crate) mod host_cache_over_limit;
pub(crate) mod huggingface_cli_removed;
pub(crate) mod image_runs_as_root;
pub(crate) mod image_without_gpu;
pub(crate) mod install_without_root;
pub(crate) mod llama_layers_on_cpu;
pub(crate) mod mig_config_unknown;
pub(crate) mod mig_incapable_gpu;
pub(crate) mod mig_strategy_mismatch;
pub(crate) mod model_cache_misplaced;
pub(crate) mod model_cache_unreachable;
pub(crate) mod model_downloaded_each_start;
pub(crate) mod model_exceeds_gpu_memory;
pub(crate) mod model_larger_than_volume;
pub(crate) mod model_path_not_mounted;
pub(crate) mod model_token_missing;
pub(crate) mod neuron_devices_scattered;
pub(crate) mod option_not_a_number;
pub(crate) mod privileged_gpu_pod;
pub(crate) mod ray_entrypoint_without_gpu;
pub(crate) mod ray_packages_at_start;
pub(crate) mod ray_serve_exceeds_cluster;
pub(crate) mod request_overflows_instance;
pub(crate) mod server_on_loopback;
pub(crate) mod server_option_removed;
pub(crate) mod server_options_contradict;
pub(crate) mod server_user_unnamed;
pub(crate) mod shared_memory_over_limit;
pub(crate) mod shared_memory_small;
mod sharing;
pub(crate) mod storage_initializer_memory;
pub(crate) mod temporary_folder_read_only;
pub(crate) mod time_slicing_for_serving;
pub(crate) mod visible_devices_all;

use crate::catalog::{ARCH, InstanceType, TypeSet, index};
use crate::karpenter::nodepool::{NODEPOOL_LABEL, NodePool, types_meeting};
use crate::karpenter::provider::Provider;
use crate::kind::Kind;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::architecture;
use crate::workload::charts::{ChartValues, ValuePlace};
use crate::workload::class::WorkloadClass;
use crate::workload::devices::{Devices, requests_device_plugin};
use crate::workload::template::{Template, is_model_of_runtime, templates};

/// The memory of each GPU of an instance type in MB, as weights are counted.
pub(super) fn memory_of(one: &InstanceType) -> u64 {
    u64::from(one.gpu_memory_mib) * 1_048_576 / 1_000_000
}

/// The largest GPUs of the nodes on which pods can run.
struct LargestGpu {
    instance: &'static InstanceType,
    /// The memory of each in MB.
    each: u64,
    /// The first of the pools that leave only such nodes.
    pool: Option<Object>,
}

impl LargestGpu {
    /// The GPU and its pool for containers with `count` GPUs. A rule that calls this reads NodePools.
    fn of(template: &Template<'_>, count: i64, ctx: &Context<'_>) -> Option<LargestGpu> {
        let (types, pool) = selected_types(template, ctx)?;
        let fits = |one: &InstanceType| i64::from(one.nvidia_gpu.max(one.amd_gpu)) >= count;
        let instance = types.iter().filter(|one| fits(one)).max_by_key(|one| one.gpu_memory_mib)?;
        Some(LargestGpu { instance, each: memory_of(instance), pool })
    }

    /// Adds the GPUs of the container and the pool to a finding.
    fn show(&self, object: &Object, devices: &Devices<'_>, finding: &mut Finding) {
        finding.related(object, &devices.node, "the GPUs of the container");
        if let Some(pool) = &self.pool {
            let text =
                format!("its GPUs have at most {} GB (`{}`)", gigabytes(self.each), self.instance.name);
            finding.related(pool, &pool.path(&["metadata", "name"]), text);
        }
    }
}

/// MB as whole GB, for messages.
pub(super) fn gigabytes(megabytes: u64) -> u64 {
    (megabytes + 500) / 1000
}

/// The instance types on which the pods of a template can run, as far as their own labels, the NodePools that admit them and
/// their architecture show and EC2 offers them, with the first of these pools where they leave fewer than the labels. `None` if
/// neither labels nor pools say anything. A rule that calls this reads NodePools.
pub(super) fn selected_types(
    template: &Template<'_>,
    ctx: &Context<'_>,
) -> Option<(TypeSet, Option<Object>)> {
    let (types, pool) = admitted_types(template, ctx)?;
    let of_architecture = architecture::of_pods(template).and_then(|arch| index(ARCH)?.with(arch));
    let fitting = of_architecture.map(|with| types.and(with)).filter(|fitting| !fitting.is_empty());
    Some((fitting.unwrap_or(types).offered(), pool))
}

fn admitted_types(template: &Template<'_>, ctx: &Context<'_>) -> Option<(TypeSet, Option<Object>)> {
    let allowed = allowed_types(template)?;
    let named = allowed.are_named.then_some((allowed.types, None));
    let Some((of_pools, pool)) = types_of_pools(template, ctx) else {
        return named;
    };
    let both = allowed.types.and(&of_pools);
    if both.is_empty() || allowed.are_named && both == allowed.types {
        return named;
    }
    Some((both, Some(pool)))
}

/// The instance types of the NodePools that admit the pods of a template, with the first of these pools.
fn types_of_pools(template: &Template<'_>, ctx: &Context<'_>) -> Option<(TypeSet, Object)> {
    let found = ctx.pools_for(template)?;
    let pools = found.all_known()?;
    let mut all = TypeSet::EMPTY;
    for pool in pools {
        all = all.or(&NodePool::new(pool.object())?.types()?);
    }
    let first = pools.first()?.object().clone();
    Some((all, first))
}

pub(super) fn report_value<'c>(
    values: &ChartValues<'_, '_>,
    node: &Node<'_>,
    message: String,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let Some(text) = &values.text else {
        return ctx.report(node, message);
    };
    let object = ctx.object().clone();
    let finding = ctx.report(text, message);
    match node.span() {
        Some(span) => finding.at_part(&object, text, span.start as usize..span.end as usize),
        None => finding,
    }
}

/// Reports a place in the object, which may be in a text.
pub(super) fn report_place<'c>(
    place: &ValuePlace<'_>,
    message: String,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let object = ctx.object().clone();
    let finding = ctx.report(&place.node, message);
    match place.part.clone() {
        Some(part) => finding.at_part(&object, &place.node, part),
        None => finding,
    }
}

/// The value of a label that all nodes of a template have: it selects it, or each NodePool that admits the pods declares it.
/// A rule that calls this reads NodePools.
fn label_of_nodes(template: &Template<'_>, key: &str, ctx: &Context<'_>) -> Option<String> {
    let selected = template.spec.get("nodeSelector").get(key);
    if selected.is_set() {
        return selected.text().map(str::to_owned);
    }
    let pools = ctx.pools_for(template)?;
    let mut found = None;
    for pool in pools.all_known()? {
        let value = NodePool::new(pool.object())?.labels().get(key).text()?.to_owned();
        if found.as_ref().is_some_and(|known| *known != value) {
            return None;
        }
        found = Some(value);
    }
    found
}

/// The instance types that the node selector and the required affinity of a template allow; `None` if no values of labels name
/// them, or if one is not known.
pub(super) fn types_by_label(template: &Template<'_>) -> Option<TypeSet> {
    allowed_types(template).filter(|allowed| allowed.are_named).map(|allowed| allowed.types)
}

/// The instance types that labels leave.
#[derive(Clone, Copy)]
struct Allowed {
    types: TypeSet,
    /// Whether values of labels name them. An exclusion leaves types that the author did not think of.
    are_named: bool,
}

impl Allowed {
    fn any() -> Allowed {
        Allowed { types: TypeSet::full(), are_named: false }
    }

    fn and(self, other: Allowed) -> Allowed {
        Allowed { types: self.types.and(&other.types), are_named: self.are_named || other.are_named }
    }

    fn or(self, other: Allowed) -> Allowed {
        Allowed { types: self.types.or(&other.types), are_named: self.are_named && other.are_named }
    }

    /// The types with one of the values of a label. `None` if one is not known.
    fn with_values<'n>(key: &str, values: impl IntoIterator<Item = Node<'n>>) -> Option<Allowed> {
        let key = Provider::naming(key).catalogue_key(key);
        let Some(known) = index(&key).filter(|_| key != ARCH) else {
            return Some(Allowed::any());
        };
        let mut types = TypeSet::EMPTY;
        for value in values {
            types = types.or(known.with(value.text()?)?);
        }
        Some(Allowed { types, are_named: true })
    }

    /// The types that meet an expression of node affinity. `None` if a part of it is not known.
    fn meeting(expression: &Node<'_>) -> Option<Allowed> {
        let key = expression.get("key").text()?;
        if expression.get("operator").text()? == "In" {
            return Allowed::with_values(key, expression.get("values").items());
        }
        let provider = Provider::naming(key);
        if index(&provider.catalogue_key(key)).is_none() {
            return Some(Allowed::any());
        }
        Some(Allowed { types: types_meeting(expression, provider)?, are_named: false })
    }
}

/// The instance types that the node selector and the required affinity of a template allow. `None` if one of their values is not
/// known, or if they allow none.
fn allowed_types(template: &Template<'_>) -> Option<Allowed> {
    let mut allowed = Allowed::any();
    for (key, value) in template.spec.get("nodeSelector").entries() {
        allowed = allowed.and(Allowed::with_values(key, [value])?);
    }
    // The terms are alternatives.
    let mut of_terms: Option<Allowed> = None;
    for term in template.required_terms().items() {
        let mut of_term = Allowed::any();
        for expression in term.get("matchExpressions").items() {
            of_term = of_term.and(Allowed::meeting(&expression)?);
        }
        of_terms = Some(of_terms.map_or(of_term, |others| others.or(of_term)));
    }
    Some(of_terms.map_or(allowed, |of_terms| allowed.and(of_terms)))
        .filter(|allowed| !allowed.types.is_empty())
}

/// The NodePools that have all custom labels that a template selects, if it selects any.
pub(super) fn pools_by_label<'i>(template: &Template<'_>, ctx: &Context<'i>) -> Vec<&'i Object> {
    let selector = template.spec.get("nodeSelector").entries();
    let custom: Vec<(&str, &str)> = selector
        .iter()
        .filter(|(key, _)| *key == NODEPOOL_LABEL || index(key).is_none() && is_custom(key))
        .filter_map(|(key, value)| Some((*key, value.text()?)))
        .collect();
    if custom.is_empty() {
        return Vec::new();
    }
    let fits = |pool: &&Object| {
        let Some(spec) = NodePool::new(pool) else { return false };
        let labels = spec.labels();
        custom.iter().all(|(key, value)| match *key {
            NODEPOOL_LABEL => pool.name() == *value,
            key => labels.get(key).text() == Some(value),
        })
    };
    let cluster = ctx.cluster();
    let candidates: Vec<&Object> = match custom.iter().find(|(key, _)| *key == NODEPOOL_LABEL) {
        Some((_, name)) => cluster.written_as(Kind::NODE_POOL, name).collect(),
        None => cluster.views().pools_with_label(custom[0].0, custom[0].1).iter().collect(),
    };
    candidates.into_iter().filter(fits).filter(|pool| ctx.pairs_with(pool)).collect()
}

/// Whether a label is a custom label of NodePools.
fn is_custom(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    !domain.ends_with("kubernetes.io") && !domain.starts_with("karpenter.") && !domain.ends_with("nvidia.com")
}

/// The pod templates of a workload that uses accelerators; none of an object that [`is_left_alone`].
fn gpu_templates<'a>(object: &'a Object, ctx: &Context<'_>) -> impl Iterator<Item = Template<'a>> + use<'a> {
    let counts = requests_device_plugin(object) && !is_left_alone(object, ctx);
    counts.then(|| templates(object)).into_iter().flatten()
}

/// The containers of [`gpu_templates`] whose command lines are known as a whole: neither a kustomization nor a runtime of KServe
/// that is not in the input may add options.
fn whole_gpu_containers<'a>(
    object: &'a Object,
    ctx: &Context<'_>,
) -> impl Iterator<Item = (Template<'a>, Node<'a>)> + use<'a> {
    let counts = !object.is_patched_by_kustomize();
    gpu_templates(object, ctx).filter(move |_| counts).flat_map(|template| {
        let containers = template.containers().filter(|container| !is_model_of_runtime(container));
        containers.map(move |container| (template.clone(), container))
    })
}

/// Millionths of dollars as dollars and cents.
fn dollars(micro: u64) -> String {
    format!("{}.{:02}", micro / 1_000_000, micro / 10_000 % 100)
}

/// Whether an object is not a workload by itself: another object creates it, it runs on every node, or it is a patch.
fn is_left_alone(object: &Object, ctx: &Context<'_>) -> bool {
    object.is_partial()
        || object.is(Kind::DAEMON_SET)
        || object.is_owned()
        || ctx.class_of(object).class == WorkloadClass::Infra
}
