// Nothing has been offered yet: what is found, what is missing, and the command for it?
import { h, setAttr, swap } from "./dom.js";
import { s } from "./dom.js";
import { say } from "./say.js";
import { bytes, clock, count, isKnown } from "./units.js";

export class Setup {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
  }

  /** @param {import("./frame.js").Frame} frame @param {boolean} empty */
  update(frame, empty) {
    this.root.hidden = !empty;
    if (!empty) return;
    const redis = frame.redis || {};
    const workers = (frame.workers || []).filter((w) => w.state !== "gone");
    const slots = workers.reduce((n, w) => n + (w.slots || 0), 0);
    const redisOk = !redis.state || redis.state === "ok";
    const facts = [redis.version ? `version ${redis.version}` : "", isKnown(redis.max_bytes) && redis.max_bytes > 0 ? `${bytes(redis.used_bytes)} of ${bytes(redis.max_bytes)} used` : isKnown(redis.used_bytes) ? `${bytes(redis.used_bytes)} used, no limit set` : "", redis.detail || ""].filter(Boolean).join(", ");
    const key = JSON.stringify([redisOk, workers.length, slots, redis.version, Math.round((redis.used_bytes || 0) / 2 ** 18)]);
    swap(this.root, key, () => [
      step(redisOk, redisOk ? "Redis answers" : "Redis does not answer", facts || "accepted jobs live there"),
      step(true, "The monitor is running", `one frame a second, this one of ${clock(frame.at_ms)}`),
      step(workers.length > 0, workers.length ? `${count(workers.length)} worker${workers.length > 1 ? "s" : ""} with ${count(slots)} slots` : "No worker has connected", workers.length ? workers.map((w) => w.name).slice(0, 3).join(", ") : "start one where your tasks are; it appears here within 2 s", workers.length ? "" : "SLUICEGATE_IMPORTS=shop.tasks celery -A config worker --concurrency 4"),
      step(false, "No job has been offered", "keep your @shared_task functions; change the broker URL and add one line, then call delay() as before", ".venv/bin/python manage.py flood --rate 20 --duration 60"),
    ]);
    setAttr(this.root, "data-ready", redisOk && workers.length > 0);
  }
}

/** @param {boolean} done @param {string} title @param {string} line @param {string} [command] */
function step(done, title, line, command = "") {
  const mark = done
    ? s("svg", { class: "stepmark", viewBox: "0 0 18 18", "aria-label": "done", role: "img" }, s("path", { d: "M2.5 9.5 7 14 15.5 4", class: "tick" }))
    : s("svg", { class: "stepmark", viewBox: "0 0 18 18", "aria-label": "to do", role: "img" }, s("circle", { cx: 9, cy: 9, r: 6.5, class: "todo" }));
  return h("div", { class: "step" }, mark, h("div", {}, h("h3", {}, title), h("p", {}, line), command ? h("div", { class: "command" }, h("pre", {}, command), h("button", { type: "button", onclick: (event) => copy(command, event.currentTarget) }, "Copy")) : null));
}

/** Told where it was asked for too, not only to who listens. @param {string} text @param {HTMLElement|null} [word] the word that names the act */
export async function copy(text, word) {
  let told = "copied";
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    told = "not allowed by the browser: select the text";
    say("The browser did not allow copying; select the text instead.");
  }
  if (!word) return;
  word.dataset.word ||= word.textContent || "";
  word.textContent = told;
  setTimeout(() => { word.textContent = word.dataset.word || ""; }, 2000);
}
