import { h } from "./dom";
import { fitted } from "./scale";
import type { Figure, TimelineRow } from "./types";

const svgNS = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const element = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, String(v));
  if (text) element.textContent = text;
  return element;
}

const left = 210, right = 14, width = 1000, lane = 15, markRows = 3, top = 20 + markRows * 12;
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
function milestones(drawing: SVGElement, b: TimelineRow, from: number, to: number, height: number, x: (t: number) => number) {
  const taken: number[] = Array(markRows).fill(left - 40);
  for (const m of b.marks ?? []) {
    if (m.at < from || m.at > to) continue;
    const wide = m.name.length * 5.6 + 6, at = x(m.at);
    const before = at + wide > width; // its name stands left of it at the edge
    const begin = before ? at - wide : at;
    const row = taken.findIndex((t) => begin > t);
    const line = svg("line", { x1: at, x2: at, y1: 14, y2: height, stroke: "currentColor", "stroke-opacity": 0.55, "stroke-dasharray": "3 2" });
    line.append(svg("title", {}, `${m.name}: ${m.at.toFixed(3)} s`));
    drawing.append(line);
    if (row < 0) continue;
    taken[row] = begin + wide;
    drawing.append(svg("text", { x: before ? at - 3 : at + 3, y: 24 + row * 12, "text-anchor": before ? "end" : "start", "font-size": 10, fill: "currentColor" }, m.name));
  }
}

// chart draws one row between two times.
function chart(b: TimelineRow, from: number, to: number): SVGElement {
  const lanes = b.lanes ?? [];
  const height = top + lanes.length * lane + 2;
  const x = (t: number) => left + ((t - from) / (to - from)) * (width - left - right);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `${b.name} from ${from.toPrecision(3)} to ${to.toPrecision(3)} seconds` });
  axis(drawing, from, to, height, x);
  lanes.forEach((row, i) => {
    const y = top + i * lane;
    const name = svg("text", { x: left - 8, y: y + 11, "text-anchor": "end", "font-size": 11, fill: row.minor ? "var(--muted)" : "currentColor" }, fitted(row.name, (left * 12) / 11)); // its letters are smaller than a figure's
    name.append(svg("title", {}, row.name));
    drawing.append(name);
    for (const bar of row.stretches) {
      const begin = Math.max(bar.from, from), end = Math.min(bar.to, to);
      if (end < begin) continue;
      const look: Record<string, string | number> = bar.failed ? { fill: "none", stroke: "currentColor" } : { fill: "var(--bar)", "fill-opacity": 0.15 + 0.75 * bar.share };
      const rect = svg("rect", { x: x(begin), y: y + 2, width: Math.max(1, x(end) - x(begin)), height: lane - 4, ...look });
      rect.append(svg("title", {}, bar.tip));
      drawing.append(rect);
    }
  });
  milestones(drawing, b, from, to, height, x);
  return drawing;
}

// timeline draws rows above one another on one axis of time, of which a stretch can be
// chosen.
export function timeline(f: Figure): HTMLElement {
  const rows = f.timeline!.rows;
  const longest = Math.max(...rows.map((r) => r.end));
  const drawings = h("div", {}), shown = h("output", {}, "");
  const slider = (label: string, min: number, value: number) => h("input", { type: "range", min, max: 100, step: 1, value, "aria-label": label }) as HTMLInputElement;
  const start = slider("Where the shown stretch begins", 0, 0), share = slider("How much of the time is shown", 1, 100);
  const draw = () => {
    const length = (longest * Number(share.value)) / 100, from = ((longest - length) * Number(start.value)) / 100;
    shown.textContent = `${from.toFixed(1)} s to ${(from + length).toFixed(1)} s`;
    drawings.replaceChildren(...rows.flatMap((r) => [h("h4", {}, r.name), chart(r, from, from + length) as unknown as Node]));
  };
  for (const s of [start, share]) s.addEventListener("input", draw);
  draw();
  return h("figure", { class: "timeline" }, h("figcaption", {}, f.title),
    h("p", {}, h("label", {}, "length ", share), " ", h("label", {}, "begin ", start), " ", shown), drawings);
}
