//! The report for people: a header, the lines with labels, what to do.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::karpenter::budget::{DAYS, Week};
use gpulint_rules::lint::fix::REPLACES;
use gpulint_rules::source::Source;
use gpulint_rules::{Finding, Safety, Severity};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters, ThemeStyles,
};

use crate::failure::Failure;
use crate::files::Reason;
use crate::markdown::wrap;
use crate::terminal::{Look, printable};

use super::excerpt::{CONTEXT, Excerpt, Mark};
use super::{Report, Summary};

/// Columns that the line number and the frame take.
const GUTTER: usize = 12;

/// Writes the findings, and the summary where it is wanted.
pub(crate) fn write(out: &mut dyn Write, report: &Report, look: Look, summary: bool) -> Result<(), Failure> {
    let drawer = Drawer::new(look);
    let mut text = String::new();
    for (at, finding) in report.findings.iter().enumerate() {
        text.clear();
        drawer.finding(&mut text, finding, report.refused.get(&at))?;
        out.write_all(text.as_bytes())?;
    }
    if summary {
        writeln!(out, "{}", in_one_line(&report.summary))?;
    }
    Ok(())
}

struct Drawer {
    look: Look,
    theme: GraphicalTheme,
}

impl Drawer {
    fn new(look: Look) -> Drawer {
        Drawer {
            look,
            theme: GraphicalTheme {
                characters: if look.unicode { ThemeCharacters::unicode() } else { ThemeCharacters::ascii() },
                styles: if look.color { ThemeStyles::ansi() } else { ThemeStyles::none() },
            },
        }
    }

    fn finding(&self, out: &mut String, finding: &Finding, refused: Option<&String>) -> Result<(), Failure> {
        use fmt::Write as _;
        let styles = &self.theme.styles;
        let style = match finding.severity {
            Severity::Error => styles.error,
            Severity::Warning => styles.warning,
            Severity::Info => styles.advice,
        };
        let head = format!("{}[{}]", finding.severity.name(), finding.rule.id);
        let bold = if self.look.color { style.bold() } else { style };
        let message = printable(&finding.message, false);
        writeln!(out, "{}: {message}", bold.style(head))?;

        let mut others: Vec<(Arc<Source>, Vec<Mark>)> = Vec::new();
        if let Some((source, _, span)) = finding.place.locate() {
            let mut marks = vec![Mark { span, text: None, primary: true }];
            for related in &finding.related {
                let Some((other, _, span)) = related.place.locate() else {
                    continue;
                };
                let mark = Mark { span, text: Some(related.message.clone()), primary: false };
                if Arc::ptr_eq(other, source) {
                    marks.push(mark);
                } else if let Some((_, known)) = others.iter_mut().find(|(s, _)| Arc::ptr_eq(s, other)) {
                    known.push(mark);
                } else {
                    others.push((Arc::clone(other), vec![mark]));
                }
            }
            self.snippet(out, source, &marks, finding.severity)?;
        }
        for (source, marks) in &others {
            self.snippet(out, source, marks, Severity::Info)?;
        }
        if let Some(help) = &finding.help {
            self.line(out, "help", help)?;
        }
        if let Some(week) = &finding.week {
            self.week(out, week)?;
        }
        if let Some(fix) = &finding.fix {
            let safety = match fix.safety {
                Safety::Safe => "safe",
                Safety::Unsafe => "unsafe",
            };
            let nodes = if fix.drifts { format!(", {REPLACES}") } else { String::new() };
            self.line(out, "fix", &format!("{} ({safety}{nodes})", fix.title))?;
        }
        if let Some(reason) = refused {
            self.line(out, "note", &format!("not fixed: {reason}"))?;
        }
        self.line(out, "more", &format!("gpulint explain {}", finding.rule.id))?;
        out.push('\n');
        Ok(())
    }

    /// Miette's drawing of the lines around some places.
    fn snippet(
        &self,
        out: &mut String,
        source: &Source,
        marks: &[Mark],
        severity: Severity,
    ) -> Result<(), Failure> {
        let width = self.look.width.saturating_sub(GUTTER).max(20);
        let excerpt = Excerpt::new(source, marks, width, self.look.unicode);
        let mut theme = self.theme.clone();
        let styles = &theme.styles;
        let primary = match severity {
            Severity::Error => styles.error,
            Severity::Warning => styles.warning,
            Severity::Info => styles.advice,
        };
        let mut highlights = vec![styles.help; marks.len().max(1)];
        if let Some(highlight) = excerpt.primary().and_then(|at| highlights.get_mut(at)) {
            *highlight = primary;
        }
        theme.styles.highlights = highlights;
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(self.look.width)
            .with_context_lines(CONTEXT)
            .with_links(false)
            .tab_width(2)
            .without_syntax_highlighting();
        let mut drawn = String::new();
        handler.render_report(&mut drawn, &Snippet(excerpt))?;
        // The handler's first line is for a message; ours stands above already.
        out.push_str(drawn.split_once('\n').map_or("", |(_, rest)| rest));
        Ok(())
    }

    /// The drawing of a week; where there is no room for it, nothing.
    fn week(&self, out: &mut String, week: &Week) -> fmt::Result {
        use fmt::Write as _;
        const NAME: &str = "  week: ";
        let lines = week.lines();
        let widest = lines.iter().map(String::len).max().unwrap_or_default();
        if NAME.len() + widest > self.look.width {
            return Ok(());
        }
        let head = self.theme.styles.help.style("week:");
        let indent = " ".repeat(NAME.len());
        let days = lines.len().saturating_sub(DAYS.len());
        for (at, line) in lines.iter().enumerate() {
            if at == 0 {
                writeln!(out, "  {head} {line}")?;
            } else if let Some(day) = at.checked_sub(days) {
                writeln!(out, "{indent}{}  {}", DAYS[day], self.hours(&week.row(day)))?;
            } else {
                writeln!(out, "{indent}{line}")?;
            }
        }
        Ok(())
    }

    /// The hours of a day, each state in its colour; they read without.
    fn hours(&self, row: &str) -> String {
        let styles = &self.theme.styles;
        let mut out = String::new();
        let mut rest = row;
        while let Some(letter) = rest.chars().next() {
            let run = rest.find(|c: char| c != letter && c != ' ').unwrap_or(rest.len());
            let (same, after) = rest.split_at(run);
            let style = match letter {
                '#' | '/' => styles.error,
                '!' | '+' => styles.warning,
                _ => styles.linum,
            };
            out.push_str(&style.style(same).to_string());
            rest = after;
        }
        out
    }

    /// `  name: text`, wrapped under the text.
    fn line(&self, out: &mut String, name: &str, text: &str) -> fmt::Result {
        use fmt::Write as _;
        let indent = " ".repeat(name.len() + 4);
        let text = printable(text, false);
        let room = self.look.width.saturating_sub(indent.len()).max(20);
        for (at, line) in wrap(&text, room).iter().enumerate() {
            if at == 0 {
                let name = format!("{name}:");
                writeln!(out, "  {} {line}", self.theme.styles.help.style(name))?;
            } else {
                writeln!(out, "{indent}{line}")?;
            }
        }
        Ok(())
    }
}

/// A report of labels alone.
#[derive(Debug)]
struct Snippet(Excerpt);

impl fmt::Display for Snippet {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Snippet {}

impl Diagnostic for Snippet {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.0)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.0.labels()))
    }
}

/// `3 errors, 1 warning in 2 files (5 objects); 1 skipped: see --format json`
pub(crate) fn in_one_line(summary: &Summary) -> String {
    let count = |n: usize, what: &str| {
        let s = if n == 1 { "" } else { "s" };
        format!("{n} {what}{s}")
    };
    let found: Vec<String> =
        [(summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| count(n, what))
            .collect();
    let mut line = if found.is_empty() { "no findings".to_owned() } else { found.join(", ") };
    line.push_str(&format!(" in {} ({})", count(summary.files, "file"), count(summary.objects, "object")));
    if let Some(fixed) = summary.fixed {
        let left = summary.errors + summary.warnings + summary.infos;
        line.insert_str(0, &format!("{fixed} fixed, {left} left: "));
    }
    match (summary.safely_fixable, summary.fixable - summary.safely_fixable) {
        (0, 0) => {}
        (safe, 0) => line.push_str(&format!("; {safe} fixable with --fix")),
        (0, more) => line.push_str(&format!("; {more} fixable with --unsafe-fixes")),
        (safe, more) => {
            line.push_str(&format!("; {safe} fixable with --fix, {more} more with --unsafe-fixes"))
        }
    }
    if summary.suppressed > 0 {
        line.push_str(&format!("; {} suppressed", summary.suppressed));
    }
    // Our own configuration is nothing that a reader would miss.
    let missed = summary.skipped.iter().filter(|s| s.reason != Reason::Config);
    let skipped = missed.count();
    if skipped > 0 {
        line.push_str(&format!("; {skipped} skipped: see --format json"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{Summary, in_one_line};

    #[test]
    fn the_summary_counts_in_words() {
        let mut summary = Summary { files: 2, objects: 5, ..Summary::default() };
        assert_eq!(in_one_line(&summary), "no findings in 2 files (5 objects)");
        summary.errors = 3;
        summary.warnings = 1;
        summary.files = 1;
        assert_eq!(in_one_line(&summary), "3 errors, 1 warning in 1 file (5 objects)");
    }
}
