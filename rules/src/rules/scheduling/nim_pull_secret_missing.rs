//! Pods of a NIM have no secret for the registry of NVIDIA.
//!
//! # Why
//! The images below `nvcr.io/nim` of releases before 2.0.10 are given only to accounts of NGC. Without a pull
//! secret the pods stay in `ImagePullBackOff`, while their GPUs are paid for. `NGC_API_KEY` in the container
//! is for the model alone.
//!
//! It is reported for NIMServices and NIMCaches, whose operator makes the ServiceAccount, and for pods with a
//! ServiceAccount of the input. It is information: nodes may have credentials of their own.
//!
//! A NIMService names the Secret with the key as `authSecret`. The API server rejects one without it before
//! release 3.2 of the operator, also where the model is on a volume: that is a warning.
//!
//! # Fix
//! Name a Secret of type `kubernetes.io/dockerconfigjson` for `nvcr.io`, and one with `NGC_API_KEY` as
//! `authSecret`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps.nvidia.com/v1alpha1
//!  kind: NIMCache
//!  metadata: {name: llama, namespace: nim}
//!  spec:
//!    source:
//!      ngc:
//! -      modelPuller: nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.4 # <-
//! +      modelPuller: nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.4
//! +      pullSecret: ngc-registry
//!        authSecret: ngc-api
//!        model: {engine: tensorrt_llm}
//!    storage: {pvc: {create: true, size: 100Gi, volumeAccessMode: ReadWriteMany}}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/nim-operator/latest/image-pull-secrets.html>
//! - <https://docs.nvidia.com/nim/large-language-models/2.0.11/get-started/installation.html>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::rules::prelude::*;
use crate::workload::image::{FIRST_KEYLESS_NIM, nim_release};

pub(crate) static RULE: Rule = Rule {
    id: "nim-pull-secret-missing",
    kinds: kinds![[Kind::NIM_CACHE], WORKLOAD_KINDS],
    reads: kinds![POD_POLICIES, [Kind::SERVICE_ACCOUNT]],
    docs: docs(include_str!("nim_pull_secret_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.controller().is_some() {
        return None;
    }
    if object.is(Kind::NIM_CACHE) {
        let source = object.path(&["spec", "source", "ngc"]);
        let (puller, secret) = (source.get("modelPuller"), source.get("pullSecret"));
        let is_missing = !secret.is_unknown() && secret.text().is_none_or(str::is_empty);
        if is_missing {
            report(&puller, puller.text()?, "pullSecret", ctx);
        }
        return None;
    }
    if object.is(Kind::NIM_SERVICE) {
        key_of_service(object, ctx);
        let image = object.path(&["spec", "image"]);
        // The operator makes a ServiceAccount of this name (`GetServiceAccountName` of k8s-nim-operator 1.0 to 3.1).
        let has_secret =
            !lacks(&image.get("pullSecrets")) || account(object.name(), object, ctx).is_some_and(has_secret);
        let text = format!("{}:{}", image.get("repository").text()?, image.get("tag").string_or_number()?);
        if !has_secret {
            report(&image.get("repository"), &text, "image.pullSecrets", ctx);
        }
        return None;
    }
    for template in templates(object) {
        let names = ["serviceAccountName", "serviceAccount"].map(|field| template.spec.get(field));
        let name = names.iter().find(|name| name.is_set()).map_or(Some("default"), Node::text);
        let account = name.and_then(|name| account(name, object, ctx));
        let is_open = template.spec.has_unknown_key() || !lacks(&template.spec.get("imagePullSecrets"));
        let Some(account) = account.filter(|account| !is_open && !has_secret(account)) else { continue };
        for container in template.all_containers() {
            let image = container.get("image");
            let Some(text) = image.text() else { continue };
            // One finding is enough: the secret is that of the pod.
            if let Some(finding) = report(&image, text, "imagePullSecrets", ctx) {
                finding.related(account, &account.path(&["metadata", "name"]), "its account has none either");
                break;
            }
        }
    }
    None
}

/// Reports a NIMService without its key. Source: `config/crd/bases/apps.nvidia.com_nimservices.yaml` of k8s-nim-operator, where
/// `authSecret` is required from 1.0.1 to 3.1.2.
fn key_of_service(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let secret = spec.get("authSecret");
    if secret.is_absent() && spec.is_mapping() && !spec.has_unknown_key() {
        ctx.report(
            &secret,
            "the API server rejects a NIMService without `authSecret`, before release 3.2 of its operator",
        )
        .severity(Severity::Warning)
        .help("name a Secret with `NGC_API_KEY` as `authSecret`");
    }
    None
}

/// Whether a list of secrets is surely empty.
fn lacks(secrets: &Node<'_>) -> bool {
    !secrets.is_unknown() && secrets.items().next().is_none()
}

/// A ServiceAccount in the namespace of an object. `None` if what it has is not known.
fn account<'a>(name: &str, object: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let account = ctx.partner(Kind::SERVICE_ACCOUNT, object.namespace_or_default(), name)?;
    (!account.may_lack_fields()).then_some(account)
}

fn has_secret(account: &Object) -> bool {
    !lacks(&account.get("imagePullSecrets"))
}

/// Reports an image that is not public, where nothing gives the pods of the object a secret.
fn report<'c>(
    place: &Node<'_>,
    image: &str,
    field: &str,
    ctx: &'c mut Context<'_>,
) -> Option<&'c mut Finding> {
    let release = nim_release(&ImageRef::parse(image))?;
    let namespace = ctx.object().namespace_or_default();
    if release >= FIRST_KEYLESS_NIM || may_change_pods(ctx.cluster(), namespace, PodPart::PullSecrets) {
        return None;
    }
    let message = format!("`{}` is for accounts of NGC, and the pods have no pull secret", ellipsize(image));
    Some(ctx.report(place, message).help(format!("name a Secret for `nvcr.io` in `{field}`")))
}
