// @ts-check
// The clipboard, where browsers offer one and where they do not.

// Whether the text is there now.
/** @param {string} text @returns {Promise<boolean>} */
export async function copy(text) {
  // Browsers offer the clipboard to https and localhost only; a box on the LAN has neither.
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
