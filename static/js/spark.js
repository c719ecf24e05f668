// How did the age go in the last 15 minutes? A line with its guard, its past part in colour, a dot at its end, gaps as gaps.
import { s, setAttr } from "./dom.js";
import { isKnown } from "./units.js";

const W = 92;
const H = 44;

export class Spark {
  constructor() {
    this.guard = s("line", { x1: 0, x2: W, y1: 0, y2: 0, class: "spark-guard" });
    this.line = s("path", { class: "spark-line" });
    this.past = s("path", { class: "spark-past" });
    this.dot = s("circle", { r: 2.4, class: "spark-dot" });
    this.node = s("svg", { class: "spark", viewBox: `0 0 ${W + 4} ${H}`, "aria-hidden": "true", preserveAspectRatio: "none" }, this.guard, this.line, this.past, this.dot);
  }

  /** @param {number[]} at @param {(number|null)[]} values @param {number|null} guardMs @param {number|null} ceilingMs @param {number} from @param {number} to @param {number} [stepMs] of the values, where they stand furthest apart */
  update(at, values, guardMs, ceilingMs, from, to, stepMs = 1000) {
    let top = isKnown(guardMs) ? guardMs * 1.25 : 1;
    for (const v of values) if (isKnown(v) && v > top) top = v * 1.05;
    const x = (t) => (((t - from) / (to - from)) * W).toFixed(1);
    const y = (v) => (H - 3 - (v / top) * (H - 8)).toFixed(1);
    let line = "";
    let past = "";
    let pen = false;
    let pastPen = false;
    let last = null;
    const step = Math.max(1, Math.floor(values.length / (W * 2)));
    for (let i = 0; i < values.length; i += step) {
      let v = null;
      for (let k = i; k < Math.min(i + step, values.length); k += 1) if (isKnown(values[k]) && (v === null || values[k] > v)) v = values[k];
      if (v === null || (i > 0 && at[i] - at[i - step] > 3 * stepMs * step + 2000)) pen = pastPen = false;
      if (v === null) continue;
      const point = `${x(at[i])} ${y(v)}`;
      line += `${pen ? "L" : "M"}${point}`;
      const isPast = isKnown(guardMs) && v > guardMs;
      if (isPast) past += `${pastPen ? "L" : "M"}${point}`;
      pen = true;
      pastPen = isPast;
      last = { at: at[i], v, isPast };
    }
    setAttr(this.line, "d", line || "M0 0");
    setAttr(this.past, "d", past || "M0 0");
    const gy = isKnown(guardMs) ? y(guardMs) : null;
    setAttr(this.guard, "visibility", gy === null ? "hidden" : null);
    if (gy !== null) { setAttr(this.guard, "y1", gy); setAttr(this.guard, "y2", gy); }
    setAttr(this.dot, "visibility", last ? null : "hidden");
    if (last) { setAttr(this.dot, "cx", x(last.at)); setAttr(this.dot, "cy", y(last.v)); setAttr(this.dot, "data-past", last.isPast); }
    setAttr(this.past, "data-over", last && isKnown(ceilingMs) && last.v > ceilingMs);
  }
}
