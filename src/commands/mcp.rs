//! `gpulint mcp`: a server of the Model Context Protocol on standard input and output, for assistants that write manifests.
//!
//! Messages are JSON-RPC 2.0, one a line. Each tool is a command of this program with its JSON, run as a process of its own: an
//! assistant asks once in minutes, and gets what a user would. The Rust crate of the protocol needs an asynchronous runtime,
//! which the command line does not have.

use std::io::{BufRead, Write};
use std::process::{Command, ExitCode, Stdio};

use gpulint_rules::facts::suggest;
use gpulint_rules::{Platform, Product, RULES, find_rule};
use serde_json::{Value, json};

use crate::error::CliError;

/// Versions of the protocol whose messages are as they are written here, newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", BATCHES, "2024-11-05"];
/// The version of the protocol that has batches of JSON-RPC: they came with it, and 2025-06-18 removed them.
const BATCHES: &str = "2025-03-26";
/// The address of the manual of a rule, before its id.
const MANUAL: &str = "gpulint://rules/";
/// Number of findings that are returned if the call does not say.
const FINDINGS: u64 = 100;

/// An error of JSON-RPC: its code, and the message.
type Failure = (i64, String);

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// The code of the protocol for an unknown resource.
const NO_RESOURCE: i64 = -32002;

/// Answers requests until standard input ends.
pub(crate) fn run() -> Result<ExitCode, CliError> {
    let mut out = std::io::stdout().lock();
    let mut version = VERSIONS[0];
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(answer) = answer(&line, &mut version) {
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(id: Value, (code, message): Failure) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The answer to a line; `None` for an empty line and where there are only notifications. `version` is that of the protocol,
/// which the client may set.
fn answer(line: &str, version: &mut &'static str) -> Option<Value> {
    if line.trim().is_empty() {
        return None;
    }
    let invalid = |message: &str| Some(failed(Value::Null, (INVALID_REQUEST, message.to_owned())));
    match serde_json::from_str(line) {
        Err(error) => Some(failed(Value::Null, (PARSE_ERROR, error.to_string()))),
        Ok(Value::Array(_)) if *version != BATCHES => {
            invalid(&format!("version {version} of the protocol has no batches; send each message on a line"))
        }
        Ok(Value::Array(batch)) if batch.is_empty() => invalid("the batch is empty"),
        Ok(Value::Array(batch)) => {
            let answers: Vec<Value> = batch.iter().filter_map(|one| answer_one(one, version)).collect();
            (!answers.is_empty()).then_some(Value::Array(answers))
        }
        Ok(request) => answer_one(&request, version),
    }
}

fn answer_one(request: &Value, version: &mut &'static str) -> Option<Value> {
    let Some(method) = request["method"].as_str() else {
        return Some(failed(request["id"].clone(), (INVALID_REQUEST, "no method".to_owned())));
    };
    let id = request.get("id")?.clone();
    Some(match result(method, &request["params"], version) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(failure) => failed(id, failure),
    })
}

fn result(method: &str, params: &Value, version: &mut &'static str) -> Result<Value, Failure> {
    match method {
        "initialize" => {
            let asked = params["protocolVersion"].as_str().unwrap_or_default();
            *version = VERSIONS.into_iter().find(|known| *known == asked).unwrap_or(VERSIONS[0]);
            Ok(json!({
                "protocolVersion": *version,
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "gpulint", "version": env!("CARGO_PKG_VERSION")},
                "instructions": "Checks manifests of Karpenter, KEDA and GPU workloads on EKS. Call `check` after you have \
                                 written or changed a manifest, `why` where a pod stays Pending, `explain` for the manual of a rule.",
            }))
        }
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools()})),
        "tools/call" => call(params["name"].as_str().unwrap_or_default(), &params["arguments"]),
        "resources/list" => {
            let rules = RULES.iter().map(|rule| {
                json!({
                    "uri": format!("{MANUAL}{}", rule.id), "name": rule.id, "title": rule.summary(), "mimeType": "text/markdown",
                })
            });
            Ok(json!({"resources": rules.collect::<Vec<_>>()}))
        }
        "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
        "resources/read" => {
            let uri = params["uri"].as_str().unwrap_or_default();
            let rule = uri.strip_prefix(MANUAL).and_then(find_rule);
            let rule = rule.ok_or_else(|| (NO_RESOURCE, format!("there is no resource `{uri}`")))?;
            let text = output(&["explain", rule.id, "--format", "markdown"])?.0;
            Ok(json!({"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}))
        }
        _ => Err((METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
    }
}

fn tools() -> Value {
    let paths = json!({
        "type": "array", "items": {"type": "string"},
        "description": "Files and folders; what is applied to one cluster together belongs together [default: the current folder]",
    });
    let render = json!({"type": "boolean", "description": "Take charts and kustomizations as helm and kustomize print them"});
    let version = |name: &str, product: Product| {
        let about = format!("The minor version of {name}, such as {}", Platform::default().version(product));
        json!({"type": "string", "description": about})
    };
    let severity = json!({"enum": ["error", "warning", "info"], "default": "warning"});
    let tool = |name: &str, about: &str, properties: Value, required: &[&str], is_read_only: bool| {
        json!({
            "name": name,
            "description": about,
            "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
            "annotations": {"readOnlyHint": is_read_only, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
        })
    };
    json!([
        tool(
            "check",
            "Findings in manifests: what is wrong, where, why it hurts, and what to write",
            json!({
                "paths": paths, "min_severity": severity,
                "limit": {"type": "integer", "minimum": 1, "default": FINDINGS},
                "complete": {"type": "boolean", "description": "The input is the whole cluster: what is not in it does not exist"},
                "render": render,
                "karpenter": version("Karpenter", Product::Karpenter),
                "keda": version("KEDA", Product::Keda),
                "kubernetes": version("Kubernetes", Product::Kubernetes),
            }),
            &[],
            true,
        ),
        tool(
            "why",
            "Which NodePool takes the pods of a workload, and what keeps them out of the others, as Karpenter's scheduler decides",
            json!({
                "workload": {"type": "string", "description": "KIND/NAME, NAMESPACE/KIND/NAME or FILE:LINE"},
                "paths": paths, "render": render,
            }),
            &["workload"],
            true,
        ),
        tool(
            "pools",
            "What each NodePool admits, costs at most, and takes",
            json!({
                "paths": paths, "render": render,
                "capacity": {"type": "boolean", "description": "Whether all workloads fit at once, with nodes and dollars an hour"},
            }),
            &[],
            true,
        ),
        tool(
            "explain",
            "The manual of a rule: why it matters, what to do, examples; or the rules about a word",
            json!({"rule": {"type": "string"}}),
            &["rule"],
            true,
        ),
        tool(
            "fix",
            "The edits that repair findings, as a unified diff; nothing is written unless `write` is true",
            json!({
                "paths": paths,
                "unsafe": {"type": "boolean", "description": "Also edits that need a review"},
                "write": {"type": "boolean", "description": "Write the files"},
            }),
            &[],
            false,
        ),
    ])
}

/// What is wrong with the arguments of a tool, by its schema. An argument that is null is left out.
fn wrong_argument(tool: &Value, arguments: &Value) -> Option<String> {
    let known = tool["inputSchema"]["properties"].as_object()?;
    let given = match arguments {
        Value::Null => &serde_json::Map::new(),
        Value::Object(given) => given,
        _ => return Some("the arguments are no object".to_owned()),
    };
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let Some(schema) = known.get(name) else {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            return Some(match suggest::nearest(name, names.iter().copied()) {
                Some(meant) => format!("there is no argument `{name}`; did you mean `{meant}`?"),
                None => format!("there is no argument `{name}`; there are {}", names.join(", ")),
            });
        };
        if let Some(wanted) = wanted(schema, value) {
            return Some(format!("`{name}` must be {wanted}, and is {value}"));
        }
    }
    let needed = tool["inputSchema"]["required"].as_array()?.iter().filter_map(Value::as_str);
    let mut lacking = needed.filter(|name| given.get(*name).is_none_or(Value::is_null));
    lacking.next().map(|name| format!("`{name}` is required"))
}

/// What an argument must be, if it is something else.
fn wanted(schema: &Value, value: &Value) -> Option<String> {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return (!value.as_str().is_some_and(|word| words.contains(&word)))
            .then(|| format!("one of {}", words.join(", ")));
    }
    let (is_right, wanted) = match schema["type"].as_str()? {
        "string" => (value.is_string(), "a string"),
        "boolean" => (value.is_boolean(), "true or false"),
        "integer" => (value.as_u64().is_some_and(|number| number > 0), "a whole number from 1 on"),
        "array" => {
            let all = value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
            (all, "an array of strings")
        }
        _ => return None,
    };
    (!is_right).then(|| wanted.to_owned())
}

/// A result that the assistant reads.
fn said(text: &str, is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

/// Calls a tool. What it has to say about its input is a result that is marked as an error, which the assistant sees and can
/// correct; other failures are errors of the protocol.
fn call(name: &str, arguments: &Value) -> Result<Value, Failure> {
    let tools = tools();
    let tool = tools.as_array().into_iter().flatten().find(|tool| tool["name"] == name);
    let tool = tool.ok_or_else(|| (INVALID_PARAMS, format!("there is no tool `{name}`")))?;
    if let Some(wrong) = wrong_argument(tool, arguments) {
        return Ok(said(&wrong, true));
    }
    let command = command_of(name, arguments);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let (mut printed, errors, code) = output(&command)?;
    if name == "check" && code < 2 {
        let limit = arguments["limit"].as_u64().unwrap_or(FINDINGS);
        printed = findings(&printed, limit).map_err(|error| (INTERNAL_ERROR, error.to_string()))?;
    }
    // Exit code 1 is an answer: there are findings, or a pod does not fit.
    let is_error = code > 1;
    Ok(said(if is_error && printed.trim().is_empty() { &errors } else { &printed }, is_error))
}

/// The command line that does the work of a tool, with valid arguments.
fn command_of(name: &str, arguments: &Value) -> Vec<String> {
    let is_set = |key: &str| arguments[key].as_bool() == Some(true);
    let text = |key: &str| arguments[key].as_str().map(str::to_owned);
    let needed = |key: &str| text(key).unwrap_or_default();
    let mut command: Vec<String> = Vec::new();
    let mut flag = |flag: &str| command.push(flag.to_owned());
    match name {
        "check" => {
            ["check", "--quiet", "--format", "json"].into_iter().for_each(&mut flag);
            ["complete", "render"]
                .into_iter()
                .filter(|key| is_set(key))
                .for_each(|key| flag(&format!("--{key}")));
            flag(&format!("--min-severity={}", text("min_severity").unwrap_or_else(|| "warning".to_owned())));
            for product in ["karpenter", "keda", "kubernetes"] {
                text(product).into_iter().for_each(|version| flag(&format!("--{product}={version}")));
            }
        }
        "why" => {
            ["why", "--format", "json"].into_iter().for_each(&mut flag);
            is_set("render").then(|| flag("--render"));
            ["--", &needed("workload")].into_iter().for_each(&mut flag);
        }
        "pools" => {
            ["pools", "--format", "json"].into_iter().for_each(&mut flag);
            ["capacity", "render"]
                .into_iter()
                .filter(|key| is_set(key))
                .for_each(|key| flag(&format!("--{key}")));
        }
        "explain" => {
            ["explain", "--format", "markdown", "--", &needed("rule")].into_iter().for_each(&mut flag)
        }
        "fix" => {
            ["check", "--quiet", "--color", "never"].into_iter().for_each(&mut flag);
            flag(if is_set("write") { "--fix" } else { "--diff" });
            is_set("unsafe").then(|| flag("--unsafe-fixes"));
        }
        _ => {}
    }
    if name != "explain" {
        let paths = arguments["paths"].as_array().into_iter().flatten().filter_map(Value::as_str);
        command.extend((name != "why").then(|| "--".to_owned()));
        command.extend(paths.map(str::to_owned));
    }
    command
}

/// The parts of a report that an assistant needs, of at most `limit` findings, the worst first.
fn findings(report: &str, limit: u64) -> serde_json::Result<String> {
    let report: Value = serde_json::from_str(report)?;
    let mut all: Vec<&Value> = report["diagnostics"].as_array().into_iter().flatten().collect();
    let rank = |one: &Value| match one["severity"].as_str() {
        Some("error") => 0,
        Some("warning") => 1,
        _ => 2,
    };
    all.sort_by_key(|one| rank(one));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let shown = all.iter().take(limit).map(|one| {
        let start = &one["range"]["start"];
        json!({
            "rule": one["rule"], "severity": one["severity"], "file": one["file"], "line": start["line"], "column": start["column"],
            "message": one["message"], "help": one["help"], "fix": one["fix"]["title"],
        })
    });
    let left_out = all.len().saturating_sub(limit);
    serde_json::to_string_pretty(&json!({
        "findings": shown.collect::<Vec<_>>(), "leftOut": left_out, "objects": report["summary"]["objects"],
    }))
}

/// What a command of this program prints to standard output and standard error, and its exit code.
fn output(arguments: &[&str]) -> Result<(String, String, i32), Failure> {
    let failed = |error: std::io::Error| (INTERNAL_ERROR, error.to_string());
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("GPULINT_FORMAT")
        .env_remove("GPULINT_MIN_SEVERITY");
    let output = command.output().map_err(failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(output.stdout), text(output.stderr), output.status.code().unwrap_or(2)))
}
