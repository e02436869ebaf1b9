import * as d3 from "d3";

// logDomain spans the given ratios with a little room, at least a factor of
// 1+least to both sides of 1 (a noise floor may exceed 100 %).
export function logDomain(values: number[], least: number): [number, number] {
  const positive = values.filter((v) => v > 0 && Number.isFinite(v));
  const low = Math.min(1 / (1 + least), ...positive);
  const high = Math.max(1 + least, ...positive);
  const room = Math.pow(high / low, 0.05);
  return [low / room, high * room];
}

// ratioTicks are round numbers on a log axis: 1, 2, 5 times powers of ten on a
// wide one, evenly spaced numbers on a narrow one.
export function ratioTicks([low, high]: [number, number], width: number): number[] {
  const narrow = high / low < 3;
  const most = Math.max(2, Math.floor(width / (narrow ? 44 : 52)));
  if (narrow) {
    let n = Math.min(most, 6); // d3 takes the number as a hint
    let ticks = d3.ticks(low, high, n);
    while (ticks.length > most && n > 1) ticks = d3.ticks(low, high, --n);
    return ticks;
  }
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = decades(low, high, steps);
    if (ticks.length <= most) return ticks;
  }
  const powers = decades(low, high, [1]);
  const every = Math.ceil(powers.length / most);
  return powers.filter((v) => Math.round(Math.log10(v)) % every === 0);
}

function decades(low: number, high: number, steps: number[]): number[] {
  const out: number[] = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const s of steps) {
      const v = s * Math.pow(10, e);
      if (v >= low && v <= high) out.push(v);
    }
  }
  return out;
}

// tip is how a mark's title is shown at the pointer. Lines are wrapped here: Plot would
// cut them.
export const tip = { fill: "var(--panel)", stroke: "var(--line)", lineWidth: Infinity };

const tipLetters = 48; // of a line: a phone's width

export function tipText(text: string): string {
  return text.split("\n").flatMap(wrapped).join("\n");
}

function wrapped(line: string): string[] {
  const out = [""];
  for (const word of line.split(" ")) {
    const last = out[out.length - 1];
    if (last && last.length + 1 + word.length > tipLetters) out.push(word);
    else out[out.length - 1] = last ? `${last} ${word}` : word;
  }
  return out;
}

// plain prints a tick without trailing noise: 0.05, 1, 2000, 100,000.
export function plain(v: number): string {
  const magnitude = Math.abs(v);
  if (magnitude >= 1e7 || (magnitude > 0 && magnitude < 1e-3)) return v.toExponential(0).replace("e+", "e");
  const rounded = Number(v.toPrecision(6));
  return magnitude >= 1e4 ? rounded.toLocaleString("en") : String(rounded);
}

const letter = 7.2; // pixels that a letter of a row's name takes

// nameRoom is what the names of a figure's rows take at its left: the longest one, but no
// more than two fifths of the figure.
export function nameRoom(names: string[], width: number): number {
  return Math.min(Math.max(90, 12 + letter * Math.max(0, ...names.map((n) => n.length))), width * 0.4);
}

// fitted is a name without its middle, where the room is too small for all of it: names of
// targets differ at both ends. The pointer shows the whole name.
export function fitted(name: string, room: number): string {
  const most = Math.max(5, Math.floor((room - 12) / letter));
  if (name.length <= most) return name;
  const head = Math.ceil((most - 1) / 2);
  return `${name.slice(0, head)}…${name.slice(name.length - (most - 1 - head))}`;
}

// swarm gives each point a vertical place in [-0.5, 0.5] so that points that
// would cover each other stand beside each other; where a column is too full,
// its points move together.
export function swarm(pixels: number[], diameter: number, room: number): number[] {
  const columns = new Map<number, number>();
  const rank = pixels.map((x) => {
    const column = Math.round(x / diameter);
    const n = columns.get(column) ?? 0;
    columns.set(column, n + 1);
    return { column, n };
  });
  return rank.map(({ column, n }) => {
    const count = columns.get(column)!;
    const step = Math.min(diameter, room / Math.max(count, 1)) / room;
    const side = n % 2 === 0 ? 1 : -1;
    return side * Math.ceil(n / 2) * step;
  });
}
