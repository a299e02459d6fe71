// What a terminal would show of a line.

import assert from "node:assert/strict";
import { test } from "node:test";

import { plain, runs } from "../../static/js/logs/terminal.js";

const SHOWN = [
  ["text without a control character", "INFO ready", "INFO ready"],
  ["nothing", "", ""],
  ["a tab, which is no control character here", "a\tb", "a\tb"],
  ["colours, which are no text", "\x1b[31mred\x1b[0m plain", "red plain"],
  ["an unknown sequence of the operating system", "\x1b]0;title\x07text", "text"],
  ["a title that ST ends", "\x1b]0;title\x1b\\text", "text"],
  ["NUL and the bell, as terminals write them", "a\x00b\x07", "a^@b^G"],
  ["DEL", "\x7f", "^?"],
  ["a bar that writes over itself", "10%\r55%\r100%", "100%"],
  ["a shorter text over a longer one, whose rest stays", "abcdef\rxy", "xycdef"],
  ["the end of a line erased", "abcdef\rxy\x1b[K", "xy"],
  ["its beginning erased", "abcdef\x1b[3D\x1b[1Kx", "   xef"],
  ["all of it erased", "abcdef\x1b[2Kx", "      x"],
  ["backspace", "abc\b\bX", "aXc"],
  ["backspace at the beginning", "\b\bab", "ab"],
  ["the cursor to the right", "a\x1b[3Cb", "a   b"],
  ["the cursor to the left", "abcd\x1b[2DX", "abXd"],
  ["the cursor to a column", "abcd\x1b[2GX", "aXcd"],
  ["characters erased where the cursor is", "abcd\x1b[2G\x1b[2X", "a  d"],
  ["blanks at the end of what was written over, which nobody sees", "ab  \r", "ab"],
  ["the cursor far to the right, which costs no memory", `a\x1b[999999999Cb`, `a${" ".repeat(4095)}b`],
  ["a character of two halves", "\r🙂b", "🙂b"],
];

for (const [what, text, shown] of SHOWN) {
  test(`a terminal shows ${what}`, () => assert.equal(plain(text), shown));
}

const STYLES = [
  ["31", { color: 1 }],
  ["97", { color: 15 }],
  ["44", { background: 4 }],
  ["100", { background: 8 }],
  ["1;3;4;7;9", { bold: true, italic: true, underline: true, inverse: true, strike: true }],
  ["2", { dim: true }],
  ["1;2;22", {}],
  ["3;23", {}],
  ["4;24", {}],
  ["7;27", {}],
  ["9;29", {}],
  ["31;39", {}],
  ["41;49", {}],
  ["31;", {}],
  ["38;5;9", { color: 9 }],
  ["38;5;196", { color: "rgb(255 0 0)" }],
  ["48;5;232", { background: "rgb(8 8 8)" }],
  ["38;2;1;2;300", { color: "rgb(1 2 255)" }],
  ["38:5:46", { color: "rgb(0 255 0)" }],
  ["38;5", {}],
  ["38;9;1", {}],
];

for (const [codes, style] of STYLES) {
  test(`the codes ${codes} are the style ${JSON.stringify(style)}`, () => {
    assert.deepEqual(runs(`\x1b[${codes}mtext`), [{ text: "text", style }]);
  });
}

test("a style lasts until it is taken back", () => {
  assert.deepEqual(runs("a\x1b[31mb\x1b[1mc\x1b[0md"), [
    { text: "a", style: {} },
    { text: "b", style: { color: 1 } },
    { text: "c", style: { color: 1, bold: true } },
    { text: "d", style: {} },
  ]);
});

test("what is written over takes the newer style", () => {
  assert.deepEqual(runs("abc\r\x1b[32mX"), [
    { text: "X", style: { color: 2 } },
    { text: "bc", style: {} },
  ]);
});
