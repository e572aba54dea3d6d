//! The formats for other programs: SARIF, workflow commands of GitHub, Code Quality of GitLab, JUnit, reviewdog.

mod judges;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fix::SAFE;
use crate::support::{Folder, command, finish, run_in};

/// A manifest with one error and one warning.
const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}
  limits: {nvidia.com/gpu: 8}
";

/// The one run of a SARIF log.
fn run_of(text: &str) -> Value {
    let mut log: Value = serde_json::from_str(text).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(log["runs"].as_array().unwrap().len(), 1);
    log["runs"][0].take()
}

#[test]
fn several_formats_are_written_at_once() {
    let folder = Folder::new().with("a.yaml", POOL);
    let args = ["check", "--format", "sarif=a.sarif,github=a.txt", "-f", "concise"];
    folder.run(&args).exits(1).prints("a.yaml:6:5: error[gpu-pool-untainted]");
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    assert!(read("a.txt").contains(
        "::error file=a.yaml,line=6,endLine=6,col=5,endColumn=9,title=gpulint%3A gpu-pool-untainted::"
    ));
    assert_eq!(run_of(&read("a.sarif"))["results"][0]["ruleId"], "gpu-pool-untainted");
}

#[test]
fn the_environment_names_formats_that_arguments_replace() {
    let folder = Folder::new().with("a.yaml", POOL);
    let run = |args: &[&str], formats: &str| {
        let output = command(&folder.0, args).env("GPULINT_FORMAT", formats).output().unwrap();
        finish(output)
    };
    run(&["check"], "concise,sarif=env.sarif").exits(1).prints("a.yaml:6:5: error[");
    assert!(folder.0.join("env.sarif").exists());
    run(&["check", "-f", "github"], "json,sarif=other.sarif").exits(1).prints("::error file=a.yaml");
    assert!(!folder.0.join("other.sarif").exists());
    run(&["check"], "xml").exits(2).complains("the formats are text");
    run(&["check"], "").exits(1).prints("error[gpu-pool-untainted]: ");
}

#[test]
fn help_completions_and_manual_name_the_formats() {
    let folder = Folder::new();
    let help = folder.run(&["check", "--help"]).exits(0).prints("GPULINT_FORMAT");
    folder.run(&["completions", "bash"]).exits(0).prints(&formats().join(" "));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let (manual, readme) = (read("docs/src/formats.md"), read("README.md"));
    for format in formats() {
        assert!(help.out.contains(&format!("- {format}:")), "{format}: {}", help.out);
        assert!(manual.contains(&format!("\n| `{format}` |")), "docs/src/formats.md has no line of {format}");
        assert!(readme.contains(&format!("`{format}`")), "README.md does not name {format}");
    }
}

/// The rules of the fixes of [`SAFE`].
const FIXES: &str = "consolidate-after-missing,capacity-type-invalid";

/// The names of all formats.
fn formats() -> Vec<String> {
    let said = Folder::new().run(&["check", "--format", "?"]).exits(2).err;
    let names = said.split_once("the formats are ").and_then(|(_, rest)| rest.lines().next()).unwrap();
    names.replace(" and ", ", ").split(", ").map(str::to_owned).collect()
}

impl Folder {
    /// The report in each format but text and HTML, by its name.
    fn reports(&self, args: &[&str]) -> BTreeMap<String, String> {
        let names: Vec<String> =
            formats().into_iter().filter(|name| !["text", "html"].contains(&name.as_str())).collect();
        assert!(names.len() > 6, "{names:?}");
        let files: Vec<String> = names.iter().map(|name| format!("{name}=report.{name}")).collect();
        let run = self.run(&[&["check", "-f", &files.join(",")], args].concat());
        assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
        let read = |name| fs::read_to_string(self.0.join(format!("report.{name}"))).unwrap();
        names.into_iter().map(|name| (name.clone(), read(name))).collect()
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The offset in a text of a line and a column, both from 1. `width` is the width of a character in columns.
fn offset(text: &str, line: &Value, column: &Value, width: fn(char) -> usize) -> usize {
    let line = line.as_u64().unwrap() as usize;
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let mut left = column.as_u64().unwrap() as usize - 1;
    let mut at = start;
    for c in text[start..].chars() {
        if left == 0 {
            break;
        }
        left -= width(c);
        at += c.len_utf8();
    }
    at
}

/// The text after the replacements of a SARIF result, which are in order.
fn with_sarif_fix(text: &str, result: &Value) -> String {
    let width = |c: char| if c == '\u{FEFF}' { 0 } else { c.len_utf16() };
    let mut out = text.to_owned();
    for one in result["fixes"][0]["artifactChanges"][0]["replacements"].as_array().unwrap().iter().rev() {
        let region = &one["deletedRegion"];
        let start = offset(text, &region["startLine"], &region["startColumn"], width);
        let end = offset(text, &region["endLine"], &region["endColumn"], width);
        out.replace_range(start..end, one["insertedContent"]["text"].as_str().unwrap_or_default());
    }
    out
}

/// The text after the suggestion of reviewdog, whose columns are bytes.
fn with_suggestion(text: &str, diagnostic: &Value) -> String {
    let suggestion = &diagnostic["suggestions"][0];
    let at = |end: &str| {
        let place = &suggestion["range"][end];
        offset(text, &place["line"], &place["column"], char::len_utf8)
    };
    let mut out = text.to_owned();
    out.replace_range(at("start")..at("end"), suggestion["text"].as_str().unwrap());
    out
}

/// A pool on one line, with characters of two, three and four bytes before the error.
const ONE_LINE: &str = "\u{FEFF}{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodePool\", \"metadata\": {\"name\": \"web\", \
    \"annotations\": {\"a\": \"é€𐐀\"}}, \"spec\": {\"template\": {\"spec\": {\"nodeClassRef\": {\"group\": \"karpenter.k8s.aws\", \"kind\": \
    \"EC2NodeClass\", \"name\": \"web\"}, \"requirements\": [{\"key\": \"karpenter.sh/capacity-type\", \"operator\": \"In\", \"values\": \
    [\"On-Demand\"]}]}}, \"disruption\": {\"consolidationPolicy\": \"WhenEmpty\"}}}";

#[test]
fn fixes_of_other_formats_are_those_of_gpulint() {
    let wide = SAFE.replace("{name: web}\nspec", "{name: web, annotations: {a: é€𐐀}}\nspec");
    let windows = format!("\u{FEFF}{}", wide.replace('\n', "\r\n"));
    for text in [SAFE, &wide, &windows, ONE_LINE] {
        let folder = Folder::new().with("a.yaml", text);
        let reports = folder.reports(&["--select", FIXES, "--karpenter", "1.14"]);
        let results = run_of(&reports["sarif"])["results"].take();
        let diagnostics = parse(&reports["rdjson"])["diagnostics"].take();
        let results = results.as_array().unwrap();
        assert_eq!(results.len(), 2, "{text}");
        for result in results {
            let rule = result["ruleId"].as_str().unwrap();
            // Only one rule, so that there is one fix.
            let alone = Folder::new().with("a.yaml", text);
            alone.run(&["check", "--select", rule, "--karpenter", "1.14", "--fix", "--unsafe-fixes"]);
            let fixed = fs::read_to_string(alone.0.join("a.yaml")).unwrap();
            assert_ne!(fixed, text, "{rule}");
            assert_eq!(with_sarif_fix(text, result), fixed, "{rule}");
            let same = |one: &&Value| one["code"]["value"] == rule;
            let diagnostic = diagnostics.as_array().unwrap().iter().find(same).unwrap();
            assert_eq!(with_suggestion(text, diagnostic), fixed, "{rule}");
        }
    }
}

/// 𐐀 is one character, two UTF-16 code units and four bytes of UTF-8; the byte order mark is a column only in
/// bytes.
#[test]
fn each_format_counts_columns_in_its_own_unit() {
    let text = "\u{FEFF}{é: 𐐀, é: 1, apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";
    let folder = Folder::new().with("a.yaml", text);
    let reports = folder.reports(&["--select", "yaml-duplicate-key"]);
    let run = run_of(&reports["sarif"]);
    assert_eq!(run["columnKind"], "utf16CodeUnits");
    let region = &run["results"][0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!([&region["startColumn"], &region["endColumn"]], [9, 10], "{region}");
    let range = &parse(&reports["rdjson"])["diagnostics"][0]["location"]["range"];
    let before = "\u{FEFF}{é: 𐐀, ".len();
    assert_eq!([&range["start"]["column"], &range["end"]["column"]], [before + 1, before + 3], "{range}");
    assert!(reports["github"].contains("line=1,endLine=1,col=8,endColumn=9,"), "{}", reports["github"]);
}

/// Values from a manifest: control characters, marks that change the direction of text, XML, workflow
/// commands.
#[test]
fn a_manifest_cannot_break_a_format() {
    let text = "apiVersion: v1\nkind: ConfigMap\n\"\\e\\0\\u202E]]><a&'\\r\\n::error::x%0A\": 1\n\"\\e\\0\\u202E]]><a&'\\r\\n::error::x%0A\": 2\n";
    let folder = Folder::new().with("a.yaml", text);
    let reports = folder.reports(&["--select", "yaml-duplicate-key"]);
    for (format, report) in reports.iter().filter(|(format, _)| *format != "json") {
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202E}';
        assert!(!report.contains(bad), "{format}: {report:?}");
    }
    assert_eq!(reports["github"].lines().count(), 1, "{}", reports["github"]);
    assert!(reports["github"].contains("x%250A"), "{}", reports["github"]);
    assert!(reports["junit"].contains("]]&gt;&lt;a&amp;"), "{}", reports["junit"]);
    let message = run_of(&reports["sarif"])["results"][0]["message"]["text"].take();
    assert!(message.as_str().unwrap().contains("\\u{1b}\\u{0}\\u{202e}]]><a&"), "{message}");
}

#[test]
fn paths_are_relative_to_the_root_of_the_repository() {
    let folder = Folder::new()
        .with("repo/.git/HEAD", "ref: refs/heads/main\n")
        .with("repo/clusters/a, b:c 100% ö.yaml", POOL)
        .with("elsewhere.yaml", POOL.replace("name: gpu}\nspec", "name: other}\nspec"));
    let args = ["check", "-q", "-f"];
    let there = folder.0.join("repo/clusters");
    let report = |format: &str| {
        let args = [&args[..], &[format, ".", "../../elsewhere.yaml"]].concat();
        run_in(&there, &args, "").exits(1).out
    };
    let run = run_of(&report("sarif"));
    let files: BTreeSet<String> = run["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["locations"][0]["physicalLocation"]["artifactLocation"].to_string())
        .collect();
    let root = fs::canonicalize(&folder.0).unwrap();
    let root = root.to_str().unwrap();
    let expected = [
        "{\"uri\":\"clusters/a%2C%20b%3Ac%20100%25%20%C3%B6.yaml\",\"uriBaseId\":\"%SRCROOT%\"}".to_owned(),
        format!("{{\"uri\":\"file://{root}/elsewhere.yaml\"}}"),
    ];
    assert_eq!(files, BTreeSet::from(expected));
    assert_eq!(run["originalUriBaseIds"]["%SRCROOT%"]["uri"], format!("file://{root}/repo/"));
    assert!(report("github").contains("::error file=clusters/a%2C b%3Ac 100%25 ö.yaml,line="));
    for (format, member) in [("gitlab", ""), ("rdjson", "/diagnostics")] {
        let report = parse(&report(format));
        let all = report.pointer(member).unwrap().as_array().unwrap();
        let paths: BTreeSet<&str> = all.iter().map(|one| one["location"]["path"].as_str().unwrap()).collect();
        let elsewhere = format!("{root}/elsewhere.yaml");
        assert_eq!(paths, BTreeSet::from(["clusters/a, b:c 100% ö.yaml", &elsewhere]));
    }
    assert!(report("junit").contains("<testsuite name=\"clusters/a, b:c 100% ö.yaml\""));
    // A folder that is named is the root instead.
    let named = |format: &str| {
        run_in(&there, &["check", "-q", "--relative-to", "../..", "-f", format], "").exits(1).out
    };
    assert_eq!(parse(&named("gitlab"))[0]["location"]["path"], "repo/clusters/a, b:c 100% ö.yaml");
    assert_eq!(run_of(&named("sarif"))["originalUriBaseIds"]["%SRCROOT%"]["uri"], format!("file://{root}/"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_no_utf_8_leads_to_its_file() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    fs::write(folder.0.join(std::ffi::OsStr::from_bytes(b"caf\xE9.yaml")), POOL).unwrap();
    let reports = folder.reports(&[]);
    let run = run_of(&reports["sarif"]);
    let place = &run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(place["uri"], "caf%E9.yaml");
    assert_eq!(parse(&reports["gitlab"])[0]["location"]["path"], "caf\u{FFFD}.yaml");
}

#[test]
fn standard_input_is_no_file_unless_it_has_a_name() {
    let folder = Folder::new();
    let run =
        |args: &[&str]| folder.run_with(&[&["check", "-", "-q", "-f"], args].concat(), POOL).exits(1).out;
    let sarif = run_of(&run(&["sarif"]));
    let place = &sarif["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(place.to_string(), "{\"uri\":\"%3Cstdin%3E\"}");
    let github = run(&["github"]);
    assert!(github.starts_with("::error title=gpulint%3A gpu-pool-untainted::<stdin>:6:5: "), "{github}");
    assert_eq!(parse(&run(&["gitlab"]))[0]["location"]["path"], "<stdin>");
    let sarif = run_of(&run(&["sarif", "--stdin-filename", "pools/gpu.yaml"]));
    let place = &sarif["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(place["uri"], "pools/gpu.yaml");
    assert!(
        run(&["github", "--stdin-filename", "pools/gpu.yaml"]).starts_with("::error file=pools/gpu.yaml,")
    );
}

/// Errors that are not in a file: a path that cannot be read, an input without objects.
#[test]
fn what_could_not_be_done_is_said_without_a_place() {
    let folder = Folder::new().with("a.yaml", POOL);
    let run = |format: &str| folder.run(&["check", "-q", "-f", format, "a.yaml", "absent.yaml"]).exits(2).out;
    let sarif = run_of(&run("sarif"));
    let invocation = &sarif["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(invocation["exitCode"], 2);
    let said = invocation["toolExecutionNotifications"][0]["message"]["text"].as_str().unwrap();
    assert!(said.starts_with("absent.yaml: "), "{said}");
    assert!(run("github").starts_with("::error title=gpulint::absent.yaml: "));
    let junit = run("junit");
    assert!(junit.contains("errors=\"1\""), "{junit}");
    assert!(junit.contains("<error type=\"error\" message=\"absent.yaml: "), "{junit}");
    let nothing = Folder::new().with("a.txt", "a").run(&["check", "-q", "-f", "sarif"]).exits(2);
    let said = &run_of(&nothing.out)["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
    assert!(said.as_str().unwrap().starts_with("no Kubernetes object found"), "{said}");
}

#[test]
fn without_findings_every_format_is_whole() {
    let sound = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sound, namespace: ml}\n";
    let folder = Folder::new().with("a.yaml", sound);
    let reports = folder.reports(&[]);
    assert_eq!(reports["github"], "");
    assert_eq!(parse(&reports["gitlab"]).as_array().unwrap().len(), 0);
    assert_eq!(parse(&reports["rdjson"])["diagnostics"].as_array().unwrap().len(), 0);
    let sarif = run_of(&reports["sarif"]);
    assert_eq!(sarif["results"].as_array().unwrap().len(), 0);
    assert_eq!(sarif["invocations"][0]["executionSuccessful"], true);
    assert!(reports["junit"].contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{}", reports["junit"]);
}

#[test]
fn junit_fails_for_what_fails_the_run() {
    let folder = Folder::new().with("a.yaml", POOL);
    let counts = |args: &[&str]| {
        let report = folder.reports(args)["junit"].clone();
        (report.matches("<failure ").count(), report.matches("<skipped ").count())
    };
    let (failed, skipped) = counts(&[]);
    assert!(failed >= 2, "{failed}");
    let (errors, others) = counts(&["--fail-on", "error"]);
    assert!(errors < failed && errors + others == failed + skipped, "{errors} {others}");
    assert_eq!(counts(&["--fail-on", "never"]), (0, failed + skipped));
}

#[test]
fn github_sees_errors_first_and_what_it_does_not_show() {
    let mut folder = Folder::new();
    for number in 0..12 {
        let pool = POOL.replace("name: gpu}\nspec", &format!("name: gpu-{number}}}\nspec"));
        folder = folder.with(&format!("{number}.yaml"), pool);
    }
    let out = folder.run(&["check", "-q", "-f", "github"]).exits(1).out;
    let levels: Vec<&str> = out.lines().map(|line| line[2..].split(' ').next().unwrap()).collect();
    let mut sorted = levels.clone();
    sorted.sort_by_key(|level| ["error", "warning", "notice"].iter().position(|one| one == level));
    assert_eq!(levels, sorted);
    let notice = out.lines().find(|line| line.starts_with("::notice")).unwrap();
    assert!(notice.starts_with("::notice title=gpulint::12 errors, "), "{notice}");
    assert!(notice.contains("GitHub shows 10 of each level"), "{notice}");
    let few = folder.run(&["check", "-q", "-f", "github", "0.yaml"]).exits(1).out;
    assert!(!few.contains("GitHub shows"), "{few}");
}

#[test]
fn suppressed_findings_are_left_out_unless_they_are_shown() {
    let allowed = POOL.replace(
        "    spec:\n",
        "    spec: # gpulint: allow[gpu-pool-untainted] until=2999-01-31: nodes are single-tenant\n",
    );
    let folder = Folder::new()
        .with("a.yaml", &allowed)
        .with("b.yaml", POOL.replace("name: gpu}\nspec", "name: b}\nspec"));
    let results = |args: &[&str]| {
        let run = run_of(&folder.run(&[&["check", "-q", "-f", "sarif"], args].concat()).exits(1).out);
        let results = run["results"].as_array().unwrap().clone();
        results.into_iter().filter(|one| one["ruleId"] == "gpu-pool-untainted").collect::<Vec<_>>()
    };
    assert_eq!(results(&[]).len(), 1);
    let shown = results(&["--show-suppressed"]);
    assert_eq!(shown.len(), 2);
    assert!(shown[0].get("suppressions").is_none());
    let place = &shown[1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(place, "a.yaml");
    let expected = "[{\"kind\":\"inSource\",\"justification\":\"nodes are single-tenant\"}]";
    assert_eq!(shown[1]["suppressions"].to_string(), expected);
    folder.run(&["check", "--show-suppressed", "--no-suppressions"]).exits(2);
}

/// The location is the line of the template; the rendered text is shown as well.
#[test]
fn what_is_rendered_is_at_the_text_that_says_it() {
    let Some(programs) = crate::render::programs() else { return };
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/render/serving");
    let run = |format: &str| {
        let mut command = command(&case, &["check", "--render", "-q", "-f", format]);
        finish(command.env("PATH", &programs).output().unwrap()).exits(1).out
    };
    let sarif = run_of(&run("sarif"));
    let results = sarif["results"].as_array().unwrap();
    let is_rendered =
        |one: &&Value| one["message"]["text"].as_str().unwrap().contains("\nprinted by: helm template ");
    let rendered = results.iter().find(is_rendered).expect("a finding in a template");
    let place = &rendered["locations"][0]["physicalLocation"];
    let path = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(path.starts_with("tests/it/render/serving/"), "{path}");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    assert!(place["region"]["startLine"].as_u64().unwrap() as usize <= text.lines().count());
    let diagnostics = parse(&run("rdjson"))["diagnostics"].take();
    assert!(diagnostics.as_array().unwrap().iter().any(|one| one["location"]["path"] == path));
}
