// What does each field of a policy mean, in which unit is it written, and what would a change do?
import { NBSP, bytes, count, duration, isKnown } from "../js/units.js";

/** @typedef {{name: string, kind: "count"|"bytes"|"ms"|"s"|"share"|"number"|"flag"|"word"|"text"|"json", words?: string[], nullWord?: string, means: string}} Field */

/** @type {[string, Field[]][]} */
export const GROUPS = [
  ["Bounds", [
    f("max_count", "count", "jobs waiting and delayed", "no bound"), f("max_bytes", "bytes", "stored size of what waits and is delayed", "no bound"), f("max_cost_ms", "ms", "work waiting, as estimated service time", "no bound"),
    f("max_age_s", "s", "refuses while the oldest waits longer than this", "no bound"), f("max_wait_s", "s", "alone enough: count and work bounds follow from the measured rate", "no bound"),
    f("tenant_share", "share", "most of any bound that one tenant may fill", "1 with one tenant, 0.8 with more"), f("on_full", "word", "what happens to an offer at a bound", "", ["reject", "block", "drop_newest", "drop_oldest", "coalesce", "sample", "spill", "degrade"]),
    f("block_s", "s", "longest wait of a producer where on_full is block", "not used"), f("sample_rate", "share", "share kept where on_full is sample", "not used"), f("waiting_room_max", "count", "tickets that may be out where offers wait in line for room", "no waiting room"), f("waiting_room_slot_s", "s", "how late a ticket's holder may come back"), f("may_coalesce", "flag", "jobs of one coalesce key may replace each other; a key is refused where they may not"),
    f("degrade_to", "text", "the cheaper task where on_full is degrade; it takes the same arguments", "not used"), f("degrade_reserve", "share", "how far beyond each bound degraded jobs may stand in this queue", "not used"), f("degrade_queue", "text", "or the queue that takes them, within its own bounds", "they stay"),
    f("spill_max_count", "count", "jobs in the spill where on_full is spill", "no bound"), f("spill_max_bytes", "bytes", "stored size in the spill", "no bound"), f("spill_max_age_s", "s", "spilled jobs older than this expire", "no bound"),
  ]],
  ["Age", [f("guard_age_s", "s", "older than this calls for attention, and for saturated", "no guard"), f("age_ceiling_s", "s", "older jobs get a bounded share of starts, never ahead of critical", "no ceiling"), f("objective_s", "s", "completion promise", "none"), f("objective_share", "share", "share of jobs that keep it", "none")]],
  ["Order and share", [
    f("strict_rank", "number", "0 runs first, 1 next; shared by weight if unset", "by weight"), f("weight", "number", "share of slot time by cost, among queues without a rank"), f("order", "word", "lifo holds while saturated only; edf: earliest deadline first, those without one last", "", ["fifo", "lifo", "edf"]),
    f("reserved_slots", "count", "worker slots kept free for this queue"), f("max_in_flight", "count", "most jobs running at once", "no cap"), f("max_in_flight_per_task", "json", "most of a task running at once, by its name: {\"reports.build\": 2}", "no cap"), f("codel_target_ms", "ms", "controlled delay: the longest wait once the queue has not been empty for an interval; who waits longer is shed", "off"), f("codel_interval_ms", "ms", "controlled delay: the interval, and the longest wait before", "off"),
    f("downstream", "text", "name of what the work calls (Downstreams); its limit holds over all workers", "none"), f("rate_limits", "json", "most offers in a time, per tenant, key or queue: a list of {per, kind, limit, window_s, burst}"),
  ]],
  ["Modes", [f("saturated_share", "share", "part of every bound in force while saturated; 0 closes"), f("admit_while_draining", "flag", "admitted even while draining"), f("high_mark", "share", "share of a bound that counts as saturated"), f("low_mark", "share", "share under which saturated is left"), f("hold_s", "s", "how long either must hold")]],
  ["Deliveries", [f("max_deliveries", "count", "after so many lost deliveries a job goes to quarantine"), f("lease_s", "s", "a holder that is silent for so long loses the job"), f("unknown_task_grace_s", "s", "how long an unknown task waits for a worker that knows it")]],
  ["Quarantine", [f("quarantine_max_count", "count", "jobs held", "no bound"), f("quarantine_max_bytes", "bytes", "stored size held", "no bound"), f("quarantine_max_age_s", "s", "longest held", "no bound"), f("on_quarantine_full", "word", "what goes when it is full", "", ["drop_oldest", "drop_newest"]), f("owner", "text", "who looks after it", "nobody")]],
  ["Payloads", [f("payload_class", "word", "of jobs that name none: who may see what they carry, and how long it is kept", "", ["public", "internal", "personal", "secret"])]],
];

/** @param {string} name @param {Field["kind"]} kind @param {string} means @param {string} [nullWord] @param {string[]} [words] @returns {Field} */
function f(name, kind, means, nullWord, words) {
  return { name, kind, means, nullWord, words };
}

export const UNITS = { count: "", bytes: "bytes", ms: "ms", s: "s", share: "0 to 1", number: "", flag: "", word: "", text: "", json: "JSON" };

/** The value in words beside the raw number. @param {Field} field @param {any} value */
export function valueWords(field, value) {
  if (value === null || value === undefined) return field.nullWord || "none";
  if (field.kind === "bytes") return bytes(value);
  if (field.kind === "ms") return duration(value);
  if (field.kind === "s") return duration(value * 1000);
  if (field.kind === "share") return `${Number((value * 100).toPrecision(3))}${NBSP}%`;
  if (field.kind === "count") return count(value);
  if (field.kind === "flag") return value ? "yes" : "no";
  if (field.name === "rate_limits" && Array.isArray(value) && value.length) return value.map(limitWords).join("; ");
  if (field.kind === "json") return Array.isArray(value) && !value.length ? "none" : JSON.stringify(value);
  return String(value);
}

/** A rate limit in words. @param {any} l */
export function limitWords(l) {
  if (!l || typeof l !== "object") return String(l);
  const burst = isKnown(l.burst) ? `, ${count(l.burst)} at once` : "";
  return `${count(l.limit)} in ${duration((l.window_s || 0) * 1000)} per ${l.per} (${String(l.kind || "token_bucket").replaceAll("_", " ")}${burst}${l.where === "local" ? ", counted in each producer" : ""})`;
}

/** What becomes of an offer that finds the bound reached. */
const AT_BOUND = { reject: "new offers are refused", block: "new offers wait, then are refused", drop_newest: "new offers are dropped", drop_oldest: "the oldest are dropped for new ones", coalesce: "new offers replace those of their key or are refused", sample: "a sample of new offers is kept", spill: "new offers are spilled", degrade: "new offers are degraded" };

/** The mode that closes a queue, if one does; `edits` may open it or close it. @param {import("../js/frame.js").Queue} q @param {Record<string, any>} edits */
function closedBy(q, edits) {
  const share = edits.saturated_share ?? q.saturated_share;
  const admits = edits.admit_while_draining ?? q.admit_while_draining;
  return q.mode === "failed" || (q.mode === "draining" && !admits) || (q.mode === "saturated" && share === 0) ? q.mode : "";
}

/**
 * What a changed bound would mean at this moment.
 * @param {Field} field @param {any} next @param {import("../js/frame.js").Queue|undefined} q @param {Record<string, any>} [edits] all that would change with it
 */
export function effectWords(field, next, q, edits = {}) {
  if (!q) return "";
  const closed = closedBy(q, edits);
  const share = q.mode === "saturated" && !closed ? edits.saturated_share ?? q.saturated_share ?? 1 : 1;
  /** @param {number|null} value @param {(n: number) => string} form @param {string} what @param {number} [behind] the part that its downstream lets work */
  const against = (value, form, what, behind = 1) => {
    if (!isKnown(value)) return closed ? `closed by mode ${closed}` : "";
    const said = `now ${form(value)} ${what}`;
    if (!isKnown(next)) return closed ? `${said}: closed by mode ${closed}; otherwise without a bound` : `${said}, without a bound`;
    const bound = Math.floor(next * behind * share);
    const filled = value >= bound ? `at the bound at once: ${AT_BOUND[edits.on_full ?? q.on_full ?? "reject"] || "new offers find no room"}` : `${Math.round((value / bound) * 100)}${NBSP}% of ${bound < next ? `the ${form(bound)} in force of the new bound` : "the new bound"}`;
    return `${said}: ${closed ? `closed by mode ${closed}; otherwise ${filled}` : filled}`;
  };
  if (field.name === "max_count") return against(isKnown(q.depth) ? q.depth + (q.delayed || 0) - (q.spilled || 0) : null, count, "held", q.downstream_share ?? 1);
  if (field.name === "max_bytes") return against(q.bytes, bytes, "stored");
  if (field.name === "max_cost_ms") return against(q.cost_ms, duration, "of work waits", q.downstream_share ?? 1);
  if (field.name === "guard_age_s" || field.name === "age_ceiling_s" || field.name === "max_age_s") return isKnown(q.oldest_age_ms) ? `oldest now ${duration(q.oldest_age_ms)}: ${isKnown(next) && q.oldest_age_ms > next * 1000 ? "past it at once" : "within it"}` : "";
  if (field.name === "max_in_flight") return isKnown(q.in_flight) ? `now ${count(q.in_flight)} in flight` : "";
  if (field.name === "saturated_share") {
    if (next === 0) return q.mode === "saturated" ? "closes it at once" : "closed while saturated";
    const room = q.bounds?.count ? `up to ${count(Math.floor(q.bounds.count * next))} jobs while saturated` : "";
    return q.mode === "saturated" && q.saturated_share === 0 ? `opens it at once${room ? `: ${room}` : ""}` : room;
  }
  if (field.name === "admit_while_draining" && q.mode === "draining") return next ? "opens it at once" : "closes it at once";
  return "";
}
