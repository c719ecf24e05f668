// What does a queue's state say in words, and what comes next for it?
import { NBSP, clock, count, duration, isKnown, range, roughly } from "./units.js";

/** @typedef {import("./frame.js").Queue} Queue */

const WORDS = {
  in_bounds: "in bounds", past_guard: "past guard", past_ceiling: "past ceiling", at_bound: "at its bound",
  closed: "closed by mode", stalled: "stalled, no consumer", unknown: "unknown",
};

/** Why an offer was refused, in words. @type {Record<string, string>} */
export const REASON_WORDS = { count: "count bound", bytes: "bytes bound", cost: "work bound", age: "age bound", tenant: "tenant share", rate: "rate limit", deadline: "deadline", downstream: "downstream limit", waiting_room: "waiting room", mode: "mode", unavailable: "unavailable", size: "too large", duplicate: "duplicate", coalescing: "coalesce key", suspended: "suspended tenant", revoked: "revoked key" };

/** @param {Queue} queue @param {number} nowMs */
export function stateWord(queue, nowMs) {
  const word = WORDS[queue.state] || String(queue.state || "unknown").replaceAll("_", " ");
  const abnormal = ["past_guard", "past_ceiling", "at_bound", "stalled"].includes(queue.state);
  if (abnormal && isKnown(queue.state_since_at_ms) && nowMs - queue.state_since_at_ms >= 1000)
    return `${word} ${sinceWord(nowMs - queue.state_since_at_ms)}`;
  if (queue.state === "closed" && queue.mode === "draining") return "closed, draining";
  return word;
}

/** Seconds matter in the first ten minutes only. @param {number} ms */
function sinceWord(ms) {
  const unit = ms < 600000 ? 1000 : 60000;
  return duration(Math.floor(ms / unit) * unit);
}

/** Where the queue stands among the others, and what is kept for it. @param {Queue} queue @returns {string[]} */
export function policyWords(queue) {
  const words = [];
  if (isKnown(queue.strict_rank)) words.push(queue.strict_rank === 0 ? "strict first" : `strict, rank ${queue.strict_rank + 1}`);
  else if (isKnown(queue.weight)) words.push(`weight ${queue.weight}`);
  if (isKnown(queue.reserved_slots) && queue.reserved_slots > 0) words.push(`${queue.reserved_slots} slots kept`);
  return words;
}

/**
 * The forecast in a headline and a line under it; `modeled` says which of the two the model made.
 * @param {Queue} queue
 * @returns {{head: string, line: string, headModeled: boolean, lineModeled: boolean}}
 */
export function forecastWords(queue) {
  const drain = queue.drain || { state: "unknown" };
  const seconds = isKnown(drain.seconds) ? drain.seconds * 1000 : null;
  const band = isKnown(drain.low) && isKnown(drain.high) ? `${range(drain.low * 1000, drain.high * 1000)}, modeled` : "modeled";
  const plain = (head, line) => ({ head, line, headModeled: false, lineModeled: false });
  // A queue may have consumers and get nothing of them: what goes strictly before it takes all.
  if (drain.state === "stalled") {
    const line = isKnown(drain.full_in_s) ? `full in ${roughly(drain.full_in_s * 1000)}, modeled` : `${count(queue.depth)} waiting`;
    return { head: `stalled: ${drain.reason || "no consumer"}`, line, headModeled: false, lineModeled: isKnown(drain.full_in_s) };
  }
  if (drain.state === "growing" && queue.state === "at_bound") return plain("full", "more comes than is done");
  if (drain.state === "growing") {
    const full = isKnown(drain.full_in_s) ? `growing: full in ${roughly(drain.full_in_s * 1000)}` : "growing";
    return { head: full, line: isKnown(drain.full_in_s) ? "modeled" : "more comes than is done", headModeled: isKnown(drain.full_in_s), lineModeled: false };
  }
  if (drain.state === "empty") {
    const busy = isKnown(queue.rates?.accepted) && queue.rates.accepted >= 0.1;
    const turnedAway = isKnown(queue.rates?.refused) && queue.rates.refused >= 0.1 && !busy;
    if (queue.state === "closed" || turnedAway) return plain("refusing", "no backlog");
    return busy ? plain("steady", "no backlog") : plain("empty", "no backlog");
  }
  if (drain.state === "draining" && seconds !== null) {
    if (queue.state === "closed") return { head: "refusing", line: `${count(queue.depth)} drain in ${roughly(seconds)}, ${band}`, headModeled: false, lineModeled: true };
    if (seconds < 2500) return plain("steady", "arrivals = completions");
    return { head: `drains in ${roughly(seconds)}`, line: band, headModeled: true, lineModeled: false };
  }
  if (drain.state === "steady") return plain("steady", "arrivals = completions");
  return plain("unknown", queue.unknown?.drain || queue.unknown?.["drain.seconds"] || drain.reason || "no samples yet");
}

/** @param {number} atMs */
export function lastWord(atMs) {
  return `last${NBSP}${clock(atMs)}`;
}

/** How bad, for "worst first": higher is worse. @param {Queue} queue */
export function severity(queue) {
  const rank = { past_ceiling: 6, at_bound: 5, stalled: 5, past_guard: 4, unknown: 3, closed: 2, in_bounds: 1 };
  return rank[queue.state] ?? 3;
}
