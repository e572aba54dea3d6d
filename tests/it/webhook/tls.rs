//! The server with certificates from files, and without a cluster.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::cluster::server::{Authority, Pair};
use crate::webhook::client::{Body, Client, metric, plain};
use crate::webhook::reviews::{bad_pool, create, good_pool};
use crate::webhook::server::{Folder, Server};

/// Writes a certificate as a Secret volume does: the files are links into a folder that is swapped.
pub(crate) fn mount(folder: &Path, version: &str, pair: &Pair) {
    let data = folder.join(version);
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("tls.crt"), &pair.certificate).unwrap();
    fs::write(data.join("tls.key"), &pair.key).unwrap();
    let next = folder.join("..data_tmp");
    symlink(version, &next).unwrap();
    fs::rename(&next, folder.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        let _ = symlink(Path::new("..data").join(file), folder.join(file));
    }
}

/// A server with certificates from files and without a cluster, ready.
pub(crate) async fn serve(folder: &Folder, authority: &Authority, more: &[&str]) -> Server {
    mount(folder.path(), "v1", &authority.issue(&["127.0.0.1"]));
    let mut args = vec!["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    args.extend(more);
    let server = Server::start("gpulint", folder.path(), None, &args).await;
    server.ready().await;
    server
}

#[tokio::test]
async fn it_answers_over_both_versions_of_http_and_counts() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &[]).await;
    for client in [Client::new(authority.pem()), Client::new(authority.pem()).http1()] {
        let mut connection = client.connect(server.admission).await.unwrap();
        let bad = connection.post("/validate?timeout=30s", create(&bad_pool("gpu"))).await;
        let bad = bad.unwrap().json();
        assert_eq!(bad["response"]["uid"], "7e1a");
        assert_eq!(bad["response"]["allowed"], false, "{bad}");
        let good = connection.post("/validate?timeout=30s", create(&good_pool("gpu"))).await;
        let good = good.unwrap().json();
        assert_eq!(good["response"]["allowed"], true, "{good}");
        let patched = connection.post("/mutate?timeout=30s", create(&good_pool("gpu"))).await;
        assert_eq!(patched.unwrap().json()["response"]["allowed"], true);
        assert_eq!(connection.post("/other", "").await.unwrap().code, 404);
        let get = Full::new(Bytes::new()).boxed();
        assert_eq!(connection.send("GET", "/validate", get, true).await.unwrap().code, 405);
    }
    let metrics = server.metrics().await;
    let denied = r#"gpulint_admission_requests_total{webhook="validate",operation="CREATE",group="karpenter.sh",kind="NodePool",decision="denied"}"#;
    assert_eq!(metric(&metrics, denied), 2.0, "{metrics}");
    assert_eq!(metric(&metrics, r#"gpulint_findings_total{rule="gpu-pool-untainted"}"#), 2.0);
    let count = r#"gpulint_admission_duration_seconds_count{webhook="validate"}"#;
    assert_eq!(metric(&metrics, count), 4.0);
    assert!(metrics.contains(r#"le="10.0""#));
    let expiry = r#"gpulint_certificate_expiry_timestamp_seconds{certificate="serving"}"#;
    assert!(metric(&metrics, expiry) > 1.8e9, "{metrics}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let asked = r#"gpulint_last_request_timestamp_seconds{webhook="validate"}"#;
    assert!((now - 60.0..=now).contains(&metric(&metrics, asked)), "{metrics}");
    assert_eq!(plain(server.operations, "/healthz").await.unwrap().0, 200);
    assert_eq!(plain(server.operations, "/nothing").await.unwrap().0, 404);
}

#[tokio::test]
async fn a_swapped_secret_is_served_and_open_connections_live_on() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &[]).await;
    let client = Client::new(authority.pem());
    let mut open = client.connect(server.admission).await.unwrap();
    let first = open.certificate.clone();
    let reloaded = async |result: &str| {
        let line = format!(r#"gpulint_reloads_total{{what="certificate",result="{result}"}}"#);
        metric(&server.metrics().await, &line)
    };

    // A key of another certificate is rejected, and the old certificate stays.
    let mut broken = authority.issue(&["127.0.0.1"]);
    broken.key = authority.issue(&["127.0.0.1"]).key;
    mount(folder.path(), "v2", &broken);
    server.until("it is refused", async || reloaded("refused").await == 1.0).await;
    let again = client.connect(server.admission).await.unwrap();
    assert_eq!(again.certificate, first);

    mount(folder.path(), "v3", &authority.issue(&["127.0.0.1"]));
    server.until("it is taken over", async || reloaded("ok").await == 2.0).await;
    let new = client.connect(server.admission).await.unwrap();
    assert_ne!(new.certificate, first);
    let answer = open.post("/validate", create(&good_pool("gpu"))).await.unwrap();
    assert_eq!(answer.code, 200);
    assert!(!server.process.said().contains("PRIVATE KEY"));
}

#[tokio::test]
async fn a_chain_leads_to_the_root() {
    let folder = Folder::new();
    let (root, chain) = chain();
    mount(folder.path(), "v1", &chain);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let server = Server::start("gpulint", folder.path(), None, &args).await;
    Client::new(&root).connect(server.admission).await.unwrap();
}

/// A root CA, and a certificate of an intermediate CA with its chain.
fn chain() -> (String, Pair) {
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let root_key = KeyPair::generate().unwrap();
    let root = authority("root");
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let root = Issuer::new(root, root_key);
    let middle_key = KeyPair::generate().unwrap();
    let middle = authority("middle");
    let middle_pem = middle.signed_by(&middle_key, &root).unwrap().pem();
    let middle = Issuer::new(middle, middle_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &middle).unwrap().pem();
    let pair = Pair { certificate: format!("{leaf}{middle_pem}"), key: key.serialize_pem() };
    (root_pem, pair)
}

#[tokio::test]
async fn clients_may_have_to_show_a_certificate() {
    let (folder, authority, clients) = (Folder::new(), Authority::new(), Authority::new());
    folder.write("clients.crt", clients.pem());
    let server = serve(&folder, &authority, &["--client-ca", "clients.crt"]).await;
    let nobody = Client::new(authority.pem());
    let refused = match nobody.connect(server.admission).await {
        Err(_) => true,
        Ok(mut open) => open.post("/validate", "{}").await.is_err(),
    };
    assert!(refused);
    let pair = client_pair(&clients);
    let known = nobody.shows(&pair.certificate, &pair.key);
    let mut open = known.connect(server.admission).await.unwrap();
    assert_eq!(open.post("/validate", create(&good_pool("a"))).await.unwrap().code, 200);
}

/// rustls requires the client purpose, or no purpose at all.
fn client_pair(authority: &Authority) -> Pair {
    authority.issue_for(&["client"], rcgen::ExtendedKeyUsagePurpose::ClientAuth)
}

#[tokio::test]
async fn tls_1_3_can_be_asked_for() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let old = Client::new(authority.pem()).tls12_alone();
    let server = serve(&folder, &authority, &[]).await;
    old.connect(server.admission).await.unwrap();
    drop(server);
    let folder = Folder::new();
    let server = serve(&folder, &authority, &["--tls-min", "1.3"]).await;
    assert!(old.connect(server.admission).await.is_err());
    Client::new(authority.pem()).connect(server.admission).await.unwrap();
}

#[tokio::test]
async fn the_configuration_is_read_again_and_a_wrong_one_refused() {
    let (folder, authority) = (Folder::new(), Authority::new());
    folder.write("gpulint.yaml", "rules: {}\n");
    let server = serve(&folder, &authority, &["--config", "gpulint.yaml"]).await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let mut denied = async || {
        let answer = open.post("/validate", create(&bad_pool("gpu"))).await.unwrap();
        answer.json()["response"]["allowed"] == false
    };
    let reloaded = async |result: &str| {
        let line = format!(r#"gpulint_reloads_total{{what="configuration",result="{result}"}}"#);
        metric(&server.metrics().await, &line)
    };
    assert!(denied().await);
    folder.write("gpulint.yaml", "rules: {gpu-pool-untained: off}\n");
    server.until("it is refused", async || reloaded("refused").await == 1.0).await;
    assert!(denied().await);
    let said = server.process.said();
    assert!(said.contains("did you mean `gpu-pool-untainted`?"), "{said}");
    folder.write("gpulint.yaml", "rules: {gpu-pool-untainted: off}\n");
    server.until("it is taken over", async || reloaded("ok").await == 1.0).await;
    assert!(!denied().await);
}

#[tokio::test]
async fn what_is_too_large_or_nonsense_is_left_to_the_policy() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &[]).await;
    let big = Bytes::from(vec![b' '; 9 * 1024 * 1024]);
    for client in [Client::new(authority.pem()), Client::new(authority.pem()).http1()] {
        for announced in [true, false] {
            let mut open = client.connect(server.admission).await.unwrap();
            let body = if announced { Full::new(big.clone()).boxed() } else { streamed(big.clone()) };
            // A client that is still writing may see the connection close before it reads the response.
            if let Ok(answer) = open.send("POST", "/validate", body, announced).await {
                assert_eq!(answer.code, 413);
            }
        }
        let mut open = client.connect(server.admission).await.unwrap();
        assert_eq!(open.post("/validate", "{\"secret\":\"hunter2\"").await.unwrap().code, 400);
    }
    let metrics = server.metrics().await;
    let failed = |reason: &str| {
        let line = format!(r#"gpulint_admission_failures_total{{webhook="validate",reason="{reason}"}}"#);
        metric(&metrics, &line)
    };
    assert_eq!(failed("too-large"), 4.0, "{metrics}");
    assert_eq!(failed("malformed"), 2.0);
    assert!(!server.process.said().contains("hunter2"));
}

fn streamed(bytes: Bytes) -> Body {
    let parts: Vec<Bytes> = bytes.chunks(64 * 1024).map(Bytes::copy_from_slice).collect();
    let frames = futures::stream::iter(parts).map(|part| Ok(Frame::data(part)));
    BodyExt::boxed(StreamBody::new(frames))
}

#[tokio::test]
async fn who_sends_slowly_is_left_to_the_policy_and_takes_nothing_from_others() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let args = ["--max-reviews", "1", "--body-timeout", "2s"];
    let server = serve(&folder, &authority, &args).await;
    let client = Client::new(authority.pem());
    let hold = |path: &'static str| {
        let (client, address) = (client.clone(), server.admission);
        tokio::spawn(async move {
            let mut slow = client.connect(address).await.unwrap();
            let never = StreamBody::new(futures::stream::pending());
            slow.send("POST", path, BodyExt::boxed(never), false).await
        })
    };
    let in_flight = async |count: f64| {
        server
            .until("so many requests are open", async || {
                metric(&server.metrics().await, "gpulint_admission_in_flight") == count
            })
            .await;
    };
    let held = hold("/validate?timeout=30s");
    in_flight(1.0).await;
    let mut open = client.connect(server.admission).await.unwrap();
    let answer = open.post("/validate", create(&good_pool("gpu"))).await.unwrap();
    assert_eq!(answer.code, 200);
    // A client that disconnects is forgotten.
    held.abort();
    in_flight(0.0).await;
    // The deadline of a review is before the timeout of the API server.
    for path in ["/validate?timeout=30s", "/validate?timeout=1s"] {
        let answer = hold(path).await.unwrap().unwrap();
        assert_eq!(answer.code, 408);
    }
    in_flight(0.0).await;
    let metrics = server.metrics().await;
    let line = r#"gpulint_admission_failures_total{webhook="validate",reason="slow-body"}"#;
    assert_eq!(metric(&metrics, line), 2.0, "{metrics}");
}

#[tokio::test]
async fn silent_connections_are_closed() {
    use tokio::io::AsyncReadExt;
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &[]).await;
    let mut silent = tokio::net::TcpStream::connect(server.admission).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(60), silent.read(&mut [0; 1])).await;
    assert_eq!(closed.unwrap().unwrap_or(0), 0);
}

#[tokio::test]
async fn denials_are_logged_where_that_is_asked_for() {
    let (folder, authority) = (Folder::new(), Authority::new());
    for (args, lines) in [(&["--log-denies"][..], 1), (&[], 0)] {
        let server = serve(&folder, &authority, args).await;
        let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
        let mut pool = bad_pool("gpu");
        pool["metadata"]["labels"] = serde_json::json!({"password": "hunter2"});
        let mut review: serde_json::Value = serde_json::from_str(&create(&pool)).unwrap();
        review["request"]["userInfo"] = serde_json::json!({"username": "jane"});
        for (pool, allowed) in [(review["request"]["object"].clone(), false), (good_pool("gpu"), true)] {
            review["request"]["object"] = pool;
            let answer = open.post("/validate", review.to_string()).await.unwrap();
            assert_eq!(answer.json()["response"]["allowed"], allowed);
        }
        let said = server.process.said();
        let denials: Vec<&str> = said.lines().filter(|line| line.contains("\"denied\"")).collect();
        assert_eq!(denials.len(), lines, "{said}");
        for word in denials.iter().flat_map(|_| ["NodePool", "gpu", "jane", "gpu-pool-untainted", "CREATE"]) {
            assert!(denials[0].contains(word), "{word}: {}", denials[0]);
        }
        assert!(!said.contains("hunter2"));
    }
}

/// Data that rules build once is ready when the server is ready.
#[tokio::test]
async fn the_first_review_is_as_fast_as_later_ones() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let mut measured = Vec::new();
    // A stall of the machine makes a review slower, never faster: one server of three is enough.
    for _ in 0..3 {
        let server = serve(&folder, &authority, &[]).await;
        let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
        // All objects differ: the second of two equal objects would not be checked.
        let mut times = Vec::new();
        for number in 0..40 {
            let body = create(&bad_pool(&format!("gpu-{number}")));
            let began = std::time::Instant::now();
            assert_eq!(open.post("/validate", body).await.unwrap().code, 200);
            times.push(began.elapsed());
        }
        let first = times[0];
        times.sort();
        println!("the first took {first:?}, half of them less than {:?}", times[20]);
        measured.push((first, times[20]));
        if first < times[20] * 5 + Duration::from_millis(5) {
            return;
        }
    }
    // Without building it in advance, the first review takes ten times as long or more.
    panic!("{measured:?}");
}

#[tokio::test]
async fn nothing_of_an_object_is_logged() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &["--log", "trace"]).await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let mut pool = bad_pool("gpu");
    pool["spec"]["template"]["metadata"] = serde_json::json!({"labels": {"password": "hunter2"}});
    assert_eq!(open.post("/validate", create(&pool)).await.unwrap().code, 200);
    let said = server.process.said();
    assert!(!said.contains("hunter2") && !said.contains("PRIVATE KEY"), "{said}");
}
