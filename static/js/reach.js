// No frame comes: who is silent, the server, Redis or the monitor? Asked only while the page is not live.

/** @typedef {{asked: boolean, server: boolean, redis: string, detail: string, downSinceMs: number|null}} Reachable */

const ASK_MS = 2000;
const PATIENCE_MS = 3000;

/** @type {Reachable} */
export const reach = { asked: false, server: true, redis: "ok", detail: "", downSinceMs: null };
let timer = 0;

/** @param {() => void} changed */
export function startAsking(changed) {
  if (timer) return;
  const ask = async () => {
    const before = JSON.stringify(reach);
    try {
      const response = await fetch("/readyz", { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
      const said = await response.json();
      reach.server = true;
      reach.redis = said.redis || (said.ready ? "ok" : "unknown");
      reach.detail = said.detail || "";
    } catch {
      reach.server = false;
    }
    reach.asked = true;
    const isDown = reach.server && reach.redis !== "ok";
    if (!isDown) reach.downSinceMs = null;
    else if (reach.downSinceMs === null) reach.downSinceMs = Date.now();
    if (JSON.stringify(reach) !== before) changed();
  };
  ask();
  timer = window.setInterval(ask, ASK_MS);
}

export function stopAsking() {
  clearInterval(timer);
  timer = 0;
  Object.assign(reach, { asked: false, server: true, redis: "ok", detail: "", downSinceMs: null });
}
