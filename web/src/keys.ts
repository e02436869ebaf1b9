// Charts by keyboard: a chart takes the focus, and its arrows go from mark to mark. The
// library shows what a mark says at the pointer, so a mark is pointed at.

const marks = 'g[aria-label="dot"] > *, g[aria-label="bar"] > *, .m-bar > *';

// reachable lets charts that say something at the pointer take the focus.
export function reachable(drawing: HTMLElement): void {
  for (const chart of drawing.querySelectorAll<SVGSVGElement>("svg.plot")) {
    if (chart.querySelector('[aria-label="tip"]') && chart.querySelector(marks)) chart.tabIndex = 0;
  }
}

// next is the mark that a key leads to, undefined for other keys.
function next(key: string, at: number, count: number): number | undefined {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return Math.min(at + 1, count - 1);
    case "ArrowLeft":
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "Home":
      return 0;
    case "End":
      return count - 1;
  }
  return undefined;
}

const places = new WeakMap<Element, number>();

function press(event: KeyboardEvent): void {
  const chart = event.target;
  if (!(chart instanceof SVGSVGElement) || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") return leave(chart);
  const all = chart.querySelectorAll(marks);
  const to = next(event.key, places.get(chart) ?? -1, all.length);
  if (to === undefined || all.length === 0) return;
  event.preventDefault();
  places.set(chart, to);
  const r = all[to].getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent("pointermove", { clientX: (r.left + r.right) / 2, clientY: (r.top + r.bottom) / 2, pointerType: "mouse" }));
}

function leave(chart: EventTarget | null): void {
  if (chart instanceof SVGSVGElement) chart.dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse" }));
}

// keys listens for the arrows on all charts, those that are drawn later, too.
export function keys(): void {
  addEventListener("keydown", press);
  addEventListener("focusout", (event) => leave(event.target));
}
