//! The sets of an input, by each kind of evidence, as `--show-sets` prints them.

use std::fs;
use std::path::Path;

use gpulint_testing::{children, expect_file};
use serde_json::Value;

use crate::support::{Folder, run_in};

fn object(kind: &str, name: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n---\n")
}

fn flux(name: &str, path: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
         metadata: {{name: {name}, namespace: flux-system}}\n\
         spec: {{path: {path}, prune: true, interval: 1h, sourceRef: {{kind: GitRepository, name: flux-system}}}}\n---\n"
    )
}

fn application(name: &str, path: &str, destination: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}, namespace: argocd}}\n\
         spec: {{project: default, source: {{repoURL: 'https://example.com/fleet.git', path: {path}}}, \
         destination: {{{destination}}}}}\n---\n"
    )
}

fn with(files: &[(&str, &str)]) -> Folder {
    files.iter().fold(Folder::new(), |folder, (path, text)| folder.with(path, text))
}

/// The sets of a folder: name, evidence, and the files in order with the changes to their objects.
#[track_caller]
fn sets(folder: &Folder, args: &[&str]) -> Vec<String> {
    let run = folder.run(&[&["check", "--show-sets", "-f", "json"], args].concat()).exits(0);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sets = report["sets"].as_array().unwrap().iter().map(|set| {
        let members = set["members"].as_array().unwrap().iter().map(|member| {
            let mut line = text(&member["file"]);
            for (field, sign) in
                [("namespace", "@"), ("defaultNamespace", "~"), ("prefix", "<"), ("suffix", ">")]
            {
                let value = text(&member[field]);
                if !value.is_empty() {
                    line.push_str(&format!(" {sign}{value}"));
                }
            }
            for removed in member["removed"].as_array().unwrap() {
                line.push_str(&format!(" -{}/{}", text(&removed["kind"]), text(&removed["name"])));
            }
            line
        });
        let members: Vec<String> = members.collect();
        format!("{} ({}): {}", text(&set["name"]), text(&set["sign"]), members.join(", "))
    });
    sets.collect()
}

#[test]
fn without_any_sign_the_input_is_one_set() {
    let folder = with(&[("a/x.yaml", &object("A", "x")), ("b/x.yaml", &object("A", "x"))]);
    assert_eq!(sets(&folder, &[]), [""; 0]);
    folder.run(&["check", "--show-sets"]).exits(0).prints("The whole input is one set: 2 files, 2 objects.");
    let run = folder.run_with(&["check", "--show-sets", "-"], &object("A", "x")).exits(0);
    run.prints("The whole input is one set: 1 file, 1 object.");
}

/// A NodePool of nodes with one GPU, and a pod that names it and asks for four.
const POOL: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n      \
    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      requirements:\n        - {key: \
    node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: caption}\nspec:\n  nodeSelector: {karpenter.sh/nodepool: gpu}\n  \
    containers:\n    - {name: main, image: \"example.com/caption:1.4.0\", resources: {limits: {nvidia.com/gpu: 4}}}\n";

#[test]
fn folders_beside_the_one_with_all_pools_are_of_its_cluster() {
    let meets = |files: &[(&str, &str)]| with(files).run(&["check"]).out.contains("fits NodePool `gpu`");
    assert!(meets(&[("karpenter/gpu.yaml", POOL), ("apps/caption.yaml", POD)]));
    assert!(meets(&[("platform/karpenter/gpu.yaml", POOL), ("apps/caption.yaml", POD)]));
    // Another folder has pools as well, or the folder has pods of its own.
    let other = POOL.replace("name: gpu", "name: other");
    assert!(!meets(&[("karpenter/gpu.yaml", POOL), ("apps/caption.yaml", POD), ("other/pool.yaml", &other)]));
    let train = POD.replace("caption", "train").replace("gpu: 4", "gpu: 1");
    assert!(!meets(&[("spot/gpu.yaml", POOL), ("spot/train.yaml", &train), ("apps/caption.yaml", POD)]));
    // They are examples or environments, or have an object twice.
    assert!(!meets(&[("examples/karpenter/gpu.yaml", POOL), ("examples/apps/caption.yaml", POD)]));
    assert!(!meets(&[("karpenter/gpu.yaml", POOL), ("staging/caption.yaml", POD)]));
    assert!(!meets(&[("karpenter/gpu.yaml", POOL), ("a/caption.yaml", POD), ("b/caption.yaml", POD)]));
}

#[test]
fn the_configuration_says_what_is_a_cluster() {
    let folder = with(&[
        ("gpulint.yaml", "clusters: ['clusters/*']\n"),
        ("clusters/dev/a.yaml", &object("A", "a")),
        ("clusters/prod/x/a.yaml", &object("A", "a")),
        ("other/a.yaml", &object("A", "a")),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "dev (configuration): clusters/dev/a.yaml",
            "prod (configuration): clusters/prod/x/a.yaml",
            "unclaimed (none): other/a.yaml"
        ]
    );
    let overlapping = "clusters:\n- {name: east, paths: [./clusters/dev/, other/]}\n- {name: west, paths: ['**/prod/**', other]}\n";
    fs::write(folder.0.join("gpulint.yaml"), overlapping).unwrap();
    assert_eq!(
        sets(&folder, &[]),
        [
            "east (configuration): clusters/dev/a.yaml, other/a.yaml",
            "west (configuration): clusters/prod/x/a.yaml, other/a.yaml"
        ]
    );
}

#[test]
fn mistakes_in_clusters_are_said() {
    let folder = with(&[("a.yaml", &object("A", "a"))]);
    let config = "clusters:\n- {name: a, paths: [x]}\n- {name: a, paths: [z]}\n- clusters/prod\n- {name: b}\n- {nam: c, paths: [x]}\n- {name: d, paths: ['[']}\n";
    fs::write(folder.0.join("gpulint.yaml"), config).unwrap();
    let run = folder.run(&["check", "."]).exits(2);
    for text in [
        "gpulint.yaml:3:10: two clusters are called `a`",
        "gpulint.yaml:4:3: `clusters/prod` does not name a cluster",
        "gpulint.yaml:5:3: the cluster has no `paths`",
        "gpulint.yaml:6:4: unknown key `nam` of a cluster; did you mean `name`?",
        "gpulint.yaml:7:21: bad glob `[`",
    ] {
        assert!(run.err.contains(text), "no {text:?} in {}", run.err);
    }
    fs::write(
        folder.0.join("gpulint.yaml"),
        "clusters:\n- {name: a, paths: [x]}\n- {name: b, paths: ['*.yaml']}\n",
    )
    .unwrap();
    folder.run(&["check", "."]).complains("note: gpulint.yaml:2:3: no file belongs to this cluster");
    let config = "clusters:\n- {name: a, paths: [x, a.yaml]}\n";
    fs::write(folder.0.join("gpulint.yaml"), config).unwrap();
    folder.run(&["check", "."]).complains("note: gpulint.yaml:2:3: no file is at `x` of this cluster\n");
    let quiet = folder.run(&["check", "--quiet", "."]);
    assert!(!quiet.err.contains("no file belongs"), "{quiet:#?}");
    let one = folder.run(&["check", "a.yaml"]);
    assert!(!one.err.contains("no file belongs"), "{one:#?}");
}

#[test]
fn flux_applies_paths_from_the_root() {
    let folder = with(&[
        ("clusters/prod/flux-system/gotk-sync.yaml", &flux("flux-system", "./clusters/prod")),
        ("clusters/prod/apps.yaml", &flux("apps", "./apps/prod")),
        ("clusters/stage/flux-system/gotk-sync.yaml", &flux("flux-system", "./clusters/stage")),
        ("clusters/stage/apps.yaml", &flux("apps", "./apps/stage")),
        ("apps/base/a.yaml", &object("A", "a")),
        ("apps/base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("apps/prod/kustomization.yaml", "resources: [../base]\nnamespace: prod\nnamePrefix: p-\n"),
        ("apps/stage/b/b.yaml", &object("B", "b")),
        ("apps/spare/c.yaml", &object("C", "c")),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "prod (flux): apps/base/a.yaml @prod <p-, clusters/prod/apps.yaml, clusters/prod/flux-system/gotk-sync.yaml",
            "stage (flux): apps/stage/b/b.yaml, clusters/stage/apps.yaml, clusters/stage/flux-system/gotk-sync.yaml",
            "unclaimed (none): apps/spare/c.yaml",
        ]
    );
}

#[test]
fn flux_applies_to_other_clusters_and_namespaces() {
    let remote = flux("remote", "./apps")
        .replace("spec: {", "spec: {targetNamespace: edge, kubeConfig: {secretRef: {name: edge-1}}, ");
    let folder = with(&[
        ("hub/flux.yaml", &(flux("local", "./apps") + &remote)),
        ("apps/a.yaml", &object("A", "a")),
        ("apps/missing.yaml", &flux("missing", "./nowhere")),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "hub (flux): apps/a.yaml, apps/missing.yaml, hub/flux.yaml",
            "edge-1 (flux): apps/a.yaml @edge, apps/missing.yaml @edge",
        ]
    );
}

#[test]
fn flux_kustomizations_may_point_at_themselves_and_at_each_other() {
    let folder = with(&[
        ("x/flux.yaml", &(flux("self", "./x") + &flux("y", "./y"))),
        ("y/flux.yaml", &flux("x", "./x")),
        ("y/a.yaml", &object("A", "a")),
    ]);
    let sets = sets(&folder, &[]);
    assert_eq!(sets, ["x (flux): x/flux.yaml, y/a.yaml, y/flux.yaml"]);
}

#[test]
fn argo_applies_to_destinations() {
    let here = "server: 'https://kubernetes.default.svc'";
    let folder = with(&[
        ("argocd/root.yaml", &application("root", "argocd/apps", here)),
        (
            "argocd/apps/a.yaml",
            &application("web", "apps/web", "server: 'https://10.0.0.1:6443', namespace: web"),
        ),
        ("argocd/apps/b.yaml", &application("api", "apps/api", "name: staging")),
        ("argocd/apps/c.yaml", &application("web-2", "apps/web", "name: staging, namespace: web")),
        ("argocd/apps/d.yaml", &application("foreign", "nowhere", "name: production")),
        ("apps/web/a.yaml", &object("A", "a")),
        ("apps/web/deep/b.yaml", &object("B", "b")),
        ("apps/api/c.yaml", &object("C", "c")),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "in-cluster (argo): argocd/apps/a.yaml, argocd/apps/b.yaml, argocd/apps/c.yaml, argocd/apps/d.yaml, argocd/root.yaml",
            "10.0.0.1:6443 (argo): apps/web/a.yaml ~web",
            "staging (argo): apps/api/c.yaml, apps/web/a.yaml ~web",
            "unclaimed (none): apps/web/deep/b.yaml",
        ]
    );
}

#[test]
fn application_sets_have_a_folder_for_each_application() {
    let set = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: apps, namespace: argocd}\nspec:\n  \
               generators:\n  - matrix:\n      generators:\n      - git: {repoURL: 'https://example.com/fleet', directories: [{path: 'apps/*'}, {path: apps/old, exclude: true}]}\n      \
               - list: {elements: [{cluster: eu}, {cluster: us}]}\n  template:\n    \
               metadata: {name: '{{path.basename}}'}\n    \
               spec: {project: default, source: {repoURL: 'https://example.com/fleet', path: '{{path}}', directory: {recurse: true, exclude: 'skip/*'}}, \
               destination: {name: 'prod-{{cluster}}', namespace: '{{path.basename}}'}}\n";
    let folder = with(&[
        ("set.yaml", set),
        ("apps/web/a/a.yaml", &object("A", "a")),
        ("apps/web/skip/b.yaml", &object("B", "b")),
        ("apps/old/c.yaml", &object("C", "c")),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "prod-eu (argo): apps/web/a/a.yaml ~web",
            "prod-us (argo): apps/web/a/a.yaml ~web",
            "unclaimed (none): apps/web/skip/b.yaml, set.yaml",
        ]
    );
}

#[test]
fn kustomizations_are_one_set_unless_they_repeat_each_other() {
    let folder = with(&[
        ("base/a.yaml", &object("A", "a")),
        ("base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("component/kustomization.yaml", "kind: Component\nresources: [c.yaml]\nnameSuffix: -c\n"),
        ("component/c.yaml", &object("C", "c")),
        ("infra/kustomization.yaml", "resources: [i.yaml]\n"),
        ("infra/i.yaml", &object("I", "i")),
        ("tools/kustomization.yaml", "resources: [t.yaml]\n"),
        ("tools/t.yaml", &object("T", "t")),
        ("overlays/dev/kustomization.yaml", "resources: [../../base]\n"),
        (
            "overlays/prod/kustomization.yaml",
            "resources: [../../base]\ncomponents: [../../component]\npatches:\n- patch: |\n    $patch: delete\n    apiVersion: example.com/v1\n    kind: A\n    metadata: {name: gone}\n",
        ),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "dev (kustomization): base/a.yaml",
            "prod (kustomization): base/a.yaml >-c -A/gone, component/c.yaml >-c -A/gone",
            "kustomizations (kustomizations): infra/i.yaml, tools/t.yaml",
        ]
    );
    // Without changes to their names, both contain the same object.
    fs::write(folder.0.join("component/kustomization.yaml"), "kind: Component\nresources: [c.yaml]\n")
        .unwrap();
    assert_eq!(
        sets(&folder, &[]),
        [
            "dev (kustomization): base/a.yaml",
            "prod (kustomization): base/a.yaml -A/gone, component/c.yaml -A/gone",
            "kustomizations (kustomizations): infra/i.yaml, tools/t.yaml",
        ]
    );
    // Clusters in the configuration keep the files that their kustomizations include.
    fs::write(folder.0.join("gpulint.yaml"), "clusters: ['overlays/*']\n").unwrap();
    assert_eq!(sets(&folder, &["base", "component", "overlays"]).len(), 2);
}

#[test]
fn instances_of_one_base_are_together_unless_they_are_called_like_environments() {
    for (names, count) in [(["red", "blue"], 1), (["stage", "prod"], 2)] {
        let folder = with(&[
            ("base/a.yaml", &object("A", "a")),
            ("base/kustomization.yaml", "resources: [a.yaml]\n"),
            (&format!("{}/kustomization.yaml", names[0]), "resources: [../base]\nnamePrefix: one-\n"),
            (&format!("{}/kustomization.yaml", names[1]), "resources: [../base]\nnamePrefix: two-\n"),
        ]);
        assert_eq!(sets(&folder, &[]).len(), count, "{names:?}");
    }
}

#[test]
fn kustomizations_of_environments_beside_each_other_are_apart() {
    let kustomization = "resources: [a.yaml]\n";
    let files = [
        ("clusters/prod/apps/a.yaml", object("A", "a")),
        ("clusters/prod/infra/a.yaml", object("B", "b")),
        ("clusters/edge/apps/a.yaml", object("C", "c")),
        ("shared/a.yaml", object("D", "d")),
    ];
    let mut all: Vec<(String, String)> = Vec::new();
    for (path, text) in files {
        all.push((path.replace("a.yaml", "kustomization.yaml"), kustomization.to_owned()));
        all.push((path.to_owned(), text));
    }
    let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(
        sets(&with(&all), &[]),
        [
            "edge (kustomizations): clusters/edge/apps/a.yaml, shared/a.yaml",
            "prod (kustomizations): clusters/prod/apps/a.yaml, clusters/prod/infra/a.yaml, shared/a.yaml",
        ]
    );
    // One environment alone is no reason.
    assert_eq!(sets(&with(&all[..4]), &[]).len(), 1);
}

#[test]
fn kustomizations_may_include_each_other() {
    let folder = with(&[
        ("a/kustomization.yaml", "resources: [../b, a.yaml]\n"),
        ("a/a.yaml", &object("A", "a")),
        ("b/kustomization.yaml", "resources: [../a]\n"),
        ("c/kustomization.yaml", "resources: [., c.yaml, missing.yaml, ../missing]\n"),
        ("c/c.yaml", &object("C", "c")),
    ]);
    assert_eq!(sets(&folder, &[]), ["c (kustomization): c/c.yaml", "unclaimed (none): a/a.yaml"]);
}

#[test]
fn folders_of_environments_are_sets_if_they_repeat_each_other() {
    let files = [
        ("infra/dev/a.yaml", object("A", "a")),
        ("infra/prod/us-east-1/a.yaml", object("A", "a")),
        ("infra/prod/eu-west-1/a.yaml", object("A", "a")),
        ("infra/prod/all.yaml", object("B", "b")),
        ("apps/dev/web.yaml", object("W", "w")),
        ("apps/prod/web.yaml", object("W", "w")),
        ("shared/x.yaml", object("X", "x")),
    ];
    let folder = files.iter().fold(Folder::new(), |folder, (path, text)| folder.with(path, text));
    assert_eq!(
        sets(&folder, &[]),
        [
            "dev (environment-folder): apps/dev/web.yaml, infra/dev/a.yaml",
            "prod/eu-west-1 (environment-folder): apps/prod/web.yaml, infra/prod/all.yaml, infra/prod/eu-west-1/a.yaml",
            "prod/us-east-1 (environment-folder): apps/prod/web.yaml, infra/prod/all.yaml, infra/prod/us-east-1/a.yaml",
            "unclaimed (none): shared/x.yaml",
        ]
    );
    folder.run(&["check"]).complains("write in gpulint.yaml: clusters: [{name: dev, paths: [");
    let quiet = folder.run(&["check", "--quiet"]);
    assert_eq!(quiet.err, "");
    // Environments that have no common object may be parts of one cluster.
    let apart = with(&[("dev/a.yaml", &object("A", "a")), ("prod/b.yaml", &object("A", "b"))]);
    assert_eq!(sets(&apart, &[]), [""; 0]);
}

#[test]
fn other_files_belong_to_the_sets_of_their_folder() {
    let folder = with(&[
        ("clusters/a/flux.yaml", &flux("apps", "./apps")),
        ("clusters/b/flux.yaml", &flux("apps", "./apps")),
        ("apps/kustomization.yaml", "resources: [a.yaml]\n"),
        ("apps/a.yaml", &object("A", "a")),
        ("apps/left-out.yaml", &object("B", "b")),
    ]);
    assert_eq!(
        sets(&folder, &[]),
        [
            "a (flux): apps/a.yaml, apps/left-out.yaml, clusters/a/flux.yaml",
            "b (flux): apps/a.yaml, apps/left-out.yaml, clusters/b/flux.yaml",
        ]
    );
    let stdin = object("C", "c");
    let run = folder.run_with(&["check", "--show-sets", ".", "-"], &stdin).exits(0);
    run.prints("unclaimed: ").prints("    <stdin>");
    let named = ["check", "--show-sets", "--stdin-filename", "apps/new.yaml", ".", "-"];
    let run = folder.run_with(&named, &stdin).exits(0);
    assert!(!run.out.contains("unclaimed"), "{}", run.out);
}

#[test]
fn the_text_has_eighty_columns_and_says_why() {
    let folder = with(&[
        ("clusters/a/flux.yaml", &flux("apps", "./apps/a")),
        ("clusters/b/flux.yaml", &flux("apps", "./apps/b")),
        ("apps/a/kustomization.yaml", "resources: [a.yaml, b.yaml]\nnamespace: web\n"),
        ("apps/a/a.yaml", &object("A", "a")),
        ("apps/a/b.yaml", &object("A", "b")),
        ("apps/b/a.yaml", &object("A", "a")),
        ("docs/a.yaml", &object("A", "a")),
    ]);
    let run = folder.run(&["check", "--show-sets"]).exits(0);
    let expected = "\
3 sets in 6 files. Objects are checked beside those of their own sets.

a: Flux
  from clusters/a/flux.yaml
  3 files, 3 objects
    clusters/a/flux.yaml
  namespace web:
    apps/a/*                                                      2 files

b: Flux
  from clusters/b/flux.yaml
  2 files, 2 objects
    apps/b/a.yaml
    clusters/b/flux.yaml

unclaimed: no set claims these files, nor others of their folders
  1 file, 1 object
    docs/a.yaml

To say it otherwise, write in gpulint.yaml:
  clusters:
    - name: a
      paths: [\"apps/a/*\", \"clusters/a/flux.yaml\"]
";
    assert_eq!(run.out, expected);
}

/// Rules whose findings depend on other objects. Each layout has some of these objects in another cluster.
const RELATIONS: &str = "pdb-missing,pdb-selector,pdb-overlap,node-class-missing,duplicate-object";

/// Repositories of each layout: their sets, and the findings that depend on other objects.
#[test]
fn layouts_give_what_stands_beside_them() {
    let layouts = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/layouts");
    let mut wrong = Vec::new();
    for layout in children(&layouts).into_iter().filter(|path| path.is_dir()) {
        let run = |args: &[&str]| run_in(&layout, &[&["check", "--quiet", "--complete"], args].concat(), "");
        let mut text = run(&["--show-sets"]).exits(0).out;
        text.push_str("\n# --complete\n");
        let report = run(&["--format", "json", "--select", RELATIONS]).json();
        for finding in report["diagnostics"].as_array().unwrap() {
            let field = |name: &str| finding[name].as_str().unwrap().to_owned();
            let sets = finding["sets"].as_array().unwrap();
            let sets: Vec<&str> = sets.iter().map(|set| set.as_str().unwrap()).collect();
            let line = &finding["range"]["start"]["line"];
            let (file, severity, rule) = (field("file"), field("severity"), field("rule"));
            text.push_str(&format!("{file}:{line}: {severity}[{rule}] {} {sets:?}\n", field("message")));
        }
        wrong.extend(expect_file(&layout.with_extension("out"), &text).err());
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn images_of_overlays_and_of_gitops_are_applied() {
    let server = "apiVersion: v1\nkind: Pod\nmetadata: {name: chat}\nspec:\n  containers:\n  \
                  - {name: a, image: 'vllm/vllm-openai:v0.19.1', args: [--model=x/y, --swap-space=8]}\n";
    let list = "resources: [chat.yaml]\n";
    let images = "images: [{name: vllm/vllm-openai, newTag: v0.11.0}]\n";
    let argo = application("chat", "chat", "name: in-cluster")
        .replace("path: chat", "path: chat, kustomize: {images: ['vllm/vllm-openai:v0.11.0']}");
    let flux =
        flux("chat", "./chat").replace("prune", "images: [{name: vllm/vllm-openai, newTag: v0.11.0}], prune");
    let base = ("chat/kustomization.yaml", list);
    let overlay = format!("resources: [../chat]\n{images}");
    let own = format!("{list}{images}");
    for files in [
        &[("chat/kustomization.yaml", own.as_str())][..],
        &[base, ("prod/kustomization.yaml", overlay.as_str())],
        &[base, ("argo.yaml", argo.as_str())],
        &[base, ("flux.yaml", flux.as_str())],
    ] {
        let folder = with(&[files, &[("chat/chat.yaml", server)]].concat());
        let run = folder.run(&["check", "-f", "concise", "--select", "server-option-removed"]);
        assert!(!run.out.contains("swap-space"), "{files:?}: {}", run.out);
    }
    let folder = with(&[base, ("chat/chat.yaml", server)]);
    folder
        .run(&["check", "-f", "concise", "--select", "server-option-removed"])
        .exits(1)
        .prints("swap-space");
}
