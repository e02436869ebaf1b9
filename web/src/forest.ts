import * as Plot from "@observablehq/plot";
import { drawn, h } from "./dom";
import { logDomain, plain, ratioTicks, tip as pointer, tipText } from "./scale";
import type { Entry, Page, Row, ShownNumber, ShownRow } from "./types";
import { allLooks, badge, look, words } from "./verdict";

// The chart stands in the table as one tall cell, so its rows have the table
// rows' height: that of style.css, which is less on paper.
const rowHeight = () => (document.documentElement.classList.contains("printing") ? 24 : 34);
const axisHeight = 30;

interface Mark {
  row: Row;
  shown: ShownRow;
  y: number;
}

// forest is one price list: a table whose ratios are drawn beside their numbers.
export function forest(page: Page, entry: Entry): HTMLElement {
  const { claim, shown } = entry;
  const chart = h("td", { class: "chart", rowspan: claim.rows.length + 1 });
  const body = h("tbody", {});
  claim.rows.forEach((row, i) => body.append(line(row, shown.rows[i], i === 0 ? chart : null)));
  // The last row is the axis': a cell cannot span from the body into a footer.
  body.append(h("tr", { class: "axis", "aria-hidden": "true" }, h("td", {}), h("td", {})));
  const some = (test: (r: Row, s: ShownRow) => boolean) => claim.rows.some((r, i) => test(r, shown.rows[i]));
  const table = h(
    "table",
    { class: `forest${some((r) => r.summary.failed > 0) ? "" : " no-failed"}${some((_, s) => s.cold !== "") ? "" : " no-cold"}` },
    h("caption", { class: "sr-only" }, `${claim.group}: ${shown.title}. Median and ratio to the control for each target.`),
    h("thead", {}, head(shown.scale.unit)),
    body,
  );
  drawn(chart, (width) => chart.replaceChildren(draw(page, entry, width)));
  return h(
    "div",
    { class: "priced" },
    h("h3", {}, claim.group, " ", h("span", { class: "metric" }, shown.title)),
    claim.metric.help ? h("p", { class: "help" }, claim.metric.help) : null,
    table,
    entry.resolution ? h("p", { class: "note" }, entry.resolution, ".") : null,
  );
}

function head(unit: string): HTMLElement {
  const th = (name: string, kind: string) => h("th", { scope: "col", class: kind }, name);
  return h(
    "tr",
    {},
    th("target", "name"),
    th(`median${unit ? ` ${unit}` : ""}`, "number"),
    th("ratio to the control, log scale", "chart-head"),
    th("ratio", "number"),
    th("interval", "interval wide"),
    th("verdict", "verdict wide"),
    th("n", "number wide n-column"),
    th("failed", "number wide failed-column"),
    th(`cold${unit ? ` ${unit}` : ""}`, "number wide cold-column"),
  );
}

function line(row: Row, shown: ShownRow, chart: HTMLElement | null): HTMLElement {
  const l = look(shown);
  return h(
    "tr",
    { class: row.control ? "is-control" : row.aa ? "is-aa" : undefined },
    h("th", { scope: "row", class: "name", title: row.label }, row.label),
    h("td", { class: "number", title: between(shown.median) }, shown.median.value),
    chart,
    h(
      "td",
      { class: `number ratio ${l.name}` },
      row.control ? "1" : shown.ratio.value,
      h("span", { class: "narrow glyph", title: words(shown), role: "img", "aria-label": words(shown) }, ` ${l.glyph}`),
    ),
    h("td", { class: "interval wide" }, between(shown.ratio)),
    h("td", { class: "verdict wide" }, badge(shown, row.effect?.why)),
    h("td", { class: "number wide n-column" }, String(row.summary.n)),
    h("td", { class: "number wide failed-column" }, row.summary.failed ? String(row.summary.failed) : ""),
    h("td", { class: "number wide cold-column" }, shown.cold),
  );
}

function between(n: ShownNumber): string {
  return n.low === undefined ? "" : `${n.low} – ${n.high}`;
}

function draw(page: Page, entry: Entry, width: number): Element {
  const { claim } = entry;
  const marks: Mark[] = claim.rows.map((row, y) => ({ row, shown: entry.shown.rows[y], y }));
  const drawnMarks = marks.filter((m) => m.row.effect && m.row.effect.ratio > 0);
  const margin = page.claims.margin;
  const domain = logDomain(
    drawnMarks.flatMap((m) => [m.row.effect!.ratio, ...bounds(m.row)]),
    Math.max(2.5 * margin, 1.3 * claim.noise, 0.02),
  );
  const rows = claim.rows.length;
  const tall = rows * rowHeight();
  const clamp = (v: number) => Math.min(Math.max(v, domain[0]), domain[1]);
  return Plot.plot({
    width,
    height: tall + axisHeight,
    marginTop: 0,
    marginBottom: axisHeight,
    marginLeft: 12,
    marginRight: 12,
    className: "plot",
    ariaLabel: `${claim.group}, ${claim.metric.name}: ratio to the control with intervals; the table beside it holds the numbers`,
    x: { type: "log", domain },
    y: { type: "linear", domain: [rows - 0.5, -0.5], range: [tall, 0], axis: null },
    marks: [
      Plot.rect([0], { x1: clamp(1 - margin), x2: clamp(1 + margin), y1: -0.5, y2: rows - 0.5, fill: "var(--margin)", className: "m-margin" }),
      claim.noise > 0
        ? Plot.rect([0], { x1: clamp(1 / (1 + claim.noise)), x2: clamp(1 + claim.noise), y1: -0.5, y2: rows - 0.5, fill: "var(--noise)", className: "m-noise-floor" })
        : null,
      Plot.gridX(ratioTicks(domain, width), { stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.ruleY(claim.rows.map((_, i) => i + 0.5), { stroke: "var(--line)", insetLeft: -12, insetRight: -12 }),
      Plot.ruleX([1], { stroke: "var(--muted)" }),
      Plot.axisX(ratioTicks(domain, width), { text: (v: number) => `×${plain(v)}`, tickSize: 3, fontSize: 11, fill: "var(--muted)", stroke: "var(--line)", label: null }),
      ...allLooks().flatMap((l) => {
        const mine = drawnMarks.filter((m) => look(m.shown) === l);
        const color = `var(--${l.name === "described" ? "muted" : l.name})`;
        return [
          Plot.link(mine.filter((m) => bounds(m.row).length > 0), {
            x1: (m: Mark) => bounds(m.row)[0], x2: (m: Mark) => bounds(m.row)[1], y1: "y", y2: "y", stroke: color, strokeWidth: 2, className: "m-interval",
          }),
          Plot.dot(mine, {
            x: (m: Mark) => m.row.effect!.ratio, y: "y", r: 5, symbol: l.symbol,
            fill: l.hollow ? "var(--paper)" : color, stroke: color, strokeWidth: l.hollow ? 2 : 0, className: "m-ratio",
            tip: pointer, title: tip,
          }),
        ];
      }),
    ],
  });
}

function bounds(row: Row): number[] {
  const i = row.effect?.interval;
  return i && i.method !== "none" && i.method !== "" && i.low > 0 && i.high > 0 ? [i.low, i.high] : [];
}

function tip(m: Mark): string {
  const lines = [m.row.label, `×${m.shown.ratio.value} ${between(m.shown.ratio)}`, words(m.shown)];
  if (m.row.effect?.why) lines.push(m.row.effect.why);
  return tipText(lines.join("\n"));
}
