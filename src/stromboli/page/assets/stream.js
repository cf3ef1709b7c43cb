// The connection to the server: the whole document first, then changes, as server-sent events. A browser's own
// EventSource cannot send a token, so the events are read from an ordinary response.
//
// When the connection is lost, for example because the server restarts, the page keeps what it shows, says so, and
// tries again with growing pauses. After each loss it starts with a whole document: the server may have forgotten.

import { parseData } from "./dom.js";

const TOKEN = "stromboli-token";
const PAUSES = [500, 1000, 2000, 4000, 8000];
const SILENCE = 30_000; // the server sends something every ten seconds; a connection that is silent for longer is dead

export class Refused extends Error {}

// A token in the address (#token=...) is moved to the storage of this tab, so that nobody copies it with the address.
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(TOKEN, decodeURIComponent(found[1]));
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function request(path, options = {}) {
  const headers = { ...options.headers, Authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` };
  return fetch(path, { ...options, headers, cache: "no-store" });
}

// Follows the server until the token is refused; then it throws Refused.
export async function follow(store) {
  for (let failures = 0; ; failures += 1) {
    try {
      await readEvents(store, () => (failures = 0));
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    store.report("The connection to the server is lost. Trying again …");
    await new Promise((resolve) => setTimeout(resolve, PAUSES[Math.min(failures, PAUSES.length - 1)]));
  }
}

async function readEvents(store, onEvent) {
  const abort = new AbortController();
  let watchdog = setTimeout(() => abort.abort(), SILENCE);
  try {
    const response = await request("api/stream", { signal: abort.signal });
    if (response.status === 401) throw new Refused("The token is wrong.");
    if (!response.ok) throw new Error(`status ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => abort.abort(), SILENCE);
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const one of events) if (receive(store, one)) onEvent();
    }
  } finally {
    clearTimeout(watchdog);
  }
}

// Handles one event; comments, which only keep the connection alive, are none.
function receive(store, text) {
  let name = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return false;
  const content = parseData(data);
  store.report("");
  if (name === "document") {
    store.canWrite = content.canWrite;
    store.load(content.document);
  } else if (name === "change") {
    store.apply(content);
  }
  return true;
}
