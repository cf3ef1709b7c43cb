// One job: what became of it, why it waits, and where its pods ran.

import { element, replace } from "./dom.js";
import { formatAmounts, formatDuration, formatTime } from "./format.js";
import { waitOf } from "./store.js";
import { dataTable } from "./table.js";

export function stateBadge(job) {
  return element("span", { class: `badge ${job.state}`, text: job.phase });
}

export function jobDetails(store, actions) {
  const holder = element("section", { "aria-live": "polite" });
  const { clock } = store.document;
  const pods = dataTable([
    { name: "Pod", value: (span) => span[1], text: (span) => span[1], named: true },
    { name: "Node", value: (span) => span[3], text: (span) => span[3] },
    { name: "From", value: (span) => span[4], text: (span) => formatTime(clock, span[4]), number: true },
    { name: "Until", value: (span) => span[5], text: (span) => formatTime(clock, span[5]), number: true },
    { name: "Outcome", value: (span) => span[6], text: (span) => span[6] + (span[7] ? ", on lent resources" : "") },
    { name: "Requests", value: (span) => formatAmounts(span[8]), text: (span) => formatAmounts(span[8]) },
  ], { keyOf: (span) => span[0], search: (span) => span[1] + span[3], empty: "None of its pods is or was on a node." });

  return {
    frame: holder,
    update(key) {
      const job = key ? store.job(key) : null;
      if (!job) return replace(holder);
      pods.update(store.spansOf("job", key));
      replace(holder, element("h2", { text: `${job.kind} ${job.key}` }), explanation(job), facts(store.document, job),
        actions ? actions(job) : null, pods.frame);
    },
  };
}

function explanation(job) {
  if (!job.reason && !job.message && !job.notes.length) return null;
  const title = job.state === "waiting" ? `It waits: ${job.reason || job.phase}` : job.reason;
  return element("div", { class: "why" },
    title ? element("p", {}, element("strong", { text: title })) : null,
    job.message ? element("p", { text: job.message }) : null,
    ...job.notes.map((text) => element("p", { text })));
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
  if (job.expectedEnd) values.push(["Expected end", formatTime(clock, job.expectedEnd)]);
  return factList(values);
}

export function factList(values) {
  const entries = values.map(([name, value]) =>
    element("div", {}, element("dt", { text: name }), element("dd", { text: value })));
  return element("dl", { class: "facts" }, ...entries);
}
