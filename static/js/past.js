// No frame has come to this page: what was known before? The newest sample of the history with the policies, put as a frame.
import { get } from "./api.js";
import { RANGES } from "./history.js";

/** @typedef {import("./frame.js").Frame} Frame @typedef {import("./frame.js").Queue} Queue @typedef {import("./history.js").History} History */

const RATES = ["offered", "accepted", "refused", "shed", "succeeded", "failed"];

/**
 * Null where nothing was kept. Leaves the history at the shortest range, from the one it has on, that holds a sample.
 * @param {History} history @param {number} nowMs @returns {Promise<Frame|null>}
 */
export async function readPast(history, nowMs) {
  for (const range of RANGES.slice(RANGES.indexOf(history.range))) {
    if (!history.at.length) await history.load(range, nowMs);
  }
  if (!history.at.length) return null;
  const [policies, moves, firing, held] = await Promise.all([get("/policies"), get("/transitions?scope=*&limit=1"), get("/alerts?state=firing&limit=50"), get("/quarantine?limit=1")]);
  return pastFrame(history, { policies: policies.policies, move: moves.transitions[0] || null, alerts: firing.alerts, held }, nowMs);
}

/** As a frame has them: strict ranks first, then the heavier. @param {any[]} policies @returns {any[]} */
export function inOrder(policies) {
  const rank = (p) => p.strict_rank ?? Infinity;
  return [...policies].sort((a, b) => (rank(a) === rank(b) ? (b.weight || 0) - (a.weight || 0) || a.queue.localeCompare(b.queue) : rank(a) - rank(b)));
}

/**
 * What the history does not keep is unknown: workers, tenants, states, reasons of refusals.
 * @param {History} history @param {{policies: any[], move: any, alerts: any[], held: any}} known @param {number} nowMs @returns {Frame}
 */
export function pastFrame(history, known, nowMs) {
  const last = history.at.length - 1;
  const policies = new Map(known.policies.map((p) => [p.queue, p]));
  const mode = known.move ? known.move.after : "normal";
  const read = (name, metric) => history.column(name, metric)[last] ?? null;
  const queues = inOrder(Object.keys(history.queues).map((name) => policies.get(name) || { queue: name })).map((p) => {
    const name = p.queue;
    const bounds = { count: p.max_count ?? null, bytes: p.max_bytes ?? null, cost_ms: p.max_cost_ms ?? null, age_s: p.max_age_s ?? null };
    return /** @type {Queue} */ (/** @type {any} */ ({
      name, mode, state: "unknown", state_since_at_ms: null, bounds, bounds_in_force: bounds, totals: {}, drain: { state: "unknown" }, slots: null, consumers: null,
      ...Object.fromEntries(["depth", "delayed", "spilled", "in_flight", "bytes", "cost_ms", "oldest_age_ms"].map((metric) => [metric, read(name, metric)])),
      rates: Object.fromEntries(RATES.map((metric) => [metric, read(name, metric)])), wait_ms: { p50: read(name, "wait_p50"), p95: read(name, "wait_p95"), p99: read(name, "wait_p99") },
      ...Object.fromEntries(["guard_age_s", "age_ceiling_s", "weight", "strict_rank", "saturated_share", "reserved_slots", "owner", "on_full"].map((field) => [field, p[field] ?? null])),
      policy_version: p.version, unknown: { slots: "the history does not keep them" },
    }));
  });
  const oldest = known.held.oldest_at_ms;
  return /** @type {Frame} */ (/** @type {any} */ ({
    seq: -1, at_ms: history.at[last], sampled_ago_ms: 0, isPast: true, queues, mode, mode_since_at_ms: known.move?.at_ms ?? null, mode_reason: known.move?.reason || "first start", mode_before: known.move?.before, mode_by: known.move?.by, mode_automatic: known.move?.automatic,
    alerts: { firing: known.alerts.length, items: known.alerts.map((a) => ({ ...a, sentence: `${a.queue ? `${a.queue}: ` : ""}rule ${a.rule}` })), last_at_ms: null }, tenants: [], workers: [],
    quarantine: { count: known.held.count, causes: known.held.causes, oldest_age_ms: oldest ? Math.max(0, nowMs - oldest) : null },
  }));
}
