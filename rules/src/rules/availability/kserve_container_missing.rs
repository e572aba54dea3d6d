//! No container of an InferenceService has the name by which KServe finds it.
//!
//! # Why
//! KServe looks for the server by the name `kserve-container`. A container alone gets that name by itself. Of
//! several the first got it until KServe 0.14; since 0.15 they keep their names, and where no one is called so
//! the controller stops with a nil pointer each time it comes to the object: nothing is deployed, and no event
//! says why.
//!
//! The container of a `model` comes from its runtime and has the name already. `name` in `model` renames it, and
//! then the storage initializer finds no container for the model: each pod is rejected with `cannot find
//! container: kserve-container`. It is not the name of the model, which is that of the InferenceService or
//! `--model_name` of the server. A container of that name beside a `model` is a second server, and KServe's
//! webhook rejects the InferenceService: what it was to change of the first one stands in `model`.
//!
//! # Fix
//! Name the server `kserve-container`, and write it before the others. Leave `name` out of `model`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: serving.kserve.io/v1beta1
//!  kind: InferenceService
//!  metadata: {name: scorer, namespace: legal}
//!  spec:
//!    predictor:
//!      containers:
//! -      - name: scorer # <-
//! +      - name: kserve-container
//!          image: registry.example.com/legal/scorer:2.4.0
//!          resources: {requests: {cpu: 2, memory: 4Gi}, limits: {cpu: 2, memory: 4Gi}}
//!        - name: audit-log
//!          image: registry.example.com/legal/audit-log:1.3.0
//!          resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 64Mi}}
//! ```
//!
//! # References
//! - <https://github.com/kserve/kserve/issues/4986>
//! - <https://kserve.github.io/website/docs/model-serving/predictive-inference/frameworks/custom-predictor>

use super::kserve::is_served_by_model_mesh;
use crate::cluster::runtimes::MODEL_FIELDS;
use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::prelude::*;
use crate::workload::gpu::has_device;

pub(crate) static RULE: Rule = Rule {
    id: "kserve-container-missing",
    kinds: &[Kind::INFERENCE_SERVICE],
    reads: VERSIONED_CHARTS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("kserve_container_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

const NAME: &str = "kserve-container";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let predictor = object.path(&["spec", "predictor"]);
    if object.may_lack_fields() || predictor.has_unknown_key() || is_served_by_model_mesh(object) {
        return None;
    }
    if MODEL_FIELDS.iter().any(|field| !predictor.get(field).is_absent()) {
        if beside_model(&predictor, ctx).is_some() {
            return None;
        }
        return renamed(&predictor.get("model"), ctx);
    }
    let containers: Vec<Node<'_>> = predictor.get("containers").items().collect();
    let names: Vec<&str> = containers.iter().map(|one| one.get("name").text()).collect::<Option<_>>()?;
    // The webhook gives one alone, and a first one without a name, the right name.
    if containers.len() < 2 || names[0].is_empty() || names.contains(&NAME) || is_older(ctx) {
        return None;
    }
    let serves = |container: &Node<'_>| {
        server_of(container).is_some() || has_device(container) || container.get("ports").is_set()
    };
    let mut servers = containers.iter().filter(|one| serves(one));
    let server = servers.next().unwrap_or(&containers[0]);
    let name = server.get("name");
    let message = format!("KServe 0.15 and later find no server: no container is named `{NAME}`");
    let finding = ctx.report(&name, message);
    if names[0] == name.text()? {
        let fix = Fix::unsafe_("give the first container the name of the server").set(&name, json!(NAME));
        finding.help(format!("name the server so: `name: {NAME}`")).fix(fix);
    } else {
        finding.help(format!("name the server `{NAME}`, and write it before the others"));
    }
    None
}

/// Reports a server beside a model. The webhook of KServe counts both as implementations of the predictor, and rejects all numbers but
/// one (`GetImplementations` and `validateExactlyOneImplementation`, 0.7 to 0.20).
fn beside_model(predictor: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = MODEL_FIELDS.iter().map(|field| predictor.get(field)).find(|field| field.is_mapping())?;
    let mut names = predictor.get("containers").items().map(|one| one.get("name"));
    let name = names.find(|name| name.text() == Some(NAME))?;
    let model = field.pointer().steps().last()?.clone();
    let object = ctx.object();
    ctx.report(
        &name,
        format!("KServe rejects a container `{NAME}` beside `{model}`: the predictor has two servers"),
    )
    .severity(Severity::Error)
    .help(format!(
        "move its fields, such as `env` and `args`, into `{model}`, which has those of a container"
    ))
    .related(object, &field, "the server of the runtime");
    Some(())
}

/// Whether the chart of KServe in the input is of a release that names the first container.
fn is_older(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let mut versions = chart_installers(cluster).filter_map(|one| chart_version(one, "kserve", cluster));
    versions.any(|text| Version::parse(text).is_some_and(|version| version < Version::new(0, 15)))
}

/// Reports a name that the container of the runtime gets: `MergeRuntimeContainers` of KServe 0.11 to 0.20 keeps its own only where the
/// model has none.
fn renamed(model: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = model.get("name");
    let text = name.text().filter(|text| !text.is_empty() && *text != NAME)?;
    if !model.get("storageUri").is_set() && !model.get("storage").is_set() {
        return None;
    }
    ctx.report(&name, format!("KServe finds no `{NAME}` for the model: this renames it to `{text}`"))
        .help("remove it; the name of the model is that of the InferenceService, or `--model_name` in `args`")
        .fix(Fix::unsafe_("leave the container its name").remove(&name));
    None
}
