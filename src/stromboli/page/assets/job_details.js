// One job: what became of it, why it waits, and where its pods ran.

import { element, replace } from "./dom.js";
import { formatAmounts, formatDuration, formatQuantity, formatTime } from "./format.js";
import { waitOf } from "./store.js";
import { dataTable } from "./table.js";

export function stateBadge(job) {
  return element("span", { class: `badge ${job.state}`, text: job.phase });
}

const ASK_AGAIN = 10_000; // milliseconds

// What the server knows about why a job waits, beyond its row. It is asked when the job is chosen, and then now and then.
function inquiry(store, changed) {
  let asked = { key: "", at: 0 };
  let known = { key: "", why: null };
  return (job) => {
    const isDue = asked.key !== job.key || performance.now() - asked.at > ASK_AGAIN;
    if (store.ask && job.state === "waiting" && isDue) {
      asked = { key: job.key, at: performance.now() };
      store.ask(`api/why?job=${encodeURIComponent(job.key)}`).then((why) => {
        known = { key: job.key, why };
        changed();
      });
    }
    return known.key === job.key && job.state === "waiting" ? known.why : null;
  };
}

// What would start the job: tried by the server when the user asks, because it takes a while. What is found comes step
// by step, and the same button stops it.
function whatIf(store, changed) {
  let asked = "";
  let found = null; // the last answer
  let trial = null; // while it runs
  const stop = () => {
    trial?.abort();
    trial = null;
    if (found) found = { ...found, stopped: true };
    changed();
  };
  const ask = async (job) => {
    stop();
    const own = (trial = new AbortController());
    asked = job.key;
    found = null;
    changed();
    const answered = await store.askForSteps(`api/what-if?job=${encodeURIComponent(job.key)}`, (answer) => {
      if (trial !== own) return;
      found = answer;
      changed();
    }, own.signal);
    if (trial !== own) return;
    trial = null;
    if (!answered || !found || found.trying) found = { message: "The server did not answer." };
    changed();
  };
  let shown = null;
  const isPending = () => trial !== null && asked === shown?.key;
  const button = element("button", { type: "button", onclick: () => (isPending() ? stop() : ask(shown)) });
  return (job) => {
    if (!store.askForSteps || job.state !== "waiting") return null;
    shown = job;
    button.textContent = isPending() ? "Stop trying" : "Try what would start it";
    const said = asked !== job.key ? [] : found ? outcomes(store.document.clock, found) : isPending() ? ["Trying on a copy of the cluster …"] : ["Stopped."];
    return element("div", { class: "trials" }, button, ...said.map((text) => element("p", { text })));
  };
}

function outcomes(clock, { message, startsNow, expectedStart, expectedAfter, counterfactuals = [], ...progress }) {
  if (message) return [message];
  if (startsNow) return ["It starts in the next cycles, without a change."];
  if (progress.trying) {
    const step = `Trial ${progress.tried + 1} of at most ${progress.most + 1}: ${progress.trying} …`;
    return [...counterfactuals.map((one) => found(clock, one)), progress.stopped ? "Stopped." : step];
  }
  const after = expectedAfter?.length ? `, when ${expectedAfter.join(", ")} ends` : "";
  const expected = expectedStart ? `Expected to start about ${formatTime(clock, expectedStart)}${after}.` : "No start is in sight.";
  const tried = counterfactuals.map((one) => found(clock, one));
  return [expected, ...(tried.length ? tried : ["Nothing that was tried starts it now."])];
}

function found(clock, { sentence, evicts, at }) {
  return `It ${sentence}${at ? `, about ${formatTime(clock, at)}` : ""}${evicts.length ? ` (evicts ${evicts.join(", ")})` : ""}.`;
}

export function jobDetails(store, actions) {
  const holder = element("section", { "aria-live": "polite" });
  let shown = "";
  const whyOf = inquiry(store, () => details.update(shown));
  const trialsOf = whatIf(store, () => details.update(shown));
  const { clock } = store.document;
  const pods = dataTable([
    { name: "Pod", value: (span) => span[1], text: (span) => span[1], named: true },
    { name: "Node", value: (span) => span[3], text: (span) => span[3] },
    { name: "From", value: (span) => span[4], text: (span) => formatTime(clock, span[4]), number: true },
    { name: "Until", value: (span) => span[5], text: (span) => formatTime(clock, span[5]), number: true },
    { name: "Outcome", value: (span) => span[6], text: (span) => span[6] + (span[7] ? ", on lent resources" : "") },
    { name: "Requests", value: (span) => formatAmounts(span[8]), text: (span) => formatAmounts(span[8]) },
  ], { keyOf: (span) => span[0], search: (span) => span[1] + span[3], empty: "None of its pods is or was on a node." });

  const details = {
    frame: holder,
    update(key) {
      shown = key;
      const job = key ? store.job(key) : null;
      if (!job) return replace(holder);
      pods.update(store.spansOf("job", key));
      const focused = document.activeElement;
      replace(holder, element("h2", { text: `${job.kind} ${job.key}` }), explanation(job, whyOf(job)), trialsOf(job),
        facts(store.document, job),
        actions ? actions(job) : null, pods.frame);
      if (holder.contains(focused)) focused.focus({ preventScroll: true });
    },
  };
  return details;
}

function explanation(job, why) {
  if (!job.reason && !job.message && !job.notes.length && !why) return null;
  const first = why?.reasons[0] ?? { code: job.reason, message: job.message, nextStep: "" };
  const title = job.state === "waiting" ? `It waits: ${first.code || job.phase}` : first.code;
  const more = (why?.reasons ?? []).slice(1).map(({ code, message }) => `${code}: ${message}`);
  return element("div", { class: "why" },
    title ? element("p", {}, element("strong", { text: title })) : null,
    first.message ? element("p", { text: first.message }) : null,
    first.nextStep ? element("p", { text: `Next step: ${first.nextStep}` }) : null,
    ...[...more, ...job.notes, ...(why ? numbers(why) : [])].map((text) => element("p", { text })));
}

const MOST_AHEAD = 5;

// The numbers behind the reasons, as sentences.
function numbers(why) {
  const amounts = (found = {}) => Object.entries(found).map(([name, text]) => `${formatQuantity(name, text)} ${name}`).join(", ") || "nothing";
  const said = [];
  if (Object.keys(why.needs ?? {}).length) {
    const pods = why.podsNeeded === 1 ? "1 pod" : `${why.podsNeeded} pods`;
    const counted = why.podsCounted < why.podsNeeded ? `, of which ${why.podsCounted} can be scheduled now` : "";
    said.push(`It needs ${amounts(why.needs)} for ${pods}${counted}; ${amounts(why.free)} is free, ` +
      `at most ${amounts(why.largest)} on one node.`);
  }
  if (typeof why.podsThatFit === "number") {
    const others = why.nodeCounts.map(({ nodes, phrase }) => `${nodes} ${phrase}`);
    said.push(`${why.podsThatFit} of ${why.podsCounted} ${why.podsCounted === 1 ? "pod" : "pods"} fit now. Nodes: ` +
      `${[`${why.available} of ${why.nodes} available`, ...others].join("; ")}.`);
  }
  if (why.position) said.push(`It is number ${why.position} of ${why.queueLength} that wait in its queue.`);
  for (const { job, because } of (why.ahead ?? []).slice(0, MOST_AHEAD)) said.push(`Ahead: ${job} (${because}).`);
  for (const { node, how, missing, waitsFor } of why.kept ?? []) {
    const jobs = waitsFor.length ? `, waits for ${waitsFor.join(", ")}` : "";
    said.push(`Kept for it on ${node}: ${how}, ${amounts(missing)} missing${jobs}.`);
  }
  return said;
}

function facts(all, job) {
  const { clock } = all;
  const pods = Object.entries(job.pods).map(([phase, count]) => `${count} ${phase.toLowerCase()}`).join(", ");
  const values = [
    ["State", job.phase], ["Queue", job.queue], ["Pods", pods || "none yet"], ["Minimum", String(job.minimum)],
    ["Requests", formatAmounts(job.requests)], ["Submitted", formatTime(clock, job.submitted)],
    ["Admitted", formatTime(clock, job.admitted)], ["Started", formatTime(clock, job.started)],
    ["Ended", formatTime(clock, job.ended)], ["Waited", formatDuration(waitOf(all, job))], ["Evictions", String(job.evictions)],
  ];
  if (job.state === "waiting" && job.expectedStart) values.push(["Expected start", formatTime(clock, job.expectedStart)]);
  if (job.expectedEnd) values.push(["Expected end", formatTime(clock, job.expectedEnd)]);
  return factList(values);
}

export function factList(values) {
  const entries = values.map(([name, value]) =>
    element("div", {}, element("dt", { text: name }), element("dd", { text: value })));
  return element("dl", { class: "facts" }, ...entries);
}
