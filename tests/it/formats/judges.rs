//! Every format over most of `fixtures/`, checked with published schemas and with programs that read it.
//!
//! `tests/formats/prepare` fetches these; without `GPULINT_FORMATS` the formats are only compared with each
//! other.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpulint_testing::{assets, children, is_full, lot, relative};
use serde_json::Value;

use super::{parse, run_of};
use crate::support::{Folder, finish, run_in};

/// The part of what `tests/formats/prepare` made.
fn part(name: &str) -> Option<PathBuf> {
    assets("GPULINT_FORMATS", name, "tests/formats/prepare")
}

/// The output of a program, which must succeed.
#[track_caller]
fn output(command: &mut Command) -> String {
    // SARIF Multitool needs this where no libraries for languages are installed.
    command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    let run = finish(command.output().unwrap());
    assert_eq!(run.code, Some(0), "{command:?}: {run:#?}");
    run.out
}

#[track_caller]
fn conforms(schema: &Path, value: &Value) {
    let schema = parse(&fs::read_to_string(schema).unwrap());
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).take(20).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The folders of `fixtures/`. Of those of rules, one of twelve, and with `FULL` three: the programs would take minutes to read
/// the findings of all.
fn fixtures() -> Vec<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_twelve = if is_full() { 3 } else { 1 };
    let rules = children(&here.join("fixtures/rules")).into_iter().filter(|path| lot(path, 12) < of_twelve);
    let others = children(&here.join("fixtures")).into_iter().filter(|path| !path.ends_with("rules"));
    others.chain(rules).map(|path| relative(&path)).collect()
}

#[test]
fn every_format_over_many_fixtures() {
    let folder = Folder::new();
    let place = |format: &str| folder.0.join(format!("report.{format}"));
    let formats = ["json", "sarif", "github", "gitlab", "junit", "rdjson"];
    let formats: Vec<String> =
        formats.iter().map(|format| format!("{format}={}", place(format).display())).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let formats = formats.join(",");
    let fixtures = fixtures();
    let mut args = vec!["check", "--no-default-ignore", "-q", "-f", &formats];
    args.extend(fixtures.iter().map(String::as_str));
    run_in(here, &args, "").exits(1);
    let read = |format: &str| fs::read_to_string(place(format)).unwrap();
    let json = parse(&read("json"));
    let diagnostics = json["diagnostics"].as_array().unwrap();
    assert!(diagnostics.len() > 1000, "{} findings", diagnostics.len());

    std::thread::scope(|scope| {
        scope.spawn(|| sarif(&folder.0, &place("sarif"), diagnostics));
        scope.spawn(|| {
            github(&read("github"), diagnostics);
            gitlab(&folder.0, &parse(&read("gitlab")), diagnostics);
            junit(&place("junit"), &json);
            rdjson(&read("rdjson"), diagnostics);
        });
    });
}

fn sarif(folder: &Path, log: &Path, diagnostics: &[Value]) {
    let text = fs::read_to_string(log).unwrap();
    let run = run_of(&text);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), diagnostics.len());
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let of = |result: &Value| &rules[result["ruleIndex"].as_u64().unwrap() as usize];
    assert!(results.iter().all(|result| of(result)["id"] == result["ruleId"]));
    let used: BTreeSet<&str> = results.iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules.len(), used.len(), "only rules that occur");
    let own: BTreeSet<&str> =
        results.iter().filter_map(|result| result["partialFingerprints"]["gpulint/v1"].as_str()).collect();
    assert_eq!(own.len(), results.len(), "fingerprints are unique");

    let Some(npm) = part("npm") else { return };
    let tool = npm.join("node_modules/@microsoft/sarif-multitool-linux");
    conforms(&tool.join("sarif-2.1.0.json"), &parse(&text));
    let multitool = || {
        let mut command = Command::new(tool.join("Sarif.Multitool"));
        command.env("DOTNET_BUNDLE_EXTRACT_BASE_DIR", folder.join("dotnet"));
        command
    };
    // The rules of SARIF Multitool and those for GitHub. One of them requests every URL from the network.
    let config = folder.join("multitool.json");
    fs::write(&config, "{\"SARIF2006.UrisShouldBeReachable.Options\": {\"RuleEnabled\": \"Disabled\"}}")
        .unwrap();
    let verdict = folder.join("verdict.sarif");
    let mut validate = multitool();
    validate.arg("validate").arg(log).arg("-c").arg(&config).arg("-o").arg(&verdict);
    validate.args([
        "--rule-kind",
        "Sarif;Ghas",
        "--level",
        "Error;Warning",
        "--max-file-size-in-kb",
        "100000",
    ]);
    output(&mut validate);
    let verdict = run_of(fs::read_to_string(&verdict).unwrap().trim_start_matches('\u{FEFF}'));
    assert_eq!(verdict["results"].as_array().map_or(0, Vec::len), 0, "{:#}", verdict["results"]);

    // Another implementation finds the text of each region in the files, and hashes the lines.
    let mut bare = parse(&text);
    for result in bare["runs"][0]["results"].as_array_mut().unwrap() {
        result["partialFingerprints"].as_object_mut().unwrap().remove("primaryLocationLineHash");
    }
    let (from, to) = (folder.join("bare.sarif"), folder.join("rewritten.sarif"));
    fs::write(&from, bare.to_string()).unwrap();
    let insert = ["--insert", "RegionSnippets;RollingHashPartialFingerprints"];
    output(multitool().arg("rewrite").arg(&from).arg("-o").arg(&to).args(insert));
    let rewritten = run_of(fs::read_to_string(&to).unwrap().trim_start_matches('\u{FEFF}'));
    let mut hashes = 0;
    for (result, theirs) in results.iter().zip(rewritten["results"].as_array().unwrap()) {
        let hash = |result: &Value| result["partialFingerprints"]["primaryLocationLineHash"].clone();
        // A file that is not UTF-8 has no hash here.
        if !hash(result).is_null() {
            hashes += 1;
            assert_eq!(hash(result), hash(theirs), "{result:#}");
        }
        let place = |result: &Value| result["locations"][0]["physicalLocation"].clone();
        let snippet = place(theirs)["region"]["snippet"]["text"].clone();
        if let Some(expected) = written(&place(result)) {
            assert_eq!(snippet, expected, "{result:#}");
        }
    }
    assert!(hashes + 5 > results.len(), "{hashes} of {} have a hash", results.len());

    let Some(pypi) = part("pypi") else { return };
    let summary =
        output(Command::new(pypi.join("python/bin/python")).args(["-m", "sarif", "summary"]).arg(log));
    for (level, name) in [("error", "error"), ("warning", "warning"), ("note", "info")] {
        let count = diagnostics.iter().filter(|one| one["severity"] == name).count();
        assert!(summary.contains(&format!("{level}: {count}\n")), "{level} {count}: {summary}");
    }
}

/// The text of a region, whose columns are UTF-16 code units. `None` if the file is not UTF-8.
fn written(place: &Value) -> Option<String> {
    let path = place["artifactLocation"]["uri"].as_str().unwrap();
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let lines: Vec<Vec<u16>> = text
        .trim_start_matches('\u{FEFF}')
        .split_inclusive('\n')
        .chain([""])
        .map(|line| line.encode_utf16().collect())
        .collect();
    let number = |name: &str| place["region"][name].as_u64().unwrap() as usize - 1;
    let (first, last) = (number("startLine"), number("endLine"));
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate().take(last + 1).skip(first) {
        let from = if at == first { number("startColumn") } else { 0 };
        let to = if at == last { number("endColumn") } else { line.len() };
        out.extend_from_slice(&line[from..to]);
    }
    String::from_utf16(&out).ok()
}

fn github(text: &str, diagnostics: &[Value]) {
    let line = regex::Regex::new(
        r"^::(error|warning|notice) (?:file=[^:,\r]+(?:,line=\d+,endLine=\d+(?:,col=\d+,endColumn=\d+)?)?,)?title=gpulint(?:%3A [a-z0-9-]+)?::.+$",
    )
    .unwrap();
    let wrong: Vec<&str> = text.lines().filter(|one| !line.is_match(one)).take(3).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(text.lines().count(), diagnostics.len() + 1, "one for each, and what is not shown");
}

fn gitlab(folder: &Path, issues: &Value, diagnostics: &[Value]) {
    let list = issues.as_array().unwrap();
    assert_eq!(list.len(), diagnostics.len());
    let fingerprints: BTreeSet<&str> =
        list.iter().map(|issue| issue["fingerprint"].as_str().unwrap()).collect();
    assert_eq!(fingerprints.len(), list.len());
    for (issue, diagnostic) in list.iter().zip(diagnostics) {
        assert_eq!(issue["check_name"], diagnostic["rule"]);
        assert_eq!(issue["fingerprint"], diagnostic["fingerprint"]);
        assert_eq!(issue["location"]["path"], diagnostic["file"]);
        assert_eq!(issue["location"]["lines"]["begin"], diagnostic["range"]["start"]["line"]);
        assert!(!issue["description"].as_str().unwrap().contains('\n'), "{issue}");
        let severity = issue["severity"].as_str().unwrap();
        assert!(["info", "minor", "major", "critical", "blocker"].contains(&severity), "{issue}");
    }
    let Some(npm) = part("npm") else { return };
    // The compiler is slow with large files; one issue of each rule has every member.
    let mut rules = BTreeSet::new();
    let some: Vec<&Value> =
        list.iter().filter(|issue| rules.insert(issue["check_name"].as_str().unwrap())).collect();
    let types = npm.join("node_modules/codeclimate-types/index");
    let program = folder.join("issues.ts");
    let text = format!(
        "import type {{ Issue }} from {:?}\nexport const issues: Issue[] = {}\n",
        types.to_str().unwrap(),
        serde_json::to_string(&some).unwrap()
    );
    fs::write(&program, text).unwrap();
    let mut compile = Command::new("node");
    compile.arg(npm.join("node_modules/typescript/bin/tsc")).arg(&program);
    compile.args(["--noEmit", "--strict", "--module", "nodenext", "--moduleResolution", "nodenext"]);
    output(&mut compile);
}

fn junit(report: &Path, json: &Value) {
    let Some(pypi) = part("pypi") else { return };
    let program = "
import sys, xmlschema, junitparser
xmlschema.validate(sys.argv[2], sys.argv[1])
suites = junitparser.JUnitXml.fromfile(sys.argv[2])
tests = [test for suite in suites for test in suite]
names = {(suite.name, test.name) for suite in suites for test in suite}
count = lambda kind: sum(isinstance(result, kind) for test in tests for result in test.result)
print(suites.tests, len(tests), len(names), suites.failures, count(junitparser.Failure), count(junitparser.Skipped), suites.errors)
";
    let mut python = Command::new(pypi.join("python/bin/python"));
    let counts = output(python.arg("-c").arg(program).arg(pypi.join("junit-10.xsd")).arg(report));
    let number = |name: &str| json["summary"][name].as_u64().unwrap();
    let failed = number("errors") + number("warnings");
    let all = failed + number("infos");
    assert_eq!(counts.trim(), format!("{all} {all} {all} {failed} {failed} {} 0", number("infos")));
}

fn rdjson(text: &str, diagnostics: &[Value]) {
    let result = parse(text);
    assert_eq!(result["diagnostics"].as_array().unwrap().len(), diagnostics.len());
    let Some(go) = part("go") else { return };
    conforms(&go.join("jsonschema/DiagnosticResult.json"), &result);
    let mut reviewdog = Command::new(go.join("reviewdog"));
    reviewdog.args(["-f=rdjson", "-reporter=local", "-filter-mode=nofilter"]);
    reviewdog.current_dir(env!("CARGO_MANIFEST_DIR"));
    let mut child =
        reviewdog.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let said = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(text.as_bytes()).unwrap());
        finish(child.wait_with_output().unwrap())
    });
    assert_eq!(said.code, Some(0), "{said:#?}");
    // One line for each finding, in any order.
    let read: BTreeSet<&str> = said.out.lines().collect();
    assert_eq!(said.out.lines().count(), diagnostics.len());
    for one in result["diagnostics"].as_array().unwrap() {
        assert!(read.contains(one["original_output"].as_str().unwrap()), "{one}");
    }
}
