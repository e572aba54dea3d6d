//! The CustomResourceDefinitions that the user provides with `--crds` or `crds:`, or that are in the input.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
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
            match files::read_file(&input.path) {
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

/// Maximum number of files of the input that are searched for definitions.
const MAX_FILES: usize = 1_000;

/// The definitions among files of the input whose names or folders say that they have some, with these files. A kind that they
/// define in two ways, and what is no valid definition, is left out.
pub(crate) fn of_input<'p>(
    paths: impl Iterator<Item = &'p Path>,
) -> (CustomResourceDefinitions, Vec<PathBuf>) {
    let mut by_name: BTreeMap<String, Option<Object>> = BTreeMap::new();
    let mut read = Vec::new();
    for path in paths.filter(|path| is_called_definition(path)).take(MAX_FILES) {
        let Ok(bytes) = files::read_file(path) else { continue };
        if memchr::memmem::find(&bytes, b"CustomResourceDefinition").is_none() {
            continue;
        }
        let file = File::read(Source::new(&display_path(path), without_actions(bytes)));
        let is_valid =
            |object: &Object| is_definition(object) && CustomResourceDefinitions::new([object]).is_ok();
        for object in file.objects.into_iter().filter(is_valid) {
            match by_name.entry(object.id().name.clone()) {
                Entry::Vacant(vacant) => _ = vacant.insert(Some(object)),
                Entry::Occupied(mut known) => {
                    let versions = |object: &Object| object.path(&["spec", "versions"]).to_json();
                    if known.get().as_ref().is_some_and(|known| versions(known) != versions(&object)) {
                        known.insert(None);
                    }
                }
            }
        }
        read.push(path.to_owned());
    }
    let objects: Vec<Object> = by_name.into_values().flatten().collect();
    (CustomResourceDefinitions::found_in(&objects), read)
}

/// A template of a chart without the lines that are one template action each, such as `{{- if .Values.crds.enabled }}`: a chart often
/// has the definitions of a newer release than the folder that they are generated in.
fn without_actions(bytes: Vec<u8>) -> Vec<u8> {
    let Some(text) = std::str::from_utf8(&bytes).ok().filter(|text| text.contains("{{")) else {
        return bytes;
    };
    let is_action = |line: &&str| {
        let line = line.trim();
        line.starts_with("{{") && line.ends_with("}}") && line.matches("{{").count() == 1
    };
    let kept: Vec<&str> = text.lines().filter(|line| !is_action(line)).collect();
    kept.join("\n").into_bytes()
}

/// Whether a file or one of its folders is called after CustomResourceDefinitions.
fn is_called_definition(path: &Path) -> bool {
    let name = |part: &OsStr| part.to_string_lossy().to_ascii_lowercase();
    let folders = path.parent().into_iter().flat_map(Path::iter);
    path.file_name().is_some_and(|file| name(file).contains("crd"))
        || folders
            .map(name)
            .any(|folder| matches!(folder.as_str(), "crd" | "crds" | "customresourcedefinitions"))
}

fn is_definition(object: &Object) -> bool {
    object.id().kind == "CustomResourceDefinition" && object.id().group == "apiextensions.k8s.io"
}
