// @ts-check
// The sidebar: its button, which shows or hides the names beside its icons (theme.js knows what was
// chosen), and what a box's link loses when the server sends it anew.

import { all } from "./parts.js";

const KEY = "inferdash.sidebar";
const root = document.documentElement;
const toggle = document.getElementById("sidebar-toggle");

/** What the pointer is told where no name is seen. */
function tell() {
  const isNarrow = root.dataset.sidebar === "narrow";
  toggle?.setAttribute("aria-pressed", String(!isNarrow));
  if (names instanceof HTMLInputElement) names.checked = !isNarrow;
  for (const each of all(document, ".sidebar :is(a, button)", HTMLElement)) {
    const name = each.querySelector(".label, .box-name")?.textContent ?? "";
    // The server sends a box's link anew, without a title.
    const titled = each.closest(".boxes li") ?? each;
    if (isNarrow && name) titled.setAttribute("title", name);
    else titled.removeAttribute("title");
  }
}

/** @param {boolean} isNarrow */
function choose(isNarrow) {
  root.dataset.sidebar = isNarrow ? "narrow" : "wide";
  try {
    localStorage.setItem(KEY, root.dataset.sidebar);
  } catch {
    // Storage is switched off in this browser: the choice then lasts for one page.
  }
}

toggle?.addEventListener("click", () => choose(root.dataset.sidebar !== "narrow"));
const names = document.getElementById("sidebar-names");
names?.addEventListener("change", () => choose(names instanceof HTMLInputElement && !names.checked));

if (toggle) {
  tell();
  new MutationObserver(tell).observe(root, { attributeFilter: ["data-sidebar"] });
}

// The server does not know on which page the link arrives that it sends anew.
function markBox() {
  for (const link of all(document, ".boxes a:not([aria-current])", HTMLAnchorElement)) {
    if (location.pathname.startsWith(link.pathname)) link.ariaCurrent = "page";
  }
}

const boxes = document.querySelector(".sidebar .boxes");
if (boxes) new MutationObserver(markBox).observe(boxes, { subtree: true, childList: true, attributeFilter: ["aria-current"] });
