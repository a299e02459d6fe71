// @ts-check
// <gpu-picker>: a box's GPUs as tiles with ticks. What they say is written into the field of GPUs, which
// stays the truth: the form's check sends the tiles anew, as they are and as they are chosen.

import { all, around, byId } from "../../page/parts.js";

const ticks = "input[type=checkbox]";

class GpuPicker extends HTMLElement {
  connectedCallback() {
    this.addEventListener("change", (event) => this.take(event));
    this.addEventListener("click", (event) => {
      const way = around(event, "button[data-gpus]", HTMLElement)?.dataset.gpus;
      if (way !== undefined) this.write(way);
    });
  }

  /** @param {Event} event */
  take({ target }) {
    if (target instanceof HTMLSelectElement) return this.write(target.value || "all");
    const boxes = all(this, ticks, HTMLInputElement);
    const chosen = boxes.filter((each) => each.checked).map((each) => each.value);
    this.write(chosen.length === boxes.length ? "all" : chosen.join(",") || "none");
  }

  /** @param {string} text */
  write(text) {
    const field = byId("id_gpus", HTMLInputElement);
    const isNew = field.value !== text;
    field.value = text;
    const named = text.split(",");
    for (const each of all(this, ticks, HTMLInputElement)) each.checked = text === "all" || named.includes(each.value);
    for (const way of all(this, "button[data-gpus]", HTMLElement)) way.ariaPressed = String(way.dataset.gpus === text);
    for (const list of all(this, "select", HTMLSelectElement)) list.value = text;
    if (isNew) field.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

customElements.define("gpu-picker", GpuPicker);
