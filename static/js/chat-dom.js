// Pieces of the playground's DOM. Texts go in as texts, never as markup.

export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function button(label, title, onClick) {
  const made = element("button", "quiet", label);
  made.type = "button";
  if (title) made.setAttribute("aria-label", title);
  made.addEventListener("click", onClick);
  return made;
}

// Whatever stands in it, htmx leaves it alone.
export function inert(tag, className, ...children) {
  const made = element(tag, className, ...children);
  made.setAttribute("hx-ignore", "");
  return made;
}

export function folded(title, className, ...children) {
  return element("details", className, element("summary", "", title), ...children);
}

export function block(text) {
  const made = element("pre", "", text);
  made.tabIndex = 0; // so that the keyboard can scroll it
  return made;
}

// As text, for a header: the page's, or what a log-in in another tab has made of it since.
export class CsrfToken {
  constructor(page, form) {
    Object.assign(this, { name: page.dataset.csrfCookie, first: form.elements.csrfmiddlewaretoken.value });
  }

  toString() {
    const cookie = document.cookie.split("; ").find((each) => each.startsWith(`${this.name}=`));
    return cookie?.slice(this.name.length + 1) ?? this.first;
  }
}

// Whoever goes by keys, and has pressed what goes with this change, goes on in the composer.
export function keepFocus(change) {
  const focused = document.querySelector("#chat :focus-visible");
  change();
  if (focused && !focused.checkVisibility()) document.getElementById("chat-input").focus({ preventScroll: true });
}

// Stop stands where Send was: the second click of a double click is meant for that one.
export const onStop = (stop, act) => stop.addEventListener("click", ({ detail }) => detail > 1 || act());

export const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
export const count = (number) => Number(number).toLocaleString("en-GB");
export const plural = (number, one, several = `${one}s`) => `${count(number)} ${number === 1 ? one : several}`;
export const size = (bytes) => (bytes < 2 ** 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`);
