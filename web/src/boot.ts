import { h } from "./dom";
import { flameGraph } from "./flame";
import type { BootProfile, Frame, Page } from "./types";

const svgNS = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const element = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, String(v));
  if (text) element.textContent = text;
  return element;
}

const left = 190, right = 14, width = 1000, lane = 15, markRows = 3, top = 20 + markRows * 12;
const shownParts = 10, shownUnits = 24, shownProcesses = 24;

// A Bar is a stretch of time in a lane, in seconds since the request.
interface Bar { from: number; to: number; what: string; failed?: boolean; busy?: number }
interface Lane { name: string; bars: Bar[]; unit?: boolean }

// parts are those of all boots together that cost most: the same lanes in each
// chart, so that one can be read above the other.
function parts(boots: BootProfile[]): string[] {
  const cost = new Map<string, number>();
  for (const b of boots) for (const s of b.steps ?? []) cost.set(s.part, (cost.get(s.part) ?? 0) + s.took);
  return [...cost].sort((a, b) => b[1] - a[1]).slice(0, shownParts).map(([name]) => name);
}

// processes are those that used most CPU time, from their start until they were seen
// last, the darker the busier.
function processes(b: BootProfile): Lane[] {
  const began = b.began ?? 0;
  return (b.processes ?? []).slice(0, shownProcesses).sort((x, y) => x.start - y.start).map((p) => ({
    name: `${p.name} [${p.pid}]`, unit: true,
    bars: [{
      from: began + p.start, to: began + p.end, busy: Math.min(1, p.cpu / Math.max(p.end - p.start, 0.01)),
      what: `process ${p.pid} of ${p.parent}, ${p.name}: ${p.cpu.toFixed(2)} s of CPU time from ${(began + p.start).toFixed(2)} s until seen last at ${(began + p.end).toFixed(2)} s`,
    }],
  }));
}

// lanes are the parts of the kernel, below them the boot's units that took longest,
// in the order of their start, and its processes.
function lanes(b: BootProfile, names: string[]): Lane[] {
  const began = b.began ?? 0;
  const kernel = names.map((name) => ({
    name,
    bars: (b.steps ?? []).filter((s) => s.part === name).map((s) => ({
      from: began + s.at - s.took, to: began + s.at, what: `${(s.took * 1000).toFixed(1)} ms before, at ${(began + s.at).toFixed(3)} s: ${s.line}`,
    })),
  })).filter((l) => l.bars.length);
  const units = [...(b.units ?? [])].sort((x, y) => y.active - y.start - (x.active - x.start)).slice(0, shownUnits)
    .filter((u) => u.active > u.start).sort((x, y) => x.start - y.start)
    .map((u) => ({
      name: u.name, unit: true,
      bars: [{ from: began + u.start, to: began + u.active, failed: u.failed, what: `${u.name}: ${(u.active - u.start).toFixed(2)} s until ${u.failed ? "it failed" : "active"}, at ${(began + u.active).toFixed(2)} s` }],
    }));
  return [...kernel, ...units, ...processes(b)];
}

// axis draws about eight round times between two.
function axis(drawing: SVGElement, from: number, to: number, height: number, x: (t: number) => number) {
  const rough = (to - from) / 8, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough) ?? rough;
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    drawing.append(svg("line", { x1: x(t), x2: x(t), y1: top - 4, y2: height, stroke: "var(--muted)", "stroke-opacity": 0.2 }));
    drawing.append(svg("text", { x: x(t), y: 11, "text-anchor": "middle", "font-size": 11, fill: "var(--muted)" }, `${+t.toPrecision(4)} s`));
  }
}

// milestones are lines over all lanes; their names stand in the first row that has room.
function milestones(drawing: SVGElement, b: BootProfile, from: number, to: number, height: number, x: (t: number) => number) {
  const taken: number[] = Array(markRows).fill(left - 40);
  for (const m of b.marks ?? []) {
    if (m.at < from || m.at > to) continue;
    const wide = m.name.length * 5.6 + 6, at = x(m.at);
    const before = at + wide > width; // its name stands left of it at the edge
    const begin = before ? at - wide : at;
    const row = taken.findIndex((t) => begin > t);
    const line = svg("line", { x1: at, x2: at, y1: 14, y2: height, stroke: "currentColor", "stroke-opacity": 0.55, "stroke-dasharray": "3 2" });
    line.append(svg("title", {}, `${m.name}: ${m.at.toFixed(3)} s after the request`));
    drawing.append(line);
    if (row < 0) continue;
    taken[row] = begin + wide;
    drawing.append(svg("text", { x: before ? at - 3 : at + 3, y: 24 + row * 12, "text-anchor": before ? "end" : "start", "font-size": 10, fill: "currentColor" }, m.name));
  }
}

// clipped is a name that fits left of the lanes.
const clipped = (name: string) => (name.length > 30 ? name.slice(0, 29) + "…" : name);

// chart draws one boot between two times.
function chart(b: BootProfile, rows: Lane[], from: number, to: number): SVGElement {
  const height = top + rows.length * lane + 2;
  const x = (t: number) => left + ((t - from) / (to - from)) * (width - left - right);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `Boot of ${b.target} from ${from.toPrecision(3)} to ${to.toPrecision(3)} seconds` });
  axis(drawing, from, to, height, x);
  rows.forEach((row, i) => {
    const y = top + i * lane;
    const name = svg("text", { x: left - 8, y: y + 11, "text-anchor": "end", "font-size": 11, fill: row.unit ? "var(--muted)" : "currentColor" }, clipped(row.name));
    name.append(svg("title", {}, row.name));
    drawing.append(name);
    for (const bar of row.bars) {
      const begin = Math.max(bar.from, from), end = Math.min(bar.to, to);
      if (end < begin) continue;
      const look: Record<string, string | number> = bar.failed ? { fill: "none", stroke: "currentColor" } : { fill: "var(--bar)", "fill-opacity": bar.busy === undefined ? (row.unit ? 0.55 : 1) : 0.15 + 0.75 * bar.busy };
      const rect = svg("rect", { x: x(begin), y: y + 2, width: Math.max(1, x(end) - x(begin)), height: lane - 4, ...look });
      rect.append(svg("title", {}, bar.what));
      drawing.append(rect);
    }
  });
  milestones(drawing, b, from, to, height, x);
  return drawing;
}

// costs are a boot's initcalls as frames: each on the Kconfig symbol that has it built,
// where that is known, and this on the part of the kernel that it starts.
function costs(b: BootProfile): Frame {
  const all: Frame = { name: "all", value: 0, children: [] };
  for (const c of b.calls ?? []) {
    let frame = all;
    for (const name of [c.part, ...(c.symbol ? [c.symbol] : []), c.name]) {
      frame.value += c.own;
      let child = frame.children!.find((f) => f.name === name);
      if (!child) frame.children!.push((child = { name, value: 0, children: [] }));
      frame = child;
    }
    frame.value += c.own;
  }
  return all;
}

// bootCosts are the flame graphs of the boots that told of their initcalls, the
// same for one kernel.
function bootCosts(boots: BootProfile[]): HTMLElement[] {
  const seen = new Set<string>();
  return boots.filter((b) => {
    const same = JSON.stringify(b.calls ?? []);
    return same !== "[]" && !seen.has(same) && seen.add(same);
  }).map((b) => flameGraph(costs(b), b.target, `${b.target}: its kernel's initcalls by part${b.calls?.some((c) => c.symbol) ? " and Kconfig symbol" : ""}, without what they waited for`,
    "The wider a frame, the more of the kernel's own time; a click zooms in. Told by a boot apart.", "find an initcall, symbol or part"));
}

// lasts is when a boot's chart ends: with its last mark, else with its console.
const lasts = (b: BootProfile) => Math.max((b.began ?? 0) + b.end, ...(b.marks ?? []).map((m) => m.at));

// bootCharts are the kept boots above one another on one axis of time, of which a
// stretch can be chosen.
export function bootCharts(page: Page): HTMLElement[] {
  const boots = page.claims.trim?.profiles ?? [];
  if (!boots.length) return [];
  const longest = Math.max(...boots.map(lasts)), names = parts(boots);
  const drawings = h("div", {}), shown = h("output", {}, "");
  const slider = (label: string, min: number, value: number) => h("input", { type: "range", min, max: 100, step: 1, value, "aria-label": label }) as HTMLInputElement;
  const start = slider("Where the shown stretch begins", 0, 0), share = slider("How much of the boots is shown", 1, 100);
  const draw = () => {
    const length = (longest * Number(share.value)) / 100, from = ((longest - length) * Number(start.value)) / 100;
    shown.textContent = `${from.toFixed(1)} s to ${(from + length).toFixed(1)} s`;
    drawings.replaceChildren(...boots.flatMap((b) => [h("h4", {}, b.target), chart(b, lanes(b, names), from, from + length) as unknown as Node]));
  };
  for (const s of [start, share]) s.addEventListener("input", draw);
  draw();
  return [h("figure", { class: "boots" },
    h("figcaption", {}, "One boot of each target since the request: the time before each line of the kernel, by whose line it is; below, systemd's units from their start until active, and the processes that used most CPU time, the darker the busier; dashed, the milestones on the host's clock"),
    h("p", {}, h("label", {}, "length ", share), " ", h("label", {}, "begin ", start), " ", shown), drawings), ...bootCosts(boots)];
}
