//! A script installs the newest huggingface_hub, and calls a command that it lacks.
//!
//! # Why
//! Since huggingface_hub 1.0 (October 2025) `huggingface-cli` prints that it no longer works, and exits with 1;
//! the command is `hf`. A script that installs the package without a version and downloads a model with the old
//! command fails at its next start: the Job uses up its retries, an init container restarts forever.
//!
//! Read are scripts of containers, of Argo's steps and of ConfigMaps, in which pip or uv installs the package
//! where it surely brings a release of 1.0 or later: into an image of Python 3.9 or later, or with `--upgrade`.
//! Packages that keep it below 1.0, such as transformers 4, a file of requirements or constraints, and scripts
//! that call `hf` as well are left alone.
//!
//! # Fix
//! Write `hf`: `hf download`, `hf upload`, `hf auth login`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: fetch}
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: fetch
//!            image: python:3.12-slim
//!            command: [bash, -ec]
//!            args:
//! -            - pip install huggingface_hub && huggingface-cli download Qwen/Qwen3-8B --local-dir /models # <-
//! +            - pip install huggingface_hub && hf download Qwen/Qwen3-8B --local-dir /models
//!            volumeMounts: [{name: models, mountPath: /models}]
//!            resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!        volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
//! ```
//!
//! # References
//! - <https://huggingface.co/docs/huggingface_hub/concepts/migration>
//! - <https://github.com/huggingface/huggingface_hub/releases/tag/v1.0.0>

use super::ray_packages_at_start::name_of;
use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name, command_at, words_of_line};
use crate::workload::environment::entry;
use crate::workload::image::is_in_private_registry;

pub(crate) static RULE: Rule = Rule {
    id: "huggingface-cli-removed",
    kinds: kinds![[Kind::CONFIG_MAP], WORKLOAD_KINDS],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("huggingface_cli_removed.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

const COMMAND: &str = "huggingface-cli";
/// Words between the beginning of a command of a shell and its program.
const PREFIXES: [&str; 11] = [";", "-c", "-ec", "-lc", "-exc", "exec", "time", "then", "do", "if", "!"];
/// Packages that do not depend on huggingface_hub, and so do not decide its version.
const UNRELATED: [&str; 9] =
    ["hf-transfer", "hf-xet", "pip", "setuptools", "wheel", "boto3", "awscli", "requests", "tqdm"];
/// Variables with a file that may decide the version.
const CONSTRAINTS: [&str; 3] = ["PIP_CONSTRAINT", "UV_CONSTRAINT", "PIP_REQUIREMENT"];
/// The first Python for which there is a release of 1.0 or later.
const OLDEST_PYTHON: Version = Version::new(3, 9);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::CONFIG_MAP) {
        for (name, script) in object.get("data").entries() {
            let is_script = |text: &str| name.ends_with(".sh") || text.starts_with("#!");
            if script.text().is_some_and(|text| text.contains(COMMAND) && is_script(text)) {
                inspect(&words_of_line(&script), false, ctx);
            }
        }
        return None;
    }
    if object.may_lack_fields() {
        return None;
    }
    for container in templates(object).iter().flat_map(Template::all_containers) {
        if CONSTRAINTS.iter().any(|name| entry(&container, name).is_some()) {
            continue;
        }
        let is_bare = has_bare_python(&container);
        inspect(&words(&container), is_bare, ctx);
    }
    None
}

/// Reports the first call of the old command in a script that has installed a release without it.
fn inspect(words: &[Word<'_>], is_bare: bool, ctx: &mut Context<'_>) -> Option<()> {
    let begins = |at: usize| at == 0 || PREFIXES.contains(&words[at - 1].text.as_str());
    let at = (0..words.len()).find(|at| base_name(&words[*at].text) == COMMAND && begins(*at))?;
    // A script that asks which command there is, or that calls either.
    let asks = |word: &Word<'_>| matches!(word.text.as_str(), "hf" | "which" | "type" | "-v");
    if words.iter().any(asks) {
        return None;
    }
    let installs: Vec<(usize, &[Word<'_>])> = installs(words).collect();
    let mut before = installs.iter().filter(|(start, _)| *start < at);
    let leaves_version = installs.iter().all(|(_, packages)| leaves_version(packages));
    if !leaves_version || !before.any(|(_, packages)| brings_new(packages, is_bare)) {
        return None;
    }
    let subcommand = words.get(at + 1).map_or("", |word| word.text.as_str());
    let instead = match subcommand {
        "download" | "upload" | "upload-large-folder" => format!("write `hf {subcommand}`"),
        "login" | "logout" | "whoami" => format!("write `hf auth {subcommand}`"),
        _ => "write `hf`, some of whose subcommands have other names".to_owned(),
    };
    let message =
        format!("the huggingface_hub that is installed here is 1.0 or later, which has no `{COMMAND}`");
    ctx.report(&words[at].node, message).help(instead);
    None
}

/// The positions and the arguments of the commands by which pip and tools like it install packages.
fn installs<'w, 'a>(words: &'w [Word<'a>]) -> impl Iterator<Item = (usize, &'w [Word<'a>])> {
    let is_install = |at: usize| {
        let tool = base_name(&words[at - 1].text);
        words[at].text == "install" && (tool.starts_with("pip") || matches!(tool, "uv" | "tool"))
    };
    (1..words.len()).filter(move |at| is_install(*at)).map(move |at| {
        let command = command_at(words, at + 1);
        let is_redirected =
            |word: &Word<'_>| word.text.starts_with(['>', '<']) || word.text.starts_with("2>");
        (at, &command[..command.iter().position(is_redirected).unwrap_or(command.len())])
    })
}

/// Whether the arguments of `pip install` bring a release of 1.0 or later of huggingface_hub.
fn brings_new(command: &[Word<'_>], is_bare: bool) -> bool {
    let upgrades = command.iter().any(|word| matches!(word.text.as_str(), "-U" | "--upgrade"));
    command.iter().filter(|word| is_hub(word)).any(|word| {
        let requirement = word.text.split(';').next().unwrap_or_default();
        let version = requirement.find(['=', '<', '>', '~', '!', '@']).map_or("", |at| &requirement[at..]);
        match version.split_once("==").filter(|(before, _)| before.is_empty()) {
            Some((_, exact)) => Version::parse(exact).is_some_and(|exact| exact >= Version::new(1, 0)),
            // Without an upper bound the newest one comes, unless one is there.
            None => {
                let is_open = version.is_empty() || version.starts_with('>') && !version.contains(',');
                is_open && (is_bare || upgrades)
            }
        }
    })
}

fn is_hub(word: &Word<'_>) -> bool {
    name_of(&word.text) == "huggingface-hub"
}

/// Whether nothing else that is installed decides the version of huggingface_hub.
fn leaves_version(command: &[Word<'_>]) -> bool {
    /// Options that are followed by an address or a folder.
    const WITH_VALUE: [&str; 5] = ["-i", "--index-url", "--extra-index-url", "--cache-dir", "--timeout"];
    const FILES: [&str; 5] = ["-r", "--requirement", "-c", "--constraint", "-e"];
    command.iter().enumerate().all(|(at, word)| {
        let is_value = at > 0 && WITH_VALUE.contains(&command[at - 1].text.as_str());
        let name = name_of(&word.text);
        let is_option = word.text.starts_with('-') && !FILES.iter().any(|file| word.text.starts_with(file));
        is_value || word.known && (is_option || is_hub(word) || UNRELATED.contains(&name.as_str()))
    })
}

/// Whether the image of a container is one of Python's own, new enough, in which no packages are installed.
fn has_bare_python(container: &Node<'_>) -> bool {
    let Some(text) = container.get("image").text().filter(|text| !is_in_private_registry(text)) else {
        return false;
    };
    let image = ImageRef::parse(text);
    let is_own = matches!(image.repository, "python" | "library/python" | "docker/library/python");
    is_own && image.digest.is_none() && image.version().is_none_or(|version| version >= OLDEST_PYTHON)
}
