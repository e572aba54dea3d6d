//! Replicas of a server may all run on one node.
//!
//! # Why
//! The scheduler spreads the pods of a Deployment only where it costs nothing. Karpenter fills the node
//! that it has: two replicas on one 8-GPU instance, or in one zone, go away together when that node or
//! zone does, and a Spot interruption takes all of them at once.
//!
//! Of servers without a model those are reported that a PodDisruptionBudget is for, whose pods go to
//! NodePools of the input, up to six replicas: their authors count on them, and Karpenter starts one node
//! for all of them where one is the cheapest.
//!
//! # Fix
//! Add a topology spread constraint over zones with `whenUnsatisfiable: ScheduleAnyway`, which prefers
//! spreading and keeps no pod from starting where a zone has no GPUs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//! -metadata:
//! -  name: llm # <-
//! +metadata: {name: llm}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//! +      topologySpreadConstraints:
//! +        - maxSkew: 1
//! +          topologyKey: topology.kubernetes.io/zone
//! +          whenUnsatisfiable: ScheduleAnyway
//! +          labelSelector: {matchLabels: {app: llm}}
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: llm}
//!  spec:
//!    maxUnavailable: 1
//!    unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector: {matchLabels: {app: llm}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>
//! - <https://karpenter.sh/docs/concepts/scheduling/#topology-spread>

use super::serving::{is_owned, model_server, tell_autoscaler};
use crate::catalog::{ZONE, ZONE_ID};
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::prelude::*;
use crate::workload::launcher::ServerSize;
use crate::workload::node_labels::names_nodes;

pub(crate) static RULE: Rule = Rule {
    id: "zone-spread-missing",
    kinds: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::ROLLOUT],
    reads: &[Kind::NAMESPACE, Kind::HPA, Kind::SCALED_OBJECT, Kind::PDB, Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("zone_spread_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Availability)
};

/// The replicas of an ordinary server that one node may well have. More of them rarely go away together.
const MANY: i64 = 6;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let classified = model_server(object, ctx);
    let replicas = ctx.cluster().views().replicas(object)?;
    let autoscaler = ctx.cluster().views().autoscaler_of(object);
    // A volume is in one zone, so its pods are where their volumes are.
    if replicas.min < 2 || object.path(&["spec", "volumeClaimTemplates"]).is_set() {
        return None;
    }
    for template in templates(object) {
        let spec = &template.spec;
        let constraints = spec.get("topologySpreadConstraints");
        let affinity = spec.get("affinity");
        let claims = spec.get("volumes").items().any(|v| v.get("persistentVolumeClaim").is_set());
        let pinned = names_nodes(&template)
            || [ZONE, ZONE_ID].iter().any(|key| spec.path(&["nodeSelector", key]).is_set());
        let settled = constraints.is_set()
            || affinity.get("podAntiAffinity").is_set()
            || affinity.get("podAffinity").is_set()
            || affinity.is_unknown()
            || spec.has_unknown_key();
        // Ranks of one server exchange data all the time.
        let is_one_server = ServerSize::of_template(&template) != ServerSize::OnePod;
        if settled || is_one_server || claims || pinned {
            continue;
        }
        let shown = match &classified {
            Some(_) if !uses_device(&template) => continue,
            Some(_) => None,
            None if replicas.min > MANY => continue,
            None => match relied_on(object, &template, ctx) {
                Some(shown) => Some(shown),
                None => continue,
            },
        };
        let labels = object.path(&["spec", "selector", "matchLabels"]);
        let message = format!(
            "nothing spreads the {} replicas of `{}` over zones or nodes",
            replicas.min,
            object.display_name()
        );
        let finding = ctx.report(&object.path(&["metadata", "name"]), message);
        finding.help("add a topology spread constraint over zones with `whenUnsatisfiable: ScheduleAnyway`");
        if labels.is_mapping() && !labels.has_unknown() && !template.spec.has_unknown() {
            let spread = json!([{
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels.to_json()},
            }]);
            finding.fix(Fix::new("prefer to spread over zones", Safety::Unsafe).set(&constraints, spread));
        }
        tell_autoscaler(finding, autoscaler);
        if let Some(classified) = &classified {
            add_class_evidence(finding, object, classified);
        }
        if let Some((pdb, pool)) = shown {
            finding.related(pdb, &pdb.path(&["metadata", "name"]), "it counts on the replicas");
            finding.related(&pool, &pool.path(&["metadata", "name"]), "one node of it may take all of them");
        }
    }
    None
}

/// The PDB of pods that serve no model, and a NodePool that starts nodes for them, if it is certain that nothing else does.
fn relied_on<'c>(
    object: &Object,
    template: &Template<'_>,
    ctx: &Context<'c>,
) -> Option<(&'c Object, Object)> {
    // Nodes with accelerators are chosen for one pod, and whether it serves is not sure.
    if uses_device(template) || object.may_lack_fields() || is_owned(object) || !runs_forever(object) {
        return None;
    }
    let (pdbs, _) = ctx.cluster().views().pdbs_of(object.namespace_or_default(), template);
    let pdb = pdbs.into_iter().find(|pdb| ctx.pairs_with(pdb))?;
    let found = ctx.pools_for(template)?;
    let pool = found.all_known()?.first()?.object().clone();
    Some((pdb, pool))
}
