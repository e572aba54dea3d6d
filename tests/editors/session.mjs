// A session of an editor with `gpulint lsp`, by the client that VS Code's own extensions use.
//
//   node session.mjs MODULES push|pull FOLDER PROGRAM ARGUMENT...
//
// MODULES is what `prepare` printed, FOLDER what tests/it/lsp/session.rs wrote. Prints one JSON line for each step: what the client saw.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [modules, mode, root, program, ...args] = process.argv.slice(2);
const require = createRequire(path.join(modules, "package.json"));
const lsp = require("vscode-languageserver-protocol/node");
const pulls = mode === "pull";
const PATIENCE = Number(process.env.PATIENCE ?? 30_000);

const server = spawn(program, args, { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => server.on("exit", (code, signal) => resolve(code ?? signal)));
const connection = lsp.createProtocolConnection(
  new lsp.StreamMessageReader(server.stdout),
  new lsp.StreamMessageWriter(server.stdin),
);

// What the client knows: texts of buffers, diagnostics by file.
const buffers = new Map();
const published = new Map();
const reports = new Map();
const registered = new Map();
let refreshes = 0;

const uri = (name) => pathToFileURL(path.join(root, name)).href;
const name = (of) => path.relative(root, fileURLToPath(of));

connection.onNotification(lsp.PublishDiagnosticsNotification.type, ({ uri, diagnostics, version }) => {
  for (const one of diagnostics) assert.ok(lsp.Diagnostic.is(one), JSON.stringify(one));
  published.set(name(uri), { version, diagnostics });
});
connection.onRequest(lsp.RegistrationRequest.type, ({ registrations }) => {
  for (const one of registrations) registered.set(one.method, one.registerOptions);
});
connection.onRequest(lsp.ConfigurationRequest.type, ({ items }) => items.map(() => ({ inlayHints: false })));
connection.onRequest(lsp.WorkDoneProgressCreateRequest.type, () => {});
connection.onRequest(lsp.DiagnosticRefreshRequest.type, () => void refreshes++);
connection.onRequest(lsp.InlayHintRefreshRequest.type, () => {});
connection.onUnhandledNotification(() => {});
connection.onError(([error]) => { throw error; });
connection.listen();

function say(step, saw) {
  console.log(JSON.stringify({ step, saw }));
}

/** Diagnostics by file, as the mode has them. */
async function diagnostics() {
  const found = new Map();
  if (!pulls) {
    for (const [file, { diagnostics }] of published) found.set(file, diagnostics);
    return found;
  }
  const previousResultIds = [...reports].map(([file, { resultId }]) => ({ uri: uri(file), value: resultId }));
  const { items } = await connection.sendRequest(lsp.WorkspaceDiagnosticRequest.type, { previousResultIds });
  for (const item of items) {
    const file = name(item.uri);
    if (item.kind === "unchanged") {
      assert.ok(reports.has(file), `${file} is unchanged and was never seen`);
      reports.get(file).resultId = item.resultId;
    } else {
      for (const one of item.items) assert.ok(lsp.Diagnostic.is(one), JSON.stringify(one));
      reports.set(file, { resultId: item.resultId, items: item.items });
    }
  }
  for (const [file, { items }] of reports) found.set(file, items);
  // The report of one file says the same.
  for (const file of buffers.keys()) {
    const report = await connection.sendRequest(lsp.DocumentDiagnosticRequest.type, { textDocument: { uri: uri(file) } });
    assert.equal(report.kind, "full");
    assert.deepEqual(report.items, found.get(file) ?? [], `two reports of ${file} differ`);
    if (report.resultId === undefined) continue;
    const again = await connection.sendRequest(lsp.DocumentDiagnosticRequest.type, {
      textDocument: { uri: uri(file) },
      previousResultId: report.resultId,
    });
    assert.equal(again.kind, "unchanged", `${file} has not changed`);
  }
  return found;
}

/** Rules by file, without files that have none. */
async function rules() {
  const all = {};
  for (const [file, found] of [...(await diagnostics())].sort()) {
    if (found.length > 0) all[file] = found.map((one) => `${one.range.start.line + 1} ${one.code}`).sort();
  }
  return all;
}

/** Waits until the rules by file are these, and says what was seen in the end. */
async function sees(step, expected) {
  const end = Date.now() + PATIENCE;
  const same = (one) => JSON.stringify(one) === JSON.stringify(expected);
  let now = await rules();
  while (!same(now) && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    now = await rules();
  }
  say(step, now);
}

function open(file) {
  const text = fs.readFileSync(path.join(root, file), "utf8");
  buffers.set(file, { version: 1, text });
  return connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
    textDocument: { uri: uri(file), languageId: "yaml", version: 1, text },
  });
}

/** A position in UTF-16, which is how JavaScript counts. */
function position(text, at) {
  const lines = text.slice(0, at).split("\n");
  return { line: lines.length - 1, character: lines.at(-1).length };
}

function offset(text, { line, character }) {
  return text.split("\n").slice(0, line).reduce((sum, one) => sum + one.length + 1, 0) + character;
}

function only(file, part) {
  const { text } = buffers.get(file);
  const at = text.indexOf(part);
  assert.ok(at >= 0 && text.indexOf(part, at + 1) < 0, `${part} is not there once: ${text}`);
  return at;
}

/** Replaces a part of a buffer: one incremental change. */
function change(file, from, to, text) {
  const buffer = buffers.get(file);
  const range = { start: position(buffer.text, from), end: position(buffer.text, to) };
  buffer.text = buffer.text.slice(0, from) + text + buffer.text.slice(to);
  buffer.version++;
  return connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, {
    textDocument: { uri: uri(file), version: buffer.version },
    contentChanges: [{ range, text }],
  });
}

function replace(file, old, text) {
  const at = only(file, old);
  return change(file, at, at + old.length, text);
}

/** Types a text behind another one, letter by letter. */
async function type(file, behind, text) {
  let at = only(file, behind) + behind.length;
  for (const letter of text) {
    await change(file, at, at, letter);
    at += letter.length;
  }
}

async function apply(edit) {
  assert.ok(lsp.WorkspaceEdit.is(edit), JSON.stringify(edit));
  const changes = edit.documentChanges ?? Object.entries(edit.changes).map(([uri, edits]) => ({ textDocument: { uri }, edits }));
  for (const { textDocument, edits } of changes) {
    const file = name(textDocument.uri);
    if (textDocument.version != null) assert.equal(textDocument.version, buffers.get(file).version);
    const text = buffers.get(file).text;
    const places = edits.map(({ range, newText }) => [offset(text, range.start), offset(text, range.end), newText]);
    for (const [from, to, newText] of places.sort(([one], [other]) => other - one)) await change(file, from, to, newText);
  }
}

function at(file, part, inside = 0) {
  return { textDocument: { uri: uri(file) }, position: position(buffers.get(file).text, only(file, part) + inside) };
}

function watched(file, type) {
  return connection.sendNotification(lsp.DidChangeWatchedFilesNotification.type, { changes: [{ uri: uri(file), type }] });
}

async function close(file) {
  buffers.delete(file);
  await connection.sendNotification(lsp.DidCloseTextDocumentNotification.type, { textDocument: { uri: uri(file) } });
}

const places = (answer) => {
  const many = answer === null ? [] : Array.isArray(answer) ? answer : [answer];
  return many
    .map((one) => {
      assert.ok(lsp.Location.is(one) || lsp.LocationLink.is(one), JSON.stringify(one));
      const range = one.targetSelectionRange ?? one.range;
      return `${name(one.targetUri ?? one.uri)}:${range.start.line + 1}`;
    })
    .sort();
};

// The session.
const { capabilities } = await connection.sendRequest(lsp.InitializeRequest.type, {
  processId: process.pid,
  rootUri: uri("."),
  workspaceFolders: [{ uri: uri("."), name: "infra" }],
  capabilities: {
    general: { positionEncodings: ["utf-16"] },
    window: { workDoneProgress: true },
    workspace: {
      workspaceFolders: true,
      configuration: true,
      didChangeWatchedFiles: { dynamicRegistration: true },
      ...(pulls ? { diagnostics: { refreshSupport: true } } : {}),
    },
    textDocument: {
      publishDiagnostics: { relatedInformation: true, versionSupport: true, codeDescriptionSupport: true, dataSupport: true },
      codeAction: { codeActionLiteralSupport: { codeActionKind: { valueSet: ["", "quickfix", "source.fixAll"] } }, isPreferredSupport: true },
      hover: { contentFormat: ["markdown", "plaintext"] },
      completion: { completionItem: { documentationFormat: ["markdown"] } },
      ...(pulls ? { diagnostic: { relatedDocumentSupport: true } } : {}),
    },
  },
  initializationOptions: { inlayHints: false },
});
say("initialize", {
  encoding: capabilities.positionEncoding ?? "utf-16",
  pull: capabilities.diagnosticProvider !== undefined,
});
await connection.sendNotification(lsp.InitializedNotification.type, {});
const OLD = { "hpa.yaml": ["1 removed-api-version"] };
await open("pools.yaml");
await sees("open", OLD);

await replace("pools.yaml", "      taints:\n        - {key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}\n", "");
await sees("a taint removed", { ...OLD, "pools.yaml": ["8 gpu-pool-untainted"] });
await type("pools.yaml", "EC2NodeClass, name: gpu}\n", "      taints: [{key: nvidia.com/gpu, value: 'ja 😀', effect: NoSchedule}]\n");
await sees("a taint typed", OLD);

await open("hpa.yaml");
const stale = (await diagnostics()).get("hpa.yaml");
const actions = await connection.sendRequest(lsp.CodeActionRequest.type, {
  textDocument: { uri: uri("hpa.yaml") },
  range: stale[0].range,
  context: { diagnostics: stale, only: ["quickfix"] },
});
for (const one of actions) assert.ok(lsp.CodeAction.is(one) || lsp.Command.is(one), JSON.stringify(one));
const preferred = actions.filter((one) => one.isPreferred);
say("preferred actions", preferred.map((one) => one.kind));
await apply(preferred[0].edit);
await sees("fixed", {});
say("the text", buffers.get("hpa.yaml").text.split("\n")[0]);

const hover = await connection.sendRequest(lsp.HoverRequest.type, at("pools.yaml", "g6.2xlarge", 3));
assert.ok(lsp.Hover.is(hover), JSON.stringify(hover));
say("hover", ["1 × l4", "an hour"].filter((word) => hover.contents.value.includes(word)));

await replace("pools.yaml", "operator: In, values: [amd64]", "operator: ");
const list = await connection.sendRequest(lsp.CompletionRequest.type, at("pools.yaml", "arch, operator: ", 16));
const items = Array.isArray(list) ? list : list.items;
for (const one of items) {
  assert.ok(typeof one.label === "string" && one.kind >= 1 && one.kind <= 25, JSON.stringify(one));
  assert.ok(one.textEdit === undefined || lsp.TextEdit.is(one.textEdit) || lsp.InsertReplaceEdit.is(one.textEdit), JSON.stringify(one));
}
say("completion", items.map((one) => one.label).filter((label) => ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"].includes(label)).sort());
await replace("pools.yaml", "arch, operator: ", "arch, operator: In, values: [amd64]");

const definition = await connection.sendRequest(lsp.DefinitionRequest.type, at("pools.yaml", "name: gpu}\n      taints", 7));
say("definition", places(definition));
await open("class.yaml");
const references = await connection.sendRequest(lsp.ReferencesRequest.type, {
  ...at("class.yaml", "name: gpu}", 7),
  context: { includeDeclaration: false },
});
say("references", places(references));

await replace("class.yaml", "name: gpu}", "name: gpux}");
await sees("a class renamed", { "pools.yaml": ["10 node-class-missing"] });
await replace("class.yaml", "name: gpux}", "name: gpu}");
await sees("the class named as before", {});
await close("class.yaml");
const kept = fs.readFileSync(path.join(root, "class.yaml"));
fs.rmSync(path.join(root, "class.yaml"));
await watched("class.yaml", 3);
await sees("its file deleted", { "pools.yaml": ["10 node-class-missing"] });
fs.writeFileSync(path.join(root, "class.yaml"), kept);
await watched("class.yaml", 1);
await sees("its file written", {});

await replace("pools.yaml", "metadata: {name: gpu}", "metadata: {name: gpu");
await sees("YAML broken", { "pools.yaml": ["4 yaml-syntax"] });
await replace("pools.yaml", "metadata: {name: gpu\n", "metadata: {name: gpu}\n");
await sees("YAML mended", {});

// Without a buffer the file on the disk counts, which was never saved.
await close("hpa.yaml");
await sees("closed without saving", OLD);
const configuration = path.join(root, "gpulint.yaml");
fs.writeFileSync(configuration, fs.readFileSync(configuration, "utf8").replace("removed-api-version: error", "removed-api-version: off"));
await watched("gpulint.yaml", 2);
await sees("the rule switched off", {});

await connection.sendRequest(lsp.ShutdownRequest.type);
await connection.sendNotification(lsp.ExitNotification.type);
say("exit code", await exited);
connection.dispose();
