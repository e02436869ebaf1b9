import { h } from "./dom";
import type { ShownRow } from "./types";

// A verdict is told by word, shape and colour, so that none of them is needed
// alone. The colours are those of Okabe and Ito's palette, darkened or lightened
// for contrast (style.css).
export interface Look {
  name: string; // class and CSS variable
  symbol: "diamond2" | "triangle2" | "circle" | "times" | "square";
  hollow: boolean;
  glyph: string;
}

const looks: Record<string, Look> = {
  cost: { name: "cost", symbol: "diamond2", hollow: false, glyph: "◆" },
  gain: { name: "gain", symbol: "triangle2", hollow: false, glyph: "▲" },
  moved: { name: "moved", symbol: "square", hollow: false, glyph: "■" },
  same: { name: "same", symbol: "circle", hollow: false, glyph: "●" },
  open: { name: "open", symbol: "circle", hollow: true, glyph: "○" },
  "not comparable": { name: "not-comparable", symbol: "times", hollow: true, glyph: "✕" },
  failed: { name: "failed", symbol: "times", hollow: true, glyph: "✕" },
  control: { name: "control", symbol: "square", hollow: true, glyph: "□" },
  described: { name: "described", symbol: "circle", hollow: true, glyph: "" },
};

// look is that of a verdict; more and less without a better direction have one of
// their own, and metrics that are described, not judged, have no mark.
export function look(row: ShownRow): Look {
  if (row.effect) return looks[row.effect];
  if (row.verdict === "") return looks.described;
  return looks[row.verdict] ?? (row.verdict === "no verdict" ? looks.open : looks.moved);
}

export function allLooks(): Look[] {
  return Object.values(looks);
}

// words says the verdict.
export function words(row: ShownRow): string {
  return row.verdict;
}

export function badge(row: ShownRow, why?: string): HTMLElement {
  const l = look(row);
  return h("span", { class: `badge ${l.name}`, title: why }, h("span", { class: "glyph", "aria-hidden": "true" }, l.glyph), " ", words(row));
}
