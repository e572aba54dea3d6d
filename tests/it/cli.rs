//! The built binary from outside: arguments, exit codes, skipped files, formats.
//!
//! Each file in `fixtures/invalid` is checked alone, and its expected output is beside it;
//! `UPDATE=1 cargo test` rewrites that.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gpulint_testing::{is_full, lot, missing, skipped as skip};
use serde_json::Value;

use crate::support::{Folder, command, finish, run_in, validate};

/// A manifest without findings of any rule about its shape.
const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: sound\n  namespace: ml\ndata:\n  a: b\n";
/// A manifest that does not parse: one error.
const BROKEN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n";
/// A manifest with one warning.
const TRAILING: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n...\nkind: Secret\n";

/// `file reason` of each skipped entry, with the document and `partial` if they are set.
fn skipped(report: &Value) -> Vec<String> {
    let list = report["summary"]["skipped"].as_array().unwrap();
    list.iter()
        .map(|entry| {
            let mut line =
                format!("{} {}", entry["file"].as_str().unwrap(), entry["reason"].as_str().unwrap());
            if let Some(document) = entry["document"].as_u64() {
                line.push_str(&format!(" {document}"));
            }
            if entry["partial"] == true {
                line.push_str(" partial");
            }
            line
        })
        .collect()
}

#[test]
fn nothing_found_is_0_and_findings_are_1() {
    let folder = Folder::new()
        .with("sound.yaml", CONFIG_MAP)
        .with("broken.yaml", BROKEN)
        .with("trailing.yaml", TRAILING);
    let run = folder.run(&["check", "sound.yaml"]).exits(0);
    assert_eq!(run.out, "no findings in 1 file (1 object)\n");
    assert_eq!(run.err, "");
    folder
        .run(&["check", "broken.yaml"])
        .exits(1)
        .prints("error[yaml-syntax]: ")
        .prints("[broken.yaml:")
        .prints("gpulint explain yaml-syntax")
        .prints("1 error in 1 file (0 objects)\n");
    folder.run(&["check"]).exits(1).prints("1 error, 1 warning in 3 files");
}

#[test]
fn fail_on_decides_which_findings_count() {
    let folder = Folder::new().with("a.yaml", TRAILING);
    for (level, code) in [("error", 0), ("warning", 1), ("info", 1), ("never", 0)] {
        let run = folder.run(&["check", "--fail-on", level]).exits(code);
        assert!(run.out.contains("yaml-text-after-end"), "{run:?}");
    }
    let folder = folder.with("gpulint.yaml", "fail-on: error\n");
    folder.run(&["check"]).exits(0);
    folder.run(&["check", "--fail-on", "warning"]).exits(1);
}

#[test]
fn bad_usage_is_2() {
    let folder = Folder::new().with("a.yaml", CONFIG_MAP);
    folder.run(&[]).exits(2).complains("Usage");
    folder.run(&["chekc"]).exits(2).complains("check");
    folder.run(&["check", "--format", "xml"]).exits(2).complains("the formats are text, concise, json, ");
    folder.run(&["check", "--format", "json=a.json,xml"]).exits(2).complains("invalid value 'xml'");
    folder.run(&["check", "--show-sets", "-f", "sarif"]).exits(2).complains("use text or json");
    folder.run(&["a.yaml"]).exits(2).complains("did you mean `gpulint check a.yaml`?");
    folder.run(&["--fix", "./a"]).exits(2).complains("did you mean `gpulint check --fix ./a`?");
    folder
        .run(&["check", "--format", "json", "--format", "text"])
        .exits(2)
        .complains("two formats for standard output");
    folder.run(&["check", "--kubernetes", "new"]).exits(2).complains("a version looks like 1.");
    folder.run(&["check", "--keda", "3.0"]).exits(2).complains("gpulint knows KEDA 2.14 to 2.21, not 3.0");
    folder.run(&["check", "--select", "yaml-sytnax"]).exits(2).complains("did you mean `yaml-syntax`?");
    folder.run(&["check", "--ignore", "gpus"]).exits(2).complains("did you mean `gpu`?");
    folder.run(&["check", "absent.yaml"]).exits(2).complains("absent.yaml: ");
}

#[test]
fn select_and_ignore_take_ids_and_groups() {
    let folder = Folder::new().with("a.yaml", TRAILING);
    folder.run(&["check", "--select", "yaml-syntax,gpu"]).exits(0);
    folder.run(&["check", "--select", "manifest"]).exits(1);
    folder.run(&["check", "--ignore", "yaml-text-after-end"]).exits(0);
    folder.run(&["check", "--select", "manifest", "--ignore", "manifest"]).exits(0);
}

#[test]
fn select_wins_over_a_rule_that_the_configuration_turns_off() {
    let folder = Folder::new()
        .with("a.yaml", TRAILING)
        .with("gpulint.yaml", "rules: {all: off, yaml-text-after-end: off}\n");
    folder.run(&["check"]).exits(0);
    folder.run(&["check", "--select", "manifest"]).exits(0);
    folder.run(&["check", "--select", "yaml-text-after-end"]).exits(1).prints("yaml-text-after-end");
}

/// A version that is newer than gpulint, in the configuration and in a flag.
#[test]
fn notes_are_said_once_and_fail_nothing() {
    let folder = Folder::new()
        .with("a.yaml", CONFIG_MAP)
        .with("b.yaml", CONFIG_MAP.replace("name: a", "name: b"))
        .with("gpulint.yaml", "platform: {kubernetes: \"1.99\"}\n");
    let run = folder.run(&["check", "--karpenter", "1.99"]).exits(0);
    let run = run.complains(
        "note: gpulint.yaml:1:24: Kubernetes 1.99 is judged as 1.37, the newest that gpulint knows\n",
    );
    let run = run.complains("note: Karpenter 1.99 is judged as 1.15, the newest that gpulint knows\n");
    assert_eq!(run.err.matches("note: ").count(), 2, "{run:?}");
    let run = folder.run(&["check", "--quiet"]).exits(0);
    assert_eq!(run.err, "");
}

#[test]
fn an_unreadable_path_is_2_after_everything_else_was_checked() {
    let folder = Folder::new().with("broken.yaml", BROKEN);
    folder
        .run(&["check", "--format", "concise", "absent.yaml", "broken.yaml"])
        .exits(2)
        .prints("broken.yaml:")
        .complains("absent.yaml: ");
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_2() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new().with("closed.yaml", CONFIG_MAP).with("broken.yaml", BROKEN);
    let closed = folder.0.join("closed.yaml");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&closed).is_ok() {
        return skip("root reads every file");
    }
    folder.run(&["check"]).exits(2).prints("broken.yaml:").complains("closed.yaml: ");
}

#[test]
fn no_object_is_2_unless_it_may_be() {
    let folder = Folder::new().with("notes.yaml", "a: 1\n");
    folder.run(&["check"]).exits(2).complains("no Kubernetes object found").complains("foreign");
    folder.run(&["check", "--allow-empty"]).exits(0);
    let empty = Folder::new();
    empty.run(&["check"]).exits(2).complains("no Kubernetes object found");
    empty.run(&["check", "--allow-empty", "."]).exits(0);
    let list = Folder::new().with("a.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    let report = list.run(&["check", "-f", "json"]).exits(2).json();
    assert_eq!(skipped(&report), Vec::<String>::new());
}

#[test]
fn templates_that_were_not_rendered_are_said() {
    let folder = Folder::new()
        .with("charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n")
        .with("charts/a/values.yaml", "a: 1\n")
        .with("charts/a/templates/a.yaml", CONFIG_MAP)
        .with("charts/a/templates/deep/b.yaml", "{{ if }}\n")
        .with("charts/a/charts/below/Chart.yaml", "apiVersion: v2\nname: below\nversion: 1.0.0\n")
        .with("charts/a/charts/below/templates/c.yaml", "{{ if }}\n");
    let line = |chart: &str| {
        format!("3 Helm templates not rendered: add --render, or helm template {chart} | gpulint check -\n")
    };
    // Nothing was checked, and it is said why.
    for format in ["text", "concise"] {
        let run = folder.run(&["check", "-f", format]).exits(0);
        assert!(run.out.starts_with("nothing was checked; 6 skipped"), "{run:?}");
        assert!(run.out.ends_with(&line("charts/a")), "{run:?}");
    }
    let one = "1 Helm template not rendered: add --render, or helm template charts/a | gpulint check -\n";
    folder.run(&["check", "charts/a/templates/a.yaml"]).exits(2).complains(one);
    run_in(&folder.0.join("charts/a"), &["check"], "").exits(0).prints(&line("."));
    run_in(&folder.0.join("charts/a/charts"), &["check", ".."], "").exits(0).prints(&line(".."));
    let run = folder.run(&["check", "--allow-empty"]).exits(0).prints(&line("charts/a"));
    assert_eq!(run.err, "");
    // Something was checked.
    let folder = folder.with("a.yaml", CONFIG_MAP);
    let run = folder.run(&["check"]).exits(0);
    let summary = "no findings in 1 file (1 object); 6 skipped: --verbose lists them\n";
    assert_eq!(run.out, format!("{summary}{}", line("charts/a")));
    assert_eq!(folder.run(&["check", "-q"]).exits(0).out, "");
    let folder = folder.with("b c/Chart.yaml", "name: b\n").with("b c/templates/a.yaml", "{{ if }}\n");
    folder
        .run(&["check"])
        .exits(0)
        .prints("4 Helm templates of 2 charts not rendered: add --render, or for each, ");
    folder.run(&["check", "--allow-empty", "b c"]).exits(0).prints("helm template 'b c' | ");
    // Only other charts use the templates of a library.
    let library = "apiVersion: v2\nname: library\nversion: 1.0.0\ntype: library # of all\n";
    let folder = Folder::new().with("x/Chart.yaml", library).with("x/templates/_a.yaml", "{{ if }}\n");
    let run = folder.run(&["check", "--allow-empty"]).exits(0);
    assert!(!run.out.contains("not rendered"), "{run:?}");
    // Templates of other tools do not belong to a chart.
    let other = Folder::new().with("a.yaml", CONFIG_MAP).with("b.yaml", "kind: {{ a }}\nb: {{ if }}\n");
    let run = other.run(&["check"]).exits(0);
    assert!(!run.out.contains("Helm"), "{run:?}");
}

#[test]
fn files_that_may_hold_manifests_and_are_not_read_are_counted() {
    const NODE_CLASS: &str = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\n";
    let folder = Folder::new()
        .with("main.tf", "resource \"kubectl_manifest\" \"pool\" {}\n")
        .with("modules/pools/main.tf", "")
        .with("modules/pools/pool.yaml.tftpl", "kind: NodePool\n")
        .with(
            "modules/pools/class.yaml.tpl",
            format!("{NODE_CLASS}%{{ if tagged ~}}\n# tags\n%{{ endif ~}}\n"),
        )
        .with("user-data.sh.tftpl", "")
        .with("user-data.sh.tpl", "")
        .with("playbook/pool.yml.j2", "kind: NodePool\n")
        .with("charts/karpenter-1.9.0.tgz", "")
        .with(".terraform/modules/x/main.tf", "")
        .with(".gitignore", "ignored.tf\n")
        .with(".git/HEAD", "")
        .with("ignored.tf", "");
    let lines = "\
2 Terraform files without manifests in heredocs not read: pipe the applied manifests to gpulint check -
2 Terraform templates and 1 Jinja template not read: pipe the rendered manifests to gpulint check -
1 archive not read: unpack first
";
    let out = folder.run(&["check"]).exits(0).prints("nothing was checked").out;
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(out.split_once('\n').unwrap().1), sorted(lines), "{out}");
    // A file that is named is named as what it is.
    folder.run(&["check", "main.tf"]).exits(2).complains(
        "no Kubernetes object found (main.tf: terraform, pipe the applied manifests to gpulint check -)",
    );
    let folder = folder.with("a.yaml", CONFIG_MAP);
    let out = folder.run(&["check"]).exits(0).out;
    assert!(
        out.starts_with("no findings in 1 file (1 object)\n")
            && out.contains("2 Terraform files without manifests in heredocs not read: "),
        "{out}"
    );
    assert_eq!(folder.run(&["check", "-q"]).exits(0).out, "");
    let unread = &folder.run(&["check", "--format", "json"]).json()["summary"]["unread"];
    assert_eq!(unread["terraform"], 2, "{unread}");
    assert_eq!(unread["terraform-template"], 2, "{unread}");
    // A template that is named is read.
    let folder = folder.with("named.yaml.tpl", format!("{NODE_CLASS}# %{{ if tagged }}\n"));
    folder.run(&["check", "named.yaml.tpl"]).exits(1);
}

#[test]
fn templates_with_placeholders_in_scalars_alone_are_read() {
    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n";
    let container = "    - {name: a, image: \"${IMAGE}:1.2\", resources: {limits: {cpu: x y}}}\n";
    let manifest = |rest: &str| format!("{POD}{container}{rest}");
    let folder = Folder::new()
        .with("read.yaml.tpl", manifest("  nodeSelector: ${SELECTOR}\n"))
        .with("sub.yml.tmpl", manifest("").replace("{name: a}", "{name: c}"))
        // What a line becomes is not known, and neither is what a directive leaves out.
        .with("lines.yaml.tpl", manifest("  ${REST}\n"))
        .with("directive.yaml.tpl", manifest("  # %{ if x }\n"))
        .with("expression.yaml.tpl", manifest("  nodeSelector: ${jsonencode(x)}\n"))
        // Values of a chart.
        .with("values.yaml.tpl", "kind: ${KIND}\n")
        // What it gave is beside it.
        .with("done.yaml.tpl", manifest(""))
        .with("done.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n");
    let run = folder.run(&["check", "-f", "concise", "--quiet"]).exits(1);
    let files: Vec<&str> = run.out.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(files, ["read.yaml.tpl", "sub.yml.tmpl"], "{run:?}");
    let unread = &folder.run(&["check", "--format", "json"]).json()["summary"]["unread"];
    assert_eq!(unread["terraform-template"], 5, "{unread}");
}

#[test]
fn manifests_in_heredocs_of_terraform_are_read() {
    let text = "\
resource \"kubectl_manifest\" \"pool\" {
  yaml_body = <<-YAML
    apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata:
      name: ${var.name}
    spec:
      limits: {cpu: 100}
      disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, expireAfter: 384h}
      template:
        spec:
          nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
          requirements:
            - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
            - {key: topology.kubernetes.io/zone, operator: In, values: ${jsonencode(local.zones)}}
            - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
  YAML
}
";
    let folder = Folder::new().with("infra/karpenter.tf", text).with("infra/main.tf", "");
    let out = folder.run(&["check", "--format", "concise"]).exits(1).out;
    assert!(out.starts_with("infra/karpenter.tf:9:") && out.contains("spec.disruption.expireAfter"), "{out}");
    assert!(
        out.contains("1 Terraform file without manifests in heredocs not read")
            && !out.contains("placeholder"),
        "{out}"
    );
    folder.run(&["check", "infra/karpenter.tf"]).exits(1);
    // The other language around it would be lost.
    folder.run(&["check", "--fix", "--unsafe-fixes"]).exits(1);
    let kept = fs::read_to_string(folder.0.join("infra/karpenter.tf")).unwrap();
    assert_eq!(kept, text);
}

#[test]
fn no_findings_is_not_said_beside_an_error() {
    let folder = Folder::new().with("notes.yaml", "a: 1\n").with("sound.yaml", CONFIG_MAP);
    for args in
        [&["absent.yaml"][..], &["notes.yaml"], &["--fix", "notes.yaml"], &["--allow-empty", "absent.yaml"]]
    {
        let run = folder.run(&[&["check"], args].concat()).exits(2).complains("error: ");
        assert_eq!(run.out, "", "{args:?}");
    }
    let run = folder.run(&["check", "--diff", "notes.yaml"]).exits(2);
    assert!(!run.err.contains("would be fixed"), "{run:?}");
    folder.run(&["check", "--allow-empty", "notes.yaml"]).exits(0).prints("nothing was checked");
    folder.run(&["check", "absent.yaml", "sound.yaml"]).exits(2).prints("no findings in 1 file (1 object)");
}

#[test]
fn without_objects_the_configuration_that_ignores_them_is_named() {
    let folder = Folder::new()
        .with("gpulint.yml", "ignore: ['**']\n")
        .with("a.yaml", BROKEN)
        .with("sub/b.yaml", BROKEN);
    // The pattern matches the configuration itself.
    let by = "ignored by `ignore` of gpulint.yml); --allow-empty makes this a success";
    folder.run(&["check"]).exits(2).complains(&format!("no Kubernetes object found (3 files {by}"));
    folder
        .run(&["check", "sub/b.yaml"])
        .exits(2)
        .complains(&format!("no Kubernetes object found (1 file {by}"));
    let folder = folder.with("sub/.gpulint.yaml", "ignore: [b.yaml]\n").with("sub/c.yaml", "a: 1\n");
    folder.run(&["check", "sub"]).exits(2).complains(
        "(1 file ignored by `ignore` of sub/.gpulint.yaml; sub/c.yaml: foreign, not a Kubernetes object)",
    );
}

#[test]
fn standard_input_is_reported_under_its_name() {
    let folder = Folder::new();
    folder.run_with(&["check", "-f", "concise", "-"], BROKEN).exits(1).prints("<stdin>:");
    let run = folder.run_with(&["check", "-", "--stdin-filename", "sub/pool.yaml", "-f", "json"], BROKEN);
    assert_eq!(run.exits(1).json()["diagnostics"][0]["file"], "sub/pool.yaml");
}

/// `<(command)` of a shell is such a path.
#[cfg(unix)]
#[test]
fn open_pipes_are_read_like_standard_input() {
    let folder = Folder::new().with("a.yaml", CONFIG_MAP).with("broken.yaml", BROKEN);
    for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        if Path::new(path).exists() {
            folder.run_with(&["check", "-f", "concise", path], BROKEN).exits(1).prints("<stdin>:");
        }
    }
    let binary = env!("CARGO_BIN_EXE_gpulint");
    let bash = |line: &str| {
        let mut command = std::process::Command::new("bash");
        let line = line.replace("gpulint", binary);
        finish(command.args(["-c", &line]).current_dir(&folder.0).stdin(Stdio::null()).output().unwrap())
    };
    if std::process::Command::new("bash").arg("-c").arg("true").output().is_err() {
        return missing("bash", "apt-get install bash");
    }
    bash("gpulint check -f concise <(cat broken.yaml)").exits(1).prints("<stdin>:");
    let named = "gpulint check -f concise --stdin-filename sub/pool.yaml <(cat broken.yaml)";
    bash(named).exits(1).prints("sub/pool.yaml:");
    let two = bash("gpulint check -f json <(cat broken.yaml) a.yaml <(cat broken.yaml)").exits(1).json();
    let found: Vec<&str> =
        two["diagnostics"].as_array().unwrap().iter().map(|d| d["file"].as_str().unwrap()).collect();
    assert_eq!(found.len(), 2, "{two:#}");
    assert!(found.iter().all(|file| file.starts_with("<fd ")) && found[0] != found[1], "{found:?}");
    assert_eq!(two["summary"]["files"], 3);
    let fixed = bash("gpulint check --fix <(cat a.yaml)").exits(0).complains("0 fixed");
    assert_eq!(fixed.out, CONFIG_MAP);
    bash("gpulint check --fix <(cat a.yaml) <(cat a.yaml)").exits(2).complains("room for one pipe");
    bash("gpulint check /dev/fd/77").exits(2).complains("/dev/fd/77: ");
    bash("mkfifo pipe && gpulint check pipe").exits(2).complains("pipe: not a file");
}

#[test]
fn json_says_where_in_lines_columns_and_bytes() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  \"é\": 1\n  \"é\": 2\n  name: é\n";
    let folder = Folder::new().with("a.yaml", text);
    let report = folder.run(&["check", "-f", "json"]).exits(1).json();
    let found = &report["diagnostics"][0];
    assert_eq!(found["rule"], "yaml-duplicate-key");
    let start = &found["range"]["start"];
    assert_eq!((start["line"].as_u64(), start["column"].as_u64()), (Some(5), Some(3)));
    let at = usize::try_from(start["offset"].as_u64().unwrap()).unwrap();
    assert!(text[at..].starts_with("\"é\": 2"), "{found:#}");
    assert_eq!(found["related"][0]["range"]["start"]["line"], 4);
    assert_eq!(report["summary"]["files"], 1);
    assert_eq!(report["summary"]["errors"], 1);
}

#[test]
fn json_names_who_refuses() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  weight: 101\n  template:\n    spec:\n      \
                nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements:\n        \
                - {key: kubernetes.io/hostname, operator: In, values: [b]}\n        \
                - {key: karpenter.sh/capacity-type, operator: In, values: [preemptible]}\n---\n\
                apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\nmetadata: {name: a}\nspec:\n  \
                podIdentity: {provider: azure-workload, identityId: ''}\n---\n\
                apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: b}\nspec:\n  template:\n    spec:\n      \
                nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements:\n        \
                - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}\n";
    let folder = Folder::new().with("a.yaml", pool);
    let report = folder.run(&["check", "-f", "json"]).exits(1).json();
    let refused = |rule: &str| {
        let mut all = report["diagnostics"].as_array().unwrap().iter();
        all.find(|d| d["rule"] == rule).map(|d| &d["refusedBy"])
    };
    assert_eq!(refused("invalid-value").unwrap(), "api-server", "{report:#}");
    assert_eq!(refused("capacity-type-invalid").unwrap(), "karpenter", "{report:#}");
    assert_eq!(refused("keda-auth-invalid").unwrap(), "keda-admission", "{report:#}");
    assert!(refused("pool-without-limits").unwrap().is_null(), "{report:#}");
}

#[test]
fn formats_go_to_files_side_by_side() {
    let folder = Folder::new().with("a.yaml", BROKEN);
    let args = ["check", "-f", "concise", "-f", "json=report.json", "-f", "text=report.txt"];
    let run = folder.run(&args).exits(1);
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    let json = fs::read_to_string(folder.0.join("report.json")).unwrap();
    validate(&serde_json::from_str(&json).unwrap());
    let text = fs::read_to_string(folder.0.join("report.txt")).unwrap();
    assert!(text.contains("error[yaml-syntax]") && !text.contains('\x1b'));
    folder.run(&["check", "-f", "json=absent/report.json"]).exits(2).complains("absent/report.json");
}

#[test]
fn colour_is_for_terminals_or_on_demand() {
    let folder = Folder::new().with("a.yaml", BROKEN);
    assert!(!folder.run(&["check"]).out.contains('\x1b'));
    assert!(folder.run(&["check", "--color", "always"]).out.contains("\x1b["));
    assert!(!folder.run(&["check", "--color", "never"]).out.contains('\x1b'));
}

#[test]
fn without_utf_8_the_drawing_is_ascii() {
    let folder = Folder::new().with("a.yaml", BROKEN);
    let output = command(&folder.0, &["check"]).env("LC_ALL", "C").output().unwrap();
    assert!(finish(output).exits(1).out.is_ascii());
}

#[test]
fn a_manifest_cannot_steer_the_terminal() {
    let text = "apiVersion: v1\nkind: ConfigMap\n\"\\e[31m\": 1\n\"\\e[31m\": 2\n# \x1b[31m\n";
    let folder = Folder::new().with("a.yaml", text);
    for format in ["text", "concise", "json"] {
        let run = folder.run(&["check", "-f", format]).exits(1);
        assert!(!run.out.contains('\x1b'), "{run:?}");
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let mut folder = Folder::new();
    for number in 0..200 {
        folder = folder.with(&format!("{number}.yaml"), BROKEN);
    }
    for args in [&["check"][..], &["check", "-f", "json"], &["rules"], &["man"]] {
        let mut child =
            command(&folder.0, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}: {err}");
        assert_eq!(err, "");
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_to_files_only() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new().with("real/a.yaml", CONFIG_MAP).with("elsewhere/b.yml", CONFIG_MAP);
    let at = |name: &str| folder.0.join("real").join(name);
    symlink("nowhere.yaml", at("dangling.yaml")).unwrap();
    symlink("../real", at("loop")).unwrap();
    symlink("self.yaml", at("self.yaml")).unwrap();
    symlink("../elsewhere/b.yml", at("link.yaml")).unwrap();
    symlink("a.yaml", at("twice.yaml")).unwrap();
    symlink("elsewhere", folder.0.join("named")).unwrap();
    let report = folder.run(&["check", "real", "-f", "json"]).json();
    assert_eq!(report["summary"]["files"], 2, "{report:#}");
    assert_eq!(skipped(&report), ["real/dangling.yaml dangling-link", "real/self.yaml dangling-link"]);
    let report = folder.run(&["check", "named", "-f", "json"]).exits(0).json();
    assert_eq!(report["summary"]["files"], 1);
    folder
        .run(&["check", "real/dangling.yaml", "real/a.yaml"])
        .exits(2)
        .complains("real/dangling.yaml: a link to what is not there");
}

#[test]
fn the_walk_reads_hidden_files_and_respects_ignore_files() {
    let folder = Folder::new()
        .with(".hidden/a.yaml", CONFIG_MAP)
        .with("vendor/b.yaml", BROKEN)
        .with("old/c.yaml", BROKEN)
        .with("node_modules/d.yaml", BROKEN)
        .with(".git/e.yaml", BROKEN)
        .with("f.txt", BROKEN)
        .with(".gitignore", "vendor/\n")
        .with("gpulint.yaml", "ignore: [\"old/**\"]\n");
    let report = folder.run(&["check", "-f", "json"]).exits(0).json();
    assert_eq!(report["summary"]["files"], 1);
    assert_eq!(skipped(&report), ["gpulint.yaml config"]);
    folder.run(&["check", "f.txt"]).exits(1);
}

#[test]
fn what_ignore_files_hide_is_said_where_nothing_is_left() {
    let folder = Folder::new().with(".gitignore", "build/\n").with("build/a.yaml", CONFIG_MAP);
    folder.run(&["check"]).exits(2).complains("(1 file ignored by .gitignore and the like)");
    // A file that is named is checked.
    folder.run(&["check", "build"]).exits(0);
    let folder = folder.with("b.yaml", CONFIG_MAP);
    assert_eq!(folder.run(&["check"]).exits(0).err, "");
}

#[test]
fn names_that_begin_with_a_hash_are_ignored() {
    let folder = Folder::new().with("#a.yaml", TRAILING).with("b.yaml", CONFIG_MAP);
    folder.run(&["check"]).exits(1);
    folder.with("gpulint.yaml", "ignore: ['#a.yaml']\n").run(&["check"]).exits(0);
}

#[test]
fn overrides_may_name_folders() {
    let folder = Folder::new().with("dev/a.yaml", TRAILING).with("prod/b.yaml", CONFIG_MAP);
    folder.run(&["check"]).exits(1);
    for path in ["./dev/**", "dev/", "dev", "/dev", "**"] {
        let config = format!("overrides: [{{paths: ['{path}'], rules: {{all: off}}}}]\n");
        fs::write(folder.0.join("gpulint.yaml"), config).unwrap();
        folder.run(&["check"]).exits(0);
    }
}

#[test]
fn ignore_has_patterns_of_a_gitignore_and_paths_from_here() {
    let files = ["a.yaml", "nested/sub/d.yaml", "other/c.yaml", "sub/b.yaml", "sub/x/e.yaml"];
    let mut folder = Folder::new();
    for (at, file) in files.iter().enumerate() {
        folder = folder.with(file, TRAILING.replace("name: a", &format!("name: n{at}")));
    }
    let nested = &["a.yaml", "nested/sub/d.yaml", "other/c.yaml"][..];
    let cases: &[(&str, &[&str])] = &[
        ("'sub'", &["a.yaml", "other/c.yaml"]),
        ("'sub/'", &["a.yaml", "other/c.yaml"]),
        ("'sub/**'", nested),
        ("'/sub'", nested),
        ("'./sub'", nested),
        ("'./sub/'", nested),
        ("'./sub/**'", nested),
        ("'./*.yaml'", &files[1..]),
        ("'./other/c.yaml', './sub/b.yaml'", &["a.yaml", "nested/sub/d.yaml", "sub/x/e.yaml"]),
        ("'sub', '!./sub'", &["a.yaml", "other/c.yaml", "sub/b.yaml", "sub/x/e.yaml"]),
        ("'./', '!a.yaml'", &["a.yaml"]),
        ("'.', '!a.yaml'", &["a.yaml"]),
    ];
    for (patterns, left) in cases {
        fs::write(folder.0.join("gpulint.yaml"), format!("ignore: [{patterns}]\n")).unwrap();
        let report = folder.run(&["check", "-f", "json"]).exits(1).json();
        let found = report["diagnostics"].as_array().unwrap().iter();
        let found: Vec<&str> = found.map(|finding| finding["file"].as_str().unwrap()).collect();
        assert_eq!(&found, left, "{patterns}");
    }
}

#[test]
fn what_is_no_manifest_is_skipped_with_its_reason() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: x\n";
    let folder = Folder::new()
        .with("a.yaml", format!("{CONFIG_MAP}---\nb: {{{{ c }}}}\n---\nd: 1\n"))
        .with("chart/Chart.yaml", "apiVersion: v2\nname: x\n")
        .with("chart/values-prod.yaml", "a: 1\n")
        .with("chart/templates/deep/a.yaml", "{{ if }}\n")
        .with("crds/crd.yaml", crd)
        .with("data.json", "// comments\n{}\n")
        .with("empty.yaml", "# nothing\n---\n")
        .with("kustomize/kustomization.yaml", "patches:\n  - path: p/merge.yaml\n  - path: ops.json\n")
        .with("kustomize/p/merge.yaml", CONFIG_MAP.replace("sound", "base"))
        .with("kustomize/ops.json", "[{\"op\": \"remove\", \"path\": \"/apiVersion\"}]")
        .with("kustomize/labels.yaml", "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: x}\n")
        .with("spark/driver.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector: {a: b}\n")
        .with(
            "terraform/values.yaml",
            "a:\n  - ${six ? \"IPv6\" : \"IPv4\"}\n%{ if b ~}\nc: 1\n%{ endif ~}\n",
        )
        // Broken files, each of another tool: prose that mentions a field, and a template by its name.
        .with("notes.yaml", "a: [\nwrite apiVersion first\n")
        .with("terraform/pool.tftpl.yaml", "apiVersion: v1\nkind: ConfigMap\n%{ if b ~}\ndata: {a: [\n")
        .with("image.json", b"\x89PNG\0\0\0\0\0\0\0\0\0\0");
    let report = folder.run(&["check", "-f", "json"]).exits(0).json();
    assert_eq!(
        skipped(&report),
        [
            "a.yaml helm-template 1",
            "a.yaml foreign 2",
            "chart/Chart.yaml foreign",
            "chart/templates/deep/a.yaml helm-template",
            "chart/values-prod.yaml helm-values",
            "crds/crd.yaml crd",
            "data.json foreign",
            "empty.yaml empty",
            "image.json not-text",
            "kustomize/kustomization.yaml kustomization",
            "kustomize/labels.yaml kustomization",
            "kustomize/ops.json kustomize-patch",
            "kustomize/p/merge.yaml kustomize-patch partial",
            "notes.yaml foreign",
            "spark/driver.yaml pod-template partial",
            "terraform/pool.tftpl.yaml terraform-template",
            "terraform/values.yaml foreign",
        ]
    );
    assert_eq!(report["summary"]["files"], 1);
    // A file that is named is reported if it is broken.
    let named = folder.run(&["check", "-f", "concise", "terraform/values.yaml"]);
    assert!(named.exits(1).out.contains("yaml-syntax"));
}

#[test]
fn each_file_has_the_nearest_configuration() {
    let folder = Folder::new()
        .with("gpulint.yaml", "rules: {yaml-text-after-end: off}\n")
        .with("top.yaml", TRAILING)
        .with("sub/gpulint.yaml", "{}\n")
        .with("sub/deep/low.yaml", TRAILING.replace("name: a", "name: b"));
    let run = folder.run(&["check", "-f", "concise", "-q"]).exits(1);
    assert!(run.out.starts_with("sub/deep/low.yaml:6:"), "{run:?}");
    assert_eq!(run.out.lines().count(), 1);
    folder.run(&["check", "--config", "gpulint.yaml", "--ignore", "duplicate-object"]).exits(0);
    let folder = folder.with("sub/gpulint.yaml", "rulez: {}\n");
    folder.run(&["check"]).exits(2).complains("sub/gpulint.yaml:1:1: ").complains("did you mean `rules`?");
    folder.run(&["check", "--config", "absent.yaml"]).exits(2).complains("absent.yaml: ");
}

#[test]
fn a_configuration_may_be_hidden_or_end_in_yml() {
    for name in ["gpulint.yml", ".gpulint.yaml", ".gpulint.yml"] {
        let folder =
            Folder::new().with(name, "rules: {yaml-text-after-end: off}\n").with("sub/a.yaml", TRAILING);
        let report = folder.run(&["check", "-f", "json"]).exits(0).json();
        assert_eq!(skipped(&report), [format!("{name} config")]);
        let folder = folder.with("gpulint.yaml", "{}\n");
        let both = format!("gpulint.yaml and {name} are configurations of one folder: remove one");
        folder.run(&["check"]).exits(2).complains(&both);
        folder.run(&["check", "--config", name]).exits(0);
        #[cfg(feature = "webhook")]
        folder.run(&["review"]).exits(2).complains(&both);
    }
}

#[test]
fn paths_in_a_configuration_are_relative_to_it() {
    let folder = Folder::new()
        .with("gpulint.yaml", "overrides: [{paths: [\"dev/**\"], rules: {yaml-text-after-end: off}}]\n")
        .with("dev/a.yaml", TRAILING)
        .with("prod/a.yaml", TRAILING.replace("name: a", "name: b"));
    let from = |sub: &str| run_in(&folder.0.join(sub), &["check", "-f", "concise"], "");
    from("dev").exits(0);
    from("prod").exits(1);
    assert!(from(".").exits(1).out.starts_with("prod/a.yaml:"));
}

#[test]
fn definitions_come_from_flags_and_configurations() {
    const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: pools.example.com}\nspec:\n  group: example.com\n  names: {kind: Pool, plural: pools}\n  versions:\n\
        \x20   - name: v1\n      schema:\n        openAPIV3Schema:\n          type: object\n          properties:\n\
        \x20           spec: {type: object, properties: {size: {type: integer, x-kubernetes-validations: [{rule: self < 9}]}}}\n";
    let pool = |size: &str| {
        format!("apiVersion: example.com/v1\nkind: Pool\nmetadata: {{name: a}}\nspec: {{size: {size}}}\n")
    };
    let folder = Folder::new()
        .with("crds/all.yaml", format!("{CONFIG_MAP}---\n{DEFINITION}"))
        .with("twice.yaml", DEFINITION)
        .with("none/a.yaml", CONFIG_MAP)
        .with("manifests/gpulint.yaml", "crds: [../crds]\n")
        .with("manifests/large.yaml", pool("9"))
        .with("manifests/text.yaml", pool("many"))
        .with("other/large.yaml", pool("9"));
    let concise = |args: &[&str]| folder.run(&[&["check", "--format", "concise", "-q"], args].concat());
    let rule = "large.yaml:4:14: error[crd-validation-rule] failed rule: self < 9\n";
    concise(&["manifests"]).exits(1).prints(rule).prints("error[invalid-value]");
    concise(&["other", "--allow-empty"]).exits(0);
    concise(&["other", "--crds", "crds"]).exits(1).prints(rule);
    concise(&["other", "--crds", "none"]).exits(2).complains("none: no CustomResourceDefinition found");
    concise(&["other", "--crds", "missing"]).exits(2).complains("missing:");
    concise(&["other", "--crds", "crds", "--crds", "twice.yaml"])
        .exits(2)
        .complains("twice.yaml: Pool of `example.com` is already defined by `pools.example.com`");
    // Definitions on the command line replace those of the configuration.
    concise(&["manifests", "--crds", "twice.yaml"]).exits(1).prints(rule);
}

#[test]
fn the_same_input_gives_the_same_bytes_on_any_number_of_threads() {
    let mut text = String::new();
    for number in 0..20_000 {
        text.push_str(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: n{number}\n  name: m{number}\n---\n"
        ));
    }
    let folder = Folder::new().with("big.yaml", &text).with("small.yaml", BROKEN);
    let one = folder.run(&["check", "-f", "concise", "--no-fold", "--threads", "1"]).exits(1);
    let many = folder.run(&["check", "-f", "concise", "--no-fold", "--threads", "8"]).exits(1);
    assert_eq!(one.out, many.out);
    assert!(one.out.contains("big.yaml:119999:3: error[yaml-duplicate-key]"));
}

#[test]
fn explain_and_rules_know_every_rule() {
    let here = Path::new(".");
    run_in(here, &["explain", "yaml-syntax"], "").exits(0).prints("Why\n");
    run_in(here, &["explain", "yaml-syntx"], "").exits(2).complains("did you mean `yaml-syntax`?");
    run_in(here, &["explain", "nothing-like-it"], "").exits(2).complains("`gpulint rules` lists all");
    let word = run_in(here, &["explain", "Toleration"], "").exits(0).prints("  gpu-toleration-missing ");
    assert!(!word.out.contains("yaml-syntax"), "{word:?}");
    run_in(here, &["explain", "nodepol"], "").exits(2).complains("did you mean `nodepool`?");
    let all = run_in(here, &["rules"], "").out;
    assert_eq!(run_in(here, &["explain"], "").exits(0).out, all);
    let group = run_in(here, &["explain", "nodepool"], "").exits(0).prints("  gpu-pool-untainted ");
    assert!(group.out.starts_with("nodepool: ") && group.out.len() < all.len() / 2, "{}", group.out);
    let page = run_in(here, &["explain", "probe-missing", "--format", "markdown"], "").exits(0);
    assert!(page.out.starts_with("# probe-missing\n") && page.out.contains("\n## Why\n"), "{}", page.out);
    let rule = run_in(here, &["explain", "probe-missing", "-f", "json"], "").exits(0);
    let rule: Value = serde_json::from_str(&rule.out).unwrap();
    assert!(rule["manual"].as_str().unwrap().contains("# Why"));
    let group = run_in(here, &["explain", "nodepool", "-f", "json"], "").exits(0);
    let group: Value = serde_json::from_str(&group.out).unwrap();
    assert!(group.as_array().unwrap().iter().all(|rule| rule["group"] == "nodepool"));
    let list = run_in(here, &["rules", "--format", "json"], "").exits(0);
    let list: Value = serde_json::from_str(&list.out).unwrap();
    let text = run_in(here, &["rules"], "").exits(0);
    for rule in list.as_array().unwrap() {
        let id = rule["id"].as_str().unwrap();
        assert!(text.out.contains(&format!("  {id} ")), "{id}");
        // A process for each rule takes seconds.
        if is_full() || lot(Path::new(id), 12) == 0 {
            let page = run_in(here, &["explain", id], "").exits(0);
            assert!(page.out.starts_with(id), "{}", page.out);
        }
    }
    // The README has a row for each group that has rules.
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    for rule in gpulint_rules::RULES {
        let (name, about) = (rule.group.name(), rule.group.description());
        assert!(text.out.contains(&format!("{name}: {about}\n")), "{name}");
        let row = format!("| `{name}` | {about} |\n");
        assert!(readme.contains(&row), "README.md lacks {row}");
    }
}

#[test]
fn what_gpulint_prints_of_itself() {
    let here = Path::new(".");
    run_in(here, &["--version"], "").exits(0).prints(env!("CARGO_PKG_VERSION"));
    run_in(here, &["check", "--help"], "").exits(0).prints("--stdin-filename");
    let script = run_in(here, &["completions", "bash"], "").exits(0).prints("_gpulint");
    for word in ["gpu-pool-untainted", "nodepool", "concise"] {
        assert!(script.out.contains(word), "{word}");
    }
    for shell in ["zsh", "fish"] {
        run_in(here, &["completions", shell], "").exits(0).prints("gpu-pool-untainted");
    }
    let help = run_in(here, &["check", "--help"], "").exits(0);
    assert!(!help.out.contains("gpu-limit-mismatch"), "the help does not list all rules");
    run_in(here, &["man"], "").exits(0).prints(".TH gpulint");
    for of in ["config", "diagnostics"] {
        let schema = run_in(here, &["schema", of], "").exits(0);
        let schema: Value = serde_json::from_str(&schema.out).unwrap();
        jsonschema::meta::validate(&schema).unwrap();
    }
}

/// Each file in `fixtures/invalid` has the expected findings, one line each.
#[test]
fn invalid_input_has_the_expected_findings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/invalid");
    let mut entries: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|e| e != "out"))
        .collect();
    entries.sort();
    assert!(!entries.is_empty());
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for entry in entries {
        let name = entry.file_name().unwrap().to_str().unwrap();
        let run = run_in(&folder, &["check", "--format", "concise", name], "");
        let is = format!("{}{}exit {}\n", run.out, run.err, run.code.unwrap_or(-1));
        let path = entry.with_extension("out");
        if update {
            fs::write(&path, is).unwrap();
        } else {
            let expected = fs::read_to_string(&path).unwrap_or_default();
            if is != expected {
                wrong.push(format!("{}\nexpected:\n{expected}is:\n{is}", path.display()));
            }
        }
        validate(&run_in(&folder, &["check", "--format", "json", name], "").json());
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 accepts this", wrong.join("\n"));
}

#[test]
fn kustomizations_that_list_what_is_not_there_are_found() {
    let text = "resources: [a.yaml, absent.yaml, made.yaml, \"https://example.com/a.yaml\"]\n";
    let folder = Folder::new()
        .with("kustomization.yaml", text)
        .with("a.yaml", CONFIG_MAP)
        .with(".gitignore", "made.yaml\n")
        .with(".git/HEAD", "");
    let run = folder.run(&["check", "--format", "concise"]).exits(1);
    let warning = "kustomization.yaml:1:21: warning[render-failed] `absent.yaml` does not exist: `kustomize build` fails";
    assert_eq!(run.prints(warning).out.matches("render-failed").count(), 1);
    let more = Folder::new().with("kustomization.yaml", "resources: [b.yaml, c.yaml, d.yaml]\n");
    more.run(&["check"]).prints("`b.yaml` and 2 more entries do not exist");
    // The folder of a submodule may be filled later.
    let folder = folder.with(".gitmodules", "");
    assert!(!folder.run(&["check"]).exits(0).out.contains("render-failed"));
}
