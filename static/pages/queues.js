// How is one queue, what does it promise, and do its sums hold?
import { get, may } from "../js/api.js";
import { Charts } from "../js/charts.js";
import { $, h, setText, swap } from "../js/dom.js";
import { History, RANGES } from "../js/history.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { askMode } from "../js/modeswitch.js";
import { inOrder } from "../js/past.js";
import { shape, stateShape } from "../js/shapes.js";
import { REASON_WORDS, forecastWords, stateWord } from "../js/states.js";
import { NBSP, age, bytes, clock, count, duration, isKnown, percent, plural, rate, wait } from "../js/units.js";
import { limitWords } from "./policy-fields.js";
import { contractParts } from "./contract.js";
import { at, currentItem, downstreamLink, facts, part, plainName, reading, setItem, startPage } from "./page.js";

const root = $("[data-root]");
const nav = h("nav", { "aria-label": "queues" });
const detail = h("div", { class: "detail" });
root.replaceChildren(h("div", { class: "split" }, nav, detail));
let current = currentItem();
let shownFor = "";
const history_ = new History();
const head = h("div");
const sums = h("div");
const measures = h("div");
const tenants = h("div");
const contractNode = h("div", {}, h("p", { class: "quiet" }, "Reading."));
const keys = h("div");
const chartsRoot = h("div", { class: "charts" });
const charts = new Charts(chartsRoot, history_, (key) => { history_.range = RANGES.find((r) => r.key === key) || RANGES[1]; loadHistory(); });
/** What only a frame can fill: without one its headings would stand over nothing. */
const figures = h("div", { hidden: true }, h("div", { class: "twocol" }, part("Does it add up?", "counted since the gate began", sums), part("Measured", "rates over 5\u00a0s, waits over 60\u00a0s", measures)), part("Tenants of this queue", null, tenants), part("Keys that hold work back", "longest first; jobs of one ordering key run one at a time", keys));
detail.append(head, chartsRoot, figures, part("Contract", "the promise in testable form, made from the policy", contractNode));

function loadHistory() {
  return history_.load(history_.range, live.now()).then(draw, draw);
}

/** @param {string} name */
function open(name) {
  current = name;
  setItem(name);
  charts.depths = [];
  shownFor = "";
  draw();
}

function draw() {
  const frame = live.frame;
  figures.hidden = !frame;
  if (!frame) return;
  const state = live.state();
  if (!frame.queues.some((q) => q.name === current)) {
    if (current && !frame.queues.length) return;
    current = frame.queues[0]?.name || "";
  }
  setText($("[data-facts]"), `${plural(frame.queues.length, "queue")}, ${frame.queues.filter((q) => stateShape(q.state) === "ring" || q.state === "closed").length} in bounds${frame.buffers ? `; on the way: ${count(frame.buffers.door)} at the door + ${count(frame.buffers.blocked)} wait for room + ${frame.buffers.spilled ? `${count(frame.buffers.spilled)} spilled + ` : ""}${count(frame.buffers.ready)} ready + ${count(frame.buffers.delayed)} delayed + ${count(frame.buffers.reserved)} reserved + ${count(frame.buffers.running)} running = ${count(frame.buffers.sum)}` : ""}`);
  swap(nav, JSON.stringify([current, state, frame.queues.map((q) => [q.name, q.state, Math.floor((q.oldest_age_ms || 0) / 100)])]), () => frame.queues.map((q) => h("a", { href: `/queues/${encodeURIComponent(q.name)}/`, "aria-current": q.name === current ? "true" : null, onclick: (event) => { event.preventDefault(); open(q.name); } },
    shape(state === "live" ? stateShape(q.state) : "dashed"), h("span", { class: "qn" }, q.name), h("span", { class: "num quiet" }, state === "live" ? age(q.oldest_age_ms) : `last ${age(q.oldest_age_ms)}`))));
  const q = frame.queues.find((x) => x.name === current);
  if (!q) { swap(head, "none", () => h("p", { class: "empty-note" }, "No queue is known yet.")); return; }
  drawHead(q, frame, state);
  drawSums(q);
  drawMeasures(q);
  drawTenants(q, frame);
  drawKeys(q);
  charts.selected = q.name;
  charts.update({ ...frame, queues: [q] }, [q.name], state, state === "live" ? frame.at_ms : live.now());
  readContract(q.name);
}

/** @param {string} name */
function readContract(name) {
  if (shownFor === name) return;
  shownFor = name;
  reading(contractNode, () => get(`/contracts/${encodeURIComponent(name)}`), drawContract);
}

/** @type {any[]|null} the policies, asked for only where no frame names the queues */ let declared = null;

/** No frame has reached this page: the database still knows the queues, what was before and what is promised. @param {string} why */
function drawWithout(why) {
  if (!declared) {
    declared = [];
    reading(head, () => get("/policies"), (data) => { declared = inOrder(data.policies); drawWithout(why); });
  }
  const policy = declared.find((p) => p.queue === current) || declared[0];
  if (!policy || live.frame) return;
  const name = current = policy.queue;
  setText($("[data-facts]"), `${plural(declared.length, "queue")} by policy, states unknown`);
  swap(nav, `without ${name}`, () => declared?.map((p) => h("a", { href: `/queues/${encodeURIComponent(p.queue)}/`, "aria-current": p === policy ? "true" : null, onclick: (event) => { event.preventDefault(); open(p.queue); drawWithout(why); } }, shape("dashed"), h("span", { class: "qn" }, p.queue), h("span", { class: "num quiet" }, "unknown"))));
  swap(head, `without ${name} ${why}`, () => [h("div", { class: "detail-head" }, h("div", {}, h("h2", {}, name), h("p", { class: "empty-note" }, shape("dashed"), why)),
    h("div", { class: "joined small" }, h("a", { class: "button", href: `/policies/${encodeURIComponent(name)}/` }, "Policy"))),
  h("p", { class: "part quiet" }, "Below: what was kept until now, and what the policy promises.")]);
  charts.selected = name;
  charts.update(/** @type {any} */ ({ queues: [{ name, guard_age_s: policy.guard_age_s, age_ceiling_s: policy.age_ceiling_s }] }), [name], "stale", live.now());
  readContract(name);
}

function drawHead(q, frame, state) {
  const words = state === "live" ? forecastWords(q) : { head: "unknown", line: `no samples since ${clock(frame.at_ms)}` };
  const why = may("operator") ? (state === "live" ? "" : "not possible without a live frame") : "viewers see the mode; an operator may switch it";
  swap(head, JSON.stringify([q.name, q.state, q.mode, q.mode_reason, Math.floor(frame.at_ms / 1000), state]), () => [h("div", { class: "detail-head" },
    h("div", {}, h("h2", {}, q.name), h("span", { class: "acts" }, shape(state === "live" ? stateShape(q.state) : "dashed"), state === "live" ? stateWord(q, frame.at_ms) : `last ${clock(frame.at_ms)}`, h("span", { class: "quiet" }, `mode ${q.mode}${q.mode_reason ? `: ${q.mode_reason}` : ""}${q.owner ? `; owner ${q.owner}` : ""}`))),
    h("div", {}, h("b", {}, words.head), h("br"), h("span", { class: "quiet" }, words.line)),
    h("div", { class: "joined small" }, ["normal", "saturated", "draining"].map((mode) => h("button", { type: "button", "aria-pressed": q.mode === mode ? "true" : "false", "aria-disabled": why && q.mode !== mode ? "true" : null, title: why || null, onclick: () => { if (!why && q.mode !== mode) askMode(frame, mode, q.name); } }, mode)), h("a", { class: "button", href: `/policies/${encodeURIComponent(q.name)}/` }, "Policy")))]);
}

/** The identity that must hold at every instant. @param {any} q */
function drawSums(q) {
  const t = q.totals || {};
  const parts = [["waiting", q.depth], ["delayed", q.delayed], ["in flight", q.in_flight], ["succeeded", t.succeeded], ["failed", t.failed], ["expired", t.expired], ["cancelled", t.cancelled], ["superseded", t.superseded], ["shed", t.shed], ["lost", t.lost]];
  const known = parts.every(([, v]) => isKnown(v)) && isKnown(t.accepted);
  const total = known ? parts.reduce((n, [, v]) => n + v, 0) : null;
  const offeredHolds = t.offered === t.accepted + t.refused;
  const holds = total === t.accepted;
  const check = (ok) => [shape(ok ? "ring" : "diamond"), ok ? "holds" : "does not hold: this is a defect"];
  swap(sums, JSON.stringify([t, q.anomalies, q.depth, q.delayed, q.in_flight]), () => [h("table", { class: "tight" }, h("tbody", {},
    line("offered", t.offered, ""), line("= accepted", t.accepted, ""), line("+ refused", t.refused, Object.entries(t.refused_by || {}).filter(([, n]) => Number(n) > 0).map(([r, n]) => `${REASON_WORDS[r] || r} ${count(Number(n))}`).join(", ")), h("tr", {}, h("td", {}), h("td"), h("td", {}, check(offeredHolds))),
    parts.map(([name, v], i) => line(`${i ? "+" : "accepted ="} ${name}`, v, name === "failed" ? `${count(t.quarantined)} of them were quarantined` : name === "delayed" && q.spilled ? `${count(q.spilled)} of them are spilled` : "")), h("tr", {}, h("td", {}, "sum"), h("td", { class: "num ink" }, count(total)), h("td", {}, known ? check(holds) : "a part is unknown")),
    line("beside: retried", t.retried, ""), line("redelivered", t.redelivered, "after a lost lease"), line("replayed", t.replayed, ""), line("over bound", t.over_bound, "accepted work that stood above a bound"), line("degraded", t.degraded, "offers here that were accepted as a cheaper task"), line("in time", t.in_objective, `of ${count(t.promised)} settled under a completion promise`),
    line("tombstone hits", q.anomalies?.tombstone_hits, "offers of operations that had been cancelled"), line("ambiguous completions", q.anomalies?.ambiguous_completions, "ends told by a holder that had lost its lease: refused; its effect may be there twice")))]);
}

function line(name, value, note) {
  return h("tr", {}, h("td", {}, name), h("td", { class: "num ink" }, count(value)), h("td", { class: "quiet" }, note || ""));
}

function drawMeasures(q) {
  const b = q.bounds || {};
  const inForce = q.bounds_in_force || b;
  const of = (value, form, full, force) => `${form(value)} of ${isKnown(full) ? form(full) : "no bound"}${isKnown(force) && isKnown(full) && force < full ? `, ${form(force)} in force now` : ""}`;
  const three = (w) => (w && isKnown(w.p50) ? `p50${NBSP}${wait(w.p50)}, p95${NBSP}${wait(w.p95)}, p99${NBSP}${wait(w.p99)}` : w?.unknown?.p50 || "nothing measured in the last 60 s");
  const inputs = q.drain?.inputs || {};
  swap(measures, JSON.stringify([q.rate_limits, q.buffers, q.credits, q.waiting_room, q.blocked_ms, q.rates, q.wait_ms, q.service_ms, q.depth, q.bytes, q.drain, q.oldest_age_ms]), () => [facts([
    ["oldest waiting", `${age(q.oldest_age_ms)}, guard ${isKnown(q.guard_age_s) ? duration(q.guard_age_s * 1000) : "none"}, ceiling ${isKnown(q.age_ceiling_s) ? duration(q.age_ceiling_s * 1000) : "none"}`],
    ["jobs", of((q.depth || 0) + (q.delayed || 0) - (q.spilled || 0), count, b.count, inForce.count)], ["bytes", of(q.bytes, bytes, b.bytes, inForce.bytes)], ["work", of(q.cost_ms, duration, b.cost_ms, inForce.cost_ms)],
    ["rate limits", q.rate_limits?.length ? q.rate_limits.map(limitWords).join("; ") : h("span", { class: "quiet" }, "none")],
    ["offered", `${rate(q.rates?.offered)}/s = accepted ${rate(q.rates?.accepted)} + refused ${rate(q.rates?.refused)}`], ["done", `${rate(q.rates?.succeeded)}/s, failed ${rate(q.rates?.failed)}/s`], ["goodput", `${rate(q.rates?.goodput)}/s done before their deadline, or without one`], ["degraded", q.on_full === "degrade" || q.totals?.degraded ? `${rate(q.rates?.degraded)}/s accepted as the cheaper task, ${count(q.totals?.degraded)} so far` : null], ["spill", spillWords(q.spill)], ["waits", three(q.wait_ms)], ["runs for", three(q.service_ms)],
    ["share of what is done", shareWords(q.share)],
    ["bounds from the wait", waitWords(q.promise)],
    ["downstream", q.downstream ? h("span", {}, downstreamLink(q.downstream), q.downstream_share < 1 ? `: lets ${percent(q.downstream_share)} of the slots work, and leaves as much of the bounds in jobs and work` : ": all slots may work") : null],
    ["set aside", q.parked ? h("span", {}, ...setAside(q)) : null],
    ["promise", promise(q.objective)], ["on the way", q.buffers ? `${count(q.buffers.blocked)} wait for room + ${q.buffers.spilled ? `${count(q.buffers.spilled)} spilled + ` : ""}${count(q.buffers.ready)} ready + ${count(q.buffers.delayed)} delayed + ${count(q.buffers.reserved)} reserved + ${count(q.buffers.running)} running = ${count(q.buffers.sum)}` : null],
    ["credits", q.credits ? `${plural(q.credits.producers, "producer")} ${q.credits.producers === 1 ? "holds" : "hold"} ${count(q.credits.out)}; ${count(q.credits.granted)} granted = ${count(q.credits.used)} used + ${count(q.credits.returned)} returned + ${count(q.credits.expired)} run out + ${count(q.credits.out)} held` : null],
    ["waiting room", q.waiting_room ? h("span", {}, `${count(q.waiting_room.line)} in line, ${count(q.waiting_room.called)} called, of ${count(q.waiting_room.max)}; ${count(q.waiting_room.given)} given = ${count(q.waiting_room.admitted)} admitted + ${count(q.waiting_room.expired)} expired + ${count(q.waiting_room.line + q.waiting_room.called)} out; the next one waits `, isKnown(q.waiting_room.modeled_wait_s) ? `${duration(q.waiting_room.modeled_wait_s * 1000)}, modeled` : "for an unknown time: no service rate yet") : null],
    ["blocked", `producers have waited ${duration(q.blocked_ms)} for room in all`],
    ["in flight", `${count(q.in_flight)} of ${count(q.slots)} slots open to it, ${plural(q.consumers ?? 0, "consumer")}`], ["next due", isKnown(q.next_due_at_ms) ? at(q.next_due_at_ms) : "nothing is delayed"], ["inlet", q.inlet ? `${plural(q.inlet, "job")} from stock producers wait to be admitted` : "empty"],
    ["model", h("span", {}, Object.entries(inputs).filter(([, v]) => v !== null && typeof v !== "object").map(([k, v]) => modelInput(k, v)).join(", ") || "no inputs")],
    ["one slot fewer", inputs.one_slot_fewer ? (isKnown(inputs.one_slot_fewer.seconds) ? `drains in ${duration(inputs.one_slot_fewer.seconds * 1000)}, modeled` : String(inputs.one_slot_fewer.state)) : null],
  ])]);
}

/** What stands aside, and for what: each downstream that tasks name with where its limit is now, the rest behind a cap. @param {any} q */
function setAside(q) {
  const rows = q.set_aside || [];
  const capped = q.parked - rows.reduce((n, s) => n + s.jobs, 0);
  const known = /** @type {any} */ (live.frame)?.downstreams || [];
  const of = (n) => `${count(n)} of ${plural(q.depth || 0, "waiting job")}`;
  return [...rows.map((s) => {
    const d = known.find((x) => x.name === s.downstream);
    return h("div", {}, `${of(s.jobs)} for `, downstreamLink(s.downstream), d ? `, ${count(d.in_flight)} of ${plural(d.limit, "call")} in flight` : "",
      s.share < 1 ? h("span", { class: "quiet" }, ". It lets ", h("span", { class: "modeled" }, percent(s.share)), " of the slots work; what waits for it may fill as much of the bounds in jobs and work.") : null);
  }), capped > 0 ? h("div", {}, `${of(capped)} behind their task's cap`) : null];
}

/** What the model was given; a time carries its unit. @param {string} key @param {any} value */
function modelInput(key, value) {
  if (typeof value !== "number") return `${key.replaceAll("_", " ")} ${value}`;
  return key.endsWith("_ms") ? `${plainName(key)} ${wait(value)}` : `${key.replaceAll("_", " ")} ${Number.isInteger(value) ? count(value) : Number(value.toPrecision(4))}`;
}

/** What was done of all in the last minute, beside what the weights say. @param {any} s */
function shareWords(s) {
  if (!s) return null;
  const said = isKnown(s.done) ? `${percent(s.done)} of all ${count(s.of)} runs ended in the last ${duration(s.over_ms)}, ${percent(s.work)} of their time` : `unknown: ${s.unknown?.done || "nothing ended lately"}`;
  return `${said}; ${isKnown(s.by_weight) ? `${percent(s.by_weight)} by weight while every class has work` : "served strictly by rank"}`;
}

/** The sum behind the bounds that follow from max_wait_s. @param {any} p */
function waitWords(p) {
  if (!p) return null;
  const from = { prior: "nothing measured yet: the prior", "last seen": "as last seen, no consumer now", estimate: "estimated cost", nothing: "no service time yet", ever: "all runs so far", "60 s": "the last 60\u00a0s" }[p.from] || p.from;
  const wait = p.wait_s > p.max_wait_s ? `${duration(p.wait_s * 1000)} (one job's time, more than the ${duration(p.max_wait_s * 1000)} promised)` : duration(p.max_wait_s * 1000);
  return h("span", {}, h("span", { class: "modeled" }, `${count(p.count)} jobs, ${duration(p.cost_ms)} of work`), ` = ${wait} x ${rate(p.jobs_per_s)} jobs/s, ${duration(p.work_ms_per_s)} of work a second (${Number(p.slots.toPrecision(3))} slots' worth; ${from}); moves by ${percent(p.step_per_s)} a second at most`);
}

/** Is the completion promise kept, and how fast is its allowance used up? @param {any} o */
function promise(o) {
  if (!o) return h("span", { class: "quiet" }, "none is declared");
  const said = `${percent(o.objective_share)} within ${duration(o.objective_s * 1000)}`;
  if (!isKnown(o.attained)) return `${said}; unknown: ${o.unknown?.attained || "not measured"}`;
  const burn = Object.entries(o.burn_rate || {}).filter(([k]) => k !== "unknown").map(([k, v]) => `${isKnown(v) ? Number(v.toPrecision(2)) : "\u2013"} over ${k.replace(/(\d+)/, "$1\u00a0").replace("m", "min")}`).join(", ");
  return h("span", {}, shape(o.attained >= o.objective_share ? "ring" : "triangle"), `${said}; kept by ${fine(o.attained)} of ${plural(o.of, "job")} that settled in the last ${duration(o.over_s * 1000)}. `, h("span", { class: "quiet", title: Object.entries(o.burn_rate?.unknown || {}).map(([k, v]) => `${k}: ${v}`).join("; ") || null }, `Burn rate (1 is what it allows): ${burn}`));
}

/** A share near 1, with the digits that matter. @param {number} share */
function fine(share) {
  return share > 0.9 && share < 1 ? `${(Math.floor(share * 10000) / 100).toFixed(2)}\u00a0%` : percent(share);
}

/** @param {any} s */
function spillWords(s) {
  if (!s) return null;
  const bound = (v, form) => (isKnown(v) ? ` of ${form(v)}` : "");
  return `${plural(s.count, "job")}${bound(s.bounds.count, count)}, ${bytes(s.bytes)}${bound(s.bounds.bytes, bytes)}, oldest ${age(s.oldest_age_ms)}${isKnown(s.bounds.age_s) ? `, expires after ${duration(s.bounds.age_s * 1000)}` : ""}; go in under the low mark`;
}

/** The ordering keys that hold work back longest: one that stalls must not be averaged away. @param {any} q */
function drawKeys(q) {
  const rows = q.blocked_keys || [];
  swap(keys, JSON.stringify([rows, q.blocked_keys_known]), () => (rows.length ? [h("div", { class: "scrollx" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "key"), h("th", {}, "tenant"), h("th", { class: "num" }, "wait behind it"), h("th", { class: "num" }, "longest"), h("th", {}, "held by"), h("th", { class: "num" }, "for"), h("th", {}, "worker"), h("th", { class: "num" }, "epoch"))),
    h("tbody", {}, rows.map((k) => h("tr", {}, h("td", { class: "ink clip", title: k.key }, k.key), h("td", {}, k.tenant), h("td", { class: "num" }, count(k.waiting)), h("td", { class: "num" }, age(k.oldest_age_ms)), h("td", {}, k.holder ? h("a", { class: "idlink", href: `/jobs/${encodeURIComponent(k.holder)}/` }, k.holder.slice(0, 13)) : "\u2013", " ", h("span", { class: "quiet" }, k.holder_phase)), h("td", { class: "num" }, isKnown(k.held_ms) ? age(k.held_ms) : "\u2013"), h("td", {}, k.worker || h("span", { class: "quiet" }, "none")), h("td", { class: "num quiet" }, isKnown(k.epoch) ? String(k.epoch) : "\u2013")))))),
    q.blocked_keys_known > rows.length ? h("p", { class: "quiet" }, `and ${count(q.blocked_keys_known - rows.length)} more keys, each for a shorter time`) : ""] : h("p", { class: "quiet" }, "No ordering key holds work back.")));
}

function drawTenants(q, frame) {
  // By name: who is in a sample changes every second, and rows that move cannot be read.
  const rows = (frame.tenants || []).filter((t) => t.queue === q.name).sort((a, b) => a.tenant.localeCompare(b.tenant, "en", { numeric: true }));
  const known = q.tenants_known || 0;
  const left = known - rows.length;
  const of = left > 0 ? h("p", { class: "quiet" }, rows.length ? `A sample: ${count(rows.length)} of ${plural(known, "tenant")}. Of those whose work has waited longest and those that offered last the ones that hold and offer most are shown.` : `None of its ${plural(known, "tenant")} is among those that a frame has room for: they hold and offer less than others.`) : null;
  swap(tenants, JSON.stringify([known, rows.map((t) => [t.tenant, t.rates, t.depth, t.share])]), () => (rows.length || of ? [of, rows.length ? h("div", { class: "scrollx" }, h("table", { class: "pinned" }, h("thead", {}, h("tr", {}, h("th", {}, "tenant"), ["offered/s", "accepted", "refused", "done", "waiting", "oldest", "slot time"].map((c) => h("th", { class: "num" }, c)))), h("tbody", {}, rows.map((t) => h("tr", {}, h("td", { class: "ink clip", title: t.tenant }, t.tenant), ["offered", "accepted", "refused", "succeeded"].map((k) => h("td", { class: "num" }, rate(t.rates?.[k]))), h("td", { class: "num" }, count(t.depth)), h("td", { class: "num", title: t.unknown?.oldest_age_ms || null }, isKnown(t.oldest_age_ms) ? age(t.oldest_age_ms) : "\u2013"), h("td", { class: "num", title: t.unknown?.share || null }, percent(t.share))))))) : null] : h("p", { class: "quiet" }, "No tenant has offered to this queue yet.")));
}

/** @param {any} c */
function drawContract(c) {
  contractNode.replaceChildren(...contractParts(c), h("p", {}, h("a", { class: "link", href: `/contracts/${encodeURIComponent(c.queue)}/` }, "All contracts, and what gives way first")));
}

function move(step) {
  const names = (live.frame?.queues || []).map((q) => q.name);
  if (names.length) open(names[(names.indexOf(current) + step + names.length) % names.length]);
}

function stepRange(step) {
  const i = RANGES.findIndex((r) => r.key === history_.range.key);
  history_.range = RANGES[Math.max(0, Math.min(RANGES.length - 1, i + step))];
  loadHistory();
}

bind({ keys: "J", label: "Next queue", group: "Queues", run: () => move(1) });
bind({ keys: "K", label: "Queue before", group: "Queues", run: () => move(-1) });
bind({ keys: "[", label: "Shorter time range", group: "Time", run: () => stepRange(-1) });
bind({ keys: "]", label: "Longer time range", group: "Time", run: () => stepRange(1) });
bind({ keys: "Space", label: "Hold the charts, or let them run", group: "Time", run: () => { charts.heldAt = charts.heldAt ? null : live.now(); draw(); } });
startPage({ draw: (frame) => { history_.append(frame); draw(); }, wait: drawWithout });
setInterval(() => { if (live.state() !== "live") draw(); }, 1000);
window.addEventListener("popstate", () => { const item = currentItem(); if (item && item !== current) open(item); });
loadHistory();
