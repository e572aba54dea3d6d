// The manuals of rules, as `gpulint explain` and `gpulint rules` print them. Nothing here knows of VS Code.

import { execFile } from "node:child_process";

export interface Rule {
  id: string;
  severity: string;
  summary: string;
}

/** Runs the program and returns what it prints. */
export function output(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { encoding: "utf8", timeout: 10_000, maxBuffer: 16 << 20, windowsHide: true } as const;
    execFile(program, [...args], options, (error, stdout, stderr) => {
      if (error) reject(new Error(stderr.trim() || error.message));
      else resolve(stdout);
    });
  });
}

/** Every rule of a program. */
export async function rules(program: string): Promise<Rule[]> {
  const parsed: unknown = JSON.parse(await output(program, ["rules", "--format", "json"]));
  if (!Array.isArray(parsed)) throw new Error("`gpulint rules` printed no list");
  return parsed.map((one) => {
    const { id, severity, summary } = one as Partial<Rule>;
    return { id: String(id), severity: String(severity), summary: String(summary) };
  });
}

/** The manual of a rule as Markdown. */
export function manual(program: string, rule: string): Promise<string> {
  // A rule's name never looks like an option; the name may come from a diagnostic.
  if (!/^[a-z0-9][a-z0-9-]*$/.test(rule)) return Promise.reject(new Error(`no rule is called ${rule}`));
  return output(program, ["explain", rule, "--format", "markdown"]);
}

/** The rules with those first that are under the cursor. */
export function sorted(all: readonly Rule[], here: readonly string[]): Rule[] {
  const at = (rule: Rule) => (here.includes(rule.id) ? here.indexOf(rule.id) : here.length);
  return [...all].sort((one, other) => at(one) - at(other) || one.id.localeCompare(other.id));
}
