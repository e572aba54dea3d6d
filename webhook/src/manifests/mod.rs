//! The objects that install the webhook in a cluster.
//!
//! The kinds that the webhooks match and the server may read follow from the rule table. The templates of the Helm
//! chart are generated from the same objects.

#[cfg(test)]
mod chart;
mod objects;
mod webhooks;

use gpulint_rules::Kind;
use gpulint_rules::lint::settings::WebhookSettings;
use serde_json::{Value, json};

use crate::kinds;
use crate::kinds::{Importance, importance};
pub use objects::{GRANTS, Grant, On};
pub(crate) use webhooks::webhook_configurations;

/// The name of the file in the folder of the configuration that has the webhooks of a webhook configuration, as
/// installed.
pub(crate) fn installed_file(kind: &str) -> String {
    format!("{kind}.json")
}

/// The parameters of an installation.
#[derive(Clone, Debug)]
pub struct Install {
    /// The name of every object but the Namespace.
    pub name: String,
    pub namespace: String,
    pub image: String,
    pub replicas: u32,
    /// Whether the validating webhook's `failurePolicy` is Fail instead of Ignore, for kinds that are
    /// [`Importance::Guarded`].
    pub fail: bool,
    /// The `timeoutSeconds` of the webhooks for guarded kinds.
    pub timeout_seconds: u32,
    /// Namespaces that the webhooks do not match, besides their own.
    pub exempt_namespaces: Vec<String>,
    /// Service accounts whose requests the webhooks do not match, as `NAMESPACE/NAME`.
    pub exempt_accounts: Vec<String>,
    /// Groups of users whose requests the webhooks do not match.
    pub exempt_groups: Vec<String>,
    /// Names of kinds that the webhooks do not match.
    pub exclude_kinds: Vec<String>,
    /// Names of kinds that the webhooks match only if included here ([`Importance::OnRequest`]).
    pub include_kinds: Vec<String>,
    /// Whether the pods may run on nodes of Karpenter.
    pub karpenter_nodes: bool,
    /// Whether the pods use the network of their nodes, for API servers that cannot reach the pod network.
    pub host_network: bool,
    /// Container port of `/validate` and `/mutate`.
    pub port: u16,
    /// Container port of health and metrics.
    pub operations_port: u16,
    /// Whether denials are written as Events.
    pub events: bool,
    /// The text of `gpulint.yaml`.
    pub config: String,
    /// The URL of the webhook if there is no Service.
    pub url: Option<String>,
}

impl Default for Install {
    fn default() -> Install {
        let text = |s: &str| s.to_owned();
        Install {
            name: text("gpulint"),
            namespace: text("gpulint"),
            image: format!("ghcr.io/gpulint/gpulint:{}", env!("CARGO_PKG_VERSION")),
            replicas: 2,
            fail: false,
            timeout_seconds: 3,
            exempt_namespaces: ["karpenter", "kube-node-lease", "kube-public", "kube-system"]
                .map(text)
                .to_vec(),
            exempt_accounts: WebhookSettings::default().exempt_accounts,
            exempt_groups: WebhookSettings::default().exempt_groups,
            exclude_kinds: Vec::new(),
            include_kinds: Vec::new(),
            karpenter_nodes: false,
            host_network: false,
            port: 8443,
            operations_port: 8080,
            events: false,
            config: text("# The defaults; `gpulint schema config` says what can be set.\n{}\n"),
            url: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// An excluded kind that no rule checks.
    #[error("no rule is asked about the kind `{0}`")]
    UnknownKind(String),
    /// An included kind that the webhooks match anyway.
    #[error("`{0}` is not one of the kinds that are asked about on request: {1}")]
    NotOnRequest(String, String),
    /// A timeout outside of 1 to 10 seconds.
    #[error("a timeout of {0} seconds: 1 to 10 are possible")]
    Timeout(u32),
}

impl Install {
    /// Validates the parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub(crate) fn check(&self) -> Result<(), InstallError> {
        for kind in &self.exclude_kinds {
            let is_it = |k: &&Kind| k.kind == kind && importance(**k) != Importance::Exempt;
            if !kinds::checked().iter().any(|k| is_it(&k)) {
                return Err(InstallError::UnknownKind(kind.clone()));
            }
        }
        let on_request = |kind: &&Kind| importance(**kind) == Importance::OnRequest;
        let on_request: Vec<&str> = kinds::checked().iter().filter(on_request).map(|k| k.kind).collect();
        if let Some(wrong) = self.include_kinds.iter().find(|kind| !on_request.contains(&kind.as_str())) {
            return Err(InstallError::NotOnRequest(wrong.clone(), on_request.join(", ")));
        }
        if !(1..=10).contains(&self.timeout_seconds) {
            return Err(InstallError::Timeout(self.timeout_seconds));
        }
        Ok(())
    }

    /// The labels of every object, which also select the pods.
    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": "gpulint", "app.kubernetes.io/instance": self.name})
    }

    /// The kinds that the validating webhooks match: guarded ones, or all others.
    fn matched(&self, guarded: bool) -> impl Iterator<Item = Kind> {
        let names = |names: &[String], kind: &Kind| names.iter().any(|name| name == kind.kind);
        kinds::checked().iter().copied().filter(move |kind| {
            let sort = importance(*kind);
            let is_asked = match sort {
                Importance::Guarded => guarded,
                Importance::Usual => !guarded,
                Importance::OnRequest => !guarded && names(&self.include_kinds, kind),
                Importance::Exempt => false,
            };
            is_asked && !names(&self.exclude_kinds, kind)
        })
    }
}

/// All objects, in the order in which to apply them.
///
/// # Errors
/// The first invalid parameter.
pub fn objects(install: &Install) -> Result<Vec<Value>, InstallError> {
    install.check()?;
    let mut out = objects::all(install);
    out.extend(webhook_configurations(install));
    Ok(out)
}

/// The objects as one YAML stream. Equal objects give equal bytes.
///
/// # Errors
/// An object that cannot be represented in YAML; those of [`objects()`] can.
pub fn yaml(objects: &[Value]) -> Result<String, serde_saphyr::ser::Error> {
    let mut out = String::new();
    for object in objects {
        out.push_str("---\n");
        out.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(out)
}
