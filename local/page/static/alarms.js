// Alarms: the loud ones in full, the quiet ones behind a summary.

import { h } from "./dom.js";
import { ago, badge, day, details, none, plural, troubles } from "./words.js";

export function alarmsOf(state) {
  const watching = state.alarms.filter(({ scales }) => !scales);
  const loud = loudOf(state);
  const mute = watching.filter((alarm) => alarm.state === "INSUFFICIENT_DATA");
  const quiet = watching.filter((alarm) => alarm.state === "OK");
  const scaling = state.alarms.filter(({ scales }) => scales);
  if (state.alarms.length === 0) return [...troubles(state, "alarms"), none(state, "alarms", "No alarms yet: the stage is not deployed.")];
  return [
    ...troubles(state, "alarms"),
    loud.length === 0 ? h("p", {}, badge("OK", "good", "No alarm is in ALARM.")) : list(loud, state),
    group("alarms mute", mute, "alarm without data", "alarms without data", state),
    group("alarms quiet", quiet, "alarm OK", "alarms OK", state),
    group("alarms scaling", scaling, "alarm that only scales", "alarms that only scale", state),
  ];
}

/** Alarms that say something is wrong: one of target tracking only calls for other counts. */
export const loudOf = (state) => state.alarms.filter((alarm) => alarm.state === "ALARM" && !alarm.scales);

const group = (key, alarms, one, many, state) =>
  (alarms.length === 0 ? null : details(key, plural(alarms.length, one, many), list(alarms, state)));

const list = (alarms, state) => h("ul", { class: "items" }, alarms.map((alarm) => item(alarm, state)));

function item(alarm, state) {
  return h("li", { class: "card", "data-key": `alarm ${alarm.name}` },
    h("div", { class: "title" }, h("strong", { class: "name" }, alarm.name), badge(alarm.state)),
    h("p", { class: "quiet" }, `Since ${day(alarm.since, state.at)}, for ${ago(alarm.since, state.at)}`),
    h("p", { class: "quiet" }, alarm.watches),
    alarm.reason ? h("p", {}, alarm.reason) : null);
}
