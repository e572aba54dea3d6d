//! Twelve changes, each with what is said about it as text and as Markdown. `UPDATE=1` writes what is said now.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::run_in;

/// The changes; those of charts need `helm`.
const STORIES: [&str; 12] = [
    "budget-closed",
    "chart-values",
    "class-renamed",
    "expire-after",
    "family-removed",
    "karpenter-upgrade",
    "keda-maximum",
    "larger-gpu",
    "limit-halved",
    "shared-base",
    "spot-allowed",
    "taint-added",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/plan")
}

#[test]
fn each_story_is_told() {
    let there: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    for name in &there {
        assert!(STORIES.contains(&name.as_str()), "{name} is not tested");
    }
    let mut wrong = Vec::new();
    for story in STORIES {
        let needs_helm = story == "chart-values";
        let programs = if needs_helm { crate::render::programs() } else { None };
        if needs_helm && programs.is_none() {
            continue;
        }
        for (format, file) in [("text", "plan.txt"), ("markdown", "plan.md")] {
            let mut args =
                vec!["plan", "--before", "before", "--after", "after", "--links=", "--format", format];
            if needs_helm {
                args.push("--render");
            }
            let folder = folder().join(story);
            let run = match &programs {
                Some(programs) => crate::render::run_with_path(programs, &folder, &args),
                None => run_in(&folder, &args, ""),
            };
            assert!(matches!(run.code, Some(0 | 1)) && run.err.is_empty(), "{story}: {run:#?}");
            let path = folder.join(file);
            if std::env::var_os("UPDATE").is_some() {
                fs::write(&path, &run.out).unwrap();
            }
            if fs::read_to_string(&path).unwrap_or_default() != run.out {
                wrong.push(format!("{story}/{file}:\n{}", run.out));
            }
            if format == "text" {
                let lines = run.out.lines().count();
                assert!(lines <= 50, "{story}: {lines} lines are more than a screen");
                assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{story}: {}", run.out);
            }
            assert!(run.out.len() <= 60 * 1024, "{story}");
        }
    }
    assert!(wrong.is_empty(), "UPDATE=1 writes what is said now:\n{}", wrong.join("\n"));
}
