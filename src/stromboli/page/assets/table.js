// A table that can be sorted, searched and grown. It keeps its order and its filter while rows change below it.

import { element, replace } from "./dom.js";

const PAGE = 100;

// A column: { name, value(row) for sorting, text(row) or cell(row), number, long }.
export function dataTable(columns, { keyOf, search, sorted = 0, descending = false, empty = "There is nothing to show." }) {
  let order = { column: sorted, descending };
  let shown = PAGE;
  let rows = [];
  let chosen = "";

  const filter = element("input", { type: "search", "aria-label": "Filter", placeholder: "Filter" });
  const count = element("span", { class: "empty", role: "status" });
  const more = element("button", { type: "button", text: "Show more" });
  const heads = columns.map((column, position) => {
    const button = element("button", { type: "button", text: column.name, onclick: () => sortBy(position) });
    return element("th", { scope: "col", class: column.number ? "number" : null }, button);
  });
  const body = element("tbody");
  const nothing = element("p", { class: "empty", text: empty });
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
  const tools = element("div", { class: "tools" }, filter, count);
  const frame = element("div", {}, tools,
    element("div", { class: "table-frame" }, table), nothing, more);

  filter.addEventListener("input", () => {
    shown = PAGE;
    draw();
  });
  more.addEventListener("click", () => {
    shown += 5 * PAGE;
    draw();
  });

  function sortBy(position) {
    order = { column: position, descending: order.column === position ? !order.descending : false };
    draw();
  }

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    const found = wanted ? rows.filter((row) => search(row).toLowerCase().includes(wanted)) : [...rows];
    const { value } = columns[order.column];
    const direction = order.descending ? -1 : 1;
    found.sort((a, b) => direction * compare(value(a), value(b)) || compare(keyOf(a), keyOf(b)));
    heads.forEach((head, position) => {
      const sign = order.descending ? "descending" : "ascending";
      if (position === order.column) head.setAttribute("aria-sort", sign);
      else head.removeAttribute("aria-sort");
    });
    replace(body, ...found.slice(0, shown).map(line));
    count.textContent = `${found.length} of ${rows.length}`;
    nothing.hidden = rows.length > 0;
    tools.hidden = rows.length === 0;
    table.hidden = rows.length === 0;
    more.hidden = found.length <= shown;
  }

  function line(row) {
    const cells = columns.map((column) => {
      const kind = column.number ? "number" : column.long ? "long" : column.named ? "name" : null;
      if (column.cell) return element("td", { class: kind }, column.cell(row));
      return element("td", { class: kind, text: column.text(row) });
    });
    return element("tr", { class: keyOf(row) === chosen ? "chosen" : null }, ...cells);
  }

  return {
    frame,
    update(newRows, newChosen = "") {
      rows = newRows;
      chosen = newChosen;
      draw();
    },
    filterBy(text) {
      filter.value = text;
      draw();
    },
  };
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "string" && typeof b === "string" ? a.localeCompare(b, "en", { numeric: true }) : a < b ? -1 : 1;
}
