// The nodes of the cluster, each a square: filled from below by what its pods use, hatched where the rest is kept for
// somebody, with a border where a queue has locked it and a cross where nothing can be placed. By a tier, the nodes of
// each domain are a block under its name.

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
const BLOCK_HEADING = 18; // pixels for the name of a domain
const BLOCK_GAP = 10;
const NARROWEST_BLOCK = 64; // of a block, so that its name can be read

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

// `read` returns { nodes, resource, tier }; resource "" is the one of which most is used, tier "" is none.
export function nodeMap(caption, note, read, { open }) {
  const made = figure(caption, note, () => mapTable(read()));
  const canvas = element("canvas", { tabindex: 0, role: "application" });
  made.holder.append(canvas);
  let places = [];
  let resource = "";
  let cell = LARGEST;
  let chosen = ""; // the name of a node

  const draw = (width) => {
    const shown = read();
    const { nodes, tier } = shown;
    resource = shown.resource;
    cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((width * 420) / Math.max(1, nodes.length)))));
    const blocks = tier ? blocksOf(nodes, tier) : [{ name: "", nodes }];
    const arranged = arrange(blocks, width, cell);
    places = arranged.places;
    const context = sized(canvas, width, Math.max(cell, arranged.height));
    for (const { name, x, y, wide } of arranged.headings) drawHeading(context, name, x, y, wide);
    for (const { node, x, y } of places) drawNode(context, node, x, y, node.name === chosen);
    const grouped = tier ? ` In ${blocks.length} domains by ${tier}.` : "";
    canvas.setAttribute("aria-label", `${caption}: ${mapSummary(nodes)}${grouped} Use the arrow keys to go from node to node.`);
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
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return places.find((one) => one.x <= x && x < one.x + cell && one.y <= y && y < one.y + cell);
  };
  canvas.addEventListener("pointermove", (event) => {
    const place = at(event);
    if (!place) hideTip();
    else showTip(describeNode(place.node), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => choose(at(event), true));
  canvas.addEventListener("keydown", (event) => {
    const now = places.findIndex((one) => one.node.name === chosen);
    if (event.key === "Enter" && now >= 0) open(chosen);
    const next = neighbour(places, now, event.key);
    if (!next) return;
    event.preventDefault();
    choose(next, false);
  });

  function choose(place, opens) {
    if (!place) return;
    chosen = place.node.name;
    again();
    made.say(describeNode(place.node));
    if (opens) open(chosen);
  }
  return { frame: made.frame, addTools: made.addTools, update: again };
}

// The domains of a tier, each with its nodes, by their names; at the end, those in none.
function blocksOf(nodes, tier) {
  const found = new Map();
  for (const node of nodes) {
    const name = node.domains[tier] ?? "";
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(node);
  }
  const outside = found.get("");
  found.delete("");
  const blocks = [...found].map(([name, inside]) => ({ name, nodes: inside }));
  blocks.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return outside ? [...blocks, { name: "no domain", nodes: outside }] : blocks;
}

// Where everything is drawn: blocks from left to right, in as many lines as they need.
function arrange(blocks, width, cell) {
  const [places, headings] = [[], []];
  let [left, top, bottom] = [0, 0, 0];
  for (const { name, nodes } of blocks) {
    const perRow = Math.max(1, Math.min(Math.floor(width / cell), name ? Math.ceil(Math.sqrt(nodes.length * 2)) : Infinity));
    const wide = Math.max(name ? NARROWEST_BLOCK : 0, Math.min(nodes.length, perRow) * cell);
    if (left > 0 && left + wide > width) [left, top] = [0, bottom + BLOCK_GAP];
    if (name) headings.push({ name, x: left, y: top, wide });
    const first = top + (name ? BLOCK_HEADING : 0);
    for (const [number, node] of nodes.entries()) {
      places.push({ node, x: left + (number % perRow) * cell, y: first + Math.floor(number / perRow) * cell });
    }
    bottom = Math.max(bottom, first + Math.ceil(nodes.length / perRow) * cell);
    left += wide + BLOCK_GAP;
  }
  return { places, headings, height: bottom };
}

// The place that an arrow key goes to: the next one in order, or the nearest one in the next row above or below.
function neighbour(places, now, key) {
  if (key === "ArrowLeft") return places[Math.max(0, now - 1)];
  if (key === "ArrowRight") return places[Math.min(places.length - 1, now + 1)];
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  if (now < 0) return places[0];
  const [from, sign] = [places[now], key === "ArrowDown" ? 1 : -1];
  const away = (one) => (one.y - from.y) * sign;
  const beyond = places.filter((one) => away(one) > 0);
  const nearest = beyond.reduce((least, one) => Math.min(least, away(one)), Infinity);
  return beyond.filter((one) => away(one) === nearest)
    .reduce((best, one) => (best && Math.abs(best.x - from.x) <= Math.abs(one.x - from.x) ? best : one), undefined);
}

function drawHeading(context, name, x, y, wide) {
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = colour("text");
  let shown = name;
  while (shown.length > 1 && context.measureText(shown).width > wide) shown = `${shown.replace("…", "").slice(0, -1)}…`;
  context.fillText(shown, x + 1, y + 13);
}

function isReserved(node) {
  return node.reservedFor.length > 0 || Object.entries(node.reserved).some(([name, n]) => n > 0 && name !== "pods");
}

// The amounts are known of the present only; of the past, the names.
function isHeld(node) {
  return node.heldBy !== undefined || Object.values(node.held).some((n) => n > 0);
}

export function describeNode(node) {
  const lines = [node.name, ...Object.entries(node.domains).map(([tier, name]) => `${tier}: ${name}`)];
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
  const columns = ["Node", "Allocatable", "Used", "Lent", "Reserved for", "Promised to", "Held", "Locked for", "Pods", "Domains"];
  const rows = nodes.map((node) => [
    node.name, formatAmounts(node.allocatable), formatAmounts(node.used), formatAmounts(node.backfilled),
    node.reservedFor.join(", ") || "–", node.promisedTo.join(", ") || "–", formatAmounts(node.held), node.lockedBy || "–", String(node.pods),
    Object.values(node.domains).join(", ") || "–",
  ]);
  return { columns, rows };
}
