//! The source of a trigger's values besides its metadata and the environment of a container: a TriggerAuthentication.

use crate::tree::node::Node;

#[derive(Clone, Debug)]
pub enum Authentication<'a> {
    /// The trigger does not name a TriggerAuthentication.
    None,
    /// The TriggerAuthentication is not in the input, or a part of it is not known.
    Unknown,
    Known(Parameters<'a>),
}

/// The parameters and the pod identity that a TriggerAuthentication provides.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    /// The names of the parameters. Their values are not known, because they are in Secrets or other stores.
    pub names: Vec<&'a str>,
    /// The provider of the pod identity; `none` if there is none.
    pub identity: &'a str,
}

/// The fields of `azureServicePrincipal`, and the parameters that KEDA makes of them.
const SERVICE_PRINCIPAL: [(&str, &str); 7] = [
    ("tenantId", "azureServicePrincipalTenantId"),
    ("clientId", "azureServicePrincipalClientId"),
    ("cloud", "azureServicePrincipalCloud"),
    ("activeDirectoryEndpoint", "azureServicePrincipalActiveDirectoryEndpoint"),
    ("clientSecret", "azureServicePrincipalClientSecret"),
    ("clientCertificate", "azureServicePrincipalClientCertificate"),
    ("clientCertificatePassword", "azureServicePrincipalClientCertificatePassword"),
];

/// The lists of a (Cluster)TriggerAuthentication's `spec` whose items name a parameter.
fn parameter_lists<'a>(spec: &Node<'a>) -> [Node<'a>; 8] {
    [
        spec.get("secretTargetRef"),
        spec.get("configMapTargetRef"),
        spec.get("env"),
        spec.get("boundServiceAccountToken"),
        spec.path(&["hashiCorpVault", "secrets"]),
        spec.path(&["azureKeyVault", "secrets"]),
        spec.path(&["gcpSecretManager", "secrets"]),
        spec.path(&["awsSecretManager", "secrets"]),
    ]
}

/// The fields with the names of the parameters that a (Cluster)TriggerAuthentication's `spec` lists.
pub(crate) fn parameter_names<'a>(spec: &Node<'a>) -> Vec<Node<'a>> {
    let lists = parameter_lists(spec);
    lists.iter().flat_map(Node::items).map(|item| item.get("parameter")).filter(Node::is_set).collect()
}

impl<'a> Authentication<'a> {
    /// The parameters and the pod identity in the `spec` of a (Cluster)TriggerAuthentication.
    pub fn of(spec: &Node<'a>) -> Authentication<'a> {
        Self::known(spec).unwrap_or(Authentication::Unknown)
    }

    fn known(spec: &Node<'a>) -> Option<Authentication<'a>> {
        if !spec.is_mapping() || spec.has_unknown_key() {
            return None;
        }
        // A file, and OAuth 2, can add parameters of any name.
        if ["filePath", "oauth2"].iter().any(|name| !spec.get(name).is_absent()) {
            return None;
        }
        let mut names = Vec::new();
        for list in parameter_lists(spec) {
            if list.is_unknown() {
                return None;
            }
            for item in list.items() {
                names.push(item.get("parameter").text()?);
            }
        }
        let principal = spec.get("azureServicePrincipal");
        if principal.is_unknown() || principal.has_unknown_key() {
            return None;
        }
        names.extend(
            SERVICE_PRINCIPAL
                .iter()
                .filter(|(field, _)| !principal.get(field).is_absent())
                .map(|(_, name)| *name),
        );
        let provider = spec.path(&["podIdentity", "provider"]);
        if spec.get("podIdentity").is_unknown() || provider.is_unknown() {
            return None;
        }
        let identity = provider.text().filter(|text| !text.is_empty()).unwrap_or("none");
        Some(Authentication::Known(Parameters { names, identity }))
    }
}
