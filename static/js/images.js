// Tells the page that an image has said something, or that the asking has come further. What it
// says is asked for by those who show it: their trigger is "images from:body".

const main = document.getElementById("main");
new MutationObserver((changes) => {
  if (changes.some(({ target, oldValue }) => target.dataset.images !== oldValue)) {
    document.body.dispatchEvent(new CustomEvent("images"));
  }
}).observe(main, { subtree: true, attributeFilter: ["data-images"], attributeOldValue: true });
