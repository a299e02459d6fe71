// @ts-check
// The one dialog of a page: htmx puts questions into it, this opens and closes it.

import { around, byId } from "./parts.js";

const dialog = byId("dialog", HTMLDialogElement);
/** @type {Element | null} */
let opener = null;

function open() {
  if (!dialog.open && dialog.firstElementChild) {
    opener = document.activeElement;
    dialog.showModal();
  }
}

document.addEventListener("htmx:after:swap", open);
// Somebody may have been faster than this script.
open();

/** @param {Node} content */
export function show(content) {
  if (dialog.open) return;
  dialog.replaceChildren(content);
  open();
}

// Emptied first: the next swap anywhere would open a dialog that has something in it.
function shut() {
  dialog.replaceChildren();
  dialog.close();
  if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
}

dialog.addEventListener("click", (event) => {
  // A click on the backdrop is one on the dialog itself.
  if (event.target === dialog || around(event, "[data-close]", HTMLElement)) shut();
});

dialog.addEventListener("cancel", (event) => {
  event.preventDefault();
  shut();
});

// Escape closes a dialog, and ends nothing on the page below it. index.js comes before a page's own
// scripts, so that this is asked first.
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.querySelector("dialog:is(:modal, :popover-open)")) event.stopImmediatePropagation();
});

// An answer was given, and heard. What the dialog itself asks for, to show it, is none.
dialog.addEventListener("htmx:after:request", (event) => {
  if (event instanceof CustomEvent && event.detail.ctx.request.method !== "GET") shut();
});
