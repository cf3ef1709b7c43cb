// The pictures that the views are made of: which numbers of the document each one shows.

import { emptyTable } from "./dom.js";
import { barChart } from "./bar_chart.js";
import { largestSeries } from "./figure.js";
import { formatCount, formatDuration, formatPercent, formatTime, plural } from "./format.js";
import { gantt } from "./gantt.js";
import { lineChart } from "./line_chart.js";
import { timeStep } from "./scales.js";
import { waitOf } from "./store.js";

const LONGEST_EVICTION_CHART = 40; // bars

function overTime(store) {
  const { clock, start, end, series } = store.document;
  return { clock, start: Math.max(start, series.times[0] ?? start), end, times: series.times };
}

export function utilisation(store) {
  return lineChart("Utilisation", "part of each resource that pods request", () => {
    const { resources } = store.document.series;
    const names = store.document.resources.filter((name) => name in resources);
    const series = names.slice(0, 8).map((name) => {
      const { used, capacity } = resources[name];
      return { name, values: used.map((value, position) => (capacity[position] ? value / capacity[position] : 0)) };
    });
    return { ...overTime(store), series, format: formatPercent, most: Math.max(1, ...series.map((s) => peak(s.values))) };
  });
}

function peak(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

export function queueLength(store) {
  return lineChart("Waiting", "pods, and jobs whose minimum does not run yet", () => {
    const { waitingPods, waitingJobs } = store.document.series;
    const series = [{ name: "pods", values: waitingPods }, { name: "jobs", values: waitingJobs }];
    return { ...overTime(store), series, format: formatCount };
  });
}

export function queueShares(store) {
  return lineChart("Shares of queues", "of the cluster, in the resource of which each uses most", () => {
    const series = largestSeries(store.document.series.queues);
    return { ...overTime(store), series, format: formatPercent };
  });
}

export function namespaceShares(store) {
  return lineChart("Shares of namespaces", "queue/namespace", () => {
    const series = largestSeries(store.document.series.namespaces);
    return { ...overTime(store), series, format: formatPercent };
  });
}

// -- jobs -------------------------------------------------------------------------------------------------------------

export function waitsBySize(store) {
  return barChart("Waits by size", "median wait of jobs by their number of pods; the dashed line is the 95th percentile", () => {
    const classes = new Map();
    for (const job of store.document.jobs) {
      const power = Math.floor(Math.log2(Math.max(1, jobSize(job))));
      classes.set(power, [...(classes.get(power) ?? []), waitOf(store.document, job)]);
    }
    const bars = [...classes.keys()].sort((a, b) => a - b).map((power) => {
      const waits = classes.get(power).sort((a, b) => a - b);
      const [median, high] = [percentile(waits, 50), percentile(waits, 95)];
      const tip = `${plural(waits.length, "job")}, median ${formatDuration(median)}, 95% ${formatDuration(high)}, ` +
        `longest ${formatDuration(waits.at(-1))}`;
      const label = power ? `${2 ** power}–${2 ** (power + 1) - 1} pods` : "1 pod";
      return { label, parts: [median], mark: high, tip };
    });
    return { names: ["median"], bars, format: formatDuration };
  });
}

export function jobSize(job) {
  const pods = Object.values(job.pods).reduce((sum, count) => sum + count, 0);
  return Math.max(job.minimum, pods);
}

// The nearest rank, as in the summary of a simulation: a real wait of some job.
function percentile(sorted, percent) {
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
}

export function jobTimeline(store, open) {
  const read = () => {
    const { clock, start, end, jobs } = store.document;
    const known = jobs.reduce((most, job) => Math.max(most, job.expectedEnd ?? 0, job.expectedStart ?? 0), end);
    const latest = jobs.some((job) => job.expectedStart === known) ? known + (known - start) / 20 : known;
    const rows = store.derive("job timeline", () => [...jobs]
      .sort((a, b) => a.submitted - b.submitted || (a.key < b.key ? -1 : 1))
      .map((job) => ({ key: job.key, label: job.key, bars: jobBars(job, end, latest) })));
    const first = jobs.reduce((least, job) => Math.min(least, job.submitted), start);
    return { clock, start: first, end: latest, rows };
  };
  const legend = [["waiting", "waits"], ["running", "runs"], ["succeeded", "succeeded"], ["failed", "failed"],
    ["gone", "deleted"], ["expected", "expected"]];
  return gantt("Jobs over time", "", read, { legend, open });
}

// `latest`: where the timeline ends.
function jobBars(job, now, latest) {
  const bars = [];
  let from = job.submitted;
  for (const [start, end] of job.runs) {
    if (start > from) bars.push({ kind: "waiting", start: from, end: start, title: "waited" });
    const ended = end ?? now;
    const kind = end === null ? "running" : { waiting: "gone" }[job.state] ?? job.state;
    bars.push({ kind, start, end: ended, title: end === null ? "runs" : "ran" });
    from = ended;
  }
  const last = job.runs.at(-1);
  if (job.state === "waiting" && from < now) bars.push({ kind: "waiting", start: from, end: now, title: "waits" });
  if (job.state === "waiting" && job.expectedStart > now) {
    const title = job.expectedEnd ? "expected to run" : "expected to start; it does not say how long it runs";
    bars.push({ kind: "expected", start: job.expectedStart, end: job.expectedEnd ?? latest, title });
  } else if (job.expectedEnd && job.expectedEnd > now && last && last[1] === null) {
    bars.push({ kind: "expected", start: now, end: job.expectedEnd, title: "expected to run" });
  }
  return bars;
}

// -- nodes ------------------------------------------------------------------------------------------------------------

export function nodeTimeline(store, open) {
  const read = () => {
    const { clock, start, end, spans } = store.document;
    const rows = store.derive("node timeline", () => store.nodesAt(null).map((node) => ({
      key: node.name, label: node.name, ...nodeBars(store, node),
    })));
    const first = spans.reduce((least, span) => Math.min(least, span[4]), start);
    return { clock, start: first, end, rows };
  };
  const legend = [["used", "pods run"], ["backfilled", "on lent resources"], ["evicted", "until an eviction"],
    ["reserved", "reserved"], ["held", "held"], ["locked", "locked"]];
  return gantt("Nodes over time", "the height of a bar is the part of the node that is used", read, { legend, open });
}

function nodeBars(store, node) {
  const marks = store.marksOf(node.name).map(({ kind, owner, start, end }) => ({
    kind, start, end, title: `${kind} for ${owner}`,
  }));
  const spans = store.spansOf("node", node.name);
  const pods = spans.map(([, pod, , , start, end, outcome]) => ({
    start, end, title: `${pod} (${outcome.toLowerCase()})`,
  }));
  return { bars: [...marks, ...loadBars(node, spans)], titles: [...marks, ...pods] };
}

const LOAD = ["used", "evicted", "backfilled"]; // from below

// How full the node was: one bar on top of the other for each kind of use, from one change to the next.
function loadBars(node, spans) {
  const resource = mainResource(node, spans);
  if (!resource) return [];
  const changes = [];
  for (const [, , , , start, end, outcome, backfill, amounts] of spans) {
    const kind = outcome === "Evicted" ? "evicted" : backfill ? "backfilled" : "used";
    const part = (amounts[resource] ?? 0) / node.allocatable[resource];
    changes.push([start, kind, part]);
    if (end !== null) changes.push([end, kind, -part]);
  }
  changes.sort((a, b) => a[0] - b[0]);
  const now = { used: 0, evicted: 0, backfilled: 0 };
  const bars = [];
  changes.forEach(([time, kind, part], position) => {
    now[kind] += part;
    const next = changes[position + 1]?.[0] ?? null;
    if (next === time) return;
    let below = 0;
    for (const one of LOAD) {
      if (now[one] > 1e-9) bars.push({ kind: one, start: time, end: next, from: below, to: below + now[one] });
      below += now[one];
    }
  });
  return bars;
}

// The resource of the node of which its pods requested most over time.
function mainResource(node, spans) {
  const totals = emptyTable();
  for (const [, , , , start, end, , , amounts] of spans) {
    for (const [name, amount] of Object.entries(amounts)) {
      if (node.allocatable[name]) totals[name] = (totals[name] ?? 0) + (amount / node.allocatable[name]) * ((end ?? start) - start + 1);
    }
  }
  return Object.keys(totals).sort((a, b) => totals[b] - totals[a])[0];
}

// -- evictions --------------------------------------------------------------------------------------------------------

export function evictionsOverTime(store) {
  return barChart("Evictions", "by reason", () => {
    const { clock, start, end, evictions } = store.document;
    const names = [...new Set(evictions.map((one) => one.reason || "unknown"))].sort();
    const first = evictions.reduce((least, one) => Math.min(least, one.time), clock === "wall" ? end : start);
    const width = Math.max(1, timeStep(end - first, LONGEST_EVICTION_CHART));
    const count = Math.max(1, Math.ceil((end - first) / width));
    const bars = Array.from({ length: evictions.length ? count : 0 }, (_, number) => ({
      label: formatTime(clock, first + number * width), parts: names.map(() => 0), tip: "",
    }));
    for (const one of evictions) {
      const bar = bars[Math.min(count - 1, Math.max(0, Math.floor((one.time - first) / width)))];
      bar.parts[names.indexOf(one.reason || "unknown")] += 1;
    }
    for (const bar of bars) {
      bar.tip = names.map((name, position) => `${name}: ${bar.parts[position]}`).join(", ");
    }
    return { names, bars, format: formatCount };
  });
}
