// How is a number, a duration, a size or a time written? One place, so that it is written the same everywhere.

export const NBSP = "\u00a0";
export const DASH = "\u2013";
export const MINUS = "\u2212";

/** @typedef {[string, string]} Part a value and its unit */

/** @param {unknown} value @returns {value is number} */
export function isKnown(value) {
  return typeof value === "number" && Number.isFinite(value);
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const oneDecimal = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** @param {string} text */
function signed(text) {
  return text.replace("-", MINUS);
}

/** A count: comma for thousands. @param {number|null|undefined} n */
export function count(n) {
  return isKnown(n) ? signed(grouped.format(n)) : DASH;
}

/** A rate a second: one decimal under 1,000, none above. @param {number|null|undefined} n */
export function rate(n) {
  if (!isKnown(n)) return DASH;
  return signed(Math.abs(n) < 999.95 ? oneDecimal.format(n) : grouped.format(n));
}

/** A share of a whole, "69 %". @param {number|null|undefined} share 0 to 1 */
export function percent(share) {
  return isKnown(share) ? `${Math.round(share * 100)}${NBSP}%` : DASH;
}

/** Value and unit of a size. Whole sizes, as bounds are, go without decimals. @param {number|null|undefined} n @returns {Part} */
export function byteParts(n) {
  if (!isKnown(n)) return [DASH, ""];
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = n / 1024;
  let unit = 0;
  while (value >= 1023.5 && unit < 3) {
    value /= 1024;
    unit += 1;
  }
  if (unit === 0) {
    if (n > 0 && value < 0.95) return [grouped.format(n), "B"];
    return [grouped.format(value), "KiB"];
  }
  if (Number.isInteger(value)) return [grouped.format(value), units[unit]];
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return [value.toFixed(digits), units[unit]];
}

/** @param {number|null|undefined} n */
export function bytes(n) {
  return byteParts(n).filter(Boolean).join(NBSP);
}

/** Parts of an age or a duration in two units at most, no zero part. @param {number|null|undefined} ms @returns {Part[]} */
export function durationParts(ms) {
  if (!isKnown(ms)) return [[DASH, ""]];
  const s = Math.max(0, ms) / 1000;
  if (s === 0) return [["0", "s"]];
  if (s < 0.995) return [[s < 0.005 ? "0.00" : s.toFixed(2), "s"]];
  if (s < 9.95) return [[s.toFixed(1), "s"]];
  if (s < 59.5) return [[String(Math.round(s)), "s"]];
  const whole = Math.round(s);
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(s / 60);
  if (minutes < 1440) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(s / 3600);
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** @param {number} a @param {string} ua @param {number} b @param {string} ub @returns {Part[]} */
function pair(a, ua, b, ub) {
  return b === 0 ? [[String(a), ua]] : [[String(a), ua], [String(b), ub]];
}

/** A duration in prose: "4 min 10 s", "11 min", "0.2 s". @param {number|null|undefined} ms */
export function duration(ms) {
  if (isKnown(ms) && ms > 0 && ms < 995) return `${(ms / 1000).toFixed(1)}${NBSP}s`;
  if (isKnown(ms) && ms >= 995 && ms < 9950) return `${trimmed(ms / 1000)}${NBSP}s`;
  return durationParts(ms).map((p) => p.filter(Boolean).join(NBSP)).join(" ");
}

/** An age in one string: below a second it keeps two decimals. @param {number|null|undefined} ms */
export function age(ms) {
  return durationParts(ms).map((p) => p.filter(Boolean).join(NBSP)).join(" ");
}

/** @param {number} s */
function trimmed(s) {
  const text = s.toFixed(1);
  return text.endsWith(".0") ? text.slice(0, -2) : text;
}

/** A modeled duration: coarse on purpose, since a model does not know seconds of an hour. @param {number|null|undefined} ms */
export function roughly(ms) {
  if (!isKnown(ms)) return DASH;
  if (ms < 10000) return duration(Math.max(1000, Math.round(ms / 1000) * 1000));
  if (ms < 600000) return duration(Math.round(ms / 1000) * 1000);
  return duration(Math.round(ms / 60000) * 60000);
}

/** A range of modeled durations, "3 to 6 min". @param {number} lowMs @param {number} highMs */
export function range(lowMs, highMs) {
  const unit = highMs < 90000 ? 1000 : highMs < 5400000 ? 60000 : 3600000;
  const word = unit === 1000 ? "s" : unit === 60000 ? "min" : "h";
  const low = Math.max(0, Math.round(lowMs / unit));
  const high = Math.max(low, Math.round(highMs / unit));
  return low === high ? `about ${high}${NBSP}${word}` : `${low} to ${high}${NBSP}${word}`;
}

/** A wait in a column: one unit. @param {number|null|undefined} ms @returns {Part} */
export function waitParts(ms) {
  if (!isKnown(ms)) return [DASH, ""];
  if (ms < 999.5) return [String(Math.round(ms)), "ms"];
  const s = ms / 1000;
  if (s < 9.95) return [s.toFixed(1), "s"];
  if (s < 999.5) return [String(Math.round(s)), "s"];
  return [grouped.format(s / 60), "min"];
}

/** @param {number|null|undefined} ms */
export function wait(ms) {
  return waitParts(ms).filter(Boolean).join(NBSP);
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hour12: false });
const dayFormat = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

/** The viewer's clock, with the date only if it is not today. @param {number|null|undefined} atMs */
export function clock(atMs) {
  if (!isKnown(atMs)) return DASH;
  const day = dayFormat.format(atMs);
  const time = clockFormat.format(atMs);
  return day === dayFormat.format(Date.now()) ? time : `${day} ${time}`;
}

/** Clock with milliseconds, for the six times. @param {number|null|undefined} atMs */
export function clockMs(atMs) {
  if (!isKnown(atMs)) return DASH;
  return `${clock(atMs)}.${String(Math.floor(atMs) % 1000).padStart(3, "0")}`;
}

/** Hours and minutes, for axis labels. @param {number} atMs */
export function minute(atMs) {
  return minuteFormat.format(atMs);
}

/** Day and time for coarse axes. @param {number} atMs */
export function dayMinute(atMs) {
  const at = new Date(atMs);
  return `${at.getDate()} ${at.toLocaleString("en-GB", { month: "short" })} ${minuteFormat.format(atMs)}`;
}

/** The same moment in UTC, for hovering. @param {number|null|undefined} atMs */
export function utc(atMs) {
  return isKnown(atMs) ? `${new Date(atMs).toISOString().replace("T", " ").replace("Z", "")} UTC` : "";
}

/** "1 job", "23 jobs". @param {number} n @param {string} one @param {string} [many] */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)}${NBSP}${n === 1 ? one : many}`;
}
