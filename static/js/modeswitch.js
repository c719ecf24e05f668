// In which mode is the gate, why, and until when? The switch itself: it asks before it acts and says what will happen.
import { may, put } from "./api.js";
import { ask, reasonField, segments } from "./dialog.js";
import { h, setAttr, setText, swap } from "./dom.js";
import { live } from "./live.js";
import { reach } from "./reach.js";
import { shape } from "./shapes.js";
import { redisIsDown } from "./silence.js";
import { NBSP, clock, count, duration, isKnown, plural, rate, roughly } from "./units.js";

/** @typedef {import("./frame.js").Frame} Frame @typedef {import("./frame.js").Queue} Queue */

const MODES = ["normal", "saturated", "draining", "failed"];
const SHAPE = { saturated: "triangle", draining: "slash", failed: "diamond" };
/** @param {string} word */
const title = (word) => word[0].toUpperCase() + word.slice(1);

export class ModeSwitch {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.segments = {};
    const group = h("div", { class: "modes", role: "group", "aria-label": "Mode of the gate" });
    for (const mode of MODES) {
      const mark = h("span", { class: "modemark" });
      const button = h("button", { type: "button", "data-set-mode": mode, onclick: () => this.choose(mode) }, mark, title(mode));
      this.segments[mode] = { button, mark };
      group.append(button);
    }
    this.facts = h("dl", { class: "modefacts" });
    this.note = h("p", { class: "modenote", hidden: true });
    root.append(group, this.facts, this.note);
  }

  /** @param {Frame} frame @param {string} state */
  update(frame, state) {
    const redisDown = redisIsDown(frame);
    // Redis away is the failed mode, whether or not a frame could still say so.
    const modeNow = reach.downSinceMs !== null ? "failed" : frame.mode;
    const why = !may("operator") ? "viewers see the mode; an operator may switch it" : redisDown ? "switching is not possible while Redis cannot be written" : state !== "live" ? `switching is not possible now: no live frame since ${clock(frame.at_ms)}` : "";
    this.why = why;
    for (const mode of MODES) {
      const { button, mark } = this.segments[mode];
      const isNow = modeNow === mode;
      setAttr(button, "aria-pressed", isNow ? "true" : "false");
      setAttr(button, "data-now", isNow ? mode : null);
      const shownOnly = mode === "failed";
      setAttr(button, "aria-disabled", shownOnly || (why && !isNow) ? "true" : null);
      setAttr(button, "title", shownOnly ? "entered only by itself, when Redis cannot be written" : why || null);
      swap(mark, isNow && SHAPE[mode] ? "on" : "", () => (isNow && SHAPE[mode] ? [shape(SHAPE[mode])] : []));
    }
    if (reach.downSinceMs !== null) {
      // The monitor may have noticed and written it down before this page did.
      const noted = frame.mode === "failed" && isKnown(frame.mode_since_at_ms);
      const before = frame.mode !== "failed" ? `${frame.mode}${isKnown(frame.mode_since_at_ms) ? ` since ${clock(frame.mode_since_at_ms)}` : ""}` : frame.mode_before;
      const known = [["since", noted ? `${clock(frame.mode_since_at_ms)}, entered automatically` : `${clock(reach.downSinceMs)}, seen by this page`], ["because", `Redis cannot be written: ${reach.redis}${reach.detail ? `, ${reach.detail}` : ""}`], ...(before ? [["before", before]] : [])];
      swap(this.facts, JSON.stringify(known), () => known.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
      this.note.hidden = !why;
      setText(this.note, why);
      return;
    }
    const since = isKnown(frame.mode_since_at_ms) ? `${clock(frame.mode_since_at_ms)}, for ${duration(Math.max(0, Math.floor((frame.at_ms - frame.mode_since_at_ms) / 1000) * 1000))}, ${entered(frame)}` : "unknown";
    const facts = [["since", since], ...(frame.mode_reason === "first start" ? [] : [["because", frame.mode_reason || "no reason given"]])];
    if (isKnown(frame.mode_until_at_ms)) facts.push([frame.mode_pinned ? "pinned" : "until", `${frame.mode_pinned ? `by ${frame.mode_by || "an operator"} ` : ""}until ${clock(frame.mode_until_at_ms)}`]);
    else if (frame.mode_leaves) facts.push(["leaves", frame.mode_leaves]);
    const others = frame.queues.filter((q) => q.mode && q.mode !== frame.mode);
    if (others.length) facts.push(["apart", others.map((q) => `${q.name} is ${q.mode}`).join(", ")]);
    swap(this.facts, JSON.stringify(facts), () => facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    this.note.hidden = !why;
    setText(this.note, why);
  }

  /** @param {string} mode @param {string|null} [queue] */
  choose(mode, queue = null) {
    const frame = live.frame;
    if (!frame || mode === "failed") return;
    const now = queue ? frame.queues.find((q) => q.name === queue)?.mode : frame.mode;
    if (this.why || now === mode) return;
    askMode(frame, mode, queue);
  }
}

/** @param {Frame} frame */
function entered(frame) {
  if (frame.mode_reason === "first start") return "since the first start";
  if (frame.mode_automatic) return "entered automatically";
  return frame.mode_by && !["monitor", "system", "start"].includes(frame.mode_by) ? `by ${frame.mode_by}` : "first start";
}

/** Ask for a mode with its effect on each queue. @param {Frame} frame @param {string} mode @param {string|null} queue */
export function askMode(frame, mode, queue) {
  const reason = reasonField();
  /** @type {{until: string|number|null, pin: boolean, queue: string|null}} */
  const chosen = { until: null, pin: false, queue };
  const effect = h("tbody");
  const scopeOptions = [["all queues", null], ...frame.queues.map((q) => [q.name, q.name])];
  const untilOptions = [["until changed", null], ["15 min", 900], ["1 h", 3600], ["4 h", 14400], ...(mode === "draining" ? [["until drained", "drained"]] : [])];
  const place = () => (chosen.queue ? `queue ${chosen.queue}` : "the gate");
  const heading = () => (chosen.queue ? `Switch the queue ${chosen.queue} from ${title(frame.queues.find((q) => q.name === chosen.queue)?.mode || "unknown")} to ${title(mode)}?` : `Switch ${frame.installation || "the gate"} from ${title(frame.mode)} to ${title(mode)}?`);
  const ends = h("p", { class: "ends", role: "status", "data-ends": true });
  const tellEnd = () => {
    const now = live.frame || frame;
    const { text, warns } = untilWords(chosen.until, now.queues.filter((q) => !chosen.queue || q.name === chosen.queue), live.now());
    swap(ends, text, () => (warns ? [shape("triangle"), h("b", { class: "ink" }, text)] : [text]));
  };
  const draw = () => {
    tellEnd();
    const queues = frame.queues.filter((q) => !chosen.queue || q.name === chosen.queue);
    swap(effect, JSON.stringify([chosen.queue, mode]), () => queues.map((q) => {
      const e = modeEffect(q, mode);
      return h("tr", {}, h("td", { class: "ink" }, q.name), h("td", {}, e.admits), h("td", { class: "num" }, e.refuses === null ? "\u2013" : h("span", { class: "modeled" }, e.refuses)), h("td", {}, e.backlog ? h("span", { class: "modeled" }, e.backlog) : "no backlog"));
    }));
  };
  const dialog = ask({
    title: heading(),
    lead: LEADS[mode],
    parts: [
      { name: "where", body: segments(/** @type {any} */ (scopeOptions), queue, (v) => { chosen.queue = v; draw(); dialog.setTitle(heading()); dialog.setVerb(`Switch ${v ? `${v} ` : ""}to ${title(mode)}`); }, "where") },
      { name: "expected by the model", body: h("div", { class: "scrollx" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "queue"), h("th", {}, "admits"), h("th", { class: "num" }, "would refuse"), h("th", {}, "backlog"))), effect)) },
      { name: "until", body: h("div", {}, segments(/** @type {any} */ (untilOptions), null, (v) => { chosen.until = v; tellEnd(); }, "until"), ends) },
      { name: "reason", body: reason },
      { name: "afterwards", body: `What an operator sets is kept until changed or until its time: the controller does not override it. Where gate and queue differ, the stricter mode is in force. Written to the audit under ${document.body.dataset.user || "your name"}. Switch back the same way.` },
    ],
    verb: `Switch ${queue ? `${queue} ` : ""}to ${title(mode)}`,
    note: `figures of ${clock(frame.at_ms)}`,
    canAct: () => (reason.value.trim() ? "" : "A reason is needed: the next shift will ask why."),
    act: async () => {
      const until = chosen.until === "drained" ? "drained" : typeof chosen.until === "number" ? Math.round(live.now() + chosen.until * 1000) : null;
      await put("/mode", { mode, reason: reason.value.trim(), ...(chosen.queue ? { queue: chosen.queue } : {}), ...(until ? { until } : {}) });
      return `${title(mode)} set for ${place()}.`;
    },
  });
  draw();
  // Between the question and the answer the last job may end.
  const watch = setInterval(() => { if (dialog.dialog.isConnected) tellEnd(); else clearInterval(watch); }, 1000);
  return dialog;
}

/**
 * When the mode that is asked for will end, and what then; `warns` where that is at once.
 * @param {string|number|null} until "drained", seconds, or nothing @param {Queue[]} queues those it is for @param {number} nowMs
 */
export function untilWords(until, queues, nowMs) {
  if (typeof until === "number") return { text: `Ends by itself at ${clock(nowMs + until * 1000)}.`, warns: false };
  if (until !== "drained") return { text: "Stays until an operator changes it.", warns: false };
  const known = queues.every((q) => isKnown(q.depth) && isKnown(q.in_flight));
  const left = queues.reduce((n, q) => n + (q.depth || 0) + (q.in_flight || 0), 0);
  if (known && left === 0) return { text: "Nothing waits or runs now: it ends at once, and new work is admitted again. To keep it closed choose a time or \u201cuntil changed\u201d.", warns: true };
  const what = !known ? "what waits or runs is" : left === 1 ? "the 1 job that waits or runs is" : `the ${plural(left, "job")} that wait or run are`;
  return { text: `Ends by itself once ${what} gone; then new work is admitted again.`, warns: false };
}

const LEADS = {
  normal: "Everything is admitted again within its bounds; claims go by class and weight.",
  saturated: "Strict classes are admitted within their bounds, the others within their saturated share; claims are ordered for freshness where policy allows it.",
  draining: "Nothing new is admitted but what policy marks; the backlog is worked off and replays pause.",
};

/** What a mode would do to a queue, by the present rates. @param {Queue} q @param {string} mode */
export function modeEffect(q, mode) {
  const offered = q.rates?.offered;
  const done = q.rates?.succeeded;
  const share = mode === "normal" ? 1 : mode === "draining" ? (q.admit_while_draining ? 1 : 0) : isKnown(q.saturated_share) ? q.saturated_share : 1;
  const full = q.bounds?.count;
  const bound = isKnown(full) ? Math.floor(full * share) : null;
  const admits = share === 0 ? "nothing" : share === 1 ? `up to ${isKnown(full) ? count(full) : "no bound"}` : `up to ${count(bound)} (${Math.round(share * 100)}${NBSP}%)`;
  let refuses = null;
  if (isKnown(offered)) {
    const atBound = bound !== null && isKnown(q.depth) && q.depth >= bound;
    refuses = share === 0 ? `${rate(offered)}/s` : atBound && isKnown(done) ? `${rate(Math.max(0, offered - done))}/s` : "0.0/s";
  }
  const net = isKnown(done) && isKnown(offered) ? done - (share === 0 ? 0 : offered) : null;
  const backlog = !q.depth ? "" : net === null ? `${count(q.depth)}, unknown rate` : net > 0.05 ? `${count(q.depth)} gone in ${roughly((q.depth / net) * 1000)}` : bound !== null && q.depth < bound && net < -0.05 ? `${count(q.depth)}, at its bound in ${roughly(((bound - q.depth) / -net) * 1000)}` : `${count(q.depth)}, stays`;
  return { admits, refuses, backlog };
}

