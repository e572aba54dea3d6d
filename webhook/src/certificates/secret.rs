//! Reads and writes the Secret. Replicas are coordinated by the resource version: if a write conflicts, the replica
//! reads the Secret again and computes a new plan.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::plan::{after_deletion, plan};
use super::{CertificateSpec, MakeError, SecretData};
use crate::cause::Cause;

/// Maximum number of write conflicts before the reconciliation is left to the next run.
const ATTEMPTS: usize = 8;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Make(#[from] MakeError),
    #[error("the Secret `{name}`: {}", Cause::of(source).words())]
    Api { name: String, source: kube::Error },
    #[error(
        "the namespace `{0}` does not exist: `kubectl create namespace {0}` makes it, --namespace names another one"
    )]
    NoNamespace(String),
    #[error("the Secret `{0}` changes all the time")]
    Contended(String),
}

/// Access to the Secret.
#[derive(Clone)]
pub(crate) struct Store {
    api: Api<Secret>,
    namespace: String,
    name: String,
}

impl Store {
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Store {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Store { api: Api::namespaced(client, &namespace), namespace, name }
    }

    /// Reconciles the Secret and returns its data. If the Secret was deleted, a new CA is created, and the certificate
    /// in `before`, the last known data, is served until that CA is trusted.
    pub(crate) async fn reconcile(
        &self,
        wanted: &CertificateSpec,
        before: Option<&SecretData>,
        now: impl Fn() -> i64,
    ) -> Result<SecretData, StoreError> {
        for _ in 0..ATTEMPTS {
            let found = self.api.get_opt(&self.name).await.map_err(|e| self.error(e))?;
            let held = match (&found, before) {
                (Some(secret), _) => secret_data(secret),
                (None, Some(before)) => after_deletion(before),
                (None, None) => SecretData::default(),
            };
            let Some(new) = plan(&held, wanted, now())? else {
                return Ok(held);
            };
            let is_new = found.is_none();
            let written = match found {
                None => self.create(&new).await,
                Some(secret) => self.replace(secret, &new).await,
            };
            match written {
                Ok(()) => {
                    tracing::info!(secret = %self.name, "certificates were renewed");
                    return Ok(new);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if is_new && status.code == 404 => {
                    return Err(StoreError::NoNamespace(self.namespace.clone()));
                }
                Err(error) => return Err(self.error(error)),
            }
        }
        Err(StoreError::Contended(self.name.clone()))
    }

    async fn create(&self, keys: &SecretData) -> kube::Result<()> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(BTreeMap::from([("app.kubernetes.io/name".to_owned(), "gpulint".to_owned())])),
                ..ObjectMeta::default()
            },
            data: Some(encode_data(keys)),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        let params = PostParams::default();
        self.api.create(&params, &secret).await.map(|_| ())
    }

    /// Fails with a conflict if the resource version has changed since the Secret was read.
    async fn replace(&self, mut secret: Secret, keys: &SecretData) -> kube::Result<()> {
        secret.data = Some(encode_data(keys));
        let params = PostParams::default();
        self.api.replace(&self.name, &params, &secret).await.map(|_| ())
    }

    fn error(&self, source: kube::Error) -> StoreError {
        StoreError::Api { name: self.name.clone(), source }
    }
}

fn secret_data(secret: &Secret) -> SecretData {
    let data = secret.data.iter().flatten();
    SecretData(data.map(|(k, v)| (k.clone(), v.0.clone())).collect())
}

fn encode_data(keys: &SecretData) -> BTreeMap<String, ByteString> {
    let entries = keys.0.iter();
    entries.map(|(k, v)| (k.clone(), ByteString(v.clone()))).collect()
}
