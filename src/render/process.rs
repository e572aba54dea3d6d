//! Runs another program: without a shell, network or standard input, and with limits on time and output.

use std::fs;
use std::io;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpulint_rules::source::MAX_BYTES;

use crate::interrupt::{Group, Temporary, end_group};

/// The interval at which a program is polled.
const POLL: Duration = Duration::from_millis(5);
/// Maximum number of bytes of standard error to keep.
const MAX_STDERR_BYTES: u64 = 64 * 1024;

/// The reason why a program gave no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The program is not installed.
    Missing,
    /// The program failed, with the message that it printed.
    Failed(String),
    /// The program did not end within the time limit.
    TooSlow(Duration),
    /// The program printed more than the maximum size of a file.
    TooLarge,
}

/// A temporary folder. It is removed with its content when it is dropped.
#[derive(Debug)]
pub(crate) struct TempFolder(Temporary);

impl TempFolder {
    pub(crate) fn new() -> io::Result<TempFolder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // A program resolves links in the path of its current folder, and relative paths begin there.
        let base = fs::canonicalize(std::env::temp_dir())?;
        let path = base.join(format!("gpulint-render-{}-{number}", std::process::id()));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        Ok(TempFolder(Temporary::create(path, |path| builder.create(path))?.0))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A command whose environment has no plugins, no cluster and no network. `home` is an empty folder.
pub(crate) fn command(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for kept in ["PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "PATHEXT"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    let homes =
        ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR", "USERPROFILE", "TEMP"];
    let helm =
        ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELM_PLUGINS", "KUSTOMIZE_PLUGIN_HOME"];
    for variable in homes.iter().chain(&helm) {
        command.env(variable, home);
    }
    command.env("HELM_NO_PLUGINS", "1").env("KUBECONFIG", home.join("kubeconfig"));
    // Nothing listens on this port, so that network access fails immediately.
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"] {
        command.env(proxy, "http://127.0.0.1:1");
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ALLOW_PROTOCOL", "none");
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

pub(crate) fn run(mut command: Command, limit: Duration) -> Result<Vec<u8>, Failure> {
    let (_group, mut child) = match Group::spawn(&mut command) {
        Ok(started) => started,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Failure::Missing),
        Err(error) => return Err(Failure::Failed(error.to_string())),
    };
    let deadline = Instant::now() + limit;
    let out = child.stdout.take().map(|out| thread::spawn(move || read(out, MAX_BYTES + 1)));
    let err = child.stderr.take().map(|err| thread::spawn(move || read(err, MAX_STDERR_BYTES)));
    let mut status = None;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => thread::sleep(POLL),
            Ok(ended) => {
                status = ended;
                break;
            }
            Err(error) => {
                end(&mut child);
                return Err(Failure::Failed(error.to_string()));
            }
        }
        // The reader stops at the limit, and the program would wait for it forever.
        if status.is_none() && out.as_ref().is_some_and(thread::JoinHandle::is_finished) {
            let grace = Instant::now() + Duration::from_secs(1);
            while status.is_none() && Instant::now() < grace.min(deadline) {
                status = child.try_wait().ok().flatten();
                thread::sleep(POLL);
            }
            break;
        }
    }
    // End child processes as well: they may hold the pipes open.
    end(&mut child);
    let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| reader.and_then(|r| r.join().ok());
    let (out, err) = (text(out).unwrap_or_default(), text(err).unwrap_or_default());
    match status {
        _ if out.len() as u64 > MAX_BYTES => Err(Failure::TooLarge),
        None => Err(Failure::TooSlow(limit)),
        Some(status) if status.success() => Ok(out),
        Some(status) => {
            let words = String::from_utf8_lossy(&err).trim().to_owned();
            Err(Failure::Failed(if words.is_empty() { status.to_string() } else { words }))
        }
    }
}

fn read(from: impl Read, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, the bytes that were read before it are used.
    let _ = from.take(most).read_to_end(&mut bytes);
    bytes
}

fn end(child: &mut Child) {
    end_group(child.id());
    let _ = child.kill();
    let _ = child.wait();
}

/// The message of a program in one line, without the paths of temporary folders.
pub(crate) fn one_line(words: &str, temporary: &[(&Path, &str)]) -> String {
    const MAX_CHARS: usize = 300;
    /// The characters at the beginning and the end of a longer message that stay: Helm names the cause at the end.
    const ENDS: (usize, usize) = (110, 180);
    let mut text = words.to_owned();
    for (path, name) in temporary {
        let path = path.to_string_lossy();
        text =
            text.replace(&format!("{path}/"), name).replace(&*path, if name.is_empty() { "." } else { name });
    }
    const NOISE: [&str; 4] = ["Use --debug", "WARNING:", "# Warning:", "level=WARN"];
    let said = |line: &&str| {
        let is_log = line.contains("walk.go:") || NOISE.iter().any(|noise| line.starts_with(noise));
        !line.is_empty() && !is_log
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(said).collect();
    let joined = lines.join("; ");
    let joined = innermost(&joined);
    if joined.chars().count() <= MAX_CHARS {
        return joined.to_owned();
    }
    let at = |number: usize| joined.char_indices().nth(number).map_or(joined.len(), |(at, _)| at);
    let begin = &joined[..at(ENDS.0)];
    let begin = begin.rfind(' ').map_or(begin, |space| &begin[..space]);
    let end = &joined[at(joined.chars().count() - ENDS.1)..];
    match end.split_once(' ') {
        Some((_, end)) => format!("{begin} ... {end}"),
        None => format!("{begin}..."),
    }
}

/// The part of a message that names the cause: kustomize begins with the files that it has read, and Helm
/// with advice.
fn innermost(words: &str) -> &str {
    const STEPS: [&str; 2] = ["recursed accumulation of path '", "couldn't make target for path '"];
    let mut words = words.strip_prefix("Error: ").or(words.strip_prefix("error: ")).unwrap_or(words);
    while let Some((_, rest)) = STEPS.iter().find_map(|step| words.split_once(step)) {
        match rest.split_once("': ") {
            Some((_, cause)) => words = cause,
            None => break,
        }
    }
    let words = words.strip_prefix("accumulating resources: accumulation err='").unwrap_or(words);
    match words.find("found in Chart.yaml, but missing in charts/") {
        Some(at) => &words[at..],
        None => words,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::{Failure, TempFolder, command, one_line, run};

    fn home() -> TempFolder {
        TempFolder::new().expect("the folder of temporary files can be written")
    }

    fn shell(script: &str, limit: Duration) -> Result<Vec<u8>, Failure> {
        let home = home();
        let mut shell = command("/bin/sh", home.path());
        shell.args(["-c", script]);
        run(shell, limit)
    }

    #[test]
    fn output_and_failures_are_told_apart() {
        let second = Duration::from_secs(10);
        assert_eq!(shell("echo a", second), Ok(b"a\n".to_vec()));
        assert_eq!(shell("echo why >&2; exit 3", second), Err(Failure::Failed("why".to_owned())));
        let home = home();
        assert_eq!(run(command("gpulint-has-no-such", home.path()), second), Err(Failure::Missing));
        assert_eq!(shell("echo $HELM_NO_PLUGINS", second), Ok(b"1\n".to_vec()));
    }

    #[test]
    fn what_does_not_end_is_ended_with_its_children() {
        let begin = Instant::now();
        let limit = Duration::from_millis(200);
        assert_eq!(shell("sleep 60 & sleep 60; echo a", limit), Err(Failure::TooSlow(limit)));
        // A child process holds the pipe open after its parent has ended.
        assert_eq!(shell("sleep 60 & echo a", Duration::from_secs(20)), Ok(b"a\n".to_vec()));
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    }

    #[test]
    fn words_lose_temporary_paths_and_noise() {
        let words =
            "Error: open /tmp/x/tree/a.yaml: no\n\nUse --debug flag to render out invalid YAML\nsecond";
        assert_eq!(one_line(words, &[(Path::new("/tmp/x/tree"), "")]), "open a.yaml: no; second");
        assert!(one_line(&"é".repeat(1000), &[]).ends_with("é..."));
        let words = format!(
            "execution error {}nil pointer evaluating interface {{}}.enabled",
            "in a.yaml: ".repeat(60)
        );
        let said = one_line(&words, &[]);
        assert!(said.starts_with("execution error in a.yaml: in") && said.len() <= 300, "{said}");
        assert!(said.ends_with("in a.yaml: nil pointer evaluating interface {}.enabled"), "{said}");
        let words = "# Warning: 'bases' is deprecated.\nError: accumulating resources: accumulation err='accumulating resources from '../x': read x: is a directory': recursed accumulation of path 'x': loading KV pairs: open .env: no such file";
        assert_eq!(one_line(words, &[]), "loading KV pairs: open .env: no such file");
    }
}
