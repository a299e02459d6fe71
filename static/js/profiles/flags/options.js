// @ts-check
// The list of completions at the caret of a text box: shown, walked through, taken from.
// The box keeps the focus; aria-activedescendant tells which option is meant.

import { around } from "../../page/parts.js";

export class FlagOptions {
  /**
   * @param {HTMLTextAreaElement} box
   * @param {HTMLElement} element
   * @param {HTMLElement} said for who hears the page
   * @param {(item: Flags.Item, suggestion: Flags.Suggestion) => void} take what a person chose
   */
  constructor(box, element, said, take) {
    this.box = box;
    this.element = element;
    this.said = said;
    this.take = take;
    /** @type {Flags.Suggestion | null} */
    this.shown = null;
    box.setAttribute("aria-autocomplete", "list");
    box.setAttribute("aria-haspopup", "listbox");
    box.setAttribute("aria-controls", element.id);
    // Pressing must not take the focus from the box.
    element.addEventListener("pointerdown", (event) => event.preventDefault());
    element.addEventListener("mousedown", (event) => event.preventDefault());
    element.addEventListener("click", (event) => {
      const option = around(event, "[role=option]", HTMLElement);
      if (option) this.#choose([...element.children].indexOf(option));
    });
  }

  get isOpen() {
    return this.shown !== null;
  }

  /** @param {Flags.Suggestion | null} suggestion */
  show(suggestion) {
    if (!suggestion) return this.hide();
    if (this.shown && alike(this.shown, suggestion)) {
      this.shown = { ...suggestion, active: this.shown.active };
      return;
    }
    this.shown = suggestion;
    this.element.replaceChildren(...suggestion.items.map((item, at) => this.#option(item, at)));
    this.element.hidden = false;
    this.#place(suggestion);
    this.#mark(suggestion);
    const { length } = suggestion.items;
    this.said.textContent = `${length}${suggestion.more ? " or more" : ""} ${length === 1 ? "suggestion" : "suggestions"}`;
  }

  hide() {
    if (!this.isOpen) return;
    this.shown = null;
    this.element.hidden = true;
    this.element.replaceChildren();
    this.box.removeAttribute("aria-activedescendant");
    this.said.textContent = "";
  }

  // Whether the key was meant for the list.
  /** @param {KeyboardEvent} event */
  key(event) {
    const { shown } = this;
    if (!shown || event.altKey || event.metaKey || event.ctrlKey) return false;
    const last = shown.items.length - 1;
    const { active } = shown;
    if (event.key === "ArrowDown") this.#walk(shown, active < last ? active + 1 : 0);
    else if (event.key === "ArrowUp") this.#walk(shown, active > 0 ? active - 1 : last);
    else if (event.key === "PageDown") this.#walk(shown, Math.min(active + 8, last));
    else if (event.key === "PageUp") this.#walk(shown, Math.max(active - 8, 0));
    else if (event.key === "Escape") this.hide();
    else if ((event.key === "Enter" || event.key === "Tab") && active >= 0 && !event.shiftKey) this.#choose(active);
    else return false;
    return true;
  }

  /** @param {Flags.Suggestion} shown @param {number} at */
  #walk(shown, at) {
    shown.active = at;
    this.#mark(shown);
  }

  /** @param {number} at */
  #choose(at) {
    const { shown } = this;
    this.hide();
    const item = shown?.items[at];
    if (item) this.take(item, shown);
  }

  /** @param {Flags.Item} item @param {number} at */
  #option({ text, hint }, at) {
    const option = document.createElement("li");
    option.id = `${this.element.id}_${at}`;
    option.role = "option";
    option.tabIndex = -1;
    const name = document.createElement("code");
    name.textContent = text;
    option.append(name);
    if (hint) {
      const beside = document.createElement("span");
      beside.textContent = hint;
      option.append(" ", beside);
    }
    return option;
  }

  /** @param {Flags.Suggestion} shown */
  #mark({ active }) {
    [...this.element.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === active)));
    const option = this.element.children[active];
    if (!(option instanceof HTMLElement)) {
      this.box.removeAttribute("aria-activedescendant");
      this.element.scrollTop = 0;
      return;
    }
    this.box.setAttribute("aria-activedescendant", option.id);
    // Not scrollIntoView: it would scroll the page as well.
    const { element } = this;
    element.scrollTop = Math.min(element.scrollTop, option.offsetTop);
    element.scrollTop = Math.max(element.scrollTop, option.offsetTop + option.offsetHeight - element.clientHeight);
  }

  // Under the line of the caret, or over it where the window ends.
  /** @param {Flags.Suggestion} shown */
  #place({ start }) {
    const { box, element } = this;
    const at = place(box, start);
    const below = box.offsetTop + at.top + at.height + 2;
    const above = box.offsetTop + at.top - element.offsetHeight - 2;
    const room = innerHeight - box.getBoundingClientRect().top - at.top - at.height;
    const isAbove = room < element.offsetHeight && box.getBoundingClientRect().top + at.top > element.offsetHeight;
    const most = box.offsetLeft + box.offsetWidth - element.offsetWidth;
    element.style.insetBlockStart = `${isAbove ? above : below}px`;
    element.style.insetInlineStart = `${Math.max(box.offsetLeft, Math.min(box.offsetLeft + at.left, most))}px`;
  }
}

/** @param {Flags.Suggestion} one @param {Flags.Suggestion} other */
const alike = (one, other) =>
  one.part === other.part &&
  one.start === other.start &&
  one.items.length === other.items.length &&
  one.items.every((item, at) => item.text === other.items[at]?.text);

// Where a character of a text box stands, in pixels from the box's corner. The browser does not
// tell; a copy of the box that is laid out alike does.
const ALIKE = /** @type {const} */ ([
  "boxSizing", "width", "paddingTop", "paddingRight", "paddingBottom", "paddingLeft",
  "borderTopWidth", "borderRightWidth", "borderBottomWidth", "borderLeftWidth", "borderStyle",
  "fontFamily", "fontSize", "fontWeight", "fontStyle", "fontVariant", "letterSpacing",
  "lineHeight", "tabSize", "textIndent", "wordSpacing", "wordBreak", "overflowWrap",
]); // prettier-ignore

/** @param {HTMLTextAreaElement} box @param {number} at */
function place(box, at) {
  const style = getComputedStyle(box);
  const copy = document.createElement("div");
  for (const name of ALIKE) copy.style[name] = style[name];
  // Its scroll bar takes room from the lines.
  copy.style.width = `${box.clientWidth + parseFloat(style.borderLeftWidth) + parseFloat(style.borderRightWidth)}px`;
  Object.assign(copy.style, { position: "absolute", visibility: "hidden", whiteSpace: "pre-wrap", insetBlockStart: "0" });
  copy.textContent = box.value.slice(0, at);
  const caret = document.createElement("span");
  caret.textContent = box.value.slice(at) || ".";
  copy.append(caret);
  (box.parentElement ?? document.body).append(copy);
  const found = {
    left: caret.offsetLeft + parseFloat(style.borderLeftWidth),
    top: caret.offsetTop + parseFloat(style.borderTopWidth) - box.scrollTop,
    height: parseFloat(style.lineHeight) || parseFloat(style.fontSize) * 1.4,
  };
  copy.remove();
  return found;
}
