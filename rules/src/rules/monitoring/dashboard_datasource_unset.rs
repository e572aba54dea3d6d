//! A dashboard names a data source that only an import by hand fills in.
//!
//! # Why
//! A dashboard that was exported for others names its data source `${DS_PROMETHEUS}`, and asks for it in
//! `__inputs`. The dialog for imports replaces the text; Grafana does not where it reads dashboards from files,
//! such as those of ConfigMaps that a sidecar collects. Each panel then says
//! `Datasource ${DS_PROMETHEUS} was not found`. The operator of Grafana replaces the text with what `datasources`
//! of the GrafanaDashboard says. Where a Kustomization of Flux substitutes variables, nothing is reported.
//!
//! # Fix
//! Add a variable of the type `datasource` with this name to the dashboard, or write the `uid` of the data
//! source. In a GrafanaDashboard write `datasources` with the `inputName`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: grafana.integreatly.org/v1beta1
//!  kind: GrafanaDashboard
//!  metadata: {name: gpus, namespace: monitoring}
//!  spec:
//!    instanceSelector: {matchLabels: {dashboards: main}}
//! -  json: '{"panels": [{"datasource": {"uid": "${DS_PROMETHEUS}"}}]}' # <-
//! +  json: '{"panels": [{"datasource": {"uid": "${DS_PROMETHEUS}"}}]}'
//! +  datasources: [{inputName: DS_PROMETHEUS, datasourceName: Prometheus}]
//! ```
//!
//! # References
//! - <https://github.com/grafana/grafana/issues/10786>
//! - <https://grafana.github.io/grafana-operator/docs/examples/datasource_mapping/readme>
//! - <https://grafana.com/docs/grafana/latest/dashboards/variables/add-template-variables/#add-a-data-source-variable>

use crate::rules::prelude::*;
use crate::steps;

pub(crate) static RULE: Rule = Rule {
    id: "dashboard-datasource-unset",
    kinds: &[Kind::CONFIG_MAP, Kind::GRAFANA_DASHBOARD],
    reads: &[Kind::GRAFANA_DASHBOARD, Kind::FLUX_KUSTOMIZATION],
    docs: docs(include_str!("dashboard_datasource_unset.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let texts: Vec<(&str, Node<'_>)> = match object.is(Kind::GRAFANA_DASHBOARD) {
        true => vec![(".json", spec.get("json"))],
        false => object.get("data").entries(),
    };
    let is_candidate = |(name, text): &(&str, Node<'_>)| {
        name.ends_with(".json")
            && text.raw_text().is_some_and(|json| json.contains(BEGIN) || json.contains(INPUTS))
    };
    let dashboards: Vec<Node<'_>> = texts.into_iter().filter(is_candidate).map(|(_, text)| text).collect();
    let cluster = ctx.cluster();
    // It replaces what looks like a variable of its own, if only with nothing.
    let substitutes = |one: &Object| one.path(&["spec", "postBuild"]).is_set();
    if dashboards.is_empty()
        || object.may_lack_fields()
        || cluster.of(Kind::FLUX_KUSTOMIZATION).any(substitutes)
        || object.is(Kind::CONFIG_MAP) && !is_read_by_grafana(object, ctx)
    {
        return None;
    }
    let mapped = spec.get("datasources");
    for text in dashboards {
        dashboard(object, &text, &mapped, ctx);
    }
    None
}

const INPUTS: &str = "__inputs";
/// How the name of a data source begins that an export makes a variable.
const BEGIN: &str = "\"${DS_";

/// Whether a label or an annotation says that Grafana's sidecar reads the files of a ConfigMap, and its operator does not.
fn is_read_by_grafana(config: &Object, ctx: &Context<'_>) -> bool {
    let metadata = config.get("metadata");
    let keys = ["labels", "annotations"].map(|field| metadata.get(field).entries());
    let mut operated = ctx.cluster().of(Kind::GRAFANA_DASHBOARD);
    keys.iter().flatten().any(|(key, _)| key.contains("grafana"))
        && !operated.any(|one| one.path(&["spec", "configMapRef", "name"]).text() == Some(config.name()))
}

/// Reports each data source of a dashboard that is an input and no variable.
fn dashboard(object: &Object, text: &Node<'_>, mapped: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let json = text.raw_text()?;
    steps::take(2 * json.len());
    let root: Value = serde_json::from_str(json).ok()?;
    root.get("panels")?;
    let items = |value: Option<&'_ Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let name_of = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let variables = items(root.get("templating").and_then(|templating| templating.get("list")));
    let variables: Vec<String> = variables.iter().filter_map(name_of).collect();
    let is_source = |input: &&Value| input.get("type").and_then(Value::as_str) == Some("datasource");
    let mut names: Vec<String> =
        items(root.get(INPUTS)).iter().filter(is_source).filter_map(name_of).collect();
    // Without the list, a ConfigMap may be one that the operator reads.
    if object.is(Kind::GRAFANA_DASHBOARD) {
        names.extend(json.split(BEGIN).skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')?;
            rest[end..].starts_with("}\"").then(|| format!("DS_{}", &rest[..end]))
        }));
    }
    names.sort();
    names.dedup();
    for name in names {
        let is_mapped = |one: Node<'_>| one.get("inputName").text().is_none_or(|input| input == name);
        if variables.contains(&name) || mapped.is_unknown() || mapped.items().any(is_mapped) {
            continue;
        }
        // Where it is a value of its own, as a data source is.
        let forms = [format!("\"${{{name}}}\""), format!("\"${name}\"")];
        let Some((at, form)) = forms.iter().find_map(|form| Some((json.find(form)?, form))) else { continue };
        let help = match object.is(Kind::GRAFANA_DASHBOARD) {
            true => format!("write `datasources: [{{inputName: {name}, datasourceName: …}}]`"),
            false => {
                format!("add a variable of the type `datasource` with the name `{name}`, or write the `uid`")
            }
        };
        let written = form.trim_matches('"');
        let message =
            format!("nothing fills in the data source `{written}`: only the dialog for imports does");
        ctx.report(text, message).help(help).identified_by(&name).at_part(
            object,
            text,
            at + 1..at + form.len() - 1,
        );
    }
    None
}
