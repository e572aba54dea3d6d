//! A Spark application asks for GPUs and does not say how to find them.
//!
//! # Why
//! With `spark.executor.resource.gpu.amount` Spark gives each task addresses of GPUs, which a script finds that
//! `discoveryScript` names. On Kubernetes nothing else finds them: each executor ends at once with
//! `User is expecting to use resource: gpu, but didn't specify a discovery script!`, and another one starts, on a
//! GPU node each. The driver has settings of its own, `spark.driver.resource.gpu`. That the image has such a
//! script is not enough. A plugin in `spark.resources.discoveryPlugin`, and files of Spark in a ConfigMap, may
//! find them, and are left alone.
//!
//! # Fix
//! Name the script. The images of Spark have one in their examples.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: sparkoperator.k8s.io/v1beta2
//!  kind: SparkApplication
//!  metadata: {name: features}
//!  spec:
//!    type: Python
//!    mode: cluster
//!    image: example.com/spark-rapids:3.5.3
//!    mainApplicationFile: local:///app/features.py
//!    sparkVersion: 3.5.3
//!    sparkConf:
//!      spark.plugins: com.nvidia.spark.SQLPlugin
//! -    spark.executor.resource.gpu.amount: "1" # <-
//! +    spark.executor.resource.gpu.amount: "1"
//!      spark.executor.resource.gpu.vendor: nvidia.com
//! +    spark.executor.resource.gpu.discoveryScript: /opt/spark/examples/src/main/scripts/getGpusResources.sh
//!    driver: {cores: 2, memory: 8g, serviceAccount: spark}
//!    executor: {instances: 4, cores: 8, memory: 24g}
//! ```
//!
//! # References
//! - <https://spark.apache.org/docs/latest/running-on-kubernetes.html#resource-allocation-and-configuration-overview>
//! - <https://spark.apache.org/docs/latest/configuration.html#custom-resource-scheduling-and-configuration-overview>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "spark-gpu-undiscovered",
    kinds: &[Kind::SPARK_APPLICATION, Kind::SCHEDULED_SPARK_APPLICATION],
    docs: docs(include_str!("spark_gpu_undiscovered.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// A plugin that finds resources instead of a script.
const PLUGIN: &str = "spark.resources.discoveryPlugin";

/// `ResourceDiscoveryScriptPlugin` of Spark 3.0 to 4.0 raises an error without a script.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let spec = if object.is(Kind::SPARK_APPLICATION) { spec } else { spec.get("template") };
    let conf = spec.get("sparkConf");
    if object.may_lack_fields()
        || spec.get("sparkConfigMap").is_set()
        || conf.has_unknown_key()
        || conf.get(PLUGIN).is_set()
    {
        return None;
    }
    for (key, amount) in conf.entries() {
        let Some(resource) = key.strip_suffix(".amount") else { continue };
        let asked = ["spark.driver.resource.", "spark.executor.resource."]
            .iter()
            .find_map(|start| resource.strip_prefix(start));
        let Some(name) = asked else { continue };
        let count = amount.string_or_number().and_then(|count| count.parse::<u32>().ok());
        let script = format!("{resource}.discoveryScript");
        if count.is_none_or(|count| count == 0) || conf.get(&script).is_set() {
            continue;
        }
        let who = if key.starts_with("spark.driver.") { "the driver ends" } else { "each executor ends" };
        let message =
            format!("nothing finds the resource `{name}`, so that {who} at once: no `discoveryScript`");
        ctx.report(&amount, message).help(format!("write `{script}` with the path of a script in the image"));
    }
    None
}
