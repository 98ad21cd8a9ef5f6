/** Numbers of a layer over time: rows are steps, and grow as a text does. */

export class Series {
  private data: Float32Array;
  length = 0;
  /** The first step that was written since a reader of it set this. */
  changed = 0;

  constructor(
    readonly channels: number,
    capacity = 64,
  ) {
    this.data = new Float32Array(capacity * channels);
  }

  /** Write a step; those after it are forgotten. */
  set(step: number, values: ArrayLike<number>): void {
    if (values.length !== this.channels) throw new RangeError(`${values.length} values of ${this.channels} channels`);
    if (step > this.length) throw new RangeError(`step ${step} after ${this.length} steps`);
    if ((step + 1) * this.channels > this.data.length) {
      const larger = new Float32Array(2 * this.data.length);
      larger.set(this.data);
      this.data = larger;
    }
    this.data.set(values, step * this.channels);
    this.length = step + 1;
    this.changed = Math.min(this.changed, step);
  }

  cut(length: number): void {
    this.length = Math.min(this.length, length);
  }

  row(step: number): Float32Array {
    return this.data.subarray(step * this.channels, (step + 1) * this.channels);
  }

  at(step: number, channel: number): number {
    return this.data[step * this.channels + channel] ?? NaN;
  }

  /** The smallest number of all. */
  lowest(): number {
    let lowest = Infinity;
    for (let n = 0; n < this.length * this.channels; n++) lowest = Math.min(lowest, this.data[n]!);
    return lowest;
  }

  /** One channel over all steps. */
  column(channel: number): Float32Array {
    return Float32Array.from({ length: this.length }, (_, step) => this.at(step, channel));
  }
}

/**
 * Steps after which half of a channel's state is left, were its decay always the geometric mean of what it was; Infinity
 * for a decay of 1.
 */
export function halfLives(decay: Series): Float64Array {
  const sums = new Float64Array(decay.channels);
  for (let step = 0; step < decay.length; step++) {
    const row = decay.row(step);
    for (let c = 0; c < row.length; c++) sums[c]! += Math.log(Math.abs(row[c]!));
  }
  return sums.map((sum) => (decay.length === 0 ? NaN : sum >= 0 ? Infinity : (decay.length * Math.log(0.5)) / sum));
}

/** Channels, the longest memory first. */
export function byMemory(halves: Float64Array): number[] {
  const rank = (c: number): number => (Number.isNaN(halves[c]) ? -1 : halves[c]!);
  return [...halves.keys()].sort((a, b) => rank(b) - rank(a) || a - b);
}

/** Steps at which a channel's gate is most open, or most closed with a `sign` of -1, the farthest first. */
export function mostOpen(gate: Series, channel: number, count: number, sign = 1): number[] {
  return [...Array(gate.length).keys()]
    .sort((a, b) => sign * (gate.at(b, channel) - gate.at(a, channel)) || a - b)
    .slice(0, count);
}

/** At how many steps a channel's gate is more open than at one of them, or more closed. */
export function rankOf(gate: Series, channel: number, step: number, sign: number): number {
  const own = gate.at(step, channel);
  return gate.column(channel).filter((value) => sign * (value - own) > 0).length;
}

/** The channel that is most above its mean at a step, or below it with a `sign` of -1. */
export function standsOut(gate: Series, step: number, sign: number): number {
  const means = new Float64Array(gate.channels);
  for (let t = 0; t < gate.length; t++) gate.row(t).forEach((value, c) => (means[c]! += value / gate.length));
  const off = gate.row(step).map((value, c) => sign * (value - means[c]!));
  return off.reduce((best, value, c) => (value > off[best]! ? c : best), 0);
}

/**
 * How much of a change of the state after each step is left in the state after step `to`: the root mean square over
 * channels of the product of decays between. Exact where gates read the input alone.
 */
export function reachOfDecays(decay: Series, to: number): Float64Array {
  const reach = new Float64Array(to + 1);
  const products = new Float64Array(decay.channels).fill(1);
  for (let step = to; step >= 0; step--) {
    let squares = 0;
    for (const product of products) squares += product * product;
    reach[step] = Math.sqrt(squares / decay.channels);
    const row = decay.row(step);
    for (let c = 0; c < row.length; c++) products[c]! *= row[c]!;
  }
  return reach;
}

/** Probabilities of scores at a temperature; at 0 all on the largest. */
export function softmax(scores: ArrayLike<number>, temperature = 1): Float64Array {
  const logits = Float64Array.from(scores);
  const highest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  if (temperature === 0) {
    const best = logits.map((x) => (x === highest ? 1 : 0));
    const count = best.reduce((a, b) => a + b, 0);
    return best.map((x) => x / count);
  }
  const powers = logits.map((x) => Math.exp((x - highest) / temperature));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / total);
}
