// Says what the page makes of flags: JSON on stdin, {list, words, texts, environments, flags, env}.

import { readFileSync } from "node:fs";

import { FlagList } from "../../static/js/profiles/flags/list.js";
import { flagMarks, variableMarks } from "../../static/js/profiles/flags/marks.js";
import { cut, flags, variables } from "../../static/js/profiles/flags/text.js";

const { list: said, words = [], texts = [], environments = [], marked = null } = JSON.parse(readFileSync(0, "utf-8"));
const list = said && new FlagList(said);

const found = {
  words: words.map((word) => [list.matches(word), list.nearest(word), list.wasRemoved(word)]),
  texts: texts.map((text) => [
    cut(text).words.map((word) => word.text),
    flags(text).map((flag) => [flag.name, flag.values.map((value) => value.text)]),
  ]),
  environments: environments.map((text) => variables(text).map(({ name }) => name)),
  marks: marked ? [...flagMarks(list, marked[0]), ...variableMarks(list, marked[1])].map(({ about, fix }) => [about, fix?.text ?? null]) : [],
};
process.stdout.write(JSON.stringify(found));
