// The state of everything in six numbers.

import { loudOf } from "./alarms.js";
import { h } from "./dom.js";
import { badge, count, plural } from "./words.js";

export function overviewOf(state) {
  return [
    fact("Endpoints", state.endpoints.length, ...endpoints(state)),
    fact("Requests, last minute", requestsOf(state), ...requests(state)),
    fact("Releases under way", moving(state).length, ...releases(state)),
    fact("Slots that drift", drifting(state).length, ...drift(state)),
    fact("In alarm", loudOf(state).length, ...alarms(state)),
    fact("Faults in force", state.faults.length, ...(state.faults.length ? ["warn", "on purpose"] : ["good", "none"])),
  ];
}

const fact = (name, number, tone, said) =>
  h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, h("strong", {}, count(number)), " ", badge("", tone, said)));

function endpoints(state) {
  const busy = state.endpoints.filter(({ status }) => status !== "InService").length;
  if (busy) return ["busy", `${count(busy)} not in service`];
  return state.endpoints.length ? ["good", "in service"] : ["quiet", "none yet"];
}

const variantsOf = (state) => state.endpoints.flatMap(({ variants }) => variants);

const requestsOf = (state) => variantsOf(state).reduce((sum, { recent }) => sum + recent.requests, 0);

function requests(state) {
  const failed = variantsOf(state).reduce((sum, { recent }) => sum + recent.errors, 0);
  if (failed) return ["bad", `${count(failed)} failed`];
  const judged = state.endpoints.flatMap(({ variants, budget_p99_ms: budget }) =>
    variants.filter(({ recent }) => budget !== null && recent.p99_ms !== null).map(({ recent }) => recent.p99_ms > budget));
  const over = judged.filter(Boolean).length;
  if (over) return ["bad", `${plural(over, "variant")} over budget`];
  if (judged.length) return ["good", "within budget"];
  return ["quiet", requestsOf(state) ? "no budget" : "no traffic"];
}

const moving = (state) => state.releases.filter(({ terminal }) => !terminal);

function releases(state) {
  const [first] = moving(state);
  if (first) return ["busy", first.state.replaceAll("-", " ")];
  return ["quiet", state.releases.length ? "none moves" : "none yet"];
}

const drifting = (state) => state.drift.filter(({ verdict }) => verdict === "alarm" || verdict === "warn");

function drift(state) {
  if (drifting(state).length) return [drifting(state).some(({ verdict }) => verdict === "alarm") ? "bad" : "warn", "see drift"];
  return state.drift.length ? ["good", "none"] : ["quiet", "no run yet"];
}

function alarms(state) {
  const all = `of ${count(state.alarms.length)}`;
  if (loudOf(state).length) return ["bad", all];
  return [state.alarms.length ? "good" : "quiet", all];
}
