// What follows # in the page's address names a part of the page and what is chosen in
// it, as in #numbers&filter=runc+wall&sort=-n: who gets the address sees the same. The
// other parts of the address cannot be changed by a page that was opened from a file.

const heeds: [string, (value: string) => void][] = [];
let [place, params] = read();

function read(): [string, URLSearchParams] {
  const [name, ...rest] = location.hash.slice(1).split("&");
  return [decodeURIComponent(name), new URLSearchParams(rest.join("&"))];
}

// chosen calls heed with what the address has for a name, now and whenever it changes;
// "" where it has nothing.
export function chosen(name: string, heed: (value: string) => void): void {
  heeds.push([name, heed]);
  const value = params.get(name);
  if (value) heed(value);
}

// choose writes a choice into the address; "" takes it out.
export function choose(name: string, value: string): void {
  if (value) params.set(name, value);
  else params.delete(name);
  write();
}

function write(): void {
  const rest = params.toString();
  history.replaceState(null, "", `#${encodeURIComponent(place)}${rest ? `&${rest}` : ""}`);
}

// follow goes where the address points, at the beginning and after each link.
export function follow(): void {
  addEventListener("hashchange", () => {
    const [to, given] = read();
    place = to;
    if (location.hash.includes("&")) {
      params = given;
      for (const [name, heed] of heeds) heed(params.get(name) ?? "");
    }
    write(); // a link within the page keeps what is chosen
    go();
  });
  go();
}

function go(): void {
  const at = place ? document.getElementById(place) : null;
  if (!at) return;
  for (let e: Element | null | undefined = at; e; e = e.parentElement?.closest("details")) if (e instanceof HTMLDetailsElement) e.open = true;
  at.scrollIntoView({ behavior: "instant" });
}
