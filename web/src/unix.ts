import * as Plot from "@observablehq/plot";
import * as d3 from "d3";
import { drawn, h, identity } from "./dom";
import { plain, ratioTicks } from "./scale";
import type { Estimate, Page, UnixClaims, UnixCurve, UnixPlatform } from "./types";

const places = new Map([
  ["1cpu-1copy", "One CPU, one copy in each container"],
  ["allcpu-ncopies", "All CPUs, a copy for each of them in every container"],
  ["allcpu-1copy", "All CPUs, one copy in each container"],
]);

const place = (environment: string) => places.get(environment) ?? (environment || "No limits");

// A line of the figure: what is drawn boldly has a look of its own, by colour,
// dash and symbol together; the other tests are there as pale lines.
interface Look {
  color: string;
  symbol: "circle" | "square" | "triangle2";
  dash: string;
}

const indexLook: Look = { color: "var(--bar)", symbol: "circle", dash: "" };
const steadyLook: Look = { color: "var(--cost)", symbol: "square", dash: "5 3" };
const chosenLook: Look = { color: "var(--gain)", symbol: "triangle2", dash: "2 2" };

interface Dot {
  n: number;
  y: number;
  low: number;
  high: number;
  tip: string;
}

// unixFigures are the published figures redrawn from their data beside the same
// figures from this machine.
export function unixFigures(page: Page): HTMLElement[] {
  const claims = page.claims.unix;
  return claims ? [figures(claims), machines(claims)] : [];
}

function unique<T>(all: T[]): T[] {
  return [...new Set(all)];
}

// hasHost are the targets that stand against the host: containers.
function containers(claims: UnixClaims): string[] {
  const all = unique(claims.curves.map((c) => c.target));
  const some = all.filter((t) => claims.curves.some((c) => c.target === t && c.points.some((p) => p.n === 0)));
  return some.length ? some : all;
}

function figures(claims: UnixClaims): HTMLElement {
  const targets = containers(claims);
  const tests = unique(claims.curves.filter((c) => c.test !== "index" && c.test !== "index as published").map((c) => c.test));
  const state = { target: targets[0], test: "" };
  const redraws: (() => void)[] = [];
  const again = () => redraws.forEach((r) => r());
  const choose = (label: string, names: string[], values: string[], set: (v: string) => void) => {
    const id = identity("choose");
    const select: HTMLSelectElement = h("select", { id, change: () => { set(values[select.selectedIndex]); again(); } }, ...names.map((n) => h("option", {}, n)));
    return h("label", { for: id, class: "pick" }, label, " ", select);
  };
  const environments = unique(claims.curves.map((c) => c.environment)).filter((e) => claims.published.some((c) => c.environment === e));
  const host = claims.published[0]?.target ?? "published";
  return h(
    "div",
    { class: "beside" },
    h("div", { class: "title-row" },
      h("h3", {}, "Score in each of n containers, relative to one"),
      h("span", {},
        targets.length > 1 ? choose("target", targets, targets, (v) => (state.target = v)) : null, " ",
        choose("also", ["no test", ...tests], ["", ...tests], (v) => (state.test = v)))),
    legend(),
    ...environments.flatMap((e) => {
      const pair = h("div", { class: "pair" });
      const domain = extent(claims, e);
      const as = claims.curves.find((c) => c.environment === e)?.measuredAs;
      const same = as ? `, measured as ${as}` : "";
      const panel = (title: string, curves: () => UnixCurve[]) => {
        const figure = h("div", { class: "figure" });
        const caption = h("figcaption", {}, title);
        const redraw = (width: number) => {
          if (title === "") caption.textContent = `this machine, ${state.target}${same}`;
          figure.replaceChildren(draw(curves(), state.test, e, caption.textContent!, domain, width));
        };
        drawn(figure, redraw);
        redraws.push(() => redraw(Math.floor(figure.clientWidth)));
        return h("figure", {}, caption, figure);
      };
      pair.append(
        panel(`published, ${host}`, () => claims.published.filter((c) => c.environment === e)),
        panel("", () => claims.curves.filter((c) => c.environment === e && c.target === state.target)),
      );
      return [h("h4", {}, place(e)), pair];
    }),
  );
}

function legend(): HTMLElement {
  const key = (look: Look | null, text: string) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "key");
    svg.setAttribute("viewBox", "0 0 26 10");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", "M0,5H26");
    line.setAttribute("stroke", look?.color ?? "var(--muted)");
    line.setAttribute("stroke-width", look ? "2.4" : "1");
    line.setAttribute("stroke-dasharray", look?.dash ?? "1 3");
    svg.append(line);
    svg.setAttribute("aria-hidden", "true");
    return h("li", {}, svg, " ", text);
  };
  const pale = key({ color: "var(--bar-pale)", symbol: "circle", dash: "" }, "every other test");
  return h("ul", { class: "keys" }, key(indexLook, "index, same tests on both sides"), key(steadyLook, "whetstone by CPU time"), key(chosenLook, "the test chosen above"), pale, key(null, "1/n"));
}

// extent is common to both sides, so that shapes can be compared.
function extent(claims: UnixClaims, environment: string): { n: number; y: number } {
  const all = [...claims.published, ...claims.curves].filter((c) => c.environment === environment);
  const dots = all.flatMap((c) => relative(c));
  return { n: d3.max(dots, (d) => d.n) ?? 1, y: Math.min(2, Math.max(1.1, d3.max(dots, (d) => d.y) ?? 1)) };
}

// relative is a curve by its own point of one container.
function relative(c: UnixCurve): Dot[] {
  return c.points.flatMap((p) => {
    if (p.n === 1 && p.data.value > 0) return [{ n: 1, y: 1, low: 1, high: 1, tip: `${name(c)}, 1 container: ${short(p.data.value)}` }];
    if (!p.toOne) return [];
    const i = p.toOne.interval;
    const known = i.method !== "none" && i.method !== "";
    const where = p.n === 0 ? "host" : `${p.n} containers`;
    const between = known ? ` [${i.low.toFixed(2)}, ${i.high.toFixed(2)}]` : "";
    return [{ n: p.n, y: p.toOne.value, low: known ? i.low : p.toOne.value, high: known ? i.high : p.toOne.value, tip: `${name(c)}, ${where}\n×${p.toOne.value.toFixed(2)}${between}, score ${short(p.data.value)}` }];
  });
}

const short = (v: number) => Number(v.toPrecision(4)).toLocaleString("en");

function name(c: UnixCurve): string {
  if (c.test === "index") return c.clock === "cpu" ? "index" : "index by wall time, all tests";
  return c.clock === "cpu" && c.test === "whetstone" ? "whetstone (CPU time)" : c.test;
}

function lookOf(c: UnixCurve, chosen: string): Look | null {
  if (c.test === "index" && c.clock === "cpu") return indexLook;
  if (c.test === chosen && !(c.test === "whetstone" && c.clock === "cpu")) return chosenLook;
  if (c.test === "whetstone" && c.clock === "cpu") return steadyLook;
  return null;
}

function draw(curves: UnixCurve[], chosen: string, environment: string, title: string, domain: { n: number; y: number }, width: number): Element {
  const shown = curves.filter((c) => c.test !== "index as published" && !(c.test === "index" && c.clock === "wall"));
  const bold = shown.filter((c) => lookOf(c, chosen)).sort((a, b) => Number(lookOf(a, chosen) === indexLook) - Number(lookOf(b, chosen) === indexLook));
  const one = d3.range(1, domain.n + 0.01, 0.1).map((n) => ({ n, y: 1 / n }));
  const clip = (v: number) => Math.min(Math.max(v, 0), domain.y);
  const ns = d3.range(0, domain.n + 1).filter((n) => width > 260 || n <= 4 || n % 2 === 0);
  const numbers = bold.find((c) => c.test === "index");
  return Plot.plot({
    width,
    height: Math.round(Math.min(260, Math.max(190, width * 0.62))),
    marginTop: 10, marginBottom: 38, marginLeft: 40, marginRight: 10,
    className: "plot",
    ariaLabel: `${title}, ${place(environment)}: score relative to one container over the number of containers${numbers ? `; index ${relative(numbers).map((d) => `${d.n === 0 ? "host" : d.n}: ${d.y.toFixed(2)}`).join(", ")}` : ""}; a table below holds the numbers`,
    x: { domain: [0, domain.n], label: "containers at once" },
    y: { domain: [0, domain.y], label: null },
    marks: [
      Plot.gridY(d3.ticks(0, domain.y, 5), { stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX(ns, { tickFormat: (n: number) => (n === 0 ? "host" : String(n)), labelArrow: "none", labelAnchor: "center", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY(d3.ticks(0, domain.y, 5), { tickFormat: plain, tickSize: 0, fontSize: 11, fill: "var(--muted)", label: null }),
      Plot.line(one, { x: "n", y: "y", stroke: "var(--muted)", strokeWidth: 1, strokeDasharray: "1 3", className: "m-one-by-n" }),
      ...shown.filter((c) => !lookOf(c, chosen)).map((c) => Plot.line(relative(c).filter((d) => d.n > 0), { x: "n", y: (d: Dot) => clip(d.y), stroke: "var(--bar-pale)", strokeWidth: 1.2, className: "m-other", title: () => name(c) })),
      ...bold.flatMap((c) => {
        const l = lookOf(c, chosen)!;
        const dots = relative(c);
        return [
          Plot.line(dots.filter((d) => d.n > 0), { x: "n", y: (d: Dot) => clip(d.y), stroke: l.color, strokeWidth: 2.2, strokeDasharray: l.dash, className: "m-bold" }),
          Plot.link(dots.filter((d) => d.high > d.low), { x1: "n", x2: "n", y1: (d: Dot) => clip(d.low), y2: (d: Dot) => clip(d.high), stroke: l.color, strokeWidth: 1.6, className: "m-interval" }),
          Plot.dot(dots, { x: "n", y: (d: Dot) => clip(d.y), r: 4, symbol: l.symbol, fill: (d: Dot) => (d.n === 0 ? "var(--paper)" : l.color), stroke: l.color, strokeWidth: 1.5, className: "m-point", title: "tip", tip: { fill: "var(--panel)", stroke: "var(--line)" } }),
        ];
      }),
    ],
    color: { type: "identity" },
  });
}

const machineLooks: { color: string; symbol: "circle" | "square" | "triangle2" | "diamond2"; fill: boolean }[] = [
  { color: "var(--same)", symbol: "circle", fill: false },
  { color: "var(--same)", symbol: "square", fill: false },
  { color: "var(--same)", symbol: "triangle2", fill: false },
  { color: "var(--cost)", symbol: "diamond2", fill: true },
];
const hereLook = { color: "var(--bar)", symbol: "circle" as const, fill: true };
const glyphs: Record<string, [string, string]> = { circle: ["○", "●"], square: ["□", "■"], triangle2: ["△", "▲"], diamond2: ["◇", "◆"] };

// machines sets the platforms beside each other, on one scale for both numbers
// of copies.
function machines(claims: UnixClaims): HTMLElement {
  const all = unique(claims.platforms.map((p) => p.name));
  const theirs = all.filter((n) => !claims.platforms.find((p) => p.name === n)!.here);
  const look = (p: UnixPlatform) => (p.here ? hereLook : machineLooks[theirs.indexOf(p.name) % machineLooks.length]);
  const scores = claims.platforms.flatMap((p) => Object.values(p.scores).map((e) => e.value)).filter((v) => v > 0);
  const domain: [number, number] = [(d3.min(scores) ?? 1) / 1.15, (d3.max(scores) ?? 10) * 1.15];
  const panel = (environment: string) => {
    const figure = h("div", { class: "figure" });
    drawn(figure, (width) => figure.replaceChildren(drawMachines(claims, environment, domain, look, width)));
    return h("figure", {}, h("figcaption", {}, place(environment)), figure);
  };
  const key = all.map((n) => {
    const l = look(claims.platforms.find((p) => p.name === n)!);
    return h("li", {}, h("span", { class: "glyph", style: `color: ${l.color}`, "aria-hidden": "true" }, glyphs[l.symbol][l.fill ? 1 : 0]), " ", n);
  });
  return h("div", { class: "machines" },
    h("h3", {}, "Machines in one container"),
    h("ul", { class: "keys" }, ...key),
    h("div", { class: "pair" }, ...["allcpu-ncopies", "allcpu-1copy"].map(panel)));
}

function drawMachines(claims: UnixClaims, environment: string, domain: [number, number], look: (p: UnixPlatform) => { color: string; symbol: string; fill: boolean }, width: number): Element {
  const tests = ["index", ...claims.tests];
  const here = claims.platforms.filter((p) => p.environment === environment);
  const left = Math.min(138, width * 0.36);
  const marks = here.flatMap((p) => tests.flatMap((test) => {
    const e: Estimate | undefined = p.scores[test];
    return e ? [{ p, test, x: e.value, low: e.interval.low, high: e.interval.high, known: e.interval.method !== "none", tip: `${p.name}\n${test}: ${short(e.value)}` }] : [];
  }));
  return Plot.plot({
    width,
    height: tests.length * 25 + 48,
    marginTop: 4, marginBottom: 40, marginLeft: left, marginRight: 12,
    className: "plot",
    ariaLabel: `${place(environment)}: scores of ${here.map((p) => p.name).join(", ")} by test; a table below holds the numbers`,
    x: { type: "log", domain, label: "score, log axis" },
    y: { type: "point", domain: tests, padding: 0.6, label: null },
    marks: [
      Plot.ruleY(tests, { stroke: "var(--line)" }),
      Plot.axisX(ratioTicks(domain, width - left), { text: plain, labelArrow: "none", labelAnchor: "center", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY({ tickSize: 0, fontSize: 12, fill: "var(--ink)" }),
      Plot.link(marks.filter((m) => m.known), { x1: "low", x2: "high", y1: "test", y2: "test", stroke: "var(--bar)", strokeWidth: 2, className: "m-interval" }),
      ...here.map((p) => {
        const l = look(p);
        return Plot.dot(marks.filter((m) => m.p === p), { x: "x", y: "test", r: 4.5, symbol: l.symbol as Plot.SymbolType, stroke: l.color, fill: l.fill ? l.color : "var(--paper)", strokeWidth: 1.6, className: "m-machine", title: "tip", tip: { fill: "var(--panel)", stroke: "var(--line)" } });
      }),
    ],
    color: { type: "identity" },
  });
}
