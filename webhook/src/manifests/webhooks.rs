//! The two webhook configurations.

use std::collections::BTreeMap;

use gpulint_rules::Kind;
use serde_json::{Value, json};

use super::Install;
use crate::exemption::{KUBE_CONTROLLER_MANAGER, KUBE_CONTROLLERS};
use crate::kinds;

/// The `timeoutSeconds` of the webhooks for kinds that are not [`Importance::Guarded`](crate::kinds::Importance): a
/// request passes two of them, so a server that does not respond delays it by two seconds at most.
const USUAL_TIMEOUT: u32 = 1;

/// The validating and the mutating configuration, each with one webhook for guarded kinds and one for all others.
pub(crate) fn webhook_configurations(install: &Install) -> [Value; 2] {
    let policy = if install.fail { "Fail" } else { "Ignore" };
    let pair = |path: &str, policy: &str, mutated: bool| {
        [true, false].map(|guarded| {
            let kinds = install.matched(guarded).filter(|kind| !mutated || kinds::is_mutated(*kind));
            let kinds: Vec<Kind> = kinds.collect();
            match guarded {
                true => webhook(install, path, "", policy, install.timeout_seconds, &kinds),
                false => webhook(install, path, "-workloads", "Ignore", USUAL_TIMEOUT, &kinds),
            }
        })
    };
    let validating = pair("validate", policy, false);
    let mut mutating = pair("mutate", "Ignore", true);
    for webhook in &mut mutating {
        webhook["reinvocationPolicy"] = "IfNeeded".into();
    }
    [("ValidatingWebhookConfiguration", validating), ("MutatingWebhookConfiguration", mutating)].map(
        |(kind, webhooks)| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": install.name, "labels": install.labels()},
                "webhooks": webhooks
            })
        },
    )
}

fn webhook(
    install: &Install,
    path: &str,
    sort: &str,
    policy: &str,
    timeout_seconds: u32,
    matched: &[Kind],
) -> Value {
    let client = match &install.url {
        Some(url) => json!({"url": format!("{}/{path}", url.trim_end_matches('/'))}),
        // Without the null, `kubectl apply` over a registration by URL would keep the URL beside the Service.
        None => json!({"url": null, "service": {
            "name": install.name, "namespace": install.namespace, "path": format!("/{path}"), "port": 443
        }}),
    };
    let mut exempt = install.exempt_namespaces.clone();
    exempt.push(install.namespace.clone());
    exempt.sort();
    exempt.dedup();
    json!({
        "name": format!("{path}{sort}.gpulint.dev"),
        "clientConfig": client,
        "failurePolicy": policy,
        "sideEffects": if install.events { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": timeout_seconds,
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
        ]},
        "matchConditions": match_conditions(install),
        "rules": rules(matched)
    })
}

/// Conditions that avoid requests. The server also allows such requests if it receives them; of what is being deleted, it also
/// judges changes outside of `spec`.
fn match_conditions(install: &Install) -> Value {
    json!([
        {
            "name": "not-by-exempt-accounts",
            "expression": format!("!(request.userInfo.username in {})", user_names(&install.exempt_accounts))
        },
        {
            "name": "not-by-exempt-groups",
            "expression": format!("!request.userInfo.groups.exists(g, g in {})", cel_list(&install.exempt_groups))
        },
        {
            "name": "not-by-kube-controllers",
            "expression": format!(
                "!(request.userInfo.username in {})",
                cel_list(kube_controllers())
            )
        },
        {
            // What is being deleted has an old object, too. Helm's `toJson` escapes `&`, which the manifests do not.
            "name": "not-being-deleted",
            "expression": "!has(object.metadata.deletionTimestamp) || (has(object.spec) ? !has(oldObject.spec) \
                           || object.spec != oldObject.spec : has(oldObject.spec))"
        }
    ])
}

/// The user names of service accounts, as a CEL list.
fn user_names(accounts: &[String]) -> String {
    cel_list(accounts.iter().map(|account| format!("system:serviceaccount:{}", account.replace('/', ":"))))
}

/// The user names of kube-controller-manager.
fn kube_controllers() -> impl Iterator<Item = String> {
    let accounts = KUBE_CONTROLLERS.iter().map(|name| format!("system:serviceaccount:kube-system:{name}"));
    accounts.chain([KUBE_CONTROLLER_MANAGER.to_owned()])
}

fn cel_list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted = |item: &str| format!("'{}'", item.replace('\\', "\\\\").replace('\'', "\\'"));
    let items: Vec<String> = items.into_iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// One rule per API group. Subresources such as `status` and `scale` are not matched.
fn rules(matched: &[Kind]) -> Value {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in matched {
        if let Some(resource) = kind.info() {
            groups.entry(kind.group).or_default().push(resource.plural);
        }
    }
    let rules = groups.into_iter().map(|(group, mut resources)| {
        resources.sort_unstable();
        json!({
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": resources,
            "scope": "*"
        })
    });
    rules.collect()
}
