//! Runs the built `gpulint webhook serve`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::server::Process;
use crate::webhook::client::plain;

/// A temporary folder, deleted on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("webhook-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file atomically, so that a server that polls it never reads half of it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let (path, next) = (self.0.join(name), self.0.join(format!("{name}.next")));
        fs::write(&next, text).unwrap();
        fs::rename(&next, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server, which is killed on drop.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) admission: SocketAddr,
    pub(crate) operations: SocketAddr,
}

impl Server {
    /// Starts a server, and waits until it listens.
    pub(crate) async fn start(name: &str, folder: &Path, kubeconfig: Option<&Path>, args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpulint"));
        command
            .args(["webhook", "serve"])
            .args(["--operations", "127.0.0.1:0", "--refresh", "200ms"])
            .args(args)
            .current_dir(folder)
            .env_remove("GPULINT_LOG")
            .env_remove("POD_NAMESPACE");
        // A busy machine may stall for seconds.
        for (flag, patient) in [("--timeout", "30"), ("--body-timeout", "20s")] {
            if !args.contains(&flag) {
                command.args([flag, patient]);
            }
        }
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        match kubeconfig {
            Some(path) => command.env("KUBECONFIG", path),
            None => command.arg("--no-cluster"),
        };
        let mut process = Process::start(name, folder, &mut command);
        let until = Instant::now() + Duration::from_secs(120);
        let (admission, operations) = loop {
            if let Some(found) = addresses(&process.said()) {
                break found;
            }
            assert!(!process.ended() && Instant::now() < until, "{}", process.last_words());
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        Server { process, admission, operations }
    }

    /// Waits until it is ready.
    pub(crate) async fn ready(&self) {
        self.until("/readyz answers 200", async || {
            matches!(plain(self.operations, "/readyz").await, Ok((200, _)))
        })
        .await;
    }

    /// Waits for it to exit.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + Duration::from_secs(120);
        while Instant::now() < until {
            if let Some(code) = self.process.exit_code() {
                return Some(code);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    /// Polls until a condition holds, for at most two minutes: the machine may be busy.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let until = Instant::now() + Duration::from_secs(120);
        while !holds().await {
            let (_, ready) = plain(self.operations, "/readyz").await.unwrap_or_default();
            assert!(Instant::now() < until, "waited for: {what}\n{ready}\n{}", self.process.last_words());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn metrics(&self) -> String {
        let (code, text) = plain(self.operations, "/metrics").await.unwrap();
        assert_eq!(code, 200);
        text
    }
}

/// The addresses in the log line of the listening server, in either format.
fn addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    log.lines().find_map(|line| {
        if let Ok(line) = serde_json::from_str::<Value>(line) {
            let address = |key: &str| line[key].as_str()?.parse().ok();
            return (line["message"] == "listening")
                .then(|| Some((address("admission")?, address("operations")?)))?;
        }
        let (_, fields) = line.split_once(" listening ")?;
        let address = |key: &str| fields.split(' ').find_map(|field| field.strip_prefix(key))?.parse().ok();
        Some((address("admission=")?, address("operations=")?))
    })
}
