// @ts-check
// Counts in the tab's title what needs attention: the tab is seen while another is looked at.

const words = document.title;

function count() {
  const found = Number(document.getElementById("bell")?.dataset.count ?? 0);
  document.title = found ? `(${found}) ${words}` : words;
}

const bar = document.getElementById("bell")?.parentElement;
if (bar) {
  new MutationObserver(count).observe(bar, { subtree: true, childList: true, attributeFilter: ["data-count"] });
  count();
}
