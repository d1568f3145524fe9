// Numbers, times and verdicts as words; every verdict has a sign and a word beside its colour.

import { h } from "./dom.js";

const DASH = "–";
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86400;

export function ms(value) {
  if (value === null) return DASH;
  if (value >= 1000) return Math.round(value).toLocaleString("en");
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;

export function signed(share) {
  const text = (100 * share).toFixed(1);
  return `${share > 0 ? "+" : ""}${text.replace("-", "−")}\u00a0%`;
}

export const count = (value) => value.toLocaleString("en");

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export const clock = (time) => new Date(time).toISOString().slice(11, 19);

export function day(time, now) {
  const text = new Date(time).toISOString();
  return text.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? clock(time) : text.slice(0, 16).replace("T", " ");
}

/** How long ago, in its largest unit. */
export function ago(time, now) {
  const seconds = Math.max(0, Math.round((Date.parse(now) - Date.parse(time)) / 1000));
  if (seconds < MINUTE_S) return `${seconds} s`;
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min`;
  if (seconds < 2 * DAY_S) return `${Math.floor(seconds / HOUR_S)} h`;
  return `${Math.floor(seconds / DAY_S)} days`;
}

const TONES = new Map(Object.entries({
  InService: "good", OK: "good", ok: "good", passed: "good", promoted: "good",
  ALARM: "bad", alarm: "bad", failed: "bad", Failed: "bad", "rolled-back": "bad", "rolling-back": "bad",
  warn: "warn", INSUFFICIENT_DATA: "quiet", "not-enough-data": "quiet", "too-few-rows": "quiet", "no-traffic": "quiet",
}));
const SIGNS = { good: "✓", bad: "▲", warn: "◆", quiet: "○", busy: "…" };
const WORDS = new Map(Object.entries({
  ALARM: "In alarm", OK: "OK", INSUFFICIENT_DATA: "No data", ok: "OK", warn: "Warning", alarm: "Alarm",
  "not-enough-data": "Undecided", passed: "Passed", failed: "Failed", "too-few-rows": "Too few rows",
  "no-traffic": "No traffic", InService: "In service",
}));

/** A state as a sign and a word. */
export function badge(state, tone = TONES.get(state) ?? "busy", word = WORDS.get(state) ?? spoken(state)) {
  return h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true" }, SIGNS[tone]), "\u00a0", word);
}

export function spoken(state) {
  const words = state.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A name that may break after an underscore, as it does after a hyphen. */
export const breakable = (name) => name.split(/(?<=_)/).flatMap((part, index) => (index ? [h("wbr"), part] : [part]));

export const empty = (text) => h("p", { class: "empty" }, text);

/** What could not be read of a part, and what did not fit. */
export function troubles(state, part) {
  const found = state.problems.filter((problem) => problem.part === part).map((problem) =>
    h("p", { class: "notice" }, `This could not be read just now; what is shown is from before. ${problem.text}`));
  const left = state.left_off[part];
  return left ? [...found, h("p", { class: "quiet" }, `${count(left)} more are not shown.`)] : found;
}

/** What to say where there is nothing; silent where it could not be read, which `troubles` says. */
export const none = (state, part, text) => (state.problems.some((problem) => problem.part === part) ? null : empty(text));

export function table(caption, heads, rows, { hidden = false } = {}) {
  return h("table", {},
    h("caption", { class: hidden ? "unseen" : null }, caption),
    h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, column) =>
      column === 0 ? h("th", { scope: "row", class: heads[0][1] }, cell) : h("td", { class: heads[column][1] }, cell))))));
}

export const details = (key, summary, ...content) =>
  h("details", { "data-key": key }, h("summary", {}, summary), ...content);
