// Releases: where each is, what it waits for, and the bound of its uplift from look to look.

import { h } from "./dom.js";
import { boundPlot, legend } from "./plot.js";
import { ago, badge, clock, count, day, details, empty, none, percent, signed, spoken, table, troubles } from "./words.js";

const SHOWN_ROWS = 12;
const DAY_MS = 86_400_000;
const ENDS = new Set(["promoted", "rolled-back", "inconclusive"]);

export function releasesOf(state, width) {
  const without = state.models_without_release;
  const waiting = without.length === 0 ? null : h("p", { class: "quiet" }, `No release yet: ${without.join(", ")}.`);
  if (state.releases.length === 0) {
    return [...troubles(state, "releases"), none(state, "releases", "No release yet. Start one with streamhub release start."), waiting];
  }
  return [...troubles(state, "releases"), ...state.releases.map((release) => card(release, state, width)), waiting];
}

function card(release, state, width) {
  return h("article", { class: "card", "data-key": `release ${release.model}` },
    h("div", { class: "title" }, h("h3", {}, release.model), badge(release.state)),
    h("p", {}, `${release.challenger_version} in slot ${release.challenger} has ${percent(release.share)}; `,
      `${release.production_version} in slot ${release.production} the rest.`),
    h("p", { class: "quiet" }, `${release.release_id}, started ${day(release.started_at, state.at)}; `,
      `last move ${ago(release.updated_at, state.at)} ago by ${release.actor}: ${release.reason}`),
    steps(release),
    release.note ? h("p", { class: "notice" }, release.note) : null,
    release.follows ? null : h("p", { class: "notice" }, "The endpoint's weights differ from the record; they follow when it is in service."),
    gates(release),
    bound(release, state, width),
    release.transitions.length === 0 ? null
      : details(`transitions ${release.model}`, "What happened so far", transitions(release, state)));
}

function steps(release) {
  const names = ["Registered", ...Array.from({ length: release.stages }, (_, index) =>
    index === release.stages - 1 ? "Decision" : `Canary ${index + 1}`), ENDS.has(release.state) ? spoken(release.state) : "Verdict"];
  const at = release.terminal ? names.length - 1 : release.state === "registered" ? 0 : release.stage + 1;
  return h("ol", { class: "steps", "aria-label": `Stages of the release of ${release.model}` }, names.map((name, index) =>
    h("li", { class: index < at ? "done" : index === at ? "now" : null, "aria-current": index === at ? "step" : null },
      h("span", { "aria-hidden": "true" }, index < at ? "✓" : index === at ? "●" : "○"), ` ${name}`)));
}

function gates(release) {
  if (release.terminal && release.gates.length === 0) return null;
  const lead = release.terminal ? "It ended with these gates: " : `A tick now would ${release.decision.replace("-", " ")}: `;
  const said = h("p", {}, h("strong", {}, lead), release.rule);
  if (release.gates.length === 0) return said;
  const rows = release.gates.map((gate) => [gate.name, badge(gate.verdict), gate.text]);
  return [said, table(`Gates of the release of ${release.model}`, [["Gate"], ["Verdict"], ["Why"]], rows, { hidden: true })];
}

function bound(release, state, width) {
  if (release.min_uplift === null) return h("p", { class: "quiet" }, "This model has no click metric, so no bound of an uplift.");
  if (release.looks.length === 0) return empty("No bound yet: the sample is too small for one.");
  const newest = release.looks.at(-1);
  const sure = `surely between ${signed(newest.lower)} and ${signed(newest.upper)}`;
  const label = `Uplift of the click rate over time. Newest: ${signed(newest.estimate)}, ${sure}. Wanted: ${signed(release.min_uplift)}.`;
  const heads = [["Look"], ...["Stage", "Impr.", "Lower", "Uplift", "Upper"].map((head) => [head, "number"])];
  const rows = release.looks.slice(-SHOWN_ROWS).reverse().map((look) =>
    [day(look.at, state.at), `${look.stage + 1}`, count(look.impressions), signed(look.lower), signed(look.estimate), signed(look.upper)]);
  return h("figure", {},
    h("p", { class: "figure-title" }, `Uplift ${signed(newest.estimate)}, ${sure}`),
    boundPlot({ label, looks: release.looks, wanted: release.min_uplift, width, tick: ticks(release.looks) }),
    h("figcaption", {}, legend([["a", "estimate"], ["band", "surely within"]]),
      h("p", { class: "quiet" }, "Looks at each move, and while somebody had this page open; wider bounds are cut at the edge. ",
        "Each stage starts its evidence anew, and its line.")),
    details(`looks ${release.model}`, "The numbers of this plot",
      table(`Newest looks of the release of ${release.model}`, heads, rows)));
}

/** Times of a plot: with their day where it is longer than one. */
function ticks(looks) {
  const long = Date.parse(looks.at(-1).at) - Date.parse(looks[0].at) > DAY_MS;
  return (time) => (long ? new Date(time).toISOString().slice(5, 16).replace("T", " ") : clock(time));
}

function transitions(release, state) {
  const rows = release.transitions.map((move) =>
    [day(move.at, state.at), spoken(move.state), percent(move.share), `${move.actor}: ${move.reason}`]);
  return table(`Moves of the release of ${release.model}, newest first`, [["At"], ["To"], ["Share", "number"], ["By, why"]], rows);
}
