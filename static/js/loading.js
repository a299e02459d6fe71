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
    trouble.textContent = "Parts of this page could not be loaded. Check the network, then reload it.";
  }
});
