// Drift: the newest window of each slot, feature by feature against its warning and its alarm.

import { h } from "./dom.js";
import { thresholdBar } from "./plot.js";
import { badge, breakable, count, day, none, percent, plural, table, troubles } from "./words.js";

export function driftOf(state) {
  if (state.drift.length === 0) {
    return [...troubles(state, "drift"), none(state, "drift", "No drift run yet. The schedule runs one each hour; streamhub drift run does it now.")];
  }
  return [...troubles(state, "drift"), ...state.drift.map((found) => card(found, state))];
}

function card(found, state) {
  const name = `${found.model}, slot ${found.slot}`;
  return h("article", { class: "card", "data-key": `drift ${found.model} ${found.slot}` },
    h("div", { class: "title" }, h("h3", {}, name), badge(found.verdict)),
    h("p", { class: "quiet" }, `${found.version}, window ${day(found.start, state.at)} to ${day(found.end, state.at)}: `,
      `${plural(found.rows, "row")} of ${plural(found.requests, "request")}`),
    h("p", {}, found.text),
    found.features.length === 0 ? null : features(found, name));
}

function features(found, name) {
  const heads = [["Feature", "gauge"], ["Size", "number"], ["Level"], ["Missing", "number"], ["Unseen", "number"]];
  const rows = found.features.map((feature) => [
    [breakable(feature.name), thresholdBar(feature.size, found.warn_size, found.alarm_size)],
    feature.size.toFixed(3).replace("-", "−"),
    badge(feature.level, undefined, feature.drifted ? "Drifted" : undefined),
    percent(feature.missing_share, 1),
    percent(feature.unseen_share, 1),
  ]);
  const limits = `warning at ${count(found.warn_size)} (dashed), alarm at ${count(found.alarm_size)} (solid)`;
  return table(`Features of ${name}: stability index above chance; ${limits}`, heads, rows);
}
