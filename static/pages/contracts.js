// What does each queue promise, and what gives way first when there is more than can be done?
import { get } from "../js/api.js";
import { $, h, setText, swap } from "../js/dom.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { segments } from "../js/dialog.js";
import { inOrder } from "../js/past.js";
import { shape, stateShape } from "../js/shapes.js";
import { NBSP, isKnown, percent, plural, rate } from "../js/units.js";
import { contractParts } from "./contract.js";
import { currentItem, part, reading, setItem, startPage } from "./page.js";

const MODES = ["normal", "saturated", "draining", "failed"];
const BOUND_WORDS = { count: "jobs", bytes: "bytes", cost_ms: "work", age_s: "age" };
const root = $("[data-root]");
const tabs = h("div");
const order = h("div");
const unseen = h("p", { class: "empty-note", hidden: true });
const nav = h("nav", { "aria-label": "queues" });
const detail = h("div", { class: "detail" });
const split = h("div", { class: "split", hidden: true }, nav, detail);
root.replaceChildren(h("div", { class: "section" }, unseen, part("What gives way first", "what if this mode were in force, from the policies as they are", tabs, order)), split);
let current = currentItem();
let mode = "";
let shownFor = "";
/** @type {{name: string, state: string, kept: number|null}[]} */ let queues = [];
/** @type {Promise<void>|null} the policies, asked for only where no frame names the queues */ let declared = null;

/** @param {string} wanted */
function chooseMode(wanted) {
  mode = wanted;
  loadOrder();
}

function loadOrder() {
  return reading(order, () => get(`/shed-order?mode=${encodeURIComponent(mode)}`), drawOrder);
}

/** @param {any} found */
function drawOrder(found) {
  order.replaceChildren(h("p", { class: "part" }, found.entered, found.mode === found.in_force ? h("b", {}, " In force now.") : found.in_force === null ? h("span", { class: "quiet" }, " The mode in force is unknown.") : ""),
    h("ol", { class: "shedlist" }, found.steps.map((s) => h("li", { "data-queue": s.queue, "data-effect": s.effect }, shape(s.shape), h("a", { class: "qname", href: `/policies/${encodeURIComponent(s.queue)}/` }, s.queue), h("span", { class: "ink" }, s.says), h("span", { class: "quiet" }, nowWords(s))))),
    h("p", { class: "quiet" }, found.within_a_queue));
}

/** Where a queue stands against what the mode would leave it. @param {any} step */
export function nowWords(step) {
  const now = step.now;
  if (!now) return step.unknown?.now || "unknown now";
  const offered = isKnown(now.offered_per_s) ? `${rate(now.offered_per_s)}${NBSP}jobs/s offered now` : "offers unknown now";
  if (step.effect === "closed") return `${offered}, all of them refused`;
  if (!isKnown(now.fill)) return offered;
  return `${offered}; ${percent(now.fill)} of its bound in ${BOUND_WORDS[now.fullest] || now.fullest}${now.gives_way ? ": it gives way at once" : ""}`;
}

/** @param {string} name */
function open(name) {
  current = name;
  shownFor = "";
  setItem(name);
  drawQueues();
}

/** @param {import("../js/frame.js").Frame} frame */
function draw(frame) {
  unseen.hidden = true;
  if (declared) { declared = null; mode = shownFor = ""; } // what was read without a frame lacks what is measured
  queues = frame.queues.map((q) => ({ name: q.name, state: live.state() === "live" ? stateShape(q.state) : "dashed", kept: q.objective?.attained ?? null }));
  begin(MODES.includes(frame.mode) ? frame.mode : "normal");
  drawQueues();
}

/** No frame has reached this page: the database still knows the queues and what is promised. @param {string} why */
function drawWithout(why) {
  unseen.hidden = false;
  swap(unseen, why, () => [shape("dashed"), why]);
  declared ||= get("/policies").then((data) => {
    if (live.frame) return;
    queues = inOrder(data.policies).map((p) => ({ name: p.queue, state: "dashed", kept: null }));
    begin("normal");
    drawQueues();
  }, () => { declared = null; });
}

/** @param {string} inForce */
function begin(inForce) {
  if (mode) return;
  mode = inForce;
  tabs.replaceChildren(h("div", { class: "part acts" }, "in mode", segments(MODES.map((m) => [m, m]), mode, chooseMode, "mode")));
  loadOrder();
}

function drawQueues() {
  split.hidden = !queues.length;
  if (!queues.some((q) => q.name === current)) current = queues[0]?.name || "";
  setText($("[data-facts]"), plural(queues.length, "queue"));
  swap(nav, JSON.stringify([current, queues]), () => queues.map((q) => h("a", { href: `/contracts/${encodeURIComponent(q.name)}/`, "aria-current": q.name === current ? "true" : null, onclick: (event) => { event.preventDefault(); open(q.name); } },
    shape(q.state), h("span", { class: "qn" }, q.name), h("span", { class: "num quiet" }, isKnown(q.kept) ? `kept ${percent(q.kept)}` : ""))));
  if (shownFor !== current && current) {
    shownFor = current;
    reading(detail, () => get(`/contracts/${encodeURIComponent(current)}`), (c) => detail.replaceChildren(h("h2", {}, c.queue), ...contractParts(c)));
  }
}

/** @param {number} step */
function move(step) {
  const names = queues.map((q) => q.name);
  if (names.length) open(names[(names.indexOf(current) + step + names.length) % names.length]);
}

bind({ keys: "J", label: "Next queue", group: "Queues", run: () => move(1) });
bind({ keys: "K", label: "Queue before", group: "Queues", run: () => move(-1) });
startPage({ draw, wait: drawWithout });
// What the queues hold changes; the list is read again while it is looked at.
setInterval(() => { if (mode && !document.hidden && live.state() === "live") loadOrder(); }, 10000);
window.addEventListener("popstate", () => { const item = currentItem(); if (item && item !== current) open(item); });
