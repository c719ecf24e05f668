// What fires, who knows, which rules watch, and what was sent where?
import { get, may, post, put, query } from "../js/api.js";
import { openRunbook, safeLink } from "../js/alertstrip.js";
import { ask, reasonField, segments } from "../js/dialog.js";
import { $, h, setText, swap } from "../js/dom.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { say } from "../js/say.js";
import { shape } from "../js/shapes.js";
import { NBSP, clock, count, duration, isKnown, plural } from "../js/units.js";
import { at, choice, currentItem, field, part, reading, stacked, startPage } from "./page.js";

const MEASURES = {
  oldest_age_s: { word: "oldest waiting", unit: "s", of: "queue" }, depth: { word: "waiting", unit: "jobs", of: "queue" }, shed_rate: { word: "shed", unit: "jobs/s", of: "queue" },
  refused_rate: { word: "refused", unit: "jobs/s", of: "queue" }, no_consumer: { word: "no consumer", unit: "", of: "queue" }, gate_failed: { word: "gate failed", unit: "", of: "gate" }, queues_draining: { word: "draining", unit: "queues", of: "gate" }, quarantine_count: { word: "held in quarantine", unit: "jobs", of: "quarantine" },
  burn_rate_fast: { word: "promise missed (5 min and 1 h)", unit: "times as fast as allowed", of: "queue" }, burn_rate_slow: { word: "promise missed (30 min and 6 h)", unit: "times as fast as allowed", of: "queue" },
  quarantine_age_s: { word: "oldest in quarantine", unit: "s", of: "quarantine" },
};
/** What is so or not: the words for either. @type {Record<string, [string, string]>} */
const YES_OR_NO = { no_consumer: ["none", "some"], gate_failed: ["failed", "serving"] };
const root = $("[data-root]");
const firingNode = h("div");
const rulesNode = h("div");
const historyNode = h("div");
root.replaceChildren(h("div", { class: "section" }, firingNode, part("Rules", "each is evaluated once a second by the monitor, never through the queues it watches", rulesNode), part("History", "newest first, with what was sent where", historyNode)));

/** @type {any[]} */ let rules = [];
/** @type {any[]} */ let past = [];
/** @type {number|null} */ let nextBefore = null;
/** @type {number|null} how many had not cleared when they were read */ let stillFiring = null;
const why = may("operator") ? "" : "viewers see alerts and rules; an operator may change them";

/** A value with the unit of its measure. @param {string} measure @param {number|null} value */
function measured(measure, value) {
  if (!isKnown(value)) return "\u2013";
  if (measure.endsWith("_age_s")) return duration(value * 1000);
  if (measure in YES_OR_NO) return YES_OR_NO[measure][value ? 0 : 1];
  const unit = MEASURES[measure]?.unit || "";
  return measure.includes("_rate") ? `${value.toFixed(1)}${NBSP}${unit}`.trim() : unit ? plural(value, unit.replace(/s$/, "")) : count(value);
}

/** @param {any} rule */
function ruleSentence(rule) {
  const m = MEASURES[rule.measure] || { word: rule.measure.replaceAll("_", " "), unit: "", of: "" };
  const where = rule.queue || { quarantine: "quarantine", gate: "the gate" }[m.of] || "any queue";
  if (rule.measure === "gate_failed") return `${where}: failed for ${duration(rule.for_s * 1000)}`;
  if (rule.measure === "no_consumer") return `${where}: work and no consumer for ${duration(rule.for_s * 1000)}`;
  return `${where}: ${m.word} ${measured(rule.measure, rule.threshold)} or more${rule.for_s ? ` for ${duration(rule.for_s * 1000)}` : ", at once"}`;
}

/** @param {import("../js/frame.js").Frame} frame @param {string} state */
function drawFiring(frame, state) {
  const items = frame.alerts?.items || [];
  const second = items.length ? Math.floor(frame.at_ms / 5000) : 0;
  swap($("[data-facts]"), `${frame.alerts?.firing} ${rules.length}`, () => [h("span", {}, items.length ? `${plural(items.length, "alert")} firing` : "none firing"), h("span", {}, `${plural(rules.filter((r) => r.enabled).length, "rule")} on`)]);
  swap(firingNode, JSON.stringify([items.map((a) => [a.id, a.acknowledged_by, a.snoozed_until_at_ms, a.now]), state, second]), () => (items.length ? items.map((a) => {
    const over = a.severity === "critical";
    const unwritten = isKnown(a.id) ? "" : "the database has not answered: this alert is not written down yet";
    const off = (extra) => (why || extra || unwritten || state !== "live" ? { "aria-disabled": "true", title: why || unwritten || extra || "not possible without a live frame" } : {});
    return h("article", { class: "firing", "data-tone": over ? "over" : "guard", "data-alert": a.id }, shape(over ? "diamond" : "triangle"), h("b", {}, a.sentence || ruleSentence(a)), h("span", {}, a.now === undefined || a.now === null ? "now unknown" : `now ${measured(a.measure, a.now)}`, a.measure in YES_OR_NO ? null : h("span", { class: "quiet" }, `, fired at ${measured(a.measure, a.value)}`)),
      h("span", { class: "quiet" }, `fired ${clock(a.fired_at_ms)}, ${duration(Math.floor((frame.at_ms - a.fired_at_ms) / 1000) * 1000)} ago; ${a.acknowledged_by ? `acknowledged by ${a.acknowledged_by}` : "nobody has acknowledged it"}${isKnown(a.snoozed_until_at_ms) && a.snoozed_until_at_ms > frame.at_ms ? `; snoozed until ${clock(a.snoozed_until_at_ms)}` : ""}`),
      h("div", { class: "joined small" }, h("button", { type: "button", ...off(a.acknowledged_by ? `already acknowledged by ${a.acknowledged_by}` : ""), onclick: () => acknowledge(a) }, "Acknowledge"), h("button", { type: "button", ...off(""), onclick: () => snooze(a) }, "Snooze"),
        h("button", { type: "button", ...(a.runbook ? {} : { "aria-disabled": "true", title: "this rule has no runbook" }), onclick: () => openRunbook(a) }, "Runbook")));
  }) : h("p", { class: "part acts" }, shape("ring"), `No alert is firing. ${isKnown(frame.alerts?.last_at_ms) ? `The last one fired at ${clock(frame.alerts?.last_at_ms)}.` : "None has fired so far."}`)));
}

/** @param {any} a */
async function acknowledge(a) {
  if (why || a.acknowledged_by || !isKnown(a.id)) return;
  try { await post(`/alerts/${a.id}/acknowledge`, {}); say("Acknowledged."); loadHistory(); } catch (error) { say(/** @type {Error} */ (error).message); }
}

/** @param {any} a */
function snooze(a) {
  if (why || !isKnown(a.id)) return;
  let minutes = 30;
  const dialog = ask({
    title: `Snooze "${a.rule}"?`, lead: "It keeps firing on these pages; nobody is told again until the time is over.",
    parts: [{ name: "for", body: segments([["10 min", 10], ["30 min", 30], ["1 h", 60], ["4 h", 240]], 30, (v) => { minutes = v; dialog.setVerb(`Snooze 1 alert for ${duration(v * 60000)}`); }, "for") }],
    verb: `Snooze 1 alert for 30${NBSP}min`, act: async () => { await post(`/alerts/${a.id}/snooze`, { for_s: minutes * 60 }); return "Snoozed."; },
  });
}

function loadRules() {
  return reading(rulesNode, () => get("/alerts/rules"), (data) => {
    rules = data.rules;
    const off = why ? { "aria-disabled": "true", title: why } : {};
    rulesNode.replaceChildren(h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "rule"), h("th", {}, "fires when"), h("th", {}, "clears at or under"), h("th", {}, "severity"), h("th", {}, "goes to"), h("th", {}, "runbook, a link or advice"), h("th"))),
      h("tbody", {}, rules.map((r) => h("tr", { "data-rule": r.name }, h("td", { class: "ink" }, r.name, r.enabled ? null : h("span", { class: "quiet" }, " (off)")), h("td", {}, ruleSentence(r)), h("td", {}, measured(r.measure, r.clear_threshold)),
        h("td", { class: "nowrap" }, shape(r.severity === "critical" ? "diamond" : r.severity === "warning" ? "triangle" : "ring"), r.severity), h("td", { class: "wrap" }, r.targets.length ? r.targets.join(", ") : h("span", { class: "quiet" }, "this room only; no delivery target yet")),
        h("td", {}, safeLink(r.runbook) ? h("a", { class: "link", href: safeLink(r.runbook), rel: "noopener noreferrer", target: "_blank" }, "open") : r.runbook ? h("span", { class: "wrap" }, r.runbook) : h("span", { class: "quiet" }, "none")), h("td", { class: "num" }, h("button", { type: "button", class: "plain link", ...off, onclick: () => editRule(r) }, "Edit")))))))),
      h("p", { class: "acts" }, h("button", { type: "button", ...off, onclick: () => editRule(null) }, "New rule", h("kbd", {}, "N")), why ? h("span", { class: "why" }, why) : null));
    if (live.frame) drawFiring(live.frame, live.state());
  });
}

/** @param {any|null} rule */
function editRule(rule) {
  if (why) return;
  const r = rule || { name: "", queue: null, measure: "oldest_age_s", threshold: 30, clear_threshold: 20, for_s: 15, severity: "warning", enabled: true, targets: [], runbook: "" };
  const text = (value, props = {}) => /** @type {HTMLInputElement} */ (h("input", { type: "text", value: value ?? "", autocomplete: "off", ...props }));
  const number = (value, props = {}) => /** @type {HTMLInputElement} */ (h("input", { type: "number", value: String(value ?? 0), min: "0", step: "any", ...props }));
  const name = text(r.name, rule ? { disabled: true } : { "data-first": true, maxlength: 100 });
  const queue = choice([["", "any queue"], ...(live.frame?.queues || []).map((q) => /** @type {[string, string]} */ ([q.name, q.name]))], r.queue || "");
  const measure = choice(Object.entries(MEASURES).map(([k, m]) => /** @type {[string, string]} */ ([k, `${m.word}${m.unit ? `, ${m.unit}` : ""}`])), r.measure);
  const threshold = number(r.threshold);
  const clear = number(r.clear_threshold);
  const forS = number(r.for_s);
  const severity = choice([["info", "info"], ["warning", "warning"], ["critical", "critical"]], r.severity);
  const enabled = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
  enabled.checked = r.enabled;
  const targets = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 3, spellcheck: "false", "aria-label": "targets" }));
  targets.value = r.targets.join("\n");
  const runbook = text(r.runbook, { placeholder: "a link, or advice in words" });
  const reason = reasonField();
  const now = h("p", { class: "ink" });
  const preview = () => {
    const shown = { queue: queue.value || null, measure: measure.value, threshold: Number(threshold.value), for_s: Number(forS.value) };
    swap(now, JSON.stringify([shown, live.frame?.seq]), () => [`Fires when ${ruleSentence(shown)}. `, h("span", { class: "quiet" }, nowWords(shown))]);
  };
  for (const node of [queue, measure, threshold, forS]) node.addEventListener("input", preview);
  preview();
  const body = () => ({ name: name.value.trim(), queue: queue.value || null, measure: measure.value, threshold: Number(threshold.value), clear_threshold: Number(clear.value), for_s: Number(forS.value), severity: severity.value, enabled: enabled.checked,
    targets: targets.value.split("\n").map((t) => t.trim()).filter(Boolean), runbook: runbook.value.trim(), reason: reason.value.trim() });
  ask({
    title: rule ? `Change the rule "${rule.name}"?` : "A new alert rule",
    lead: now,
    parts: [
      ...(rule ? [] : [{ name: "name", body: name }]),
      { name: "watches", body: h("div", { class: "formgrid" }, field("queue", queue), field("measure", measure)) },
      { name: "fires", body: h("div", { class: "formgrid" }, field("at or over", threshold, "", "in the measure's unit"), field("for", forS, "s"), field("clears at or under", clear, "", "lower than where it fires, so that it does not flap")) },
      { name: "then", body: h("div", { class: "formgrid" }, field("severity", severity), h("label", { class: "check" }, enabled, "rule is on"), h("div", { class: "wide" }, field("goes to", targets, "", "one Apprise address a line; what is shown with stars is kept as it was")), h("div", { class: "wide" }, field("runbook", runbook))) },
      { name: "reason", body: reason },
    ],
    verb: rule ? "Change 1 rule" : "Add 1 rule",
    note: "written to the audit",
    extra: rule ? [{ label: "Remove this rule", key: "-", run: async () => { if (!reason.value.trim()) throw new Error("A reason is needed to remove a rule."); await put("/alerts/rules", { name: rule.name, remove: true, reason: reason.value.trim() }); loadRules(); return "Rule removed."; } }] : [],
    canAct: () => (!body().name ? "A rule needs a name." : Number(clear.value) > Number(threshold.value) ? "It must clear at or under the value at which it fires." : ""),
    act: async () => { await put("/alerts/rules", body()); loadRules(); return "Rule saved."; },
  });
}

/** What the measure is at now, so that a threshold is chosen with open eyes. @param {any} r */
function nowWords(r) {
  const frame = live.frame;
  if (!frame) return "";
  const queues = r.queue ? frame.queues.filter((q) => q.name === r.queue) : frame.queues;
  const read = { oldest_age_s: (q) => (isKnown(q.oldest_age_ms) ? q.oldest_age_ms / 1000 : null), depth: (q) => q.depth, shed_rate: (q) => q.rates?.shed, refused_rate: (q) => q.rates?.refused, no_consumer: (q) => (q.consumers === 0 && q.depth ? 1 : 0), burn_rate_fast: (q) => burn(q, "5m", "1h"), burn_rate_slow: (q) => burn(q, "30m", "6h") }[r.measure];
  const value = r.measure === "gate_failed" ? Number(frame.mode === "failed") : r.measure === "queues_draining" ? queues.filter((q) => q.mode === "draining").length : r.measure === "quarantine_count" ? frame.quarantine?.count : r.measure === "quarantine_age_s" ? (frame.quarantine?.oldest_age_ms ?? 0) / 1000 : read ? Math.max(...queues.map((q) => read(q) ?? 0)) : null;
  if (!isKnown(value)) return "";
  return `Now ${measured(r.measure, value)}: it would ${value > 0 && value >= r.threshold ? "fire" : "be quiet"}.`;
}

/** The burn rate that both windows are past. @param {any} q @param {string} short @param {string} long */
function burn(q, short, long) {
  const rates = [q.objective?.burn_rate?.[short], q.objective?.burn_rate?.[long]];
  return rates.every(isKnown) ? Math.min(...rates) : null;
}

function loadHistory() {
  return reading(historyNode, () => get(`/alerts${query({ limit: 50 })}`), (data) => { past = data.alerts; stillFiring = data.firing; nextBefore = data.next_before; drawHistory(); });
}

function drawHistory() {
  if (!past.length) { historyNode.replaceChildren(h("p", { class: "quiet" }, "No alert has fired so far.")); return; }
  const item = currentItem();
  historyNode.replaceChildren(h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "fired"), h("th", {}, "rule"), h("th", {}, "queue"), h("th", { class: "num" }, "value"), h("th", { class: "num" }, "peak"), h("th", {}, "lasted"), h("th", {}, "acknowledged"), h("th", {}, "sent"))),
    h("tbody", {}, past.map((a) => h("tr", { "aria-selected": String(a.id) === item ? "true" : null, "data-alert": a.id }, h("td", {}, at(a.fired_at_ms)), h("td", { class: "ink" }, a.rule), h("td", {}, a.queue || "\u2013"), h("td", { class: "num" }, measured(a.measure, a.value)), h("td", { class: "num" }, measured(a.measure, a.peak)),
      h("td", {}, a.cleared_at_ms ? duration(a.cleared_at_ms - a.fired_at_ms) : h("b", {}, shape(a.severity === "critical" ? "diamond" : "triangle"), "firing")), h("td", {}, a.acknowledged_by ? [a.acknowledged_by, " ", at(a.acknowledged_at_ms)] : h("span", { class: "quiet" }, "nobody")),
      h("td", { class: "wrap" }, (a.deliveries || []).length ? a.deliveries.map((d) => h("div", {}, shape(d.ok ? "ring" : "diamond"), `${d.target} ${clock(d.at_ms)}`, d.ok ? "" : h("span", { class: "quiet" }, ` ${d.detail}`))) : h("span", { class: "quiet" }, "no target")))))))),
    nextBefore ? h("button", { type: "button", class: "plain", onclick: async () => { const data = await get(`/alerts${query({ limit: 50, before: nextBefore })}`); past = [...past, ...data.alerts]; nextBefore = data.next_before; drawHistory(); } }, "Show older") : "");
}

/** Without a frame nobody evaluates: those that were not over when last looked at are known from the database. @param {string} unseen */
function drawWithout(unseen) {
  const last = past.filter((a) => !a.cleared_at_ms);
  const more = (stillFiring || 0) - last.length;
  setText($("[data-facts]"), "what fires now is unknown");
  swap(firingNode, JSON.stringify([unseen, stillFiring, last.map((a) => a.id)]), () => [h("p", { class: "empty-note" }, shape("dashed"), unseen),
    stillFiring === null ? null : h("p", { class: "part" }, stillFiring ? `Not over when the rules were last evaluated: ${last.map((a) => `${a.rule}${a.queue ? ` (${a.queue})` : ""}, since ${clock(a.fired_at_ms)}`).join("; ")}${more > 0 ? ` and ${count(more)} older` : ""}.` : "No alert was firing when the rules were last evaluated.")]);
}

const firstFiring = () => live.frame?.alerts?.items?.find((a) => !a.acknowledged_by) || live.frame?.alerts?.items?.[0];
bind({ keys: "A", label: "Acknowledge the first alert", group: "Alerts", run: () => { const a = firstFiring(); if (a) acknowledge(a); } });
bind({ keys: "Z", label: "Snooze the first alert", group: "Alerts", run: () => { const a = firstFiring(); if (a) snooze(a); } });
bind({ keys: "N", label: "New rule", group: "Alerts", run: () => editRule(null) });
let firingBefore = "";
startPage({ wait: drawWithout, draw: (frame, state) => {
  drawFiring(frame, state);
  const now = (frame.alerts?.items || []).map((a) => a.id).join();
  if (now !== firingBefore) { firingBefore = now; loadHistory(); }
} });
loadRules();
loadHistory();
