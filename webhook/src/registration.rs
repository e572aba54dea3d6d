//! The webhook configurations: whether the API server sends requests to this server, and the caBundle by which it
//! trusts it.
//!
//! If the server is registered by URL, it owns the configurations and reconciles them by server-side apply. Those with
//! a Service come from manifests or a chart, which also give the server their webhooks as installed: it restores these
//! after changes by others, and updates their caBundle. It does not create them, so that deleting them switches it off.
//! Where it may not write them, because cert-manager keeps the caBundle, it says what differs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cause::Cause;
use crate::manifests::{Install, installed_file, webhook_configurations};
use crate::metrics::Metrics;

/// The field manager of applied fields.
const FIELD_MANAGER: &str = "gpulint";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const KINDS: [&str; 2] = [VALIDATING, "MutatingWebhookConfiguration"];

/// The webhook configurations that the server checks.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The name of both webhook configurations.
    pub name: String,
    /// The base URL of configurations that the server creates itself; `None` if they refer to a Service. Example:
    /// `https://10.0.0.7:8443`.
    pub url: Option<String>,
    /// The folder with the webhooks as installed, a file for each configuration; `None` if they are not known.
    pub installed: Option<PathBuf>,
}

/// Whether the API server sends requests to this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    Yes,
    Missing,
    /// Its webhooks have another target, or none.
    Elsewhere,
    /// Its webhooks differ from those that were installed, in this field.
    Edited(String),
    /// It cannot be read or written, with the cause.
    Unknown(Cause),
}

impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Registered::Yes => f.write_str("ok"),
            Registered::Missing => {
                f.write_str("it does not exist; `gpulint webhook manifests` and the chart make it")
            }
            Registered::Elsewhere => f.write_str("its webhooks do not lead to this server"),
            Registered::Edited(field) => write!(f, "{field} is not as installed"),
            Registered::Unknown(cause) => f.write_str(cause.words()),
        }
    }
}

/// The last result for each configuration. Changes are logged and counted.
#[derive(Debug, Default)]
pub(crate) struct RegistrationState {
    found: Mutex<BTreeMap<&'static str, Registered>>,
}

impl RegistrationState {
    fn set(&self, kind: &'static str, name: &str, now: Registered, metrics: &Metrics) {
        // What the API server does while it cannot be asked is not known: it goes on as it was.
        if !matches!(now, Registered::Unknown(_)) {
            metrics.registered(kind, now == Registered::Yes);
        }
        let mut found = self.lock();
        if found.get(kind) == Some(&now) {
            return;
        }
        match &now {
            Registered::Yes => tracing::info!(kind, name, "registered: the API server asks this server"),
            // The watches log a lost connection.
            Registered::Unknown(Cause::Connection(_)) => {}
            Registered::Unknown(cause) => {
                tracing::warn!(kind, name, cause = cause.words(), "the registration was not read");
            }
            edited @ Registered::Edited(_) => {
                tracing::error!(kind, name, cause = %edited, "the registration was edited: the API server may not ask about all objects");
            }
            other if kind == VALIDATING => {
                tracing::error!(kind, name, cause = %other, "not registered: objects are not checked");
            }
            other => tracing::error!(kind, name, cause = %other, "not registered: objects are not repaired"),
        }
        found.insert(kind, now);
    }

    /// The last result for each configuration; empty before the first check.
    pub(crate) fn found(&self) -> BTreeMap<&'static str, Registered> {
        self.lock().clone()
    }

    /// A poisoned lock is usable: every change is a single call on the map.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Registered>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the configurations, and keeps them up to date.
#[derive(Clone)]
pub(crate) struct Registrar {
    client: Client,
    registration: Registration,
    install: Install,
}

impl Registrar {
    pub(crate) fn new(client: Client, registration: Registration, install: Install) -> Registrar {
        Registrar { client, registration, install }
    }

    /// Checks both configurations. With a bundle they are updated: the caBundle of every webhook, and the whole
    /// configuration if it is registered by URL. Returns whether all webhooks have the bundle now; a write conflict is
    /// resolved in the next call.
    pub(crate) async fn keep(
        &self,
        bundle: Option<&[u8]>,
        state: &RegistrationState,
        metrics: &Metrics,
    ) -> bool {
        let mut all = true;
        for (kind, wanted) in KINDS.into_iter().zip(webhook_configurations(&self.install)) {
            let api = self.api(kind);
            let kept = match (bundle, &self.registration.url) {
                (Some(bundle), Some(_)) => self.keep_whole(&api, with_bundle(wanted, bundle)).await,
                (Some(bundle), None) => self.keep_installed(&api, self.installed(kind), bundle).await,
                (None, _) => self.look(&api, self.installed(kind)).await,
            };
            let now = match kept {
                Ok(now) => now,
                // Another replica was faster.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    all = false;
                    continue;
                }
                Err(error) => Registered::Unknown(Cause::of(&error)),
            };
            all &= now == Registered::Yes;
            state.set(kind, &self.registration.name, now, metrics);
        }
        all
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let plural = format!("{}s", kind.to_lowercase());
        Api::all_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, &plural))
    }

    /// The webhooks of a configuration as installed; `None` if they are not known.
    fn installed(&self, kind: &str) -> Option<Value> {
        let text = std::fs::read(self.registration.installed.as_ref()?.join(installed_file(kind))).ok()?;
        let webhooks: Value = serde_json::from_slice(&text).ok()?;
        webhooks.as_array().is_some_and(|webhooks| !webhooks.is_empty()).then_some(webhooks)
    }

    async fn look(&self, api: &Api<DynamicObject>, installed: Option<Value>) -> kube::Result<Registered> {
        let Some(found) = api.get_opt(&self.registration.name).await? else {
            return Ok(Registered::Missing);
        };
        let edited = installed.and_then(|wanted| difference(&wanted, &found.data["webhooks"]));
        Ok(edited.map_or_else(|| self.leads_here(&found), Registered::Edited))
    }

    /// Restores the webhooks of a configuration that was created by others, and sets their caBundle.
    async fn keep_installed(
        &self,
        api: &Api<DynamicObject>,
        installed: Option<Value>,
        bundle: &[u8],
    ) -> kube::Result<Registered> {
        let name = &self.registration.name;
        let Some(mut found) = api.get_opt(name).await? else {
            return Ok(Registered::Missing);
        };
        let edited = installed.and_then(|wanted| {
            let field = difference(&wanted, &found.data["webhooks"])?;
            found.data["webhooks"] = wanted;
            Some(field)
        });
        if set_bundle(&mut found.data, bundle) || edited.is_some() {
            found = api.replace(name, &PostParams::default(), &found).await?;
        }
        if let Some(field) = edited {
            tracing::warn!(name, field, "the webhook configuration was changed, and is as installed again");
        }
        Ok(self.leads_here(&found))
    }

    /// Applies a configuration that the server owns, if it differs.
    async fn keep_whole(&self, api: &Api<DynamicObject>, wanted: Value) -> kube::Result<Registered> {
        let name = &self.registration.name;
        let is_whole =
            |found: &DynamicObject| without_defaults(&found.data["webhooks"]) == wanted["webhooks"];
        if let Some(mut found) = api.get_opt(name).await? {
            if is_whole(&found) {
                return Ok(Registered::Yes);
            }
            // Those of an installation in the cluster are not taken over.
            if webhooks(&mut found.data).any(|webhook| webhook["clientConfig"]["service"].is_object()) {
                return Ok(Registered::Elsewhere);
            }
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let mut applied = api.patch(name, &params, &Patch::Apply(&wanted)).await?;
        if !is_whole(&applied) {
            // Server-side apply keeps what others have added, such as a condition that no request matches.
            applied.data["webhooks"] = wanted["webhooks"].clone();
            api.replace(name, &PostParams::default(), &applied).await?;
        }
        tracing::info!(name, "the webhook configuration was written");
        Ok(Registered::Yes)
    }

    /// Whether all webhooks of a configuration have this server as their target, and one of them matches something.
    fn leads_here(&self, found: &DynamicObject) -> Registered {
        let webhooks = found.data["webhooks"].as_array().map_or(&[][..], Vec::as_slice);
        let leads = |webhook: &Value| {
            let client = &webhook["clientConfig"];
            match &self.registration.url {
                Some(url) => {
                    client["url"].as_str().is_some_and(|found| found.starts_with(url.trim_end_matches('/')))
                }
                None => {
                    client["service"]["name"] == *self.install.name
                        && client["service"]["namespace"] == *self.install.namespace
                }
            }
        };
        let matches = |webhook: &Value| webhook["rules"].as_array().is_some_and(|rules| !rules.is_empty());
        if webhooks.iter().any(matches) && webhooks.iter().all(leads) {
            Registered::Yes
        } else {
            Registered::Elsewhere
        }
    }
}

fn webhooks(configuration: &mut Value) -> impl Iterator<Item = &mut Value> {
    configuration.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten()
}

fn with_bundle(mut wanted: Value, bundle: &[u8]) -> Value {
    set_bundle(&mut wanted, bundle);
    wanted
}

/// Returns whether anything was changed.
fn set_bundle(configuration: &mut Value, bundle: &[u8]) -> bool {
    let bundle = Value::from(STANDARD.encode(bundle));
    let mut changed = false;
    for webhook in webhooks(configuration) {
        if webhook["clientConfig"]["caBundle"] != bundle {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
            changed = true;
        }
    }
    changed
}

/// The first field in which webhooks differ from those that are wanted, the caBundle aside; `None` if they do not.
fn difference(wanted: &Value, found: &Value) -> Option<String> {
    let (wanted, found) = (comparable(wanted), comparable(found));
    let count = wanted.as_array().map_or(0, Vec::len);
    for at in 0..count {
        let (wanted, found) = (&wanted[at], &found[at]);
        let fields =
            [wanted, found].into_iter().filter_map(Value::as_object).flat_map(|webhook| webhook.keys());
        if let Some(field) = fields.into_iter().find(|field| wanted[*field] != found[*field]) {
            return Some(format!("webhooks[{at}].{field}"));
        }
    }
    (found.as_array().map_or(0, Vec::len) != count).then(|| "webhooks".to_owned())
}

/// The webhooks [`without_defaults`], without caBundle and without a null in the place of an absent URL.
fn comparable(webhooks: &Value) -> Value {
    let mut webhooks = without_defaults(webhooks);
    for webhook in webhooks.as_array_mut().into_iter().flatten() {
        if let Some(client) = webhook["clientConfig"].as_object_mut() {
            client.retain(|field, value| field != "caBundle" && !value.is_null());
        }
    }
    webhooks
}

/// The webhooks without the defaults that the API server adds to those of [`webhook_configurations`].
fn without_defaults(webhooks: &Value) -> Value {
    let mut webhooks = webhooks.clone();
    for webhook in webhooks.as_array_mut().into_iter().flatten() {
        if webhook["objectSelector"] == json!({})
            && let Some(webhook) = webhook.as_object_mut()
        {
            webhook.remove("objectSelector");
        }
    }
    webhooks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_set_where_it_differs() {
        let [mut configuration, _] = webhook_configurations(&Install::default());
        assert!(set_bundle(&mut configuration, b"a"));
        assert!(!set_bundle(&mut configuration, b"a"));
        assert!(set_bundle(&mut configuration, b"b"));
        assert_eq!(configuration["webhooks"][0]["clientConfig"]["caBundle"], "Yg==");
    }

    #[test]
    fn the_first_field_that_was_edited_is_named() {
        let [configuration, _] = webhook_configurations(&Install::default());
        let wanted = &configuration["webhooks"];
        let mut found = wanted.clone();
        found[1]["clientConfig"]["caBundle"] = "Yg==".into();
        found[1]["clientConfig"].as_object_mut().unwrap().remove("url");
        found[0]["objectSelector"] = json!({});
        assert_eq!(difference(wanted, &found), None);
        for (field, value) in [
            ("failurePolicy", json!("Fail")),
            ("namespaceSelector", json!({})),
            ("rules", json!([])),
            ("objectSelector", json!({"matchLabels": {"none": "at-all"}})),
        ] {
            let mut edited = found.clone();
            edited[1][field] = value;
            assert_eq!(difference(wanted, &edited), Some(format!("webhooks[1].{field}")));
        }
        found.as_array_mut().unwrap().push(json!({"name": "more"}));
        assert_eq!(difference(wanted, &found), Some("webhooks".to_owned()));
    }

    #[test]
    fn what_the_api_server_adds_is_no_change_and_a_selector_is() {
        let [wanted, _] = webhook_configurations(&Install::default());
        let mut found = wanted["webhooks"].clone();
        found[0]["objectSelector"] = json!({});
        assert_eq!(without_defaults(&found), wanted["webhooks"]);
        found[0]["objectSelector"] = json!({"matchLabels": {"none": "at-all"}});
        assert_ne!(without_defaults(&found), wanted["webhooks"]);
    }
}
