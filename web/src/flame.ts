import * as d3 from "d3";
import flamegraph from "d3-flame-graph";
import { drawn, h } from "./dom";
import type { Frame } from "./types";

// flameGraph draws frames of seconds, or of a unit's shares, with a search and a way back.
export function flameGraph(root: Frame, of: string, caption: string, note: string, placeholder: string, unit?: string): HTMLElement {
  const drawing = h("div", { class: "figure flame" });
  const search = h("input", { type: "search", placeholder, "aria-label": `Find in the flame graph of ${of}` });
  const back = h("button", { type: "button" }, "whole graph");
  let find = (_: string) => {};
  let whole = () => {};
  drawn(drawing, (width) => {
    const chart = flamegraph()
      .width(width).cellHeight(18).minFrameSize(1).transitionDuration(0).sort(true).selfValue(false)
      .label((d) => `${d.data.name}: ${unit ? "" : `${duration(d.data.value)}, `}${share(d.data.value, root.value)} of all${unit ? ` ${unit}` : ""}`)
      .setColorMapper((d) => (d.highlight ? "#e600e6" : colorOf(d.data.name)));
    drawing.replaceChildren();
    d3.select<HTMLElement, unknown>(drawing).datum<Frame>(structuredClone(root)).call(chart);
    find = (term) => chart.search(term);
    whole = () => chart.resetZoom();
  });
  search.addEventListener("input", () => find((search as HTMLInputElement).value));
  back.addEventListener("click", () => whole());
  return h("figure", {}, h("figcaption", {}, caption), h("p", { class: "note" }, note), h("p", { class: "controls" }, search, " ", back), drawing);
}

// colorOf tells the kinds of frames apart: what is waited for, the lock's own
// code and the scheduler's, the rest.
function colorOf(name: string): string {
  if (name.startsWith("[") && name !== "[unknown]") return "#e69f00";
  if (["all", "kernel threads", "on CPU", "asleep", "waiting for a CPU"].includes(name)) return "#b8b8b8";
  const hash = [...name].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 97, 7);
  return d3.hsl(/lock|mutex|sem|sched|osq|wait/.test(name) ? 12 + (hash % 14) : 205 + (hash % 20), 0.55, 0.66 + (hash % 10) / 100).formatHex();
}

function duration(seconds: number): string {
  const [factor, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${d3.format(".3~r")(seconds * factor)} ${unit}`;
}

function share(part: number, whole: number): string {
  return `${((100 * part) / whole).toFixed(1)} %`;
}
