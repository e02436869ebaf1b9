import { h } from "./dom";
import type { Chain } from "./types";

const svgNS = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const element = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, String(v));
  if (text) element.textContent = text;
  return element;
}

const height = 30, letter = 7.3, padding = 18, gap = 14;

// diagram draws one chain from end to end.
function diagram({ boxes }: Chain): Element {
  const widths = boxes.map((b) => b.name.length * letter + padding);
  const total = widths.reduce((sum, w) => sum + w + gap, -gap) + 2;
  const drawing = svg("svg", { viewBox: `0 0 ${total} ${height + 2}`, width: total, height: height + 2, role: "img", "aria-label": boxes.map((b) => b.name).join(", then ") });
  let x = 1;
  boxes.forEach((b, i) => {
    if (i > 0) drawing.append(svg("line", { x1: x - gap, x2: x, y1: height / 2 + 1, y2: height / 2 + 1, stroke: "var(--muted)", "stroke-width": 1.5 }));
    drawing.append(svg("rect", { x, y: 1, width: widths[i], height, rx: b.place ? 4 : 15, fill: b.place ? "var(--bar)" : "none", "fill-opacity": 0.18, stroke: b.place ? "var(--bar)" : "var(--muted)" }));
    drawing.append(svg("text", { x: x + widths[i] / 2, y: height / 2 + 5, "text-anchor": "middle", "font-size": 12, fill: "currentColor" }, b.name));
    x += widths[i] + gap;
  });
  return drawing;
}

// chains draws chains of boxes one below the other, each with its name.
export function chains(title: string, all: Chain[]): HTMLElement {
  return h("figure", { class: "chains" },
    h("figcaption", {}, title),
    h("dl", {}, ...all.flatMap((c) => [h("dt", {}, c.name), h("dd", { class: "scroll", tabindex: 0 }, diagram(c) as unknown as Node)])));
}
