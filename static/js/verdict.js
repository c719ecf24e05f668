// Is it all right, and if not: where, since when, what comes, what helps? The sentence on top.
import { $, h, swap } from "./dom.js";
import { shape } from "./shapes.js";
import { NBSP, clock, duration } from "./units.js";

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

  /** @param {import("./frame.js").Frame} frame @param {string} state @param {number|null} ageMs */
  update(frame, state, ageMs) {
    const verdict = state === "live" ? frame.verdict || { shape: "dashed", headline: "The monitor gave no verdict.", lines: [] } : staleVerdict(frame, state, ageMs);
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
    const names = [...frame.queues.map((q) => q.name), ...(frame.tenants || []).map((t) => t.tenant)];
    swap(this.headline, verdict.headline, () => marked(verdict.headline, []));
    swap(this.lines, verdict.lines.join("\n"), () => verdict.lines.flatMap((line, i) => [i ? " " : "", ...marked(line, names)]));
    if (isNew) document.title = `${verdict.shape === "ring" ? "" : `${verdict.headline.split(":")[0]} - `}Sluicegate ${frame.installation || ""}`.trim();
  }
}

/** What can be said without a fresh frame. @param {import("./frame.js").Frame} frame @param {string} state @param {number|null} ageMs */
function staleVerdict(frame, state, ageMs) {
  const age = ageMs === null ? "" : duration(Math.floor(ageMs / 1000) * 1000);
  const at = clock(frame.at_ms);
  const redis = frame.redis || {};
  const redisDown = redis.state && redis.state !== "ok";
  const head = redisDown ? `Redis has not answered for ${age}. Nothing is accepted and nothing new is started.`
    : state === "lost" ? `This page lost the server ${age} ago.` : `No sample for ${age}: the monitor is silent.`;
  const lines = [`Every number below is of ${at} and is not live.`];
  if (redisDown) lines.push(`Producers get 503 with Retry-After. Jobs in flight keep running; each is kept by its worker until it can be settled. ${redis.detail || ""}`.trim());
  else if (state === "lost") lines.push("The gate itself may be working: only this page's view of it ended. It reconnects by itself.");
  else lines.push("The gate admits and workers run without the monitor; automatic modes, alerts and history wait for it.");
  lines.push(`History, quarantine and audit up to ${at} can be read.`);
  return { shape: "diamond", headline: head, lines };
}
