// Who may see what jobs carry, what was deleted at whose request, and how is it ordered?
import { get, may, post } from "../js/api.js";
import { ask, reasonField } from "../js/dialog.js";
import { $, h, setText, swap } from "../js/dom.js";
import { shape } from "../js/shapes.js";
import { count, duration, plural } from "../js/units.js";
import { at, currentItem, field, part, setItem, stacked, startPage } from "./page.js";

const root = $("[data-root]");
const admin = may("admin");
const orderNode = h("div");
const listNode = h("div");
const rulesNode = h("div");
root.replaceChildren(h("div", { class: "section twocol" }, orderNode, rulesNode), h("div", { class: "section" }, listNode));
const PLACES = ["waiting", "delayed", "spilled", "running", "held", "settled", "quarantine", "results"];

function drawRules(rules) {
  const kept = (s, none) => (s === null ? none : duration(s * 1000));
  rulesNode.replaceChildren(part("Payload classes", "declared with the job, else its queue's policy", h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, ["class", "shown unasked", "error text", "revealed to", "result kept", "held payload kept"].map((t) => h("th", {}, t)))),
    h("tbody", {}, rules.map((r) => h("tr", {}, h("td", { class: "ink" }, r.payload_class), h("td", {}, { values: "all but secret names", names: "names of arguments", nothing: "nothing" }[r.shows]), h("td", {}, r.error_text ? "shown" : "type and places"), h("td", {}, r.revealed_to), h("td", {}, kept(r.result_kept_s, "1 h")), h("td", {}, kept(r.payload_kept_s, "as the policy says"))))))))));
}

function drawOrder() {
  if (!admin) { orderNode.replaceChildren(part("Delete what jobs carry", null, h("p", { class: "why" }, "An admin may order a deletion and read the receipts."))); return; }
  const text = (label) => /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": label }));
  const tag = text("tag");
  const tenant = text("tenant");
  const fault = h("p", { class: "fault", role: "alert" });
  orderNode.replaceChildren(part("Delete what jobs carry", "of a tag, a tenant, or a tag of one tenant", h("form", { class: "formgrid", onsubmit: (event) => {
    event.preventDefault();
    fault.textContent = tag.value.trim() || tenant.value.trim() ? "" : "Name a tag or a tenant.";
    if (!fault.textContent) askDelete(tag.value.trim(), tenant.value.trim());
  } }, field("tag", tag, "", "as jobs were submitted with it"), field("tenant", tenant), h("div", { class: "wide acts" }, h("button", { type: "submit", class: "main" }, "Order a deletion")), h("div", { class: "wide" }, fault))));
}

/** @param {string} tag @param {string} tenant */
function askDelete(tag, tenant) {
  const reason = reasonField("why, for example the request's number");
  const again = /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "again" }));
  const what = [tag ? `tag ${tag}` : "", tenant ? `tenant ${tenant}` : ""].filter(Boolean).join(" of ");
  ask({
    title: `Delete what every job of ${what} carries?`, lead: "How many that are is counted as they are found, and stands in the receipt.",
    parts: [{ name: "what happens", body: "Arguments, results, errors and tags go: of jobs that wait, are delayed, held or settled. What waits ends as cancelled; what runs is asked to stop and keeps nothing. Each leaves a tombstone." }, { name: "reason", body: reason }, { name: `type ${tag || tenant}`, body: again }, { name: "afterwards", body: "Cannot be undone. Written to the audit, the tag as a digest." }],
    verb: "Delete for good",
    canAct: () => (!reason.value.trim() ? "A reason is needed: it is kept in the receipt." : again.value.trim() !== (tag || tenant) ? `Type ${tag || tenant} to be sure.` : ""),
    act: async () => { const made = await post("/deletions", { ...(tag ? { tag } : {}), ...(tenant ? { tenant } : {}), reason: reason.value.trim() }); setItem(made.id); read(); return "Ordered; the receipt fills as it goes."; },
  });
}

/** @param {any[]} list */
function drawList(list) {
  setText($("[data-facts]"), `${plural(list.length, "deletion")}; the newest 100`);
  const shown = currentItem();
  swap(listNode, JSON.stringify([list, shown]), () => part("Receipts", "newest first", list.length ? h("div", { class: "scrollx" }, stacked(h("table", {}, h("thead", {}, h("tr", {}, ["receipt", "state", "of", "began", "took", "who", ...PLACES, "ran at the moment", "reason"].map((t) => h("th", { class: PLACES.includes(t) ? "num" : null }, t)))),
    h("tbody", {}, list.map((d) => h("tr", { "aria-current": d.id === shown ? "true" : null, "data-receipt": d.id }, h("td", { class: "mono ink", title: d.id }, d.id.slice(0, 8)), h("td", { class: "nowrap" }, shape(d.state === "done" ? "ring" : "dashed"), " ", d.state === "finishing" ? "waits for what ran" : d.state), h("td", { class: "wrap" }, [d.tag_sha256 ? `tag sha256 ${d.tag_sha256.slice(0, 12)}` : "", d.tenant ? `tenant ${d.tenant}` : ""].filter(Boolean).join(" of ")),
      h("td", {}, at(d.began_at_ms)), h("td", { class: "nowrap" }, d.ended_at_ms ? duration(Math.max(1, d.ended_at_ms - d.began_at_ms)) : "\u2013"), h("td", {}, d.by), PLACES.map((p) => h("td", { class: "num" }, count(d.counts[p] || 0))), h("td", { class: "wrap" }, d.running.length ? d.running.map((r) => `${r.task}: ${r.became || "runs"}`).join(", ") : "nothing"), h("td", { class: "wrap" }, d.reason))))))) : h("p", { class: "empty-note" }, "Nothing was deleted yet. Jobs can carry tags (tags in the API), so that what is about a person can be found and deleted.")));
}

async function read() {
  if (!admin) return;
  try { drawList((await get("/deletions?limit=100")).deletions); } catch (error) { setText($("[data-facts]"), /** @type {Error} */ (error).message); }
}

startPage({ draw: () => {} });
drawOrder();
get("/payload-classes").then((data) => drawRules(data.classes), () => {});
read();
setInterval(() => { if (!document.hidden) read(); }, 2000);
