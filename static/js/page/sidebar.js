// @ts-check
// The sidebar's button, which shows or hides the names beside its icons. theme.js knows what was chosen.

import { all } from "./parts.js";

const KEY = "inferdash.sidebar";
const root = document.documentElement;
const toggle = document.getElementById("sidebar-toggle");

/** What the pointer is told where no name is seen. */
function tell() {
  const isNarrow = root.dataset.sidebar === "narrow";
  toggle?.setAttribute("aria-pressed", String(!isNarrow));
  for (const each of all(document, ".sidebar :is(a, button)", HTMLElement)) {
    const name = each.querySelector(".label, .box-name")?.textContent ?? "";
    if (isNarrow && name) each.title = name;
    else each.removeAttribute("title");
  }
}

toggle?.addEventListener("click", () => {
  root.dataset.sidebar = root.dataset.sidebar === "narrow" ? "wide" : "narrow";
  try {
    localStorage.setItem(KEY, root.dataset.sidebar);
  } catch {
    // Storage is switched off in this browser: the choice then lasts for one page.
  }
});

if (toggle) {
  tell();
  new MutationObserver(tell).observe(root, { attributeFilter: ["data-sidebar"] });
}
