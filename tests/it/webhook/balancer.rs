//! A TCP load balancer, in place of a Service: new connections go to a replica that is ready.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::webhook::client::plain;

#[derive(Clone, Copy)]
struct Backend {
    admission: SocketAddr,
    operations: SocketAddr,
    ready: bool,
}

/// Listens until it is dropped.
pub(crate) struct Balancer {
    address: SocketAddr,
    backends: Arc<Mutex<Vec<Backend>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Balancer {
    pub(crate) async fn start() -> Balancer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let backends: Arc<Mutex<Vec<Backend>>> = Arc::default();
        let probed = Arc::clone(&backends);
        let probe = tokio::spawn(async move {
            loop {
                let known = probed.lock().unwrap().clone();
                for (at, backend) in known.iter().enumerate() {
                    let answer = plain(backend.operations, "/readyz").await;
                    probed.lock().unwrap()[at].ready = matches!(answer, Ok((200, _)));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let chosen = Arc::clone(&backends);
        let accept = tokio::spawn(async move {
            let mut turn = 0;
            loop {
                let Ok((mut client, _)) = listener.accept().await else {
                    continue;
                };
                let ready: Vec<SocketAddr> = {
                    let known = chosen.lock().unwrap();
                    known.iter().filter(|b| b.ready).map(|b| b.admission).collect()
                };
                if ready.is_empty() {
                    continue;
                }
                turn += 1;
                let to = ready[turn % ready.len()];
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(to).await else {
                        return;
                    };
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Balancer { address, backends, tasks: vec![probe, accept] }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a replica, which gets connections as soon as `/readyz` succeeds.
    pub(crate) fn add(&self, admission: SocketAddr, operations: SocketAddr) {
        self.backends.lock().unwrap().push(Backend { admission, operations, ready: false });
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
