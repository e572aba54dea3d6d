//! Behaviour for every client: start and end, errors, cancellation, folders, configuration, result ids, units
//! of positions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::{Client, Setup, codes};
use super::session::infra;
use super::text::{Encoding, offset};
use crate::support::Folder;

const OLD: &str =
    "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: web}\n";

/// A folder with an old API version, in which only that rule runs.
fn old(path: &str) -> Folder {
    Folder::new().with(path, OLD).with("gpulint.yaml", "rules: {all: off, removed-api-version: on}\n")
}

#[test]
fn it_ends_as_the_protocol_says() {
    let folder = infra();
    let client = Client::start(&folder.0, Setup::push());
    assert_eq!(client.end(), "", "nothing is logged");

    let mut client = Client::start(&folder.0, Setup::push());
    client.notify("exit", Value::Null);
    assert_eq!(client.exit().code(), Some(1), "exit without shutdown");

    let mut client = Client::start(&folder.0, Setup::push());
    assert_eq!(client.hang_up().code(), Some(1), "the client is gone");

    let mut client = Client::start(&folder.0, Setup::push());
    client.request("shutdown", Value::Null);
    let id = client.ask("textDocument/hover", json!({}));
    assert_eq!(client.answer(id).unwrap_err()["code"], -32600, "a request after shutdown");
    client.notify("exit", Value::Null);
    assert_eq!(client.exit().code(), Some(0));
}

#[test]
fn what_it_does_not_know_costs_nothing() {
    let folder = infra();
    let mut client = Client::raw(&folder.0, &Setup::push());
    let id = client.ask("textDocument/hover", json!({}));
    assert_eq!(client.answer(id).unwrap_err()["code"], -32002, "a request before initialize");
    drop(client);

    let mut client = Client::start(&folder.0, Setup::push());
    let id = client.ask("textDocument/unheardOf", json!({}));
    assert_eq!(client.answer(id).unwrap_err()["code"], -32601);
    let id = client.ask("textDocument/diagnostic", json!({"textDocument": 1}));
    assert_eq!(client.answer(id).unwrap_err()["code"], -32602);
    client.notify("$/unheardOf", json!({}));
    client.notify("textDocument/didChange", json!({"textDocument": {"uri": 3}}));
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": client.uri("never-opened.yaml")}}));
    client.cancel(4711);
    // A file that belongs to no project, and URIs that are not files.
    for uri in ["file:///nowhere/else.yaml", "untitled:Untitled-1", "git:/pools.yaml?ref=HEAD"] {
        let document = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": "a: 1"});
        client.notify("textDocument/didOpen", json!({"textDocument": document}));
        client.request("textDocument/diagnostic", json!({"textDocument": {"uri": uri}}));
        client.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    }
    client.open("pools.yaml");
    client.wait_for("hpa.yaml", &["removed-api-version"]);
    client.end();
}

/// Requests in the queue are not processed once they are cancelled; each is answered once.
#[test]
fn requests_are_cancelled() {
    let folder = infra();
    let mut client = Client::start(&folder.0, Setup::push());
    client.settle();
    // A request that is not in the queue.
    client.cancel(1);
    client.settle();
    // The server reads the folder again while a request and its cancellation wait.
    let is_cancelled = (0..50).any(|at| {
        let id = 1_000 + at;
        let uri = client.uri("gpulint.yaml");
        let messages = [
            json!({"method": "workspace/didChangeWatchedFiles", "params": {"changes": [{"uri": uri, "type": 2}]}}),
            json!({"id": id, "method": "workspace/diagnostic", "params": {"previousResultIds": []}}),
            json!({"method": "$/cancelRequest", "params": {"id": id}}),
        ];
        let bytes: String = messages
            .into_iter()
            .map(|mut message| {
                message["jsonrpc"] = json!("2.0");
                let message = message.to_string();
                format!("Content-Length: {}\r\n\r\n{message}", message.len())
            })
            .collect();
        client.send_raw(bytes.as_bytes());
        match client.answer(id) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error["code"], -32800, "{error}");
                true
            }
        }
    });
    assert!(is_cancelled);
    client.end();
}

#[test]
fn the_first_read_shows_progress_and_files_are_watched() {
    let folder = infra();
    let mut client = Client::start(&folder.0, Setup::push());
    client.settle();
    assert!(client.registered.contains_key("workspace/didChangeWatchedFiles"));
    let kinds: Vec<Value> =
        client.heard("$/progress").iter().map(|params| params["value"]["kind"].clone()).collect();
    // For a folder that is read immediately, no progress is shown.
    if let Some(first) = kinds.first() {
        assert_eq!((first, kinds.last()), (&json!("begin"), Some(&json!("end"))));
    }
    client.end();
}

#[test]
fn folders_are_projects_of_their_own() {
    let folder = old("one/hpa.yaml")
        .with("two/hpa.yaml", OLD)
        .with("three/hpa.yaml", OLD)
        .with("two/gpulint.yaml", "rules: {all: off}\n");
    let mut client = Client::start(&folder.0, Setup::push().folders(&["one", "two"]));
    client.wait_for("one/hpa.yaml", &["removed-api-version"]);
    client.settle();
    assert!(client.rules("two/hpa.yaml").is_empty(), "its own configuration holds");
    assert!(!client.published().contains_key("three/hpa.yaml"), "no folder of the client's");

    let three = json!({"uri": client.uri("three"), "name": "three"});
    let one = json!({"uri": client.uri("one"), "name": "one"});
    client.notify(
        "workspace/didChangeWorkspaceFolders",
        json!({"event": {"added": [three], "removed": [one]}}),
    );
    client.wait_for("three/hpa.yaml", &["removed-api-version"]);
    client.wait_for("one/hpa.yaml", &[]);

    // A file outside of the folders is checked as long as it is open.
    client.open("one/hpa.yaml");
    client.wait_for("one/hpa.yaml", &["removed-api-version"]);
    client.close("one/hpa.yaml");
    client.wait_for("one/hpa.yaml", &[]);

    // So is a document that has no file yet.
    client.open_with("untitled:Untitled-1", OLD);
    client.wait_for("untitled:Untitled-1", &["removed-api-version"]);
    client.close("untitled:Untitled-1");
    client.wait_for("untitled:Untitled-1", &[]);
    client.end();
}

#[test]
fn the_configuration_is_read_again_when_it_is_saved() {
    let folder = old("hpa.yaml");
    let mut client = Client::start(&folder.0, Setup::push());
    client.wait_for("hpa.yaml", &["removed-api-version"]);
    client.open("gpulint.yaml");
    client.replace("gpulint.yaml", "removed-api-version: on", "removed-api-version: off");
    client.settle();
    assert_eq!(client.rules("hpa.yaml"), ["removed-api-version"], "an unfinished configuration is nobody's");
    client.save("gpulint.yaml");
    client.wait_for("hpa.yaml", &[]);
    // If a configuration cannot be read, the last valid one stays in force.
    client.replace("gpulint.yaml", "removed-api-version: off", "removed-api-versions: on");
    client.save("gpulint.yaml");
    client.settle();
    assert!(client.rules("hpa.yaml").is_empty());
    let shown = client.heard("window/showMessage");
    let is_said = |params: &Value| params["message"].as_str().unwrap().contains("removed-api-versions");
    let is_found = client
        .diagnostics("gpulint.yaml")
        .iter()
        .any(|one| one["message"].as_str().unwrap().contains("removed-api-versions"));
    assert!(is_found || shown.iter().any(is_said), "{shown:#?}");
    // Another invalid configuration does not change that either.
    client.replace("gpulint.yaml", "removed-api-versions: on", "removed-api-versions: error");
    client.save("gpulint.yaml");
    client.settle();
    assert!(client.rules("hpa.yaml").is_empty());
    client.replace("gpulint.yaml", "removed-api-versions: error", "removed-api-version: warning");
    client.save("gpulint.yaml");
    client.wait_until("a warning", |client| {
        client.diagnostics("hpa.yaml").first().is_some_and(|one| one["severity"] == 2)
    });
    client.close("gpulint.yaml");
    client.delete("gpulint.yaml");
    client.wait_until("an error, as without a configuration", |client| {
        client.diagnostics("hpa.yaml").first().is_some_and(|one| one["severity"] == 1)
    });
    client.end();
}

/// The diagnostics of a closed file are withdrawn, even if it is opened and corrected immediately.
#[test]
fn opened_and_mended_at_once() {
    let folder = old("hpa.yaml");
    for _ in 0..5 {
        let mut client = Client::start(&folder.0, Setup::push());
        client.wait_for("hpa.yaml", &["removed-api-version"]);
        let (uri, text) = (client.uri("hpa.yaml"), OLD.replace("v2beta2", "v2"));
        let opened = json!({"textDocument": {"uri": uri, "languageId": "yaml", "version": 1, "text": text}});
        client.notify("textDocument/didOpen", opened);
        client.wait_for("hpa.yaml", &[]);
        client.end();
    }
}

#[test]
fn files_come_and_go() {
    let folder = old("apps/hpa.yaml");
    let mut client = Client::start(&folder.0, Setup::push());
    client.wait_for("apps/hpa.yaml", &["removed-api-version"]);
    client.on_disk("apps/more/other.yaml", OLD.replace("name: web", "name: other"));
    client.wait_for("apps/more/other.yaml", &["removed-api-version"]);
    client.on_disk("apps/more/other.yaml", "a: 1\n");
    client.wait_for("apps/more/other.yaml", &[]);
    client.on_disk("apps/more/other.yaml", OLD);
    client.wait_for("apps/more/other.yaml", &["removed-api-version"]);
    // Editors report a folder that is deleted as one file, or each of its files.
    client.delete("apps/more");
    client.wait_for("apps/more/other.yaml", &[]);
    // A new file counts before it is saved.
    client.open_with("new.yaml", &OLD.replace("name: web", "name: new"));
    client.wait_for("new.yaml", &["removed-api-version"]);
    client.close("new.yaml");
    client.wait_for("new.yaml", &[]);
    client.open_with("new.yaml", &OLD.replace("name: web", "name: new"));
    client.save("new.yaml");
    client.wait_for("new.yaml", &["removed-api-version"]);
    client.close("new.yaml");
    client.delete("new.yaml");
    client.wait_for("new.yaml", &[]);
    client.end();
}

#[test]
fn result_ids_say_what_is_unchanged() {
    let folder = old("hpa.yaml").with("other.yaml", OLD.replace("name: web", "name: other"));
    let mut client = Client::start(&folder.0, Setup::pull());
    client.open("hpa.yaml");
    let first = client.pull("hpa.yaml", None);
    assert_eq!(first["kind"], "full");
    assert_eq!(codes(first["items"].as_array().unwrap()), ["removed-api-version"]);
    let id = first["resultId"].as_str().unwrap().to_owned();
    let again = client.pull("hpa.yaml", Some(&id));
    assert_eq!((&again["kind"], &again["resultId"]), (&json!("unchanged"), &first["resultId"]));

    let all = client.pull_all(&BTreeMap::new());
    let kinds: Vec<(&str, &Value)> = all.iter().map(|(path, item)| (path.as_str(), &item["kind"])).collect();
    assert_eq!(kinds, [("hpa.yaml", &json!("full")), ("other.yaml", &json!("full"))]);
    let known: BTreeMap<String, String> = all
        .iter()
        .map(|(path, item)| (path.clone(), item["resultId"].as_str().unwrap().to_owned()))
        .collect();
    let again = client.pull_all(&known);
    assert!(again.values().all(|item| item["kind"] == "unchanged"), "{again:#?}");

    // A file changes, and its diagnostics are requested immediately.
    client.replace("hpa.yaml", "v2beta2", "v2");
    let after = client.pull_all(&known);
    assert_eq!(after["hpa.yaml"]["items"], json!([]));
    assert_eq!(after["other.yaml"]["kind"], "unchanged");
    client.replace("hpa.yaml", "autoscaling/v2", "autoscaling/v2beta2");
    let after = client.pull_all(&known);
    assert_eq!(
        codes(after["hpa.yaml"]["items"].as_array().unwrap_or(&Vec::new())).len()
            + usize::from(after["hpa.yaml"]["kind"] == "unchanged"),
        1,
        "{after:#?}"
    );
    assert!(client.published().is_empty(), "who pulls is not pushed to");
    client.end();
}

/// Emoji, accents, tabs, CRLF: the range of the value is correct in every unit that a client may use.
#[test]
fn positions_are_in_the_units_of_the_client() {
    let line = "{metadata: {name: \"web\", annotations: {\"é😀\u{FEFF}\t漢字\": \"👩‍🚀\"}}, kind: HorizontalPodAutoscaler, apiVersion: autoscaling/v2beta2}";
    let text = format!("# 😀\r\n---\r\n{line}\r\n");
    for (offered, encoding) in [
        (vec!["utf-8", "utf-16"], Encoding::Utf8),
        (vec!["utf-16"], Encoding::Utf16),
        (vec!["utf-32", "utf-16"], Encoding::Utf32),
    ] {
        let folder = old("hpa.yaml").with("hpa.yaml", &text);
        let mut client = Client::start(&folder.0, Setup::push().encodings(&offered));
        let encoding = if client.encoding == encoding { encoding } else { Encoding::Utf16 };
        assert_eq!(client.encoding, encoding, "{offered:?}");
        client.wait_for("hpa.yaml", &["removed-api-version"]);
        let named = |client: &Client, text: &str| {
            let range = client.diagnostics("hpa.yaml")[0]["range"].clone();
            let [start, end] = ["start", "end"].map(|end| offset(text, &range[end], encoding));
            text[start..end].to_owned()
        };
        assert_eq!(named(&client, &text), "autoscaling/v2beta2", "{encoding:?}");
        // Edits before it are counted in the same units.
        client.open("hpa.yaml");
        client.replace("hpa.yaml", "漢字", "漢😀字 é");
        client.replace("hpa.yaml", "# 😀\r\n", "# 😀 x\r\n# é\n");
        client.write("hpa.yaml", "name: \"web", "-😀é");
        client.settle();
        let now = client.text("hpa.yaml");
        assert_eq!(named(&client, &now), "autoscaling/v2beta2", "{encoding:?}");
        client.end();
    }
}

#[test]
fn inlay_hints_are_off_unless_the_client_switches_them_on() {
    let folder = infra();
    for (options, is_on) in [(json!({}), false), (json!({"inlayHints": true}), true)] {
        let mut client = Client::start(&folder.0, Setup::push().options(options));
        client.open("pools.yaml");
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 1000, "character": 0}});
        let document = json!({"uri": client.uri("pools.yaml")});
        let hints =
            client.request("textDocument/inlayHint", json!({"textDocument": document, "range": range}));
        let hints = hints.as_array().unwrap();
        assert_eq!(!hints.is_empty(), is_on, "{hints:#?}");
        assert!(hints.iter().all(|hint| hint["label"].as_str().unwrap().contains("types")), "{hints:#?}");
        client.end();
    }
}

#[test]
fn flags_take_precedence_over_configurations() {
    let folder = old("hpa.yaml");
    let mut client = Client::start(&folder.0, Setup::push().args(&["--ignore", "removed-api-version"]));
    client.settle();
    assert_eq!(client.rules("hpa.yaml"), [""; 0]);
    client.end();
    // Errors in the flags are reported before a client waits for an answer.
    let run = folder.run(&["lsp", "--select", "removed-api-versions"]).exits(2);
    assert!(run.err.contains("removed-api-version"), "{run:#?}");
}
