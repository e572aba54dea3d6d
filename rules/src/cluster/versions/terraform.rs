//! Versions in files of Terraform: of EKS, and of the charts of `helm_release` resources and of the add-ons of EKS Blueprints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::product_of_chart;
use crate::platform::Product;

/// The certain values of the variables and locals of a module: what Terraform would take for them, however it is run.
#[derive(Clone, Debug, Default)]
pub struct TerraformValues {
    /// The expressions of locals and of the defaults of variables, by their references: `local.a`, `var.b`.
    defaults: BTreeMap<String, String>,
    /// The expressions in files of variables that Terraform reads by itself, in place of the default.
    own: BTreeMap<String, BTreeSet<String>>,
    /// The expressions in files that may be named on the command line, which any module may be run with.
    possible: Arc<BTreeMap<String, BTreeSet<String>>>,
}

/// Maximum number of references from one to the next.
const MAX_REFERENCES: usize = 4;

impl TerraformValues {
    /// Reads the variables and locals that a file of the module declares.
    pub fn declare(&mut self, text: &str) {
        let mut depth = 0_i64;
        // The reference that the assignments of the open block are about; an empty name stands for each of them.
        let mut block: Option<String> = None;
        for line in text.lines() {
            let mut line = without_comment(line);
            if depth == 0 {
                let head = line.split_once('{').map(|(head, rest)| (head.trim(), rest));
                block = head.and_then(|(head, _)| match head.strip_prefix("variable") {
                    Some(name) => Some(format!("var.{}", name.trim().trim_matches('"'))),
                    None => (head == "locals").then(String::new),
                });
                depth += opened(line);
                // A block of one line.
                let Some((_, rest)) = head.filter(|_| depth == 0) else { continue };
                line = rest.trim_end().strip_suffix('}').unwrap_or(rest).trim();
            } else {
                let before = depth;
                depth += opened(line);
                if before != 1 || depth != 1 {
                    continue;
                }
            }
            let Some((name, expression)) = assignment(line) else { continue };
            match block.as_deref() {
                Some("") => _ = self.defaults.insert(format!("local.{name}"), expression.to_owned()),
                Some(variable) if name == "default" => {
                    self.defaults.insert(variable.to_owned(), expression.to_owned());
                }
                _ => {}
            }
        }
    }

    /// Reads a file of values of variables. `is_own`: Terraform reads it by itself for this module.
    pub fn set(&mut self, text: &str, is_own: bool) {
        let values = if is_own { &mut self.own } else { Arc::make_mut(&mut self.possible) };
        for (name, expression) in text.lines().map(without_comment).filter_map(assignment) {
            values.entry(format!("var.{name}")).or_default().insert(expression.to_owned());
        }
    }

    /// Takes over the values that may be named on the command line.
    pub fn share_possible(&mut self, other: &TerraformValues) {
        self.possible = Arc::clone(&other.possible);
    }

    /// Forgets the variables, which are arguments where another module calls this one.
    pub fn forget_variables(&mut self) {
        self.defaults.retain(|reference, _| reference.starts_with("local."));
        self.own.clear();
        self.possible = Arc::default();
    }

    /// The text that an expression stands for, if it is a literal or refers to one value.
    fn text<'t>(&'t self, expression: &'t str, references: usize) -> Option<&'t str> {
        let quoted = expression.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let reference = match quoted {
            Some(text) if !text.contains(['"', '$', '%']) => return Some(text),
            Some(text) => text.strip_prefix("${")?.strip_suffix('}')?.trim(),
            None => expression,
        };
        if references == 0 {
            return None;
        }
        let own = self.own.get(reference);
        let default = self.defaults.get(reference).filter(|_| own.is_none());
        let possible = self.possible.get(reference);
        let all = default.into_iter().chain(own.into_iter().chain(possible).flatten());
        let mut texts = all.map(|expression| self.text(expression, references - 1));
        let first = texts.next()??;
        texts.all(|text| text == Some(first)).then_some(first)
    }
}

/// The balance of brackets of a line.
fn opened(line: &str) -> i64 {
    line.chars()
        .map(|c| i64::from(matches!(c, '{' | '[' | '(')) - i64::from(matches!(c, '}' | ']' | ')')))
        .sum()
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') || line.starts_with("//") {
        return "";
    }
    let end = [" #", " //"].iter().filter_map(|mark| line.find(mark)).min();
    line[..end.unwrap_or(line.len())].trim_end()
}

/// The name and the expression of an assignment on one line.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, expression) = line.split_once('=')?;
    let (name, expression) = (name.trim(), expression.trim());
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    (is_name && !name.is_empty() && !expression.starts_with('=')).then_some((name, expression))
}

/// The paths of the modules in other folders that a file calls, relative to its own.
pub fn called_modules(text: &str) -> impl Iterator<Item = &str> {
    let sources =
        text.lines().map(without_comment).filter_map(assignment).filter(|(name, _)| *name == "source");
    sources.map(|(_, path)| path.trim_matches('"')).filter(|path| path.starts_with('.'))
}

/// The versions in a file of Terraform, each with its line, counted from 1, where they are literals or have one value.
pub fn pins_of_terraform<'t>(text: &'t str, values: &'t TerraformValues) -> Vec<(Product, &'t str, u32)> {
    let mut found = Vec::new();
    // The chart and the version of the release whose block is open.
    type Release<'r> = (Option<Product>, Option<(&'r str, u32)>);
    let mut release: Option<Release<'_>> = None;
    // The add-on whose block is open.
    let mut addon: Option<Product> = None;
    // Whether the block of a resource `aws_eks_cluster` is open.
    let mut is_in_cluster = false;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if ["resource", "module", "data"].iter().any(|block| line.starts_with(block)) {
            is_in_cluster = line.starts_with("resource") && line.contains("\"aws_eks_cluster\"");
        }
        if line.starts_with("resource") && line.contains("\"helm_release\"") {
            release = Some((None, None));
        } else if line.starts_with("resource") || line.starts_with("module") || line.starts_with("data") {
            release = None;
        }
        let value = |key: &str| {
            let (_, expression) = assignment(without_comment(line)).filter(|(name, _)| *name == key)?;
            values.text(expression, MAX_REFERENCES)
        };
        let of_cluster = || value("version").filter(|_| is_in_cluster);
        if let Some(version) =
            value("cluster_version").or_else(|| value("kubernetes_version")).or_else(of_cluster)
        {
            found.push((Product::Kubernetes, version, number));
        }
        let block = line.strip_suffix('{').and_then(|start| start.trim_end().strip_suffix('='));
        match block {
            Some(name) => addon = product_of_chart(name.trim()),
            None if line.starts_with('}') => addon = None,
            None => {}
        }
        if let Some((product, version)) = addon.zip(value("chart_version")) {
            found.push((product, version, number));
        }
        let Some((product, version)) = &mut release else { continue };
        *product = product.or_else(|| value("chart").and_then(product_of_chart));
        *version = version.or_else(|| Some((value("version")?, number)));
        if let (Some(product), Some((version, number))) = (*product, *version) {
            found.push((product, version, number));
            release = None;
        }
    }
    found
}
