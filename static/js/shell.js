// What does every page carry? Live sign, clock, counts in the header, legend, palette, keys to pages, theme.
import { $, $$, h, s, setAttr, setText, swap } from "./dom.js";
import { bind, commands, keysAreOff, toggleKeys } from "./keys.js";
import { live } from "./live.js";
import { fit, startPageMenu } from "./pagemenu.js";
import { say } from "./say.js";
import { shape } from "./shapes.js";
import { toggleTheme } from "./theme.js";
import { NBSP, clock, count, duration, utc } from "./units.js";

const PAGES = [
  ["R", "Control room", "/"], ["Q", "Queues", "/queues/"], ["J", "Jobs", "/jobs/"], ["X", "Quarantine", "/quarantine/"], ["W", "Workers", "/workers/"],
  ["T", "Tenants", "/tenants/"], ["D", "Downstreams", "/downstreams/"], ["A", "Alerts", "/alerts/"], ["P", "Policies", "/policies/"], ["C", "Contracts", "/contracts/"], ["V", "Privacy", "/privacy/"], ["U", "Audit", "/audit/"],
];

/** Start what all pages share. @param {{search?: () => void}} [own] */
export function startShell(own = {}) {
  const page = document.body.dataset.page;
  for (const link of $$("[data-nav]")) if (link.dataset.nav === page) link.setAttribute("aria-current", "page");
  startPageMenu();
  for (const item of $$("[data-legend]")) item.prepend(item.dataset.legend === "flow" ? flowKey() : shape(item.dataset.legend || "ring"));
  for (const button of $$("[data-open]")) button.addEventListener("click", () => openNamed(button));
  for (const [letter, label, path] of PAGES) bind({ keys: `G ${letter}`, label, group: "Go to", run: () => { location.href = path; } });
  bind({ keys: "Ctrl+K", label: "All commands", group: "Everywhere", run: openPalette });
  bind({ keys: "?", label: "All keys", group: "Everywhere", run: openKeys });
  bind({ keys: "T", label: "Dark or light", group: "Everywhere", run: toggleTheme });
  bind({ keys: "/", label: "Search", group: "Everywhere", run: own.search || openPalette });
  bind({ keys: "", label: "Turn single keys on or off", group: "Everywhere", run: () => { toggleKeys(); say(keysAreOff() ? "Keys are off." : "Keys are on."); } });
  live.onFrame(showCounts);
  live.connect();
  showLive();
  setInterval(showLive, 250);
}

function flowKey() {
  return s("svg", { class: "flowkey", viewBox: "0 0 48 12", "aria-hidden": "true" },
    s("path", { d: "M0 2h24v8H0z", fill: "var(--fill)" }), s("path", { d: "M24.5 2.5h23v7h-23z", fill: "none", stroke: "var(--edge)" }),
    s("path", { d: "M27 10l6-8M33 10l6-8M39 10l6-8", stroke: "var(--edge)" }), s("path", { d: "M31 0v12", stroke: "var(--ink)", "stroke-width": 2 }));
}

/** @param {HTMLElement} button */
function openNamed(button) {
  if (button.dataset.open === "palette") openPalette();
  else if (button.dataset.open === "keys") openKeys();
}

let lastState = "";
let lastSeq = -1;
let bar = 0;
let lastWide = "";

function showLive() {
  const state = live.state();
  const age = live.ageMs();
  const atMs = live.frame ? live.frame.at_ms : null;
  document.body.dataset.live = state;
  const word = state === "live" ? "live" : state === "connecting" ? "connecting" : "stale";
  setText($("[data-liveword]"), word);
  const text = age === null ? "" : state === "live" ? `${NBSP}${(age / 1000).toFixed(1)}${NBSP}s` : `${NBSP}${age < 10000 ? `${Math.floor(age / 1000)}${NBSP}s` : duration(Math.floor(age / 1000) * 1000)}`;
  swap($("[data-liveage]"), text, () => (age === null ? [] : [", ", h("span", { class: "long" }, state === "live" ? "frame" : "last frame", " "), text.trim(), h("span", { class: "long" }, `${NBSP}ago`)]));
  setAttr($("[data-livesign]"), "title", atMs ? `newest frame ${clock(atMs)}, ${utc(atMs)}` : "no frame yet");
  const bars = $(".livesign .bars");
  const mark = $("[data-liveshape]");
  setAttr(bars, "hidden", state !== "live");
  bars.style.display = state === "live" ? "" : "none";
  mark.hidden = state === "live";
  swap(mark, state, () => shape(state === "connecting" ? "dashed" : "diamond"));
  if (live.frame && live.frame.seq !== lastSeq) {
    lastSeq = live.frame.seq;
    bar = (bar + 1) % 3;
    [...bars.children].forEach((rect, i) => setAttr(rect, "class", i === bar ? "on" : ""));
  }
  const clockNode = $("[data-clock]");
  const now = live.now();
  setText(clockNode, clock(now));
  setAttr(clockNode, "title", utc(now));
  if (state !== lastState) {
    if (state === "stale" || state === "lost") say(`Stale: the last frame is of ${clock(atMs)}.`);
    else if (state === "live" && (lastState === "stale" || lastState === "lost")) say("Live again.");
    lastState = state;
    document.dispatchEvent(new CustomEvent("livechange", { detail: state }));
  }
}

/** @param {import("./frame.js").Frame} frame */
function showCounts(frame) {
  const held = frame.quarantine?.count;
  const wide = `${held} ${frame.alerts?.firing}`;
  for (const node of $$('[data-count="quarantine"]')) setText(node, held ? count(held) : "");
  const firing = frame.alerts?.firing || 0;
  for (const node of $$('[data-count="alerts"]')) setText(node, firing ? count(firing) : "");
  const worst = worstAlert(frame);
  for (const node of $$("[data-alert-shape]")) swap(node, firing ? worst : "", () => (firing ? [shape(worst)] : []));
  if (wide !== lastWide) fit();
  lastWide = wide;
}

/** The shape of the worst firing alert: a page is over, the rest is guard. @param {import("./frame.js").Frame} frame */
export function worstAlert(frame) {
  const items = frame.alerts?.items || [];
  return items.some((a) => ["critical", "page", "error", "high"].includes(a.severity)) ? "diamond" : "triangle";
}

function chord(keys) {
  return keys.split(" / ")[0].split(/[ ]/).map((k) => h("kbd", {}, k.replace("+", " ")));
}

export function openKeys() {
  const groups = new Map();
  for (const command of commands) {
    if (!command.keys) continue;
    if (!groups.has(command.group)) groups.set(command.group, []);
    groups.get(command.group).push(command);
  }
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "ask", "aria-label": "All keys" },
    h("div", { class: "ask-head" }, h("h2", {}, "All keys"), h("p", {}, "Off while typing. In dialogs, Ctrl Enter does and Esc leaves; no single key ever finishes a destructive act.")),
    h("div", { class: "keylist" }, [...groups].map(([name, list]) => [h("h3", {}, name), list.map((c) => h("p", {}, c.label, h("span", {}, chord(c.keys))))])),
    h("div", { class: "ask-foot" },
      h("button", { type: "button", class: "main", autofocus: true, onclick: () => dialog.close() }, "Close", h("kbd", {}, "Esc")),
      h("button", { type: "button", onclick: (e) => { toggleKeys(); e.currentTarget.textContent = keysAreOff() ? "Turn single keys on" : "Turn single keys off"; } }, keysAreOff() ? "Turn single keys on" : "Turn single keys off"))));
  showModal(dialog);
}

export function openPalette() {
  let chosen = 0;
  const list = h("ul", { role: "listbox", id: "palette-list" });
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "text", "aria-label": "command, page, queue or job id", placeholder: "command, page, queue or job id", role: "combobox", "aria-controls": "palette-list", "aria-expanded": "true", autocomplete: "off" }));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "palette", "aria-label": "All commands" }, input, list));
  /** @type {{label: string, keys: string, run: () => void}[]} */
  let shown = [];
  const draw = () => {
    const text = input.value.trim().toLowerCase();
    const queues = (live.frame?.queues || []).map((q) => ({ label: `Queue ${q.name}`, keys: "", run: () => { location.href = `/queues/${encodeURIComponent(q.name)}/`; } }));
    const ids = /^[0-9a-f-]{8,}$/.test(text) ? [{ label: `Job ${text}`, keys: "", run: () => { location.href = `/jobs/${encodeURIComponent(text)}/`; } }] : [];
    shown = [...ids, ...commands.filter((c) => c.keys !== "Ctrl+K" && !c.hidden), ...queues].filter((c) => c.label.startsWith("Job ") || text.split(/\s+/).every((w) => c.label.toLowerCase().includes(w))).slice(0, 40);
    chosen = Math.min(chosen, Math.max(0, shown.length - 1));
    list.replaceChildren(...(shown.length ? shown.map((c, i) => h("li", { role: "option", "aria-selected": i === chosen ? "true" : "false", onclick: () => go(c) }, c.label, c.keys ? h("span", { class: "k" }, chord(c.keys)) : null)) : [h("li", {}, "Nothing by that name.")]));
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const go = (c) => { dialog.close(); c.run(); };
  input.addEventListener("input", () => { chosen = 0; draw(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); chosen = (chosen + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % Math.max(1, shown.length); draw(); }
    else if (event.key === "Enter" && shown[chosen]) { event.preventDefault(); go(shown[chosen]); }
  });
  draw();
  showModal(dialog);
  input.focus();
}

/** @param {HTMLDialogElement} dialog */
function showModal(dialog) {
  const before = /** @type {HTMLElement|null} */ (document.activeElement);
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus?.(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}
