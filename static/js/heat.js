// How were the waits spread over time? Bins of every step to cells of a heat map on a log axis.
import { isKnown } from "./units.js";

/** The engine counts waits in bins each 7 % wider than the one before. */
const GROWTH = 1.07;
/** Rows of the map: log10 of ms, from 1 ms up. */
const LOW = 0;
const HIGH = 7;
const CELL = 0.125;
/** How often a frame carries bins, at least. */
const BINS_EVERY_MS = 10000;
const ROWS = Math.round((HIGH - LOW) / CELL);

/** @param {number} bin */
export function binValueMs(bin) {
  return Math.max(0, GROWTH ** (bin + 0.5) - 1);
}

/**
 * @param {number[]} at @param {any[]} column bins of each step, or null @param {number} from @param {number} to @param {number} columns
 * @returns {{x: number[], y: number[], z: (number|null)[][], top: number, low: number}|null}
 */
export function heatMap(at, column, from, to, columns) {
  // Frames carry their bins only now and then: a column narrower than that would be a gap that is none.
  const width = Math.max(BINS_EVERY_MS, (to - from) / columns);
  const first = Math.floor(from / width);
  const n = Math.ceil((to - from) / width) + 1;
  const sums = Array.from({ length: n }, () => /** @type {Float64Array|null} */ (null));
  let seen = false;
  let top = 0;
  let low = ROWS;
  for (let i = 0; i < at.length; i += 1) {
    const bins = column[i];
    if (!bins || typeof bins !== "object") continue;
    const c = Math.floor(at[i] / width) - first;
    if (c < 0 || c >= n) continue;
    const into = (sums[c] ||= new Float64Array(ROWS));
    for (const [bin, k] of Array.isArray(bins) ? bins : Object.entries(bins)) {
      const ms = binValueMs(Number(bin));
      const row = Math.max(0, Math.min(ROWS - 1, Math.floor((Math.log10(Math.max(1, ms)) - LOW) / CELL)));
      if (!(k > 0)) continue;
      into[row] += Number(k);
      seen = true;
      if (row > top) top = row;
      if (row < low) low = row;
    }
  }
  if (!seen) return null;
  const x = sums.map((_, c) => (first + c + 0.5) * width);
  const y = Array.from({ length: ROWS }, (_, r) => LOW + (r + 0.5) * CELL);
  const z = y.map((_, r) => sums.map((s) => {
    if (!s) return null;
    const total = s.reduce((a, b) => a + b, 0);
    // The root keeps a thin tail visible beside a sharp peak.
    return s[r] > 0 && total > 0 ? Math.sqrt(s[r] / total) : null;
  }));
  return { x, y, z, top: LOW + (top + 1) * CELL, low: LOW + low * CELL };
}

/** @param {number|null|undefined} ms */
export function logMs(ms) {
  return isKnown(ms) ? Math.log10(Math.max(1, ms)) : null;
}
