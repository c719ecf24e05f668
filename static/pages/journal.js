// Who did what, was it allowed, and how did the modes change? The journal and the transitions.
import { get, query } from "../js/api.js";
import { $, h } from "../js/dom.js";
import { segments } from "../js/dialog.js";
import { shape } from "../js/shapes.js";
import { duration, isKnown } from "../js/units.js";
import { difference } from "./difference.js";
import { afterTyping, at, choice, hashFields, reading, setHash, stacked, startPage } from "./page.js";

const VERBS = ["set_mode", "change_policy", "replay", "discard", "change_batch", "cancel", "acknowledge_alert", "snooze_alert", "change_alert_rule", "create_key", "revoke_key", "create_user", "reveal", "suspend_tenant", "resume_tenant", "delete_payloads", "rekey_payloads", "watch_redis", "data_lost", "log_in"];
const filter = { show: "acts", search: "", verb: "", outcome: "", scope: "", ...hashFields() };
const root = $("[data-root]");
const list = h("div");
const searchInput = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "target or reason", "aria-label": "search the journal", value: filter.search }));
searchInput.addEventListener("input", afterTyping(() => { filter.search = searchInput.value.trim(); load(); }));
const verb = choice([["", "every act"], ...VERBS.map((v) => /** @type {[string, string]} */ ([v, v.replaceAll("_", " ")]))], filter.verb, { "aria-label": "act" });
const outcome = choice([["", "any outcome"], ["done", "done"], ["refused", "refused"], ["failed", "failed"]], filter.outcome, { "aria-label": "outcome" });
verb.addEventListener("change", () => { filter.verb = verb.value; load(); });
outcome.addEventListener("change", () => { filter.outcome = outcome.value; load(); });
const filters = h("div", { class: "acts" }, h("div", { class: "search" }, searchInput, h("kbd", {}, "/")), verb, outcome);
$("[data-head-end]").append(filters);
root.replaceChildren(h("div", { class: "section" }, h("div", { class: "part" }, segments([["acts of people and the monitor", "acts"], ["mode transitions", "modes"]], filter.show, (v) => { filter.show = v; load(); }, "what is listed")), list));

/** @type {any[]} */ let rows = [];
/** @type {number|null} */ let next = null;

function path(before = null) {
  return filter.show === "modes" ? `/transitions${query({ scope: filter.scope, limit: 100, before })}` : `/journal${query({ search: filter.search, verb: filter.verb, outcome: filter.outcome, limit: 100, before })}`;
}

function load() {
  setHash({ show: filter.show === "acts" ? "" : filter.show, search: filter.search, verb: filter.verb, outcome: filter.outcome });
  filters.hidden = filter.show === "modes";
  reading(list, () => get(path()), (data) => { rows = data.entries || data.transitions; next = data.next_before; draw(); });
}

function draw() {
  const empty = filter.show === "modes" ? "The mode has never changed." : "Nothing is written that matches.";
  const body = stacked(filter.show === "modes" ? modes() : acts());
  list.replaceChildren(rows.length ? h("div", { class: "scrollx" }, body) : h("p", { class: "empty-note" }, empty), next ? h("button", { type: "button", class: "plain", onclick: async () => { const data = await get(path(next)); rows = [...rows, ...(data.entries || data.transitions)]; next = data.next_before; draw(); } }, "Show older") : "");
}

function acts() {
  return h("table", {}, h("thead", {}, h("tr", {}, ["when", "who", "did", "to", "what changed", "reason", "outcome"].map((t) => h("th", {}, t)))), h("tbody", {}, rows.map((r) => h("tr", {}, h("td", {}, at(r.at_ms)),
    h("td", { class: "ink nowrap" }, r.actor || "nobody", h("span", { class: "quiet" }, ` ${[r.role, r.via].filter(Boolean).join(", ")}`)), h("td", { class: "nowrap" }, String(r.verb).replaceAll("_", " ")), h("td", { class: "wrap" }, r.target === "*" ? "all queues" : r.target || "\u2013"),
    h("td", { class: "wrap" }, difference(r.before, r.after) || "\u2013"), h("td", { class: "wrap" }, r.reason || h("span", { class: "quiet" }, "none given")), h("td", { class: "nowrap" }, shape(r.outcome === "done" ? "ring" : r.outcome === "refused" ? "slash" : "diamond"), r.outcome)))));
}

function modes() {
  return h("table", {}, h("thead", {}, h("tr", {}, ["when", "where", "from", "to", "who or what", "measured", "reason", "until", "held for"].map((t) => h("th", {}, t)))), h("tbody", {}, rows.map((r, i) => {
    const later = rows.slice(0, i).reverse().find((x) => x.scope === r.scope);
    return h("tr", {}, h("td", {}, at(r.at_ms)), h("td", {}, r.scope === "*" ? "all queues" : r.scope), h("td", {}, r.before), h("td", { class: "ink" }, r.after), h("td", {}, r.automatic ? "automatic" : r.by || "\u2013", r.pinned ? ", pinned" : ""),
      h("td", {}, r.measure ? `${r.measure} ${isKnown(r.value) ? Number(r.value.toPrecision(4)) : "\u2013"}, threshold ${isKnown(r.threshold) ? Number(r.threshold.toPrecision(4)) : "\u2013"}` : "\u2013"), h("td", { class: "wrap" }, r.reason || h("span", { class: "quiet" }, "none given")), h("td", {}, typeof r.until === "number" ? at(r.until) : r.until || "\u2013"), h("td", {}, later ? duration(later.at_ms - r.at_ms) : h("span", { class: "quiet" }, "in force")));
  })));
}

startPage({ search: () => searchInput.focus() });
load();
