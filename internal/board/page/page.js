// Asks tare watch for its readings, again and again, and shows them. All text goes in as
// text: names of containers are chosen by others.
"use strict";

const roundsMost = 150; // readings that a line holds
const bytes = ["B", "KiB", "MiB", "GiB", "TiB"];

const known = (n) => n >= 0;
const number = (n, unit) => `${n >= 100 || n === 0 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)}\u202f${unit}`;
function size(n) {
  let i = 0;
  while (n >= 1000 && i < bytes.length - 1) { n /= 1024; i++; }
  return i === 0 ? `${n.toFixed(0)}\u202fB` : number(n, bytes[i]);
}
const rate = (n) => `${size(n)}/s`;

// A column: its heading, what it shows of a reading, and whether a line goes with it.
const columns = [
  { head: "Container", text: (p) => p.name, name: true },
  { head: "Engine", text: (p) => p.engine, name: true },
  { head: "CPU", of: (p) => p.cpu, text: (n) => `${(100 * n).toFixed(1)}\u202f%`, line: true },
  { head: "Memory", of: (p) => p.memory, text: size, line: true },
  { head: "Read", of: (p) => p.read, text: rate },
  { head: "Written", of: (p) => p.written, text: rate },
  { head: "Received", of: (p) => p.received, text: rate },
  { head: "Sent", of: (p) => p.sent, text: rate },
  { head: "Tasks", of: (p) => p.tasks, text: (n) => n.toFixed(0) },
];

const at = (id) => document.getElementById(id);
const svg = "http://www.w3.org/2000/svg";
let sorted = { column: 0, down: false };
let last = -1; // the time of the last reading, in seconds since the watch began
let began = 0;
const rows = new Map(); // by container
let history = []; // the last readings

function heading(column, index) {
  const cell = document.createElement("th");
  cell.scope = "col";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = column.head;
  button.addEventListener("click", () => {
    sorted = { column: index, down: sorted.column === index ? !sorted.down : !column.name };
    show();
  });
  cell.append(button);
  if (!column.name) cell.className = "number";
  return cell;
}

// A row is made once for a container and changed with each reading.
function makeRow() {
  const row = document.createElement("tr");
  const cells = columns.map((column) => {
    const cell = document.createElement(column.head === "Container" ? "th" : "td");
    if (cell.tagName === "TH") cell.scope = "row";
    cell.className = column.name ? "" : "number";
    const text = document.createElement("span");
    cell.append(text);
    let path = null;
    if (column.line) {
      const line = document.createElementNS(svg, "svg");
      line.setAttribute("viewBox", "0 0 100 20");
      line.setAttribute("preserveAspectRatio", "none");
      line.setAttribute("aria-hidden", "true");
      path = document.createElementNS(svg, "path");
      line.append(path);
      cell.append(line);
    }
    row.append(cell);
    return { text, path };
  });
  return { row, cells };
}

// trace is the path of a column over the last readings: a gap where nothing is known.
function trace(of, values) {
  const peak = Math.max(...values.filter(known), 0);
  let path = "";
  let drawing = false;
  values.forEach((n, i) => {
    if (!known(n)) { drawing = false; return; }
    const x = (100 * i) / Math.max(roundsMost - 1, 1);
    const y = peak > 0 ? 19 - (18 * n) / peak : 19;
    path += `${drawing ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
    if (!drawing) path += "h0.01"; // a single reading is a dot
    drawing = true;
  });
  return path;
}

function show() {
  const round = history[history.length - 1];
  if (!round) return;
  const there = new Set(round.points.map((p) => p.id));
  for (const [id, r] of rows) if (!there.has(id)) { r.row.remove(); rows.delete(id); }
  const past = history.map((r) => new Map(r.points.map((p) => [p.id, p])));
  for (const p of round.points) {
    let r = rows.get(p.id);
    if (!r) rows.set(p.id, (r = makeRow()));
    columns.forEach((column, i) => {
      const value = column.name ? column.text(p) : known(column.of(p)) ? column.text(column.of(p)) : "–";
      if (r.cells[i].text.textContent !== value) r.cells[i].text.textContent = value;
      if (column.name) r.cells[i].text.title = i === 0 ? p.id : "";
      if (!column.line) return;
      const values = past.map((m) => (m.has(p.id) ? column.of(m.get(p.id)) : -1));
      while (values.length < roundsMost) values.unshift(-1);
      r.cells[i].path.setAttribute("d", trace(column.of, values));
    });
  }
  order(round.points);
  at("none").hidden = round.points.length > 0;
  at("table").hidden = round.points.length === 0;
  at("hidden").hidden = round.hidden === 0;
  at("hidden").textContent = `${round.hidden} more containers use less CPU time; OpenMetrics has them all.`;
}

function order(points) {
  const column = columns[sorted.column];
  const key = (p) => (column.name ? column.text(p) : column.of(p));
  const before = (x, y) => (key(x) < key(y) ? -1 : key(x) > key(y) ? 1 : x.name < y.name ? -1 : x.name > y.name ? 1 : 0);
  const list = [...points].sort(before);
  if (sorted.down) list.reverse();
  const body = at("rows");
  list.forEach((p, i) => {
    const { row } = rows.get(p.id);
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null);
  });
  [...at("head").children].forEach((cell, i) => {
    if (i === sorted.column) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

const words = { start: "started", die: "died", oom: "out of memory" };

function event(e) {
  const line = document.createElement("li");
  line.className = e.event;
  const time = document.createElement("time");
  const when = new Date(began + 1000 * e.at);
  time.dateTime = when.toISOString();
  time.textContent = when.toLocaleTimeString([], { hour12: false });
  const name = document.createElement("b");
  name.textContent = e.name;
  name.title = e.id;
  const what = document.createElement("span");
  what.className = "what";
  what.textContent = words[e.event] || e.event;
  const engine = document.createElement("span");
  engine.className = "engine";
  engine.textContent = e.engine;
  line.append(time, " ", what, " ", name, " ", engine);
  if (e.killed) line.append(` · ${e.killed} ${e.killed === 1 ? "process" : "processes"} killed`);
  return line;
}

let shownEvents = "";
function showEvents(events) {
  const text = JSON.stringify(events);
  if (text === shownEvents) return;
  shownEvents = text;
  at("quiet").hidden = events.length > 0;
  at("events").replaceChildren(...events.slice().reverse().map(event));
}

function say(text, lost) {
  const state = at("state");
  if (state.textContent !== text) state.textContent = text;
  state.className = lost ? "lost" : "";
}

let every = 1000;
async function ask() {
  try {
    const answer = await fetch(`readings?after=${last}`, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    const s = await answer.json();
    if (s.began !== began) { // another watch, whose time begins anew
      began = s.began;
      history = [];
      if (last >= 0) { last = -1; return ask(); }
    }
    at("host").textContent = s.host || "this machine";
    document.title = `tare watch: ${s.host}`;
    every = Math.max(1000, 1000 * s.interval);
    history = history.concat(s.rounds).slice(-roundsMost);
    if (s.rounds.length) last = s.rounds[s.rounds.length - 1].at;
    const n = history.length ? history[history.length - 1].points.length + history[history.length - 1].hidden : 0;
    say(`${n} ${n === 1 ? "container" : "containers"}, ${s.cpus} ${s.cpus === 1 ? "CPU" : "CPUs"}, read every ${s.interval} s`, false);
    if (s.rounds.length) show();
    showEvents(s.events);
  } catch (error) {
    last = -1; // a new watch begins at 0 again
    history = [];
    say("no answer from tare watch: it has ended, or cannot be reached", true);
  }
  setTimeout(ask, every);
}

at("head").append(...columns.map(heading));
ask();
