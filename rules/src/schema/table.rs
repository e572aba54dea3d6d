//! Which kinds have a schema, and where it stands.

use std::sync::{LazyLock, OnceLock};

use jsonschema::Validator;
use serde_json::Value;

use crate::kind::Kind;
use crate::object::ObjectId;

use super::instance::TreeJson;
use super::structural::{of_core, of_crd, read_yaml};
use crate::schema::fast_accept::FastAccept;

/// A kind in a version.
pub(super) struct SchemaEntry {
    pub(super) kind: Kind,
    pub(super) version: &'static str,
    pub(super) source: SchemaSource,
    fast_accept: OnceLock<Option<FastAccept>>,
    validator: OnceLock<Option<Validator<TreeJson>>>,
    structural: OnceLock<Value>,
}

/// Where a schema comes from.
pub(super) enum SchemaSource {
    /// A structural schema in YAML.
    Crd(&'static str),
    /// A generated type.
    Core(&'static str),
}

fn crd(kind: Kind, version: &'static str, text: &'static str) -> SchemaEntry {
    entry(kind, version, SchemaSource::Crd(text))
}

fn core(kind: Kind, version: &'static str, name: &'static str) -> SchemaEntry {
    entry(kind, version, SchemaSource::Core(name))
}

fn entry(kind: Kind, version: &'static str, source: SchemaSource) -> SchemaEntry {
    SchemaEntry {
        kind,
        version,
        source,
        fast_accept: OnceLock::new(),
        validator: OnceLock::new(),
        structural: OnceLock::new(),
    }
}

/// Every schema: to add one, write the file and a line here.
pub(super) static SCHEMAS: LazyLock<Vec<SchemaEntry>> = LazyLock::new(|| {
    vec![
        crd(Kind::NODE_POOL, "v1", include_str!("../../schemas/karpenter.sh/v1/NodePool.yaml")),
        crd(Kind::NODE_CLAIM, "v1", include_str!("../../schemas/karpenter.sh/v1/NodeClaim.yaml")),
        crd(
            Kind::NODE_OVERLAY,
            "v1alpha1",
            include_str!("../../schemas/karpenter.sh/v1alpha1/NodeOverlay.yaml"),
        ),
        crd(Kind::EC2_NODE_CLASS, "v1", include_str!("../../schemas/karpenter.k8s.aws/v1/EC2NodeClass.yaml")),
        crd(
            Kind::SCALED_OBJECT,
            "v1alpha1",
            include_str!("../../schemas/keda.sh/v1alpha1/ScaledObject.yaml"),
        ),
        crd(Kind::SCALED_JOB, "v1alpha1", include_str!("../../schemas/keda.sh/v1alpha1/ScaledJob.yaml")),
        crd(
            Kind::TRIGGER_AUTHENTICATION,
            "v1alpha1",
            include_str!("../../schemas/keda.sh/v1alpha1/TriggerAuthentication.yaml"),
        ),
        crd(
            Kind::CLUSTER_TRIGGER_AUTHENTICATION,
            "v1alpha1",
            include_str!("../../schemas/keda.sh/v1alpha1/TriggerAuthentication.yaml"),
        ),
        core(Kind::POD, "v1", "io.k8s.api.core.v1.Pod"),
        core(Kind::SERVICE, "v1", "io.k8s.api.core.v1.Service"),
        core(Kind::DEPLOYMENT, "v1", "io.k8s.api.apps.v1.Deployment"),
        core(Kind::STATEFUL_SET, "v1", "io.k8s.api.apps.v1.StatefulSet"),
        core(Kind::DAEMON_SET, "v1", "io.k8s.api.apps.v1.DaemonSet"),
        core(Kind::REPLICA_SET, "v1", "io.k8s.api.apps.v1.ReplicaSet"),
        core(Kind::JOB, "v1", "io.k8s.api.batch.v1.Job"),
        core(Kind::CRON_JOB, "v1", "io.k8s.api.batch.v1.CronJob"),
        core(Kind::HPA, "v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"),
        core(Kind::HPA, "v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler"),
        core(Kind::PDB, "v1", "io.k8s.api.policy.v1.PodDisruptionBudget"),
        core(Kind::RESOURCE_CLAIM, "v1", "io.k8s.api.resource.v1.ResourceClaim"),
        core(Kind::RESOURCE_CLAIM, "v1beta2", "io.k8s.api.resource.v1beta2.ResourceClaim"),
        core(Kind::RESOURCE_CLAIM, "v1beta1", "io.k8s.api.resource.v1beta1.ResourceClaim"),
        core(Kind::RESOURCE_CLAIM_TEMPLATE, "v1", "io.k8s.api.resource.v1.ResourceClaimTemplate"),
        core(Kind::RESOURCE_CLAIM_TEMPLATE, "v1beta2", "io.k8s.api.resource.v1beta2.ResourceClaimTemplate"),
        core(Kind::RESOURCE_CLAIM_TEMPLATE, "v1beta1", "io.k8s.api.resource.v1beta1.ResourceClaimTemplate"),
        core(Kind::DEVICE_CLASS, "v1", "io.k8s.api.resource.v1.DeviceClass"),
        core(Kind::DEVICE_CLASS, "v1beta2", "io.k8s.api.resource.v1beta2.DeviceClass"),
        core(Kind::DEVICE_CLASS, "v1beta1", "io.k8s.api.resource.v1beta1.DeviceClass"),
        core(
            Kind::VALIDATING_WEBHOOK_CONFIGURATION,
            "v1",
            "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        ),
        core(
            Kind::MUTATING_WEBHOOK_CONFIGURATION,
            "v1",
            "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        ),
    ]
});

/// The schema of an object's kind in its version.
pub(super) fn find(id: &ObjectId) -> Option<&'static SchemaEntry> {
    SCHEMAS.iter().find(|e| e.version == id.version && id.is(e.kind))
}

impl SchemaEntry {
    /// The validator, built by whoever asks first.
    pub(super) fn validator(&self) -> Option<&Validator<TreeJson>> {
        let build = || super::check::validator(&self.schema()?);
        self.validator.get_or_init(build).as_ref()
    }

    /// What says of most objects that they are valid, built by whoever asks first.
    pub(super) fn fast_accept(&self) -> Option<&FastAccept> {
        let build = || Some(FastAccept::new(&self.schema()?));
        self.fast_accept.get_or_init(build).as_ref()
    }

    /// The JSON Schema, made anew: both that are built of it keep what they need.
    fn schema(&self) -> Option<Value> {
        match self.source {
            SchemaSource::Crd(text) => Some(of_crd(&read_yaml(text), self.kind.group == "keda.sh")),
            SchemaSource::Core(name) => of_core(name),
        }
    }

    /// The structural schema, for those who ask what fields there are.
    pub(super) fn structural(&self) -> &Value {
        self.structural.get_or_init(|| match self.source {
            SchemaSource::Crd(text) => read_yaml(text),
            SchemaSource::Core(name) => super::core::definition(name).cloned().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SCHEMAS;

    #[test]
    fn every_schema_builds() {
        for entry in SCHEMAS.iter() {
            assert!(entry.validator().is_some(), "{} {}", entry.kind, entry.version);
        }
    }
}
