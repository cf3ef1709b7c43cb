// Who ran when: a row for each job or node, and bars over time. There may be thousands of rows, so only those that can
// be seen are drawn, on a canvas that stays in place while an empty element of the full height scrolls behind it.
//
// Keys: up and down choose a row, Enter opens it, left and right move in time, + and - zoom, 0 shows everything.

import { colour, drawnToFit, element, hideTip, showTip, sized } from "./dom.js";
import { figure } from "./figure.js";
import { formatTime } from "./format.js";
import { scale, timeTicks } from "./scales.js";

const ROW = 20;
const GAP = 3; // above and below a bar
const AXIS = 22;
const MOST_TABLE_ROWS = 500;

export const BARS = {
  waiting: (context, x, y, width, height) => {
    context.strokeStyle = colour("waiting");
    context.lineWidth = 2;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x, y + height / 2);
    context.lineTo(x + width, y + height / 2);
    context.stroke();
    context.setLineDash([]);
  },
  running: solid("running"),
  succeeded: solid("succeeded"),
  failed: solid("failed"),
  gone: solid("gone"),
  used: solid("used"),
  evicted: hatched("evicted"),
  backfilled: hatched("backfilled"),
  expected: outlined("expected"),
  reserved: hatched("reserved"),
  held: hatched("held"),
  locked: outlined("locked"),
};

export function solid(name) {
  return (context, x, y, width, height) => {
    context.fillStyle = colour(name);
    context.fillRect(x, y, width, height);
  };
}

export function outlined(name) {
  return (context, x, y, width, height) => {
    context.strokeStyle = colour(name);
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(0, width - 2), Math.max(0, height - 2));
  };
}

export function hatched(name) {
  return (context, x, y, width, height) => {
    if (width <= 0 || height <= 0) return;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.globalAlpha = 0.35;
    context.fillStyle = colour(name);
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    context.strokeStyle = colour(name);
    context.lineWidth = 1.5;
    context.beginPath();
    for (let offset = -height; offset < width; offset += 5) {
      context.moveTo(x + offset, y + height);
      context.lineTo(x + offset + height, y);
    }
    context.stroke();
    context.restore();
  };
}

// `read` returns { clock, start, end, rows: [{ key, label, bars: [{ kind, start, end, title }], titles }] }. Bars without
// an end last until now. Later bars are drawn over earlier ones. A bar may fill a part of its row, between `from` and `to`
// of its height; then `titles` has what there is to say instead: [{ start, end, title }].
export function gantt(caption, note, read, { legend, open, height }) {
  const made = figure(caption, note, () => ganttTable(data));
  const canvas = element("canvas");
  const spacer = element("div");
  const scroller = element("div", { class: "scroller", tabindex: 0, role: "application", "aria-label": caption });
  scroller.append(canvas, spacer);
  made.holder.append(scroller);
  let data = { rows: [], start: 0, end: 1, clock: "virtual" };
  let window_ = null; // the times that are shown; null: all
  let chosen = -1;
  let wide = 0;
  let drag = null;

  const names = () => Math.min(200, Math.max(90, wide * 0.24));
  const x = () => {
    const [from, to] = window_ ?? [data.start, Math.max(data.end, data.start + 0.001)];
    return scale(from, to, names(), wide - 8);
  };

  const draw = () => {
    const inner = Math.min(height ?? 420, AXIS + data.rows.length * ROW + 2);
    scroller.style.height = `${inner + 2}px`;
    spacer.style.height = `${Math.max(0, AXIS + data.rows.length * ROW + 2 - inner)}px`;
    const context = sized(canvas, wide, inner);
    context.clearRect(0, 0, wide, inner);
    context.font = "12px system-ui, sans-serif";
    const at = x();
    const first = Math.floor(scroller.scrollTop / ROW);
    const last = Math.min(data.rows.length, first + Math.ceil(inner / ROW) + 1);
    drawGrid(context, at, inner);
    for (let number = first; number < last; number += 1) {
      drawRow(context, data.rows[number], AXIS + number * ROW - scroller.scrollTop, at, number === chosen);
    }
    drawAxis(context, at);
  };

  function drawGrid(context, at, inner) {
    context.strokeStyle = colour("grid");
    context.lineWidth = 1;
    for (const time of shownTicks(at)) {
      context.beginPath();
      context.moveTo(at(time), AXIS);
      context.lineTo(at(time), inner);
      context.stroke();
    }
  }

  function drawAxis(context, at) {
    context.fillStyle = colour("panel");
    context.fillRect(0, 0, wide, AXIS - 1);
    context.fillStyle = colour("quiet");
    context.textAlign = "center";
    for (const time of shownTicks(at)) {
      if (at(time) < wide - 24) context.fillText(formatTime(data.clock, time), Math.max(at(time), names() + 14), 14);
    }
    context.textAlign = "left";
  }

  function shownTicks(at) {
    return timeTicks(data.clock, at.inverse(names()), at.inverse(wide - 8), (wide - names()) / 95);
  }

  function drawRow(context, row, top, at, isChosen) {
    if (isChosen) {
      context.fillStyle = colour("grid");
      context.fillRect(0, top, wide, ROW);
    }
    context.save();
    context.beginPath();
    context.rect(names(), Math.max(AXIS, top), wide - names(), ROW);
    context.clip();
    for (const bar of row.bars) {
      const left = Math.round(at(bar.start)); // whole pixels: bars that touch have no seam
      const right = Math.round(at(bar.end ?? data.end));
      if (right < names() || left > wide) continue;
      const high = ROW - 2 * GAP;
      const [from, to] = [Math.min(1, bar.from ?? 0), Math.min(1, bar.to ?? 1)];
      BARS[bar.kind](context, left, top + GAP + high * (1 - to), Math.max(1, right - left), high * (to - from));
    }
    context.restore();
    if (top + ROW <= AXIS) return;
    context.fillStyle = colour("text");
    context.fillText(fitted(context, row.label, names() - 12), 6, top + 14);
  }

  const rowAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const y = event.clientY - box.top;
    if (y < AXIS) return -1;
    const number = Math.floor((y - AXIS + scroller.scrollTop) / ROW);
    return number < data.rows.length ? number : -1;
  };

  const describeAt = (number, time) => {
    const row = data.rows[number];
    const hits = (row.titles ?? row.bars).filter((bar) => time === null || (bar.start <= time && time <= (bar.end ?? data.end)));
    const lines = hits.slice(-6).map((bar) => barText(data.clock, bar));
    return [row.label, ...lines, ...(hits.length > 6 ? [`and ${hits.length - 6} more`] : [])].join("\n");
  };

  const choose = (number) => {
    if (!data.rows.length) return;
    chosen = Math.min(data.rows.length - 1, Math.max(0, number));
    const top = chosen * ROW;
    const room = scroller.clientHeight - AXIS - ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
    draw();
    made.say(describeAt(chosen, null));
  };

  const zoom = (factor, around = null) => {
    const [from, to] = window_ ?? [data.start, data.end];
    const middle = around ?? (from + to) / 2;
    const left = Math.max(data.start, middle - (middle - from) * factor);
    const right = Math.min(data.end, middle + (to - middle) * factor);
    window_ = right - left >= data.end - data.start ? null : [left, Math.max(right, left + 0.01)];
    draw();
  };

  const pan = (part) => {
    const [from, to] = window_ ?? [data.start, data.end];
    const span = to - from;
    const left = Math.min(Math.max(data.start, from + span * part), data.end - span);
    if (window_) window_ = [left, left + span];
    draw();
  };

  scroller.addEventListener("scroll", draw);
  scroller.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(scroller.clientHeight / ROW) - 2);
    const actions = {
      ArrowUp: () => choose(chosen - 1), ArrowDown: () => choose(chosen + 1), PageUp: () => choose(chosen - page),
      PageDown: () => choose(chosen + page), Home: () => choose(0), End: () => choose(data.rows.length - 1),
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5),
      "-": () => zoom(2), 0: () => zoom(Infinity), Enter: () => chosen >= 0 && open?.(data.rows[chosen].key),
    };
    if (!(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const moved = (drag.x - event.clientX) / (wide - names());
      drag.moved ||= Math.abs(drag.x - event.clientX) > 4;
      drag.x = event.clientX;
      pan(moved);
      return;
    }
    const number = rowAt(event);
    if (number < 0) return hideTip();
    const left = event.clientX - canvas.getBoundingClientRect().left;
    showTip(describeAt(number, left < names() ? null : x().inverse(left)), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, moved: false };
  });
  canvas.addEventListener("pointerup", (event) => {
    const number = drag && !drag.moved ? rowAt(event) : -1;
    drag = null;
    if (number >= 0) {
      chosen = number;
      draw();
      open?.(data.rows[number].key);
    }
  });
  canvas.addEventListener("pointerleave", () => {
    drag = null;
    hideTip();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the wheel alone scrolls the rows
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, x().inverse(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });

  const button = (text, label, action) =>
    element("button", { type: "button", text, "aria-label": label, title: label, onclick: action });
  made.addTools(button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
    button("←", "Earlier", () => pan(-0.3)), button("→", "Later", () => pan(0.3)),
    button("All", "Show everything", () => zoom(Infinity)));

  const update = drawnToFit(made.holder, (width) => {
    wide = width - 2;
    data = read();
    if (chosen >= data.rows.length) chosen = -1;
    draw();
    made.showLegend(legend.map(([kind, name]) => ({ name, kind: BARS[kind] })));
    made.refreshTable();
  });
  return { frame: made.frame, tools: made.tools, update };
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 3 && context.measureText(`…${text.slice(-length)}`).width > width) length -= 1;
  return `…${text.slice(-length)}`; // the end of a name says more than its beginning
}

function barText(clock, bar) {
  const until = bar.end === null || bar.end === undefined ? "now" : formatTime(clock, bar.end);
  return `${bar.title}, ${formatTime(clock, bar.start)} to ${until}`;
}

function ganttTable({ clock, rows }) {
  const texts = rows.slice(0, MOST_TABLE_ROWS).map((row) => [
    row.label,
    (row.titles ?? row.bars).map((bar) => barText(clock, bar)).join("; "),
  ]);
  if (rows.length > MOST_TABLE_ROWS) texts.push(["…", `${rows.length - MOST_TABLE_ROWS} more rows`]);
  return { columns: ["Row", "Bars"], rows: texts };
}
