// Who works, on what, since when, and who has fallen silent?
import { drawSlots } from "../js/bars.js";
import { $, h, swap } from "../js/dom.js";
import { letters } from "../js/frame.js";
import { shape } from "../js/shapes.js";
import { shortName } from "../js/side.js";
import { NBSP, clock, count, duration, isKnown, plural } from "../js/units.js";
import { at, facts, startPage } from "./page.js";

const root = $("[data-root]");
/** @type {Map<string, any>} */
const cards = new Map();
const box = h("div", { class: "section" });
root.replaceChildren(box);

startPage({
  wait: (why) => swap(box, why, () => h("p", { class: "empty-note" }, shape("dashed"), why)),
  draw: (frame, state) => {
    const workers = frame.workers || [];
    const letterOf = letters(frame.queues.map((q) => q.name));
    const slots = workers.filter((w) => w.state !== "gone").reduce((n, w) => n + (w.slots || 0), 0);
    const busy = workers.reduce((n, w) => n + (w.held || []).filter((j) => isKnown(j.started_at_ms)).length, 0);
    swap($("[data-facts]"), `${workers.length} ${slots} ${busy} ${state}`, () => [h("span", {}, plural(workers.length, "worker")), h("span", {}, `${count(busy)} of ${count(slots)} slots busy`), ...Object.entries(letterOf).map(([name, letter]) => h("span", { class: "quiet" }, `${letter} = ${name}`))]);
    if (!workers.length) {
      cards.clear();
      swap(box, "none", () => h("div", { class: "empty-note" }, "No worker is connected, so nothing that waits is worked off; admission goes on by the bounds. Start one where your tasks are: ", h("code", { class: "mono ink" }, "celery -A config worker --concurrency 4")));
      return;
    }
    if (!cards.size) { box.replaceChildren(); /** @type {any} */ (box).sluicegateKey = "cards"; }
    const names = new Set(workers.map((w) => w.name));
    for (const [name, card] of cards) if (!names.has(name)) { card.node.remove(); cards.delete(name); }
    for (const w of workers) {
      let card = cards.get(w.name);
      if (!card) {
        card = { slots: h("div", { class: "slots" }), head: h("div"), held: h("div") };
        card.node = h("article", { class: "workercard", "aria-label": w.name }, card.head, h("div", {}, card.slots, card.held));
        cards.set(w.name, card);
        box.append(card.node);
      }
      drawSlots(card.slots, w, letterOf, 128);
      const ago = isKnown(w.beat_ago_ms) ? w.beat_ago_ms : null;
      const isGone = w.state !== "live";
      swap(card.head, JSON.stringify([w.state, state, Math.floor((ago || 0) / 100), w.slots, w.queues]), () => [
        h("h2", { class: "title" }, shortName(w.name)),
        facts([["state", h("span", {}, shape(state !== "live" ? "dashed" : isGone ? "diamond" : "ring"), state !== "live" ? "unknown, no live frame" : isGone ? `${w.state} for ${duration(Math.round((ago || 0) / 1000) * 1000)}` : `beat ${((ago || 0) / 1000).toFixed(1)}${NBSP}s ago`)],
          ["process", `${w.host || "host unknown"}${w.pid ? `, pid ${w.pid}` : ""}`], ["pool", `${w.pool || "unknown"}, ${plural(w.slots || 0, "slot")}`], ["queues", (w.queues || []).join(", ") || "none told"], ["since", isKnown(w.started_at_ms) ? at(w.started_at_ms) : w.unknown?.started_at_ms || "not told"]])]);
      const held = w.held || [];
      const second = Math.floor(frame.at_ms / 1000);
      swap(card.held, JSON.stringify([held.map((j) => j.id), state === "live" ? second : 0]), () => (held.length ? [h("table", { class: "tight" },
        h("thead", {}, h("tr", {}, h("th", {}, "job"), h("th", {}, "task"), h("th", {}, "queue"), h("th", { class: "num" }, "started"), h("th", { class: "num" }, "runs for"))),
        h("tbody", {}, held.slice(0, 24).map((j) => h("tr", {}, h("td", {}, h("a", { class: "idlink", href: `/jobs/${encodeURIComponent(j.id)}/` }, String(j.id).slice(0, 8))), h("td", { class: "ink" }, j.task || "\u2013"), h("td", {}, j.queue),
          h("td", { class: "num" }, isKnown(j.started_at_ms) ? clock(j.started_at_ms) : "reserved"), h("td", { class: "num" }, isKnown(j.started_at_ms) ? duration(Math.max(0, frame.at_ms - j.started_at_ms)) : "\u2013"))))), held.length > 24 ? h("p", { class: "quiet" }, `and ${count(held.length - 24)} more`) : null] : h("p", { class: "quiet" }, isGone ? "It holds nothing: what it held was given back when its leases ran out." : "It holds nothing now.")));
    }
  },
});
