// A click on a part of a memory bar opens what is said of it. By keyboard the rows themselves open.

document.addEventListener("click", (event) => {
  const part = event.target.closest("[data-part]");
  const row = part && document.getElementById(part.dataset.part);
  if (!row) return;
  for (let each = row; each; each = each.parentElement.closest("details")) each.open = true;
  row.querySelector("summary").focus();
});
