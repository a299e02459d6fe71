// @ts-check
// The pages of settings: buttons that wait for a change, notifications, addresses of the one page that there was.

import { state, turnOff, turnOn } from "../page/notifications.js";
import { all, byId, find } from "../page/parts.js";

// "Change" is there once there is something to change.
for (const form of all(document, "form[data-until-changed]", HTMLFormElement)) {
  const button = find(form, "button[type=submit]", HTMLButtonElement);
  const select = find(form, "select", HTMLSelectElement);
  const tell = () => (button.hidden = [...select.options].every((each) => each.selected === each.defaultSelected));
  select.addEventListener("change", tell);
  tell();
}

// Where the pages are tabs that do not all fit, one sees on which one is.
document.querySelector(".subpages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Anchors of the page as it was; what comes after "#" no server hears.
/** @type {Record<string, string>} */
const MOVED = { people: "people/", secrets: "secrets/", boxes: "boxes/", alerts: "notifications/", logs: "about/" };
const old = /^#(\w+)-title$/.exec(location.hash)?.[1] ?? "";
if (location.pathname.endsWith("/settings/") && MOVED[old]) location.replace(MOVED[old]);

// Whether this browser shows notifications, and the button that changes it.
const place = document.getElementById("this-browser");

function tellState() {
  if (!place) return;
  const found = state();
  for (const each of all(place, "[data-when]", HTMLElement)) each.hidden = each.dataset.when !== found;
}

if (place) {
  place.hidden = false;
  tellState();
  byId("notifications-on", HTMLButtonElement).addEventListener("click", async () => (await turnOn(), tellState()));
  byId("notifications-off", HTMLButtonElement).addEventListener("click", () => (turnOff(), tellState()));
}
