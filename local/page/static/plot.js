// Small plots as inline SVG. Lines differ by dash as well as by colour, and each plot has a table of its numbers.

import { h, s } from "./dom.js";

const HEIGHT = 150;
const LEFT = 46;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 22;

/** Latency over time on a logarithmic axis, against a limit. Series: {style, points: [[ms since epoch, value]]}.
 * A line breaks where its points are more than `gap` milliseconds apart. */
export function latencyPlot({ label, series, limit, from, to, gap, width, tick }) {
  const values = series.flatMap((one) => one.points.map(([, value]) => value)).concat(limit ?? []);
  const low = Math.min(...values) / 1.6;
  const high = Math.max(...values) * 1.4;
  const x = scale(from, to, LEFT, width - RIGHT);
  const y = scale(Math.log(low), Math.log(high), HEIGHT - BOTTOM, TOP);
  const at = (value) => y(Math.log(value));
  return frame(label, width, [
    decades(low, high).map((value) => gridline(at(value), width, `${value} ms`)),
    times(from, to, x, tick),
    limit === null ? null : [
      s("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: at(limit), y2: at(limit) }),
      s("text", { class: "limit-label", x: width - RIGHT, y: at(limit) - 4, "text-anchor": "end" }, `budget ${limit} ms`),
    ],
    series.map((one) => curve(one, x, at, gap)),
  ]);
}

/** An estimate between its bounds, look by look. Looks: {at, estimate, lower, upper}; `wanted` is a line to be above. */
export function boundPlot({ label, looks, wanted, width, tick }) {
  const points = looks.map((look) => ({ ...look, time: Date.parse(look.at) }));
  // early bounds are so wide that nothing else would be seen: the axis fits the newest ones, wider ones are cut
  const newest = points.at(-1);
  const reach = 1.5 * (newest.upper - newest.lower);
  const spread = [0, wanted, newest.lower - reach, newest.upper + reach];
  const low = Math.min(...spread);
  const high = Math.max(...spread);
  const margin = (high - low) * 0.04 || 0.01;
  const clip = (value) => Math.max(low - margin, Math.min(high + margin, value));
  const from = points[0].time;
  const to = Math.max(points.at(-1).time, from + 1000);
  const x = scale(from, to, LEFT, width - RIGHT);
  const y = scale(low - margin, high + margin, HEIGHT - BOTTOM, TOP);
  const stages = [...Map.groupBy(points, ({ stage }) => stage)];
  return frame(label, width, [
    steps(low - margin, high + margin).map((value) => gridline(y(value), width, written(value))),
    times(from, to, x, tick),
    stages.map(([, all]) => s("polygon", { class: "band", points: band(all, x, (value) => y(clip(value))) })),
    s("line", { class: "zero", x1: LEFT, x2: width - RIGHT, y1: y(0), y2: y(0) }),
    s("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: y(wanted), y2: y(wanted) }),
    s("text", { class: "limit-label", x: width - RIGHT, y: y(wanted) - 4, "text-anchor": "end" }, `wanted ${written(wanted)}`),
    stages.map(([, all]) => curve({ style: "a", points: all.map((look) => [look.time, clip(look.estimate)]) }, x, y)),
    stages.length === 1 ? null : stages.map(([stage, [first]]) =>
      s("text", { class: "tick", x: x(first.time) + 4, y: TOP + 8 }, `stage ${stage + 1}`)),
  ]);
}

/** The outline of looks from bound to bound; a single look is a mark of some width. */
function band(looks, x, y) {
  const wide = looks.length === 1 ? 4 : 0;
  const edge = (bound, shift) => looks.map((look) => `${x(look.time) + shift},${y(look[bound])}`);
  const [top, bottom] = wide === 0
    ? [edge("upper", 0), edge("lower", 0)]
    : [[...edge("upper", -wide), ...edge("upper", wide)], [...edge("lower", -wide), ...edge("lower", wide)]];
  return [...top, ...bottom.reverse()].join(" ");
}

const written = (share) => `${Math.round(share * 1000) / 10} %`;

/** One value against a warning and an alarm, as a bar that needs no axis: the cells beside it hold the numbers. */
export function thresholdBar(value, warn, alarm) {
  const width = 120;
  // one scale for all rows, so that marks stand below each other; what is larger fills the bar
  const along = scale(0, 2 * alarm, 0, width);
  const x = (size) => Math.min(width, along(size));
  const tone = value >= alarm ? "bad" : value >= warn ? "warn" : "good";
  return s("svg", { class: "threshold", viewBox: `0 0 ${width} 16`, preserveAspectRatio: "xMinYMid meet", "aria-hidden": "true", focusable: "false" },
    s("rect", { class: "rail", x: 0, y: 6, width, height: 4, rx: 2 }),
    s("rect", { class: tone, x: 0, y: 4, width: Math.max(1, x(Math.max(0, value))), height: 8, rx: 2 }),
    s("line", { class: "mark", x1: x(warn), x2: x(warn), y1: 1, y2: 15, "stroke-dasharray": "2 2" }),
    s("line", { class: "mark", x1: x(alarm), x2: x(alarm), y1: 1, y2: 15 }));
}

/** What the lines of a plot are. */
export const legend = (entries) => h("ul", { class: "legend" }, entries.map(([style, text]) => h("li", {}, swatch(style), text)));

const swatch = (style) => s("svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true", focusable: "false" },
  style === "band"
    ? s("rect", { class: "band", x: 0, y: 1, width: 26, height: 8 })
    : s("line", { class: `line ${style}`, x1: 0, x2: 26, y1: 5, y2: 5 }));

const scale = (from, to, low, high) => (value) => low + ((value - from) / (to - from || 1)) * (high - low);

const frame = (label, width, content) => s("svg", {
  class: "plot", role: "img", "aria-label": label, focusable: "false", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT,
}, content);

const gridline = (y, width, text) => [
  s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
  s("text", { class: "tick", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, text),
];

function times(from, to, x, tick) {
  return [[from, "start"], [(from + to) / 2, "middle"], [to, "end"]].map(([time, anchor]) =>
    s("text", { class: "tick", x: x(time), y: HEIGHT - 6, "text-anchor": anchor }, tick(time)));
}

function curve({ style, points }, x, y, gap = Infinity) {
  if (points.length === 0) return null;
  const begins = (index) => index === 0 || points[index][0] - points[index - 1][0] > gap;
  const path = points.map(([time, value], index) => `${begins(index) ? "M" : "L"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  // the newest point has a mark, and so has one that no line reaches
  const marked = points.filter((_, index) => index === points.length - 1 || (begins(index) && begins(index + 1)));
  return [
    s("path", { class: `line ${style}`, d: path }),
    marked.map(([time, value]) => s("circle", { class: `dot ${style}`, cx: x(time), cy: y(value), r: 2.6 })),
  ];
}

function decades(low, high) {
  const fine = high / low > 60 ? [1] : high / low > 8 ? [1, 3] : [1, 2, 5];
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const step of fine) all.push(Number((step * 10 ** power).toPrecision(2)));
  }
  return all.filter((value) => value >= low && value <= high);
}

function steps(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const all = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) all.push(value);
  return all;
}
