import { h } from "./dom";
import type { Group } from "./types";
import { look, words } from "./verdict";

// glance is the price list in one look: targets by workloads, ratios only.
export function glance(groups: Group[]): HTMLElement | null {
  const priced = groups.filter((g) => g.primary.length > 0);
  if (priced.length < 2) return null;
  const targets: string[] = [];
  for (const g of priced)
    for (const row of g.primary[0].claim.rows)
      if (!row.aa && !row.control && !targets.includes(row.label)) targets.push(row.label);
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ratios at a glance" },
    h(
      "table",
      { class: "glance" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "name" }, "× control"), ...priced.map(columnHead))),
      h("tbody", {}, ...targets.map((t) => h("tr", {}, h("th", { scope: "row", class: "name", title: t }, t), ...priced.map((g) => cell(g, t))))),
    ),
  );
}

function columnHead(g: Group): HTMLElement {
  const m = g.primary[0].claim.metric;
  const title = `${g.name}: ${m.name}${m.better ? `, ${m.better} is better` : ""}`;
  return h("th", { scope: "col", title }, h("span", { class: "clip" }, g.name));
}

function cell(g: Group, target: string): HTMLElement {
  const { claim, shown } = g.primary[0];
  const i = claim.rows.findIndex((r) => r.label === target && !r.aa);
  if (i < 0) return h("td", {}, "");
  const row = shown.rows[i];
  const l = look(row);
  const text = claim.rows[i].effect ? row.ratio.value : "–";
  return h(
    "td",
    { class: l.name, title: words(row) },
    h("span", { class: "value" }, text),
    " ",
    h("span", { class: "glyph", role: "img", "aria-label": words(row) }, l.glyph),
  );
}
