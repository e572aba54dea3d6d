//! Runs etcd and kube-apiserver on free loopback ports, with the CRDs of Karpenter, AWS and KEDA, until the
//! value is dropped.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kube::client::Body;
use serde_json::{Value, json};

pub(crate) use super::certificates::{Authority, Pair};
pub(crate) use super::process::Process;

/// One of the programs, or the folder of the CRDs; all of them for an empty name. If it is missing, the test is skipped.
pub(crate) fn assets(part: &str) -> Option<PathBuf> {
    gpulint_testing::assets("KUBEBUILDER_ASSETS", part, "tests/cluster/build")
}

/// A port on which no program listens now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

/// An API server with its store. Dropping it ends both and removes their files.
pub(crate) struct Cluster {
    // The fields are dropped in this order.
    api_server: Process,
    /// The command that started the API server.
    command: Command,
    _etcd: Process,
    authority: Authority,
    folder: PathBuf,
    url: String,
    token: String,
    client: kube::Client,
}

impl Cluster {
    /// Starts a server as EKS configures it, with all CRDs; `None` if the programs are missing (which is
    /// printed).
    pub(crate) async fn start() -> Option<Cluster> {
        Cluster::start_with(&[], &[]).await
    }

    /// Starts a server without these admission plugins, and with additional flags of kube-apiserver.
    pub(crate) async fn start_with(without: &[&str], flags: &[&str]) -> Option<Cluster> {
        let assets = assets("")?;
        // Another process may take a port before the start, so a start is retried.
        let mut tries = 0;
        let cluster = loop {
            tries += 1;
            match Cluster::boot(&assets, without, flags).await {
                Ok(cluster) => break cluster,
                Err(said) if tries == 3 => panic!("the API server does not come up\n{said}"),
                Err(_) => {}
            }
        };
        cluster.install_crds(&assets.join("crds")).await;
        Some(cluster)
    }

    async fn boot(assets: &Path, without: &[&str], flags: &[&str]) -> Result<Cluster, String> {
        let folder = folder();
        let authority = Authority::new();
        let store = format!("http://127.0.0.1:{}", free_port());
        let peers = format!("http://127.0.0.1:{}", free_port());
        let mut etcd = Process::start(
            "etcd",
            &folder,
            Command::new(assets.join("etcd"))
                .arg("--data-dir")
                .arg(folder.join("etcd"))
                .args(["--listen-client-urls", &store])
                .args(["--advertise-client-urls", &store])
                .args(["--listen-peer-urls", &peers])
                .args(["--initial-advertise-peer-urls", &peers])
                .args(["--initial-cluster", &format!("default={peers}")])
                .args(["--unsafe-no-fsync", "--log-level", "error"]),
        );
        let serving = authority.issue(&["127.0.0.1", "localhost"]);
        let accounts = rcgen::KeyPair::generate().expect("a key");
        let token = format!("token-of-{}", folder_name(&folder));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("the folder can be written");
            path
        };
        let port = free_port();
        let mut disabled = vec!["ServiceAccount"];
        disabled.extend(without);
        let mut command = Command::new(assets.join("kube-apiserver"));
        // Collects garbage less often: most of it is made while the server starts, and tests end it soon after.
        command
            .env("GOGC", "400")
            .args(["--etcd-servers", &store])
            .args(["--bind-address", "127.0.0.1"])
            .args(["--secure-port", &port.to_string()])
            .arg("--cert-dir")
            .arg(folder.join("certs"))
            .arg("--tls-cert-file")
            .arg(write("serving.crt", &serving.certificate))
            .arg("--tls-private-key-file")
            .arg(write("serving.key", &serving.key))
            .args(["--service-cluster-ip-range", "10.0.0.0/24"])
            .arg("--service-account-key-file")
            .arg(write("accounts.pub", &accounts.public_key_pem()))
            .arg("--service-account-signing-key-file")
            .arg(write("accounts.key", &accounts.serialize_pem()))
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .arg("--token-auth-file")
            .arg(write("tokens.csv", &format!("{token},admin,admin,\"system:masters\"\n")))
            .args(["--authorization-mode", "RBAC"])
            .arg("--allow-privileged")
            .args(["--disable-admission-plugins", &disabled.join(",")])
            .args(["--endpoint-reconciler-type", "none"])
            .args(["--enable-admission-plugins", "ExtendedResourceToleration"])
            .args(flags);
        let mut api_server = Process::start("kube-apiserver", &folder, &mut command);
        let url = format!("https://127.0.0.1:{port}");
        let client = client(&url, &authority, &token);
        let until = Instant::now() + Duration::from_secs(180);
        while get(&client, "/readyz").await != 200 {
            let ended = api_server.ended() || etcd.ended();
            if ended || Instant::now() > until {
                return Err(format!("{}\n{}", etcd.last_words(), api_server.last_words()));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(Cluster { api_server, command, _etcd: etcd, authority, folder, url, token, client })
    }

    async fn install_crds(&self, folder: &Path) {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|entry| entry.expect("a folder can be read").path())
            .collect();
        paths.sort();
        assert!(!paths.is_empty(), "no CRDs in {}", folder.display());
        let at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let mut names = Vec::new();
        for path in paths {
            let text = fs::read(&path).expect("a CRD can be read");
            let (code, answer) = self.post(at, "application/yaml", text).await;
            assert!(code == 201, "{}: {answer}", path.display());
            names.push(answer["metadata"]["name"].as_str().unwrap_or("").to_owned());
        }
        // A CRD is Established a moment before discovery serves it, so request the objects themselves.
        for name in names {
            let url = format!("{at}/{name}");
            self.until(&format!("{name} is served"), async || {
                let (_, crd) = self.get(&url).await;
                let spec = &crd["spec"];
                let Some(version) = spec["versions"][0]["name"].as_str() else {
                    return false;
                };
                let list = format!(
                    "/apis/{}/{version}/{}",
                    spec["group"].as_str().unwrap_or_default(),
                    spec["names"]["plural"].as_str().unwrap_or_default()
                );
                self.get(&list).await.0 == 200
            })
            .await;
        }
    }

    /// Waits until a condition holds, at most three minutes: the machine may be busy.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let until = Instant::now() + Duration::from_secs(180);
        while !holds().await {
            assert!(
                Instant::now() < until,
                "waited three minutes for: {what}\n{}",
                self.api_server.last_words()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends the API server and starts it again, on the same port and with the same store.
    pub(crate) async fn restart(&mut self) {
        let command = &mut self.command;
        self.api_server.terminate();
        while !self.api_server.ended() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.api_server = Process::start("kube-apiserver", &self.folder, command);
        self.until("the API server is back", async || get(&self.client, "/readyz").await == 200).await;
    }

    /// The log of the API server since its last start.
    pub(crate) fn said(&self) -> String {
        self.api_server.said()
    }

    /// The authority that signed the server's certificate, for `caBundle`s and more certificates.
    pub(crate) fn ca(&self) -> &Authority {
        &self.authority
    }

    /// A folder of this cluster's own, removed with it.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A kubeconfig file with every right.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("kubeconfig", &self.token)
    }

    /// A kubeconfig file with the rights of a token.
    pub(crate) fn kubeconfig_of(&self, file: &str, token: &str) -> PathBuf {
        let ca = self.folder.join("ca.crt");
        let path = self.folder.join(file);
        fs::write(&ca, self.authority.pem()).expect("the folder can be written");
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": ca}}],
            "users": [{"name": "admin", "user": {"token": token}}],
        });
        fs::write(&path, config.to_string()).expect("the folder can be written");
        path
    }

    /// GETs a path: the status code, and the body where it is JSON.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "application/json", Vec::new()).await
    }

    /// POSTs a body: the status code, and the answer.
    pub(crate) async fn post(&self, path: &str, media: &str, body: Vec<u8>) -> (u16, Value) {
        self.send("POST", path, media, body).await
    }

    /// Sends a request: the status code, and the answer.
    pub(crate) async fn send(&self, method: &str, path: &str, media: &str, body: Vec<u8>) -> (u16, Value) {
        let (code, _, answer) = self.send_for_warnings(method, path, media, body).await;
        (code, answer)
    }

    /// Sends a request, and returns the warnings as well.
    pub(crate) async fn send_for_warnings(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Vec<u8>,
    ) -> (u16, Vec<String>, Value) {
        self.try_send(method, path, media, &body)
            .await
            .unwrap_or_else(|e| panic!("{method} {path}: {e}\n{}", self.api_server.last_words()))
    }

    /// Sends a request of another user, by impersonation: the status code, and the answer.
    pub(crate) async fn send_as(
        &self,
        user: &str,
        method: &str,
        path: &str,
        media: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = body.to_string().into_bytes();
        let (code, _, answer) = self
            .exchange(Some(user), method, path, media, &body)
            .await
            .unwrap_or_else(|e| panic!("{method} {path}: {e}\n{}", self.api_server.last_words()));
        (code, answer)
    }

    /// Sends a request; an error if the server closes the connection instead of answering, as it does when it
    /// panics over an object.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<String>, Value), kube::Error> {
        self.exchange(None, method, path, media, body).await
    }

    async fn exchange(
        &self,
        user: Option<&str>,
        method: &str,
        path: &str,
        media: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<String>, Value), kube::Error> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", media)
            .header("Accept", "application/json");
        if let Some(user) = user {
            request = request.header("Impersonate-User", user);
        }
        let request = request.body(Body::from(body.to_vec())).expect("a request");
        let answer = self.client.send(request).await?;
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("Warning").iter();
        // Truncated ones end in an ellipsis.
        let warnings = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned());
        let warnings = warnings.collect();
        let bytes = answer.into_body().collect_bytes().await?;
        let answer = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok((code, warnings, answer))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The programs may still write to the folder until they end, a moment later; the rest is in target/.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A new folder in the folder of the build.
fn folder() -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cluster-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the build's folder can be written");
    folder
}

fn folder_name(folder: &Path) -> String {
    folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

fn client(url: &str, authority: &Authority, token: &str) -> kube::Client {
    let mut config = kube::Config::new(url.parse().expect("a URL"));
    config.root_cert = Some(vec![authority.der()]);
    config.auth_info.token = Some(token.to_owned().into());
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

/// The status code of a GET; 0 if there is no answer.
async fn get(client: &kube::Client, path: &str) -> u16 {
    let request = http::Request::get(path).body(Body::empty());
    match client.send(request.expect("a request")).await {
        Ok(answer) => answer.status().as_u16(),
        Err(_) => 0,
    }
}
