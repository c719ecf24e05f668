// How did a downstream's limit move, how much of it was used, and at what latency? Strips on one clock, from the stored history and from frames after.
import { get, query } from "./api.js";
import { h, s, setText } from "./dom.js";
import { RANGES } from "./history.js";
import { niceTop, tickText, timeTicks, twoTicks } from "./lanes.js";
import { NBSP, count, dayMinute, duration, isKnown, minute, rate, wait } from "./units.js";

/** How a frame's row gives each stored metric. */
const READ = { limit: (d) => d.limit, in_flight: (d) => d.in_flight, mean_ms: (d) => d.mean_ms, latency_p50: (d) => d.latency_ms?.p50, latency_p99: (d) => d.latency_ms?.p99, answered: (d) => d.rates?.answered, dropped: (d) => d.rates?.dropped };
const HEAD = 24;
const END = 118;

export class Trace {
  constructor() {
    this.range = RANGES[1];
    this.name = "";
    this.targetMs = 0;
    this.clear();
    this.title = h("h2", {});
    this.resolution = h("span", { class: "quiet" });
    this.buttons = RANGES.map((r) => h("button", { type: "button", "data-range": r.key, onclick: () => { this.range = r; this.load(this.now); } }, r.key));
    this.box = h("div", { class: "figure-box" });
    this.note = h("p", { class: "quiet chart-note" }, "Reading.");
    this.node = h("div", { class: "limit-trace" }, h("div", { class: "charthead" }, this.title, h("div", { class: "joined small ranges", role: "group", "aria-label": "time range" }, this.buttons), this.resolution), this.box, this.note);
    this.width = 0;
    this.now = Date.now();
    new ResizeObserver((entries) => { this.width = Math.floor(entries[0].contentRect.width); this.draw(); }).observe(this.box);
  }

  clear() {
    /** @type {number[]} */ this.at = [];
    /** @type {Record<string, any[]>} */ this.columns = Object.fromEntries(Object.keys(READ).map((key) => [key, []]));
    this.stepMs = 1000;
    /** @type {{at: number, row: any}[]} what frames told while the history was being read */ this.late = [];
  }

  /** @param {string} name @param {number} targetMs @param {number} nowMs */
  show(name, targetMs, nowMs) {
    if (name !== this.name) this.clear();
    this.name = name;
    this.targetMs = targetMs;
    return this.load(nowMs);
  }

  /** @param {number} nowMs */
  async load(nowMs) {
    const mine = (this.loading = Symbol("load"));
    this.loadedAt = nowMs;
    this.now = nowMs;
    let data;
    try { data = await get(`/history${query({ downstream: this.name, since: Math.round(nowMs - this.range.back), step: this.range.step })}`); }
    catch (error) { if (this.loading === mine) { setText(this.note, `The history cannot be read: ${/** @type {Error} */ (error).message}`); this.note.hidden = false; } return; }
    if (this.loading !== mine) return;
    this.at = data.at_ms;
    this.stepMs = data.step_s * 1000;
    // A peak is kept for what hurts by its peak; of a limit that goes up and down the middle says more.
    this.columns = { ...data.metrics, limit: data.median?.limit || data.metrics.limit };
    for (const { at, row } of this.late) this.add(row, at);
    this.draw();
  }

  /** @param {any} row @param {number} atMs */
  append(row, atMs) {
    this.now = atMs;
    if (!row || row.name !== this.name) { this.draw(); return; }
    if (this.stepMs > 1000) {
      if (atMs - (this.loadedAt || 0) > Math.max(10000, this.stepMs)) this.load(atMs);
    } else this.add(row, atMs);
    this.late.push({ at: atMs, row });
    if (this.late.length > 60) this.late.shift();
    this.draw();
  }

  /** @param {any} row @param {number} atMs */
  add(row, atMs) {
    if (this.stepMs > 1000 || atMs <= (this.at.at(-1) ?? 0)) return;
    this.at.push(atMs);
    for (const [metric, read] of Object.entries(READ)) this.columns[metric].push(read(row) ?? null);
    while (this.at[0] < atMs - this.range.back - 5000) { this.at.shift(); for (const column of Object.values(this.columns)) column.shift(); }
  }

  draw() {
    const width = this.width;
    setText(this.title, this.range.words);
    setText(this.resolution, this.stepMs > 1000 ? `${duration(this.stepMs)} per point: limit median, all else max` : `1${NBSP}s per point`);
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.range === this.range.key));
    if (!width) return;
    const narrow = width < 620;
    const left = narrow ? 48 : 130;
    const right = width - (narrow ? 8 : END);
    const from = this.now - this.range.back;
    this.thin(from, right - left);
    const x = (t) => left + ((t - from) / this.range.back) * (right - left);
    const first = this.at.findIndex((t) => t >= from);
    const known = (metric) => (first < 0 ? [] : this.columns[metric].slice(first)).filter(isKnown);
    const any = known("limit").length > 0;
    this.note.hidden = any;
    if (!any) setText(this.note, "No sample of this downstream in this range.");
    const most = (...metrics) => Math.max(0, ...metrics.flatMap(known));
    const lanes = [
      { title: "calls at a time", sub: "limit, in flight", height: narrow ? 140 : 112, top: niceTop(Math.max(2, most("limit", "in_flight") * 1.15)), text: tickText },
      { title: "latency", sub: "mean, p99 dashed", height: narrow ? 140 : 112, top: niceTop(Math.max(this.targetMs * 1.35, Math.min(most("latency_p99", "mean_ms") * 1.1, this.targetMs * 6))), text: (v) => wait(v) },
      ...(most("dropped") > 0 ? [{ title: "dropped", sub: "a second", height: narrow ? 96 : 66, top: niceTop(most("dropped") * 1.2), text: tickText }] : []),
    ];
    const height = HEAD + lanes.reduce((sum, lane) => sum + lane.height, 0);
    const svg = s("svg", { class: "figure-layer", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.sentence() });
    svg.append(s("defs", {}, s("pattern", { id: "trace-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatchline" })), s("clipPath", { id: "trace-clip" }, s("rect", { x: left, y: 0, width: Math.max(0, right - left), height }))));
    const text = (px, py, words, cls, anchor = "start") => svg.append(s("text", { x: px, y: py, class: cls, "text-anchor": anchor }, words));
    const line = (x1, y1, x2, y2, cls) => svg.append(s("line", { x1, y1, x2, y2, class: cls }));
    for (const t of timeTicks({ now: this.now, from, to: this.now, tick: narrow ? this.range.tick * 2 : this.range.tick })) {
      if (x(t) > left + 16 && x(t) < right - 16) { text(x(t), 15, this.range.back > 90000e3 ? dayMinute(t) : minute(t), "time", "middle"); line(x(t), HEAD, x(t), height, "gridline"); }
    }
    let y = HEAD;
    for (const lane of lanes) {
      const base = y + lane.height - 6;
      const yOf = (v) => base - (Math.min(v, lane.top * 1.02) / lane.top) * (lane.height - (narrow ? 40 : 20));
      line(0, y + 0.5, width, y + 0.5, "hair");
      for (const t of twoTicks(lane.top)) text(left - 6, yOf(t) + 4, lane.text(t), "edge-label", "end");
      const put = (path, cls) => { if (path) svg.append(s("path", { d: path, class: cls, "clip-path": "url(#trace-clip)" })); };
      if (lane.title === "latency") {
        line(left, yOf(this.targetMs), right, yOf(this.targetMs), "guardline");
        put(this.path("latency_p99", x, yOf), "trace-dashed");
        put(this.path("mean_ms", x, yOf), "trace-line");
        put(this.path("mean_ms", x, yOf, (v) => v > this.targetMs), "trace-past");
        text(narrow ? left + 4 : right + 6, yOf(this.targetMs) + (narrow ? 14 : 4), `target ${wait(this.targetMs)}`, "edge-label halo");
      } else if (lane.title === "dropped") put(this.path("dropped", x, yOf), "trace-line");
      else {
        put(this.area("in_flight", x, yOf, base), "trace-area");
        put(this.path("limit", x, yOf, () => true, true), "trace-subject");
      }
      for (const e of narrow ? [] : this.ends(lane, yOf, y)) text(right + 6, e.y, e.words, `end ${e.cls}`);
      for (const [a, b] of this.gaps(from)) {
        const x0 = Math.max(left, x(a));
        const wide = Math.min(right, x(b)) - x0;
        if (wide > 1) svg.append(s("rect", { x: x0, y, width: wide, height: lane.height, class: "gap-ground" }), s("rect", { x: x0, y, width: wide, height: lane.height, fill: "url(#trace-hatch)" }));
      }
      if (narrow) text(0, y + 17, `${lane.title}: ${lane.sub}`, "lane-title halo");
      else { text(0, y + 18, lane.title, "lane-title"); text(0, y + 37, lane.sub, "lane-sub"); }
      y += lane.height;
    }
    line(right, HEAD - 8, right, height, "nowline");
    this.box.style.height = `${height}px`;
    this.box.replaceChildren(svg);
  }

  /** One point a pixel or so, on absolute time: the peak of each metric, of the limit the last. @param {number} from @param {number} pixels */
  thin(from, pixels) {
    const bucket = Math.max(this.stepMs, Math.ceil(this.range.back / Math.max(60, pixels) / this.stepMs) * this.stepMs);
    const thin = { at: /** @type {number[]} */ ([]), columns: /** @type {Record<string, any[]>} */ (Object.fromEntries(Object.keys(READ).map((key) => [key, []]))) };
    let open = NaN;
    for (let i = 0; i < this.at.length; i += 1) {
      if (this.at[i] < from - this.stepMs) continue;
      const isNew = Math.floor(this.at[i] / bucket) !== open;
      open = Math.floor(this.at[i] / bucket);
      if (isNew) thin.at.push(this.at[i]); else thin.at[thin.at.length - 1] = this.at[i];
      for (const [metric, column] of Object.entries(thin.columns)) {
        const value = this.columns[metric][i];
        const before = isNew ? null : column.pop();
        column.push(metric === "limit" || !isKnown(before) || value > before ? value ?? before : before);
      }
    }
    this.bucketMs = bucket;
    this.thinned = thin;
  }

  /** Values at the lines' ends. @param {any} lane @param {(v: number) => number} yOf @param {number} top */
  ends(lane, yOf, top) {
    const last = (metric) => (this.at.at(-1) ?? 0) > this.now - this.stepMs * 2.5 - 1000 ? this.columns[metric].at(-1) ?? null : null;
    const rows = [];
    const put = (value, words, cls = "") => { if (isKnown(value)) rows.push({ y: yOf(value) + 4, words, cls }); };
    if (lane.title === "latency") put(last("mean_ms"), `mean ${wait(last("mean_ms"))}`, last("mean_ms") > this.targetMs ? "guard" : "");
    else if (lane.title === "dropped") put(last("dropped"), `${rate(last("dropped"))} a second`);
    else { put(last("limit"), `limit ${count(last("limit"))}`); put(last("in_flight"), `in flight ${count(last("in_flight"))}`, "quiet"); }
    if (lane.title === "latency" && rows[0]) {
      const target = yOf(this.targetMs) + 4;
      if (Math.abs(rows[0].y - target) < 15) rows[0].y = target + (rows[0].y > target ? 15 : -15);
    }
    if (rows[1] && Math.abs(rows[1].y - rows[0].y) < 15) rows[1].y = rows[0].y + 15;
    const over = (rows.at(-1)?.y ?? 0) - (top + lane.height - 3);
    if (over > 0) for (const row of rows) row.y -= over;
    return rows;
  }

  /** A line that is lifted where nothing is known. @param {string} metric @param {(t: number) => number} x @param {(v: number) => number} yOf @param {(v: number) => boolean} keep @param {boolean} steps */
  path(metric, x, yOf, keep = () => true, steps = false) {
    const { at, columns } = this.thinned;
    let d = "";
    let pen = false;
    for (let i = 0; i < at.length; i += 1) {
      if (i && at[i] - at[i - 1] > this.bucketMs + this.stepMs * 2.5 + 500) pen = false;
      const v = columns[metric][i];
      if (!isKnown(v) || !keep(v)) { pen = false; continue; }
      const px = x(at[i]).toFixed(1);
      const py = yOf(v).toFixed(1);
      d += pen ? (steps ? `H${px}V${py}` : `L${px} ${py}`) : `M${px} ${py}`;
      pen = true;
    }
    return d;
  }

  /** @param {string} metric @param {(t: number) => number} x @param {(v: number) => number} yOf @param {number} base */
  area(metric, x, yOf, base) {
    const { at, columns } = this.thinned;
    const column = columns[metric];
    let d = "";
    let start = -1;
    const close = (i) => { if (start >= 0) d += `H${x(at[i]).toFixed(1)}V${base}Z`; start = -1; };
    for (let i = 0; i < at.length; i += 1) {
      if (start >= 0 && (!isKnown(column[i]) || at[i] - at[i - 1] > this.bucketMs + this.stepMs * 2.5 + 500)) close(i - 1);
      if (!isKnown(column[i])) continue;
      const px = x(at[i]).toFixed(1);
      const py = yOf(column[i]).toFixed(1);
      d += start < 0 ? `M${px} ${base}V${py}` : `H${px}V${py}`;
      start = i;
    }
    if (start >= 0) close(at.length - 1);
    return d;
  }

  /** Spans without samples. @param {number} from @returns {[number, number][]} */
  gaps(from) {
    const most = this.stepMs * 2.5 + 500;
    /** @type {[number, number][]} */
    const out = [];
    for (let i = 1; i < this.at.length; i += 1) if (this.at[i] - this.at[i - 1] > most && this.at[i] > from) out.push([this.at[i - 1], this.at[i]]);
    const last = this.at.at(-1);
    if (last && this.now - last > most) out.push([last, this.now]);
    return out;
  }

  sentence() {
    const last = (metric) => this.columns[metric].at(-1);
    return `${this.name}: limit ${count(last("limit"))}, in flight ${count(last("in_flight"))}, mean latency ${wait(last("mean_ms"))} of ${wait(this.targetMs)}`;
  }
}
