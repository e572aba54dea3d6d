//! Two parameters of a TriggerAuthentication read one value.
//!
//! # Why
//! A user and a password, or the two keys of Datadog, are never the same. KEDA gives the
//! whole value of a secret of AWS Secrets Manager to each parameter that names it, also where the value is JSON
//! with a field for each: the scaler then sends the JSON as the user and as the password, and its source
//! rejects it. Secrets of Google Secret Manager and Azure Key Vault have no keys either. In a Secret or in Vault
//! the same key was written twice.
//!
//! # Fix
//! Name the field of the JSON with `secretKey` (AWS Secrets Manager, KEDA 2.17 and later), name another key, or
//! make a secret for each.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: broker, namespace: shop}
//!  spec:
//!    awsSecretManager:
//!      region: eu-west-1
//!      podIdentity: {provider: aws}
//!      secrets:
//! -      - {name: shop/broker, parameter: username}
//! -      - {name: shop/broker, parameter: password} # <-
//! +      - {name: shop/broker, secretKey: user, parameter: username}
//! +      - {name: shop/broker, secretKey: pass, parameter: password}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/authentication-providers/aws-secret-manager/>
//! - <https://github.com/kedacore/keda/issues/6249>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-value-repeated",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_auth_value_repeated.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The lists of sources, each item with the `parameter` that it fills.
const SOURCES: [&[&str]; 7] = [
    &["secretTargetRef"],
    &["configMapTargetRef"],
    &["env"],
    &["awsSecretManager", "secrets"],
    &["gcpSecretManager", "secrets"],
    &["azureKeyVault", "secrets"],
    &["hashiCorpVault", "secrets"],
];

/// Parameters of scalers by what they mean: those of different groups never have the same value.
const MEANINGS: [&[&str]; 7] = [
    &["username", "userName", "user", "awsAccessKeyID", "clientID", "clientId"],
    &["password", "awsSecretAccessKey", "clientSecret", "bearerToken", "token"],
    // One file may have a certificate and its key.
    &["cert", "ca", "key"],
    &["apiKey"],
    &["appKey"],
    &["sasl"],
    &["tls"],
];

/// The first version whose items of `awsSecretManager` have a `secretKey`.
const HAS_SECRET_KEY: Version = Version::new(2, 17);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    for path in SOURCES {
        let items: Vec<Node<'_>> = object.get("spec").path(path).items().collect();
        for (at, item) in items.iter().enumerate() {
            let earlier = items[..at].iter().find(|earlier| is_mistaken(earlier, item) == Some(true));
            if let Some(earlier) = earlier {
                report(object, path[0], earlier, item, ctx);
            }
        }
    }
    None
}

/// Whether two items read one value for parameters that never have the same. `None` if it is not known.
fn is_mistaken(first: &Node<'_>, second: &Node<'_>) -> Option<bool> {
    let meaning = |item: &Node<'_>| {
        let parameter = item.get("parameter").text()?;
        MEANINGS.iter().position(|names| names.contains(&parameter))
    };
    let differ = meaning(first)? != meaning(second)?;
    Some(differ && source(first)? == source(second)?)
}

/// The fields of an item that decide what is read. `None` if one is unknown.
fn source<'a>(item: &Node<'a>) -> Option<Vec<(&'a str, &'a str)>> {
    let fields = item.entries().into_iter().filter(|(name, _)| *name != "parameter");
    let mut fields: Vec<_> =
        fields.map(|(name, value)| Some((name, value.text()?))).collect::<Option<_>>()?;
    fields.sort_unstable();
    (!item.has_unknown_key()).then_some(fields)
}

fn report(
    object: &Object,
    store: &str,
    first: &Node<'_>,
    second: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = ["name", "id", "path"].iter().find_map(|field| second.get(field).text())?;
    let key = ["key", "secretKey"].iter().find_map(|field| second.get(field).text());
    let what = match key {
        Some(key) => format!("key `{}` of `{}`", ellipsize(key), ellipsize(name)),
        None => format!("all of `{}`", ellipsize(name)),
    };
    let (node, other) = (second.get("parameter"), first.get("parameter"));
    let message = format!(
        "`{}` gets the value of `{}`: both read {what}",
        ellipsize(node.text()?),
        ellipsize(other.text()?)
    );
    let help = match (store, key) {
        (_, Some(_)) => "write the key of each",
        ("awsSecretManager", None) if ctx.platform().keda >= HAS_SECRET_KEY => {
            "write `secretKey` in each: the field of the JSON in the secret"
        }
        ("awsSecretManager", None) => {
            "make a secret for each: `secretKey`, a field of its JSON, needs KEDA 2.17"
        }
        ("env", None) => "name the variable of each",
        _ => "make a secret for each: KEDA reads no fields of the value",
    };
    ctx.report(&node, message).help(help).related(object, &other, "the other parameter");
    None
}
