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
  differs: { name: "differs", symbol: "square", hollow: false, glyph: "■" },
  equivalent: { name: "equivalent", symbol: "circle", hollow: false, glyph: "●" },
  inconclusive: { name: "inconclusive", symbol: "circle", hollow: true, glyph: "○" },
  refused: { name: "refused", symbol: "times", hollow: true, glyph: "✕" },
  failed: { name: "failed", symbol: "times", hollow: true, glyph: "✕" },
  control: { name: "control", symbol: "square", hollow: true, glyph: "□" },
};

export function look(row: ShownRow): Look {
  return looks[row.effect || row.verdict] ?? looks.inconclusive;
}

export function allLooks(): Look[] {
  return Object.values(looks);
}

// words says the verdict, with the direction of a shown difference.
export function words(row: ShownRow): string {
  return row.effect ? `${row.verdict} (${row.effect})` : row.verdict;
}

export function badge(row: ShownRow, why?: string): HTMLElement {
  const l = look(row);
  return h("span", { class: `badge ${l.name}`, title: why }, h("span", { class: "glyph", "aria-hidden": "true" }, l.glyph), " ", words(row));
}
