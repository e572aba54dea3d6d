//! The sources of a trigger's values besides its metadata: a TriggerAuthentication, and the environment of a
//! container of the target.

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
        let lists = [
            spec.get("secretTargetRef"),
            spec.get("configMapTargetRef"),
            spec.get("env"),
            spec.get("boundServiceAccountToken"),
            spec.path(&["hashiCorpVault", "secrets"]),
            spec.path(&["azureKeyVault", "secrets"]),
            spec.path(&["gcpSecretManager", "secrets"]),
            spec.path(&["awsSecretManager", "secrets"]),
        ];
        let mut names = Vec::new();
        for list in lists {
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

/// The container whose environment `<key>FromEnv` names.
#[derive(Clone, Debug)]
pub enum Environment<'a> {
    /// The target is not in the input.
    Unknown,
    Container(Node<'a>),
}

#[derive(Clone, Debug)]
pub enum Variable<'a> {
    /// The container does not define it.
    Absent,
    /// The container may define it, with any value.
    Unknown,
    /// The container defines it, with a value from another object.
    Hidden,
    /// The value.
    Text(&'a str),
}

impl<'a> Environment<'a> {
    /// The environment that KEDA reads: that of the container called `name`, or else of the first container.
    pub fn of(pod: &Node<'a>, name: &Node<'_>) -> Environment<'a> {
        let mut containers = pod.get("containers").items();
        let found = match name.text() {
            _ if name.is_unknown() => None,
            Some(name) if !name.is_empty() => containers.find(|c| c.get("name").text() == Some(name)),
            _ => containers.next(),
        };
        found.map_or(Environment::Unknown, Environment::Container)
    }

    /// The name of the container; `None` if it is not known.
    pub(super) fn container_name(&self) -> Option<&'a str> {
        let Environment::Container(container) = self else { return None };
        container.get("name").text()
    }

    /// A variable of the container.
    pub fn variable(&self, name: &str) -> Variable<'a> {
        let Environment::Container(container) = self else {
            return Variable::Unknown;
        };
        let (list, from) = (container.get("env"), container.get("envFrom"));
        let mut unknown = list.is_unknown() || from.is_set() || from.is_unknown();
        for item in list.items() {
            let key = item.get("name");
            if key.is_unknown() {
                unknown = true;
            } else if key.text() == Some(name) {
                let value = item.get("value");
                return match value.text() {
                    Some(text) => Variable::Text(text),
                    None if value.is_unknown() => Variable::Unknown,
                    None => Variable::Hidden,
                };
            }
        }
        if unknown { Variable::Unknown } else { Variable::Absent }
    }
}
