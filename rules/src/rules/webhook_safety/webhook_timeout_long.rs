//! A webhook's long timeout delays the requests that it matches.
//!
//! # Why
//! While a webhook hangs, every request that it is asked about waits for `timeoutSeconds`, ten by
//! default, and then fails where the policy is `Fail`. Retries of controllers pile up behind it;
//! a rollout of a hundred pods that wait ten seconds each looks like an outage of the API server.
//!
//! # Fix
//! Set `timeoutSeconds` to what the webhook really needs: it answers within milliseconds. Up to
//! `seconds` (10) are accepted, and up to `pod-seconds` (5) where it is called for pods. Where a webhook
//! is called for custom resources alone, this is information.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: admissionregistration.k8s.io/v1
//!  kind: MutatingWebhookConfiguration
//!  metadata: {name: sidecars}
//!  webhooks:
//!    - name: sidecars.example.com
//!      failurePolicy: Fail
//! -    timeoutSeconds: 30 # <-
//! +    timeoutSeconds: 5
//!      sideEffects: None
//!      admissionReviewVersions: [v1]
//!      clientConfig:
//!        service: {namespace: sidecars, name: sidecars, path: /mutate}
//!      namespaceSelector:
//!        matchLabels: {sidecars: enabled}
//!      rules:
//!        - apiGroups: [""]
//!          apiVersions: [v1]
//!          operations: [CREATE]
//!          resources: [pods]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/>
//! - <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#timeouts>

use crate::rules::manifest_purpose::is_copy;
use crate::rules::prelude::*;
use crate::workload::admission_webhook::{KINDS, PODS, Webhook};

pub(crate) static RULE: Rule = Rule {
    id: "webhook-timeout-long",
    kinds: &KINDS,
    params: &[
        Param {
            name: "seconds",
            description: "the longest timeout of any webhook with failurePolicy Fail, in seconds",
            default: ParamDefault::Int { default: 10, min: 1, max: 30 },
        },
        Param {
            name: "pod-seconds",
            description: "the longest timeout of one that is asked about pods, in seconds",
            default: ParamDefault::Int { default: 5, min: 1, max: 30 },
        },
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("webhook_timeout_long.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::WebhookSafety)
};

/// Default timeout of the API server, in seconds.
const DEFAULT: i64 = 10;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for webhook in Webhook::of(object) {
        if !webhook.fails_closed(object.is_partial()) {
            continue;
        }
        let timeout = webhook.get("timeoutSeconds");
        let seconds = if timeout.is_set() { timeout.int() } else { Some(DEFAULT) };
        // If match conditions or required labels exclude most pods, few requests wait; a patch may add them.
        let narrowed = webhook.has_unevaluated_conditions() || object.is_patched_by_kustomize();
        let pods = webhook.intercepts(PODS) && !narrowed;
        let most = ctx.int("seconds");
        let most = if pods { most.min(ctx.int("pod-seconds")) } else { most };
        // The API server rejects more than thirty, which is reported by another rule.
        let Some(seconds) = seconds.filter(|s| (most + 1..=30).contains(s)) else { continue };
        let what = if pods { "new pods".to_owned() } else { requests(&webhook) };
        // Whoever installs a release does not edit it for requests that few send.
        if !pods && is_copy(object) {
            continue;
        }
        let long = if timeout.is_set() { format!("{seconds}s") } else { format!("{seconds}s, the default,") };
        let finding =
            ctx.report(&timeout, format!("{what} wait up to {long} for this webhook, and then fail"));
        finding.help(format!("write `timeoutSeconds: {most}` or less")).fix(
            Fix::new(format!("write `timeoutSeconds: {most}`; check how long it takes"), Safety::Unsafe)
                .set(&timeout, json!(most)),
        );
        // A user of published manifests did not choose the default of the API server.
        if !timeout.is_set() || is_of_one_operator(&webhook) || !(pods || holds_workloads_up(&webhook)) {
            finding.severity(Severity::Info);
        }
    }
    None
}

/// The requests that wait: those for the first resource of the rules.
fn requests(webhook: &Webhook<'_>) -> String {
    let rules = webhook.get("rules");
    let mut names = Vec::new();
    for name in rules.items().flat_map(|rule| rule.get("resources").items().collect::<Vec<_>>()) {
        match name.text() {
            Some(name) if !name.contains('*') && !names.contains(&name) => names.push(name),
            Some(name) if !name.contains('*') => {}
            _ => return "all requests that it matches".to_owned(),
        }
    }
    match names.split_first() {
        None => "all requests that it matches".to_owned(),
        Some((first, [])) => format!("requests for `{}`", ellipsize(first)),
        Some((first, more)) => format!("requests for `{}` and {} more", ellipsize(first), more.len()),
    }
}

/// Whether the webhook delays the creation of pods: a rule matches everything, or a built-in kind with a pod template.
fn holds_workloads_up(webhook: &Webhook<'_>) -> bool {
    const RESOURCES: [&str; 6] =
        ["deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "replicationcontrollers"];
    let rules = webhook.get("rules");
    let mut names = rules.items().flat_map(|rule| rule.get("resources").items().collect::<Vec<_>>());
    names.any(|name| name.text().is_none_or(|name| name.starts_with('*') || RESOURCES.contains(&name)))
}

/// Whether the rules match only custom resources, so that only their operator and its users wait.
fn is_of_one_operator(webhook: &Webhook<'_>) -> bool {
    let is_custom = |group: &str| {
        // The groups of the API server have no dot, or end in `.k8s.io`.
        group.contains('.') && !group.ends_with(".k8s.io") && !group.contains('*')
    };
    let rules = webhook.get("rules");
    let mut groups =
        rules.items().flat_map(|rule| rule.get("apiGroups").items().collect::<Vec<_>>()).peekable();
    groups.peek().is_some() && groups.all(|group| group.text().is_some_and(is_custom))
}
