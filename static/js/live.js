// Is the page live, and what is the newest frame? A WebSocket with jittered reconnect, and staleness by the frame's age.

/** @typedef {import("./frame.js").Frame} Frame */

/** A frame comes each second; two missed is stale. */
export const STALE_AFTER_MS = 2000;
const RECONNECT_LEAST_MS = 250;
/** The first return is spread over so long: two hundred rooms that lost one server are fifty a second. */
const RECONNECT_FIRST_MS = 4000;
const RECONNECT_MOST_MS = 8000;
/** An open socket that is silent for so long may have died unseen (a laptop that slept); a new one will tell. */
export const SILENT_MS = 10000;

/** How long to wait before the try of this number. @param {number} tries @param {number} dice 0 to 1 */
export function returnAfterMs(tries, dice) {
  return RECONNECT_LEAST_MS + dice * Math.min(RECONNECT_MOST_MS, RECONNECT_FIRST_MS * 2 ** tries);
}

/** Local time minus the server's, taken from when the page was made. */
function pageOffset() {
  const made = Number(document.querySelector('meta[name="server-now"]')?.getAttribute("content")) * 1000;
  if (!made) return 0;
  const [navigation] = performance.getEntriesByType("navigation");
  const read = performance.timeOrigin + (navigation ? /** @type {any} */ (navigation).responseStart : 0);
  return read - made - 500; // the template's second is cut, half a second on average
}

/** Monotonic local time: a clock set back must not make a frame look young. */
function localNow() {
  return performance.timeOrigin + performance.now();
}

export class Live {
  constructor(path = "/ws/live") {
    this.path = path;
    /** @type {Frame|null} */
    this.frame = null;
    /** @type {number|null} */
    this.receivedAt = null;
    this.fallbackOffset = pageOffset();
    /** @type {number[]} offsets of the frames that moved on, newest last */
    this.offsets = [];
    this.tries = 0;
    this.open = false;
    /** @type {WebSocket|null} */
    this.socket = null;
    this.heardAt = 0;
    this.patienceMs = 0;
    /** @type {Set<(frame: Frame) => void>} */
    this.frameListeners = new Set();
    /** @type {Set<(message: any) => void>} */
    this.messageListeners = new Set();
    this.closedFor = "";
  }

  /** @param {(frame: Frame) => void} listener */
  onFrame(listener) {
    this.frameListeners.add(listener);
    if (this.frame) listener(this.frame);
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path}`);
    this.socket = socket;
    this.heardAt = localNow();
    this.patienceMs = Math.random() * RECONNECT_FIRST_MS; // a dead sampler silences every room in one second
    socket.addEventListener("open", () => { this.open = true; this.heardAt = localNow(); });
    socket.addEventListener("message", (event) => {
      if (socket !== this.socket) return;
      this.tries = 0;
      this.heardAt = localNow();
      this.read(event.data);
    });
    socket.addEventListener("close", (event) => {
      if (socket !== this.socket) return;
      this.closedFor = event.code === 4401 || event.code === 4403 ? "rights" : "";
      this.comeBack();
    });
    if (!this.watchdog) this.watchdog = setInterval(() => this.look(), 1000);
  }

  /** A new socket after a while, in place of the one there was. */
  comeBack() {
    this.open = false;
    this.socket = null;
    // Full jitter: many rooms that lost the same server must not come back in one wave.
    setTimeout(() => this.connect(), returnAfterMs(this.tries, Math.random()));
    this.tries += 1;
  }

  /** Leaves a socket that has been silent for too long for a new one; its own end may never be told. */
  look() {
    if (!this.socket || localNow() - this.heardAt < SILENT_MS + this.patienceMs) return;
    const dead = this.socket;
    this.connect();
    dead.close();
  }

  /** @param {string} text */
  read(text) {
    let message;
    try { message = JSON.parse(text); } catch { return; }
    if (message.type && message.type !== "frame") {
      for (const listener of this.messageListeners) listener(message);
      return;
    }
    if (!Array.isArray(message.queues)) return;
    const now = localNow();
    if (this.frame && message.seq !== this.frame.seq) {
      // Only a frame that follows another proves that the sampler is alive now.
      this.offsets.push(now - message.at_ms);
      if (this.offsets.length > 30) this.offsets.shift();
    }
    if (!this.frame || message.seq !== this.frame.seq) {
      this.frame = message;
      this.receivedAt = now;
      for (const listener of this.frameListeners) listener(message);
    }
  }

  /** Server time by this page's reckoning. */
  now() {
    const offset = this.offsets.length ? Math.min(...this.offsets) : this.fallbackOffset;
    return localNow() - offset;
  }

  /** Age of what is shown: time since it was sampled. @returns {number|null} */
  ageMs() {
    if (!this.frame) return null;
    const sampled = this.frame.sampled_ago_ms || 0;
    return Math.max(0, this.now() - this.frame.at_ms) + sampled;
  }

  /** @returns {"connecting"|"live"|"stale"|"lost"} */
  state() {
    const age = this.ageMs();
    if (age === null) return "connecting";
    if (age <= STALE_AFTER_MS) return "live";
    return this.open ? "stale" : "lost";
  }
}

export const live = new Live();
