// What may a queue hold, who goes first, and what would a change do? Every field with its unit, its meaning and a preview.
import { Problem, get, may, put } from "../js/api.js";
import { reasonField } from "../js/dialog.js";
import { $, h, setAttr, setText, swap } from "../js/dom.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { inOrder } from "../js/past.js";
import { say } from "../js/say.js";
import { shape, stateShape } from "../js/shapes.js";
import { plural } from "../js/units.js";
import { difference } from "./difference.js";
import { at, choice, currentItem, part, reading, setItem, stacked, startPage } from "./page.js";
import { GROUPS, UNITS, effectWords, valueWords } from "./policy-fields.js";

/** So long after the last key the checks are asked. */
const CHECK_AFTER_MS = 250;
const root = $("[data-root]");
const nav = h("nav", { "aria-label": "queues" });
const detail = h("div", { class: "detail" });
root.replaceChildren(h("div", { class: "split" }, nav, detail));
const why = may("operator") ? "" : "viewers may read policies; an operator may change them";
/** @type {string[]} */ let names = [];
/** @type {string[]} every field that a policy has */ let fields = [];
let current = currentItem();
/** @type {any} */ let policy = null;
/** @type {Record<string, any>} */ let edits = {};
/** @type {Map<string, any>} */ let inputs = new Map();
const fault = h("p", { class: "fault", role: "alert", hidden: true });
/** What the policy's own checks refuse of the edits, before they are sent. @type {{field: string, words: string}|null} */ let refused = null;
let checkTimer = 0;
let checked = 0;
/** @type {Map<string, HTMLElement>} the cells of the preview that say what a change would mean now */ let effects = new Map();

function load() {
  return reading(nav, () => get("/policies"), (data) => {
    names = inOrder(data.policies).map((p) => p.queue);
    fields = data.fields || [];
    order();
    if (!names.includes(current)) current = names[0] || "";
    setText($("[data-facts]"), `${plural(names.length, "queue")} with a policy; a change is in force within a second and kept as a version`);
    drawNav();
    open(current);
  });
}

/** As the room orders them. */
function order() {
  const known = (live.frame?.queues || []).map((q) => q.name);
  if (known.length) names.sort((a, b) => (known.indexOf(a) + 1 || 99) - (known.indexOf(b) + 1 || 99) || a.localeCompare(b));
}

function drawNav() {
  order();
  const frame = live.frame;
  const key = JSON.stringify([names, current, (frame?.queues || []).map((q) => [q.name, q.state])]);
  swap(nav, key, () => names.map((name) => {
    const q = frame?.queues.find((x) => x.name === name);
    return h("a", { href: `/policies/${encodeURIComponent(name)}/`, "aria-current": name === current ? "true" : null, onclick: (event) => { event.preventDefault(); open(name); } }, shape(q ? stateShape(q.state) : "dashed"), h("span", { class: "qn" }, name), h("span", { class: "quiet" }, q?.policy_version ? `v${q.policy_version}` : ""));
  }));
}

/** @param {string} name */
function open(name) {
  current = name;
  edits = {};
  refused = null;
  clearTimeout(checkTimer);
  checked += 1;
  setItem(name);
  drawNav();
  if (!name) { detail.replaceChildren(h("p", { class: "empty-note" }, "No queue has a policy yet.")); return undefined; }
  return reading(detail, () => get(`/policies/${encodeURIComponent(name)}`), (data) => { policy = data; draw(); });
}

const preview = h("div", { class: "preview", hidden: true });

function draw() {
  inputs = new Map();
  fault.hidden = true;
  detail.replaceChildren(
    h("div", { class: "detail-head" }, h("div", {}, h("h2", {}, policy.queue), h("span", { class: "quiet" }, `version ${policy.version} by ${policy.by || "the shipped file"} at `, at(policy.at_ms), policy.reason ? `: ${policy.reason}` : "")),
      h("div", { class: "joined small" }, h("a", { class: "button", href: `/queues/${encodeURIComponent(policy.queue)}/` }, "Queue and contract"))),
    why ? h("p", { class: "part why" }, why) : "",
    h("div", { class: "policyform" }, allGroups().map(([title, list]) => h("section", { class: "policygroup" }, h("h3", {}, title), list.filter((f) => f.name in policy).map(row)))),
    h("br"), part("Versions", "newest first; each is kept", h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, ["version", "when", "who", "what changed", "reason"].map((t) => h("th", {}, t)))),
      h("tbody", {}, (policy.history || []).map((v, i) => h("tr", {}, h("td", { class: "ink" }, `v${v.version}`), h("td", {}, at(v.at_ms)), h("td", {}, v.by || "shipped"), h("td", { class: "wrap" }, policy.history[i + 1] ? difference(policy.history[i + 1].fields, v.fields) || "nothing" : "first"), h("td", { class: "wrap" }, v.reason || h("span", { class: "quiet" }, "none given"))))))))),
    preview);
  drawPreview();
}

/** @param {import("./policy-fields.js").Field} f */
function row(f) {
  const value = policy[f.name];
  const node = h("div", { class: "policyrow", "data-field": f.name });
  const disabled = why ? { disabled: true, title: why } : {};
  const words = h("span", { class: "words" }, spoken(f, value));
  const hint = h("span", { class: "fault", id: `hint-${f.name}`, role: "alert", hidden: true });
  let input;
  if (f.kind === "flag") {
    input = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": f.name, ...disabled }));
    input.checked = !!value;
  } else if (f.kind === "word") input = choice((f.words || []).map((w) => /** @type {[string, string]} */ ([w, w])), String(value), { "aria-label": f.name, ...disabled });
  else if (f.kind === "text" || f.kind === "json") input = /** @type {HTMLInputElement} */ (h("input", { type: "text", "aria-label": f.name, value: f.kind === "json" ? (value === null ? "" : JSON.stringify(value)) : value ?? "", ...disabled }));
  else input = /** @type {HTMLInputElement} */ (h("input", { type: "number", "aria-label": f.name, min: "0", max: f.kind === "share" ? "1" : null, step: ["count", "bytes", "ms"].includes(f.kind) ? "1" : "any", value: value ?? "", placeholder: f.nullWord ? "unset" : "", ...disabled }));
  input.addEventListener("input", () => change(f, input, node, words));
  setAttr(input, "aria-describedby", `hint-${f.name}`);
  inputs.set(f.name, { f, input, node, words, hint });
  node.append(h("code", {}, f.name), h("span", { class: "in" }, input, UNITS[f.kind] ? h("span", { class: "quiet" }, UNITS[f.kind]) : null), h("span", {}, hint, words, h("span", { class: "now" }, `${f.means}${f.nullWord && value !== null ? `; empty: ${f.nullWord}` : ""}`)));
  return node;
}

/** A field that this page does not know yet is shown all the same. @returns {[string, import("./policy-fields.js").Field[]][]} */
function allGroups() {
  const known = new Set(GROUPS.flatMap(([, list]) => list.map((f) => f.name)));
  const rest = fields.filter((name) => !known.has(name)).map((name) => /** @type {import("./policy-fields.js").Field} */ ({ name, kind: "json", means: "as JSON" }));
  return rest.length ? [...GROUPS, ["Other", rest]] : GROUPS;
}

/** The value in words where the raw number does not speak for itself. @param {import("./policy-fields.js").Field} f @param {any} value */
function spoken(f, value) {
  const text = valueWords(f, value);
  return text === String(value) || f.kind === "flag" || (f.kind === "json" && !Array.isArray(value)) || f.kind === "word" ? "" : `${text}; `;
}

/** @param {import("./policy-fields.js").Field} f @param {any} input */
function readInput(f, input) {
  if (f.kind === "flag") return input.checked;
  if (f.kind === "word") return input.value;
  const text = input.value.trim();
  if (f.kind === "text") return text === "" ? null : text;
  if (f.kind === "json") { if (text === "" && f.nullWord) return null; try { return JSON.parse(text || "[]"); } catch { return text; } }
  if (text === "") return f.nullWord ? null : undefined;
  return Number(text);
}

function change(f, input, node, words) {
  const next = readInput(f, input);
  const same = JSON.stringify(next) === JSON.stringify(policy[f.name]);
  if (same || next === undefined) delete edits[f.name];
  else edits[f.name] = next;
  setAttr(node, "data-changed", !same);
  if (refused?.field === f.name) refused = null;
  setText(words, next === undefined ? "needs a value; " : spoken(f, next));
  drawPreview();
  clearTimeout(checkTimer);
  checked += 1;
  if (Object.keys(edits).length) checkTimer = window.setTimeout(check, CHECK_AFTER_MS);
  else refused = null;
  drawRefused();
}

/** Ask the policy's own checks, without a change: they know the ranges, and which fields go together. */
async function check() {
  const mine = checked;
  let found = null;
  try {
    await put(`/policies/${encodeURIComponent(current)}?dry_run=true`, { ...edits, version: policy.version });
  } catch (error) {
    // Whatever else went wrong is told when the change is sent.
    if (error instanceof Problem && [409, 422].includes(error.status)) found = { field: (error.field || "").split(/[.[]/)[0], words: refusalWords(error) };
  }
  if (mine !== checked) return;
  refused = found;
  drawRefused();
  drawPreview();
}

/** The field is named by where it stands. @param {Problem} error */
function refusalWords(error) {
  const said = String(error.document.detail || error.message);
  return error.field && said.startsWith(`${error.field}: `) ? said.slice(error.field.length + 2) : said;
}

function drawRefused() {
  for (const { f, input, hint } of inputs.values()) {
    const mine = refused?.field === f.name;
    setAttr(input, "aria-invalid", mine ? "true" : null);
    hint.hidden = !mine;
    setText(hint, mine && refused ? refused.words : "");
  }
}

const reason = reasonField("why this is changed");

function drawPreview() {
  const n = Object.keys(edits).length;
  preview.hidden = n === 0;
  if (!n) return;
  effects = new Map();
  const rows = Object.entries(edits).map(([name, next]) => {
    const { f } = inputs.get(name);
    const effect = h("td", {});
    effects.set(name, effect);
    return h("tr", {}, h("td", {}, h("code", { class: "mono ink" }, name)), h("td", {}, valueWords(f, policy[name])), h("td", { class: "ink" }, valueWords(f, next)), effect);
  });
  drawEffects();
  const not = refused ? `${refused.field}: ${refused.words}` : "";
  const focused = document.activeElement === reason;
  preview.replaceChildren(h("div", { class: "scrollx" }, h("table", {}, h("thead", {}, h("tr", {}, ["field", "before", "after", "at this moment"].map((t) => h("th", {}, t)))), h("tbody", {}, rows))),
    h("div", { class: "acts" }, reason, h("button", { type: "button", class: "main", "data-needs-gate": true, "aria-disabled": not ? "true" : null, title: not || null, onclick: save }, `Change ${plural(n, "field")} of ${current}`), h("button", { type: "button", onclick: () => { edits = {}; refused = null; draw(); } }, "Leave as it is")),
    not && !inputs.has(refused?.field) ? h("p", { class: "fault" }, not) : "", fault);
  if (focused) reason.focus();
}

/** What each change would mean at this moment, or why it cannot be made. */
function drawEffects() {
  const q = live.frame?.queues.find((x) => x.name === current);
  for (const [name, cell] of effects) setText(cell, refused?.field === name ? `not possible: ${refused.words}` : effectWords(inputs.get(name).f, edits[name], q, edits));
}

async function save() {
  if (refused) { const row = inputs.get(refused.field); if (row) row.input.focus(); else tell(`${refused.field}: ${refused.words}`); return; }
  if (!reason.value.trim()) { tell("A reason is needed: it is kept with the version."); reason.focus(); return; }
  try {
    await put(`/policies/${encodeURIComponent(current)}`, { ...edits, reason: reason.value.trim(), version: policy.version });
    reason.value = "";
    say("Policy changed.");
    await open(current);
  } catch (error) {
    const field = error instanceof Problem && error.field ? error.field.split(/[.[]/)[0] : "";
    if (inputs.has(field)) { refused = { field, words: refusalWords(/** @type {Problem} */ (error)) }; drawRefused(); drawEffects(); inputs.get(field).input.focus(); }
    tell(/** @type {Error} */ (error).message);
  }
}

/** @param {string} sentence */
function tell(sentence) {
  fault.hidden = false;
  fault.textContent = sentence;
}

/** @param {number} step */
function move(step) {
  const i = names.indexOf(current);
  open(names[(i + step + names.length) % names.length]);
}

bind({ keys: "J", label: "Next queue", group: "Policies", run: () => move(1) });
bind({ keys: "K", label: "Queue before", group: "Policies", run: () => move(-1) });
startPage({ search: () => /** @type {HTMLElement|null} */ (detail.querySelector("input, select"))?.focus(), draw: () => { if (names.length) { drawNav(); drawEffects(); } } });
window.addEventListener("popstate", () => { const item = currentItem(); if (item && item !== current) open(item); });
load();
