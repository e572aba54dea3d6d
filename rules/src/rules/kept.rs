//! Manifests that a repository keeps for another reader than the cluster: for an older version, or as an example.

use crate::cluster::together::folder;
use crate::object::Object;

/// Whether a folder of the object's file says that it is an example, so that what protects a service in production is
/// left out on purpose.
pub(super) fn is_example(object: &Object) -> bool {
    object.source().is_some_and(|source| source.is_example())
}

/// Whether a folder of the object's file is named after the API version in which it is written: `v1beta1/` beside `v1/`.
pub(super) fn is_kept_for_version(object: &Object) -> bool {
    let path = object.source().map_or("", |source| source.path());
    folder(path).split('/').any(|part| part == object.version())
}

/// Whether a folder, or the name of the object's file, is that of a release of a product: `karpenter.0.32.yaml`,
/// `karpenter-v0.37/`.
pub(super) fn is_kept_for_release(object: &Object, product: &str) -> bool {
    let path = object.source().map_or("", |source| source.path());
    path.split('/').any(|part| {
        let rest = part.split_once(product).map(|(_, rest)| rest.trim_start_matches(['.', '-', '_']));
        let version = rest.map(|rest| rest.strip_prefix('v').unwrap_or(rest));
        let minor = version.and_then(|version| version.split_once('.'));
        let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        minor.is_some_and(|(major, minor)| {
            digits(minor) && major.bytes().all(|b| b.is_ascii_digit()) && digits(major)
        })
    })
}

/// Whether the file or a folder of it is called after a release, as in `install/v0.5.0/all.yaml` and
/// `dashboard-v1.8.3.yaml`: it holds what was published then, for the Kubernetes of that time, and nobody edits it.
pub(super) fn is_called_after_release(object: &Object) -> bool {
    let is_release = |folder: &str| {
        let version = folder.strip_prefix('v').unwrap_or(folder);
        let version = version.split_once('-').map_or(version, |(version, _)| version);
        let mut parts = version.split('.');
        parts.clone().count() == 3
            && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    object.source().is_some_and(|source| {
        let (folders, file) = source.path().rsplit_once('/').unwrap_or(("", source.path()));
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        folders.split('/').any(is_release)
            || stem.split(['-', '_']).any(|part| part.starts_with('v') && is_release(part))
    })
}

#[cfg(test)]
mod tests {
    use super::{is_example, is_kept_for_release, is_kept_for_version};
    use crate::file::File;
    use crate::object::Object;
    use crate::source::Source;

    fn at(path: &str) -> Object {
        let text = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n";
        File::read(Source::from_text(path, text)).objects[0].clone()
    }

    #[test]
    fn paths_say_why_a_manifest_is_kept() {
        for (path, release, version, example) in [
            ("spots/karpenter.0.32.yml", true, false, false),
            ("karpenter-v0.37.0/pool.yaml", true, false, false),
            ("karpenter/llama-3.1/pool.yaml", false, false, false),
            ("karpenter.yaml", false, false, false),
            ("specs/v1beta1/pool.yaml", false, true, false),
            ("pools-v1beta1.yaml", false, false, false),
            ("specs/v1/pool.yaml", false, false, false),
            ("docs/examples/pool.yaml", false, false, true),
            ("examples.yaml", false, false, false),
        ] {
            let object = at(path);
            let found = (
                is_kept_for_release(&object, "karpenter"),
                is_kept_for_version(&object),
                is_example(&object),
            );
            assert_eq!(found, (release, version, example), "{path}");
        }
    }
}
