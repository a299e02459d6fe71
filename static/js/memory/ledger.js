// @ts-check
// A click on a part of a memory bar opens what is said of it. By keyboard the rows themselves open.

import { around, find } from "../page/parts.js";

document.addEventListener("click", (event) => {
  const part = around(event, "[data-part]", SVGElement);
  const row = document.getElementById(part?.dataset.part ?? "");
  if (!row) return;
  for (let each = row.closest("details"); each; each = each.parentElement?.closest("details") ?? null) each.open = true;
  find(row, "summary", HTMLElement).focus();
});
