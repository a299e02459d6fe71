// The tables of static/js and static/css tell of each file, and of no other.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

for (const kind of ["js", "css"]) {
  const root = new URL(`../../static/${kind}/`, import.meta.url);

  test(`static/${kind}/README.md lists what is there`, () => {
    /** @type {string[]} */
    const told = [];
    let folder = "";
    for (const line of readFileSync(new URL("README.md", root), "utf-8").split("\n")) {
      folder = /^## (.+)$/.exec(line)?.[1] ?? folder;
      const [, name, what] = /^\| `(.+?)` \| (.+) \|$/.exec(line) ?? [];
      if (!name) continue;
      assert.ok(what.length < 110, `${name} is told in one line`);
      told.push(`${folder}/${name}`);
    }
    const there = readdirSync(root, { recursive: true }).filter((name) => name.endsWith(`.${kind}`));
    assert.deepEqual(told.toSorted(), there.toSorted());
  });
}
