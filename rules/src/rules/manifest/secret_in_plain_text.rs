//! A token or a key is written in a manifest.
//!
//! # Why
//! Whoever reads the manifest, the repository or the pod has the token: everyone who may list pods, each copy of
//! the repository, and every log that prints arguments. It is reported for values that have the form of a real
//! token (of Hugging Face, OpenAI, Anthropic, NVIDIA, GitHub, AWS, Google, Slack), for long random values of
//! variables, options and fields that hold one by their name, and for `Authorization` headers of probes: in
//! workloads, the runtime environment of Ray, ConfigMaps, and the values of a HelmRelease or an Application.
//! Values that stand for a token, such as `changeme` and `<your-token>`, are left alone.
//!
//! # Fix
//! Revoke the token, put the new one into a Secret, and take it from there with `valueFrom.secretKeyRef`, or from
//! a file.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: download}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/download:1.4.0
//!            env:
//! -            - name: WANDB_API_KEY # <-
//! -              value: 7d3f0c9be2a1486f95d07c3e8b61a4f2d9e05b17
//! +            - name: WANDB_API_KEY
//! +              valueFrom: {secretKeyRef: {name: wandb, key: api-key}}
//!            resources: {requests: {cpu: 1, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/secret/>
//! - <https://huggingface.co/docs/hub/security-tokens>

use crate::rules::manifest::secret_forms::{is_secret_name, is_secret_of, looks_random, token_in};
use crate::rules::prelude::*;
use crate::steps;

pub(crate) static RULE: Rule = Rule {
    id: "secret-in-plain-text",
    kinds: kinds![[Kind::CONFIG_MAP, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION], WORKLOAD_KINDS],
    holds_unapplied: true,
    docs: docs(include_str!("secret_in_plain_text.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Options whose value is a token.
const OPTIONS: [&str; 6] = ["--api-key", "--api_key", "--token", "--auth-token", "--hf-token", "--password"];

const TO_SECRET: &str = "revoke it, and keep the new one in a Secret";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // The objects of a controller have the values of the one that is written.
    if object.is_owned() {
        return None;
    }
    let is_map = object.is(Kind::CONFIG_MAP);
    visit(&object.get(if is_map { "data" } else { "spec" }), ctx);
    None
}

/// Visits everything below a node.
fn visit(node: &Node<'_>, ctx: &mut Context<'_>) {
    steps::take(1);
    if node.is_sequence() {
        return sequence(node, ctx);
    }
    if !node.is_mapping() {
        return;
    }
    let (name, value) = (node.get("name"), node.get("value"));
    if let (Some(text), Some(secret)) = (name.text(), value.text()) {
        variable(text, &name, secret, ctx);
        return;
    }
    for (key, value) in node.entries() {
        match value.text() {
            Some(text) => field(key, &value, text, ctx),
            None if key.ends_with("Probe") => probe(key, &value, ctx),
            None => visit(&value, ctx),
        }
    }
}

/// Checks a variable, or another pair of a name and a value.
fn variable(name: &str, node: &Node<'_>, value: &str, ctx: &mut Context<'_>) {
    if let Some(owner) = owner_of(name, value) {
        ctx.report(node, format!("{} is written in `{}`", words_for(owner), ellipsize(name)))
            .help("revoke it, and take the new one from a Secret: `valueFrom.secretKeyRef`");
    }
}

/// Checks a field, or the lines of a text.
fn field(key: &str, node: &Node<'_>, text: &str, ctx: &mut Context<'_>) {
    if !text.contains('\n') {
        let owner = owner_of(key, text).or_else(|| text.split(is_separator).find_map(token_in));
        if let Some(owner) = owner {
            let message = format!("{} is written in `{}`", words_for(owner), ellipsize(key));
            ctx.report(node, message).at_key().help(TO_SECRET);
        }
        return;
    }
    let mut start = 0;
    for line in text.split('\n') {
        steps::take(1 + line.len() / 16);
        let content = line.trim();
        let by_name = || {
            let (name, value) = content.split_once([':', '='])?;
            let name = name.trim().trim_start_matches("export ");
            let bare = |text: &str| text.trim_matches(|c: char| is_separator(c) || c == '-').to_owned();
            owner_of(&bare(name), &bare(value))
        };
        let in_words = || content.split(|c| is_separator(c) || c == ':').find_map(token_in);
        if let Some(owner) = by_name().or_else(in_words) {
            let at = start + (line.len() - line.trim_start().len());
            let end = content.find([':', '=']).unwrap_or(1);
            let message = format!("{} is written in `{}`", words_for(owner), ellipsize(key));
            let object = ctx.object().clone();
            ctx.report(node, message).help(TO_SECRET).at_part(&object, node, at..at + end);
            return;
        }
        start += line.len() + 1;
    }
}

/// Checks a list: the words of a command, or what is below its items.
fn sequence(node: &Node<'_>, ctx: &mut Context<'_>) {
    let mut before = String::new();
    for item in node.items() {
        let Some(text) = item.text() else {
            visit(&item, ctx);
            continue;
        };
        for word in text.split(is_separator).filter(|word| !word.is_empty()) {
            steps::take(1 + word.len() / 16);
            let by_option = OPTIONS.contains(&before.as_str()) && is_secret_of("API_KEY", word);
            if let Some(owner) = token_in(word).or_else(|| by_option.then_some("")) {
                let list = node.pointer().steps().last().cloned().unwrap_or_default();
                ctx.report(&item, format!("{} is written in `{list}`", words_for(owner)))
                    .help("revoke it, and take the new one from a Secret, in a variable of the container");
                break;
            }
            word.clone_into(&mut before);
        }
    }
}

/// Checks the headers of a probe.
fn probe(name: &str, probe: &Node<'_>, ctx: &mut Context<'_>) {
    for header in probe.items_at(&["httpGet", "httpHeaders"]) {
        let value = header.get("value");
        let Some(secret) = value.text().map(|text| text.strip_prefix("Bearer ").unwrap_or(text)) else {
            continue;
        };
        let is_authorization =
            header.get("name").text().is_some_and(|name| name.eq_ignore_ascii_case("authorization"));
        if token_in(secret).is_some() || is_authorization && looks_random(secret, 16) {
            ctx.report(&header.get("name"), format!("a token is written in a header of `{name}`"))
                .help("probe a path that needs no token, or use an `exec` probe that reads the Secret");
        }
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ',' | ';')
}

/// Who gives out the token in a value; empty if only the name says that it is one.
fn owner_of(name: &str, value: &str) -> Option<&'static str> {
    token_in(value).or_else(|| (is_secret_name(name) && is_secret_of(name, value)).then_some(""))
}

fn words_for(owner: &str) -> String {
    if owner.is_empty() { "a key".to_owned() } else { format!("a token of {owner}") }
}
