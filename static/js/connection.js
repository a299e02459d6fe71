// Says when the page no longer hears from inferdash, because what it shows is then old.

const PATIENCE = 1500; // ms; a socket that comes back at once is not worth a word
const SIGNED_OUT = 4401;

const strip = document.getElementById("connection");
let timer = 0;

function show(text) {
  strip.textContent = text;
  strip.hidden = false;
  document.documentElement.classList.add("is-offline");
}

document.addEventListener("htmx:ws:close", (event) => {
  // A hidden tab closes its socket on purpose and opens it again when it is shown.
  if (document.hidden) return;
  clearTimeout(timer);
  if (event.detail.code === SIGNED_OUT) {
    show("You are signed out, so this page no longer changes. Reload it to sign in again.");
    return;
  }
  timer = setTimeout(() => {
    if (!document.hidden) show("Connection lost, reconnecting. What you see is as of then.");
  }, PATIENCE);
});

document.addEventListener("htmx:ws:after:connection", () => {
  clearTimeout(timer);
  strip.hidden = true;
  document.documentElement.classList.remove("is-offline");
});
