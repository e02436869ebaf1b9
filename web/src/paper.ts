import { h } from "./dom";
import { study } from "./study";
import { themeButton } from "./theme";
import type { Paper } from "./types";

// paper is a page that is not of one run: sections under a title. It gives what
// stands before the contents, and the sections.
export function paper(p: Paper): { header: HTMLElement; parts: HTMLElement[]; footer: string } {
  const header = h(
    "header",
    {},
    h("div", { class: "eyebrow" }, h("span", {}, "tare report"), themeButton()),
    h("h1", {}, p.title),
    p.question ? h("p", { class: "question" }, p.question) : null,
    h("p", { class: "about" }, p.about.join(" · ")),
    list("warnings", "Warnings", p.warnings),
    list("findings-first", "Findings", p.findings),
  );
  return { header, parts: p.sections.map(study), footer: `Made by tare ${p.tool}.` };
}

function list(name: string, title: string, items: string[] | null): HTMLElement | null {
  if (!items?.length) return null;
  return h("aside", { class: name, "aria-label": title }, h("h2", {}, title), h("ul", {}, ...items.map((i) => h("li", {}, i))));
}
