//! Karpenter looks for its interruption queue by something that is not a name.
//!
//! # Why
//! Karpenter asks SQS for the address of the queue that `settings.interruptionQueue` (`INTERRUPTION_QUEUE`)
//! names. SQS has no queue whose name is an ARN or a URL. Up to 1.3 Karpenter then ends when it starts, so that
//! no node is made any more. From 1.4 on it runs, and logs `creating sqs provider` again and again: it never
//! learns that EC2 takes a Spot node back or is about to stop an instance, and pods end without a drain.
//!
//! # Fix
//! Write the name: the last part of the ARN or of the URL. The queue has to be in the region and the account
//! of the controller.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: karpenter, version: 1.14.1, sourceRef: {kind: HelmRepository, name: karpenter}}
//!    values:
//!      settings:
//!        clusterName: prod
//! -      interruptionQueue: arn:aws:sqs:eu-west-1:111122223333:prod-karpenter # <-
//! +      interruptionQueue: prod-karpenter
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/settings/>
//! - <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueUrl.html>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6024>

use crate::cluster::values::CHART_SOURCES;
use crate::karpenter::installation::{INSTALLERS, set_option};
use crate::rules::gpu::report_place;
use crate::rules::karpenter_in_use::installed_version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "interruption-queue-invalid",
    kinds: &INSTALLERS,
    reads: &CHART_SOURCES,
    depends_on: &[Product::Karpenter],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("interruption_queue_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// The first version that starts without its queue: `pkg/controllers/controllers.go` of karpenter-provider-aws has `lo.Must` around
/// `GetQueueUrl` in 1.3.0, and ignores the error in 1.4.0, where `pkg/controllers/interruption` asks again.
const STARTS_WITHOUT: Version = Version::new(1, 4);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    let (place, text) = set_option(object, "interruptionQueue", "INTERRUPTION_QUEUE")?;
    let (form, name) = not_a_name(&text)?;
    let installed =
        installed_version(object, ctx.cluster()).map_or(ctx.platform().karpenter, |(_, version)| version);
    let end = match installed < STARTS_WITHOUT {
        true => "it does not start",
        false => "it hears of no interruption",
    };
    let message = format!("this is the {form} of a queue, and Karpenter looks for its name: {end}");
    let finding = report_place(&place, message, ctx).help(format!("write `{}`", ellipsize(name)));
    if !place.is_in_text {
        finding.fix(Fix::unsafe_("write its name").set(&place.node, json!(name)));
    }
    None
}

/// The form in which a text gives a queue of SQS, and the name of the queue.
fn not_a_name(text: &str) -> Option<(&'static str, &str)> {
    let (form, name) = if let Some(rest) = text.strip_prefix("arn:") {
        let [_, "sqs", _, _, name] = rest.split(':').collect::<Vec<_>>()[..] else { return None };
        ("ARN", name)
    } else {
        let (_, rest) = text.split_once("://")?;
        let (host, path) = rest.split_once('/')?;
        ("URL", path.split_once('/').filter(|_| host.contains("sqs") || host.contains("queue"))?.1)
    };
    (!name.is_empty() && !name.contains('/')).then_some((form, name))
}
