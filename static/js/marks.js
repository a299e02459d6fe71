// Tells the page that something of which it shows only a mark has changed: what images say
// (data-images), what lies on the disks (data-stock), which alert was over last (data-over), what a
// capture has kept (data-captures), which names programs may ask for (data-names). It is asked for by those who show it, with the trigger
// "images from:body", "stock from:body", ….

const MARKS = {
  "data-images": "images",
  "data-stock": "stock",
  "data-over": "over",
  "data-jobs": "jobs",
  "data-captures": "captures",
  "data-names": "names",
};

const main = document.getElementById("main");
new MutationObserver((changes) => {
  const changed = changes.filter((each) => each.target.getAttribute(each.attributeName) !== each.oldValue);
  for (const name of new Set(changed.map((each) => each.attributeName))) {
    document.body.dispatchEvent(new CustomEvent(MARKS[name]));
  }
}).observe(main, { subtree: true, attributeFilter: Object.keys(MARKS), attributeOldValue: true });
