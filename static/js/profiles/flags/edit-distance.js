// @ts-check
// How alike two words are, as Python's difflib counts it: the page and the lint then mean the
// same by "did you mean".

// The most alike of the words, if it is alike enough.
/** @param {string} word @param {string[]} words @param {number} least */
export function closest(word, words, least) {
  /** @type {string | null} */
  let best = null;
  let most = least;
  for (const each of words) {
    // No more than the shorter word can be alike.
    if ((2 * Math.min(each.length, word.length)) / (each.length + word.length) < most) continue;
    const ratio = likeness(each, word);
    if (ratio > most || (ratio === most && (best === null || each > best))) {
      best = each;
      most = ratio;
    }
  }
  return best;
}

// The value that was probably meant, of those that exist: case and - or _ do not matter.
/** @param {string} value @param {string[]} values @param {number} [least] */
export function closestValue(value, values, least = 0.6) {
  const folded = new Map(values.map((each) => [fold(each), each]));
  return folded.get(closest(fold(value), [...folded.keys()], least) ?? "") ?? null;
}

/** @param {string} word */
const fold = (word) => word.toLowerCase().replaceAll("-", "_");

/** @param {string} one @param {string} other */
export function likeness(one, other) {
  const length = one.length + other.length;
  if (!length) return 1;
  return (2 * alike(one, 0, one.length, other, 0, other.length)) / length;
}

// Letters in the longest common piece, and in those left and right of it.
/**
 * @param {string} one
 * @param {number} from
 * @param {number} to
 * @param {string} other
 * @param {number} otherFrom
 * @param {number} otherTo
 * @returns {number}
 */
function alike(one, from, to, other, otherFrom, otherTo) {
  let at = from;
  let otherAt = otherFrom;
  let longest = 0;
  /** The piece that ends here, by its end in the other word. @type {Map<number, number>} */
  let lengths = new Map();
  for (let i = from; i < to; i++) {
    /** @type {Map<number, number>} */
    const next = new Map();
    for (let j = otherFrom; j < otherTo; j++) {
      if (one[i] !== other[j]) continue;
      const length = (lengths.get(j - 1) ?? 0) + 1;
      next.set(j, length);
      if (length > longest) {
        longest = length;
        at = i - length + 1;
        otherAt = j - length + 1;
      }
    }
    lengths = next;
  }
  if (!longest) return 0;
  return (
    longest +
    alike(one, from, at, other, otherFrom, otherAt) +
    alike(one, at + longest, to, other, otherAt + longest, otherTo)
  );
}
