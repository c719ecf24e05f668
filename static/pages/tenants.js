// Who offers how much, who is refused, who takes more than a fair share, and who is suspended?
import { get, may, post } from "../js/api.js";
import { ShareBar } from "../js/bars.js";
import { ask, reasonField } from "../js/dialog.js";
import { $, h, setAttr, setText, swap } from "../js/dom.js";
import { sum } from "../js/frame.js";
import { live } from "../js/live.js";
import { DASH, age, bytes, count, isKnown, percent, plural, rate } from "../js/units.js";
import { shape } from "../js/shapes.js";
import { at, part, stacked, startPage } from "./page.js";

const root = $("[data-root]");
const body = h("tbody");
const foot = h("tfoot");
const COLUMNS = ["offered/s", "accepted", "refused", "done", "waiting", "in flight", "stored", "oldest"];
const table = h("table", { class: "pinned" }, h("thead", {}, h("tr", {}, h("th", {}, "tenant"), h("th", {}, "queue"), COLUMNS.map((c) => h("th", { class: "num" }, c)), h("th", {}, "share of slot time; tick: fair share"), h("th", { "aria-label": "suspend" }))), body, foot);
const unseen = h("div");
const sample = h("p", { class: "part", hidden: true, "data-sample": true });
const note = h("p", { class: "empty-note", hidden: true }, "No tenant has offered anything yet. A tenant appears with its first API key's job, or with the header ", h("code", { class: "mono ink" }, "tenant"), " on a Celery publish.");
const suspendedNode = h("div", { class: "section", "data-suspended": true });
root.replaceChildren(suspendedNode, h("div", { class: "section scrollx" }, unseen, sample, table, note));
const why = may("operator") ? "" : "viewers may look; an operator may suspend or resume a tenant";

/** How far down the list of suspended tenants somebody has asked. */
let pages = 1;

async function readSuspended() {
  try {
    let { suspensions: list, next_before: next, count: all } = await get("/suspensions?limit=200");
    for (let page = 1; page < pages && next; page += 1) {
      const older = await get(`/suspensions?limit=200&before=${next}`);
      list = [...list, ...older.suspensions];
      next = older.next_before;
    }
    suspendedNode.hidden = !list.length;
    swap(suspendedNode, JSON.stringify([list, all]), () => part("Suspended", `${plural(all, "tenant")}${next ? `, the newest ${count(list.length)} shown` : ""}; offers refused, waiting jobs held and not counted in any age`, h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, ["tenant", "since", "who", "reason", ""].map((t) => h("th", {}, t)))),
      h("tbody", {}, list.map((s) => h("tr", {}, h("td", { class: "ink" }, shape("slash"), " ", s.tenant), h("td", {}, at(s.at_ms)), h("td", {}, s.by), h("td", { class: "wrap" }, s.reason), h("td", {}, h("button", { type: "button", "data-act": "resume", "aria-disabled": why ? "true" : null, title: why || null, onclick: () => { if (!why) askResume(s.tenant); } }, "Resume")))))))), next ? h("button", { type: "button", class: "plain", onclick: () => { pages += 1; readSuspended(); } }, "Show older") : null));
  } catch { /* the next read tells */ }
}

/** @param {string} tenant @param {number} waits */
function askSuspend(tenant, waits) {
  const reason = reasonField("why, for example a ticket");
  ask({
    title: `Suspend 1 tenant, ${tenant}?`, lead: `${plural(waits, "job")} of it wait or are delayed now.`,
    parts: [{ name: "what happens", body: "What it offers is refused with the reason suspended (403). What waits is held in its place until it is resumed, and counts in no age meanwhile. What runs ends; a retry of it is held." }, { name: "reason", body: reason }, { name: "afterwards", body: "Resume undoes it: held jobs become eligible then, in their order. Written to the audit." }],
    verb: "Suspend 1 tenant", canAct: () => (reason.value.trim() ? "" : "A reason is needed: it is kept in the audit."),
    act: async () => { const done = await post(`/tenants/${encodeURIComponent(tenant)}/suspend`, { reason: reason.value.trim() }); readSuspended(); return done.in_force ? `Suspended; ${plural(done.held, "job")} held.` : "Suspended; in force when Redis is back."; },
  });
}

/** @param {string} tenant */
function askResume(tenant) {
  const reason = reasonField("what changed");
  ask({
    title: `Resume 1 tenant, ${tenant}?`, parts: [{ name: "what happens", body: "Its offers are taken again. Held jobs become eligible now, in their order; their age begins now." }, { name: "reason", body: reason }],
    verb: "Resume 1 tenant",
    act: async () => { const done = await post(`/tenants/${encodeURIComponent(tenant)}/resume`, { reason: reason.value.trim() }); readSuspended(); return done.in_force ? `Resumed; ${plural(done.released, "job")} let go.` : "Resumed; in force when Redis is back."; },
  });
}
/** @type {Map<string, any>} */
const rows = new Map();

/** @param {string} tenant */
function waitsOf(tenant) {
  return sum((live.frame?.tenants || []).filter((t) => t.tenant === tenant), (t) => t.depth + t.delayed);
}

startPage({
  wait: (why) => { table.hidden = true; swap(unseen, why, () => h("p", { class: "empty-note" }, shape("dashed"), why)); },
  draw: (frame, state) => {
    unseen.hidden = true;
    const list = frame.tenants || [];
    const tenants = new Set(list.map((t) => t.tenant));
    const left = frame.tenants_left_out || 0;
    setText($("[data-facts]"), `${plural(tenants.size, "tenant")}${left ? " shown" : ""}; rates per second over the last 5\u00a0s`);
    sample.hidden = !left;
    if (left) swap(sample, `${list.length} ${left}`, () => [h("b", {}, `A sample: ${count(list.length)} of ${count(list.length + left)} rows`), ", a row being a tenant in a queue. Of those whose work has waited longest in each queue, and those that offered last, the ones that hold and offer most are shown; who is in it changes as they do. The last line is of all."]);
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
        const acts = h("td", {});
        row = { cells, bar, share, acts, node: h("tr", {}, h("td", { class: "ink clip", title: t.tenant }, t.tenant), h("td", {}, t.queue ? h("a", { class: "link", href: `/queues/${encodeURIComponent(t.queue)}/` }, t.queue) : "all"), cells, h("td", {}, share, " ", bar.node), acts) };
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
      swap(row.acts, JSON.stringify([t.suspended, t.suspended ? 0 : t.depth + t.delayed]), () => (t.suspended ? [shape("slash"), " held"]
        : h("button", { type: "button", class: "plain link", "data-act": "suspend", "aria-disabled": why ? "true" : null, title: why || null, onclick: () => { if (!why) askSuspend(t.tenant, waitsOf(t.tenant)); } }, "Suspend")));
    }
    for (const [key, row] of rows) if (!keys.has(key)) { row.node.remove(); rows.delete(key); }
    const all = [...["offered", "accepted", "refused", "succeeded"].map((k) => [sum(frame.queues, (q) => q.rates?.[k]), sum(list, (t) => t.rates?.[k]), rate]),
      ...["depth", "in_flight", "bytes"].map((k) => [sum(frame.queues, (q) => q[k]), sum(list, (t) => t[k]), k === "bytes" ? bytes : count])];
    const line = (name, cls, values) => h("tr", {}, h("td", { class: cls }, name), h("td", {}, cls ? "all" : ""), values.map((v) => h("td", { class: `num ${cls}`, title: v === DASH ? "a row that is shown has no rate yet" : null }, v)), h("td"), h("td"), h("td"));
    swap(foot, JSON.stringify([frame.seq, state]), () => [
      left ? line(`${count(left)} more rows`, "", all.map(([total, shown, form]) => form(isKnown(total) && isKnown(shown) ? Math.max(0, total - shown) : null))) : null,
      line("all", "ink", all.map(([total, , form]) => form(total)))]);
  },
});
readSuspended();
setInterval(() => { if (!document.hidden) readSuspended(); }, 5000);
