// How is each queue? One row a queue, the same columns always, and a total row that is a sum.
import { AgeBar, BoundBar, FlowBar, ShareBar } from "./bars.js";
import { h, setAttr, setParts, setText, swap } from "./dom.js";
import { sum } from "./frame.js";
import { shape, stateShape, stateTone } from "./shapes.js";
import { Spark } from "./spark.js";
import { forecastWords, lastWord, policyWords, severity, stateWord } from "./states.js";
import { DASH, NBSP, byteParts, bytes, count, duration, durationParts, isKnown, percent, rate, wait, waitParts } from "./units.js";

/** @typedef {import("./frame.js").Frame} Frame @typedef {import("./frame.js").Queue} Queue */

const FLOW = [["offered", "offered"], ["accepted", "accepted"], ["refused", "refused"], ["shed", "shed"], ["succeeded", "done"]];
const WAITS = ["p50", "p95", "p99"];

/** @param {string} cls @param {...any} children */
const cell = (cls, ...children) => h("div", { class: `cell ${cls}` }, ...children);

/** A measured zero is quiet. @param {HTMLElement} node @param {string} text @param {unknown} value @param {string} [why] */
function setFigure(node, text, value, why) {
  setText(node, text);
  setAttr(node, "data-zero", value === 0 || value === null || value === undefined);
  setAttr(node, "title", isKnown(value) ? null : why || "unknown");
}

class Row {
  /** @param {string} name @param {(name: string) => void} open */
  constructor(name, open) {
    this.name = name;
    this.shapeNode = h("span", { class: "state-shape" });
    this.stateNode = h("span", { class: "state-word" });
    this.policyNode = h("div", { class: "policy" });
    this.ageNode = h("div", { class: "age" });
    this.ageBar = new AgeBar();
    this.guardNode = h("span", { class: "at-guard" });
    this.ceilingNode = h("span", { class: "at-ceiling" });
    this.bounds = ["count", "bytes", "cost_ms"].map(() => ({ value: h("b"), of: h("span", { class: "of" }), bar: new BoundBar() }));
    this.flow = FLOW.map(() => h("span", { class: "figure" }));
    this.flowBar = new FlowBar();
    this.waits = WAITS.map(() => h("span", { class: "figure" }));
    this.inFlight = h("div", { class: "figure inflight-n" });
    this.inFlightBar = new ShareBar();
    this.sink = h("div", { class: "sink" });
    this.head = h("div", { class: "forecast-head" });
    this.line = h("div", { class: "forecast-line" });
    this.policyProse = h("p", { class: "policy-prose" });
    this.oneLine = h("div", { class: "oneline" });
    this.spark = new Spark();
    this.node = h("div", { class: "row", role: "group", "aria-label": `queue ${name}`, "data-queue": name },
      cell("name", h("a", { class: "qname", href: `/queues/${encodeURIComponent(name)}/` }, name), h("div", { class: "state" }, this.shapeNode, this.stateNode), this.policyNode),
      cell("oldest", this.ageNode),
      cell("bar", this.ageBar.node, this.guardNode, this.ceilingNode),
      cell("bounds", this.bounds.map((b) => [b.value, b.of, b.bar.node])),
      cell("flowcell", h("div", { class: "flow-figures" }, this.flow.map((f, i) => h("span", { class: "labelled" }, f, h("small", {}, i === 0 ? "offered/s" : FLOW[i][1])))), this.flowBar.node),
      cell("waits", this.waits),
      cell("inflight", this.inFlight, this.inFlightBar.node, this.sink),
      cell("forecast", this.head, this.line),
      cell("sparkcell", this.spark.node),
      cell("prose", this.policyProse),
      cell("onelinecell", this.oneLine));
    this.node.addEventListener("dblclick", () => open(name));
  }

  /** @param {Queue} q @param {Frame} frame @param {boolean} isStale */
  update(q, frame, isStale) {
    const unknown = q.unknown || {};
    const idle = !isStale && q.totals && !(q.totals.offered > 0);
    const tone = isStale ? "unknown" : stateTone(q.state);
    setAttr(this.node, "data-tone", tone);
    setAttr(this.node, "data-state", q.state);
    setAttr(this.node, "data-idle", idle);
    const shapeName = isStale || idle ? "dashed" : stateShape(q.state);
    swap(this.shapeNode, shapeName, () => shape(shapeName));
    setText(this.stateNode, isStale ? lastWord(frame.at_ms) : idle ? "no job yet" : stateWord(q, frame.at_ms));
    const [standing, ...more] = policyWords(q);
    const line = q.waiting_room ? q.waiting_room.line + q.waiting_room.called : 0;
    const policy = [standing, shareWord(q), ...more].filter(Boolean).join(", ");
    setText(this.policyNode, line ? `${count(line)} wait in line for room` : policy);
    const saturated = isKnown(q.saturated_share) && q.saturated_share < 1 ? `while saturated ${percent(q.saturated_share)} of its bounds` : "";
    setAttr(this.policyNode, "title", [policy, saturated, q.share?.unknown?.done ? `share of what is done: ${q.share.unknown.done}` : ""].filter(Boolean).join("; "));

    const age = idle ? null : q.oldest_age_ms;
    const parts = durationParts(age);
    setParts(this.ageNode, parts);
    // "14 min 51 s" is wider than the column at the size of "1 min 51 s" and ran into the state beside it.
    setAttr(this.ageNode, "data-long", parts.length < 2 ? null : parts.flat().join("").length > 7 ? "most" : "more");
    setAttr(this.ageNode, "title", isKnown(age) ? null : idle ? "no job has been offered yet" : unknown.oldest_age_ms || "unknown");
    const guardMs = isKnown(q.guard_age_s) ? q.guard_age_s * 1000 : null;
    const ceilingMs = isKnown(q.age_ceiling_s) ? q.age_ceiling_s * 1000 : null;
    this.ageBar.update(age, guardMs, ceilingMs, `${q.name}: oldest ${duration(q.oldest_age_ms)}, guard ${duration(guardMs)}, ceiling ${duration(ceilingMs)}`);
    setText(this.guardNode, guardMs === null ? "" : duration(guardMs));
    setText(this.ceilingNode, ceilingMs === null ? "" : duration(ceilingMs));

    this.updateBounds(q, idle);
    FLOW.forEach(([key, word], i) => setFigure(this.flow[i], rate(q.rates?.[key]), q.rates?.[key] === undefined ? null : q.rates[key], unknown[`rates.${key}`] || unknown.rates));
    this.flowBar.update(q.rates || {});
    WAITS.forEach((p, i) => {
      const parts = waitParts(q.wait_ms?.[p]);
      setParts(this.waits[i], [parts]);
      setAttr(this.waits[i], "title", isKnown(q.wait_ms?.[p]) ? null : unknown[`wait_ms.${p}`] || unknown.wait_ms || "no job started in the last 60 s");
    });
    const openTo = isKnown(q.slots) ? count(q.slots) : DASH;
    swap(this.inFlight, `${q.in_flight}/${openTo}`, () => [count(q.in_flight), h("span", { class: "of" }, ` / ${openTo}`)]);
    setAttr(this.inFlight, "title", isKnown(q.slots) ? `${count(q.in_flight)} in flight of ${openTo} slots open to ${q.name}` : unknown.slots || "no worker has told its slots");
    this.inFlightBar.update(isKnown(q.in_flight) && q.slots ? q.in_flight / q.slots : 0);

    const sink = /** @type {any} */ (frame).downstreams?.find((d) => d.name === q.downstream);
    setText(this.sink, sink ? `${sink.name} ${count(sink.in_flight)}${NBSP}of${NBSP}${count(sink.limit)}` : "");
    setAttr(this.sink, "title", sink ? `${count(sink.in_flight)} call ${sink.name}, its limit is ${count(sink.limit)} now; mean latency ${wait(sink.mean_ms)} of ${wait(sink.target_ms)}` : null);
    setAttr(this.sink, "data-full", sink ? sink.state === "at_limit" : null);

    const words = isStale ? { head: "unknown", line: `no samples since ${lastWord(frame.at_ms).slice(5)}`, headModeled: false, lineModeled: false } : forecastWords(q);
    setText(this.head, words.head);
    setText(this.line, words.line);
    setAttr(this.head, "data-modeled", words.headModeled);
    setAttr(this.line, "data-modeled", words.lineModeled);
    setAttr(this.head, "title", modelInputs(q));
    setText(this.policyProse, policyProse(q));
    const flowing = q.rates?.refused > 0 ? `${rate(q.rates?.accepted)}/s accepted, ${rate(q.rates?.refused)}/s refused` : `${rate(q.rates?.accepted)}/s accepted and ${rate(q.rates?.succeeded)}/s done`;
    setText(this.oneLine, idle ? "no job has been offered yet" : `${flowing}   wait p99${NBSP}${wait(q.wait_ms?.p99)}   ${count(q.depth)}${NBSP}waiting`);
  }

  /** @param {Queue} q @param {boolean|undefined} idle */
  updateBounds(q, idle) {
    // What is spilled is counted as delayed and stands outside the bounds.
    const delayedHere = (q.delayed || 0) - (q.spilled || 0);
    const values = [[q.depth, delayedHere], [q.bytes], [q.cost_ms]];
    const forms = [count, bytes, (v) => duration(v)];
    ["count", "bytes", "cost_ms"].forEach((key, i) => {
      const { value, of, bar } = this.bounds[i];
      const full = q.bounds?.[key];
      const inForce = q.bounds_in_force ? q.bounds_in_force[key] : full;
      const held = i === 0 && isKnown(values[0][0]) ? values[0][0] + (values[0][1] || 0) : values[i][0];
      const text = idle ? DASH : i === 1 && held === 0 ? `0${NBSP}KiB` : i === 2 && isKnown(held) ? coarse(held) : forms[i](held);
      setText(value, text);
      setText(of, isKnown(full) ? `of ${forms[i](full)}` : "no bound");
      bar.update(idle ? 0 : held, full, inForce);
      const delayed = i === 0 ? `${delayedHere ? `, ${count(delayedHere)} of them delayed` : ""}${q.spilled ? `; ${count(q.spilled)} more are spilled` : ""}` : "";
      setAttr(bar.node, "title", isKnown(inForce) && isKnown(full) && inForce < full ? `${text} of ${forms[i](inForce)} in force now, full bound ${forms[i](full)}${delayed}` : `${text} of ${isKnown(full) ? forms[i](full) : "no bound"}${delayed}`);
    });
  }
}

/** Work in the bounds column: one unit, as waits. @param {number} ms */
function coarse(ms) {
  if (ms < 60000) return ms === 0 ? `0${NBSP}s` : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)}${NBSP}s`;
  return ms < 5400000 ? `${Math.round(ms / 60000)}${NBSP}min` : `${(ms / 3600000).toFixed(1)}${NBSP}h`;
}

/** What part of all runs that ended in the last minute were this queue's. @param {any} q */
function shareWord(q) {
  return isKnown(q.share?.done) ? `${percent(q.share.done)} of runs` : "";
}

/** What the model was fed with, for the hover. @param {Queue} q */
function modelInputs(q) {
  const inputs = q.drain?.inputs;
  if (!inputs || typeof inputs !== "object") return "modeled: T = Q / (mu - lambda), on work";
  return `modeled from ${Object.entries(inputs).filter(([, v]) => v !== null).map(([k, v]) => `${k} ${typeof v === "number" ? Number(v.toPrecision(4)) : typeof v === "object" ? JSON.stringify(v) : v}`).join(", ")}`;
}

const FULL_WORDS = { reject: "refused, with a time to come back", block: "producers wait for room", drop_newest: "new offers are dropped", drop_oldest: "the longest waiting is shed", coalesce: "the newest of a key replaces the one that waits", sample: "a share is let in", spill: "kept in the spill until there is room", degrade: "accepted as a cheaper task" };

/** The shipped policy in a sentence, for a page with no work yet. @param {Queue} q */
function policyProse(q) {
  const first = isKnown(q.strict_rank) ? (q.strict_rank === 0 ? "Must run first, always." : "Runs before all that is shared by weight.") : `Shares the slots by weight ${q.weight ?? DASH}.`;
  const share = q.saturated_share;
  const saturated = isKnown(q.strict_rank) || share === 1 ? "Admitted also while saturated." : share === 0 ? "Closed while saturated." : isKnown(share) ? `While saturated it is admitted up to ${Math.round(share * 100)}${NBSP}% of its bounds.` : "";
  return `${first} ${saturated} Full: ${FULL_WORDS[q.on_full] || String(q.on_full || "reject").replaceAll("_", " ")}.`;
}

export class Rows {
  /** @param {HTMLElement} root @param {(name: string) => void} open */
  constructor(root, open) {
    this.root = root;
    this.open = open;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    this.selected = "";
    this.head = h("div", { class: "row rowhead", "aria-hidden": "true" },
      cell("name", "queue"), cell("oldest", "oldest waiting"),
      cell("bar", h("span", { class: "at-guard" }, "guard"), h("span", { class: "at-ceiling" }, "ceiling")),
      cell("bounds", "waiting: jobs, bytes, work"),
      cell("flowcell", h("div", { class: "flow-figures" }, ["offered/s", "accepted", "refused", "shed", "done"].map((w) => h("span", {}, w)))),
      cell("waits", ["wait p50", "p95", "p99"].map((w) => h("span", {}, w))), cell("inflight", "in flight"), cell("forecast", "forecast"), cell("sparkcell", "age, 15 min"),
      cell("prose", "policy in words; all of it can be changed under Policies"));
    this.body = h("div", { class: "rowbody" }, h("div", { class: "thread guard-thread", "aria-hidden": "true" }), h("div", { class: "thread ceiling-thread", "aria-hidden": "true" }));
    this.totalFigures = {};
    const figure = (key) => (this.totalFigures[key] = h("span", { class: "figure" }));
    this.totalStored = h("span");
    this.totalInFlight = h("div", { class: "figure inflight-n" });
    this.totalNote = h("span");
    this.total = h("div", { class: "row rowtotal", role: "group", "aria-label": "all queues" }, cell("name", "all queues"), cell("oldest"), cell("bar"), cell("bounds", this.totalStored),
      cell("flowcell", h("div", { class: "flow-figures" }, figure("offered"), h("span", { class: "sign eq" }, "="), figure("accepted"), h("span", { class: "sign plus" }, "+"), figure("refused"), figure("shed"), figure("succeeded"))),
      cell("waits"), cell("inflight", this.totalInFlight), cell("forecast", this.totalNote), cell("sparkcell"));
    root.append(this.head, this.body, this.total);
    this.body.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement|null} */ (/** @type {HTMLElement} */ (event.target).closest(".row"));
      if (row) this.select(row.dataset.queue || "");
    });
  }

  /** @param {Frame} frame @param {boolean} isStale */
  update(frame, isStale) {
    for (const q of frame.queues) {
      let row = this.rows.get(q.name);
      if (!row) {
        row = new Row(q.name, this.open);
        this.rows.set(q.name, row);
        this.body.append(row.node);
      }
      row.update(q, frame, isStale);
      // Only the phone orders by this: worst first.
      row.node.style.setProperty("--worst", String(10 - severity(q)));
    }
    const names = new Set(frame.queues.map((q) => q.name));
    for (const [name, row] of this.rows) if (!names.has(name)) { row.node.remove(); this.rows.delete(name); }
    this.updateTotal(frame);
  }

  /** @param {Frame} frame */
  updateTotal(frame) {
    for (const [key] of FLOW) {
      const total = sum(frame.queues, (q) => q.rates?.[key]);
      setFigure(this.totalFigures[key], rate(total), total, "one queue's rate is unknown");
    }
    const stored = byteParts(sum(frame.queues, (q) => q.bytes)).join(NBSP);
    const redis = frame.redis || {};
    const used = isKnown(redis.used_bytes) ? `; Redis ${bytes(redis.used_bytes)}${redis.max_bytes ? ` of ${bytes(redis.max_bytes)}` : ", no limit set"}` : "";
    setText(this.totalStored, `${stored}${used}`);
    const slots = frame.isPast ? null : (frame.workers || []).filter((w) => w.state !== "gone").reduce((n, w) => n + (w.slots || 0), 0);
    const busy = sum(frame.queues, (q) => q.in_flight);
    swap(this.totalInFlight, `${busy}/${slots}`, () => [h("b", {}, count(busy)), h("span", { class: "of" }, ` / ${count(slots)}`)]);
    setAttr(this.totalInFlight, "title", slots === null ? "the history does not keep the workers" : null);
    const kept = frame.queues.reduce((n, q) => n + (q.reserved_slots || 0), 0);
    setText(this.totalNote, kept ? `${count(kept)} slots kept free` : slots !== 0 ? "" : "no worker is connected");
  }

  /** @param {string} name */
  select(name) {
    this.selected = name;
    for (const [key, row] of this.rows) setAttr(row.node, "aria-selected", key === name ? "true" : null);
    const row = this.rows.get(name);
    row?.node.scrollIntoView({ block: "nearest" });
    this.root.dispatchEvent(new CustomEvent("rowselect", { detail: name }));
  }

  /** @param {number} step */
  move(step) {
    const names = [...this.rows.keys()].filter((n) => this.rows.get(n));
    const ordered = [...this.body.querySelectorAll(".row")].map((n) => /** @type {HTMLElement} */ (n).dataset.queue || "");
    const list = ordered.length ? ordered : names;
    const at = list.indexOf(this.selected);
    this.select(list[(at + step + list.length) % list.length] || "");
  }

  /** Order the rows as the operator chose; they never move by themselves. @param {Frame} frame @param {"policy"|"worst"|"name"} by */
  sort(frame, by) {
    const list = [...frame.queues];
    if (by === "worst") list.sort((a, b) => severity(b) - severity(a) || (b.oldest_age_ms || 0) / ((b.guard_age_s || 1) * 1000) - (a.oldest_age_ms || 0) / ((a.guard_age_s || 1) * 1000));
    if (by === "name") list.sort((a, b) => a.name.localeCompare(b.name));
    for (const q of list) { const row = this.rows.get(q.name); if (row) this.body.append(row.node); }
  }
}
