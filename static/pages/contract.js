// How is a queue's promise shown: each part in a sentence, with its figures, and how to test it?
import { h } from "../js/dom.js";
import { shape } from "../js/shapes.js";
import { bytes, count, duration, isKnown, percent, plural } from "../js/units.js";
import { facts, plainName } from "./page.js";

/** @param {any} c what GET /contracts/{queue} answers */
export function contractParts(c) {
  const parts = Object.entries(c).filter(([, v]) => v && typeof v === "object" && !Array.isArray(v));
  return [h("p", { class: "part quiet" }, `policy version ${c.policy_version}; ${c.owner ? `owner ${c.owner}` : "no owner"}; `, h("a", { class: "link", href: `/api/v1/contracts/${encodeURIComponent(c.queue)}` }, "as JSON")),
    h("div", { class: "twocol" }, parts.map(([name, body]) => h("section", { class: "part", "data-contract": name }, h("h3", { class: "title ink" }, h("b", {}, name.replaceAll("_", " "))), body.statement ? h("p", { class: "statement" }, body.statement) : null,
      name === "completion" ? measured(body) : null,
      facts(Object.entries(body).filter(([k, v]) => k !== "statement" && (v === null || typeof v !== "object")).map(([k, v]) => [plainName(k), v === null ? h("span", { class: "quiet" }, "none") : word(k, v)])),
      body.tests?.length ? h("ul", { class: "tests" }, body.tests.map((t) => h("li", {}, t))) : null)))];
}

/** @param {any} body */
function measured(body) {
  const m = body.measured;
  if (!isKnown(body.objective_share)) return null;
  if (!m || !isKnown(m.attained)) return h("p", { class: "measured" }, shape("dashed"), "Not measured: nothing promised has settled in the last hour.");
  return h("p", { class: "measured" }, shape(m.attained >= body.objective_share ? "ring" : "triangle"), `Measured: kept by ${percent(m.attained)} of ${plural(m.of, "job")} in the last ${duration(m.over_s * 1000)}.`);
}

/** @param {string} key @param {any} value */
function word(key, value) {
  if (typeof value === "number" && key.endsWith("_s")) return duration(value * 1000);
  if (typeof value === "number" && key.endsWith("_ms")) return duration(value);
  if (typeof value === "number" && key.endsWith("bytes")) return bytes(value);
  if (typeof value === "number" && (key.endsWith("share") || key.endsWith("mark") || key.endsWith("rate") || key.endsWith("reserve"))) return percent(value);
  return typeof value === "number" ? (Number.isInteger(value) ? count(value) : String(value)) : typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
}
