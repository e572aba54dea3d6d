//! `gpulint check --render` with the real programs, which `tests/cluster/build` builds from their Go modules.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use gpulint_testing::{assets, children, expect_file};
use serde_json::Value;

use crate::support::{Folder, Run, command, finish};

pub(crate) const CHART: &str = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
pub(crate) const MISMATCH: &str = "apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  restartPolicy: Never
  containers:
    - name: a
      image: registry.example.com/a:1.2
      resources:
        requests: {nvidia.com/gpu: 2}
        limits: {nvidia.com/gpu: 1}
";

/// The folder that holds `helm` and `kustomize`.
pub(crate) fn programs() -> Option<PathBuf> {
    let program = |name: &str| assets("KUBEBUILDER_ASSETS", name, "tests/cluster/build");
    program("helm").and(program("kustomize"))?.parent().map(Path::to_owned)
}

pub(crate) fn run_with_path(path: &Path, folder: &Path, args: &[&str]) -> Run {
    let mut command = command(folder, args);
    // Paths in the output of a test must not depend on the machine.
    command.env("PATH", path).stdin(Stdio::null());
    finish(command.output().unwrap())
}

impl Folder {
    fn render(&self, programs: &Path, args: &[&str]) -> Run {
        run_with_path(programs, &self.0, &[&["check", "--render", "-f", "concise"], args].concat())
    }
}

/// Checks a separate repository in both formats.
#[test]
fn repositories_give_what_stands_beside_them() {
    let Some(programs) = programs() else { return };
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/render");
    let mut wrong = Vec::new();
    for (case, args) in
        [("serving", &["--render"][..]), ("overlays", &[]), ("overlays", &["--render", "overlays/prod"])]
    {
        let name = args
            .last()
            .filter(|arg| !arg.starts_with('-'))
            .map_or(case, |arg| arg.rsplit('/').next().unwrap());
        for (format, ending) in [("text", "txt"), ("json", "json")] {
            let args = [&["check", "--all", "-f", format][..], args].concat();
            let run = run_with_path(&programs, &cases.join(case), &args).exits(1);
            if format == "json" {
                run.json();
            }
            let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
            let out = run.out.replace(&version, "\"version\": \"0.0.0\"");
            wrong.extend(expect_file(&cases.join(format!("{name}.{ending}")), &out).err());
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn nothing_is_rendered_unasked() {
    let folder = Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", MISMATCH);
    let run = run_with_path(Path::new("/nonexistent"), &folder.0, &["check"]).exits(0);
    run.prints("1 Helm template not rendered: add --render, or helm template . | gpulint check -");
}

#[test]
fn a_missing_program_is_a_finding_and_the_rest_goes_on() {
    let folder = Folder::new()
        .with("chart/Chart.yaml", CHART)
        .with("chart/templates/a.yaml", MISMATCH)
        .with("over/kustomization.yaml", "resources: [a.yaml]\n")
        .with("over/a.yaml", MISMATCH)
        .with("b.yaml", MISMATCH);
    let run = folder.render(Path::new("/nonexistent"), &[]).exits(2);
    let run = run.prints("chart/Chart.yaml:2:7: error[render-failed] `helm template chart` was not run: there is no `helm` in PATH");
    let run = run.prints("over/kustomization.yaml:1:1: error[render-failed] `kustomize build over` was not run: there is neither");
    // Files that were not rendered are checked as they are written.
    run.prints("over/a.yaml:10:36: error[gpu-limit-mismatch]")
        .prints("b.yaml:10:36: error[gpu-limit-mismatch]");
    let folder = folder.with("gpulint.yaml", "rules: {render-failed: off}\n");
    folder.render(Path::new("/nonexistent"), &[]).exits(1);
}

#[test]
fn a_failed_render_has_the_words_of_the_program() {
    let Some(programs) = programs() else { return };
    for (template, words) in [
        ("a: {{ .Values.b\n", "unclosed action"),
        ("a: [1\n", "YAML parse error on a/templates/a.yaml"),
        ("a: {{ include \"none\" . }}\n", "no template \"none\""),
    ] {
        let folder = Folder::new().with("c/Chart.yaml", CHART).with("c/templates/a.yaml", template);
        let run = folder.with("c/values.yaml", "c: 1\n").render(&programs, &[]).exits(2);
        let run =
            run.prints("c/Chart.yaml:2:7: error[render-failed] `helm template c` failed: ").prints(words);
        assert!(!run.out.contains("/gpulint-"), "{run:?}");
    }
    // What a chart demands of an installation that nothing in the input has is no mistake.
    for (template, words) in [
        ("{{ fail \"not like this\" }}\n", "not like this"),
        ("a: {{ required \"b is needed\" .Values.b }}\n", "b is needed"),
        ("a: {{ .Values.b.c }}\n", "nil pointer"),
        ("{{ $c := index .Values.b \"c\" }}\na: {{ $c }}\n", "of untyped nil"),
    ] {
        let folder = Folder::new().with("c/Chart.yaml", CHART).with("c/templates/a.yaml", template);
        let run = folder.with("c/values.yaml", "c: 1\n").render(&programs, &[]).exits(0);
        let run =
            run.complains("1 chart not rendered, because nothing here gives the values that it demands: c (");
        run.complains(words);
    }
    let chart =
        format!("{CHART}dependencies: [{{name: b, version: 1.0.0, repository: \"https://example.com\"}}]\n");
    let folder = Folder::new().with("Chart.yaml", &chart).with("templates/a.yaml", MISMATCH);
    folder
        .render(&programs, &[])
        .exits(1)
        .prints("templates/a.yaml:10:36: error[gpu-limit-mismatch]")
        .complains("1 chart rendered without dependencies that are not in charts/: . (b)\n");
    for name in ["{{ include \"b.name\" . }}", "{{ template \"b.name\" . }}"] {
        let folder =
            Folder::new().with("c/Chart.yaml", &chart).with("c/templates/a.yaml", format!("a: {name}\n"));
        let run = folder.render(&programs, &[]).exits(0);
        run.complains("1 chart not rendered without dependencies that `helm dependency build` adds: c (b)\n");
    }
    // A dependency may be a link to a chart beside this one.
    #[cfg(unix)]
    {
        let library = CHART.replace("name: a", "name: lib");
        let folder = Folder::new()
            .with("lib/Chart.yaml", library)
            .with("c/Chart.yaml", chart.replace("[{name: b", "[{name: lib, version: 1.0.0}, {name: b"))
            .with("c/templates/a.yaml", MISMATCH)
            .with("c/charts/.keep", "");
        std::os::unix::fs::symlink("../../lib", folder.0.join("c/charts/lib")).unwrap();
        let run = folder
            .render(&programs, &[])
            .exits(1)
            .prints("c/templates/a.yaml:10:36: error[gpu-limit-mismatch]");
        assert!(!run.out.contains("render-failed"), "{run:#?}");
    }
    let folder =
        Folder::new().with("kustomization.yaml", "resources: [absent.yaml]\n").with("a.yaml", MISMATCH);
    let run =
        folder.render(&programs, &[]).exits(2).prints("`kustomize build .` failed: ").prints("absent.yaml");
    assert!(!run.out.contains("/gpulint-"), "{run:?}");
}

const RELEASED: &str = "{{ if not .Values.gpus }}{{ fail \"no gpus\" }}{{ end }}
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
spec:
  restartPolicy: Never
  containers:
    - name: a
      image: {{ .Values.image }}
      resources:
        limits:
          nvidia.com/gpu: {{ .Values.gpus }}
";

fn application(name: &str, helm: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}, namespace: argocd}}\nspec:\n  \
         destination: {{namespace: {name}, server: https://kubernetes.default.svc}}\n  source:\n    \
         repoURL: https://example.com/fleet.git\n    path: charts/a\n    helm:\n{helm}"
    )
}

#[test]
fn a_chart_is_rendered_as_each_object_of_argo_cd_and_flux_installs_it() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with("charts/a/Chart.yaml", CHART)
        .with("charts/a/values.yaml", "image: registry.example.com/a:1.2\n")
        .with("charts/a/templates/a.yaml", RELEASED)
        .with("charts/a/values-two.yaml", "gpus: '2'\n")
        // A number for a quantity, a text that is none.
        .with("apps/one.yaml", application("one", "      valuesObject:\n        gpus: many\n"))
        .with("apps/two.yaml", application("two", "      valueFiles: [values-two.yaml]\n"))
        .with("apps/three.yaml", application("three", "      values: |\n        gpus: 3\n      parameters: [{name: image, value: 'registry.example.com/b,c:1'}]\n"))
        .with(
            "flux/four.yaml",
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: four, namespace: flux-system}\nspec:\n  \
             chart: {spec: {chart: ./charts/a, sourceRef: {kind: GitRepository, name: flux-system}}}\n  \
             values:\n    gpus: some\n",
        )
        .with(
            "flux/five.yaml",
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: five, namespace: flux-system}\nspec:\n  \
             chart: {spec: {chart: ./charts/a, sourceRef: {kind: GitRepository, name: flux-system}}}\n  \
             valuesFrom: [{kind: Secret, name: five}]\n",
        );
    let run = folder.render(&programs, &[]).exits(1);
    // The finding is at the value that made it, in the object that has it.
    let run = run.prints("apps/one.yaml:11:15: error[").prints("flux/four.yaml:7:11: error[");
    let unknown = "1 release of charts not rendered, because not everything is known: HelmRelease `five` (its values come from Secret `five`)\n";
    let run = run.complains(unknown);
    assert!(!run.out.contains("apps/two.yaml") && !run.out.contains("render-failed"), "{run:#?}");
    // What nothing installs is rendered with its own values, which are not enough here.
    let plain = folder.with("apps/one.yaml", "").with("apps/two.yaml", "").with("apps/three.yaml", "");
    let plain = plain.with("flux/four.yaml", "").with("flux/five.yaml", "");
    let demands = "nothing here gives the values that it demands: charts/a";
    plain.render(&programs, &[]).exits(0).complains(demands).complains("no gpus");
    // The configuration replaces what is found.
    let configured = plain
        .with("apps/one.yaml", application("one", "      valuesObject:\n        gpus: many\n"))
        .with("gpulint.yaml", "render: {helm: [{chart: charts/a, values: [values-two.yaml]}]}\n");
    let run = configured.render(&programs, &[]);
    assert!(!run.out.contains("apps/one.yaml"), "{run:#?}");
}

#[test]
fn what_does_not_end_is_ended() {
    let Some(programs) = programs() else { return };
    let template = "{{ range $i := until 2000000 }}{{ range $j := until 2000000 }}{{ end }}{{ end }}\n";
    let folder = Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", template);
    let begin = Instant::now();
    folder.render(&programs, &["--render-limit", "1"]).exits(0).complains("did not end within 1 s");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

/// A chart in the current folder, by its own name, and by one of its files.
#[test]
fn a_chart_is_rendered_however_it_is_named() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with("odd/Chart.yaml", CHART)
        .with("odd/templates/a.yaml", MISMATCH)
        .with("odd/templates/b.yaml", MISMATCH.replace("name: a}", "name: b}"))
        .with("odd/README.json", "{}");
    let both = |run: Run, prefix: &str| {
        for file in ["a", "b"] {
            let line = format!("{prefix}templates/{file}.yaml:10:36: error[gpu-limit-mismatch]");
            assert!(run.out.contains(&line), "no {line} in {run:?}");
        }
    };
    both(folder.render(&programs, &[]).exits(1), "odd/");
    both(folder.render(&programs, &["odd/Chart.yaml"]).exits(1), "odd/");
    let inside = Folder(folder.0.join("odd"));
    both(inside.render(&programs, &[]).exits(1), "");
    std::mem::forget(inside);
    let run = folder.render(&programs, &["odd/templates/b.yaml"]).exits(1);
    let run = run.prints("odd/templates/b.yaml:10:36: error[gpu-limit-mismatch]");
    assert!(!run.out.contains("a.yaml"), "{run:?}");
    // No note is left.
    assert!(!run.out.contains("not rendered"), "{run:?}");
}

const SCALED_OBJECT: &str = "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web}
spec:
  scaleTargetRef: {name: web}
  minReplicaCount: 2
  maxReplicaCount: {{ .Values.most }}
  triggers: [{type: cpu, metricType: Utilization, metadata: {value: '70'}}]
";
const HPA: &str = "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 6
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]
";

/// A chart with an autoscaler in a template, and the other one in a subchart or in `crds`.
#[test]
fn single_files_of_a_chart_are_checked_beside_all_of_it() {
    let Some(programs) = programs() else { return };
    let subchart = "apiVersion: v2\nname: sub\nversion: 1.0.0\n";
    let folder = Folder::new()
        .with("x/Chart.yaml", CHART)
        .with("x/values.yaml", "most: 4\n")
        .with("x/prod.yaml", "most: 0\n")
        .with("envs/stage.yaml", "most: 0\n")
        .with(
            "gpulint.yaml",
            "render: {helm: [{chart: x, values: [prod.yaml]}, {chart: x, values: [envs/stage.yaml]}]}\n",
        )
        .with("x/templates/so.yaml", SCALED_OBJECT)
        .with("x/charts/sub/Chart.yaml", subchart)
        .with("x/charts/sub/templates/hpa.yaml", HPA)
        .with("x/crds/pod.yaml", MISMATCH);
    let check = |args: &[&str]| {
        let select = ["--select", "keda-hpa-conflict,keda-replica-bounds,gpu-limit-mismatch"];
        folder.render(&programs, &[&select, args].concat())
    };
    let run = check(&["x/templates/so.yaml", "-v"]).exits(1);
    let run = run.prints("x/templates/so.yaml:5:26: error[keda-hpa-conflict]");
    let run = run.complains("note: 2 files of `helm template x` are context");
    assert!(!run.out.contains("x/crds"), "{run:?}");
    // With one of the configured values, the minimum is above the maximum.
    let run = run.prints("x/templates/so.yaml:6:20: error[keda-replica-bounds] `minReplicaCount` 2 is above");
    assert!(!run.out.contains("values.yaml") && !run.out.contains("prod.yaml"), "{run:?}");
    // A template of a subchart is one of the chart that is applied.
    let run = check(&["x/charts/sub/templates/hpa.yaml", "-v"]);
    run.complains("note: 2 files of `helm template x` are context");
    let run = check(&["x/templates/so.yaml", "--no-context", "-v"]).exits(1);
    assert!(!run.out.contains("keda-hpa-conflict") && !run.err.contains("context"), "{run:?}");
    // Values are checked through the output that they give.
    let run = check(&["envs/stage.yaml"]).exits(1).prints("envs/stage.yaml:1:7: error[keda-replica-bounds]");
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    check(&["x/prod.yaml"]).exits(1).prints("x/prod.yaml:1:7: error[keda-replica-bounds]");
    // Three renders with three files of values.
    run_with_path(&programs, &folder.0, &["check", "--render", "x/prod.yaml"])
        .exits(1)
        .prints("in 3 files (9 objects)");
    check(&["x/values.yaml"]).exits(0);
    // A file that is installed as it is written has its own location and fix.
    let run = check(&["x/crds/pod.yaml"]).exits(1).prints("x/crds/pod.yaml:10:36: error[gpu-limit-mismatch]");
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    let run = check(&["x"]).exits(1);
    for file in ["x/templates/so.yaml:5:26: ", "x/crds/pod.yaml:10:36: ", "x/prod.yaml:1:7: "] {
        assert!(run.out.contains(file), "no {file} in {run:?}");
    }
    let fixes = ["x/crds/pod.yaml", "--diff", "--unsafe-fixes", "--select", "gpu-limit-mismatch"];
    folder.render(&programs, &fixes).prints("+++ x/crds/pod.yaml");
}

/// A kustomization that is built for a single file is the one that builds it for its cluster.
#[test]
fn single_files_of_a_kustomization_are_built_where_they_are_applied() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with(".git/HEAD", "")
        .with("base/kustomization.yaml", "resources: [so.yaml]\n")
        .with("base/so.yaml", SCALED_OBJECT.replace("{{ .Values.most }}", "4"))
        .with("prod/kustomization.yaml", "resources: [../base, hpa.yaml]\nnamespace: shop\n")
        .with("prod/hpa.yaml", HPA);
    let args = ["--select", "keda-hpa-conflict", "base/so.yaml", "-v"];
    let run = folder.render(&programs, &args).exits(1).prints("base/so.yaml:5:26: error[keda-hpa-conflict]");
    run.complains("`kustomize build prod`");
}

#[test]
fn odd_bytes_are_read_as_everywhere() {
    let Some(programs) = programs() else { return };
    let crlf = MISMATCH.replace('\n', "\r\n");
    let folder = Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", crlf);
    folder.render(&programs, &[]).exits(1).prints("templates/a.yaml:10:36: error[gpu-limit-mismatch]");
    let folder = folder.with("templates/a.yaml", b"kind: A\nb: \xff\xfe\x00\n");
    folder.render(&programs, &[]).exits(2).prints("Chart.yaml:2:7: error[render-failed]");
    // Not of the chart.
    let folder = Folder::new()
        .with("Chart.yaml", CHART)
        .with("templates/a.yaml", MISMATCH)
        .with("files/blob.bin", b"\x00\xff".as_slice())
        .with("templates/NOTES.txt", "{{ .Release.Name }}\n");
    folder.render(&programs, &[]).exits(1).prints("templates/a.yaml:10:36: error[gpu-limit-mismatch]");
}

/// Objects behind a condition are rendered; libraries and tests of a chart are not.
#[test]
fn what_a_cluster_of_ours_gets_is_rendered() {
    let Some(programs) = programs() else { return };
    let gated = format!(
        "{{{{- if .Capabilities.APIVersions.Has \"karpenter.sh/v1/NodePool\" }}}}\n{MISMATCH}{{{{- end }}}}\n"
    );
    let old = gated.replace("karpenter.sh/v1/NodePool", "karpenter.sh/v1alpha5");
    let folder = Folder::new()
        .with("c/Chart.yaml", format!("{CHART}kubeVersion: \">=1.30.0-0\"\n"))
        .with("c/templates/gated.yaml", &gated)
        .with("c/templates/old.yaml", &old)
        .with(
            "c/templates/tests/t.yaml",
            MISMATCH.replace("{name: a}", "{name: t, annotations: {helm.sh/hook: test}}"),
        )
        .with("lib/Chart.yaml", format!("{CHART}type: library\n"))
        .with("lib/templates/_a.tpl", "");
    let run = folder
        .render(&programs, &[])
        .exits(1)
        .prints("c/templates/gated.yaml:11:36: error[gpu-limit-mismatch]");
    assert_eq!(run.out.matches("gpu-limit-mismatch").count(), 1, "{run:?}");
}

/// A comment in a template, in a values file or in a base suppresses a finding on its line.
#[test]
fn suppressions_count_where_a_finding_is_reported() {
    let Some(programs) = programs() else { return };
    let allow = "# gpulint: allow[gpu-limit-mismatch] because\n";
    let template = MISMATCH.replace("        requests:", &format!("        {allow}        requests:"));
    let folder = Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", template);
    let out = folder.render(&programs, &[]).out;
    assert!(!out.contains("gpu-limit-mismatch") && !out.contains("suppression"), "{out}");
    let template = MISMATCH.replace("{nvidia.com/gpu: 2}", "{nvidia.com/gpu: {{ .Values.gpus }}}");
    let folder = Folder::new()
        .with("Chart.yaml", CHART)
        .with("templates/a.yaml", template)
        .with("values.yaml", "gpus: 2\n");
    folder.render(&programs, &[]).exits(1).prints("values.yaml:1:7: error[gpu-limit-mismatch]");
    let folder = folder.with("values.yaml", format!("{allow}gpus: 2\n"));
    let out = folder.render(&programs, &[]).out;
    assert!(!out.contains("gpu-limit-mismatch"), "{out}");
    let folder = Folder::new()
        .with("kustomization.yaml", "resources: [a.yaml]\n")
        .with("a.yaml", MISMATCH.replace("        requests:", &format!("        {allow}        requests:")));
    let out = folder.render(&programs, &[]).out;
    assert!(!out.contains("gpu-limit-mismatch") && !out.contains("suppression"), "{out}");
}

#[test]
fn values_of_the_configuration_are_sets_of_their_own() {
    let Some(programs) = programs() else { return };
    let template =
        MISMATCH.replace("{nvidia.com/gpu: 2}", "{nvidia.com/gpu: {{ required \"gpus\" .Values.gpus }}}");
    let config = "render: {enabled: true, helm: [{chart: c, values: [prod.yaml]}, {chart: ./c, values: [envs/x.yaml]}]}\n";
    let folder = Folder::new()
        .with("gpulint.yaml", config)
        .with("c/Chart.yaml", CHART)
        .with("c/templates/a.yaml", template)
        .with("c/prod.yaml", "gpus: 1\n")
        .with("envs/x.yaml", "{gpus: 4}\n");
    // The chart needs values, and is rendered with two others.
    let run = run_with_path(&programs, &folder.0, &["check"]).exits(1);
    let run = run.prints("[envs/x.yaml:1:8]").prints("rendered by helm template c -f envs/x.yaml");
    let run = run.prints("in 1 of 2 renders: helm template c -f envs/x.yaml");
    assert_eq!(run.out.matches("gpu-limit-mismatch]").count(), 1, "{run:?}");
    let folder =
        folder.with("gpulint.yaml", "render: {enabled: true, helm: [{chart: c, values: [none.yaml]}]}\n");
    let run = run_with_path(&programs, &folder.0, &["check", "-f", "concise"]).exits(2);
    run.prints("`helm template c -f none.yaml` failed: there is no `none.yaml` in the chart");
    for (config, words) in [
        ("render: {helm: [{values: [a]}]}", "`chart` is missing"),
        ("render: {charts: []}", "unknown key `charts` of `render`"),
        ("render: {enabled: maybe}", "expected `true` or `false`"),
    ] {
        let folder = Folder::new().with("gpulint.yaml", config).with("a.yaml", MISMATCH);
        folder.run(&["check"]).exits(2).complains(words);
    }
}

/// A base that is not in the file system is left out with a note. A patch of its objects cannot be applied,
/// which is not an error.
#[test]
fn what_is_not_in_the_file_system_is_left_out() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with("top/kustomization.yaml", "resources: [../base, 'https://example.com/x.yaml']\nhelmCharts: [{name: redis, repo: 'https://example.com'}]\nconfigMapGenerator: [{name: c, files: ['https://example.com/a.sh', 'b=https://example.com/b.sh']}]\nsecretGenerator: [{name: s, envs: ['https://example.com/.env']}]\n")
        .with("base/kustomization.yaml", "resources: [a.yaml, 'github.com/org/repo//deploy?ref=v1']\n")
        .with("base/a.yaml", MISMATCH);
    let args = ["check", "--render", "-f", "json"];
    let report = run_with_path(&programs, &folder.0, &args).exits(1).json();
    let skipped = report["summary"]["skipped"].as_array().unwrap();
    let remote =
        skipped.iter().filter(|one| one["reason"] == "remote-base").map(|one| one["file"].as_str().unwrap());
    let remote: Vec<&str> = remote.collect();
    assert_eq!(
        remote,
        [
            "base/kustomization.yaml: github.com/org/repo//deploy?ref=v1",
            "top/kustomization.yaml: b=https://example.com/b.sh",
            "top/kustomization.yaml: https://example.com/.env",
            "top/kustomization.yaml: https://example.com/a.sh",
            "top/kustomization.yaml: https://example.com/x.yaml",
            "top/kustomization.yaml: redis",
        ]
    );
    let found = &report["diagnostics"][0];
    assert_eq!(found["file"], "base/a.yaml", "{report:#}");
    assert_eq!(found["rendered"]["commands"][0], "kustomize build top");
    // The ConfigMap and the Secret are generated of empty files.
    assert_eq!(report["summary"]["objects"], 3, "{report:#}");
    let folder = folder.with("top/kustomization.yaml", "resources: [../base, 'https://example.com/x.yaml']\npatches: [{patch: '{apiVersion: v1, kind: Pod, metadata: {name: none}, spec: {hostNetwork: true}}'}]\n");
    folder.render(&programs, &[]).exits(1).prints("base/a.yaml:10:36: error[gpu-limit-mismatch]");
}

#[test]
fn broken_syntax_is_reported_of_the_file() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with("kustomization.yaml", "resources: [a.yaml]\n")
        .with("a.yaml", format!("{MISMATCH}metadata: {{name: b}}\n"));
    let run = folder.render(&programs, &[]);
    run.prints("a.yaml:12:1: error[yaml-duplicate-key]");
    fs::remove_file(folder.0.join("a.yaml")).unwrap();
}

/// Every fix that is offered removes its finding from the output of the next render.
#[test]
fn fixes_hold_when_everything_is_rendered_again() {
    let Some(programs) = programs() else { return };
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rules");
    let mut folder = Folder::new();
    let mut count = 0;
    for (number, rule) in children(&rules).into_iter().enumerate().filter(|(number, _)| number % 24 == 0) {
        let Some(file) = children(&rule).into_iter().find(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("fires") && name.ends_with(".yaml")
        }) else {
            continue;
        };
        let text = fs::read_to_string(file).unwrap();
        if text.contains("{{") {
            continue;
        }
        count += 1;
        folder = folder
            .with(&format!("c{number}/Chart.yaml"), CHART)
            .with(
                &format!("c{number}/templates/a.yaml"),
                format!("{{{{ if true }}}}\n{text}\n{{{{ end }}}}\n"),
            )
            .with(&format!("k{number}/kustomization.yaml"), "namePrefix: x-\nresources: [a.yaml]\n")
            .with(&format!("k{number}/a.yaml"), text);
    }
    assert!(count > 12, "{count} rules have a fixture");
    let args = ["check", "--render", "-f", "json"];
    let before = run_with_path(&programs, &folder.0, &args).json();
    // By rule and file: the findings of one rule in one object are numbered, so that their fingerprints move up when one is fixed.
    let counts = |report: &Value, fixable: bool| -> BTreeMap<(String, String), usize> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut counts = BTreeMap::new();
        for one in report["diagnostics"].as_array().unwrap() {
            if !fixable || (one["rendered"].is_object() && one["fix"].is_object()) {
                *counts.entry((text(&one["rule"]), text(&one["file"]))).or_default() += 1;
            }
        }
        counts
    };
    let offered = counts(&before, true);
    let of = |start: &str| -> usize {
        offered.iter().filter(|((_, file), _)| file.starts_with(start)).map(|(_, count)| count).sum()
    };
    assert!(of("c") > 3 && of("k") > 3, "{} in charts, {} in kustomizations", of("c"), of("k"));
    run_with_path(&programs, &folder.0, &["check", "--render", "--fix", "--unsafe-fixes", "-f", "concise"]);
    let after = run_with_path(&programs, &folder.0, &args).json();
    let (found, left) = (counts(&before, false), counts(&after, false));
    let still = counts(&after, true);
    let wrong: Vec<_> = offered
        .iter()
        .filter(|(place, count)| {
            let left = left.get(*place).copied().unwrap_or(0);
            // Of two wrong keys that stand for the same one, only the first can be renamed: no fix is offered then.
            left >= found[*place] || left > found[*place] - *count && still.contains_key(*place)
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let failed = |report: &Value| {
        report["diagnostics"].as_array().unwrap().iter().filter(|one| one["rule"] == "render-failed").count()
    };
    assert_eq!(failed(&before), failed(&after));
}

/// A fix is offered only if the text that it would edit determines the value.
#[test]
fn no_fix_is_offered_where_something_else_says_it() {
    let Some(programs) = programs() else { return };
    let args =
        ["check", "--render", "--diff", "--unsafe-fixes", "--select", "keda-removed-field,render-failed"];
    let scaler = "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: a}
spec:
  scaleTargetRef: {name: a}
  triggers:
    - type: cpu
      metadata: {type: Utilization, value: '80'}
";
    let chart = |template: &str| {
        Folder::new()
            .with("Chart.yaml", CHART)
            .with("templates/a.yaml", template)
            .with("values.yaml", "type: Utilization\nmany: [1, 2]\n")
    };
    let literal = chart(scaler);
    run_with_path(&programs, &literal.0, &args).prints("--- templates/a.yaml");
    for template in [
        scaler.replace("type: Utilization", "type: {{ .Values.type }}"),
        format!("{{{{- range .Values.many }}}}\n---\n{}{{{{- end }}}}\n", scaler),
        format!("{{{{- define \"a\" }}}}\n{scaler}{{{{- end }}}}\n{{{{ include \"a\" . }}}}\n"),
    ] {
        let run = run_with_path(&programs, &chart(&template).0, &args);
        assert!(!run.out.contains("+++") && run.code != Some(2), "{template}{run:?}");
    }
    let base = |patch: &str| {
        Folder::new()
            .with("base/kustomization.yaml", "resources: [a.yaml]\n")
            .with("base/a.yaml", scaler)
            .with("over/kustomization.yaml", format!("resources: [../base]\nnameSuffix: -b\n{patch}"))
    };
    run_with_path(&programs, &base("").0, &args).prints("--- base/a.yaml");
    let patched = base(
        "patches: [{target: {kind: ScaledObject}, patch: '[{\"op\": \"add\", \"path\": \"/spec/triggers/0/metadata/type\", \"value\": \"Utilization\"}]'}]\n",
    );
    let run = run_with_path(&programs, &patched.0, &args);
    assert!(!run.out.contains("+++") && run.code != Some(2), "{run:?}");
    // Two kustomizations build one base, and only one of them has the finding.
    let folder = base("").with("other/kustomization.yaml", "resources: [../base]\npatches: [{target: {kind: ScaledObject}, patch: '[{\"op\": \"remove\", \"path\": \"/spec/triggers/0/metadata/type\"}]'}]\n");
    let run = run_with_path(&programs, &folder.0, &args);
    assert!(!run.out.contains("+++") && run.code != Some(2), "{run:?}");
    // The output of the other kustomization is not known.
    let folder = base("").with("other/kustomization.yaml", "resources: [../base, absent.yaml]\n");
    let run = run_with_path(&programs, &folder.0, &args).exits(2);
    assert!(!run.out.contains("+++"), "{run:?}");
}

/// The output of a kustomization is checked with the other files of its set, but not with those of another
/// one.
#[test]
fn rendered_objects_meet_those_of_their_set() {
    let Some(programs) = programs() else { return };
    let deployment = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: registry.example.com/web:1.2
          resources: {requests: {cpu: '1', memory: 1Gi}}
          readinessProbe: {httpGet: {path: /, port: 80}}
";
    let budget = "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: a}
spec:
  minAvailable: 3
  selector: {matchLabels: {app: web}}
";
    let folder = Folder::new()
        .with("gpulint.yaml", "clusters: [\"clusters/*\"]\nrender: {enabled: true}\n")
        .with("clusters/prod/apps/kustomization.yaml", "resources: [web.yaml]\n")
        .with("clusters/prod/apps/web.yaml", deployment)
        .with("clusters/prod/budgets/kustomization.yaml", "resources: [web.yaml]\n")
        .with("clusters/prod/budgets/web.yaml", budget)
        .with("clusters/stage/apps/kustomization.yaml", "resources: [web.yaml]\n")
        .with("clusters/stage/apps/web.yaml", deployment.replace("replicas: 3", "replicas: 4"))
        .with("clusters/stage/budget.yaml", budget);
    let args = ["check", "-f", "json", "--select", "pdb-blocks-evictions,pdb-missing"];
    let report = run_with_path(&programs, &folder.0, &args).exits(1).json();
    let found = report["diagnostics"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{report:#}");
    assert_eq!(found[0]["file"], "clusters/prod/budgets/web.yaml");
    assert_eq!(found[0]["sets"][0], "prod");
    assert_eq!(found[0]["rendered"]["commands"][0], "kustomize build clusters/prod/budgets");
    assert_eq!(found[0]["related"][0]["file"], "clusters/prod/apps/web.yaml");
}

#[test]
fn rendered_findings_are_suppressed_and_known_where_their_text_is() {
    let Some(programs) = programs() else { return };
    let template = MISMATCH.replace("name: a}", "name: \"{{ .Release.Name }}\"}");
    let folder = Folder::new()
        .with("chart/Chart.yaml", CHART)
        .with("chart/templates/a.yaml", &template)
        .with("over/kustomization.yaml", "resources: [a.yaml]\n")
        .with("over/a.yaml", MISMATCH);
    let select = ["--select", "gpu-limit-mismatch,suppression", "."];
    let run = |args: &[&str]| folder.render(&programs, &[args, &select[..]].concat());
    run(&["--write-baseline", "known.yaml"]).exits(0).complains("wrote 2 findings to known.yaml");
    let baseline = std::fs::read_to_string(folder.0.join("known.yaml")).unwrap();
    assert_eq!(baseline.matches("rendered: true").count(), 2, "{baseline}");
    assert_eq!(run(&["--baseline", "known.yaml"]).exits(0).err, "");
    // Without rendering, it is not known whether they still exist.
    let plain =
        ["check", "--baseline", "known.yaml", "--update-baseline", "--select", "gpu-limit-mismatch", "."];
    folder.run(&plain).exits(0).complains("known.yaml: no entry to remove");
    let added = run(&["--add-suppressions"]).exits(1).complains("note: wrote 1 comment in 1 file");
    added
        .complains("chart/templates/a.yaml:10: gpu-limit-mismatch is not suppressed: it is in a template")
        .prints("chart/templates/a.yaml:10:36: error[gpu-limit-mismatch]");
    assert_eq!(std::fs::read_to_string(folder.0.join("chart/templates/a.yaml")).unwrap(), template);
    let over = std::fs::read_to_string(folder.0.join("over/a.yaml")).unwrap();
    assert!(
        over.contains("        # gpulint: allow[gpu-limit-mismatch] was here before gpulint\n"),
        "{over}"
    );
}

/// What the only kustomization of a folder gives is the whole cluster with `--complete`; beside other objects it is not.
#[test]
fn the_only_output_may_be_a_complete_cluster() {
    let Some(programs) = programs() else { return };
    let scaled = "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: pricing, namespace: x}
spec:
  scaleTargetRef: {name: pricing}
  maxReplicaCount: 10
  triggers:
    - {type: kubernetes-workload, metadata: {podSelector: app=client, value: \"4\"}}
";
    let folder = Folder::new()
        .with("a/kustomization.yaml", "namePrefix: eu-\nresources: [a.yaml]\n")
        .with("a/a.yaml", scaled);
    let args = ["--complete", "--select", "keda-target-missing", "."];
    let run = folder.render(&programs, &args).exits(1);
    assert!(run.out.starts_with("a/a.yaml:5:26: error[keda-target-missing]"), "{run:?}");
    let beside = folder.with("b.yaml", MISMATCH);
    let run = beside.render(&programs, &args).exits(0);
    assert!(!run.out.contains("keda-target-missing"), "{run:?}");
}

const SERVER: &str = "# A server.
{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, namespace: vision}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers:
        - name: serve
          image: registry.example.com/serve:1.2
          resources: {requests: {cpu: 2, memory: 8Gi}, limits: {nvidia.com/gpu: 1, memory: 8Gi}}
{{- end }}
";
const POOL: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g6.2xlarge]}]
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  limits: {nvidia.com/gpu: 8}
";

/// A chart with a server, and a kustomization with its NodePool.
#[test]
fn why_and_pools_take_what_is_rendered() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with("chart/Chart.yaml", CHART)
        .with("chart/values.yaml", "enabled: true\nreplicas: 3\n")
        .with("chart/templates/serve.yaml", SERVER)
        .with("pools/kustomization.yaml", "namePrefix: prod-\nresources: [pool.yaml]\n")
        .with("pools/pool.yaml", format!("# A pool.\n---\n{POOL}"));
    let run = |args: &[&str]| run_with_path(&programs, &folder.0, args);
    let missing = run(&["why", "deployment/serve"]).exits(2);
    assert!(missing.err.contains("no workload deployment/serve found"), "{missing:?}");
    for target in ["deployment/serve", "chart/templates/serve.yaml", "chart/templates/serve.yaml:5"] {
        let why = run(&["why", target, "--render"]).exits(0);
        let why = why.prints("chart/templates/serve.yaml:4").prints("prod-gpu");
        assert!(!why.out.contains("error"), "{why:?}");
    }
    let pools = run(&["pools", "--render", "--capacity", "--format", "json"]).exits(0);
    let pools: serde_json::Value = serde_json::from_str(&pools.out).unwrap();
    let text = pools.to_string();
    assert!(text.contains("pools/pool.yaml") && text.contains("\"line\":4"), "{pools:#}");
    assert!(text.contains("prod-gpu"), "{pools:#}");
    // The configuration asks for it, and what fails is said.
    let folder = folder.with("gpulint.yaml", "render: {enabled: true}\n");
    let run = |args: &[&str]| run_with_path(&programs, &folder.0, args);
    run(&["why", "deployment/serve"]).exits(0).prints("prod-gpu");
    std::fs::write(folder.0.join("chart/values.yaml"), "enabled: {{\n").unwrap();
    run(&["pools"]).complains("`helm template chart` failed: ");
}

/// A chart that a kustomization inflates with other values than its own, beside one that is not in the checkout.
#[test]
fn charts_of_a_kustomization_are_inflated() {
    let Some(programs) = programs() else { return };
    let kustomization = "helmCharts:
  - {name: a, releaseName: one, valuesInline: {gpus: 3}}
  - {name: elsewhere, repo: https://charts.example.com, version: 1.2.3}
";
    let template =
        MISMATCH.replace("requests: {nvidia.com/gpu: 2}", "requests: {nvidia.com/gpu: {{ .Values.gpus }}}");
    let folder = Folder::new()
        .with("prod/kustomization.yaml", kustomization)
        .with("prod/charts/a/Chart.yaml", CHART)
        .with("prod/charts/a/values.yaml", "gpus: 2\n")
        .with("prod/charts/a/templates/a.yaml", template);
    let run = folder.render(&programs, &["--select", "gpu-limit-mismatch,render-failed"]).exits(1);
    let run = run.prints("prod/kustomization.yaml:2:12: error[gpu-limit-mismatch]").prints("3");
    assert_eq!(run.out.matches("error[").count(), 1, "{run:?}");
}

/// Two overlays of one base: each is a whole cluster with `--complete`, has its own answer of `why`, and is changed at the line of
/// the base.
#[test]
fn overlays_are_sets_of_their_own() {
    let Some(programs) = programs() else { return };
    let side = |folder: Folder, side: &str, types: &str| {
        let pool = POOL.replace("[g6.2xlarge]", types);
        ["prod", "stage"].into_iter().fold(
            folder
                .with(&format!("{side}/base/kustomization.yaml"), "resources: [pool.yaml, serve.yaml]\n")
                .with(&format!("{side}/base/pool.yaml"), format!("# A pool.\n---\n{pool}"))
                .with(&format!("{side}/base/serve.yaml"), SERVED),
            |folder, name| {
                let file = format!("{side}/overlays/{name}/kustomization.yaml");
                folder.with(&file, format!("namespace: {name}\nresources: [../../base]\n"))
            },
        )
    };
    let folder = side(side(Folder::new(), "before", "[g6.2xlarge]"), "after", "[g6.4xlarge]");
    let inside = folder.0.join("after");
    let run = |args: &[&str]| run_with_path(&programs, &inside, args);
    let select = ["check", "--render", "-f", "concise", "--select", "node-class-missing", "--complete"];
    run(&select).exits(1).prints("error[node-class-missing] there is no EC2NodeClass `gpu`");
    for target in ["deployment/serve", "base/serve.yaml", "base/serve.yaml:2"] {
        let why = run(&["why", "--render", target]).exits(0);
        let why = why.prints("Deployment prod/serve (base/serve.yaml:2) in kustomize build overlays/prod ");
        why.prints("Deployment stage/serve (base/serve.yaml:2) in kustomize build overlays/stage ");
    }
    let one = run(&["why", "--render", "serve", "--set", "kustomize build overlays/prod"]).exits(0);
    assert!(one.out.contains("prod/serve") && !one.out.contains("stage"), "{one:#?}");
    let args = ["plan", "--render", "--before", "before", "--after", "after"];
    let plan = run_with_path(&programs, &folder.0, &args).exits(0);
    plan.prints("(base/pool.yaml:4)")
        .prints("In each of kustomize build overlays/prod, kustomize build overlays/stage:");
}

#[test]
fn overlays_that_nothing_applies_are_not_in_the_cluster_of_the_others() {
    let Some(programs) = programs() else { return };
    let application = "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: apps, namespace: argocd}
spec:
  generators: [{list: {elements: [{path: overlays/prod}]}}]
  template:
    metadata: {name: serve}
    spec:
      project: default
      source: {repoURL: https://git.example.com/fleet.git, targetRevision: main, path: '{{path}}'}
      destination: {server: https://kubernetes.default.svc, namespace: serve}
";
    let overlay = |folder: Folder, name: &str| {
        let text =
            format!("namespace: serve\nresources: [../../base]\nlabels: [{{pairs: {{tier: {name}}}}}]\n");
        folder.with(&format!("overlays/{name}/kustomization.yaml"), text)
    };
    let folder = Folder::new()
        .with("argo/apps.yaml", application)
        .with("base/kustomization.yaml", "resources: [pool.yaml, serve.yaml]\n")
        .with("base/pool.yaml", POOL)
        .with("base/serve.yaml", SERVED);
    let folder = overlay(overlay(folder, "prod"), "stage");
    let run = run_with_path(&programs, &folder.0, &["why", "--render", "deployment/serve"]).exits(0);
    run.prints("Deployment serve/serve (base/serve.yaml:2) in in-cluster ")
        .prints("Deployment serve/serve (base/serve.yaml:2) in kustomize build overlays/stage ");
}

const SERVED: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 2
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers:
        - name: serve
          image: registry.example.com/serve:1.2
          resources: {requests: {cpu: 2, memory: 8Gi}, limits: {nvidia.com/gpu: 1, memory: 8Gi}}
";

/// What a configuration names and does not exist is not passed over.
#[test]
fn a_chart_of_the_configuration_exists() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new()
        .with("charts/serving/Chart.yaml", CHART)
        .with("charts/serving/templates/pod.yaml", MISMATCH)
        .with("gpulint.yaml", "render:\n  helm:\n  - {chart: charts/servin, values: [values.yaml]}\n");
    let run = folder.render(&programs, &["."]).exits(2);
    run.complains("error: gpulint.yaml:3:5: there is no chart `charts/servin`; did you mean `serving`?\n");
    folder.run(&["check", "."]).exits(0);
}

/// One place may have several findings of a rule, each with its fix.
#[test]
fn findings_of_one_place_stay_apart() {
    let Some(programs) = programs() else { return };
    const RULE: &str = "apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: pools, namespace: monitoring}
spec:
  groups:
    - name: pools
      rules:
        - alert: PoolAlmostFull
          expr: sum(karpenter_nodepool_usage) / sum(karpenter_nodepool_limit) > 0.8
";
    let folder =
        Folder::new().with("a/rule.yaml", RULE).with("a/kustomization.yaml", "resources: [rule.yaml]\n");
    let select = ["--select", "karpenter-metric-renamed", "a"];
    let run = folder.render(&programs, &select).exits(1);
    for metric in ["usage", "limit"] {
        assert!(run.out.contains(&format!("`karpenter_nodepool_{metric}`")), "{run:#?}");
    }
    run.prints("2 warnings in 1 file (1 object); 2 fixable with --fix");
    folder.render(&programs, &[&["--fix"], &select[..]].concat()).exits(0).prints("2 fixed, 0 left: ");
}

/// A chart whose only value is a number of GPUs, which must be an integer.
fn gpus(folder: Folder, values: &str) -> Folder {
    let template = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n  namespace: {{ .Release.Namespace }}\nspec:\n  \
                    containers:\n    - name: a\n      image: registry.example.com/a:1.2\n      resources:\n        limits:\n          \
                    nvidia.com/gpu: {{ .Values.gpus }}\n";
    let folder = folder.with("charts/a/Chart.yaml", CHART).with("charts/a/templates/a.yaml", template);
    folder.with("charts/a/values.yaml", values).with(".git/HEAD", "")
}

fn application_set(generator: &str, helm: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: all, namespace: argocd}}\nspec:\n  goTemplate: true\n  \
         generators:\n    - {generator}\n  template:\n    metadata: {{name: 'a-{{{{.env}}}}'}}\n    spec:\n      \
         destination: {{namespace: a, server: https://kubernetes.default.svc}}\n      \
         source: {{repoURL: https://example.com/fleet.git, path: charts/a, helm: {helm}}}\n"
    )
}

const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: a, namespace: flux-system}
spec:
  chart: {spec: {chart: ./charts/a, sourceRef: {kind: GitRepository, name: flux-system}}}
";

const MISMATCHED: &str = "error[gpu-limit-mismatch]";

#[test]
fn a_chart_has_no_values_that_something_replaces() {
    let Some(programs) = programs() else { return };
    // Keys of files, which name the files with the values.
    let files = "git: {repoURL: https://example.com/fleet.git, files: [{path: envs/*/config.json}]}";
    let folder = gpus(Folder::new(), "gpus: 0.5\n")
        .with("envs/dev/config.json", "{\"env\": \"dev\"}")
        .with("envs/dev/values.yaml", "gpus: 1\n")
        .with("set.yaml", application_set(files, "{valueFiles: ['/{{.path.path}}/values.yaml']}"));
    let run = folder.render(&programs, &["-v"]);
    assert!(!run.out.contains(MISMATCHED), "{run:#?}");
    run.complains("charts/a as Application `a-dev` does: charts/a/values.yaml, envs/dev/values.yaml");
    // Only the cluster knows a value, or what another program adds.
    let other = "clusters: {}";
    for (helm, more, words) in [
        ("{valueFiles: ['{{.name}}.yaml']}", "", "only the cluster knows"),
        (
            "{}",
            "  templatePatch: '{{if .a}}spec: {source: {helm: {values: x}}}{{end}}'\n",
            "its `templatePatch` may change it",
        ),
    ] {
        let set = application_set(other, helm) + more;
        let run = gpus(Folder::new(), "gpus: 0.5\n").with("set.yaml", set).render(&programs, &[]);
        assert!(!run.out.contains(MISMATCHED) && !run.out.contains("render-failed"), "{run:#?}");
        run.complains(words);
    }
    // A kustomization changes the object that installs the chart.
    let patch = "resources: [a.yaml]\npatches:\n  - target: {kind: HelmRelease}\n    patch: |\n      \
                 - {op: add, path: /spec/values, value: {gpus: 1}}\n";
    let folder = gpus(Folder::new(), "gpus: 0.5\n").with("apps/a.yaml", RELEASE);
    let run = folder.with("apps/kustomization.yaml", patch).render(&programs, &[]);
    assert!(!run.out.contains(MISMATCHED), "{run:#?}");
    // A patch of the template is merged for each element; what decides nothing about the chart is passed over.
    let list = "list: {elements: [{env: dev, gpus: 1}, {env: prod, gpus: 2}]}";
    for patch in [
        "spec: {source: {helm: {valuesObject: {gpus: {{.gpus}}}}}}",
        "{{if .sync}}spec: {syncPolicy: {automated: {}}}{{end}}",
    ] {
        let helm = if patch.contains("helm") { "{}" } else { "{valuesObject: {gpus: '{{.gpus}}'}}" };
        let set = application_set(list, helm) + &format!("  templatePatch: '{patch}'\n");
        let run = gpus(Folder::new(), "gpus: 0.5\n").with("set.yaml", set).render(&programs, &["-v"]);
        assert!(!run.out.contains(MISMATCHED), "{run:#?}");
        run.complains("as Application `a-dev` does").complains("as Application `a-prod` does");
    }
    // A list of the patch replaces that of the template, whose items are then in other places.
    let helm = "{parameters: [{name: other, value: '0.5'}]}";
    let patch = "spec: {source: {helm: {parameters: [{name: gpus, value: \"0.5\"}]}}}";
    let set =
        application_set("list: {elements: [{env: dev}]}", helm) + &format!("  templatePatch: '{patch}'\n");
    let run = gpus(Folder::new(), "gpus: 1\n").with("set.yaml", set).render(&programs, &[]);
    assert!(!run.out.lines().any(|line| line.contains("set.yaml") && line.contains(MISMATCHED)), "{run:#?}");
    // What a post-renderer sets is not what the chart gives; the rest is.
    let post = |path: &str| {
        let patch = format!("- {{op: replace, path: {path}, value: x}}");
        let renderer = format!("{{kustomize: {{patches: [{{target: {{kind: Pod}}, patch: \"{patch}\"}}]}}}}");
        let folder = gpus(Folder::new(), "gpus: 0.5\n");
        folder.with("apps/a.yaml", format!("{RELEASE}  postRenderers: [{renderer}]\n")).render(&programs, &[])
    };
    let run = post("/spec/containers/0/resources/limits");
    assert!(!run.out.contains(MISMATCHED), "{run:#?}");
    post("/spec/containers/0/image").prints(MISMATCHED);
    // A kustomization generates the values, under a name that it completes.
    let from = format!("{RELEASE}  valuesFrom: [{{kind: ConfigMap, name: values}}]\n");
    let names = "nameReference:\n  - kind: ConfigMap\n    version: v1\n    fieldSpecs: [{kind: HelmRelease, path: spec/valuesFrom/name}]\n";
    let generator = "namespace: flux-system\nresources: [a.yaml]\nconfigurations: [names.yaml]\nconfigMapGenerator: [{name: values, files: \
                     [values.yaml]}]\n";
    let folder = gpus(Folder::new(), "gpus: 0.5\n").with("apps/a.yaml", from);
    let folder = folder.with("apps/kustomization.yaml", generator).with("apps/names.yaml", names);
    let run = folder.with("apps/values.yaml", "gpus: 1\n").render(&programs, &["-v"]);
    assert!(!run.out.contains(MISMATCHED), "{run:#?}");
    run.complains("as HelmRelease `a` does");
    // `valuesFiles` stand for the chart's own values.
    let release =
        RELEASE.replace("chart: ./charts/a,", "chart: ./charts/a, valuesFiles: [charts/a/other.yaml],");
    let folder = gpus(Folder::new(), "gpus: 0.5\n").with("apps/a.yaml", release);
    let run = folder.with("charts/a/other.yaml", "x: 1\n").render(&programs, &[]);
    assert!(!run.out.contains(MISMATCHED), "{run:#?}");
    // A chart gives the Application that installs another chart.
    let root = "repo: https://example.com/fleet.git\n";
    let folder = gpus(Folder::new(), "gpus: 0.5\n")
        .with("root/Chart.yaml", CHART.replace("name: a", "name: root"))
        .with("root/values.yaml", root)
        .with(
            "root/templates/a.yaml",
            application("a", "      valuesObject: {gpus: 2}\n")
                .replace("https://example.com/fleet.git", "{{ .Values.repo }}"),
        );
    let run = folder.render(&programs, &[]);
    assert!(!run.out.contains(MISMATCHED), "{run:#?}");
}

/// A chart that nothing installs has values that stand for those of an installation.
#[test]
fn what_an_installation_gives_is_no_mistake_of_a_chart() {
    let Some(programs) = programs() else { return };
    let pod = |more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a{more}\nspec:\n  containers: [{{name: a, image: 'a:1'}}]\n"
        )
    };
    let folder =
        Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", pod("-{{ .Values.version }}"));
    folder
        .render(&programs, &["--infos"])
        .exits(0)
        .prints("a.yaml:4:9: info[invalid-value]")
        .prints("leave `version` open");
    let with_default = folder.with("templates/a.yaml", pod("-{{ .Values.version | default \"\" }}"));
    with_default.render(&programs, &[]).exits(1).prints("error[invalid-value]");
    // A subchart has values of its own.
    let claim = "  volumes:\n    - name: v\n      persistentVolumeClaim:\n        claimName: {{ .Values.claim | quote }}\n";
    let folder = Folder::new()
        .with("Chart.yaml", CHART)
        .with("charts/b/Chart.yaml", CHART.replace("name: a", "name: b"))
        .with("charts/b/values.yaml", "claim: \"\"\n")
        .with("charts/b/templates/b.yaml", pod("") + claim);
    folder.render(&programs, &["--infos"]).exits(0).prints("charts/b/values.yaml:1:8: info[invalid-value]");
    let folder = folder.with("values.yaml", "b: {claim: data}\n");
    folder.render(&programs, &[]).exits(0).prints("no findings");
    // Without them the text is no YAML, or a function gets nothing.
    for template in ["data: {{ .Values.a }}: {{ .Values.b }}\n", "data: {{ .Values.a | indent 2 }}\n"] {
        let folder = Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", template);
        let run = folder.render(&programs, &[]).exits(0);
        run.complains("nothing here gives the values that it demands: .");
    }
    // A namespace as well.
    let refuses =
        "{{ if eq .Release.Namespace \"default\" }}{{ fail \"not in the 'default' namespace\" }}{{ end }}\n";
    let folder =
        Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", format!("{refuses}{}", pod("")));
    folder.render(&programs, &[]).exits(0).prints("1 object");
    // The first versions of charts list their dependencies in a file of their own.
    let folder = Folder::new()
        .with("Chart.yaml", CHART.replace("v2", "v1"))
        .with(
            "requirements.yaml",
            "dependencies: [{name: b, version: 1.0.0, repository: 'https://charts.example.com'}]\n",
        )
        .with("templates/a.yaml", pod(""));
    let run = folder.render(&programs, &[]).exits(0).prints("1 object");
    run.complains("rendered without dependencies that are not in charts/: . (b)");
}

/// A pod of one chart and a pool beside it are in the cluster that an Application of each names.
#[test]
fn what_one_cluster_gets_is_asked_together() {
    let Some(programs) = programs() else { return };
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n      \
                nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      \
                requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}]\n";
    let folder = gpus(Folder::new(), "gpus: 1\n")
        .with("nodes/pool.yaml", pool)
        .with("apps/a.yaml", application("a", "      valuesObject: {gpus: 1}\n"))
        .with("apps/nodes.yaml", application("nodes", "").replace("charts/a\n    helm:\n", "nodes\n"));
    let run = run_with_path(&programs, &folder.0, &["why", "--render", "Pod/a"]);
    assert!(run.out.contains("gpu"), "{run:#?}");
}

#[cfg(unix)]
#[test]
fn values_behind_links_are_those_of_the_file() {
    let Some(programs) = programs() else { return };
    let folder = gpus(Folder::new(), "gpus: 1\n")
        .with("shared/prod.yaml", "gpus: 0.5\n")
        .with("envs/README.md", "")
        .with("apps/a.yaml", application("a", "      valueFiles: [../../envs/prod.yaml]\n"));
    std::os::unix::fs::symlink("../shared/prod.yaml", folder.0.join("envs/prod.yaml")).unwrap();
    folder.render(&programs, &[]).exits(1).prints("shared/prod.yaml:1:7: error[gpu-limit-mismatch]");
    // The values are of the chart that is checked.
    folder.render(&programs, &["charts/a", "apps"]).exits(1).prints("shared/prod.yaml:1:7: error[");
}

#[test]
fn a_chart_gets_what_helm_would_get_for_it() {
    let Some(programs) = programs() else { return };
    let old = format!("{CHART}kubeVersion: '<1.34.0-0'\n");
    let folder = gpus(Folder::new(), "gpus: 0.5\n").with("charts/a/Chart.yaml", old);
    folder.render(&programs, &[]).exits(1).prints("charts/a/values.yaml:1:7: error[gpu-limit-mismatch]");
    let stated = folder.with("gpulint.yaml", "platform: {kubernetes: '1.36'}\n");
    run_with_path(&programs, &stated.0, &["check", "--render"]).exits(2).prints("`platform.kubernetes`");
    // A library beside the chart.
    let library = "{{ define \"b.pod\" }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n{{ end }}\n";
    let chart = format!("{CHART}dependencies: [{{name: b, version: 1.0.0, repository: 'file://../b'}}]\n");
    let folder = Folder::new()
        .with("charts/b/Chart.yaml", CHART.replace("name: a", "name: b\ntype: library"))
        .with("charts/b/templates/_b.tpl", library)
        .with("charts/a/Chart.yaml", chart)
        .with("charts/a/templates/a.yaml", "{{ include \"b.pod\" . }}\n");
    folder.render(&programs, &[]).exits(0).prints("1 object");
    // Nothing is no failure.
    let folder =
        Folder::new().with("Chart.yaml", CHART).with("templates/a.yaml", "{{ if .Values.a }}a: 1{{ end }}\n");
    folder.render(&programs, &[]).exits(0).complains("1 render without objects: `helm template .`");
    // A name and a namespace of the configuration.
    let folder = gpus(Folder::new(), "gpus: 0.5\n");
    let folder =
        folder.with("gpulint.yaml", "render: {helm: [{chart: charts/a, name: web, namespace: ml}]}\n");
    folder.render(&programs, &["--select", "bare-gpu-pod"]).prints("`web`");
}

#[test]
fn a_value_is_shown_and_mended_where_it_is_written() {
    let Some(programs) = programs() else { return };
    let at = |helm: &str, place: &str| {
        let folder = gpus(Folder::new(), "gpus: 1\n").with("apps/a.yaml", application("a", helm));
        let run = folder.render(&programs, &[]).exits(1);
        run.prints(&format!("apps/a.yaml:{place}: error[gpu-limit-mismatch]"));
    };
    at("      parameters: [{name: gpus, value: '0.5'}]\n", "10:40");
    at("      values: |\n        # text\n        gpus: 0.5\n", "12:15");
    let chart = "helmGlobals: {chartHome: charts}\nhelmCharts:\n  - {name: a, releaseName: x}\n";
    let folder = gpus(Folder::new(), "gpus: 0.5\n").with("kustomization.yaml", chart);
    let run =
        folder.render(&programs, &[]).exits(1).prints("kustomization.yaml:3:12: error[gpu-limit-mismatch]");
    assert!(!run.out.contains("not rendered"), "{run:#?}");
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  disruption: {consolidationPolicy: {{ .Values.policy }}, consolidateAfter: 5m}\n  \
                template: {spec: {expireAfter: Never, nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}, requirements: []}}\n";
    let folder = Folder::new()
        .with("Chart.yaml", CHART)
        .with("values.yaml", "# how nodes end\npolicy: WhenUnderutilized # old\n")
        .with(
            "templates/a.yaml",
            pool.replace(
                "{consolidationPolicy: {{ .Values.policy }}, consolidateAfter: 5m}",
                "\n    consolidationPolicy: {{ .Values.policy }}\n    consolidateAfter: 5m",
            ),
        );
    folder.render(&programs, &["--fix", "--unsafe-fixes", "--select", "invalid-value"]);
    let values = fs::read_to_string(folder.0.join("values.yaml")).unwrap();
    assert!(values.starts_with("# how nodes end\npolicy: WhenEmptyOrUnderutilized # old"), "{values}");
}

/// A base that two Kustomizations of Flux apply, each in its own way; what else Git does not have is empty.
#[test]
fn flux_builds_a_kustomization_in_its_own_way() {
    let Some(programs) = programs() else { return };
    let kustomization = |name: &str, fields: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: {name}, namespace: flux-system}}\nspec:\n  path: ./app\n  prune: true\n  \
             interval: 1h\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{fields}"
        )
    };
    let patch = "  patches:\n  - target: {kind: Pod}\n    patch: |\n      - {op: replace, \
                 path: /spec/containers/0/resources/limits, value: {nvidia.com/gpu: COUNT}}\n";
    let listed = "resources: [a.yaml]\nsecretGenerator: [{name: s, envs: [.env]}]\n";
    let folder = Folder::new()
        .with("app/kustomization.yaml", listed)
        .with("app/a.yaml", MISMATCH.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: '${GPUS}'"))
        .with("clusters/a/app.yaml", kustomization("app", &patch.replace("COUNT", "\"2\"")))
        .with(".gitignore", ".env\n");
    let run = |folder: &Folder| folder.render(&programs, &["--select", "gpu-limit-mismatch,render-failed"]);
    let found = run(&folder)
        .exits(0)
        .complains("rendered with empty stand-ins for 1 file that Git ignores: app/.env");
    assert!(found.out.is_empty() || !found.out.contains("error"), "{found:#?}");
    let other = kustomization(
        "app",
        &format!("{}  postBuild: {{substitute: {{GPUS: \"3\"}}}}\n", patch.replace("COUNT", "\"1\"")),
    );
    let folder = folder.with("clusters/b/app.yaml", other);
    let found = run(&folder).exits(1);
    let found =
        found.prints("app/a.yaml:10:36: error[gpu-limit-mismatch] the request of `nvidia.com/gpu` (3)");
    assert!(!found.out.contains("render-failed"), "{found:#?}");
}

/// The Kustomization of Flux is outside of what is built, and names the folder of an overlay.
#[test]
fn who_applies_what_is_built_is_known() {
    let Some(programs) = programs() else { return };
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: fill}\nspec:\n  ttlSecondsAfterFinished: 300\n  \
               backoffLimit: 2\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n        \
               - {name: a, image: \"registry.example.com/a:1.2\"}\n";
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps, namespace: flux-system}\n\
                spec:\n  path: ./apps/prod\n  prune: true\n  interval: 1h\n  \
                sourceRef: {kind: GitRepository, name: flux-system}\n";
    let folder = Folder::new()
        .with("apps/prod/kustomization.yaml", "resources: [../base]\n")
        .with("apps/base/kustomization.yaml", "namespace: x\nresources: [job.yaml]\n")
        .with("apps/base/job.yaml", job)
        .with("clusters/prod/apps.yaml", flux);
    let run = folder.render(&programs, &["--select", "finished-job-kept"]);
    run.prints("apps/base/job.yaml:5:3: warning[finished-job-kept] Flux creates `fill` again");
}

/// What is not rendered and names a rendered object meets it.
#[test]
fn objects_beside_a_kustomization_meet_what_they_name() {
    let Some(programs) = programs() else { return };
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: serve, namespace: x}\n\
                  spec: {minAvailable: 2, selector: {matchLabels: {app: serve}}}\n";
    let scaled = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: serve, namespace: x}\nspec:\n  \
                  scaleTargetRef: {name: serve}\n  minReplicaCount: 4\n  maxReplicaCount: 10\n  triggers:\n    \
                  - {type: kubernetes-workload, metadata: {podSelector: app=client, value: \"4\"}}\n";
    let folder = Folder::new()
        .with("k8s/kustomization.yaml", "namespace: x\nresources: [serve.yaml, budget.yaml]\n")
        .with("k8s/serve.yaml", SERVED)
        .with("k8s/budget.yaml", budget);
    let args = ["--select", "pdb-blocks-evictions"];
    folder.render(&programs, &args).exits(1).prints("k8s/budget.yaml:4:22: error[pdb-blocks-evictions]");
    let run = folder.with("k8s/keda/scaled.yaml", scaled).render(&programs, &args).exits(0);
    assert!(!run.out.contains("pdb-blocks-evictions"), "{run:#?}");
}
