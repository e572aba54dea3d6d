//! The kinds that rules check and read, derived from the rule table.
//!
//! The webhook rules, the RBAC and the watches follow from these lists; the resource names come from the kind table of
//! the engine ([`Kind::info`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpulint_rules::{Cluster, Engine, Kind, RULES, Rule, Settings};

/// The kinds that rules check, sorted.
pub fn checked() -> &'static [Kind] {
    static CHECKED: OnceLock<Vec<Kind>> = OnceLock::new();
    CHECKED.get_or_init(|| collect_kinds(Rule::kinds))
}

/// The kinds that are watched if all rules are on, sorted.
pub fn watched() -> &'static [Kind] {
    static WATCHED: OnceLock<Vec<Kind>> = OnceLock::new();
    WATCHED.get_or_init(|| watched_for(RULES.iter().copied()).into_iter().collect())
}

/// The custom resources that a webhook is asked about and that the schema rules check.
pub(crate) fn custom_resources() -> Vec<Kind> {
    let is_custom =
        |kind: &Kind| kind.info().is_some_and(|row| row.schemas.is_some() && !row.has_core_schema());
    checked().iter().copied().filter(is_custom).collect()
}

/// The kinds to watch for rules: those that they look up in the snapshot, those of pairs, and namespaces, whose labels the configuration
/// can select. Rules for kinds that no webhook is asked about need nothing.
pub(crate) fn watched_for(rules: impl Iterator<Item = &'static Rule>) -> BTreeSet<Kind> {
    let asked = rules.filter(|rule| is_asked(rule));
    let looked_up = asked.flat_map(|rule| rule.reads.iter().chain(rule.paired_kinds()));
    looked_up.copied().filter(|kind| !is_in_files_only(*kind)).chain([Kind::NAMESPACE]).collect()
}

/// Whether a kind is read in files only. The webhook has no permission to list Secrets, and CRDs are large. Rules have no error
/// where they are absent.
fn is_in_files_only(kind: Kind) -> bool {
    kind.is_of_file() || kind == Kind::SECRET || kind == Kind::CUSTOM_RESOURCE_DEFINITION
}

/// The rules that a configuration leaves on for some object.
pub(crate) fn rules_in_use(settings: &Settings) -> impl Iterator<Item = &'static Rule> {
    let is_named = |rule: &Rule| settings.overrides.iter().any(|part| part.rules.contains_key(rule.id));
    let is_on = |rule: &Rule| settings.rule(rule, None, None).enabled != Some(false);
    RULES.iter().copied().filter(move |rule| is_on(rule) || is_named(rule))
}

/// The rules for which each watched kind is read, if all are on; none for namespaces means the configuration.
pub fn readers() -> Vec<(Kind, Vec<&'static str>)> {
    let of = |kind: Kind| {
        let is_read = |rule: &Rule| rule.reads.contains(&kind) || rule.paired_kinds().contains(&kind);
        let reading = RULES.iter().filter(|rule| is_asked(rule) && is_read(rule));
        reading.map(|rule| rule.id).collect()
    };
    watched().iter().map(|kind| (*kind, of(*kind))).collect()
}

/// Whether a webhook can be asked about an object that the rule checks.
fn is_asked(rule: &Rule) -> bool {
    rule.kinds().is_empty() || rule.kinds().iter().any(|kind| importance(*kind) != Importance::Exempt)
}

/// Whether a rule checks objects of this group and kind.
pub fn is_checked(group: &str, kind: &str) -> bool {
    checked().iter().any(|k| k.group == group && k.kind == kind)
}

/// Whether a rule for the kind has a fix, which the mutating webhook could send as a patch.
pub(crate) fn is_mutated(kind: Kind) -> bool {
    RULES.iter().any(|rule| rule.fix.is_some() && rule.kinds().contains(&kind))
}

/// How important it is that requests for a kind are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Importance {
    /// Kinds that determine the behaviour of nodes, scaling and devices. They are written rarely and by people, and no
    /// recovery of nodes depends on them, so the failure policy can be configured.
    Guarded,
    /// All other kinds, including Pods: a server that does not respond must not block them, so the timeout is one
    /// second and requests are then allowed.
    Usual,
    /// Kinds that clusters write very often and few rules check: included only if configured.
    OnRequest,
    /// Kinds of `admissionregistration.k8s.io`, for which API servers call no webhook, so that none can lock itself in:
    /// <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#avoiding-operating-on-the-webhook-itself>.
    Exempt,
}

pub(crate) fn importance(kind: Kind) -> Importance {
    const GUARDED: &[(&str, &[&str])] = &[
        ("karpenter.sh", &["NodePool", "NodeOverlay"]),
        ("karpenter.k8s.aws", &["EC2NodeClass"]),
        ("keda.sh", &["ScaledObject", "ScaledJob", "TriggerAuthentication", "ClusterTriggerAuthentication"]),
        ("resource.k8s.io", &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate"]),
    ];
    const ON_REQUEST: &[&str] = &["ConfigMap", "Namespace", "Node"];
    if GUARDED.iter().any(|(group, kinds)| *group == kind.group && kinds.contains(&kind.kind)) {
        Importance::Guarded
    } else if kind.group == "admissionregistration.k8s.io" {
        Importance::Exempt
    } else if kind.group.is_empty() && ON_REQUEST.contains(&kind.kind) {
        Importance::OnRequest
    } else {
        Importance::Usual
    }
}

/// The kinds of the objects beside which one of this kind may not be, its own among them.
pub(crate) fn rivals(kind: Kind) -> Vec<Kind> {
    let is_among = |rule: &Rule| rule.pairs_with(kind) && rule.kinds().contains(&kind);
    collect_kinds(|rule| if is_among(rule) { rule.kinds() } else { &[] })
}

/// The kinds of the rules with findings on two objects, each with those of the other object.
pub(crate) fn related() -> &'static BTreeMap<Kind, BTreeSet<Kind>> {
    static RELATED: OnceLock<BTreeMap<Kind, BTreeSet<Kind>>> = OnceLock::new();
    RELATED.get_or_init(|| {
        let mut related: BTreeMap<Kind, BTreeSet<Kind>> = BTreeMap::new();
        for rule in RULES {
            for with in checked().iter().filter(|kind| rule.pairs_with(**kind)) {
                for kind in rule.kinds() {
                    related.entry(*kind).or_default().insert(*with);
                    related.entry(*with).or_default().insert(*kind);
                }
            }
        }
        related
    })
}

/// Whether the snapshot is complete for every kind that the rules in use for this kind read, and for those of the objects
/// that may name one of it.
pub(crate) fn is_synced_for(engine: &Engine, cluster: &Cluster, group: &str, kind: &str) -> bool {
    let is_it = |k: &Kind| k.group == group && k.kind == kind;
    let reads = |rule: &'static Rule| if rule.kinds().iter().any(is_it) { rule.reads } else { &[] };
    let naming = |rule: &'static Rule| {
        let is_partner = checked().iter().any(|k| is_it(k) && rule.pairs_with(*k));
        if is_partner { rule.kinds() } else { &[] }
    };
    cluster.is_complete()
        || rules_in_use(engine.settings())
            .flat_map(|rule| reads(rule).iter().chain(naming(rule)))
            .all(|read| is_in_files_only(*read) || cluster.is_complete_for(*read))
}

fn collect_kinds(of: impl Fn(&Rule) -> &'static [Kind]) -> Vec<Kind> {
    let kinds: BTreeSet<Kind> = RULES.iter().flat_map(|rule| of(rule)).copied().collect();
    let kinds = kinds.into_iter().filter(|kind| !kind.is_of_file());
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_kubernetes_are_no_custom_resources() {
        let kinds = custom_resources();
        assert!(kinds.contains(&Kind::NODE_POOL) && !kinds.contains(&Kind::DEPLOYMENT), "{kinds:?}");
    }

    #[test]
    fn what_nodes_need_is_never_guarded() {
        let of = |importance| checked().iter().filter(move |kind| super::importance(**kind) == importance);
        let names = |importance| of(importance).map(|kind| kind.kind).collect::<Vec<_>>();
        assert_eq!(of(Importance::Guarded).count(), 10, "{:?}", names(Importance::Guarded));
        assert_eq!(names(Importance::OnRequest), ["ConfigMap", "Namespace", "Node"]);
        for needed in ["Pod", "NodeClaim", "Deployment", "DaemonSet", "PodDisruptionBudget"] {
            assert!(names(Importance::Usual).contains(&needed), "{needed}");
        }
    }

    #[test]
    fn rivals_are_kinds_of_which_two_may_not_be_together() {
        let autoscalers = [Kind::HPA, Kind::HTTP_SCALED_OBJECT, Kind::SCALED_OBJECT];
        assert_eq!(rivals(Kind::SCALED_OBJECT), autoscalers);
        assert_eq!(rivals(Kind::PDB), [Kind::PDB]);
        assert_eq!(rivals(Kind::DEPLOYMENT), []);
    }

    #[test]
    fn the_kinds_of_objects_that_name_others_are_watched() {
        let with_pairs = |rule: &&&Rule| checked().iter().any(|kind| rule.pairs_with(*kind));
        let rules: Vec<&&Rule> = RULES.iter().filter(with_pairs).collect();
        assert!(rules.len() >= 8, "{rules:?}");
        for rule in rules {
            assert!(rule.kinds().iter().all(|kind| watched().contains(kind)), "{rule:?}");
        }
    }

    #[test]
    fn every_kind_of_a_rule_is_in_the_kind_table() {
        let kinds = checked().iter().chain(watched());
        let missing: Vec<String> =
            kinds.filter(|kind| kind.info().is_none()).map(ToString::to_string).collect();
        assert!(missing.is_empty(), "no row for {}", missing.join(", "));
    }
}
