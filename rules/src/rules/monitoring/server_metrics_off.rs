//! Metrics of a model server are read, and its options keep them closed.
//!
//! # Why
//! SGLang answers `/metrics` with 404 without `--enable-metrics`, and llama.cpp with 501 without
//! `--metrics` or `LLAMA_ARG_ENDPOINT_METRICS`. vLLM with `--disable-log-stats` counts nothing: its
//! endpoint has no `vllm:` series, and Ollama has no such endpoint. Prometheus then has a target that is
//! down or empty, and a query of KEDA returns nothing: the server keeps its number of replicas, whatever
//! the load. It is reported where an autoscaler of the workload reads such a metric of its pods, or a
//! monitor or an annotation has the server's port scraped.
//!
//! # Fix
//! Write the option, or for vLLM remove it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata:
//!    name: chat
//!    labels: {app: chat}
//!    annotations: {prometheus.io/scrape: "true", prometheus.io/port: "30000"}
//!  spec:
//!    containers:
//!      - name: sglang
//!        image: example.com/sglang:v0.5.5
//!        command: [python3, -m, sglang.launch_server]
//!        args: # <-
//!          - --model-path=Qwen/Qwen3-8B
//!          - --host=0.0.0.0
//! +        - --enable-metrics
//! ```
//!
//! # References
//! - <https://docs.sglang.ai/references/production_metrics.html>
//! - <https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md>
//! - <https://docs.vllm.ai/en/latest/design/metrics.html>

use crate::rules::autoscaling::scraped_labels::{SCRAPE_KINDS, may_select, scrapes_of};
use crate::rules::monitoring::monitors::{endpoints, is_of_pods};
use crate::rules::prelude::*;
use crate::workload::server::likely_server_of;
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "server-metrics-off",
    kinds: WORKLOAD_KINDS,
    reads: kinds![SCRAPE_KINDS, [Kind::SCALED_OBJECT, Kind::HPA], WORKLOAD_KINDS],
    docs: docs(include_str!("server_metrics_off.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// What keeps the metrics of a server closed.
struct Closed<'a> {
    node: Node<'a>,
    /// For the message: "without `--metrics`".
    how: &'static str,
    help: &'static str,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    // Only one of the pods of a group listens.
    let [template] = templates.as_slice() else { return None };
    if object.may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        let Some(server) = likely_server_of(&container) else { continue };
        let Some(closed) = closed(server, &container) else { continue };
        let Some((reader, node, what)) = reader(object, server, template, &container, ctx) else { continue };
        let message = format!("{} exports no metrics {}, and {what}", server.name, closed.how);
        let finding = ctx.report(&closed.node, message);
        finding.help(closed.help);
        if !reader.is_same_resource(object) {
            finding.related(reader, &node, "it reads them");
        }
    }
    None
}

/// SGLang 0.4.6 to 0.5.10: `server_args.py`; llama.cpp: `common/arg.cpp`; vLLM 0.11 to 0.33: `AsyncLLM` makes its loggers for
/// Prometheus if `log_stats` is set.
fn closed<'a>(server: &Server, container: &Node<'a>) -> Option<Closed<'a>> {
    // No release of it has them: https://github.com/ollama/ollama/issues/3144.
    if server.id == ServerId::Ollama && !container.has_unknown_key() {
        let has_option =
            container.get("env").items().any(|one| one.get("name").text() == Some("OLLAMA_METRICS"));
        return (!has_option).then(|| Closed {
            node: container.get("image"),
            how: "of its own",
            help: "do not scrape it, or scrape an exporter beside it",
        });
    }
    let launch = Launch::of(container).filter(|launch| launch.program.is(server.id))?;
    if is_model_of_runtime(container) || container.has_unknown_key() || launch.may_have_more_options() {
        return None;
    }
    let lists = ["args", "command", "image"].map(|field| container.get(field));
    let node = lists.into_iter().find(Node::is_set)?;
    match server.id {
        ServerId::Sglang if !launch.has(&["enable-metrics"]) => {
            Some(Closed { node, how: "without `--enable-metrics`", help: "add `--enable-metrics`" })
        }
        ServerId::LlamaCpp
            if !launch.has(&["metrics"])
                && matches!(launch.setting(container, &["endpoint-metrics"]), OptionValue::Absent) =>
        {
            Some(Closed { node, how: "without `--metrics`", help: "add `--metrics`" })
        }
        ServerId::Vllm => Some(Closed {
            node: launch.word_of("disable-log-stats")?.node.clone(),
            how: "of its own with `--disable-log-stats`",
            help: "remove it: it also stops what Prometheus reads",
        }),
        _ => None,
    }
}

/// The object that reads metrics of a server, where it does, and the words for it.
fn reader<'i>(
    object: &'i Object,
    server: &Server,
    template: &Template<'i>,
    container: &Node<'_>,
    ctx: &Context<'i>,
) -> Option<(&'i Object, Node<'i>, String)> {
    let is_own = |metric: &str| Server::of_metric(metric).is_some_and(|of| of.id == server.id);
    if let Some(scaler) = ctx.cluster().views().autoscaler_of(object).filter(|scaler| ctx.pairs_with(scaler))
    {
        let of_queries = queries(scaler).iter().find_map(|query| {
            let selectors = query.parsed.expr()?.selectors();
            // Another server of the kind may export them.
            let own = selectors.iter().filter(|selector| may_select(selector, object));
            let mut names = own.filter_map(|selector| selector.name.clone());
            Some((names.find(|name| is_own(name))?, query.node(scaler)))
        });
        let of_hpa = || {
            scaler.path(&["spec", "metrics"]).items().find_map(|metric| {
                let sources =
                    ["pods", "object", "external"].map(|kind| metric.path(&[kind, "metric", "name"]));
                let name = sources.into_iter().find(Node::is_set)?;
                let text = name.text().filter(|text| is_own(text))?;
                Some((text.to_owned(), name))
            })
        };
        if let Some((metric, node)) = of_queries.or_else(of_hpa) {
            let what = format!("`{}` scales by `{}`", scaler.display_name(), ellipsize(&metric));
            return Some((scaler, node, what));
        }
    }
    // Another container may be the one that is scraped.
    let mut listening = template.lasting_containers().filter(|one| one.get("ports").items().next().is_some());
    if listening.any(|one| one.pointer() != container.pointer()) {
        return None;
    }
    // Another process of the container may listen on the port that is scraped.
    let listens = server.listens_on(container).map(|(port, _)| port);
    let is_own_port = |port: Option<i64>| port.is_some() && port == listens;
    let scrape = template.annotation("prometheus.io/scrape");
    let path = template.annotation("prometheus.io/path");
    let port = template.annotation("prometheus.io/port");
    if scrape.text() == Some("true") && path.text().is_none_or(|path| path == "/metrics") {
        if port.is_set() && !is_own_port(port.string_or_number().and_then(|port| port.parse().ok())) {
            return None;
        }
        return Some((object, scrape, "its pods are annotated for Prometheus".to_owned()));
    }
    let monitor = scrapes_of(object, ctx)?.first()?.monitor;
    let number = |name: &str| {
        let mut ports = container.get("ports").items();
        ports.find(|port| port.get("name").text() == Some(name))?.get("containerPort").int()
    };
    let reads = |endpoint: Node<'_>| {
        let port = endpoint.get("port");
        let is_own = |field: &str| endpoint.get(field).int().is_none_or(|port| is_own_port(Some(port)));
        endpoint.get("path").text().is_none_or(|path| path == "/metrics")
            && ["portNumber", "targetPort"].into_iter().all(is_own)
            && (!is_of_pods(monitor) || port.text().is_none_or(|name| is_own_port(number(name))))
    };
    let what = format!("{} `{}` scrapes them", monitor.kind(), monitor.display_name());
    endpoints(monitor).all(reads).then(|| (monitor, monitor.path(&["metadata", "name"]), what))
}
