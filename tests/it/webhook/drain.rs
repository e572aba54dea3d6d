//! Shutdown: readiness fails first, requests are answered during the drain delay, and requests in flight are
//! completed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::cluster::server::Authority;
use crate::webhook::client::{Client, Failed, metric, plain};
use crate::webhook::reviews::{create, good_pool};
use crate::webhook::server::Folder;
use crate::webhook::tls::serve;

#[tokio::test]
async fn sigterm_fails_readiness_first_and_loses_nothing() {
    const DELAY: Duration = Duration::from_secs(3);
    let (folder, authority) = (Folder::new(), Authority::new());
    let mut server = serve(&folder, &authority, &["--drain-delay", "3s"]).await;
    let client = Client::new(authority.pem());
    let address = server.admission;
    let ended = Arc::new(AtomicBool::new(false));
    // The delay begins when the signal arrives, which is later than this.
    let terminated: Arc<OnceLock<Instant>> = Arc::default();
    let load: Vec<_> = [client.clone(), client.clone().http1()]
        .into_iter()
        .map(|client| {
            let (ended, terminated) = (Arc::clone(&ended), Arc::clone(&terminated));
            let answered = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&answered);
            let task = tokio::spawn(async move {
                // On a busy machine a request may be sent after the delay, when the server no longer listens.
                let over = |error: &Failed| {
                    let since = terminated.get().map(Instant::elapsed);
                    assert!(since.is_some_and(|s| s >= DELAY), "{since:?}: {error}");
                };
                let mut open = client.connect(address).await.unwrap();
                while !ended.load(Ordering::Relaxed) {
                    let answer = open.post("/validate", create(&good_pool("gpu"))).await;
                    let last = match answer {
                        Ok(answer) => {
                            assert_eq!(answer.code, 200);
                            count.fetch_add(1, Ordering::Relaxed);
                            answer.last
                        }
                        // GOAWAY arrived between two requests, so that this one was not sent.
                        Err(error) if was_not_sent(&error) => true,
                        Err(error) => return over(&error),
                    };
                    if last || open.usable().await.is_err() {
                        open = match client.connect(address).await {
                            Ok(open) => open,
                            Err(error) => return over(&error),
                        };
                    }
                }
            });
            (task, answered)
        })
        .collect();
    let counts = || load.iter().map(|(_, n)| n.load(Ordering::Relaxed)).min();
    server.until("both are under way", async || counts() > Some(10)).await;
    terminated.set(Instant::now()).unwrap();
    server.process.terminate();
    let before = counts();
    server
        .until("it says that it is not ready", async || {
            matches!(plain(server.operations, "/readyz").await, Ok((503, _)))
        })
        .await;
    // New connections are still accepted during the delay.
    let late = async {
        let mut late = client.connect(address).await?;
        late.post("/validate", create(&good_pool("gpu"))).await
    };
    match late.await {
        Ok(answer) => assert_eq!(answer.code, 200),
        Err(error) => assert!(terminated.get().unwrap().elapsed() >= DELAY, "{error}"),
    }
    if terminated.get().unwrap().elapsed() < DELAY / 2 {
        server.until("both go on", async || counts() > before).await;
    }
    ended.store(true, Ordering::Relaxed);
    for (task, _) in load {
        task.await.unwrap();
    }
    assert_eq!(server.exit_code().await, Some(0));
}

/// Whether the request was not sent, so that it can be retried on another connection.
fn was_not_sent(error: &Failed) -> bool {
    let error = error.downcast_ref::<hyper::Error>();
    error.is_some_and(|e| e.is_canceled() || e.is_closed())
}

#[tokio::test]
async fn requests_in_flight_are_answered() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let mut server = serve(&folder, &authority, &["--drain-delay", "0s"]).await;
    let client = Client::new(authority.pem());
    let whole = create(&good_pool("gpu"));
    let (mut rest, mut open) = (Vec::new(), Vec::new());
    for client in [client.clone(), client.clone().http1()] {
        let mut connection = client.connect(server.admission).await.unwrap();
        let (send, receive) = futures::channel::mpsc::unbounded::<Bytes>();
        let frames = futures::StreamExt::map(receive, |part| Ok(Frame::data(part)));
        let body = BodyExt::boxed(StreamBody::new(frames));
        send.unbounded_send(whole.clone().into_bytes()[..20].to_vec().into()).unwrap();
        rest.push(send);
        open.push(tokio::spawn(async move {
            let path = "/validate?timeout=30s";
            connection.send("POST", path, body, false).await
        }));
    }
    server
        .until("both are being worked on", async || {
            metric(&server.metrics().await, "gpulint_admission_in_flight") == 2.0
        })
        .await;
    server.process.terminate();
    server.until("nobody else is taken", async || client.connect(server.admission).await.is_err()).await;
    for send in rest {
        send.unbounded_send(whole.clone().into_bytes()[20..].to_vec().into()).unwrap();
    }
    for answer in open {
        assert_eq!(answer.await.unwrap().unwrap().code, 200);
    }
    assert_eq!(server.exit_code().await, Some(0));
}
