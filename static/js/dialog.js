// How is an operator asked before an act? A question with the exact count, its effect, a reason, and the verb in the button.
import { h } from "./dom.js";
import { say } from "./say.js";

/**
 * @typedef {{title: string, lead?: any, parts: {name: string, body: any}[], verb: string, note?: string,
 *   extra?: {label: string, key: string, run: () => Promise<string|void>}[], act: () => Promise<string|void>, canAct?: () => string}} Question
 * Ask, and act on the verb. `act` returns what to say when done; a thrown error is shown in the dialog, which stays open.
 * @param {Question} question
 * @returns {{dialog: HTMLDialogElement, setVerb: (text: string) => void, setTitle: (text: string) => void, close: () => void}}
 */
export function ask(question) {
  const fault = h("p", { class: "fault", role: "alert" });
  const faultPart = h("div", { class: "ask-part", hidden: true }, h("div"), fault);
  const verb = h("span", {}, question.verb);
  const main = h("button", { type: "submit", class: "main" }, verb, h("kbd", {}, "Ctrl Enter"));
  const extras = (question.extra || []).map((extra) => h("button", { type: "button", onclick: () => run(extra.run) }, extra.label, h("kbd", {}, extra.key)));
  const cancel = h("button", { type: "button", onclick: () => close() }, "Cancel", h("kbd", {}, "Esc"));
  const heading = h("h2", { id: "ask-title" }, question.title);
  const form = h("form", { method: "dialog", novalidate: true },
    h("div", { class: "ask-head" }, heading, question.lead ? h("p", {}, question.lead) : null),
    question.parts.map((part) => h("div", { class: "ask-part" }, h("div", { class: "name" }, part.name), h("div", {}, part.body))),
    faultPart,
    h("div", { class: "ask-foot" }, main, extras, cancel, question.note ? h("span", { class: "note" }, question.note) : null));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "ask", "aria-labelledby": "ask-title" }, form));
  const before = /** @type {HTMLElement|null} */ (document.activeElement);
  faultPart.hidden = true;
  let busy = false;

  /** @param {() => Promise<string|void>} what */
  async function run(what) {
    if (busy) return;
    const why = question.canAct ? question.canAct() : "";
    if (why) { show(why); return; }
    busy = true;
    main.setAttribute("aria-disabled", "true");
    try {
      const said = await what();
      close();
      if (said) say(said);
    } catch (error) {
      show(error instanceof Error ? error.message : String(error));
    } finally {
      busy = false;
      main.removeAttribute("aria-disabled");
    }
  }

  /** @param {string} sentence */
  function show(sentence) {
    faultPart.hidden = false;
    fault.textContent = sentence;
    const first = /** @type {HTMLElement|null} */ (form.querySelector('[aria-invalid="true"], [data-reason]'));
    first?.focus();
  }

  function close() {
    dialog.close();
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); run(question.act); });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(question.act); }
    // A plain Enter in a field must not finish an act by itself.
    else if (event.key === "Enter" && /** @type {HTMLElement} */ (event.target).tagName === "INPUT") event.preventDefault();
  });
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus?.(); });
  document.body.append(dialog);
  dialog.showModal();
  const first = /** @type {HTMLElement|null} */ (form.querySelector("[data-first]") || form.querySelector("[data-reason]"));
  (first || cancel).focus();
  return { dialog, setVerb: (text) => { verb.textContent = text; }, setTitle: (text) => { heading.textContent = text; }, close };
}

/** Show words that need no answer. @param {string} title @param {string} text */
export function tell(title, text) {
  const before = /** @type {HTMLElement|null} */ (document.activeElement);
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "ask", "aria-label": title }, h("div", { class: "ask-head" }, h("h2", {}, title), text.split("\n").map((line) => h("p", {}, line))),
    h("div", { class: "ask-foot" }, h("button", { type: "button", class: "main", autofocus: true, onclick: () => dialog.close() }, "Close", h("kbd", {}, "Esc")))));
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus?.(); });
  document.body.append(dialog);
  dialog.showModal();
}

/** A field for the reason, kept in the journal. @param {string} [placeholder] @returns {HTMLInputElement} */
export function reasonField(placeholder = "what the journal will say, for example a ticket") {
  return /** @type {HTMLInputElement} */ (h("input", { type: "text", "data-reason": true, "aria-label": "reason", placeholder, maxlength: 500, autocomplete: "off" }));
}

/** Segments of which one is chosen. @template T @param {[string, T][]} options @param {T} chosen @param {(value: T) => void} onChange @param {string} label */
export function segments(options, chosen, onChange, label) {
  const group = h("div", { class: "joined small", role: "group", "aria-label": label });
  for (const [text, value] of options) {
    group.append(h("button", {
      type: "button", "aria-pressed": value === chosen ? "true" : "false",
      onclick: (event) => {
        for (const other of group.children) other.setAttribute("aria-pressed", other === event.currentTarget ? "true" : "false");
        onChange(value);
      },
    }, text));
  }
  return group;
}
