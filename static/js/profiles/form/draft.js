// @ts-check
// What was typed into the profile form and not saved survives a reload, in this tab and at this address.
// Secrets are not kept. Who would leave it by mistake is asked.

import { byId } from "../../page/parts.js";
import { CARRIED } from "./draft-keys.js";
import { hide } from "./hide.js";

const PAUSE = 300; // ms after the last key
const key = `draft:${location.pathname}${location.search}`;

const form = byId("profile-form", HTMLFormElement);
const place = byId("restored", HTMLElement);
const mask = form.dataset.mask ?? "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let isLeaving = false;

/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Field */

/** @returns {Field[]} */
function fields() {
  return [...form.elements].filter(
    /** @returns {each is Field} */ (each) =>
      (each instanceof HTMLInputElement || each instanceof HTMLTextAreaElement || each instanceof HTMLSelectElement) &&
      Boolean(each.name) &&
      each.name !== "csrfmiddlewaretoken",
  );
}

/** @param {Field} field */
function valueOf(field) {
  return field instanceof HTMLInputElement && field.type === "checkbox" ? String(field.checked) : field.value;
}

/** @param {Field} field as the page came */
function firstOf(field) {
  if (field instanceof HTMLSelectElement) {
    return ([...field.options].find((each) => each.defaultSelected) ?? field.options[0])?.value ?? "";
  }
  if (field instanceof HTMLInputElement && field.type === "checkbox") return String(field.defaultChecked);
  return field.defaultValue;
}

/** @param {(field: Field) => string} read */
const collect = (read) => Object.fromEntries(fields().map((field) => [field.name, hide(read(field), mask)]));

const isChanged = () => "changed" in form.dataset || fields().some((field) => valueOf(field) !== firstOf(field));

function keep() {
  clearTimeout(timer);
  if (isLeaving) return;
  try {
    const hides = fields().some((field) => valueOf(field) !== hide(valueOf(field), mask));
    const kept = { first: collect(firstOf), now: collect(valueOf), hides };
    if (isChanged()) sessionStorage.setItem(key, JSON.stringify(kept));
    else sessionStorage.removeItem(key);
  } catch {
    // No room for it: the warning before one leaves stays.
  }
}

function forget() {
  isLeaving = true;
  clearTimeout(timer);
  sessionStorage.removeItem(key);
}

function restore() {
  const carried = sessionStorage.getItem(CARRIED);
  sessionStorage.removeItem(CARRIED);
  const kept = JSON.parse(carried ?? sessionStorage.getItem(key) ?? "null");
  // Of another paste at the same address, or of a version that somebody has saved since.
  if (!kept || (!carried && JSON.stringify(kept.first) !== JSON.stringify(collect(firstOf)))) return;
  let count = 0;
  for (const field of fields()) {
    const value = kept.now[field.name];
    if (value === undefined || value === hide(firstOf(field), mask)) continue;
    count += 1;
    if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = value === "true";
    else field.value = value;
  }
  if (count) say(kept.hides);
  if (carried) keep();
}

/** @param {boolean} hides whether there was a secret among it */
function say(hides) {
  const line = document.createElement("p");
  line.className = "notice restored";
  const discard = document.createElement("button");
  discard.type = "button";
  discard.textContent = "Discard";
  discard.addEventListener("click", () => {
    form.reset();
    sessionStorage.removeItem(key);
    line.remove();
    byId("id_name", HTMLInputElement).focus();
    form.dispatchEvent(new Event("change", { bubbles: true }));
  });
  line.append(`Restored your unsaved changes.${hides ? " Secrets were not kept." : ""} `, discard);
  place.replaceChildren(line);
}

restore();

for (const name of ["input", "change"]) {
  form.addEventListener(name, () => {
    clearTimeout(timer);
    timer = setTimeout(keep, PAUSE);
  });
}
addEventListener("pagehide", keep);
form.addEventListener("submit", forget);
for (const link of form.querySelectorAll("a[data-cancel]")) link.addEventListener("click", forget);
addEventListener("beforeunload", (event) => {
  if (!isLeaving && isChanged()) event.preventDefault();
});
