import assert from "node:assert/strict";
import { test } from "node:test";
import { eachAlone, errorAhead, likeliest, lossOf } from "../src/loss.ts";
import { areWords, numbers, symbols } from "../src/reading.ts";

const series = { columns: 1, missing: true, answers: "forecast" } as const;
const pair = { columns: 2, missing: false, answers: "label" } as const;

test("numbers of one column stand in any lines, those of several a line a step", () => {
  assert.deepEqual(numbers("1 2.5;5\t6\n-3e1,4, 7", series).read, [[1], [2.5], [5], [6], [-30], [4], [7]]);
  const table = numbers("1 2\n\n3,4\n", pair);
  assert.match(table.fault!, /Line 2 has 0 numbers; a step of this model has 2\./);
  assert.deepEqual(numbers("1 2\n3,4\n", pair).read, [[1, 2], [3, 4]]);
});

test("a decimal comma is not taken for two numbers", () => {
  assert.match(numbers("1\n1,5 2,5", series).fault!, /Line 2 has commas and other separators: write decimals with a point/);
});

test("a missing number is read where a model knows of missing ones, and not at the start of a series", () => {
  assert.deepEqual(numbers("1 nan ? NA 2", series).read, [[1], [NaN], [NaN], [NaN], [2]]);
  assert.match(numbers("nan 1", series).fault!, /begins with a number/);
  assert.deepEqual(numbers("nan 1", { ...series, answers: "label" }).read, [[NaN], [1]]);
  assert.match(numbers("1 nan", { ...series, missing: false }).fault!, /Step 2: “nan” is no number/);
  assert.match(numbers("1 two 3", series).fault!, /Step 2: “two” is no number; nan stands for a missing one\./);
});

test("symbols are digits, or numbers with spaces between them", () => {
  assert.deepEqual(symbols("01 1", 2).read, [[0], [1], [1]]);
  assert.deepEqual(symbols("10 2", 12).read, [[10], [2]]);
  assert.match(symbols("0 2", 2).fault!, /reads 0 to 1, not 2/);
});

test("the loss is that of the next token, the error that of the next value", () => {
  const even = [Math.log(0.5), Math.log(0.5)];
  assert.ok(Math.abs(lossOf([even, even, even], [[0], [1], [0]]) - Math.LN2) < 1e-12);
  assert.equal(errorAhead([[1, 2, 3], [1, 4, 5], [0, 0, 0]], [[1], [3], [6]], 1), 1.5);
  assert.equal(errorAhead([[1, 2, 3], [1, 4, 5], [0, 0, 0]], [[1], [NaN], [6]], 1), 2);
  assert.deepEqual(likeliest([0, 2, 1], 0, 2), [[1, 1], [0, 0]]);
  assert.deepEqual(eachAlone([-Infinity, 0, Infinity], 2), [[2, 1], [1, 0.5]]);
});

test("words and their pieces hold no space between them, characters and subwords do", () => {
  assert.ok(areWords(["the", "ga", "##te", "."]));
  assert.ok(!areWords(["T", "h", "e"]) && !areWords([" the", " gate"]) && !areWords(["e", " ", "the"]));
});
