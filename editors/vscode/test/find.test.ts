import assert from "node:assert/strict";
import { test } from "node:test";

import { candidates, expand, find, type Places } from "../src/find";

const LINUX: Places = {
  setting: "",
  folders: ["/work/infra", "/work/apps"],
  trusted: true,
  env: { PATH: "/usr/local/bin::relative:/usr/bin", TOOLS: "/opt/tools" },
  home: "/home/me",
  windows: false,
};

const only = (...there: string[]) => (program: string) => Promise.resolve(there.includes(program));

test("the Python environment comes before .venv, and .venv before PATH", async () => {
  const places = { ...LINUX, interpreter: "/home/me/.pyenv/versions/a/bin/python" };
  const programs = candidates(places).map((one) => one.program);
  assert.deepEqual(programs, [
    "/home/me/.pyenv/versions/a/bin/gpulint",
    "/work/infra/.venv/bin/gpulint",
    "/work/infra/venv/bin/gpulint",
    "/work/apps/.venv/bin/gpulint",
    "/work/apps/venv/bin/gpulint",
    "/usr/local/bin/gpulint",
    "/usr/bin/gpulint",
  ]);
  for (let from = 0; from < programs.length; from++) {
    const found = await find(places, only(...programs.slice(from)));
    assert.equal(found.kind === "found" && found.program, programs[from]);
  }
});

test("a folder that is not trusted brings no program", async () => {
  const places = { ...LINUX, trusted: false, interpreter: "/work/infra/.venv/bin/python" };
  assert.deepEqual(candidates(places).map((one) => one.from), ["PATH", "PATH"]);
});

test("a relative entry of PATH is not looked at", async () => {
  const places = { ...LINUX, env: { PATH: ".:bin:" } };
  assert.deepEqual(await find(places, () => Promise.resolve(true)).then((found) => found.kind), "found");
  assert.deepEqual(await find({ ...places, trusted: false }, () => Promise.resolve(true)), { kind: "missing", looked: [] });
});

test("the setting alone decides where it is set", async () => {
  const setting = (text: string, ...there: string[]) => find({ ...LINUX, setting: text }, only(...there));
  const all = ["/usr/bin/gpulint", "/work/infra/bin/gpulint", "/home/me/gpulint", "/opt/tools/gpulint"];
  const program = async (text: string) => {
    const found = await setting(text, ...all);
    return found.kind === "found" ? found.program : found.kind;
  };
  assert.equal(await program("/opt/tools/gpulint"), "/opt/tools/gpulint");
  assert.equal(await program("~/gpulint"), "/home/me/gpulint");
  assert.equal(await program("bin/gpulint"), "/work/infra/bin/gpulint");
  assert.equal(await program("${workspaceFolder}/bin/gpulint"), "/work/infra/bin/gpulint");
  assert.equal(await program("${env:TOOLS}/gpulint"), "/opt/tools/gpulint");
  assert.equal(await program("gpulint"), "/usr/bin/gpulint");
  assert.deepEqual(await setting("/nowhere/gpulint", ...all), { kind: "wrong", program: "/nowhere/gpulint" });
  assert.deepEqual(await setting("other", ...all), { kind: "wrong", program: "other" });
});

test("what was looked at is said", async () => {
  const found = await find({ ...LINUX, interpreter: "/usr/bin/python3" }, only());
  assert.deepEqual(found, { kind: "missing", looked: ["the Python environment", ".venv", "venv", "PATH"] });
});

test("Windows", async () => {
  const places: Places = {
    setting: "",
    folders: ["C:\\infra"],
    trusted: true,
    interpreter: "C:\\Python\\python.exe",
    env: { Path: "C:\\Windows;C:\\Tools", Tools: "C:\\T" },
    home: "C:\\Users\\me",
    windows: true,
  };
  assert.deepEqual(candidates(places).map((one) => one.program), [
    "C:\\Python\\gpulint.exe",
    "C:\\infra\\.venv\\Scripts\\gpulint.exe",
    "C:\\infra\\venv\\Scripts\\gpulint.exe",
    "C:\\Windows\\gpulint.exe",
    "C:\\Tools\\gpulint.exe",
  ]);
  assert.equal(expand("${env:TOOLS}\\gpulint.exe", places), "C:\\T\\gpulint.exe");
});
