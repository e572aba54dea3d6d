//! An Ingress ends requests while a model server still generates.
//!
//! # Why
//! Between the client and a model server stands a proxy that gives up when it gets no data for some time:
//! `ingress-nginx` after the seconds of `proxy-read-timeout`, an Application Load Balancer after its idle
//! timeout, both 60 by default, and the router of OpenShift 30 unless a Route has an annotation. A request
//! without streaming gets no data until the last token, and one that waits in the queue of a busy server
//! none before the first. The client sees 504, often tries again, and the server goes on with an answer
//! that nobody reads.
//!
//! `ingress-nginx` reads a whole number of seconds: with a unit the value is ignored and the default stays. The
//! controller of load balancers reads the idle timeout from `load-balancer-attributes` alone.
//!
//! Where nothing is written, this is advice: the controller's ConfigMap or the parameters of the class may
//! have another default, and clients may stream. It is a warning for models that reason before they answer,
//! and for servers whose options allow answers of 4096 tokens.
//!
//! # Fix
//! Write a timeout as long as the longest answer, such as 600 seconds, and let clients stream.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: Ingress
//!  metadata:
//!    name: chat
//!    namespace: models
//!    annotations:
//! -    nginx.ingress.kubernetes.io/proxy-read-timeout: 10m # <-
//! +    nginx.ingress.kubernetes.io/proxy-read-timeout: "600"
//!  spec:
//!    ingressClassName: nginx
//!    defaultBackend: {service: {name: chat, port: {number: 80}}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {app: chat}
//!    ports: [{port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, namespace: models, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: example.com/vllm:v0.11.0
//!        command: [vllm, serve, Qwen/Qwen3-8B]
//!        readinessProbe: {httpGet: {path: /health, port: 8000}}
//! ```
//!
//! # References
//! - <https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/#custom-timeouts>
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/>
//! - <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html>
//! - <https://github.com/kubernetes/ingress-nginx/issues/3976>
//! - <https://docs.redhat.com/en/documentation/openshift_container_platform/4.19/html/networking/configuring-routes>

use super::ingress::{
    CONTROLLER_KINDS, Controller, containers_behind, containers_of_workloads, controller, has_class_params,
    may_change_default,
};
use crate::rules::prelude::*;

/// Services and their workloads, and the configuration of `ingress-nginx`.
const READS: &[Kind] = kinds![
    CONTROLLER_KINDS,
    [Kind::SERVICE, Kind::CONFIG_MAP, Kind::INGRESS_CLASS_PARAMS, Kind::AUTO_MODE_INGRESS_CLASS_PARAMS],
    WORKLOAD_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "ingress-timeout-short",
    kinds: &[Kind::INGRESS, Kind::OPENSHIFT_ROUTE],
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ingress_timeout_short.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The seconds that both controllers wait by default.
const DEFAULT: i64 = 60;
/// The seconds that the fix writes: the time that clients of OpenAI's library wait.
const ENOUGH: i64 = 600;
const READ: &str = "nginx.ingress.kubernetes.io/proxy-read-timeout";
const ATTRIBUTES: &str = "alb.ingress.kubernetes.io/load-balancer-attributes";
/// An annotation that people write, and that the controller does not have.
const UNKNOWN: &str = "alb.ingress.kubernetes.io/connection-idle-timeout";
const IDLE: &str = "idle_timeout.timeout_seconds";

/// Servers that generate text token by token.
const GENERATORS: [ServerId; 8] = [
    ServerId::Vllm,
    ServerId::Sglang,
    ServerId::Tgi,
    ServerId::TensorRtLlm,
    ServerId::LlamaCpp,
    ServerId::Ollama,
    ServerId::LmDeploy,
    ServerId::HuggingFace,
];
/// Options of servers that compute one vector or score, which takes no time.
const POOLING: [&str; 9] =
    ["embed", "pooling", "--task", "rerank", "classify", "bge-", "gte-", "/e5-", "colbert"];
/// Options for models that reason before they answer.
const REASONING: [&str; 2] = ["--reasoning-parser", "--enable-reasoning"];
/// What names the most tokens of an answer: options, and settings of a model's generation in JSON or behind a dot
/// (`--override-generation-config.max_new_tokens`).
const LENGTHS: [&str; 7] = [
    "--max-new-tokens",
    "--default-max-tokens",
    "--n-predict",
    "--predict",
    " -n",
    "max_new_tokens",
    "\"max_tokens\"",
];
/// Tokens for which a server needs more than a minute, at 60 a second.
const LONG_ANSWER: i64 = 4096;

/// What an Ingress writes of its timeout.
enum Timeout<'a> {
    Seconds(i64, Node<'a>),
    /// A value that the controller cannot read, or an annotation that it does not have.
    Ignored(Node<'a>),
    /// The annotation that is not there.
    Absent(Node<'a>),
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.path(&["metadata", "annotations"]).has_unknown_key() {
        return None;
    }
    if object.is(Kind::OPENSHIFT_ROUTE) {
        return of_route(object, ctx);
    }
    let controller = controller(object, ctx)?;
    let timeout = timeout(object, controller, ctx)?;
    let (workload, server, takes_long) = generator(containers_behind(object, ctx))?;
    let name = if controller == Controller::Nginx { "nginx" } else { "the load balancer" };
    let (node, message) = match &timeout {
        Timeout::Seconds(seconds, node) if (1..=DEFAULT).contains(seconds) => {
            (node, format!("{name} waits {seconds} s for data: longer answers of {server} end in 504"))
        }
        Timeout::Seconds(..) => return None,
        Timeout::Ignored(node) if controller == Controller::Nginx => {
            let text = node.text().unwrap_or_default();
            (
                node,
                format!(
                    "`{}` is not a whole number of seconds, so nginx keeps its {DEFAULT} s",
                    ellipsize(text)
                ),
            )
        }
        Timeout::Ignored(node) => (
            node,
            format!("the controller has no such annotation: the load balancer waits {DEFAULT} s for data"),
        ),
        Timeout::Absent(node) => (
            node,
            format!("{name} waits {DEFAULT} s for data by default: longer answers of {server} end in 504"),
        ),
    };
    let is_advice = matches!(timeout, Timeout::Absent(_)) && !takes_long;
    let finding = ctx.report(node, message);
    finding.severity(if is_advice { Severity::Info } else { Severity::Warning });
    finding.related(workload, &workload.path(&["metadata", "name"]), "the server");
    if controller == Controller::Nginx {
        finding.help(format!("write `{READ}: \"{ENOUGH}\"`")).fix(
            Fix::unsafe_(format!("wait {ENOUGH} seconds for data")).set(node, json!(ENOUGH.to_string())),
        );
    } else {
        finding.help(format!("write `{IDLE}={ENOUGH}` in `{ATTRIBUTES}`"));
    }
    None
}

/// The annotation of a Route, and the seconds that the router of OpenShift waits without it (`ROUTER_DEFAULT_SERVER_TIMEOUT`).
const OF_ROUTE: (&str, i64) = ("haproxy.router.openshift.io/timeout", 30);

/// Reports a Route of OpenShift. With `passthrough` the router forwards bytes, and other timeouts apply.
fn of_route(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let to = spec.get("to");
    let is_service = to.get("kind").is_absent() || to.get("kind").text() == Some(Kind::SERVICE.kind);
    if !is_service || spec.path(&["tls", "termination"]).text() == Some("passthrough") {
        return None;
    }
    let (name, default) = OF_ROUTE;
    let node = object.annotation(name);
    let stated = if node.is_set() { Some(haproxy_seconds(node.text()?)?) } else { None };
    if stated.is_some_and(|seconds| !(1..=DEFAULT).contains(&seconds)) {
        return None;
    }
    let namespace = object.namespace_or_default();
    let service = ctx.cluster().unique(Kind::SERVICE, namespace, to.get("name").text()?)?;
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    let (workload, server, takes_long) = generator(containers_of_workloads(&workloads, None, ctx))?;
    let message = match stated {
        Some(seconds) => {
            format!("the router waits {seconds} s for data: longer answers of {server} end in 504")
        }
        None => {
            format!("the router waits {default} s for data by default: longer answers of {server} end in 504")
        }
    };
    let is_advice = stated.is_none() && !takes_long;
    ctx.report(&node, message)
        .severity(if is_advice { Severity::Info } else { Severity::Warning })
        .help(format!("annotate it with `{name}: {ENOUGH}s`"))
        .related(workload, &workload.path(&["metadata", "name"]), "the server")
        .fix(Fix::unsafe_(format!("wait {ENOUGH} seconds for data")).set(&node, json!(format!("{ENOUGH}s"))));
    None
}

/// The whole seconds of a time of HAProxy: a number of milliseconds, or one with a unit.
fn haproxy_seconds(text: &str) -> Option<i64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: i64 = text.get(..digits)?.parse().ok()?;
    match text.get(digits..)? {
        "" | "ms" => Some(number / 1000),
        "us" => Some(number / 1_000_000),
        "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        "d" => number.checked_mul(86_400),
        _ => None,
    }
}

/// What sets the timeout of an Ingress. `None` where something else may: a ConfigMap, values of the chart, parameters of the
/// class, or another Ingress of the group.
fn timeout<'a>(object: &'a Object, controller: Controller, ctx: &Context<'_>) -> Option<Timeout<'a>> {
    if controller == Controller::Nginx {
        // A canary has the timeouts of the Ingress that it belongs to.
        if object.annotation("nginx.ingress.kubernetes.io/canary").text() == Some("true") {
            return None;
        }
        let node = object.annotation(READ);
        if !node.is_set() {
            return (!may_change_default("proxy-read-timeout", ctx)).then_some(Timeout::Absent(node));
        }
        let text = node.text().filter(|text| !is_placeholder(text))?;
        return Some(match text.parse() {
            Ok(seconds) => Timeout::Seconds(seconds, node),
            Err(_) => Timeout::Ignored(node),
        });
    }
    let node = object.annotation(ATTRIBUTES);
    let attributes = if node.is_set() { node.text().filter(|text| !is_placeholder(text))? } else { "" };
    let set = attributes.split(',').find_map(|item| item.trim().strip_prefix(IDLE)?.trim().strip_prefix('='));
    if let Some(value) = set {
        return Some(Timeout::Seconds(value.trim().parse().ok()?, node));
    }
    let in_group = object.annotation("alb.ingress.kubernetes.io/group.name").is_set();
    if in_group || has_class_params(ctx) {
        return None;
    }
    let unknown = object.annotation(UNKNOWN);
    Some(if unknown.is_set() { Timeout::Ignored(unknown) } else { Timeout::Absent(node) })
}

/// The first of some containers that generates text: its workload, its server, and whether its options show that answers take long.
pub(super) fn generator<'i>(
    containers: Vec<(&'i Object, Node<'i>)>,
) -> Option<(&'i Object, &'static str, bool)> {
    containers.into_iter().find_map(|(owner, container)| {
        let server = server_of(&container).filter(|server| GENERATORS.contains(&server.id))?;
        let line = command_line(&container).to_lowercase();
        if POOLING.iter().any(|word| line.contains(word)) {
            return None;
        }
        let own = Launch::of(&container).map(|launch| launch.line().to_lowercase()).unwrap_or_default();
        Some((owner, server.name, reasons(&own) || writes_long_answers(&own)))
    })
}

/// Whether options make a model reason before it answers, unless they also turn that off (`{"enable_thinking": false}`).
fn reasons(line: &str) -> bool {
    let is_off = |rest: &str| rest.trim_start_matches(['"', ':', ' ', '=']).starts_with("false");
    REASONING.iter().any(|option| line.contains(option)) && !line.split("thinking").skip(1).any(is_off)
}

/// Whether options allow answers that take longer than a minute.
fn writes_long_answers(line: &str) -> bool {
    let is_long = |rest: &str| {
        let rest = rest.trim_start_matches(['"', ':', ' ', '=']);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<i64>().is_ok_and(|tokens| tokens >= LONG_ANSWER)
    };
    LENGTHS.iter().any(|option| line.split(*option).skip(1).any(is_long))
}
