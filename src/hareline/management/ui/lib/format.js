// Numbers, sizes, ages and dates as people read them.
const WHOLE = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export const count = (value) => (isNumber(value) ? WHOLE.format(value) : "–");
export const short = (value) => (!isNumber(value) ? "–" : Math.abs(value) < 10_000 ? WHOLE.format(Math.round(value * 10) / 10) : COMPACT.format(value));

export function rate(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2;
  return `${size >= 10_000 ? COMPACT.format(value) : value.toFixed(digits)}/s`;
}

export function signedRate(value) {
  return isNumber(value) && value > 0 ? `+${rate(value)}` : rate(value).replace("-", "−");
}

export function bytes(value) {
  if (!isNumber(value)) return "–";
  let size = Math.abs(value);
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${units[unit]}`;
}

export const percent = (part) => (isNumber(part) ? `${(part * 100).toFixed(part >= 0.1 || part === 0 ? 0 : 1)} %` : "–");

export function duration(ms) {
  if (!isNumber(ms)) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${ms < 10_000 && ms % 1000 ? (ms / 1000).toFixed(1) : seconds} s`;
  const parts = [[Math.floor(seconds / 86_400), "d"], [Math.floor(seconds / 3600) % 24, "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  const first = parts.findIndex(([number]) => number > 0);
  return parts.slice(first, first + 2).filter(([number]) => number > 0).map(([number, unit]) => `${number} ${unit}`).join(" ");
}

const pad = (number) => String(number).padStart(2, "0");

/** Local date and time, to the second. */
export function moment(ms) {
  if (!isNumber(ms) || ms <= 0) return "–";
  const date = new Date(ms);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** A time in any of the API's forms (ms, seconds, text) as ms, or null. */
export function toMs(value) {
  if (isNumber(value)) return value > 1e11 ? value : value * 1000;
  if (typeof value === "string" && value) {
    const parsed = Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(value) ? value : value.replace(" ", "T") + "Z");
    return Number.isNaN(parsed) ? null : parsed;
  }
  return null;
}

export function ago(value, now = Date.now()) {
  const at = toMs(value);
  if (at === null) return "–";
  const gone = now - at;
  return gone < 2000 ? "just now" : `${duration(gone)} ago`;
}

/** "in 4 min" of a time to come. */
export function until(value, now = Date.now()) {
  const at = toMs(value);
  if (at === null) return "–";
  return at - now < 1000 ? "now" : `in ${duration(at - now)}`;
}

/** A value of a table or of arguments as text. */
export function text(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** a.b.c of nested objects. */
export const at = (object, dotted) => dotted.split(".").reduce((value, key) => value?.[key], object);
