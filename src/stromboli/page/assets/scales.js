// From values to pixels, and where the ticks of an axis are.

export function scale(from, to, start, end) {
  const factor = to > from ? (end - start) / (to - from) : 0;
  const at = (value) => start + (value - from) * factor;
  at.inverse = (pixel) => (factor ? from + (pixel - start) / factor : from);
  return at;
}

// Round numbers from 0 to at least `most`. The last one is the top of the axis.
export function ticks(most, count) {
  if (!(most > 0)) return [0];
  const rough = most / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [0];
  while (found.at(-1) < most * 0.999) found.push(Number((found.length * step).toPrecision(12)));
  return found;
}

const TIME_STEPS = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800,
  604800, 2592000,
];

// A round duration, so that at most `count` of them are in `seconds`.
export function timeStep(seconds, count) {
  const rough = seconds / Math.max(1, count);
  return TIME_STEPS.find((size) => size >= rough) ?? Math.ceil(rough / 2592000) * 2592000;
}

export function timeTicks(clock, from, to, count) {
  if (!(to > from)) return [from];
  const step = timeStep(to - from, count);
  // Of a wall clock the ticks are at full hours of the local time.
  const offset = clock === "wall" ? new Date(from * 1000).getTimezoneOffset() * 60 : 0;
  const found = [];
  for (let number = Math.ceil((from - offset) / step); number * step + offset <= to; number += 1) {
    found.push(Number((number * step + offset).toFixed(3)));
  }
  return found;
}

// The last position whose time is not after `time`; -1 if there is none. `times` is sorted.
export function positionAt(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
