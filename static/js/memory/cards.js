// @ts-check
// The rows of GPUs on a box's page. The address opens the one that it names, and a click on a part of
// a memory bar what is said of it; by keyboard the rows themselves open.

import { around, find } from "../page/parts.js";

/** @param {Element} row */
function unfold(row) {
  for (let each = row.closest("details"); each; each = each.parentElement?.closest("details") ?? null) each.open = true;
}

function follow() {
  const card = document.getElementById(location.hash.slice(1));
  if (!(card instanceof HTMLDetailsElement)) return;
  unfold(card);
  card.scrollIntoView({ block: "nearest" });
}

addEventListener("hashchange", follow);
follow();

document.addEventListener("click", (event) => {
  const part = around(event, "[data-part]", SVGElement);
  const row = document.getElementById(part?.dataset.part ?? "");
  if (!row) return;
  // The bar is in the row that unfolds, which would fold it again.
  event.preventDefault();
  unfold(row);
  find(row, "summary", HTMLElement).focus();
});
