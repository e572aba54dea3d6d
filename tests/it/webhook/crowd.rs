//! Many connections from several addresses that send nothing: they keep no review from being answered.
//!
//! Only Linux has all of 127.0.0.0/8.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::cluster::server::Authority;
use crate::webhook::client::{Client, Connection, metric};
use crate::webhook::reviews::{bad_pool, create};
use crate::webhook::server::Folder;
use crate::webhook::soak::resident;
use crate::webhook::tls::serve;

/// Connections without TLS, each opened again when the server closes it, until the value is dropped.
pub(crate) struct Crowd {
    tasks: JoinSet<()>,
}

impl Crowd {
    /// `each` connections from each of eight addresses, which are open when the future completes.
    pub(crate) async fn start(server: SocketAddr, each: usize) -> Crowd {
        let mut tasks = JoinSet::new();
        let (opened, mut first) = tokio::sync::mpsc::unbounded_channel();
        for from in (2..=9).flat_map(|last| std::iter::repeat_n(Ipv4Addr::new(127, 0, 0, last), each)) {
            let opened = opened.clone();
            tasks.spawn(async move {
                loop {
                    let Ok(mut stream) = open(from, server).await else {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    };
                    let _ = opened.send(());
                    let _ = stream.read(&mut [0]).await;
                }
            });
        }
        for _ in 0..8 * each {
            first.recv().await;
        }
        Crowd { tasks }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.tasks.abort_all();
    }
}

async fn open(from: Ipv4Addr, server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(server).await
}

/// Whether a bad NodePool is denied on this connection.
async fn is_denied(open: &mut Connection) -> bool {
    let answer = open.post("/validate?timeout=3s", create(&bad_pool("gpu"))).await;
    answer.is_ok_and(|answer| answer.code == 200 && answer.json()["response"]["allowed"] == false)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_bare_connections_shuts_nobody_out() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &[]).await;
    let client = Client::new(authority.pem());
    let mut idle = client.connect(server.admission).await.unwrap();
    assert!(is_denied(&mut idle).await);

    // More than the server has room for, and far more than the share of each address.
    let before = resident(&server);
    let crowd = Crowd::start(server.admission, 300).await;
    let held = resident(&server).zip(before).map(|(now, before)| now - before);
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(7) {
        let sent = Instant::now();
        let opened = tokio::time::timeout(Duration::from_secs(3), client.connect(server.admission)).await;
        let mut open = opened.expect("a client is shut out").unwrap();
        assert!(is_denied(&mut open).await, "{:?}", sent.elapsed());
        slowest = slowest.max(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!(
        "2,400 bare connections hold {held:?} MiB; the slowest new connection was answered in {slowest:?}"
    );
    assert!(held.is_none_or(|held| held < 24.0), "10 KiB each: {held:?} MiB");
    assert!(is_denied(&mut idle).await, "a connection that has carried a review was displaced");
    drop(crowd);

    // A connection that sends nothing, or not the whole handshake, is closed after two seconds.
    for begun in [&b""[..], b"\x16\x03\x01"] {
        let began = Instant::now();
        let mut stream = open(Ipv4Addr::new(127, 0, 0, 2), server.admission).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, begun).await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut [0])).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "it stays open");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    let metrics = server.metrics().await;
    assert!(metric(&metrics, r#"gpulint_connections_closed_total{why="handshake"}"#) > 0.0, "{metrics}");
}
