import { h, visible } from "./dom";
import type { Comparison, Fact, Failed, Page, Target } from "./types";
import { allLooks } from "./verdict";

export function definitions(facts: Fact[]): HTMLElement {
  return h("dl", { class: "facts" }, ...facts.flatMap((f) => [h("dt", {}, f.name), h("dd", {}, f.value)]));
}

// targets lists what ran, with versions and digests, and in which run where runs differ.
export function targets(page: Page): HTMLElement {
  const several = page.others?.length;
  const line = (f: Target) => {
    const notes = Object.entries(f.notes ?? {}).map(([k, v]) => `${visible(k)}: ${v}`).join(", ");
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "name", title: f.name }, f.name),
      several ? h("td", {}, f.run ?? "all") : null,
      h("td", { class: "version" }, f.version || "–"),
      h("td", { class: "path" }, f.path || "–"),
      h("td", { class: "path", title: f.digest }, f.digest ? f.digest.replace(/^sha256:/, "").slice(0, 12) : "–"),
      h("td", { class: "notes" }, notes),
    );
  };
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Targets" },
    h("table", { class: "targets" }, h("thead", {}, h("tr", {}, ...["target", ...(several ? ["run"] : []), "version", "path", "sha256", "notes"].map((s) => h("th", { scope: "col" }, s)))), h("tbody", {}, ...page.targets.map(line))),
  );
}

export function mitigations(page: Page): HTMLElement | null {
  const all = page.mitigations ?? [];
  if (all.length === 0) return null;
  return h("details", {}, h("summary", {}, `CPU vulnerabilities and mitigations (${all.length})`), definitions(all));
}

// compared shows two runs beside each other: what is judged, then folded what is described.
export function compared(page: Page): HTMLElement[] {
  const more = page.compared.filter((c) => !c.primary);
  const judged = page.compared.filter((c) => c.primary).flatMap(pair);
  return more.length === 0 ? judged : [...judged, h("details", {}, h("summary", {}, `Other metrics (${more.length}), described and not judged`), ...more.flatMap(pair))];
}

function pair(c: Comparison): HTMLElement[] {
  return [
    h("h3", {}, c.title),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": c.title },
      h(
        "table",
        { class: "compared" },
        h("thead", {}, h("tr", {}, ...c.head.map((s, i) => h("th", { scope: "col", class: side(i, c.head.length) }, s)))),
        h("tbody", {}, ...c.rows.map((r) => h("tr", {}, ...r.map((s, i) => h(i ? "td" : "th", { class: side(i, r.length), scope: i ? undefined : "row" }, s))))),
      ),
    ),
  ];
}

function side(i: number, n: number): string {
  return i === 0 ? "name" : i < n - 1 ? "number" : "text";
}

export function failures(all: Failed[]): HTMLElement {
  return h("ul", { class: "failures" }, ...all.map(failure));
}

function failure(f: Failed): HTMLElement {
  const parts = [`${f.failed} of ${f.of} trials failed`];
  if (f.failure) {
    parts.push(`first in ${f.failure.phase}, the ${f.failure.fault}’s fault`);
    if (f.failure.exitCode !== undefined) parts.push(`exit code ${f.failure.exitCode}`);
    if (f.failure.signal) parts.push(`signal ${f.failure.signal}`);
  }
  return h(
    "li",
    {},
    h("strong", {}, f.run ? `${f.run}: ${f.cell}` : f.cell),
    ` – ${parts.join(", ")}`,
    f.failure ? h("p", {}, f.failure.message) : null,
    f.hint ? h("p", {}, f.hint) : null,
    f.failure?.stderr ? h("pre", { tabindex: 0 }, f.failure.stderr) : null,
  );
}

const meanings: Record<string, (page: Page) => string> = {
  cost: (p) => `slower (or more): the whole interval lies beyond 1. The intervals of a table hold together with a chance of error of ${percent(p.claims.alpha)}`,
  gain: () => "faster (or less): by the same rule, for the better",
  same: (p) => `the same: the whole interval lies within the margin of ±${percent(p.claims.margin)}`,
  open: () => "open: neither is shown; the interval is the bound, and the row’s text says how many blocks would settle it",
  "not-comparable": () => "not comparable, or failed: the machine was too noisy, a control failed, or no trial gave a sample",
};

export function legend(page: Page): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    ...allLooks().filter((l) => l.name in meanings).map((l) => h("li", {}, h("span", { class: `glyph ${l.name}`, "aria-hidden": "true" }, l.glyph), " ", meanings[l.name](page))),
  );
}

export function bands(page: Page): HTMLElement {
  return h(
    "p",
    { class: "note bands" },
    h("span", { class: "swatch margin", "aria-hidden": "true" }), ` margin ±${percent(page.claims.margin)} `,
    h("span", { class: "swatch noise", "aria-hidden": "true" }), " noise: how far the control differs from itself ",
    h("span", { class: "whisker", "aria-hidden": "true" }), " interval",
  );
}

export function method(page: Page): HTMLElement {
  const s = page.manifest.study;
  const p = (text: string) => h("p", {}, text);
  return h(
    "div",
    { class: "prose" },
    p(`Every target ran the same files. The ${s.blocks ?? "planned"} blocks each hold every target once, in random order (seed ${page.manifest.seed}), with the control among them; one clock outside all targets stamped every mark. The first trial of each cell is reported apart as “cold”.`),
    p("A ratio is estimated from ranks, with the labels of target, control and the control’s twin exchanged inside each block; the interval holds every ratio that this exact test does not reject. In the price lists all intervals of a table hold together; other metrics are described with 95 % intervals, and not judged."),
    p("Outliers are flagged (modified z-score above 3.5), never removed. A failed trial is a finding, never a sample. A number is printed only to the digit that its interval allows."),
    h("h3", {}, "Verdicts"),
    legend(page),
  );
}

export function percent(v: number): string {
  return `${Number((100 * v).toPrecision(3))} %`;
}
