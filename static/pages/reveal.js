// What a job carries is shown redacted. Who may see it, why do they want to, and what is it?
import { may, post } from "../js/api.js";
import { ask, reasonField } from "../js/dialog.js";
import { h } from "../js/dom.js";
import { bytes } from "../js/units.js";

/** @typedef {{id: string, payload_class: string, revealed_to: "operator"|"admin", task?: string}} Job */

/** Would a reveal show more than the page does? `kept` is said of arguments that are still stored. @param {any} kept @param {any} job */
export function hasMore(kept, job) {
  return Boolean(kept) || JSON.stringify([job.result, job.error, job.message, job.unknown?.result]).includes("redacted");
}

/** The button, or why there is none. @param {Job} job @param {(shown: any) => void} draw */
export function revealButton(job, draw) {
  if (!may(job.revealed_to)) return h("span", { class: "why" }, `redacted: ${job.payload_class}; ${job.revealed_to === "admin" ? "an admin" : "an operator"} may reveal it`);
  return h("button", { type: "button", "data-act": "reveal", onclick: () => askReveal(job, draw) }, "Reveal");
}

/** @param {Job} job @param {(shown: any) => void} draw */
function askReveal(job, draw) {
  const reason = reasonField("why it must be seen, for example a ticket");
  ask({
    title: `Reveal what 1 job of ${job.task || "an unknown task"} carries?`,
    lead: `${job.id}: its arguments, result, error and stored message. Class ${job.payload_class}.`,
    parts: [{ name: "reason", body: reason }, { name: "afterwards", body: `Shown on this page only, until it is left. Who looked, at what and why is written to the audit under ${document.body.dataset.user || "your name"}.` }],
    verb: "Reveal 1 job",
    canAct: () => (reason.value.trim() ? "" : "A reason is needed: it is kept in the audit."),
    act: async () => { draw(await post(`/jobs/${encodeURIComponent(job.id)}/reveal`, { reason: reason.value.trim() })); return "Revealed, and written to the audit."; },
  });
}

/** Text of redacted arguments, as the API renders them. @param {string|null|undefined} text @param {string} [none] */
export function redactedArguments(text, none = "not kept") {
  return text ? h("pre", { class: "args" }, text) : h("p", { class: "quiet" }, none);
}

/** Everything that was revealed. @param {any} shown */
export function revealed(shown) {
  const value = (v) => JSON.stringify(v, null, 1);
  return h("div", { "data-revealed": true },
    shown.unknown?.arguments ? h("p", { class: "quiet" }, `arguments: ${shown.unknown.arguments}`) : h("pre", { class: "args" }, value({ args: shown.args, kwargs: shown.kwargs })),
    shown.unknown?.result ? null : h("div", { class: "part" }, h("p", { class: "quiet" }, "result"), h("pre", { class: "args" }, value(shown.result))),
    shown.error?.message ? h("div", { class: "part" }, h("p", { class: "quiet" }, "error"), h("pre", { class: "trace" }, shown.error.traceback || `${shown.error.type}: ${shown.error.message}`)) : null,
    shown.payload?.bytes ? h("details", { class: "part" }, h("summary", { class: "quiet" }, `the stored message, ${bytes(shown.payload.bytes)}`), h("pre", {}, shown.payload.text)) : null);
}
