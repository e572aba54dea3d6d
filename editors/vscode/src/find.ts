// Where the program is looked for. Nothing here knows of VS Code.

import * as path from "node:path";

/** What decides where the program is. */
export interface Places {
  /** The setting `gpulint.path`; empty if it is not set. */
  setting: string;
  /** The open folders, the first one first. */
  folders: readonly string[];
  /** Whether the user trusts them: a program of a folder runs only then. */
  trusted: boolean;
  /** The Python interpreter that was chosen for the first folder. */
  interpreter?: string;
  /** Environment variables; `PATH` is in any case on Windows. */
  env: Readonly<Record<string, string | undefined>>;
  home: string;
  windows: boolean;
}

export type Found =
  | { kind: "found"; program: string; from: string }
  /** The setting names something that cannot be run. */
  | { kind: "wrong"; program: string }
  | { kind: "missing"; looked: readonly string[] };

interface Candidate {
  program: string;
  from: string;
}

/** `~`, `${workspaceFolder}` and `${env:NAME}` in a setting. */
export function expand(text: string, places: Places): string {
  return text
    .replace(/^~(?=$|[/\\])/, () => places.home)
    .replace(/\$\{workspaceFolder\}/g, () => places.folders[0] ?? "")
    .replace(/\$\{env:([^}]*)\}/g, (_, name: string) => variable(places, name) ?? "");
}

function variable(places: Places, name: string): string | undefined {
  if (!places.windows) return places.env[name];
  const key = Object.keys(places.env).find((key) => key.toUpperCase() === name.toUpperCase());
  return key === undefined ? undefined : places.env[key];
}

/** Every place that is looked at without a setting, in order. */
export function candidates(places: Places): Candidate[] {
  const paths = places.windows ? path.win32 : path.posix;
  const name = places.windows ? "gpulint.exe" : "gpulint";
  const all: Candidate[] = [];
  if (places.trusted) {
    if (places.interpreter !== undefined && paths.isAbsolute(places.interpreter)) {
      all.push({ program: paths.join(paths.dirname(places.interpreter), name), from: "the Python environment" });
    }
    for (const folder of places.folders) {
      for (const environment of [".venv", "venv"]) {
        const bin = paths.join(folder, environment, places.windows ? "Scripts" : "bin");
        all.push({ program: paths.join(bin, name), from: environment });
      }
    }
  }
  for (const folder of (variable(places, "PATH") ?? "").split(paths.delimiter)) {
    // An entry that is relative would be a program of the open folder.
    if (paths.isAbsolute(folder)) all.push({ program: paths.join(folder, name), from: "PATH" });
  }
  return all;
}

/** The program that is run. */
export async function find(places: Places, runs: (program: string) => Promise<boolean>): Promise<Found> {
  const paths = places.windows ? path.win32 : path.posix;
  const setting = places.setting.trim();
  if (setting !== "") {
    let program = expand(setting, places);
    // A bare name is looked up as a shell does; any other relative path is one of the folder.
    if (/[/\\]/.test(program)) {
      if (!paths.isAbsolute(program)) program = paths.join(places.folders[0] ?? "", program);
      return (await runs(program)) ? { kind: "found", program, from: "gpulint.path" } : { kind: "wrong", program };
    }
    for (const folder of (variable(places, "PATH") ?? "").split(paths.delimiter)) {
      const whole = paths.join(folder, program);
      if (paths.isAbsolute(folder) && (await runs(whole))) return { kind: "found", program: whole, from: "gpulint.path" };
    }
    return { kind: "wrong", program };
  }
  const looked: string[] = [];
  for (const { program, from } of candidates(places)) {
    if (await runs(program)) return { kind: "found", program, from };
    if (!looked.includes(from)) looked.push(from);
  }
  return { kind: "missing", looked };
}
