import { h } from "./dom";

const key = "tare-theme";
type Theme = "light" | "dark";

// remembered reads the reader's choice; storage may be forbidden to a local file.
function remembered(): Theme | null {
  try {
    const value = localStorage.getItem(key);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null;
  }
}

function remember(theme: Theme): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    return; // the choice then lasts as long as the page
  }
}

function current(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// themeButton switches between light and dark; until it is used, the system's
// preference rules.
export function themeButton(): HTMLElement {
  const chosen = remembered();
  if (chosen) document.documentElement.dataset.theme = chosen;
  const label = () => (current() === "dark" ? "Light theme" : "Dark theme");
  const button = h("button", {
    type: "button", class: "theme",
    click: () => {
      const next = current() === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = next;
      remember(next);
      button.textContent = label();
    },
  }, label());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (button.textContent = label()));
  return button;
}
