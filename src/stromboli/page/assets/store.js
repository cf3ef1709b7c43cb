// The document that is shown, and what follows from it. Pictures read it here; a stream changes it.

import { emptyTable } from "./dom.js";

const KEYED = {
  queues: (row) => row.name,
  namespaces: (row) => row.key,
  jobs: (row) => row.key,
  nodes: (row) => row.name,
  spans: (row) => row[0],
  marks: (row) => row.key,
  evictions: (row) => row.key,
  migrations: (row) => row.key,
};

export class Store {
  constructor() {
    this.document = null;
    this.problem = "";
    this.canWrite = false;
    this.version = 0; // counts changes, so that derived values are computed once for each
    this._listeners = new Set();
    this._derived = new Map();
  }

  listen(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  load(whole) {
    this.document = whole;
    this._changed();
  }

  // `change` has new values of some parts. Rows of a part are `set` or `gone`, and samples are added to the series.
  apply(change) {
    const next = { ...this.document };
    for (const name of ["end", "facts", "resources", "series"]) if (name in change) next[name] = change[name];
    if (change.sample) next.series = withSample(next.series, change.sample);
    for (const [name, { set = [], gone = [] }] of Object.entries(change.rows ?? {})) {
      const keyOf = KEYED[name];
      const rows = new Map(next[name].map((row) => [keyOf(row), row]));
      for (const key of gone) rows.delete(key);
      for (const row of set) rows.set(keyOf(row), row);
      next[name] = [...rows.values()];
    }
    this.document = next;
    this._changed();
  }

  report(problem) {
    if (problem !== this.problem) {
      this.problem = problem;
      this._tell();
    }
  }

  // Computes something from the document, once for each version of it.
  derive(name, compute) {
    const found = this._derived.get(name);
    if (found?.version === this.version) return found.value;
    const value = compute(this.document);
    this._derived.set(name, { version: this.version, value });
    return value;
  }

  job(key) {
    return this.derive("jobs by key", (all) => new Map(all.jobs.map((job) => [job.key, job]))).get(key);
  }

  node(name) {
    return this.derive("nodes by name", (all) => new Map(all.nodes.map((node) => [node.name, node]))).get(name);
  }

  spansOf(field, key) {
    const position = { job: 2, node: 3 }[field];
    const groups = this.derive(`spans by ${field}`, (all) => {
      const found = new Map();
      for (const span of all.spans) {
        const list = found.get(span[position]);
        if (list) list.push(span);
        else found.set(span[position], [span]);
      }
      return found;
    });
    return groups.get(key) ?? [];
  }

  marksOf(node) {
    const groups = this.derive("marks by node", (all) => {
      const found = new Map();
      for (const mark of all.marks) found.set(mark.node, [...(found.get(mark.node) ?? []), mark]);
      return found;
    });
    return groups.get(node) ?? [];
  }

  // The nodes as they were at a time of a finished run. Live nodes are as they are.
  nodesAt(time) {
    const all = this.document;
    const nodes = this.derive("nodes in order", () => [...all.nodes].sort(byName));
    if (all.live || time === null) return nodes;
    const found = new Map(nodes.map((node) => [node.name, past(node)]));
    for (const [, , job, name, start, end, , backfill, amounts] of all.spans) {
      const node = found.get(name);
      if (!node || start > time || (end !== null && end <= time)) continue;
      node.pods += 1;
      for (const [resource, amount] of Object.entries(amounts)) {
        node.used[resource] = (node.used[resource] ?? 0) + amount;
        if (backfill) node.backfilled[resource] = (node.backfilled[resource] ?? 0) + amount;
      }
    }
    for (const mark of all.marks) {
      const node = found.get(mark.node);
      if (!node || mark.start > time || (mark.end !== null && mark.end <= time)) continue;
      if (mark.kind === "locked") node.lockedBy = mark.owner;
      else if (mark.kind === "held") node.heldBy = [...(node.heldBy ?? []), mark.owner];
      else node.reservedFor = [...new Set([...node.reservedFor, mark.owner])];
    }
    return [...found.values()];
  }

  _changed() {
    this.version += 1;
    this._tell();
  }

  _tell() {
    for (const listener of [...this._listeners]) listener();
  }
}

function byName(a, b) {
  return a.name.localeCompare(b.name, "en", { numeric: true });
}

// A series with another end: the points of the sample replace all from the first of them on. Both have the same form; a
// name that is new was 0 before.
function withSample(series, sample) {
  const zeros = (count) => Array.from({ length: count }, () => 0);
  const replaced = series.times.findIndex((time) => time >= sample.times[0]);
  const count = replaced < 0 ? series.times.length : replaced;
  const joined = (before = zeros(count), after = zeros(sample.times.length)) => [...before.slice(0, count), ...after];
  const all = (before, after, join) =>
    Object.fromEntries([...new Set([...Object.keys(before), ...Object.keys(after)])].map((name) =>
      [name, join(before[name], after[name])]));
  const pair = (before = {}, after = {}) => ({
    used: joined(before.used, after.used), capacity: joined(before.capacity, after.capacity),
  });
  return {
    times: joined(series.times, sample.times),
    resources: all(series.resources, sample.resources, pair),
    waitingPods: joined(series.waitingPods, sample.waitingPods),
    waitingJobs: joined(series.waitingJobs, sample.waitingJobs),
    queues: all(series.queues, sample.queues, joined),
    namespaces: all(series.namespaces, sample.namespaces, joined),
  };
}

// How long a job has waited, or had waited when it started.
export function waitOf(all, job) {
  return job.waited ?? all.end - job.submitted;
}

function past(node) {
  return { ...node, used: emptyTable(), backfilled: emptyTable(), reserved: emptyTable(), held: emptyTable(), promised: emptyTable(), reservedFor: [], promisedTo: [], lockedBy: "", pods: 0 };
}

// The part of a node that is used, in one resource or ("") in the resource where that part is largest.
export function usedPart(node, amounts, resource) {
  const part = (name) => (node.allocatable[name] ? (amounts[name] ?? 0) / node.allocatable[name] : 0);
  if (resource) return part(resource);
  return Math.max(0, ...Object.keys(node.allocatable).filter((name) => name !== "pods").map(part));
}

// The moment at which most of the cluster was used: where a finished run is most worth looking at.
export function busiestTime(all) {
  const { times, resources } = all.series;
  let best = all.end;
  let most = -1;
  times.forEach((time, position) => {
    let used = 0;
    for (const { used: values, capacity } of Object.values(resources)) {
      if (capacity[position]) used = Math.max(used, values[position] / capacity[position]);
    }
    if (used > most) {
      most = used;
      best = time;
    }
  });
  return best;
}
