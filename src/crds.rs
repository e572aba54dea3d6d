//! The CustomResourceDefinitions that the user provides with `--crds` or `crds:`.

use std::path::{Path, PathBuf};

use gpulint_rules::source::Source;
use gpulint_rules::{CustomResourceDefinitions, File, Object};

use crate::files;
use crate::files::display_path;

/// Reads the definitions in files and in folders with their subfolders. Other content of the files is
/// ignored.
///
/// # Errors
/// Paths that cannot be read or contain no definition, and definitions that are not valid or are present
/// twice.
pub(crate) fn read(paths: &[PathBuf]) -> Result<CustomResourceDefinitions, Vec<String>> {
    let mut errors = Vec::new();
    let mut objects: Vec<Object> = Vec::new();
    for path in paths {
        let found = files::find(std::slice::from_ref(path), Path::new("-"));
        errors.extend(found.errors);
        let before = objects.len();
        for input in found.inputs {
            match std::fs::read(&input.path) {
                Ok(bytes) => {
                    let file = File::read(Source::new(&input.display_path, bytes));
                    objects.extend(file.objects.into_iter().filter(is_definition));
                }
                Err(error) => errors.push(format!("{}: {error}", input.display_path)),
            }
        }
        if objects.len() == before && errors.is_empty() {
            errors.push(format!("{}: no CustomResourceDefinition found", display_path(path)));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    CustomResourceDefinitions::new(&objects).map_err(|(at, why)| {
        let path = objects.get(at).and_then(Object::origin).map_or("", |origin| origin.source.path());
        vec![format!("{path}: {why}")]
    })
}

fn is_definition(object: &Object) -> bool {
    object.id().kind == "CustomResourceDefinition" && object.id().group == "apiextensions.k8s.io"
}
