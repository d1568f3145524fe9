// Puts the document on the page, every two seconds and when the window changes.

import { alarmsOf, loudOf } from "./alarms.js";
import { h, update } from "./dom.js";
import { driftOf } from "./drift.js";
import { endpointsOf } from "./endpoints.js";
import { showForms, wire } from "./forms.js";
import { Poller } from "./poll.js";
import { releasesOf } from "./releases.js";
import { badge, clock, count, plural } from "./words.js";

const WIDEST = 900;
const NARROWEST = 240;
const PADDING = 34;
const byId = (id) => document.getElementById(id);

let state = null;
let lostSince = null;

function show() {
  if (state === null) return;
  const width = Math.max(NARROWEST, Math.min(WIDEST, byId("endpoints-body").clientWidth - PADDING));
  byId("place").textContent = `stage ${state.stage}, ${clock(state.at)} UTC`;
  update(byId("overview"), overview());
  update(byId("endpoints-body"), endpointsOf(state, width));
  update(byId("releases-body"), releasesOf(state, width));
  update(byId("drift-body"), driftOf(state));
  update(byId("alarms-body"), alarmsOf(state));
  showForms(state);
}

function overview() {
  const over = state.endpoints.flatMap((endpoint) => endpoint.variants.filter(({ recent }) =>
    endpoint.budget_p99_ms !== null && recent.p99_ms !== null && recent.p99_ms > endpoint.budget_p99_ms));
  const busy = state.endpoints.filter(({ status }) => status !== "InService");
  const moving = state.releases.filter(({ terminal }) => !terminal);
  const loud = loudOf(state);
  const drifted = state.drift.filter(({ verdict }) => verdict === "alarm" || verdict === "warn");
  const requests = state.endpoints.flatMap(({ variants }) => variants).reduce((sum, { recent }) => sum + recent.requests, 0);
  return [
    fact("Endpoints", state.endpoints.length, busy.length ? badge("", "busy", `${count(busy.length)} not in service`) : state.endpoints.length ? badge("", "good", "in service") : badge("", "quiet", "none yet")),
    fact("Requests, last minute", requests, over.length ? badge("", "bad", `${plural(over.length, "variant")} over budget`) : requests ? badge("", "good", "within budget") : badge("", "quiet", "no traffic")),
    fact("Releases under way", moving.length, moving.length ? badge("", "busy", moving[0].state.replaceAll("-", " ")) : badge("", "quiet", state.releases.length ? "none moves" : "none yet")),
    fact("Slots that drift", drifted.length, drifted.length ? badge("", "warn", "see drift") : badge("", state.drift.length ? "good" : "quiet", state.drift.length ? "none" : "no run yet")),
    fact("In alarm", loud.length, loud.length ? badge("", "bad", `of ${count(state.alarms.length)}`) : badge("", state.alarms.length ? "good" : "quiet", `of ${count(state.alarms.length)}`)),
    fact("Faults in force", state.faults.length, state.faults.length ? badge("", "warn", "on purpose") : badge("", "good", "none")),
  ];
}

const fact = (name, number, said) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, h("strong", {}, count(number)), " ", said));

function connected(found) {
  if (lostSince !== null || state === null) say("up", state === null ? "Connected" : "Connected again");
  lostSince = null;
  byId("lost").hidden = true;
  state = found;
  show();
}

function lost(reason) {
  if (lostSince !== null) return;
  lostSince = new Date().toISOString();
  say("down", reason);
  byId("lost").hidden = false;
  const shown = state === null ? "There is nothing to show yet." : `What is below is as of ${clock(state.at)} UTC.`;
  byId("lost").textContent = `${reason} ${shown} The page tries again every two seconds.`;
}

function say(word, text) {
  byId("connection").dataset.state = word;
  byId("connection-text").textContent = text;
}

const poller = new Poller({ onState: connected, onLost: lost });
wire({ refresh: () => poller.now(), current: () => state });
new ResizeObserver(() => show()).observe(byId("endpoints-body"));
poller.now();
