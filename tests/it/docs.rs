//! The manual: its generated pages, its table of contents, and the links of the book that mdBook makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, run_in};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> Vec<Value> {
    let run = run_in(root(), &["rules", "--format", "json"], "").exits(0);
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn the_pages_are_written_again_only_where_they_differ() {
    let folder = Folder::new();
    folder.run(&["docs", "--out", "manual"]).exits(0);
    let page = folder.0.join("manual/rules/pdb-missing.md");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("warning[pdb-missing]: no PodDisruptionBudget covers"), "{text}");
    let written = fs::metadata(&page).unwrap().modified().unwrap();
    fs::write(folder.0.join("manual/rules/pdb-selector.md"), "old").unwrap();
    folder.run(&["docs", "--out", "manual"]).exits(0);
    assert_eq!(fs::metadata(&page).unwrap().modified().unwrap(), written);
    assert!(fs::read_to_string(folder.0.join("manual/rules/pdb-selector.md")).unwrap().len() > 100);
    // The schemas are published at the address in their `$id`.
    for name in ["config", "diagnostics.v1", "why.v1", "pools.v1", "plan.v1"] {
        let text = fs::read_to_string(folder.0.join(format!("manual/schemas/{name}.json"))).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(schema["$id"], format!("https://gpulint.dev/schemas/{name}.json"));
    }
    let nowhere = folder.with("file", "").run(&["docs", "--out", "file/manual"]).exits(2);
    assert!(nowhere.err.contains("cannot write file/manual/rules/index.md: "), "{}", nowhere.err);
}

/// The table of contents has every group and every rule below `Rules`; `UPDATE=1` writes it.
#[test]
fn the_table_of_contents_has_every_rule() {
    let path = root().join("docs/src/SUMMARY.md");
    let old = fs::read_to_string(&path).unwrap();
    let mut expected = String::new();
    for line in old.lines().filter(|line| !line.starts_with("  ")) {
        expected.push_str(&format!("{line}\n"));
        if line == "- [Rules](rules/index.md)" {
            let mut group = String::new();
            for rule in rules() {
                let (id, of) = (rule["id"].as_str().unwrap(), rule["group"].as_str().unwrap());
                if group != of {
                    expected.push_str(&format!("  - [{of}](groups/{of}.md)\n"));
                    group = of.to_owned();
                }
                expected.push_str(&format!("    - [{id}](rules/{id}.md)\n"));
            }
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).unwrap();
    } else {
        assert!(old == expected, "run `UPDATE=1 cargo test --test it docs`");
    }
}

/// The output of gpulint on a page is its real output; `UPDATE=1` writes it.
#[test]
fn the_manual_shows_real_output() {
    for path in pages_below(&root().join("docs/src")) {
        let text = fs::read_to_string(&path).unwrap();
        let mut out = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            out.push_str(&format!("{line}\n"));
            let Some(args) = line.strip_prefix("<!-- output: ").and_then(|l| l.strip_suffix(" -->")) else {
                continue;
            };
            assert_eq!(lines.next(), Some("```text"), "{}", path.display());
            let _ = lines.by_ref().find(|line| *line == "```");
            let args: Vec<&str> = args.split(' ').collect();
            let run = run_in(root(), &args, "");
            assert_ne!(run.code, Some(2), "{run:?}");
            out.push_str(&format!("```text\n{}\n```\n", run.out.trim_end()));
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, out).unwrap();
        } else {
            assert!(out == text, "{}: run `UPDATE=1 cargo test --test it docs`", path.display());
        }
    }
}

/// The pages that are written by hand. Those that `gpulint docs` writes are in folders.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

/// The commands and options in the manual exist.
#[test]
fn commands_of_the_manual_exist() {
    let folder = Folder::new();
    folder.run(&["docs", "--out", "."]).exits(0);
    let reference = fs::read_to_string(folder.0.join("reference/command-line.md")).unwrap();
    let mut wrong = Vec::new();
    for path in pages_below(&root().join("docs/src")) {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            // Every `gpulint COMMAND --options` up to the end of the code or the command.
            for (at, _) in line.match_indices("gpulint ") {
                let command = line[at..].split(['`', '|', '#', ';', '&', '>']).next().unwrap_or_default();
                let words: Vec<&str> = command.split_whitespace().collect();
                let name = words.get(1).copied().unwrap_or_default();
                if !reference.contains(&format!("\n### gpulint {name}\n")) {
                    continue;
                }
                let section = reference.split(&format!("\n### gpulint {name}\n")).nth(1).unwrap_or_default();
                let section = section.split("\n### ").next().unwrap_or_default();
                for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
                    let option = option.split('=').next().unwrap_or_default();
                    let option = option.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
                    let known = [&format!("--{option} "), &format!("--{option}`")];
                    if !option.is_empty() && !known.iter().any(|known| section.contains(known.as_str())) {
                        wrong.push(format!("{}: gpulint {name} --{option}", path.display()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The recipes install this version.
#[test]
fn recipes_install_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let mut wrong = Vec::new();
    let mut found = 0;
    for (file, marks) in [
        ("action.yml", &["    default: 0"][..]),
        ("templates/gpulint.yml", &["      default: 0"][..]),
        (
            "docs/src/ci.md",
            &["gpulint==", "gpulint/gpulint@", "gpulint@0", "rev: ", "ref: v", "gpulint/v"][..],
        ),
        ("docs/src/install.md", &["/download/v"][..]),
        ("docs/src/webhook.md", &["oci://"][..]),
        ("plugin.yaml", &["known_good_version: "][..]),
        ("packages/mega-linter-plugin-gpulint/gpulint.megalinter-descriptor.yml", &["gpulint=="][..]),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        for line in text.lines() {
            let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) else { continue };
            found += 1;
            if !line.contains(version) {
                wrong.push(format!("{file}: {mark}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty() && found >= 13, "{found} found: {}", wrong.join("\n"));
}

/// Builds the book with mdBook where it is installed (`MDBOOK` names another one), and follows every internal link.
#[test]
fn the_book_builds_and_its_links_lead_somewhere() {
    let mdbook = std::env::var("MDBOOK").unwrap_or_else(|_| "mdbook".to_owned());
    if Command::new(&mdbook).arg("--version").output().is_err() {
        // Not required: `tests/package/run book` installs it, and runs this.
        return gpulint_testing::skipped("there is no mdbook (tests/package/run book)");
    }
    let folder = Folder::new();
    let docs = folder.0.join("docs");
    copy(&root().join("docs"), &docs);
    folder.run(&["docs", "--out", "docs/src"]).exits(0);
    let run = Command::new(&mdbook).arg("build").arg(&docs).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{said}");
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");

    let book = folder.0.join("target/book");
    let mut pages: BTreeMap<PathBuf, Html> = BTreeMap::new();
    let mut files = BTreeSet::new();
    walk(&book, &mut files);
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "html")) {
        pages.insert(file.clone(), Html::of(&fs::read_to_string(file).unwrap()));
    }
    assert!(pages.len() > 270, "{} pages", pages.len());
    let mut wrong = Vec::new();
    let mut links = 0;
    // The links of 404.html and of the table of contents are relative to another page.
    let moved = |page: &Path| page.ends_with("404.html") || page.ends_with("toc.html");
    for (page, html) in pages.iter().filter(|(page, _)| !moved(page)) {
        for link in &html.links {
            let outside = ["http:", "https:", "mailto:", "data:", "javascript:", "//"];
            if outside.iter().any(|scheme| link.starts_with(scheme)) {
                continue;
            }
            links += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = path.split('?').next().unwrap_or_default();
            let mut target = match path {
                "" => page.clone(),
                path => normal(&page.parent().unwrap().join(path)),
            };
            if target.is_dir() {
                target = target.join("index.html");
            }
            let there = match pages.get(&target) {
                Some(html) => anchor.is_empty() || html.ids.contains(anchor),
                None => files.contains(&target),
            };
            if !there {
                wrong.push(format!("{}: {link}", page.strip_prefix(&book).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(links > 5_000, "{links} links");
    for rule in rules() {
        let url = rule["url"].as_str().unwrap();
        let page = url.strip_prefix("https://gpulint.dev/").unwrap();
        assert!(pages.contains_key(&book.join(page)), "no page at {url}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

fn walk(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.insert(path);
        }
    }
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// The links and the anchors of a page.
#[derive(Default)]
struct Html {
    links: Vec<String>,
    ids: BTreeSet<String>,
}

impl Html {
    fn of(text: &str) -> Html {
        let mut html = Html::default();
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, after)| after);
                continue;
            }
            let Some(end) = end_of_tag(rest) else { break };
            let (tag, after) = rest.split_at(end);
            html.tag(tag);
            rest = after;
            if tag == "script" || tag.starts_with("script ") {
                rest = rest.split_once("</script").map_or("", |(_, after)| after);
            }
        }
        html
    }

    fn tag(&mut self, tag: &str) {
        for name in ["href", "src", "id"] {
            let Some((_, value)) = tag.split_once(&format!(" {name}=\"")) else { continue };
            let value = value.split('"').next().unwrap_or_default().replace("&amp;", "&");
            if name == "id" {
                self.ids.insert(value);
            } else {
                self.links.push(value);
            }
        }
    }
}

/// Where a tag ends: `>` outside of quotes.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, letter)| {
        quoted ^= letter == '"';
        (letter == '>' && !quoted).then_some(at)
    })
}

#[test]
fn links_and_anchors_are_found_in_tags_only() {
    let html = Html::of(
        "<!-- <a href=\"no\"> --><h2 class=\"a>b\" id=\"x\"><a class=\"c\" href=\"a.html?b&amp;c#d\">href=\"no\"</a>\
         <script>let a = '<a href=\"no\">';</script><img src=\"i.png\">",
    );
    assert_eq!(html.links, ["a.html?b&c#d", "i.png"]);
    assert!(html.ids.contains("x"));
}
