// Endpoints: a table of variants, and the latency of the last minutes against the budget.

import { h } from "./dom.js";
import { latencyPlot, legend } from "./plot.js";
import { badge, clock, count, details, empty, ms, none, percent, plural, table, troubles } from "./words.js";

const SHOWN_ROWS = 12;
// a line is drawn on over fewer periods without traffic than these: a minute of a watch
const GAP_PERIODS = 4;
const STYLES = ["a", "b", "c", "d"];

export function endpointsOf(state, width) {
  if (state.endpoints.length === 0) {
    return [...troubles(state, "endpoints"), none(state, "endpoints", "No endpoint yet: the stage is not deployed, or was destroyed.")];
  }
  return [...troubles(state, "endpoints"), ...state.endpoints.map((endpoint) => card(endpoint, state, width))];
}

function card(endpoint, state, width) {
  const budget = endpoint.budget_p99_ms;
  return h("article", { class: "card", "data-key": `endpoint ${endpoint.name}` },
    h("div", { class: "title" }, h("h3", {}, endpoint.name), badge(endpoint.status)),
    h("p", { class: "quiet" }, [
      endpoint.model || "no model of this project",
      budget === null ? "no latency budget" : `p99 budget ${budget} ms`,
    ].join(" · ")),
    endpoint.failure ? h("p", { class: "notice" }, `Failure: ${endpoint.failure}`) : null,
    endpoint.variants.length === 0 ? empty("It has no variants yet.") : [
      variants(endpoint),
      h("p", { class: "verdict" }, endpoint.variants.map((variant) => verdict(variant, budget))),
      latency(endpoint, state, width),
    ]);
}

function variants(endpoint) {
  const heads = [["Variant"], ...["Weight", "Inst.", "p50 ms", "p99 ms", "Req.", "5xx"].map((head) => [head, "number"])];
  const rows = endpoint.variants.map((variant) => [
    [variant.name, variant.version ? h("span", { class: "quiet version" }, ` ${variant.version}`) : null],
    moving(percent(variant.share), percent(variant.desired_share)),
    moving(count(variant.instances), count(variant.desired_instances)),
    ms(variant.recent.p50_ms),
    ms(variant.recent.p99_ms),
    count(variant.recent.requests),
    count(variant.recent.errors),
  ]);
  return table(`Variants of ${endpoint.name}; latency and requests of the last minute`, heads, rows, { hidden: true });
}

const moving = (now, wanted) => (now === wanted ? now : `${now} → ${wanted}`);

function verdict(variant, budget) {
  const { p99_ms: p99, requests } = variant.recent;
  const said = (tone, text) => h("span", {}, badge("p99", tone, `${variant.name}: ${text}`));
  if (requests === 0 || p99 === null) return said("quiet", "no traffic in the last minute");
  if (budget === null) return said("quiet", `p99 ${ms(p99)} ms, no budget`);
  return p99 > budget ? said("bad", "p99 over budget") : said("good", "p99 within budget");
}

function latency(endpoint, state, width) {
  const measured = endpoint.variants.map((variant, index) => ({
    name: variant.name,
    style: STYLES[index % STYLES.length],
    points: variant.points.filter((point) => point.p99_ms !== null),
  })).filter((variant) => variant.points.length > 0);
  if (measured.length === 0) return empty("No traffic in the last ten minutes: there is no latency to draw.");
  const series = measured.flatMap(({ style, points }) => [
    { style: `${style} thin`, points: points.map((point) => [Date.parse(point.at), point.p50_ms]) },
    { style, points: points.map((point) => [Date.parse(point.at), point.p99_ms]) },
  ]);
  const to = Math.max(Date.parse(state.at), ...series.flatMap((one) => one.points.map(([at]) => at)));
  const from = Math.min(...series.flatMap((one) => one.points.map(([at]) => at)), to - 1000);
  return h("figure", {},
    latencyPlot({ label: summary(endpoint, measured), series, limit: endpoint.budget_p99_ms, from, to, gap: 1000 * GAP_PERIODS * endpoint.period_s, width, tick: clock }),
    h("figcaption", {}, legend(measured.flatMap(({ name, style }) => [[style, `${name} p99`], [`${style} thin`, `${name} p50`]])),
      h("p", { class: "quiet" }, "A line breaks where there was no traffic for a minute.")),
    details(`latency ${endpoint.name}`, "The numbers of this plot", numbers(endpoint, measured)));
}

function summary(endpoint, measured) {
  const newest = measured.map(({ name, points }) => `${name}: p50 ${ms(points.at(-1).p50_ms)} ms, p99 ${ms(points.at(-1).p99_ms)} ms`);
  const budget = endpoint.budget_p99_ms === null ? "" : ` Budget ${endpoint.budget_p99_ms} ms.`;
  return `Latency of ${endpoint.name} over time, logarithmic. Newest: ${newest.join("; ")}.${budget}`;
}

function numbers(endpoint, measured) {
  const rows = measured.flatMap(({ name, points }) => points.slice(-SHOWN_ROWS).reverse().map((point) =>
    [clock(point.at), name, ms(point.p50_ms), ms(point.p99_ms), count(point.requests), count(point.errors)]));
  const heads = [["From"], ["Variant"], ["p50 ms", "number"], ["p99 ms", "number"], ["Req.", "number"], ["5xx", "number"]];
  return table(`Newest ${plural(SHOWN_ROWS, "period")} of each variant of ${endpoint.name}`, heads, rows);
}
