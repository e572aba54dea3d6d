//! A kind that the API server does not list: the server checks all others.

use crate::cluster::server::Authority;
use crate::webhook::client::{Client, metric};
use crate::webhook::fake::Fake;
use crate::webhook::reviews::{bad_pool, create, good_pool};
use crate::webhook::server::{Folder, Server};

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
    // Rules that read no other object report; for the others there is a warning.
    let denied = ask(bad_pool("gpu")).await;
    assert_eq!(denied["allowed"], false, "{denied}");
    let allowed = ask(good_pool("gpu")).await;
    assert_eq!(allowed["allowed"], true, "{allowed}");
    assert!(allowed["warnings"].to_string().contains("not all known"), "{allowed}");
    let unsynced = metric(&server.metrics().await, "gpulint_unsynced_reviews_total");
    assert_eq!(unsynced, 2.0);

    // The kind is read as soon as the API server lists it.
    fake.refuse("ec2nodeclasses", false);
    server.until("it is listed after all", async || synced().await == 1.0).await;
    let known = ask(good_pool("gpu")).await;
    assert!(!known["warnings"].to_string().contains("not all known"), "{known}");
}
