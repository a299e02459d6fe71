// @ts-check
// The log over all of the page beside the sidebar. What lies below it takes no keys meanwhile.

export class LogFull {
  /** What was made inert. @type {HTMLElement[]} */
  below = [];

  /** @param {HTMLElement} root @param {(yes: boolean) => void} told */
  constructor(root, told) {
    this.root = root;
    this.told = told;
    // In place of the page's own, which lies below it.
    this.title = document.createElement("h1");
    this.title.className = "visually-hidden";
    this.onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector(":popover-open")) return;
      event.preventDefault();
      this.set(false);
    };
  }

  get isOn() {
    return this.root.classList.contains("is-full");
  }

  /** @param {boolean} yes */
  set(yes) {
    if (yes === this.isOn) return;
    this.root.classList.toggle("is-full", yes);
    document.documentElement.classList.toggle("has-full-log", yes);
    for (const each of this.below.splice(0)) each.inert = false;
    this.title.remove();
    if (yes) {
      this.title.textContent = `Log of ${document.querySelector("h1")?.textContent.trim() ?? "a run"}`;
      this.below = around(this.root);
      for (const each of this.below) each.inert = true;
      this.root.prepend(this.title);
      document.addEventListener("keydown", this.onKey);
    } else document.removeEventListener("keydown", this.onKey);
    this.told(yes);
  }

  close() {
    this.set(false);
  }
}

// Everything of the page's main part but what holds the log.
/** @param {HTMLElement} root */
function around(root) {
  /** @type {HTMLElement[]} */
  const found = [];
  for (let here = root; here.parentElement && here.id !== "main"; here = here.parentElement) {
    for (const each of here.parentElement.children) {
      if (each instanceof HTMLElement && each !== here && !each.inert) found.push(each);
    }
  }
  return found;
}
