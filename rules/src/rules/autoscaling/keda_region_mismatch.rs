//! A trigger signs its requests for another region than that of the address it asks.
//!
//! # Why
//! A queue, a workspace of Amazon Managed Service for Prometheus and a cluster of MSK belong to one region,
//! which is part of their address. KEDA asks and signs for the region in `awsRegion`: SQS answers that the
//! queue does not exist, the others reject the signature. The metric cannot be read, and the replicas stay
//! where they are.
//!
//! # Fix
//! Write the region of the address in `awsRegion`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: worker, namespace: jobs}
//!  spec:
//!    scaleTargetRef: {name: worker}
//!    minReplicaCount: 1
//!    maxReplicaCount: 10
//!    triggers:
//!      - type: aws-sqs-queue
//!        authenticationRef: {name: aws}
//!        metadata:
//!          queueURL: https://sqs.eu-west-1.amazonaws.com/111122223333/jobs
//!          queueLength: "5"
//! -        awsRegion: us-east-1 # <-
//! +        awsRegion: eu-west-1
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/aws-sqs/>
//! - <https://keda.sh/docs/latest/scalers/prometheus/#example-amazon-managed-service-for-prometheus>
//! - <https://docs.aws.amazon.com/general/latest/gr/sqs-service.html>

use crate::facts::region;
use crate::facts::url::host;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-region-mismatch",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_region_mismatch.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The types whose address has a region, and the key of the address.
const ADDRESSES: [(&str, &str); 4] = [
    ("aws-sqs-queue", "queueURL"),
    ("prometheus", "serverAddress"),
    ("kafka", "bootstrapServers"),
    ("apache-kafka", "bootstrapServers"),
];

/// KEDA 2.18: `aws_sqs_queue_scaler.go`, `aws/aws_sigv4.go`, and `GetAwsAuthorization` of the scalers for Kafka.
fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (_, key) = ADDRESSES.into_iter().find(|(kind, _)| trigger.kind() == Some(*kind))?;
    let metadata = trigger.metadata();
    let (address, node) = (metadata.get(key), metadata.get("awsRegion"));
    let written = node.text().filter(|text| region::is_name(text))?;
    // Another endpoint may be in the region that is written.
    if metadata.get("awsEndpoint").is_set() || ctx.object().may_lack_fields() {
        return None;
    }
    let mut regions = address.text()?.split(',').map(|one| region_of(host(one.trim())));
    let of_address = regions.next().flatten()?;
    if of_address == written || regions.any(|other| other != Some(of_address)) {
        return None;
    }
    let object = ctx.object();
    ctx.report(&node, format!("KEDA signs for `{written}`, and the address is in `{of_address}`"))
        .help(format!("write `{of_address}`, or the address in `{written}`"))
        .related(object, &address, "the address")
        .fix(Fix::unsafe_(format!("write `{of_address}`")).set(&node, json!(of_address)));
    None
}

/// The region in the host of a service of AWS.
fn region_of(host: &str) -> Option<&str> {
    let is_of_aws = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].iter().any(|end| host.ends_with(end));
    host.split('.').find(|label| is_of_aws && region::is_name(label))
}
