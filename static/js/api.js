// How does the page ask and act? JSON over the session, with the CSRF token, and errors as sentences.

const ROOT = "/api/v1";

/** A refusal or a failure of the server, in words. */
export class Problem extends Error {
  /** @param {string} message @param {any} [document] @param {number} [status] */
  constructor(message, document = {}, status = 0) {
    super(message);
    this.document = document;
    this.status = status;
    /** @type {string|null} */
    this.field = document.field || null;
  }
}

function csrf() {
  return document.querySelector('meta[name="csrf"]')?.getAttribute("content") || "";
}

/** @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function call(method, path, body, signal) {
  let response;
  try {
    response = await fetch(ROOT + path, {
      method, signal, credentials: "same-origin",
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...(method === "GET" ? {} : { "X-CSRFToken": csrf() }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem("The server did not answer. Nothing was changed as far as this page can tell; look before trying again.");
  }
  const text = await response.text();
  let data = null;
  try { data = text ? JSON.parse(text) : null; } catch { /* not JSON: the status says enough */ }
  if (!response.ok) throw new Problem(sentence(response.status, data), data || {}, response.status);
  return data;
}

/** @param {number} status @param {any} data */
function sentence(status, data) {
  const said = data && (data.detail || data.title || data.message);
  const words = typeof said === "string" ? said : Array.isArray(said) ? said.map((d) => d.msg || JSON.stringify(d)).join("; ") : "";
  if (status === 401) return "You are not logged in any more. Log in again; nothing was changed.";
  if (status === 403) return words || "Your role may not do this.";
  return words ? `${words}${data.field && !words.includes(data.field) ? ` (${data.field})` : ""}` : `The server answered ${status}.`;
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => call("GET", path, undefined, signal);
/** @param {string} path @param {any} body */
export const post = (path, body) => call("POST", path, body);
/** @param {string} path @param {any} body */
export const put = (path, body) => call("PUT", path, body);
/** @param {string} path */
export const remove = (path) => call("DELETE", path);

/** @param {Record<string, any>} filters */
export function query(filters) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(filters)) if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  const text = search.toString();
  return text ? `?${text}` : "";
}

/** May this viewer act? @param {"operator"|"admin"} [least] */
export function may(least = "operator") {
  const role = document.body.dataset.role || "viewer";
  return role === "admin" || (least === "operator" && role === "operator");
}
