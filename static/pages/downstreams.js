// What takes the work behind the queues, how much of it at once, and how long does it take, with and without the wait at the gate?
import { ShareBar } from "../js/bars.js";
import { get, may, put, query, remove } from "../js/api.js";
import { ask, reasonField } from "../js/dialog.js";
import { $, h, setAttr, setText, swap } from "../js/dom.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { shape } from "../js/shapes.js";
import { Spark } from "../js/spark.js";
import { Trace } from "../js/trace.js";
import { NBSP, clock, count, plural, rate, wait } from "../js/units.js";
import { at, choice, currentItem, facts, field, part, plainName, reading, setItem, stacked, startPage } from "./page.js";

/** What each setting means. @type {Record<string, [string, string]>} name, unit and meaning of each number */
const SETTINGS = {
  target_ms: ["ms", "a mean latency above this means that too many call at once"], min: ["calls", "the limit never falls below"], max: ["calls", "nor rises above"],
  initial: ["calls", "where it begins"], window_ms: ["ms", "shortest time between two changes of the limit"], backoff: ["", "what a cut leaves of the limit, 0.5 to 0.99"],
};
const KINDS = { aimd: "aimd: one more while the target is kept, else a cut", gradient: "gradient: by the mean latency against its own long mean" };
const KEPT_MS = 900000;
/** The small charts are drawn back at this step: a point of it is less than two pixels wide. */
const BACK_STEP_S = 10;
/** Of more downstreams the small charts begin with the page; each has its own chart below. */
const MOST_DRAWN_BACK = 20;
const root = $("[data-root]");
const why = may("operator") ? "" : "viewers read; an operator may change settings, an admin may add a downstream";
const maker = may("admin") ? "" : why || "an admin may add a downstream";
const list = h("div");
const detail = h("div");
root.replaceChildren(h("div", { class: "section" }, list,
  h("p", { class: "acts" }, h("button", { type: "button", "data-needs-gate": true, ...(maker ? { "aria-disabled": "true", title: maker } : {}), onclick: () => edit(null) }, "New downstream", h("kbd", {}, "N")), maker ? h("span", { class: "why" }, maker) : null), h("br"), detail));
let current = currentItem();
/** @type {any[]} */ let known = [];
/** @type {any} */ let defaults = {};
/** @type {Map<string, {at: number[], values: number[]}>} limits of the last 15 minutes */ const seen = new Map();
/** @type {Map<string, any>} */ const rows = new Map();
const trace = new Trace();
const HEAD = [["downstream"], ["state"], ["in flight of limit", "num"], ["", "drawn"], ["limit, 15 min", "drawn"], ["mean of target", "num"], ["latency p50", "num"], ["p99", "num", "latency p99"], ["with the wait p50", "num"], ["p99", "num", "with the wait p99"], ["answered/s", "num"], ["dropped/s", "num"], ["cuts, raises", "num", "cuts, raises"], ["queues"]];
const body = h("tbody");
const grid = h("table", {}, h("thead", {}, h("tr", {}, HEAD.map(([text, cls, whole]) => h("th", { class: cls || null, "data-name": whole || null }, text)))), body);
const table = h("div", { class: "scrollx" }, grid);
const none = h("p", { class: "empty-note" }, "No downstream is named yet. A downstream is what jobs call: give it a target latency, name it in a queue's policy (field ", h("code", { class: "mono ink" }, "downstream"), ") or on a task (", h("code", { class: "mono ink" }, "@app.task(downstream=\"bank\")"), "), and the gate finds how many may call it at once, over all workers.");

function load() {
  return reading(list, () => get("/downstreams"), (data) => {
    known = data.downstreams;
    defaults = data.defaults;
    list.replaceChildren(known.length ? table : none);
    if (!known.some((d) => d.name === current)) current = "";
    draw(live.frame, live.state());
    stacked(grid);
    open(current || known[0]?.name || "");
    for (const d of known.slice(0, MOST_DRAWN_BACK)) drawBack(d.name);
  });
}

/** What the limit was before this page was opened, from the stored history. @param {string} name */
async function drawBack(name) {
  let data;
  try { data = await get(`/history${query({ downstream: name, since: Math.round(live.now() - KEPT_MS), step: BACK_STEP_S })}`); } catch { return; /* it begins with the page; the chart below tells why */ }
  const here = seen.get(name) || { at: [], values: [] };
  const until = here.at[0] ?? Infinity;
  const limits = data.median?.limit || data.metrics.limit;
  const before = data.at_ms.map((/** @type {number} */ atMs, /** @type {number} */ i) => [atMs, limits[i]]).filter((/** @type {number[]} */ p) => p[0] < until);
  seen.set(name, { at: [...before.map((p) => p[0]), ...here.at], values: [...before.map((p) => p[1]), ...here.values] });
  draw(live.frame, live.state());
}

/** Without a frame the rows still say which there are, and that no figure of them has come. @param {import("../js/frame.js").Frame|null} frame @param {string} state */
function draw(frame, state) {
  const now = /** @type {any[]} */ (/** @type {any} */ (frame)?.downstreams || []);
  const atMs = frame ? frame.at_ms : live.now();
  const missing = frame ? "the monitor has not sampled it yet" : "no frame has come to this page yet";
  setText($("[data-facts]"), `${plural(known.length, "downstream")}; latencies of the answers of the last 60${NBSP}s, rates over the last 5${NBSP}s`);
  for (const d of now) remember(d, atMs);
  const names = new Set(known.map((d) => d.name));
  for (const [name, row] of rows) if (!names.has(name)) { row.node.remove(); rows.delete(name); }
  for (const k of known) {
    const d = now.find((x) => x.name === k.name);
    const row = rows.get(k.name) || makeRow(k.name);
    setAttr(row.node, "aria-selected", k.name === current ? "true" : null);
    const full = d && d.state === "at_limit";
    const word = !frame ? "unknown" : state !== "live" ? `last ${clock(atMs)}` : !d ? "not sampled yet" : full ? "at its limit" : "open";
    const late = d && d.mean_ms > d.target_ms;
    swap(row.state, `${word}${late}`, () => [shape(state !== "live" || !d ? "dashed" : late ? "triangle" : "ring"), state === "live" && late ? `${word}, slower than its target` : word]);
    const of = (v) => (v ? [v.p50, v.p99] : [null, null]);
    const values = d ? [`${count(d.in_flight)} of ${count(d.limit)}`, `${wait(d.mean_ms)} of ${wait(d.target_ms)}`, ...of(d.latency_ms).map(wait), ...of(d.gated_ms).map(wait), rate(d.rates?.answered), rate(d.rates?.dropped), `${count(d.cuts)}, ${count(d.raises)}`] : Array(9).fill("\u2013");
    values.forEach((v, i) => setText(row.cells[i], v));
    const reasons = d ? [null, d.unknown?.mean_ms, d.latency_ms?.unknown?.p50, d.latency_ms?.unknown?.p99, d.gated_ms?.unknown?.p50, d.gated_ms?.unknown?.p99, d.rates?.unknown?.answered, d.rates?.unknown?.dropped] : Array(8).fill(missing);
    reasons.forEach((r, i) => setAttr(row.cells[i], "title", r || null));
    row.bar.update(d ? d.in_flight / Math.max(1, d.limit) : null);
    const past = seen.get(k.name);
    row.spark.update(past?.at || [], past?.values || [], null, null, atMs - KEPT_MS, atMs, BACK_STEP_S * 1000);
    if (k.name === current) trace.append(state === "live" ? d : null, state === "live" ? atMs : live.now());
    swap(row.queues, JSON.stringify([!d, d?.queues]), () => (!d ? h("span", { class: "quiet", title: missing }, "\u2013") : d.queues.length ? d.queues.map((q, i) => [i ? ", " : "", h("a", { class: "link", href: `/queues/${encodeURIComponent(q)}/` }, q)]) : h("span", { class: "quiet" }, "by tasks only")));
  }
}

/** @param {string} name */
function makeRow(name) {
  const cells = Array.from({ length: 9 }, () => h("td", { class: "num livefig" }));
  const bar = new ShareBar();
  bar.node.style.width = "110px";
  const row = { cells, bar, spark: new Spark(), state: h("td", { class: "nowrap" }), queues: h("td", { class: "nowrap" }), node: h("tr", { class: "linked", "data-downstream": name }) };
  row.node.append(h("td", { class: "ink" }, h("a", { class: "link", href: `/downstreams/${encodeURIComponent(name)}/`, onclick: (event) => { event.preventDefault(); open(name); } }, name)), row.state, cells[0], h("td", { class: "drawn" }, bar.node), h("td", { class: "drawn" }, row.spark.node), ...cells.slice(1), row.queues);
  row.node.addEventListener("click", () => open(name));
  rows.set(name, row);
  body.append(row.node);
  return row;
}

/** @param {any} d @param {number} atMs */
function remember(d, atMs) {
  const past = seen.get(d.name) || { at: [], values: [] };
  seen.set(d.name, past);
  if (past.at.at(-1) === atMs) return;
  past.at.push(atMs);
  past.values.push(d.limit);
  while (past.at[0] < atMs - KEPT_MS) { past.at.shift(); past.values.shift(); }
}

/** @param {string} name */
function open(name) {
  current = name;
  if (!name) { detail.replaceChildren(); return; }
  setItem(name);
  for (const [key, row] of rows) setAttr(row.node, "aria-selected", key === name ? "true" : null);
  reading(detail, () => get(`/downstreams/${encodeURIComponent(name)}`), (d) => {
    trace.show(d.name, d.target_ms, live.now());
    const off = why ? { "aria-disabled": "true", title: why } : {};
    detail.replaceChildren(part(d.name, `version ${d.version} by ${d.by}${d.reason ? `: ${d.reason}` : ""}`,
      facts([["kind", KINDS[d.kind]], ...Object.entries(SETTINGS).map(([key, [unit, means]]) => /** @type {[string, any]} */ ([plainName(key), h("span", {}, unit === "ms" ? wait(d[key]) : unit === "calls" ? plural(d[key], "call") : String(d[key]), h("span", { class: "means" }, means))]))]),
      h("p", { class: "acts" }, h("button", { type: "button", "data-needs-gate": true, ...off, onclick: () => edit(d) }, `Change ${d.name}`), h("button", { type: "button", "data-needs-gate": true, ...off, onclick: () => take(d) }, `Remove ${d.name}`), why ? h("span", { class: "why" }, why) : null)),
      trace.node,
      part("Versions", "newest first; each is kept", h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, ["version", "when", "who", "settings", "reason"].map((t) => h("th", {}, t)))), h("tbody", {}, d.history.map((v) => h("tr", {}, h("td", { class: "ink" }, `v${v.version}`), h("td", {}, at(v.at_ms)), h("td", {}, v.by), h("td", { class: "wrap" }, v.fields ? Object.entries(v.fields).map(([k, x]) => `${k} ${x}`).join(", ") : "removed"), h("td", { class: "wrap" }, v.reason || h("span", { class: "quiet" }, "none given"))))))))));
  });
}

/** @param {any|null} d */
function edit(d) {
  if (d ? why : maker) return;
  const name = /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off", maxlength: "100", "data-first": true }));
  const kind = choice(Object.entries(KINDS).map(([k, words]) => /** @type {[string, string]} */ ([k, words])), (d || defaults).kind);
  const inputs = Object.fromEntries(Object.keys(SETTINGS).map((key) => [key, /** @type {HTMLInputElement} */ (h("input", { type: "number", min: "0", step: "any", value: String((d || defaults)[key]) }))]));
  const reason = reasonField("why this is changed");
  const changes = () => ({ kind: kind.value, ...Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, Number(input.value)])) });
  ask({
    title: d ? `Change the downstream ${d.name}?` : "A new downstream",
    lead: d ? "In force at once, for every worker; what the limit has learnt stays, within the new bounds." : "It limits nothing until a queue's policy or a task names it.",
    parts: [...(d ? [] : [{ name: "name", body: name }]), { name: "kind", body: kind },
      { name: "settings", body: h("div", { class: "formgrid" }, Object.entries(SETTINGS).map(([key, [unit, means]]) => field(plainName(key), inputs[key], unit, means))) }, { name: "reason", body: reason }],
    verb: d ? "Change 1 downstream" : "Add 1 downstream", note: "written to the audit",
    canAct: () => (!d && !name.value.trim() ? "A downstream needs a name." : !reason.value.trim() ? "A reason is needed: it is kept with the version." : ""),
    act: async () => {
      const target = d ? d.name : name.value.trim();
      await put(`/downstreams/${encodeURIComponent(target)}`, { ...changes(), reason: reason.value.trim(), ...(d ? { version: d.version } : {}) });
      current = target;
      await load();
      return d ? "Downstream changed." : "Downstream added.";
    },
  });
}

/** @param {any} d */
function take(d) {
  if (why) return;
  const reason = reasonField("why it is removed");
  ask({
    title: `Remove the downstream ${d.name}?`, lead: "Nothing is limited by it any more, and what was learnt of it is forgotten. Its versions are kept. A queue that names it must let go of it first.",
    parts: [{ name: "reason", body: reason }], verb: "Remove 1 downstream", note: "written to the audit",
    canAct: () => (reason.value.trim() ? "" : "A reason is needed: it is kept with the version."),
    act: async () => { await remove(`/downstreams/${encodeURIComponent(d.name)}?reason=${encodeURIComponent(reason.value.trim())}`); current = ""; await load(); return "Downstream removed."; },
  });
}

/** @param {number} step */
function move(step) {
  if (known.length) open(known[(known.findIndex((d) => d.name === current) + step + known.length) % known.length].name);
}

bind({ keys: "J", label: "Next downstream", group: "Downstreams", run: () => move(1) });
bind({ keys: "K", label: "Downstream before", group: "Downstreams", run: () => move(-1) });
bind({ keys: "N", label: "New downstream", group: "Downstreams", run: () => edit(null) });
startPage({ draw });
window.addEventListener("popstate", () => { const item = currentItem(); if (item && item !== current) open(item); });
load();
