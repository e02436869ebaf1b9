// The data that internal/report/html.go writes into the page. Numbers are in
// base units (seconds, bytes, counts); null stands for a number that is not
// finite. Texts are untrusted: they reach the page only as text nodes.

export interface Interval {
  low: number;
  high: number;
  level: number;
  method: string;
}

export interface Metric {
  name: string;
  unit: string;
  better: string;
  help?: string;
}

export interface Summary {
  n: number;
  failed: number;
  median: number;
  mean: number;
  min: number;
  max: number;
  p90: number;
  p99?: number;
  mad: number;
  outliers: number;
  interval: Interval;
}

export interface Effect {
  ratio: number;
  interval: Interval;
  p: number;
  blocks: number;
  verdict?: string;
  belowMargin?: boolean;
  size?: string;
  bound?: string;
  need?: number;
  why: string;
}

export interface Row {
  cell: string;
  target: string;
  label: string;
  control: boolean;
  aa: boolean;
  summary: Summary;
  cold?: number;
  effect?: Effect;
}

export interface Table {
  group: string;
  workload: string;
  metric: Metric;
  primary: boolean;
  noise: number;
  rows: Row[];
}

export interface Step {
  from: string;
  to: string;
  beside?: boolean;
  median: number;
  delta: number;
  interval: Interval;
}

export interface Ladder {
  group: string;
  metric: Metric;
  base: string;
  baseMedian: number;
  baseInterval: Interval;
  steps: Step[];
  total: number;
}

export interface Fact {
  name: string;
  value: string;
}

export interface ShownNumber {
  value: string;
  low?: string;
  high?: string;
}

export interface Scale {
  factor: number;
  unit: string;
}

export interface ShownRow {
  median: ShownNumber;
  ratio: ShownNumber;
  cold: string;
  verdict: string;
  effect: string;
}

export interface ShownTable {
  scale: Scale;
  title: string;
  rows: ShownRow[];
}

export interface ShownLadder {
  base: ShownNumber;
  steps: { delta: ShownNumber; level: string }[];
  delta: Scale;
  total: Scale;
  sum: string;
  log: boolean;
}

export interface Density {
  low: number;
  high: number;
  log?: boolean;
  counts: number[];
}

export interface Shape {
  dots?: number[];
  density?: Density;
  outliers?: number[];
  leftOut?: number;
}

export interface Failure {
  fault: string;
  phase: string;
  message: string;
  exitCode?: number;
  signal?: number;
  stderr?: string;
}

export interface Failed {
  run?: string; // its label, where several are compared
  cell: string;
  label: string;
  group: string;
  failed: number;
  of: number;
  failure?: Failure;
  hint?: string; // what may have been the cause
}

export interface Facts {
  version: string;
  path: string;
  digest?: string;
  notes?: Record<string, string>;
}

// Comparison is one metric of two runs.
export interface Comparison extends Grid {
  primary: boolean;
}

// Target is what a target was in a run; in all of them without one.
export interface Target extends Facts {
  run?: string;
  name: string;
}

export interface Estimate {
  value: number;
  interval: Interval;
}

// Grid is a table that is ready to be shown.
export interface Grid {
  title: string;
  head: string[];
  rows: string[][];
  words?: boolean;
}

export interface Axis {
  label: string;
  log?: boolean;
  zero?: boolean;
  to?: number; // where it ends
}

export type Look = "measured" | "published" | "fit" | "series" | "pale";

export interface Point {
  x: number;
  y: number;
  low: number;
  high: number;
  tip?: string;
}

export interface Line {
  name: string;
  look: Look;
  points: Point[];
}

export interface Part {
  name?: string;
  value: number;
}

export interface Bar {
  name: string;
  look: Look;
  parts: Part[];
  low?: number;
  high?: number;
}

// Dots are the values of one name in several rows.
export interface Dots {
  name: string;
  look: Look;
  at: { row: string; value: number; low: number; high: number }[];
}

// Figure is a chart that a section describes.
export interface Figure {
  title: string;
  beside?: boolean;
  x: Axis;
  y: Axis;
  lines?: Line[];
  bars?: Bar[];
  dots?: Dots[]; // instead of both
  flame?: Flame; // instead of all three
  chains?: Chain[]; // instead of all four
  timeline?: Timeline; // instead of all five
  forest?: Forest; // instead of all six
}

// Forest is ratios about 1, one in a row; band is the margin as a ratio minus 1.
export interface Forest {
  band: number;
  rows: { name: string; shape: "dot" | "hollow" | "diamond"; value: number; low: number; high: number; nextLow?: number; nextHigh?: number; tip: string }[];
}

// Paper is what the page shows in place of a run: sections under a title.
export interface Paper {
  title: string;
  question: string;
  about: string[];
  warnings: string[] | null;
  findings: string[] | null;
  sections: Section[];
  tool: string;
}

// Chain is a way from one end to the other: boxes in a row, joined by lines.
export interface Chain {
  name: string;
  boxes: { name: string; place?: boolean }[];
}

// Section is what a study says beyond its price lists.
export interface Section {
  id: string;
  title: string;
  headline: string[];
  findings: string[];
  figures: Figure[];
  tables: Grid[];
  claims: Grid;
  note: string;
  alone: boolean;
  tableFirst?: boolean;
}

// Flame is a flame graph of seconds, or of what unit says in their place.
export interface Flame {
  unit?: string;
  of: string;
  note: string;
  find: string;
  frame: Frame;
}

export interface Frame {
  name: string;
  value: number;
  children?: Frame[];
}

// Timeline is what happened when, in seconds.
export interface Timeline {
  rows: TimelineRow[];
}

export interface TimelineRow {
  name: string;
  end: number;
  lanes: { name: string; minor?: boolean; stretches: { from: number; to: number; share: number; failed?: boolean; tip: string }[] }[] | null;
  marks?: { name: string; at: number }[];
}

// SummaryTable is a table with a verdict in its cells.
export interface SummaryTable {
  title: string;
  first: string;
  rows: string[];
  columns: { over?: string; head: string; words?: boolean; cells: { text: string; verdict?: string; effect?: string }[] }[];
  note?: string;
}

// Summary is what to know in a minute: the page begins with it.
export interface Summary {
  about: string[];
  alerts?: string[];
  tables?: SummaryTable[];
  noVerdict?: { what: string; why: string }[];
  says?: string[];
  certainty?: string[];
  next: { label: string; command: string }[];
}

export interface Page {
  summary: Summary;
  summaryFigures: Figure[] | null;
  findings: string[];
  manifest: {
    id: string;
    created: string;
    tool: string;
    seed: string; // 64 bits: more than a number holds
    image: string;
    command: string[];
    study: { id: string; title: string; question: string; view?: string; blocks?: number; control?: string };
  };
  others?: { id: string }[];
  claims: {
    tables: Table[];
    ladders?: Ladder[];
    warnings?: string[];
    alpha: number;
    margin: number;
    failures: number;
    trials: number;
    planned: number;
  };
  facts: Fact[];
  shown: ShownTable[];
  resolution: string[];
  shapes: Shape[][];
  ladders: ShownLadder[];
  compared: Comparison[];
  failures: Failed[];
  leftOut: Fact[];
  targets: Target[];
  mitigations: Fact[] | null;
  sections: Section[];
  points: number;
  pointsMost: number;
}

// Entry is one table with all that belongs to it.
export interface Entry {
  claim: Table;
  shown: ShownTable;
  resolution: string;
  shapes: Shape[];
}

// Group is one comparison.
export interface Group {
  name: string;
  primary: Entry[];
  all: Entry[];
}
