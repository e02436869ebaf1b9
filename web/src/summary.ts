import { h, section, unbroken } from "./dom";
import { figure } from "./figure";
import type { Page, SummaryTable } from "./types";
import { look } from "./verdict";

// summary is what the page begins with: what to know in a minute.
export function summary(page: Page): HTMLElement {
  const s = page.summary;
  const warnings = (page.claims.warnings ?? []).map((w) => w.replace(/[. ]+$/, ""));
  const sure = (s.certainty ?? []).filter((c) => !warnings.includes(c.replace(/[. ]+$/, "")));
  const title = section(
    "summary",
    "In a minute",
    ...(s.tables ?? []).map(table),
    ...(page.summaryFigures ?? []).map((f) => figure(f, [f])),
    ...list("What it says", s.says),
    ...pairs("No verdict", (s.noVerdict ?? []).map((l) => [l.what, l.why])),
    ...list("How sure", sure),
    ...pairs("Next", s.next.map((n) => [n.label, h("code", {}, ...unbroken(n.command))])),
  );
  title.classList.add("summary");
  return title;
}

function list(head: string, items?: string[]): HTMLElement[] {
  if (!items?.length) return [];
  return [h("h3", {}, head), h("ul", { class: "says" }, ...items.map((i) => h("li", {}, i)))];
}

function pairs(head: string, items: [string, Node | string][]): HTMLElement[] {
  if (items.length === 0) return [];
  return [h("h3", {}, head), h("dl", { class: "facts" }, ...items.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))];
}

type Column = SummaryTable["columns"][number];
type Cell = Column["cells"][number];

// shown is how many rows a table has before the rest is folded away.
const shown = 12;

function table(t: SummaryTable): HTMLElement {
  if (t.rows.length === 0) return h("div", {}, h("h3", {}, t.title), h("p", { class: "note" }, t.note));
  const more = t.rows.length - shown;
  const parts = more > shown / 2 ? [rows(t, 0, shown), h("details", { class: "rest" }, h("summary", {}, `${more} more`), rows(t, shown))] : [rows(t, 0)];
  return h("div", {}, h("h3", {}, t.title), ...parts, key(t), t.note ? h("p", { class: "note" }, `${t.note}.`) : null);
}

// rows is a table of some of a summary table's rows.
function rows(t: SummaryTable, from: number, to?: number): HTMLElement {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": t.title },
    h(
      "table",
      { class: "costs" },
      h("caption", { class: "sr-only" }, t.title),
      h("thead", {}, over(t.columns), h("tr", {}, h("th", { scope: "col", class: "name" }, t.first), ...t.columns.map((c) => h("th", { scope: "col", class: c.words ? "text" : "number" }, c.head, marked(c) && !c.words ? blank() : null)))),
      h("tbody", {}, ...t.rows.slice(from, to).map((r, i) => h("tr", {}, h("th", { scope: "row", class: "name", title: r }, r), ...t.columns.map((c) => cell(c, c.cells[from + i]))))),
    ),
  );
}

// key is what the marks of a table mean: those that it has.
function key(t: SummaryTable): HTMLElement | null {
  const words = new Map<string, Set<string>>();
  const colours = new Map<string, string>();
  for (const c of t.columns.flatMap((column) => column.cells)) {
    if (!c.verdict || c.verdict === "control" || c.verdict === "no verdict") continue;
    const l = lookOf(c.verdict, c);
    if (l.glyph === "") continue;
    words.set(l.glyph, (words.get(l.glyph) ?? new Set()).add(c.verdict));
    colours.set(l.glyph, l.name);
  }
  if (words.size === 0) return null;
  const parts = [...words].flatMap(([glyph, verdicts]) => [h("span", { class: `glyph ${colours.get(glyph)}`, "aria-hidden": "true" }, glyph), ` ${[...verdicts].join(" or ")}\u2003`]);
  return h("p", { class: "note" }, ...parts);
}

const lookOf = (verdict: string, c: Cell) => look({ verdict, effect: c.effect ?? "", median: { value: "" }, ratio: { value: "" }, cold: "" });

// over is the row of headings that neighbouring columns share.
function over(columns: Column[]): HTMLElement | null {
  if (!columns.some((c) => c.over)) return null;
  const spans: [string, number][] = [];
  for (const c of columns) {
    const last = spans[spans.length - 1];
    if (last && c.over && last[0] === c.over) last[1]++;
    else spans.push([c.over ?? "", 1]);
  }
  return h("tr", { class: "over" }, h("td", {}), ...spans.map(([name, n]) => h(name ? "th" : "td", { colspan: n, scope: name ? "colgroup" : undefined }, name)));
}

function cell(column: Column, c: Cell): HTMLElement {
  const verdict = c.verdict === "control" || c.verdict === "no verdict" ? "" : c.verdict ?? "";
  const l = lookOf(verdict, c);
  const glyph = l.glyph ? h("span", { class: "glyph", role: "img", "aria-label": verdict }, l.glyph) : null;
  if (column.words) return h("td", { class: `words ${verdict ? l.name : ""}` }, glyph, glyph ? " " : "", c.text);
  return h("td", { class: `number ${verdict ? l.name : ""}`, title: verdict }, c.text, glyph ? " " : "", glyph ?? (marked(column) ? blank() : null));
}

// marked reports whether a column has marks, for which all its cells leave room.
const marked = (c: Column) => c.cells.some((x) => x.verdict && x.verdict !== "control");

const blank = () => h("span", { class: "glyph", "aria-hidden": "true" }, "\u00a0");
