//! The output in the README is the real output of the program. `UPDATE=1 cargo test` rewrites it.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_readme_shows_real_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let mut out = String::new();
    let mut lines = readme.lines();
    let mut shown = 0;
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(args) = line.strip_prefix("<!-- output: ").and_then(|l| l.strip_suffix(" -->")) else {
            continue;
        };
        assert_eq!(lines.next(), Some("```text"));
        for old in lines.by_ref() {
            if old == "```" {
                break;
            }
        }
        let (command, args) = args.strip_prefix("plan ").map_or(("check", args), |args| ("plan", args));
        let run = Command::new(env!("CARGO_BIN_EXE_gpulint"))
            .current_dir(root)
            .env_clear()
            .env("LANG", "C.UTF-8")
            .args([command, "--color", "never"])
            .args(args.split(' '))
            .output()
            .unwrap();
        let code = run.status.code();
        assert!(code == Some(1) || command == "plan" && code == Some(0), "{args}: {run:?}");
        let text = String::from_utf8(run.stdout).unwrap();
        out.push_str("```text\n");
        out.push_str(text.trim_end());
        out.push_str("\n```\n");
        shown += 1;
    }
    assert_eq!(shown, 2);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root.join("README.md"), out).unwrap();
    } else {
        assert!(out == readme, "run `UPDATE=1 cargo test --test it readme`");
    }
}
