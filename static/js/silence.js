// No fresh frame comes: who is silent? The room and the pages beside it ask and answer this in one way.
import { live } from "./live.js";
import { reach, startAsking, stopAsking } from "./reach.js";

/** The first frame is there in well under a second when all is well: then it is asked what is not. */
const ASK_AFTER_MS = 1000;
/** A slow network may take so long; only then does a server that answers, with a Redis that does, mean a silent monitor. */
const FIRST_FRAME_MS = 3000;
const LOOK_MS = 1000;

/** Asks while the page is not live, and calls `changed` on every answer and once a second. @param {() => void} changed */
export function watchSilence(changed) {
  document.addEventListener("livechange", (event) => {
    if (["stale", "lost"].includes(/** @type {CustomEvent} */ (event).detail)) startAsking(changed);
    else stopAsking();
  });
  setInterval(() => {
    if (live.state() === "live") return;
    if (!live.frame && performance.now() > ASK_AFTER_MS) startAsking(changed);
    changed();
  }, LOOK_MS);
}

/**
 * Of a page that is not live. "" while there is neither a frame nor an answer to tell it by.
 * @param {import("./frame.js").Frame|null} frame @param {string} state @returns {"rights"|"server"|"redis"|"monitor"|""}
 */
export function whoIsSilent(frame, state) {
  if (live.closedFor === "rights") return "rights";
  if (!reach.server || (frame && state === "lost")) return "server";
  if (redisIsDown(frame)) return "redis";
  return frame || (reach.asked && performance.now() > FIRST_FRAME_MS) ? "monitor" : "";
}

/** By the last frame, or by what the server says now. @param {import("./frame.js").Frame|null} frame */
export function redisIsDown(frame) {
  if (reach.downSinceMs !== null) return true;
  return !!frame?.redis?.state && !["ok", "unknown"].includes(frame.redis.state);
}
