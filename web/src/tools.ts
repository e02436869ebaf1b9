import { h } from "./dom";

// tools gives each table and chart of the page an address, and what it shows as a file:
// CSV of tables, SVG and PNG of charts, with the colours of the theme.
export function tools(root: HTMLElement, run: string): void {
  const taken = new Set([...root.querySelectorAll("[id]")].map((e) => e.id));
  for (const e of root.querySelectorAll<HTMLElement>(".priced, .distribution, .ladder, .raw, figure, .scroll")) {
    if (e.parentElement?.closest(".priced, .raw, figure") || (e.tagName === "SECTION" && e.id)) continue;
    const table = e.matches(".ladder, .distribution") ? null : e.querySelector("table");
    const charted = e.querySelector(".figure, td.chart") !== null || e.tagName === "FIGURE";
    if (!table && !charted) continue;
    const title = titleOf(e);
    if (!e.id) e.id = unused(slug(title), taken);
    const name = `tare-${run}-${e.id}`;
    const button = (kind: string, click: () => void) => h("button", { type: "button", click, "aria-label": `${kind} of ${title}` }, kind);
    const row = h(
      "p",
      { class: "tools" },
      h("a", { href: `#${e.id}`, "aria-label": `Link to ${title}` }, "link"),
      table ? button("CSV", () => save(`${name}.csv`, new Blob([csv(table)], { type: "text/csv" }))) : null,
      charted ? button("SVG", () => save(`${name}.svg`, new Blob([picture(chart(e))], { type: "image/svg+xml" }))) : null,
      charted ? button("PNG", () => png(chart(e), `${name}.png`)) : null,
    );
    if (e.matches(".scroll")) e.after(row);
    else e.append(row);
  }
}

function titleOf(e: HTMLElement): string {
  const own = e.querySelector("h3, figcaption")?.textContent ?? e.getAttribute("aria-label") ?? e.querySelector("[aria-label]")?.getAttribute("aria-label");
  return own || e.closest("section")?.querySelector("h2")?.textContent || "table";
}

function slug(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "part";
}

function unused(id: string, taken: Set<string>): string {
  let free = id;
  for (let n = 2; taken.has(free); n++) free = `${id}-${n}`;
  taken.add(free);
  return free;
}

// csv is the table as it is shown, without its charts and marks.
export function csv(table: HTMLTableElement): string {
  const rows = [...table.rows].filter((r) => !r.classList.contains("axis"));
  const cells = (r: HTMLTableRowElement) => [...r.cells].filter((c) => !c.matches(".chart, .chart-head")).flatMap((c) => [text(c), ...Array<string>(c.colSpan - 1).fill("")]);
  return rows.map((r) => cells(r).map(quoted).join(",") + "\r\n").join("");
}

function text(cell: HTMLElement): string {
  const copy = cell.cloneNode(true) as HTMLElement;
  for (const mark of copy.querySelectorAll(".narrow, .glyph")) mark.remove();
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

// quoted is a field of CSV. A name that a spreadsheet would take as a formula begins
// with an apostrophe; a number does not, nor one with a unit and an interval behind it.
const signed = /^[+-](\d+\.?\d*|\.\d+)(e[+-]?\d+)?[ %A-Za-zµ/×]*(\[[-+\d., %A-Za-zµ/×]*\])?$/;

function quoted(field: string): string {
  if (/^[=@+-]/.test(field) && !signed.test(field)) field = `'${field}`;
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

const painted = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "opacity", "visibility", "font-family", "font-size", "font-weight", "text-anchor"];

function chart(e: HTMLElement): SVGSVGElement {
  return e.querySelector<SVGSVGElement>(".figure svg, td.chart svg, svg:not(.key)")!;
}

// picture is a chart by itself: what the page's style gives it is written into it.
function picture(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  [svg, ...svg.querySelectorAll("*")].forEach((from, i) => {
    const style = getComputedStyle(from);
    for (const p of painted) {
      to[i].removeAttribute(p);
      to[i].style.setProperty(p, style.getPropertyValue(p));
    }
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return new XMLSerializer().serializeToString(copy);
}

// png draws a chart with two pixels for each of the screen's.
function png(svg: SVGSVGElement, name: string): void {
  const { width, height } = svg.getBoundingClientRect();
  const image = new Image();
  image.onload = () => {
    const canvas = h("canvas", { width: Math.ceil(2 * width), height: Math.ceil(2 * height) });
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob && save(name, blob));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture(svg))}`;
}

function save(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
