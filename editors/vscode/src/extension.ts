// The extension: finds `gpulint`, runs `gpulint lsp`, and says how it fares.

import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";

import * as vscode from "vscode";
import { LanguageClient, State as ClientState, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

import { expand, find, type Places } from "./find";
import { manual, rules, sorted } from "./manual";
import { missing, show, wrong, type State } from "./status";

/** A manual is a document that nobody can edit. */
const MANUAL = "gpulint-manual";

class Extension implements vscode.Disposable {
  private readonly log = vscode.window.createOutputChannel("gpulint", { log: true });
  private readonly item = vscode.window.createStatusBarItem("gpulint", vscode.StatusBarAlignment.Right);
  private client: LanguageClient | undefined;
  private program: string | undefined;
  private state = "";
  /** One start or stop at a time. */
  private turn: Promise<void> = Promise.resolve();

  constructor() {
    this.item.name = "gpulint";
    this.item.command = "gpulint.menu";
  }

  restart(): Promise<void> {
    this.turn = this.turn.then(async () => {
      await this.stop();
      await this.start();
    }).catch((error: unknown) => this.log.error(String(error)));
    return this.turn;
  }

  private async start(): Promise<void> {
    const settings = vscode.workspace.getConfiguration("gpulint");
    if (!settings.get<boolean>("enable", true)) return this.show({ kind: "disabled" });
    const places = await this.places(settings.get<string>("path", ""));
    const found = await find(places, executable);
    if (found.kind !== "found") {
      this.show(found);
      void this.complain(found.kind === "missing" ? missing(found.looked) : wrong(found.program));
      return;
    }
    const { program, from } = found;
    this.program = program;
    this.show({ kind: "starting", program });
    const args = ["lsp", ...settings.get<string[]>("args", []).map((arg) => expand(arg, places))];
    this.log.info(`${program} ${args.join(" ")} (from ${from})`);
    const folder = places.folders[0];
    const server: ServerOptions = { command: program, args, options: folder === undefined ? {} : { cwd: folder } };
    const options: LanguageClientOptions = {
      documentSelector: ["yaml", "json"].flatMap((language) =>
        ["file", "untitled"].map((scheme) => ({ scheme, language })),
      ),
      initializationOptions: { inlayHints: settings.get<boolean>("inlayHints", false) },
      synchronize: { configurationSection: "gpulint" },
      outputChannel: this.log,
      diagnosticCollectionName: "gpulint",
    };
    const client = new LanguageClient("gpulint", "gpulint", server, options);
    this.client = client;
    client.onDidChangeState(({ newState }) => {
      if (this.client !== client) return;
      if (newState === ClientState.Starting) this.show({ kind: "starting", program });
      else if (newState === ClientState.Stopped) this.show({ kind: "stopped", program });
      else if (newState === ClientState.Running) {
        const version = client.initializeResult?.serverInfo?.version;
        this.show({ kind: "running", program, from, ...(version === undefined ? {} : { version }) });
      }
    });
    try {
      await client.start();
    } catch (error) {
      this.show({ kind: "failed", program, reason: error instanceof Error ? error.message : String(error) });
    }
  }

  private async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client === undefined) return;
    try {
      await client.dispose();
    } catch (error) {
      // A server that never ran, or that has crashed, cannot be asked to end.
      this.log.debug(String(error));
    }
  }

  private async places(setting: string): Promise<Places> {
    const folders = (vscode.workspace.workspaceFolders ?? [])
      .filter((folder) => folder.uri.scheme === "file")
      .map((folder) => folder.uri.fsPath);
    const interpreter = await chosenInterpreter();
    return {
      setting,
      folders,
      trusted: vscode.workspace.isTrusted,
      ...(interpreter === undefined ? {} : { interpreter }),
      env: process.env,
      home: os.homedir(),
      windows: process.platform === "win32",
    };
  }

  private show(state: State): void {
    const { text, tooltip, level } = show(state);
    this.item.text = text;
    this.state = tooltip;
    this.item.tooltip = new vscode.MarkdownString(tooltip);
    this.item.backgroundColor =
      level === "plain" ? undefined : new vscode.ThemeColor(`statusBarItem.${level}Background`);
    this.item.show();
    (level === "plain" ? this.log.info : this.log.warn).call(this.log, tooltip);
  }

  private async complain(message: string): Promise<void> {
    const install = "How to install";
    const open = "Settings";
    const chosen = await vscode.window.showWarningMessage(message.replaceAll("`", ""), install, open);
    if (chosen === open) await vscode.commands.executeCommand("workbench.action.openSettings", "gpulint.path");
    if (chosen === install) {
      await vscode.env.openExternal(vscode.Uri.parse("https://github.com/gpulint/gpulint/blob/main/docs/src/install.md"));
    }
  }

  async menu(): Promise<void> {
    const items = [
      { label: "$(output) Show output", run: "gpulint.output" },
      { label: "$(book) Explain rule", run: "gpulint.explain" },
      { label: "$(refresh) Restart", run: "gpulint.restart" },
      { label: "$(gear) Settings", run: "workbench.action.openSettings", argument: "@ext:gpulint.gpulint" },
    ];
    const chosen = await vscode.window.showQuickPick(items, { title: "gpulint", placeHolder: this.state.replaceAll("`", "") });
    if (chosen !== undefined) await vscode.commands.executeCommand(chosen.run, chosen.argument);
  }

  output(): void {
    this.log.show();
  }

  /** Shows the manual of a rule: the one that is named, or one of all, with those at the cursor first. */
  async explain(named?: unknown): Promise<void> {
    const program = this.program;
    if (program === undefined) return this.complain(missing([]));
    try {
      const rule = typeof named === "string" ? named : await this.choose(program);
      if (rule === undefined) return;
      const page = vscode.Uri.from({ scheme: MANUAL, path: `${rule}.md` });
      await vscode.commands.executeCommand("markdown.showPreview", page);
    } catch (error) {
      void vscode.window.showErrorMessage(`gpulint: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async choose(program: string): Promise<string | undefined> {
    const here = rulesAtCursor();
    const items = sorted(await rules(program), here).map((rule) => ({
      label: rule.id,
      description: here.includes(rule.id) ? "here" : rule.severity,
      detail: rule.summary,
    }));
    const options = { title: "gpulint: Explain rule", matchOnDetail: true };
    return (await vscode.window.showQuickPick(items, options))?.label;
  }

  async page(uri: vscode.Uri): Promise<string> {
    if (this.program === undefined) throw new Error(missing([]));
    return manual(this.program, path.posix.basename(uri.path, ".md"));
  }

  async dispose(): Promise<void> {
    this.turn = this.turn.then(() => this.stop());
    await this.turn;
    this.item.dispose();
    this.log.dispose();
  }
}

/** The rules of gpulint's diagnostics at the cursor, then those of the rest of the file. */
function rulesAtCursor(): string[] {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) return [];
  const found = vscode.languages.getDiagnostics(editor.document.uri).filter((one) => one.source === "gpulint");
  const touches = (one: vscode.Diagnostic) => one.range.intersection(editor.selection) !== undefined;
  const ids = [...found.filter(touches), ...found].map(({ code }) =>
    String(typeof code === "object" ? code.value : code ?? ""),
  );
  return [...new Set(ids)].filter((id) => id !== "");
}

async function executable(program: string): Promise<boolean> {
  try {
    await fs.access(program, constants.X_OK);
    return (await fs.stat(program)).isFile();
  } catch {
    return false;
  }
}

/** The interpreter that the Python extension has for the first folder, if that extension runs already. */
async function chosenInterpreter(): Promise<string | undefined> {
  const python = vscode.extensions.getExtension("ms-python.python");
  if (python === undefined || !python.isActive) return undefined;
  try {
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    return python.exports?.environments?.getActiveEnvironmentPath(folder)?.path;
  } catch {
    return undefined;
  }
}

let extension: Extension | undefined;

export function activate(context: vscode.ExtensionContext): Promise<void> {
  const it = new Extension();
  extension = it;
  const { registerCommand } = vscode.commands;
  context.subscriptions.push(
    registerCommand("gpulint.restart", () => it.restart()),
    registerCommand("gpulint.output", () => it.output()),
    registerCommand("gpulint.explain", (rule: unknown) => it.explain(rule)),
    registerCommand("gpulint.menu", () => it.menu()),
    vscode.workspace.registerTextDocumentContentProvider(MANUAL, { provideTextDocumentContent: (uri) => it.page(uri) }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (["enable", "path", "args"].some((key) => change.affectsConfiguration(`gpulint.${key}`))) void it.restart();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void it.restart()),
  );
  return it.restart();
}

export async function deactivate(): Promise<void> {
  await extension?.dispose();
  extension = undefined;
}
