// What the status bar says. Nothing here knows of VS Code.

/** What the extension does now. */
export type State =
  | { kind: "disabled" }
  | { kind: "starting"; program: string }
  | { kind: "running"; program: string; from: string; version?: string }
  | { kind: "stopped"; program: string }
  | { kind: "missing"; looked: readonly string[] }
  | { kind: "wrong"; program: string }
  | { kind: "failed"; program: string; reason: string };

export interface Item {
  text: string;
  tooltip: string;
  level: "plain" | "warning" | "error";
}

export function show(state: State): Item {
  switch (state.kind) {
    case "disabled":
      return { text: "$(circle-slash) gpulint", tooltip: "gpulint is switched off by `gpulint.enable`", level: "plain" };
    case "starting":
      return { text: "$(sync~spin) gpulint", tooltip: `${state.program} starts`, level: "plain" };
    case "running": {
      const version = state.version === undefined ? "" : ` ${state.version}`;
      return { text: "$(check) gpulint", tooltip: `gpulint${version} runs: ${state.program} (from ${state.from})`, level: "plain" };
    }
    case "stopped":
      return { text: "$(debug-stop) gpulint", tooltip: `${state.program} ended`, level: "warning" };
    case "missing":
      return { text: "$(warning) gpulint", tooltip: missing(state.looked), level: "warning" };
    case "wrong":
      return { text: "$(error) gpulint", tooltip: wrong(state.program), level: "error" };
    case "failed":
      return { text: "$(error) gpulint", tooltip: `${state.program} does not start: ${state.reason}`, level: "error" };
  }
}

/** What to do where no program was found. */
export function missing(looked: readonly string[]): string {
  const places = looked.length === 0 ? "PATH" : looked.join(", ");
  return `gpulint is not installed (looked in ${places}): run \`pip install gpulint\`, or set \`gpulint.path\``;
}

export function wrong(program: string): string {
  return `\`gpulint.path\` names ${program}, which cannot be run`;
}
