import assert from "node:assert/strict";
import { test } from "node:test";
import { drawn, halfLife, left, noise, run } from "../src/lstm.ts";
import { Series } from "../src/series.ts";

test("what is left of a state is the product of gates, and half of it after the half-life", () => {
  const forget = new Series(2);
  [[0.9, 0.1], [0.5, 0.25], [0.5, 0.25]].forEach((row, step) => forget.set(step, row));
  assert.deepEqual([...left(forget)], [1, 0.375, (0.25 + 0.0625) / 2]);
  const even = new Series(1);
  for (let step = 0; step < 5; step++) even.set(step, [0.5]);
  assert.ok(Math.abs(halfLife(even) - 1) < 1e-12);
});

test("the larger the forget bias, the longer a state is kept, from the same numbers", () => {
  const lstm = drawn(3, 4, 0);
  const read = noise(20, 3, 1);
  assert.deepEqual(lstm, drawn(3, 4, 0));
  const halves = [0, 1, 2, 3].map((bias) => halfLife(run(lstm, read, bias).forget));
  assert.ok(halves.every((half, n) => n === 0 || half > halves[n - 1]!));
});
