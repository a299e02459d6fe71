// @ts-check
// What a terminal would show of one line: runs of text with a style, overwritten parts gone.

const SEQUENCE =
  /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\r\b]/g;
const MOVES = /[\r\b]|\x1b\[[0-?]*[ -/]*[CDGKX]/;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/g;

/** @type {Log.Style} */
const PLAIN = Object.freeze({});
const LEVELS = [0, 95, 135, 175, 215, 255];

/**
 * Text with its style, or a move of the cursor.
 * @typedef {{text: string, style: Log.Style} | {text?: undefined, move: string, count?: string}} Piece
 * @typedef {({character: string, style: Log.Style} | undefined)[]} Cells
 */

// Returns [{text, style}], where a style has some of: color and background (0-15, or a CSS
// colour), bold, dim, italic, underline, strike, inverse.
/** @param {string} text @returns {Log.Run[]} */
export function runs(text) {
  if (!/[\x00-\x08\x0b-\x1f\x7f]/.test(text)) return text ? [{ text, style: PLAIN }] : [];
  return MOVES.test(text) ? overwritten(text) : inOrder(text);
}

/** @param {string} text */
export function plain(text) {
  return runs(text).map((run) => run.text).join("");
}

/** @param {string} text @returns {Generator<Piece>} */
function* pieces(text) {
  /** @type {Log.Style} */
  let style = PLAIN;
  let at = 0;
  SEQUENCE.lastIndex = 0;
  for (let found; (found = SEQUENCE.exec(text)); ) {
    if (found.index > at) yield { text: visible(text.slice(at, found.index)), style };
    at = SEQUENCE.lastIndex;
    if (found[2] === "m") style = restyled(style, found[1] ?? "");
    else if (found[2]) yield { move: found[2], count: found[1] };
    else if (found[0] === "\r" || found[0] === "\b") yield { move: found[0] };
  }
  if (at < text.length) yield { text: visible(text.slice(at)), style };
}

// As terminals write them: ^@ for NUL, ^G for the bell.
/** @param {string} text */
function visible(text) {
  return text.replace(CONTROL, (c) => `^${String.fromCharCode(c.charCodeAt(0) ^ 64)}`);
}

/** @param {string} text */
function inOrder(text) {
  return [...pieces(text)].filter((piece) => piece.text !== undefined);
}

// Progress bars write over themselves: keep one cell a character.
/** @param {string} text */
function overwritten(text) {
  /** @type {Cells} */
  const cells = [];
  let column = 0;
  for (const piece of pieces(text)) {
    if (piece.text !== undefined) {
      for (const character of piece.text) cells[column++] = { character, style: piece.style };
      continue;
    }
    const count = Number.parseInt(piece.count ?? "", 10) || 0;
    if (piece.move === "\r") column = 0;
    else if (piece.move === "\b") column = Math.max(column - 1, 0);
    else if (piece.move === "C") column = Math.min(column + (count || 1), 4096);
    else if (piece.move === "D") column = Math.max(column - (count || 1), 0);
    else if (piece.move === "G") column = Math.min(Math.max(count - 1, 0), 4096);
    else if (piece.move === "X") cells.fill(undefined, column, column + (count || 1));
    else if (piece.move === "K") erase(cells, column, count);
  }
  return joined(cells);
}

/** @param {Cells} cells @param {number} column @param {number} mode */
function erase(cells, column, mode) {
  if (mode !== 1) cells.length = mode === 2 ? 0 : Math.min(cells.length, column);
  else cells.fill(undefined, 0, column + 1);
}

/** @param {Cells} cells */
function joined(cells) {
  /** @type {Log.Run[]} */
  const found = [];
  for (let column = 0; column < cells.length; column++) {
    const { character, style } = cells[column] ?? { character: " ", style: PLAIN };
    const last = found.at(-1);
    if (last && last.style === style) last.text += character;
    else found.push({ text: character, style });
  }
  const last = found.at(-1);
  if (last) last.text = last.text.trimEnd();
  return found.filter((run) => run.text);
}

/** @param {Log.Style} before @param {string} parameters */
function restyled(before, parameters) {
  const codes = parameters.split(/[;:]/).map((code) => Number.parseInt(code, 10) || 0);
  /** @type {Log.Style} */
  let style = { ...before };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) style = {};
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 9) style.strike = true;
    else if (code === 22) delete style.bold, delete style.dim;
    else if (code === 23) delete style.italic;
    else if (code === 24) delete style.underline;
    else if (code === 27) delete style.inverse;
    else if (code === 29) delete style.strike;
    else if (code >= 30 && code <= 37) style.color = code - 30;
    else if (code >= 90 && code <= 97) style.color = code - 90 + 8;
    else if (code === 39) delete style.color;
    else if (code >= 40 && code <= 47) style.background = code - 40;
    else if (code >= 100 && code <= 107) style.background = code - 100 + 8;
    else if (code === 49) delete style.background;
    else if (code === 38 || code === 48) {
      const colour = extended(codes, i + 1);
      if (!colour) break;
      style[code === 38 ? "color" : "background"] = colour.value;
      i += colour.used;
    }
  }
  return style;
}

/** @param {number[]} codes @param {number} at */
function extended(codes, at) {
  const [kind, first] = codes.slice(at);
  if (kind === 5 && first !== undefined) {
    return { value: indexed(first & 255), used: 2 };
  }
  if (kind === 2 && codes.length > at + 3) {
    const [red, green, blue] = codes.slice(at + 1, at + 4).map((part) => Math.min(part, 255));
    return { value: `rgb(${red} ${green} ${blue})`, used: 4 };
  }
  return null;
}

/** @param {number} index @returns {Log.Colour} */
function indexed(index) {
  if (index < 16) return index;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const cube = index - 16;
  const [red, green, blue] = [cube / 36, (cube / 6) % 6, cube % 6].map((part) => LEVELS[part | 0]);
  return `rgb(${red} ${green} ${blue})`;
}
