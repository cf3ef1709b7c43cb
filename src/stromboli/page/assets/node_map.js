// The nodes of the cluster, each a square: filled from below by what its pods use, hatched where the rest is kept for
// somebody, with a border where a queue has locked it and a cross where nothing can be placed.

import { colour, drawnToFit, element, hideTip, showTip, sized } from "./dom.js";
import { figure } from "./figure.js";
import { formatAmount, formatAmounts, formatPercent } from "./format.js";
import { BARS, hatched, outlined, solid } from "./gantt.js";
import { usedPart } from "./store.js";

const KINDS = [
  ["used", "used"], ["backfilled", "backfilled (lent)"], ["reserved", "reserved"], ["held", "held by a Reservation"],
  ["locked", "locked for a queue"], ["idle", "idle"], ["crossed", "not ready or cordoned"],
];
const SMALLEST = 9;
const LARGEST = 46;

const DRAW = { ...BARS, idle: solid("idle"), crossed };
const hatchedReserved = hatched("reserved");
const hatchedHeld = hatched("held");
const hatchedLent = hatched("backfilled");
const lockBorder = outlined("locked");

function crossed(context, x, y, width, height) {
  context.strokeStyle = colour("quiet");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x + 2, y + 2);
  context.lineTo(x + width - 2, y + height - 2);
  context.moveTo(x + width - 2, y + 2);
  context.lineTo(x + 2, y + height - 2);
  context.stroke();
}

// `read` returns { nodes, resource }; resource "" is the one of which most is used.
export function nodeMap(caption, note, read, { open }) {
  const made = figure(caption, note, () => mapTable(read()));
  const canvas = element("canvas", { tabindex: 0, role: "application" });
  made.holder.append(canvas);
  let nodes = [];
  let resource = "";
  let cell = LARGEST;
  let perRow = 1;
  let chosen = -1;

  const draw = (width) => {
    ({ nodes, resource } = read());
    cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((width * 420) / Math.max(1, nodes.length)))));
    perRow = Math.max(1, Math.floor(width / cell));
    const rows = Math.ceil(nodes.length / perRow);
    const context = sized(canvas, width, Math.max(cell, rows * cell));
    nodes.forEach((node, number) => {
      drawNode(context, node, (number % perRow) * cell, Math.floor(number / perRow) * cell, number === chosen);
    });
    canvas.setAttribute("aria-label", `${caption}: ${mapSummary(nodes)} Use the arrow keys to go from node to node.`);
    made.showLegend(KINDS.map(([kind, name]) => ({ name, kind: DRAW[kind] })));
    made.refreshTable();
  };
  const again = drawnToFit(made.holder, draw);

  function drawNode(context, node, x, y, isChosen) {
    const inner = cell - 2;
    const part = (amounts) => Math.min(1, usedPart(node, amounts, resource));
    const used = part(node.used);
    const lent = Math.min(used, part(node.backfilled));
    const top = y + 1 + inner * (1 - used);
    DRAW.idle(context, x + 1, y + 1, inner, inner);
    DRAW.used(context, x + 1, top + inner * lent, inner, inner * (used - lent));
    hatchedLent(context, x + 1, top, inner, inner * lent);
    if (isReserved(node)) hatchedReserved(context, x + 1, y + 1, inner, inner * Math.max(0.15, 1 - used));
    else if (isHeld(node)) hatchedHeld(context, x + 1, y + 1, inner, inner * Math.max(0.15, part(node.held)));
    if (node.lockedBy) lockBorder(context, x + 1, y + 1, inner, inner);
    if (!node.available) crossed(context, x + 1, y + 1, inner, inner);
    if (isChosen) {
      context.strokeStyle = colour("text");
      context.lineWidth = 2;
      context.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
    }
  }

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / cell);
    const number = Math.floor((event.clientY - box.top) / cell) * perRow + column;
    return column < perRow && number < nodes.length ? number : -1;
  };
  canvas.addEventListener("pointermove", (event) => {
    const number = at(event);
    if (number < 0) hideTip();
    else showTip(describeNode(nodes[number]), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => choose(at(event), true));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perRow, ArrowDown: perRow }[event.key];
    if (event.key === "Enter" && chosen >= 0) open(nodes[chosen].name);
    if (!step || !nodes.length) return;
    event.preventDefault();
    choose(Math.min(nodes.length - 1, Math.max(0, chosen + step)), false);
  });

  function choose(number, opens) {
    if (number < 0) return;
    chosen = number;
    again();
    made.say(describeNode(nodes[number]));
    if (opens) open(nodes[number].name);
  }
  return { frame: made.frame, addTools: made.addTools, update: again };
}

function isReserved(node) {
  return node.reservedFor.length > 0 || Object.entries(node.reserved).some(([name, n]) => n > 0 && name !== "pods");
}

// The amounts are known of the present only; of the past, the names.
function isHeld(node) {
  return node.heldBy !== undefined || Object.values(node.held).some((n) => n > 0);
}

export function describeNode(node) {
  const lines = [node.name];
  for (const name of Object.keys(node.allocatable).sort()) {
    if (name === "pods") continue;
    const part = formatPercent(usedPart(node, node.used, name));
    const used = formatAmount(name, node.used[name] ?? 0);
    lines.push(`${name}: ${used} of ${formatAmount(name, node.allocatable[name])} used (${part})`);
  }
  lines.push(`${node.pods} pods`);
  if (Object.values(node.backfilled).some((n) => n > 0)) lines.push(`lent: ${formatAmounts(node.backfilled)}`);
  if (node.reservedFor.length) lines.push(`reserved for ${node.reservedFor.join(", ")}`);
  if (node.promisedTo.length) lines.push(`promised to ${node.promisedTo.join(", ")}: ${formatAmounts(node.promised)}`);
  if (isHeld(node)) lines.push(`held by Reservations: ${node.heldBy?.join(", ") ?? formatAmounts(node.held)}`);
  if (node.lockedBy) lines.push(`locked for queue ${node.lockedBy}`);
  if (!node.available) lines.push("not ready or cordoned");
  return lines.join("\n");
}

function mapSummary(nodes) {
  const count = (test) => nodes.filter(test).length;
  return `${nodes.length} nodes, ${count((n) => n.pods > 0)} with pods, ${count(isReserved)} reserved, ` +
    `${count((n) => n.lockedBy)} locked, ${count((n) => !n.available)} not available.`;
}

function mapTable({ nodes }) {
  const columns = ["Node", "Allocatable", "Used", "Lent", "Reserved for", "Promised to", "Held", "Locked for", "Pods"];
  const rows = nodes.map((node) => [
    node.name, formatAmounts(node.allocatable), formatAmounts(node.used), formatAmounts(node.backfilled),
    node.reservedFor.join(", ") || "–", node.promisedTo.join(", ") || "–", formatAmounts(node.held), node.lockedBy || "–", String(node.pods),
  ]);
  return { columns, rows };
}
