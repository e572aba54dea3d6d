import assert from "node:assert/strict";
import { test } from "node:test";

import { missing, show, type State } from "../src/status";

test("each state has a text, and what needs the user stands out", () => {
  const program = "/usr/bin/gpulint";
  const states: [State, string, string][] = [
    [{ kind: "disabled" }, "$(circle-slash) gpulint", "plain"],
    [{ kind: "starting", program }, "$(sync~spin) gpulint", "plain"],
    [{ kind: "running", program, from: "PATH", version: "0.1.0" }, "$(check) gpulint", "plain"],
    [{ kind: "stopped", program }, "$(debug-stop) gpulint", "warning"],
    [{ kind: "missing", looked: ["PATH"] }, "$(warning) gpulint", "warning"],
    [{ kind: "wrong", program }, "$(error) gpulint", "error"],
    [{ kind: "failed", program, reason: "no such command" }, "$(error) gpulint", "error"],
  ];
  for (const [state, text, level] of states) {
    const item = show(state);
    assert.equal(item.text, text);
    assert.equal(item.level, level);
    assert.notEqual(item.tooltip, "");
  }
});

test("the version and the program are in the tooltip", () => {
  const running: State = { kind: "running", program: "/usr/bin/gpulint", from: "PATH", version: "0.1.0" };
  assert.equal(show(running).tooltip, "gpulint 0.1.0 runs: /usr/bin/gpulint (from PATH)");
  const unknown: State = { kind: "running", program: "/usr/bin/gpulint", from: "PATH" };
  assert.equal(show(unknown).tooltip, "gpulint runs: /usr/bin/gpulint (from PATH)");
});

test("where no program is found, the message says what to do", () => {
  assert.equal(
    missing([".venv", "PATH"]),
    "gpulint is not installed (looked in .venv, PATH): run `pip install gpulint`, or set `gpulint.path`",
  );
});
