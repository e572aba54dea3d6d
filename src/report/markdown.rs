//! Markdown for a comment on a pull request or a job summary: at most 60 KB, because GitHub takes 65,536 characters.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use gpulint_rules::{Finding, Severity};

use crate::error::CliError;
use crate::files;
use crate::terminal::{count, printable};

use super::Report;
use super::place::file_uri;
use super::total::{summary_line, unread_lines};

/// Maximum size of a page in bytes.
const MAX_BYTES: usize = 60 * 1024;
/// Numbers of items in a list that are tried, until the page is small enough.
const SIZES: [usize; 6] = [200, 50, 20, 8, 3, 1];
/// Number of findings up to which all are open.
const MAX_OPEN: usize = 10;

/// Makes a page with as many items in its lists as there is room for. `page` gets that number.
pub(super) fn bounded(page: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for most in SIZES {
        text = page(most);
        if text.len() <= MAX_BYTES {
            return text;
        }
    }
    let mut end = MAX_BYTES - 64;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str("\n\n(cut: the page is too long)\n");
    text
}

/// Where links to the lines of files lead.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The address before the path of a file; `None` without links.
    base: Option<String>,
    root: PathBuf,
}

impl Links {
    /// Links below an address, or that of the job of GitHub Actions or GitLab CI. `root` is the folder to which paths are relative.
    pub(super) fn new(given: Option<&str>, root: &Path) -> Links {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let github = || {
            let (server, repository) = (variable("GITHUB_SERVER_URL")?, variable("GITHUB_REPOSITORY")?);
            Some(format!("{server}/{repository}/blob/{}", variable("GITHUB_SHA")?))
        };
        let gitlab =
            || Some(format!("{}/-/blob/{}", variable("CI_PROJECT_URL")?, variable("CI_COMMIT_SHA")?));
        let base = given.map(str::to_owned).or_else(github).or_else(gitlab);
        let base = base.map(|base| base.trim_end_matches('/').to_owned());
        Links { base: base.filter(|base| !base.is_empty()), root: root.to_owned() }
    }

    /// A line of a file as a link, or as code.
    pub(super) fn to(&self, file: &str, line: u32) -> String {
        let shown = format!("`{}:{line}`", escaped_code(file));
        let below = files::absolute(Path::new(file));
        match (&self.base, below.strip_prefix(&self.root)) {
            (Some(base), Ok(below)) => {
                let path = file_uri(below);
                let path = path.strip_prefix("file:///").unwrap_or(&path);
                format!("[{shown}]({base}/{path}#L{line})")
            }
            _ => shown,
        }
    }
}

/// Text whose marks count only as code: what users write cannot make a link, an element or a mention.
pub(super) fn escaped(text: &str) -> String {
    let text = printable(text, false);
    let mut out = String::with_capacity(text.len() + 8);
    let mut is_code = false;
    for letter in text.chars() {
        match letter {
            '`' => {
                is_code = !is_code;
                out.push('`');
            }
            _ if is_code => out.push(letter),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '*' | '_' | '[' | ']' | '\\' | '~' | '#' => {
                out.push('\\');
                out.push(letter);
            }
            // A mention would send mail.
            '@' => out.push_str("&#64;"),
            _ => out.push(letter),
        }
    }
    // An open code span would swallow what follows.
    if is_code {
        out.push('`');
    }
    out
}

/// Text within a code span.
fn escaped_code(text: &str) -> String {
    printable(text, false).replace('`', "'")
}

pub(super) fn finding_line(finding: &Finding, links: &Links) -> String {
    let place = match finding.location.resolve_span() {
        Some((source, _, span)) => {
            let at = source.lines().position(source.text(), span.start);
            format!(" {}", links.to(source.path(), at.line))
        }
        None => String::new(),
    };
    let (severity, rule) = (finding.severity.name(), finding.rule);
    let help = finding.whole_help().map_or_else(String::new, |help| format!("<br>help: {}", escaped(help)));
    format!("{severity} [{}]({}){place}: {}{help}", rule.id, rule.url(), escaped(finding.whole_message()))
}

pub(super) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let links = Links::new(None, &report.root);
    let page = bounded(|most| page(report, &links, most));
    out.write_all(page.as_bytes())?;
    Ok(())
}

fn page(report: &Report, links: &Links, most: usize) -> String {
    let mut page = format!("### gpulint: {}\n", escaped(&summary_line(&report.summary)));
    for line in unread_lines(&report.summary) {
        let _ = writeln!(page, "\n{}", escaped(&line));
    }
    for failure in report.failures.iter().take(most) {
        let _ = writeln!(page, "\n❌ {}", escaped(failure));
    }
    let all_open = report.findings.len() <= MAX_OPEN;
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let found: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.severity == severity).collect();
        if found.is_empty() {
            continue;
        }
        let title = count(found.len(), severity.name());
        let is_open = all_open || severity == Severity::Error;
        let open = if is_open { " open" } else { "" };
        let _ = writeln!(page, "\n<details{open}><summary><b>{title}</b></summary>\n");
        for finding in found.iter().take(most) {
            let _ = writeln!(page, "- {}", finding_line(finding, links));
        }
        if found.len() > most {
            let _ = writeln!(page, "- and {} more", found.len() - most);
        }
        let _ = writeln!(page, "\n</details>");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::{bounded, escaped};

    #[test]
    fn marks_of_users_are_text() {
        assert_eq!(escaped("a `b_c` d_e <img> @team"), "a `b_c` d\\_e &lt;img&gt; &#64;team");
        assert_eq!(escaped("open `code"), "open `code`");
        assert_eq!(escaped("[x](y)"), "\\[x\\](y)");
    }

    #[test]
    fn pages_stay_below_the_limit() {
        let page = bounded(|most| "é".repeat(most * 1000));
        assert!(page.len() <= 60 * 1024 && page.len() > 10_000, "{}", page.len());
        let page = bounded(|_| "é".repeat(100_000));
        assert!(page.len() <= 60 * 1024 && page.ends_with("too long)\n"));
    }
}
