// What changed between two records? Only the fields that differ, in words.

/** @param {any} before @param {any} after */
export function difference(before, after) {
  const isRecord = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
  if (!isRecord(after)) return after === null || after === undefined ? (isRecord(before) ? "removed" : "") : String(after);
  if (!isRecord(before)) return Object.entries(after).filter(([k, v]) => v !== null && v !== "" && typeof v !== "object" && !k.endsWith("_at_ms")).slice(0, 6).map(([k, v]) => `${k} ${short(v)}`).join(", ");
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((k) => JSON.stringify(before[k]) !== JSON.stringify(after[k]) && !k.endsWith("_at_ms"));
  return keys.slice(0, 8).map((k) => `${k} ${short(before[k])} to ${short(after[k])}`).join(", ");
}

/** @param {any} v */
function short(v) {
  const text = v === null || v === undefined || v === "" ? "none" : typeof v === "object" ? JSON.stringify(v) : String(v);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
