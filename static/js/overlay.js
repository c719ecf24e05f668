// What runs through all strips? Now line, cursor, mode spans, alert marks and gaps: drawn once, over and under the figure.
import { s } from "./dom.js";
import { readMetric } from "./history.js";
import { timeTicks } from "./lanes.js";
import { age, bytes, clock, count, dayMinute, duration, isKnown, minute, range, rate, roughly, wait } from "./units.js";

const LABEL_GAP = 15;

export class Overlay {
  /** @param {HTMLElement} under @param {HTMLElement} over @param {HTMLElement} box */
  constructor(under, over, box) {
    this.under = under;
    this.over = over;
    /** @type {number|null} */
    this.cursorAt = null;
    this.pointer = false;
    box.addEventListener("pointermove", (event) => {
      if (!this.view || event.pointerType === "touch") return;
      const x = event.clientX - box.getBoundingClientRect().left;
      const at = this.timeOf(x);
      this.pointer = true;
      this.setCursor(x >= this.view.left && at <= this.view.now ? at : null);
    });
    box.addEventListener("pointerleave", () => { if (this.pointer) this.setCursor(null); this.pointer = false; });
  }

  /** @param {number} x */
  timeOf(x) {
    const v = this.view;
    return v.from + ((x - v.left) / (v.width - v.left - v.right)) * (v.to - v.from);
  }

  /** @param {number|null} at */
  setCursor(at) {
    this.cursorAt = at;
    if (this.view) this.drawOver();
  }

  /** Move the cursor by steps of the history. @param {number} steps */
  moveCursor(steps) {
    if (!this.view) return;
    const start = this.cursorAt ?? this.view.now;
    this.pointer = false;
    this.setCursor(Math.max(this.view.from, Math.min(this.view.now, start + (steps * (this.view.to - this.view.from)) / 200)));
  }

  /** @param {any} view @param {import("./history.js").History} history */
  draw(view, history) {
    this.view = view;
    this.history = history;
    this.drawUnder();
    this.drawOver();
  }

  /** @param {number} at */
  x(at) {
    const v = this.view;
    return v.left + ((at - v.from) / (v.to - v.from)) * (v.width - v.left - v.right);
  }

  svg() {
    const v = this.view;
    return s("svg", { width: v.width, height: v.head + v.height, viewBox: `0 0 ${v.width} ${v.head + v.height}`, "aria-hidden": "true" });
  }

  drawUnder() {
    const v = this.view;
    const svg = this.svg();
    const right = v.width - v.right;
    const nowX = this.x(v.now);
    for (const span of this.spans()) if (span.mode !== "normal") svg.append(s("rect", { class: "band", x: span.x0, y: v.head, width: Math.max(0, span.x1 - span.x0), height: v.height }));
    if (nowX < right) svg.append(s("rect", { class: "future", x: nowX, y: v.head, width: right - nowX, height: v.height }));
    this.under.replaceChildren(svg);
  }

  /** Mode of the whole gate over the range, from the transitions. */
  spans() {
    const v = this.view;
    const moves = this.history.transitions.filter((t) => (t.scope ?? "*") === "*" && isKnown(t.at_ms)).map((t) => ({ at: t.at_ms, before: modeOf(t.before), after: modeOf(t.after), automatic: t.automatic })).sort((a, b) => a.at - b.at);
    // What happened after the history was read is in the frame.
    const now = v.frame;
    if (isKnown(now.mode_since_at_ms) && (!moves.length || moves[moves.length - 1].at < now.mode_since_at_ms - 1500) && (!moves.length || moves[moves.length - 1].after !== now.mode)) moves.push({ at: now.mode_since_at_ms, before: moves.length ? moves[moves.length - 1].after : null, after: now.mode, automatic: now.mode_automatic });
    const out = [];
    let start = v.from;
    let mode = null;
    let automatic = null; // before the first transition that is known here, nobody knows
    for (const m of moves) {
      if (m.at <= v.from) { mode = m.after; automatic = m.automatic; continue; }
      if (m.at >= v.now) break;
      if (mode === null) mode = m.before || "normal";
      out.push({ from: start, to: m.at, mode, automatic });
      start = m.at;
      mode = m.after;
      automatic = m.automatic;
    }
    out.push({ from: start, to: v.now, mode: mode || now.mode, automatic: mode ? automatic : now.mode_automatic });
    const first = this.history.at[0];
    return out.filter((p) => p.to > p.from).map((p) => ({ ...p, x0: this.x(Math.max(p.from, isKnown(first) ? Math.max(v.from, Math.min(first, p.to)) : p.from)), x1: this.x(p.to) }));
  }

  drawOver() {
    const v = this.view;
    const svg = this.svg();
    svg.append(hatchPattern());
    const bottom = v.head + v.height;
    const right = v.width - v.right;
    const text = (x, y, words, cls = "", anchor = "start") => { const node = s("text", { x, y, class: cls, "text-anchor": anchor }, words); svg.append(node); return node; };
    const line = (x1, y1, x2, y2, cls) => svg.append(s("line", { x1, y1, x2, y2, class: cls }));

    // Heads of the lanes, hairlines between groups.
    line(0, 0, right, 0, "hair");
    for (const lane of v.lanes) {
      const y = v.head + lane.y;
      if (lane.lead) line(0, y + 0.5, right, y + 0.5, "hair");
      if (v.narrow) {
        text(0, y + 19, lane.title || lane.sub, "lane-title halo");
        if (lane.title) text(lane.title.length * 6.6 + 10, y + 19, lane.kind === "depth" ? lane.queue : lane.sub, "lane-sub halo");
      } else {
        if (lane.title) text(0, y + 18, lane.title, "lane-title");
        text(0, y + (lane.title ? 37 : 20), lane.kind === "waits" ? lane.queue : lane.sub, "lane-sub");
        if (lane.kind === "waits") { text(0, y + 54, "denser is", "lane-sub"); text(0, y + 71, "more jobs", "lane-sub"); }
      }
    }

    // Thresholds.
    for (const lane of v.lanes) {
      const mark = (value, words, cls, above = false) => {
        const y = v.head + lane.yOf(value);
        if (y < v.head + lane.y + 2 || y > v.head + lane.y + lane.height) return;
        line(v.left, y, right, y, cls);
        if (words) text(v.narrow ? v.left + 4 : right - 2, y + (above || v.narrow ? -4 : 15), words, "edge-label", v.narrow ? "start" : "end");
      };
      if (lane.kind === "age") {
        const crowded = v.narrow && lane.ceiling && lane.ceiling < lane.top && lane.yOf(lane.guard) - lane.yOf(lane.ceiling) < 15;
        mark(lane.guard, crowded ? "" : `guard ${duration(lane.guard)}`, "guardline");
        if (lane.ceiling && lane.ceiling < lane.top) mark(lane.ceiling, `ceiling ${duration(lane.ceiling)}`, "ceilingline", true);
      }
      if (lane.kind === "waits") mark(lane.guard, `guard ${duration(lane.guardMs)}`, "guardline");
      if (lane.kind === "depth" && isKnown(lane.bound) && lane.bound > 0 && lane.bound < lane.top) {
        const y = v.head + lane.yOf(lane.bound);
        line(v.left, y, right, y, "guardline");
        text(v.left + 3, y - 4, `bound${lane.q.mode && lane.q.mode !== "normal" ? ` while ${lane.q.mode}` : ""} ${count(lane.bound)}`, "edge-label halo");
      }
      if (lane.kind === "depth" && lane.bound === 0) text(v.left + 3, v.head + lane.y + lane.height - 8, `closed while ${lane.q.mode}`, "edge-label halo");
    }

    // Gaps: a hole in what is known, never a line.
    const gaps = this.history.gaps(v.from, v.now);
    const lastAt = v.lastAt;
    if (isKnown(lastAt) && v.now - lastAt > this.history.stepMs * 2 + 500) gaps.push([lastAt, v.now]);
    for (const [from, to] of gaps) {
      const x0 = Math.max(v.left, this.x(from));
      const x1 = Math.min(right, this.x(to));
      if (x1 - x0 < 1) continue;
      svg.append(s("rect", { x: x0, y: v.head, width: x1 - x0, height: v.height, class: "gap-ground" }), s("rect", { x: x0, y: v.head, width: x1 - x0, height: v.height, fill: "url(#gap-hatch)" }));
    }

    for (const lane of v.lanes) {
      if (lane.old && !v.narrow && lane.old.x[1] - lane.old.x[0] > (v.to - v.from) * 0.06) text(Math.min(this.x(lane.old.at) - 6, right - 10), v.head + lane.y + 12, `dotted: forecast made at ${clock(lane.old.at)}`, "edge-label halo", this.x(lane.old.at) - v.left > 190 ? "end" : "start");
    }

    this.drawHead(svg, text, line, gaps, right, bottom);
    const nowX = this.x(v.now);
    line(nowX, v.head - 14, nowX, bottom, "nowline");
    this.drawEnds(svg, text, nowX, right);
    if (this.cursorAt !== null) this.drawCursor(svg, text, line, bottom, right);
    this.over.replaceChildren(svg);
  }

  /** Times, marks and mode spans on top. */
  drawHead(svg, text, line, gaps, right, bottom) {
    const v = this.view;
    if (!v.narrow) text(0, 47, "mode and events", "lane-sub");
    for (const t of timeTicks(v)) {
      const x = this.x(t);
      if (x > v.left + 14 && x < right - 14) text(x, 15, v.tick >= 86400e3 ? dayMinute(t).split(" ").slice(0, 2).join(" ") : v.to - v.from > 90000e3 ? dayMinute(t) : minute(t), "time", "middle");
    }
    for (const span of this.spans()) {
      const w = span.x1 - span.x0;
      if (w <= 0) continue;
      svg.append(s("rect", { x: span.x0, y: 42, width: w, height: 15, class: `modespan ${span.mode}` }));
      const words = `${span.mode}${span.mode === "normal" ? "" : span.automatic ? ", automatic" : span.automatic === false ? ", by hand" : ""}`;
      const fits = w > words.length * 6.1 + 8 ? words : w > span.mode.length * 6.1 + 8 ? span.mode : "";
      if (fits) text(span.x0 + 5, 53.5, fits, `modeword ${span.mode}`);
      if (span.x0 > v.left + 1) line(span.x0, 42, span.x0, bottom, `modeline ${span.mode}`);
    }
    /** @type {{x: number, words: string, shape: string, cls: string}[]} */
    const marks = [];
    for (const a of this.alertMarks()) {
      const x = this.x(a.at);
      if (x < v.left || x > this.x(v.now)) continue;
      line(x, 36, x, bottom, "alertline");
      marks.push({ x, words: "alert fired", shape: "triangle", cls: "mark-alert" });
    }
    for (const [from, to] of gaps) marks.push({ x: Math.max(v.left + 6, (this.x(from) + this.x(to)) / 2), words: `no samples ${duration(Math.round((to - from) / 1000) * 1000)}`, shape: "square", cls: "mark-gap" });
    for (const e of (v.frame.events || []).filter((e) => ["policy", "deploy", "worker"].includes(e.kind))) {
      const x = this.x(e.at_ms);
      if (x > v.left && x < this.x(v.now)) marks.push({ x, words: cut(String(e.text), 44), shape: "down", cls: "mark-event" });
    }
    // Words only where they do not run into each other; the mark itself always stands.
    marks.sort((a, b) => a.x - b.x);
    let free = v.left;
    marks.forEach((m, i) => {
      const y = 31;
      if (m.shape === "triangle") svg.append(s("path", { d: `M${m.x} ${y - 10}l5.5 10h-11z`, class: m.cls }));
      else if (m.shape === "down") svg.append(s("path", { d: `M${m.x} ${y}l5-8h-10z`, class: m.cls }));
      else svg.append(s("rect", { x: m.x - 4.5, y: y - 9, width: 9, height: 9, class: m.cls }));
      const w = m.words.length * 5.6;
      const next = marks[i + 1] ? marks[i + 1].x - 8 : right;
      if (m.shape === "triangle" && m.x - w - 12 > free) { text(m.x - 9, y, m.words, "mark-word", "end"); free = m.x + 8; }
      else if (m.x + 10 + w < next && m.x > free) { text(m.x + 9, y, m.words, "mark-word"); free = m.x + 12 + w; }
      else free = Math.max(free, m.x + 8);
    });
  }

  alertMarks() {
    const seen = new Map();
    for (const a of this.history.alerts || []) if (isKnown(a.fired_at_ms)) seen.set(a.id ?? a.fired_at_ms, { at: a.fired_at_ms });
    for (const a of this.view.frame.alerts?.items || []) if (isKnown(a.fired_at_ms)) seen.set(a.id ?? a.fired_at_ms, { at: a.fired_at_ms });
    return [...seen.values()];
  }

  /** Values at the line's end instead of a legend. */
  drawEnds(svg, text, nowX, right) {
    const v = this.view;
    const frame = v.frame;
    const i = v.isLive ? this.history.at.length - 1 : this.indexAt(v.now);
    const room = right - nowX > 60;
    if (!room) return;
    for (const lane of v.lanes) {
      const top = v.head + lane.y;
      const clamp = (y) => Math.max(top + 12, Math.min(top + lane.height - 3, y));
      // Live ends say what the rows say; at a coarse step the newest point is a maximum.
      const valueOf = (q, metric) => (v.isLive ? readMetric(q, metric) : this.history.column(q.name, metric)[i]);
      const shown = frame.queues.find((q) => q.name === lane.queue);
      const at = (metric) => { const value = shown ? valueOf(shown, metric) : null; return isKnown(value) ? value : null; };
      if (lane.kind === "age") {
        const value = at("oldest_age_ms");
        if (value !== null) text(nowX + 6, clamp(v.head + lane.yOf(value) + (value > lane.guard ? -4 : 4)), age(value), `end ${value > (lane.ceiling ?? Infinity) ? "over" : value > lane.guard ? "guard" : ""}`);
      } else if (lane.kind === "flow") {
        const total = (metric) => { let t = 0; for (const q of frame.queues) { const x = valueOf(q, metric); if (!isKnown(x)) return null; t += x; } return t; };
        const offered = total("offered");
        const accepted = total("accepted");
        const done = total("succeeded");
        const refused = offered === null || accepted === null ? 0 : Math.max(0, offered - accepted);
        const labels = [[offered, `offered ${rate(offered)}`, "quiet"], [done, `done ${rate(done)}`, ""], [accepted, `accepted ${rate(accepted)}`, "quiet"]].filter((l) => l[0] !== null).map((l) => ({ y: v.head + lane.yOf(l[0]) + 4, words: l[1], cls: l[2] })).sort((a, b) => a.y - b.y);
        spread(labels, top + 12, top + lane.height - 4);
        for (const l of labels) text(nowX + 6, l.y, l.words, `end ${l.cls}`);
        if (refused > lane.top * 0.12) text(nowX - 8, (v.head + lane.yOf(offered) + v.head + lane.yOf(accepted)) / 2 + 4, `refused ${rate(refused)}`, "end halo", "end");
      } else if (lane.kind === "depth") {
        const q = lane.q;
        const value = at("depth");
        const drain = q?.drain || {};
        let words = value === null ? "" : `${count(value)}`;
        if (v.isLive && drain.state === "draining" && isKnown(drain.seconds) && drain.seconds > 5) {
          const band = isKnown(drain.low) && isKnown(drain.high) ? `, ${range(drain.low * 1000, drain.high * 1000)}` : "";
          words = `${count(value)} ${q.state === "closed" ? "drain" : "waiting, drains"} in ${roughly(drain.seconds * 1000)}${band}`;
          text(right - 4, top + (v.narrow ? 19 : 16), v.narrow ? `${count(value)}, ${roughly(drain.seconds * 1000)}${band}` : words, "end", "end");
        } else if (v.isLive && drain.state === "growing" && isKnown(drain.full_in_s)) text(right - 4, v.narrow ? top + 19 : clamp(v.head + lane.yOf(value || 0) + 18), `${count(value)}, full in ${roughly(drain.full_in_s * 1000)}`, "end", "end");
        else if (words) text(nowX + 6, clamp(v.head + lane.yOf(value) + (value > lane.top / 2 ? 4 : -3)), words, "end");
      } else if (lane.kind === "bytes") {
        let total = 0;
        for (const q of frame.queues) { const b = valueOf(q, "bytes"); total = isKnown(b) && total !== null ? total + b : null; }
        if (total !== null) text(nowX + 6, clamp(v.head + lane.yOf(total) + 4), bytes(total), "end");
      } else {
        const p50 = at("wait_p50");
        const p99 = at("wait_p99");
        if (p50 !== null) text(nowX + 6, clamp(v.head + lane.yOf(Math.log10(Math.max(1, p50))) + 4), `p50 ${wait(p50)}, p99 ${wait(p99)}`, "end");
        else text(nowX + 6, top + lane.height / 2, "no job started", "end quiet");
      }
    }
  }

  /** @param {number} at */
  indexAt(at) {
    const list = this.history.at;
    let low = 0;
    let high = list.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (list[mid] <= at) low = mid; else high = mid - 1;
    }
    return low;
  }

  /** One crosshair through all strips, the values beside it. */
  drawCursor(svg, text, line, bottom, right) {
    const v = this.view;
    const at = /** @type {number} */ (this.cursorAt);
    const x = this.x(at);
    const i = this.indexAt(at);
    line(x, 18, x, bottom, "cursorline");
    const words = v.to - v.from > 90000e3 ? dayMinute(at) : clock(at);
    const w = words.length * 7 + 10;
    const bx = Math.max(v.left, Math.min(right - w, x - w / 2));
    svg.append(s("rect", { x: bx, y: 2, width: w, height: 17, class: "cursor-box" }));
    text(bx + w / 2, 15, words, "cursor-time", "middle");
    const isGap = Math.abs((this.history.at[i] ?? 0) - at) > this.history.stepMs * 2.5 + 500;
    const flip = right - x < 190;
    const put = (lane, words2, y) => text(x + (flip ? -6 : 6), Math.max(v.head + lane.y + 13, Math.min(v.head + lane.y + lane.height - 4, y)), words2, "end halo strong", flip ? "end" : "start");
    for (const lane of v.lanes) {
      const middle = v.head + lane.y + lane.height / 2;
      if (isGap) { put(lane, "no samples", middle); continue; }
      const value = (metric) => this.history.column(lane.queue, metric)[i];
      if (lane.kind === "age") put(lane, isKnown(value("oldest_age_ms")) ? age(value("oldest_age_ms")) : "\u2013", middle - 6);
      else if (lane.kind === "depth") put(lane, count(value("depth")), middle);
      else if (lane.kind === "waits") put(lane, isKnown(value("wait_p50")) ? `p50 ${wait(value("wait_p50"))}, p99 ${wait(value("wait_p99"))}` : "no job started", v.head + lane.y + lane.height - 10);
      else if (lane.kind === "bytes") {
        const sum = v.frame.queues.reduce((t, q) => { const b = this.history.column(q.name, "bytes")[i]; return isKnown(b) && t !== null ? t + b : null; }, 0);
        put(lane, bytes(sum), middle);
      } else {
        const total = (metric) => v.frame.queues.reduce((t, q) => { const b = this.history.column(q.name, metric)[i]; return isKnown(b) && t !== null ? t + b : null; }, 0);
        const offered = total("offered");
        const accepted = total("accepted");
        const refused = isKnown(offered) && isKnown(accepted) ? offered - accepted : null;
        put(lane, `offered ${rate(offered)} = accepted ${rate(accepted)}${refused && refused > 0.05 ? ` + refused ${rate(refused)}` : ""}`, v.head + lane.y + 16);
        put(lane, `done ${rate(total("succeeded"))}`, v.head + lane.y + lane.height - 10);
      }
    }
  }
}

function hatchPattern() {
  return s("defs", {}, s("pattern", { id: "gap-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatchline" })));
}

/** @param {string} text @param {number} most */
function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most).replace(/\s\S*$/, "")}\u2026`;
}

/** @param {any} mode */
function modeOf(mode) {
  return mode && typeof mode === "object" ? mode.mode : mode;
}

/** Move labels apart so that none covers another. @param {{y: number}[]} labels @param {number} top @param {number} bottom */
function spread(labels, top, bottom) {
  for (let i = 0; i < labels.length; i += 1) labels[i].y = Math.max(labels[i].y, i ? labels[i - 1].y + LABEL_GAP : top);
  for (let i = labels.length - 1; i >= 0; i -= 1) labels[i].y = Math.min(labels[i].y, i === labels.length - 1 ? bottom : labels[i + 1].y - LABEL_GAP);
}
