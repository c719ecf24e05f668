// What became of what was replayed, and what does that say of the next replay? Words only from what is known.
import { get } from "../js/api.js";
import { h } from "../js/dom.js";
import { NBSP, count, percent, plural } from "../js/units.js";

/** @typedef {{of: number, succeeded: number, failed: number, open: number, other: number, unknown: number}} Outcomes */

/** An operation that is no longer there ended; one that is not settled is asked for again after so long. */
const AGAIN_MS = 2000;
/** Of fewer ended replays nothing is modeled: they are told as they are. */
const FEW = 5;
const ENDED = ["succeeded", "failed", "expired", "cancelled", "superseded", "shed", "lost"];

/** How many ended how; the two that matter also where they are none. @param {Outcomes} o */
export function outcomeWords(o) {
  const parts = [`${count(o.succeeded)} succeeded`, `${count(o.failed)} failed again`];
  if (o.open) parts.push(`${count(o.open)} ${o.open === 1 ? "has" : "have"} not ended`);
  if (o.other) parts.push(`${count(o.other)} ended otherwise`);
  if (o.unknown) parts.push(`${count(o.unknown)} unknown, no longer kept`);
  return parts.join(", ");
}

/**
 * How many of `n` are likely to fail again: by the earlier replays of the same cause, else of the same task, else unknown.
 * The queue's own rate says nothing of a job that has failed for good already.
 * @param {{cause: Outcomes|null, task: Outcomes|null}} known @param {number} n @param {string} task
 * @returns {{said: string, modeled: boolean, warns: boolean, why: string}}
 */
export function failAgain(known, n, task) {
  for (const [o, whose] of /** @type {[Outcomes|null, string][]} */ ([[known.cause, "this cause"], [known.task, task]])) {
    const ended = o ? o.succeeded + o.failed : 0;
    if (!o || !ended) continue;
    const open = o.open ? `; ${count(o.open)} more ${o.open === 1 ? "has" : "have"} not ended` : "";
    if (!o.failed && ended < FEW) return { said: "unknown", modeled: false, warns: false, why: `${plural(ended, "earlier replay")} of ${whose} succeeded: too few to say${open}` };
    const share = o.failed / ended;
    // A fact, not yet a model.
    if (ended < FEW) return { said: `${count(o.failed)} of ${count(ended)} did`, modeled: false, warns: true, why: `of the earlier replays of ${whose}; too few to model from${open}` };
    const again = n === 1 ? percent(share) : `${count(o.failed ? Math.max(1, Math.round(share * n)) : 0)} of ${count(n)}`;
    return { said: again, modeled: true, warns: share > 0.2, why: `${count(o.failed)} of the ${plural(ended, "earlier replay")} of ${whose} failed again${open}` };
  }
  const open = (known.cause?.open || 0) || (known.task?.open || 0);
  const told = open ? `${plural(open, "earlier replay")} ${open === 1 ? "has" : "have"} not ended yet` : `no replay of this cause${task ? `, nor of ${task},` : ""} is known to have ended`;
  return { said: "unknown", modeled: false, warns: false, why: told };
}

/** The operation that replays another, and how it stands; read again until it ends. @param {string} id @param {Node} link */
export function replayedAs(id, link) {
  const said = h("span", { class: "quiet", role: "status" });
  const read = async () => {
    let job;
    try { job = await get(`/jobs/${encodeURIComponent(id)}`); } catch (error) { said.textContent = `, unknown: ${/** @type {Error} */ (error).message}`; return; }
    said.textContent = `,${NBSP}${job.status}${job.phase && !ENDED.includes(job.status) ? ` (${job.phase})` : ""}${job.quarantined ? " and back in quarantine" : ""}`;
    if (!ENDED.includes(job.status)) setTimeout(() => { if (said.isConnected) read(); }, AGAIN_MS);
  };
  read();
  return h("span", {}, link, said);
}
