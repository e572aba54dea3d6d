//! A program that ends when its owner ends, for whatever reason.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program. Dropping it ends it by its process id.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// Reads from a pipe that only this process keeps open: when this process ends for any reason, the pipe
    /// closes and the watchdog ends the program. A panic unwinds into `drop`, but a signal or a test runner's
    /// time limit does not.
    watchdog: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program whose output goes to `<name>.log` in `folder`.
    pub(crate) fn start(name: &str, folder: &Path, command: &mut Command) -> Process {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).expect("the log can be written");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log has two writers"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let watchdog = Command::new("sh")
            .args(["-c", "read -r _; kill -9 \"$1\" 2>/dev/null", "watchdog"])
            .arg(child.id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh is there");
        Process { name: name.to_owned(), child, watchdog, log }
    }

    /// Whether it has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end: SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Its exit code, once it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// The complete output.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The last lines of the output.
    pub(crate) fn last_words(&self) -> String {
        let text = self.said();
        let lines: Vec<&str> = text.lines().collect();
        format!("{}:\n{}", self.name, lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // End the watchdog first: otherwise it could end another program that got the same id.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
