//! Files of Terraform, with the values of the variables and locals of each module.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use gpulint_rules::{Product, TerraformValues, called_modules, pins_of_terraform};

use super::absolute;

/// The modules of Terraform, by their folders.
pub(crate) struct Terraform {
    modules: HashMap<PathBuf, TerraformValues>,
}

impl Terraform {
    /// Reads the variables and locals in files, which are given with their absolute paths.
    pub(crate) fn new<'f>(files: impl Iterator<Item = (&'f Path, &'f str)>) -> Terraform {
        let mut modules: HashMap<PathBuf, TerraformValues> = HashMap::new();
        let mut called: HashSet<PathBuf> = HashSet::new();
        let mut possible = TerraformValues::default();
        for (path, text) in files {
            let folder = path.parent().unwrap_or(Path::new(""));
            if is_module_file(path) {
                called.extend(called_modules(text).map(|source| absolute(&folder.join(source))));
                modules.entry(folder.to_owned()).or_default().declare(text);
            } else if is_read_by_itself(path) {
                modules.entry(folder.to_owned()).or_default().set(text, true);
            } else if is_of_variables(path) {
                possible.set(text, false);
            }
        }
        for (folder, values) in &mut modules {
            values.share_possible(&possible);
            if called.contains(folder) {
                values.forget_variables();
            }
        }
        Terraform { modules }
    }

    /// The versions in a file of a module, each with its line.
    pub(crate) fn pins(&self, path: &Path, text: &str) -> Vec<(Product, String, u32)> {
        let none = TerraformValues::default();
        if !is_module_file(path) {
            return Vec::new();
        }
        let values = path.parent().and_then(|folder| self.modules.get(folder)).unwrap_or(&none);
        let pins = pins_of_terraform(text, values).into_iter();
        pins.map(|(product, version, line)| (product, version.to_owned(), line)).collect()
    }
}

/// Whether a file may have versions, or values that they refer to.
pub(crate) fn is_of_terraform(path: &Path) -> bool {
    is_module_file(path) || is_of_variables(path)
}

pub(crate) fn is_module_file(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "tf" || end == "tofu")
}

fn is_of_variables(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "tfvars")
}

/// Whether Terraform reads the variables in a file without being told to.
fn is_read_by_itself(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == "terraform.tfvars" || name.ends_with(".auto.tfvars"))
}
