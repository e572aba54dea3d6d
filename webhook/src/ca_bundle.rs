//! Keeps the caBundle of the webhook configurations up to date and, if the server is registered by URL,
//! creates the configurations.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::manifests::{Install, webhook_configurations};

/// The webhook configurations that the server keeps up to date.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The name of both webhook configurations.
    pub name: String,
    /// If set, the server creates the configurations, with this base URL instead of a Service. Example:
    /// `https://10.0.0.7:8443`.
    pub url: Option<String>,
}

/// The configurations cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    #[error("the {kind} `{name}`: {source}")]
    Api { kind: &'static str, name: String, source: kube::Error },
    #[error("the {kind} `{name}` does not exist; `gpulint webhook manifests` prints it")]
    Missing { kind: &'static str, name: String },
    #[error("a webhook configuration cannot be written: {0}")]
    Shape(#[from] serde_json::Error),
}

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

/// Updates the configurations.
#[derive(Clone)]
pub(crate) struct Registrar {
    validating: Api<ValidatingWebhookConfiguration>,
    mutating: Api<MutatingWebhookConfiguration>,
    registration: Registration,
    install: Install,
}

impl Registrar {
    pub(crate) fn new(client: Client, registration: Registration, install: Install) -> Registrar {
        Registrar { validating: Api::all(client.clone()), mutating: Api::all(client), registration, install }
    }

    /// Sets the caBundle of every webhook of both configurations. Returns whether all of them have it now:
    /// after a write conflict that is left to the next call.
    pub(crate) async fn publish(&self, bundle: &[u8]) -> Result<bool, RegisterError> {
        let name = &self.registration.name;
        let error = |kind| move |source| RegisterError::Api { kind, name: name.clone(), source };
        let params = PostParams::default();
        let [validating, mutating] = webhook_configurations(&self.install);
        let mut all = true;

        let found = self.validating.get_opt(name).await;
        match (found.map_err(error(VALIDATING))?, &self.registration.url) {
            (Some(mut found), _) => {
                let webhooks = found.webhooks.iter_mut().flatten();
                if set_bundle(webhooks.map(|w| &mut w.client_config), bundle) {
                    all &= is_written(self.validating.replace(name, &params, &found).await)
                        .map_err(error(VALIDATING))?;
                }
            }
            (None, Some(_)) => {
                let mut new: ValidatingWebhookConfiguration = serde_json::from_value(validating)?;
                let webhooks = new.webhooks.iter_mut().flatten();
                set_bundle(webhooks.map(|w| &mut w.client_config), bundle);
                all &= is_written(self.validating.create(&params, &new).await).map_err(error(VALIDATING))?;
            }
            (None, None) => return Err(missing(VALIDATING, name)),
        }

        let found = self.mutating.get_opt(name).await;
        match (found.map_err(error(MUTATING))?, &self.registration.url) {
            (Some(mut found), _) => {
                let webhooks = found.webhooks.iter_mut().flatten();
                if set_bundle(webhooks.map(|w| &mut w.client_config), bundle) {
                    all &= is_written(self.mutating.replace(name, &params, &found).await)
                        .map_err(error(MUTATING))?;
                }
            }
            (None, Some(_)) => {
                let mut new: MutatingWebhookConfiguration = serde_json::from_value(mutating)?;
                let webhooks = new.webhooks.iter_mut().flatten();
                set_bundle(webhooks.map(|w| &mut w.client_config), bundle);
                all &= is_written(self.mutating.create(&params, &new).await).map_err(error(MUTATING))?;
            }
            (None, None) => return Err(missing(MUTATING, name)),
        }
        Ok(all)
    }
}

fn missing(kind: &'static str, name: &str) -> RegisterError {
    RegisterError::Missing { kind, name: name.to_owned() }
}

/// Returns whether anything was changed.
fn set_bundle<'a>(configs: impl Iterator<Item = &'a mut WebhookClientConfig>, bundle: &[u8]) -> bool {
    let mut changed = false;
    for config in configs {
        if config.ca_bundle.as_ref().map(|b| b.0.as_slice()) != Some(bundle) {
            config.ca_bundle = Some(ByteString(bundle.to_vec()));
            changed = true;
        }
    }
    changed
}

/// False after a write conflict.
fn is_written<T>(result: kube::Result<T>) -> kube::Result<bool> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        other => other.map(|_| true),
    }
}
