// @ts-check
// Menus by keys: a popover with role="menu" is walked by arrows, Home, End and first letters. A tick
// leaves it open, any other choice closes it, and the focus goes back to its button.

import { all, around } from "./parts.js";

/** @param {HTMLElement} menu */
function itemsOf(menu) {
  const found = all(menu, "[role^=menuitem]", HTMLElement);
  return found.filter((each) => each.checkVisibility());
}

// The event does not bubble.
document.addEventListener(
  "toggle",
  (event) => {
    const menu = event.target;
    if (!(event instanceof ToggleEvent) || event.newState !== "open") return;
    if (menu instanceof HTMLElement && menu.role === "menu") itemsOf(menu)[0]?.focus();
  },
  true,
);

document.addEventListener("keydown", (event) => {
  const menu = around(event, "[role=menu]", HTMLElement);
  if (!menu || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Tab") return menu.hidePopover();
  const items = itemsOf(menu);
  const at = items.findIndex((each) => each === document.activeElement);
  /** @type {Record<string, HTMLElement | undefined>} */
  const ways = { ArrowDown: items[at + 1] ?? items[0], ArrowUp: items.at(at - 1), Home: items[0], End: items.at(-1) };
  const next = ways[event.key] ?? named(items, at, event.key);
  if (!next) return;
  event.preventDefault();
  next.focus();
});

// The next one whose words begin with this letter.
/** @param {HTMLElement[]} items @param {number} at @param {string} key */
function named(items, at, key) {
  if (key.length !== 1 || key === " ") return undefined;
  const later = [...items.slice(at + 1), ...items.slice(0, at + 1)];
  return later.find((each) => each.textContent.trim().toLowerCase().startsWith(key.toLowerCase()));
}

document.addEventListener("click", (event) => {
  const item = around(event, "[role=menuitem]", HTMLElement);
  const menu = item?.closest("[role=menu]");
  if (menu instanceof HTMLElement && menu.matches(":popover-open")) menu.hidePopover();
});
