// The control room: which part is told of a frame, and in what order?
import { $, setAttr } from "./dom.js";
import { AlertStrip } from "./alertstrip.js";
import { Charts } from "./charts.js";
import { isUntouched } from "./frame.js";
import { History, RANGES } from "./history.js";
import { bind } from "./keys.js";
import { live } from "./live.js";
import { ModeSwitch } from "./modeswitch.js";
import { Notices } from "./notices.js";
import { readPast } from "./past.js";
import { Rows } from "./rows.js";
import { say } from "./say.js";
import { Setup } from "./setup.js";
import { startShell } from "./shell.js";
import { Side } from "./side.js";
import { watchSilence } from "./silence.js";
import { Verdict } from "./verdict.js";

/** @typedef {import("./frame.js").Frame} Frame */

const RANGE_KEY = "sluicegate.range";
const ORDER_KEY = "sluicegate.order";
const SPARK_MS = 900e3;

const open = (name) => { location.href = `/queues/${encodeURIComponent(name)}/`; };
const history_ = new History();
const sparks = new History();
const verdict = new Verdict();
const mode = new ModeSwitch($("[data-mode]"));
const strip = new AlertStrip($("[data-strip]"));
const notices = new Notices($("[data-notices]"));
const setup = new Setup($("[data-setup]"));
const rows = new Rows($("[data-rows]"), open);
const charts = new Charts($("[data-charts]"), history_, chooseRange);
const side = new Side($("[data-side]"));

let spoken = "";
let wasStale = false;
let modeSeen = "";
/** @type {Frame|null} what was kept until now, while no frame has come to this page */
let past = null;
/** @type {"unread"|"reading"|"read"} */
let pastIs = "unread";
let sorted = stored(ORDER_KEY, "policy");
let isSorted = false;

/** @param {string} key @param {string} fallback */
function stored(key, fallback) {
  try { return localStorage.getItem(key) || fallback; } catch { return fallback; }
}

/** @param {string} key @param {string} value */
function store(key, value) {
  try { localStorage.setItem(key, value); } catch { /* a private window forgets */ }
}

/** @param {string} key */
async function chooseRange(key) {
  const range = RANGES.find((r) => r.key === key) || RANGES[1];
  store(RANGE_KEY, range.key);
  charts.heldAt = null;
  history_.range = range;
  await loadHistory();
}

async function loadHistory() {
  try {
    await history_.load(history_.range, live.now());
    history_.error = "";
  } catch (error) {
    history_.error = error instanceof Error ? error.message : String(error);
  }
  draw();
}

async function loadSparks() {
  try {
    await sparks.load(RANGES[1], live.now());
  } catch { /* the sparks begin with the first live frame */ }
  drawSparks();
}

async function loadPast() {
  pastIs = "reading";
  try {
    past = await readPast(history_, live.now());
  } catch { /* the database is away too: there is nothing to show */ }
  pastIs = "read";
  draw();
}

function draw() {
  if (!live.frame) {
    if (verdict.wait(past, pastIs === "read") && pastIs === "unread") loadPast();
    if (!past) return;
  }
  const frame = live.frame || /** @type {Frame} */ (past);
  const state = live.frame ? live.state() : "stale";
  const isStale = state !== "live";
  const empty = !frame.isPast && isUntouched(frame);
  setAttr(document.body, "data-drawn", true);
  setAttr(document.body, "data-empty", empty);
  if (live.frame) verdict.update(frame, state, live.ageMs());
  mode.update(frame, state);
  strip.update(frame, state);
  notices.update(frame, isStale);
  setup.update(frame, empty);
  rows.update(frame, isStale);
  if (!isSorted && sorted !== "policy") rows.sort(frame, /** @type {any} */ (sorted));
  isSorted = true;
  if (!empty) {
    side.update(frame, isStale);
    charts.update(frame, rowOrder(frame), state, isStale ? live.now() : frame.at_ms);
  }
}

function drawSparks() {
  const frame = live.frame || past;
  if (!frame || document.hidden) return;
  const to = live.state() === "live" ? frame.at_ms : live.now();
  for (const q of frame.queues) rows.rows.get(q.name)?.spark.update(sparks.at, sparks.column(q.name, "oldest_age_ms"), q.guard_age_s ? q.guard_age_s * 1000 : null, q.age_ceiling_s ? q.age_ceiling_s * 1000 : null, to - SPARK_MS, to);
}

/** @param {Frame} frame */
function rowOrder(frame) {
  const shown = [...document.querySelectorAll(".rowbody .row")].map((n) => /** @type {HTMLElement} */ (n).dataset.queue || "");
  return shown.length ? shown : frame.queues.map((q) => q.name);
}

/** States and modes are spoken; frames are not. @param {Frame} frame */
function speak(frame) {
  const now = `${frame.mode}|${frame.queues.map((q) => `${q.name} ${q.state}`).join("|")}`;
  if (spoken && now !== spoken) say(frame.verdict?.headline || `Mode ${frame.mode}.`);
  spoken = now;
}

live.onFrame((frame) => {
  if (past) {
    past = null;
    chooseRange(chosenRange().key); // to find a sample it may have been made longer
  }
  history_.append(frame);
  sparks.append(frame);
  speak(frame);
  const mode_ = `${frame.mode} ${frame.mode_since_at_ms}`;
  if (modeSeen && mode_ !== modeSeen) setTimeout(loadHistory, 2500);
  modeSeen = mode_;
  draw();
  drawSparks();
});
document.addEventListener("livechange", (event) => {
  // What happened meanwhile is in the history; a moment later it is written there too.
  if (/** @type {CustomEvent} */ (event).detail === "live" && wasStale) setTimeout(loadHistory, 2500);
  wasStale = /** @type {CustomEvent} */ (event).detail !== "live";
  draw();
});
// While stale, time goes on: the gap grows and the sentence counts.
watchSilence(() => { draw(); drawSparks(); });
document.addEventListener("visibilitychange", draw);
$("[data-rows]").addEventListener("rowselect", (event) => { charts.selected = /** @type {CustomEvent} */ (event).detail; draw(); });

bind({ keys: "M N", label: "Mode: Normal", group: "Mode", run: () => mode.choose("normal") });
bind({ keys: "M S", label: "Mode: Saturated", group: "Mode", run: () => mode.choose("saturated") });
bind({ keys: "M D", label: "Mode: Draining", group: "Mode", run: () => mode.choose("draining") });
bind({ keys: "J / Down", label: "Next queue", group: "Rows", run: () => rows.move(1) });
bind({ keys: "K / Up", label: "Queue before", group: "Rows", run: () => rows.move(-1) });
bind({ keys: "Enter", label: "Open the queue", group: "Rows", run: () => { if (rows.selected) open(rows.selected); } });
bind({ keys: "O", label: "Order rows by policy, worst first, name", group: "Rows", run: () => {
  sorted = sorted === "policy" ? "worst" : sorted === "worst" ? "name" : "policy";
  store(ORDER_KEY, sorted);
  if (live.frame) rows.sort(live.frame, /** @type {any} */ (sorted));
  say(`Rows by ${sorted}.`);
  draw();
} });
bind({ keys: "Esc", label: "No row chosen, no cursor", group: "Rows", run: () => { rows.select(""); charts.overlay.setCursor(null); } });
bind({ keys: "A", label: "Acknowledge the alert", group: "Alert", run: () => strip.acknowledge() });
bind({ keys: "Z", label: "Snooze the alert", group: "Alert", run: () => strip.snooze() });
bind({ keys: "B", label: "Open its runbook", group: "Alert", run: () => strip.runbook() });
bind({ keys: "Space", label: "Hold the charts, or let them run", group: "Time", run: () => { charts.heldAt = charts.heldAt ? null : live.now(); draw(); } });
bind({ keys: "Left", label: "Cursor back", group: "Time", run: () => charts.overlay.moveCursor(-1) });
bind({ keys: "Right", label: "Cursor forward", group: "Time", run: () => charts.overlay.moveCursor(1) });
bind({ keys: "Shift+Left", label: "Rewind", group: "Time", run: () => rewind(-1) });
bind({ keys: "Shift+Right", label: "Wind forward", group: "Time", run: () => rewind(1) });
bind({ keys: "[", label: "Shorter time range", group: "Time", run: () => stepRange(-1) });
bind({ keys: "]", label: "Longer time range", group: "Time", run: () => stepRange(1) });
bind({ keys: "End", label: "Back to live", group: "Time", run: () => { charts.heldAt = null; charts.overlay.setCursor(null); draw(); } });

/** @param {number} step */
function stepRange(step) {
  const at = RANGES.findIndex((r) => r.key === history_.range.key);
  chooseRange(RANGES[Math.max(0, Math.min(RANGES.length - 1, at + step))].key);
}

/** @param {number} direction */
function rewind(direction) {
  const span = history_.range.back / 10;
  const at = (charts.heldAt || live.now()) + direction * span;
  const first = history_.at[0] || at;
  charts.heldAt = at >= live.now() ? null : Math.max(first + span, at);
  draw();
}

function chosenRange() {
  return RANGES.find((r) => r.key === stored(RANGE_KEY, matchMedia("(max-width: 760px)").matches ? "5 min" : "15 min")) || RANGES[1];
}

history_.range = chosenRange();
startShell();
loadHistory();
loadSparks();
// Waits by bins come with history only; a fresh read a minute keeps the heat map and the marks true.
setInterval(() => { if (!document.hidden && live.state() === "live") loadHistory(); }, 60000);
