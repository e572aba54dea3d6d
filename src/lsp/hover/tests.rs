use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Cluster, Engine, File, Settings};

use super::at;
use crate::lsp::view::{SetView, View};

const CURSOR: char = '§';

/// The text of a file without its cursors, and their offsets.
pub(crate) struct Marked {
    pub(crate) file: File,
    pub(crate) cursors: Vec<u32>,
}

impl Marked {
    pub(crate) fn read(path: &str, text: &str) -> Marked {
        let mut plain = String::new();
        let mut cursors = Vec::new();
        for c in text.chars() {
            match c {
                CURSOR => cursors.push(u32::try_from(plain.len()).expect("it is short")),
                c => plain.push(c),
            }
        }
        Marked { file: File::read(Source::from_text(path, &plain)), cursors }
    }
}

/// The settings of the tests. They have a time zone, so that times are shown in it as well.
pub(crate) fn engine() -> Engine {
    let mut settings = Settings::default();
    settings.platform.timezone = Some("Asia/Seoul".to_owned());
    Engine::new(settings)
}

/// Calls a function with a view of the first of some files. `sets` has the name and the files of each set.
pub(crate) fn with_view<T>(
    files: &[Marked],
    sets: &[(Option<&str>, &[usize])],
    with_findings: bool,
    look: impl FnOnce(&View<'_>) -> T,
) -> T {
    let engine = engine();
    let clusters: Vec<(Option<&str>, Cluster)> = sets
        .iter()
        .map(|(name, members)| {
            let mut cluster = Cluster::new(false);
            for object in members.iter().flat_map(|member| &files[*member].file.objects) {
                cluster.apply(object.clone());
            }
            (*name, cluster)
        })
        .collect();
    let report = match with_findings {
        true => engine.check_file(&files[0].file, &clusters[0].1),
        false => CheckReport::default(),
    };
    let sets = clusters.iter().map(|(name, cluster)| SetView { name: *name, cluster }).collect();
    look(&View { file: &files[0].file, report: &report, engine: &engine, sets })
}

/// The text at each cursor of one file, without findings.
fn values(text: &str) -> Vec<(u32, Option<String>)> {
    let files = [Marked::read("a.yaml", text)];
    let cursors = files[0].cursors.iter();
    with_view(&files, &[(None, &[0])], false, |view| {
        cursors.map(|cursor| (*cursor, at(view, *cursor).map(|hover| hover.markdown))).collect()
    })
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lsp/hover/cases")
}

#[test]
fn what_is_said_of_each_place() {
    let text = fs::read_to_string(cases().join("cluster.yaml")).expect("the case is there");
    let plain = text.replace(CURSOR, "");
    let mut out = String::new();
    for (cursor, markdown) in values(&text) {
        let cursor = cursor as usize;
        let number = plain[..cursor].matches('\n').count();
        let line = plain.lines().nth(number).unwrap_or_default().trim();
        let word = plain[cursor..].split([' ', ',', '}', ']', '\n']).next().unwrap_or_default();
        let markdown = markdown.unwrap_or_else(|| "NOTHING".to_owned());
        let _ = write!(out, "# {word} in {line}\n\n{markdown}\n\n");
    }
    let path = cases().join("cluster.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &out).expect("it can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(out == expected, "UPDATE=1 writes {}; now it is:\n{out}", path.display());
}

#[test]
fn nothing_is_said_of_what_is_not_known() {
    let text = fs::read_to_string(cases().join("silent.yaml")).expect("the case is there");
    let plain = text.replace(CURSOR, "");
    for (cursor, markdown) in values(&text) {
        let here = plain[cursor as usize..].lines().next().unwrap_or_default();
        assert_eq!(markdown, None, "{here}");
    }
}

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: llm}
spec:
  maxUnavailable: 0
  selector: {matchLabels: {app: llm}}
";

const WORKLOAD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: §llm, labels: {app: llm}}
spec:
  nodeSelector: {team: ml}
  containers: [{name: main, image: example.com/main:1.0, resources: {requests: {cpu: 2}}}]
";

fn pool(name: &str, team: &str) -> String {
    format!(
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  template:
    metadata: {{labels: {{team: §{team}}}}}
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large, m7i.xlarge]}}
        - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
"
    )
}

/// The text at the first cursor of the first file.
fn first(texts: &[&str], sets: &[(Option<&str>, &[usize])]) -> Option<String> {
    let files: Vec<Marked> =
        texts.iter().enumerate().map(|(at, text)| Marked::read(&format!("{at}.yaml"), text)).collect();
    with_view(&files, sets, false, |view| at(view, files[0].cursors[0]).map(|hover| hover.markdown))
}

#[test]
fn sets_are_named_only_where_they_differ() {
    let (one, two) = (pool("blue", "ml"), pool("green", "ml"));
    let texts = [WORKLOAD, &one, &two];
    let alike = first(&texts, &[(Some("eu"), &[0, 1]), (Some("us"), &[0, 1])]).expect("it fits");
    assert!(alike.starts_with("**Pod `llm`** goes to NodePool `blue`."), "{alike}");
    let apart = first(&texts, &[(Some("eu"), &[0, 1]), (Some("us"), &[0, 2]), (Some("ap"), &[0, 1])]);
    let apart = apart.expect("it fits");
    assert!(apart.starts_with("In `eu`, `ap`:\n\n**Pod `llm`** goes to NodePool `blue`."), "{apart}");
    assert!(apart.contains("\n\n---\n\nIn `us`:\n\n**Pod `llm`** goes to NodePool `green`."), "{apart}");
    let some = first(&texts, &[(Some("eu"), &[0, 1]), (Some("us"), &[0])]).expect("it fits");
    assert!(some.starts_with("In `eu`:\n\n**Pod `llm`** goes"), "{some}");
    assert_eq!(first(&texts, &[(None, &[0])]), None, "no NodePool");
}

#[test]
fn a_label_of_ones_own_has_the_workloads_that_select_it() {
    let text = pool("blue", "ml");
    let found = first(&[&text, WORKLOAD], &[(None, &[0, 1])]);
    assert_eq!(found.as_deref(), Some("1 workload selects the NodePool by this label: `pod/llm`"));
    assert_eq!(first(&[&text], &[(None, &[0])]), None, "nobody selects it");
}

#[test]
fn a_finding_brings_the_manual() {
    let files = [Marked::read("0.yaml", &BUDGET.replace("maxUnavailable: 0", "maxUnavailable: §0"))];
    let cursor = files[0].cursors[0];
    let found = with_view(&files, &[(None, &[0])], true, |view| {
        let finding = view.report.findings.first().expect("a budget that allows nothing");
        let (_, _, span) = finding.location.resolve_span().expect("it is in the file");
        (at(view, span.start), at(view, span.end), span)
    });
    let (Some(hover), None, span) = found else {
        panic!("{found:?}");
    };
    assert!(span.start <= cursor && hover.span == span);
    let text = hover.markdown;
    assert!(text.starts_with("**"), "{text}");
    assert!(text.contains("(https://gpulint.dev/rules/pdb-blocks-evictions.html)"), "{text}");
    assert!(text.contains("\n\n**Fix:** "), "{text}");
}
