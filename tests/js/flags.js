// Says what the page makes of flags: JSON on stdin, {list, words, texts, environments}.

import { readFileSync } from "node:fs";

import { FlagList } from "../../static/js/profiles/flags/list.js";
import { cut, flags, variables } from "../../static/js/profiles/flags/text.js";

const { list: said, words = [], texts = [], environments = [] } = JSON.parse(readFileSync(0, "utf-8"));
const list = said && new FlagList(said);

const found = {
  words: words.map((word) => list.matches(word)),
  texts: texts.map((text) => [
    cut(text).words.map((word) => word.text),
    flags(text).map((flag) => [flag.name, flag.values.map((value) => value.text)]),
  ]),
  environments: environments.map((text) => variables(text).map(({ name }) => name)),
};
process.stdout.write(JSON.stringify(found));
