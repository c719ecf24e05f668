// Which strips stand under the rows, how high, on what scale? Pure: history and frame to lanes.
import { NBSP, bytes, count, duration, isKnown } from "./units.js";

/** @typedef {import("./frame.js").Frame} Frame @typedef {import("./frame.js").Queue} Queue @typedef {import("./history.js").History} History */
/** @typedef {{key: string, kind: "age"|"flow"|"depth"|"bytes"|"waits", queue: string|null, title: string, sub: string, height: number, pad: number, lead: boolean}} Lane */

const MOST_LANES = 8;
const MOST_DEPTH_LANES = 3;

/** @param {Frame} frame @param {string[]} order @param {string[]} depthNames @param {string} subject @param {boolean} narrow @returns {Lane[]} */
export function layLanes(frame, order, depthNames, subject, narrow) {
  const ages = narrow ? [subject] : order.slice(0, MOST_LANES);
  const depths = narrow ? [subject] : depthNames;
  const byName = new Map(frame.queues.map((q) => [q.name, q]));
  /** @type {Lane[]} */
  const lanes = ages.map((name, i) => ({ key: `age ${name}`, kind: "age", queue: name, title: i === 0 ? "oldest waiting" : "", sub: `${name}, ${ageUnit(byName.get(name)).word}`, height: narrow ? 122 : i === 0 ? 66 : 58, pad: narrow ? 34 : i === 0 ? 12 : 8, lead: i === 0 }));
  lanes.push({ key: "flow", kind: "flow", queue: null, title: "jobs per second", sub: frame.queues.length === 1 ? frame.queues[0].name : "all queues", height: narrow ? 160 : 122, pad: narrow ? 34 : 14, lead: true });
  depths.forEach((name, i) => lanes.push({ key: `depth ${name}`, kind: "depth", queue: name, title: i === 0 ? "waiting, jobs" : "", sub: name, height: narrow ? 140 : i === 0 ? 96 : 78, pad: narrow ? 44 : 12, lead: i === 0 }));
  if (!narrow) {
    lanes.push({ key: "bytes", kind: "bytes", queue: null, title: "stored", sub: frame.queues.length === 1 ? frame.queues[0].name : "all queues", height: 46, pad: 8, lead: true });
    lanes.push({ key: `waits ${subject}`, kind: "waits", queue: subject, title: "wait at start", sub: `${subject}; ${"brighter"}`, height: 104, pad: 6, lead: true });
  }
  return lanes;
}

/** The queues whose backlog is worth a strip, in row order. @param {Frame} frame @param {History} history @param {string[]} order */
export function depthQueues(frame, history, order) {
  const score = (q) => {
    let most = q.depth || 0;
    for (const v of history.column(q.name, "depth")) if (v > most) most = v;
    return most / (q.bounds?.count || 10000);
  };
  const scored = frame.queues.map((q) => ({ name: q.name, score: score(q) })).sort((a, b) => b.score - a.score);
  const chosen = scored.filter((x, i) => i < MOST_DEPTH_LANES && x.score > 0.02).map((x) => x.name);
  // Where nothing stands out: the queues that are allowed to wait, which come last.
  for (const name of [...order].reverse()) if (chosen.length < 2 && !chosen.includes(name)) chosen.push(name);
  return order.filter((name) => chosen.includes(name));
}

/** The queue that the heat map and the phone show: chosen row, else the one that is worst. @param {Frame} frame @param {string} selected */
export function subjectQueue(frame, selected) {
  if (selected && frame.queues.some((q) => q.name === selected)) return selected;
  const against = (q) => (isKnown(q.oldest_age_ms) && q.guard_age_s ? q.oldest_age_ms / (q.guard_age_s * 1000) : 0);
  const worst = [...frame.queues].sort((a, b) => against(b) - against(a))[0];
  if (worst && against(worst) > 0.9) return worst.name;
  return (frame.queues.find((q) => q.name === "normal") || worst || frame.queues[0])?.name || "";
}

/** @param {Queue|undefined} q @returns {{word: string, ms: number}} */
export function ageUnit(q) {
  const guard = (q?.guard_age_s || 30) * 1000;
  if (guard < 120000) return { word: "s", ms: 1000 };
  return guard < 7200000 ? { word: "min", ms: 60000 } : { word: "h", ms: 3600000 };
}

/** Scales grow at once, in steps, and shrink only after a minute. */
export class Scales {
  constructor() {
    /** @type {Map<string, {top: number, since: number}>} */
    this.held = new Map();
  }

  /** @param {string} key @param {number} wanted @param {number} nowMs */
  top(key, wanted, nowMs) {
    const nice = niceTop(wanted);
    const held = this.held.get(key);
    if (!held || nice > held.top) this.held.set(key, { top: nice, since: nowMs });
    else if (nice < held.top) {
      if (nowMs - held.since > 60000) this.held.set(key, { top: nice, since: nowMs });
    } else held.since = nowMs;
    return /** @type {any} */ (this.held.get(key)).top;
  }
}

/** @param {number} value */
export function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) if (value <= step * power * 1.0001) return step * power;
  return 10 * power;
}

/** Two marks on an axis. @param {number} top @returns {number[]} */
export function twoTicks(top) {
  const half = niceHalf(top * 0.45);
  return 2 * half <= top * 0.96 ? [half, 2 * half] : [half];
}

/** @param {number} value */
function niceHalf(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  let best = power;
  for (const step of [1, 2, 2.5, 5]) if (step * power <= value * 1.0001) best = step * power;
  return best;
}

/** @param {number} value a plain number for a tick */
export function tickText(value) {
  return value >= 1000 ? count(value) : String(Number(value.toPrecision(3)));
}

/** @param {Lane} lane @param {number|null|undefined} value in the lane's own measure */
export function valueText(lane, value) {
  if (!isKnown(value)) return "\u2013";
  if (lane.kind === "age") return duration(value);
  if (lane.kind === "bytes") return bytes(value);
  if (lane.kind === "depth") return count(value);
  return `${value.toFixed(1)}${NBSP}/s`;
}

/** Whole steps of the viewer's clock. @param {any} view @returns {number[]} */
export function timeTicks(view) {
  const shift = new Date(view.now).getTimezoneOffset() * 60000;
  const out = [];
  for (let t = Math.ceil((view.from - shift) / view.tick) * view.tick + shift; t <= view.to; t += view.tick) out.push(t);
  return out;
}
