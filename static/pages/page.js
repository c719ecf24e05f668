// What do the pages beside the room share? Their start, their item, reading with errors told, tables.
import { $, $$, h, setAttr, setText, swap } from "../js/dom.js";
import { live } from "../js/live.js";
import { reach } from "../js/reach.js";
import { say } from "../js/say.js";
import { shape } from "../js/shapes.js";
import { startShell } from "../js/shell.js";
import { watchSilence, whoIsSilent } from "../js/silence.js";
import { NBSP, clock, utc } from "../js/units.js";
import { waitingVerdict } from "../js/verdict.js";

/** Why an act cannot be done now, by who is silent. Without the monitor alone the gate still takes acts. */
const CANNOT = { rights: "log in again first", server: "not possible while the server does not answer", redis: "not possible while Redis does not answer" };

/** Acts that the gate must answer for are marked `data-needs-gate`: while it cannot they are dashed and say why. */
function guardActs() {
  const why = cannot();
  for (const node of $$("[data-needs-gate]")) {
    const isOurs = node.dataset.needsGate === "off";
    if (why && (isOurs || !node.hasAttribute("aria-disabled"))) {
      node.dataset.needsGate = "off";
      setAttr(node, "aria-disabled", "true");
      setAttr(node, "title", why);
    } else if (!why && isOurs) {
      node.dataset.needsGate = "";
      setAttr(node, "aria-disabled", null);
      setAttr(node, "title", null);
    }
  }
}

function cannot() {
  const state = live.state();
  return state === "live" ? "" : CANNOT[whoIsSilent(live.frame, state)] || "";
}

document.addEventListener("click", (event) => {
  const why = event.target instanceof Element && event.target.closest("[data-needs-gate]") ? cannot() : "";
  if (!why) return;
  event.preventDefault();
  event.stopPropagation();
  guardActs();
  say(`${why[0].toUpperCase()}${why.slice(1)}.`);
}, true);

/**
 * `wait` is told, until a first frame comes, why there are no figures: an empty page would look like an idle one.
 * @param {{search?: () => void, draw?: (frame: import("../js/frame.js").Frame, state: string) => void, wait?: (why: string) => void}} own
 */
export function startPage(own = {}) {
  const stale = $("[data-stale-shape]");
  if (stale) swap(stale, "diamond", () => shape("diamond"));
  const draw = () => {
    const verdict = live.frame ? null : waitingVerdict();
    if (live.frame && own.draw) own.draw(live.frame, live.state());
    guardActs();
    if (!live.frame && verdict && own.wait) own.wait(`Unknown: no frame has come since this page was opened. ${verdict.brief}`);
  };
  live.onFrame(draw);
  document.addEventListener("livechange", () => { tellSilence(); draw(); });
  watchSilence(() => { tellSilence(); draw(); }); // while stale, time goes on: the gap in a chart grows
  startShell(own);
}

/** Who does not answer and since when. In clock times: the bar is an alert, so each change of its words is spoken. */
function tellSilence() {
  const frame = live.frame;
  const state = live.state();
  const who = state === "live" ? "" : whoIsSilent(frame, state);
  setAttr(document.body, "data-silent", who || null);
  if (state === "live" || !(frame || who)) return;
  const since = frame ? ` has not answered since ${clock(frame.at_ms)}` : " does not answer";
  const seen = reach.downSinceMs === null ? "" : frame ? ` (${reach.redis})` : ` (${reach.redis}), seen by this page since ${clock(reach.downSinceMs)}`;
  const heads = {
    rights: "Your session has ended: log in again to see live figures.",
    server: `The server${since}.`,
    redis: `Redis${since}${seen}. Nothing is accepted and nothing new is started.`,
    monitor: frame ? `The monitor has been silent since ${clock(frame.at_ms)}.` : "The server and Redis answer. A monitor makes the frames: is one running?",
  };
  const head = who && (reach.asked || who !== "monitor") ? `${heads[who]} ` : "";
  setText($(".stalebar b"), frame ? "Stale." : "Not live.");
  setText($("[data-stale-words]"), `${head}${frame ? `Live figures are of ${clock(frame.at_ms)}; what` : "What"} comes from the database can still be read.`);
}

/** The part of the address after the page, or after the hash. */
export function currentItem() {
  const root = `/${document.body.dataset.page}/`;
  let path = location.pathname;
  try { path = decodeURIComponent(path); } catch { /* an address that was cut off in the middle of a character */ }
  return path.startsWith(root) ? path.slice(root.length).replace(/\/$/, "") : "";
}

/** Show an item in the address without loading the page anew. @param {string} item */
export function setItem(item) {
  const root = `/${document.body.dataset.page}/`;
  const next = item ? `${root}${encodeURIComponent(item)}/` : root;
  if (location.pathname !== next) history.pushState({ item }, "", next + location.search);
}

/** Read the fields kept behind the hash, so that a filter has an address. @returns {Record<string, string>} */
export function hashFields() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** @param {Record<string, string|null|undefined>} fields */
export function setHash(fields) {
  const kept = new URLSearchParams();
  for (const [key, value] of Object.entries(fields)) if (value) kept.set(key, value);
  const text = kept.toString();
  history.replaceState(history.state, "", `${location.pathname}${location.search}${text ? `#${text}` : ""}`);
}

/**
 * Run a read and show its error where the answer would stand. The newest call wins.
 * @template T @param {HTMLElement} root @param {() => Promise<T>} read @param {(data: T) => void} draw
 */
export async function reading(root, read, draw) {
  const held = /** @type {any} */ (root);
  const mine = (held.sluicegateRead = Symbol("read"));
  try {
    const data = await read();
    if (held.sluicegateRead === mine) draw(data);
  } catch (error) {
    if (held.sluicegateRead !== mine) return;
    held.sluicegateKey = undefined;
    root.replaceChildren(h("p", { class: "fault section", role: "alert" }, shape("diamond"), error instanceof Error ? error.message : String(error), " ",
      h("button", { type: "button", class: "plain", onclick: () => reading(root, read, draw) }, "Try again")));
  }
}

/** A time with UTC on hover. @param {number|null|undefined} atMs @param {string} [none] */
export function at(atMs, none = "\u2013") {
  return atMs ? h("time", { title: utc(atMs), class: "nowrap" }, clock(atMs)) : h("span", { class: "quiet" }, none);
}

/** A field's name in words, without the unit, which its value carries. @param {string} key */
export function plainName(key) {
  return key.replace(/_m?s$/, "").replaceAll("_", " ");
}

/** A link to what jobs call. @param {string} name */
export function downstreamLink(name) {
  return h("a", { class: "link", href: `/downstreams/${encodeURIComponent(name)}/` }, name);
}

/** Name and value pairs. @param {[string, any][]} pairs */
export function facts(pairs) {
  return h("dl", { class: "fields" }, pairs.filter((p) => p[1] !== null && p[1] !== undefined && p[1] !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** @param {string} title @param {string|Node|null} small @param {...any} children */
export function part(title, small, ...children) {
  return h("section", { class: "part" }, h("h2", { class: "title" }, title, small ? h("small", {}, small) : null), children);
}

/** A table whose cells stand under each other on a phone, each beside the name of its column. @param {HTMLElement} table */
export function stacked(table) {
  const { tHead, tBodies } = /** @type {HTMLTableElement} */ (table);
  const names = [...(tHead?.rows[0].cells || [])].map((cell) => cell.dataset.name || (cell.textContent || "").split(",")[0]);
  for (const row of tBodies[0].rows) [...row.cells].forEach((cell, i) => { if (i && names[i]) cell.dataset.column = names[i]; });
  table.classList.add("stacked");
  return table;
}

/** A field in a form: name above, unit beside, meaning below. @param {string} name @param {HTMLElement} input @param {string} [unit] @param {string} [meaning] */
export function field(name, input, unit = "", meaning = "") {
  return h("label", { class: "field" }, h("span", { class: "field-name" }, name, unit ? h("span", { class: "quiet" }, `${NBSP}${unit}`) : null), input, meaning ? h("span", { class: "quiet meaning" }, meaning) : null);
}

/** @param {[string, string][]} options @param {string} value @param {Record<string, any>} [props] @returns {HTMLSelectElement} */
export function choice(options, value, props = {}) {
  const node = /** @type {HTMLSelectElement} */ (h("select", props, options.map(([v, text]) => h("option", { value: v }, text))));
  node.value = value;
  return node;
}

/** Wait for typing to pause. @param {(...args: any[]) => void} run @param {number} [ms] */
export function afterTyping(run, ms = 250) {
  let timer = 0;
  return (...args) => { clearTimeout(timer); timer = window.setTimeout(() => run(...args), ms); };
}
