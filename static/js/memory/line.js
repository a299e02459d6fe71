// @ts-check
// <gpu-line>: the utilisation of one GPU in the last 15 minutes, as a line without axes. The socket
// changes its data-point ("time,util").

import { history } from "./points.js";

const SECONDS = 900;
const STEPS = 60; // what a line so small can show
const STEP = SECONDS / STEPS;
const WIDTH = 120;
const HEIGHT = 24;
const SVG = "http://www.w3.org/2000/svg";

class GpuLine extends HTMLElement {
  static observedAttributes = ["data-point"];

  /** The highest of each step, by the step's number. @type {Map<number, number>} */
  steps = new Map();
  path = document.createElementNS(SVG, "path");
  last = 0;

  constructor() {
    super();
    // Not attributes: the socket's next row would take them away again.
    this.internals = this.attachInternals();
    this.internals.role = "img";
    this.internals.ariaLabel = "Utilisation in the last 15 minutes";
  }

  connectedCallback() {
    const drawing = document.createElementNS(SVG, "svg");
    drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.append(this.path);
    this.replaceChildren(drawing);
    this.load();
  }

  /** @param {string} _name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(_name, before, now) {
    if (!now || now === before) return;
    this.take(now);
    this.draw();
  }

  async load() {
    try {
      const { t, gpus } = await history(this.dataset.url ?? "");
      gpus[this.dataset.gpu ?? ""]?.util.forEach((util, place) => this.add(t[place] ?? 0, util));
    } catch {
      // Offline: the strip at the top says so.
    }
    this.draw();
  }

  /** @param {string} point */
  take(point) {
    const [at = "", util = ""] = point.split(",");
    this.add(Number(at), util === "" ? null : Number(util));
  }

  /** @param {number} at @param {number | null} util */
  add(at, util) {
    this.last = Math.max(this.last, at);
    if (util === null) return;
    const step = Math.floor(at / STEP);
    this.steps.set(step, Math.max(this.steps.get(step) ?? 0, util));
  }

  draw() {
    const end = Math.floor(this.last / STEP);
    const words = [];
    let isDown = false;
    for (const step of [...this.steps.keys()].filter((each) => each < end - STEPS)) this.steps.delete(step);
    for (let place = 0; place <= STEPS; place += 1) {
      const util = this.steps.get(end - STEPS + place);
      if (util !== undefined) words.push(`${isDown ? "L" : "M"}${(place / STEPS) * WIDTH} ${(HEIGHT - 2 - (util / 100) * (HEIGHT - 4)).toFixed(1)}`);
      isDown = util !== undefined;
    }
    this.path.setAttribute("d", words.join(""));
  }
}

customElements.define("gpu-line", GpuLine);
