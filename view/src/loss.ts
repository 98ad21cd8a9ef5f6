/** How well a model does on what it read. */

import type { Row } from "./reading.ts";
import { softmax } from "./series.ts";

/** -log p of each token that was read, in nats, after those before it; NaN for the first. `known` are those of the first steps. */
export function lossesOf(answers: (step: number) => Row, read: Row[], known: readonly number[] = []): number[] {
  return read.map((row, step) => known[step] ?? (step === 0 ? NaN : -logProbability(answers(step - 1), row[0]!)));
}

/** Mean of -log p of each next token, in nats; NaN where there is none. */
export function lossOf(answers: Row[], read: Row[]): number {
  return meanLoss(lossesOf((step) => answers[step]!, read));
}

/** Of all losses but the first, which is none. */
export function meanLoss(losses: readonly number[]): number {
  return losses.slice(1).reduce((sum, loss) => sum + loss, 0) / (losses.length - 1);
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
