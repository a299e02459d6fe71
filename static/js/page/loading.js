// @ts-check
// A page whose scripts did not all arrive looks right and is dead: no socket, no buttons. It
// happens when the network changes under the browser, as it does on the box itself whenever
// Docker starts a container. So it is loaded again, a few times at most.
const TRIES = 3;
const KEY = "inferdash-loaded-again";
let isIncomplete = false;

addEventListener(
  "error",
  (event) => {
    const part = event.target;
    if (part instanceof HTMLScriptElement || part instanceof HTMLLinkElement) isIncomplete = true;
  },
  true,
);

addEventListener("load", () => {
  const tries = Number(sessionStorage.getItem(KEY) ?? 0);
  if (!isIncomplete) {
    sessionStorage.removeItem(KEY);
  } else if (tries < TRIES) {
    sessionStorage.setItem(KEY, String(tries + 1));
    location.reload();
  } else {
    sessionStorage.removeItem(KEY);
    const trouble = document.getElementById("trouble");
    const said = Object.assign(document.createElement("p"), { className: "toast" });
    said.textContent = "Parts of this page could not be loaded. Check the network, then reload it.";
    trouble?.replaceChildren(said);
  }
});

// What is pressed before the scripts are there is done as soon as they are: until then nobody hears
// it, on a slow line for seconds.
/** @type {Element | null} */
let pressed = null;

/** @param {Event} event */
function hold(event) {
  const { target } = event;
  const button = target instanceof Element ? target.closest("button, [hx-get], [hx-post]") : null;
  if (!button) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  pressed = button; // not the icon in it, which has no click()
}

document.addEventListener("click", hold, true);
document.addEventListener("DOMContentLoaded", () => {
  // After all others who wait for this event, htmx among them.
  setTimeout(() => {
    document.removeEventListener("click", hold, true);
    if (pressed instanceof HTMLElement && pressed.isConnected) pressed.click();
  });
});
