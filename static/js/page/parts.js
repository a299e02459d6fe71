// @ts-check
// Parts of a page that its template promises, by their kind: one that is missing is told by name.

/**
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => T} kind
 */
export function find(root, selector, kind) {
  const found = root.querySelector(selector);
  if (found instanceof kind) return found;
  throw new TypeError(`The page has no ${kind.name} ${selector}.`);
}

/** @template {Element} T @param {string} id @param {new () => T} kind */
export function byId(id, kind) {
  return find(document, `#${CSS.escape(id)}`, kind);
}

/**
 * Looks up by id, of the kinds that are given by id.
 * @template {Record<string, new () => Element>} K
 * @param {K} kinds
 * @returns {<I extends keyof K & string>(id: I) => InstanceType<K[I]>}
 */
export function partsOf(kinds) {
  return (id) => byId(id, /** @type {new () => InstanceType<K[typeof id]>} */ (kinds[id]));
}

/**
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => T} kind
 */
export function all(root, selector, kind) {
  return [...root.querySelectorAll(selector)].filter(/** @returns {each is T} */ (each) => each instanceof kind);
}

/**
 * What an event happened in: the nearest element around it that the selector means.
 * @template {Element} T
 * @param {Event} event
 * @param {string} selector
 * @param {new () => T} kind
 * @returns {T | null}
 */
export function around({ target }, selector, kind) {
  const found = target instanceof Element ? target.closest(selector) : null;
  return found instanceof kind ? found : null;
}

// What the view has written into a script of the page, as JSON.
/** @template T @param {string} id @returns {T} */
export function told(id) {
  return JSON.parse(byId(id, HTMLScriptElement).text);
}
