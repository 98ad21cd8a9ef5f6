/** What is worth a look in what a model has read, found by measure. */

import type { Seen } from "./runner.ts";
import { halfLives, type Series } from "./series.ts";
import type { Chosen } from "./state.ts";
import { say } from "./words.ts";

export type Name = keyof typeof say.presets;

export interface Found extends Pick<Chosen, "layer" | "gate" | "channel" | "end"> {
  name: Name;
  /** Where to look; null for wherever the reader is. */
  step: number | null;
  /** What was measured, in words. */
  says: string;
}

/** A gate that closes by less at the full stops does not close there clearly. */
const CLEAR = 0.2;

/** Every one that this reading has, those to begin with first. */
export function presets(layers: readonly Seen[], shown: readonly string[], losses: ArrayLike<number>): Found[] {
  return [atStops(layers, shown), atMinusOne(layers), longest(layers), leastExpected(layers, losses)].filter((one) => one !== null);
}

/** The gate's channel that is farthest below its mean elsewhere where sentences end, and how clearly it closes there. */
export function atStops(layers: readonly Seen[], shown: readonly string[]): Found | null {
  const stops = [...shown.keys()].filter((step) => shown[step]!.endsWith("."));
  if (stops.length === 0 || stops.length === shown.length) return null;
  const gatesInAll = layers.reduce((sum, { gates }) => [...gates.values()].reduce((all, { channels }) => all + channels, sum), 0);
  let best: Found | null = null;
  let deepest = 0;
  layers.forEach(({ gates }, layer) => gates.forEach((series, gate) => {
    const all = means(series, [...Array(series.length).keys()]);
    const at = means(series, stops);
    at.forEach((value, channel) => {
      const elsewhere = (all[channel]! * series.length - value * stops.length) / (series.length - stops.length);
      if (elsewhere - value <= deepest) return;
      deepest = elsewhere - value;
      const column = series.column(channel);
      const highest = Math.max(...stops.map((step) => column[step]!));
      const above = column.filter((other) => other > highest).length;
      const says = deepest < CLEAR
        ? say.stopUnclear(gatesInAll, value, elsewhere)
        : say.stopSays(say.gate(gate), value, elsewhere, above, series.length - stops.length);
      best = { name: "stop", layer, gate, channel, end: -1, step: stops[0]!, says };
    });
  }));
  return best;
}

/** The channel whose decay is nearest to -1 in the mean, of those that come near it at all. */
export function atMinusOne(layers: readonly Seen[]): Found | null {
  let best: Found | null = null;
  let nearest = Infinity;
  layers.forEach((seen, layer) => {
    if (seen.decay === null) return;
    for (let channel = 0; channel < seen.decay.channels; channel++) {
      const values = [...seen.decay.column(channel)];
      const near = values.filter((value) => value < -0.5).length;
      // Most often near -1, and of several such channels the one that is nearest there.
      const far = values.reduce((sum, value) => sum + (value < -0.5 ? value + 1 : 1), 0);
      if (near === 0 || far >= nearest) continue;
      nearest = far;
      const step = values.findIndex((value) => value < -0.5);
      best = { name: "minus", layer, gate: gateOf(seen), channel, end: -1, step, says: say.minusSays(near / values.length) };
    }
  });
  return best;
}

/** The channel of the longest half-life. */
export function longest(layers: readonly Seen[]): Found | null {
  let best: Found | null = null;
  let most = 0;
  layers.forEach((seen, layer) => {
    if (seen.decay === null) return;
    halfLives(seen.decay).forEach((half, channel) => {
      if (!(half > most)) return;
      most = half;
      best = { name: "memory", layer, gate: gateOf(seen), channel, end: 1, step: null, says: say.memorySays(halfLife(half)) };
    });
  });
  return best;
}

/** The step of the highest loss, and the gate's channel that is farthest from its mean there. */
export function leastExpected(layers: readonly Seen[], losses: ArrayLike<number>): Found | null {
  let step = 0;
  for (let t = 1; t < losses.length; t++) if (step === 0 || losses[t]! > losses[step]!) step = t;
  if (step === 0) return null;
  let best: Found | null = null;
  let farthest = -1;
  layers.forEach(({ gates }, layer) => gates.forEach((series, gate) => {
    const mean = means(series, [...Array(series.length).keys()]);
    series.row(step).forEach((value, channel) => {
      const off = value - mean[channel]!;
      if (Math.abs(off) <= farthest) return;
      farthest = Math.abs(off);
      best = { name: "surprise", layer, gate, channel, end: off < 0 ? -1 : 1, step, says: say.surpriseSays(losses[step]!, say.gate(gate)) };
    });
  }));
  return best;
}

/** A half-life in steps. */
export function halfLife(half: number): string {
  if (half === Infinity) return say.endless;
  return Number.isNaN(half) ? say.unknownHalf : half < 10 ? half.toFixed(1) : half.toFixed(0);
}

/** The gate that a look at the memory begins with: the one that is the decay, or the first. */
function gateOf({ layer, gates }: Seen): string {
  return layer.decay_gate || ([...gates.keys()][0] ?? "");
}

/** The mean of each channel over some steps. */
function means(series: Series, steps: readonly number[]): Float64Array {
  const sums = new Float64Array(series.channels);
  for (const step of steps) series.row(step).forEach((value, channel) => (sums[channel]! += value));
  return sums.map((sum) => sum / steps.length);
}
