//! Time-slicing shares a GPU between pods and isolates neither memory nor time.
//!
//! # Why
//! Time slices of a GPU take turns. Each pod sees all the memory, so that one can end the others by
//! filling it, and the response time of a server depends on what its neighbours do. MIG divides memory
//! and compute in hardware, where the GPU can. This is a warning where servers of the same file or
//! kustomization ask for the shared resource, otherwise advice.
//!
//! # Fix
//! Use MIG profiles on GPUs that have MIG (A100, H100 and later), or MPS with memory limits; keep
//! time-slicing for development and for work that nobody waits for.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: device-plugin, namespace: gpu-operator}
//!  data:
//!    any: | # <-
//!      version: v1
//! -    sharing:
//! -      timeSlicing:
//! -        resources:
//! -          - {name: nvidia.com/gpu, replicas: 4}
//! +    flags:
//! +      migStrategy: mixed
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html>

use crate::rules::gpu::sharing;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "time-slicing-for-serving",
    kinds: &[Kind::CONFIG_MAP],
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("time_slicing_for_serving.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut done = false;
    sharing::for_each(object, |entry, config| {
        let slicing = config.path(&["sharing", "timeSlicing"]);
        let Some(resource) = slicing.get("resources").items().next().filter(|_| !done) else {
            return;
        };
        // One finding for all configurations of an object.
        done = true;
        let name = resource.get("name").text().unwrap_or("nvidia.com/gpu");
        let renamed = match slicing.get("renameByDefault").bool() == Some(true) {
            true => format!("{name}.shared"),
            false => resource.get("rename").text().unwrap_or(name).to_owned(),
        };
        let replicas = resource.get("replicas").int();
        let users = ctx.cluster().views().requesting(&renamed);
        let server = users.iter().find(|user| {
            ctx.cluster().likely_pairs(object, user)
                && crate::workload::class::classify(user).serves_requests()
        });
        let pods = replicas.map_or("several".to_owned(), |n| n.to_string());
        let message = match server {
            Some(server) => {
                let server = server.display_name();
                format!(
                    "{pods} pods share a GPU by turns, `{server}` among them: nothing isolates their memory"
                )
            }
            None => {
                format!("{pods} pods share a GPU by turns: nothing isolates their memory or response times")
            }
        };
        let severity = if server.is_some() { Severity::Warning } else { Severity::Info };
        let finding = ctx.report(entry, message);
        finding
            .at_key()
            .severity(severity)
            .help("use MIG where the GPU has it; keep time-slicing for work that nobody waits for");
        if let Some(server) = server {
            finding.related(server, &server.path(&["metadata", "name"]), "asks for a slice");
        }
    });
    None
}
