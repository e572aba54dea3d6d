//! Constraints on the credentials of a trigger.

use super::super::check::{KeyValue, TriggerCheck};
use super::super::scalers::KeySource;

pub(super) fn one_place(key: &str, check: &mut TriggerCheck<'_>) {
    if let Some(found) = check.find_key(key)
        && let KeyValue::Text(node, _) = check.resolve_from(found, KeySource::Metadata)
        && let KeyValue::Hidden(_) = check.resolve_from(found, KeySource::Authentication)
    {
        let message = format!("`{key}` is in the metadata and in the TriggerAuthentication");
        check.report(node, message, "keep one of the two");
    }
}

pub(super) fn identities(known: &[&str], check: &mut TriggerCheck<'_>) {
    if let Some(identity) = check.identity()
        && !known.contains(&identity)
    {
        let trigger = check.with_article();
        let message = format!("{trigger} trigger does not support the pod identity `{identity}`");
        let help = format!("use a TriggerAuthentication with `{}`", known.join("` or `"));
        check.report(check.trigger.node.get("authenticationRef"), message, help);
    }
}

pub(super) fn need_parameter(name: &str, check: &mut TriggerCheck<'_>) {
    if check.has_parameter(name) == Some(false) {
        let message = check.needs(&format!("the parameter `{name}`"));
        let help = "give it in a TriggerAuthentication that `authenticationRef` names";
        check.report(check.trigger.node.get("authenticationRef"), message, help);
    }
}

pub(super) fn aws(check: &mut TriggerCheck<'_>) {
    // The identity owner defaults to the pod.
    let owner = check.metadata.get("identityOwner");
    if owner.is_unknown() || !matches!(owner.text(), None | Some("" | "pod")) {
        return;
    }
    // With `aws-eks`, KEDA uses the role of the target's service account.
    if check.identity().is_none_or(|identity| identity.starts_with("aws")) {
        return;
    }
    let given = |key: &str| check.find_key(key).is_some() && !matches!(check.value(key), KeyValue::Absent);
    let role = check.has_parameter("awsRoleArn") == Some(true);
    let id = given("awsAccessKeyID") || check.has_parameter("awsAccessKeyId") == Some(true);
    let keys = id && given("awsSecretAccessKey");
    if !role && !keys {
        let message = format!("{} trigger has no AWS credentials", check.with_article());
        let help = "write `identityOwner: operator`, or name a TriggerAuthentication";
        check.report(check.metadata.clone(), message, help);
    }
}

pub(super) fn gcp(check: &mut TriggerCheck<'_>) {
    // The variable itself may be missing: the constraint only requires that one is named.
    let named = ["credentialsFromEnv", "credentialsFromEnvFile"].iter().any(|key| {
        let node = check.metadata.get(key);
        node.is_unknown() || node.text().is_some_and(|text| !text.is_empty())
    });
    let parameter = check.has_parameter("GoogleApplicationCredentials") != Some(false);
    if !named && !parameter && check.identity().is_some_and(|identity| identity != "gcp") {
        let message = format!("{} trigger has no Google credentials", check.with_article());
        let help = "write `credentialsFromEnv`, or name a TriggerAuthentication";
        check.report(check.metadata.clone(), message, help);
    }
}

pub(super) fn openstack(check: &mut TriggerCheck<'_>) {
    let has = |name: &str| check.has_parameter(name);
    let lacking = if has("authURL") == Some(false) {
        "authURL"
    } else if has("userID") == Some(true) && has("password") == Some(false) {
        "password"
    } else if has("userID") == Some(false) && has("appCredentialSecret") == Some(false) {
        "userID"
    } else {
        return;
    };
    check.report_missing(lacking);
}
