// What is held, why, and is it over? Causes, jobs, one job; replay and discard with exact counts.
import { get, may, put, query } from "../js/api.js";
import { ShareBar } from "../js/bars.js";
import { $, h, setAttr, swap } from "../js/dom.js";
import { bind } from "../js/keys.js";
import { live } from "../js/live.js";
import { say } from "../js/say.js";
import { shape } from "../js/shapes.js";
import { copy } from "../js/setup.js";
import { trendWord } from "../js/side.js";
import { NBSP, bytes, clock, count, duration, isKnown, plural, utc, wait } from "../js/units.js";
import { askDiscard, askReplay } from "./quarantine-ask.js";
import { afterTyping, at, currentItem, facts, hashFields, part, reading, setHash, setItem, startPage } from "./page.js";
import { outcomeWords, replayedAs } from "./replayed.js";
import { hasMore, redactedArguments, revealButton, revealed } from "./reveal.js";
import { sixTimes, wholeSpan } from "./sixtimes.js";

const PAGE = 100;
const REREAD_MS = 5000;
/** So long after its end a batch is shown to who opens the page. */
const NEWS_MS = 15 * 60e3;
/** Rows of one exported file. */
const MOST_EXPORTED = 10000;

/** @type {{cause: string, search: string, queue: string, state: string}} */
const filter = { cause: "", search: "", queue: "", state: "held", ...hashFields() };
/** @type {any} */ let shown = null;
/** @type {any[]} */ let jobs = [];
/** @type {Set<string>} */ const chosen = new Set();
let allChosen = false;
let current = currentItem();
/** @type {any} */ let detail = null;
/** @type {any} */ let batch = null;

const root = $("[data-root]");
const batchNode = h("div", { class: "batch", hidden: true });
const causesNode = h("div", { class: "pane causes" });
const jobsNode = h("div", { class: "pane jobs" });
const detailNode = h("div", { class: "pane detail" });
const searchInput = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "error, task, public argument or id", "aria-label": "search quarantine", value: filter.search }));
root.replaceChildren(causesNode, jobsNode, detailNode);
root.before(batchNode);
const exports = h("div", { class: "joined" }, h("button", { type: "button", onclick: () => exportAs("csv") }, "Export CSV"), h("button", { type: "button", onclick: () => exportAs("json") }, "JSON"));
const exported = h("span", { class: "quiet exported" });
$("[data-head-end]").append(exported, h("div", { class: "search" }, searchInput, h("kbd", {}, "/")), exports);
searchInput.addEventListener("input", afterTyping(() => { filter.search = searchInput.value.trim(); current = ""; refresh(); }));

/** The filter as the API knows it. @param {boolean} withCause */
function wanted(withCause = true) {
  return { state: filter.state === "held" ? "held" : filter.state, search: filter.search, queue: filter.queue, ...(withCause ? { fingerprint: filter.cause } : {}) };
}

/** What a batch would be asked for: exactly what is counted on the page. */
function batchFilter() {
  const out = {};
  if (filter.search) out.search = filter.search;
  if (filter.queue) out.queue = filter.queue;
  if (filter.cause) out.fingerprint = filter.cause;
  return out;
}

async function refresh(quiet = false) {
  setHash({ cause: filter.cause, search: filter.search, queue: filter.queue, state: filter.state === "held" ? "" : filter.state });
  const run = async () => {
    const [all, some] = await Promise.all([get(`/quarantine${query({ ...wanted(false), limit: 1 })}`), get(`/quarantine${query({ ...wanted(), limit: PAGE })}`)]);
    return { all, some };
  };
  if (quiet) {
    try { take(await run()); } catch { /* the next read tells */ }
  } else await reading(jobsNode, run, take);
}

/** @param {{all: any, some: any}} data */
function take({ all, some }) {
  shown = { causes: all.causes, unsearched: all.unsearched || 0, count: some.count, all: all.count, bytes: all.bytes, oldest: all.oldest_at_ms, next: some.next_before };
  jobs = some.jobs;
  if (!current && jobs.length) current = jobs[0].id;
  // Of nothing there are no causes and no list: one line says what will come here.
  setAttr(root, "data-none", !shown.all && !filter.search && !filter.queue && !filter.cause);
  for (const button of exports.children) { setAttr(button, "aria-disabled", shown.count ? null : "true"); setAttr(button, "title", shown.count ? null : "there is nothing to export"); }
  drawFacts();
  drawCauses();
  drawJobs();
  showDetail();
}

async function more() {
  const some = await get(`/quarantine${query({ ...wanted(), limit: PAGE, before: shown.next })}`);
  jobs = [...jobs, ...some.jobs];
  shown.next = some.next_before;
  drawJobs();
}

function drawFacts() {
  const node = $("[data-facts]");
  const held = filter.state === "held" ? "" : ` ${filter.state}`;
  swap(node, JSON.stringify([shown.all, shown.bytes, shown.oldest, filter.state]), () => [
    h("span", {}, `${plural(shown.all, "job")}${held}`), h("span", {}, bytes(shown.bytes)), isKnown(shown.oldest) ? h("span", {}, `oldest ${duration(Math.max(0, Math.floor((live.now() - shown.oldest) / 60000) * 60000) || 1000)}`) : null,
    h("span", { class: "joined small" }, [["held", "held"], ["all", "also settled"]].map(([value, word]) => h("button", { type: "button", "aria-pressed": filter.state === value ? "true" : "false", onclick: () => { filter.state = value; refresh(); } }, word)))]);
}

function drawCauses() {
  const trends = new Map((live.frame?.quarantine?.causes || []).map((c) => [c.fingerprint, c]));
  const key = JSON.stringify([shown.causes, shown.unsearched, filter.cause, filter.search, [...trends.values()]]);
  swap(causesNode, key, () => [
    h("div", { class: "panehead" }, h("b", { class: "ink" }, plural(shown.causes.length, "cause")), h("span", { class: "quiet" }, "by count"),
      filter.cause ? h("button", { type: "button", class: "plain end", onclick: () => choose("") }, "all causes") : null),
    shown.causes.map((c) => {
      const seen = trends.get(c.fingerprint);
      return h("button", { type: "button", class: "causeitem", "aria-pressed": filter.cause === c.fingerprint ? "true" : "false", onclick: () => choose(filter.cause === c.fingerprint ? "" : c.fingerprint) },
        h("span", { class: "n" }, count(c.count)),
        h("span", {}, h("span", { class: "label" }, reasonWord(c.label)), h("br"), h("span", { class: "ink" }, c.task || "no task name"), seen && seen.label !== c.label ? h("div", { class: "said", title: seen.label }, String(seen.label).replace(`${c.label}: `, "")) : h("br"), h("span", { class: "quiet" }, `${clock(c.first_at_ms)} to ${clock(c.last_at_ms)}`)),
        h("span", { class: "trend" }, trendWord(seen?.trend)));
    }),
    h("p", { class: "quiet part causes-note" }, shown.causes.length ? "Jobs are grouped by error type, the project's own last frame and the message with its numbers taken out." : filter.search ? "Nothing held matches." : "Nothing is held. Jobs come here when they fail for good, kill their worker too often, outlive their time limit or cannot be read."),
    filter.search ? h("p", { class: "quiet part causes-note", "data-searched": true }, `Searched: task, error type, arguments as they are shown, the beginning of the id, and error texts of public and internal jobs. ${shown.unsearched ? `Not searched: the error texts of ${plural(shown.unsearched, "personal or secret job")} here.` : "No personal or secret job is here."}`) : null]);
  for (const note of causesNode.querySelectorAll(".causes-note")) /** @type {HTMLElement} */ (note).style.padding = "14px 16px 0 24px";
}

/** @param {string} label */
function reasonWord(label) {
  return { worker_lost: "worker lost", time_limit: "time limit", unknown_task: "unknown task", expired_replay: "moment passed" }[label] || label || "no error type";
}

/** @param {string} cause */
function choose(cause) {
  filter.cause = cause;
  current = "";
  chosen.clear();
  allChosen = false;
  setItem("");
  refresh();
}

function drawJobs() {
  const n = shown.count;
  const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": `select all ${count(n)} that match` }));
  box.checked = allChosen && n > 0;
  box.indeterminate = !allChosen && chosen.size > 0;
  box.addEventListener("change", () => { allChosen = box.checked; chosen.clear(); drawJobs(); drawActs(); });
  const list = $(".joblist", jobsNode);
  const scroll = list ? list.scrollTop : 0;
  jobsNode.replaceChildren(
    h("div", { class: "panehead" }, box, h("b", { class: "ink" }, plural(n, "job")), h("span", { class: "quiet" }, picked() ? `${count(picked())} selected` : "newest first"), h("span", { class: "quiet end" }, "tries")),
    h("div", { class: "joblist", role: "listbox", "aria-label": "jobs" }, jobs.map((job) => {
      const check = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": `select ${job.id}`, tabindex: "-1" }));
      check.checked = allChosen || chosen.has(job.id);
      check.disabled = job.state !== "held";
      check.addEventListener("click", (event) => { event.stopPropagation(); toggle(job.id); });
      return h("div", { class: "jobitem", role: "option", "data-job": job.id, "aria-selected": job.id === current ? "true" : "false", onclick: () => open(job.id) },
        check, h("span", { class: "mono", title: job.id }, job.id.slice(0, 8)), h("time", { title: utc(job.quarantined_at_ms) }, clock(job.quarantined_at_ms)), h("span", { class: "quiet clip" }, job.state === "held" ? job.tenant : job.state), h("span", { class: "num" }, count(job.attempts)));
    }), shown.next ? h("button", { type: "button", class: "plain", onclick: more }, `Show more; ${count(jobs.length)} of ${count(n)} shown`) : null));
  const fresh = $(".joblist", jobsNode);
  if (fresh) fresh.scrollTop = scroll;
}

function picked() {
  return allChosen ? shown.count : chosen.size;
}

/** @param {string} id */
function toggle(id) {
  if (allChosen) {
    // Taking one out of "all that match" leaves those that are shown.
    allChosen = false;
    for (const job of jobs) if (job.state === "held") chosen.add(job.id);
  }
  if (chosen.has(id)) chosen.delete(id);
  else chosen.add(id);
  drawJobs();
  drawActs();
}

/** @param {string} id */
function open(id) {
  current = id;
  setItem(id);
  setHash({ cause: filter.cause, search: filter.search, queue: filter.queue, state: filter.state === "held" ? "" : filter.state });
  for (const node of jobsNode.querySelectorAll(".jobitem")) setAttr(node, "aria-selected", /** @type {HTMLElement} */ (node).dataset.job === id ? "true" : "false");
  showDetail();
}

async function showDetail() {
  if (!current) {
    detail = null;
    swap(detailNode, "none", () => h("p", { class: "empty-note" }, shown?.all ? "Choose a job." : "When a job fails for good it is kept here with its error, its arguments and its six times, until it is replayed or discarded."));
    return;
  }
  if (detail?.id === current && detail.readFor === stateOf(current)) return;
  await reading(detailNode, () => get(`/quarantine/${encodeURIComponent(current)}`), (data) => { detail = { ...data, readFor: stateOf(data.id) }; drawDetail(); });
}

/** @param {string} id */
function stateOf(id) {
  return jobs.find((j) => j.id === id)?.state || "";
}

/** A replay is done when the job is admitted again; how it ends is another matter. */
const ITEM_SAID = { done: "re-admitted", failed: "could not be re-admitted", skipped: "left out", pending: "waits for its turn" };
const LEFT = { replaying: "being replayed", replayed: "replayed, not held any more", discarded: "discarded, not held any more", deleted: "what it carried was deleted" };
const acts = h("div", { class: "joined" });

function drawActs() {
  const n = picked();
  const why = may("operator") ? "" : "viewers may look; an operator may replay or discard";
  const held = detail?.state === "held";
  const off = (extra) => (why || extra ? { "aria-disabled": "true", title: why || extra } : {});
  acts.replaceChildren(
    h("button", { type: "button", class: "main", "data-needs-gate": true, "data-act": "replay", ...off(n || held ? "" : "nothing held is selected"), onclick: () => replaySelected() }, `Replay ${n ? count(n) : "selected"}`, h("kbd", {}, "R")),
    h("button", { type: "button", "data-needs-gate": true, "data-act": "replay-this", ...off(held ? "" : `this job is ${detail?.state || "not shown"}`), onclick: () => replayThis() }, "Replay this", h("kbd", {}, "Shift R")),
    h("button", { type: "button", ...off(""), onclick: () => edit() }, "Edit", h("kbd", {}, "E")),
    h("button", { type: "button", "data-act": "discard", ...off(n || held ? "" : "nothing held is selected"), onclick: () => discardSelected() }, `Discard${n ? ` ${count(n)}` : ""}`, h("kbd", {}, "X")));
  if (why) acts.after($(".acts-why", detailNode) || h("span", { class: "why acts-why" }, why));
}

function drawDetail() {
  const d = detail;
  const span = wholeSpan(d.times);
  detailNode.replaceChildren(
    h("div", { class: "detail-head" }, h("div", {}, h("h2", {}, d.task || "no task name"), h("span", { class: "mono" }, d.id), " ", h("button", { type: "button", class: "plain", onclick: () => copyId(d.id) }, h("kbd", {}, "C"), h("span", { "data-copy-word": true }, "copy"))), LEFT[d.state] ? h("div", { class: "acts", "data-left": d.state }, shape(d.state === "replaying" ? "dashed" : "slash"), h("b", {}, LEFT[d.state])) : null, acts),
    part("Six times", span === null ? "" : `from offered to committed (into quarantine) ${span < 1000 ? wait(span) : duration(span)}; not to scale`, h("div", { class: "scrollx" }, sixTimes(d.times || {}, d.attempts > 1 ? `${count(d.attempts)} attempts,` : "ran"))),
    h("div", { class: "detail-cols" },
      h("div", {},
        part("Error", reasonWord(d.reason), h("p", { class: "mono ink" }, h("b", {}, d.error_type || "no type"), d.message ? `: ${d.message}` : ""), h("br"), trace(d.traceback)),
        part("Is it over?", `this cause and its task first, then all runs of queue ${d.queue} a minute, last hour; failed part outlined`, taskNode(d), overNode(d))),
      h("div", {},
        part("Arguments", `${bytes(d.payload?.bytes)} stored; text only, never executed to be shown`, redactedArguments(d.args_text, d.payload?.gone || "not readable as text"), hasMore(d.payload?.bytes ? d.args_text || "held" : "", d) ? revealNode(d) : null),
        part("Facts", null, facts([["state", d.state], ["queue", d.queue], ["tenant", d.tenant], ["class", d.payload_class], ["tags", (d.tags || []).join(", ") || null], ["attempts", `${count(d.attempts)}, ${plural(d.deliveries, "delivery", "deliveries")}`], ["quarantined", at(d.quarantined_at_ms)],
          ["replay until", d.replay_until_at_ms ? h("span", {}, at(d.replay_until_at_ms), d.replay_until_at_ms < live.now() ? " (passed)" : ` (in ${duration(d.replay_until_at_ms - live.now())})`) : "no limit"], ["last holder", d.worker ? `${d.worker}, epoch ${d.epoch}` : "none"], ["cause", h("span", { class: "mono" }, d.fingerprint)]])),
        part("Lineage", null, facts([["replay of", d.replay_of ? jobLink(d.replay_of) : "none"], ["replayed as", d.replayed_as ? replayedAs(d.replayed_as, jobLink(d.replayed_as)) : "none"],
          ...(d.history || []).map((e) => [e.verb, h("span", {}, `${(e.verb === "replay" && ITEM_SAID[e.state]) || e.state} by ${e.by} at `, at(e.at_ms), e.new_id ? [", ", jobLink(e.new_id)] : null, e.detail ? `, ${e.detail}` : "")])])))));
  drawActs();
}

/** @param {string} id */
const copyId = (id) => copy(id, detailNode.querySelector("[data-copy-word]"));

/** @param {any} d */
function revealNode(d) {
  const node = h("div", { class: "part" });
  const draw = () => node.replaceChildren(d.revealed ? revealed(d.revealed) : revealButton(d, (shown) => { d.revealed = shown; draw(); }));
  draw();
  return node;
}

/** @param {string} id */
function jobLink(id) {
  return h("a", { class: "idlink", href: `/jobs/${encodeURIComponent(id)}/` }, id);
}

/** The project's own frames first; those of libraries folded under them. @param {string} text */
function trace(text) {
  if (!text) return h("p", { class: "quiet" }, "No traceback was stored.");
  const frames = readFrames(text);
  const own = frames.filter((f) => f.own);
  const outer = frames.filter((f) => !f.own);
  const whole = h("pre", { class: "trace", hidden: own.length > 0 }, text);
  const packages = [...new Set(outer.map((f) => f.place))].slice(0, 4).join(", ");
  const fold = h("button", { type: "button", class: "plain", "data-fold": true, onclick: () => { whole.hidden = !whole.hidden; } }, `${outer.length ? `then ${plural(outer.length, "frame")} of ${packages}` : "the traceback as stored"}`, h("kbd", {}, "F"), "unfold");
  return h("div", {}, own.map((f) => [h("p", { class: "frame-head" }, h("b", {}, f.file), ` in ${f.where}, line ${f.line}`), f.code ? h("pre", { class: "frame-code" }, f.code) : null]), own.length ? h("p", { class: "part" }, fold) : null, whole);
}

/** @param {string} text @returns {{file: string, line: string, where: string, code: string, own: boolean, place: string}[]} */
function readFrames(text) {
  const out = [];
  for (const hit of text.matchAll(/^ {2}File "([^"]+)", line (\d+), in (.+)\n((?: {4}.*\n?)*)/gm)) {
    const [, path, line, where, body] = hit;
    const library = path.match(/(?:site-packages|dist-packages)\/([^/]+)/) || path.match(/\/lib\/python[\d.]+\/([^/]+)/);
    out.push({ file: path.split("/").slice(-3).join("/"), line, where, code: body.split("\n").filter((l) => l.trim() && !/^[\s^~]+$/.test(l)).map((l) => l.replace(/^ {4}/, "")).join("\n"), own: !library && !path.startsWith("<"), place: library ? library[1].replace(/\.py$/, "") : path });
  }
  return out;
}

/** How often this cause, and this task, failed for good lately. A success has no cause and is counted by queue alone. @param {any} d */
function taskNode(d) {
  const now = live.now();
  const line = (word, by) => {
    const node = h("p", { class: "ink" }, `${word}: reading`);
    const since = (ms) => get(`/quarantine${query({ ...by, state: "all", since_ms: Math.round(now - ms), limit: 1 })}`);
    Promise.all([since(300e3), since(3600e3)]).then(([five, hour]) => {
      const last = Math.max(0, ...hour.causes.map((c) => c.last_at_ms));
      node.textContent = `${word}: ${count(five.count)} quarantined in the last 5\u00a0min, ${count(hour.count)} in the last hour${last ? `, the last one ${duration(Math.max(1000, now - last))} ago` : ""}`;
    }, (error) => { node.textContent = `${word}: unknown (${error.message})`; });
    return node;
  };
  return h("div", { "data-over": true }, d.fingerprint ? line("this cause", { fingerprint: d.fingerprint }) : null, d.task ? line(d.task, { task: d.task }) : null,
    h("p", { class: "quiet" }, `A run that succeeds has no cause: successes are counted by queue, for all its tasks together. Failures that were retried are not counted here.`));
}

/** Runs of the queue a minute over the last hour, with what failed. @param {any} d */
function overNode(d) {
  const node = h("div", {}, h("p", { class: "quiet" }, "Reading."));
  const since = Math.round(live.now() - 3600e3);
  Promise.all(["succeeded", "failed"].map((metric) => get(`/history${query({ queue: d.queue, metric, since, step: 10 })}`))).then(([good, bad]) => {
    const bins = Array.from({ length: 60 }, () => [0, 0, 0]);
    [good, bad].forEach((data, k) => { for (const [t, v] of data.points) { const i = Math.floor((t - since) / 60e3); if (isKnown(v) && bins[i]) { bins[i][k] += v * data.step_s; bins[i][2] += 1; } } });
    const top = Math.max(1, ...bins.map((b) => b[0] + b[1]));
    const recent = bins.slice(-5);
    const failed = Math.round(recent.reduce((n, b) => n + b[1], 0));
    const all = Math.round(recent.reduce((n, b) => n + b[0] + b[1], 0));
    const bars = h("div", { class: "overbars", role: "img", "aria-label": `${failed} of ${all} failed in the last 5 minutes` }, bins.map((b) => {
      const bar = h("i", {}, b[1] > 0 ? h("u", { class: "hatch" }) : null);
      bar.style.height = `${((b[0] + b[1]) / top) * 100}%`;
      const u = /** @type {HTMLElement|null} */ (bar.firstChild);
      if (u) u.style.height = `max(3px, ${(b[1] / (b[0] + b[1])) * 100}%)`;
      return bar;
    }));
    node.replaceChildren(bars, h("div", { class: "overaxis" }, h("span", {}, clock(since)), h("span", { class: "ink" }, `${count(failed)} of ${plural(all, "run")} failed in the last 5${NBSP}min`), h("span", {}, "now")));
  }, (error) => node.replaceChildren(h("p", { class: "quiet" }, `unknown: ${error.message}`)));
  return node;
}

/** What to replay or discard: chosen ids, all that match, or the job shown. @param {boolean} thisOnly */
function choice(thisOnly) {
  if (!thisOnly && allChosen) return { filter: batchFilter(), count: shown.count, jobs: shown.next ? null : jobs.filter((j) => j.state === "held") };
  const ids = !thisOnly && chosen.size ? [...chosen] : detail?.state === "held" ? [detail.id] : [];
  const known = new Map([...jobs, ...(detail ? [detail] : [])].map((j) => [j.id, j]));
  return { ids, count: ids.length, jobs: ids.map((id) => known.get(id)).filter(Boolean) };
}

function guarded(run) {
  return () => { if (may("operator")) run(); else say("Viewers may look; an operator may act."); };
}

const replaySelected = guarded(() => { const c = choice(false); if (c.count) askReplay(c, { detail, cause: causeWord(), onBatch: follow }); });
const replayThis = guarded(() => { const c = choice(true); if (c.count) askReplay(c, { detail, cause: detail?.error_type || "", onBatch: follow }); });
const discardSelected = guarded(() => { const c = choice(false); if (c.count) askDiscard(c, { cause: causeWord(), onDone: () => { chosen.clear(); allChosen = false; current = ""; detail = null; refresh(); } }); });
const edit = guarded(() => {
  if (!detail) return;
  try { sessionStorage.setItem("sluicegate.submit", JSON.stringify({ task: detail.task, queue: detail.queue, payload_class: detail.payload_class, args_text: detail.revealed && !detail.revealed.unknown?.arguments ? JSON.stringify([detail.revealed.args, detail.revealed.kwargs]) : "", from: detail.id })); } catch { /* the form starts empty */ }
  location.href = "/jobs/#submit";
});

function causeWord() {
  const cause = shown.causes.find((c) => c.fingerprint === filter.cause);
  return cause ? reasonWord(cause.label) : "";
}

/** Follow a batch until it ends. @param {any} made */
function follow(made) {
  batch = made;
  chosen.clear();
  allChosen = false;
  drawBatch();
  refresh(true);
}

const batchBar = new ShareBar();

function drawBatch() {
  batchNode.hidden = !batch;
  if (!batch) return;
  const gone = batch.done + batch.failed + batch.skipped;
  batchBar.update(batch.total ? gone / batch.total : 1);
  const running = batch.state === "running" || batch.state === "paused";
  const set = (state) => async () => {
    try { batch = await put(`/batches/${batch.id}`, { state }); } catch (error) { say(/** @type {Error} */ (error).message); }
    drawBatch();
  };
  const left = batch.total - gone;
  const isReplay = batch.verb === "replay";
  const how = isReplay ? [`${count(batch.done)} of ${plural(batch.total, "job")} re-admitted`, batch.failed ? `${count(batch.failed)} could not be` : ""] : [`${count(batch.done)} of ${plural(batch.total, "job")}`, batch.failed ? `${count(batch.failed)} failed` : ""];
  const told = [...how, batch.skipped ? `${count(batch.skipped)} left out` : ""].filter(Boolean).join(", ");
  swap(batchNode, JSON.stringify(batch), () => [
    h("b", {}, isReplay ? (running ? (batch.state === "paused" ? "Replay paused" : "Replaying") : batch.state === "stopped" ? "Replay stopped" : "Replay ended") : "Discarded"),
    h("span", { class: "ink" }, told),
    batchBar.node,
    outcomeNode(),
    h("span", { class: "quiet" }, running && batch.rate_per_s ? `${count(left)} left at ${batch.rate_per_s}/s, by ${batch.by}${batch.note ? `; ${batch.note}` : ""}` : `by ${batch.by}${batch.note ? `; ${batch.note}` : ""}${batch.finished_at_ms ? `, ended ${clock(batch.finished_at_ms)}` : ""}`),
    running && may("operator") ? h("div", { class: "joined small" }, batch.state === "paused" ? h("button", { type: "button", onclick: set("running") }, "Resume") : h("button", { type: "button", onclick: set("paused") }, "Pause"), h("button", { type: "button", onclick: set("stopped") }, `Stop, keep ${count(left)} here`)) : null,
    !running ? h("button", { type: "button", class: "plain", onclick: () => { setClosed(batch.id); batch = null; drawBatch(); } }, "close") : null]);
  batchNode.dataset.state = batch.state;
}

/** Re-admitted is not succeeded: how the new operations ended, as far as it is known. */
function outcomeNode() {
  const o = batch.outcomes;
  if (batch.verb !== "replay" || !batch.done) return null;
  if (!o) return h("span", { class: "quiet", "data-outcomes": true }, `how they ended is unknown${batch.unknown?.outcomes ? `: ${batch.unknown.outcomes}` : ""}`);
  const whole = o.of < batch.done ? `of the newest ${count(o.of)} ` : "of them ";
  return h("span", { class: "acts ink", "data-outcomes": true }, o.failed ? shape("triangle") : null, `${whole}${outcomeWords(o)}`);
}

function isRunning() {
  return ["running", "paused"].includes(batch.state);
}

/** A batch that was closed here is not shown again on the next look at this page. @param {string} id */
function setClosed(id) {
  try { sessionStorage.setItem("sluicegate.batch.closed", id); } catch { /* it comes again */ }
}

function closed() {
  try { return sessionStorage.getItem("sluicegate.batch.closed"); } catch { return null; }
}

let ticks = 0;

/** Each second while it runs, each third while what it re-admitted has not ended. */
async function pollBatch() {
  ticks += 1;
  if (!batch || document.hidden) return;
  const ran = isRunning();
  const open = batch.outcomes ? batch.outcomes.open : batch.verb === "replay" && batch.done;
  if (!ran && !(open && ticks % 3 === 0)) return;
  try {
    const next = await get(`/batches/${batch.id}`);
    if (batch?.id !== next.id) return;
    batch = next;
    drawBatch();
    const o = batch.outcomes;
    const ends = o && o.of && !o.open ? ` Of them ${outcomeWords(o)}.` : "";
    if (ran && !isRunning()) {
      say(batch.verb === "replay" ? `Replay ended: ${batch.done} of ${batch.total} re-admitted, ${batch.failed} could not be, ${batch.skipped} left out.${ends || (batch.done ? " How they end is shown here." : "")}` : `Discard ended: ${batch.done} of ${batch.total} done, ${batch.failed} failed, ${batch.skipped} left out.`);
      detail = null;
      refresh(true);
    } else if (!ran && open && ends) {
      say(`Every replayed job has ended.${ends}`);
      detail = null;
      refresh(true);
    }
  } catch { /* the next second asks again */ }
}

/** What runs, or ended so lately that how its jobs fared is still news. */
async function findBatch() {
  const newest = (await get("/batches?limit=1")).batches?.[0];
  if (!newest || newest.id === closed()) return;
  const lately = newest.verb === "replay" && isKnown(newest.finished_at_ms) && live.now() - newest.finished_at_ms < NEWS_MS;
  if (!["running", "paused"].includes(newest.state) && !lately) return;
  batch = await get(`/batches/${newest.id}`);
  drawBatch();
}

/** All that match, page by page, as one file, with what came of it beside the button. @param {"csv"|"json"} form */
async function exportAs(form) {
  if (!shown?.count) return;
  const tell = (words) => { exported.textContent = words; say(words); };
  const rows = [];
  let before = null;
  tell("Reading.");
  try {
    do {
      const page = await get(`/quarantine${query({ ...wanted(), limit: 200, before })}`);
      rows.push(...page.jobs);
      before = page.next_before;
    } while (before && rows.length < MOST_EXPORTED);
  } catch (error) { tell(`Not exported: ${/** @type {Error} */ (error).message}`); return; }
  const columns = ["id", "task", "queue", "tenant", "reason", "error_type", "message", "attempts", "quarantined_at_ms", "fingerprint", "state", "payload_class", "args_text"];
  // A cell that starts with a formula sign would run in a spreadsheet; some trim what is blank before it, or take its wide form for it.
  const cell = (v) => `"${String(v ?? "").replace(/^(?=[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/, "'").replaceAll('"', '""')}"`;
  const text = form === "json" ? JSON.stringify(rows, null, 1) : [columns.join(","), ...rows.map((r) => columns.map((c) => cell(r[c])).join(","))].join("\n");
  const link = /** @type {HTMLAnchorElement} */ (h("a", { href: URL.createObjectURL(new Blob([text], { type: form === "json" ? "application/json" : "text/csv" })), download: `quarantine.${form}` }));
  link.click();
  URL.revokeObjectURL(link.href);
  tell(`${plural(rows.length, "job")} exported${before ? `, the newest of ${count(shown.count)}` : ""}.`);
}

/** @param {number} step */
function move(step) {
  const i = jobs.findIndex((j) => j.id === current);
  const next = jobs[Math.max(0, Math.min(jobs.length - 1, i + step))];
  if (next) { open(next.id); jobsNode.querySelector(`[aria-selected="true"]`)?.scrollIntoView({ block: "nearest" }); }
}

/** @param {number} step */
function moveCause(step) {
  const list = shown?.causes || [];
  if (!list.length) return;
  const i = list.findIndex((c) => c.fingerprint === filter.cause);
  choose(list[(i + step + list.length) % list.length].fingerprint);
}

bind({ keys: "J / Down", label: "Next job", group: "Quarantine", run: () => move(1) });
bind({ keys: "K / Up", label: "Job before", group: "Quarantine", run: () => move(-1) });
bind({ keys: "Shift+J", label: "Next cause", group: "Quarantine", run: () => moveCause(1) });
bind({ keys: "Shift+K", label: "Cause before", group: "Quarantine", run: () => moveCause(-1) });
bind({ keys: "Space", label: "Select this job", group: "Quarantine", run: () => { if (current && stateOf(current) === "held") toggle(current); } });
bind({ keys: "R", label: "Replay what is selected", group: "Quarantine", run: () => replaySelected() });
bind({ keys: "Shift+R", label: "Replay this one", group: "Quarantine", run: () => replayThis() });
bind({ keys: "E", label: "Edit and submit as new", group: "Quarantine", run: () => edit() });
bind({ keys: "X", label: "Discard", group: "Quarantine", run: () => discardSelected() });
bind({ keys: "F", label: "Frames of libraries", group: "Quarantine", run: () => /** @type {HTMLElement|null} */ (detailNode.querySelector("[data-fold]"))?.click() });
bind({ keys: "C", label: "Copy the id", group: "Quarantine", run: () => { if (detail) copyId(detail.id); } });
bind({ keys: "Esc", label: "Nothing selected", group: "Quarantine", run: () => { chosen.clear(); allChosen = false; if (shown) { drawJobs(); drawActs(); } } });

let seenCount = -1;
startPage({
  search: () => searchInput.focus(),
  draw: (frame) => {
    // The page's own counts come from the database; the frame only says when to look again.
    const held = frame.quarantine?.count ?? -1;
    if (seenCount >= 0 && held !== seenCount && !document.querySelector("dialog[open]")) refresh(true);
    seenCount = held;
  },
});
refresh();
findBatch().catch(() => {});
setInterval(pollBatch, 1000);
setInterval(() => { if (!document.hidden && !document.querySelector("dialog[open]")) refresh(true); }, REREAD_MS * 3);
window.addEventListener("popstate", () => { current = currentItem(); if (shown) { drawJobs(); showDetail(); } });
