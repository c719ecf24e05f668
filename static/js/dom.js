// How is a node made and changed? Text goes in as text only, so nothing a tenant or a task sends can run.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * Make an HTML element. Keys starting with "on" are listeners; "class", "data-*", "aria-*" are attributes.
 * @param {string} tag @param {Record<string, any>} [props] @param {...(Child|Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), props, children));
}

/** Make an SVG element. @param {string} tag @param {Record<string, any>} [props] @param {...(Child|Child[])} children @returns {SVGElement} */
export function s(tag, props = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), props, children));
}

/** @param {Element} node @param {Record<string, any>} props @param {any[]} children */
function fill(node, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

/** @param {Element} node @param {any[]} children */
function add(node, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Set text only if it differs, so that a frame touches nothing that stayed the same. @param {Element} node @param {string|number} text */
export function setText(node, text) {
  const value = String(text);
  if (node.firstChild && node.firstChild === node.lastChild && node.firstChild.nodeType === 3) {
    if (node.firstChild.nodeValue !== value) node.firstChild.nodeValue = value;
  } else if (node.textContent !== value || node.childElementCount > 0) node.textContent = value;
}

/** @param {Element} node @param {string} name @param {string|number|boolean|null|undefined} value */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

/** Put a length or a position on an element through CSSOM. @param {HTMLElement|SVGElement} node @param {string} name @param {string} value */
export function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

/** Replace the children only if a key of the content changed. @param {Element} node @param {string} key @param {() => (Child|Child[])} make */
export function swap(node, key, make) {
  const held = /** @type {any} */ (node);
  if (held.sluicegateKey === key) return false;
  held.sluicegateKey = key;
  const made = make();
  node.replaceChildren();
  add(node, Array.isArray(made) ? made : [made]);
  return true;
}

/** Value parts with their quieter units. @param {Element} node @param {[string, string][]} parts */
export function setParts(node, parts) {
  swap(node, JSON.stringify(parts), () =>
    parts.map(([value, unit], i) => [i ? " " : "", value, unit ? h("span", { class: "unit" }, unit) : ""]));
}

/** @template {Element} T @param {string} selector @param {ParentNode} [root] @returns {T} */
export function $(selector, root = document) {
  return /** @type {T} */ (root.querySelector(selector));
}

/** @param {string} selector @param {ParentNode} [root] @returns {HTMLElement[]} */
export function $$(selector, root = document) {
  return /** @type {HTMLElement[]} */ ([...root.querySelectorAll(selector)]);
}
