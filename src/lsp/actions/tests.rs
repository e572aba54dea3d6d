use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulint_rules::lint::fix::rounds::applicable_repair;
use gpulint_rules::lint::fix::text::apply_edits;
use gpulint_rules::platform::{Product, Version};
use gpulint_rules::{CheckReport, Cluster, File, Location, Settings};
use gpulint_testing::{FIXABLE_POOL, is_full, lot, sampled, yaml_below};
use lsp_types::TextDocumentContentChangeEvent;
use rayon::prelude::*;

use super::super::buffers::Buffer;
use super::super::position::{Encoding, Positions};
use super::super::view::SetView;
use super::*;

pub(crate) const NONE: Capabilities = Capabilities {
    pulls_diagnostics: false,
    refreshes_diagnostics: false,
    refreshes_hints: false,
    watches_files: false,
    has_configuration: false,
    shows_progress: false,
    shows_documents: false,
    has_document_changes: false,
    shows_related: false,
    shows_disabled: false,
    resolves_edits: false,
};
pub(crate) const ALL: Capabilities = Capabilities {
    shows_documents: true,
    has_document_changes: true,
    shows_related: true,
    shows_disabled: true,
    resolves_edits: true,
    ..NONE
};

/// A file that is checked alone.
pub(crate) struct Checked {
    pub(crate) file: File,
    pub(crate) report: CheckReport,
    engine: Engine,
    cluster: Cluster,
    positions: Positions,
    pub(crate) encoding: Encoding,
}

impl Checked {
    pub(crate) fn new(path: &str, text: &str, encoding: Encoding) -> Checked {
        // Before 1.15 a missing `consolidateAfter` is an error with a safe fix.
        let mut settings = Settings::default();
        settings.platform.state(Product::Karpenter, Version::new(1, 14));
        let engine = Engine::new(settings);
        let file = File::read(Source::from_text(path, text));
        let mut cluster = Cluster::new(false);
        file.objects.iter().for_each(|object| cluster.apply(object.clone()));
        let report = engine.check_file(&file, &cluster);
        Checked { file, report, engine, cluster, positions: Positions::of_file(text), encoding }
    }

    fn view(&self) -> View<'_> {
        let sets = vec![SetView { name: None, cluster: &self.cluster }];
        View { file: &self.file, report: &self.report, engine: &self.engine, sets }
    }

    fn uri(&self) -> Uri {
        "file:///pools.yaml".parse().unwrap()
    }

    pub(crate) fn locate(&self, place: &Location) -> Option<lsp_types::Location> {
        let (source, _, span) = place.resolve_span()?;
        let range = self.positions.range(source.text(), span, self.encoding);
        Some(lsp_types::Location { uri: self.uri(), range })
    }

    fn actions(&self, range: Span, context: &CodeActionContext, can: Capabilities) -> Vec<CodeAction> {
        let uri = self.uri();
        let text = self.file.source.text();
        let request = Request { uri: &uri, version: Some(3), range, context };
        let shown = Shown {
            can,
            locate: &|place| self.locate(place),
            range: &|span| self.positions.range(text, span, self.encoding),
        };
        let all = of_range(&self.view(), &request, &shown);
        all.into_iter()
            .map(|action| match action {
                CodeActionOrCommand::CodeAction(action) => action,
                CodeActionOrCommand::Command(command) => panic!("{command:?}"),
            })
            .collect()
    }

    /// The text after a client has applied an edit.
    fn edited(&self, edit: &WorkspaceEdit) -> String {
        let edits = match (&edit.changes, &edit.document_changes) {
            (Some(changes), None) => changes.values().flatten().cloned().collect::<Vec<_>>(),
            (None, Some(DocumentChanges::Edits(all))) => {
                let [one] = all.as_slice() else { panic!("{all:?}") };
                assert_eq!(one.text_document.version, Some(3));
                let plain = |edit: &OneOf<TextEdit, _>| match edit {
                    OneOf::Left(edit) => edit.clone(),
                    OneOf::Right(_) => panic!("annotated"),
                };
                one.edits.iter().map(plain).collect()
            }
            other => panic!("{other:?}"),
        };
        // An editor does not send the byte order mark.
        let text = self.file.source.text();
        let shown = text.trim_start_matches('\u{FEFF}');
        let mark = &text[..text.len() - shown.len()];
        let mut buffer = Buffer::new(3, shown.to_owned());
        // All edits refer to the same text.
        let change = |edit: TextEdit| TextDocumentContentChangeEvent {
            range: Some(edit.range),
            range_length: None,
            text: edit.new_text,
        };
        buffer.apply(edits.into_iter().rev().map(change).collect(), self.encoding);
        mark.to_owned() + &buffer.text
    }
}

fn context(only: Option<&[CodeActionKind]>) -> CodeActionContext {
    CodeActionContext { only: only.map(<[_]>::to_vec), ..CodeActionContext::default() }
}

fn titles(actions: &[CodeAction]) -> Vec<&str> {
    actions.iter().map(|action| action.title.as_str()).collect()
}

/// Checks every fixture as it is, or with other line ends and wide characters, in alternating encodings; with `FULL` in both ways.
fn each_fixture(check: impl Fn(&str, &Checked) + Sync) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let files = sampled(yaml_below(&root));
    assert!(files.len() > 1000, "{}", files.len());
    files.par_iter().enumerate().for_each(|(at, path)| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let wide = format!("# 😀 漢\u{a0}\tä\n{}", text.replace("\r\n", "\n").replace(" #", " # 😀"));
        let encodings = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32];
        let texts = [text, wide.replace('\n', "\r\n")];
        let is_asked = |more: usize| is_full() || lot(path, 2) as usize == more;
        for (more, text) in texts.iter().enumerate().filter(|(more, _)| is_asked(*more)) {
            check(&name, &Checked::new(&name, text, encodings[(at + more) % 3]));
        }
    });
}

fn at(text: &str, of: &str) -> Span {
    let at = text.find(of).unwrap() as u32;
    Span::new(at, at)
}

#[test]
fn a_finding_has_its_actions() {
    let checked = Checked::new("pools.yaml", FIXABLE_POOL, Encoding::Utf16);
    let actions = checked.actions(at(FIXABLE_POOL, "On-Demand"), &context(None), ALL);
    assert_eq!(
        titles(&actions),
        [
            "write `on-demand`",
            "suppress capacity-type-invalid here, with a reason",
            "open the manual on capacity-type-invalid",
        ]
    );
    assert_eq!(actions[0].is_preferred, Some(true));
    assert_eq!(
        checked.edited(actions[0].edit.as_ref().unwrap()),
        FIXABLE_POOL.replace("On-Demand", "on-demand")
    );
    let diagnostics = actions[0].diagnostics.as_ref().unwrap();
    assert_eq!(diagnostics[0].code, Some(NumberOrString::String("capacity-type-invalid".to_owned())));
    let comment = "      # gpulint: allow[capacity-type-invalid] TODO: say why\n";
    let line = "      - {key: karpenter.sh/capacity-type";
    let suppressed = FIXABLE_POOL.replace(line, &format!("{comment}{line}"));
    assert_eq!(checked.edited(actions[1].edit.as_ref().unwrap()), suppressed);
    let command = actions[1].command.as_ref().unwrap();
    let selected = shown_by(&command.command, command.arguments.as_ref().unwrap()).unwrap();
    let positions = Positions::new(&suppressed);
    let span = positions.span(&suppressed, selected.selection.unwrap(), Encoding::Utf16);
    assert_eq!(&suppressed[span.start as usize..span.end as usize], REASON);
    let command = actions[2].command.as_ref().unwrap();
    let page = shown_by(&command.command, command.arguments.as_ref().unwrap()).unwrap();
    assert_eq!(page.uri.as_str(), "https://gpulint.dev/rules/capacity-type-invalid.html");
    assert_eq!(shown_by(OPEN_MANUAL, &[json!("https://example.com/")]), None);
}

#[test]
fn only_what_is_asked_for_is_offered() {
    let checked = Checked::new("pools.yaml", FIXABLE_POOL, Encoding::Utf8);
    let all = Span::new(0, FIXABLE_POOL.len() as u32);
    let of = |kind: CodeActionKind, can| {
        let actions = checked.actions(all, &context(Some(&[kind])), can);
        actions.into_iter().map(|action| action.kind.unwrap().as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of(CodeActionKind::SOURCE, ALL), ["source.fixAll.gpulint"]);
    assert_eq!(of(CodeActionKind::SOURCE_FIX_ALL, ALL), ["source.fixAll.gpulint"]);
    assert_eq!(of(FIX_ALL, ALL), ["source.fixAll.gpulint"]);
    assert_eq!(of(CodeActionKind::new("source.fixAll.eslint"), ALL), [""; 0]);
    assert_eq!(of(CodeActionKind::new("source.fix"), ALL), [""; 0]);
    assert_eq!(of(CodeActionKind::REFACTOR, ALL), [""; 0]);
    assert!(of(CodeActionKind::QUICKFIX, NONE).iter().all(|kind| kind == "quickfix"));
    assert!(of(CodeActionKind::EMPTY, ALL).contains(&"source.fixAll.gpulint".to_owned()));
}

#[test]
fn diagnostics_that_the_client_names_are_chosen() {
    let checked = Checked::new("pools.yaml", FIXABLE_POOL, Encoding::Utf16);
    let all = diagnostics::of_file(&checked.report.findings, &|place| checked.locate(place), ALL);
    let named = all.iter().find(|one| is_rule(one, "capacity-type-invalid")).unwrap().clone();
    let context = CodeActionContext { diagnostics: vec![named.clone()], ..CodeActionContext::default() };
    // The cursor is at another place.
    let actions = checked.actions(Span::new(0, 0), &context, NONE);
    assert_eq!(actions[0].title, "write `on-demand`");
    assert_eq!(actions[0].diagnostics, Some(vec![named]));
}

#[test]
fn all_safe_fixes_are_made_until_none_is_left() {
    let checked = Checked::new("pools.yaml", FIXABLE_POOL, Encoding::Utf16);
    let mut recheck = |text: &str| Some(Checked::new("pools.yaml", text, Encoding::Utf16).report.findings);
    let edits = fix_all(&checked.file.source, &checked.report.findings, &mut recheck);
    let fixed = apply_edits(FIXABLE_POOL, &edits).unwrap();
    assert_eq!(fixed, FIXABLE_POOL.replace("On-Demand", "on-demand") + "    consolidateAfter: 0s\n");
    assert_eq!(edits.len(), 2);
    // Without checking again, only the first fix of an object is applied.
    let first = fix_all(&checked.file.source, &checked.report.findings, &mut |_| None);
    assert_eq!(first.len(), 1);
    let at_once = checked.actions(Span::new(0, 0), &context(Some(&[FIX_ALL])), NONE);
    assert!(at_once[0].edit.is_some() && at_once[0].data.is_none());
}

#[test]
fn several_safe_fixes_are_offered_at_once() {
    let second = FIXABLE_POOL.replace("name: web", "name: api");
    let both = format!("{FIXABLE_POOL}---\n{second}");
    let checked = Checked::new("pools.yaml", &both, Encoding::Utf16);
    let actions = checked.actions(at(&both, "On-Demand"), &context(None), ALL);
    assert_eq!(titles(&actions)[..2], ["write `on-demand`", "make all safe fixes in this file"]);
    assert_eq!(unresolved(&actions[1]), Some(checked.uri()));
    let actions = checked.actions(at(&both, "On-Demand"), &context(None), NONE);
    assert_eq!(checked.edited(actions[1].edit.as_ref().unwrap()), both.replace("On-Demand", "on-demand"));
}

#[test]
fn an_old_pool_is_converted() {
    let text = "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: web}
spec:
  template:
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: web}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  disruption: {consolidationPolicy: WhenUnderutilized}
";
    let checked = Checked::new("pools.yaml", text, Encoding::Utf16);
    let rewrite = context(Some(&[CodeActionKind::REFACTOR]));
    let actions = checked.actions(at(text, "amd64"), &rewrite, ALL);
    assert_eq!(titles(&actions), ["convert NodePool web to karpenter.sh/v1"]);
    let edited = checked.edited(actions[0].edit.as_ref().unwrap());
    assert!(edited.contains("apiVersion: karpenter.sh/v1\n"), "{edited}");
    assert!(edited.contains("WhenEmptyOrUnderutilized"), "{edited}");
    let current = Checked::new("pools.yaml", FIXABLE_POOL, Encoding::Utf16);
    assert_eq!(current.actions(at(FIXABLE_POOL, "limits"), &rewrite, ALL), []);
}

#[test]
fn what_cannot_be_done_says_why() {
    let text = "{\"apiVersion\": \"karpenter.sh/v1alpha5\", \"kind\": \"Machine\", \"metadata\": {\"name\": \"a\"}}\n";
    let checked = Checked::new("pools.json", text, Encoding::Utf16);
    let actions = checked.actions(at(text, "karpenter.sh"), &context(None), ALL);
    let disabled: Vec<(&str, Option<&str>)> = actions
        .iter()
        .map(|action| (action.title.as_str(), action.disabled.as_ref().map(|no| no.reason.as_str())))
        .collect();
    assert_eq!(
        disabled,
        [
            (
                "suppress karpenter-legacy-api here, with a reason",
                Some("JSON has no comments: set the annotation `gpulint.dev/allow`, or use a baseline")
            ),
            ("open the manual on karpenter-legacy-api", None),
            (
                "convert Machine a to karpenter.sh/v1",
                Some("remove it: Karpenter makes its NodeClaims itself")
            ),
        ]
    );
    assert_eq!(titles(&checked.actions(at(text, "karpenter.sh"), &context(None), NONE)), [""; 0]);
}

/// Limits the time of all actions of a file of 500 lines; `ACTIONS_TIME=1` with optimizations asserts it.
#[test]
fn all_actions_of_a_large_file_are_quick() {
    let each = (0..34).map(|number| FIXABLE_POOL.replace("name: web", &format!("name: web-{number}")));
    let text = each.collect::<Vec<_>>().join("---\n");
    assert!(text.lines().count() > 500);
    let checked = Checked::new("pools.yaml", &text, Encoding::Utf16);
    let all = Span::new(0, text.len() as u32);
    let began = std::time::Instant::now();
    let actions = checked.actions(all, &context(None), ALL);
    let took = began.elapsed();
    assert!(actions.iter().filter(|action| action.edit.is_some()).count() > 100);
    if std::env::var_os("ACTIONS_TIME").is_some() {
        assert!(took.as_millis() < 10, "{took:?}");
    }
    assert!(took.as_secs() < 5, "{took:?}");
}

/// Diagnostics and actions of the fixtures correspond to the report and the fixes of the engine.
#[test]
fn fixtures_are_what_the_engine_has() {
    let counts: [AtomicUsize; 3] = Default::default();
    each_fixture(|name, checked| {
        for (count, new) in counts.iter().zip([
            check_places(name, checked),
            check_fixes(name, checked),
            check_suppression(name, checked),
        ]) {
            count.fetch_add(new, Ordering::Relaxed);
        }
    });
    let [places, fixes, suppressions] = counts.map(AtomicUsize::into_inner);
    assert!(places > 1000 && fixes > 300 && suppressions > 200, "{places}, {fixes}, {suppressions}");
}

fn check_fixes(name: &str, checked: &Checked) -> usize {
    let mut fixed = 0;
    for finding in &checked.report.findings {
        let Some(repair) = applicable_repair(finding, Safety::Unsafe) else { continue };
        let (_, _, span) = finding.location.resolve_span().unwrap();
        let actions = checked.actions(span, &context(Some(&[CodeActionKind::QUICKFIX])), ALL);
        let title = finding.fix.as_ref().unwrap().title_with_effect();
        let own: Vec<&CodeAction> = actions.iter().filter(|action| action.title == title).collect();
        match repair {
            Ok(repair) => {
                let text = apply_edits(checked.file.source.text(), &repair.edits).unwrap();
                let is_it = |action: &&CodeAction| {
                    action.edit.as_ref().is_some_and(|edit| checked.edited(edit) == text)
                };
                assert!(own.iter().any(is_it), "{name}: {}: {actions:#?}", finding.rule.id);
                fixed += 1;
            }
            Err(error) => {
                let reason = error.to_string();
                let is_it =
                    |action: &&CodeAction| action.disabled.as_ref().is_some_and(|no| no.reason == reason);
                assert!(own.iter().any(is_it), "{name}: {}: {actions:#?}", finding.rule.id);
            }
        }
    }
    fixed
}

/// Asserts that an inserted suppression removes its finding.
fn check_suppression(name: &str, checked: &Checked) -> usize {
    let Some(finding) = checked.report.findings.first() else { return 0 };
    let (_, _, span) = finding.location.resolve_span().unwrap();
    let title = format!("suppress {} here, with a reason", finding.rule.id);
    let actions = checked.actions(span, &context(None), NONE);
    let Some(action) = actions.into_iter().find(|action| action.title == title) else { return 0 };
    let text = checked.edited(action.edit.as_ref().unwrap());
    let after = Checked::new(name, &text, checked.encoding).report;
    assert!(after.suppressed > checked.report.suppressed, "{name}: {title}\n{text}");
    1
}

/// Asserts that the locations are those of the JSON report, whose columns are characters.
fn check_places(name: &str, checked: &Checked) -> usize {
    let findings = &checked.report.findings;
    let all = diagnostics::of_file(findings, &|place| checked.locate(place), ALL);
    assert_eq!(findings.len(), all.len());
    for (finding, one) in findings.iter().zip(&all) {
        let (source, _, span) = finding.location.resolve_span().unwrap();
        let text = source.text();
        for (offset, position) in [(span.start, one.range.start), (span.end, one.range.end)] {
            let said = source.lines().position(text, offset);
            let start = source.lines().start_of(said.line as usize - 1, text) as usize;
            // A line break belongs to the line that it ends.
            let before = text[start..offset as usize].trim_end_matches('\r');
            let units = match checked.encoding {
                Encoding::Utf8 => before.len(),
                Encoding::Utf16 => before.encode_utf16().count(),
                Encoding::Utf32 => said.column as usize - 1,
            };
            let expected = Position { line: said.line - 1, character: units as u32 };
            assert_eq!(position, expected, "{name}: {finding:#?}");
        }
    }
    all.len()
}
