//! A project of Argo CD does not permit what an Application of it applies.
//!
//! # Why
//! An AppProject permits only the repositories (`sourceRepos`) and destinations that it lists, and nothing
//! cluster-scoped without `clusterResourceWhitelist`: no NodePool, no EC2NodeClass, no ClusterQueue, no
//! PriorityClass. Kinds with a namespace are permitted unless `namespaceResourceWhitelist` is set without them,
//! or `namespaceResourceBlacklist` has them. A forbidden destination or repository stops the Application with
//! `InvalidSpecError`; with a forbidden kind the sync fails, and nothing of the Application is applied.
//!
//! Kinds are compared where a path of the Application leads to files of the input. Projects that global ones
//! may extend (`globalProjects` in `argocd-cm`) are left out.
//!
//! # Fix
//! Add the kind, the destination or the repository to the lists of the project.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: AppProject
//!  metadata: {name: research, namespace: argocd}
//!  spec:
//!    sourceRepos: ["https://git.example.com/research/*"]
//!    destinations: [{server: "https://kubernetes.default.svc", namespace: research}]
//!  ---
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Application
//!  metadata: {name: notebooks, namespace: argocd}
//!  spec:
//!    project: research
//!    source: {repoURL: "https://git.example.com/research/notebooks", path: deploy, targetRevision: main}
//!    destination:
//!      server: https://kubernetes.default.svc
//! -    namespace: notebooks # <-
//! +    namespace: research
//! ```
//!
//! # References
//! - <https://argo-cd.readthedocs.io/en/stable/user-guide/projects/>
//! - <https://argo-cd.readthedocs.io/en/stable/operator-manual/project-specification/>
//! - <https://github.com/argoproj/argo-cd/issues/4010>

use crate::lint::settings::Globs;
use crate::rules::gitops::applies;
use crate::rules::prelude::*;
use crate::workload::charts::sources;

/// Kinds of a cluster as a whole that Applications apply.
const OF_CLUSTER: [Kind; 13] = [
    Kind::NODE_POOL,
    Kind::EC2_NODE_CLASS,
    Kind::AUTO_MODE_NODE_CLASS,
    Kind::NODE_OVERLAY,
    Kind::CLUSTER_QUEUE,
    Kind::RESOURCE_FLAVOR,
    Kind::PRIORITY_CLASS,
    Kind::STORAGE_CLASS,
    Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    Kind::NAMESPACE,
    Kind::RUNTIME_CLASS,
    Kind::PERSISTENT_VOLUME,
    Kind::CLUSTER_POLICY,
];

/// Kinds with a namespace that Applications apply.
const OF_NAMESPACE: [Kind; 14] = [
    Kind::SCALED_OBJECT,
    Kind::SCALED_JOB,
    Kind::TRIGGER_AUTHENTICATION,
    Kind::LOCAL_QUEUE,
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::DAEMON_SET,
    Kind::JOB,
    Kind::CRON_JOB,
    Kind::ROLLOUT,
    Kind::PDB,
    Kind::HPA,
    Kind::NETWORK_POLICY,
    Kind::LIMIT_RANGE,
];

pub(crate) static RULE: Rule = Rule {
    id: "project-forbids-application",
    kinds: &[Kind::ARGO_PROJECT, Kind::ARGO_APPLICATION],
    reads: kinds![OF_CLUSTER, OF_NAMESPACE, [Kind::ARGO_APPLICATION, Kind::ARGO_PROJECT, Kind::CONFIG_MAP]],
    docs: docs(include_str!("project_forbids_application.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// `IsSourcePermitted`, `IsDestinationPermitted` and `IsGroupKindNamePermitted` in `app_project_types.go` of Argo CD (3.x, read in
/// November 2026).
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_global =
        |config: &Object| config.name() == "argocd-cm" && config.path(&["data", "globalProjects"]).is_set();
    if is_open(object) || ctx.cluster().of(Kind::CONFIG_MAP).any(is_global) {
        return None;
    }
    if object.is(Kind::ARGO_PROJECT) {
        check_kinds(object, ctx);
        return None;
    }
    let spec = object.get("spec");
    let name = spec.get("project").text()?;
    let project =
        ctx.partner(Kind::ARGO_PROJECT, object.namespace_or_default(), name).filter(|one| !is_open(one))?;
    for (node, list, what) in [
        (destination(&spec, project), "destinations", "destination"),
        (repository(&spec, project), "sourceRepos", "repository"),
    ] {
        let Some(node) = node else { continue };
        let message = format!(
            "project `{}` does not permit this {what}: the Application is not synced",
            ellipsize(name)
        );
        ctx.report(&node, message)
            .help(format!("add it to `{list}` of the project, or write one that is listed"))
            .related(project, &project.path(&["spec", list]), "what the project permits");
    }
    None
}

/// Whether a part of a project or an Application is not known.
fn is_open(object: &Object) -> bool {
    object.may_lack_fields() || object.get("spec").has_unknown() || object.get("spec").has_unknown_key()
}

/// The part of an Application's destination that no entry of its project permits.
fn destination<'a>(spec: &Node<'a>, project: &Object) -> Option<Node<'a>> {
    let destination = spec.get("destination");
    let (namespace, server, name) =
        (destination.get("namespace"), destination.get("server"), destination.get("name"));
    let wanted = namespace.text()?;
    let list = project.path(&["spec", "destinations"]);
    let entries: Vec<Node<'_>> = list.items().collect();
    let is_negated = |entry: &Node<'_>| {
        ["namespace", "server", "name"]
            .iter()
            .any(|field| entry.get(field).text().is_some_and(|text| text.starts_with('!')))
    };
    if entries.iter().any(is_negated) {
        return None;
    }
    // A cluster has an address and a name, of which the Application writes one and an entry matches either.
    let may_be_cluster = |entry: &Node<'_>| {
        let pairs = [(&server, entry.get("server")), (&name, entry.get("name"))];
        pairs.iter().any(|(own, entry)| {
            entry.text().is_some_and(|pattern| own.text().is_none_or(|own| fits(pattern, own)))
        })
    };
    let at_cluster: Vec<&Node<'_>> = entries.iter().filter(|entry| may_be_cluster(entry)).collect();
    if at_cluster.is_empty() {
        return Some(if server.is_set() { server } else { name }).filter(Node::is_set);
    }
    let permits = |entry: &&Node<'_>| fits(entry.get("namespace").text().unwrap_or_default(), wanted);
    (!at_cluster.iter().any(permits)).then_some(namespace)
}

/// The first repository of an Application that no pattern of its project permits.
fn repository<'a>(spec: &Node<'a>, project: &Object) -> Option<Node<'a>> {
    let list = project.path(&["spec", "sourceRepos"]);
    let patterns: Vec<String> = list.items().filter_map(|one| one.text().map(normalized)).collect();
    // Forms of SSH are several for one repository.
    let is_of_ssh = |url: &str| url.contains("ssh:") || url.contains('@') && !url.contains("://");
    if patterns.iter().any(|pattern| pattern.starts_with('!') || is_of_ssh(pattern)) {
        return None;
    }
    let is_permitted = |url: &str| is_of_ssh(url) || patterns.iter().any(|pattern| fits(pattern, url));
    let is_forbidden = |url: &Node<'_>| url.text().map(normalized).is_some_and(|url| !is_permitted(&url));
    sources(spec).map(|source| source.get("repoURL")).find(is_forbidden)
}

/// A URL as Argo CD compares it (`NormalizeGitURL`).
fn normalized(url: &str) -> String {
    let url = url.trim().to_ascii_lowercase();
    url.strip_suffix(".git").unwrap_or(&url).trim_end_matches('/').to_owned()
}

/// Whether a text fits a glob. A pattern that is not one is taken to fit.
fn fits(pattern: &str, text: &str) -> bool {
    pattern == text || Globs::new(&[pattern.to_owned()]).is_ok_and(|glob| glob.matches(text))
}

/// An object that a project does not permit, of an Application of it.
struct Forbidden<'a, 'i> {
    list: Node<'a>,
    /// Whether the list has what is permitted.
    is_whitelist: bool,
    object: &'i Object,
    application: &'i Object,
}

/// Reports the kinds that a project does not permit and an Application of it applies: once for a list.
fn check_kinds(project: &Object, ctx: &mut Context<'_>) {
    let spec = project.get("spec");
    for kinds in [&OF_CLUSTER[..], &OF_NAMESPACE[..]] {
        let all = forbidden(&spec, kinds, ctx);
        for is_whitelist in [true, false] {
            let of_list = all.iter().filter(|one| one.is_whitelist == is_whitelist);
            report(&of_list.collect::<Vec<_>>(), ctx);
        }
    }
}

fn report(found: &[&Forbidden<'_, '_>], ctx: &mut Context<'_>) -> Option<()> {
    let first = *found.first()?;
    let kind = first.object.kind();
    let kinds = match found {
        [_] => kind.to_owned(),
        [_, second] => format!("{kind} and {}", second.object.kind()),
        _ => format!("{kind} and {} more kinds", found.len() - 1),
    };
    let by = ellipsize(first.application.name());
    let message =
        format!("the project does not permit {kinds}, which Application `{by}` applies: its sync fails");
    let finding = ctx.report(&first.list, message);
    for one in found {
        finding.related(one.object, &one.object.path(&["metadata", "name"]), "is not applied");
    }
    finding.related(first.application, &first.application.path(&["spec", "project"]), "the Application");
    if !first.is_whitelist {
        finding.help("remove the kind from the list, or the object from the Application");
        return None;
    }
    let scope = if first.object.is_cluster_scoped() { "cluster" } else { "namespace" };
    finding.help(format!("add each kind with its group to `{scope}ResourceWhitelist`"));
    None
}

/// The first object of each of some kinds that a project does not permit.
fn forbidden<'a, 'i>(spec: &Node<'a>, kinds: &[Kind], ctx: &Context<'i>) -> Vec<Forbidden<'a, 'i>> {
    let project = ctx.object();
    let cluster = ctx.cluster();
    let is_of = |one: &&Object| {
        one.path(&["spec", "project"]).text() == Some(project.name())
            && one.namespace_or_default() == project.namespace_or_default()
            && ctx.pairs_with(one)
            && !is_open(one)
    };
    let applications: Vec<&'i Object> = cluster.of(Kind::ARGO_APPLICATION).filter(is_of).collect();
    if applications.is_empty() {
        return Vec::new();
    }
    let of_object = |object: &'i Object| {
        let (list, is_whitelist) = forbidding(spec, object)?;
        let application = applications.iter().copied().find(|application| applies(application, object))?;
        Some(Forbidden { list, is_whitelist, object, application })
    };
    kinds.iter().filter_map(|kind| cluster.of(*kind).find_map(of_object)).collect()
}

/// The list of a project that forbids an object, and whether it has what is permitted.
fn forbidding<'a>(spec: &Node<'a>, object: &Object) -> Option<(Node<'a>, bool)> {
    let is_listed = |list: &Node<'_>| {
        let mut entries = list.items();
        entries.any(|entry| {
            let is = |field: &str, own: &str| fits(entry.get(field).text().unwrap_or_default(), own);
            is("kind", object.kind())
                && is("group", object.group())
                && (!entry.get("name").is_set() || is("name", object.name()))
        })
    };
    let scope = if object.is_cluster_scoped() { "cluster" } else { "namespace" };
    let (white, black) =
        (spec.get(&format!("{scope}ResourceWhitelist")), spec.get(&format!("{scope}ResourceBlacklist")));
    if is_listed(&black) {
        return Some((black, false));
    }
    let is_needed = object.is_cluster_scoped() || white.is_set();
    (is_needed && !is_listed(&white)).then_some((white, true))
}
