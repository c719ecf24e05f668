// Where do the links to pages stand when they do not fit? In a menu, which works from the keyboard as a list of links does.
import { $, $$, setAttr } from "./dom.js";

const head = $("[data-pagelinks]");
const links = /** @type {HTMLElement[]} */ ([...head.children]);
const menu = /** @type {HTMLElement} */ ($("[data-pagemenu]"));
const opener = $("button", menu);
const list = $("[data-pagelist]", menu);

export function startPageMenu() {
  asMenu(opener, list);
  const tab = $('[data-open="more"]');
  asMenu(tab, $("[data-more]"));
  setAttr(tab, "data-holds", $('[data-more] [aria-current="page"]') ? "current" : null);
  new ResizeObserver(fit).observe(menu.parentElement || menu);
  document.fonts?.ready.then(fit);
  fit();
}

/** As many links as fit stand in the header, the others in the menu, all in their order. */
export function fit() {
  const kept = document.activeElement;
  head.append(...links);
  menu.hidden = true;
  if (head.scrollWidth > head.clientWidth) {
    menu.hidden = false;
    for (let n = links.length - 1; n > 0 && head.scrollWidth > head.clientWidth; n -= 1) list.prepend(links[n]);
  }
  setAttr(opener, "data-holds", $('[aria-current="page"]', list) ? "current" : null);
  if (menu.hidden) show(opener, list, false);
  if (kept instanceof HTMLElement && kept !== document.activeElement && links.includes(kept)) (list.contains(kept) && list.hidden ? opener : kept).focus();
}

/** @param {HTMLElement} button @param {HTMLElement} panel @param {boolean} open */
function show(button, panel, open) {
  panel.hidden = !open;
  setAttr(button, "aria-expanded", open ? "true" : "false");
}

/** A button that shows a list of links: Escape, a click elsewhere and leaving it close it; arrows go through it. @param {HTMLElement} button @param {HTMLElement} panel */
function asMenu(button, panel) {
  const inside = () => /** @type {HTMLElement[]} */ ($$("a", panel));
  const close = () => { if (!panel.hidden) { show(button, panel, false); button.focus(); } };
  button.addEventListener("click", () => {
    show(button, panel, panel.hidden);
    if (!panel.hidden) inside()[0]?.focus();
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (panel.hidden) return;
    const all = inside();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape") close();
    else if (to !== undefined) all[to].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  for (const node of [button, panel]) node.addEventListener("keydown", onKey);
  const left = (/** @type {Node|null} */ node) => !panel.hidden && !(node && (panel.contains(node) || button.contains(node)));
  document.addEventListener("click", (event) => { if (left(/** @type {Node} */ (event.target))) show(button, panel, false); });
  panel.addEventListener("focusout", (event) => { if (event.relatedTarget && left(/** @type {Node} */ (event.relatedTarget))) show(button, panel, false); });
}
