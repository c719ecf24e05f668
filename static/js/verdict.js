// Is it all right, and if not: where, since when, what comes, what helps? The sentence on top.
import { $, h, swap } from "./dom.js";
import { isUntouched } from "./frame.js";
import { live } from "./live.js";
import { reach } from "./reach.js";
import { shape } from "./shapes.js";
import { whoIsSilent } from "./silence.js";
import { clock, duration, plural } from "./units.js";

/** Numbers in the sentence may change this often; its wording changes with the state. */
const HOLD_MS = 5000;
const FUTURE = /\b((?:clear|drains?|drained|full|ceiling|gone|empty|leaves|it|in)\s+in\s+|\bin\s+)(\d[\d.,]*\s(?:ms|s|min|h|d)(?:\s\d+\s(?:s|min|h))?(?:\sto\s\d+\s(?:s|min|h))?)/g;

/**
 * Mark what is modeled ("in 4 min 10 s" is always a forecast) and make the names of queues and tenants stand out.
 * @param {string} text @param {string[]} names
 */
export function marked(text, names) {
  const out = [];
  let at = 0;
  for (const hit of text.matchAll(FUTURE)) {
    const start = hit.index + hit[1].length;
    out.push(...bold(text.slice(at, start), names), h("span", { class: "modeled", title: "modeled" }, hit[2]));
    at = start + hit[2].length;
  }
  out.push(...bold(text.slice(at), names));
  return out;
}

/** @param {string} text @param {string[]} names */
function bold(text, names) {
  const usable = names.filter((n) => n && /^[\w.-]+$/.test(n));
  if (!usable.length) return [text];
  const pattern = new RegExp(`(^|[^\\w.-])(${usable.map((n) => n.replaceAll(".", "\\.")).sort((a, b) => b.length - a.length).join("|")})(?![\\w-])`, "g");
  const out = [];
  let at = 0;
  for (const hit of text.matchAll(pattern)) {
    const start = hit.index + hit[1].length;
    out.push(text.slice(at, start), h("b", {}, hit[2]));
    at = start + hit[2].length;
  }
  out.push(text.slice(at));
  return out;
}

export class Verdict {
  constructor() {
    this.shapeNode = $("[data-verdict-shape]");
    this.headline = $("[data-verdict-headline]");
    this.lines = $("[data-verdict-lines]");
    this.shownAt = 0;
    this.skeleton = "";
  }

  /**
   * No frame has come to this page yet: who keeps it waiting, once that was asked, and what stands below instead.
   * @param {import("./frame.js").Frame|null} past @param {boolean} wasRead
   */
  wait(past, wasRead) {
    const verdict = waitingVerdict();
    if (!verdict) return false;
    const below = past ? `Every number below is of ${clock(past.at_ms)}, the last sample that was kept, and is not live.` : wasRead ? "No sample is kept from before, so there is nothing to show below." : "";
    const line = [verdict.line, below].filter(Boolean).join(" ");
    swap(this.shapeNode, verdict.shape, () => shape(verdict.shape));
    swap(this.headline, verdict.headline, () => [verdict.headline]);
    swap(this.lines, line, () => [line]);
    document.title = `${verdict.headline.split(/[.(]/)[0].trim()} - Sluicegate ${document.body.dataset.installation || ""}`.trim();
    return true;
  }

  /** @param {import("./frame.js").Frame} frame @param {string} state @param {number|null} ageMs */
  update(frame, state, ageMs) {
    const verdict = state !== "live" ? staleVerdict(frame, state, ageMs) : firstVerdict(frame) || frame.verdict || { shape: "dashed", headline: "The monitor gave no verdict.", lines: [] };
    const text = JSON.stringify(verdict);
    const skeleton = text.replace(/\d[\d.,]*/g, "#");
    const now = performance.now();
    if (skeleton === this.skeleton && now - this.shownAt < (state === "live" ? HOLD_MS : 900)) return;
    if (text === this.shown) return;
    const isNew = skeleton !== this.skeleton;
    this.shown = text;
    this.skeleton = skeleton;
    this.shownAt = now;
    swap(this.shapeNode, verdict.shape, () => shape(verdict.shape));
    const names = [...frame.queues.map((q) => q.name), ...(frame.tenants || []).map((t) => t.tenant), ...(/** @type {any} */ (frame).downstreams || []).map((d) => d.name)];
    swap(this.headline, verdict.headline, () => marked(verdict.headline, []));
    swap(this.lines, verdict.lines.join("\n"), () => verdict.lines.flatMap((line, i) => [i ? " " : "", ...marked(line, names)]));
    if (isNew) document.title = `${verdict.shape === "ring" ? "" : `${verdict.headline.split(":")[0]} - `}Sluicegate ${frame.installation || ""}`.trim();
  }
}

/** Nothing was ever offered: in bounds would be true and say nothing. @param {import("./frame.js").Frame} frame */
function firstVerdict(frame) {
  if (!frame.queues.length || !isUntouched(frame) || frame.mode !== "normal" || frame.verdict?.shape !== "ring") return null;
  const left = (frame.workers || []).some((w) => w.state === "live") ? "One step is left." : "Two steps are left.";
  return { shape: "dashed", headline: "Nothing has been offered yet. The gate is open and its bounds are set.", lines: ["This page will show, per queue, how old the oldest waiting job is against its guard, what is accepted and refused, and when a backlog will be gone.", left] };
}

/** What can be said where there never was a frame, `brief` where the bar above has told the rest; null in the first moments. */
export function waitingVerdict() {
  const who = whoIsSilent(null, live.state());
  if (!who) return null;
  if (who === "rights") return { shape: "diamond", headline: "Your session has ended: log in again to see live figures.", brief: "Your session has ended: log in again.", line: "The gate itself is not touched by this." };
  if (who === "server") return { shape: "diamond", headline: "The server does not answer.", brief: "The server does not answer; this page tries again by itself.", line: "The gate may be working: only this page's view of it is missing. It tries again by itself." };
  if (who === "redis") return { shape: "diamond", brief: `Redis does not answer (${reach.redis}). Seen by this page since ${clock(reach.downSinceMs)}.`, headline: `Redis does not answer (${reach.redis}). Nothing is accepted and nothing new is started.`, line: `Seen by this page since ${clock(reach.downSinceMs)}. Producers get 503 with Retry-After; what runs goes on, and is settled when Redis is back. Quarantine and audit can be read.` };
  return { shape: "dashed", headline: "Waiting for the first frame.", brief: "The server and Redis answer. A monitor makes the frames: is one running?", line: "The server and Redis answer. A monitor makes the frames: is one running?" };
}

/** What can be said without a fresh frame. @param {import("./frame.js").Frame} frame @param {string} state @param {number|null} ageMs */
function staleVerdict(frame, state, ageMs) {
  const age = ageMs === null ? "" : duration(Math.floor(ageMs / 1000) * 1000);
  const at = clock(frame.at_ms);
  const lines = [`Every number below is of ${at} and is not live.`];
  const who = whoIsSilent(frame, state);
  let head;
  if (who === "rights") {
    head = "Your session has ended: log in again to see live figures.";
    lines.push("The gate itself is not touched by this.");
  } else if (who === "server") {
    head = `This page lost the server ${age} ago.`;
    lines.push("The gate may be working: only this page's view of it ended. It reconnects by itself.");
  } else if (who === "redis") {
    const busy = frame.queues.reduce((n, q) => n + (q.in_flight || 0), 0);
    head = `Redis has not answered for ${age}. Nothing is accepted and nothing new is started.`;
    lines.push(`Producers get 503 with Retry-After. ${busy === 0 ? "" : busy === 1 ? "The 1\u00a0job in flight keeps running; its worker keeps it until it can be settled. " : `The ${plural(busy, "job")} in flight keep running; their workers keep each until it can be settled. `}When Redis is back with a backlog, the gate opens as Saturated.`);
  } else {
    head = `No sample for ${age}: the monitor is silent.`;
    lines.push("The gate admits and workers run without the monitor; automatic modes, alerts and history wait for it.");
  }
  lines.push(`History, quarantine and audit up to ${at} can be read.`);
  return { shape: "diamond", headline: head, lines };
}
