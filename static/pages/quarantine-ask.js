// What will happen if these are replayed or discarded? The confirmation, with exact counts and the model's effect.
import { get, post, query } from "../js/api.js";
import { ask, reasonField, segments } from "../js/dialog.js";
import { h, swap } from "../js/dom.js";
import { live } from "../js/live.js";
import { shape } from "../js/shapes.js";
import { forecastWords } from "../js/states.js";
import { DASH, clock, count, isKnown, plural, roughly } from "../js/units.js";
import { failAgain } from "./replayed.js";

/** @typedef {{ids?: string[], filter?: any, count: number, jobs: any[]|null}} Choice */
const RATES = [1, 5, 20, 100];

/**
 * @param {Choice} choice @param {{detail: any, cause: string, onBatch: (batch: any) => void}} about
 */
export function askReplay(choice, about) {
  const now = live.now();
  const passed = (choice.jobs || []).filter((j) => isKnown(j.replay_until_at_ms) && j.replay_until_at_ms < now);
  const reason = reasonField("what changed, for example a ticket");
  const state = { rate: choice.count > 200 ? 20 : 5, override: false };
  const places = [...new Set((choice.jobs || []).map((j) => j.queue))];
  const place = places.length === 1 ? places[0] : "their queues";
  const going = () => choice.count - (state.override ? 0 : passed.length);
  // What is known of replays is known by cause: of several at once nothing is said.
  const causes = choice.jobs ? [...new Set(choice.jobs.map((j) => j.fingerprint || ""))] : [choice.filter?.fingerprint || ""];
  const tasks = [...new Set((choice.jobs || []).map((j) => j.task || ""))];
  const task = tasks.length === 1 ? tasks[0] : "";
  const cause1 = causes.length === 1 ? causes[0] : "";
  /** @type {any} */ let known = null;
  let unasked = cause1 || task ? READING : choice.jobs ? `${plural(causes.length, "cause")} of ${plural(tasks.length, "task")} at once: choose one to see how its replays ended` : "all causes at once: choose one to see how its replays ended";
  const model = h("tbody");
  const pace = h("span", { class: "quiet" });
  const over = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
  over.addEventListener("change", () => { state.override = over.checked; draw(); });
  const other = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: "0.1", step: "0.1", "aria-label": "other rate a second", placeholder: "other" }));
  other.style.width = "90px";
  other.addEventListener("input", () => { if (Number(other.value) > 0) { state.rate = Number(other.value); draw(); } });
  const rates = h("div", { class: "acts" }, segments(RATES.map((r) => /** @type {[string, number]} */ ([`${r}/s`, r])), state.rate, (v) => { state.rate = v; other.value = ""; draw(); }, "rate"), other, pace);
  const cause = about.cause ? ` of ${about.cause}` : "";
  const title = () => (going() === choice.count ? `Replay ${plural(choice.count, "job")}${cause} into ${place}?` : `Replay ${count(going())} of ${plural(choice.count, "job")}${cause} into ${place}?`);

  const body = {
    ...(choice.ids ? { ids: choice.ids } : { filter: choice.filter }),
  };
  const send = (extra) => async () => {
    const batch = await post("/quarantine/replay", { ...body, rate_per_s: state.rate, override_expired: state.override, reason: reason.value.trim(), ...extra });
    about.onBatch(batch);
    return `Replay of ${plural(batch.total, "job")} started.`;
  };
  const first = choice.ids?.[0] || choice.jobs?.[0]?.id;
  const dialog = ask({
    title: title(),
    lead: `${said(choice)} Each is replayed once, however often this is pressed.`,
    parts: [
      { name: "left out", body: choice.jobs === null ? h("div", {}, "Jobs past their replay_until are left out; how many is counted as they come.", h("label", { class: "check" }, over, "Replay them too, although their moment has passed"))
        : passed.length ? h("div", {}, `${plural(passed.length, "job is", "jobs are")} past their replay_until (${passed.slice(0, 3).map((j) => clock(j.replay_until_at_ms)).join(", ")}).`, h("br"), h("label", { class: "check" }, over, "Replay them too, although their moment has passed")) : "Nothing: none is past its replay_until." },
      { name: "rate", body: rates },
      { name: "expected by the model", body: h("div", { class: "scrollx" }, h("table", { class: "askmodel" }, h("thead", {}, h("tr", {}, h("th"), h("th", {}, "without"), h("th", {}, "with replay"), h("th"))), model)) },
      { name: "reason", body: reason },
      { name: "afterwards", body: `A replay is a new operation and passes admission again; live work goes first, and while the gate drains replays pause. Can be paused or stopped at any time; jobs not yet replayed stay here. Written to the audit under ${document.body.dataset.user || "your name"}.` },
    ],
    verb: `Replay ${plural(going(), "job")}`,
    note: `count taken at ${clock(now)}, checked again on replay`,
    extra: choice.count > 1 && first ? [{ label: "Try 1 first", key: "1", run: async () => { const batch = await post("/quarantine/replay", { ids: [first], rate_per_s: state.rate, override_expired: state.override, reason: reason.value.trim() || "one first" }); about.onBatch(batch); return "Replay of 1 job started."; } }] : [],
    canAct: () => (reason.value.trim() ? "" : "A reason is needed: what is different now?"),
    act: send({}),
  });
  dialog.dialog.addEventListener("keydown", (event) => {
    if (event.key === "1" && !/INPUT/.test(/** @type {HTMLElement} */ (event.target).tagName)) /** @type {HTMLElement|null} */ (dialog.dialog.querySelector(".ask-foot button:nth-of-type(2)"))?.click();
  });

  function draw() {
    const n = going();
    pace.textContent = `${plural(n, "job")} in ${roughly((n / state.rate) * 1000)}, behind live work`;
    dialog.setVerb(`Replay ${plural(n, "job")}`);
    const heading = dialog.dialog.querySelector("h2");
    if (heading) heading.textContent = title();
    const q = live.frame?.queues.find((x) => x.name === places[0]);
    const drain = q ? forecastWords(q).head : "several queues";
    const grows = q?.drain?.state === "growing" || q?.drain?.state === "stalled";
    const busy = q?.drain?.state === "draining" && isKnown(q.drain.seconds) ? q.drain.seconds : 0;
    const modeled = (text) => h("span", { class: "modeled" }, text);
    const again = known ? failAgain(known, n, task) : { said: "unknown", modeled: false, warns: false, why: unasked };
    swap(model, JSON.stringify([n, state.rate, drain, Math.round(busy), again, grows]), () => [
      grows ? row("re-admitted in", DASH, DASH, `${place} is ${q?.drain?.state}: no slot is free for it before that ends`)
        : row("re-admitted in", DASH, modeled(roughly((n / state.rate + busy) * 1000)), `${count(n)} at ${state.rate}/s${busy > 2 ? `, after ${place}'s backlog` : ""}`),
      row(places.length === 1 ? place : "live work", drain, drain, "a replay never takes a place from live work"),
      row("likely to fail again", DASH, again.modeled ? modeled(again.said) : again.said, again.warns ? h("span", { class: "warn" }, shape("triangle"), again.why) : again.why),
    ]);
  }
  draw();
  if (unasked === READING) get(`/quarantine/replays${query({ fingerprint: cause1, task })}`).then((data) => { known = data; draw(); }, (error) => { unasked = error.message; draw(); });
}

const READING = "reading what became of earlier replays";

/** @param {string} name @param {any} without @param {any} withReplay @param {any} why */
function row(name, without, withReplay, why) {
  return h("tr", {}, h("td", {}, name), h("td", {}, without), h("td", {}, withReplay), h("td", {}, why));
}

/** Whose jobs they are, from when to when. @param {Choice} choice */
function said(choice) {
  const list = choice.jobs;
  if (!list || !list.length) return `All ${plural(choice.count, "job")} that match the filter${filterWords(choice.filter)}.`;
  const by = (key) => {
    const seen = new Map();
    for (const j of list) seen.set(j[key], (seen.get(j[key]) || 0) + 1);
    return [...seen].sort((a, b) => b[1] - a[1]).slice(0, 4);
  };
  const tasks = by("task").map(([t]) => t).slice(0, 2).join(", ");
  const tenants = by("tenant").map(([t, n]) => (list.length > 1 ? `${t} ${count(n)}` : t)).join(", ");
  const times = list.map((j) => j.quarantined_at_ms).filter(isKnown);
  const when = times.length > 1 ? `Quarantined from ${clock(Math.min(...times))} to ${clock(Math.max(...times))}.` : times.length ? `Quarantined ${clock(times[0])}.` : "";
  return `${tasks}, tenant${list.length > 1 ? "s" : ""} ${tenants}. ${when}`;
}

/** @param {any} filter */
function filterWords(filter) {
  const parts = Object.entries(filter || {}).map(([k, v]) => `${k === "fingerprint" ? "cause" : k} ${v}`);
  return parts.length ? ` (${parts.join(", ")})` : "";
}

/** @param {Choice} choice @param {{cause: string, onDone: () => void}} about */
export function askDiscard(choice, about) {
  const reason = reasonField("why these may go, for example a ticket");
  ask({
    title: `Discard ${plural(choice.count, "job")}${about.cause ? ` of ${about.cause}` : ""} for good?`,
    lead: said(choice),
    parts: [
      { name: "what goes", body: "They are not replayed and cannot be replayed later. Their record (task, error, who and when) stays in the audit; each operation keeps its status failed." },
      { name: "reason", body: reason },
      { name: "afterwards", body: `Cannot be undone; export them first if in doubt. Written to the audit under ${document.body.dataset.user || "your name"}.` },
    ],
    verb: `Discard ${plural(choice.count, "job")}`,
    note: `count taken at ${clock(live.now())}`,
    canAct: () => (reason.value.trim() ? "" : "A reason is needed: this cannot be undone."),
    act: async () => {
      const batch = await post("/quarantine/discard", { ...(choice.ids ? { ids: choice.ids } : { filter: choice.filter }), reason: reason.value.trim() });
      about.onDone();
      return `${plural(batch.done ?? choice.count, "job")} discarded.`;
    },
  });
}
