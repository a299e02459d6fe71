// @ts-check
// The page of a paste: its form came as the answer to a paste, and a reload brings this page instead. What was
// typed there and not saved goes on in the form of a new profile.

import { CARRIED } from "./draft-keys.js";

const kept = sessionStorage.getItem(`draft:${location.pathname}${location.search}`);
const [visit] = performance.getEntriesByType("navigation");
const form = document.querySelector("form[data-form]");
if (kept && form instanceof HTMLFormElement && visit instanceof PerformanceNavigationTiming && visit.type === "reload") {
  sessionStorage.setItem(CARRIED, kept);
  sessionStorage.removeItem(`draft:${location.pathname}${location.search}`);
  location.replace(form.dataset.form ?? "");
}
