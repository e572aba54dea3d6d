//! `gpulint mcp` as a client of the Model Context Protocol sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::support::{Folder, command};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: a\n    \
                   image: registry.example.com/a:1.2\n    resources: {requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 1}}\n";

struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    requests: u64,
}

impl Client {
    fn new(folder: &Folder) -> Client {
        let mut command = command(&folder.0, &["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Client { child, to, from, requests: 0 };
        let hello = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let answer = client.ask("initialize", &hello);
        assert_eq!(answer["result"]["protocolVersion"], "2025-03-26");
        assert_eq!(answer["result"]["serverInfo"]["name"], "gpulint");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    fn send(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.requests += 1;
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}).to_string(),
        );
        let answer = self.receive();
        assert_eq!(answer["id"], self.requests, "{answer}");
        answer
    }

    /// The text of a tool's result, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        (result["content"][0]["text"].as_str().unwrap_or_default().to_owned(), result["isError"] == true)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_assistant_checks_explains_and_fixes() {
    let folder = Folder::new().with("a.yaml", POD);
    let mut client = Client::new(&folder);
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["check", "why", "pools", "explain", "fix"]);

    let (text, is_error) = client.call("check", &json!({"paths": ["a.yaml"]}));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(!is_error && report["leftOut"] == 0, "{text}");
    let found: Vec<&Value> = report["findings"].as_array().unwrap().iter().collect();
    assert_eq!((&found[0]["rule"], &found[0]["line"]), (&json!("gpu-limit-mismatch"), &json!(9)), "{text}");
    assert!(found.iter().all(|one| one["severity"] != "info"), "{text}");
    let (text, _) = client.call("check", &json!({"min_severity": "info", "limit": 1}));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{text}");
    assert!(report["leftOut"].as_u64().unwrap() > 0, "{text}");

    let (manual, _) = client.call("explain", &json!({"rule": "gpu-limit-mismatch"}));
    assert!(manual.starts_with("# gpu-limit-mismatch"), "{manual}");
    let read = client.ask("resources/read", &json!({"uri": "gpulint://rules/gpu-limit-mismatch"}));
    assert_eq!(read["result"]["contents"][0]["text"], manual);
    let listed = client.ask("resources/list", &json!({}));
    assert!(listed["result"]["resources"].as_array().unwrap().len() > 200);

    let (diff, is_error) = client.call("fix", &json!({"unsafe": true}));
    assert!(!is_error && diff.contains("\n-    resources: "), "{diff}");
    assert_eq!(std::fs::read_to_string(folder.0.join("a.yaml")).unwrap(), POD);
    client.call("fix", &json!({"unsafe": true, "write": true}));
    assert_ne!(std::fs::read_to_string(folder.0.join("a.yaml")).unwrap(), POD);

    let (answer, is_error) = client.call("why", &json!({"workload": "pod/a"}));
    assert!(!is_error || answer.contains("NodePool"), "{answer}");
}

#[test]
fn what_is_wrong_is_said_and_the_server_goes_on() {
    let folder = Folder::new().with("a.yaml", POD);
    let mut client = Client::new(&folder);
    let (text, is_error) = client.call("check", &json!({"paths": ["absent.yaml"]}));
    assert!(is_error && text.contains("absent.yaml"), "{text}");
    // A path is no flag.
    let (text, is_error) = client.call("check", &json!({"paths": ["--fix"]}));
    assert!(is_error && text.contains("--fix: "), "{text}");
    assert_eq!(client.ask("tools/call", &json!({"name": "delete"}))["error"]["code"], -32602);
    // What is wrong with arguments is for the assistant.
    for (tool, arguments, said) in [
        ("why", json!({}), "`workload` is required"),
        ("why", json!({"workload": "pod/a", "path": ["a.yaml"]}), "did you mean `paths`?"),
        (
            "explain",
            json!({"rule": "gpu-limit-mismatch", "format": "json"}),
            "there is no argument `format`; there are rule",
        ),
        ("check", json!({"paths": "a.yaml"}), "`paths` must be an array of strings, and is \"a.yaml\""),
        ("check", json!({"complete": "yes"}), "`complete` must be true or false, and is \"yes\""),
        ("check", json!({"min_severity": "fatal"}), "`min_severity` must be one of error, warning, info"),
        ("check", json!({"limit": 0}), "`limit` must be a whole number from 1 on"),
    ] {
        let (text, is_error) = client.call(tool, &arguments);
        assert!(is_error && text.contains(said), "{tool} {arguments}: {text}");
    }
    // The version that the client asked for has batches.
    client.send(
        &json!([
            {"jsonrpc": "2.0", "id": 8, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            {"jsonrpc": "2.0", "id": 9, "method": "ping"},
        ])
        .to_string(),
    );
    let ids: Vec<Value> = client.receive().as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, [8, 9]);
    client.ask("initialize", &json!({"protocolVersion": "2025-06-18"}));
    client.send("[]");
    assert_eq!(client.receive()["error"]["code"], -32600);
    assert_eq!(
        client.ask("resources/read", &json!({"uri": "gpulint://rules/none"}))["error"]["code"],
        -32002
    );
    assert_eq!(client.ask("sampling/create", &json!({}))["error"]["code"], -32601);
    client.send("{");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send("{\"jsonrpc\": \"2.0\", \"id\": 7}");
    assert_eq!(client.receive()["error"]["code"], -32600);
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
}
