//! KEDA cannot build a scaler from a trigger's metadata.
//!
//! # Why
//! KEDA's admission does not look at a trigger's metadata. A key that is missing, `70%` where a
//! number belongs, a word that the scaler does not know or a threshold that an HPA rounds to 0 fails
//! later: no scaler or no HPA is made, the object is not Ready, and the replicas stay where they are.
//!
//! A TriggerAuthentication and the `env` of the target's container are looked at where the input has them. Of
//! parameters only the names are known, not the values: parameters under names that the trigger does not read are
//! named beside those that it lacks. A variable that the container lacks counts as an empty
//! value: it is a warning where the scaler can be built without one, such as a password.
//!
//! # Fix
//! Write the keys that the trigger type needs, with values that it can read.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    triggers:
//!      - type: kubernetes-workload
//! -      metadata: {podSelector: app=llm-client, value: 4 pods} # <-
//! +      metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>

use crate::keda::check::{Surroundings, TriggerProblem, problems, unset_variables};
use crate::keda::scalers::{KeySource, Scaler, type_added_after};
use crate::keda::sources::{Authentication, parameter_names};
use crate::keda::value::number;
use crate::keda::with_article;
use crate::platform::Platform;
use crate::rules::autoscaling::scale_target;
use crate::rules::partners::{around_scaler, authenticated, autoscalers};
use crate::rules::prelude::*;
use crate::workload::environment::{Environment, Variable};

/// The sources of a trigger's values.
pub(super) const READS: [Kind; 7] = [
    Kind::TRIGGER_AUTHENTICATION,
    Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::REPLICA_SET,
    Kind::LEADER_WORKER_SET,
    Kind::ROLLOUT,
];

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-invalid",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: &READS,
    pairs: &[
        Pair {
            with: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
            partners: authenticated,
            beside: around_scaler,
        },
        Pair { with: SCALABLE_KINDS, partners: autoscalers, beside: around_scaler },
    ],
    depends_on: &[Product::Keda],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("keda_trigger_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let has_hpa = object.is(Kind::SCALED_OBJECT);
    for trigger in triggers(object) {
        let Some(scaler) = scaler(&trigger, ctx.platform()) else { continue };
        if has_hpa {
            utilization(&trigger, ctx);
        }
        // Fields that a patch does not set may be in the object that it patches.
        if !object.is_partial() && trigger.metadata().is_set() {
            let source = authentication(object, &trigger, ctx);
            let holder = holder(object, ctx);
            let around = surroundings(object, &trigger, source, holder);
            let mut all = problems(trigger.clone(), scaler, &around);
            let unread = source.map(|source| unread_parameters(scaler, source)).unwrap_or_default();
            name_unread(&mut all, &unread, &trigger);
            let (fatal, places) = (all.len(), all.iter().map(|one| one.node.pointer()).collect::<Vec<_>>());
            let unset = unset_variables(trigger.clone(), scaler, &around).into_iter();
            all.extend(unset.filter(|problem| !places.contains(&problem.node.pointer())));
            for (at, problem) in all.into_iter().enumerate() {
                let missing = holder.zip(problem.missing_variable);
                let other = missing.and_then(|(holder, name)| container_with(object, holder, name));
                let is_right_for_all =
                    other.as_ref().is_some_and(|container| serves_all_triggers(object, container, ctx));
                let finding = ctx.report(&problem.node, problem.message).help(problem.help);
                finding.identified_by(problem.keys);
                // The scaler is built, and its source gets an empty value.
                if at >= fatal {
                    finding.severity(Severity::Warning);
                }
                if let Some(meant) = problem.meant {
                    let fix = Fix::unsafe_(format!("rename it to `{meant}`"));
                    finding.at_key().fix(fix.move_to(&problem.node, &trigger.metadata().get(meant)));
                }
                if let Some(source) = source.filter(|_| problem.reads_authentication) {
                    finding.related(source, &source.path(&["metadata", "name"]), "this gives the parameters");
                    for parameter in unread.iter().filter(|_| problem.absent.is_some()) {
                        finding.related(source, parameter, "a parameter that the trigger does not read");
                    }
                }
                if let Some((holder, container)) = holder.zip(other) {
                    name_container(object, holder, &container, is_right_for_all, finding);
                } else if let Some(holder) =
                    holder.filter(|holder| problem.reads_environment && !holder.ptr_eq(object))
                {
                    finding.related(holder, &holder.path(&["metadata", "name"]), "this has the environment");
                }
            }
        }
        if has_hpa && uses_modifiers(object) == Some(false) {
            threshold(&trigger, ctx);
        }
    }
    None
}

/// The parameters of a TriggerAuthentication that a trigger type does not read.
fn unread_parameters<'a>(scaler: &Scaler, source: &'a Object) -> Vec<Node<'a>> {
    let is_read = |parameter: &Node<'_>| {
        let read = |name| scaler.key(name).is_some_and(|key| key.reads(KeySource::Authentication));
        parameter.text().is_none_or(read)
    };
    let mut parameters = parameter_names(&source.get("spec"));
    parameters.retain(|parameter| !is_read(parameter));
    parameters
}

/// Makes one problem of the parameters that a trigger lacks while its TriggerAuthentication has some that the trigger
/// does not read: those have the wrong names.
fn name_unread(problems: &mut Vec<TriggerProblem<'_>>, unread: &[Node<'_>], trigger: &Trigger<'_>) {
    let Some(written) = unread.first().and_then(Node::text) else { return };
    let is_misnamed = |problem: &TriggerProblem<'_>| {
        problem.absent.is_some() && problem.reads_authentication && problem.meant.is_none()
    };
    let Some(first) = problems.iter().position(is_misnamed) else { return };
    let lacking: Vec<&str> =
        problems.iter().filter(|problem| is_misnamed(problem)).filter_map(|problem| problem.absent).collect();
    let names = lacking.join("` and `");
    let kind = with_article(trigger.kind().unwrap_or_default());
    let mut one = problems.remove(first);
    one.message =
        format!("{kind} trigger needs `{names}`, and does not read the parameter `{}`", ellipsize(written));
    one.help = format!("call the parameters of the TriggerAuthentication `{names}`");
    one.keys = lacking.join(",");
    problems.retain(|problem| !is_misnamed(problem));
    problems.insert(first, one);
}

/// The parts of other objects that a trigger's values depend on.
fn surroundings<'a>(
    object: &'a Object,
    trigger: &Trigger<'_>,
    source: Option<&'a Object>,
    holder: Option<&'a Object>,
) -> Surroundings<'a> {
    let unknown = if trigger.has_authentication() { Authentication::Unknown } else { Authentication::None };
    Surroundings {
        modifiers: if object.is(Kind::SCALED_OBJECT) { uses_modifiers(object) } else { Some(false) },
        authentication: source.map_or(unknown, |source| Authentication::of(&source.get("spec"))),
        environment: holder.map_or(Environment::Unknown, |holder| environment(object, holder)),
    }
}

/// Whether the rule reports that a key is absent which a key of the trigger's metadata is most likely meant to be.
pub(super) fn blames(written: &Node<'_>, trigger: &Trigger<'_>, ctx: &Context<'_>) -> bool {
    let object = ctx.object();
    let is_checked = ctx.is_rule_enabled(RULE.id) && !object.is_partial();
    let Some(scaler) = scaler(trigger, ctx.platform()).filter(|_| is_checked) else { return false };
    let around = surroundings(object, trigger, authentication(object, trigger, ctx), holder(object, ctx));
    let pointer = written.pointer();
    let found = problems(trigger.clone(), scaler, &around);
    found.iter().any(|problem| problem.meant.is_some() && problem.node.pointer() == pointer)
}

/// The definition of the trigger's type. While the version of KEDA is not stated, a version without the type has that of the
/// first one with it, so that what all of them reject stays an error.
fn scaler(trigger: &Trigger<'_>, platform: &Platform) -> Option<&'static Scaler> {
    let later =
        || type_added_after(trigger.kind()?, platform.keda).filter(|_| !platform.is_stated(Product::Keda));
    trigger.scaler(platform.keda).or_else(|| trigger.scaler(later()?))
}

/// The TriggerAuthentication that a trigger names, if the input has all of it.
pub(super) fn authentication<'a>(
    object: &Object,
    trigger: &Trigger<'_>,
    ctx: &Context<'a>,
) -> Option<&'a Object> {
    let reference = trigger.node.get("authenticationRef");
    let name = reference.get("name").text()?;
    let kind = reference.get("kind");
    let found = match kind.text() {
        _ if kind.is_unknown() => None,
        None | Some("TriggerAuthentication") => {
            let namespace = object.namespace_or_default();
            ctx.partner(Kind::TRIGGER_AUTHENTICATION, namespace, name)
        }
        Some(_) => {
            let all = ctx.cluster().written_as(Kind::CLUSTER_TRIGGER_AUTHENTICATION, name);
            let mut near = all.filter(|other| ctx.pairs_with(other));
            near.next().filter(|_| near.next().is_none())
        }
    };
    found.filter(|found| is_whole(found))
}

/// The object with the containers whose environment KEDA reads, if the input has all of it.
pub(super) fn holder<'a>(object: &'a Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let holder = if object.is(Kind::SCALED_JOB) { object } else { scale_target::target(object, ctx)? };
    Some(holder).filter(|holder| is_whole(holder))
}

/// The spec of the pods whose environment KEDA reads, and the field that names the container.
fn environment_source<'a>(object: &'a Object, holder: &'a Object) -> (Node<'a>, Node<'a>) {
    if object.is(Kind::SCALED_JOB) {
        let pod = holder.path(&["spec", "jobTargetRef", "template", "spec"]);
        (pod, object.path(&["spec", "envSourceContainerName"]))
    } else {
        let pod = holder.path(&["spec", "template", "spec"]);
        (pod, object.path(&["spec", "scaleTargetRef", "envSourceContainerName"]))
    }
}

/// The environment that KEDA reads for the triggers of an object.
pub(super) fn environment<'a>(object: &'a Object, holder: &'a Object) -> Environment<'a> {
    let (pod, name) = environment_source(object, holder);
    Environment::of(&pod, &name)
}

/// Whether a container defines a variable with a value.
fn defines(container: &Node<'_>, variable: &str) -> bool {
    match Environment::Container(container.clone()).variable(variable) {
        Variable::Hidden => true,
        Variable::Text(text) => !text.trim().is_empty(),
        Variable::Absent | Variable::Unknown => false,
    }
}

/// The first container of the target that defines a variable, if its name is known.
fn container_with<'a>(object: &'a Object, holder: &'a Object, variable: &str) -> Option<Node<'a>> {
    let (pod, _) = environment_source(object, holder);
    let container = pod.get("containers").items().find(|container| defines(container, variable))?;
    container.get("name").text().is_some().then_some(container)
}

/// Whether every trigger finds its variables in a container, so that it can be the one whose environment KEDA reads.
fn serves_all_triggers(object: &Object, container: &Node<'_>, ctx: &Context<'_>) -> bool {
    triggers(object).all(|trigger| {
        let metadata = trigger.metadata();
        let entries = metadata.entries();
        let mut variables = entries.iter().filter(|(key, _)| key.ends_with("FromEnv"));
        // A TriggerAuthentication may read the environment as well.
        let is_read_elsewhere = trigger.has_authentication()
            && authentication(object, &trigger, ctx)
                .is_none_or(|source| !source.path(&["spec", "env"]).is_absent());
        !is_read_elsewhere
            && variables.all(|(_, value)| value.text().is_some_and(|name| defines(container, name)))
    })
}

/// Names the container that defines the variable which another one lacks.
fn name_container(
    object: &Object,
    holder: &Object,
    container: &Node<'_>,
    is_right_for_all: bool,
    finding: &mut Finding,
) {
    let (_, field) = environment_source(object, holder);
    let name = container.get("name").text().unwrap_or_default();
    let short = ellipsize(name);
    finding.related(holder, &container.get("env"), format!("container `{short}` has the variable"));
    if !is_right_for_all {
        finding.help(format!(
            "give it to this one as well: `{short}` has it, and KEDA reads one container for all"
        ));
        return;
    }
    let reason =
        if field.is_set() { "that container has it" } else { "KEDA reads the first container otherwise" };
    finding
        .help(format!("write `envSourceContainerName: {short}`: {reason}"))
        .fix(Fix::safe(format!("read the environment of `{short}`")).set(&field, json!(name)));
}

fn is_whole(object: &Object) -> bool {
    !object.may_lack_fields()
}

/// A `cpu` or `memory` target of type Utilization is decoded as a 32-bit integer.
fn utilization(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !trigger.is_resource() || trigger.node.get("metricType").text() != Some("Utilization") {
        return None;
    }
    let value = trigger.metadata().get("value");
    let text = value.text().map(str::trim).filter(|t| !t.is_empty())?;
    let message = match text.parse::<i32>() {
        Ok(n) if n > 0 => return None,
        Ok(n) => format!("a utilization of {n} is not above 0: the API server rejects the HPA"),
        Err(_) => format!("a utilization of `{}` is not an integer percentage", ellipsize(text)),
    };
    ctx.report(&value, message).help("write a plain number above 0, such as \"70\"");
    None
}

/// A target of an HPA has three decimals: the API server rejects a value that rounds to 0.
fn threshold(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if trigger.kind() != Some("prometheus") {
        return None;
    }
    let node = trigger.metadata().get("threshold");
    let text = node.text()?.trim();
    if number(text)? < 0.0005 {
        ctx.report(
            &node,
            format!("threshold {} is rounded to 0: the API server rejects the HPA", ellipsize(text)),
        )
        .help("write 0.001 or more");
    }
    None
}
