//! A kind that the API server does not list: the server checks all others.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::server::{Authority, free_port};
use crate::webhook::client::{Client, metric};
use crate::webhook::fake::{Fake, kubeconfig};
use crate::webhook::reviews::{bad_pool, create, good_pool};
use crate::webhook::server::{Folder, Server};
use crate::webhook::tls::serve;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_not_listed_is_not_waited_for_for_ever() {
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    fake.refuse("ec2nodeclasses", true);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let line = r#"gpulint_cache_synced{group="karpenter.k8s.aws",kind="EC2NodeClass"}"#;
    let synced = async || metric(&server.metrics().await, line);
    assert!(server.metrics().await.contains(&format!("{line} 0")));

    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let mut ask = async |pool| {
        let answer = open.post("/validate", create(&pool)).await.unwrap();
        answer.json()["response"].clone()
    };
    // Rules that read no other object report. That the others are silent is for the metrics and the log: a warning
    // would be in every answer.
    let denied = ask(bad_pool("gpu")).await;
    assert_eq!(denied["allowed"], false, "{denied}");
    let allowed = ask(good_pool("gpu")).await;
    assert_eq!(allowed["allowed"], true, "{allowed}");
    assert!(!allowed["warnings"].to_string().contains("not all known"), "{allowed}");
    let unsynced = metric(&server.metrics().await, "gpulint_unsynced_reviews_total");
    assert_eq!(unsynced, 2.0);

    // The kind is read as soon as the API server lists it.
    fake.refuse("ec2nodeclasses", false);
    server.until("it is listed after all", async || synced().await == 1.0).await;
    ask(good_pool("gpu")).await;
    assert_eq!(metric(&server.metrics().await, "gpulint_unsynced_reviews_total"), 2.0);
}

/// Lists that fail are repeated at increasing intervals, and one line is logged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_lists_back_off_and_are_one_line_each() {
    const REFUSED: [&str; 5] = ["ec2nodeclasses", "scaledobjects", "scaledjobs", "nodeclaims", "deployments"];
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    for plural in REFUSED {
        fake.refuse(plural, true);
    }
    let began = Instant::now();
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    tokio::time::sleep(Duration::from_secs(12).saturating_sub(began.elapsed())).await;
    // Pauses of 1, 2, 4 … seconds, each a quarter shorter at the least.
    let pauses = (began.elapsed().as_secs_f64() / 0.75 + 1.0).log2().ceil();
    for plural in REFUSED {
        let lists = fake.lists(plural) as f64;
        assert!((3.0..=pauses + 1.0).contains(&lists), "{plural}: {lists} in {:?}", began.elapsed());
    }
    let said = server.process.said();
    let lines = said.lines().filter(|line| line.contains("cache") && !line.contains("INFO"));
    // One line at the first failure, one when readiness no longer waits for the kind.
    assert_eq!(lines.count(), 2 * REFUSED.len(), "{said}");
}

/// An API server that is not reachable is logged in one line for all kinds, with the cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_not_there_is_one_line() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let kubeconfig = folder.write("kubeconfig", &kubeconfig(&nobody));
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.until("it says so", async || server.process.said().contains("not reached")).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let said = server.process.said();
    assert_eq!(said.lines().filter(|line| line.contains("WARN")).count(), 1, "{said}");
    assert!(said.contains("connection refused"), "{said}");
}

/// A certificate by an unknown authority is logged in one line as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_somebody_else_is_said_in_the_usual_words() {
    let (folder, authority) = (Folder::new(), Authority::new());
    // Any server with another certificate will do.
    let other = serve(&folder, &Authority::new(), &[]).await;
    let ca = folder.write("ca.crt", authority.pem());
    let mut config: Value =
        serde_json::from_str(&kubeconfig(&format!("https://{}", other.admission))).unwrap();
    config["clusters"][0]["cluster"]["certificate-authority"] = ca.to_str().unwrap().into();
    let kubeconfig = folder.write("kubeconfig", &config.to_string());
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let server = Server::start("second", folder.path(), Some(&kubeconfig), &args).await;
    server
        .until("it says so", async || {
            server.process.said().contains("certificate signed by unknown authority")
        })
        .await;
}

/// For a context that does not exist, and for a missing cluster, the message says what to type.
#[test]
fn a_cluster_that_is_not_found_says_what_to_do() {
    let folder = Folder::new();
    folder.write("kubeconfig", &kubeconfig("http://127.0.0.1:1"));
    let said = |file: &str, args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_gpulint"))
            .args(["webhook", "serve"])
            .args(args)
            .current_dir(folder.path())
            .env("KUBECONFIG", folder.path().join(file))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let wrong = said("kubeconfig", &["--context", "prod"]);
    assert!(wrong.contains("there is no context `prod`; the kubeconfig file has fake"), "{wrong}");
    let none = said("nothing", &[]);
    assert!(none.contains("set KUBECONFIG, or run with --no-cluster"), "{none}");
}
