// How did it come to this, and what comes? Small multiples on one clock: one Plotly figure, and one layer over it.
import { h, setText, swap } from "./dom.js";
import { heatMap, logMs } from "./heat.js";
import { RANGES } from "./history.js";
import { Scales, ageUnit, depthQueues, layLanes, subjectQueue, tickText, timeTicks, twoTicks } from "./lanes.js";
import { Overlay } from "./overlay.js";
import { colours } from "./theme.js";
import { clock, isKnown } from "./units.js";

/** @typedef {import("./frame.js").Frame} Frame @typedef {import("./history.js").History} History */

const HEAD = 58;
const HEAT_COLUMN_PX = 9;
const DEPTH_REVIEW_MS = 60000;

/** Fetch plotly after the rows are shown; it is the largest file of the page. */
function loadPlotly() {
  const root = document.querySelector('meta[name="static-root"]')?.getAttribute("content") || "/static/";
  return new Promise((resolve, reject) => {
    if (/** @type {any} */ (window).Plotly) { resolve(/** @type {any} */ (window).Plotly); return; }
    const script = document.createElement("script");
    script.src = `${root}vendor/plotly/plotly-cartesian.min.js`;
    script.onload = () => resolve(/** @type {any} */ (window).Plotly);
    script.onerror = () => reject(new Error("plotly could not be loaded"));
    document.head.append(script);
  });
}

export class Charts {
  /** @param {HTMLElement} root @param {History} history @param {(key: string) => void} onRange */
  constructor(root, history, onRange) {
    this.root = root;
    this.history = history;
    this.scales = new Scales();
    this.selected = "";
    this.order = [];
    this.depths = [];
    this.depthsAt = 0;
    this.drawMs = 0;
    this.drawnAt = 0;
    this.drawnNow = 0;
    /** @type {any} */
    this.view = null;
    /** @type {number|null} the right edge of the past, when paused or rewound */
    this.heldAt = null;
    this.title = h("h2", {}, "Last 15 minutes");
    this.resolution = h("span", { class: "quiet" });
    this.side = h("span", { class: "quiet chart-side" }, "right of the line: modeled");
    this.ranges = h("div", { class: "joined small ranges", role: "group", "aria-label": "time range" }, RANGES.map((r) => h("button", { type: "button", "data-range": r.key, onclick: () => onRange(r.key) }, r.key)));
    this.figure = h("div", { class: "figure-plot" });
    this.under = h("div", { class: "figure-layer" });
    this.over = h("div", { class: "figure-layer over" });
    this.box = h("div", { class: "figure-box" }, this.under, this.figure, this.over);
    this.note = h("p", { class: "quiet chart-note" }, "Charts are loading.");
    root.append(h("div", { class: "charthead" }, this.title, this.ranges, this.resolution, this.side), this.box, this.note);
    this.overlay = new Overlay(this.under, this.over, this.box);
    this.colours = colours();
    document.addEventListener("themechange", () => { this.colours = colours(); this.again(); });
    // Reading a width makes the browser lay the page out: it is taken only when it changes.
    this.width = 0;
    new ResizeObserver((entries) => {
      const width = Math.floor(entries[0].contentRect.width);
      if (width === this.width) return;
      this.width = width;
      this.again();
    }).observe(this.box);
    loadPlotly().then((plotly) => { this.plotly = plotly; this.note.hidden = true; this.again(); }, (error) => { setText(this.note, `No charts: ${error.message}. Rows and figures above are complete.`); });
  }

  again() {
    if (this.last) this.update(...this.last);
  }

  /** @param {Frame} frame @param {string[]} order @param {string} state @param {number} nowMs */
  update(frame, order, state, nowMs) {
    this.last = /** @type {[Frame, string[], string, number]} */ ([frame, order, state, nowMs]);
    const range = this.history.range;
    const width = this.width;
    if (!width || document.hidden) return;
    const narrow = width < 620;
    setText(this.title, this.heldAt ? `${range.words}, held at ${clock(this.heldAt)}` : range.words);
    setText(this.resolution, narrow ? "" : stepWords(this.history.stepMs));
    setText(this.side, this.heldAt ? "End returns to live" : state === "live" ? "right of the line: modeled" : "no forecast without samples");
    for (const button of this.ranges.children) button.setAttribute("aria-pressed", /** @type {HTMLElement} */ (button).dataset.range === range.key ? "true" : "false");
    if (!this.plotly) return;
    // On a slow machine the charts may take a fifth of the time and no more: rows and switch go first.
    const key = `${range.key} ${width} ${this.selected} ${this.heldAt} ${state} ${this.history.loadedAt} ${this.colours.ground}`;
    const sincePx = ((nowMs - this.drawnNow) / (range.back + range.ahead)) * width;
    if (key === this.drawnKey && this.view && (performance.now() - this.drawnAt < this.drawMs * 4 || sincePx < 1)) {
      // Nothing would move by a pixel: only the words at the lines' ends are renewed.
      this.view.frame = frame;
      this.overlay.draw(this.view, this.history);
      return;
    }
    this.drawnKey = key;
    this.drawnAt = performance.now();
    this.drawnNow = nowMs;
    const subject = subjectQueue(frame, this.selected);
    if (!this.depths.length || performance.now() - this.depthsAt > DEPTH_REVIEW_MS || this.rangeKey !== range.key) {
      this.depths = depthQueues(frame, this.history, order);
      this.depthsAt = performance.now();
      this.rangeKey = range.key;
    }
    if (this.selected && !this.depths.includes(this.selected)) this.depths = [...this.depths.slice(0, 2), this.selected];
    const lanes = layLanes(frame, order, this.depths, subject, narrow);
    const isLive = state === "live" && !this.heldAt;
    const edge = this.heldAt || nowMs;
    const view = {
      from: edge - range.back, to: edge + range.ahead, now: edge, left: narrow ? 42 : 130, right: narrow ? 0 : 8, head: HEAD, width, narrow, tick: narrow ? range.tick * 2 : range.tick, isLive, state, subject,
      lastAt: this.history.at.at(-1) || null, frame, lanes: /** @type {any[]} */ ([]), height: 0,
    };
    let y = 0;
    for (const lane of lanes) {
      view.lanes.push({ ...lane, y, ...this.scaleOf(lane, frame, nowMs, view) });
      y += lane.height;
    }
    view.height = y;
    this.box.style.height = `${HEAD + y}px`;
    this.figure.style.top = `${HEAD}px`;
    const started = performance.now();
    this.view = view;
    this.draw(view, frame);
    this.overlay.draw(view, this.history);
    this.drawMs = performance.now() - started;
    this.box.dataset.drawMs = this.drawMs.toFixed(0);
  }

  /** The scale of a lane and its marks. */
  scaleOf(lane, frame, nowMs, view) {
    const q = frame.queues.find((x) => x.name === lane.queue);
    const since = view.from;
    const most = (column) => { let m = 0; column.forEach((v, i) => { if (isKnown(v) && v > m && this.history.at[i] >= since) m = v; }); return m; };
    if (lane.kind === "age") {
      const unit = ageUnit(q);
      const guard = (q?.guard_age_s || 30) * 1000;
      const ceiling = q?.age_ceiling_s ? q.age_ceiling_s * 1000 : null;
      const top = this.scales.top(lane.key, Math.max(guard * 1.35, most(this.history.column(lane.queue, "oldest_age_ms")) * 1.08) / unit.ms, nowMs) * unit.ms;
      // Two marks only where they stand clear of each other.
      const second = ceiling && ceiling < top * 0.95 ? ceiling : guard * 2;
      const ticks = second < top * 0.97 && (second - guard) / top > 0.28 ? [guard, second] : top > guard * 4 ? [second] : [guard];
      return { top, low: 0, ticks, tickTexts: ticks.map((t) => tickText(t / unit.ms)), guard, ceiling, q };
    }
    if (lane.kind === "flow") {
      const names = frame.queues.map((x) => x.name);
      this.flowTotals = { offered: this.history.total(names, "offered"), accepted: this.history.total(names, "accepted"), done: this.history.total(names, "succeeded") };
      const top = this.scales.top(lane.key, Math.max(5, most(this.flowTotals.offered) * 1.12, most(this.flowTotals.done) * 1.12), nowMs);
      const ticks = twoTicks(top);
      return { top, low: 0, ticks, tickTexts: ticks.map(tickText), q };
    }
    if (lane.kind === "depth") {
      const bound = q?.bounds_in_force?.count ?? q?.bounds?.count ?? null;
      const peak = most(this.history.column(lane.queue, "depth"));
      const wanted = isKnown(bound) && bound > 0 && bound < peak * 2.2 ? Math.max(peak, bound) * 1.12 : peak * 1.2;
      const top = this.scales.top(lane.key, Math.max(10, wanted), nowMs);
      const ticks = twoTicks(top);
      return { top, low: 0, ticks, tickTexts: ticks.map(tickText), bound, q };
    }
    if (lane.kind === "bytes") {
      this.bytesTotal = this.history.total(frame.queues.map((x) => x.name), "bytes");
      const peak = most(this.bytesTotal);
      const unit = peak > 1.5 * 2 ** 30 ? 2 ** 30 : peak > 1.5 * 2 ** 20 ? 2 ** 20 : 1024;
      const word = unit === 2 ** 30 ? "GiB" : unit === 2 ** 20 ? "MiB" : "KiB";
      const top = this.scales.top(`${lane.key} ${word}`, Math.max(1, (peak * 1.15) / unit), nowMs) * unit;
      const ticks = [twoTicks(top / unit).at(-1) * unit];
      lane.sub = `${word}, ${frame.queues.length === 1 ? frame.queues[0].name : "all queues"}`;
      return { top, low: 0, ticks, tickTexts: ticks.map((t) => tickText(t / unit)), sub: lane.sub, q };
    }
    this.heat = heatMap(this.history.at, this.history.column(lane.queue, "wait_bins"), view.from, view.now, Math.max(20, Math.round(((view.width - view.left - view.right) * (view.now - view.from)) / (view.to - view.from) / HEAT_COLUMN_PX)));
    const p99 = most(this.history.column(lane.queue, "wait_p99"));
    const guard = (q?.guard_age_s || 30) * 1000;
    const top = Math.max(Math.log10(guard) + 0.35, logMs(p99 * 1.6) || 2, this.heat ? this.heat.top + 0.1 : 0);
    const low = Math.min(2, this.heat ? Math.max(0, this.heat.low - 0.1) : 1);
    const held = this.scales.top(lane.key, Math.ceil(top * 4), nowMs) / 4;
    const ticks = [0, 1, 2, 3, 4, 5, 6].filter((t) => t >= low + 0.1 && t <= held - 0.1);
    const words = ["1\u00a0ms", "10\u00a0ms", "100\u00a0ms", "1\u00a0s", "10\u00a0s", "100\u00a0s", "17\u00a0min"];
    return { top: held, low: Math.floor(low * 2) / 2, ticks, tickTexts: ticks.map((t) => words[t]), guard: Math.log10(guard), guardMs: guard, q };
  }

  /** Data only: what is not data stands on the overlay. */
  draw(view, frame) {
    const c = this.colours;
    const { first, last, x } = this.thinned(view);
    // The last of a bucket for flows, so that sums stay sums; the peak for ages and backlogs, so that none is lost.
    const take = (column, f = (v) => v) => last.map((i) => (i < 0 ? null : isKnown(column[i]) ? f(column[i]) : null));
    const peak = (column) => first.map((from, k) => {
      let most = null;
      for (let i = from; from >= 0 && i <= last[k]; i += 1) if (isKnown(column[i]) && (most === null || column[i] > most)) most = column[i];
      return most;
    });
    /** @type {any[]} */
    const traces = [];
    const line = (axis, xs, ys, style, extra = {}) => traces.push({ type: "scatter", mode: "lines", x: xs, y: ys, xaxis: "x", yaxis: axis, hoverinfo: "skip", connectgaps: false, line: { shape: "linear", ...style }, ...extra });
    const axes = {};
    view.lanes.forEach((lane, n) => {
      const id = n === 0 ? "" : String(n + 1);
      const axis = `y${id}`;
      const span = (lane.top - lane.low) * (lane.height / Math.max(1, lane.height - lane.pad - 4));
      const bottom = lane.low - span * (4 / lane.height);
      lane.yOf = (v) => lane.y + lane.height * (1 - (v - bottom) / span);
      axes[`yaxis${id}`] = {
        domain: [1 - (lane.y + lane.height) / view.height, 1 - lane.y / view.height], range: [bottom, bottom + span], tickvals: lane.ticks, ticktext: lane.tickTexts,
        showgrid: false, zeroline: false, fixedrange: true, ticks: "", tickfont: { size: 12, color: c.ink3 }, anchor: "x", automargin: false, side: "left",
      };
      const drain = lane.q?.drain;
      const drains = view.isLive && drain && drain.state === "draining" && isKnown(drain.seconds) && drain.seconds > 5;
      if (lane.kind === "age") {
        const ys = peak(this.history.column(lane.queue, "oldest_age_ms"));
        const isSubject = lane.queue === view.subject;
        line(axis, x, ys, { width: isSubject ? 1.6 : 1.3, color: c.ink2 });
        const past = pastPart(ys, lane.guard);
        if (past) line(axis, x, past, { width: 2.4, color: c["guard-line"] });
        const over = lane.ceiling ? pastPart(ys, lane.ceiling) : null;
        if (over) line(axis, x, over, { width: 2.4, color: c["over-line"] });
        if (drains && lane.q.oldest_age_ms > lane.guard * 0.5) line(axis, [view.now, view.now + drain.seconds * 1000], [lane.q.oldest_age_ms, 0], { width: 1.4, color: c.ink2, dash: "1.5px,3px" });
      } else if (lane.kind === "flow") {
        const t = this.flowTotals;
        line(axis, x, take(t.accepted), { width: 1.1, color: c.ink3 }, { fill: "tozeroy", fillcolor: c.track });
        line(axis, x, take(t.offered), { width: 1.2, color: c.ink2, dash: "3px,2px" }, { fill: "tonexty", fillcolor: "rgba(0,0,0,0)", fillpattern: { shape: "/", size: 6, solidity: 0.22, fgcolor: c.ink3, bgcolor: "rgba(0,0,0,0)", fillmode: "overlay" } });
        line(axis, x, take(t.done), { width: 2.1, color: c.ink });
      } else if (lane.kind === "depth") {
        const column = this.history.column(lane.queue, "depth");
        const old = view.isLive || this.heldAt ? this.oldForecast(lane, view) : null;
        if (old) line(axis, old.x, old.y, { width: 1.1, color: c.ink3, dash: "1px,3px" });
        lane.old = old;
        if (drains && lane.q.depth > 0) {
          const low = isKnown(drain.low) ? drain.low : drain.seconds;
          const high = isKnown(drain.high) ? drain.high : drain.seconds;
          line(axis, [view.now, view.now + low * 1000, view.now + high * 1000, view.now], [lane.q.depth, 0, 0, lane.q.depth], { width: 0.8, color: c.edge }, { fill: "toself", fillcolor: c.track });
          line(axis, [view.now, view.now + drain.seconds * 1000], [lane.q.depth, 0], { width: 1.5, color: c.ink2, dash: "1.5px,3px" });
        } else if (view.isLive && drain?.state === "growing" && isKnown(drain.full_in_s) && isKnown(lane.bound) && lane.bound > 0) {
          line(axis, [view.now, view.now + drain.full_in_s * 1000], [lane.q.depth, lane.bound], { width: 1.5, color: c.ink2, dash: "1.5px,3px" });
        }
        line(axis, x, peak(column), { width: 1.7, color: c.ink });
      } else if (lane.kind === "bytes") {
        line(axis, x, peak(this.bytesTotal), { width: 1.3, color: c.ink2 });
      } else {
        if (this.heat) {
          traces.push({ type: "heatmap", x: this.heat.x, y: this.heat.y, z: this.heat.z, xaxis: "x", yaxis: axis, showscale: false, hoverinfo: "skip", xgap: 1, ygap: 0, zmin: 0, zmax: 0.5,
            colorscale: [[0, alpha(c.ink, 0)], [1, alpha(c.ink, 0.62)]] });
        }
        line(axis, x, take(this.history.column(lane.queue, "wait_p99"), logMs), { width: 1.2, color: c.ink, dash: "3px,2px" });
        line(axis, x, take(this.history.column(lane.queue, "wait_p50"), logMs), { width: 1.6, color: c.ink });
      }
    });
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "Plex Cond, IBM Plex Sans Condensed, sans-serif", size: 12, color: c.ink3 },
      margin: { l: view.left, r: view.right, t: 0, b: 0, pad: 0 }, showlegend: false, width: view.width, height: view.height, autosize: false, hovermode: false, dragmode: false, uirevision: "constant",
      xaxis: { range: [view.from, view.to], tickvals: timeTicks(view), ticktext: [], showticklabels: false, ticks: "", gridcolor: c.line, griddash: "1px,3px", gridwidth: 1, zeroline: false, fixedrange: true, anchor: "free", position: 0 },
      ...axes,
    };
    this.plotly.react(this.figure, traces, layout, { staticPlot: true, displayModeBar: false, responsive: false });
  }

  /**
   * Buckets of about a pixel, on absolute time so that lines do not shimmer as the window moves; -1 lifts the pen.
   * @returns {{first: number[], last: number[], x: number[]}}
   */
  thinned(view) {
    const at = this.history.at;
    const pixels = Math.max(60, ((view.width - view.left - view.right) * (view.now - view.from)) / (view.to - view.from));
    const bucket = Math.max(this.history.stepMs, Math.ceil((view.now - view.from) / pixels / this.history.stepMs) * this.history.stepMs);
    const limit = this.history.stepMs * 2.5 + 500;
    const out = { first: /** @type {number[]} */ ([]), last: /** @type {number[]} */ ([]), x: /** @type {number[]} */ ([]) };
    let start = -1;
    const close = (end) => { if (start >= 0) { out.first.push(start); out.last.push(end); out.x.push(at[end]); } };
    for (let i = 0; i < at.length; i += 1) {
      if (at[i] < view.from - this.history.stepMs || at[i] > view.now) continue;
      if (start >= 0 && at[i] - at[i - 1] > limit) {
        close(i - 1);
        out.first.push(-1);
        out.last.push(-1);
        out.x.push((at[i] + at[i - 1]) / 2);
        start = i;
      } else if (start < 0) start = i;
      else if (Math.floor(at[i] / bucket) !== Math.floor(at[i - 1] / bucket)) { close(i - 1); start = i; }
      if (i === at.length - 1 || at[i + 1] > view.now) { close(i); break; }
    }
    return out;
  }

  /** What was forecast when the backlog was highest stays drawn under what happened. */
  oldForecast(lane, view) {
    const depth = this.history.column(lane.queue, "depth");
    const drain = this.history.column(lane.queue, "drain_s");
    let peak = -1;
    for (let i = 0; i < depth.length; i += 1) if (isKnown(depth[i]) && this.history.at[i] > view.from && this.history.at[i] < view.now - 20000 && (peak < 0 || depth[i] >= depth[peak])) peak = i;
    if (peak < 0 || depth[peak] < 20) return null;
    // The first forecast after the peak: at the peak itself the queue still grew.
    for (let i = peak; i < Math.min(depth.length, peak + 60); i += 1) {
      if (isKnown(drain[i]) && drain[i] > 30 && isKnown(depth[i])) {
        const at = this.history.at[i];
        return { at, x: [at, at + drain[i] * 1000], y: [depth[i], 0] };
      }
    }
    return null;
  }
}

/** @param {(number|null)[]} ys @param {number} limit */
function pastPart(ys, limit) {
  let any = false;
  const out = ys.map((v, i) => {
    if (!isKnown(v)) return null;
    if (v > limit) { any = true; return v; }
    const next = ys[i + 1];
    const before = ys[i - 1];
    return (isKnown(next) && next > limit) || (isKnown(before) && before > limit) ? v : null;
  });
  return any ? out : null;
}

/** @param {string} hex @param {number} a */
function alpha(hex, a) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${a})`;
}

/** @param {number} stepMs */
function stepWords(stepMs) {
  if (stepMs <= 1000) return "1\u00a0s per point";
  return stepMs < 60000 ? `${stepMs / 1000}\u00a0s per point, max` : `${stepMs / 60000}\u00a0min per point, max`;
}
