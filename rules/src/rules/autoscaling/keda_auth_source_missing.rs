//! A TriggerAuthentication reads a key, a variable or a role that is not there.
//!
//! # Why
//! KEDA's admission does not follow the references of a TriggerAuthentication. A key that the Secret or the
//! ConfigMap lacks, and a variable that the container lacks, become an empty parameter, and the scaler
//! fails at its source. The Secrets of a ClusterTriggerAuthentication are read in the namespace of KEDA's
//! operator and nowhere else; where the operator is not in the input, a Secret in the namespace of a scaler
//! that needs it is information, and so is the Secret of a TriggerAuthentication that is only in another
//! namespace of the input. `identityOwner: workload`, and the provider `aws-eks`, take the role from the
//! annotation `eks.amazonaws.com/role-arn` of the workload's ServiceAccount: EKS Pod Identity is not
//! enough, and without the annotation the scaler is never built. Only objects of the input are compared.
//!
//! # Fix
//! Write the key, the variable or the annotation; `roleArn` names a role itself, and `identityOwner: keda`
//! takes that of the operator.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: broker, namespace: shop}
//!  spec:
//!    secretTargetRef:
//!      - parameter: password
//!        name: broker
//! -      key: pasword # <-
//! +      key: password
//!  ---
//!  apiVersion: v1
//!  kind: Secret
//!  metadata: {name: broker, namespace: shop}
//!  stringData: {password: example}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/>
//! - <https://keda.sh/docs/latest/authentication-providers/aws/>

use crate::cluster::together::are_misplaced;
use crate::rules::autoscaling::scale_target::target;
use crate::rules::partners::authenticated;
use crate::rules::prelude::*;
use crate::workload::charts::{installs, target_namespace};
use crate::workload::environment::{Environment, Variable};

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-source-missing",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    reads: kinds![
        [
            Kind::SECRET,
            Kind::CONFIG_MAP,
            Kind::SERVICE_ACCOUNT,
            Kind::EXTERNAL_SECRET,
            Kind::SEALED_SECRET,
            Kind::SCALED_OBJECT,
            Kind::SCALED_JOB
        ],
        CHART_KINDS,
        SCALABLE_KINDS
    ],
    docs: docs(include_str!("keda_auth_source_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The credentials of stores, which KEDA reads in Secrets.
const CREDENTIALS: [(&str, &[&str]); 3] = [
    ("awsSecretManager", &["accessKey", "accessSecretKey", "accessToken"]),
    ("azureKeyVault", &["clientSecret"]),
    ("gcpSecretManager", &["clientSecret"]),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    let spec = object.get("spec");
    let scalers: Vec<Object> =
        authenticated(object, ctx.cluster()).into_iter().filter(|scaler| ctx.pairs_with(scaler)).collect();
    let mut references: Vec<(Kind, Node<'_>)> = Vec::new();
    for (field, kind) in [("secretTargetRef", Kind::SECRET), ("configMapTargetRef", Kind::CONFIG_MAP)] {
        references.extend(spec.get(field).items().map(|item| (kind, item)));
    }
    for (store, fields) in CREDENTIALS {
        references.extend(fields.iter().map(|field| {
            (Kind::SECRET, spec.path(&[store, "credentials", *field, "valueFrom", "secretKeyRef"]))
        }));
    }
    // Several keys of one object are one mistake if it is in the wrong namespace.
    let mut misplaced: Vec<(Kind, &str)> = Vec::new();
    for (kind, item) in &references {
        let name = item.get("name").text().unwrap_or_default();
        if !misplaced.contains(&(*kind, name))
            && key(object, item, *kind, &scalers, ctx) == Some(Place::Other)
        {
            misplaced.push((*kind, name));
        }
    }
    for item in spec.get("env").items() {
        scalers.iter().find_map(|scaler| variable(scaler, &item, ctx));
    }
    scalers.iter().find_map(|scaler| role(scaler, &spec.get("podIdentity"), ctx));
    None
}

/// The namespace in which KEDA reads the Secrets of a ClusterTriggerAuthentication.
pub(super) enum OperatorNamespace {
    /// That of the operator, or of the chart that installs it, which is in the input.
    Known(String),
    /// Nothing in the input installs KEDA.
    NotInInput,
    /// Several are possible, or the operator names another.
    Unknown,
}

/// The namespace of KEDA's operator. A rule that asks reads Deployments and [`CHART_KINDS`].
pub(super) fn operator_namespace(ctx: &Context<'_>) -> OperatorNamespace {
    let cluster = ctx.cluster();
    let operators =
        cluster.written_as(Kind::DEPLOYMENT, "keda-operator").filter(|operator| ctx.pairs_with(operator));
    let of_deployments = operators.map(|operator| {
        let names_other = templates(operator).iter().flat_map(Template::containers).any(|container| {
            let mut variables = container.get("env").items();
            variables.any(|entry| entry.get("name").text() == Some("KEDA_CLUSTER_OBJECT_NAMESPACE"))
        });
        operator.namespace().filter(|_| !names_other)
    });
    let installers = chart_installers(cluster)
        .filter(|installer| installs(installer, "keda") && ctx.pairs_with(installer));
    let of_installers = installers.map(|installer| {
        let names_other = has_value(installer, "env");
        target_namespace(installer).filter(|_| !names_other)
    });
    let all: Vec<Option<&str>> = of_deployments.chain(of_installers).collect();
    match all.first() {
        None => OperatorNamespace::NotInInput,
        Some(Some(first)) if all.iter().all(|one| *one == Some(*first)) => {
            OperatorNamespace::Known((*first).to_owned())
        }
        Some(_) => OperatorNamespace::Unknown,
    }
}

/// Whether something sets a value of KEDA's chart, or may.
fn has_value(installer: &Object, key: &str) -> bool {
    let mut is_set = false;
    for_each_values(installer, "keda", |values| is_set |= values.may_differ || values.root.get(key).is_set());
    is_set
}

/// The name of the Secret that an ExternalSecret or a SealedSecret makes in its namespace.
fn made_secret(object: &Object) -> Option<&str> {
    let target = object.path(&["spec", "target", "name"]);
    let is_named = object.is(Kind::EXTERNAL_SECRET) && target.is_set();
    if is_named { target.text() } else { Some(object.name()) }
}

/// Whether an operator copies a Secret or a ConfigMap into other namespaces: Reflector, the replicator of Mittwald, Kubed.
fn is_copied(source: &Object) -> bool {
    const COPIERS: [&str; 3] =
        ["reflector.v1.k8s.emberstack.com/", "replicator.v1.mittwald.de/", "kubed.appscode.com/"];
    let of_template = [&["spec", "target", "template"][..], &["spec", "template"]];
    let metadata = of_template.map(|path| source.path(path).get("metadata"));
    std::iter::once(source.get("metadata")).chain(metadata).any(|metadata| {
        let annotations = metadata.get("annotations");
        annotations.has_unknown_key()
            || annotations
                .entries()
                .iter()
                .any(|(key, _)| COPIERS.iter().any(|copier| key.starts_with(copier)))
    })
}

/// The keys of a Secret that an ExternalSecret or a SealedSecret makes, and that object. `None` if it may have others.
fn made_keys<'a>(namespace: &str, name: &str, ctx: &Context<'a>) -> Option<(&'a Object, Vec<&'a str>)> {
    let cluster = ctx.cluster();
    let is_named = |object: &&Object| made_secret(object) == Some(name) && ctx.pairs_with(object);
    let external = cluster.in_namespace(Kind::EXTERNAL_SECRET, namespace);
    let mut makers = external.chain(cluster.in_namespace(Kind::SEALED_SECRET, namespace)).filter(is_named);
    let (maker, None) = (makers.next()?, makers.next()) else { return None };
    let spec = maker.get("spec");
    if maker.may_lack_fields() || spec.has_unknown() {
        return None;
    }
    if maker.is(Kind::SEALED_SECRET) {
        let data = spec.get("encryptedData").entries().into_iter();
        let keys = data.chain(spec.path(&["template", "data"]).entries()).map(|(key, _)| key);
        return Some((maker, keys.collect()));
    }
    let target = spec.get("target");
    let adds = spec.get("dataFrom").is_set()
        || target.get("template").is_set()
        || matches!(target.get("creationPolicy").text(), Some("Merge" | "None"));
    let keys = spec.get("data").items().map(|item| item.get("secretKey").text());
    (!adds).then(|| Some((maker, keys.collect::<Option<Vec<_>>>()?)))?
}

/// Where the Secret or the ConfigMap of a reported key is.
#[derive(PartialEq)]
enum Place {
    Own,
    /// In another namespace than that in which KEDA reads it.
    Other,
}

/// Reports a key of a Secret or of a ConfigMap, for some scalers.
fn key(
    object: &Object,
    item: &Node<'_>,
    kind: Kind,
    scalers: &[Object],
    ctx: &mut Context<'_>,
) -> Option<Place> {
    let (name, key) = (item.get("name"), item.get("key"));
    let (name_text, key_text) = (name.text()?, key.text()?);
    let namespace = if object.is(Kind::CLUSTER_TRIGGER_AUTHENTICATION) {
        match operator_namespace(ctx) {
            OperatorNamespace::Known(namespace) => namespace,
            OperatorNamespace::NotInInput => return beside_scaler(&name, kind, scalers, ctx),
            OperatorNamespace::Unknown => return None,
        }
    } else {
        object.namespace()?.to_owned()
    };
    let (source, keys) = match ctx.partner(kind, &namespace, name_text) {
        Some(source) => {
            let maps = ["data", "stringData", "binaryData"].map(|field| source.get(field));
            let hides_key = |map: &Node<'_>| map.is_unknown() || map.has_unknown_key();
            if source.is_partial() || maps.iter().any(hides_key) || source.root().has_unknown_key() {
                return None;
            }
            (source, maps.iter().flat_map(Node::entries).map(|(key, _)| key).collect::<Vec<_>>())
        }
        None => match made_keys(&namespace, name_text, ctx).filter(|_| kind == Kind::SECRET) {
            Some(made) => made,
            None if object.is(Kind::CLUSTER_TRIGGER_AUTHENTICATION) => {
                return elsewhere(&name, kind, &namespace, ctx);
            }
            None => return in_other_namespace(object, &name, kind, ctx),
        },
    };
    // An empty object is filled by another program.
    if keys.is_empty() || keys.contains(&key_text) {
        return None;
    }
    let near = nearest(key_text, keys.iter().copied());
    let message = format!("{} `{}` has no key `{}`", kind.kind, ellipsize(name_text), ellipsize(key_text));
    ctx.report(&key, message)
        .help(match near {
            Some(near) => format!("did you mean `{}`?", ellipsize(near)),
            None => "write one of its keys: KEDA takes an empty value, and the scaler fails".to_owned(),
        })
        .related(source, &source.path(&["metadata", "name"]), "it has other keys");
    Some(Place::Own)
}

/// The objects of the input that are a Secret or a ConfigMap of a name in any namespace, or from which it is made. `None` if there
/// may be others.
fn sources<'i>(name: &str, kind: Kind, ctx: &Context<'i>) -> Option<Vec<&'i Object>> {
    let cluster = ctx.cluster();
    let makers = [Kind::EXTERNAL_SECRET, Kind::SEALED_SECRET].into_iter().filter(|_| kind == Kind::SECRET);
    let makers = makers.flat_map(|maker| cluster.of(maker)).filter(|maker| made_secret(maker) == Some(name));
    let all = cluster.written_as(kind, name).chain(makers);
    let sources: Vec<&Object> = all.filter(|source| ctx.pairs_with(source)).collect();
    let is_copied = sources.iter().any(|source| source.namespace().is_none() || is_copied(source));
    let is_open = chart_installers(cluster).any(|installer| has_value(installer, "extraObjects"));
    (!is_copied && !is_open).then_some(sources)
}

/// A Secret of a ClusterTriggerAuthentication in the namespace of a scaler that needs it, and in no other. KEDA is rarely there.
fn beside_scaler(name: &Node<'_>, kind: Kind, scalers: &[Object], ctx: &mut Context<'_>) -> Option<Place> {
    if scalers.is_empty() {
        return None;
    }
    let text = name.text()?;
    let sources = sources(text, kind, ctx)?;
    let found = *sources.first()?;
    let namespace = found.namespace()?;
    let is_only = sources.iter().all(|source| source.namespace() == Some(namespace));
    let is_of_scaler = scalers.iter().any(|scaler| scaler.namespace() == Some(namespace));
    if !is_only || !is_of_scaler || namespace.contains("keda") {
        return None;
    }
    let message = format!(
        "{} `{}` is in namespace `{namespace}`, and KEDA reads it in that of its operator, by default `keda`",
        kind.kind,
        ellipsize(text)
    );
    report_place(name, message, found, ctx).severity(Severity::Info);
    Some(Place::Other)
}

/// Reports a Secret of a TriggerAuthentication that is in the input only in another namespace.
fn in_other_namespace(object: &Object, name: &Node<'_>, kind: Kind, ctx: &mut Context<'_>) -> Option<Place> {
    let text = name.text()?;
    let sources = sources(text, kind, ctx)?;
    let [found] = sources.as_slice() else { return None };
    let cluster = ctx.cluster();
    let is_sure = are_misplaced(object, found) && cluster.likely_pairs(object, found);
    if !is_sure || may_be_made(cluster, kind, object.namespace_or_default(), text) {
        return None;
    }
    let other = ellipsize(found.namespace()?);
    let message = format!(
        "{} `{}` is in namespace `{other}`, and this {} is not",
        kind.kind,
        ellipsize(text),
        object.kind()
    );
    ctx.report(name, message)
        .severity(Severity::Info)
        .help("put it into the namespace of the TriggerAuthentication: KEDA looks in no other")
        .related(found, &found.path(&["metadata", "namespace"]), "it is here");
    Some(Place::Other)
}

/// Reports the name of a Secret that is in another namespace than that in which KEDA reads it.
fn report_place<'f>(
    name: &Node<'_>,
    message: String,
    found: &Object,
    ctx: &'f mut Context<'_>,
) -> &'f mut Finding {
    ctx.report(name, message)
        .help("put it into the namespace of KEDA, or use a TriggerAuthentication")
        .related(found, &found.path(&["metadata", "namespace"]), "it is here")
}

/// A Secret of a ClusterTriggerAuthentication that is in another namespace than the operator.
fn elsewhere(name: &Node<'_>, kind: Kind, namespace: &str, ctx: &mut Context<'_>) -> Option<Place> {
    let text = name.text()?;
    let sources = sources(text, kind, ctx)?;
    let found = *sources.first()?;
    let is_there = sources.iter().any(|source| source.namespace() == Some(namespace));
    if is_there || may_be_made(ctx.cluster(), kind, namespace, text) {
        return None;
    }
    let other = found.namespace()?;
    let verb = if found.is(kind) { "is" } else { "is made" };
    let message = format!(
        "{} `{}` {verb} in namespace `{other}`, and KEDA reads it in `{namespace}`, where its operator runs",
        kind.kind,
        ellipsize(text)
    );
    report_place(name, message, found, ctx);
    Some(Place::Other)
}

/// A variable of the environment of a container of the target.
fn variable(scaler: &Object, item: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = item.get("name");
    let text = name.text()?;
    let (owner, template) = pods(scaler, ctx)?;
    let environment = Environment::of(&template.spec, &item.get("containerName"));
    if template.spec.has_unknown() || !matches!(environment.variable(text), Variable::Absent) {
        return None;
    }
    let message = format!(
        "the container that KEDA reads for `{}` has no variable `{}`",
        scaler.display_name(),
        ellipsize(text)
    );
    ctx.report(&name, message)
        .help("write it into `env` of that container, or name another with `containerName`")
        .related(owner, &owner.path(&["metadata", "name"]), "its pods");
    Some(())
}

/// The object with the pod template whose environment and ServiceAccount KEDA reads for a scaler.
fn pods<'a>(scaler: &Object, ctx: &Context<'a>) -> Option<(&'a Object, Template<'a>)> {
    let owner = if scaler.is(Kind::SCALED_JOB) {
        ctx.partner(Kind::SCALED_JOB, scaler.namespace_or_default(), scaler.name())?
    } else {
        target(scaler, ctx)?
    };
    Some((owner, templates(owner).into_iter().next()?))
}

/// The role of the ServiceAccount of the workload.
fn role(scaler: &Object, identity: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const ANNOTATION: &str = "eks.amazonaws.com/role-arn";
    let (owner, provider) = (identity.get("identityOwner"), identity.get("provider"));
    let node = match (provider.text()?, owner.text()) {
        ("aws", Some("workload")) => owner,
        ("aws-eks", _) => provider,
        _ => return None,
    };
    let by_operator = |trigger: &Trigger<'_>| {
        let owner = trigger.metadata().get("identityOwner");
        owner.is_unknown() || owner.text() == Some("operator")
    };
    if triggers(scaler).any(|trigger| by_operator(&trigger)) {
        return None;
    }
    let (_, template) = pods(scaler, ctx)?;
    let account = template.spec.get("serviceAccountName");
    let name = if account.is_set() { account.text()? } else { "default" };
    if account.is_unknown() || template.spec.get("serviceAccount").is_set() && !account.is_set() {
        return None;
    }
    let found = ctx.partner(Kind::SERVICE_ACCOUNT, scaler.namespace_or_default(), name)?;
    let annotations = found.path(&["metadata", "annotations"]);
    if found.may_lack_fields()
        || annotations.is_unknown()
        || annotations.has_unknown_key()
        || !annotations.get(ANNOTATION).is_absent()
    {
        return None;
    }
    let message =
        format!("ServiceAccount `{}` has no annotation `{ANNOTATION}`: KEDA finds no role", ellipsize(name));
    ctx.report(&node, message)
        .help("annotate it, or write `roleArn`, or `identityOwner: keda` for the role of the operator")
        .related(found, &found.path(&["metadata", "name"]), "the ServiceAccount of the workload");
    Some(())
}
