//! A small client of `gpulint lsp`: JSON-RPC with `Content-Length` over the pipes of the built binary, raw JSON in and out.
//!
//! It counts positions by itself and shares nothing with the server. Paths are relative to the folder of the test, `/` between names.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::text::{Encoding, apply, position};
use crate::support::command;

/// How long a test waits before it fails. A machine that is building may be slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The options of a client.
pub(crate) struct Setup {
    /// Arguments after `gpulint lsp`.
    pub(crate) args: Vec<String>,
    /// The workspace folders, relative to the folder of the test; `.` by default.
    pub(crate) folders: Vec<String>,
    pub(crate) capabilities: Value,
    /// `initializationOptions`, and the answer to `workspace/configuration`.
    pub(crate) options: Value,
    /// The folders of programs, instead of the test's own.
    pub(crate) programs: Option<PathBuf>,
}

impl Setup {
    /// A client like current editors, to which diagnostics are pushed.
    pub(crate) fn push() -> Setup {
        Setup {
            args: Vec::new(),
            folders: vec![".".to_owned()],
            options: Value::Null,
            programs: None,
            capabilities: json!({
                "general": {"positionEncodings": ["utf-16"]},
                "window": {"workDoneProgress": true, "showDocument": {"support": true}},
                "workspace": {
                    "workspaceFolders": true, "configuration": true, "applyEdit": true,
                    "didChangeConfiguration": {"dynamicRegistration": true},
                    "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
                    "workspaceEdit": {"documentChanges": true, "resourceOperations": ["create", "rename", "delete"]},
                    "inlayHint": {"refreshSupport": true},
                },
                "textDocument": {
                    "synchronization": {"didSave": true},
                    "publishDiagnostics": {
                        "relatedInformation": true, "versionSupport": true, "codeDescriptionSupport": true,
                        "dataSupport": true, "tagSupport": {"valueSet": [1, 2]},
                    },
                    "codeAction": {
                        "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix", "refactor", "source", "source.fixAll"]}},
                        "isPreferredSupport": true, "disabledSupport": true, "dataSupport": true,
                        "resolveSupport": {"properties": ["edit"]},
                    },
                    "hover": {"contentFormat": ["markdown", "plaintext"]},
                    "completion": {
                        "completionItem": {"documentationFormat": ["markdown", "plaintext"], "insertReplaceSupport": true},
                        "contextSupport": true,
                    },
                    "definition": {"linkSupport": true},
                    "references": {},
                    "inlayHint": {},
                },
            }),
        }
    }

    /// A client that requests diagnostics (pull).
    pub(crate) fn pull() -> Setup {
        let mut setup = Setup::push();
        setup.capabilities["textDocument"]["diagnostic"] = json!({"relatedDocumentSupport": true});
        setup.capabilities["workspace"]["diagnostics"] = json!({"refreshSupport": true});
        setup
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Setup {
        self.args = args.iter().map(|&arg| arg.to_owned()).collect();
        self
    }

    pub(crate) fn folders(mut self, folders: &[&str]) -> Setup {
        self.folders = folders.iter().map(|&folder| folder.to_owned()).collect();
        self
    }

    pub(crate) fn options(mut self, options: Value) -> Setup {
        self.options = options;
        self
    }

    pub(crate) fn programs(mut self, folder: &Path) -> Setup {
        self.programs = Some(folder.to_owned());
        self
    }

    /// Sets the encodings that the client offers, the preferred one first.
    pub(crate) fn encodings(mut self, encodings: &[&str]) -> Setup {
        self.capabilities["general"]["positionEncodings"] = json!(encodings);
        self
    }
}

/// A client of one server, with the messages that it has received so far.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    errors: Arc<Mutex<String>>,
    root: PathBuf,
    next: i64,
    /// Responses that were not awaited yet.
    responses: BTreeMap<i64, Value>,
    /// The text of each open buffer, with its version.
    buffers: BTreeMap<String, (i64, String)>,
    published: BTreeMap<String, Published>,
    options: Value,
    /// The answer of the server to `initialize`.
    pub(crate) initialized: Value,
    pub(crate) encoding: Encoding,
    /// Requests and notifications of the server other than published diagnostics, in order.
    pub(crate) said: VecDeque<Value>,
    /// `client/registerCapability`: the options by method.
    pub(crate) registered: BTreeMap<String, Value>,
}

/// The diagnostics of a file that the server published last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pub(crate) version: Option<i64>,
    pub(crate) diagnostics: Vec<Value>,
    /// Number of times that the server published for this file.
    pub(crate) times: usize,
}

impl Client {
    /// Starts the server on a folder and initializes it. No file is open.
    #[track_caller]
    pub(crate) fn start(root: &Path, setup: Setup) -> Client {
        let mut client = Client::raw(root, &setup);
        let folders: Vec<Value> = setup
            .folders
            .iter()
            .map(|folder| json!({"uri": client.uri(folder), "name": folder.rsplit('/').next()}))
            .collect();
        let answer = client.request(
            "initialize",
            json!({
                "processId": std::process::id(),
                "clientInfo": {"name": "gpulint's tests"},
                "rootUri": folders.first().map(|folder| folder["uri"].clone()),
                "workspaceFolders": folders,
                "capabilities": setup.capabilities,
                "initializationOptions": setup.options,
            }),
        );
        client.encoding = match answer["capabilities"]["positionEncoding"].as_str() {
            Some("utf-8") => Encoding::Utf8,
            Some("utf-32") => Encoding::Utf32,
            None | Some("utf-16") => Encoding::Utf16,
            Some(other) => panic!("a position encoding that nobody knows: {other}"),
        };
        client.initialized = answer;
        client.notify("initialized", json!({}));
        client
    }

    /// Starts the server without initializing it.
    pub(crate) fn raw(root: &Path, setup: &Setup) -> Client {
        let args: Vec<&str> = std::iter::once("lsp").chain(setup.args.iter().map(String::as_str)).collect();
        let mut child = command(root, &args);
        child.envs(setup.programs.iter().map(|folder| ("PATH", folder)));
        let mut child =
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, messages) = channel();
        let output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        let (log, from) = (Arc::clone(&errors), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let mut log = log.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Client {
            input: child.stdin.take(),
            child,
            messages,
            errors,
            root: root.canonicalize().unwrap(),
            next: 1,
            responses: BTreeMap::new(),
            buffers: BTreeMap::new(),
            published: BTreeMap::new(),
            options: setup.options.clone(),
            initialized: Value::Null,
            encoding: Encoding::Utf16,
            said: VecDeque::new(),
            registered: BTreeMap::new(),
        }
    }

    /// What the server wrote to standard error.
    pub(crate) fn log(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    // Files and their URIs.

    pub(crate) fn uri(&self, path: &str) -> String {
        if path.starts_with("untitled:") {
            return path.to_owned();
        }
        let whole = if path == "." { self.root.clone() } else { self.root.join(path) };
        uri_of(&whole)
    }

    /// The path relative to the folder of the test, or the whole URI if it is elsewhere.
    pub(crate) fn path(&self, uri: &str) -> String {
        let decoded = decoded(uri);
        let path = decoded.strip_prefix("file://").unwrap_or(&decoded);
        match Path::new(path).strip_prefix(&self.root) {
            Ok(below) => below.to_str().unwrap().to_owned(),
            Err(_) => decoded,
        }
    }

    /// The text of a buffer, or of the file where none is open.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        match self.buffers.get(path) {
            Some((_, text)) => text.clone(),
            None => std::fs::read_to_string(self.root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}")),
        }
    }

    /// The texts as the server should see them: open buffers.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.buffers.iter().map(|(path, (_, text))| (path.as_str(), text.as_str()))
    }

    // Sending.

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.send_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    #[track_caller]
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("standard input is closed");
        if let Err(error) = input.write_all(bytes).and_then(|()| input.flush()) {
            panic!("the server does not read any more: {error}\n{}", self.log());
        }
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request without waiting; the returned id is for `answer` or `cancel`.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn cancel(&mut self, id: i64) {
        self.notify("$/cancelRequest", json!({"id": id}));
    }

    /// The response with this id: a result or an error.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(mut response) = self.responses.remove(&id) {
                return match response.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(response["result"].take()),
                };
            }
            self.receive(end, &|| format!("the answer to request {id}"));
        }
    }

    /// Sends a request and waits for its result.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id).unwrap_or_else(|error| panic!("{method}: {error:#}\n{}", self.log()))
    }

    // Documents.

    /// Opens the file as it is on the disk.
    #[track_caller]
    pub(crate) fn open(&mut self, path: &str) {
        let text = std::fs::read_to_string(self.root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        self.open_with(path, &text);
    }

    /// Opens a buffer of a file with this text, whatever is on the disk.
    pub(crate) fn open_with(&mut self, path: &str, text: &str) {
        self.buffers.insert(path.to_owned(), (1, text.to_owned()));
        let language = if path.ends_with(".json") { "json" } else { "yaml" };
        let uri = self.uri(path);
        self.notify(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": uri, "languageId": language, "version": 1, "text": text}}),
        );
    }

    /// Replaces the bytes of a range of the buffer: one incremental change.
    #[track_caller]
    pub(crate) fn splice(&mut self, path: &str, range: std::ops::Range<usize>, text: &str) {
        let encoding = self.encoding;
        let (version, buffer) = self.buffers.get_mut(path).unwrap_or_else(|| panic!("{path} is not open"));
        let change = json!({
            "range": {"start": position(buffer, range.start, encoding), "end": position(buffer, range.end, encoding)},
            "text": text,
        });
        buffer.replace_range(range, text);
        *version += 1;
        let version = *version;
        self.changed(path, version, vec![change]);
    }

    /// Replaces the only occurrence of `old` in the buffer.
    #[track_caller]
    pub(crate) fn replace(&mut self, path: &str, old: &str, new: &str) {
        let text = self.text(path);
        let at = only(&text, old);
        self.splice(path, at..at + old.len(), new);
    }

    /// Types at the end of the only occurrence of `behind`, one change for each character.
    #[track_caller]
    pub(crate) fn write(&mut self, path: &str, behind: &str, typed: &str) {
        let mut at = only(&self.text(path), behind) + behind.len();
        for letter in typed.chars() {
            let mut buffer = [0; 4];
            let letter = letter.encode_utf8(&mut buffer);
            self.splice(path, at..at, letter);
            at += letter.len();
        }
    }

    /// Replaces the whole text of the buffer by a change without a range.
    #[track_caller]
    pub(crate) fn set(&mut self, path: &str, text: &str) {
        let (version, buffer) = self.buffers.get_mut(path).unwrap_or_else(|| panic!("{path} is not open"));
        text.clone_into(buffer);
        *version += 1;
        let version = *version;
        self.changed(path, version, vec![json!({"text": text})]);
    }

    fn changed(&mut self, path: &str, version: i64, changes: Vec<Value>) {
        let uri = self.uri(path);
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": changes}),
        );
    }

    /// Writes the buffer to the disk, and notifies the server.
    #[track_caller]
    pub(crate) fn save(&mut self, path: &str) {
        std::fs::write(self.root.join(path), self.text(path)).unwrap();
        let uri = self.uri(path);
        self.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    }

    pub(crate) fn close(&mut self, path: &str) {
        self.buffers.remove(path);
        let uri = self.uri(path);
        self.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    }

    // Files that other programs change.

    /// Writes a file on the disk and reports it as the editor's watcher does.
    pub(crate) fn on_disk(&mut self, path: &str, text: impl AsRef<[u8]>) {
        let whole = self.root.join(path);
        let kind = if whole.exists() { 2 } else { 1 };
        std::fs::create_dir_all(whole.parent().unwrap()).unwrap();
        std::fs::write(whole, text).unwrap();
        self.watched(&[(path, kind)]);
    }

    /// Deletes a file or a folder on the disk and reports it.
    pub(crate) fn delete(&mut self, path: &str) {
        let whole = self.root.join(path);
        if whole.is_dir() {
            std::fs::remove_dir_all(whole).unwrap();
        } else {
            std::fs::remove_file(whole).unwrap();
        }
        self.watched(&[(path, 3)]);
    }

    /// `workspace/didChangeWatchedFiles`: 1 created, 2 changed, 3 deleted.
    pub(crate) fn watched(&mut self, changes: &[(&str, u8)]) {
        let changes: Vec<Value> =
            changes.iter().map(|&(path, kind)| json!({"uri": self.uri(path), "type": kind})).collect();
        self.notify("workspace/didChangeWatchedFiles", json!({"changes": changes}));
    }

    // What the server says.

    /// Reads one message. Panics if the time limit is exceeded or the server ends.
    #[track_caller]
    fn receive(&mut self, end: Instant, awaited: &dyn Fn() -> String) {
        match self.messages.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => panic!("no {}\n{}", awaited(), self.log()),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait();
                panic!("the server ended ({status:?}) before {}\n{}", awaited(), self.log());
            }
        }
    }

    fn take(&mut self, message: Value) {
        assert_eq!(message["jsonrpc"], "2.0", "{message:#}");
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            let id =
                message["id"].as_i64().unwrap_or_else(|| panic!("a response without an id: {message:#}"));
            self.responses.insert(id, message);
            return;
        };
        if method == "textDocument/publishDiagnostics" {
            let path = self.path(message["params"]["uri"].as_str().unwrap());
            let published = self.published.entry(path).or_default();
            published.version = message["params"]["version"].as_i64();
            published.diagnostics = message["params"]["diagnostics"].as_array().unwrap().clone();
            published.times += 1;
            return;
        }
        if let Some(id) = message.get("id") {
            let result = match method.as_str() {
                "client/registerCapability" => {
                    for one in message["params"]["registrations"].as_array().unwrap() {
                        let name = one["method"].as_str().unwrap().to_owned();
                        self.registered.insert(name, one["registerOptions"].clone());
                    }
                    Value::Null
                }
                "workspace/configuration" => {
                    let items = message["params"]["items"].as_array().unwrap();
                    Value::Array(vec![self.options.clone(); items.len()])
                }
                "workspace/applyEdit" => {
                    self.apply(&message["params"]["edit"].clone());
                    json!({"applied": true})
                }
                "window/showDocument" => json!({"success": true}),
                _ => Value::Null,
            };
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            self.send(&answer);
        }
        self.said.push_back(message);
    }

    /// Reads until the condition holds.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, mut holds: impl FnMut(&Client) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            let now: Vec<String> =
                self.published.keys().map(|path| format!("{path}: {:?}", self.rules(path))).collect();
            self.receive(end, &|| format!("{what}; published:\n{}", now.join("\n")));
        }
    }

    /// Waits until exactly these rules are published for a file, in any order.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, path: &str, rules: &[&str]) {
        let mut expected: Vec<String> = rules.iter().map(|&rule| rule.to_owned()).collect();
        expected.sort();
        self.wait_until(&format!("{rules:?} in {path}"), |client| {
            client.published.contains_key(path) && client.rules(path) == expected
        });
    }

    /// Waits until the server has processed all messages: it publishes the resulting diagnostics before the
    /// answer to `workspace/diagnostic`.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        let _ = self.pull_all(&BTreeMap::new());
    }

    /// The diagnostics that were last published for a file.
    pub(crate) fn diagnostics(&self, path: &str) -> Vec<Value> {
        self.published.get(path).map(|published| published.diagnostics.clone()).unwrap_or_default()
    }

    pub(crate) fn published(&self) -> &BTreeMap<String, Published> {
        &self.published
    }

    /// The sorted rule ids of the diagnostics that were last published for a file.
    pub(crate) fn rules(&self, path: &str) -> Vec<String> {
        codes(&self.diagnostics(path))
    }

    /// Notifications and requests of the server with this method, so far.
    pub(crate) fn heard(&self, method: &str) -> Vec<Value> {
        self.said.iter().filter(|message| message["method"] == method).map(|m| m["params"].clone()).collect()
    }

    // Requests that many tests send.

    /// The position at the start of the only occurrence of a text in the buffer; `|` in it is the place of the cursor.
    #[track_caller]
    pub(crate) fn place(&self, path: &str, marked: &str) -> Value {
        let text = self.text(path);
        let (before, after) = marked.split_once('|').unwrap_or(("", marked));
        let at = only(&text, &format!("{before}{after}")) + before.len();
        position(&text, at, self.encoding)
    }

    /// A request about the place of `marked` in a file.
    #[track_caller]
    pub(crate) fn at(&mut self, method: &str, path: &str, marked: &str) -> Value {
        let mut params =
            json!({"textDocument": {"uri": self.uri(path)}, "position": self.place(path, marked)});
        if method == "textDocument/references" {
            params["context"] = json!({"includeDeclaration": true});
        }
        self.request(method, params)
    }

    /// The Markdown of the hover, if there is one.
    #[track_caller]
    pub(crate) fn hover(&mut self, path: &str, marked: &str) -> Option<String> {
        let answer = self.at("textDocument/hover", path, marked);
        (!answer.is_null()).then(|| {
            let contents = &answer["contents"];
            contents["value"]
                .as_str()
                .or(contents.as_str())
                .unwrap_or_else(|| panic!("{answer:#}"))
                .to_owned()
        })
    }

    /// The completion items at a place.
    #[track_caller]
    pub(crate) fn complete(&mut self, path: &str, marked: &str) -> Vec<Value> {
        let answer = self.at("textDocument/completion", path, marked);
        let items = if answer.is_array() { &answer } else { &answer["items"] };
        items.as_array().cloned().unwrap_or_default()
    }

    /// Definition or references: `path:line` of each, counted from 1.
    #[track_caller]
    pub(crate) fn locations(&mut self, method: &str, path: &str, marked: &str) -> Vec<String> {
        let answer = self.at(method, path, marked);
        let many = match answer {
            Value::Null => Vec::new(),
            Value::Array(many) => many,
            one => vec![one],
        };
        let mut found: Vec<String> = many
            .iter()
            .map(|one| {
                let (uri, range) = match one.get("targetUri") {
                    Some(uri) => (uri, &one["targetSelectionRange"]),
                    None => (&one["uri"], &one["range"]),
                };
                format!(
                    "{}:{}",
                    self.path(uri.as_str().unwrap()),
                    range["start"]["line"].as_u64().unwrap() + 1
                )
            })
            .collect();
        found.sort();
        found
    }

    /// The code actions for the only occurrence of a text, given the diagnostics that overlap it.
    #[track_caller]
    pub(crate) fn actions(&mut self, path: &str, text: &str, only_kind: Option<&str>) -> Vec<Value> {
        let whole = self.text(path);
        let at = only(&whole, text);
        let range = json!({
            "start": position(&whole, at, self.encoding),
            "end": position(&whole, at + text.len(), self.encoding),
        });
        let diagnostics: Vec<Value> =
            self.diagnostics(path).into_iter().filter(|one| overlap(&one["range"], &range)).collect();
        let mut context = json!({"diagnostics": diagnostics, "triggerKind": 1});
        if let Some(kind) = only_kind {
            context["only"] = json!([kind]);
        }
        let answer = self.request(
            "textDocument/codeAction",
            json!({"textDocument": {"uri": self.uri(path)}, "range": range, "context": context}),
        );
        answer.as_array().cloned().unwrap_or_default()
    }

    /// Performs an action: resolves it if it has no edit, applies the edit, runs the command.
    #[track_caller]
    pub(crate) fn perform(&mut self, action: &Value) {
        let mut action = action.clone();
        if action.get("edit").is_none() && action.get("data").is_some() {
            action = self.request("codeAction/resolve", action);
        }
        if let Some(edit) = action.get("edit") {
            self.apply(&edit.clone());
        }
        if let Some(command) = action.get("command").filter(|command| command.is_object()) {
            let params = json!({"command": command["command"], "arguments": command["arguments"]});
            self.request("workspace/executeCommand", params);
        }
    }

    /// Applies a workspace edit to buffers, and opens files that are not open. The versions have to be those
    /// of the buffers.
    #[track_caller]
    pub(crate) fn apply(&mut self, edit: &Value) {
        let mut changes: Vec<(String, Vec<Value>)> = Vec::new();
        if let Some(documents) = edit["documentChanges"].as_array() {
            for document in documents {
                let path = self.path(document["textDocument"]["uri"].as_str().unwrap());
                if let (Some(version), Some((now, _))) =
                    (document["textDocument"]["version"].as_i64(), self.buffers.get(&path))
                {
                    assert_eq!(version, *now, "an edit of another version of {path}");
                }
                changes.push((path, document["edits"].as_array().unwrap().clone()));
            }
        } else if let Some(of) = edit["changes"].as_object() {
            for (uri, edits) in of {
                changes.push((self.path(uri), edits.as_array().unwrap().clone()));
            }
        }
        for (path, edits) in changes {
            if !self.buffers.contains_key(&path) {
                self.open(&path);
            }
            let text = apply(&self.text(&path), &edits, self.encoding);
            self.set(&path, &text);
        }
    }

    /// `textDocument/diagnostic`: kind, result id and rules.
    #[track_caller]
    pub(crate) fn pull(&mut self, path: &str, previous: Option<&str>) -> Value {
        let mut params = json!({"textDocument": {"uri": self.uri(path)}});
        if let Some(previous) = previous {
            params["previousResultId"] = json!(previous);
        }
        self.request("textDocument/diagnostic", params)
    }

    /// `workspace/diagnostic`: the report of each file, given the known result ids.
    #[track_caller]
    pub(crate) fn pull_all(&mut self, known: &BTreeMap<String, String>) -> BTreeMap<String, Value> {
        let known: Vec<Value> =
            known.iter().map(|(path, id)| json!({"uri": self.uri(path), "value": id})).collect();
        let answer = self.request("workspace/diagnostic", json!({"previousResultIds": known}));
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|item| (self.path(item["uri"].as_str().unwrap()), item.clone())).collect()
    }

    /// Ends the server as an editor does: `shutdown`, `exit`.
    #[track_caller]
    pub(crate) fn end(mut self) -> String {
        assert_eq!(self.request("shutdown", Value::Null), Value::Null);
        self.notify("exit", Value::Null);
        let status = self.exit();
        assert!(status.success(), "{status}\n{}", self.log());
        self.log()
    }

    /// Closes standard input without `shutdown` and waits for the end.
    #[track_caller]
    pub(crate) fn hang_up(&mut self) -> ExitStatus {
        self.input = None;
        self.exit()
    }

    #[track_caller]
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the server does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sorted codes of diagnostics.
pub(crate) fn codes(diagnostics: &[Value]) -> Vec<String> {
    let mut codes: Vec<String> =
        diagnostics.iter().map(|one| one["code"].as_str().unwrap_or_default().to_owned()).collect();
    codes.sort();
    codes
}

/// The offset of a text, which must occur once.
#[track_caller]
fn only(text: &str, part: &str) -> usize {
    let mut found = text.match_indices(part);
    let (at, _) = found.next().unwrap_or_else(|| panic!("no {part:?} in\n{text}"));
    assert!(found.next().is_none(), "{part:?} is there more than once in\n{text}");
    at
}

fn overlap(one: &Value, other: &Value) -> bool {
    let place = |value: &Value| (value["line"].as_u64().unwrap(), value["character"].as_u64().unwrap());
    place(&one["start"]) <= place(&other["end"]) && place(&other["start"]) <= place(&one["end"])
}

/// One message. `None` at the end of the stream; anything that is not a message fails the test by ending the
/// stream.
fn read(from: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end_matches("\r\n");
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let mut body = vec![0; length?];
    from.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// A file URI in the form of RFC 3986.
pub(crate) fn uri_of(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.to_str().unwrap().bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

fn decoded(uri: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = uri.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
