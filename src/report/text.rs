//! The report as text: a header, the lines with labels, help.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::karpenter::budget::{DAYS, Week};
use gpulint_rules::lint::fix::REPLACES_NODES_NOTE;
use gpulint_rules::source::Source;
use gpulint_rules::{Finding, Rendered, Severity};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters, ThemeStyles,
};

use crate::error::CliError;
use crate::terminal::{RenderOptions, count, printable};

use super::excerpt::{Annotation, CONTEXT, Excerpt, window};
use super::fold::Folded;
use super::layout::Layout;
use super::paint::{Line, Paint, Style, split_word};
use super::{Report, concise, diff, end, place};

/// Number of columns that the line number and the frame use.
const GUTTER: usize = 12;
/// Maximum number of excerpts of a finding.
const MAX_FRAMES: usize = 2;
/// Maximum number of excerpts of a report, as long as each drawn finding has one. What costs most has the others.
const MAX_FRAMES_OF_ALL: usize = 4;
/// Maximum number of lines of a fix that are shown.
const MAX_CHANGED: usize = 6;

/// Minimum number of findings without an excerpt after which the report says how to get one.
const MIN_ON_ONE_LINE: usize = 3;

/// Writes the findings, some of each rule with an excerpt, and the end of the report.
pub(crate) fn write(out: &mut dyn Write, report: &Report, layout: &Layout) -> Result<(), CliError> {
    end::preview(out, report, layout)?;
    let drawer = TextRenderer::new(layout);
    let mut text = String::new();
    let mut sections = layout.sections(report);
    if layout.leaves_infos_out(report) {
        let is_info = |folded: &Folded| report.findings[folded.first].severity == Severity::Info;
        sections.iter_mut().for_each(|section| section.findings.retain(|folded| !is_info(folded)));
    }
    let drawn = frames_of(report, &layout.drawn(report, &sections), layout);
    let shown: usize = sections.iter().map(|section| section.findings.len()).sum();
    for section in sections {
        if let Some(heading) = section.heading {
            end::heading(out, report, heading, &section.findings, layout)?;
        }
        // A block of lines ends in an empty line, as a finding with an excerpt does.
        let mut is_block = false;
        for folded in &section.findings {
            let finding = &report.findings[folded.first];
            let Some(frames) = drawn.get(&folded.first) else {
                concise::write_line(out, report, folded, section.heading, layout)?;
                is_block = true;
                continue;
            };
            if std::mem::take(&mut is_block) {
                writeln!(out)?;
            }
            text.clear();
            let more = folded.summary(&report.findings);
            let notes = Notes {
                refused: report.unfixed.get(&folded.first).map(String::as_str),
                folded: more.as_deref(),
                new: report.mark(folded.first),
            };
            drawer.finding(&mut text, finding, *frames, &notes)?;
            out.write_all(text.as_bytes())?;
        }
        if is_block {
            writeln!(out)?;
        }
    }
    let on_one_line = shown - drawn.len();
    if on_one_line >= MIN_ON_ONE_LINE && layout.summary {
        let text = format!("{on_one_line} findings, a line each: --all shows more");
        writeln!(out, "{}", layout.paint().text(Style::Dim, &text))?;
    }
    end::write(out, report, layout)?;
    end::next(out, report, layout)
}

/// The maximum number of excerpts of each drawn finding, by its index. `drawn` begins with the one that costs most.
fn frames_of(report: &Report, drawn: &[usize], layout: &Layout) -> HashMap<usize, usize> {
    if layout.all {
        return drawn.iter().map(|at| (*at, usize::MAX)).collect();
    }
    let mut left = MAX_FRAMES_OF_ALL.max(drawn.len());
    let mut most = HashMap::new();
    for (number, at) in drawn.iter().enumerate() {
        let later = drawn.len() - 1 - number;
        let room = MAX_FRAMES.min(left - later);
        left -= frames(&report.findings[*at], room).0.len().max(1);
        most.insert(*at, room);
    }
    most
}

/// A file, and its places that one excerpt shows.
type Frame = (Arc<Source>, Vec<Annotation>);

/// The places of a finding that are drawn, at most `most` excerpts of neighbouring lines, and the others, each with what is
/// there. The first excerpt has the finding's own place.
fn frames(finding: &Finding, most: usize) -> (Vec<Frame>, Vec<String>) {
    let Some((source, _, span)) = finding.location.resolve_span() else { return (Vec::new(), Vec::new()) };
    let mut frames = vec![(Arc::clone(source), vec![Annotation { span, text: None, primary: true }])];
    let mut left_out = Vec::new();
    for related in &finding.related {
        let Some((source, _, span)) = related.location.resolve_span() else { continue };
        let line = |at: u32| source.lines().line_of(at);
        let is_near = |mark: &Annotation| line(mark.span.start).abs_diff(line(span.start)) <= 2 * CONTEXT + 1;
        let mark = Annotation { span, text: Some(related.message.clone()), primary: false };
        let has_room = frames.len() < most;
        let frame =
            frames.iter_mut().find(|(of, marks)| Arc::ptr_eq(of, source) && marks.iter().any(is_near));
        match frame {
            Some((_, marks)) => marks.push(mark),
            None if has_room => frames.push((Arc::clone(source), vec![mark])),
            None => {
                let line = line(mark.span.start) + 1;
                left_out.push(match Arc::ptr_eq(source, &frames[0].0) {
                    true => format!("line {line}: {}", related.message),
                    false => format!("{}:{line}: {}", source.path(), related.message),
                });
            }
        }
    }
    (frames, left_out)
}

struct Notes<'a> {
    /// The reason why it was not fixed.
    refused: Option<&'a str>,
    /// The findings that are folded into it.
    folded: Option<&'a str>,
    /// The note that it is new with a version.
    new: Option<String>,
}

struct TextRenderer {
    options: RenderOptions,
    paint: Paint,
    theme: GraphicalTheme,
}

impl TextRenderer {
    fn new(layout: &Layout) -> TextRenderer {
        let options = layout.look;
        TextRenderer {
            options,
            paint: layout.paint(),
            theme: GraphicalTheme {
                characters: if options.unicode {
                    ThemeCharacters::unicode()
                } else {
                    ThemeCharacters::ascii()
                },
                styles: if options.color { ThemeStyles::ansi() } else { ThemeStyles::none() },
            },
        }
    }

    /// Writes a finding with at most `most` excerpts.
    fn finding(
        &self,
        out: &mut String,
        finding: &Finding,
        most: usize,
        notes: &Notes<'_>,
    ) -> Result<(), CliError> {
        use fmt::Write as _;
        let head = format!("{}[{}]", finding.severity.name(), finding.rule.id);
        let mut title = Line::default();
        title.add_link(Style::Of(finding.severity), &head, finding.rule);
        title
            .add(Style::Plain, ":")
            .add(Style::Plain, &format!(" {}", printable(finding.whole_message(), false)));
        for line in title.lines(Some(self.options.width), 2, self.paint) {
            writeln!(out, "{line}")?;
        }

        let (frames, left_out) = frames(finding, most);
        for (at, (source, marks)) in frames.iter().enumerate() {
            let severity = if at == 0 { finding.severity } else { Severity::Info };
            self.snippet(out, source.path(), source, marks, severity)?;
            if at == 0 {
                self.output(out, finding)?;
            }
        }
        match left_out.as_slice() {
            [] => {}
            [one] => self.line(out, "note", one)?,
            all => {
                self.line(out, "note", &format!("and {} more (--all shows them)", count(all.len(), "place")))?
            }
        }
        if let Some(help) = finding.whole_help() {
            self.line(out, "help", help)?;
        }
        if let Some(week) = &finding.schedule_grid {
            self.week(out, week)?;
        }
        if let Some(fix) = &finding.fix {
            let safety = fix.safety.name();
            let nodes = if fix.replaces_nodes { format!(", {REPLACES_NODES_NOTE}") } else { String::new() };
            self.line(out, "fix", &format!("{} ({safety}{nodes})", fix.title))?;
            self.change(out, finding)?;
        }
        if let Some(sets) = super::only_in(finding) {
            self.line(out, "note", &format!("{sets}; other sets have the file as well"))?;
        }
        if let Some(new) = &notes.new {
            self.line(out, "note", new)?;
        }
        if let Some(reason) = notes.refused {
            self.line(out, "note", &format!("not fixed: {reason}"))?;
        }
        if let Some(some) = finding.location.rendered().and_then(renders_note) {
            self.line(out, "note", &some)?;
        }
        if let Some(folded) = notes.folded {
            self.line(out, "note", &format!("{folded} (--no-fold lists them)"))?;
        }
        self.line(out, "more", &format!("gpulint explain {}", finding.rule.id))?;
        out.push('\n');
        Ok(())
    }

    /// The lines that the fix changes, if they are few.
    fn change(&self, out: &mut String, finding: &Finding) -> fmt::Result {
        use fmt::Write as _;
        let Some((source, edits)) = place::edits(finding) else { return Ok(()) };
        let changed = diff::changed_lines(&source, &edits);
        if changed.is_empty() || changed.len() > MAX_CHANGED {
            return Ok(());
        }
        for (sign, line) in changed {
            let style = if sign == '-' { Style::Removed } else { Style::Added };
            let line = printable(&line, false);
            let room = self.options.width.saturating_sub(GUTTER).max(20);
            let (shown, _, is_cut) = window(&line, None, room);
            let end = match (is_cut, self.options.unicode) {
                (false, _) => "",
                (true, true) => "…",
                (true, false) => "...",
            };
            let text = self.paint.text(style, &format!("{sign} {}{end}", &line[shown]));
            writeln!(out, "       {text}")?;
        }
        Ok(())
    }

    /// Writes the rendered text, if the text of the user differs from it.
    fn output(&self, out: &mut String, finding: &Finding) -> Result<(), CliError> {
        let Some(rendered) = finding.location.rendered().filter(|rendered| !rendered.is_literal) else {
            return Ok(());
        };
        if let Some((source, _, span)) = rendered.place.resolve_span() {
            let command = rendered.commands.first().map_or("", |command| command);
            let name = format!("rendered by {command}");
            let mark = Annotation { span, text: None, primary: true };
            self.snippet(out, &name, source, &[mark], Severity::Info)?;
        }
        Ok(())
    }

    /// The lines around some positions, drawn by miette.
    fn snippet(
        &self,
        out: &mut String,
        name: &str,
        source: &Source,
        marks: &[Annotation],
        severity: Severity,
    ) -> Result<(), CliError> {
        let width = self.options.width.saturating_sub(GUTTER).max(20);
        let mut excerpt = Excerpt::named(name, source, marks, width, self.options.unicode);
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
            .with_width(self.options.width)
            .with_context_lines(CONTEXT)
            .with_links(false)
            .tab_width(2)
            .without_syntax_highlighting();
        let beside = excerpt.take_beside();
        let mut drawn = String::new();
        handler.render_report(&mut drawn, &Snippet(excerpt))?;
        // miette's first line is for a message, which is already printed above.
        let drawn = drawn.split_once('\n').map_or("", |(_, rest)| rest);
        for line in drawn.split_inclusive('\n') {
            out.push_str(&broken_place(line, &printable(name, false), self.options));
        }
        for label in beside {
            self.line(out, "note", &label)?;
        }
        Ok(())
    }

    /// The grid of a week; omitted if it does not fit the width.
    fn week(&self, out: &mut String, week: &Week) -> fmt::Result {
        use fmt::Write as _;
        const NAME: &str = "  week: ";
        let lines = week.lines();
        let widest = lines.iter().map(String::len).max().unwrap_or_default();
        if NAME.len() + widest > self.options.width {
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

    /// The hours of a day, each state in its colour. The letters have the same meaning without colours.
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
        let room = self.options.width.saturating_sub(indent.len()).max(20);
        let mut words = Line::default();
        words.add(Style::Plain, &printable(text, false));
        for (at, line) in words.lines(Some(room), 0, self.paint).iter().enumerate() {
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

/// The line above an excerpt, which contains a path; if it is wider than the terminal, the path is broken at
/// `/`.
fn broken_place(line: &str, name: &str, options: RenderOptions) -> String {
    let (corner, bar) = if options.unicode { ('╭', '│') } else { (',', '|') };
    let frame = line.trim_start_matches(' ');
    let margin = line.len() - frame.len();
    let Some(start) = line.find(name).filter(|_| frame.starts_with(corner) && !name.is_empty()) else {
        return line.to_owned();
    };
    // The path and the position after it, up to the end of the style or of the bracket.
    let after = start + name.len();
    let Some(end) = line[after..].find(['\x1b', ']']).map(|length| after + length) else {
        return line.to_owned();
    };
    let style = line[..start].rfind('\x1b').map_or("", |at| &line[at..start]);
    let close = if style.is_empty() { "" } else { "\x1b[0m" };
    // The width of the margin, the corner, a dash and the bracket.
    let indent = margin + 3;
    let whole = options.width.saturating_sub(indent + 1).max(10);
    let mut parts = Vec::new();
    let mut rest = &line[start..end];
    while !rest.is_empty() {
        let (part, later) = split_word(rest, whole, whole);
        parts.push(part);
        rest = later;
    }
    let next = format!("{close}\n{}{bar}  {style}", " ".repeat(margin));
    format!("{}{}{}", &line[..start], parts.join(&next), &line[end..])
}

fn renders_note(rendered: &Rendered) -> Option<String> {
    let has = rendered.commands.len();
    (has < rendered.renders)
        .then(|| format!("in {has} of {} renders: {}", rendered.renders, rendered.commands.join(", ")))
}

/// A report that consists only of labels.
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

#[cfg(test)]
mod tests {
    use super::{RenderOptions, broken_place};

    #[test]
    fn a_long_path_above_an_excerpt_breaks_at_slashes() {
        let look = RenderOptions { color: false, unicode: true, width: 34 };
        let name = "clusters/production/eu-west-1/pools.yaml";
        let line = format!("    ╭─[{name}:12:5]\n");
        let broken = broken_place(&line, name, look);
        assert_eq!(broken, "    ╭─[clusters/production/\n    │  eu-west-1/pools.yaml:12:5]\n");
        assert_eq!(broken_place("    ╭─[a.yaml:1:2]\n", "a.yaml", look), "    ╭─[a.yaml:1:2]\n");
        let styled = format!("    ╭─[\x1b[36m{name}:12:5\x1b[0m]\n");
        assert_eq!(
            broken_place(&styled, name, look),
            "    ╭─[\x1b[36mclusters/production/\x1b[0m\n    │  \x1b[36meu-west-1/pools.yaml:12:5\x1b[0m]\n"
        );
    }
}
