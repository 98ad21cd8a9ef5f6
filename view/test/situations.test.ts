import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reader } from "../src/reading.ts";
import { guidedBy, situations } from "../src/situations.ts";
import { parsed } from "../src/state.ts";

const reads = { read: () => ({ read: [[1]], unknown: 0 }) } as unknown as Reader;
const all = situations([reads], true);
const restored = (hash: string, found = all) => {
  const { guide, texts } = guidedBy(found, parsed(hash, 2));
  return [guide, ...texts];
};

test("an address that names a situation brings its text", () => {
  assert.deepEqual(all.map(({ name }) => name), ["stop", "memory", "surprise"]);
  for (const { name, text } of all) assert.deepEqual(restored(`#guide=${name}`), [name, text, null]);
  assert.deepEqual(restored(`#guide=stop&link=0&text2=B`), ["stop", all[0]!.text, "B"]);
});

test("the sentence of a situation never stands above another text", () => {
  assert.deepEqual(restored("#guide=memory&text=A."), ["", "A.", null]);
  assert.deepEqual(restored("#guide=memory&text="), ["", "", null]);
  assert.deepEqual(restored("#guide=surprise", situations([reads], false)), ["", null, null]);
  for (const guide of ["minus", "toString", "Memory"]) assert.deepEqual(restored(`#guide=${guide}`), ["", null, null]);
  assert.deepEqual(restored("#step=3"), ["", null, null]);
});
