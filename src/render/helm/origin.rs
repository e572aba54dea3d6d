//! From an object that a chart rendered to the template, the value or the dependency that made it.

use std::path::PathBuf;
use std::sync::Arc;

use gpulint_rules::lint::fix::text;
use gpulint_rules::lint::fix::text::{Edit, Repair};
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Fix, Location, Pointer, Rendered};

use crate::render::template::{Action, LineOrigin, Template};
use crate::render::values::{SingleValue, ValuesFile};
use crate::render::{Locate, Place, defaults, value_fix, values};

use super::templates::template_texts;

/// The origins of the lines of the templates of a chart.
pub(super) struct HelmOrigin {
    pub(super) files: Vec<FileOrigin>,
    /// The templates by the number of their marks.
    pub(super) templates: Vec<Option<Arc<Source>>>,
    pub(super) folder: PathBuf,
    pub(super) chart: (Arc<Source>, Span),
}

pub(super) struct FileOrigin {
    pub(super) template: Option<Arc<Source>>,
    pub(super) lines: Vec<Option<LineOrigin>>,
    pub(super) values: Vec<ValuesFile>,
    pub(super) singles: Vec<SingleValue>,
    pub(super) dependency: Option<(Arc<Source>, Span)>,
}

impl Locate for HelmOrigin {
    fn locate(&self, file: usize, location: &Location) -> Option<Place> {
        let origin = self.files.get(file)?;
        let (rendered, _, span) = location.resolve_span()?;
        let Some(own) = &origin.template else {
            let (source, span) = origin.dependency.as_ref().unwrap_or(&self.chart);
            return Some(Place { source: Arc::clone(source), span: *span, is_literal: false });
        };
        let line = rendered.lines().line_of(span.start);
        let start = rendered.lines().start_of(line, rendered.text()) as usize;
        let text = line_text(rendered, line);
        let column = span.start as usize - start;
        let end = (span.end as usize - start).min(text.len());
        let known = origin.lines.get(line).copied().flatten();
        let (source, at, is_own) = match known {
            Some(found) => {
                let source = self.templates.get(found.file).and_then(Option::as_ref).unwrap_or(own);
                (source, found.line, found.is_own)
            }
            None => match by_text(own, text) {
                Some(at) => (own, at, true),
                None => return Some(begin_of(own)),
            },
        };
        let from = source.lines().start_of(at, source.text());
        let written = line_text(source, at);
        let literal = written.find("{{").unwrap_or(written.len());
        if is_own && end <= literal && written.get(..end) == text.get(..end) {
            let span = Span::new(from + column as u32, from + end as u32);
            return Some(Place { source: Arc::clone(source), span, is_literal: true });
        }
        let here = actions_of(source, at);
        // Of several values in a line, it is the one that the field has.
        let mut values = here.iter().filter_map(|action| match action.values.as_slice() {
            [Some(path)] => in_values(origin, path, location),
            _ => None,
        });
        if let (Some((source, span)), None) = (values.next(), values.next()) {
            return Some(Place { source, span, is_literal: false });
        }
        let (from, to) = (from as usize, from as usize + written.len());
        let span = match (here.first(), here.last()) {
            (Some(first), Some(last)) => (first.span.start.max(from), last.span.end.min(to)),
            _ => (from + (written.len() - written.trim_start().len()), from + written.trim_end().len()),
        };
        let span = Span::new(span.0 as u32, span.1 as u32);
        Some(Place { source: Arc::clone(source), span, is_literal: false })
    }

    fn repair(&self, file: usize, location: &Location, fix: &Fix) -> Option<(Arc<Source>, Repair)> {
        self.template_repair(file, location, fix).or_else(|| self.value_repair(file, location, fix))
    }

    fn empty_value(&self, file: usize, place: &Rendered) -> Option<String> {
        defaults::empty_value(&self.files.get(file)?.values, &place.source, place.span)
    }
}

/// The actions of a template that print something in a line.
fn actions_of(source: &Source, line: usize) -> Vec<Action> {
    let from = source.lines().start_of(line, source.text()) as usize;
    let to = from + line_text(source, line).len();
    let actions = Template::read(source.text()).actions.into_iter();
    actions.filter(|action| action.span.start < to && action.span.end > from && action.prints).collect()
}

impl HelmOrigin {
    /// The edit of a value that gives the only field of a fix its new value.
    fn value_repair(&self, file: usize, location: &Location, fix: &Fix) -> Option<(Arc<Source>, Repair)> {
        let (path, value) = value_fix::single_change(fix)?;
        let object = location.object()?.clone();
        let field = Location::Field { object, pointer: Pointer::parse(path)?, key: false };
        let origin = self.files.get(file)?;
        let (rendered, _, span) = field.resolve_span()?;
        let line = origin.lines.get(rendered.lines().line_of(span.start)).copied().flatten()?;
        let template = self.templates.get(line.file)?.as_ref().filter(|_| line.is_own)?;
        let actions = actions_of(template, line.line);
        let [action] = actions.as_slice() else { return None };
        let [Some(path)] = action.values.as_slice() else { return None };
        let is_quoted = value_fix::prints_whole(template.text().get(action.span.clone())?, path)?;
        let (source, span) = in_values(origin, path, &field)?;
        let written = source.text().get(span.start as usize..span.end as usize)?;
        let is_scalar = !written.contains('\n') && source.is_utf8();
        if !is_scalar || !value_fix::is_read_once(&template_texts(&self.folder), path) {
            return None;
        }
        let repair = value_fix::replacement(written, span, value, is_quoted)?;
        Some((source, repair))
    }

    fn template_repair(&self, file: usize, location: &Location, fix: &Fix) -> Option<(Arc<Source>, Repair)> {
        let object = location.object()?;
        let rendered = &object.origin()?.source;
        let edits = text::repair(object, fix).ok()?.edits;
        let edits: Vec<(usize, Edit)> =
            edits.iter().map(|edit| self.edit(file, rendered, edit)).collect::<Option<_>>()?;
        let (template, first) = edits.first()?;
        let (from, to) = (first.span.start, edits.last()?.1.span.end);
        let is_one = edits.iter().all(|(other, _)| other == template)
            && edits.windows(2).all(|pair| pair[0].1.span.end <= pair[1].1.span.start);
        let source = self.templates.get(*template)?.as_ref().filter(|source| is_one && source.is_utf8())?;
        let edits = edits.into_iter().map(|(_, edit)| edit).collect();
        // Repairs with adjacent scopes are not applied together.
        let scope = Span::new(from, to.max(from + 1));
        Some((Arc::clone(source), Repair { edits, scope }))
    }
}

/// Moves edits of a rendered text to a template. All lines that they change must be literal in one template
/// and be rendered once, so that editing the template changes the rendered text in the same way.
impl HelmOrigin {
    /// The line of a template that is rendered literally and only once.
    fn literal_line(&self, file: usize, rendered: &Source, line: usize) -> Option<(usize, usize)> {
        let found = self.files[file].lines.get(line).copied().flatten().filter(|found| found.is_own)?;
        let source = self.templates.get(found.file)?.as_ref()?;
        let text = line_text(source, found.line);
        let same = |other: &&Option<LineOrigin>| {
            other.is_some_and(|other| (other.file, other.line) == (found.file, found.line))
        };
        let times = self.files.iter().flat_map(|one| &one.lines).filter(same).count();
        let is_literal = text == line_text(rendered, line) && !text.contains("{{");
        (is_literal && times == 1).then_some((found.file, found.line))
    }

    fn edit(&self, file: usize, rendered: &Source, edit: &Edit) -> Option<(usize, Edit)> {
        if edit.text.contains("{{") {
            return None;
        }
        let lines = rendered.lines();
        let start_of = |line: usize| lines.start_of(line, rendered.text());
        let first = lines.line_of(edit.span.start);
        let last = lines.line_of(edit.span.end);
        let begins_line = edit.span.start == start_of(first);
        let ends_at_start = edit.span.end == start_of(last) && last > 0;
        // An insertion between two lines belongs to the first one.
        let from =
            if begins_line && edit.span.start == edit.span.end { first.checked_sub(1)? } else { first };
        let to = if ends_at_start { last - 1 } else { last };
        let (template, begin) = self.literal_line(file, rendered, from)?;
        for line in from + 1..=to.max(from) {
            if self.literal_line(file, rendered, line)? != (template, begin + (line - from)) {
                return None;
            }
        }
        let source = self.templates.get(template)?.as_ref()?;
        let place = |at: u32| {
            let line = lines.line_of(at);
            let column = at - start_of(line);
            let own = source.lines().start_of(begin + line - from, source.text());
            (own + column).min(source.text().len() as u32)
        };
        let span = Span::new(place(edit.span.start), place(edit.span.end));
        // The insertion follows a line end.
        let is_whole =
            span.start == 0 || !begins_line || source.text()[..span.start as usize].ends_with('\n');
        is_whole.then(|| (template, Edit { span, text: edit.text.clone() }))
    }
}

fn in_values(origin: &FileOrigin, path: &[String], location: &Location) -> Option<(Arc<Source>, Span)> {
    let Location::Field { object, pointer, key } = location else { return None };
    let mut node = object.root();
    let mut steps = Vec::new();
    for step in pointer.steps() {
        let next = match step.parse::<usize>() {
            Ok(index) if node.is_sequence() => node.index(index),
            _ => node.get(step),
        };
        if next.is_absent() {
            break;
        }
        node = next;
        steps.push(step.clone());
    }
    values::find(&origin.singles, &origin.values, path, &steps, &node, *key)
}

fn line_text(source: &Source, line: usize) -> &str {
    let text = source.text();
    let from = source.lines().start_of(line, text) as usize;
    let to = source.lines().start_of(line + 1, text) as usize;
    text.get(from..to).unwrap_or_default().trim_end_matches(['\n', '\r'])
}

/// The line of a template that a rendered line resembles: the only one with the same text, or with the same
/// key.
fn by_text(template: &Source, rendered: &str) -> Option<usize> {
    let only = |fits: &dyn Fn(&str) -> bool| {
        let mut found = template.text().lines().enumerate().filter(|(_, line)| fits(line));
        found.next().filter(|_| found.next().is_none()).map(|(at, _)| at)
    };
    let key = rendered.split_once(':').map(|(key, _)| key.trim_start_matches([' ', '-']).to_owned());
    only(&|line| line.trim_end() == rendered.trim_end()).or_else(|| {
        let key = key.filter(|key| !key.is_empty())?;
        only(&|line| line.split_once(':').is_some_and(|(k, _)| k.trim_start_matches([' ', '-']) == key))
    })
}

/// The first line of a template with content.
fn begin_of(source: &Arc<Source>) -> Place {
    let mut at = 0;
    for line in source.text().split_inclusive('\n') {
        if !line.trim().is_empty() {
            let end = at + line.trim_end().len();
            return Place {
                source: Arc::clone(source),
                span: Span::new(at as u32, end as u32),
                is_literal: false,
            };
        }
        at += line.len();
    }
    Place { source: Arc::clone(source), span: Span::new(0, 0), is_literal: false }
}
