// What was measured until now? Columns of one time range, from the server's history first and from frames after.
import { get, query } from "./api.js";
import { isKnown } from "./units.js";

/** @typedef {import("./frame.js").Frame} Frame */

/** The ranges that can be chosen: what is looked back on, what is looked ahead, and the step of the labels. */
export const RANGES = [
  { key: "5 min", words: "Last 5 minutes", back: 300e3, ahead: 120e3, tick: 60e3, step: 1 },
  { key: "15 min", words: "Last 15 minutes", back: 900e3, ahead: 360e3, tick: 180e3, step: 1 },
  { key: "1 h", words: "Last hour", back: 3600e3, ahead: 900e3, tick: 600e3, step: 10 },
  { key: "6 h", words: "Last 6 hours", back: 21600e3, ahead: 3600e3, tick: 3600e3, step: 60 },
  { key: "24 h", words: "Last 24 hours", back: 86400e3, ahead: 10800e3, tick: 14400e3, step: 60 },
  { key: "7 d", words: "Last 7 days", back: 604800e3, ahead: 86400e3, tick: 86400e3, step: 900 },
];

/** Metrics of a queue: how a frame gives them, and how two of one step become one. */
const READ = {
  oldest_age_ms: (q) => q.oldest_age_ms, depth: (q) => q.depth, delayed: (q) => q.delayed, in_flight: (q) => q.in_flight, bytes: (q) => q.bytes, cost_ms: (q) => q.cost_ms,
  offered: (q) => q.rates?.offered, accepted: (q) => q.rates?.accepted, refused: (q) => q.rates?.refused, shed: (q) => q.rates?.shed,
  succeeded: (q) => q.rates?.succeeded, failed: (q) => q.rates?.failed, wait_p50: (q) => q.wait_ms?.p50, wait_p95: (q) => q.wait_ms?.p95, wait_p99: (q) => q.wait_ms?.p99,
  drain_s: (q) => q.drain?.seconds, wait_bins: (q) => q.wait_bins,
};

/** A metric of a queue as a frame has it. @param {any} q @param {string} metric */
export function readMetric(q, metric) {
  return READ[metric]?.(q) ?? null;
}

export class History {
  constructor() {
    /** @type {number[]} */
    this.at = [];
    /** @type {Record<string, Record<string, any[]>>} */
    this.queues = {};
    /** @type {any[]} */
    this.transitions = [];
    /** @type {any[]} */
    this.alerts = [];
    this.stepMs = 1000;
    this.range = RANGES[1];
    this.loadedAt = 0;
    this.error = "";
  }

  /** @param {typeof RANGES[number]} range @param {number} nowMs */
  async load(range, nowMs) {
    const mine = (this.loading = Symbol("load"));
    const data = await get(`/history${query({ all: 1, since: Math.round(nowMs - range.back), step: range.step })}`);
    if (this.loading !== mine) return false;
    this.range = range;
    const late = this.at.length && this.stepMs === 1000 ? this.framesAfter(data?.at_ms?.at?.(-1) || 0) : [];
    this.at = [...(data?.at_ms || [])];
    this.queues = {};
    for (const [name, metrics] of Object.entries(data?.queues || {})) {
      this.queues[name] = {};
      for (const [metric, values] of Object.entries(metrics)) this.queues[name][metric] = Array.isArray(values) ? [...values] : [];
    }
    this.stepMs = isKnown(data?.step_s) ? data.step_s * 1000 : usualStep(this.at) || range.step * 1000;
    this.transitions = data?.transitions || [];
    this.alerts = data?.alerts || [];
    this.loadedAt = performance.now();
    for (const frame of late) this.append(frame);
    return true;
  }

  /** Frames seen live that the server's history does not hold yet. @param {number} afterMs */
  framesAfter(afterMs) {
    return (this.recent || []).filter((f) => f.at_ms > afterMs);
  }

  /** @param {Frame} frame */
  append(frame) {
    if (!this.recent) this.recent = [];
    if (this.recent.at(-1) !== frame) this.recent.push(frame);
    if (this.recent.length > 30) this.recent.shift();
    const at = frame.at_ms;
    const last = this.at.length ? this.at[this.at.length - 1] : -Infinity;
    if (at <= last) return;
    const joins = this.stepMs > 1000 && Math.floor(at / this.stepMs) === Math.floor(last / this.stepMs);
    const index = joins ? this.at.length - 1 : this.at.length;
    if (!joins) this.at.push(at);
    for (const q of frame.queues) {
      const held = (this.queues[q.name] ||= {});
      for (const [metric, read] of Object.entries(READ)) {
        const column = (held[metric] ||= []);
        while (column.length < index) column.push(null);
        const value = read(q) ?? null;
        // A coarse step keeps its peak: an average would hide it.
        column[index] = joins && isKnown(column[index]) && isKnown(value) ? Math.max(column[index], value) : value ?? column[index] ?? null;
      }
    }
    const oldest = at - this.range.back - this.stepMs;
    let cut = 0;
    while (cut < this.at.length && this.at[cut] < oldest) cut += 1;
    if (cut > 30) {
      this.at.splice(0, cut);
      for (const held of Object.values(this.queues)) for (const column of Object.values(held)) column.splice(0, cut);
    }
  }

  /** @param {string} queue @param {string} metric @returns {any[]} */
  column(queue, metric) {
    return this.queues[queue]?.[metric] || [];
  }

  /** Sum over queues; unknown where any part is. @param {string[]} names @param {string} metric @returns {(number|null)[]} */
  total(names, metric) {
    const columns = names.map((n) => this.column(n, metric));
    return this.at.map((_, i) => {
      let total = 0;
      for (const column of columns) {
        if (!isKnown(column[i])) return null;
        total += column[i];
      }
      return total;
    });
  }

  /** Spans without samples: [from, to] pairs. @param {number} from @param {number} to @returns {[number, number][]} */
  gaps(from, to) {
    const limit = this.stepMs * 2.5 + 500;
    const out = [];
    for (let i = 1; i < this.at.length; i += 1) if (this.at[i] - this.at[i - 1] > limit && this.at[i] > from && this.at[i - 1] < to) out.push(/** @type {[number, number]} */ ([this.at[i - 1], this.at[i]]));
    return out;
  }
}

/** @param {number[]} at */
function usualStep(at) {
  if (at.length < 3) return 0;
  const steps = at.slice(1, 60).map((t, i) => t - at[i]).sort((a, b) => a - b);
  return Math.max(1000, Math.round(steps[Math.floor(steps.length / 2)] / 1000) * 1000);
}
