//! The cluster that the server watches and writes to.

use std::io;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config};
use tower::util::MapResponseLayer;

use super::Options;
use super::utf8::as_utf8;
use crate::serve::Certificates;

/// Maximum time at start to determine the own account.
const ACCOUNT_TIME: Duration = Duration::from_secs(3);

/// A client for the cluster of `context`, or of the current context, or of the cluster of this pod.
///
/// # Errors
/// An instruction for users.
pub(super) async fn connect(options: &Options) -> Result<Client, String> {
    let (config, context) = configuration(options.context.as_deref()).await?;
    let server = config.cluster_url.to_string();
    let client = ClientBuilder::try_from(config).map_err(|error| error.to_string())?;
    let client = client.with_layer(&MapResponseLayer::new(as_utf8)).build();
    let account = account(&client).await;
    let account = account.as_deref().unwrap_or("not known yet");
    let name = &options.install.name;
    match &options.certificates {
        Certificates::SelfSigned { namespace, secret, .. } => tracing::info!(
            cluster = %server,
            context,
            account,
            secret = %format!("{namespace}/{secret}"),
            webhooks = %name,
            "this cluster is watched, its webhook configurations and the Secret are kept up to date"
        ),
        Certificates::Files(_) => {
            tracing::info!(cluster = %server, context, account, "this cluster is watched; nothing is written to it");
        }
    }
    Ok(client)
}

/// The configuration of a client, and the name of its context.
async fn configuration(context: Option<&str>) -> Result<(Config, Option<String>), String> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let error = match Config::from_kubeconfig(&options).await {
        Ok(config) => {
            let current = || Kubeconfig::read().ok().and_then(|file| file.current_context);
            return Ok((config, context.map(str::to_owned).or_else(current)));
        }
        Err(error) => error,
    };
    if let Some(context) = context {
        return Err(match Kubeconfig::read() {
            Ok(file) if file.contexts.iter().all(|known| known.name != context) => {
                let names: Vec<&str> = file.contexts.iter().map(|known| known.name.as_str()).collect();
                format!("there is no context `{context}`; the kubeconfig file has {}", names.join(", "))
            }
            _ => format!("the context `{context}`: {error}"),
        });
    }
    match Config::incluster() {
        Ok(config) => Ok((config, None)),
        Err(_) if is_absent(&error) => {
            Err("there is neither a kubeconfig file nor the service account of a pod: set \
             KUBECONFIG, or run with --no-cluster and --tls-cert"
                .to_owned())
        }
        Err(_) => Err(format!("the kubeconfig file: {error}")),
    }
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The user name of the server; `None` if the API server does not respond or does not support it.
async fn account(client: &Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let (params, review) = (PostParams::default(), SelfSubjectReview::default());
    let answer = tokio::time::timeout(ACCOUNT_TIME, reviews.create(&params, &review));
    answer.await.ok()?.ok()?.status?.user_info?.username
}
