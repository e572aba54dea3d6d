//! Suppressions: the findings that comments and annotations suppress, and the findings about suppressions.

use std::sync::Arc;

use gpulint_rules::facts::date::Date;
use gpulint_rules::lint::settings::RuleSettings;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Cluster, Engine, File, Location, Object, Settings};
use gpulint_testing::check;

fn run_with(settings: Settings, text: &str) -> (Vec<String>, usize) {
    let checked = check(&Engine::new(settings), [Source::from_text("a.yaml", text)]);
    // Most texts here have no reasons. Other tests cover missing reasons.
    let reasons = checked.findings.iter().filter(|f| f.rule.id != "suppression-without-reason");
    let lines = reasons.map(|f| {
        let (source, _, span) = f.location.resolve_span().expect("a place");
        let at = source.lines().position(source.text(), span.start);
        let word = &source.text()[span.start as usize..span.end as usize];
        let message = match f.rule.group.name() {
            "suppression" => format!(" {}", f.message),
            _ => String::new(),
        };
        assert!(f.message.len() <= 120, "{}", f.message);
        assert!(f.help.as_ref().is_none_or(|h| h.len() <= 120));
        format!("{}:{} {} {word}{message}", at.line, at.column, f.rule.id)
    });
    (lines.collect(), checked.suppressed)
}

fn today(text: &str) -> Settings {
    Settings { today: Date::parse(text), ..Settings::default() }
}

fn run(text: &str) -> (Vec<String>, usize) {
    run_with(today("2026-01-01"), text)
}

fn map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{data}")
}

const NONE: &[&str] = &[];

#[test]
fn a_comment_covers_its_line_or_the_next() {
    for data in [
        "  a: x\n  a: z # gpulint: allow[yaml-duplicate-key] why\n",
        "  a: x\n  # gpulint: allow[yaml-duplicate-key] why\n  a: z\n",
        "  a: x\r\n  # gpulint: allow[yaml-duplicate-key]\r\n  a: z\r\n",
        "  a: ü # ö\n  # gpulint: allow[yaml-duplicate-key] für später\n  a: z\n",
        "  a: x\n# gpulint: allow[yaml-duplicate-key] until=2026-01-01 the day itself counts\n  a: z\n",
    ] {
        let (findings, suppressed) = run(&map(data));
        assert_eq!(findings, NONE, "{data}");
        assert_eq!(suppressed, 1, "{data}");
    }
}

/// A reason may be longer than a line.
#[test]
fn a_reason_goes_on_in_the_next_lines() {
    for data in [
        "  a: x\n  # gpulint: allow[yaml-duplicate-key] why\n  # it is so\n  a: z\n",
        "  a: x\r\n  # gpulint: allow[yaml-duplicate-key]\r\n#\r\n\t# it is so\r\n  a: z\r\n",
        "  a: &b x\n  # gpulint: allow[yaml-duplicate-key] why\n  # it is so\n  a: *b\n",
        "  a: x\n  # gpulint: allow[yaml-duplicate-key] why\n  # it is\n  # gpulint: allow[yaml-syntax-none]\n  # so\n  a: z\n",
    ] {
        let (findings, suppressed) = run(&map(data));
        assert!(findings.iter().all(|f| f.contains("yaml-syntax-none")), "{data} {findings:?}");
        assert_eq!(suppressed, 1, "{data}");
    }
    let below = "  a: x\n  # gpulint: allow[yaml-duplicate-key]\n  # it is so\n  a: z\n";
    let source = Source::from_text("a.yaml", map(below).as_str());
    let checked = check(&Engine::new(today("2026-01-01")), [source]);
    assert!(checked.findings.is_empty(), "the second line is the reason: {:?}", checked.findings);
    // A date in the wrong place is an error, because it would be ignored otherwise.
    let (findings, suppressed) =
        run(&map("  a: x\n  # gpulint: allow[yaml-duplicate-key] why\n  # until=2027-01-31 so\n  a: z\n"));
    assert_eq!((findings.len(), suppressed), (2, 0), "{findings:?}");
    let expected = "7:5 suppression-invalid until=2027-01-31 `until=` belongs directly after the `]`";
    assert!(findings.iter().any(|f| f == expected), "{findings:?}");
    // The comment does not continue below a line with code, or after a line without a comment.
    for data in [
        "  a: x # gpulint: allow[yaml-duplicate-key]\n  # why\n  a: z\n",
        "  a: x\n  # gpulint: allow[yaml-duplicate-key] why\n\n  # so\n  a: z\n",
    ] {
        assert_eq!(run(&map(data)).1, 0, "{data}");
    }
}

#[test]
fn a_comment_covers_no_other_line() {
    for data in [
        "  # gpulint: allow[yaml-duplicate-key]\n  a: x\n  a: z\n",
        "  a: x # gpulint: allow[yaml-duplicate-key]\n  a: z\n",
        "  a: x\n  # gpulint: allow[yaml-duplicate-key]\n\n  a: z\n",
    ] {
        let (findings, suppressed) = run(&map(data));
        assert_eq!(suppressed, 0, "{data}");
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings.iter().any(|f| f.ends_with(
                "suppression-unused yaml-duplicate-key suppression of `yaml-duplicate-key` suppresses nothing"
            )),
            "{findings:?}"
        );
    }
}

#[test]
fn stacked_comments_cover_the_same_line() {
    let (findings, suppressed) = run(&map(
        "  a: x\n  # gpulint: allow[yaml-duplicate-key]\n  # gpulint: allow[yaml-syntax]\n  a: z\n",
    ));
    assert_eq!(suppressed, 1);
    assert_eq!(
        findings,
        ["7:20 suppression-unused yaml-syntax suppression of `yaml-syntax` suppresses nothing"]
    );
}

#[test]
fn what_has_ended_covers_nothing() {
    let text = map("  a: x\n  a: z # gpulint: allow[yaml-duplicate-key, yaml-syntax] until=2025-12-31 why\n");
    let (findings, suppressed) = run(&text);
    assert_eq!(suppressed, 0);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert_eq!(findings[1], "6:64 suppression-expired 2025-12-31 suppression ended on 2025-12-31");
    let (findings, suppressed) = run_with(Settings::default(), &text);
    assert_eq!(suppressed, 1, "without a date nothing ends");
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn what_cannot_be_understood_is_said() {
    for (comment, expected) in [
        (
            "allow[yaml-duplicate-keys]",
            "6:25 suppression-invalid yaml-duplicate-keys unknown rule `yaml-duplicate-keys`",
        ),
        ("allow[all]", "6:25 suppression-invalid all `all` is not a rule"),
        ("allow[manifest]", "6:25 suppression-invalid manifest `manifest` is not a rule"),
        (
            "allow[suppression-unused]",
            "6:25 suppression-invalid suppression-unused `suppression-unused` cannot be suppressed",
        ),
        ("allow[]", "6:24 suppression-invalid [] no rule is named"),
        ("allow yaml-syntax", "6:19 suppression-invalid allow missing `[` after `allow`"),
        ("allow[yaml-syntax why", "6:24 suppression-invalid [yaml-syntax why missing `]` after the rules"),
        ("ignore[yaml-syntax]", "6:19 suppression-invalid ignore expected `allow[rule-id]` after `gpulint:`"),
        ("allow[yaml-syntax] until=tomorrow", "6:44 suppression-invalid tomorrow `tomorrow` is not a date"),
    ] {
        let (findings, suppressed) = run(&map(&format!("  a: x\n  b: z # gpulint: {comment}\n")));
        assert_eq!(findings, [expected]);
        assert_eq!(suppressed, 0);
    }
}

#[test]
fn an_unknown_rule_has_a_suggestion_and_the_others_count() {
    let text = map("  a: x\n  a: z # gpulint: allow[yaml-sintax, yaml-duplicate-key]\n");
    let source = Arc::new(Source::from_text("a.yaml", &text));
    let documents = read(&source);
    let file = File { source, documents, objects: Vec::new() };
    let checked = Engine::new(Settings::default()).check_file(&file, &Cluster::new(false));
    assert_eq!(checked.suppressed, 1);
    assert_eq!(checked.findings[0].help.as_deref(), Some("did you mean `yaml-syntax`?"));
}

#[test]
fn nothing_counts_where_suppressions_are_off() {
    let settings = Settings { suppressions: false, ..today("2026-01-01") };
    let (findings, suppressed) =
        run_with(settings, &map("  a: x\n  a: z # gpulint: allow[yaml-duplicate-key, nope]\n"));
    assert_eq!(suppressed, 0);
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn rules_that_did_not_run_are_not_unused() {
    let text = map("  a: x # gpulint: allow[yaml-duplicate-key]\n");
    assert_eq!(run(&text).0.len(), 1);
    let mut settings = today("2026-01-01");
    settings.ignore_rules = vec!["yaml-duplicate-key".to_owned()];
    assert_eq!(run_with(settings, &text).0, NONE);
    let mut settings = today("2026-01-01");
    settings.select = vec!["yaml-syntax".to_owned(), "suppression".to_owned()];
    assert_eq!(run_with(settings, &text).0, NONE);
    let mut settings = today("2026-01-01");
    let off = RuleSettings { enabled: Some(false), ..RuleSettings::default() };
    settings.rules.insert("suppression-unused".to_owned(), off);
    assert_eq!(run_with(settings, &text).0, NONE);
    let (findings, _) = run("a: 1 # gpulint: allow[yaml-duplicate-key]\nb: [\n");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("yaml-syntax"), "{findings:?}");
}

fn pool(annotation: &str) -> String {
    format!(
        "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: a
  annotations:
    gpulint.dev/allow: {annotation}
spec:
  template:
    spec:
      nodeClassRef: {{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: a}}
      requirements: []
"
    )
}

fn only(rules: &[&str]) -> Settings {
    Settings { select: rules.iter().map(|r| (*r).to_owned()).collect(), ..today("2026-01-01") }
}

#[test]
fn an_annotation_covers_its_object() {
    let settings = || only(&["karpenter-legacy-api", "suppression"]);
    let (findings, _) = run_with(settings(), &pool("''"));
    assert_eq!(findings.len(), 2, "{findings:?}");
    let text = pool("\"karpenter-legacy-api until=2027-01-31: soon\"");
    let (findings, suppressed) = run_with(settings(), &text);
    assert_eq!((findings, suppressed), (vec![], 1));
    // The other pool, without the annotation, keeps its finding.
    let twin = format!("{text}---\n{}", pool("\"gpu-pool-untainted: no\""));
    let (findings, suppressed) = run_with(settings(), &twin);
    assert_eq!((findings.len(), suppressed), (1, 1), "{findings:?}");
    let (findings, suppressed) =
        run_with(settings(), &pool("\"karpenter-legacy-api until=2025-01-31: soon; nope; yaml-syntax\""));
    assert_eq!(suppressed, 0);
    let hygiene: Vec<&str> = findings
        .iter()
        .filter(|f| f.contains("suppression-"))
        .map(|f| f.split_whitespace().nth(1).unwrap())
        .collect();
    assert_eq!(hygiene, ["suppression-expired", "suppression-invalid"]);
}

#[test]
fn an_annotation_may_be_forbidden_or_of_another_type() {
    let mut settings = only(&["karpenter-legacy-api", "suppression"]);
    settings.webhook.forbid_suppressions = vec!["karpenter-legacy-api".to_owned()];
    let (findings, suppressed) = run_with(settings, &pool("\"karpenter-legacy-api: soon\""));
    assert_eq!((findings.len(), suppressed), (2, 0), "{findings:?}");
    let (findings, _) = run_with(only(&["suppression"]), &pool("5"));
    assert_eq!(findings.len(), 1);
    assert!(findings[0].ends_with("`gpulint.dev/allow` is not a string"), "{findings:?}");
    let (findings, _) = run_with(only(&["suppression"]), &pool("${ALLOW}"));
    assert_eq!(findings, NONE);
}

#[test]
fn the_annotation_counts_in_a_review_too() {
    let value = serde_json::json!({
        "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool",
        "metadata": {"name": "a", "annotations": {"gpulint.dev/allow": "karpenter-legacy-api: x; nope"}},
        "spec": {"template": {"spec": {"requirements": []}}}
    });
    let object = Object::from_json(&value).unwrap();
    let engine = Engine::new(only(&["karpenter-legacy-api", "suppression"]));
    let checked = engine.review_object(&object, &Cluster::new(false));
    assert_eq!(checked.suppressed, 1);
    assert_eq!(checked.findings.len(), 1);
    assert_eq!(checked.findings[0].rule.id, "suppression-invalid");
    let place: &Location = &checked.findings[0].location;
    assert_eq!(place.pointer().unwrap().to_string(), "/metadata/annotations/gpulint.dev~1allow");
}

#[test]
fn many_findings_and_comments_take_linear_time() {
    let mut text = map("");
    for _ in 0..20_000 {
        text.push_str("  # gpulint: allow[yaml-duplicate-key]\n");
    }
    for _ in 0..20_000 {
        text.push_str("  a: x # gpulint: allow[yaml-duplicate-key]\n");
    }
    let (findings, suppressed) = run(&text);
    assert_eq!(suppressed, 19_999);
    // The fields above the first `a`, and the comment on it.
    assert_eq!(findings.len(), 20_001);
}
