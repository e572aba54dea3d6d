//! An Ingress rejects audio and images, which are larger than its limit.
//!
//! # Why
//! `ingress-nginx` answers a request of more than 1 MiB with `413 Request Entity Too Large`, unless the
//! annotation `proxy-body-size`, or the key of that name in the controller's ConfigMap, allows more. A minute
//! of uncompressed audio has two megabytes, and a photograph is a third larger in base64, so that a server of
//! speech recognition works with short samples alone. For models that read images it is advice: clients may
//! send addresses of images instead.
//!
//! Nothing is said where the input has the controller's ConfigMap with a limit, or installs its chart, and
//! where nginx does not read requests: with `ssl-passthrough`.
//!
//! # Fix
//! Write a limit for the largest request, such as `100m`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: Ingress
//!  metadata:
//!    name: speech
//!    namespace: models
//!    annotations:
//!      nginx.ingress.kubernetes.io/proxy-read-timeout: "600"
//! -    nginx.ingress.kubernetes.io/proxy-body-size: 1m # <-
//! +    nginx.ingress.kubernetes.io/proxy-body-size: 100m
//!  spec:
//!    ingressClassName: nginx
//!    defaultBackend: {service: {name: speech, port: {number: 80}}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: speech, namespace: models}
//!  spec:
//!    selector: {app: speech}
//!    ports: [{port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: speech, namespace: models, labels: {app: speech}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: example.com/vllm:v0.11.0
//!        command: [vllm, serve, openai/whisper-large-v3]
//!        readinessProbe: {httpGet: {path: /health, port: 8000}}
//! ```
//!
//! # References
//! - <https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/#custom-max-body-size>
//! - <https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/configmap/#proxy-body-size>

use super::ingress::{CONTROLLER_KINDS, Controller, containers_behind, controller, may_change_default};
use crate::rules::prelude::*;

/// Services and their workloads, and the configuration of `ingress-nginx`.
const READS: &[Kind] = kinds![CONTROLLER_KINDS, [Kind::SERVICE, Kind::CONFIG_MAP], WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "ingress-body-small",
    kinds: &[Kind::INGRESS],
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ingress_body_small.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

const SIZE: &str = "nginx.ingress.kubernetes.io/proxy-body-size";
/// The limit without an annotation, in bytes.
const DEFAULT: i64 = 1 << 20;
/// Parts of the names of models and images for audio.
const AUDIO: [&str; 4] = ["whisper", "speaches", "parakeet", "canary-1b"];
/// Parts of the names of programs that stream audio through a WebSocket or a port of their own, where the limit does not count, and
/// of those that make speech.
const NO_FILES: [&str; 6] =
    ["whisperlive", "whisper-live", "whisper-streaming", "wyoming-", "whisperspeech", "whisper-speech"];
/// Parts of the names of models that read images.
const IMAGES: [&str; 6] = ["-vl-", "llava", "pixtral", "internvl", "paligemma", "llama-3.2-11b-vision"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_open = object.may_lack_fields() || object.path(&["metadata", "annotations"]).has_unknown_key();
    if is_open || controller(object, ctx) != Some(Controller::Nginx) {
        return None;
    }
    // A canary has the limits of the Ingress that it belongs to.
    let is_canary = object.annotation("nginx.ingress.kubernetes.io/canary").is_set();
    let snippets = ["server-snippet", "configuration-snippet"];
    let has_snippet = snippets
        .iter()
        .any(|name| object.annotation(&format!("nginx.ingress.kubernetes.io/{name}")).is_set());
    if is_canary || has_snippet {
        return None;
    }
    let node = object.annotation(SIZE);
    if node.is_absent() {
        if may_change_default("proxy-body-size", ctx) {
            return None;
        }
    } else if bytes(node.text().filter(|text| !is_placeholder(text))?)
        .is_none_or(|size| size == 0 || size > DEFAULT)
    {
        return None;
    }
    let (workload, reads) = reader(object, ctx)?;
    let by_default = if node.is_absent() { " by default" } else { "" };
    let message = format!(
        "nginx rejects requests of more than 1 MiB{by_default}, and `{}` reads {reads}",
        workload.display_name()
    );
    let finding = ctx.report(&node, message);
    if reads != "audio" {
        finding.severity(Severity::Info);
    }
    finding
        .help(format!("write `{SIZE}: 100m`"))
        .fix(Fix::unsafe_("allow requests of 100 MiB").set(&node, json!("100m")))
        .related(workload, &workload.path(&["metadata", "name"]), "the server");
    None
}

/// A size as nginx reads it: bytes, or with `k`, `m` or `g`. 0 is no limit.
fn bytes(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1 << 10),
        (at, 'm') => (&text[..at], 1 << 20),
        (at, 'g') => (&text[..at], 1 << 30),
        _ => (text.as_str(), 1),
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

/// The first workload behind an Ingress that reads audio or images, by the name of its model or of its image.
fn reader<'i>(object: &Object, ctx: &Context<'i>) -> Option<(&'i Object, &'static str)> {
    containers_behind(object, ctx).into_iter().find_map(|(owner, container)| {
        let names = names(&container);
        let has = |parts: &[&str]| names.iter().any(|name| parts.iter().any(|part| name.contains(part)));
        let reads = match () {
            () if has(&NO_FILES) => return None,
            () if has(&AUDIO) => "audio",
            () if has(&IMAGES) && !is_without_images(&container) => "images",
            () => return None,
        };
        Some((owner, reads))
    })
}

/// The names of the image of a container, of its programs and of its model, in lower case. The values of other options may have
/// such a word as well: Graphite's files are called `whisper`.
fn names(container: &Node<'_>) -> Vec<String> {
    let mut names = vec![image_of(container).map_or("", |image| image.repository).to_owned()];
    let mut before = String::new();
    for word in words(container) {
        let (option, value) = match word.text.split_once('=') {
            Some((option, value)) if option.starts_with('-') => (option, value),
            _ => (before.as_str(), word.text.as_str()),
        };
        let is_named =
            !option.starts_with("--") || ["model", "repo"].iter().any(|part| option.contains(part));
        if is_named && !value.starts_with('-') {
            names.push(value.to_owned());
        }
        let is_option = word.text.starts_with('-') && !word.text.contains('=');
        before = if is_option { word.text } else { String::new() };
    }
    names.iter().map(|name| name.to_ascii_lowercase().replace('_', "-")).collect()
}

/// Whether vLLM takes no images although its model could: `--limit-mm-per-prompt={"image": 0}`, in each of its spellings.
fn is_without_images(container: &Node<'_>) -> bool {
    let line = command_line(container).replace('_', "-");
    let line: String = line.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let is_zero = ["image0", "imagecount0"].iter().any(|limit| line.contains(limit));
    line.contains("--language-model-only") || line.contains("--limit-mm-per-prompt") && is_zero
}
