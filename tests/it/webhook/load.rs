//! Continuous requests while replicas restart, and a report on each request that is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cluster::server::Cluster;
use crate::webhook::reviews::bad_pool;
use crate::webhook::server::Server;

/// Creates NodePools that have to be denied, until it is stopped. With policy Ignore, a request that the
/// webhook does not answer is allowed, which identifies a lost request.
pub(crate) struct Load {
    cluster: Arc<Cluster>,
    phase: Arc<Mutex<&'static str>>,
    end: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    pub(crate) fn start(cluster: &Arc<Cluster>, tasks: usize) -> Load {
        let end = Arc::new(AtomicBool::new(false));
        let phase = Arc::new(Mutex::new("start"));
        let tasks = (0..tasks).map(|number| {
            let (cluster, end) = (Arc::clone(cluster), Arc::clone(&end));
            let phase = Arc::clone(&phase);
            tokio::spawn(async move {
                let mut lost = Vec::new();
                let path = "/apis/karpenter.sh/v1/nodepools?dryRun=All";
                for count in 0.. {
                    if end.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = bad_pool(&format!("load-{number}-{count}")).to_string();
                    let sent = clock();
                    let (code, warnings, _) =
                        cluster.send_for_warnings("POST", path, "application/json", body.into_bytes()).await;
                    if code != 422 {
                        let phase = *phase.lock().unwrap();
                        lost.push(format!("{sent} to {}, {phase}: {code} {warnings:?}", clock()));
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                lost
            })
        });
        let tasks = tasks.collect();
        Load { cluster: Arc::clone(cluster), phase, end, tasks }
    }

    /// Names the current phase, for reports on lost requests.
    pub(crate) fn phase(&self, name: &'static str) {
        *self.phase.lock().unwrap() = name;
    }

    /// Stops, and reports for each lost request its time, the API server's log and the logs of `replicas`.
    pub(crate) async fn end(self, replicas: &[&Server]) {
        self.end.store(true, Ordering::Relaxed);
        let mut lost = Vec::new();
        for task in self.tasks {
            lost.extend(task.await.unwrap());
        }
        lost.sort();
        let said = self.cluster.said();
        let reasons = said.lines().filter(|line| line.contains("failing open"));
        let reasons: Vec<&str> = reasons.take(40).collect();
        let replicas: Vec<String> = replicas.iter().map(|r| r.process.last_words()).collect();
        assert!(
            lost.is_empty(),
            "requests were lost:\n{}\nthe API server:\n{}\n{}",
            lost.join("\n"),
            reasons.join("\n"),
            replicas.join("\n")
        );
    }
}

/// The time of day in UTC, in the format of the logs.
fn clock() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let seconds = now.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let millis = now.subsec_millis();
    format!("{hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
}
