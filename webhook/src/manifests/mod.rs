//! The objects that install the webhook in a cluster.
//!
//! Which kinds the webhooks match and the server may read follows from the rule table. The templates of the
//! Helm chart are generated from the same objects.

#[cfg(test)]
mod chart;
mod objects;
mod webhooks;

use gpulint_rules::Kind;
use serde_json::Value;

use crate::kinds;

pub use webhooks::webhook_configurations;

/// The parameters of an installation.
#[derive(Clone, Debug)]
pub struct Install {
    /// The name of every object but the Namespace.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The container image.
    pub image: String,
    /// The number of replicas.
    pub replicas: u32,
    /// Whether the validating webhook's `failurePolicy` is Fail instead of Ignore.
    pub fail: bool,
    /// The `timeoutSeconds` of both webhooks.
    pub timeout_seconds: u32,
    /// Namespaces that the webhooks do not match, besides their own.
    pub exempt_namespaces: Vec<String>,
    /// Names of kinds that the webhooks do not match.
    pub exclude_kinds: Vec<String>,
    /// Whether the pods may run on nodes of Karpenter.
    pub karpenter_nodes: bool,
    /// Whether the pods are on the network of their nodes: where the API server does not reach that of pods.
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
            exclude_kinds: Vec::new(),
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

/// Kinds that are created between a pending pod and the node that runs it. With `failurePolicy: Fail` an
/// unavailable webhook would block them, and with them its own pods.
pub const NODE_BLOCKING: &[&str] = &["Node", "NodeClaim", "Pod"];

/// The parameters are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// `failurePolicy: Fail` with [`NODE_BLOCKING`] kinds.
    #[error(
        "failure policy Fail could keep nodes from being made: exclude {0} (--exclude-kinds {1}), \
         or stay with Ignore"
    )]
    BlocksNodes(String, String),
    /// An excluded kind that no rule checks.
    #[error("no rule is asked about the kind `{0}`")]
    UnknownKind(String),
    /// A timeout outside of 1 to 10 seconds.
    #[error("a timeout of {0} seconds: 1 to 10 are possible")]
    Timeout(u32),
}

impl Install {
    /// Validates the parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn check(&self) -> Result<(), InstallError> {
        for kind in &self.exclude_kinds {
            if !kinds::checked().iter().any(|k| k.kind == kind) {
                return Err(InstallError::UnknownKind(kind.clone()));
            }
        }
        if !(1..=10).contains(&self.timeout_seconds) {
            return Err(InstallError::Timeout(self.timeout_seconds));
        }
        let blocking: Vec<&str> =
            self.matched().map(|kind| kind.kind).filter(|kind| NODE_BLOCKING.contains(kind)).collect();
        if self.fail && !blocking.is_empty() {
            return Err(InstallError::BlocksNodes(blocking.join(", "), blocking.join(",")));
        }
        Ok(())
    }

    /// The kinds that the validating webhook matches.
    fn matched(&self) -> impl Iterator<Item = Kind> {
        let excluded = |kind: &Kind| self.exclude_kinds.iter().any(|e| e == kind.kind);
        kinds::checked().iter().copied().filter(move |k| !excluded(k))
    }
}

/// Every object, in the order in which to apply them.
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
/// An object that cannot be represented in YAML. None of [`objects()`] is.
pub fn yaml(objects: &[Value]) -> Result<String, serde_saphyr::ser::Error> {
    let mut out = String::new();
    for object in objects {
        out.push_str("---\n");
        out.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(out)
}
