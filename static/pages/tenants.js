// Who offers how much, who is refused, and who takes more than a fair share?
import { ShareBar } from "../js/bars.js";
import { $, h, setAttr, setText, swap } from "../js/dom.js";
import { sum } from "../js/frame.js";
import { age, bytes, count, isKnown, percent, plural, rate } from "../js/units.js";
import { startPage } from "./page.js";

const root = $("[data-root]");
const body = h("tbody");
const foot = h("tfoot");
const COLUMNS = ["offered/s", "accepted", "refused", "done", "waiting", "in flight", "stored", "oldest"];
const table = h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "tenant"), h("th", {}, "queue"), COLUMNS.map((c) => h("th", { class: "num" }, c)), h("th", {}, "share of slot time; tick: fair share"))), body, foot);
const note = h("p", { class: "empty-note", hidden: true }, "No tenant has offered anything yet. A tenant appears with its first API key's job, or with the header ", h("code", { class: "mono ink" }, "tenant"), " on a Celery publish.");
root.replaceChildren(h("div", { class: "section scrollx" }, table, note));
/** @type {Map<string, any>} */
const rows = new Map();

startPage({
  draw: (frame, state) => {
    const list = frame.tenants || [];
    const tenants = new Set(list.map((t) => t.tenant));
    setText($("[data-facts]"), `${plural(tenants.size, "tenant")}, the largest 50 and the rest; rates per second over the last 5\u00a0s`);
    table.hidden = !list.length;
    note.hidden = !!list.length;
    const keys = new Set();
    for (const t of [...list].sort((a, b) => String(a.tenant).localeCompare(b.tenant) || String(a.queue).localeCompare(String(b.queue)))) {
      const key = `${t.tenant}\u0000${t.queue}`;
      keys.add(key);
      let row = rows.get(key);
      if (!row) {
        const bar = new ShareBar();
        const cells = COLUMNS.map(() => h("td", { class: "num livefig" }));
        const share = h("span", { class: "num" });
        share.style.display = "inline-block"; share.style.width = "52px"; bar.node.style.width = "140px"; bar.node.style.display = "inline-block";
        row = { cells, bar, share, node: h("tr", {}, h("td", { class: "ink" }, t.tenant), h("td", {}, t.queue ? h("a", { class: "link", href: `/queues/${encodeURIComponent(t.queue)}/` }, t.queue) : "all"), cells, h("td", {}, share, " ", bar.node)) };
        rows.set(key, row);
        const after = [...body.children].find((n) => /** @type {any} */ (n).sluicegateSort > key);
        /** @type {any} */ (row.node).sluicegateSort = key;
        body.insertBefore(row.node, after || null);
      }
      const values = [rate(t.rates?.offered), rate(t.rates?.accepted), rate(t.rates?.refused), rate(t.rates?.succeeded), count(t.depth), count(t.in_flight), bytes(t.bytes), isKnown(t.oldest_age_ms) ? age(t.oldest_age_ms) : "\u2013"];
      values.forEach((v, i) => setText(row.cells[i], v));
      ["offered", "accepted", "refused", "succeeded"].forEach((k, i) => { setAttr(row.cells[i], "title", isKnown(t.rates?.[k]) ? null : t.rates?.unknown?.[k] || "not enough samples yet"); });
      setText(row.share, percent(t.share));
      setAttr(row.share, "title", t.unknown?.share || null);
      row.bar.update(t.share, t.fair_share);
    }
    for (const [key, row] of rows) if (!keys.has(key)) { row.node.remove(); rows.delete(key); }
    const total = (k) => rate(sum(frame.queues, (q) => q.rates?.[k]));
    swap(foot, JSON.stringify([frame.seq, state]), () => h("tr", {}, h("td", { class: "ink" }, "all"), h("td", {}, "all"), ["offered", "accepted", "refused", "succeeded"].map((k) => h("td", { class: "num ink" }, total(k))),
      h("td", { class: "num ink" }, count(sum(frame.queues, (q) => q.depth))), h("td", { class: "num ink" }, count(sum(frame.queues, (q) => q.in_flight))), h("td", { class: "num ink" }, bytes(sum(frame.queues, (q) => q.bytes))), h("td"), h("td")));
  },
});
