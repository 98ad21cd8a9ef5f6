import assert from "node:assert/strict";
import { test } from "node:test";
import { byMemory, halfLives, mostOpen, rankOf, reachOfDecays, Series, softmax, standsOut } from "../src/series.ts";

function series(rows: number[][]): Series {
  const found = new Series(rows[0]!.length, 1);
  rows.forEach((row, step) => found.set(step, row));
  return found;
}

test("a series grows, and what is written again ends it there", () => {
  const found = series([[1, 2], [3, 4], [5, 6]]);
  assert.deepEqual([...found.column(1)], [2, 4, 6]);
  found.set(1, [7, 8]);
  assert.equal(found.length, 2);
  assert.equal(found.changed, 0);
  assert.deepEqual([...found.column(0)], [1, 7]);
  assert.throws(() => found.set(5, [0, 0]), RangeError);
  assert.throws(() => found.set(0, [0]), RangeError);
});

test("half-lives are those of the geometric mean, endless for a decay of one", () => {
  const halves = halfLives(series([[0.5, 1, 0.25, -0.5], [0.5, -1, 1, 0.5]]));
  assert.deepEqual([...halves].map((x) => Math.round(1e6 * x) / 1e6), [1, Infinity, 1, 1]);
  assert.deepEqual(byMemory(halves), [1, 0, 2, 3]);
});

test("a channel's most open steps, the widest first", () => {
  const gate = series([[0.1], [0.9], [0.5]]);
  assert.deepEqual(mostOpen(gate, 0, 2), [1, 2]);
  assert.deepEqual(mostOpen(gate, 0, 2, -1), [0, 2]);
  assert.deepEqual([rankOf(gate, 0, 2, 1), rankOf(gate, 0, 2, -1), rankOf(gate, 0, 1, 1)], [1, 1, 0]);
});

test("the channel that opens or closes most at a step is the one farthest from its own mean", () => {
  const gate = series([[0.9, 0.5, 0.2], [0.9, 0.8, 0.2], [0.9, 0.2, 0.1]]);
  assert.equal(standsOut(gate, 1, 1), 1);
  assert.equal(standsOut(gate, 2, -1), 1);
  assert.equal(standsOut(series([[0.1, 0.9], [0.1, 0.7]]), 0, -1), 0);
});

test("the reach of a state is the product of the decays after it", () => {
  const decay = series([[0.9, 0.9], [0.5, -0.5], [0.1, 1]]);
  const reach = reachOfDecays(decay, 2);
  assert.equal(reach[2], 1);
  assert.ok(Math.abs(reach[1]! - Math.sqrt((0.01 + 1) / 2)) < 1e-7);
  assert.ok(Math.abs(reach[0]! - Math.sqrt((0.0025 + 0.25) / 2)) < 1e-7);
});

test("probabilities at a temperature", () => {
  const p = softmax([0, Math.log(3)], 1);
  assert.ok(Math.abs(p[1]! - 0.75) < 1e-12);
  assert.deepEqual([...softmax([1, 5, 5], 0)], [0, 0.5, 0.5]);
  assert.ok(softmax([1000, 0], 0.5)[0]! === 1);
});
