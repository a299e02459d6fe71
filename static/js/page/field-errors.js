// @ts-check
// Says beside each field of the profile form what its check has found wrong with it, while it is
// typed. What nobody has come to yet is left alone until a save: it is not wrong, only open.

import { all, byId } from "./parts.js";
import { whenReleased } from "./pointer-guard.js";

/** @typedef {{text: string, isMissing: boolean}} Fault */

const form = byId("profile-form", HTMLFormElement);
const check = byId("check", HTMLElement);
const showsAll = form.dataset.errors === "all";
/** Ids of fields. @type {Set<string>} */
const typed = new Set();
/** @type {Set<string>} */
const left = new Set();
/** By id. @type {Map<string, Fault[]>} */
let faults = new Map();

/** @param {string} id @param {Fault} fault */
function mayShow(id, { isMissing }) {
  return showsAll || left.has(id) || (typed.has(id) && !isMissing);
}

function show() {
  for (const place of all(form, ".field > .errors", HTMLElement)) {
    const id = place.id.slice(0, -"_error".length);
    const texts = (faults.get(id) ?? []).filter((each) => mayShow(id, each)).map((each) => each.text);
    if (texts.join("\n") === [...place.children].map((each) => each.textContent).join("\n")) continue;
    place.replaceChildren(...texts.map(line));
    tell(document.getElementById(id), place, texts.length > 0);
  }
}

/** @param {Event} event */
const idOf = ({ target }) => (target instanceof Element ? target.id : "");

/** @param {string} text */
function line(text) {
  const made = document.createElement("p");
  made.className = "error";
  made.textContent = text;
  return made;
}

/** @param {HTMLElement | null} box @param {HTMLElement} place @param {boolean} isWrong */
function tell(box, place, isWrong) {
  place.parentElement?.classList.toggle("has-error", isWrong);
  const fold = place.closest("details");
  if (isWrong && fold) fold.open = true;
  if (!box) return;
  const ids = new Set((box.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean));
  if (isWrong) {
    box.setAttribute("aria-invalid", "true");
    ids.add(place.id);
  } else {
    box.removeAttribute("aria-invalid");
    ids.delete(place.id);
  }
  if (ids.size) box.setAttribute("aria-describedby", [...ids].join(" "));
  else box.removeAttribute("aria-describedby");
}

function take() {
  // Nothing was checked yet, or the answer is of another kind.
  if (!check.querySelector("[data-checked]")) return;
  faults = new Map();
  for (const { dataset } of all(check, "[data-field]", HTMLElement)) {
    const { field = "", text = "" } = dataset;
    faults.set(field, [...(faults.get(field) ?? []), { text, isMissing: "missing" in dataset }]);
  }
  whenReleased(show);
}

for (const name of ["input", "change"]) form.addEventListener(name, (event) => typed.add(idOf(event)));
form.addEventListener("focusout", (event) => {
  left.add(idOf(event));
  whenReleased(show);
});
new MutationObserver(take).observe(check, { childList: true });
