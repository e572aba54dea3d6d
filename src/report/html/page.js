"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const form = get("filters");
  if (!form) return;
  const groups = get("groups");
  const sections = [...groups.children];
  const all = [...groups.querySelectorAll(".f")];
  // The findings of each rule are in the order of the report; that of the fingerprints in the page is kept with them.
  const home = new Map(all.map((f) => [f, f.parentElement]));
  const boxes = [...form.querySelectorAll("input[name=severity]")];
  const rules = [...document.querySelectorAll(".rules a")];
  const selects = { set: get("set"), namespace: get("namespace") };
  const severities = ["error", "warning", "info"];
  let state = { q: "", severity: null, rule: "", set: "*", namespace: "*", group: "rule" };
  let order = all;
  let texts = null;

  // The state is the fragment of the address, so that a filtered page can be sent to somebody.
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    const has = (name) => given.has(name);
    state = {
      q: given.get("q") || "",
      severity: has("severity") ? new Set(given.get("severity").split(",")) : null,
      rule: given.get("rule") || "",
      set: has("set") ? given.get("set") : "*",
      namespace: has("namespace") ? given.get("namespace") : "*",
      group: ["file", "severity"].includes(given.get("group")) ? given.get("group") : "rule",
    };
  };
  const fragment = () => {
    const out = new URLSearchParams();
    if (state.q) out.set("q", state.q);
    if (state.severity) out.set("severity", [...state.severity].join(","));
    if (state.rule) out.set("rule", state.rule);
    if (state.set !== "*") out.set("set", state.set);
    if (state.namespace !== "*") out.set("namespace", state.namespace);
    if (state.group !== "rule") out.set("group", state.group);
    return out.toString();
  };
  const write = () => {
    const text = fragment();
    try {
      history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
    } catch {
      // A page that is shown inside another one may not change its address.
    }
  };

  const matches = (f, at, words) => {
    const data = f.dataset;
    if (state.severity && !state.severity.has(data.severity)) return false;
    if (state.rule && data.rule !== state.rule) return false;
    if (state.set !== "*" && !data.sets.split("\n").includes(state.set)) return false;
    if (state.namespace !== "*" && data.namespace !== state.namespace) return false;
    return words.every((word) => texts.get(f).includes(word));
  };

  let grouped = "rule";
  const group = () => {
    if (grouped === state.group) return;
    grouped = state.group;
    groups.className = "by-" + grouped;
    if (grouped === "rule") {
      for (const f of all) home.get(f).append(f);
      groups.replaceChildren(...sections);
      order = all;
      return;
    }
    const key = (f) => (grouped === "file" ? f.dataset.file : f.dataset.severity);
    const by = new Map();
    for (const f of all) {
      if (!by.has(key(f))) by.set(key(f), []);
      by.get(key(f)).push(f);
    }
    const keys = grouped === "file" ? [...by.keys()].sort() : severities.filter((one) => by.has(one));
    const made = keys.map((name) => {
      const section = document.createElement("section");
      section.className = "group";
      section.setAttribute("aria-label", name);
      const head = document.createElement("h3");
      const count = document.createElement("b");
      count.textContent = by.get(name).length.toLocaleString("en");
      const title = document.createElement("span");
      title.textContent = name;
      head.append(title, " ", count);
      if (grouped === "file") by.get(name).sort((a, b) => line(a) - line(b));
      section.append(head, ...by.get(name));
      return section;
    });
    groups.replaceChildren(...made);
    order = keys.flatMap((name) => by.get(name));
  };
  const line = (f) => Number((/:(\d+):\d+$/.exec(f.querySelector(".place").textContent) || [0, 0])[1]);

  const apply = () => {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !texts) texts = new Map(all.map((f) => [f, f.textContent.toLowerCase()]));
    group();
    let shown = 0;
    const alive = new Set();
    for (const f of all) {
      const is = matches(f, 0, words);
      if (f.hidden === is) f.hidden = !is;
      if (is) {
        shown += 1;
        alive.add(f.parentElement);
      }
    }
    for (const section of groups.children) section.hidden = !alive.has(section);
    for (const set of document.querySelectorAll(".set")) {
      set.hidden = state.set !== "*" && set.dataset.sets !== "" && set.dataset.sets !== state.set;
    }
    get("none").hidden = shown > 0;
    const number = (n) => n.toLocaleString("en");
    get("status").textContent = shown === all.length ? number(shown) + " shown" : number(shown) + " of " + number(all.length) + " shown";
    // The controls show the state, wherever it comes from.
    if (get("q").value.trim() !== state.q) get("q").value = state.q;
    for (const box of boxes) box.checked = !state.severity || state.severity.has(box.value);
    for (const [name, select] of Object.entries(selects)) if (select) select.value = state[name];
    get("group").value = state.group;
    for (const link of rules) {
      const rule = link.getAttribute("href").slice("#rule=".length);
      if (rule === state.rule) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    relabel();
  };
  const change = (part) => {
    state = { ...state, ...part };
    write();
    apply();
  };

  // An address names filters, or one finding or section of the page.
  const arrive = () => {
    const target = location.hash.startsWith("#f-") ? get(location.hash.slice(1)) : null;
    if (location.hash.includes("=") || location.hash === "") read();
    if (target && target.hidden) state = { ...state, q: "", severity: null, rule: "", set: "*", namespace: "*" };
    apply();
    if (target) {
      target.open = true;
      target.querySelector("summary").focus();
      target.scrollIntoView({ block: "start" });
    }
  };

  let waiting = 0;
  get("q").addEventListener("input", (event) => {
    clearTimeout(waiting);
    const q = event.target.value.trim();
    waiting = setTimeout(() => change({ q }), all.length > 2000 ? 200 : 60);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const box of boxes) {
    box.addEventListener("change", () => {
      const on = boxes.filter((one) => one.checked).map((one) => one.value);
      change({ severity: on.length === boxes.length ? null : new Set(on) });
    });
  }
  for (const [name, select] of Object.entries(selects)) {
    if (select) select.addEventListener("change", () => change({ [name]: select.value }));
  }
  get("group").addEventListener("change", (event) => change({ group: event.target.value }));
  for (const link of rules) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const rule = link.getAttribute("href").slice("#rule=".length);
      change({ rule: rule === state.rule ? "" : rule });
      if (get("findings").getBoundingClientRect().top < 0) get("findings").scrollIntoView();
    });
  }
  for (const button of document.querySelectorAll(".clear")) {
    button.addEventListener("click", () => {
      change({ q: "", severity: null, rule: "", set: "*", namespace: "*" });
      get("q").focus();
    });
  }

  const visible = () => order.filter((f) => !f.hidden);
  const expand = get("expand");
  const relabel = () => {
    const now = visible();
    expand.hidden = now.length === 0;
    expand.textContent = now.every((f) => f.open) ? "Collapse all" : "Expand all";
  };
  expand.addEventListener("click", () => {
    const open = expand.textContent === "Expand all";
    for (const f of visible()) f.open = open;
    relabel();
  });
  groups.addEventListener("toggle", () => {
    clearTimeout(relabel.waiting);
    relabel.waiting = setTimeout(relabel, 50);
  }, true);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    if (at === get("q") && event.key === "Escape") {
      event.preventDefault();
      change({ q: "" });
      at.blur();
      return;
    }
    if (at.matches && at.matches("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      get("q").focus();
      get("q").select();
    } else if (event.key === "j" || event.key === "k") {
      const now = visible();
      const step = event.key === "j" ? 1 : -1;
      const current = now.indexOf(document.activeElement && document.activeElement.closest(".f"));
      const first = now.findIndex((f) => f.getBoundingClientRect().bottom > 0);
      const next = current < 0 ? now[Math.max(first, 0)] : now[current + step];
      if (next) {
        next.querySelector("summary").focus({ preventScroll: true });
        next.scrollIntoView({ block: "nearest" });
      }
    }
  });

  // Paper shows what is folded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = visible().filter((f) => !f.open);
    if (folded.length <= 2000) for (const f of folded) f.open = true;
  });
  addEventListener("afterprint", () => {
    for (const f of folded) f.open = false;
  });

  groups.className = "by-rule";
  form.hidden = false;
  get("keys").hidden = false;
  document.querySelector(".rules .all").hidden = false;
  if (matchMedia("(max-width: 60rem)").matches) document.querySelector(".rules").open = false;
  addEventListener("hashchange", arrive);
  arrive();
})();
