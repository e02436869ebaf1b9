import * as Plot from "@observablehq/plot";
import * as d3 from "d3";
import { chains } from "./chain";
import { drawn, h } from "./dom";
import { flameGraph } from "./flame";
import { ratios } from "./ratios";
import { fitted, nameRoom, plain, ratioTicks, tip as pointer, tipText } from "./scale";
import { timeline } from "./timeline";
import type { Axis, Bar, Dots, Figure, Line, Look, Part } from "./types";

// Colours that stay apart from each other in both themes and without colour
// vision (Okabe and Ito 2008, black left out, yellow darkened), and a grey; symbols
// and dashes say the same again.
const colors = ["var(--bar)", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#b8a800", "#8c8c8c"];
const symbols: Plot.SymbolType[] = ["circle", "square", "triangle2", "diamond2", "cross", "star"];
const dashes: Record<Look, string | undefined> = { measured: undefined, published: "6 4", fit: "2 2", series: undefined, pale: undefined };

// figure draws one chart that the report describes; row holds the figures that
// stand beside it, which have its vertical scale.
export function figure(f: Figure, row: Figure[]): HTMLElement {
  if (f.timeline) return timeline(f);
  if (f.flame) return flameGraph(f.flame.frame, f.flame.of, f.title, f.flame.note, f.flame.find, f.flame.unit);
  if (f.chains) return chains(f.title, f.chains);
  if (f.forest) return ratios(f.title, f.x.label, f.forest);
  const drawing = h("div", { class: "figure" });
  const [draw, keys] = kind(f, row);
  drawn(drawing, (width) => drawing.replaceChildren(draw(width)));
  return h("figure", {}, h("figcaption", {}, f.title), keys, drawing);
}

// kind gives what draws a figure, and the figure's keys.
function kind(f: Figure, row: Figure[]): [(width: number) => Element, HTMLElement | null] {
  if (f.bars?.length) return [(width) => bars(f, width), barKeys(f.bars)];
  if (f.dots?.length) return [(width) => dots(f, row, width), dotKeys(f.dots)];
  return [(width) => lines(f, row, width), lineKeys(f.lines ?? [])];
}

// names of what has a colour of its own: a law shares that of the curve whose
// name it begins with, a published curve has none.
function coloured(all: Line[]): string[] {
  return [...new Set(all.filter((l) => l.look === "measured" || l.look === "series").map((l) => l.name))];
}

function color(l: Line, all: Line[]): string {
  if (l.look === "published") return "var(--muted)";
  if (l.look === "pale") return "var(--bar-pale)";
  const names = coloured(all);
  const i = names.findIndex((n) => l.name === n || l.name.startsWith(`${n}:`));
  return i < 0 ? "var(--ink)" : colors[i % colors.length];
}

function symbol(l: Line, all: Line[]): Plot.SymbolType {
  return symbols[Math.max(0, coloured(all).indexOf(l.name)) % symbols.length];
}

function lineKeys(all: Line[]): HTMLElement | null {
  if (all.length < 2) return null;
  const pale = all.find((l) => l.look === "pale");
  const key = (l: Line, name: string) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "key");
    svg.setAttribute("viewBox", "0 0 26 10");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", "M0,5H26");
    path.setAttribute("stroke", color(l, all));
    path.setAttribute("stroke-width", thin(l) ? "1.2" : "2.2");
    if (dashes[l.look]) path.setAttribute("stroke-dasharray", dashes[l.look]!);
    svg.append(path);
    return h("li", {}, svg, " ", name);
  };
  return h("ul", { class: "keys" }, ...all.filter((l) => l !== pale && l.look !== "pale").map((l) => key(l, l.name)), pale ? key(pale, "the others") : null);
}

const thin = (l: Line) => l.look === "fit" || l.look === "pale";

function extent(row: Figure[], axis: (f: Figure) => Axis, values: (l: Line) => number[]): [number, number] {
  const all = row.flatMap((f) => (f.lines ?? []).flatMap(values)).filter((v) => Number.isFinite(v) && (!axis(row[0]).log || v > 0));
  const [low, high] = [d3.min(all) ?? 0, d3.max(all) ?? 1];
  const to = axis(row[0]).to;
  if (to) return [Math.min(axis(row[0]).zero ? 0 : to, low), to];
  if (axis(row[0]).log) return low === high ? [low / 1.5, high * 1.5] : [low / 1.06, high * 1.06];
  const from = axis(row[0]).zero ? Math.min(0, low) : low;
  const room = (high - from || Math.abs(high) || 1) * 0.05;
  return [axis(row[0]).zero && from === 0 ? 0 : from - room, high + room];
}

function scale(a: Axis, domain: [number, number], length: number) {
  return { type: a.log ? ("log" as const) : ("linear" as const), domain, label: a.label, ticks: a.log ? ratioTicks(domain, length) : Math.max(2, Math.floor(length / 70)) };
}

function lines(f: Figure, row: Figure[], width: number): Element {
  const height = Math.round(Math.min(340, Math.max(220, width * 0.55)));
  const all = f.lines ?? [];
  const x = scale(f.x, extent([f], (g) => g.x, (l) => l.points.map((p) => p.x)), width - 70);
  const counts = !f.x.log && all.every((l) => l.look === "fit" || l.points.every((p) => Number.isInteger(p.x)));
  const y = scale(f.y, extent(row, (g) => g.y, (l) => l.points.flatMap((p) => [p.y, p.low, p.high])), height * 1.4);
  const text = all.map((l) => `${l.name}: ${l.points.map((p) => `${plain(p.x)}: ${plain(p.y)}`).join(", ")}`).join("; ");
  return Plot.plot({
    width, height, marginLeft: 58, marginBottom: 42, marginTop: 22, marginRight: 14,
    className: "plot",
    ariaLabel: `${f.title}. ${f.y.label} over ${f.x.label}. ${text}`,
    x: { type: x.type, domain: x.domain, label: null },
    y: { type: y.type, domain: y.domain, label: null },
    color: { type: "identity" },
    marks: [
      Plot.gridY({ ticks: y.ticks, stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX({ ticks: counts ? d3.ticks(...x.domain, x.ticks as number).filter(Number.isInteger) : x.ticks, tickFormat: plain, label: f.x.label, labelAnchor: "center", labelArrow: "none", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY({ ticks: y.ticks, tickFormat: plain, label: f.y.label, labelArrow: "none", tickSize: 0, fontSize: 11, fill: "var(--muted)" }),
      ...all.flatMap((l) => curve(l, all, f.y.to ?? Infinity)),
    ],
  });
}

// curve draws a line; what is above to is drawn there.
function curve(l: Line, all: Line[], to: number): Plot.Markish[] {
  const stroke = color(l, all);
  const within = (y: number) => Math.min(y, to);
  const path = Plot.line(l.points, { x: "x", y: (p) => within(p.y), stroke, strokeWidth: thin(l) ? 1.2 : 2, strokeDasharray: dashes[l.look], className: `m-${l.look}`, title: l.look === "pale" ? () => l.name : undefined });
  if (thin(l) || l.look === "series") return [path];
  return [
    path,
    Plot.link(l.points.filter((p) => p.high > p.low), { x1: "x", x2: "x", y1: (p) => within(p.low), y2: (p) => within(p.high), stroke, strokeWidth: 1.4, className: "m-interval" }),
    Plot.dot(l.points, {
      x: "x", y: (p) => within(p.y), r: 3.6, symbol: symbol(l, all), stroke, fill: l.look === "published" ? "var(--paper)" : stroke, className: `m-${l.look}-point`,
      title: (p) => tipText(`${l.name}\n${plain(p.x)}: ${plain(p.y)}${p.high > p.low ? ` [${plain(p.low)}, ${plain(p.high)}]` : ""}${p.tip ? `\n${p.tip}` : ""}`),
      tip: pointer,
    }),
  ];
}

const partNames = (all: Bar[]) => [...new Set(all.flatMap((b) => b.parts.map((p) => p.name ?? "")))];

function barKeys(all: Bar[]): HTMLElement | null {
  const names = partNames(all);
  if (names.length < 2) return null;
  return h("ul", { class: "keys" }, ...names.map((n, i) => h("li", {}, h("span", { class: "swatch", style: `background: ${colors[i % colors.length]}`, "aria-hidden": "true" }), " ", n)));
}

function bars(f: Figure, width: number): Element {
  const all = f.bars ?? [];
  const names = partNames(all);
  const total = (b: Bar) => d3.sum(b.parts, (p: Part) => p.value);
  const pieces = all.flatMap((b) => {
    let from = 0;
    return b.parts.map((p) => ({ bar: b.name, look: b.look, x1: from, x2: (from += p.value), fill: colors[names.indexOf(p.name ?? "") % colors.length], tip: `${b.name}${p.name ? `\n${p.name}` : ""}: ${plain(p.value)}` }));
  });
  const positive = pieces.map((p) => p.x2).filter((v) => v > 0);
  const left = nameRoom(all.map((b) => b.name), width);
  const high = d3.max(all, (b) => Math.max(total(b), b.high ?? 0)) ?? 1;
  const domain: [number, number] = f.y.log ? [(d3.min(positive) ?? 1) / 2, high * 1.1] : [Math.min(0, d3.min(pieces, (p) => p.x2) ?? 0), high * 1.05 || 1];
  const x = scale(f.y, domain, width - left);
  return Plot.plot({
    width, height: all.length * 26 + 52, marginLeft: left, marginBottom: 42, marginTop: 6, marginRight: 14,
    className: "plot",
    ariaLabel: `${f.title}. ${f.y.label}. ${all.map((b) => `${b.name}: ${plain(total(b))}`).join("; ")}`,
    x: { type: x.type, domain, label: null },
    y: { type: "band", domain: all.map((b) => b.name), padding: 0.25, label: null },
    color: { type: "identity" },
    marks: [
      Plot.gridX({ ticks: x.ticks, stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX({ ticks: x.ticks, tickFormat: plain, label: f.y.label, labelAnchor: "center", labelArrow: "none", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY({ tickFormat: (name: string) => fitted(name, left), tickSize: 0, fontSize: 12, fill: "var(--ink)" }),
      Plot.rect(pieces, {
        x1: (p) => (f.y.log ? Math.max(p.x1, domain[0]) : p.x1), x2: "x2", y: "bar", fill: "fill", fillOpacity: (p) => (p.look === "published" ? 0.35 : 0.85), className: "m-bar",
        title: (d: { tip: string }) => tipText(d.tip), tip: pointer,
      }),
      Plot.link(all.filter((b) => (b.high ?? 0) > (b.low ?? 0)), { x1: "low", x2: "high", y1: "name", y2: "name", stroke: "var(--ink)", strokeWidth: 1.6, className: "m-interval" }),
    ],
  });
}

// The looks of dots: what was measured is filled, what was published hollow; the
// symbol says the name again.
const dotColor = (d: Dots) => (d.look === "published" ? "var(--muted)" : "var(--bar)");
const dotSymbol = (d: Dots, all: Dots[]) => symbols[all.indexOf(d) % symbols.length];
const glyphs: Record<string, [string, string]> = { circle: ["○", "●"], square: ["□", "■"], triangle2: ["△", "▲"], diamond2: ["◇", "◆"], cross: ["+", "✚"], star: ["☆", "★"] };

function dotKeys(all: Dots[]): HTMLElement {
  return h("ul", { class: "keys" }, ...all.map((d) =>
    h("li", {}, h("span", { class: "glyph", style: `color: ${dotColor(d)}`, "aria-hidden": "true" }, glyphs[dotSymbol(d, all) as string][d.look === "published" ? 0 : 1]), " ", d.name)));
}

// dots draws values over names; all figures of a row have one scale.
function dots(f: Figure, row: Figure[], width: number): Element {
  const all = f.dots ?? [];
  const names = [...new Set(all.flatMap((d) => d.at.map((a) => a.row)))];
  const values = row.flatMap((g) => (g.dots ?? []).flatMap((d) => d.at.flatMap((a) => [a.value, a.low, a.high]))).filter((v) => Number.isFinite(v) && (!f.x.log || v > 0));
  const [low, high] = [d3.min(values) ?? 0, d3.max(values) ?? 1];
  const domain: [number, number] = f.x.log ? [low / 1.15, high * 1.15] : [Math.min(0, low), high * 1.05 || 1];
  const left = nameRoom(row.flatMap((g) => (g.dots ?? []).flatMap((d) => d.at.map((a) => a.row))), width);
  const x = scale(f.x, domain, width - left);
  const marks = all.flatMap((d) => d.at.map((a) => ({ ...a, stroke: dotColor(d), tip: `${d.name}\n${a.row}: ${plain(a.value)}${a.high > a.low ? ` [${plain(a.low)}, ${plain(a.high)}]` : ""}` })));
  return Plot.plot({
    width, height: names.length * 25 + 48, marginTop: 4, marginBottom: 40, marginLeft: left, marginRight: 12,
    className: "plot",
    ariaLabel: `${f.title}. ${f.x.label}. ${all.map((d) => `${d.name}: ${d.at.map((a) => `${a.row} ${plain(a.value)}`).join(", ")}`).join("; ")}`,
    x: { type: x.type, domain, label: null },
    y: { type: "point", domain: names, padding: 0.6, label: null },
    color: { type: "identity" },
    marks: [
      Plot.ruleY(names, { stroke: "var(--line)" }),
      Plot.axisX({ ticks: x.ticks, tickFormat: plain, label: `${f.x.label}${f.x.log ? ", log axis" : ""}`, labelAnchor: "center", labelArrow: "none", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY({ tickFormat: (name: string) => fitted(name, left), tickSize: 0, fontSize: 12, fill: "var(--ink)" }),
      Plot.link(marks.filter((m) => m.high > m.low), { x1: "low", x2: "high", y1: "row", y2: "row", stroke: "stroke", strokeWidth: 2, className: "m-interval" }),
      ...all.map((d) => Plot.dot(d.at, {
        x: "value", y: "row", r: 4.5, symbol: dotSymbol(d, all), stroke: dotColor(d), fill: d.look === "published" ? "var(--paper)" : dotColor(d), strokeWidth: 1.6, className: "m-dots",
        title: (a) => tipText(marks.find((m) => m.row === a.row && m.tip.startsWith(`${d.name}\n`))?.tip ?? ""), tip: pointer,
      })),
    ],
  });
}
