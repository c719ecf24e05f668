// Which shape says which state? Ring, triangle, diamond, square with slash, dashed square.
import { s } from "./dom.js";

/** @typedef {"ring"|"triangle"|"diamond"|"slash"|"dashed"} ShapeName */

/** @param {string} name @param {string} [label] @returns {SVGElement} */
export function shape(name, label) {
  const known = name === "square" ? "slash" : name;
  const svg = s("svg", { class: "shape", viewBox: "0 0 14 14", "data-shape": known, "aria-hidden": label ? null : "true", role: label ? "img" : null, "aria-label": label });
  if (known === "triangle") svg.append(s("path", { class: "s", d: "M7 1 13.4 12.8H.6Z" }));
  else if (known === "diamond") svg.append(s("path", { class: "s", d: "M7 .4 13.6 7 7 13.6 .4 7Z" }));
  else if (known === "slash") svg.append(s("path", { class: "s", d: "M1.5 1.5h11v11h-11ZM2 12 12 2" }));
  else if (known === "ring") svg.append(s("circle", { class: "s", cx: 7, cy: 7, r: 5 }));
  else svg.append(s("path", { class: "s", d: "M1.5 1.5h11v11h-11Z" }));
  return svg;
}

/** The shape of a queue's state. @param {string} state @returns {ShapeName} */
export function stateShape(state) {
  if (state === "in_bounds") return "ring";
  if (state === "past_guard") return "triangle";
  if (state === "past_ceiling" || state === "at_bound" || state === "stalled" || state === "failed") return "diamond";
  if (state === "closed") return "slash";
  return "dashed";
}

/** Calm, guard, over or unknown: which colour a state may use. @param {string} state */
export function stateTone(state) {
  const name = stateShape(state);
  if (name === "triangle") return "guard";
  if (name === "diamond") return "over";
  return name === "dashed" ? "unknown" : "calm";
}
