//! The components that reject objects.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// The API server: schema, CEL rules of a CRD, built-in validation, strict decoding.
    ApiServer,
    /// KEDA's own validating webhooks.
    KedaAdmission,
    /// Karpenter's controllers, after the API server has accepted the object.
    Karpenter,
}

impl Authority {
    /// The name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Authority::ApiServer => "api-server",
            Authority::KedaAdmission => "keda-admission",
            Authority::Karpenter => "karpenter",
        }
    }

    /// The name in text for people.
    pub fn display_name(self) -> &'static str {
        match self {
            Authority::ApiServer => "the API server",
            Authority::KedaAdmission => "KEDA's admission webhook",
            Authority::Karpenter => "Karpenter's controller",
        }
    }
}
