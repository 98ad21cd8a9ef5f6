/** An LSTM with drawn weights, computed here: small enough to be read anew at every move of a slider. */

import { Series } from "./series.ts";

/** Rows of the gates in the weights, as torch has them: input, forget, candidate, output. */
const GATES = 4;
const FORGET = 1;

export interface Lstm {
  inputs: number;
  hidden: number;
  /** (4 · hidden, inputs), (4 · hidden, hidden) and (4 · hidden), row after row. */
  ofInput: Float64Array;
  ofState: Float64Array;
  bias: Float64Array;
}

export interface Run {
  forget: Series;
  cell: Series;
}

/** Weights and biases as torch draws them, evenly within 1 / √hidden of 0. */
export function drawn(inputs: number, hidden: number, seed: number): Lstm {
  const random = randoms(seed);
  const even = (count: number): Float64Array => Float64Array.from({ length: count }, () => (2 * random() - 1) / Math.sqrt(hidden));
  return { inputs, hidden, ofInput: even(GATES * hidden * inputs), ofState: even(GATES * hidden ** 2), bias: even(GATES * hidden) };
}

/** Numbers of a normal distribution, a row a step. */
export function noise(steps: number, inputs: number, seed: number): Float64Array[] {
  const random = randoms(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Array.from({ length: steps }, () => Float64Array.from({ length: inputs }, normal));
}

/** Read, with so much added to the forget gate's bias. */
export function run({ inputs, hidden, ofInput, ofState, bias }: Lstm, read: readonly Float64Array[], more: number): Run {
  const found = { forget: new Series(hidden), cell: new Series(hidden) };
  let h = new Float64Array(hidden);
  const c = new Float64Array(hidden);
  read.forEach((x, step) => {
    const sums = bias.map((start, row) => {
      let sum = start + (Math.floor(row / hidden) === FORGET ? more : 0);
      for (let n = 0; n < inputs; n++) sum += ofInput[row * inputs + n]! * x[n]!;
      for (let n = 0; n < hidden; n++) sum += ofState[row * hidden + n]! * h[n]!;
      return sum;
    });
    const gate = (n: number, channel: number): number => sigmoid(sums[n * hidden + channel]!);
    const forget = c.map((_, channel) => gate(FORGET, channel));
    for (let n = 0; n < hidden; n++) c[n] = forget[n]! * c[n]! + gate(0, n) * Math.tanh(sums[2 * hidden + n]!);
    h = c.map((value, channel) => gate(3, channel) * Math.tanh(value));
    found.forget.set(step, forget);
    found.cell.set(step, c);
  });
  return found;
}

/** How much of the state after the first step is left after 0, 1, 2 … more: the product of gates, mean over channels. */
export function left(forget: Series): Float64Array {
  const products = new Float64Array(forget.channels).fill(1);
  return Float64Array.from({ length: forget.length }, (_, step) => {
    if (step > 0) forget.row(step).forEach((gate, channel) => (products[channel]! *= gate));
    return products.reduce((sum, product) => sum + product, 0) / forget.channels;
  });
}

/** Steps after which half of a state is left, at the geometric mean of all gates. */
export function halfLife(forget: Series): number {
  let logs = 0;
  for (let step = 0; step < forget.length; step++) forget.row(step).forEach((gate) => (logs += Math.log(gate)));
  return Math.log(0.5) / (logs / (forget.length * forget.channels));
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** Numbers between 0 and 1, the same for a seed in every browser (mulberry32). */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}
