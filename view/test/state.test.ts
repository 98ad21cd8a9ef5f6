import assert from "node:assert/strict";
import { test } from "node:test";
import { language } from "../src/language.ts";
import { AT_START, parsed, sameStep, untouched, written, type State } from "../src/state.ts";

test("an address has what is not as at the start, and gives it again", () => {
  assert.equal(written(untouched(2)), "");
  assert.deepEqual(parsed("", 2), untouched(2));
  const state: State = {
    texts: ["a + b\n&=#%", "그리고"], guide: "stop", linked: false, zoom: 1.5, big: true, lang: "ko",
    chosen: [{ step: 22, layer: 1, channel: 5, gate: "forget", end: -1, held: 0 }, { ...AT_START, step: 3 }],
  };
  assert.deepEqual(parsed(`#${written(state)}`, 2), state);
  assert.match(written(state), /step=23&layer=2&channel=5&gate=forget/);
});

test("what an address may not ask for is as at the start", () => {
  assert.deepEqual(parsed("#zoom=-3&step=x&link=7&big=yes", 1), untouched(1));
  assert.deepEqual(parsed("#channel=4&held=9&end=up", 1).chosen, [{ ...AT_START, channel: 4 }]);
  assert.equal(parsed("#zoom=99", 1).zoom, 0);
});

test("a step of other tokens is at the same place of the text", () => {
  const letters = ["", "T", "h", "e", "␣", "g", "a", "t", "e"];
  assert.equal(sameStep(letters, 4, letters), 4);
  assert.equal(sameStep(letters, 3, ["", "The", "gate"]), 1);
  assert.equal(sameStep(letters, 6, ["", "The", "gate"]), 2);
  assert.equal(sameStep(["The", "ga", "##te"], 1, letters), 6);
  assert.equal(sameStep(["The", "gate", "opens"], 2, letters), 8);
});

test("the language is that of the address, or else of the browser", () => {
  assert.equal(language("file:///a.html", "ko-KR"), "ko");
  assert.equal(language("file:///a.html#step=3&lang=en", "ko-KR"), "en");
  assert.equal(language("file:///a.html#slang=ko", "de"), "en");
});
