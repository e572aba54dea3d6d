//! What installs the webhook: the same objects that the Helm chart renders.
//!
//! Which kinds are matched, watched and read follows from the rule table.

mod chart;
mod objects;
mod webhooks;

use gpulint_rules::Kind;
use serde_json::Value;

use crate::kinds;

pub use chart::chart_files;
pub use webhooks::webhook_configurations;

/// What is installed, and how.
#[derive(Clone, Debug)]
pub struct Install {
    /// The name of everything.
    pub name: String,
    /// The namespace of everything that has one.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// How many replicas.
    pub replicas: u32,
    /// The validating webhook's failure policy is Fail instead of Ignore.
    pub fail: bool,
    /// How long the API server waits, in seconds.
    pub timeout_seconds: u32,
    /// Namespaces that are not asked about, besides our own.
    pub exempt_namespaces: Vec<String>,
    /// Kinds that are not matched, by name.
    pub exclude_kinds: Vec<String>,
    /// The pods may run on nodes that Karpenter made.
    pub karpenter_nodes: bool,
    /// The text of `gpulint.yaml`.
    pub config: String,
    /// Without a Service: where the API server reaches the webhook.
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
            config: text("# The defaults; `gpulint schema config` says what can be set.\n{}\n"),
            url: None,
        }
    }
}

/// Kinds that stand between a pod that waits and a node that runs it. With failure policy Fail a
/// dead webhook would keep them from being made, its own pods among them.
pub const NODE_BLOCKING: &[&str] = &["Node", "NodeClaim", "Pod"];

/// What is asked for cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// Fail, and kinds that nodes need.
    #[error(
        "failure policy Fail could keep nodes from being made: exclude {0} (--exclude-kinds {1}), \
         or stay with Ignore"
    )]
    BlocksNodes(String, String),
    /// A kind that no rule is asked about.
    #[error("no rule is asked about the kind `{0}`")]
    UnknownKind(String),
    /// Not 1 to 10 seconds.
    #[error("a timeout of {0} seconds: 1 to 10 are possible")]
    Timeout(u32),
}

impl Install {
    /// Whether it can be installed as asked.
    ///
    /// # Errors
    /// What cannot be.
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

    /// The kinds that the webhooks match.
    fn matched(&self) -> impl Iterator<Item = Kind> {
        let excluded = |kind: &Kind| self.exclude_kinds.iter().any(|e| e == kind.kind);
        kinds::checked().iter().copied().filter(move |k| !excluded(k))
    }
}

/// Every object, in the order in which to apply them.
///
/// # Errors
/// What cannot be installed.
pub fn objects(install: &Install) -> Result<Vec<Value>, InstallError> {
    install.check()?;
    let mut out = objects::all(install);
    out.extend(webhook_configurations(install));
    Ok(out)
}

/// The objects as one YAML stream. The same objects give the same bytes.
///
/// # Errors
/// An object that cannot be written; none of ours.
pub fn yaml(objects: &[Value]) -> Result<String, serde_saphyr::ser::Error> {
    let mut out = String::new();
    for object in objects {
        out.push_str("---\n");
        out.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(out)
}
