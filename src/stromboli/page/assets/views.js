// The views. Each is a function of the store that returns { frame, update }; `update` gets the part of the address after
// the view's name. Only the view that is shown exists.

import { element, replace } from "./dom.js";
import { formatAmounts, formatDuration, formatPercent, formatTime } from "./format.js";
import { factList, jobDetails, stateBadge } from "./job_details.js";
import { describeNode, nodeMap } from "./node_map.js";
import {
  evictionsOverTime, jobSize, jobTimeline, namespaceShares, nodeTimeline, queueLength, queueShares, utilisation,
  waitsBySize,
} from "./pictures.js";
import { busiestTime, usedPart, waitOf } from "./store.js";
import { dataTable } from "./table.js";

export const VIEWS = [
  ["overview", "Overview", overview],
  ["queues", "Queues", queues],
  ["jobs", "Jobs", jobs],
  ["nodes", "Nodes", nodes],
  ["timeline", "Timeline", timeline],
  ["evictions", "Evictions", evictions],
  ["migrations", "Migrations", migrations],
];

export function linkTo(view, key = "") {
  const path = key.split("/").map(encodeURIComponent).join("/");
  return `#/${view}${path ? `/${path}` : ""}`;
}

function go(view, key) {
  location.hash = linkTo(view, key);
}

function view(parts, ...more) {
  const frame = element("div", {}, ...more, element("div", { class: "grid" }, ...parts.map((part) => part.frame)));
  return { frame, update: () => parts.forEach((part) => part.update()) };
}

function overview(store) {
  const facts = element("div");
  const charts = view([utilisation(store), queueLength(store), queueShares(store), waitsBySize(store)], facts);
  const waiting = jobTable(store, "No job waits.");
  charts.frame.append(element("h2", { text: "Jobs that wait longest" }), waiting.frame);
  return {
    frame: charts.frame,
    update() {
      replace(facts, factList(store.document.facts));
      charts.update();
      const found = store.document.jobs.filter((job) => job.state === "waiting");
      waiting.update(found.sort((a, b) => a.submitted - b.submitted).slice(0, 20));
    },
  };
}

function queues(store) {
  const charts = view([queueShares(store), namespaceShares(store)]);
  const table = dataTable([
    { name: "Queue", value: (q) => q.name, text: (q) => (q.parent ? `${q.parent} / ${q.name}` : q.name), named: true },
    { name: "State", value: (q) => q.state, text: (q) => q.state },
    { name: "Weight", value: (q) => q.weight, text: (q) => String(q.weight), number: true },
    { name: "Share", value: (q) => q.share, text: (q) => formatPercent(q.share), number: true },
    { name: "Allocated", value: (q) => q.share, text: (q) => formatAmounts(q.allocated) },
    { name: "Deserved", value: (q) => formatAmounts(q.deserved), text: (q) => formatAmounts(q.deserved) },
    { name: "Borrowed", value: (q) => formatAmounts(q.borrowed), text: (q) => formatAmounts(q.borrowed) },
    { name: "Lent", value: (q) => formatAmounts(q.lent), text: (q) => formatAmounts(q.lent) },
    { name: "Limit", value: (q) => formatAmounts(q.capability), text: (q) => formatAmounts(q.capability) },
    { name: "Guarantee", value: (q) => formatAmounts(q.guarantee), text: (q) => formatAmounts(q.guarantee) },
    { name: "Locked nodes", value: (q) => q.locked.length, text: (q) => String(q.locked.length), number: true },
    { name: "Jobs running", value: (q) => q.running, text: (q) => String(q.running), number: true },
    { name: "Jobs waiting", value: (q) => q.waiting, text: (q) => String(q.waiting), number: true },
  ], { keyOf: (q) => q.name, search: (q) => q.name });
  const inside = dataTable([
    { name: "Queue", value: (n) => n.key, text: (n) => n.key.split("/")[0], named: true },
    { name: "Namespace", value: (n) => n.key.split("/")[1], text: (n) => n.key.split("/")[1], named: true },
    { name: "Weight", value: (n) => n.weight, text: (n) => String(n.weight), number: true },
    { name: "Share", value: (n) => n.share, text: (n) => formatPercent(n.share), number: true },
    { name: "Allocated", value: (n) => n.share, text: (n) => formatAmounts(n.allocated) },
  ], { keyOf: (n) => n.key, search: (n) => n.key });
  charts.frame.append(element("h2", { text: "Queues" }), table.frame, element("h2", { text: "Namespaces" }), inside.frame);
  return {
    frame: charts.frame,
    update() {
      charts.update();
      table.update(store.document.queues);
      inside.update(store.document.namespaces);
    },
  };
}

function jobTable(store, empty) {
  const { clock } = store.document;
  const waited = (job) => waitOf(store.document, job);
  const link = (job) => element("a", { href: linkTo("jobs", job.key), text: job.key });
  return dataTable([
    { name: "Job", value: (job) => job.key, cell: link, named: true },
    { name: "Queue", value: (job) => job.queue, text: (job) => job.queue },
    { name: "State", value: (job) => job.phase, cell: stateBadge },
    { name: "Pods", value: jobSize, text: (job) => String(jobSize(job)), number: true },
    { name: "Submitted", value: (job) => job.submitted, text: (job) => formatTime(clock, job.submitted), number: true },
    { name: "Started", value: (job) => job.started, text: (job) => formatTime(clock, job.started), number: true },
    { name: "Ended", value: (job) => job.ended, text: (job) => formatTime(clock, job.ended), number: true },
    { name: "Waited", value: waited, text: (job) => formatDuration(waited(job)), number: true },
    { name: "Evictions", value: (job) => job.evictions, text: (job) => String(job.evictions || ""), number: true },
    { name: "Reason", value: (job) => job.reason, text: (job) => job.reason },
    { name: "Message", value: (job) => job.message, text: (job) => job.message, long: true },
  ], {
    keyOf: (job) => job.key, search: (job) => `${job.key} ${job.queue} ${job.phase} ${job.reason} ${job.message}`,
    sorted: 7, descending: true, empty,
  });
}

function jobs(store) {
  const details = jobDetails(store, store.canWrite ? store.jobActions : null);
  const table = jobTable(store, "There are no jobs.");
  const frame = element("div", {}, details.frame, element("h2", { text: "Jobs" }), table.frame);
  return {
    frame,
    update(key) {
      details.update(key);
      table.update(store.document.jobs, key);
    },
  };
}

function nodes(store) {
  let time = store.document.live ? null : busiestTime(store.document);
  let resource = "";
  let tier = "";
  const read = () => ({ nodes: store.nodesAt(time), resource, tier });
  const map = nodeMap("Nodes", "", read, { open: (name) => go("nodes", name) });
  const details = element("section", { "aria-live": "polite" });

  const options = ["", ...store.document.resources].map((name) =>
    element("option", { value: name, text: name || "the one used most" }));
  const select = element("select", { onchange: (event) => {
    resource = event.target.value;
    map.update();
  } }, ...options);
  map.addTools(element("label", {}, "Resource ", select));
  const tiers = element("select", { "aria-label": "Tier", onchange: (event) => {
    tier = event.target.value;
    map.update();
  } });
  const byTier = element("label", { hidden: "" }, "By ", tiers);
  map.addTools(byTier);
  let listed = "";

  // The tiers may come and go while the page is open.
  function listTiers() {
    const names = tiersOf(store.document.nodes);
    if (names.join("\n") === listed) return;
    listed = names.join("\n");
    if (!names.includes(tier)) tier = "";
    replace(tiers, ...["", ...names].map((name) => element("option", { value: name, text: name || "name" })));
    tiers.value = tier;
    byTier.hidden = !names.length;
  }
  if (!store.document.live) map.addTools(...timeSlider());

  function timeSlider() {
    const { start, end, clock } = store.document;
    const shown = element("output", { text: formatTime(clock, time) });
    const slider = element("input", { type: "range", min: start, max: end, step: "any", value: time, "aria-label": "Time" });
    slider.addEventListener("input", () => {
      time = Number(slider.value);
      shown.textContent = formatTime(clock, time);
      update(current);
    });
    return [element("label", {}, "At ", slider, shown)];
  }

  const table = dataTable([
    { name: "Node", value: (n) => n.name, cell: (n) => element("a", { href: linkTo("nodes", n.name), text: n.name }), named: true },
    { name: "Used", value: (n) => usedPart(n, n.used, ""), text: (n) => formatPercent(usedPart(n, n.used, "")), number: true },
    { name: "By pods", value: (n) => n.pods, text: (n) => formatAmounts(n.used) },
    { name: "Of", value: (n) => formatAmounts(n.allocatable), text: (n) => formatAmounts(n.allocatable) },
    { name: "Pods", value: (n) => n.pods, text: (n) => String(n.pods), number: true },
    { name: "Lent", value: (n) => formatAmounts(n.backfilled), text: (n) => formatAmounts(n.backfilled) },
    { name: "Held", value: (n) => formatAmounts(n.held), text: (n) => n.heldBy?.join(", ") ?? formatAmounts(n.held) },
    { name: "Reserved for", value: (n) => n.reservedFor.join(), text: (n) => n.reservedFor.join(", ") },
    { name: "Promised to", value: (n) => n.promisedTo.join(), text: (n) => n.promisedTo.join(", ") },
    { name: "Locked for", value: (n) => n.lockedBy, text: (n) => n.lockedBy },
  ], { keyOf: (n) => n.name, search: (n) => `${n.name} ${n.lockedBy} ${n.reservedFor.join(" ")} ${n.promisedTo.join(" ")}` });

  let current = "";
  const frame = element("div", {}, map.frame, details, element("h2", { text: "All nodes" }), table.frame);
  function update(key) {
    current = key;
    listTiers();
    map.update();
    const all = store.nodesAt(time);
    table.update(all, key);
    const node = key ? all.find((one) => one.name === key) : null;
    replace(details, ...(node ? nodeDetails(store, node, time) : []));
  }
  return { frame, update };
}

// From the lowest: those of the node in most domains first, as a node may be in none of a low tier.
function tiersOf(all) {
  const keys = all.map((node) => Object.keys(node.domains)).sort((a, b) => b.length - a.length);
  return [...new Set(keys.flat())];
}

function nodeDetails(store, node, time) {
  const spans = store.spansOf("node", node.name).filter(([, , , , start, end]) =>
    (time === null ? end === null : start <= time && (end === null || end > time)));
  const lines = describeNode(node).split("\n").slice(1).map((text) => element("li", { text }));
  const pods = spans.map(([, pod, job]) =>
    element("li", {}, element("a", { href: linkTo("jobs", job), text: pod })));
  return [element("h2", { text: `Node ${node.name}` }), element("ul", {}, ...lines), element("ul", {}, ...pods)];
}

function timeline(store) {
  const parts = [jobTimeline(store, (key) => go("jobs", key)), nodeTimeline(store, (name) => go("nodes", name))];
  const frame = element("div", {}, ...parts.map((part) => part.frame));
  return { frame, update: () => parts.forEach((part) => part.update()) };
}

function evictions(store) {
  const { clock } = store.document;
  const chart = evictionsOverTime(store);
  const table = dataTable([
    { name: "Time", value: (e) => e.time, text: (e) => formatTime(clock, e.time), number: true },
    { name: "Pod", value: (e) => e.pod, cell: (e) => element("a", { href: linkTo("jobs", e.job), text: e.pod }), named: true },
    { name: "Queue", value: (e) => e.queue, text: (e) => e.queue },
    { name: "Node", value: (e) => e.node, text: (e) => e.node },
    { name: "Reason", value: (e) => e.reason, text: (e) => e.reason },
    { name: "Message", value: (e) => e.message, text: (e) => e.message, long: true },
  ], {
    keyOf: (e) => e.key, search: (e) => `${e.pod} ${e.queue} ${e.node} ${e.reason} ${e.message}`,
    empty: "Nothing was evicted.",
  });
  const frame = element("div", {}, chart.frame, table.frame);
  return {
    frame,
    update() {
      chart.update();
      table.update(store.document.evictions);
    },
  };
}

function migrations(store) {
  const list = element("ul", { class: "moves" });
  const empty = element("p", { class: "empty", text: "No pod was moved." });
  const frame = element("div", {}, element("h2", { text: "Migrations" }), empty, list);
  return {
    frame,
    update() {
      const moves = [...store.document.migrations].sort((a, b) => b.planned - a.planned || (a.pod < b.pod ? -1 : 1));
      empty.hidden = moves.length > 0;
      replace(list, ...moves.map((move) => moveCard(store.document.clock, move)));
    },
  };
}

const MOVE_STATES = { Planned: "waiting", Running: "running", Succeeded: "succeeded", Failed: "failed" };

// A pod that moves: from where to where, and how full both nodes were before and after.
function moveCard(clock, move) {
  const times = `${formatTime(clock, move.planned)} – ${move.ended === null ? "now" : formatTime(clock, move.ended)}`;
  return element("li", {},
    element("a", { href: linkTo("jobs", move.job), text: move.pod }), " ",
    element("span", { class: `badge ${MOVE_STATES[move.phase] ?? "gone"}`, text: move.phase }), ` ${times}`,
    nodeChange("from", move.source, move.sourceBefore, move.sourceAfter),
    nodeChange("to", move.target, move.targetBefore, move.targetAfter),
    element("p", { class: "empty", text: [move.reason, move.message].filter((text) => text).join(": ") }));
}

function nodeChange(word, name, before, after) {
  const bar = (part, text) => element("meter", { min: 0, max: 1, value: part, "aria-label": text, title: text });
  return element("div", { class: "change" },
    element("span", {}, `${word} `, element("a", { href: linkTo("nodes", name), text: name })),
    bar(before, `${name} before: ${formatPercent(before)} used`), formatPercent(before), " → ",
    bar(after, `${name} after: ${formatPercent(after)} used`), formatPercent(after));
}
