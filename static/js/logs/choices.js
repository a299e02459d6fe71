// @ts-check
// What a person has chosen of how logs look, in this browser.

// Storage may be switched off in this browser: choices then last for one page.
/** @param {string} key */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // See above.
  }
}
