//! The layout of a long report for people: its order, its end, its lines on a terminal; and its JSON form for
//! programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Folder, Run, command, finish, run_in, validate};

/// A manifest with one error.
fn limit_mismatch(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: a\n    \
         image: registry.example.com/a:1.2\n    resources: {{requests: {{nvidia.com/gpu: 2}}, limits: {{nvidia.com/gpu: 1}}}}\n"
    )
}

/// A manifest with one info, which has a safe fix.
fn cluster_scoped(name: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: {name}, namespace: x}}\nspec: {{role: a}}\n"
    )
}

const SELECT: [&str; 3] = ["check", "--select", "gpu-limit-mismatch,cluster-scoped-namespace,yaml-syntax"];

fn check(folder: &Folder, args: &[&str]) -> Run {
    folder.run(&[&SELECT[..], args].concat())
}

/// A folder with `errors` files with an error each, and `infos` files with an info each.
fn folder(errors: usize, infos: usize) -> Folder {
    let mut folder = Folder::new();
    for at in 0..errors {
        folder = folder.with(&format!("a/{at:02}.yaml"), limit_mismatch(&format!("pod-{at}")));
    }
    for at in 0..infos {
        folder = folder.with(&format!("b/{at:02}.yaml"), cluster_scoped(&format!("class-{at}")));
    }
    folder
}

#[test]
fn what_is_not_listed_is_counted_by_rule() {
    let folder = folder(10, 12);
    let counted = "12 infos of 1 rule (--infos lists all): cluster-scoped-namespace (12)\n";
    let total = "10 errors, 12 infos in 22 files (22 objects); 12 fixable with --fix, 10 more with --fix --unsafe-fixes\n";
    let run = check(&folder, &[]).exits(1);
    assert!(run.out.contains(&format!("{counted}{total}")), "{run:#?}");
    assert!(!check(&folder, &["-q"]).exits(1).out.contains("lists all"));
    // What is listed is not counted.
    for args in [&["--infos"][..], &["-f", "concise"]] {
        let run = check(&folder, args).exits(1);
        assert!(!run.out.contains("lists all") && run.out.contains(total), "{run:#?}");
    }
    // In a short report there is room for them.
    for (errors, infos, is_counted) in [(5, 5, false), (5, 6, true), (0, 10, false), (10, 1, true)] {
        let run = check(&self::folder(errors, infos), &[]);
        assert_eq!(run.out.contains("lists all"), is_counted, "{run:#?}");
    }
}

#[test]
fn statistics_are_the_table_alone() {
    let folder = folder(2, 1);
    let run = check(&folder, &["--statistics"]).exits(1);
    assert!(run.out.starts_with("count  severity  fix  rule"), "{run:#?}");
    assert_eq!(run.out.lines().count(), 7, "{run:#?}");
    let quiet = check(&folder, &["--statistics", "-q", "-f", "concise", "--unsafe-fixes"]).exits(1);
    assert_eq!(quiet.out.lines().count(), 3, "{quiet:#?}");
    let report = check(&folder, &["--statistics", "-f", "json"]).exits(1).json();
    assert_eq!(report["diagnostics"].as_array().unwrap().len(), 0);
    let rules = report["summary"]["rules"].as_array().unwrap();
    let counted: Vec<_> =
        rules.iter().map(|row| (row["rule"].as_str().unwrap(), row["count"].as_u64().unwrap())).collect();
    assert_eq!(counted, [("gpu-limit-mismatch", 2), ("cluster-scoped-namespace", 1)]);
    assert_eq!((&rules[1]["severity"], &rules[1]["fixable"]), (&"info".into(), &1.into()));
    // Without findings there is no table.
    let run = self::folder(0, 0).with("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert_eq!(check(&run, &["--statistics"]).exits(0).out, "no findings in 1 file (1 object)\n");
}

#[test]
fn timings_name_the_rules_that_took_time() {
    let folder = folder(2, 1);
    let plain = check(&folder, &[]).exits(1);
    let run = check(&folder, &["--timings"]).exits(1);
    assert_eq!(run.out, plain.out);
    let (head, rows) = run.err.split_once(" ms:\n").unwrap();
    assert!(head.ends_with(char::is_numeric) && head.contains("2 of 2 rules by time"), "{}", run.err);
    let mut rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split_whitespace().collect()).collect();
    let taken = |row: &Vec<&str>| row[0].parse::<f64>().unwrap();
    assert!(rows.iter().map(taken).is_sorted_by(|a, b| a >= b), "{rows:?}");
    rows.sort_by_key(|row| row.last().copied());
    let rules: Vec<_> = rows.iter().map(|row| (row[1], row[3], row[4])).collect();
    assert_eq!(rules, [("ms", "%", "cluster-scoped-namespace"), ("ms", "%", "gpu-limit-mismatch")]);
    assert!(!plain.err.contains("by time"), "{}", plain.err);
}

#[test]
fn three_findings_are_drawn_and_the_others_are_lines() {
    let folder = folder(6, 0);
    let frames = |run: &Run| run.out.matches("  more: gpulint explain").count();
    let lines = |run: &Run| {
        let lines = run.out.lines().filter(|line| line.contains(": error[gpu-limit-mismatch] "));
        lines.map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The messages do not contain the names of the objects, so that they are folded.
    let run = check(&folder, &[]).exits(1);
    assert_eq!((frames(&run), lines(&run)), (1, vec![]), "{run:#?}");
    let run = check(&folder, &["--no-fold"]).exits(1);
    assert_eq!(frames(&run), 3);
    assert_eq!(lines(&run), ["a/03.yaml", "a/04.yaml", "a/05.yaml"], "{run:#?}");
    // A block of lines ends in an empty line, as a drawn finding does.
    let end = "\n\n3 findings, a line each: --all shows more\n6 errors in 6 files (6 objects); ";
    assert!(run.out.contains(end), "{run:#?}");
    let run = check(&folder, &["--all"]).exits(1);
    assert_eq!((frames(&run), lines(&run)), (6, vec![]));
    let run = check(&folder, &["--all", "-f", "concise"]).exits(1);
    assert_eq!(run.out.lines().count(), 7);
}

#[test]
fn the_findings_that_cost_most_are_drawn_first_of_as_many_rules_as_possible() {
    let folder = folder(4, 1).with("c/a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: [\n");
    let drawn = |args: &[&str]| {
        let run = check(&folder, &[&["--no-fold"], args].concat()).exits(1);
        let heads = run.out.lines().filter(|line| line.starts_with("error[") || line.starts_with("info["));
        heads.map(|line| line.split(']').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (mismatch, syntax) = ("error[gpu-limit-mismatch", "error[yaml-syntax");
    assert_eq!(drawn(&[]), [mismatch, mismatch, syntax]);
    // What costs most is nearest to the prompt.
    assert_eq!(drawn(&["--sort", "severity"]), [syntax, mismatch, mismatch]);
    let infos = self::folder(0, 2);
    let run = check(&infos, &["--no-fold"]).exits(0);
    assert_eq!(run.out.matches("info[cluster-scoped-namespace]: ").count(), 2, "{run:#?}");
}

#[test]
fn many_infos_are_counted_and_listed_on_request() {
    let folder = folder(1, 11);
    let infos = |args: &[&str]| check(&folder, args).exits(1).out.matches("info[cluster-scoped").count();
    check(&folder, &[])
        .exits(1)
        .prints("11 infos of 1 rule (--infos lists all): cluster-scoped-namespace (11)\n");
    assert_eq!(infos(&[]), 0);
    assert_eq!(infos(&["--infos", "--no-fold"]), 11);
    assert_eq!(infos(&["--all"]), 11);
    // An editor needs each place, also of findings that read alike.
    assert_eq!(infos(&["-f", "concise"]), 11);
}

#[test]
fn findings_below_the_minimum_severity_are_counted_and_still_decide_the_exit_code() {
    let folder = folder(1, 2);
    for format in ["text", "concise", "json", "sarif", "github", "gitlab", "junit", "rdjson", "html"] {
        let run = check(&folder, &["-f", format, "--min-severity", "error"]).exits(1);
        assert!(run.out.contains("gpu-limit-mismatch"), "{format}: {run:#?}");
        assert!(!run.out.contains("b/00.yaml"), "{format}: {run:#?}");
    }
    let total =
        "1 error in 3 files (3 objects); 1 fixable with --fix --unsafe-fixes; 2 infos below --min-severity\n";
    check(&folder, &["--min-severity", "error"]).exits(1).prints(total);
    let clean = self::folder(0, 1);
    let args = [&SELECT[..], &["--fail-on", "info"]].concat();
    let mut command = command(&clean.0, &args);
    let run = finish(command.env("GPULINT_MIN_SEVERITY", "warning").output().unwrap());
    run.exits(1).prints("no findings in 1 file (1 object); 1 info below --min-severity\n");
    let configured = folder.with("gpulint.yaml", "min-severity: error\n");
    check(&configured, &[]).exits(1).prints(total);
    check(&configured, &["--min-severity", "info"]).exits(1).prints("1 error, 2 infos in 3 files");
}

#[test]
fn a_long_report_ends_in_the_next_commands() {
    let folder = folder(12, 12);
    let run = check(&folder, &["a", "b"]).exits(1);
    let next: Vec<&str> = run.out.lines().filter(|line| line.starts_with("next: ")).collect();
    assert_eq!(
        next,
        [
            "next: gpulint check --fix --select gpu-limit-mismatch,cluster-scoped-namespace,yaml-syntax a b (repairs 12 infos)",
        ]
    );
    let many = self::folder(21, 0);
    let run = many.run(&["check", "--isolated"]).exits(1);
    run.prints("next: gpulint check --write-baseline gpulint-baseline.yaml --isolated (then ");
    // Without a configuration, one may be written that turns rules off.
    let more = self::folder(21, 20);
    more.run(&["check"]).exits(1).prints("next: gpulint init (writes gpulint.yaml with ");
    let configured = more.with("gpulint.yaml", "{}\n").run(&["check"]).exits(1);
    assert!(!configured.out.contains("gpulint init"), "{configured:#?}");
    let few = check(&self::folder(2, 0), &[]).exits(1);
    assert!(!few.out.contains("next: "), "{few:#?}");
}

/// The printed command reads what the run has read, and names the workload among others of its name.
#[test]
fn the_next_command_explains_the_pod_that_fits_no_pool() {
    const POOL: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n      \
        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      requirements:\n      - {key: \
        karpenter.k8s.aws/instance-family, operator: In, values: [g6]}\n---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: \
        {name: gpu}\nspec:\n  role: node\n  amiSelectorTerms: [{alias: al2023@v20260101}]\n  subnetSelectorTerms: [{tags: {a: b}}]\n  \
        securityGroupSelectorTerms: [{tags: {a: b}}]\n";
    let pod = |namespace: &str, selector: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: llm, namespace: {namespace}}}\nspec:\n  nodeSelector: {selector}\n  \
             containers: [{{name: a, image: \"a:1\", resources: {{requests: {{cpu: 1}}}}}}]\n"
        )
    };
    let folder = Folder::new()
        .with("all/pool.yaml", POOL)
        .with("all/a.yaml", pod("serving", "{team: x}"))
        .with("all/b.yaml", pod("other", "{}"));
    let run = folder.run(&["check", "--complete", "--isolated", "--select", "pod-fits-no-pool", "all"]);
    let next = run.out.lines().find_map(|line| line.strip_prefix("next: gpulint ")).unwrap();
    let command = next.split(" (").next().unwrap();
    assert_eq!(command, "why serving/pod/llm --isolated --complete all", "{run:#?}");
    let words: Vec<&str> = command.split(' ').collect();
    folder.run(&words).exits(1).prints("gpu");
}

#[test]
fn errors_may_be_last() {
    let folder = folder(2, 2);
    let rules = |args: &[&str]| {
        let run = check(&folder, &[&["-f", "concise", "-q"], args].concat()).exits(1);
        run.out.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let by_file = ["a/00.yaml", "a/01.yaml", "b/00.yaml", "b/01.yaml"];
    assert_eq!(rules(&[]), by_file);
    assert_eq!(rules(&["--sort", "file"]), by_file);
    assert_eq!(rules(&["--sort", "severity"]), ["b/00.yaml", "b/01.yaml", "a/00.yaml", "a/01.yaml"]);
    // The output for programs does not change.
    let json = |args: &[&str]| check(&folder, &[&["-f", "json"], args].concat()).exits(1).out;
    assert_eq!(json(&["--sort", "severity", "--group-by", "rule", "--all"]), json(&[]));
}

#[test]
fn findings_stand_below_their_rule_or_file() {
    let folder =
        folder(2, 1).with("a/00.yaml", format!("{}---\n{}", limit_mismatch("x"), cluster_scoped("y")));
    let run = check(&folder, &["-f", "concise", "-q", "--group-by", "rule"]).exits(1);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.len(), 7, "{run:#?}");
    assert_eq!(lines[0], "cluster-scoped-namespace: A cluster-scoped object has a namespace (2 findings)");
    assert!(lines[1].starts_with("  a/00.yaml:13:32: info "), "{run:#?}");
    assert_eq!(lines[3], "");
    assert!(lines[4].starts_with("gpu-limit-mismatch: "), "{run:#?}");
    let run = check(&folder, &["-f", "concise", "-q", "--group-by", "file"]).exits(1);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(
        (lines[0], lines[3], lines[4]),
        ("a/00.yaml (2 findings)", "", "a/01.yaml (1 finding)"),
        "{run:#?}"
    );
    assert!(lines[1].starts_with("  9:") && lines[1].contains(": error[gpu-limit-mismatch] "), "{run:#?}");
    // The section with an error is last if errors are.
    let run = check(&folder, &["-f", "concise", "-q", "--group-by", "file", "--sort", "severity"]).exits(1);
    assert!(run.out.starts_with("b/00.yaml (1 finding)\n"), "{run:#?}");
    check(&folder, &["--group-by", "file"])
        .exits(1)
        .prints("a/00.yaml (2 findings)\nerror[gpu-limit-mismatch]: ");
}

#[test]
fn verbose_says_what_was_judged_how_and_what_was_skipped() {
    let folder = folder(1, 0)
        .with("gpulint.yaml", "ignore: [old/]\n")
        .with("sub/gpulint.yml", "{}\n")
        .with("sub/deep/b.yaml", cluster_scoped("b"))
        .with("old/c.yaml", cluster_scoped("c"))
        .with("notes.yaml", "a: 1\n")
        .with("chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n")
        .with("chart/templates/a.yaml", "{{ a }}\n");
    let run = check(&folder, &["-v"]).exits(1);
    assert_eq!(check(&folder, &[]).exits(1).out, run.out);
    let run = run
        .complains("configurations:\n  gpulint.yaml: 5 files in .\n  sub/gpulint.yml: 2 files in sub\n")
        .complains("\nsets:\nThe whole input is one set: 2 files, 2 objects.\n")
        .complains("\nskipped:\n  1 file: named by `ignore` of gpulint.yaml\n")
        .complains("  helm-template, a template of a chart; --render checks what it gives: 1\n    chart/templates/a.yaml\n");
    run.complains("  foreign, not a Kubernetes object: 2\n    chart/Chart.yaml\n    notes.yaml\n");
}

#[test]
fn json_says_why_the_run_failed() {
    let folder = folder(1, 0).with("notes.yaml", "a: 1\n");
    let failures = |args: &[&str], code: i32| {
        let report = check(&folder, &[&["-f", "json"], args].concat()).exits(code).json();
        let all = report["failures"].as_array().unwrap();
        all.iter().map(|one| one.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(failures(&["."], 1), Vec::<String>::new());
    let absent = failures(&["absent.yaml", "a"], 2);
    assert!(absent.len() == 1 && absent[0].starts_with("absent.yaml: "), "{absent:?}");
    let empty = failures(&["notes.yaml"], 2);
    assert!(empty.len() == 1 && empty[0].starts_with("no Kubernetes object found"), "{empty:?}");
    assert_eq!(failures(&["--allow-empty", "notes.yaml"], 0), Vec::<String>::new());
    let chart = Folder::new().with("Chart.yaml", "name: a\n").with("templates/a.yaml", "a: 1\n");
    let mut command = command(&chart.0, &["check", "--render", "-f", "json"]);
    let report = finish(command.env("PATH", "/nonexistent").output().unwrap()).exits(2).json();
    assert_eq!(report["failures"][0], "1 render failed: see the findings of render-failed", "{report:#}");
}

#[test]
fn json_names_the_configuration_of_a_file() {
    let folder = folder(1, 0).with("b/gpulint.yaml", "{}\n").with("b/c.yaml", cluster_scoped("c"));
    let report = check(&folder, &["-f", "json"]).exits(1).json();
    let named: Vec<_> =
        report["diagnostics"].as_array().unwrap().iter().map(|d| d["configuration"].clone()).collect();
    assert_eq!(named, [Value::Null, "b/gpulint.yaml".into()]);
}

#[test]
fn paths_may_be_relative_to_a_folder() {
    let folder = folder(1, 1).with("a/absent", "").with("a/notes.yaml", "a: 1\n");
    let files = |run: Run| {
        let report = run.json();
        let found =
            report["diagnostics"].as_array().unwrap().iter().map(|d| d["file"].as_str().unwrap().to_owned());
        found.collect::<Vec<_>>()
    };
    let inside = |args: &[&str]| run_in(&folder.0.join("a"), &[&SELECT[..], args].concat(), "");
    assert_eq!(files(inside(&["-f", "json", ".", "../b"])), ["../b/00.yaml", "00.yaml"]);
    let run = inside(&["-f", "json", ".", "../b", "--relative-to", ".."]);
    let skipped = run.json()["summary"]["skipped"][0]["file"].clone();
    assert_eq!(skipped, "a/notes.yaml");
    assert_eq!(files(run), ["a/00.yaml", "b/00.yaml"]);
    let run = check(&folder, &["a", "--relative-to", "b", "-f", "concise"]).exits(1);
    assert!(run.out.starts_with("../a/00.yaml:9:"), "{run:#?}");
    // The fixes are written to the files.
    check(&folder, &["b", "--relative-to", "a", "--fix"]).exits(0).prints("../b/00.yaml:3:");
    assert!(!fs::read_to_string(folder.0.join("b/00.yaml")).unwrap().contains("namespace"));
    check(&folder, &["--relative-to", "nowhere"]).exits(2).complains("--relative-to nowhere: not a folder");
    let named = folder.run_with(&["check", "-", "--relative-to", "a", "-f", "concise"], "a: [\n");
    named.exits(1).prints("<stdin>:");
}

/// Collects the members that every object of each kind in the schema has in some reports, by the place in the
/// schema.
fn met(schema: &Value, at: &str, value: &Value, root: &Value, met: &mut BTreeMap<String, BTreeSet<String>>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches('#');
        return self::met(root.pointer(name).unwrap(), name, value, root, met);
    }
    for (number, one) in schema["anyOf"].as_array().into_iter().flatten().enumerate() {
        if one["type"] != "null" && !value.is_null() {
            self::met(one, &format!("{at}/anyOf/{number}"), value, root, met);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        self::met(&schema["items"], &format!("{at}/items"), item, root, met);
    }
    if let (Some(members), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        let keys: BTreeSet<String> = members.keys().cloned().collect();
        let known = met.entry(at.to_owned()).or_insert_with(|| keys.clone());
        known.retain(|key| keys.contains(key));
        for (key, value) in members {
            self::met(&properties[key], &format!("{at}/properties/{key}"), value, root, met);
        }
    }
}

#[test]
fn the_schema_requires_what_is_always_there() {
    let schema = run_in(Path::new("."), &["schema", "diagnostics"], "").exits(0);
    let schema: Value = serde_json::from_str(&schema.out).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut reports: Vec<Value> = ["serving", "prod", "overlays"]
        .iter()
        .map(|name| fs::read_to_string(root.join(format!("tests/it/render/{name}.json"))).unwrap())
        .map(|text| serde_json::from_str(&text).unwrap())
        .collect();
    let run = |args: &[&str]| run_in(root, &[&["check", "-f", "json"], args].concat(), "").json();
    reports.push(run(&["fixtures/practices", "fixtures/migration", "fixtures/rules/keda-removed-field"]));
    reports.push(run(&["fixtures/rules/budget-shadowed", "fixtures/rules/gpu-pool-untainted"]));
    reports.push(run(&["fixtures/rules/feature-gate-off/fires-application.yaml"]));
    let folder = crate::preview::folder("1.3");
    reports.push(folder.run(&["check", "-f", "json", "--karpenter", "1.14"]).json());
    let mut known = BTreeMap::new();
    for report in &reports {
        met(&schema, "", report, &schema, &mut known);
    }
    let mut wrong = Vec::new();
    let mut compare = |at: &str, part: &Value| {
        let required: BTreeSet<String> = part["required"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        match known.get(at) {
            None => wrong.push(format!("{at}: no report has one")),
            Some(known) if *known != required => {
                wrong.push(format!("{at}: requires {required:?}, and always has {known:?}"));
            }
            Some(_) => {}
        }
    };
    let mut open = vec![(String::new(), &schema)];
    while let Some((at, part)) = open.pop() {
        if part["properties"].is_object() && !at.contains("/allOf/") {
            compare(&at, part);
        }
        match part {
            Value::Object(members) => {
                open.extend(members.iter().map(|(key, value)| (format!("{at}/{key}"), value)));
            }
            Value::Array(items) => {
                open.extend(
                    items.iter().enumerate().map(|(number, value)| (format!("{at}/{number}"), value)),
                );
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The output of the command on a terminal with `columns` columns. `None` if `script` is not installed.
#[cfg(target_os = "linux")]
fn on_terminal(folder: &Folder, columns: usize, args: &[&str], env: &[(&str, &str)]) -> Option<String> {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let line = format!("stty cols {columns} rows 40; {} {}", env!("CARGO_BIN_EXE_gpulint"), quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(&folder.0).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "FORCE_HYPERLINK", "CI"] {
        script.env_remove(name);
    }
    script.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").envs(env.iter().copied());
    match script.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")),
        Err(_) => {
            gpulint_testing::missing("script", "apt-get install bsdutils");
            None
        }
    }
}

/// The text without colours and links, and whether it had links.
fn plain(text: &str) -> String {
    let escapes = regex::Regex::new(r"\x1b\[[0-9;]*[mK]|\x1b\]8;;[^\x1b]*\x1b\\").unwrap();
    escapes.replace_all(text, "").into_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_errors_are_last_and_lines_fit() {
    let deep = "clusters/production/eu-west-1/namespaces/machine-learning/training/jobs/a.yaml";
    let folder = folder(12, 12).with(deep, limit_mismatch("deep"));
    for columns in [80, 60, 44] {
        for format in ["text", "concise"] {
            let args = [&SELECT[..], &["--no-fold", "--infos", "-f", format]].concat();
            let Some(out) = on_terminal(&folder, columns, &args, &[]) else { return };
            assert!(out.contains("\x1b[1;31merror[gpu-limit-mismatch]\x1b[0m"), "{out}");
            let text = plain(&out);
            let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > columns).collect();
            assert!(long.is_empty(), "{columns} {format}: {long:#?}");
            let last = |what: &str| text.rfind(what).unwrap();
            assert!(last("info[") < text.find("error[").unwrap(), "{text}");
            assert!(last("error[") < last("12 infos"), "{text}");
        }
    }
    let args = [&SELECT[..], &["--sort", "file", "-f", "concise", "-q"]].concat();
    let text = plain(&on_terminal(&folder, 80, &args, &[]).unwrap());
    assert!(text.starts_with("a/00.yaml:9:"), "{text}");
    let args = [&SELECT[..], &["-f", "json"]].concat();
    let json = on_terminal(&folder, 80, &args, &[]).unwrap();
    assert_eq!(json, check(&folder, &["-f", "json"]).out);
}

#[cfg(target_os = "linux")]
#[test]
fn rules_are_links_where_the_terminal_takes_them() {
    let folder = folder(1, 0);
    let link = "\x1b]8;;https://";
    let has = |env: &[(&str, &str)], more: &[&str]| {
        let args = [&SELECT[..], more].concat();
        Some(on_terminal(&folder, 80, &args, env)?.contains(link))
    };
    let Some(kitty) = has(&[("TERM", "xterm-kitty")], &[]) else { return };
    assert!(kitty);
    assert_eq!(has(&[("TERM", "xterm-kitty")], &["-f", "concise"]), Some(true));
    assert_eq!(has(&[("TERM", "xterm-kitty")], &["--statistics"]), Some(true));
    assert_eq!(has(&[("TERM", "dumb"), ("FORCE_HYPERLINK", "1")], &[]), Some(false));
    assert_eq!(has(&[("TERM", "xterm-kitty"), ("NO_COLOR", "1")], &[]), Some(false));
    assert_eq!(has(&[("TERM", "xterm-kitty")], &["-f", "json", "--color", "always"]), Some(false));
    let run = finish(command(&folder.0, &SELECT).env("TERM", "xterm-kitty").output().unwrap());
    assert!(!run.out.contains(link));
}

/// The names in a folder that are not those of its manifests.
fn leftovers(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("gpulint-")).collect()
}

#[cfg(unix)]
#[test]
fn a_report_takes_its_place_when_it_is_whole() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder(1, 0).with("report.json", "before").with("real/b.txt", "before");
    let path = |name: &str| folder.0.join(name);
    fs::set_permissions(path("report.json"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real/b.txt", path("link.txt")).unwrap();
    symlink("absent.txt", path("dangling.txt")).unwrap();
    let args = ["-f", "json=report.json", "-f", "concise=link.txt", "-f", "text=dangling.txt"];
    check(&folder, &args).exits(1);
    validate(&serde_json::from_str(&fs::read_to_string(path("report.json")).unwrap()).unwrap());
    assert_eq!(fs::metadata(path("report.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(path("link.txt")).unwrap().is_symlink());
    assert!(fs::read_to_string(path("real/b.txt")).unwrap().contains("error[gpu-limit-mismatch]"));
    assert!(fs::read_to_string(path("absent.txt")).unwrap().contains("error[gpu-limit-mismatch]"));
    assert_eq!(leftovers(&folder.0), Vec::<String>::new());
    // An open file stays the same file.
    let out = fs::File::create(path("out.txt")).unwrap();
    let args = [&SELECT[..], &["-f", "concise=/dev/stdout", "-q"]].concat();
    let status = command(&folder.0, &args).stdout(out).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(fs::read_to_string(path("out.txt")).unwrap().lines().count(), 1);
    let run = check(&folder, &["-f", "concise=/dev/stdout", "-q"]).exits(1);
    assert_eq!(run.out.lines().count(), 1);
    check(&folder, &["-f", "json=absent/report.json"])
        .exits(2)
        .complains("cannot write absent/report.json: ");
}

/// Ends the command with a signal as soon as `is_due` returns true.
#[cfg(unix)]
fn interrupted(mut command: Command, signal: &str, is_due: impl Fn() -> bool) -> std::process::ExitStatus {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while !is_due() && child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < Duration::from_secs(120), "nothing was written");
        std::thread::sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    child.wait().unwrap()
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_no_half_of_a_report() {
    use std::os::unix::process::ExitStatusExt;
    let mut text = String::new();
    for number in 0..60_000 {
        text.push_str(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: n{number}\n  name: m{number}\n---\n"
        ));
    }
    let folder = Folder::new().with("in/big.yaml", &text).with("report.json", "before");
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let args = ["check", "in", "--select", "yaml-duplicate-key", "-f", "json=report.json"];
        let status = interrupted(command(&folder.0, &args), signal, || !leftovers(&folder.0).is_empty());
        assert_eq!(status.signal(), Some(number), "{status:?}");
        assert_eq!(leftovers(&folder.0), Vec::<String>::new());
        assert_eq!(fs::read_to_string(folder.0.join("report.json")).unwrap(), "before");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_fix_leaves_whole_files() {
    use std::os::unix::process::ExitStatusExt;
    let folder = folder(0, 1000);
    let before: Vec<String> = (0..1000).map(|at| cluster_scoped(&format!("class-{at}"))).collect();
    let read = |at: usize| fs::read_to_string(folder.0.join(format!("b/{at:02}.yaml"))).unwrap();
    let args = [&SELECT[..], &["--fix"]].concat();
    let status = interrupted(command(&folder.0, &args), "-INT", || read(3) != before[3]);
    assert_eq!(status.signal(), Some(2), "{status:?}");
    assert_eq!(leftovers(&folder.0.join("b")), Vec::<String>::new());
    let mut fixed = 0;
    for (at, before) in before.iter().enumerate() {
        let now = read(at);
        fixed += usize::from(now != *before);
        let whole = [before.clone(), before.replace(", namespace: x", "")];
        assert!(whole.contains(&now), "{at}: {now}");
    }
    assert!((1..1000).contains(&fixed), "{fixed}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_render_ends_the_programs() {
    use std::os::unix::fs::PermissionsExt;
    let helm = "#!/bin/sh\n/bin/sleep 1000 &\necho $! >\"$STARTED\"\nwait\n";
    let folder = Folder::new()
        .with("in/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n")
        .with("in/templates/a.yaml", "a: {{ 1 }}\n")
        .with("tmp/.keep", "");
    let started = folder.0.join("started");
    let folder = folder.with("bin/helm", helm.replace("$STARTED", started.to_str().unwrap()));
    let helm = folder.0.join("bin/helm");
    fs::set_permissions(&helm, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = command(&folder.0, &["check", "in", "--render"]);
    command.env("PATH", folder.0.join("bin")).env("TMPDIR", folder.0.join("tmp"));
    let is_started = || fs::read_to_string(&started).is_ok_and(|text| text.ends_with('\n'));
    let status = interrupted(command, "-INT", is_started);
    assert!(!status.success());
    assert_eq!(leftovers(&folder.0.join("tmp")), Vec::<String>::new());
    let id = fs::read_to_string(&started).unwrap();
    let is_running = || {
        let state = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        // A zombie process has ended.
        !state.is_empty() && !state.contains(") Z ")
    };
    let since = Instant::now();
    while is_running() {
        assert!(since.elapsed() < Duration::from_secs(5), "the program goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
