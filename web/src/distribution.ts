import * as Plot from "@observablehq/plot";
import * as d3 from "d3";
import { choose, chosen } from "./address";
import { drawn, h, identity } from "./dom";
import { fitted, nameRoom, plain, ratioTicks, swarm, tip as pointer, tipText } from "./scale";
import type { Entry, Group, Page } from "./types";
import { look } from "./verdict";

const bandHeight = 44;
const radius = 2;

interface Dot {
  x: number;
  y: number;
  tip: string;
}

// distributions shows a group's samples, one metric at a time.
export function distributions(page: Page, group: Group): HTMLElement {
  const figure = h("div", { class: "figure" });
  const note = h("p", { class: "note" });
  let entry = group.primary[0] ?? group.all[0];
  const redraw = (width: number) => {
    figure.replaceChildren(draw(entry, width));
    note.textContent = describe(page, entry);
  };
  drawn(figure, redraw);
  const id = identity("metric");
  const pick = h(
    "select",
    { id, change: () => { choose(`metric.${group.name}`, group.all[pick.selectedIndex].claim.metric.name); show(); } },
    ...group.all.map((e) => h("option", { selected: e === entry }, e.claim.metric.name)),
  );
  function show(): void {
    entry = group.all[pick.selectedIndex];
    if (figure.clientWidth > 0) redraw(figure.clientWidth);
  }
  chosen(`metric.${group.name}`, (value) => {
    const i = group.all.findIndex((e) => e.claim.metric.name === value);
    if (i < 0) return;
    pick.selectedIndex = i;
    show();
  });
  return h(
    "div",
    { class: "distribution" },
    h("div", { class: "title-row" }, h("h3", {}, group.name), group.all.length > 1 ? h("label", { for: id, class: "pick" }, "metric ", pick) : null),
    figure,
    note,
  );
}

function describe(page: Page, entry: Entry): string {
  const samples = d3.sum(entry.claim.rows, (r) => r.summary.n);
  const lost = d3.sum(entry.shapes, (s) => s.leftOut ?? 0);
  if (!entry.shapes.some((s) => s.density)) return `All ${samples.toLocaleString("en")} samples are shown, one dot each; lines are medians, boxes their intervals.`;
  const parts = [
    `${samples.toLocaleString("en")} samples are too many for one dot each (a page shows ${page.pointsMost.toLocaleString("en")}): shapes are densities of the samples that are no outliers, dots are outliers (modified z-score above 3.5).`,
  ];
  if (lost > 0) parts.push(`${lost.toLocaleString("en")} outliers nearer to their median are not drawn.`);
  return parts.join(" ");
}

function draw(entry: Entry, width: number): Element {
  const { claim, shown, shapes } = entry;
  const f = shown.scale.factor;
  const rows = claim.rows.length;
  const values = shapes.flatMap((s) => [...(s.dots ?? []), ...(s.outliers ?? []), ...(s.density ? [s.density.low, s.density.high] : [])]).map((v) => v / f);
  const left = nameRoom(claim.rows.map((r) => r.label), width);
  const { log, domain } = extent(values);
  const range: [number, number] = [left + 4, width - 14];
  const x = log ? d3.scaleLog(domain, range) : d3.scaleLinear(domain, range);
  const ticks = log ? ratioTicks(domain, range[1] - range[0]) : d3.ticks(domain[0], domain[1], Math.max(2, Math.floor((range[1] - range[0]) / 70)));
  const height = rows * bandHeight + 46;
  const medians = claim.rows.flatMap((r, y) => (r.summary.n > 0 ? [{ y, x: r.summary.median / f, low: r.summary.interval.low / f, high: r.summary.interval.high / f, known: r.summary.interval.method !== "none" && r.summary.interval.method !== "" }] : []));
  return Plot.plot({
    width,
    height,
    marginTop: 4,
    marginBottom: 42,
    marginLeft: left,
    marginRight: 14,
    className: "plot",
    ariaLabel: `${claim.group}, ${claim.metric.name}: every sample of each target; the table of all numbers holds their summaries`,
    x: { type: log ? "log" : "linear", domain, range, label: `${claim.metric.name}${shown.scale.unit ? `, ${shown.scale.unit}` : ""}${log ? " (log axis)" : ""}` },
    y: { type: "linear", domain: [rows - 0.5, -0.5], range: [rows * bandHeight + 4, 4], label: null },
    color: { type: "identity" },
    marks: [
      Plot.gridX(ticks, { stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX(ticks, { text: plain, labelArrow: "none", labelAnchor: "center", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY(d3.range(rows), { tickSize: 0, fontSize: 12.5, fill: "var(--ink)", tickFormat: (i: number) => fitted(claim.rows[i].label, left) }),
      Plot.rect(medians.filter((m) => m.known), { x1: "low", x2: "high", y1: (m) => m.y - 0.4, y2: (m) => m.y + 0.4, fill: "var(--box)", className: "m-median-interval" }),
      ...claim.rows.flatMap((_, y) => rowMarks(entry, y, f, x)),
      Plot.ruleX(medians, { x: "x", y1: (m) => m.y - 0.4, y2: (m) => m.y + 0.4, stroke: "var(--ink)", strokeWidth: 1.5, className: "m-median" }),
    ],
  });
}

function rowMarks(entry: Entry, y: number, f: number, x: (v: number) => number): Plot.Markish[] {
  const shape = entry.shapes[y];
  const row = entry.claim.rows[y];
  const color = `var(--${look(entry.shown.rows[y]).name})`;
  const unit = entry.shown.scale.unit;
  const name = (v: number, i: number, what: string) => `${row.label}, ${what}${shape.dots ? ` ${i + 1}` : ""}: ${Number((v / f).toPrecision(5))}${unit ? ` ${unit}` : ""}`;
  const points = shape.dots ?? shape.outliers ?? [];
  const offsets = swarm(points.map((v) => x(v / f)), 2 * radius, bandHeight * 0.8);
  const dots: Dot[] = points.map((v, i) => ({ x: v / f, y: y + offsets[i] * 0.8, tip: name(v, i, shape.dots ? "sample" : "outlier") }));
  const marks: Plot.Markish[] = [];
  if (shape.density) marks.push(violin(shape.density, y, f, color));
  marks.push(Plot.dot(dots, { x: "x", y: "y", r: radius, fill: color, fillOpacity: 0.62, className: shape.dots ? "m-sample" : "m-outlier", title: (d: { tip: string }) => tipText(d.tip), tip: pointer }));
  return marks;
}

function violin(d: { low: number; high: number; log?: boolean; counts: number[] }, y: number, f: number, color: string): Plot.Markish {
  const most = Math.max(...d.counts, 1);
  const n = d.counts.length;
  const at = (q: number) => (d.log ? d.low * Math.pow(d.high / d.low, q) : d.low + (d.high - d.low) * q) / f;
  const outline = d.counts.flatMap((c, i) => [{ x: at((i + 0.5) / n), half: (0.42 * c) / most }]);
  return Plot.areaY(outline, { x: "x", y1: (o) => y - o.half, y2: (o) => y + o.half, fill: color, fillOpacity: 0.45, stroke: color, strokeOpacity: 0.8, strokeWidth: 0.8, className: "m-density" });
}

function extent(values: number[]): { log: boolean; domain: [number, number] } {
  const low = d3.min(values) ?? 0;
  const high = d3.max(values) ?? 1;
  if (low > 0 && high > 20 * low) {
    const room = Math.pow(high / low, 0.03);
    return { log: true, domain: [low / room, high * room] };
  }
  const room = (high - low || Math.abs(high) || 1) * 0.04;
  return { log: false, domain: [low - room, high + room] };
}
