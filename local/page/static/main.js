// Puts the document on the page, every two seconds and when the window changes.

import { alarmsOf } from "./alarms.js";
import { update } from "./dom.js";
import { driftOf } from "./drift.js";
import { endpointsOf } from "./endpoints.js";
import { showForms, wire } from "./forms.js";
import { overviewOf } from "./overview.js";
import { Poller } from "./poll.js";
import { releasesOf } from "./releases.js";
import { clock } from "./words.js";

const WIDEST = 900;
const NARROWEST = 240;
const PADDING = 34;
const byId = (id) => document.getElementById(id);

let state = null;
let lostFor = null;

function show() {
  if (state === null) return;
  const width = Math.max(NARROWEST, Math.min(WIDEST, byId("endpoints-body").clientWidth - PADDING));
  byId("place").textContent = `stage ${state.stage}, ${clock(state.at)} UTC`;
  update(byId("overview"), overviewOf(state));
  update(byId("endpoints-body"), endpointsOf(state, width));
  update(byId("releases-body"), releasesOf(state, width));
  update(byId("drift-body"), driftOf(state));
  update(byId("alarms-body"), alarmsOf(state));
  showForms(state);
}

function connected(found) {
  if (lostFor !== null || state === null) say("up", state === null ? "Connected" : "Connected again");
  lostFor = null;
  byId("lost").hidden = true;
  state = found;
  show();
}

function lost(reason) {
  if (lostFor === reason) return;
  lostFor = reason;
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
