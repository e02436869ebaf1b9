import { figure } from "./figure";
import { h, section, unbroken } from "./dom";
import type { Figure, Grid, Section } from "./types";

// openTables is how many tables of a section are not folded.
const openTables = 6;

// study is the part of the page that a study has for itself.
export function study(s: Section): HTMLElement {
  const tables = (s.tables ?? []).map((t, i) => h("details", { open: i < openTables }, h("summary", {}, t.title), grid(t)));
  return section(
    s.id,
    s.title,
    ...(s.tableFirst ? tables.splice(0, 1) : []),
    findings(s),
    ...rows(s.figures ?? []).map((r) => h("div", { class: r.length > 1 ? "pair" : "alone" }, ...r.map((f) => figure(f, r)))),
    ...(s.claims.rows?.length ? [h("h3", { id: `${s.id}-claims` }, s.claims.title), claimsTable(s.claims)] : []),
    s.note ? h("p", { class: "note" }, s.note) : null,
    ...tables,
  );
}

// rows puts figures that stand beside the one before into its row.
function rows(figures: Figure[]): Figure[][] {
  const out: Figure[][] = [];
  for (const f of figures) {
    if (f.beside && out.length) out[out.length - 1].push(f);
    else out.push([f]);
  }
  return out;
}

// findings are those that the page does not begin with.
function findings(s: Section): HTMLElement | null {
  if (!s.alone) return null;
  const more = s.findings.filter((f) => !s.headline.includes(f));
  if (more.length === 0) return null;
  return h("details", { class: "all-findings", open: more.length <= 8 }, h("summary", {}, `${more.length} more findings`), h("ul", { class: "findings" }, ...more.map((f) => h("li", {}, f))));
}

const verdictGlyph: Record<string, [string, string]> = { "borne out": ["●", "same"], not: ["✕", "cost"], open: ["○", "open"], refused: ["✕", "not-comparable"], "not asked": ["–", "control"] };

function claimsTable(g: Grid): HTMLElement {
  const cell = (text: string, i: number) => {
    const known = g.head[i] === "verdict" ? verdictGlyph[text] : undefined;
    if (known) return h("td", { class: "verdict" }, h("span", { class: `badge ${known[1]}` }, h("span", { class: "glyph", "aria-hidden": "true" }, known[0]), " ", text));
    if (g.head[i] === "verdict") return h("td", { class: "verdict" });
    return i === 0 ? h("th", { scope: "row" }, text) : h("td", { "data-head": g.head[i] }, text);
  };
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": g.title },
    h("table", { class: "claims" },
      h("thead", {}, h("tr", {}, ...g.head.map((s) => h("th", { scope: "col" }, s)))),
      h("tbody", {}, ...g.rows.map((r) => h("tr", {}, ...r.map(cell))))));
}

// longWords is from how many characters on a cell makes its column one of words,
// not of numbers.
const longWords = 28;

function grid(g: Grid): HTMLElement {
  const kinds = g.head.map((_, i) => (i === 0 || g.words ? "name" : g.rows.some((r) => (r[i] ?? "").length > longWords) ? "words" : "number"));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": g.title },
    h("table", { class: "grid" },
      h("caption", { class: "sr-only" }, g.title),
      h("thead", {}, h("tr", {}, ...g.head.map((s, i) => h("th", { scope: "col", class: kinds[i] }, s)))),
      h("tbody", {}, ...g.rows.map((r) => h("tr", { class: r[0].startsWith("·") ? "published" : undefined }, ...r.map((s, i) => h(i ? "td" : "th", { class: kinds[i], scope: i ? undefined : "row" }, ...unbroken(s))))))));
}
