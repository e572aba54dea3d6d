//! Ways to shorten a report: folded lines, one finding per file, and placeholders that tools fill in.

use crate::support::Folder;

/// A Service in a namespace of its own.
fn service(name: &str, port: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n"
    )
}

/// An EC2NodeClass with a placeholder in its role.
fn class(placeholder: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: gpu}}\nspec:\n  role: \"nodes-{placeholder}\"\n  \
         amiSelectorTerms: [{{alias: al2023@v20250807}}]\n  subnetSelectorTerms: [{{tags: {{a: b}}}}]\n  \
         securityGroupSelectorTerms: [{{tags: {{a: b}}}}]\n"
    )
}

#[test]
fn lines_that_read_alike_are_one() {
    let mut folder = Folder::new();
    for number in 0..8 {
        folder =
            folder.with(&format!("{number}.yaml"), service(&format!("s{number}"), &format!("7000{number}")));
    }
    folder = folder.with("9.yaml", service("ok", "seventy"));
    // Editors read the lines of a pipe, and need each place.
    let run = folder.run(&["check", "-f", "concise", "--quiet"]).exits(1);
    assert_eq!(run.out.lines().count(), 9, "{run:#?}");
    folder
        .run(&["check"])
        .exits(1)
        .prints("note: and 7 more like it: 1.yaml:4,")
        .prints("--no-fold")
        .prints("9 errors in 9 files");
    let all = folder.run(&["check", "-f", "concise", "--quiet", "--no-fold"]).exits(1);
    assert_eq!(all.out.lines().count(), 9);
    let json = folder.run(&["check", "-f", "json"]).exits(1).json();
    assert_eq!(json["diagnostics"].as_array().map(Vec::len), Some(9));
}

#[test]
fn two_lines_are_one_only_if_they_read_the_same() {
    let two = |port: &str| {
        let folder = Folder::new().with("a.yaml", service("a", "70001")).with("b.yaml", service("b", port));
        let errors = |args: &[&str]| folder.run(args).exits(1).out.matches("error[").count();
        (errors(&["check"]), errors(&["check", "--all"]))
    };
    assert_eq!((two("70002"), two("70001")), ((2, 2), (1, 2)));
}

/// The findings of the placeholder rule in all files.
fn placeholders(folder: &Folder) -> Vec<String> {
    let run = folder.run(&["check", "-f", "concise", "--quiet", "--select", "placeholder-unexpanded"]);
    run.exits(0).out.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn placeholders_that_the_input_fills_in_are_not_reported() {
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\nspec:\n  \
                path: ./apps/prod\n  postBuild: {substitute: {CLUSTER: a}}\n";
    let folder = Folder::new()
        .with("flux/apps.yaml", flux)
        .with("apps/prod/class.yaml", class("${CLUSTER}"))
        .with("apps/test/class.yaml", class("${CLUSTER}"));
    assert_eq!(placeholders(&folder), ["apps/test/class.yaml"]);

    // The path of Flux leads to a kustomization, and from there to the file.
    let folder = Folder::new()
        .with("flux/apps.yaml", flux)
        .with("apps/prod/kustomization.yaml", "resources: [../base]\n")
        .with("apps/base/kustomization.yaml", "resources: [class.yaml]\n")
        .with("apps/base/class.yaml", class("${CLUSTER}"));
    assert_eq!(placeholders(&folder), Vec::<String>::new());

    let folder = Folder::new()
        .with("terraform/main.tf", "x = templatefile(\"${path.module}/manifests/class.yaml\", {})\n")
        .with("terraform/manifests/class.yaml", class("${CLUSTER}"))
        .with("scripts/Makefile", "apply:\n\tenvsubst < class.yaml | kubectl apply -f -\n")
        .with("scripts/class.yaml", class("${CLUSTER}"))
        .with("elsewhere/class.yaml", class("${CLUSTER}"))
        .with("scripts/other.yaml", class("{{ cluster }}"));
    assert_eq!(placeholders(&folder), ["elsewhere/class.yaml", "scripts/other.yaml"]);

    // A script replaces the text with `sed`.
    let folder = Folder::new()
        .with("run.sh", "sed \"s/REPLACE_CLUSTER/$name/g\" class.yaml | kubectl apply -f -\n")
        .with("a/class.yaml", class("REPLACE_CLUSTER"))
        .with("b/class.yaml", class("REPLACE_REGION"));
    assert_eq!(placeholders(&folder), ["b/class.yaml"]);

    // A script of another folder names the file.
    let folder = Folder::new()
        .with(
            "deploy/aws/main.tf",
            "a = <<EOT\nenvsubst < ${path.module}/../../nodes/gpu/class.yaml | kubectl apply -f -\nEOT\n",
        )
        .with("nodes/gpu/class.yaml", class("${CLUSTER}"))
        .with("nodes/cpu/class.yaml", class("${CLUSTER}"))
        .with(
            "said/class.yaml",
            format!("# envsubst < class.yaml | kubectl apply -f -\n{}", class("${CLUSTER}")),
        );
    assert_eq!(placeholders(&folder), ["nodes/cpu/class.yaml"]);

    // Flux fills in the components of a Kustomization as well, given relative to its path.
    let components = flux.replace("  postBuild", "  components: [../../components/gpu]\n  postBuild");
    let folder = Folder::new()
        .with("flux/apps.yaml", components)
        .with("components/gpu/class.yaml", class("${CLUSTER}"))
        .with("components/cpu/class.yaml", class("${CLUSTER}"));
    assert_eq!(placeholders(&folder), ["components/cpu/class.yaml"]);

    // kustomize resolves variables at the root, whichever kustomization declares them.
    let folder = Folder::new()
        .with("prod/kustomization.yaml", "resources: [../webhook, ../names]\n")
        .with("names/kustomization.yaml", "resources: []\nvars: [{name: CLUSTER}]\n")
        .with("names/empty.yaml", "")
        .with("webhook/kustomization.yaml", "resources: [class.yaml]\n")
        .with("webhook/class.yaml", class("$(CLUSTER)"));
    assert_eq!(placeholders(&folder), Vec::<String>::new());

    // A component replaces in what its includer lists.
    let folder = Folder::new()
        .with("prod/kustomization.yaml", "resources: [class.yaml]\ncomponents: [../component]\n")
        .with("prod/class.yaml", class("<cluster>"))
        .with(
            "component/kustomization.yaml",
            "kind: Component\nreplacements:\n  - source: {kind: ConfigMap, name: a}\n    \
             targets: [{select: {kind: EC2NodeClass}, fieldPaths: [spec.role]}]\n",
        );
    assert_eq!(placeholders(&folder), Vec::<String>::new());

    // Only a tool that fills in placeholders reads a default.
    let folder = Folder::new()
        .with("a.yaml", class("${CLUSTER:-a}"))
        .with("b.yaml", class("${CLUSTER:=a}").replace("name: gpu", "name: \"${NAME}\""));
    assert_eq!(placeholders(&folder), Vec::<String>::new());

    let folder = Folder::new()
        .with("vars/kustomization.yaml", "resources: [class.yaml]\nvars: [{name: CLUSTER}]\n")
        .with("vars/class.yaml", class("$(CLUSTER)"))
        .with("unset/kustomization.yaml", "resources: [class.yaml]\nvars: [{name: REGION}]\n")
        .with("unset/class.yaml", class("$(CLUSTER)"))
        .with(
            "replaced/kustomization.yaml",
            "resources: [class.yaml]\nreplacements:\n  - source: {kind: ConfigMap, name: a}\n    \
             targets: [{select: {kind: EC2NodeClass}, fieldPaths: [spec.role]}]\n",
        )
        .with("replaced/class.yaml", class("<cluster>"));
    assert_eq!(placeholders(&folder), ["unset/class.yaml"]);

    let folder = Folder::new()
        .with("template/cookiecutter.json", "{}\n")
        .with("template/manifests/class.yaml", class("{{ cookiecutter.cluster }}"))
        .with("roles/gpu/tasks/main.yml", "- debug: {}\n")
        .with("roles/gpu/templates/class.yaml", class("{{ cluster }}"))
        .with("plain/class.yaml", class("{{ cluster }}"));
    assert_eq!(placeholders(&folder), ["plain/class.yaml"]);
}

#[test]
fn duplicates_across_folders_count_in_a_whole_cluster() {
    let folder = Folder::new().with("a/s.yaml", service("s", "80")).with("b/s.yaml", service("s", "80"));
    folder.run(&["check", "--select", "duplicate-object"]).exits(0);
    folder
        .run(&["check", "--select", "duplicate-object", "--complete"])
        .exits(1)
        .prints("warning[duplicate-object]: Service `s` is also defined in `a/s.yaml`");
}

#[test]
fn two_autoscalers_are_an_error_where_they_are_applied_together() {
    let scaled = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: llm}\nspec:\n  \
                  scaleTargetRef: {name: llm}\n  triggers:\n    - type: kubernetes-workload\n      \
                  metadata: {podSelector: app=llm-client, value: \"4\"}\n";
    let hpa = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: llm}\nspec:\n  \
               scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}\n  maxReplicas: 8\n";
    let select = ["check", "--select", "keda-hpa-conflict", "-f", "concise", "--quiet"];
    let folder = Folder::new().with("scaled.yaml", scaled).with("hpa/hpa.yaml", hpa);
    folder.run(&select).prints("warning[keda-hpa-conflict]").prints("if both are applied");
    // Folders that have no relation may belong to two clusters.
    let folder = Folder::new().with("a/scaled.yaml", scaled).with("b/hpa.yaml", hpa);
    assert_eq!(folder.run(&select).exits(0).out, "");
    folder.run(&[&select[..], &["--complete"]].concat()).prints("error[keda-hpa-conflict]");
    let folder = folder.with("kustomization.yaml", "resources: [a/scaled.yaml, b/hpa.yaml]\n");
    folder.run(&select).prints("error[keda-hpa-conflict]");
    let folder = Folder::new().with("both.yaml", format!("{scaled}---\n{hpa}"));
    folder.run(&select).prints("error[keda-hpa-conflict]");
}

/// The files that `check` reads below the folder, and those that it skips with their reasons.
fn read_and_skipped(folder: &Folder, args: &[&str]) -> (u64, Vec<String>) {
    let report = folder.run(&[&["check", "-f", "json"][..], args].concat()).json();
    let skipped = report["summary"]["skipped"].as_array().expect("a list");
    let line = |entry: &serde_json::Value| {
        format!(
            "{} {}",
            entry["file"].as_str().unwrap_or_default(),
            entry["reason"].as_str().unwrap_or_default()
        )
    };
    (report["summary"]["files"].as_u64().expect("a number"), skipped.iter().map(line).collect())
}

#[test]
fn tests_and_archives_are_skipped_below_a_folder() {
    let broken = service("s", "seventy");
    let folder = Folder::new()
        .with("pkg/testdata/a.yaml", &broken)
        .with("_archived/b.yaml", &broken)
        .with("pools.backup.yaml", &broken)
        .with("clusters/test/c.yaml", service("c", "80"))
        .with("clusters/prod/c.yaml", service("c", "80"));
    let (files, skipped) = read_and_skipped(&folder, &[]);
    assert_eq!(files, 2);
    assert_eq!(
        skipped,
        ["_archived/b.yaml archived", "pkg/testdata/a.yaml test-data", "pools.backup.yaml archived"]
    );
    folder
        .run(&["check"])
        .exits(0)
        .prints("3 files of tests and archives skipped: --no-default-ignore checks them");
    // Files that are named are checked, and those that the configuration excepts.
    folder.run(&["check", "pkg/testdata"]).exits(1);
    folder.run(&["check", "pools.backup.yaml"]).exits(1);
    folder.run(&["check", "--no-default-ignore"]).exits(1).prints("3 errors");
    let folder = folder.with("gpulint.yaml", "ignore: [\"!pkg/testdata\", clusters/prod/]\n");
    let (files, skipped) = read_and_skipped(&folder, &[]);
    assert_eq!(files, 2);
    assert_eq!(skipped, ["_archived/b.yaml archived", "gpulint.yaml config", "pools.backup.yaml archived"]);
}

#[test]
fn tests_of_a_program_are_told_from_a_test_environment() {
    let program = Folder::new()
        .with("go.mod", "module example.com/operator\n")
        .with("test/e2e/a.yaml", service("a", "seventy"))
        .with("config/test/b.yaml", service("b", "80"));
    assert_eq!(read_and_skipped(&program, &[]), (1, vec!["test/e2e/a.yaml test-data".to_owned()]));
    let environments = program.with("prod/a.yaml", service("a", "80"));
    assert_eq!(read_and_skipped(&environments, &[]).0, 3);
}

#[test]
fn what_a_kustomization_lists_is_no_archive() {
    let folder = Folder::new()
        .with("kustomization.yaml", "resources: [archive/a.yaml]\n")
        .with("archive/a.yaml", service("a", "80"))
        .with("archive/b.yaml", service("b", "80"));
    let (files, skipped) = read_and_skipped(&folder, &[]);
    assert_eq!((files, skipped[0].as_str()), (1, "archive/b.yaml archived"));
}

#[test]
fn patches_that_a_kustomization_does_not_list_are_skipped() {
    let old = "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: v}\n";
    let folder = Folder::new()
        .with(
            "kustomization.yaml",
            "resources: [a.yaml]\n# patches: [{path: webhookcainjection_patch.yaml}]\n",
        )
        .with("a.yaml", service("a", "80"))
        .with("webhookcainjection_patch.yaml", old);
    folder.run(&["check"]).exits(0);
    folder.run(&["check", "webhookcainjection_patch.yaml"]).exits(1).prints("removed-api-version");
}

#[test]
fn a_name_in_braces_is_a_placeholder_where_yaml_cannot_read_it() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - image: {registry}/app:1\n";
    let line = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    a: b\n    <MORE_ANNOTATIONS>\nspec: {}\n";
    let folder = Folder::new()
        .with("a.yaml", text)
        .with("b.yaml", text.replace("{registry}", "{registry"))
        .with("c.yaml", line);
    let run = folder.run(&["check", "-f", "concise", "--quiet"]).exits(1);
    let placeholder = "a.yaml:6:14: warning[placeholder-unexpanded] `{registry}` looks like an unexpanded";
    assert!(run.out.contains(placeholder), "{run:#?}");
    let whole = "c.yaml:7:5: warning[placeholder-unexpanded] `<MORE_ANNOTATIONS>` looks like an unexpanded";
    assert!(run.out.contains(whole), "{run:#?}");
    assert!(run.out.contains("b.yaml:") && run.out.contains("error[yaml-syntax]"), "{run:#?}");
    folder
        .run(&["check", "a.yaml", "--ignore", "placeholder-unexpanded"])
        .exits(1)
        .prints("error[yaml-syntax]");
}

#[test]
fn removed_versions_in_a_kept_release_are_information() {
    let old = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec:\n  maxUnavailable: 1\n  \
               selector: {matchLabels: {app: a}}\n";
    let folder = Folder::new().with("install/v0.5.0-rc1/all.yaml", old).with("install/v1beta1/all.yaml", old);
    let run = folder
        .run(&["check", "-f", "concise", "--quiet", "--select", "removed-api-version", "--no-fold"])
        .exits(1);
    assert!(
        run.out.contains("install/v0.5.0-rc1/all.yaml:1:13: info[")
            && run.out.contains("install/v1beta1/all.yaml:1:13: error[")
    );
}

#[test]
fn fragments_in_files_called_patches_are_information() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 2}\n";
    let folder = Folder::new().with("port-patch.yaml", text).with("dispatch.yaml", text.replace("a}", "b}"));
    let folder = folder
        .with("nodes.yaml", format!("# These patches pin the controllers.\n{}", text.replace("a}", "c}")));
    let run = folder.run(&["check", "-f", "concise", "--quiet", "--select", "manifest-incomplete"]).exits(1);
    assert!(run.out.contains("nodes.yaml:5:7: info["), "{run:#?}");
    assert!(
        run.out.contains("port-patch.yaml:4:7: info[") && run.out.contains("dispatch.yaml:4:7: error["),
        "{run:#?}"
    );
}

#[test]
fn tests_of_policies_are_test_data() {
    let folder = Folder::new()
        .with(
            "policies/pods/test/chainsaw-test.yaml",
            "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\n",
        )
        .with("policies/pods/test/pod.yaml", service("a", "seventy"))
        .with("policies/pods/policy.yaml", service("b", "80"));
    assert_eq!(read_and_skipped(&folder, &[]).0, 1);
}

#[test]
fn patches_of_a_kustomization_that_changes_kinds_are_skipped() {
    let patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {serviceName: a}\n";
    let kind = "patches:\n  - path: a.yaml\n  - target: {kind: Deployment, name: a}\n    patch: |-\n      - op: replace\n        \
                path: /kind\n        value: StatefulSet\n";
    let folder = Folder::new().with("a.yaml", patch).with("kustomization.yaml", kind);
    folder.run(&["check", "--allow-empty"]).exits(0);
    folder
        .with("kustomization.yaml", "patches: [{path: a.yaml}]\n")
        .run(&["check"])
        .exits(1)
        .prints("serviceName");
}

#[test]
fn a_file_called_a_template_holds_a_pod_without_its_image() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: executor}\nspec:\n  containers:\n    - name: executor\n      \
               volumeMounts: [{name: scratch, mountPath: /s}]\n  volumes: [{name: scratch, emptyDir: {}}]\n";
    let folder = Folder::new().with("cpu-pod-template.yaml", pod);
    folder.run(&["check", "--allow-empty"]).exits(0);
    folder
        .with("pod.yaml", pod)
        .run(&["check", "pod.yaml"])
        .exits(1)
        .prints("container `executor` has no `image`");
}

#[test]
fn scripts_around_a_manifest_are_skipped() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n";
    let folder = Folder::new()
        .with("heredoc.yaml", format!("cat <<EOF | kubectl apply -f -\n{manifest}EOF\n"))
        .with("prose.yaml", format!("Create the pod with\n\n{manifest}"))
        .with(
            "user-data.yaml",
            format!("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--B\n\n{manifest}"),
        )
        .with("pool.tpl.yaml", manifest)
        .with("notes.yaml", format!("Definitions of a pod:\n-PODS-\n{manifest}"))
        .with(
            "two.yaml",
            format!("mkdir -p /tmp/pods\ncat <<EOF >/tmp/pods/a.yaml\n{manifest}---\n{manifest}EOF\n"),
        )
        .with("broken.yaml", format!("# a pod\n{manifest}"))
        .with("colon.yaml", "apiVersion v1\nkind: Pod\nmetadata: {name: a}\n");
    let run = folder.run(&["check", "-f", "concise", "--quiet"]).exits(1);
    let files: Vec<&str> = run.out.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(files, ["broken.yaml", "colon.yaml", "notes.yaml", "prose.yaml"]);
    folder.run(&["check", "heredoc.yaml"]).exits(1).prints("yaml-syntax");
}

#[test]
fn a_broken_manifest_is_reported_whatever_stands_beside_it() {
    let broken = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x\n";
    let sound = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n";
    let alert = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: x\nspec:\n  groups:\n    - rules: [{annotations: {a: 'on {{ $labels.pod }}'}}]\n";
    for (text, count) in [
        (format!("}}{{\n---\n{broken}"), 2),
        (format!("{broken}---\n}}{{\n"), 2),
        (format!("]\n---\n{broken}"), 2),
        (format!("oops\n{broken}"), 1),
        (format!("{sound}---\nThe next one makes no sense:\n - a\n{broken}"), 1),
        (format!("{sound}---\necho done && exit: [\n---\n{broken}"), 1),
        (format!("<<<<<<< HEAD\n{broken}"), 1),
        (alert.to_owned(), 1),
        (format!("{sound}---\nmkdir -p /tmp\n{broken}"), 1),
    ] {
        let run = Folder::new().with("a.yaml", &text).run(&["check", "-f", "concise", "--quiet"]).exits(1);
        let errors = run.out.lines().filter(|line| line.contains("error[yaml-syntax]")).count();
        assert_eq!(errors, count, "{text}\n{run:#?}");
    }
    // A template of Helm is still one where the text of an alert stands in it.
    let template = format!("{{{{- if .Values.a }}}}\n{alert}");
    Folder::new().with("a.yaml", template).with("b.yaml", sound).run(&["check"]).exits(0);
}

#[test]
fn what_a_kustomization_writes_is_not_missed() {
    let workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  selector:SELECTOR\n  template:\n    \
                    metadata: {labels: {app: a}}\n    spec:\n      containers:\n        - {name: a, image: \"example.com/a:1\", args: [--fit, on]}\n";
    let common = workload.replace("SELECTOR", " {matchLabels: {app: a, part: web}}");
    let folder = Folder::new()
        .with("kustomization.yaml", "resources: [null.yaml, common.yaml]\ncommonLabels: {part: web}\n")
        .with("null.yaml", workload.replace("SELECTOR", "").replace("name: a}", "name: b}"))
        .with("common.yaml", &common);
    let run = folder.run(&["check", "-f", "concise", "--quiet", "--select", "manifest"]);
    assert_eq!(run.out, "", "{run:#?}");
    let alone = Folder::new()
        .with("common.yaml", &common)
        .run(&["check", "-f", "concise", "--quiet", "--select", "manifest"]);
    assert!(
        alone.out.contains("args[1]` must be a string") && alone.out.contains("lack the label `part`"),
        "{alone:#?}"
    );
}

#[test]
fn what_a_kustomization_leaves_out_is_rejected_by_nobody() {
    let broken = "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n";
    let slip = "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: b, image: \"b:1\", port: 1}]}\n";
    let folder = Folder::new()
        .with("kustomization.yaml", "resources: [listed.yaml]\n")
        .with("listed.yaml", slip)
        .with("broken.yaml", broken)
        .with("slip.yaml", slip.replace("name: b}", "name: c}"));
    let run = folder.run(&["check", "-f", "concise", "--quiet", "--select", "manifest"]).exits(1);
    let is = |file: &str, severity: &str| {
        run.out.lines().any(|line| line.starts_with(file) && line.contains(&format!(": {severity}[")))
    };
    assert!(
        is("listed.yaml", "error") && is("broken.yaml", "warning") && is("slip.yaml", "warning"),
        "{run:#?}"
    );
    folder.run(&["check", "broken.yaml"]).exits(1).prints("error[yaml-syntax]");
}

#[test]
fn a_severity_of_the_configuration_holds_for_equal_values_too() {
    let folder = Folder::new().with("gpulint.yaml", "rules: {yaml-duplicate-key: error}\n").with(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata:\n  c: d\n  c: d\n",
    );
    folder.run(&["check", "-f", "concise", "--quiet"]).exits(1).prints("error[yaml-duplicate-key]");
}

/// A PodDisruptionBudget without a selector, and a Kustomization of Flux that applies it with further fields.
const BUDGET: &str =
    "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {maxUnavailable: 1}\n";

fn kustomization(name: &str, path: &str, fields: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
         metadata: {{name: {name}, namespace: flux-system}}\nspec:\n  path: {path}\n  prune: true\n  \
         interval: 1h\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{fields}"
    )
}

#[test]
fn what_flux_patches_is_not_judged() {
    let own = |fields: &str| {
        Folder::new()
            .with("app/web.yaml", BUDGET)
            .with("clusters/a.yaml", kustomization("a", "./app", fields))
    };
    let strategic = "  patches:\n  - patch: |\n      apiVersion: policy/v1\n      kind: PodDisruptionBudget\n      \
                     metadata: {name: NAME}\n      spec: {selector: {matchLabels: {app: web}}}\n";
    let targeted = "  patches:\n  - target: {kind: KIND}\n    patch: |\n      \
                    - {op: OP, path: /spec/PATH, value: {matchLabels: {app: web}}}\n";
    let targeted = |kind: &str, op: &str, path: &str| {
        targeted.replace("KIND", kind).replace("OP", op).replace("PATH", path)
    };
    let handed = format!(
        "  patches:\n  - target: {{kind: Kustomization}}\n    patch: |\n      \
         apiVersion: kustomize.toolkit.fluxcd.io/v1\n      kind: Kustomization\n      metadata: {{name: any}}\n      spec:\n{}",
        strategic.replace("NAME", "web").lines().map(|line| format!("      {line}\n")).collect::<String>()
    );
    let above = own("").with("root.yaml", kustomization("root", "./clusters", &handed));
    let created = "resources: [web.yaml]\nlabels: [{pairs: {app: web}, fields: [{path: spec/selector/matchLabels, \
                   kind: KIND, create: true}]}]\n";
    let kustomized = |kind: &str| {
        Folder::new().with("web.yaml", BUDGET).with("kustomization.yaml", created.replace("KIND", kind))
    };
    let transformed = |text: &str| {
        Folder::new()
            .with("web.yaml", BUDGET)
            .with("kustomization.yaml", "resources: [web.yaml]\ntransformers: [t.yaml]\n")
            .with("t.yaml", format!("apiVersion: builtin\nkind: {text}\n"))
    };
    for (folder, is_found) in [
        (own(""), true),
        (own(&strategic.replace("NAME", "web")), false),
        (own(&strategic.replace("NAME", "api")), true),
        (own(&targeted("PodDisruptionBudget", "add", "selector")), false),
        (own(&targeted("Deployment", "add", "selector")), true),
        (above, false),
        (kustomized("PodDisruptionBudget"), false),
        (kustomized("Deployment"), true),
        (transformed("NamespaceTransformer\nmetadata: {name: a, namespace: b}"), true),
        (transformed("Other\nmetadata: {name: a}"), false),
    ] {
        let run = folder.run(&["check", "-f", "concise", "--quiet", "--select", "pdb-selector"]);
        assert_eq!(!run.out.is_empty(), is_found, "{run:#?}");
    }
    // A field that is written and that a patch sets.
    let folder = |path: &str| {
        let fields = targeted("PodDisruptionBudget", "replace", path);
        Folder::new()
            .with(
                "app/web.yaml",
                BUDGET.replace("maxUnavailable: 1", "maxUnavailable: 0, selector: {matchLabels: {app: web}}"),
            )
            .with("clusters/a.yaml", kustomization("a", "./app", &fields))
    };
    for (path, is_found) in [("maxUnavailable", false), ("selector", true)] {
        let run =
            folder(path).run(&["check", "-f", "concise", "--quiet", "--select", "pdb-blocks-evictions"]);
        assert_eq!(!run.out.is_empty(), is_found, "{run:#?}");
    }
}
