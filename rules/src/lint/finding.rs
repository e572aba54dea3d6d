//! Findings: an object, a pointer and a message, without bytes and lines.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::cluster::runtimes::Completed;
pub(crate) use crate::facts::text::ellipsize;
use crate::karpenter::budget::Week;
use crate::lint::authority::Authority;
use crate::lint::fix::Fix;
use crate::lint::fix::text::Repair;
use crate::lint::message::{fit_to_limit, is_long};
use crate::lint::rule::Rule;
use crate::object::Object;
use crate::platform::{Platform, Product, Version};
use crate::promql::Query;
use crate::source::Source;
use crate::tree::Span;
use crate::tree::node::{Node, Shape};
use crate::tree::pointer::Pointer;

/// The message of further places of a finding.
pub(crate) const ALSO_HERE: &str = "and here";
/// Maximum number of related places of a finding that was merged from several.
pub(crate) const MAX_MERGED_RELATED: usize = 12;
/// Maximum number of places that are added from further sets of manifests.
const MAX_JOINED_RELATED: usize = 4;

/// Merges findings of a file that have the same rule and key ([`Merge`]) into one at the first place.
pub(crate) fn merge(findings: Vec<Finding>) -> Vec<Finding> {
    if !findings.iter().any(|finding| finding.merge.is_some()) {
        return findings;
    }
    let mut out: Vec<Finding> = Vec::with_capacity(findings.len());
    let mut first: HashMap<(&'static str, String), usize> = HashMap::new();
    for finding in findings {
        let key = finding.merge.as_ref().map(|merge| (finding.rule.id, merge.key.clone()));
        match key.map(|key| first.entry(key)) {
            Some(Entry::Occupied(at)) => out[*at.get()].take_in(finding),
            Some(Entry::Vacant(free)) => {
                free.insert(out.len());
                out.push(finding);
            }
            None => out.push(finding),
        }
    }
    out
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Advice.
    Info,
    /// Accepted, but likely to cause an outage, lost work, stuck nodes or wasted money.
    Warning,
    /// Rejected, or provably without the stated effect, or forbidden by a practice.
    Error,
}

impl Severity {
    /// `error`, `warning` or `info`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// The place of a finding.
#[derive(Clone, Debug)]
pub enum Location {
    /// A field of an object.
    Field {
        object: Object,
        pointer: Pointer,
        /// Whether the place is the key rather than the value.
        key: bool,
    },
    /// A place in a file that is not in an object: a syntax error, a comment.
    Text {
        source: Arc<Source>,
        document: u32,
        /// The object in the document, if there is one.
        object: Option<Object>,
        span: Span,
    },
    /// A part of the text of a field, such as a query in a dashboard: the field, and the bytes of the part in the file.
    Within(Box<Location>, Span),
    /// A place in rendered output, with the text that it comes from.
    Rendered(Box<Rendered>),
}

/// A place in the output of a program such as `helm template`, and the user's text that it comes from.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub place: Location,
    /// The file with the text: a template, a values file, a base or a patch.
    pub source: Arc<Source>,
    /// The range of the text in `source`.
    pub span: Span,
    /// Whether the text is equal to the output, so that the output need not be shown.
    pub is_literal: bool,
    /// The commands that produce the output, as typed in a shell.
    pub commands: Vec<Arc<str>>,
    /// Number of commands that rendered the file.
    pub renders: usize,
    /// The edits of `source` that fix the finding. `None` if the place comes from more than one text.
    pub repair: Option<Repair>,
}

impl Location {
    /// The place of a node.
    pub fn of(object: &Object, node: &Node<'_>) -> Location {
        Location::Field { object: object.clone(), pointer: node.pointer(), key: false }
    }

    pub fn object(&self) -> Option<&Object> {
        match self {
            Location::Field { object, .. } => Some(object),
            Location::Text { object, .. } => object.as_ref(),
            Location::Within(field, _) => field.object(),
            Location::Rendered(rendered) => rendered.place.object(),
        }
    }

    /// The rendered place, if a program rendered it.
    pub fn rendered(&self) -> Option<&Rendered> {
        match self {
            Location::Rendered(rendered) => Some(rendered),
            Location::Field { .. } | Location::Text { .. } | Location::Within(..) => None,
        }
    }

    pub fn pointer(&self) -> Option<&Pointer> {
        match self {
            Location::Field { pointer, .. } => Some(pointer),
            Location::Text { .. } => None,
            Location::Within(field, _) => field.pointer(),
            Location::Rendered(rendered) => rendered.place.pointer(),
        }
    }

    pub fn path(&self) -> Option<&str> {
        match self {
            Location::Text { source, .. } => Some(source.path()),
            Location::Field { object, .. } => Some(object.origin()?.source.path()),
            Location::Within(field, _) => field.path(),
            Location::Rendered(rendered) => Some(rendered.source.path()),
        }
    }

    /// The file, the number of the document and the bytes, if the object came from a file. The span of a scalar is its
    /// value, that of a collection is its key, that of an absent field is its nearest ancestor in the file.
    pub fn resolve_span(&self) -> Option<(&Arc<Source>, u32, Span)> {
        match self {
            Location::Text { source, document, span, .. } => Some((source, *document, *span)),
            Location::Field { object, pointer, key } => {
                let origin = object.origin()?;
                let span = match object.is_converted() {
                    true => field_span(object.as_written(), &nearest_written(object, pointer), *key)?,
                    false => field_span(object, pointer, *key)?,
                };
                Some((&origin.source, origin.document, span))
            }
            Location::Within(field, span) => {
                let (source, document, _) = field.resolve_span()?;
                Some((source, document, *span))
            }
            Location::Rendered(rendered) => Some((&rendered.source, 0, rendered.span)),
        }
    }

    /// Whether both are one place in the text of an object, which an alias repeats as another field.
    pub(crate) fn is_aliased(&self, other: &Location) -> bool {
        let (Some(object), Some(pointer), Some(repeated)) = (self.object(), self.pointer(), other.pointer())
        else {
            return false;
        };
        if pointer == repeated || !other.object().is_some_and(|other| other.ptr_eq(object)) {
            return false;
        }
        let root = object.root();
        let ((slot, depth), (other_slot, other_depth)) =
            (root.place_in_text(pointer), root.place_in_text(repeated));
        let span = |location: &Location| location.resolve_span().map(|(.., span)| span);
        slot == other_slot
            && pointer.steps()[depth..] == repeated.steps()[other_depth..]
            && span(self) == span(other)
    }

    /// The field, where the place is a part of its text.
    pub(crate) fn whole(&self) -> &Location {
        match self {
            Location::Within(field, _) => field,
            other => other,
        }
    }
}

/// Whether an offset has the same line and column in two texts, whatever the unit of columns.
fn is_at_one_column(source: &Source, other: &Source, at: u32) -> bool {
    let line = |source: &Source| {
        let number = source.lines().line_of(at);
        (number, source.lines().start_of(number, source.text()))
    };
    let (number, start) = line(source);
    if line(other) != (number, start) {
        return false;
    }
    let widths = |source: &Source| {
        let before = source.text().get(start as usize..at as usize).unwrap_or_default();
        (before.chars().count(), before.encode_utf16().count())
    };
    widths(source) == widths(other)
}

/// The bytes in the file of a part of a literal block, or of a text on one line, given the bytes of the part in the text itself.
fn part_span(object: &Object, node: &Node<'_>, part: &Range<usize>) -> Option<Span> {
    let source = &object.origin()?.source;
    let (file, lines) = (source.text(), source.lines());
    let value = node.raw_text()?;
    let before = value.get(..part.start)?;
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = value[line_start..].lines().next()?;
    let start = node.span()?.start;
    let is_literal = file.get(start as usize..)?.starts_with('|');
    let first = lines.line_of(start) + usize::from(is_literal);
    let number = first + before.matches('\n').count();
    let (from, to) = (lines.start_of(number, file) as usize, lines.start_of(number + 1, file) as usize);
    // A block that is folded, or escapes, has another line here.
    let column = file.get(from..to)?.find(line).filter(|_| !line.is_empty())?;
    let start = from + column + (part.start - line_start);
    let length = part.len().min(line.len().saturating_sub(part.start - line_start));
    Some(Span::new(u32::try_from(start).ok()?, u32::try_from(start + length).ok()?))
}

fn field_span(object: &Object, pointer: &Pointer, key: bool) -> Option<Span> {
    let mut node = object.root();
    let mut exact = true;
    for step in pointer.steps() {
        let next = node.step(step);
        if next.is_absent() {
            exact = false;
            break;
        }
        node = next;
    }
    let collection = matches!(node.shape(), Shape::Mapping | Shape::Sequence);
    if (key || !exact || (collection && !node.is_flow()))
        && let Some(span) = node.key_span()
    {
        return Some(span);
    }
    let span = node.span()?;
    if collection && !node.is_flow() {
        // A list item or the whole document is located by its first entry.
        if pointer.steps().is_empty() || !exact {
            let kind = node.get("kind");
            if let Some(span) = kind.span() {
                return Some(span);
            }
        }
        let first = node
            .entries()
            .first()
            .and_then(|(_, n)| n.key_span())
            .or_else(|| node.items().next().and_then(|n| n.span()));
        return Some(first.unwrap_or(span));
    }
    if span.start == span.end
        && let Some(key) = node.key_span()
    {
        return Some(key);
    }
    Some(span)
}

impl Location {
    /// Whether reports show two places as the same.
    fn renders_equal(&self, other: &Location) -> bool {
        if self.ptr_eq(other) {
            return true;
        }
        let same_place = match (self.resolve_span(), other.resolve_span()) {
            (Some((source, document, span)), Some((other, number, bytes))) => {
                let at = |offset: u32| Arc::ptr_eq(source, other) || is_at_one_column(source, other, offset);
                source.path() == other.path()
                    && (document, span) == (number, bytes)
                    && at(span.start)
                    && at(span.end)
            }
            (None, None) => true,
            _ => false,
        };
        same_place
            && self.pointer() == other.pointer()
            && self.object().map(Object::id) == other.object().map(Object::id)
    }

    /// Whether two places are the same field of the same object handle.
    pub(crate) fn ptr_eq(&self, other: &Location) -> bool {
        match (self, other) {
            (
                Location::Field { object, pointer, key },
                Location::Field { object: other, pointer: way, key: named },
            ) => object.ptr_eq(other) && pointer == way && key == named,
            (Location::Within(field, span), Location::Within(other, bytes)) => {
                field.ptr_eq(other) && span == bytes
            }
            _ => false,
        }
    }
}

/// The written field from which a field of a converted object comes, or the nearest one around it.
fn nearest_written(object: &Object, pointer: &Pointer) -> Pointer {
    let steps = pointer.steps();
    let around = (0..=steps.len()).rev().map(|length| Pointer::from_steps(steps[..length].iter().cloned()));
    let mut written = around.filter_map(|field| object.written_field(&field));
    written.next().unwrap_or_default()
}

/// A text whose names were cut.
#[derive(Clone, Debug)]
struct Uncut {
    shown: Box<str>,
    whole: Box<str>,
}

/// Pushes an item to a list that mostly has one: a first push makes room for four, which would take 200 bytes of a finding.
fn push_one<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// A further place of a finding.
#[derive(Clone, Debug)]
pub struct Related {
    pub location: Location,
    pub message: String,
}

/// Groups findings of one rule that a file reports as one: those of all objects with an equal key.
#[derive(Clone, Debug)]
pub struct Merge {
    key: String,
    subject: String,
    others: BTreeSet<String>,
    places: usize,
    identical: bool,
    words: fn(&Merge) -> String,
}

impl Merge {
    /// A finding at one place about `subject`. `words` makes the message of this finding, and of all findings with the
    /// key together.
    pub(crate) fn new(
        key: impl Into<String>,
        subject: impl Into<String>,
        words: fn(&Merge) -> String,
    ) -> Merge {
        Merge {
            key: key.into(),
            subject: subject.into(),
            others: BTreeSet::new(),
            places: 1,
            identical: false,
            words,
        }
    }

    /// Sets whether the subject is equal to what it is compared with; for merged findings, whether each one is.
    pub(crate) fn identical(mut self, identical: bool) -> Merge {
        self.identical = identical;
        self
    }

    /// Whether all subjects are equal to what they are compared with.
    pub(crate) fn is_identical(&self) -> bool {
        self.identical
    }

    /// Adds the subject of another finding with the key, or further places of the same one.
    pub(crate) fn add(&mut self, subject: &str, places: usize) {
        self.places += places;
        if self.subject != subject && !self.others.contains(subject) {
            self.others.insert(subject.to_owned());
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Number of other subjects.
    pub(crate) fn others(&self) -> usize {
        self.others.len()
    }

    pub(crate) fn places(&self) -> usize {
        self.places
    }

    pub(crate) fn message(&self) -> String {
        (self.words)(self)
    }
}

impl SetNames {
    pub fn join(&mut self, other: &SetNames) {
        let added: Vec<Arc<str>> =
            other.names.iter().filter(|name| !self.names.contains(name)).cloned().collect();
        if !added.is_empty() {
            self.names = self.names.iter().cloned().chain(added).collect();
        }
        self.partial |= other.partial;
    }
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    /// The component that rejects the object for this, if any.
    pub rejected_by: Option<Authority>,
    /// The component that rejects the object if `rejected_by` accepts it: a controller that no longer reads a version
    /// which an API server may still serve.
    pub otherwise_rejected_by: Option<Authority>,
    /// Whether it holds only until another object is created, which may be applied a moment later.
    pub reports_absence: bool,
    pub location: Location,
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
    pub related: Vec<Related>,
    /// Distinguishes the finding from others of its rule at its place: part of its identity.
    pub(crate) parameters: Vec<String>,
    pub fix: Option<Arc<Fix>>,
    /// The week of a disruption schedule that the finding is about.
    pub schedule_grid: Option<Box<Week>>,
    /// Which other findings of its rule on its file it is merged with.
    pub(crate) merge: Option<Box<Merge>>,
    /// The sets of manifests in which it holds; empty if the input is a single set.
    pub sets: SetNames,
    /// Whether a rule has it about another object, which its rule checks, and names this one
    /// ([`crate::Engine::review_object`]).
    pub from_partner: bool,
    /// The message and the help before their names were cut; `None` if nothing was cut.
    uncut: Option<Box<[Option<Uncut>; 2]>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetNames {
    /// The names, in the order of the [`Partition`](crate::Partition).
    pub names: Arc<[Arc<str>]>,
    /// Whether the object is also in sets in which the finding does not hold.
    pub partial: bool,
}

impl Finding {
    pub(crate) fn new(rule: &'static Rule, location: Location, message: String) -> Finding {
        Finding {
            rule,
            severity: rule.severity,
            rejected_by: rule.sole_authority(),
            otherwise_rejected_by: None,
            reports_absence: rule.reports_absence,
            location,
            message,
            help: None,
            related: Vec::new(),
            parameters: Vec::new(),
            fix: None,
            schedule_grid: None,
            merge: None,
            sets: SetNames::default(),
            from_partner: false,
            uncut: None,
        }
    }

    pub fn help(&mut self, text: impl Into<String>) -> &mut Finding {
        self.help = Some(self.fit(1, text.into()));
        self
    }

    /// Sets the message; where names in it have to be cut, it is kept whole as well, for programs.
    pub(crate) fn message(&mut self, text: String) {
        self.message = self.fit(0, text);
    }

    /// Fits the message (0) or the help (1) to the limit.
    fn fit(&mut self, which: usize, text: String) -> String {
        if !is_long(&text) {
            return fit_to_limit(text);
        }
        let shown = fit_to_limit(text.clone());
        self.uncut.get_or_insert_default()[which] =
            Some(Uncut { shown: shown.as_str().into(), whole: text.into() });
        shown
    }

    /// Sets the message with its names whole, where [`Finding::message`] has been given with shorter ones.
    pub(crate) fn set_whole_message(&mut self, whole: String) {
        if whole != self.message {
            let shown = self.message.as_str().into();
            self.uncut.get_or_insert_default()[0] = Some(Uncut { shown, whole: whole.into() });
        }
    }

    /// What a shown text was made of, unless that was replaced since.
    fn whole<'t>(&'t self, which: usize, shown: &'t str) -> &'t str {
        let uncut = self.uncut.as_ref().and_then(|uncut| uncut[which].as_ref());
        uncut.filter(|uncut| &*uncut.shown == shown).map_or(shown, |uncut| &uncut.whole)
    }

    /// The message with its names whole. [`Finding::message`] is for warnings of the API server, whose length is limited.
    pub fn whole_message(&self) -> &str {
        self.whole(0, &self.message)
    }

    /// The help with its names whole.
    pub fn whole_help(&self) -> Option<&str> {
        self.help.as_ref().map(|help| self.whole(1, help))
    }

    /// Sets a severity other than the rule's own. Only an error is rejected.
    pub fn severity(&mut self, severity: Severity) -> &mut Finding {
        self.severity = severity;
        if severity < Severity::Error {
            self.rejected_by = None;
        }
        self
    }

    /// Sets which component rejects the object for this: one of the rule's own list, or none.
    pub(crate) fn rejected_by(&mut self, authority: Option<Authority>) -> &mut Finding {
        debug_assert!(authority.is_none_or(|a| self.rule.rejected_by.contains(&a)));
        self.rejected_by = authority;
        self
    }

    /// Sets which component rejects the object if the first authority accepts it.
    pub(crate) fn otherwise_rejected_by(&mut self, authority: Authority) -> &mut Finding {
        self.otherwise_rejected_by = Some(authority);
        self
    }

    /// Sets whether it holds only until another object is created; only for rules that declare it.
    pub(crate) fn reports_absence(&mut self, absence: bool) -> &mut Finding {
        debug_assert!(self.rule.reports_absence || !absence);
        self.reports_absence = absence;
        self
    }

    /// Points at the key rather than the value.
    pub(crate) fn at_key(&mut self) -> &mut Finding {
        if let Location::Field { key, .. } = &mut self.location {
            *key = true;
        }
        self
    }

    /// Points at a query inside of the text of a field.
    pub(crate) fn at_query(&mut self, object: &Object, query: &Query) -> &mut Finding {
        match &query.part {
            Some(part) => self.at_part(object, &query.node(object), part.clone()),
            None => self,
        }
    }

    /// Points at a part of the text of the field: some bytes of the text as it is read. Without effect where the file writes the text
    /// in a way that has other lines.
    pub(crate) fn at_part(&mut self, object: &Object, node: &Node<'_>, part: Range<usize>) -> &mut Finding {
        if let Some(span) = part_span(object, node, &part) {
            let field = std::mem::replace(&mut self.location, Location::of(object, node));
            self.location = Location::Within(Box::new(field), span);
        }
        self
    }

    /// Adds a further place.
    pub(crate) fn related(
        &mut self,
        object: &Object,
        node: &Node<'_>,
        message: impl Into<String>,
    ) -> &mut Finding {
        let mut message = message.into();
        // The excerpt shows the text in the file.
        if let (Some(change), Some(text)) = (node.change(), node.raw_text()) {
            let name = text.rsplit('/').next().unwrap_or(text);
            message.push_str(&format!(": {} makes it `{}`", change.by, ellipsize(name)));
        }
        push_one(&mut self.related, Related { location: Location::of(object, node), message });
        self
    }

    /// Adds a parameter, such as a resource or another object, that distinguishes the finding from others of its rule
    /// at its place. Findings with the same identity can replace each other unnoticed.
    pub(crate) fn identified_by(&mut self, parameter: impl Into<String>) -> &mut Finding {
        push_one(&mut self.parameters, parameter.into());
        self
    }

    pub(crate) fn fix(&mut self, fix: Fix) -> &mut Finding {
        self.fix = Some(Arc::new(fix));
        self
    }

    /// Moves its places from a workload as its controller completes it to the manifests from which they come. A fix
    /// would change fields that nobody wrote, and is dropped.
    pub(crate) fn place_in_source(&mut self, completed: &Completed) {
        let mut of_runtime = Vec::new();
        let mut place = |location: &mut Location| {
            let Location::Field { object, pointer, .. } = location else { return };
            if !object.ptr_eq(&completed.object) {
                return;
            }
            let (own, runtime) = completed.origin_of(pointer);
            (*object, *pointer) = (completed.source().clone(), own);
            if let Some((object, pointer)) = runtime {
                let location = Location::Field { object, pointer, key: false };
                of_runtime.push(Related { location, message: "the runtime says so".to_owned() });
            }
        };
        place(&mut self.location);
        self.related.iter_mut().for_each(|related| place(&mut related.location));
        if of_runtime.is_empty()
            && let Some(runtime) = completed.runtime()
        {
            // The object is complete with its runtime alone.
            let pointer = Pointer::from_steps(["metadata", "name"]);
            let location = Location::Field { object: runtime.clone(), pointer, key: false };
            of_runtime.push(Related { location, message: "its runtime".to_owned() });
        }
        self.related.extend(of_runtime);
        self.fix = None;
    }

    /// Sets the week that reports draw.
    pub(crate) fn schedule_grid(&mut self, week: Week) -> &mut Finding {
        self.schedule_grid = Some(Box::new(week));
        self
    }

    /// Merges it with the other findings of its rule on its file that have the same key.
    pub(crate) fn merges(&mut self, merge: Merge) -> &mut Finding {
        self.merge = Some(Box::new(merge));
        self
    }

    /// Merges another finding into this one: its places become related ones.
    fn take_in(&mut self, other: Finding) {
        let (Some(own), Some(theirs)) = (&mut self.merge, other.merge) else { return };
        own.add(&theirs.subject, theirs.places);
        own.identical &= theirs.identical;
        for subject in &theirs.others {
            own.add(subject, 0);
        }
        let text = own.message();
        self.message(text);
        if other.severity > self.severity {
            self.severity = other.severity;
            self.rejected_by = other.rejected_by;
            self.help = other.help;
        }
        self.sets.join(&other.sets);
        let place = Related { location: other.location, message: ALSO_HERE.to_owned() };
        for related in std::iter::once(place).chain(other.related).take(MAX_MERGED_RELATED) {
            let is_same = |one: &Related| {
                one.message == related.message && one.location.renders_equal(&related.location)
            };
            if self.related.len() < MAX_MERGED_RELATED && !self.related.iter().any(is_same) {
                self.related.push(related);
            }
        }
    }

    /// Whether reports show two findings as the same: the same messages at the same places.
    pub fn renders_equal(&self, other: &Finding) -> bool {
        let related =
            |(a, b): (&Related, &Related)| a.message == b.message && a.location.renders_equal(&b.location);
        self.rule.id == other.rule.id
            && self.severity == other.severity
            && self.rejected_by == other.rejected_by
            && self.message == other.message
            && self.help == other.help
            && self.fix == other.fix
            && self.schedule_grid == other.schedule_grid
            && self.sets == other.sets
            && self.location.renders_equal(&other.location)
            && self.related.len() == other.related.len()
            && self.related.iter().zip(&other.related).all(related)
    }

    /// Its place and the related ones.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &Location> {
        std::iter::once(&self.location).chain(self.related.iter().map(|related| &related.location))
    }

    /// Whether it is about what changed with Karpenter 1.0 in an object of an old API, and the platform may not have that version yet:
    /// [`Rule::is_new_in_v1`], or the field `terminationGracePeriod`.
    pub(crate) fn is_of_changed_meaning(&self, platform: &Platform) -> bool {
        let is_changed = |place: &Location| {
            let last = place.pointer().and_then(|pointer| pointer.steps().last());
            let is_new = last.is_some_and(|last| last == "terminationGracePeriod");
            (is_new || self.rule.is_new_in_v1) && place.object().is_some_and(Object::is_converted)
        };
        let is_current = platform.is_stated(Product::Karpenter) && platform.karpenter >= Version::new(1, 0);
        !is_current && self.locations().any(is_changed)
    }

    /// Moves its places to the objects as written.
    pub(crate) fn refer_to_written(&mut self) {
        let places = self.related.iter_mut().map(|related| &mut related.location);
        for place in std::iter::once(&mut self.location).chain(places) {
            let place = match place {
                Location::Within(field, _) => &mut **field,
                other => other,
            };
            if let Location::Field { object, pointer, .. } = place
                && object.is_converted()
            {
                *pointer = nearest_written(object, pointer);
            }
            if let Location::Field { object, .. } | Location::Text { object: Some(object), .. } = place
                && !object.is_as_written()
            {
                *object = object.as_written().clone();
            }
        }
    }

    /// Whether another finding of the same object, such as in another set, has the same place and message.
    pub(crate) fn is_equal_in_other_set(&self, other: &Finding) -> bool {
        self.rule.id == other.rule.id
            && self.location.ptr_eq(&other.location)
            && self.severity == other.severity
            && self.message == other.message
            && self.help == other.help
            && self.parameters == other.parameters
            && self.fix == other.fix
    }

    /// Adds the other places of the equal finding in another set.
    pub(crate) fn join_related(&mut self, other: Finding) {
        let known = self.related.len();
        for related in other.related {
            let same = |one: &Related| {
                one.message == related.message && one.location.renders_equal(&related.location)
            };
            if self.related.len() < MAX_JOINED_RELATED && !self.related[..known].iter().any(same) {
                self.related.push(related);
            }
        }
    }

    /// Whether both report that something is missing at one place, with any message.
    pub(crate) fn is_same_absence(&self, other: &Finding) -> bool {
        self.reports_absence
            && other.reports_absence
            && self.rule.id == other.rule.id
            && self.parameters == other.parameters
            && self.location.ptr_eq(&other.location)
    }

    /// Whether the places of two findings that render as equal are in the same object handles, so that they are
    /// interchangeable.
    pub(crate) fn locations_ptr_eq(&self, other: &Finding) -> bool {
        self.location.ptr_eq(&other.location)
            && self.related.len() == other.related.len()
            && (self.related.iter().zip(&other.related)).all(|(a, b)| a.location.ptr_eq(&b.location))
    }
}

/// Whether two lists of findings render as equal.
pub(crate) fn all_render_equal(a: &[Finding], b: &[Finding]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.renders_equal(b))
}
