import { h } from "./dom";
import type { Page } from "./types";

// The ways between two ends, each as the boxes that a packet passes: what stands
// in square brackets is a namespace, the rest are links and what works on packets.
const ways: Record<string, string[]> = {
  loopback: ["[client and server]", "lo"],
  "host-network": ["[client, server: the host's]", "lo"],
  veth: ["[client]", "veth", "[server]"],
  bridge: ["[client]", "veth", "bridge", "veth", "[server]"],
  "bridge-netfilter": ["[client]", "veth", "bridge", "netfilter", "veth", "[server]"],
  bridges: ["[client]", "veth", "bridge", "routing", "bridge", "veth", "[server]"],
  vxlan: ["[client]", "veth", "bridge", "VXLAN", "link", "VXLAN", "bridge", "veth", "[server]"],
  nat: ["[client]", "veth", "bridge", "DNAT", "masquerade", "bridge", "veth", "[server]"],
  proxy: ["[client]", "veth", "bridge", "[proxy]", "bridge", "veth", "[server]"],
  macvlan: ["[client]", "macvlan", "[server]"],
  ipvlan: ["[client]", "ipvlan", "[server]"],
  "idle-engine": ["[client and server]", "lo beside an idle engine"],
  "from-host": ["[client: the host]", "bridge", "veth", "[server]"],
  attach: ["[client]", "veth", "bridge"],
};

const svgNS = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const element = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, String(v));
  if (text) element.textContent = text;
  return element;
}

const height = 30, letter = 7.3, padding = 18, gap = 14;

// diagram draws one way from the client to the server.
function diagram(parts: string[]): Element {
  const boxes = parts.map((p) => ({ place: p.startsWith("["), text: p.replace(/[[\]]/g, "") }));
  const widths = boxes.map((b) => b.text.length * letter + padding);
  const total = widths.reduce((sum, w) => sum + w + gap, -gap) + 2;
  const drawing = svg("svg", { class: "way", viewBox: `0 0 ${total} ${height + 2}`, width: total, height: height + 2, role: "img", "aria-label": boxes.map((b) => b.text).join(", then ") });
  let x = 1;
  boxes.forEach((b, i) => {
    if (i > 0) drawing.append(svg("line", { x1: x - gap, x2: x, y1: height / 2 + 1, y2: height / 2 + 1, stroke: "var(--muted)", "stroke-width": 1.5 }));
    drawing.append(svg("rect", { x, y: 1, width: widths[i], height, rx: b.place ? 4 : 15, fill: b.place ? "var(--bar)" : "none", "fill-opacity": 0.18, stroke: b.place ? "var(--bar)" : "var(--muted)" }));
    drawing.append(svg("text", { x: x + widths[i] / 2, y: height / 2 + 5, "text-anchor": "middle", "font-size": 12, fill: "currentColor" }, b.text));
    x += widths[i] + gap;
  });
  return drawing;
}

// networkFigures are the ways that the run has measured.
export function networkFigures(page: Page): HTMLElement[] {
  const paths = [...new Set(page.claims.tables.flatMap((t) => t.rows.map((r) => r.target.split("@")[1] ?? "")))].filter((p) => ways[p]);
  if (!paths.length) return [];
  return [
    h("figure", { class: "ways" },
      h("figcaption", {}, "The ways between client and server"),
      h("dl", {}, ...paths.flatMap((p) => [h("dt", {}, p), h("dd", { class: "scroll", tabindex: 0 }, diagram(ways[p]) as unknown as Node)]))),
  ];
}
