import { choose, chosen } from "./address";
import { h, identity } from "./dom";
import type { Entry, Row, ShownRow } from "./types";
import { badge } from "./verdict";

interface Line {
  entry: Entry;
  row: Row;
  shown: ShownRow;
  text: string; // what the filter searches
}

interface Column {
  name: string;
  number: boolean;
  value: (l: Line) => number | string | null; // sorts by it
  show: (l: Line) => string | Node;
}

const unit = (l: Line) => l.entry.shown.scale.unit;
const scaled = (l: Line, v: number | null | undefined) =>
  v === null || v === undefined || l.row.summary.n === 0 ? "" : String(Number((v / l.entry.shown.scale.factor).toPrecision(4)));

const columns: Column[] = [
  { name: "group", number: false, value: (l) => l.entry.claim.group, show: (l) => l.entry.claim.group },
  { name: "metric", number: false, value: (l) => l.entry.claim.metric.name, show: (l) => l.entry.claim.metric.name },
  { name: "target", number: false, value: (l) => l.row.label, show: (l) => l.row.label },
  { name: "n", number: true, value: (l) => l.row.summary.n, show: (l) => String(l.row.summary.n) },
  { name: "failed", number: true, value: (l) => l.row.summary.failed, show: (l) => String(l.row.summary.failed || "") },
  { name: "median", number: true, value: (l) => (l.row.summary.n ? l.row.summary.median : null), show: (l) => l.shown.median.value },
  { name: "unit", number: false, value: unit, show: unit },
  { name: "95 % interval", number: true, value: (l) => (l.shown.median.low ? l.row.summary.interval.low : null), show: (l) => (l.shown.median.low ? `${l.shown.median.low} – ${l.shown.median.high}` : "") },
  { name: "min", number: true, value: (l) => (l.row.summary.n ? l.row.summary.min : null), show: (l) => scaled(l, l.row.summary.min) },
  { name: "p90", number: true, value: (l) => (l.row.summary.n ? l.row.summary.p90 : null), show: (l) => scaled(l, l.row.summary.p90) },
  { name: "max", number: true, value: (l) => (l.row.summary.n ? l.row.summary.max : null), show: (l) => scaled(l, l.row.summary.max) },
  { name: "outliers", number: true, value: (l) => l.row.summary.outliers, show: (l) => String(l.row.summary.outliers || "") },
  { name: "cold", number: true, value: (l) => l.row.cold ?? null, show: (l) => l.shown.cold },
  { name: "ratio", number: true, value: (l) => l.row.effect?.ratio || null, show: (l) => (l.row.effect ? l.shown.ratio.value : "") },
  { name: "ratio’s interval", number: true, value: (l) => (l.shown.ratio.low ? l.row.effect!.interval.low : null), show: (l) => (l.shown.ratio.low ? `${l.shown.ratio.low} – ${l.shown.ratio.high}` : "") },
  { name: "p", number: true, value: (l) => l.row.effect?.p ?? null, show: (l) => probability(l.row.effect?.p) },
  { name: "level", number: true, value: (l) => (l.shown.ratio.low ? l.row.effect!.interval.level : null), show: (l) => (l.shown.ratio.low ? share(l.row.effect!.interval.level) : "") },
  { name: "verdict", number: false, value: (l) => l.shown.verdict, show: (l) => badge(l.shown, l.row.effect?.why) },
];

function kind(c: Column): string {
  return c.number ? "number" : "text";
}

function probability(p: number | undefined | null): string {
  if (p === undefined || p === null) return "";
  return p < 0.0001 ? "< 0.0001" : String(Number(p.toPrecision(2)));
}

function share(v: number | undefined | null): string {
  return v === undefined || v === null ? "" : `${Number((100 * v).toPrecision(4))} %`;
}

// raw is the table of everything, to be sorted and filtered.
export function raw(entries: Entry[]): HTMLElement {
  const lines: Line[] = entries.flatMap((entry) =>
    entry.claim.rows.map((row, i) => ({ entry, row, shown: entry.shown.rows[i], text: searchable(entry, row, entry.shown.rows[i]) })),
  );
  const body = h("tbody", {});
  const status = h("p", { class: "note", role: "status", "aria-live": "polite" });
  const state = { column: -1, down: false, words: [] as string[] };
  const heads = columns.map((c, i) => h("th", { scope: "col", class: kind(c) }, h("button", { type: "button", click: () => sortBy(i) }, c.name)));

  function sortBy(i: number): void {
    choose("sort", `${state.column === i && !state.down ? "-" : ""}${columns[i].name}`);
    sorted(i, state.column === i ? !state.down : false);
  }

  function sorted(i: number, down: boolean): void {
    state.down = down;
    state.column = i;
    heads.forEach((th, j) => (j === i ? th.setAttribute("aria-sort", state.down ? "descending" : "ascending") : th.removeAttribute("aria-sort")));
    render();
  }

  function render(): void {
    const kept = lines.filter((l) => state.words.every((w) => l.text.includes(w)));
    if (state.column >= 0) kept.sort((a, b) => compare(columns[state.column], a, b, state.down));
    body.replaceChildren(...kept.map((l) => h("tr", {}, ...columns.map((c) => h("td", { class: kind(c) }, c.show(l))))));
    status.textContent = `${kept.length} of ${lines.length} rows`;
  }

  const id = identity("filter");
  const filter = h("input", {
    id, type: "search", placeholder: "runc wall slower", autocomplete: "off",
    input: () => { choose("filter", filter.value.trim()); filtered(); },
  });
  function filtered(): void {
    state.words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    render();
  }
  render();
  chosen("filter", (value) => { filter.value = value; filtered(); });
  chosen("sort", (value) => sorted(columns.findIndex((c) => c.name === value.replace(/^-/, "")), value.startsWith("-")));
  return h(
    "div",
    { class: "raw" },
    h("p", { class: "controls" }, h("label", { for: id }, "Filter "), filter),
    h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "All numbers" }, h("table", {}, h("caption", { class: "sr-only" }, "Every cell and metric; headings sort"), h("thead", {}, h("tr", {}, ...heads)), body)),
    status,
  );
}

function searchable(entry: Entry, row: Row, shown: ShownRow): string {
  return [entry.claim.group, entry.claim.metric.name, row.label, shown.verdict, shown.effect].join(" ").toLowerCase();
}

// compare puts cells without a value last, whatever the direction.
function compare(column: Column, a: Line, b: Line, down: boolean): number {
  const x = column.value(a);
  const y = column.value(b);
  if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
  const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
  return down ? -order : order;
}
