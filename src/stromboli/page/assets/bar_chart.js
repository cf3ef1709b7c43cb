// Bars: one for each class (waits by size), or stacked over time (evictions by reason).

import { drawnToFit, hideTip, replace, shape, showTip } from "./dom.js";
import { figure } from "./figure.js";
import { scale, ticks } from "./scales.js";

const BAR_MARGIN = { left: 52, right: 8, top: 8, bottom: 22 };
const BAR_HEIGHT = 190;

// `read` returns { names, format, bars: [{ label, parts: [value of each name], tip, mark }] }. `mark` is a second value,
// drawn as a line across the bar.
export function barChart(caption, note, read) {
  const made = figure(caption, note, () => barTable(read()));
  const svg = shape("svg", { height: BAR_HEIGHT, tabindex: 0, role: "img" });
  made.holder.append(svg);
  let data = { bars: [] };
  let x = null;
  let cursor = -1;

  const draw = (width) => {
    data = read();
    const { bars, format } = data;
    const most = Math.max(0, ...bars.map(({ parts, mark }) => Math.max(total(parts), mark ?? 0)));
    const amounts = ticks(most, 4);
    const y = scale(0, amounts.at(-1) || 1, BAR_HEIGHT - BAR_MARGIN.bottom, BAR_MARGIN.top);
    x = scale(0, Math.max(1, bars.length), BAR_MARGIN.left, width - BAR_MARGIN.right);
    svg.setAttribute("viewBox", `0 0 ${width} ${BAR_HEIGHT}`);
    replace(svg, ...amountAxis(amounts, y, width, format), ...bars.flatMap((bar, position) => column(bar, position, y)),
      ...labels(bars, width));
    svg.setAttribute("aria-label", `${caption}. ${bars.map(({ label, tip }) => `${label}: ${tip}`).join("; ")}`);
    made.showLegend(data.names.map((name, series) => ({ name, series, area: true })));
    made.refreshTable();
  };

  function column({ parts, mark }, position, y) {
    const wide = x(1) - x(0);
    const gap = Math.min(6, wide * 0.15);
    let below = 0;
    const drawn = parts.map((value, series) => {
      const top = y(below + value);
      const high = y(below) - top;
      below += value;
      return shape("rect", {
        class: `bar s${series}`, x: x(position) + gap, y: top, width: Math.max(0.5, wide - 2 * gap), height: high,
      });
    });
    if (mark !== undefined && mark !== null) {
      const d = `M${x(position) + gap} ${y(mark)}H${x(position + 1) - gap}`;
      drawn.push(shape("path", { class: "limit", d }));
    }
    return drawn;
  }

  function labels(bars, width) {
    const room = 62;
    const every = Math.max(1, Math.ceil((bars.length * room) / (width - BAR_MARGIN.left)));
    return bars.map(({ label }, position) =>
      position % every
        ? null
        : shape("text", { x: x(position + 0.5), y: BAR_HEIGHT - 6, "text-anchor": "middle", text: label }),
    ).filter((made) => made !== null);
  }

  const point = (position, aloud) => {
    cursor = position;
    const bar = data.bars[position];
    if (!bar) return;
    const box = svg.getBoundingClientRect();
    showTip(`${bar.label}\n${bar.tip}`, box.left + x(position + 0.5), box.top + BAR_MARGIN.top);
    if (aloud) made.say(`${bar.label}: ${bar.tip}`);
  };
  svg.addEventListener("pointermove", (event) => {
    if (x) point(Math.floor(x.inverse(event.clientX - svg.getBoundingClientRect().left)), false);
  });
  svg.addEventListener("pointerleave", hideTip);
  svg.addEventListener("blur", hideTip);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    point(Math.min(data.bars.length - 1, Math.max(0, cursor + step)), true);
  });
  return { frame: made.frame, update: drawnToFit(made.holder, draw) };
}

function amountAxis(amounts, y, width, format) {
  return amounts.flatMap((value) => [
    shape("line", { class: "axis", x1: BAR_MARGIN.left, x2: width - BAR_MARGIN.right, y1: y(value), y2: y(value) }),
    shape("text", { x: BAR_MARGIN.left - 5, y: y(value) + 4, "text-anchor": "end", text: format(value) }),
  ]);
}

function total(parts) {
  return parts.reduce((found, value) => found + value, 0);
}

function barTable({ bars }) {
  return { columns: ["", ""], rows: bars.map(({ label, tip }) => [label, tip]) };
}
