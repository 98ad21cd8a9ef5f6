import assert from "node:assert/strict";
import { test } from "node:test";
import type { Layer } from "../src/models.ts";
import { atMinusOne, atStops, leastExpected, longest, presets } from "../src/presets.ts";
import type { Seen } from "../src/runner.ts";
import { Series } from "../src/series.ts";

function series(rows: number[][]): Series {
  const found = new Series(rows[0]!.length, 1);
  rows.forEach((row, step) => found.set(step, row));
  return found;
}

function seen(gates: Record<string, number[][]>, decay: number[][] | null, decay_gate = ""): Seen {
  const all = new Map(Object.entries(gates).map(([name, rows]) => [name, series(rows)]));
  const memory = series([...Object.values(gates), decay].find((rows) => rows !== null)!);
  return { layer: { decay_gate } as Layer, gates: all, decay: decay === null ? null : series(decay), written: null, memory };
}

const still = seen({ input: [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]] }, null);

test("a gate that closes at full stops is the one farthest below its mean elsewhere", () => {
  const shown = ["a", ".", "b"];
  const open = seen({ forget: [[0.9, 0.1], [0.3, 0.0], [0.7, 0.2]] }, null);
  const found = atStops([still, open], shown)!;
  assert.deepEqual([found.layer, found.gate, found.channel, found.step, found.end], [1, "forget", 0, 1, -1]);
  assert.equal(found.says, "forget gate 0.30 at the full stops, 0.80 elsewhere; more closed at each full stop than at any other step");
  assert.equal(atStops([open], ["a", "b", "c"]), null);
  assert.equal(atStops([still], shown), null);
});

test("how clearly a gate closes at full stops is said as it was measured", () => {
  const saysOf = (rows: number[], shown: string) => atStops([seen({ forget: rows.map((value) => [value, 0.5]) }, null)], [...shown])!.says;
  const most = saysOf([0.9, 0.3, 0.2, 0.8, 0.1, 0.9], "a.bc.d");
  assert.equal(most, "forget gate 0.20 at the full stops, 0.70 elsewhere; more closed at each full stop than at 3 of the other 4 steps");
  const unclear = saysOf([0.6, 0.5, 0.58], "a.b");
  assert.match(unclear, /^no gate closes clearly at the full stops: the strongest of 2 goes from 0\.59 to 0\.50\./);
});

test("a channel at -1 is the one whose decay is there most often", () => {
  const decay = [[-0.9, 1, 0.2], [-1, -1, 0.9], [0.3, -1, -0.4]];
  const found = atMinusOne([seen({}, [[0.1, 0.2, 0.3]]), seen({ decay }, decay, "decay")])!;
  assert.deepEqual([found.layer, found.gate, found.channel, found.step], [1, "decay", 1, 1]);
  assert.equal(atMinusOne([seen({}, [[0.1], [-0.4]])]), null);
});

test("the longest memory is the longest half-life of all layers", () => {
  const found = longest([seen({}, [[0.5, 0.9]]), seen({ update: [[0.2, 0.5]] }, [[0.99, 0.5]], "update")])!;
  assert.deepEqual([found.layer, found.gate, found.channel, found.step], [1, "update", 0, null]);
  assert.equal(longest([still]), null);
});

test("the least expected token is the step of the highest loss, at the gate farthest from its mean", () => {
  const open = seen({ forget: [[0.9, 0.1], [0.2, 0.1], [0.9, 0.2]] }, null);
  const found = leastExpected([still, open], [NaN, 3, 2])!;
  assert.deepEqual([found.layer, found.gate, found.channel, found.step, found.end], [1, "forget", 0, 1, -1]);
  assert.equal(leastExpected([open], [NaN]), null);
  assert.equal(leastExpected([open], []), null);
});

test("those that a reading has come in the order in which the page takes them", () => {
  const both = seen({ forget: [[0.9], [0.1], [0.9]] }, [[0.9], [0.1], [0.9]], "forget");
  assert.deepEqual(presets([both], ["a", ".", "b"], [NaN, 1, 2]).map(({ name }) => name), ["stop", "memory", "surprise"]);
  assert.deepEqual(presets([still], [], []), []);
});
