import assert from "node:assert/strict";
import { test } from "node:test";

import { manual, output, rules, sorted } from "../src/manual";

test("rules at the cursor come first", () => {
  const all = ["c", "a", "b", "d"].map((id) => ({ id, severity: "error", summary: "" }));
  assert.deepEqual(sorted(all, ["d", "b", "gone"]).map((rule) => rule.id), ["d", "b", "a", "c"]);
});

test("a name that is no rule's is not passed to the program", async () => {
  await assert.rejects(manual("false", "--help"), /no rule is called --help/);
  await assert.rejects(manual("false", "a b"), /no rule is called a b/);
});

test("what a program says when it fails is the message", async () => {
  await assert.rejects(output(process.execPath, ["-e", "console.error('no such rule'); process.exit(2)"]), /^Error: no such rule$/);
});

// The real program, where the tests of a checkout name it.
const program = process.env["GPULINT"];
test("the manual is what gpulint prints", { skip: program === undefined && "GPULINT is not set" }, async () => {
  const all = await rules(program!);
  assert.ok(all.length > 100, `${all.length} rules`);
  const rule = all.find((rule) => rule.id === "gpu-pool-untainted");
  assert.equal(rule?.severity, "error");
  assert.match(await manual(program!, rule!.id), /^# gpu-pool-untainted$/m);
});
