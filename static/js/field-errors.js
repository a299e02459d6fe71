// Says beside each field of the profile form what its check has found wrong with it, while it is
// typed. What nobody has come to yet is left alone until a save: it is not wrong, only open.

import { whenReleased } from "./press.js";

const form = document.getElementById("profile-form");
const check = document.getElementById("check");
const showsAll = form.dataset.errors === "all";
const typed = new Set(); // ids of fields
const left = new Set();
let faults = new Map(); // id → [{text, isMissing}]

function mayShow(id, { isMissing }) {
  return showsAll || left.has(id) || (typed.has(id) && !isMissing);
}

function show() {
  for (const place of form.querySelectorAll(".field > .errors")) {
    const id = place.id.slice(0, -"_error".length);
    const texts = (faults.get(id) ?? []).filter((each) => mayShow(id, each)).map((each) => each.text);
    if (texts.join("\n") === [...place.children].map((each) => each.textContent).join("\n")) continue;
    place.replaceChildren(...texts.map(line));
    tell(document.getElementById(id), place, texts.length > 0);
  }
}

function line(text) {
  const made = document.createElement("p");
  made.className = "error";
  made.textContent = text;
  return made;
}

function tell(box, place, isWrong) {
  place.parentElement.classList.toggle("has-error", isWrong);
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
  for (const { dataset } of check.querySelectorAll("[data-field]")) {
    const { field, text } = dataset;
    faults.set(field, [...(faults.get(field) ?? []), { text, isMissing: "missing" in dataset }]);
  }
  whenReleased(show);
}

for (const name of ["input", "change"]) form.addEventListener(name, ({ target }) => typed.add(target.id));
form.addEventListener("focusout", ({ target }) => {
  left.add(target.id);
  whenReleased(show);
});
new MutationObserver(take).observe(check, { childList: true });
