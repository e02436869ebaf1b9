import "./style.css";
import { follow } from "./address";
import { h, redrawAll, section, visible } from "./dom";
import { distributions } from "./distribution";
import { bands, compared, definitions, failures, method, mitigations, targets } from "./facts";
import { forest } from "./forest";
import { glance } from "./glance";
import { keys } from "./keys";
import { waterfall } from "./ladder";
import { paper } from "./paper";
import { raw } from "./raw";
import { summary } from "./summary";
import { themeButton } from "./theme";
import { tools } from "./tools";
import { study } from "./study";
import type { Entry, Group, Page, Paper } from "./types";

const page: Page & { paper?: Paper } = JSON.parse(document.getElementById("tare-data")!.textContent!, (_, v: unknown) => (typeof v === "string" ? visible(v) : v));
const runs = page.paper ? [] : [page.manifest, ...(page.others ?? [])].map((m) => m.id);
const entries: Entry[] = (page.claims?.tables ?? []).map((claim, i) => ({ claim, shown: page.shown[i], resolution: page.resolution[i], shapes: page.shapes[i] }));

function groups(): Group[] {
  const all: Group[] = [];
  for (const entry of entries) {
    let group = all.find((g) => g.name === entry.claim.group);
    if (!group) all.push((group = { name: entry.claim.group, primary: [], all: [] }));
    group.all.push(entry);
    if (entry.claim.primary) group.primary.push(entry);
  }
  return all;
}

function header(): HTMLElement {
  const { study } = page.manifest;
  return h(
    "header",
    {},
    h("div", { class: "eyebrow" }, h("span", {}, "tare report ", h("code", {}, runs.join(" "))), themeButton()),
    h("h1", {}, study.title),
    h("p", { class: "question" }, study.question),
    h("p", { class: "about" }, page.summary.about.join(" · ")),
    ...(page.summary.alerts ?? []).map((a) => h("p", { class: "alert" }, a)),
    summary(page),
    warnings(),
    findings(),
  );
}

// findings are all sentences; the summary has the most important ones.
function findings(): HTMLElement | null {
  if (page.findings.length === 0) return null;
  return h("details", { class: "all-findings" }, h("summary", {}, `All findings (${page.findings.length})`), h("ul", { class: "findings", "aria-label": "Findings" }, ...page.findings.map(finding)));
}

// finding sets the comparison's name, which comes first, in bold.
function finding(text: string): HTMLElement {
  const group = page.claims.tables.find((t) => text.startsWith(`${t.group} (`))?.group ?? "";
  return h("li", {}, group ? h("strong", {}, group) : null, text.slice(group.length));
}

function warnings(): HTMLElement | null {
  const all = page.claims.warnings ?? [];
  if (all.length === 0) return null;
  return h("aside", { class: "warnings", "aria-label": "Warnings" }, h("h2", {}, all.length === 1 ? "Warning" : "Warnings"), h("ul", {}, ...all.map((w) => h("li", {}, w))));
}

function prices(all: Group[]): HTMLElement | null {
  return all.length === 0 ? null : section("prices", "Price list", ...folded(`Every comparison, ${all.length} in all`, glance(all), bands(page), ...all.flatMap((g) => g.primary.map((e) => forest(page, e)))));
}

// folded hides a part that is too long to read through: a study may have a
// comparison for each test, environment and number of containers.
// It is drawn when it is opened, and stays closed on paper.
function folded(what: string, ...parts: (HTMLElement | null)[]): (HTMLElement | null)[] {
  return (page.sections ?? []).some((s) => s.alone) ? [h("details", { class: "bulk", toggle: () => redrawAll() }, h("summary", {}, what), ...parts)] : parts;
}

function ladders(): HTMLElement | null {
  const claims = page.claims.ladders ?? [];
  return claims.length === 0 ? null : section("ladder", "Ladder", ...claims.map((l, i) => waterfall(l, page.ladders[i])));
}

function troubles(): (HTMLElement | null)[] {
  return [
    page.failures?.length ? section("failures", "Failed trials", failures(page.failures)) : null,
    page.leftOut?.length ? section("left-out", "Left out", definitions(page.leftOut)) : null,
  ];
}

function sections(): HTMLElement[] {
  const all = groups();
  const priceList = prices(all);
  const first = page.manifest.study.view === "ladder" ? [ladders(), priceList] : [priceList, ladders()];
  const compares = all.length > 0; // readings over time compare nothing
  const rest = [
    compares ? onScreen(section("distributions", "Distributions", ...folded("Every sample", ...all.map((g) => distributions(page, g))))) : null,
    ...troubles(),
    section("machine", "Machine and targets", definitions(page.facts), mitigations(page), targets(page)),
    compares ? section("method", "Method in short", method(page)) : null,
    compares ? onScreen(section("numbers", "All numbers", raw(entries))) : null,
  ];
  const change = page.compared?.length ? section("compared", "Runs compared", ...compared(page)) : null;
  return [...(page.sections ?? []).map((s) => study(s)), change, ...first, ...rest].filter((s): s is HTMLElement => s !== null);
}

// onScreen marks a part that paper does not have: it would take a page for each target.
function onScreen(part: HTMLElement): HTMLElement {
  part.classList.add("screen");
  return part;
}

function contents(parts: HTMLElement[]): HTMLElement {
  return h("nav", { "aria-label": "Contents" }, ...parts.map((s) => h("a", { href: `#${s.id}` }, s.querySelector("h2")!.textContent!)));
}

// Print has a width of its own: charts are drawn for it before, and drawn back
// after.
function printing(on: boolean): void {
  document.documentElement.classList.toggle("printing", on);
  redrawAll(true);
}

const shown = page.paper ? paper(page.paper) : { header: header(), parts: sections(), footer: `Made by tare ${page.manifest.tool} from run${runs.length > 1 ? "s" : ""} ${runs.join(", ")}.` };
document.title = `${page.paper?.title ?? page.manifest.study.title} – tare`;
document.getElementById("report")!.append(shown.header, contents(shown.parts), ...shown.parts, h("footer", {}, shown.footer));
tools(document.getElementById("report")!, page.manifest.id);
redrawAll();
follow();
keys();
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));
document.documentElement.dataset.ready = "true";
