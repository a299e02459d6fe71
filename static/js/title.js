// Counts in the tab's title what needs attention: the tab is seen while another is looked at.

const words = document.title;

function count() {
  const found = Number(document.getElementById("attention")?.dataset.count ?? 0);
  document.title = found ? `(${found}) ${words}` : words;
}

const main = document.getElementById("main");
if (main?.querySelector("#attention")) {
  new MutationObserver(count).observe(main, { subtree: true, childList: true, attributeFilter: ["data-count"] });
  count();
}
