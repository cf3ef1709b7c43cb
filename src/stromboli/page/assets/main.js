// Starts the page: with the document that is in the file (a report), or with the stream of a server.

import { element, forgetColours, parseData, replace } from "./dom.js";
import { formatTime } from "./format.js";
import { Store } from "./store.js";
import { Refused, follow, keepToken, request, takeToken } from "./stream.js";
import { VIEWS, linkTo } from "./views.js";

const THEME = "stromboli-theme";
const PER_SECOND = 4; // drawings; changes may arrive faster

const store = new Store();
const main = document.getElementById("main");
const state = document.getElementById("state");
const nav = document.getElementById("views");
let shown = { name: "", view: null };

function route() {
  const [, name = "", ...key] = location.hash.split("/");
  const found = VIEWS.find(([one]) => one === name) ?? VIEWS[0];
  return { found, key: key.map(decodeURIComponent).join("/") };
}

function draw() {
  const all = store.document;
  state.textContent = store.problem || (all ? summaryLine(all) : "Connecting …");
  state.className = store.problem ? "problem" : "";
  if (!all) return;
  const { found: [name, title, build], key } = route();
  document.getElementById("title").textContent = all.title;
  document.title = `${title} – ${all.title} – Stromboli`;
  if (shown.name !== name) {
    shown = { name, view: build(store) };
    replace(main, shown.view.frame);
    showLinks(name);
  }
  shown.view.update(key);
  main.dataset.drawn = `${name} ${store.version}`;
}

function summaryLine(all) {
  return all.live ? `Live, ${formatTime(all.clock, all.end)}` : `A simulation of ${formatTime("virtual", all.end)}`;
}

function showLinks(current) {
  replace(nav, ...VIEWS.map(([name, title]) =>
    element("a", { href: linkTo(name), text: title, "aria-current": name === current ? "page" : null })));
}

// Many changes in a moment are drawn once.
let planned = 0;
let last = 0;

function drawSoon() {
  if (planned) return;
  planned = setTimeout(() => {
    planned = 0;
    last = performance.now();
    draw();
  }, Math.max(0, last + 1000 / PER_SECOND - performance.now()));
}

// -- dark and light ---------------------------------------------------------------------------------------------------

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  forgetColours();
  if (shown.view) draw();
}

function remembered(value) {
  try {
    if (value) localStorage.setItem(THEME, value);
    return localStorage.getItem(THEME);
  } catch {
    return value; // a browser may refuse storage to a file
  }
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => setTheme(null));
  setTheme(remembered(null));
  document.getElementById("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
    setTheme(remembered(now === "dark" ? "light" : "dark") ?? (now === "dark" ? "light" : "dark"));
  });
}

// -- a server ---------------------------------------------------------------------------------------------------------

// Buttons for one job, where the server allows writes.
store.jobActions = (job) => {
  const said = element("span", { role: "status" });
  const buttons = [["Suspend", "suspend"], ["Resume", "resume"], ["Cancel", "cancel"]].map(([text, action]) =>
    element("button", { type: "button", text, onclick: async () => {
      if (action === "cancel" && !confirm(`Cancel ${job.key}? Its pods are deleted.`)) return;
      const body = JSON.stringify({ job: job.key, kind: job.kind, action });
      const response = await request("api/actions", {
        method: "POST", body, headers: { "Content-Type": "application/json" },
      });
      said.textContent = (await response.json()).message;
    } }));
  return job.kind === "Job" ? element("div", { class: "tools" }, ...buttons, said) : null;
};

function signIn(message) {
  shown = { name: "", view: null };
  state.textContent = message;
  const field = element("input", { type: "password", autocomplete: "off", id: "token", required: true });
  const form = element("form", { class: "sign-in" },
    element("label", { for: "token", text: "Token (it is in the kubeconfig, or where the server was started)" }), field,
    element("button", { text: "Show the cluster" }));
  replace(main, form);
  field.focus();
  return new Promise((resolve) => form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    resolve();
  }));
}

async function ask(path) {
  const response = await request(path).catch(() => null); // the stream says when the server is away
  return response?.ok ? response.json() : null;
}

// Calls `receive` with each line of the answer, as it comes; false if there is none.
async function askForSteps(path, receive, signal) {
  const response = await request(path, { signal }).catch(() => null);
  if (!response?.ok) return false;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return true;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) receive(parseData(line));
  }
}

async function live() {
  store.ask = ask;
  store.askForSteps = askForSteps;
  if (!takeToken()) await signIn("A token is needed.");
  for (;;) {
    try {
      await follow(store);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      await signIn(error.message);
    }
  }
}

function start() {
  const embedded = document.getElementById("document");
  startTheme();
  store.listen(drawSoon);
  addEventListener("hashchange", () => {
    if (!location.hash.startsWith("#/") && location.hash !== "") return;
    draw();
    main.focus({ preventScroll: true });
  });
  if (embedded) {
    store.load(parseData(embedded.textContent));
    draw();
  } else {
    live();
  }
}

start();
