//! Context: files that are read for their effect on other files.

use crate::support::{Folder, Run};

const SCALED_OBJECT: &str = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: web, namespace: shop}\nspec:\n  \
    scaleTargetRef: {name: web}\n  minReplicaCount: 2\n  maxReplicaCount: 6\n  \
    triggers: [{type: cpu, metricType: Utilization, metadata: {value: '70'}}]\n";
const HPA: &str = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec:\n  \
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  minReplicas: 2\n  maxReplicas: 6\n  \
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]\n";

/// A checkout with an autoscaler in `base` and another one in `more`.
fn checkout() -> Folder {
    let folder = Folder::new().with(".git/HEAD", "");
    folder.with("base/so.yaml", SCALED_OBJECT).with("more/hpa.yaml", HPA).with("docs/hpa.yaml", HPA)
}

fn check(folder: &Folder, args: &[&str]) -> Run {
    folder.run(&[&["check", "-f", "concise", "--select", "keda-hpa-conflict"], args].concat())
}

const CONFLICT: &str = "base/so.yaml:5:26: error[keda-hpa-conflict] `web` has two autoscalers";

#[test]
fn given_context_is_read_and_not_checked() {
    let folder = checkout().with("base/hpa.yaml", HPA);
    check(&folder, &["base/so.yaml"]).exits(0);
    let run = check(&folder, &["base/so.yaml", "--context", "base"]).exits(1);
    assert!(run.out.starts_with("base/so.yaml:5:26: warning[keda-hpa-conflict]"), "{run:#?}");
    assert_eq!(run.out.matches("[keda-hpa-conflict]").count(), 1, "{run:#?}");
    // A syntax error in the context is not reported either.
    let folder = folder.with("base/broken.yaml", "kind: A\napiVersion: v1\nmetadata: {a: [\n");
    let args = ["check", "--select", "keda-hpa-conflict,yaml-syntax", "base/so.yaml", "--context", "base"];
    let run = folder.run(&args).exits(1).prints("1 file");
    assert!(!run.out.contains("yaml-syntax"), "{run:#?}");
    folder.run(&["check", "base", "--context", "nowhere"]).exits(2).complains("nowhere");
}

/// A sign, the files that give it, and the name of the set.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn single_files_are_checked_beside_what_claims_them() {
    let cases: [Case<'_>; 4] = [
        (
            "a kustomization",
            &[
                ("base/kustomization.yaml", "resources: [so.yaml]\n"),
                ("overlays/prod/kustomization.yaml", "resources: [../../base, ../../more/hpa]\n"),
                ("more/hpa/kustomization.yaml", "resources: [hpa.yaml]\n"),
                ("more/hpa/hpa.yaml", HPA),
            ],
            "`prod`",
        ),
        ("clusters", &[("gpulint.yaml", "clusters: [{name: east, paths: [base, more]}]\n")], "`east`"),
        (
            "Flux",
            &[(
                "clusters/prod/flux.yaml",
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: base, sourceRef: {kind: GitRepository, name: flux-system}}\n---\n\
                 apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: b}\nspec: {path: more, sourceRef: {kind: GitRepository, name: flux-system}}\n",
            )],
            "`prod`",
        ),
        (
            "Argo CD",
            &[(
                "argocd/apps.yaml",
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {destination: {name: prod}, sources: [{repoURL: 'https://example.com/a', path: base}, {repoURL: 'https://example.com/a', path: more}]}\n",
            )],
            "`prod`",
        ),
    ];
    for (sign, files, set) in cases {
        let folder = files.iter().fold(checkout(), |folder, (path, text)| folder.with(path, text));
        let run = check(&folder, &["base/so.yaml", "--verbose"]).exits(1).prints(CONFLICT);
        assert_eq!(run.out.lines().filter(|line| line.contains("error[")).count(), 1, "{sign}: {run:#?}");
        run.complains("context, applied together with what is checked").complains(set);
        check(&folder, &["base/so.yaml", "--no-context"]).exits(0);
        // The content of an editor takes the place of the file.
        let args = [
            "check",
            "-f",
            "concise",
            "--select",
            "keda-hpa-conflict",
            "-",
            "--stdin-filename",
            "base/so.yaml",
        ];
        folder.run_with(&args, SCALED_OBJECT).exits(1).prints(CONFLICT);
        folder.run_with(&args, &SCALED_OBJECT.replace("web", "api")).exits(0);
    }
}

/// A chart installs the files of its folder `crds`, and those of the charts in it, as they are written.
#[test]
fn a_chart_claims_what_it_installs_as_written() {
    let folder = Folder::new()
        .with("x/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n")
        .with("x/crds/so.yaml", SCALED_OBJECT)
        .with("x/examples/hpa.yaml", HPA)
        .with("x/charts/y/Chart.yaml", "apiVersion: v2\nname: y\nversion: 1.0.0\n");
    check(&folder, &["x/crds/so.yaml", "-v"]).exits(0).complains("note: no context");
    let folder = folder.with("x/charts/y/crds/hpa.yaml", HPA);
    let run = check(&folder, &["x/crds/so.yaml", "-v"]).exits(1);
    assert!(run.out.starts_with("x/crds/so.yaml:5:26: "), "{run:#?}");
    run.complains("note: 1 file of `x` is context");
    check(&folder, &["x/charts/y/crds/hpa.yaml", "-v"]).exits(0).complains("note: 1 file of `x` is context");
    check(&folder, &["x/crds/so.yaml", "--no-context"]).exits(0);
    // The chart does not install a file elsewhere in it.
    check(&folder, &["x/examples/hpa.yaml", "-v"]).exits(0).complains("note: no context");
}

#[test]
fn what_nothing_claims_is_checked_alone() {
    let folder = checkout().with("base/hpa.yaml", HPA);
    let run = check(&folder, &["base/so.yaml", "--verbose"]).exits(0);
    run.complains("note: no context");
    // Folders of environments are only likely to be sets.
    let folder = folder.with("clusters/dev/x.yaml", HPA).with("clusters/prod/x.yaml", HPA);
    check(&folder, &["base/so.yaml", "-v"]).exits(0).complains("note: no context");
    check(&folder, &["clusters/dev/x.yaml", "-v"]).exits(0).complains("note: no context");
}

#[test]
fn a_stream_takes_the_place_of_a_file_of_the_input() {
    let folder = checkout().with("base/hpa.yaml", HPA);
    check(&folder, &["base"]).exits(1);
    let args = ["check", "--select", "keda-hpa-conflict", "base", "-", "--stdin-filename", "base/hpa.yaml"];
    folder.run_with(&args, &HPA.replace("name: web", "name: api")).exits(0).prints("2 files");
    let args = [
        "check",
        "--select",
        "keda-hpa-conflict",
        "--context",
        "base",
        "-",
        "--stdin-filename",
        "base/hpa.yaml",
    ];
    folder.run_with(&args, &HPA.replace("name: web", "name: api")).exits(0).prints("1 file");
}

const CLAIM: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: world}\nspec:\n  serviceName: world\n  \
    selector: {matchLabels: {app: world}}\n  template:\n    metadata: {labels: {app: world}}\n    \
    spec: {containers: [{name: server, image: 'busybox:1.36'}]}\n  \
    volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]\n";

#[test]
fn patches_that_cannot_be_read_may_set_what_is_missing() {
    let args = ["check", "-f", "concise", "--select", "invalid-value"];
    let checked = |kustomization: &str| {
        let folder = Folder::new().with("claim.yaml", CLAIM).with("kustomization.yaml", kustomization);
        folder.run(&args).out
    };
    assert!(checked("resources: [claim.yaml]\n").contains("a claim needs `requests.storage`"));
    for unread in [
        "patches: [{path: env/patch.yaml}]",
        "patches: [{path: env/patch.yaml, target: {kind: StatefulSet}}]",
        "components: [env]",
        "components: ['https://example.com/storage//env?ref=v1']",
        "transformers: [env/transformer.yaml]",
        "replacements: [{path: env/replacement.yaml}]",
    ] {
        let out = checked(&format!("resources: [claim.yaml]\n{unread}\n"));
        assert!(!out.contains("invalid-value"), "{unread}: {out}");
    }
    let other = "patches: [{path: env/patch.yaml, target: {kind: Deployment}}]";
    assert!(checked(&format!("resources: [claim.yaml]\n{other}\n")).contains("invalid-value"));
}

#[test]
fn what_a_kustomization_does_not_list_is_lowered_by_one_level() {
    let folder = Folder::new().with("listed.yaml", HPA).with("other.yaml", CLAIM);
    let folder = folder.with("kustomization.yaml", "resources: [listed.yaml]\n");
    let run = folder.run(&["check", "-f", "concise", "--select", "invalid-value"]);
    assert!(run.out.contains("warning[invalid-value]"), "{run:#?}");
    let image = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: 'nginx:latest'}]}\n";
    let folder = folder.with("other.yaml", image);
    let run = folder.run(&["check", "-f", "concise", "--select", "image-tag-latest"]);
    assert!(run.out.contains("info[image-tag-latest]"), "{run:#?}");
}
