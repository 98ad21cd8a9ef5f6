/** How well a model does on what it read. */

import type { Row } from "./reading.ts";
import { softmax } from "./series.ts";

/** Mean of -log p of each next token, in nats; NaN where there is none. */
export function lossOf(answers: Row[], read: Row[]): number {
  let total = 0;
  for (let step = 0; step + 1 < read.length; step++) total -= logProbability(answers[step]!, read[step + 1]![0]!);
  return total / (read.length - 1);
}

/** Mean absolute difference of each next value from what was expected, entry `middle` of an answer. */
export function errorAhead(answers: Row[], read: Row[], middle: number): number {
  const errors = answers.slice(0, -1).map((answer, step) => Math.abs(read[step + 1]![0]! - answer[middle]!));
  const known = errors.filter(Number.isFinite);
  return known.reduce((a, b) => a + b, 0) / known.length;
}

/** log of the probability of one of the scores. */
function logProbability(scores: ArrayLike<number>, which: number): number {
  let highest = -Infinity;
  for (let n = 0; n < scores.length; n++) highest = Math.max(highest, scores[n]!);
  let total = 0;
  for (let n = 0; n < scores.length; n++) total += Math.exp(scores[n]! - highest);
  return scores[which]! - highest - Math.log(total);
}

/** The entries with the highest scores and the probability of each by itself, the first first. */
export function eachAlone(scores: ArrayLike<number>, count: number): [number, number][] {
  return Array.from(scores, (score, n): [number, number] => [n, 1 / (1 + Math.exp(-score))])
    .sort(([a, p], [b, q]) => q - p || a - b)
    .slice(0, count);
}

/** The likeliest entries with their probabilities, the first first. */
export function likeliest(scores: ArrayLike<number>, temperature: number, count: number): [number, number][] {
  const p = softmax(scores, temperature);
  return [...p.keys()].sort((a, b) => p[b]! - p[a]! || a - b).slice(0, count).map((n) => [n, p[n]!]);
}
