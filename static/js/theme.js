// Dark or light? The system's preference until T chooses; the choice is kept in this browser.

const KEY = "sluicegate.theme";

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : !matchMedia("(prefers-color-scheme: light)").matches;
}

export function toggleTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem(KEY, next); } catch { /* private window: holds until closed */ }
  document.dispatchEvent(new CustomEvent("themechange"));
}

matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("themechange")));

/** The colours in force, for what is drawn outside CSS. @returns {Record<string, string>} */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const out = {};
  for (const name of ["ground", "raised", "track", "line", "edge", "ink", "ink2", "ink3", "fill", "guard", "guard-line", "over", "over-line"])
    out[name] = style.getPropertyValue(`--${name}`).trim();
  return out;
}
