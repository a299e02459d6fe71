// @ts-check
// Where a character of a text box stands, in pixels from the box's corner. The browser does not
// tell; a copy of the box that is laid out alike does.

const ALIKE = /** @type {const} */ ([
  "boxSizing", "width", "paddingTop", "paddingRight", "paddingBottom", "paddingLeft",
  "borderTopWidth", "borderRightWidth", "borderBottomWidth", "borderLeftWidth", "borderStyle",
  "fontFamily", "fontSize", "fontWeight", "fontStyle", "fontVariant", "letterSpacing",
  "lineHeight", "tabSize", "textIndent", "wordSpacing", "wordBreak", "overflowWrap",
]); // prettier-ignore

/** @param {HTMLTextAreaElement} box @param {number} at */
export function place(box, at) {
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
