// @ts-check
// What stands beside a conversation and can be put away: beside it where there is room, and that is
// remembered; else above it, until something else is pressed. The styles know where there is room.

import { around } from "../../page/parts.js";

export class Side {
  /**
   * `isShown`: whether it stands there for who has never chosen. `opened` is called before it is seen.
   * @param {{panel: HTMLElement, button: HTMLElement, place: HTMLElement, name: string, isShown?: boolean, opened?: () => void}} parts
   */
  constructor({ panel, button, place, name, isShown = false, opened = () => {} }) {
    this.panel = panel;
    this.button = button;
    this.place = place;
    this.name = name;
    this.key = `inferdash.side.${name}`;
    this.opened = opened;
    button.addEventListener("click", () => this.toggle());
    panel.addEventListener("click", (event) => {
      if (around(event, "[data-shut]", HTMLElement)) this.shut();
    });
    panel.addEventListener("toggle", (event) => {
      if (!(event instanceof ToggleEvent)) return;
      this.tell();
      if (event.newState === "closed" && panel.contains(document.activeElement)) button.focus();
    });
    new ResizeObserver(() => this.tell()).observe(place);
    const chosen = read(this.key);
    this.set(chosen ? chosen === "open" : isShown);
  }

  // Whether it lies above the page.
  get isDrawer() {
    return getComputedStyle(this.panel).position === "fixed";
  }

  get isOpen() {
    return this.isDrawer ? this.panel.matches(":popover-open") : this.place.hasAttribute(`data-${this.name}`);
  }

  toggle() {
    if (this.isOpen) this.shut();
    else this.show();
  }

  show() {
    this.opened();
    if (this.isDrawer) {
      if (!this.panel.matches(":popover-open")) this.panel.showPopover();
    } else {
      this.set(true);
      keep(this.key, "open");
    }
  }

  shut() {
    if (this.isDrawer) this.panel.hidePopover();
    else {
      this.set(false);
      keep(this.key, "shut");
      this.button.focus();
    }
  }

  /** @param {boolean} isOpen */
  set(isOpen) {
    this.place.toggleAttribute(`data-${this.name}`, isOpen);
    if (isOpen && !this.isDrawer) this.opened();
    this.tell();
  }

  tell() {
    // One that stands beside the page is none that a press elsewhere puts away.
    if (!this.isDrawer && this.panel.matches(":popover-open")) this.panel.hidePopover();
    this.button.ariaExpanded = String(this.isOpen);
  }
}

/** @param {string} key */
function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Full, or switched off: it is as it was when the page is opened again.
  }
}
