// Does an alert fire, who knows of it, and what can be done here? The strip always holds its place.
import { may, post } from "./api.js";
import { ask, segments, tell } from "./dialog.js";
import { h, setAttr, swap } from "./dom.js";
import { say } from "./say.js";
import { shape } from "./shapes.js";
import { worstAlert } from "./shell.js";
import { NBSP, clock, duration, isKnown } from "./units.js";

export class AlertStrip {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.text = h("div", { class: "strip-text" });
    this.fault = h("span", { class: "strip-fault", role: "alert" });
    this.acts = h("div", { class: "strip-acts" },
      this.acknowledgeButton = h("button", { type: "button", "data-act": "acknowledge", onclick: () => this.acknowledge() }, "Acknowledge", h("kbd", {}, "A")),
      this.snoozeButton = h("button", { type: "button", "data-act": "snooze", onclick: () => this.snooze() }, "Snooze", h("kbd", {}, "Z")),
      this.runbookButton = h("button", { type: "button", "data-act": "runbook", onclick: () => this.runbook() }, "Runbook", h("kbd", {}, "B")));
    root.append(this.text, this.acts);
    this.spoken = "";
  }

  /** @param {import("./frame.js").Frame} frame @param {string} state */
  update(frame, state) {
    const alerts = frame.alerts || { firing: 0, items: [] };
    const items = [...(alerts.items || [])].sort((a, b) => Number(!!a.acknowledged_by) - Number(!!b.acknowledged_by) || rank(a) - rank(b) || (a.fired_at_ms || 0) - (b.fired_at_ms || 0));
    this.first = items[0] || null;
    const firing = alerts.firing ?? items.length;
    const isStale = state !== "live";
    setAttr(this.root, "data-firing", firing > 0 ? worstAlert(frame) : null);
    const a = this.first;
    const key = JSON.stringify([firing, items.map((i) => [i.id, i.sentence, i.acknowledged_by, i.snoozed_until_at_ms]), isStale, a ? Math.floor((frame.at_ms - a.fired_at_ms) / 5000) : alerts.last_at_ms ? Math.floor((frame.at_ms - alerts.last_at_ms) / 60000) : 0]);
    swap(this.text, key, () => {
      if (!firing) {
        const last = isKnown(alerts.last_at_ms) ? `last one ${duration(Math.max(60000, Math.round((frame.at_ms - alerts.last_at_ms) / 60000) * 60000))} ago` : "none so far";
        return [shape(isStale ? "dashed" : "ring"), h("span", { class: "quiet" }, isStale ? `no alert was firing at ${clock(frame.at_ms)}, rules cannot be evaluated now` : `no alert firing, ${last}`)];
      }
      return [shape(worstAlert(frame)), h("b", {}, `${firing} alert${firing === 1 ? "" : "s"} firing`), ...(a ? [h("span", { class: "ink" }, sentenceOf(a)), h("span", { class: "quiet" }, knownTo(a, frame, isStale))] : []),
        items.length > 1 ? h("a", { class: "link", href: "/alerts/" }, `and ${items.length - 1} more`) : null];
    });
    const why = !may("operator") ? "viewers see alerts; an operator may acknowledge" : isStale ? "not possible without a live frame" : a && !isKnown(a.id) ? "the database has not answered: this alert is not written down yet" : "";
    setAttr(this.acts, "data-off", !firing || frame.isPast);
    for (const [button, off] of [[this.acknowledgeButton, why || (a?.acknowledged_by ? `already acknowledged by ${a.acknowledged_by}` : "")], [this.snoozeButton, why]]) {
      setAttr(button, "aria-disabled", off ? "true" : null);
      setAttr(button, "title", off || null);
    }
    const runbook = a?.runbook;
    setAttr(this.runbookButton, "aria-disabled", runbook ? null : "true");
    setAttr(this.runbookButton, "title", runbook ? null : "this rule has no runbook; it can be given one under Alerts");
    const speak = items.map((i) => `${i.id}${i.acknowledged_by || ""}`).join();
    if (speak !== this.spoken) {
      if (this.spoken !== "" || firing) say(firing && a ? `${firing} alerts firing. ${sentenceOf(a)}` : "No alert firing.");
      this.spoken = speak;
    }
  }

  async acknowledge() {
    if (!this.first || this.acknowledgeButton.getAttribute("aria-disabled")) return;
    try {
      await post(`/alerts/${encodeURIComponent(this.first.id)}/acknowledge`, {});
      say("Acknowledged.");
    } catch (error) { this.fail(error); }
  }

  snooze() {
    const alert = this.first;
    if (!alert || this.snoozeButton.getAttribute("aria-disabled")) return;
    let minutes = 30;
    const dialog = ask({
      title: `Snooze "${alert.rule || sentenceOf(alert)}" for 30${NBSP}min?`,
      lead: "It stays on this page; nobody is told again until then. It speaks up at once if it clears and fires anew.",
      parts: [{ name: "for", body: segments([["10 min", 10], ["30 min", 30], ["1 h", 60], ["4 h", 240]], 30, (v) => { minutes = v; dialog.setVerb(`Snooze 1 alert for ${duration(v * 60000)}`); }, "for") }],
      verb: `Snooze 1 alert for 30${NBSP}min`,
      act: async () => { await post(`/alerts/${encodeURIComponent(alert.id)}/snooze`, { for_s: minutes * 60 }); return "Snoozed."; },
    });
  }

  runbook() {
    if (this.first) openRunbook(this.first);
  }

  /** @param {unknown} error */
  fail(error) {
    this.fault.textContent = error instanceof Error ? error.message : String(error);
    this.text.append(this.fault);
    setTimeout(() => this.fault.remove(), 10000);
  }
}

/** Only web links: a runbook field is text that somebody typed. @param {unknown} url */
export function safeLink(url) {
  return typeof url === "string" && /^https?:\/\//.test(url) ? url : "";
}

/** A runbook is a link, which opens, or advice in words, which is shown. @param {any} alert */
export function openRunbook(alert) {
  if (!alert.runbook) return;
  const link = safeLink(alert.runbook);
  if (link) window.open(link, "_blank", "noopener");
  else tell(`Runbook: ${alert.rule || sentenceOf(alert)}`, String(alert.runbook));
}

/** The worst first. @param {any} a */
function rank(a) {
  const at = ["critical", "warning", "info"].indexOf(a.severity);
  return at < 0 ? 1 : at;
}

/** @param {any} a */
export function sentenceOf(a) {
  return a.sentence || `${a.queue ? `${a.queue}: ` : ""}${String(a.measure || a.rule).replaceAll("_", " ")} over ${a.threshold}`;
}

/** @param {any} a @param {import("./frame.js").Frame} frame @param {boolean} isStale */
function knownTo(a, frame, isStale) {
  const age = Math.max(0, Math.floor((frame.at_ms - a.fired_at_ms) / 1000) * 1000);
  const who = a.acknowledged_by ? `acknowledged by ${a.acknowledged_by}` : "nobody has acknowledged it";
  const sent = Array.isArray(a.sent_to) && a.sent_to.length ? `, sent to ${a.sent_to.join(" and ")}` : "";
  const snoozed = isKnown(a.snoozed_until_at_ms) && a.snoozed_until_at_ms > frame.at_ms ? `, snoozed until ${clock(a.snoozed_until_at_ms)}` : may("operator") ? "" : "; an operator may acknowledge it";
  return isStale ? `fired ${clock(a.fired_at_ms)}, cannot be evaluated since ${clock(frame.at_ms)}` : `fired ${clock(a.fired_at_ms)}, ${duration(age)} ago${sent}, ${who}${snoozed}`;
}
