// Elements, and the one tooltip. Text is always set as text: a name in a manifest cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Data of a server. A name such as "constructor" is a name like any other: without a prototype, an object has only what
// it was given. To do this always would cost a large cluster a tenth of a second.
const INHERITED = new RegExp(`"(${Object.getOwnPropertyNames(Object.prototype).join("|")})"`);

function withoutPrototype(key, value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? Object.setPrototypeOf(value, null) : value;
}

// For values by names that somebody chose.
export function emptyTable() {
  return Object.create(null);
}

export function parseData(text) {
  return INHERITED.test(text) ? JSON.parse(text, withoutPrototype) : JSON.parse(text);
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

// Values of the theme, for canvases: they do not follow style sheets. Kept until the theme changes.
let kept = new Map();

export function colour(name) {
  if (!kept.has(name)) {
    kept.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  }
  return kept.get(name);
}

export function forgetColours() {
  kept = new Map();
}

// -- the tooltip ------------------------------------------------------------------------------------------------------

let tip = null;

export function showTip(text, x, y) {
  if (tip === null) {
    tip = element("div", { id: "tip", role: "tooltip" });
    document.body.append(tip);
  }
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? Math.max(4, x - 14 - width) : x + 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.min(Math.max(4, y + 14), Math.max(4, innerHeight - height - 4))}px`;
}

export function hideTip() {
  if (tip !== null) tip.hidden = true;
}

// Calls `draw` now and whenever the width changes. Returns a function that draws again.
export function drawnToFit(holder, draw) {
  let width = 0;
  const again = () => {
    const now = Math.floor(holder.clientWidth);
    if (now > 0) draw((width = now));
  };
  new ResizeObserver(() => {
    if (Math.floor(holder.clientWidth) !== width) again();
  }).observe(holder);
  return again;
}

// A canvas of this size in CSS pixels, sharp on dense screens. The context is in CSS pixels.
export function sized(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}
