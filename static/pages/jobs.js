// What became of one operation, and how is one submitted by hand?
import { Problem, call, get, may, post } from "../js/api.js";
import { ask } from "../js/dialog.js";
import { $, h } from "../js/dom.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { shape } from "../js/shapes.js";
import { copy } from "../js/setup.js";
import { bytes, clock, count, duration, isKnown, plural, wait } from "../js/units.js";
import { at, choice, currentItem, facts, field, part, reading, setItem, startPage } from "./page.js";
import { replayedAs } from "./replayed.js";
import { hasMore, redactedArguments, revealButton, revealed } from "./reveal.js";
import { sixTimes, wholeSpan } from "./sixtimes.js";

const RECENT = "sluicegate.jobs";
const SETTLED = ["succeeded", "failed", "expired", "cancelled", "superseded", "shed", "lost"];
const SHAPES = { succeeded: "ring", pending: "dashed", running: "ring", failed: "diamond", lost: "diamond", cancelled: "slash", expired: "slash", superseded: "slash", shed: "slash" };
const root = $("[data-root]");
const input = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "an operation's id", "aria-label": "operation id", value: currentItem(), spellcheck: "false" }));
const look = h("form", { class: "acts", onsubmit: (event) => { event.preventDefault(); open(input.value.trim()); } }, h("div", { class: "search" }, input, h("kbd", {}, "/")), h("button", { type: "submit", class: "main" }, "Look up"));
const shown = h("div");
const recentNode = h("div");
const submitNode = h("div", { id: "submit" });
root.replaceChildren(h("div", { class: "section" }, look, h("br"), shown), h("div", { class: "section twocol" }, h("div", {}, part("Looked up here", "kept in this browser", recentNode)), h("div", {}, submitNode)));
let timer = 0;
/** @type {any} what was revealed */ let held = null;

function recent() {
  try { return JSON.parse(localStorage.getItem(RECENT) || "[]"); } catch { return []; }
}

/** @param {any} job */
function remember(job) {
  const list = [{ id: job.operation_id, task: job.task, status: job.status, at: Date.now() }, ...recent().filter((r) => r.id !== job.operation_id)].slice(0, 12);
  try { localStorage.setItem(RECENT, JSON.stringify(list)); } catch { /* a private window forgets */ }
  drawRecent();
}

function drawRecent() {
  const list = recent();
  recentNode.replaceChildren(list.length ? h("table", {}, h("tbody", {}, list.map((r) => h("tr", {}, h("td", {}, h("a", { class: "idlink", href: `/jobs/${encodeURIComponent(r.id)}/`, onclick: (event) => { event.preventDefault(); open(r.id); } }, String(r.id).slice(0, 13))), h("td", { class: "ink" }, r.task), h("td", {}, r.status), h("td", { class: "num quiet" }, clock(r.at)))))) : h("p", { class: "quiet" }, "Nothing yet. A job's id is what delay() returns, and operation_id in the API."));
}

/** @param {string} id */
function open(id) {
  clearTimeout(timer);
  input.value = id;
  setItem(id);
  if (!id) { shown.replaceChildren(h("p", { class: "empty-note" }, "Give an id to see what became of the operation: its status, its six times, its result or its error. Settled records are kept for a while (an hour unless the settings say otherwise), quarantined ones until they are replayed or discarded.")); return; }
  reading(shown, () => get(`/jobs/${encodeURIComponent(id)}`), (job) => { draw(job); remember(job); follow(job); });
}

/** An unsettled job is read again each second until it settles. @param {any} job */
function follow(job) {
  if (SETTLED.includes(job.status) && isKnown(job.times?.reported_at_ms ?? job.times?.committed_at_ms)) return;
  timer = window.setTimeout(async () => {
    try {
      const next = await get(`/jobs/${encodeURIComponent(job.operation_id)}`);
      if (input.value.trim() !== job.operation_id) return;
      if (JSON.stringify(next) !== JSON.stringify(job)) { draw(next); if (next.status !== job.status) remember(next); }
      follow(next);
    } catch { follow(job); }
  }, 1000);
}

/** Where a job stands that came to quarantine. */
const QUARANTINE_SAID = { held: "held in quarantine", replaying: "being replayed from quarantine", replayed: "replayed from quarantine", discarded: "discarded from quarantine", deleted: "what it carried was deleted" };

/** @param {any} job */
function draw(job) {
  const settled = SETTLED.includes(job.status);
  const why = settled ? `already ${job.status}` : may("operator") ? "" : "viewers may look; an operator may cancel";
  const kept = job.args_text || !settled || job.quarantined;
  // Where nothing is kept, or nothing was redacted, there is nothing to reveal.
  const reveal = hasMore(kept, job) || held?.operation_id === job.operation_id ? revealNode(job) : null;
  const span = wholeSpan(job.times);
  const link = (id) => h("a", { class: "idlink", href: `/jobs/${encodeURIComponent(id)}/`, onclick: (event) => { event.preventDefault(); open(id); } }, id);
  const phase = job.phase && !settled ? `, ${job.phase}${isKnown(job.due_at_ms) ? ` until ${clock(job.due_at_ms)}` : ""}` : "";
  shown.replaceChildren(
    h("div", { class: "detail-head" }, h("div", {}, h("h2", {}, job.task || "task unknown"), h("span", { class: "mono" }, job.operation_id), " ", h("button", { type: "button", class: "plain", onclick: () => copyId(job.operation_id) }, h("kbd", {}, "C"), h("span", { "data-copy-word": true }, "copy"))),
      h("div", { class: "acts", "data-status": job.status }, shape(SHAPES[job.status] || "dashed"), h("b", {}, `${job.status}${phase}`), job.cancel_requested && !settled ? h("span", { class: "quiet" }, "cancel requested") : null, job.quarantined || job.quarantine ? h("a", { class: "link", href: `/quarantine/${encodeURIComponent(job.operation_id)}/` }, QUARANTINE_SAID[job.quarantine] || `came to quarantine; where it stands is unknown: ${job.unknown?.quarantine || "not told"}`) : null),
      h("div", { class: "joined" }, h("button", { type: "button", "data-needs-gate": true, "aria-disabled": why ? "true" : null, title: why || null, onclick: () => { if (!why) askCancel(job); } }, "Cancel this job"))),
    why && !settled ? h("p", { class: "why part" }, why) : "",
    part("Six times", span === null ? "" : `${span < 1000 ? wait(span) : duration(span)} in all; not to scale`, h("div", { class: "scrollx" }, sixTimes(job.times || {}, job.attempts > 1 ? `${count(job.attempts)} attempts,` : "ran"))),
    h("div", { class: "twocol" }, part("Facts", null, facts([["queue", h("a", { class: "link", href: `/queues/${encodeURIComponent(job.queue)}/` }, job.queue)], ["tenant", job.tenant], ["class", job.payload_class], ["attempts", `${count(job.attempts)}, ${plural(job.deliveries ?? 0, "delivery", "deliveries")}${job.lost_count ? `, lost ${count(job.lost_count)} times` : ""}`], ["worker", job.worker || "none yet"], ["size", bytes(job.bytes)], ["cost", isKnown(job.cost_ms) ? `${duration(job.cost_ms)}, estimated` : job.unknown?.cost_ms || "not estimated"],
      ["deadline", isKnown(job.deadline_at_ms) ? at(job.deadline_at_ms) : "none"], ["tags", (job.tags || []).join(", ") || null], ["trace", job.traceparent ? h("span", { class: "mono" }, job.traceparent) : null], ["degraded from", job.degraded_from ? `${job.degraded_from.task} in ${job.degraded_from.queue}, which was full (${job.degraded_from.reason})` : null], ["dropped", job.refused_by ? `its queue was full (${job.refused_by}) and drops what has no room` : null], ["superseded by", job.superseded_by ? link(job.superseded_by) : null], ["ordering key", job.ordering_key || null], ["replay of", job.replay_of ? link(job.replay_of) : null], ["replayed as", job.replayed_as ? replayedAs(job.replayed_as, link(job.replayed_as)) : null]])),
      part("Arguments", "as their class allows", redactedArguments(job.args_text, job.unknown?.args_text || "none"), kept ? reveal : null),
      h("div", { class: "whole" }, job.error ? part("Error", null, h("p", { class: "mono ink" }, h("b", {}, job.error.type), `: ${job.error.message || ""}`), h("br"), job.error.traceback ? h("pre", { class: "trace" }, job.error.traceback) : null, kept ? null : reveal)
        : part("Result", null, job.status === "succeeded" ? (job.unknown?.result ? h("p", { class: "quiet" }, job.unknown.result) : h("pre", { class: "ink" }, JSON.stringify(job.result, null, 1))) : h("p", { class: "quiet" }, settled ? "none" : "not done yet"), kept ? null : reveal))));
}

/** What was revealed stays while this job is looked at. @param {any} job */
function revealNode(job) {
  if (held?.operation_id !== job.operation_id) held = null;
  const node = h("div", { class: "part" });
  const draw = () => node.replaceChildren(held ? revealed(held) : revealButton({ id: job.operation_id, ...job }, (shown) => { held = shown; draw(); }));
  draw();
  return node;
}

/** @param {string} id */
const copyId = (id) => copy(id, shown.querySelector("[data-copy-word]"));

/** @param {any} job */
function askCancel(job) {
  ask({
    title: `Cancel 1 job, ${job.task}?`, lead: `${job.operation_id}, queue ${job.queue}, tenant ${job.tenant}, ${job.status}${job.phase ? ` (${job.phase})` : ""}.`,
    parts: [{ name: "what happens", body: job.phase === "running" || isKnown(job.times?.started_at_ms) ? "It has started: it is asked to stop, and may still finish." : "It has not started: it never will. It leaves a tombstone, so that a late copy does not run either." }, { name: "afterwards", body: "Cannot be undone; submit it again as a new operation. Written to the audit." }],
    verb: "Cancel 1 job", act: async () => { const done = await call("DELETE", `/jobs/${encodeURIComponent(job.operation_id)}`); open(job.operation_id); return done?.result === "cancelled" ? "Cancelled." : "Cancel requested."; },
  });
}

/** A form for operators: what the API takes, field by field. @param {string[]} tasks */
function drawSubmit(tasks) {
  if (!may("operator")) { submitNode.replaceChildren(part("Submit a job", null, h("p", { class: "why" }, "Viewers may look; an operator may submit. Programs submit with an API key or delay()."))); return; }
  let start = {};
  try { start = JSON.parse(sessionStorage.getItem("sluicegate.submit") || "{}"); sessionStorage.removeItem("sluicegate.submit"); } catch { /* an empty form */ }
  const text = (props = {}) => /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...props }));
  const number = (props = {}) => /** @type {HTMLInputElement} */ (h("input", { type: "number", min: "0", step: "any", ...props }));
  const task = text({ list: "tasks", value: start.task || "", required: true });
  const queue = choice([["", "the task's own"], ...(live.frame?.queues || []).map((q) => /** @type {[string, string]} */ ([q.name, q.name]))], start.queue || "");
  const args = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2, spellcheck: "false" }));
  const kwargs = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2, spellcheck: "false" }));
  const parsed = readArgs(start.args_text);
  args.value = parsed.args;
  kwargs.value = parsed.kwargs;
  const countdown = number();
  const deadline = number();
  const ordering = text();
  const payloadClass = choice([["", "the queue's own"], ...["public", "internal", "personal", "secret"].map((c) => /** @type {[string, string]} */ ([c, c]))], start.payload_class || "");
  const fault = h("p", { class: "fault", role: "alert" });
  const done = h("p", {});
  const form = h("form", { class: "formgrid", onsubmit: async (event) => {
    event.preventDefault();
    fault.textContent = "";
    const body = { task: task.value.trim() };
    try {
      body.args = JSON.parse(args.value || "[]");
      body.kwargs = JSON.parse(kwargs.value || "{}");
    } catch { fault.textContent = "args must be a JSON list and kwargs a JSON object."; return; }
    if (queue.value) body.queue = queue.value;
    if (countdown.value) body.countdown_s = Number(countdown.value);
    if (deadline.value) body.deadline_s = Number(deadline.value);
    if (payloadClass.value) body.payload_class = payloadClass.value;
    if (ordering.value.trim()) body.ordering_key = ordering.value.trim();
    if (start.from) body.replay_of = start.from;
    try {
      const answer = await post("/jobs", body);
      done.replaceChildren(shape(answer.status === "shed" ? "slash" : "ring"), answeredWords(answer), h("a", { class: "idlink", href: `/jobs/${encodeURIComponent(answer.operation_id)}/` }, answer.operation_id));
      start = {};
      open(answer.operation_id);
    } catch (error) {
      const again = error instanceof Problem && isKnown(error.document.retry_after_s) ? ` Come back in ${duration(error.document.retry_after_s * 1000)}.` : "";
      fault.textContent = `${/** @type {Error} */ (error).message}${again}`;
    }
  } },
  h("div", { class: "wide" }, field("task", task)), h("datalist", { id: "tasks" }, tasks.map((t) => h("option", { value: t }))), field("queue", queue), field("not before", countdown, "s from now"), field("deadline", deadline, "s from now", "not started by then: expired"), field("ordering key", ordering, "", "one at a time, in order"), field("payload class", payloadClass, "", "who may see what it carries"),
  h("div", { class: "wide" }, field("args", args, "JSON list")), h("div", { class: "wide" }, field("kwargs", kwargs, "JSON object")), h("div", { class: "wide acts" }, h("button", { type: "submit", class: "main", "data-needs-gate": true }, "Submit 1 job"), done), h("div", { class: "wide" }, fault));
  submitNode.replaceChildren(part("Submit a job", start.from ? `replays quarantined ${start.from}, once, with what stands here` : `${plural(tasks.length, "task")} known`, form));
  if (location.hash === "#submit") { submitNode.scrollIntoView(); task.focus(); }
}

/** What became of a submit, beside plain acceptance. @param {any} answer */
function answeredWords(answer) {
  if (answer.status === "shed") return ` dropped: ${answer.queue} was full (${answer.reason}) and drops what has no room: `;
  const how = answer.degraded_from ? `, as a cheaper task: ${answer.degraded_from.queue} was full (${answer.degraded_from.reason})` : answer.phase === "spilled" ? ", into the spill until there is room" : "";
  return ` ${answer.status} into ${answer.queue} at ${clock(answer.accepted_at_ms)} (${answer.durability})${how}: `;
}

/** The shown arguments of a held job, as far as they are JSON. @param {string|undefined} text */
function readArgs(text) {
  try {
    const value = JSON.parse(text || "");
    if (Array.isArray(value)) return value.length === 2 && Array.isArray(value[0]) && typeof value[1] === "object" ? { args: JSON.stringify(value[0]), kwargs: JSON.stringify(value[1]) } : { args: JSON.stringify(value), kwargs: "{}" };
    if (value && typeof value === "object") return "args" in value || "kwargs" in value ? { args: JSON.stringify(value.args || []), kwargs: JSON.stringify(value.kwargs || {}) } : { args: "[]", kwargs: JSON.stringify(value) };
  } catch { /* not JSON: the operator types it */ }
  return { args: "[]", kwargs: "{}" };
}

bind({ keys: "N", label: "Submit a job", group: "Jobs", run: () => { submitNode.scrollIntoView(); /** @type {HTMLElement|null} */ (submitNode.querySelector("input"))?.focus(); } });
bind({ keys: "C", label: "Copy the id", group: "Jobs", run: () => { if (input.value) copyId(input.value); } });
startPage({ search: () => input.focus() });
window.addEventListener("popstate", () => open(currentItem()));
reading(submitNode, () => Promise.all([get("/tasks"), live.frame ? null : new Promise((done) => { live.onFrame(() => done(null)); setTimeout(done, 1500); })]), ([data]) => drawSubmit(data.tasks));
drawRecent();
open(currentItem());
