import * as Plot from "@observablehq/plot";
import * as d3 from "d3";
import { drawn, h, identity } from "./dom";
import { fitted, nameRoom, plain, ratioTicks, tip as pointer, tipText } from "./scale";
import type { Ladder, Scale, ShownLadder, ShownNumber } from "./types";

interface Bar {
  name: string;
  from: number;
  to: number;
  low: number | null;
  high: number | null;
  kind: "base" | "up" | "down" | "unsure" | "beside";
  label: string;
  tip: string;
}

// waterfall shows a ladder: each bar begins where the chain had come to above it.
export function waterfall(claim: Ladder, shown: ShownLadder): HTMLElement {
  let log = shown.log;
  const figure = h("div", { class: "figure" });
  const redraw = (width: number) => figure.replaceChildren(draw(claim, shown, log, width));
  drawn(figure, redraw);
  const switchTo = (value: boolean) => {
    log = value;
    redraw(figure.clientWidth);
  };
  return h(
    "div",
    { class: "ladder" },
    h("h3", {}, claim.group, " ", h("span", { class: "metric" }, `${claim.metric.name}: from ${claim.base} to ${claim.steps.filter((s) => !s.beside).at(-1)?.to ?? claim.base}`)),
    axisChoice(log, switchTo),
    figure,
    h("p", { class: "note" }, "A bar is one step: the difference of two neighbouring medians. ", shown.sum, claim.steps.some((s) => s.beside) ? " Hatched is an alternative to the next step (or …), from the same rung: the chain does not go through it." : "", " Whiskers are 95 % intervals. A pale bar is a step whose interval includes zero. On the log axis a bar's length is a ratio; its number is the difference."),
    h("details", {}, h("summary", {}, "The steps as a table"), table(claim, shown)),
  );
}

function axisChoice(log: boolean, pick: (log: boolean) => void): HTMLElement {
  const name = identity("axis");
  const choice = (label: string, value: boolean) =>
    h("label", {}, h("input", { type: "radio", name, checked: value === log, change: () => pick(value) }), " ", label);
  return h("fieldset", { class: "choice" }, h("legend", { class: "sr-only" }, "Axis of the ladder"), choice("log axis", true), choice("linear axis", false));
}

function bars(claim: Ladder, shown: ShownLadder): Bar[] {
  const f = shown.total.factor;
  const out: Bar[] = [
    {
      name: claim.base, from: NaN, to: claim.baseMedian / f, low: null, high: null, kind: "base",
      label: unit(shown.base.value, shown.total), tip: `${claim.base}\n${unit(shown.base.value, shown.total)}`,
    },
  ];
  let from = out[0].to;
  claim.steps.forEach((s, i) => {
    const known = s.interval.method !== "none" && s.interval.method !== "";
    const sure = known && (s.interval.low > 0 || s.interval.high < 0);
    const delta = shown.steps[i].delta;
    out.push({
      name: s.beside ? `or ${s.to}` : s.to, from, to: s.median / f,
      low: known ? from + s.interval.low / f : null,
      high: known ? from + s.interval.high / f : null,
      kind: s.beside ? "beside" : !sure ? "unsure" : s.delta < 0 ? "down" : "up",
      label: unit(delta.value, shown.delta),
      tip: `${s.from} → ${s.to}\n${unit(delta.value, shown.delta)} ${between(delta)}\ntotal ${unit(shown.steps[i].level, shown.total)}`,
    });
    if (!s.beside) from = s.median / f;
  });
  return out;
}

function unit(value: string, scale: Scale): string {
  const minus = value.replace(/^-/, "−");
  return scale.unit ? `${minus} ${scale.unit}` : minus;
}

function between(n: ShownNumber): string {
  return n.low === undefined ? "" : `[${n.low}, ${n.high}]`;
}

function draw(claim: Ladder, shown: ShownLadder, log: boolean, width: number): Element {
  const data = bars(claim, shown);
  const levels = data.flatMap((b) => [b.to, b.high ?? b.to]);
  const smallest = Math.min(...data.map((b) => b.to));
  const canLog = log && smallest > 0;
  const low = canLog ? smallest * 0.8 : Math.min(0, smallest);
  const domain: [number, number] = [low, Math.max(...levels) * (canLog ? 1.08 : 1.02)];
  data[0].from = low;
  const at = (v: number) => Math.max(v, low);
  const left = nameRoom(data.map((b) => b.name), width);
  const right = Math.min(Math.max(...data.map((b) => b.label.length)) * 7.2 + 14, width * 0.3);
  const names = data.map((_, i) => i);
  const ticks = canLog ? ratioTicks(domain, width - left - right) : d3.ticks(domain[0], domain[1], Math.max(2, Math.floor((width - left - right) / 70)));
  const fill = { base: "var(--muted)", up: "var(--bar)", down: "var(--gain)", unsure: "var(--bar-pale)", beside: "url(#beside)" };
  return Plot.plot({
    width,
    height: data.length * 26 + 44,
    marginTop: 4,
    marginBottom: 40,
    marginLeft: left,
    marginRight: right,
    className: "plot",
    ariaLabel: `Ladder ${claim.group}: cumulative ${claim.metric.name} after each step; a table follows`,
    x: { type: canLog ? "log" : "linear", domain, label: `cumulative ${claim.metric.name}, ${shown.total.unit}` },
    y: { type: "band", domain: names, padding: 0.28, label: null },
    marks: [
      () => hatch(),
      Plot.gridX(ticks, { stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX(ticks, { text: plain, labelArrow: "none", labelAnchor: "center", tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)" }),
      Plot.axisY({ tickSize: 0, fontSize: 12.5, fill: "var(--ink)", tickFormat: (i: number) => fitted(data[i].name, left) }),
      Plot.barX(data, { x1: (b: Bar) => at(Math.min(b.from, b.to)), x2: (b: Bar) => at(Math.max(b.from, b.to)), y: (_: Bar, i: number) => i, fill: (b: Bar) => fill[b.kind], className: "m-step", title: (d: { tip: string }) => tipText(d.tip), tip: pointer }),
      Plot.tickX(data, { x: "to", y: (_: Bar, i: number) => i, stroke: "var(--ink)", strokeWidth: 1.2, className: "m-level" }),
      Plot.link(data.flatMap((b, i) => (b.low === null ? [] : [{ i, low: at(b.low), high: at(b.high!) }])), {
        x1: "low", x2: "high", y1: "i", y2: "i", stroke: "var(--ink)", strokeWidth: 1.4, className: "m-interval",
      }),
      Plot.text(data, { text: "label", frameAnchor: "right", y: (_: Bar, i: number) => i, dx: right - 4, textAnchor: "end", fontSize: 12, fill: "var(--ink)", fontVariant: "tabular-nums" }),
    ],
    color: { type: "identity" },
  });
}

// hatch is the pattern of alternatives.
function hatch(): SVGElement {
  const svg = (name: string, attributes: Record<string, string>, ...inside: Element[]) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    e.append(...inside);
    return e;
  };
  return svg("defs", {}, svg("pattern", { id: "beside", width: "6", height: "6", patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: "6", height: "6", fill: "var(--bar-pale)" }), svg("rect", { width: "2.5", height: "6", fill: "var(--bar)" })));
}

function table(claim: Ladder, shown: ShownLadder): HTMLElement {
  const number = (s: string) => h("td", { class: "number" }, s);
  const line = (name: string, delta: string, interval: string, total: string) =>
    h("tr", {}, h("th", { scope: "row", class: "name", title: name }, name), number(delta), number(interval), number(total));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": `Steps of the ladder ${claim.group}` },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...["step", `delta ${shown.delta.unit}`, "95 % interval", `total ${shown.total.unit}`].map((s, i) => h("th", { scope: "col", class: i ? "number" : "name" }, s)))),
      h("tbody", {}, line(claim.base, "", "", shown.base.value), ...claim.steps.map((s, i) => line(s.beside ? `or ${s.to}` : `+ ${s.to}`, shown.steps[i].delta.value, between(shown.steps[i].delta), shown.steps[i].level))),
    ),
  );
}
