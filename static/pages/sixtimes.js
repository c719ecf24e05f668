// Which six times does an operation have, and what passed between them? A line, not to scale, with the waits named.
import { h } from "../js/dom.js";
import { clock, clockMs, duration, isKnown, utc, wait } from "../js/units.js";

const NAMES = [["offered_at_ms", "offered"], ["accepted_at_ms", "accepted"], ["enqueued_at_ms", "eligible"], ["started_at_ms", "started"], ["committed_at_ms", "committed"], ["reported_at_ms", "reported"]];

/** @param {Record<string, number|null>} times @param {string} [running] a word for the part between started and committed @returns {HTMLElement} */
export function sixTimes(times, running = "ran") {
  const line = h("div", { class: "sixtimes" });
  const read = (key, name) => times?.[key] ?? times?.[name] ?? null;
  NAMES.forEach(([key, name], i) => {
    const at = read(key, name);
    const known = isKnown(at);
    // What passed until the next time that is known stands over the line between the two.
    const next = NAMES.slice(i + 1).map(([k, n]) => read(k, n)).find(isKnown);
    const gap = known && isKnown(next) ? Math.max(0, next - at) : null;
    const word = gap === null ? "" : i === 2 ? `waited ${wait(gap)}` : i === 3 ? `${running} ${gap < 1000 ? wait(gap) : duration(gap)}` : wait(gap);
    line.append(h("div", { class: `sixtime${known ? "" : " missing"}` },
      h("span", { class: "between" }, word), h("span", { class: "stem", "aria-hidden": "true" }),
      h("span", { class: `what ${known ? "ink" : "quiet"}` }, name), h("time", { class: "quiet", title: known ? `${clock(at)}, ${utc(at)}` : "not reached" }, known ? clockMs(at) : "not yet")));
  });
  return line;
}

/** From the first to the last time that is known. @param {Record<string, number|null>} times */
export function wholeSpan(times) {
  const known = Object.values(times || {}).filter(isKnown);
  return known.length > 1 ? Math.max(...known) - Math.min(...known) : null;
}
