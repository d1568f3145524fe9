// Alarms: the loud ones in full, the quiet ones behind a summary.

import { h } from "./dom.js";
import { ago, badge, day, details, empty, plural, troubles } from "./words.js";

export function alarmsOf(state) {
  const loud = state.alarms.filter((alarm) => alarm.state === "ALARM");
  const mute = state.alarms.filter((alarm) => alarm.state === "INSUFFICIENT_DATA");
  const quiet = state.alarms.filter((alarm) => alarm.state === "OK");
  if (state.alarms.length === 0) return [...troubles(state, "alarms"), empty("No alarms yet: the stage is not deployed.")];
  return [
    ...troubles(state, "alarms"),
    loud.length === 0 ? h("p", {}, badge("OK", "good", "No alarm is in ALARM.")) : list(loud, state),
    mute.length === 0 ? null : details("alarms mute", plural(mute.length, "alarm without data", "alarms without data"), list(mute, state)),
    quiet.length === 0 ? null : details("alarms quiet", plural(quiet.length, "alarm OK", "alarms OK"), list(quiet, state)),
  ];
}

const list = (alarms, state) => h("ul", { class: "items" }, alarms.map((alarm) => item(alarm, state)));

function item(alarm, state) {
  return h("li", { class: "card", "data-key": `alarm ${alarm.name}` },
    h("div", { class: "title" }, h("strong", { class: "name" }, alarm.name), badge(alarm.state)),
    h("p", { class: "quiet" }, `Since ${day(alarm.since, state.at)}, for ${ago(alarm.since, state.at)}`),
    h("p", { class: "quiet" }, alarm.watches),
    alarm.reason ? h("p", {}, alarm.reason) : null);
}
