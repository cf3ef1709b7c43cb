// Numbers, amounts and times as people read them.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

function short(value) {
  if (value === 0) return "0";
  return String(Number(Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3)));
}

export function isBytes(resource) {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

export function formatAmount(resource, amount) {
  if (resource === "cpu") return short(amount / 1000);
  if (!isBytes(resource)) return short(amount);
  let unit = 0;
  while (Math.abs(amount) >= 1024 && unit + 1 < BINARY.length) {
    amount /= 1024;
    unit += 1;
  }
  return `${short(amount)}${BINARY[unit]}`;
}

// A quantity as Kubernetes writes it: cores instead of thousandths, the rest as it is.
export function formatQuantity(resource, text) {
  return resource === "cpu" && text.endsWith("m") ? String(Number(text.slice(0, -1)) / 1000) : text;
}

export function formatAmounts(amounts) {
  const parts = Object.keys(amounts)
    .sort()
    .filter((resource) => amounts[resource] && resource !== "pods")
    .map((resource) => `${formatAmount(resource, amounts[resource])} ${resource}`);
  return parts.length ? parts.join(", ") : "–";
}

export function formatPercent(part) {
  return `${short(part * 100)}%`;
}

export function formatCount(value) {
  return Number.isInteger(value) ? String(value) : short(value);
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function formatDuration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0) return `-${formatDuration(-seconds)}`;
  if (seconds < 10 && !Number.isInteger(seconds)) return `${short(seconds)}s`;
  const whole = Math.round(seconds);
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0s";
  let rest = whole;
  const parts = [];
  for (const [name, size] of units.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count}${name}`);
  }
  return parts.join("");
}

const two = (number) => String(number).padStart(2, "0");

// `clock` is "virtual" (seconds since the start of a run) or "wall" (seconds since 1970).
export function formatTime(clock, seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (clock === "virtual") return formatDuration(seconds);
  const at = new Date(seconds * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const today = new Date();
  return at.toDateString() === today.toDateString() ? time : `${at.getMonth() + 1}/${at.getDate()} ${time}`;
}
