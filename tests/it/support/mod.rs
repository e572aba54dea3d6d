//! Running the built binary in a folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use serde_json::Value;

/// A temporary folder, which is removed when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpulint-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn with(self, file: &str, text: impl AsRef<[u8]>) -> Folder {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, "")
    }

    /// Runs git in the folder.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) {
        let options = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(options).args(args).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
    }

    #[track_caller]
    pub(crate) fn commit(&self, title: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", title]);
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &str) -> Run {
        run_in(&self.0, args, stdin)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The output of the binary.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn complains(self, text: &str) -> Run {
        assert!(self.err.contains(text), "no {text:?} in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Run {
        assert!(self.out.contains(text), "no {text:?} in {self:#?}");
        self
    }

    /// The JSON report of `gpulint check`.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        self.json_of("diagnostics")
    }

    /// The output as JSON, which must be valid under a schema that the binary prints.
    #[track_caller]
    pub(crate) fn json_of(&self, schema: &str) -> Value {
        let printed: Value = serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"));
        validate_as(schema, &printed);
        printed
    }
}

pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpulint"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("GPULINT_FORMAT")
        .env_remove("GPULINT_MIN_SEVERITY")
        .env_remove("CLICOLOR_FORCE")
        .env("LC_ALL", "C.UTF-8");
    command
}

pub(crate) fn run_in(folder: &Path, args: &[&str], stdin: &str) -> Run {
    let mut child = command(folder, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read standard input may have ended.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    finish(child.wait_with_output().unwrap())
}

pub(crate) fn finish(output: Output) -> Run {
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A report of `gpulint check` has to be valid.
#[track_caller]
pub(crate) fn validate(report: &Value) {
    validate_as("diagnostics", report);
}

#[track_caller]
fn validate_as(schema: &str, report: &Value) {
    let validator = validator(schema);
    let errors: Vec<String> =
        validator.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{report:#}");
}

/// The validator of a schema that the binary prints. To print and compile it takes longer than most tests, so that it is kept.
fn validator(schema: &str) -> Arc<Validator> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    let read = || {
        let printed = run_in(Path::new("."), &["schema", schema], "").exits(0);
        let printed: Value = serde_json::from_str(&printed.out).unwrap();
        Arc::new(jsonschema::draft202012::new(&printed).unwrap())
    };
    Arc::clone(known.entry(schema.to_owned()).or_insert_with(read))
}
