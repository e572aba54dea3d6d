//! An object is written for an API that Karpenter no longer serves.
//!
//! # Why
//!
//! Provisioner, AWSNodeTemplate and Machine went with v0.33; the v1beta1 kinds went with 1.1. The
//! API server answers such an object with 404, and where an old CRD is still installed nobody
//! acts on it: the pool exists on paper and no node ever starts.
//!
//! # Fix
//!
//! Write a `karpenter.sh/v1` NodePool and a `karpenter.k8s.aws/v1` EC2NodeClass. Limits move from
//! `spec.limits.resources` to `spec.limits`, `ttlSecondsAfterEmpty` becomes `consolidateAfter`
//! with `WhenEmpty`, and an absent `ttlSecondsUntilExpired` becomes `expireAfter: Never`, because
//! absence means 720h now. NodePools no longer default to On-Demand, amd64 and linux: write the
//! requirements out.
//!
//! # Bad
//!
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1alpha5 # <-
//! kind: Provisioner
//! metadata:
//!   name: gpu
//! spec:
//!   requirements:
//!     - {key: node.kubernetes.io/instance-type, operator: In, values: [p4d.24xlarge]}
//!   providerRef:
//!     name: gpu
//! ```
//!
//! # Good
//!
//! ```yaml,good
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: gpu
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!       requirements:
//!         - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p4d, p5]}
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!       taints:
//!         - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!       expireAfter: Never
//!   limits:
//!     nvidia.com/gpu: 16
//!   disruption:
//!     consolidationPolicy: WhenEmpty
//!     consolidateAfter: 10m
//! ```
//!
//! # References
//!
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>
//! - <https://karpenter.sh/v0.32/upgrading/v1beta1-migration/>

use crate::finding::Severity;
use crate::object::{Kind, Object};
use crate::rule::{Authority, Check, Context, Group, Rule, docs};
use crate::settings::Version;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-api",
    group: Group::Migration,
    severity: Severity::Error,
    since: "0.1.0",
    kinds: &[
        Kind::NODE_POOL,
        Kind::NODE_CLAIM,
        Kind::EC2_NODE_CLASS,
        Kind::new("karpenter.sh", "Provisioner"),
        Kind::new("karpenter.sh", "Machine"),
        Kind::new("karpenter.k8s.aws", "AWSNodeTemplate"),
        Kind::new("provisioning.karpenter.sh", "Provisioner"),
        Kind::new("provisioner.karpenter.sh", "Provisioner"),
    ],
    reads: &[],
    params: &[],
    refused_by: &[Authority::ApiServer],
    fix: None,
    docs: docs(include_str!("karpenter_legacy_api.rs")),
    check: Check::Object(check),
};

fn check(object: &Object, ctx: &mut Context<'_>) {
    let id = object.id();
    let successor = match id.kind.as_str() {
        "Provisioner" => "a `karpenter.sh/v1` NodePool",
        "AWSNodeTemplate" => "a `karpenter.k8s.aws/v1` EC2NodeClass",
        "Machine" => "nothing: NodeClaims are made by Karpenter",
        _ => match id.version.as_str() {
            "v1" => return,
            "v1beta1" => {
                let served = ctx.platform().karpenter < Version::new(1, 1);
                let karpenter = ctx.platform().karpenter;
                let finding = ctx.report(
                    &object.get("apiVersion"),
                    if served {
                        format!(
                            "{} `{}` is deprecated in Karpenter {karpenter}",
                            id.kind,
                            id.api_version()
                        )
                    } else {
                        format!(
                            "Karpenter {karpenter} does not serve {} `{}`",
                            id.kind,
                            id.api_version()
                        )
                    },
                );
                finding.help(format!(
                    "write `{}/v1`, and move the fields as the manual says",
                    id.group
                ));
                if served {
                    finding.severity(Severity::Warning);
                }
                return;
            }
            version if version.starts_with("v1alpha") => "the `v1` kind of the same name",
            _ => return,
        },
    };
    let old = format!("{} `{}`", id.kind, id.api_version());
    ctx.report(
        &object.get("apiVersion"),
        format!("no current Karpenter serves {old}"),
    )
    .help(format!(
        "its successor is {successor}; the manual has the fields"
    ));
}
