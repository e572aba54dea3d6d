//! Folders that are named like environments and repeat each other's objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use gpulint_rules::Bond;

use super::draft::{Draft, Sign};
use super::identity;
use super::names::SetName;
use super::transform::Transform;

/// Names of environments, or parts of such names.
const ENVIRONMENTS: &[&str] = &[
    "acceptance",
    "alpha",
    "beta",
    "canary",
    "demo",
    "dev",
    "devel",
    "develop",
    "development",
    "dr",
    "int",
    "integ",
    "integration",
    "lab",
    "live",
    "local",
    "nonprod",
    "np",
    "perf",
    "pre",
    "preprod",
    "preview",
    "prd",
    "prod",
    "production",
    "qa",
    "qas",
    "sandbox",
    "sbx",
    "stage",
    "staging",
    "stg",
    "test",
    "testing",
    "tst",
    "uat",
];

/// Directions in the names of regions, in long and short form.
const DIRECTIONS: &[&str] = &[
    "central",
    "east",
    "north",
    "northeast",
    "northwest",
    "south",
    "southeast",
    "southwest",
    "west",
    "c",
    "e",
    "n",
    "s",
    "w",
    "ne",
];

/// Folders whose subfolders are environments, regardless of their names.
pub(super) const ENVIRONMENT_FOLDERS: &[&str] = &["clusters", "environments", "envs", "regions", "stages"];

/// Whether the name of a folder is that of an environment: `prod`, `stage-2`, `eu-west-1`, `prod-eu`,
/// `gpu-prod`.
pub(super) fn is_environment(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(['-', '_', '.']).collect();
    let is_word = |part: &&str| ENVIRONMENTS.contains(&part.trim_end_matches(|c: char| c.is_ascii_digit()));
    parts.first().is_some_and(is_word) || parts.last().is_some_and(is_word) || is_region(&parts)
}

/// The nearest folder, from a folder upwards, that is named like an environment.
pub(super) fn environment_above(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|at| at.file_name().is_some_and(|name| is_environment(&name.to_string_lossy())))
}

/// The name without the words for environments and regions: `gpu` for `gpu-prod-eu-west-1`. Folders beside
/// each other whose rests differ have different content, not only different environments.
fn rest_of(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(['-', '_', '.']).collect();
    let mut rest = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        let word = parts[at].trim_end_matches(|c: char| c.is_ascii_digit());
        if parts.len() - at >= 3 && is_region(&parts[at..at + 3]) {
            at += 3;
            continue;
        }
        if !word.is_empty() && !ENVIRONMENTS.contains(&word) && !is_region(&parts[at..=at]) {
            rest.push(parts[at]);
        }
        at += 1;
    }
    rest.join("-")
}

/// Whether parts of a name are a region: `us-east-1`, or `use1`.
fn is_region(parts: &[&str]) -> bool {
    let is_number = |part: &str| part.len() == 1 && part.bytes().all(|b| b.is_ascii_digit());
    match parts {
        [area, direction, number, ..] => {
            area.len() == 2 && DIRECTIONS.contains(direction) && is_number(number)
        }
        [short] => {
            let direction = short.get(2..).map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_digit()));
            let areas = ["us", "eu", "ap", "ca", "sa", "me", "af"];
            let is_short = |d: &str| ["e", "w", "n", "s", "c", "ne", "se", "nw", "sw"].contains(&d);
            short.ends_with(|c: char| c.is_ascii_digit())
                && areas.iter().any(|area| short.starts_with(area))
                && direction.is_some_and(is_short)
        }
        _ => false,
    }
}

/// Adds a set for each environment. Folders of one name belong to one environment, wherever they are.
pub(super) fn add(draft: &mut Draft<'_, '_>) {
    let claimed = draft.sets_by_folder();
    let is_free = |file: &usize| {
        let folder = draft.files.folder(*file);
        !draft.files.list[*file].objects.is_empty()
            && !draft.is_claimed(*file)
            && folder.is_some_and(|folder| !claimed.contains_key(folder))
    };
    let files: Vec<usize> = (0..draft.members.len()).filter(is_free).collect();
    let folders = repeating_folders(draft, &files);
    if folders.is_empty() {
        return;
    }
    let mut by_name: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for file in files {
        let Some(folder) = draft.files.folder(file) else { continue };
        let name = name_of(folder, &folders);
        if !name.is_empty() {
            by_name.entry(name).or_default().push(file);
        }
    }
    // Files that belong to an environment with several regions are in all of its regions.
    for name in ends(by_name.keys()) {
        let last = name.last().map_or("", String::as_str);
        let places = folders.iter().filter(|folder| folder.file_name().is_some_and(|of| of == last));
        let places: Vec<PathBuf> = places.map(|folder| folder.to_path_buf()).collect();
        let set = draft.add_set(SetName::Fixed(name.join("/")), Bond::Folders, Sign::Environment, places);
        for (_, files) in by_name.iter().filter(|(of, _)| name.starts_with(of)) {
            files.iter().for_each(|file| draft.add_member(*file, set, &Transform::default()));
        }
    }
}

/// The environment of a folder: the names of those of `folders` that it is or lies below, the outermost first.
pub(super) fn name_of(folder: &Path, folders: &BTreeSet<&Path>) -> Vec<String> {
    let above = folder.ancestors().filter(|above| folders.contains(*above));
    let mut name: Vec<String> =
        above.map(|above| above.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect();
    name.reverse();
    name
}

/// The names of environments that have no regions or the like.
pub(super) fn ends<'n>(names: impl Iterator<Item = &'n Vec<String>> + Clone) -> Vec<&'n Vec<String>> {
    let is_above =
        |name: &Vec<String>| names.clone().any(|other| other.len() > name.len() && other.starts_with(name));
    names.clone().filter(|name| !is_above(name)).collect()
}

/// Names below a folder of environments that are no environment.
const COMMON: &[&str] = &["all", "base", "bases", "common", "default", "global", "shared"];

/// The folders above some others, or they themselves, that are named like environments beside each other: `clusters/prod` and
/// `clusters/staging`.
pub(super) fn beside_each_other<'p>(folders: impl Iterator<Item = &'p Path>) -> BTreeSet<&'p Path> {
    let mut groups: HashMap<(&Path, String), BTreeSet<&Path>> = HashMap::new();
    for folder in folders.flat_map(Path::ancestors) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let Some(above) = folder.parent().filter(|_| !COMMON.contains(&&*name)) else { continue };
        if let Some(rest) = rest(above, folder) {
            groups.entry((above, rest)).or_default().insert(folder);
        }
    }
    groups.into_values().filter(|group| group.len() > 1).flatten().collect()
}

/// The folders that are named like environments and contain objects that such a folder beside them contains
/// as well.
fn repeating_folders<'a>(draft: &Draft<'_, 'a>, files: &[usize]) -> BTreeSet<&'a Path> {
    // The first holder of each object, by the folder above and the part of the name that is not the
    // environment.
    let mut holders: HashMap<(&Path, String), HashMap<u64, &Path>> = HashMap::new();
    let mut repeating = BTreeSet::new();
    for file in files {
        let Some(folder) = draft.files.folder(*file) else { continue };
        let pairs = folder.ancestors().filter_map(|above| Some((above.parent()?, above)));
        let environments: Vec<((&Path, String), &Path)> =
            pairs.filter_map(|(above, folder)| Some(((above, rest(above, folder)?), folder))).collect();
        if environments.is_empty() {
            continue;
        }
        let objects = draft.files.list[*file].objects;
        for identity in objects.iter().filter_map(|o| identity::applied(o, &Transform::default())) {
            for (above, environment) in &environments {
                let holder =
                    *holders.entry(above.clone()).or_default().entry(identity).or_insert(*environment);
                if holder != *environment {
                    repeating.extend([holder, environment]);
                }
            }
        }
    }
    repeating
}

/// The part of a folder's name that is not the environment; `None` if the name is not that of an environment.
fn rest(above: &Path, folder: &Path) -> Option<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if ENVIRONMENT_FOLDERS.contains(&name(above).as_str()) {
        return Some(String::new());
    }
    let name = name(folder);
    is_environment(&name).then(|| rest_of(&name))
}

#[cfg(test)]
mod tests {
    use super::{is_environment, rest_of};

    #[test]
    fn what_is_no_environment_in_a_name_is_left() {
        for (name, rest) in [
            ("prod", ""),
            ("gpu-prod-eu-west-1", "gpu"),
            ("prod-cluster", "cluster"),
            ("dev2", ""),
            ("use1", ""),
        ] {
            assert_eq!(rest_of(name), rest);
        }
    }

    #[test]
    fn environments_have_usual_names() {
        for name in [
            "dev",
            "Staging",
            "prod",
            "stage-2",
            "prod2",
            "eu-west-1",
            "us-east-1-gpu",
            "use1",
            "euw2",
            "prod-eu",
            "gpu-prod",
            "prod-eu-west-1",
            "sandbox",
            "qa_1",
        ] {
            assert!(is_environment(name), "{name}");
        }
        for name in
            ["apps", "web", "device", "production-line-app", "karpenter", "users", "user1", "base", "web-1"]
        {
            assert_eq!(is_environment(name), name == "production-line-app", "{name}");
        }
    }
}
