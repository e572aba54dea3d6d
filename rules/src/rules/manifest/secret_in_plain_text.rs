//! A token or a key is written in a pod template.
//!
//! # Why
//! Whoever reads the manifest, the repository or the pod has the token: everyone who may list pods, each copy of
//! the repository, and every log that prints arguments. It is reported for values that have the form of a real
//! token (of Hugging Face, OpenAI, Anthropic, NVIDIA, GitHub, AWS, Google, Slack), for long random values of
//! variables that hold one by their name, and for `Authorization` headers of probes. Values that stand for a
//! token, such as `changeme` and `<your-token>`, are left alone.
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

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "secret-in-plain-text",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("secret_in_plain_text.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Manifest)
};

/// Beginnings of tokens, the least number of characters after them, and who gives them out.
const FORMS: [(&str, usize, &str); 15] = [
    ("hf_", 30, "Hugging Face"),
    ("sk-ant-", 30, "Anthropic"),
    ("sk-proj-", 30, "OpenAI"),
    ("sk-", 40, "OpenAI"),
    ("nvapi-", 40, "NVIDIA"),
    ("ghp_", 36, "GitHub"),
    ("gho_", 36, "GitHub"),
    ("ghs_", 36, "GitHub"),
    ("github_pat_", 40, "GitHub"),
    ("glpat-", 20, "GitLab"),
    ("AKIA", 16, "AWS"),
    ("ASIA", 16, "AWS"),
    ("AIza", 35, "Google"),
    ("xoxb-", 30, "Slack"),
    ("xoxp-", 30, "Slack"),
];

/// Variables that hold a token or a key.
const NAMES: [&str; 12] = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "WANDB_API_KEY",
    "NGC_API_KEY",
    "NGC_CLI_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "VLLM_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "COMET_API_KEY",
    "GITHUB_TOKEN",
];

/// Parts of values that stand for a token.
const STAND_INS: [&str; 16] = [
    "your",
    "example",
    "token",
    "replace",
    "change",
    "secret",
    "dummy",
    "placeholder",
    "xxx",
    "1234567",
    "insert",
    "abcdef",
    "sample",
    "redacted",
    "<",
    "...",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        for entry in container.get("env").items() {
            let name = entry.get("name");
            let Some(value) = entry.get("value").text() else {
                continue;
            };
            let by_name = name.text().filter(|name| NAMES.contains(name) && looks_random(value, 30));
            let owner = token_in(value).or_else(|| by_name.map(|_| ""));
            if let Some(owner) = owner {
                let variable = name.text().unwrap_or_default();
                ctx.report(&name, format!("{} is written in `{}`", words_for(owner), ellipsize(variable)))
                    .help("revoke it, and take the new one from a Secret: `valueFrom.secretKeyRef`");
            }
        }
        for (field, item) in
            ["command", "args"].into_iter().flat_map(|f| container.get(f).items().map(move |i| (f, i)))
        {
            let words = item.text().into_iter().flat_map(|text| text.split(is_separator));
            if let Some(owner) = words.into_iter().find_map(token_in) {
                ctx.report(&item, format!("{} is written in `{field}`", words_for(owner)))
                    .help("revoke it, and take the new one from a Secret, in a variable of the container");
            }
        }
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            for header in container.get(probe).items_at(&["httpGet", "httpHeaders"]) {
                let value = header.get("value");
                let secret = value.text().map(|text| text.strip_prefix("Bearer ").unwrap_or(text));
                let is_authorization =
                    header.get("name").text().is_some_and(|name| name.eq_ignore_ascii_case("authorization"));
                let found = secret.is_some_and(|text| {
                    token_in(text).is_some() || is_authorization && looks_random(text, 16)
                });
                if found {
                    ctx.report(&header.get("name"), format!("a token is written in a header of `{probe}`"))
                        .help(
                            "probe a path that needs no token, or use an `exec` probe that reads the Secret",
                        );
                }
            }
        }
    }
    None
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ',' | ';')
}

fn words_for(owner: &str) -> String {
    if owner.is_empty() { "a key".to_owned() } else { format!("a token of {owner}") }
}

/// Who gives out the token that a text is; `None` if it is none, or stands for one.
fn token_in(text: &str) -> Option<&'static str> {
    FORMS.iter().find_map(|(prefix, least, owner)| {
        let rest = text.strip_prefix(prefix)?;
        // Names of models and packages begin with `sk-` as well.
        let is_token = |c: char| c.is_ascii_alphanumeric() || *prefix != "sk-" && matches!(c, '-' | '_');
        (rest.len() >= *least && rest.chars().all(is_token) && is_varied(rest)).then_some(*owner)
    })
}

/// Whether a text is long and random: letters and digits of many kinds, without words that stand for a token.
fn looks_random(text: &str, least: usize) -> bool {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '/' | '=' | '.');
    text.len() >= least && text.chars().all(is_key) && !text.starts_with(['/', '.']) && is_varied(text)
}

fn is_varied(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut bytes: Vec<u8> = lower.bytes().collect();
    let (digits, letters) = (bytes.iter().any(u8::is_ascii_digit), bytes.iter().any(u8::is_ascii_alphabetic));
    bytes.sort_unstable();
    bytes.dedup();
    digits && letters && bytes.len() >= 10 && !STAND_INS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{looks_random, token_in};

    #[test]
    fn forms_of_tokens() {
        let body = "q7Zp2Lm9Xc4Vb8Nr6Tk1Wd3Fg5Hs0Jy";
        for (text, expected) in [
            (format!("hf_{body}abcq"), Some("Hugging Face")),
            (format!("sk-ant-{body}"), Some("Anthropic")),
            (format!("nvapi-{body}{body}"), Some("NVIDIA")),
            (format!("glpat-{body}"), Some("GitLab")),
            ("hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".to_owned(), None),
            ("hf_your_token_with_more_than_30_letters_1".to_owned(), None),
            ("hf_short1".to_owned(), None),
            ("sk-1234".to_owned(), None),
            ("sk-learn-image-classification-pipeline-for-2".to_owned(), None),
            ("model-name-of-a-bucket-2".to_owned(), None),
        ] {
            assert_eq!(token_in(&text), expected, "{text}");
        }
        assert!(looks_random("7d3f0c9be2a1486f95d07c3e8b61a4f2d9e05b17", 30));
        assert!(!looks_random("local-key-without-any-digits-at-all", 30));
        assert!(!looks_random("/run/secrets/huggingface/hub/key-2", 30));
    }
}
