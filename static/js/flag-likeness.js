// How alike two words are, as Python's difflib counts it: the page and the lint then mean the
// same by "did you mean".

// The most alike of the words, if it is alike enough.
export function closest(word, words, least) {
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
export function closestValue(value, values, least = 0.6) {
  const folded = new Map(values.map((each) => [fold(each), each]));
  return folded.get(closest(fold(value), [...folded.keys()], least)) ?? null;
}

const fold = (word) => word.toLowerCase().replaceAll("-", "_");

export function likeness(one, other) {
  const length = one.length + other.length;
  if (!length) return 1;
  return (2 * alike(one, 0, one.length, other, 0, other.length)) / length;
}

// Letters in the longest common piece, and in those left and right of it.
function alike(one, from, to, other, otherFrom, otherTo) {
  let at = from;
  let otherAt = otherFrom;
  let longest = 0;
  let lengths = new Map(); // the piece that ends here, by its end in the other word
  for (let i = from; i < to; i++) {
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
