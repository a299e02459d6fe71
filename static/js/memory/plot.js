// @ts-check
// What the charts that uPlot draws have in common.

// A custom property comes as written, with light-dark() in it; a real one comes resolved.
/** @param {HTMLElement} element @param {string} name */
export function resolved(element, name) {
  element.style.color = `var(${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

// The name of a chart and the key of its lines in one paragraph; [paragraph, a span for each line].
/**
 * @param {string} name
 * @param {{words: string, colour: string, dash?: number[]}[]} lines
 * @returns {[HTMLElement, HTMLElement[]]}
 */
export function heading(name, lines) {
  const head = document.createElement("p");
  head.append(name);
  const spans = lines.map(({ words, colour, dash }) => {
    const span = document.createElement("span");
    span.style.setProperty("--line-colour", `var(${colour})`);
    span.classList.toggle("is-dashed", Boolean(dash));
    span.textContent = words;
    head.append(span);
    return span;
  });
  return [head, spans];
}

// What is hidden with a chart that has nothing to show.
/** @param {HTMLElement} place @returns {HTMLElement} */
export function sectionOf(place) {
  const found = place.closest("section");
  if (!found) throw new TypeError("The page has a chart in no section.");
  return found;
}
