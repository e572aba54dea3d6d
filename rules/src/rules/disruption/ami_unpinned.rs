//! A node class follows the newest AMI instead of a pinned version.
//!
//! # Why
//! With `@latest` each release of AWS, every week or two, makes all nodes of the class drift: Karpenter
//! replaces the fleet as fast as the budgets allow, with an image that nobody has tried. A driver that
//! does not fit a CUDA version reaches production that way, on all nodes within hours. An image name
//! with `*` does the same with each new image that matches.
//!
//! It is a warning where a pool of the class is for training, whose runs are interrupted, and where
//! several pools use the class, of which one is for accelerators and their drivers; otherwise information,
//! as it is in a folder of examples. Of several classes of one name a pool uses that of its own file. A
//! wildcard that spans versions of Kubernetes is left to `ami-name-spans-versions`.
//!
//! # Fix
//! Pin the version that was tested, such as `al2023@v20250807` or `bottlerocket@v1.44.0`, and raise it
//! in a pull request. Windows images know nothing but `@latest`. Nothing is said of `al2@latest`, whose
//! images are no longer released, nor of families that do not exist: other rules report these aliases.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: KarpenterNode-prod
//!    amiSelectorTerms:
//! -    - alias: al2023@latest # <-
//! +    - alias: al2023@v20250807
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/tasks/managing-amis/>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6952>

use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::rules::manifest_purpose::is_example;
use crate::rules::nodeclass::ami_name_spans_versions;
use crate::rules::nodeclass::ami_name_spans_versions::spans_versions;
use crate::rules::prelude::*;

/// The pools of the class, and the workloads that determine the purpose of a pool.
const READS: &[Kind] = kinds![[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NAMESPACE], WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "ami-unpinned",
    kinds: &[Kind::EC2_NODE_CLASS],
    reads: READS,
    is_new_in_v1: true,
    docs: docs(include_str!("ami_unpinned.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Disruption)
};

/// The families whose `@latest` follows new releases and which know pinned versions.
const MOVING: [&str; 2] = ["al2023", "bottlerocket"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.version() != "v1" {
        return None;
    }
    let name = object.display_name();
    for term in object.path(&["spec", "amiSelectorTerms"]).items() {
        let (alias, pattern) = (term.get("alias"), term.get("name"));
        let (node, message, help) = if let Some((family, "latest")) =
            alias.text().and_then(|text| text.split_once('@'))
        {
            if !MOVING.contains(&family) {
                continue;
            }
            let message =
                format!("with `@latest` every AMI release replaces the nodes of class `{name}`, untested");
            let help = format!("pin the version that was tested, as in `{}`", example(family));
            (&alias, message, help)
        } else if pattern.text().is_some_and(|text| text.contains(['*', '?'])) {
            if ctx.is_rule_enabled(ami_name_spans_versions::RULE.id) && spans_versions(&term).is_some() {
                continue;
            }
            let message = format!(
                "with a wildcard every new image that matches replaces the nodes of class `{name}`, untested"
            );
            (&pattern, message, "write the whole name of the image that was tested, or its id".to_owned())
        } else {
            continue;
        };
        let views = ctx.cluster().views();
        let pools = views.class_pools().pools_of(object).pools;
        let pools: Vec<&Object> = pools.iter().filter(|pool| replaces_drifted(pool)).collect();
        let is_training = |object: &Object| {
            let pool = NodePool::new(object)?;
            let (purpose, _) = views.purpose(&pool)?;
            (purpose == WorkloadClass::Training).then_some(())
        };
        let trained = pools.iter().copied().find(|pool| is_training(pool).is_some());
        let is_gpu = |object: &Object| NodePool::new(object).is_some_and(|pool| pool.is_gpu_intended());
        let shared = pools.get(1).is_some() && pools.iter().any(|pool| is_gpu(pool)) && !is_example(object);
        let finding = ctx.report(node, message);
        finding.help(help);
        if let Some(pool) = trained {
            let node = pool.path(&["metadata", "name"]);
            finding.severity(Severity::Warning).related(pool, &node, "a training pool uses the class");
        } else if shared {
            finding.severity(Severity::Warning);
            for pool in pools.into_iter().take(3) {
                finding.related(pool, &pool.path(&["metadata", "name"]), "this pool uses the class");
            }
        }
    }
    None
}

/// Whether the budgets of a pool ever let drifted nodes go.
fn replaces_drifted(pool: &Object) -> bool {
    let pool = NodePool::new(pool);
    let calendar = pool.as_ref().and_then(NodePool::written_budgets);
    !calendar.is_some_and(|(_, calendar)| calendar.is_always(DisruptionReason::Drifted, AllowanceState::Zero))
}

/// An example of a pinned alias of a family.
fn example(family: &str) -> String {
    match family {
        "bottlerocket" => "bottlerocket@v1.44.0".to_owned(),
        other => format!("{other}@v20250807"),
    }
}
