import { reachable } from "./keys";

// The page's only way to make elements. Children that are strings become text
// nodes, so no text of a run can become markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((e: Event) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

// visible writes control characters and those that turn the direction of text
// as escapes: a name must not be able to reorder what stands beside it.
export function visible(s: string): string {
  return s.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// unbroken keeps each option of a command (--network) on one line: browsers break
// behind a dash.
export function unbroken(text: string): Child[] {
  return text.split(/((?<![^\s"(])--?[a-z][\w-]*)/).map((part, i) => (i % 2 ? h("span", { class: "option" }, part) : part));
}

let ids = 0;

// section is a titled part of the page, named by its heading.
export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...children);
}

// identity gives an id that no other element has.
export function identity(prefix: string): string {
  return `${prefix}-${++ids}`;
}

// drawn calls draw with the element's inner width now and whenever it changes.
// Drawings that are not fixed in width register here, so that printing can ask
// for another width.
const drawings: { element: HTMLElement; draw: (width: number) => void; last: number }[] = [];

export function drawn(element: HTMLElement, draw: (width: number) => void): HTMLElement {
  const drawing = { element, draw, last: 0 };
  drawings.push(drawing);
  observer.observe(element);
  return element;
}

const observer = new ResizeObserver(() => redrawAll());

export function redrawAll(force = false): void {
  for (const d of drawings) {
    // What is closed still has a width, and would cost as much to draw.
    if (d.element.closest("details:not([open])")) continue;
    const width = Math.floor(d.element.clientWidth);
    if (width > 0 && (force || width !== d.last)) {
      d.last = width;
      d.draw(width);
      reachable(d.element);
    }
  }
}
