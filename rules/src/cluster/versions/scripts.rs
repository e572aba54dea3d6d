//! Texts that people run, or copy commands from: scripts, Makefiles, files of environment variables, workflows and
//! documentation. They state versions as variables, in calls of `helm`, `eksctl` and `aws`, and in addresses of releases, and create
//! Secrets and ConfigMaps with `kubectl`.

use std::collections::BTreeSet;
use std::str::Split;
use std::sync::LazyLock;

use regex::Regex;

use super::{Fact, minor_of, product_of_chart};
use crate::platform::{Product, Version};

/// A text with one of these has a statement, or may have one.
static SIGNS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i)_version|--version|--kubernetes-version|kedacore/keda/|/karpenter|clusterconfig|create (secret|configmap)")
        .expect("words are a pattern")
});

/// The version of a release in its address, of a file or of a folder for kustomize.
static ADDRESSES: LazyLock<Regex> = LazyLock::new(|| {
    let repositories = "(kedacore/keda|aws/karpenter(?:-provider-aws)?|kubernetes-sigs/karpenter)";
    let version = r"v(\d+\.\d+\.\d+)";
    let of_file = format!("/(?:releases/download/|refs/tags/)?{version}/");
    let of_folder = format!(r#"[^\s"']*[?&]ref={version}"#);
    Regex::new(&format!("{repositories}(?:{of_file}|{of_folder})")).expect("addresses are a pattern")
});

/// The products and versions in the addresses of a text.
pub(super) fn releases_in(text: &str) -> impl Iterator<Item = (Product, &str)> {
    ADDRESSES.captures_iter(text).filter_map(|found| {
        let product = match found.get(1)?.as_str() {
            "kedacore/keda" => Product::Keda,
            _ => Product::Karpenter,
        };
        Some((product, found.get(2).or_else(|| found.get(3))?.as_str()))
    })
}

/// Programs that start a cluster of their own on one machine, for tests: the version of Kubernetes beside them is that of the tests.
static TEST_CLUSTERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "kind create|kindest/node|kind-action|setup-kind|minikube|setup-envtest|k3d cluster|k3d-action",
    )
    .expect("words are a pattern")
});

/// The versions of the product that can be meant: others are those of something else.
fn is_plausible(product: Product, version: Version) -> bool {
    match product {
        Product::Karpenter => version >= Version::new(0, 5) && version < Version::new(2, 0),
        Product::Keda => version >= Version::new(2, 0) && version < Version::new(3, 0),
        Product::Kubernetes => version >= Version::new(1, 16) && version < Version::new(1, 60),
    }
}

/// What a text shows that is no manifest, each with its line, counted from 1.
pub fn facts_of_script(text: &str) -> Vec<(Fact, u32)> {
    let mut found = Vec::new();
    if !SIGNS.is_match(text) {
        return found;
    }
    let is_test = TEST_CLUSTERS.is_match(text);
    let mut add = |product: Product, text: &str, line: u32| {
        let version = minor_of(text).filter(|version| is_plausible(product, *version));
        if let Some(version) = version.filter(|_| product != Product::Kubernetes || !is_test) {
            found.push((Fact::Mentioned(product, version), line));
        }
    };
    let mut created = Vec::new();
    let mut is_in_config = false;
    for command in commands(text) {
        let first = command.lines[0].1.trim();
        if first.starts_with('#') || first.starts_with("//") {
            continue;
        }
        // Few lines have a sign: a `check` of a repository with 500 scripts and documents takes half as long.
        if command.lines.iter().any(|(_, code)| SIGNS.is_match(code)) {
            for (line, code) in &command.lines {
                assignments(code, &mut |product, value| add(product, value, *line));
                releases_in(code).for_each(|(product, version)| add(product, version, *line));
            }
            let words = command.words();
            if let Some((product, value, line)) = installed(&words) {
                add(product, value, line);
            }
            created.extend(made_by_kubectl(&words));
        }
        // The configuration of eksctl that a script writes.
        if first.starts_with("kind:") {
            is_in_config = first.ends_with("ClusterConfig");
        } else if is_in_config && let Some(value) = first.strip_prefix("version:") {
            add(Product::Kubernetes, unquoted(value), command.lines[0].0);
            is_in_config = false;
        }
    }
    found.extend(created);
    let mut seen = BTreeSet::new();
    found.retain(|(fact, _)| seen.insert(fact.clone()));
    found
}

/// A command, or another line, which a backslash at its end continues.
struct Command<'t> {
    /// The lines, each with its number, counted from 1.
    lines: Vec<(u32, &'t str)>,
}

fn commands(text: &str) -> Vec<Command<'_>> {
    let mut all: Vec<Command<'_>> = Vec::new();
    let mut goes_on = false;
    for (line, number) in text.lines().zip(1..) {
        let code = line.trim_end();
        let (code, continues) = match code.strip_suffix('\\') {
            Some(code) => (code, true),
            None => (code, false),
        };
        match all.last_mut().filter(|_| goes_on) {
            Some(command) => command.lines.push((number, code)),
            None => all.push(Command { lines: vec![(number, code)] }),
        }
        goes_on = continues;
    }
    all
}

impl<'t> Command<'t> {
    /// The words, each with its line.
    fn words(&self) -> Vec<(&'t str, u32)> {
        let words =
            self.lines.iter().flat_map(|(line, code)| code.split_whitespace().map(|word| (word, *line)));
        words.collect()
    }
}

/// The text of a value: without quotes, and the default of `${NAME:-1.2}`.
fn unquoted(value: &str) -> &str {
    let value = value.trim().trim_matches(['"', '\'', '`', ',', ';', ')']);
    match value.strip_prefix("${").and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) => {
            inner.split_once(":-").or_else(|| inner.split_once('-')).map_or(value, |(_, other)| other)
        }
        None => value,
    }
}

/// The product whose version a variable has, by its name: `KARPENTER_VERSION`, `k8s_version`, `TF_VAR_cluster_version`.
fn product_of_variable(name: &str) -> Option<Product> {
    const OF_CHART: [&str; 4] = ["chart", "helm", "operator", "controller"];
    const OF_CLUSTER: [&str; 4] = ["k8s", "kubernetes", "eks", "cluster"];
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("tf_var_").unwrap_or(&name).strip_suffix("_version")?;
    let mut words = name.split('_');
    let is_of_chart = |mut words: Split<'_, char>| words.all(|word| OF_CHART.contains(&word));
    match words.next()? {
        "karpenter" => is_of_chart(words).then_some(Product::Karpenter),
        "keda" => is_of_chart(words).then_some(Product::Keda),
        first => std::iter::once(first)
            .chain(words)
            .all(|word| OF_CLUSTER.contains(&word))
            .then_some(Product::Kubernetes),
    }
}

/// The versions that a line assigns to variables: those of a shell, of make and of YAML.
fn assignments<'t>(code: &'t str, add: &mut dyn FnMut(Product, &'t str)) {
    const BEFORE: [&str; 9] =
        ["- ", "$ ", "export ", "readonly ", "declare ", "local ", "set ", "-gx ", "-x "];
    let mut rest = code.trim_start();
    let mut needs_none = false;
    while let Some(next) = BEFORE.iter().find_map(|word| rest.strip_prefix(word)) {
        // Those of fish have no operator.
        needs_none |= rest.starts_with("set ");
        rest = next.trim_start();
    }
    rest = rest.trim_start_matches(['"', '\'']);
    loop {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let after = after.trim_start_matches('"').trim_start_matches('\'');
        let operators = ["?=", "::=", ":=", "=", ":"];
        let spaced = after.trim_start();
        let value = match operators.iter().find_map(|operator| spaced.strip_prefix(operator)) {
            Some(value) => value,
            None if needs_none && after.starts_with(' ') => after,
            None => return,
        };
        let value = value.trim_start();
        let length = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
            _ => value.find([' ', '\t', ';']).unwrap_or(value.len()),
        };
        let (value, next) = value.split_at(length);
        if let Some(product) = product_of_variable(name) {
            add(product, unquoted(value));
        }
        rest = next.trim_start_matches([' ', '\t', ';', '&', ',']);
        if name.is_empty() || rest.is_empty() {
            return;
        }
    }
}

/// The product and the version that a command installs: a chart with `helm`, a cluster with `eksctl` or `aws eks`.
fn installed<'t>(words: &[(&'t str, u32)]) -> Option<(Product, &'t str, u32)> {
    let at =
        |name: &str| words.iter().position(|(word, _)| word.trim_start_matches(['`', '$', '@', '-']) == name);
    let has = |names: &[&str]| names.iter().any(|name| words.iter().any(|(word, _)| word == name));
    let option = |name: &str| {
        words.iter().enumerate().find_map(|(number, (word, line))| {
            let rest = word.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some((unquoted(value), *line)),
                None if rest.is_empty() => {
                    words.get(number + 1).map(|(value, line)| (unquoted(value), *line))
                }
                None => None,
            }
        })
    };
    if at("helm").is_some() && has(&["upgrade", "install", "template", "pull"]) {
        // The last part of the name of a chart is that of the release or of a namespace as well: only a repository tells it apart.
        let is_remote = |word: &str| word.contains('/') && !word.starts_with(['.', '/', '-', '$', '~']);
        let product = words.iter().map(|(word, _)| unquoted(word)).filter(|word| is_remote(word));
        let product = product.filter_map(product_of_chart).next()?;
        let (version, line) = option("--version")?;
        return Some((product, version, line));
    }
    let of_cluster =
        has(&["cluster"]).then(|| option("--version")).flatten().filter(|_| at("eksctl").is_some());
    let of_aws = option("--kubernetes-version").filter(|_| at("aws").is_some());
    of_cluster.or(of_aws).map(|(version, line)| (Product::Kubernetes, version, line))
}

/// The Secret or ConfigMap that a call of `kubectl create` makes.
fn made_by_kubectl(words: &[(&str, u32)]) -> Option<(Fact, u32)> {
    const TYPES: [&str; 3] = ["generic", "docker-registry", "tls"];
    let create = words
        .windows(2)
        .position(|two| two[0].0 == "create" && matches!(two[1].0, "secret" | "configmap"))?;
    let rest = &words[create + 1..];
    let at = if rest[0].0 == "secret" { 2 } else { 1 };
    let (name, line) = rest.get(at).filter(|_| at == 1 || TYPES.contains(&rest[1].0))?;
    let name = unquoted(name);
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    (is_name && !name.starts_with('-')).then(|| (Fact::Generated(name.to_owned()), *line))
}
