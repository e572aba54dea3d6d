//! Sidecars that webhooks add to pods, and that have no request unless something states one.
//!
//! Read in: the chart of Linkerd 2.20 (`proxy.resources` of `values.yaml`, and those of `values-ha.yaml`), `getResourceRequirements` of
//! Dapr 1.14, and `pkg/sidecar` of the OpenTelemetry operator 0.113, whose sidecars have the resources of their collector.

use crate::rules::prelude::*;
use crate::workload::charts::installs;

/// What a rule reads that asks for [`sidecar_without_request`].
pub(super) const READS: &[Kind] = kinds![[Kind::NAMESPACE, Kind::OPENTELEMETRY_COLLECTOR], CHART_KINDS];

/// A sidecar that a webhook adds to the pods of a template.
pub(super) struct Sidecar<'a> {
    /// How a message calls it.
    pub(super) what: &'static str,
    /// The annotation that asks for it, and the object that has it.
    pub(super) asked: (&'a Object, Node<'a>),
    /// What gives it a request.
    pub(super) help: String,
    /// Whether nothing else can give it one.
    pub(super) is_certain: bool,
}

/// The names that injectors give to their containers. A template with one is the output of an injector, or has the sidecar anyway.
const CONTAINERS: [&str; 3] = ["linkerd-proxy", "daprd", "otc-container"];

/// A sidecar of the pods of a workload's template that has neither a request nor a limit for `cpu` or `memory`.
pub(super) fn sidecar_without_request<'a>(
    workload: &'a Object,
    template: &Template<'a>,
    resource: &str,
    ctx: &Context<'a>,
) -> Option<Sidecar<'a>> {
    let annotations = template.metadata.get("annotations");
    let is_injected =
        |container: Node<'_>| container.get("name").text().is_some_and(|name| CONTAINERS.contains(&name));
    if annotations.has_unknown_key() || template.all_containers().any(is_injected) {
        return None;
    }
    let pods = Pods { workload, template, annotations, resource };
    of_linkerd(&pods, ctx).or_else(|| of_dapr(&pods)).or_else(|| of_collector(&pods, ctx))
}

struct Pods<'p, 'a> {
    workload: &'a Object,
    template: &'p Template<'a>,
    annotations: Node<'a>,
    resource: &'p str,
}

impl<'a> Pods<'_, 'a> {
    /// An annotation of the pods, or else of their namespace, with the object that has it.
    fn annotation(&self, key: &str, ctx: &Context<'a>) -> Option<(&'a Object, Node<'a>)> {
        let own = self.annotations.get(key);
        if own.is_set() {
            return Some((self.workload, own));
        }
        let namespace = ctx.partner(Kind::NAMESPACE, "default", self.workload.namespace_or_default())?;
        let given = namespace.path(&["metadata", "annotations", key]);
        given.is_set().then_some((namespace, given))
    }
}

/// The proxy of Linkerd, which the annotations of a pod, those of its namespace and the values of the chart configure.
fn of_linkerd<'a>(pods: &Pods<'_, 'a>, ctx: &Context<'a>) -> Option<Sidecar<'a>> {
    const CHART: &str = "linkerd-control-plane";
    let spec = &pods.template.spec;
    let asked = pods.annotation("linkerd.io/inject", ctx)?;
    let is_left_out = spec.get("hostNetwork").bool() == Some(true)
        || spec.get("automountServiceAccountToken").bool() == Some(false);
    if is_left_out || !matches!(asked.1.text(), Some("enabled" | "ingress")) {
        return None;
    }
    let keys = ["request", "limit"];
    let stated =
        keys.map(|key| pods.annotation(&format!("config.linkerd.io/proxy-{}-{key}", pods.resource), ctx));
    if stated.iter().any(Option::is_some) {
        return None;
    }
    let mut installers = chart_installers(ctx.cluster()).filter(|one| installs(one, CHART)).peekable();
    let is_certain = installers.peek().is_some();
    let gives = |installer: &Object| {
        let mut is_known = !installer.may_lack_fields();
        let mut reads_values = false;
        for_each_values(installer, CHART, |values| {
            let amounts = values.root.path(&["proxy", "resources", pods.resource]);
            let lacks = |key: &str| {
                let amount = amounts.get(key);
                !amount.is_set() || amount.text() == Some("")
            };
            reads_values = true;
            is_known &= !values.may_differ && !amounts.has_unknown() && lacks("request") && lacks("limit");
        });
        !is_known || !reads_values
    };
    if installers.any(gives) {
        return None;
    }
    let key = format!("config.linkerd.io/proxy-{}-request", pods.resource);
    let help = match is_certain {
        true => {
            format!("write the annotation `{key}`, or `proxy.resources` in the values of Linkerd's chart")
        }
        false => {
            format!("write the annotation `{key}`, unless `proxy.resources` of Linkerd's chart gives one")
        }
    };
    Some(Sidecar { what: "the proxy of Linkerd", asked, help, is_certain })
}

/// The sidecar of Dapr, which the annotations of a pod alone configure.
fn of_dapr<'a>(pods: &Pods<'_, 'a>) -> Option<Sidecar<'a>> {
    let asked = pods.annotations.get("dapr.io/enabled");
    let is_on = asked.bool() == Some(true)
        || asked.text().is_some_and(|text| {
            matches!(text.trim().to_ascii_lowercase().as_str(), "y" | "yes" | "true" | "on" | "1")
        });
    let amounts = ["request", "limit"].map(|key| format!("dapr.io/sidecar-{}-{key}", pods.resource));
    if !is_on || amounts.iter().any(|key| pods.annotations.get(key).is_set()) {
        return None;
    }
    let help = format!("write the annotation `{}`, or name the container to measure", amounts[0]);
    Some(Sidecar { what: "the sidecar of Dapr", asked: (pods.workload, asked), help, is_certain: true })
}

/// A collector of OpenTelemetry that its operator adds: the one that the annotation names, or the only one of the namespace.
fn of_collector<'a>(pods: &Pods<'_, 'a>, ctx: &Context<'a>) -> Option<Sidecar<'a>> {
    let asked = pods.annotation("sidecar.opentelemetry.io/inject", ctx)?;
    let name = asked.1.text()?;
    let namespace = pods.workload.namespace_or_default();
    let is_sidecar = |one: &Object| one.path(&["spec", "mode"]).text() == Some("sidecar");
    let collector = match name {
        _ if name.eq_ignore_ascii_case("false") => return None,
        _ if name.eq_ignore_ascii_case("true") => {
            let all = ctx.cluster().in_namespace(Kind::OPENTELEMETRY_COLLECTOR, namespace);
            let mut sidecars = all.filter(|one| is_sidecar(one));
            sidecars.next().filter(|_| sidecars.next().is_none())?
        }
        _ => {
            let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
            ctx.partner(Kind::OPENTELEMETRY_COLLECTOR, namespace, name)?
        }
    };
    let resources = collector.path(&["spec", "resources"]);
    let gives = |list: &str| resources.path(&[list, pods.resource]).is_set();
    if !is_sidecar(collector)
        || collector.may_lack_fields()
        || !ctx.pairs_with(collector)
        || resources.has_unknown()
        || gives("requests")
        || gives("limits")
    {
        return None;
    }
    let help = format!(
        "write `resources.requests.{}` in OpenTelemetryCollector `{}`",
        pods.resource,
        collector.display_name()
    );
    Some(Sidecar { what: "the collector of OpenTelemetry", asked, help, is_certain: true })
}
