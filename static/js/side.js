// Who offers, what is refused and why, who works, what is held, what happened? The column beside the charts.
import { get } from "./api.js";
import { ShareBar, drawSlots } from "./bars.js";
import { h, setAttr, setText, swap } from "./dom.js";
import { letters, sum } from "./frame.js";
import { shape } from "./shapes.js";
import { REASON_WORDS } from "./states.js";
import { NBSP, clock, count, duration, isKnown, rate, utc } from "./units.js";

const SHOWN_TENANTS = 5;
/** Refusals by reason come as running totals; the rate is taken over this long. */
const REASON_WINDOW_MS = 5000;

/** @param {string} title @param {string} href */
function section(title, href) {
  const note = h("small");
  const body = h("div", { class: "side-body" });
  const node = h("section", { class: "side-part" }, h("h2", { class: "title" }, h("a", { href }, title), note), body);
  return { node, note, body };
}

export class Side {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.tenants = section("Tenants", "/tenants/");
    this.reasons = section("Refused, by reason", "/queues/");
    this.noReason = h("p", { class: "quiet" }, `nothing in the last ${REASON_WINDOW_MS / 1000}${NBSP}s`);
    this.reasons.body.append(this.noReason);
    this.workers = section("Workers", "/workers/");
    this.quarantine = section("Quarantine", "/quarantine/");
    this.shed = section("Gives way first", "/contracts/");
    this.shedKey = "";
    this.events = section("What happened", "/audit/");
    this.unknown = h("p", { class: "quiet", hidden: true }, "Tenants, reasons of refusals and workers are not kept in the history: unknown until a frame comes. What happened is in the ", h("a", { class: "link", href: "/audit/" }, "audit"), ".");
    root.append(this.unknown, ...[this.tenants, this.reasons, this.shed, this.workers, this.quarantine, this.events].map((s) => s.node));
    /** @type {Map<string, any>} */
    this.tenantRows = new Map();
    this.tenantBody = h("tbody");
    this.tenantTotal = ["offered", "accepted", "refused"].map(() => h("td", { class: "num" }));
    this.tenantDone = h("td", { class: "num quiet" });
    this.tenants.body.append(h("table", { class: "tight tenants" },
      h("thead", {}, h("tr", {}, h("th", {}, "tenant"), h("th", { class: "num" }, "offered"), h("th", { class: "num" }, "accepted"), h("th", { class: "num" }, "refused"), h("th"))),
      this.tenantBody, h("tfoot", {}, h("tr", {}, h("td", {}, "all"), this.tenantTotal, this.tenantDone))));
    setText(this.tenants.note, "a second; bar: slot time, tick: fair share");
    /** @type {Map<string, any>} */
    this.reasonRows = new Map();
    /** @type {{at: number, by: Record<string, number>}[]} */
    this.reasonHistory = [];
    /** @type {Map<string, any>} */
    this.workerRows = new Map();
  }

  /** @param {import("./frame.js").Frame} frame @param {boolean} isStale */
  update(frame, isStale) {
    this.unknown.hidden = !frame.isPast;
    for (const part of [this.tenants, this.reasons, this.workers, this.events]) part.node.hidden = !!frame.isPast;
    this.updateShed(frame);
    this.updateQuarantine(frame);
    if (frame.isPast) return;
    this.updateTenants(frame);
    this.updateReasons(frame);
    this.updateWorkers(frame, isStale);
    this.updateEvents(frame);
  }

  /** @param {import("./frame.js").Frame} frame */
  updateTenants(frame) {
    const all = byTenant(frame.tenants || [], !frame.tenants_left_out);
    // A tenant keeps its line while it is among the largest; lines do not swap every second.
    const kept = all.filter((t) => this.tenantRows.has(t.tenant)).slice(0, SHOWN_TENANTS);
    const largest = all.slice(0, SHOWN_TENANTS);
    const stays = kept.length === largest.length && largest.every((t) => this.tenantRows.has(t.tenant));
    const shown = stays ? [...this.tenantRows.keys()].filter((k) => k !== "\u0000rest").map((k) => all.find((t) => t.tenant === k)).filter(Boolean) : largest;
    const rest = all.filter((t) => !shown.includes(t));
    // A frame looks at some of many tenants: what the others do is what all queues have, less those shown.
    const others = frame.tenants_left_out ? { label: "all others", ...remainder(frame, shown) } : { label: `${rest.length} other${rest.length > 1 ? "s" : ""}`, ...totalOf(rest) };
    const isRest = rest.length > 0 || !!frame.tenants_left_out;
    const rows = isRest ? [...shown, { tenant: "\u0000rest", ...others }] : shown;
    if (!stays || isRest !== this.tenantRows.has("\u0000rest")) {
      this.tenantRows.clear();
      this.tenantBody.replaceChildren();
    }
    for (const t of rows) {
      let row = this.tenantRows.get(t.tenant);
      if (!row) {
        const bar = new ShareBar();
        const name = h("td", { class: "ink clip" });
        const cells = ["offered", "accepted", "refused"].map(() => h("td", { class: "num" }));
        row = { name, cells, bar, node: h("tr", {}, name, cells, h("td", { class: "barcell" }, bar.node)) };
        this.tenantRows.set(t.tenant, row);
        this.tenantBody.append(row.node);
      }
      setText(row.name, t.label || t.tenant);
      setAttr(row.name, "title", t.label ? null : t.tenant);
      ["offered", "accepted", "refused"].forEach((k, i) => { setText(row.cells[i], rate(t.rates[k])); setAttr(row.cells[i], "data-zero", !t.rates[k]); });
      row.bar.update(t.share, t.fair_share);
      setAttr(row.bar.node, "title", isKnown(t.share) ? `${Math.round(t.share * 100)}${NBSP}% of slot time${isKnown(t.fair_share) ? `, fair share ${Math.round(t.fair_share * 100)}${NBSP}%` : ""}` : "no slot time measured yet");
    }
    // The total is the queues' own, so that it can be checked against the rows above.
    ["offered", "accepted", "refused"].forEach((k, i) => setText(this.tenantTotal[i], rate(sum(frame.queues, (q) => q.rates?.[k]))));
    setText(this.tenantDone, `${rate(sum(frame.queues, (q) => q.rates?.succeeded))} done`);
    this.tenants.node.dataset.none = String(rows.length === 0);
  }

  /** @param {import("./frame.js").Frame} frame */
  updateReasons(frame) {
    const by = {};
    let given = false;
    for (const q of frame.queues) for (const [reason, n] of Object.entries(q.rates?.refused_by || {})) { by[reason] = (by[reason] || 0) + Number(n); given = true; }
    if (!given) {
      const totals = {};
      for (const q of frame.queues) for (const [reason, n] of Object.entries(q.totals?.refused_by || {})) totals[reason] = (totals[reason] || 0) + Number(n);
      this.reasonHistory.push({ at: frame.at_ms, by: totals });
      while (this.reasonHistory.length > 1 && frame.at_ms - this.reasonHistory[0].at > REASON_WINDOW_MS + 500) this.reasonHistory.shift();
      const first = this.reasonHistory[0];
      const seconds = (frame.at_ms - first.at) / 1000;
      for (const [reason, n] of Object.entries(totals)) by[reason] = seconds > 0.5 ? Math.max(0, n - (first.by[reason] || 0)) / seconds : 0;
    }
    const total = sum(frame.queues, (q) => q.rates?.refused);
    const most = Math.max(0.1, total || 0);
    const live = Object.entries(by).filter(([, n]) => n >= 0.05);
    for (const [reason] of live) if (!this.reasonRows.has(reason)) {
      const bar = new ShareBar();
      const n = h("span", { class: "num ink" });
      const node = h("div", { class: "reason" }, h("span", { class: "ink" }, REASON_WORDS[reason] || reason), n, bar.node);
      this.reasonRows.set(reason, { bar, n, node });
      this.reasons.body.append(node);
    }
    for (const [reason, row] of this.reasonRows) {
      const n = by[reason] || 0;
      row.node.hidden = n < 0.05;
      setText(row.n, rate(n));
      row.bar.update(n / most);
    }
    setText(this.reasons.note, `${rate(total)}/s`);
    setAttr(this.reasons.node, "data-none", live.length === 0);
    this.noReason.hidden = live.length > 0;
  }

  /** The order in which queues give way in the mode in force; read anew when a policy or the mode changes. @param {import("./frame.js").Frame} frame */
  updateShed(frame) {
    const key = JSON.stringify([frame.mode, frame.queues.map((q) => [q.name, q.policy_version])]);
    if (key === this.shedKey) return;
    this.shedKey = key;
    setText(this.shed.note, `in mode ${frame.mode}`);
    get(`/shed-order?mode=${encodeURIComponent(frame.mode)}`).then(
      (found) => { this.shed.body.replaceChildren(h("ol", { class: "shedlist" }, found.steps.map((s) => h("li", { "data-queue": s.queue, "data-effect": s.effect }, shape(s.shape), h("b", {}, s.queue), h("span", {}, s.says))))); },
      (error) => { this.shedKey = ""; this.shed.body.replaceChildren(h("p", { class: "quiet" }, `unknown: ${error.message}`)); });
  }

  /** @param {import("./frame.js").Frame} frame @param {boolean} isStale */
  updateWorkers(frame, isStale) {
    const letterOf = letters(frame.queues.map((q) => q.name));
    const workers = frame.workers || [];
    let busy = 0;
    let slots = 0;
    for (const w of workers) {
      let row = this.workerRows.get(w.name);
      if (!row) {
        row = { name: h("span", { class: "ink clip" }, shortName(w.name)), slots: h("span", { class: "slots" }), beat: h("span", { class: "num" }) };
        row.node = h("div", { class: "worker", title: w.name }, row.name, row.slots, row.beat);
        this.workerRows.set(w.name, row);
        this.workers.body.append(row.node);
      }
      drawSlots(row.slots, w, letterOf, 24);
      const beat = isKnown(w.beat_ago_ms) ? w.beat_ago_ms : isKnown(w.beat_at_ms) ? frame.at_ms - w.beat_at_ms : null;
      const gone = w.state === "gone" || w.state === "silent";
      swap(row.beat, isStale ? "u" : `${w.state}${beat === null ? "" : Math.floor(beat / 100)}`, () => (isStale ? "unknown" : gone ? [shape("diamond"), ` ${w.state} ${duration(Math.round((beat || 0) / 1000) * 1000)}`] : beat === null ? "no beat yet" : `beat ${(beat / 1000).toFixed(1)}${NBSP}s`));
      if (w.state !== "gone") slots += w.slots || 0;
      if (w.state !== "gone") busy += (w.held || []).filter((job) => isKnown(job.started_at_ms)).length;
    }
    const names = new Set(workers.map((w) => w.name));
    for (const [name, row] of this.workerRows) if (!names.has(name)) { row.node.remove(); this.workerRows.delete(name); }
    const kept = frame.queues.reduce((n, q) => n + (q.reserved_slots || 0), 0);
    setText(this.workers.note, workers.length ? `${count(busy)} of ${count(slots)} slots busy${kept ? `, ${count(kept)} kept` : ""}` : "none is connected");
  }

  /** @param {import("./frame.js").Frame} frame */
  updateQuarantine(frame) {
    const held = frame.quarantine || {};
    const causes = (held.causes || []).slice(0, 6);
    setText(this.quarantine.note, held.count ? `${count(held.count)}${NBSP}job${held.count === 1 ? "" : "s"}, ${count((held.causes || []).length)} cause${(held.causes || []).length === 1 ? "" : "s"}${isKnown(held.oldest_age_ms) ? `, oldest ${duration(Math.floor(held.oldest_age_ms / 60000) * 60000 || held.oldest_age_ms)}` : ""}` : held.count === 0 ? "empty" : "unknown");
    swap(this.quarantine.body, JSON.stringify(causes), () => causes.map((c) => h("a", { class: "cause", href: `/quarantine/#cause=${encodeURIComponent(c.fingerprint || "")}` },
      h("b", { class: "num" }, count(c.count)), h("span", { class: "ink clip" }, c.label || c.fingerprint, c.task ? h("span", { class: "quiet" }, `, ${c.task}`) : null), h("span", { class: "quiet num" }, trendWord(c.trend)))));
  }

  /** @param {import("./frame.js").Frame} frame */
  updateEvents(frame) {
    const events = (frame.events || []).slice(0, 8);
    swap(this.events.body, JSON.stringify(events), () => (events.length ? events.map((e) => h("div", { class: "event" }, h("time", { title: utc(e.at_ms) }, clock(e.at_ms)), h("span", { class: "ink" }, e.text))) : h("p", { class: "quiet" }, "nothing so far")));
  }
}

/** @param {any} trend */
export function trendWord(trend) {
  if (trend === null || trend === undefined) return "";
  if (typeof trend === "number") return trend > 0 ? `+${count(trend)} in 15${NBSP}min` : "steady";
  if (Array.isArray(trend)) return "";
  return String(trend);
}

/** "celery@host" says little; the part that differs does. @param {string} name */
export function shortName(name) {
  return String(name).replace(/^celery@/, "");
}

/**
 * One line a tenant over all its queues, largest first. Over all queues a fair share is one part for each tenant that
 * has work anywhere, and unknown where not every tenant is seen. @param {any[]} tenants @param {boolean} isAll
 */
function byTenant(tenants, isAll) {
  const out = new Map();
  const busy = new Set(tenants.filter((t) => (t.depth && !t.suspended) || t.in_flight).map((t) => t.tenant));
  for (const t of tenants) {
    const held = out.get(t.tenant) || { tenant: t.tenant, rates: { offered: 0, accepted: 0, refused: 0 }, share: null, fair_share: isAll && busy.size ? 1 / busy.size : null };
    for (const k of ["offered", "accepted", "refused"]) held.rates[k] = held.rates[k] === null || !isKnown(t.rates?.[k]) ? null : held.rates[k] + t.rates[k];
    if (isKnown(t.share)) held.share = (held.share || 0) + t.share;
    out.set(t.tenant, held);
  }
  return [...out.values()].sort((a, b) => (b.rates.offered || 0) - (a.rates.offered || 0));
}

/** @param {import("./frame.js").Frame} frame @param {any[]} shown */
function remainder(frame, shown) {
  const rates = {};
  for (const k of ["offered", "accepted", "refused"]) {
    const total = sum(frame.queues, (q) => q.rates?.[k]);
    rates[k] = total === null || shown.some((t) => t.rates[k] === null) ? null : Math.max(0, shown.reduce((n, t) => n - t.rates[k], total));
  }
  return { rates, share: null, fair_share: null };
}

/** @param {any[]} list */
function totalOf(list) {
  const rates = {};
  for (const k of ["offered", "accepted", "refused"]) rates[k] = list.reduce((n, t) => n + (t.rates[k] || 0), 0);
  return { rates, share: list.reduce((n, t) => n + (t.share || 0), 0), fair_share: null };
}
