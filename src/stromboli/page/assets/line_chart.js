// Step lines over time, or areas on top of each other. With the arrow keys a cursor goes from step to step.

import { drawnToFit, hideTip, replace, shape, showTip } from "./dom.js";
import { figure } from "./figure.js";
import { formatDuration, formatTime } from "./format.js";
import { positionAt, scale, ticks, timeTicks } from "./scales.js";

const MARGIN = { left: 46, right: 10, top: 8, bottom: 20 };
const CHART_HEIGHT = 190;

// `read` returns { clock, start, end, times, series: [{ name, values, limit }], stacked, most, format }.
export function lineChart(caption, note, read) {
  const made = figure(caption, note, () => asTable(read()));
  const svg = shape("svg", { height: CHART_HEIGHT, tabindex: 0, role: "img" });
  made.holder.append(svg);
  let data = null;
  let x = null;
  let cursor = -1;

  const draw = (width) => {
    data = read();
    const amounts = ticks(data.most ?? Math.max(0, ...highest(data)), 4);
    const y = scale(0, amounts.at(-1) || 1, CHART_HEIGHT - MARGIN.bottom, MARGIN.top);
    x = scale(data.start, Math.max(data.end, data.start + 0.001), MARGIN.left, width - MARGIN.right);
    svg.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
    replace(svg, ...axes(data, x, y, amounts, width), ...(data.stacked ? areas(data, x, y) : lines(data, x, y)));
    svg.setAttribute("aria-label", `${caption}. ${describe(data)} Use the arrow keys to read values.`);
    made.showLegend(data.series.map(({ name, limit }, series) => ({ name, series, area: data.stacked && !limit })));
    made.refreshTable();
    if (cursor >= 0) point(Math.min(cursor, data.times.length - 1), false);
  };

  const point = (position, aloud) => {
    cursor = position;
    if (!data || position < 0) return;
    svg.querySelector(".cursor")?.remove();
    const at = x(Math.max(data.times[position], data.start));
    svg.append(shape("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: CHART_HEIGHT - MARGIN.bottom }));
    const text = valuesAt(data, position);
    const box = svg.getBoundingClientRect();
    showTip(text, box.left + at, box.top + MARGIN.top);
    if (aloud) made.say(text);
  };

  const leave = () => {
    cursor = -1;
    svg.querySelector(".cursor")?.remove();
    hideTip();
  };

  svg.addEventListener("pointermove", (event) => {
    if (!data?.times.length) return;
    const time = x.inverse(event.clientX - svg.getBoundingClientRect().left);
    point(Math.max(0, positionAt(data.times, time)), false);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const last = data ? data.times.length - 1 : -1;
    const moves = { ArrowLeft: cursor - 1, ArrowRight: cursor + 1, Home: 0, End: last };
    if (event.key === "Escape") leave();
    if (!(event.key in moves) || last < 0) return;
    event.preventDefault();
    point(Math.min(last, Math.max(0, moves[event.key])), true);
  });
  return { frame: made.frame, update: drawnToFit(made.holder, draw) };
}

function highest({ series, stacked, times }) {
  if (!stacked) return series.map(({ values }) => Math.max(0, ...values));
  const parts = series.filter(({ limit }) => !limit);
  return times.map((_, position) => parts.reduce((total, { values }) => total + values[position], 0));
}

function axes({ clock, start, end, format }, x, y, amounts, width) {
  const made = [];
  for (const value of amounts) {
    made.push(shape("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
    made.push(shape("text", { x: MARGIN.left - 5, y: y(value) + 4, "text-anchor": "end", text: format(value) }));
  }
  for (const time of timeTicks(clock, start, end, width / 110)) {
    const text = formatTime(clock, time);
    made.push(shape("text", { x: x(time), y: CHART_HEIGHT - 5, "text-anchor": anchor(x(time), width), text }));
  }
  return made;
}

function anchor(pixel, width) {
  if (pixel < MARGIN.left + 20) return "start";
  return pixel > width - 40 ? "end" : "middle";
}

function stepPath(times, values, { start, end }, x, y) {
  if (!values.length) return "";
  const steps = values.map((value, position) => {
    const at = x(Math.max(times[position], start)).toFixed(1);
    return position ? `H${at}V${y(value).toFixed(1)}` : `M${at} ${y(value).toFixed(1)}`;
  });
  return `${steps.join("")}H${x(end).toFixed(1)}`;
}

function lines(data, x, y) {
  return data.series.map(({ values, limit }, series) =>
    shape("path", { class: limit ? "limit" : `plot s${series}`, d: stepPath(data.times, values, data, x, y) }),
  );
}

function areas(data, x, y) {
  let below = data.times.map(() => 0);
  return data.series.map(({ values, limit }, series) => {
    if (limit) return shape("path", { class: "limit", d: stepPath(data.times, values, data, x, y) });
    const above = below.map((value, position) => value + values[position]);
    const path = bandPath(data, below, above, x, y);
    below = above;
    return shape("path", { class: `area s${series}`, d: path });
  });
}

// The band between two step functions: along the upper one, and back along the lower one.
function bandPath({ times, start, end }, below, above, x, y) {
  if (!times.length) return "";
  const edges = [...times.map((time) => x(Math.max(time, start))), x(end)];
  const points = [];
  above.forEach((value, position) => {
    points.push([edges[position], y(value)], [edges[position + 1], y(value)]);
  });
  for (let position = below.length - 1; position >= 0; position -= 1) {
    points.push([edges[position + 1], y(below[position])], [edges[position], y(below[position])]);
  }
  return `M${points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}Z`;
}

function valuesAt({ clock, times, series, format }, position) {
  const found = series.map(({ name, values }) => `${name}: ${format(values[position])}`);
  return [formatTime(clock, times[position]), ...found].join("\n");
}

function describe({ clock, start, end, times, series, format }) {
  if (!times.length) return "There are no values yet.";
  const over = clock === "virtual" ? `From ${formatDuration(start)} to ${formatDuration(end)}.` : "";
  const found = series.map(({ name, values }) => `${name}: at most ${format(Math.max(0, ...values))}`);
  return `${over} ${found.join(", ")}.`;
}

function asTable({ clock, times, series, format }) {
  const columns = ["Time", ...series.map(({ name }) => name)];
  const rows = times.map((time, position) => [
    formatTime(clock, time),
    ...series.map(({ values }) => format(values[position])),
  ]);
  return { columns, rows };
}
