//! Files of Terraform, with the values of the variables and locals of each module.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use gpulint_rules::{Fact, Product, TerraformFile, TerraformValues};

use super::absolute;

/// The modules of Terraform.
pub(crate) struct Terraform {
    /// The files of modules, by their absolute paths.
    files: HashMap<PathBuf, TerraformFile>,
    /// The values of variables and locals, by the folders of the modules.
    modules: BTreeMap<PathBuf, TerraformValues>,
}

impl Terraform {
    /// Reads the files of modules and of variables among files, which are given with their absolute paths.
    pub(crate) fn new<'f>(texts: impl Iterator<Item = (&'f Path, &'f str)>) -> Terraform {
        let mut files = HashMap::new();
        let mut modules: BTreeMap<PathBuf, TerraformValues> = BTreeMap::new();
        // The arguments that callers pass.
        let mut called: HashMap<PathBuf, BTreeSet<String>> = HashMap::new();
        let mut possible = TerraformValues::default();
        for (path, text) in texts.filter(|(path, _)| is_of_terraform(path)) {
            let folder = path.parent().unwrap_or(Path::new(""));
            let file = TerraformFile::read(text);
            if is_module_file(path) {
                for (source, arguments) in file.called_modules() {
                    let module = called.entry(absolute(&folder.join(source))).or_default();
                    module.extend(arguments.iter().cloned());
                }
                modules.entry(folder.to_owned()).or_default().declare(&file);
                files.insert(path.to_owned(), file);
            } else if is_read_by_itself(path) {
                modules.entry(folder.to_owned()).or_default().set(&file, true);
            } else {
                possible.set(&file, false);
            }
        }
        for (folder, values) in &mut modules {
            values.share_possible(&possible);
            if let Some(arguments) = called.get(folder) {
                values.forget_arguments(arguments);
            }
        }
        Terraform { files, modules }
    }

    /// The versions in a file of a module, each with its line.
    pub(crate) fn pins(&self, path: &Path) -> Vec<(Product, &str, u32)> {
        let values = path.parent().and_then(|folder| self.modules.get(folder));
        self.files.get(path).zip(values).map_or_else(Vec::new, |(file, values)| file.pins(values))
    }

    /// What a file of a module installs, each with its line.
    pub(crate) fn installs(&self, path: &Path) -> &[(Fact, u32)] {
        self.files.get(path).map_or(&[], TerraformFile::installs)
    }
}

/// Whether a file may have versions, or values that they refer to.
pub(crate) fn is_of_terraform(path: &Path) -> bool {
    is_module_file(path) || is_of_variables(path)
}

fn is_module_file(path: &Path) -> bool {
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
