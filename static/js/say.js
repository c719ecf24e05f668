// What is spoken to a screen reader? States, modes, alerts and ends of batches; never frames.
import { $ } from "./dom.js";

/** @param {string} sentence */
export function say(sentence) {
  const region = $("[data-say]");
  if (region) region.textContent = sentence;
}
