//! Manifests that are not meant for the current cluster: examples, templates, copies, and files for older API versions and releases.

use crate::cluster::together::folder;
use crate::facts::text::is_digits;
use crate::object::Object;

/// Whether a folder of the object's file has a name for examples. They leave out on purpose what protects a service in
/// production.
pub(super) fn is_example(object: &Object) -> bool {
    object.source().is_some_and(|source| source.is_example())
}

/// Whether the name of the object's file or of a folder says that it is one of several to choose from: `option-b/hpa.yaml`,
/// `hpa-alternative.yaml`.
pub(super) fn is_alternative(object: &Object) -> bool {
    const WORDS: [&str; 7] =
        ["alternative", "alternatives", "option", "options", "optional", "variant", "variants"];
    let path = object.source().map_or("", |source| source.path());
    path.split(['/', '-', '_', '.']).any(|word| WORDS.contains(&word))
}

/// Whether the object's file is a template by its own name or that of a folder. What a program made of one is none.
pub(super) fn is_template(object: &Object) -> bool {
    object.origin().is_some_and(|origin| {
        origin.source.is_template() && origin.source.written_line(origin.document).is_none()
    })
}

/// Whether the name of the object's file says that it is to be copied and filled in: `secrets.example.yaml`,
/// `db-secret-sample.yaml`.
pub(super) fn is_to_be_copied(object: &Object) -> bool {
    const WORDS: [&str; 10] = [
        "dist",
        "example",
        "examples",
        "placeholder",
        "placeholders",
        "sample",
        "samples",
        "template",
        "tmpl",
        "tpl",
    ];
    let path = object.source().map_or("", |source| source.path());
    let name = path.rsplit('/').next().unwrap_or_default();
    let words: Vec<String> = name.split(['-', '_', '.']).map(str::to_ascii_lowercase).collect();
    // `example.yaml` says it of no other file.
    words.len() > 2 && words.iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Whether the object of a file was read from a cluster, as `kubectl get -o yaml` prints it: it has the identity that the API server
/// gave it, and is not meant to be applied.
pub(super) fn is_saved(object: &Object) -> bool {
    let metadata = object.get("metadata");
    let version = || metadata.get("resourceVersion").string_or_number();
    object.origin().is_some()
        && (metadata.get("uid").is_set() || version().is_some_and(|text| !text.is_empty() && text != "0"))
}

/// The label with the version of the program that an object is part of.
const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// Minimum number of such labels in the file of a release, which nobody writes by hand.
const VERSIONS_OF_RELEASE: usize = 20;

/// Whether the object is a copy of what others publish, which its user does not write: the output of `helm template`, a file in a
/// folder for such copies or of a release, or the file of a release itself, with the label of the version in many places.
pub(super) fn is_copy(object: &Object) -> bool {
    const FOLDERS: [&str; 6] = ["vendor", "vendored", "third_party", "third-party", "thirdparty", "upstream"];
    let Some(origin) = object.origin() else { return false };
    let label = object.path(&["metadata", "labels", "helm.sh/chart"]);
    let is_output = label.is_set() && origin.source.written_line(origin.document).is_none();
    let is_bundle = || {
        object.path(&["metadata", "labels", VERSION_LABEL]).is_set()
            && origin.source.text().matches(VERSION_LABEL).nth(VERSIONS_OF_RELEASE - 1).is_some()
    };
    is_output
        || is_chart_output(object)
        || is_bundle()
        || is_generated_file(origin.source.text())
        || folder(origin.source.path()).split('/').any(|one| FOLDERS.contains(&one))
        || is_release_manifest(object)
}

/// Whether the first comment of a text says that a program writes it and nobody edits it, as in `gotk-components.yaml` of Flux.
fn is_generated_file(text: &str) -> bool {
    let mut comment = text.lines().take_while(|line| line.starts_with('#') || *line == "---");
    comment.any(|line| line.contains("DO NOT EDIT"))
}

/// Whether the comment above an object is the one that `helm template` prints above each document: the place to change the
/// object is then a value of the chart.
pub(super) fn is_chart_output(object: &Object) -> bool {
    let (Some(source), Some(first)) = (object.source(), object.get("apiVersion").key_span()) else {
        return false;
    };
    let before = source.text().get(..first.start as usize).unwrap_or_default();
    let above = before.lines().rev().take_while(|line| line.is_empty() || line.starts_with('#'));
    above.filter_map(|line| line.strip_prefix("# Source: ")).any(|path| path.contains("/templates/"))
}

/// Whether a folder of the object's file is named after the object's own API version: `v1beta1/` beside `v1/`.
pub(super) fn is_named_after_version(object: &Object) -> bool {
    let path = object.source().map_or("", |source| source.path());
    folder(path).split('/').any(|part| part == object.version())
}

/// Whether the object's file, or a folder of its path, is named after a release of a product: `karpenter.0.32.yaml`,
/// `karpenter-v0.37/`.
pub(super) fn is_named_after_release(object: &Object, product: &str) -> bool {
    let path = object.source().map_or("", |source| source.path());
    path.split('/').any(|part| {
        let rest = part.split_once(product).map(|(_, rest)| rest.trim_start_matches(['.', '-', '_']));
        let version = rest.map(|rest| rest.strip_prefix('v').unwrap_or(rest));
        let minor = version.and_then(|version| version.split_once('.'));
        minor
            .is_some_and(|(major, minor)| is_digits(major) && minor.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Whether the object's file, or a folder of its path, is named after a release of any product, as in
/// `install/v0.5.0/all.yaml`, `knative-v1.10.1/` and `dashboard-v1.8.3.yaml`. Such a file is a copy of the published manifests for the
/// Kubernetes versions of that time, and nobody edits it.
pub(super) fn is_release_manifest(object: &Object) -> bool {
    let is_release = |folder: &str| {
        let folder = folder.strip_prefix("version-").unwrap_or(folder);
        let version = folder.strip_prefix('v').unwrap_or(folder);
        let version = version.split_once('-').map_or(version, |(version, _)| version);
        let mut parts = version.split('.');
        parts.clone().count() == 3 && parts.all(is_digits)
    };
    object.source().is_some_and(|source| {
        let (folders, file) = source.path().rsplit_once('/').unwrap_or(("", source.path()));
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let names_release =
            |name: &str| name.split(['-', '_']).any(|part| part.starts_with('v') && is_release(part));
        // As archives of releases are unpacked: `terraform-aws-eks-4.32.1/`.
        let is_archive = |name: &str| name.rsplit_once('-').is_some_and(|(_, version)| is_release(version));
        let is_of_release = |name: &str| is_release(name) || names_release(name) || is_archive(name);
        folders.split('/').any(is_of_release) || names_release(stem)
    })
}

/// API groups of files that a tool reads and no API server serves; `istioctl` reads an IstioOperator, and no controller since Istio 1.24.
const TOOL_GROUPS: [&str; 8] = [
    "eksctl.io",
    "install.istio.io",
    "k0sctl.k0sproject.io",
    "k3d.io",
    "kind.x-k8s.io",
    "kubeadm.k8s.io",
    "kubelet.config.k8s.io",
    "kubeproxy.config.k8s.io",
];

/// Whether an object is the input of a tool that is never sent to an API server.
pub(super) fn is_read_by_tool(object: &Object) -> bool {
    TOOL_GROUPS.contains(&object.group())
}

#[cfg(test)]
mod tests {
    use super::{
        is_alternative, is_copy, is_example, is_named_after_release, is_named_after_version,
        is_release_manifest, is_template, is_to_be_copied,
    };
    use crate::file::File;
    use crate::object::Object;
    use crate::source::Source;

    fn at(path: &str) -> Object {
        let text = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n";
        File::read(Source::from_text(path, text)).objects[0].clone()
    }

    #[test]
    fn paths_show_what_a_manifest_is_for() {
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
                is_named_after_release(&object, "karpenter"),
                is_named_after_version(&object),
                is_example(&object),
            );
            assert_eq!(found, (release, version, example), "{path}");
        }
    }

    #[test]
    fn alternatives_are_called_so() {
        for path in ["option-a/pool.yaml", "llm/pool-alternative.yaml", "alternatives/keda.yaml"] {
            assert!(is_alternative(&at(path)), "{path}");
        }
        assert!(!is_alternative(&at("adoption/optionals/pool.yaml")));
    }

    #[test]
    fn files_to_be_copied_are_called_so() {
        for path in [
            "k8s/secrets.template.yaml",
            "secrets.example.yaml",
            "db-secret-sample.yaml",
            "secret_tmpl.yaml",
            "Secrets-Placeholder.yml",
        ] {
            assert!(is_to_be_copied(&at(path)), "{path}");
        }
        for path in
            ["templates/secret.yaml", "secrets.yaml", "templated-secret.yaml", "sampler.yaml", "example.yaml"]
        {
            assert!(!is_to_be_copied(&at(path)), "{path}");
        }
    }

    #[test]
    fn templates_and_copies_have_names_of_their_own() {
        for (path, template, copy) in [
            ("templates/workload/pools/pool.yaml", true, false),
            ("tier-templates/pool.yaml", true, false),
            ("models/_template/pool.yaml", true, false),
            ("scripts/wipe.tmpl.yaml", true, false),
            ("templated/pool.yaml", false, false),
            ("template.yaml", false, false),
            ("pools/gpu-template.yaml", true, false),
            ("scaffolds/{{cookiecutter.name}}/pool.yaml", true, false),
            ("${{ values.name }}/pool.yaml", true, false),
            ("temporal/pool.yaml", false, false),
            ("karpenter/upstream/pool.yaml", false, true),
            ("install/v0.5.0/all.yaml", false, true),
        ] {
            assert_eq!((is_template(&at(path)), is_copy(&at(path))), (template, copy), "{path}");
        }
    }

    #[test]
    fn what_helm_prints_is_a_copy() {
        let read = |text: &str| File::read(Source::from_text("mesh/all.yaml", text)).objects[1].clone();
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert!(is_copy(&read(&format!("{object}---\n# Source: mesh/templates/config.yaml\n{object}"))));
        assert!(!is_copy(&read(&format!("# Source: mesh/templates/config.yaml\n{object}---\n{object}"))));
        assert!(!is_copy(&read(&format!("{object}---\n# Source: the wiki\n{object}"))));
    }

    #[test]
    fn the_file_of_a_release_has_many_objects_of_one_version() {
        let object = |label: &str, count: usize| {
            let text = format!(
                "---\napiVersion: v1\nkind: Service\nmetadata: {{name: a, labels: {{{label}: 1.16.2}}}}\n"
            );
            File::read(Source::from_text("serving/core.yaml", &text.repeat(count))).objects[0].clone()
        };
        assert!(is_copy(&object("app.kubernetes.io/version", 20)));
        assert!(!is_copy(&object("app.kubernetes.io/version", 19)));
        assert!(!is_copy(&object("app", 20)));
    }

    #[test]
    fn folders_of_releases() {
        let is_release = |path: &str| is_release_manifest(&at(path));
        assert!(
            [
                "install/v0.5.0/all.yaml",
                "docs/version-1.4.0/a.yaml",
                "knative-v1.10.1/a.yaml",
                "terraform-aws-eks-4.32.1/examples/a.yaml"
            ]
            .into_iter()
            .all(is_release)
        );
        let others = ["versions/a.yaml", "docs/version-next/a.yaml", "v1/a.yaml", "llama-3.1/a.yaml"];
        assert!(!others.into_iter().any(is_release));
        let text = "---\n# This manifest was generated. DO NOT EDIT.\napiVersion: v1\nkind: Pod\n";
        let of = |text: &str| is_copy(&File::read(Source::from_text("a.yaml", text)).objects[0]);
        assert!(of(text) && !of(&text.replace("DO NOT EDIT", "Edit")));
    }
}
