//! JUnit XML, which most CI systems show as tests: a suite for each file with findings, a test for each finding.
//!
//! A finding that fails the run is a failure; one that does not, because it is below `--fail-on`, is skipped.
//! A path that could not be read is an error.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

use crate::error::CliError;
use crate::terminal::{count, printable};

use super::place::{point, words};
use super::{Report, manual};

#[derive(Default)]
struct Suite {
    tests: Vec<Test>,
}

struct Test {
    name: String,
    state: State,
}

enum State {
    Passed,
    /// The type, the message and the text.
    Failed(&'static str, String, String),
    Skipped(String),
    Broken(String),
}

pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let suites = suites(report);
    let tests = || suites.iter().flat_map(|(_, suite)| &suite.tests);
    let count = |of: fn(&State) -> bool| tests().filter(|test| of(&test.state)).count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"gpulint\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
        tests().count(),
        count(is_failed),
        count(is_broken)
    )?;
    for (path, suite) in &suites {
        let count = |of: fn(&State) -> bool| suite.tests.iter().filter(|test| of(&test.state)).count();
        let path = escape(path);
        writeln!(
            out,
            "  <testsuite name=\"{path}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            suite.tests.len(),
            count(is_failed),
            count(is_broken),
            count(is_skipped)
        )?;
        for test in &suite.tests {
            let head = format!("    <testcase name=\"{}\" classname=\"{path}\"", escape(&test.name));
            match &test.state {
                State::Passed => writeln!(out, "{head}/>")?,
                State::Failed(of, message, text) => writeln!(
                    out,
                    "{head}>\n      <failure type=\"{of}\" message=\"{}\">{}</failure>\n    </testcase>",
                    escape(message),
                    escape(text)
                )?,
                State::Skipped(message) => writeln!(
                    out,
                    "{head}>\n      <skipped message=\"{}\"/>\n    </testcase>",
                    escape(message)
                )?,
                State::Broken(message) => writeln!(
                    out,
                    "{head}>\n      <error type=\"error\" message=\"{}\"/>\n    </testcase>",
                    escape(message)
                )?,
            }
        }
        writeln!(out, "  </testsuite>")?;
    }
    Ok(writeln!(out, "</testsuites>")?)
}

fn is_failed(state: &State) -> bool {
    matches!(state, State::Failed(..))
}

fn is_skipped(state: &State) -> bool {
    matches!(state, State::Skipped(_))
}

fn is_broken(state: &State) -> bool {
    matches!(state, State::Broken(_))
}

/// The suites in the order of the report.
fn suites(report: &Report) -> Vec<(String, Suite)> {
    let mut suites: Vec<(String, Suite)> = Vec::new();
    let mut by_path: HashMap<String, usize> = HashMap::new();
    let mut names: HashMap<(usize, String), usize> = HashMap::new();
    let run = report
        .failures
        .iter()
        .map(|problem| Test { name: "reads its input".to_owned(), state: State::Broken(problem.clone()) });
    let run: Vec<Test> = run.collect();
    if !run.is_empty() {
        suites.push(("gpulint".to_owned(), Suite { tests: run }));
    }
    for (at, finding) in report.findings.iter().enumerate() {
        let reported = finding.location.path().unwrap_or("gpulint");
        let suite = *by_path.entry(reported.to_owned()).or_insert_with(|| {
            suites.push((report.path(reported), Suite::default()));
            suites.len() - 1
        });
        let mut name = finding.rule.id.to_owned();
        let mut place = suites[suite].0.clone();
        if let Some((source, _, span)) = finding.location.resolve_span() {
            let start = point(source, span.start);
            let _ = write!(name, " at {}:{}", start.line, start.column);
            let _ = write!(place, ":{}:{}", start.line, start.column);
        }
        // Many programs treat two tests of one name as one test.
        let same = names.entry((suite, name.clone())).or_default();
        *same += 1;
        if *same > 1 {
            let _ = write!(name, " ({same})");
        }
        let words = words(report, at);
        let state = if report.fails(finding) {
            let mut text = format!("{place}: {}\n", words.join("\n"));
            for related in &finding.related {
                let said = printable(&related.message, false);
                if let Some((source, _, span)) = related.location.resolve_span() {
                    let start = point(source, span.start);
                    let path = report.path(source.path());
                    let _ = writeln!(text, "{path}:{}:{}: {said}", start.line, start.column);
                }
            }
            let _ = write!(text, "\n{}", manual::text(finding.rule));
            State::Failed(finding.severity.name(), words[0].clone(), text)
        } else {
            State::Skipped(format!("{}: {}", finding.severity.name(), words.join("; ")))
        };
        suites[suite].1.tests.push(Test { name, state });
    }
    if suites.is_empty() {
        // Programs report an error if there is no test.
        let name = count(report.summary.files, "file") + " without findings";
        suites.push(("gpulint".to_owned(), Suite { tests: vec![Test { name, state: State::Passed }] }));
    }
    suites
}

/// Escapes a text for XML 1.0, which cannot represent most control characters.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn what_xml_cannot_hold_is_written_as_an_escape() {
        assert_eq!(
            escape("a<b>&\"c\"\u{0}\u{1b}[1m\r\u{ffff}é\n"),
            "a&lt;b&gt;&amp;&quot;c&quot;\\u{0}\\u{1b}[1m\\r\\u{ffff}é\n"
        );
    }
}
