//! The page of `gpulint check --format html`: its structure, the escaping of text, and its behaviour in a
//! browser.
//!
//! The tests with a browser run only if `chromium` is installed, and write screenshots to `target/tmp`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use base64::Engine as _;
use regex::Regex;
use serde_json::Value;

use crate::support::{Folder, run_in};

/// Two pools, one with a week, and workloads of two namespaces.
const POOLS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {nvidia.com/gpu: 8}
  disruption:
    budgets: [{nodes: '0', schedule: '0 9 * * 1-5', duration: 8h}, {nodes: 10%}]
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge, g6.12xlarge]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: ml}
spec:
  replicas: 12
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers: [{name: server, image: 'a:latest', resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: web}
spec:
  containers: [{name: c, image: 'a:1', resources: {limits: {nvidia.com/gpu: 16}}}]
";

/// The page and the JSON report of one run.
fn page_of(folder: &Path, paths: &[&str], out: &Path) -> (String, Value) {
    let (page, json) = (out.join("page.html"), out.join("page.json"));
    let (html, format) = (format!("html={}", page.display()), format!("json={}", json.display()));
    let mut args = vec!["check", "--quiet", "--format", &html, "--format", &format];
    args.extend(paths);
    let run = run_in(folder, &args, "");
    assert!(matches!(run.code, Some(0 | 1)), "{run:?}");
    let json = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    (fs::read_to_string(page).unwrap(), json)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The page without what is inside its style and script.
fn without_assets(page: &str) -> String {
    Regex::new("(?s)(<style>).*?(</style>)|(<script>).*?(</script>)")
        .unwrap()
        .replace_all(page, "$1$2$3$4")
        .into_owned()
}

/// All tags of a page. Asserts that they are nested correctly.
fn tags(page: &str) -> Vec<String> {
    const VOID: [&str; 4] = ["meta", "input", "br", "img"];
    let mut open: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for tag in Regex::new("<[^>]*>").unwrap().find_iter(page).map(|tag| tag.as_str()) {
        let name: String =
            tag.trim_matches(['<', '/']).chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        if tag.starts_with("</") {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "{tag} closes {open:?}");
        } else if !tag.starts_with("<!") && !VOID.contains(&name.as_str()) && !tag.ends_with("/>") {
            open.push(name);
        }
        all.push(tag.to_owned());
    }
    assert!(open.is_empty(), "{open:?}");
    all
}

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest.as_ref())
}

#[test]
fn the_policy_allows_exactly_the_style_and_the_script() {
    for name in ["page.css", "page.js"] {
        let path = root().join("src/report/html").join(name);
        let hash = format!("{}\n", sha256(&fs::read_to_string(&path).unwrap()));
        let known = path.with_file_name(format!("{name}.sha256"));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&known, &hash).unwrap();
        }
        assert_eq!(fs::read_to_string(&known).unwrap(), hash, "run `UPDATE=1 cargo test --test it html`");
    }
    let folder = Folder::new().with("a.yaml", POOLS);
    let (page, _) = page_of(&folder.0, &["."], &folder.0);
    let between = |open: &str, close: &str| {
        let from = page.find(open).unwrap() + open.len();
        &page[from..from + page[from..].find(close).unwrap()]
    };
    let policy = format!(
        "content=\"default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\"",
        sha256(between("<style>", "</style>")),
        sha256(between("<script>", "</script>"))
    );
    assert!(page.contains(&policy), "{policy}");
}

#[test]
fn the_page_says_what_the_json_says() {
    let folder = Folder::new();
    let (page, json) = page_of(root(), &["fixtures/practices", "fixtures/sets"], &folder.0);
    let diagnostics = json["diagnostics"].as_array().unwrap();
    assert!(diagnostics.len() > 100, "{}", diagnostics.len());
    let ids: Vec<&str> = Regex::new("<details class=\"f [a-z]+\" id=\"f-([0-9a-f]{16})\"")
        .unwrap()
        .captures_iter(&page)
        .map(|c| c.extract::<1>().1[0])
        .collect();
    assert_eq!(ids.len(), diagnostics.len());
    let fingerprints: BTreeSet<&str> =
        diagnostics.iter().map(|d| d["fingerprint"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), fingerprints);
    for (member, word) in [("errors", "error"), ("warnings", "warning"), ("infos", "info")] {
        let count = json["summary"][member].as_u64().unwrap();
        assert!(page.contains(&format!("{count} {word}")), "{count} {word}");
    }
    // The place of each finding is marked in an excerpt.
    let marked = diagnostics.iter().filter(|d| d["range"].is_object()).count();
    assert!(page.matches("<mark>").count() >= marked);
    let rules: BTreeSet<&str> = diagnostics.iter().map(|d| d["rule"].as_str().unwrap()).collect();
    for rule in &rules {
        assert!(page.contains(&format!("<section class=\"group\" id=\"rule={rule}\"")), "{rule}");
    }
    assert_eq!(page.matches("<summary>Manual</summary><h4>Why</h4>").count(), rules.len());
    tags(&without_assets(&page));
}

#[test]
fn the_pools_are_those_of_gpulint_pools() {
    let folder = Folder::new().with("a.yaml", POOLS);
    let (page, _) = page_of(&folder.0, &["."], &folder.0);
    let pools: Value = serde_json::from_str(&folder.run(&["pools", "-f", "json"]).exits(0).out).unwrap();
    let pool = &pools["pools"][0];
    let (least, most) = (pool["prices"]["least"].as_f64().unwrap(), pool["prices"]["most"].as_f64().unwrap());
    let date = pools["prices"]["date"].as_str().unwrap();
    assert!(page.contains(&format!("${least:.2} – ${most:.2} an hour each")));
    assert!(page.contains(&format!("list prices of us-east-1 on {date}")));
    assert!(page.contains("limited; Mon–Fri 09:00–17:00 blocked"));
    assert!(page.contains("<svg class=\"grid\" role=\"img\""));
    assert!(page.contains("g6.xlarge, g6.12xlarge"));
    let placed = &page[page.find("id=\"placement\"").unwrap()..];
    let (misfit, on) = (placed.find("web/pod/large").unwrap(), placed.find("ml/deployment/llm").unwrap());
    assert!(placed.find("Fit no NodePool").unwrap() < misfit && misfit < placed.find("#pool-0").unwrap());
    assert!(placed.find("#pool-0").unwrap() < on);
    // 12 replicas of one GPU, and a limit of 8.
    assert!(placed.contains("8 – too little"), "{placed}");
}

#[test]
fn a_page_without_pools_or_findings_is_one_too() {
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let folder = Folder::new().with("a.yaml", good);
    let run = folder.run(&["check", "--format", "html"]).exits(0);
    assert!(run.out.starts_with("<!doctype html>") && run.out.contains("<h1>No findings</h1>"));
    assert!(!run.out.contains("id=\"pools\"") && !run.out.contains("id=\"filters\""));
    tags(&without_assets(&run.out));
}

#[test]
fn the_page_says_why_a_run_failed() {
    let folder = Folder::new().with("a.yaml", POOLS);
    let run = folder.run(&["check", "a.yaml", "absent.yaml", "--format", "html"]).exits(2);
    assert!(run.out.contains("<b>Incomplete:</b> ") && run.out.contains("absent.yaml"), "{}", run.err);
    assert!(run.out.contains("<details class=\"f error\""));
    tags(&without_assets(&run.out));
}

#[test]
fn the_page_says_how_many_failures_it_leaves_out() {
    let folder = Folder::new().with("a.yaml", POOLS);
    let absent: Vec<String> = (0..1002).map(|number| format!("absent-{number}.yaml")).collect();
    let files = absent.iter().map(String::as_str);
    let args: Vec<&str> = ["check", "a.yaml", "--format", "html"].into_iter().chain(files).collect();
    let run = folder.run(&args).exits(2);
    assert_eq!(run.out.matches("<b>Incomplete:</b> ").count(), 1000);
    assert!(words_of(&run.out).contains("and 2 more"), "{}", run.err);
}

/// What a page says, without its tags.
fn words_of(page: &str) -> String {
    let text = Regex::new("<[^>]*>").unwrap().replace_all(&without_assets(page), "").into_owned();
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#10;", "\n"), ("&amp;", "&")]
        .into_iter()
        .fold(text, |text, (written, meant)| text.replace(written, meant))
}

#[test]
fn the_page_of_a_plan_says_what_its_json_says() {
    let stories = fs::read_dir(root().join("fixtures/plan")).unwrap().map(|entry| entry.unwrap().path());
    let mut told = 0;
    // A chart needs helm.
    for story in stories.filter(|story| !story.ends_with("chart-values")) {
        let plan = |format: &str| {
            let args = ["plan", "--before", "before", "--after", "after", "--format", format];
            run_in(&story, &args, "")
        };
        let (page, json) = (plan("html").out, plan("json").json_of("plan"));
        let words = words_of(&page);
        let says = |text: &Value| {
            let text = text.as_str().unwrap().replace('`', "");
            assert!(words.contains(&text), "{}: {text}\n{words}", story.display());
        };
        for set in json["sets"].as_array().unwrap() {
            for member in ["pools", "others", "workloads"] {
                for one in set[member].as_array().unwrap() {
                    told += 1;
                    [&one["name"], &one["text"]].into_iter().for_each(says);
                }
            }
            let pools = set["pools"].as_array().unwrap().iter();
            pools.flat_map(|pool| pool["edits"].as_array().unwrap()).for_each(|edit| says(&edit["field"]));
            let money = set["money"]["pools"].as_array().into_iter().flatten();
            money.flat_map(|pool| pool["causes"].as_array().unwrap()).for_each(says);
        }
        for list in ["new", "gone"] {
            json["findings"][list].as_array().unwrap().iter().for_each(|one| says(&one["message"]));
        }
        let marked = json["findings"]["new"].as_array().unwrap().iter().filter(|one| one["line"].is_u64());
        assert!(page.matches("<mark>").count() >= marked.count(), "{page}");
        assert!(!page.contains("<script"), "{page}");
        tags(&without_assets(&page));
    }
    assert!(told > 10, "{told}");
}

#[test]
fn the_page_of_a_plan_says_why_it_fails_and_what_could_not_be_read() {
    let folder = Folder::new().with("old/a.yaml", POOLS).with("new/a.yaml", POOLS.replace("10%", "20%"));
    let plan = |more: &[&str]| {
        let args = ["plan", "--before", "old", "--after", "new", "--format", "html"];
        folder.run(&[&args[..], more].concat())
    };
    plan(&["--budget", "1"]).exits(1).prints("<b>Fails:</b> $").prints("No node is replaced");
    let broken =
        Folder::new().with("old/a.yaml", POOLS).with("new/a.yaml", POOLS.replace("spec:", "spec: ["));
    let args = ["plan", "--before", "old", "--after", "new", "--format", "html"];
    broken.run(&args).prints("Files that cannot be read").prints("does not parse in new");
    let same = ["plan", "--before", "old", "--after", "old", "--format", "html"];
    let page = folder.run(&same).exits(0).prints("<h1>Nothing changes for nodes, pods, dollars and findings");
    tags(&without_assets(&page.out));
}

/// A repository whose names, values and paths try to become markup.
fn hostile() -> Folder {
    let name = r#"\"><img src=x onerror=alert(1)></script><script>alert(2)</script><!--"#;
    let pool = format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: \"{name}\"}}\nspec:\n  weight: 200\n  disruption: {{consolidationPolicy: \"{name}\"}}\n\
         \x20 template:\n    spec:\n      taints: [{{key: \"{name}\", effect: \"{name}\"}}]\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: \"{name}\"}}\n\
         \x20     requirements:\n        - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}}\n  limits: {{nvidia.com/gpu: 8, \"{name}\": 3}}\n"
    );
    let workload = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: \"{name}\", namespace: \"{name}\"}}\nspec:\n  replicas: 3\n  selector: {{matchLabels: {{a: b}}}}\n\
         \x20 template:\n    metadata: {{labels: {{a: b}}}}\n    spec:\n      containers: [{{name: c, image: \"{name}:latest\", resources: {{limits: {{nvidia.com/gpu: 1}}}}}}] # {name} \u{202e}\n"
    );
    let config = format!(
        "clusters:\n  - name: \"{name}\"\n    paths: [\"a/**\"]\n  - name: b\n    paths: [\"b/**\"]\n"
    );
    Folder::new()
        .with("gpulint.yaml", config)
        .with("a/\"><img src=x onerror=alert(3)>.yaml", &pool)
        .with("a/workload.yaml", &workload)
        .with("b/workload.yaml", &workload)
        .with("b/pool.yaml", pool)
}

#[test]
fn hostile_text_does_not_become_markup() {
    let folder = hostile().with("nothing/a.txt", "");
    let (page, json) = page_of(&folder.0, &["."], &folder.0);
    assert!(json["diagnostics"].as_array().unwrap().len() > 6, "{json:#}");
    assert!(page.contains("id=\"pools\"") && page.contains("id=\"placement\""));
    is_harmless(&page, 1);
    let plan = folder.run(&["plan", "--before", "nothing", "--after", ".", "--format", "html"]);
    assert!(plan.out.contains("is new") && plan.out.contains("<mark>"), "{plan:#?}");
    is_harmless(&plan.out, 0);
}

/// Asserts that nothing of [`hostile`] is markup in a page with some scripts.
fn is_harmless(page: &str, scripts: usize) {
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;") && page.contains("&lt;!--"));
    assert!(!page.contains('\u{202e}'));
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (scripts, scripts));
    let handler = Regex::new(r#"\s(on[a-z]+|style|src)\s*="#).unwrap();
    let value = Regex::new("\"[^\"]*\"").unwrap();
    for tag in tags(&without_assets(page)) {
        let values = value.replace_all(&tag, "\"\"").into_owned();
        assert!(!handler.is_match(&values) && !tag.starts_with("<img") && !tag.starts_with("<!--"), "{tag}");
    }
}

#[test]
fn nothing_is_loaded() {
    let folder = Folder::new();
    let (page, _) = page_of(root(), &["fixtures/practices"], &folder.0);
    for name in ["page.css", "page.js"] {
        let asset = fs::read_to_string(root().join("src/report/html").join(name)).unwrap();
        assert!(!asset.contains("http") && !asset.contains("url(") && !asset.contains("@import"), "{name}");
    }
    // Links of manuals lead to other sites, and do not send a referrer.
    for tag in tags(&without_assets(&page)).iter().filter(|tag| tag.contains("://")) {
        assert!(tag.starts_with("<a rel=\"noreferrer\" href=\"https://"), "{tag}");
    }
}

// With a browser.

/// The browser, if there is one.
fn browser() -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join("chromium"))
        .find(|path| path.is_file());
    if found.is_none() {
        gpulint_testing::missing("chromium", "apt-get install chromium");
    }
    found
}

/// The output of chromium with some arguments. It must not contain errors.
fn open(browser: &Path, page: &Path, fragment: &str, args: &[&str]) -> String {
    // One browser at a time, because it has many processes.
    static TURN: OnceLock<Mutex<()>> = OnceLock::new();
    let _turn = TURN.get_or_init(Mutex::default).lock().unwrap_or_else(|broken| broken.into_inner());
    let profile = Folder::new();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--hide-scrollbars", "--timeout=60000"])
        .arg(format!("--user-data-dir={}", profile.0.display()))
        .args(args)
        .arg(format!("file://{}{fragment}", page.display()))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let console: Vec<&str> = errors.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:#?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The opening tags of the findings that a document shows.
fn shown(dom: &str) -> Vec<String> {
    let tags = Regex::new("<details class=\"f [^>]*>").unwrap();
    tags.find_iter(dom)
        .map(|tag| tag.as_str().to_owned())
        .filter(|tag| !tag.contains("hidden=\"\""))
        .collect()
}

#[test]
fn a_browser_shows_and_filters_all_findings() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new();
    let (_, json) = page_of(root(), &["fixtures/practices", "fixtures/sets"], &folder.0);
    let page = folder.0.join("page.html");
    let all = json["diagnostics"].as_array().unwrap();
    let count = |is: &dyn Fn(&Value) -> bool| all.iter().filter(|one| is(one)).count();
    let dom = |fragment: &str| open(&browser, &page, fragment, &["--dump-dom"]);

    let whole = dom("");
    assert_eq!(shown(&whole).len(), all.len());
    assert!(whole.contains(&format!(">{} shown</p>", all.len())) || all.len() > 999);
    assert!(!whole.contains("id=\"filters\" role=\"search\" hidden"));

    assert_eq!(shown(&dom("#severity=error")).len(), count(&|one| one["severity"] == "error"));
    assert_eq!(
        shown(&dom("#severity=error,warning&rule=pdb-missing")).len(),
        count(&|one| one["severity"] != "info" && one["rule"] == "pdb-missing")
    );
    assert_eq!(shown(&dom("#namespace=")).len(), count(&|one| one["object"]["namespace"].is_null()));
    let set = all.iter().find_map(|one| one["sets"][0].as_str()).unwrap();
    let in_set = |one: &Value| one["sets"].as_array().unwrap().iter().any(|name| name == set);
    assert_eq!(shown(&dom(&format!("#set={set}"))).len(), count(&in_set));
    let file = all[0]["file"].as_str().unwrap();
    let found = shown(&dom(&format!("#q={file}&group=file")));
    assert!(found.len() >= count(&|one| one["file"] == file) && found.len() < all.len());
    assert!(dom("#q=no-such-text-anywhere").contains("<p id=\"none\">"));

    // The address of one finding opens it.
    let fingerprint = all[0]["fingerprint"].as_str().unwrap();
    let one = dom(&format!("#f-{fingerprint}"));
    assert!(shown(&one).iter().any(|tag| tag.contains(fingerprint) && tag.contains("open=\"\"")));
}

/// This script runs in a copy of the page without its policy, and reports to the page around it.
const PROBE: &str = r#"
addEventListener("load", () => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5
    && getComputedStyle(e).position !== "absolute");
  const root = document.documentElement, seen = {};
  seen.wide = (root.scrollWidth > innerWidth ? "page " : "") + wide.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" ");
  seen.width = innerWidth;
  seen.back = getComputedStyle(document.body).backgroundColor;
  const press = (key) => (document.activeElement || document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const at = () => { const f = document.activeElement.closest(".f"); return f ? [...document.querySelectorAll(".f")].indexOf(f) : document.activeElement.id; };
  const keys = [];
  for (const key of ["j", "j", "j", "k", "/"]) { press(key); keys.push(at()); }
  press("Escape");
  keys.push(document.activeElement === document.body ? "body" : at());
  seen.keys = keys.join(" ");
  const unnamed = [...document.querySelectorAll("input, select, button, a, summary")].filter((e) =>
    !e.textContent.trim() && !(e.labels && e.labels.length) && !e.getAttribute("aria-label"));
  seen.unnamed = unnamed.map((e) => e.outerHTML.slice(0, 80)).join(" ");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  seen.twice = ids.filter((id, n) => ids.indexOf(id) !== n).join(" ");
  parent.postMessage(seen, "*");
});
"#;

/// The report of the probe in a window of a given width. A browser without a screen has windows of at least
/// 500 pixels.
fn probe(browser: &Path, folder: &Path, page: &str, width: &str, flag: &str) -> Value {
    let page = Regex::new("<meta http-equiv=\"Content-Security-Policy\"[^>]*>").unwrap().replace(page, "");
    let page = page
        .replace("</style>", ".f, .pool { content-visibility: visible !important; }</style>")
        .replace("</body>", &format!("<script>{PROBE}</script></body>"));
    fs::write(folder.join("probe.html"), page).unwrap();
    let around = format!(
        "<!doctype html><title>probe</title><script>addEventListener(\"message\", (e) => {{ \
         document.querySelector(\"pre\").textContent = JSON.stringify(e.data); }})</script>\
         <pre></pre><iframe src=\"probe.html\" width=\"{width}\" height=\"1600\"></iframe>"
    );
    fs::write(folder.join("around.html"), around).unwrap();
    let args = [flag, "--window-size=1600,1700", "--virtual-time-budget=20000", "--dump-dom"];
    let dom = open(browser, &folder.join("around.html"), "", &args);
    let seen = Regex::new("(?s)<pre>(.*?)</pre>").unwrap().captures(&dom).map(|c| c[1].to_owned()).unwrap();
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&seen).unwrap_or_else(|e| panic!("{e}: {seen}"))
}

#[test]
fn a_browser_draws_it_light_and_dark_wide_and_narrow() {
    let Some(browser) = browser() else { return };
    let folder = hostile().with("pools.yaml", POOLS);
    for file in [
        "000/01-inference-pool.yaml",
        "000/02-node-class.yaml",
        "002/11-tier-pools.yaml",
        "004/bad-legacy-provisioner.yaml",
    ] {
        let text = fs::read_to_string(root().join("fixtures/practices").join(file)).unwrap();
        fs::create_dir_all(folder.0.join(file).parent().unwrap()).unwrap();
        fs::write(folder.0.join(file), text).unwrap();
    }
    let (page, _) = page_of(&folder.0, &["."], &folder.0);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (scheme, flag, back) in [
        ("light", "--blink-settings=preferredColorScheme=1", "rgb(255, 255, 255)"),
        ("dark", "--blink-settings=preferredColorScheme=0", "rgb(19, 21, 24)"),
    ] {
        for (width, size) in [("1280", "--window-size=1280,1600"), ("400", "--window-size=400,1600")] {
            let picture = out.join(format!("html-{scheme}-{width}.png"));
            let _ = fs::remove_file(&picture);
            let screenshot = format!("--screenshot={}", picture.display());
            open(&browser, &folder.0.join("page.html"), "", &[flag, size, &screenshot]);
            let png = fs::read(&picture).unwrap();
            assert_eq!(png[16..20], width.parse::<u32>().unwrap().to_be_bytes(), "{scheme} {width}");
            let seen = probe(&browser, &folder.0, &page, width, flag);
            let expected = serde_json::json!({
                "wide": "", "width": width.parse::<u32>().unwrap(), "back": back, "keys": "0 1 2 1 q body", "unnamed": "", "twice": "",
            });
            assert_eq!(seen, expected, "{scheme} {width}");
        }
    }
}
