// What about the ground that the gate stands on must be known: database, durability, eviction, lost data. A line each.
import { h, swap } from "./dom.js";
import { say } from "./say.js";
import { shape } from "./shapes.js";
import { clock } from "./units.js";

export class Notices {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.spoken = "";
  }

  /** @param {import("./frame.js").Frame} frame @param {boolean} isStale */
  update(frame, isStale) {
    const notices = frame.notices || [];
    this.root.hidden = !notices.length;
    swap(this.root, JSON.stringify([isStale, notices]), () => notices.map((n) =>
      h("p", { class: "notice", "data-notice": n.kind }, shape(isStale ? "dashed" : "triangle"), h("span", {}, n.text, " ", h("span", { class: "quiet" }, `Since ${clock(n.since_at_ms)}.`)))));
    const kinds = notices.map((n) => n.kind).join();
    if (kinds !== this.spoken && kinds) say(notices.map((n) => n.text).join(" "));
    this.spoken = kinds;
  }
}
