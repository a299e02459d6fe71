// The one dialog of a page: htmx puts questions into it, this opens and closes it.

const dialog = document.getElementById("dialog");
let opener = null;

document.addEventListener("htmx:after:swap", () => {
  if (!dialog.open && dialog.firstElementChild) {
    opener = document.activeElement;
    dialog.showModal();
  }
});

dialog.addEventListener("click", (event) => {
  // A click on the backdrop is one on the dialog itself.
  if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
});

// An answer was given: close as soon as it was heard.
dialog.addEventListener("htmx:after:request", () => dialog.close());

dialog.addEventListener("close", () => {
  dialog.replaceChildren();
  if (opener?.isConnected) opener.focus();
});
