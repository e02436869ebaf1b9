import * as Plot from "@observablehq/plot";
import { drawn, h } from "./dom";
import { fitted, logDomain, nameRoom, plain, ratioTicks, tip, tipText } from "./scale";
import type { Forest } from "./types";

type Row = Forest["rows"][number];

const keys: Record<Row["shape"], [string, string]> = { dot: ["●", "a measurement with its interval"], hollow: ["○", "refused, does not count"], diamond: ["◆", "a mean with its interval"] };

// ratios draws ratios about 1, one in a row on a log axis: dots with bars, means as
// diamonds with a thin whisker to where one more value lies, the margin as a band.
export function ratios(title: string, label: string, f: Forest): HTMLElement {
  const drawing = h("div", { class: "figure" });
  drawn(drawing, (width) => drawing.replaceChildren(draw(title, label, f, width)));
  const shapes = [...new Set(f.rows.map((r) => r.shape))];
  const whisker = f.rows.some((r) => r.nextLow) ? [h("li", {}, h("span", { class: "glyph", "aria-hidden": "true" }, "┄"), " where the next one lies")] : [];
  return h("figure", {}, h("figcaption", {}, title), h("ul", { class: "keys" }, ...shapes.map((s) => h("li", {}, h("span", { class: "glyph", "aria-hidden": "true" }, keys[s][0]), " ", keys[s][1])), ...whisker), drawing);
}

function draw(title: string, label: string, f: Forest, width: number): Element {
  // A name may come twice, and a band takes each once: rows are told apart by their place.
  const rows = f.rows.map((r, i) => ({ ...r, at: String(i) }));
  const domain = logDomain(rows.flatMap((r) => [r.low, r.high, r.nextLow ?? r.low, r.nextHigh ?? r.high]), Math.max(f.band, 0.01));
  const left = nameRoom(rows.map((r) => r.name), width);
  const names = new Map(rows.map((r) => [r.at, fitted(r.name, left)]));
  const ticks = ratioTicks(domain, width - left);
  const means = rows.filter((r) => r.shape === "diamond");
  const single = rows.filter((r) => r.shape !== "diamond");
  const height = 10 + 44 + rows.length * 22;
  return Plot.plot({
    width, height, marginTop: 8, marginBottom: 40, marginLeft: left, marginRight: 12,
    className: "plot",
    ariaLabel: `${title}. ${label}. ${rows.map((r) => r.tip).join("; ")}`,
    x: { type: "log", domain, label: null },
    y: { type: "point", domain: rows.map((r) => r.at), padding: 0.6, label: null },
    color: { type: "identity" },
    marks: [
      Plot.rect([0], { x1: Math.max(domain[0], 1 / (1 + f.band)), x2: Math.min(domain[1], 1 + f.band), fill: "var(--bar-pale)", fillOpacity: 0.35, className: "m-band" }),
      Plot.ruleX([1], { stroke: "var(--muted)", strokeDasharray: "3 3" }),
      Plot.axisX({ ticks, tickFormat: plain, label: `${label}, log axis`, labelAnchor: "center", labelArrow: "none", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY({ tickFormat: (at: string) => names.get(at) ?? "", tickSize: 0, fontSize: 12, fill: "var(--ink)" }),
      Plot.link(single.filter((r) => r.high > r.low), { x1: "low", x2: "high", y1: "at", y2: "at", stroke: (r: Row) => (r.shape === "hollow" ? "var(--muted)" : "var(--bar)"), strokeWidth: 2, className: "m-interval" }),
      Plot.link(means.filter((r) => r.nextLow), { x1: "nextLow", x2: "nextHigh", y1: "at", y2: "at", stroke: "var(--ink)", strokeWidth: 1.2, strokeDasharray: "4 3", className: "m-next" }),
      Plot.link(means, { x1: "low", x2: "high", y1: "at", y2: "at", stroke: "var(--ink)", strokeWidth: 4.5, className: "m-interval" }),
      Plot.dot(rows, {
        x: "value", y: "at", r: (r: Row) => (r.shape === "diamond" ? 5.5 : 4), symbol: (r: Row) => (r.shape === "diamond" ? "diamond" : "circle"),
        stroke: (r: Row) => (r.shape === "diamond" ? "var(--ink)" : r.shape === "hollow" ? "var(--muted)" : "var(--bar)"),
        fill: (r: Row) => (r.shape === "hollow" ? "var(--paper)" : r.shape === "diamond" ? "var(--ink)" : "var(--bar)"), strokeWidth: 1.6, className: "m-dots",
        title: (r: Row) => tipText(r.tip), tip,
      }),
    ],
    r: { type: "identity" },
    symbol: { type: "identity" } as Plot.ScaleOptions,
  });
}
