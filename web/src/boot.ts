import { h } from "./dom";
import type { BootProfile, Page } from "./types";

const svgNS = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const element = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, String(v));
  if (text) element.textContent = text;
  return element;
}

const left = 150, right = 12, width = 1000, lane = 17, top = 18;

// parts are those of both boots together that cost most: the lanes, the same in
// each chart, so that one can be read above the other.
function parts(boots: BootProfile[]): string[] {
  const cost = new Map<string, number>();
  for (const b of boots) for (const s of b.steps ?? []) cost.set(s.part, (cost.get(s.part) ?? 0) + s.took);
  return [...cost].sort((a, b) => b[1] - a[1]).slice(0, 14).map(([name]) => name);
}

// axis draws about eight round times over the first `end` seconds.
function axis(drawing: SVGElement, end: number, height: number) {
  const rough = end / 8, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough) ?? rough;
  for (let t = 0; t <= end; t += step) {
    const x = left + (t / end) * (width - left - right);
    drawing.append(svg("line", { x1: x, x2: x, y1: top - 4, y2: height, stroke: "var(--muted)", "stroke-opacity": 0.25 }));
    drawing.append(svg("text", { x, y: top - 7, "text-anchor": "middle", "font-size": 11, fill: "var(--muted)" }, `${+t.toPrecision(4)} s`));
  }
}

// chart draws one boot: for each part, the time before its lines.
function chart(b: BootProfile, names: string[], end: number): SVGElement {
  const height = top + names.length * lane + 2;
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `Boot of ${b.target} over ${end.toPrecision(3)} seconds` });
  axis(drawing, end, height);
  names.forEach((name, i) => drawing.append(svg("text", { x: left - 8, y: top + i * lane + 12, "text-anchor": "end", "font-size": 12, fill: "currentColor" }, name)));
  for (const s of b.steps ?? []) {
    const row = names.indexOf(s.part), from = s.at - s.took;
    if (row < 0 || from > end) continue;
    const scale = (width - left - right) / end;
    const bar = svg("rect", { x: left + from * scale, y: top + row * lane + 2, width: Math.max(1, (Math.min(s.at, end) - from) * scale), height: lane - 4, fill: "var(--bar)" });
    bar.append(svg("title", {}, `${(s.took * 1000).toFixed(1)} ms before, at ${s.at.toFixed(3)} s: ${s.line}`));
    drawing.append(bar);
  }
  return drawing;
}

// bootCharts are the kept boots above one another on one axis of time, which can
// be stretched to their beginning.
export function bootCharts(page: Page): HTMLElement[] {
  const boots = page.claims.trim?.profiles ?? [];
  if (!boots.length) return [];
  const longest = Math.max(...boots.map((b) => b.end)), names = parts(boots);
  const drawings = h("div", {});
  const shown = h("output", {}, "");
  const draw = (share: number) => {
    const end = longest * share;
    shown.textContent = `the first ${end.toPrecision(3)} s`;
    drawings.replaceChildren(...boots.flatMap((b) => [h("h4", {}, b.target), chart(b, names, end) as unknown as Node]));
  };
  const zoom = h("input", { type: "range", min: 2, max: 100, value: 100, "aria-label": "How much of the boots is shown" });
  zoom.addEventListener("input", () => draw(Number(zoom.value) / 100));
  draw(1);
  return [h("figure", { class: "boots" }, h("figcaption", {}, "Boots by the kernel's clock: the time before each line, by whose line it is"), h("p", {}, zoom, " ", shown), drawings)];
}
