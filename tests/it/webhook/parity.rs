//! For fixtures of all kinds that rules check, the server reports the same findings as
//! `gpulint check --complete`. Decisions differ in two points: findings that the API server rejects the
//! object do not deny, and findings that report an absence are left out, because the absent object may be
//! applied next. Files that show the version of a product are left out: a review goes by the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use gpulint_rules::source::{Source, read};
use gpulint_rules::{Cluster, Engine, Finding, Object, Pointer, Settings, Severity};
use gpulint_webhook::kinds;
use serde_json::{Value, json};

use crate::cluster::server::Authority;
use crate::webhook::client::{Client, Connection, metric};
use crate::webhook::fake::Fake;
use crate::webhook::server::{Folder, Server};
use gpulint_testing::{is_full, yaml_below};

/// Rules about the text of a file, which a review does not have, or with one finding per file.
const OF_TEXT: [&str; 9] = [
    "duplicate-object",
    "exported-object",
    "manifest-incomplete",
    "node-port-claimed-twice",
    "placeholder-unexpanded",
    "yaml-duplicate-key",
    "yaml-limit-exceeded",
    "yaml-syntax",
    "yaml-text-after-end",
];

/// Interval at which fixtures are compared over the wire, half of it with `FULL`; `fixtures.rs` compares without it. A process and a
/// change of the cluster for each of 4,000 files took a quarter of an hour.
const SAMPLE: usize = 24;

/// A finding in the form that both sides share: field and message of a denial, the truncated text of a
/// warning.
type Said = Vec<String>;

/// An object of a file, with its findings on the command line.
struct Case {
    file: String,
    value: Value,
    denied: Said,
    warned: Said,
}

/// The objects of a file with the findings of `check --complete` under a configuration.
fn cases(root: &Path, path: &Path, config: &Path) -> Vec<Case> {
    let file = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    let bytes = std::fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    // Objects that a kustomization patches are incomplete in their file.
    let folder = path.parent().unwrap();
    if ["kustomization.yaml", "kustomization.yml"].iter().any(|name| folder.join(name).exists()) {
        return Vec::new();
    }
    // Comments suppress, say that an object is a patch or the output of a chart, and state a decision in files only, as files alone are
    // copies of others'. What an alias repeats is reported once there, and so is what the pods of a group have in common.
    let is_of_text = ["-comment", "-copy", "-alias", "-once-a-group"].iter().any(|part| file.contains(part));
    if text.contains("# gpulint: allow")
        || text.starts_with("# A patch")
        || text.contains("# Source: ")
        || is_of_text
    {
        return Vec::new();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_gpulint"))
        .current_dir(root)
        .args([
            "check",
            "--complete",
            "--allow-empty",
            "--no-context",
            "--quiet",
            "--format",
            "json",
            "--threads",
            "1",
            "--config",
            config.to_str().unwrap(),
            &file,
        ])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let has = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    if has(&report["summary"]["skipped"]) || has(&report["versions"]) {
        return Vec::new();
    }
    let source = Arc::new(Source::new(&file, bytes));
    let documents = read(&source);
    assert!(OF_TEXT.iter().all(|id| gpulint_rules::find_rule(id).is_some()), "each of OF_TEXT is a rule");
    // Documents that do not parse are not objects, and a cluster cannot contain an object twice.
    let broken = report["diagnostics"].as_array().unwrap().iter().any(|d| {
        let rule = d["rule"].as_str().unwrap();
        OF_TEXT.contains(&rule)
    });
    if broken {
        return Vec::new();
    }
    let objects = documents.iter().flat_map(|document| {
        let objects = Object::from_document(&source, document, false);
        objects.into_iter().map(|object| (document.number, object))
    });
    let objects: Vec<(u32, Object)> = objects.collect();
    // The server does not watch Secrets, and no objects of Cluster API and of the first API of Karpenter.
    let is_unwatched = |object: &Object| {
        let api = object.root().get("apiVersion").text().is_some_and(|api| {
            ["cluster.x-k8s.io/", "karpenter.sh/v1alpha5"].iter().any(|one| api.contains(one))
        });
        api || object.id().kind == "Secret"
    };
    if objects.iter().any(|(_, object)| is_unwatched(object)) {
        return Vec::new();
    }
    let engine = Engine::new(Settings { complete: true, ..Settings::default() });
    let mut cluster = Cluster::new(true);
    // As an API server has them, without files.
    let mut stored = Cluster::new(true);
    for (_, object) in &objects {
        cluster.apply(object.clone());
        Object::from_json(&object.root().to_json()).into_iter().for_each(|object| stored.apply(object));
    }
    objects
        .into_iter()
        // A review has whole objects.
        .filter(|(_, object)| !object.is_partial() && !object.is_incomplete())
        .map(|(number, object)| {
            // The report does not contain the component that rejects an object, and whether a finding reports
            // an absence.
            let judged = engine.review_object(&object, &cluster).findings;
            let causes = |of: &dyn Fn(&Finding) -> bool| -> BTreeSet<String> {
                judged.iter().filter(|f| of(f)).map(cause).collect()
            };
            let taken = causes(&|f| {
                f.rejected_by == Some(gpulint_rules::Authority::ApiServer)
                    && f.otherwise_rejected_by.is_none()
            });
            let absent = causes(&|f| f.reports_absence);
            // The report has names whole, a review shortens long ones.
            let shown: BTreeMap<String, &str> =
                judged.iter().map(|f| (whole_cause(f), f.message.as_ref())).collect();
            let id = object.id();
            let of = |d: &&Value| {
                d["document"] == number
                    && d["object"]["kind"] == *id.kind
                    && d["object"]["name"] == *id.name
                    && d["object"]["apiVersion"] == *id.api_version()
            };
            let review = |object: Object| engine.review_object(&object, &stored).findings;
            let reviewed = Object::from_json(&object.root().to_json()).map(review).unwrap_or_default();
            // The text of a file may show what stored objects do not: that the cluster is one of EKS.
            let unsure: BTreeSet<String> =
                reviewed.iter().filter(|f| f.severity == Severity::Info).map(cause).collect();
            let found = report["diagnostics"].as_array().unwrap().iter().filter(of);
            let (mut denied, mut warned) = (Vec::new(), Vec::new());
            for finding in found {
                let (rule, message) =
                    (finding["rule"].as_str().unwrap(), finding["message"].as_str().unwrap());
                let written = format!("{}: gpulint {rule}: {message}", field(&finding["pointer"]));
                let message = shown.get(&written).unwrap_or(&message);
                let message = format!("gpulint {rule}: {message}");
                let cause = format!("{}: {message}", field(&finding["pointer"]));
                match finding["severity"].as_str().unwrap() {
                    _ if absent.contains(&cause) => {}
                    "warning" if unsure.contains(&cause) => {}
                    "error" => {
                        if taken.contains(&cause) {
                            warned.push(cut(&message));
                        } else {
                            denied.push(cause);
                        }
                    }
                    "warning" => warned.push(cut(&message)),
                    _ => {}
                }
            }
            // The findings that the report has at the other object.
            for finding in reviewed.iter().filter(|f| f.from_partner && !f.reports_absence) {
                match finding.severity {
                    Severity::Error => denied.push(cause(finding)),
                    Severity::Warning => {
                        warned.push(cut(&format!("gpulint {}: {}", finding.rule.id, finding.message)));
                    }
                    Severity::Info => {}
                }
            }
            denied.sort();
            warned.sort();
            Case { file: file.clone(), value: object.root().to_json(), denied, warned }
        })
        .collect()
}

/// A finding as a cause of a denial.
fn cause(finding: &Finding) -> String {
    cause_of(finding, &finding.message)
}

/// The same with names whole, as in the report.
fn whole_cause(finding: &Finding) -> String {
    cause_of(finding, finding.whole_message())
}

fn cause_of(finding: &Finding, message: &str) -> String {
    let field = finding.location.pointer().map(Pointer::field_path).unwrap_or_default();
    format!("{}: gpulint {}: {message}", whole(field), finding.rule.id)
}

fn field(pointer: &Value) -> String {
    let text = pointer.as_str().unwrap_or_default();
    let steps = text.split('/').skip(1);
    whole(Pointer::from_steps(steps.map(|s| s.replace("~1", "/").replace("~0", "~"))).field_path())
}

/// The field of a cause about the whole object.
fn whole(field: String) -> String {
    if field.is_empty() { "metadata.name".to_owned() } else { field }
}

/// Truncates a message in the same way as warnings.
fn cut(message: &str) -> String {
    message.chars().take(119).collect()
}

fn is_judged(value: &Value) -> bool {
    let version = value["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = value["kind"].as_str().unwrap_or_default();
    let going = !value["metadata"]["deletionTimestamp"].is_null();
    kinds::is_checked(group, kind) && !going
}

/// Whether it has valid metadata with a name that an API server stores, and no controller that makes it: the server does not keep all
/// of those.
fn is_storable(value: &Value) -> bool {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let read = serde_json::from_value::<kube::api::DynamicObject>(value.clone());
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | ':');
    let owners = value["metadata"]["ownerReferences"].as_array();
    let is_made = owners.into_iter().flatten().any(|owner| owner["controller"] == true);
    !name.is_empty() && name.chars().all(is_name) && read.is_ok() && !is_made
}

async fn ask(connection: &mut Connection, value: &Value) -> (Said, Said, bool) {
    // Owners count only in requests of operators.
    let owned = !value["metadata"]["ownerReferences"].is_null();
    let user = if owned { "system:serviceaccount:keda:keda-operator" } else { "somebody" };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "object": value, "userInfo": {"username": user}}});
    let answer = connection.post("/validate?timeout=30s", review.to_string()).await.unwrap();
    assert_eq!(answer.code, 200);
    let response = answer.json()["response"].take();
    let strings = |value: &Value, of: &dyn Fn(&Value) -> String| -> Said {
        let mut out: Said = value.as_array().into_iter().flatten().map(of).collect();
        out.sort();
        out
    };
    let causes = response["status"]["details"]["causes"].as_array().cloned().unwrap_or_default();
    let findings = causes.into_iter().filter(|cause| cause["reason"] == "FieldValueInvalid");
    let denied = strings(&findings.collect(), &|cause| {
        format!("{}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
    });
    let warned = strings(&response["warnings"], &|w| cut(w.as_str().unwrap()));
    assert_eq!(response["allowed"], denied.is_empty());
    let counted = warned.iter().any(|w| w.ends_with(" more findings"));
    (denied, warned, counted)
}

/// Whether the causes are the findings: a cause consists of message and help.
fn same(causes: &Said, findings: &Said) -> bool {
    causes.len() == findings.len()
        && causes.iter().zip(findings).all(|(cause, finding)| {
            cause.strip_prefix(finding.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("; "))
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wire_says_what_the_command_line_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let every = if is_full() { SAMPLE / 2 } else { SAMPLE };
    let files = yaml_below(&root.join("fixtures")).into_iter().step_by(every);
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    // No namespace is exempt, as on the command line.
    let config = folder.write("gpulint.yaml", "webhook: {exempt-namespaces: []}\n");
    let kubeconfig = fake.kubeconfig(&folder);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--namespace", "nowhere"];
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let mut connection = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let (mut compared, mut kinds, mut wrong) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    let mut denials = 0;
    let mut holds = false;
    for path in files {
        let cases = cases(root, &path, &config);
        let context: Vec<Value> = match &cases[..] {
            [_] => Vec::new(),
            // A cluster cannot contain these objects.
            several if !several.iter().all(|case| is_storable(&case.value)) => continue,
            several => several.iter().map(|case| case.value.clone()).collect(),
        };
        if holds || !context.is_empty() {
            fake.hold(&[]);
            settle(&server, &[]).await;
            fake.hold(&context);
            settle(&server, &context).await;
            holds = !context.is_empty();
        }
        for case in cases.iter().filter(|case| is_judged(&case.value)) {
            let (denied, warned, counted) = ask(&mut connection, &case.value).await;
            let warnings = counted || warned == case.warned;
            if !same(&denied, &case.denied) || !warnings {
                wrong.push(format!(
                    "{} {}:\n  wire    {denied:?} {warned:?}\n  command {:?} {:?}",
                    case.file, case.value["kind"], case.denied, case.warned
                ));
            }
            compared += 1;
            denials += usize::from(!case.denied.is_empty());
            *kinds.entry(case.value["kind"].to_string()).or_default() += 1;
        }
    }
    println!("compared {compared} objects, {denials} of them denied: {kinds:?}");
    assert!(denials >= 15, "{denials}");
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    for kind in ["NodePool", "EC2NodeClass", "ScaledObject", "Deployment"] {
        assert!(kinds.get(&format!("\"{kind}\"")).is_some_and(|n| *n >= 5), "{kind}: {kinds:?}");
    }
}

/// Waits until the cache of the server contains these objects.
async fn settle(server: &Server, objects: &[Value]) {
    let mut expected: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for kind in kinds::watched() {
        expected.entry((kind.group, kind.kind)).or_default();
    }
    for object in objects {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = object["kind"].as_str().unwrap_or_default();
        let metadata = &object["metadata"];
        // No fixture is an object that a controller has made, which has a controller and a namespace.
        let has_controller = metadata["ownerReferences"].to_string().contains(r#""controller":true"#);
        assert!(!has_controller || metadata["namespace"].is_null(), "{object}");
        if let Some(names) = expected.get_mut(&(group, kind)) {
            names.insert(format!("{}/{}", metadata["namespace"], metadata["name"]));
        }
    }
    server
        .until(&format!("the cache holds {objects:?}"), async || {
            let metrics = server.metrics().await;
            expected.iter().all(|((group, kind), names)| {
                let line = format!(r#"gpulint_cache_objects{{group="{group}",kind="{kind}"}}"#);
                metric(&metrics, &line) as usize == names.len()
            })
        })
        .await;
}
