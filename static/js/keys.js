// Which key does what? One register for the page; off while typing, in dialogs, or when turned off.

/** @typedef {{keys: string, label: string, group: string, run: () => void, hidden?: boolean}} Command */

/** @type {Command[]} */
export const commands = [];
const OFF = "sluicegate.keys";
let pending = "";
let pendingTimer = 0;

/** Register a command. `keys` is "M N" for a sequence, "Shift+J" for a chord, "" for the palette only. @param {Command} command */
export function bind(command) {
  commands.push(command);
}

export function keysAreOff() {
  try { return localStorage.getItem(OFF) === "off"; } catch { return false; }
}

export function toggleKeys() {
  try { localStorage.setItem(OFF, keysAreOff() ? "on" : "off"); } catch { /* holds for nobody */ }
}

/** @param {EventTarget|null} target */
function isTyping(target) {
  const node = /** @type {HTMLElement|null} */ (target);
  return !!node && (node.isContentEditable || /^(TEXTAREA|SELECT)$/.test(node.tagName) || (node.tagName === "INPUT" && !/^(checkbox|radio|button)$/.test(/** @type {HTMLInputElement} */ (node).type)));
}

/** @param {KeyboardEvent} event */
function nameOf(event) {
  const names = { " ": "Space", ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right", Escape: "Esc" };
  const key = names[event.key] || (event.key.length === 1 ? event.key.toUpperCase() : event.key);
  const isSign = event.key.length === 1 && !/[a-z0-9]/i.test(event.key);
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.shiftKey && !isSign ? "Shift+" : ""}${key}`;
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.isComposing) return;
  const name = nameOf(event);
  const inDialog = !!document.querySelector("dialog[open]");
  if (name === "Ctrl+K") { /* also while typing: it is the way out */ } else if (inDialog || isTyping(event.target) || keysAreOff()) return;
  if (inDialog) return;
  // Enter and Space on a control belong to the control.
  const onControl = /^(BUTTON|A|SUMMARY|INPUT)$/.test(/** @type {HTMLElement} */ (event.target)?.tagName || "");
  if (onControl && (name === "Enter" || name === "Space")) return;
  const sequence = pending ? `${pending} ${name}` : name;
  const hit = commands.find((c) => c.keys.split(" / ").includes(sequence));
  const starts = !pending && commands.some((c) => c.keys.split(" / ").some((k) => k.startsWith(`${name} `)));
  clearTimeout(pendingTimer);
  pending = "";
  if (hit) {
    event.preventDefault();
    hit.run();
  } else if (starts) {
    pending = name;
    pendingTimer = window.setTimeout(() => { pending = ""; }, 1500);
  }
});
