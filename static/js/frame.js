// What does a frame hold? Types for the editor, and the few readings that several parts need.
import { isKnown } from "./units.js";

/**
 * @typedef {Record<string, number|null>} Rates
 * @typedef {{count: number|null, bytes: number|null, cost_ms: number|null, age_s: number|null}} Bounds
 * @typedef {{state: string, seconds?: number|null, low?: number|null, high?: number|null, full_in_s?: number|null, inputs?: any, reason?: string}} Drain
 * @typedef {{name: string, mode: string, state: string, state_since_at_ms: number|null, depth: number|null, delayed: number|null,
 *   in_flight: number|null, bytes: number|null, cost_ms: number|null, oldest_age_ms: number|null, consumers: number|null, slots: number|null,
 *   bounds: Bounds, bounds_in_force: Bounds, guard_age_s: number|null, age_ceiling_s: number|null, weight: number|null, strict_rank: number|null,
 *   saturated_share: number|null, admit_while_draining?: boolean, downstream_share?: number, reserved_slots?: number|null, owner?: string|null, totals: Record<string, any>, rates: Rates,
 *   wait_ms: {p50: number|null, p95: number|null, p99: number|null}, drain: Drain, unknown?: Record<string, string>,
 *   mode_since_at_ms?: number|null, mode_reason?: string|null, wait_bins?: any, policy_version?: number, tenants_known?: number, on_full?: string, spilled?: number,
 *   spill?: any, objective?: any, blocked_keys?: any[], blocked_keys_known?: number}} Queue
 * @typedef {{seq: number, at_ms: number, sampled_ago_ms: number|null, mode: string, mode_since_at_ms: number|null, mode_reason: string|null,
 *   mode_before?: string, mode_by?: string, mode_automatic?: boolean, mode_until_at_ms?: number|null, mode_pinned?: boolean, mode_leaves?: string|null, installation?: string,
 *   verdict?: {shape: string, headline: string, lines: string[]}, redis?: any, database?: any, notices?: {kind: string, text: string, since_at_ms: number}[], alerts?: {firing: number, items: any[], last_at_ms?: number|null},
 *   isPast?: boolean, quarantine?: any, events?: any[], queues: Queue[], tenants: any[], tenants_left_out?: number, workers: any[], unknown?: Record<string, string>}} Frame
 */

/** Sum of a field over queues; unknown as soon as one part is. @param {Queue[]} queues @param {(q: Queue) => number|null|undefined} pick @returns {number|null} */
export function sum(queues, pick) {
  let total = 0;
  for (const queue of queues) {
    const value = pick(queue);
    if (!isKnown(value)) return null;
    total += value;
  }
  return total;
}

/** Has anything ever been offered to any queue? @param {Frame} frame */
export function isUntouched(frame) {
  return frame.queues.every((q) => !q.totals || !(q.totals.offered > 0));
}

/** The letter of a queue in slot cells; the first letter that no earlier queue took. @param {string[]} names */
export function letters(names) {
  const taken = new Set();
  const out = {};
  for (const name of names) {
    const letter = [...name.toLowerCase()].find((c) => /[a-z0-9]/.test(c) && !taken.has(c)) || name[0] || "?";
    taken.add(letter);
    out[name] = letter;
  }
  return out;
}

/** The moment of a frame's figures: when it was sampled, not when it was sent. @param {Frame} frame */
export function sampledAt(frame) {
  return frame.at_ms - (isKnown(frame.sampled_ago_ms) ? frame.sampled_ago_ms : 0);
}
