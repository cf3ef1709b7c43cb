// The frame of every picture: a caption, the drawing, a legend, and the same numbers as a table for those who cannot
// see the drawing or want to copy from it.

import { element, replace, shape } from "./dom.js";

export const SERIES_COLOURS = 8;

// `table` returns { columns, rows } of texts; it is called when somebody opens it, and then after every change.
export function figure(caption, note, table) {
  const holder = element("div", { class: "drawing" });
  const legend = element("ul", { class: "legend" });
  const inside = element("div", { class: "table-frame" });
  const details = element("details", {}, element("summary", { text: "As a table" }), inside);
  const spoken = element("p", { class: "hidden-text", "aria-live": "polite" });
  const title = element("figcaption", { text: caption });
  if (note) title.append(" ", element("span", { text: note }));
  const tools = element("div", { class: "tools" });
  tools.hidden = true;
  const frame = element("figure", {}, title, tools, holder, legend, table ? details : null, spoken);
  const fillTable = () => {
    if (table && details.open) replace(inside, plainTable(table()));
  };
  details.addEventListener("toggle", fillTable);
  return {
    frame,
    holder,
    legend,
    tools,
    say: (text) => (spoken.textContent = text),
    showLegend: (entries) => replace(legend, ...entries.map(legendEntry)),
    addTools: (...made) => {
      tools.hidden = false;
      tools.append(...made);
    },
    refreshTable: fillTable,
  };
}

function plainTable({ columns, rows }) {
  const head = element("tr", {}, ...columns.map((text) => element("th", { scope: "col", text })));
  const body = rows.map((row) => element("tr", {}, ...row.map((text) => element("td", { text }))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

function legendEntry({ name, series, kind, area }) {
  const sample = shape("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" });
  if (kind) {
    const canvas = element("canvas", { width: 22, height: 12, "aria-hidden": "true" });
    kind(canvas.getContext("2d"), 0, 0, 22, 12);
    return element("li", {}, canvas, element("span", { text: name }));
  }
  if (area) sample.append(shape("rect", { class: `bar s${series}`, x: 1, y: 1, width: 20, height: 10 }));
  else sample.append(shape("path", { class: `plot s${series}`, d: "M0 6H22" }));
  return element("li", {}, sample, element("span", { text: name }));
}

// The largest series by their mean, and the rest added up: nobody can tell forty lines apart. They are in the order of
// names, so that a line keeps its colour while values change.
export function largestSeries(named, most = SERIES_COLOURS) {
  const all = Object.entries(named).map(([name, values]) => ({ name, values, total: sum(values) }));
  const inOrder = (a, b) => (a.name < b.name ? -1 : 1);
  all.sort((a, b) => b.total - a.total || inOrder(a, b));
  if (all.length <= most) return all.sort(inOrder);
  const rest = all.slice(most - 1);
  const values = rest[0].values.map((_, position) => sum(rest.map((one) => one.values[position])));
  return [...all.slice(0, most - 1).sort(inOrder), { name: `${rest.length} others`, values, total: sum(values) }];
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
