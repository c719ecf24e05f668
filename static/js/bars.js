// How long is a bar? Age bent so that guard and ceiling fall at one x in every row; bounds; flow; slots.
import { h, setAttr, setStyle, swap } from "./dom.js";
import { isKnown } from "./units.js";

/** Share of the bar at which every queue's guard and ceiling stand; the rest is beyond. */
export const GUARD_AT = 0.5;
export const CEILING_AT = 0.9;

/**
 * Where an age falls on the bent scale: 0 to guard takes half, guard to ceiling up to 0.9, beyond to 1 and then cut.
 * @param {number|null|undefined} ageMs @param {number|null|undefined} guardMs @param {number|null|undefined} ceilingMs
 * @returns {number|null}
 */
export function agePosition(ageMs, guardMs, ceilingMs) {
  if (!isKnown(ageMs)) return null;
  const guard = isKnown(guardMs) && guardMs > 0 ? guardMs : isKnown(ceilingMs) ? ceilingMs / 2 : 60000;
  const ceiling = isKnown(ceilingMs) && ceilingMs > guard ? ceilingMs : guard * 4;
  if (ageMs <= guard) return (ageMs / guard) * GUARD_AT;
  if (ageMs <= ceiling) return GUARD_AT + ((ageMs - guard) / (ceiling - guard)) * (CEILING_AT - GUARD_AT);
  return Math.min(1, CEILING_AT + ((ageMs - ceiling) / ceiling) * (1 - CEILING_AT));
}

export class AgeBar {
  constructor() {
    this.plain = h("div", { class: "agebar-fill" });
    this.past = h("div", { class: "agebar-past" });
    this.cap = h("div", { class: "agebar-cap" });
    this.cut = h("div", { class: "agebar-cut", "aria-hidden": "true" });
    this.node = h("div", { class: "agebar", role: "img" }, h("div", { class: "agebar-track" }), this.plain, this.past, this.cap, this.cut);
  }

  /** @param {number|null|undefined} ageMs @param {number|null|undefined} guardMs @param {number|null|undefined} ceilingMs @param {string} label */
  update(ageMs, guardMs, ceilingMs, label) {
    const at = agePosition(ageMs, guardMs, ceilingMs);
    setAttr(this.node, "aria-label", label);
    setAttr(this.node, "data-known", at !== null);
    setAttr(this.node, "data-beyond", at !== null && at > CEILING_AT);
    setAttr(this.node, "data-cut", at === 1);
    const x = at === null ? 0 : at;
    setStyle(this.plain, "width", `${(Math.min(x, GUARD_AT) * 100).toFixed(2)}%`);
    setStyle(this.past, "width", `${(Math.max(0, x - GUARD_AT) * 100).toFixed(2)}%`);
    setStyle(this.cap, "left", `${(x * 100).toFixed(2)}%`);
  }
}

export class BoundBar {
  constructor() {
    this.fillNode = h("div", { class: "bound-fill" });
    this.taken = h("div", { class: "bound-taken hatch" });
    this.tick = h("div", { class: "bound-tick" });
    this.node = h("div", { class: "bound" }, this.taken, this.fillNode, this.tick);
  }

  /** @param {number|null|undefined} value @param {number|null|undefined} full @param {number|null|undefined} inForce */
  update(value, full, inForce) {
    const has = isKnown(full) && full > 0;
    setAttr(this.node, "data-none", !has);
    const share = has && isKnown(value) ? Math.min(1, value / full) : 0;
    setStyle(this.fillNode, "width", share > 0 ? `max(1px, ${(share * 100).toFixed(2)}%)` : "0");
    const cut = has && isKnown(inForce) && inForce < full;
    const at = cut ? Math.max(0, inForce / full) : 1;
    this.taken.hidden = !cut;
    this.tick.hidden = !cut;
    setStyle(this.taken, "left", `${(at * 100).toFixed(2)}%`);
    setStyle(this.tick, "left", `${(at * 100).toFixed(2)}%`);
    const bound = isKnown(inForce) ? inForce : full;
    setAttr(this.node, "data-at-bound", has && isKnown(value) && isKnown(bound) && bound > 0 && value >= bound);
  }
}

export class FlowBar {
  constructor() {
    this.accepted = h("div", { class: "flow-accepted" });
    this.refused = h("div", { class: "flow-refused hatch" });
    this.done = h("div", { class: "flow-done" });
    this.node = h("div", { class: "flow", role: "img" }, this.refused, this.accepted, this.done);
  }

  /** The length is what was offered; a tick right of the solid part means that the queue drains. @param {import("./frame.js").Rates} rates */
  update(rates) {
    const offered = rates?.offered;
    const accepted = rates?.accepted;
    const done = rates?.succeeded;
    const most = Math.max(offered || 0, done || 0);
    setAttr(this.node, "data-none", !(most > 0));
    const part = (v) => `${(most > 0 && isKnown(v) ? Math.min(1, v / most) * 100 : 0).toFixed(2)}%`;
    setStyle(this.accepted, "width", part(accepted));
    setStyle(this.refused, "left", part(accepted));
    setStyle(this.refused, "width", part(isKnown(offered) && isKnown(accepted) ? Math.max(0, offered - accepted) : 0));
    setStyle(this.done, "left", part(done));
    this.done.hidden = !isKnown(done) || most <= 0;
  }
}

/** A plain share of a whole with an optional tick. */
export class ShareBar {
  constructor() {
    this.fillNode = h("div", { class: "bound-fill" });
    this.tick = h("div", { class: "bound-tick" });
    this.node = h("div", { class: "bound" }, this.fillNode, this.tick);
  }

  /** @param {number|null|undefined} share @param {number|null} [tick] */
  update(share, tick = null) {
    setStyle(this.fillNode, "width", `${(isKnown(share) ? Math.max(0, Math.min(1, share)) * 100 : 0).toFixed(2)}%`);
    this.tick.hidden = !isKnown(tick);
    if (isKnown(tick)) setStyle(this.tick, "left", `${(Math.max(0, Math.min(1, tick)) * 100).toFixed(2)}%`);
  }
}

/**
 * One cell a slot, the queue's letter in it.
 * @param {Element} node @param {any} worker @param {Record<string, string>} letterOf @param {number} most cells drawn at most
 */
export function drawSlots(node, worker, letterOf, most = 32) {
  const held = (worker.held || []).filter((job) => isKnown(job.started_at_ms) || job.started_at_ms === undefined);
  const slots = isKnown(worker.slots) ? worker.slots : held.length;
  const gone = worker.state === "gone" || worker.state === "silent";
  const key = JSON.stringify([slots, gone, held.map((j) => j.queue)]);
  swap(node, key, () => {
    const cells = [];
    const order = [...held].sort((a, b) => String(a.queue).localeCompare(String(b.queue)));
    for (let i = 0; i < Math.min(slots, most); i += 1) {
      const job = order[i];
      cells.push(h("i", { class: `slot${job ? " busy" : ""}${gone && job ? " hatch" : ""}`, title: job ? `${job.queue}: ${job.task || job.id}` : "free" }, job ? letterOf[job.queue] || String(job.queue || "?")[0] : ""));
    }
    if (slots > most) cells.push(h("span", { class: "quiet" }, ` and ${slots - most} more`));
    return cells;
  });
}
