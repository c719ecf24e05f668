// Which six times does an operation have, and what passed between them? A line, not to scale, with the waits named.
import { h } from "../js/dom.js";
import { clock, clockMs, duration, isKnown, utc, wait } from "../js/units.js";

const NAMES = [["offered_at_ms", "offered"], ["accepted_at_ms", "accepted"], ["enqueued_at_ms", "eligible"], ["started_at_ms", "started"], ["committed_at_ms", "committed"], ["reported_at_ms", "reported"]];

/** @param {Record<string, number|null>} times @param {string} [running] a word for the part between started and committed @returns {HTMLElement} */
export function sixTimes(times, running = "ran") {
  const line = h("div", { class: "sixtimes" });
  let before = null;
  NAMES.forEach(([key, name], i) => {
    const at = times?.[key] ?? times?.[name] ?? null;
    const known = isKnown(at);
    const gap = known && isKnown(before) ? at - before : null;
    const word = i === 0 ? "" : gap === null ? "" : i === 3 ? `waited ${wait(Math.max(0, gap))}` : i === 4 ? `${running} ${gap < 1000 ? wait(Math.max(0, gap)) : duration(gap)}` : wait(Math.max(0, gap));
    line.append(h("div", { class: `sixtime${known ? "" : " missing"}${i === 3 || i === 4 ? " long" : ""}` },
      h("span", { class: "between" }, word), h("span", { class: "stem", "aria-hidden": "true" }),
      h("span", { class: known ? "ink" : "quiet" }, name), h("time", { class: "quiet", title: known ? `${clock(at)}, ${utc(at)}` : "not reached" }, known ? clockMs(at) : "not yet")));
    if (known) before = at;
  });
  return line;
}

/** From the first to the last time that is known. @param {Record<string, number|null>} times */
export function wholeSpan(times) {
  const known = Object.values(times || {}).filter(isKnown);
  return known.length > 1 ? Math.max(...known) - Math.min(...known) : null;
}
