/** Lines over steps. */

import { sheet, sized } from "./dom.ts";
import type { Row } from "./reading.ts";
import type { Series } from "./series.ts";

const HEIGHT = 90;
const RULER = { tokens: 22, numbers: 60 };
const LOSS = 44;
/** Pixels of a step: of a character or a number; of a longer token by its letters, up to a limit. */
const NARROW = 14;
const LETTER = 8;
const WIDEST = 88;
/** Tokens that are not cut, of all. */
const WHOLE = 0.9;
const FONT = 13;
/** A smaller one is not read; then only what stands around the chosen step is written, in the usual size. */
const LEGIBLE = 9;
/** Tokens before and after the chosen step there. */
const AROUND = 40;

export interface Bounds {
  low: number;
  high: number;
}

/** A line over steps, what is NaN left out, with a mark at the chosen one. */
export function plot(canvas: HTMLCanvasElement, values: ArrayLike<number>, chosen: number): Bounds {
  const known = Array.from(values).filter((value) => Number.isFinite(value));
  const bounds = { low: Math.min(0, ...known), high: Math.max(1e-6, ...known) };
  const { context, x, y } = axes(canvas, values.length, bounds);
  context.strokeStyle = context.fillStyle = colour(canvas, "--bar");
  context.beginPath();
  for (let step = 0; step < values.length; step++) {
    const value = values[step]!;
    if (!Number.isFinite(value)) continue;
    context.lineTo(x(step), y(value));
    if (known.length < values.length) context.fillRect(x(step) - 2, y(value) - 2, 4, 4);
  }
  context.stroke();
  context.strokeStyle = colour(canvas, "--ink");
  context.strokeRect(x(chosen) - 2, 2, 4, sized(HEIGHT) - 4);
  return bounds;
}

/** Powers of ten between two lines of a logarithmic axis. */
const DECADES = 5;

/** Shares of 1 over steps on a logarithmic axis that ends at 10^`lowest`, with a mark at a step, or none for null. */
export function plotShares(canvas: HTMLCanvasElement, shares: ArrayLike<number>, lowest: number, marked: number | null): void {
  const { context, x, y } = axes(canvas, shares.length, { low: lowest, high: 0 });
  context.fillStyle = colour(canvas, "--quiet");
  context.strokeStyle = colour(canvas, "--line");
  context.font = `${sized(11)}px system-ui, sans-serif`;
  for (let power = 0; power >= lowest; power -= DECADES) {
    context.strokeRect(-1, y(power), canvas.clientWidth + 2, 0);
    context.fillText(power === 0 ? "1" : powerOfTen(power), 4, y(power) + sized(11));
  }
  context.strokeStyle = colour(canvas, "--bar");
  context.lineWidth = 2;
  draw(context, Array.from(shares, Math.log10), x, y);
  context.lineWidth = 1;
  context.strokeStyle = colour(canvas, "--ink");
  if (marked !== null) context.strokeRect(x(marked) - 2, 2, 4, sized(HEIGHT) - 4);
}

/** 10⁻¹². */
export function powerOfTen(power: number): string {
  return `10⁻${String(-power).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]!)}`;
}

/**
 * Values, and from step `now` on what was expected there: a band from the lowest to the highest quantile, and the median.
 */
export function fan(canvas: HTMLCanvasElement, values: ArrayLike<number>, now: number, quantiles: Row[], middle: number): void {
  const all = [...Array.from(values), ...quantiles.flatMap((row) => Array.from(row))].filter(Number.isFinite);
  const bounds = { low: Math.min(...all), high: Math.max(...all) };
  const { context, x, y } = axes(canvas, Math.max(values.length, now + 1 + quantiles.length), bounds);
  const last = quantiles[0]!.length - 1;
  context.fillStyle = colour(canvas, "--line");
  context.beginPath();
  quantiles.forEach((row, h) => context.lineTo(x(now + 1 + h), y(row[0]!)));
  [...quantiles.entries()].reverse().forEach(([h, row]) => context.lineTo(x(now + 1 + h), y(row[last]!)));
  context.fill();
  const line = (points: ArrayLike<number>, first: number, look: string): void => {
    context.strokeStyle = colour(canvas, look);
    draw(context, points, (n) => x(first + n), y);
  };
  context.strokeStyle = colour(canvas, "--quiet");
  context.strokeRect(x(now + 0.5), -1, 0, sized(HEIGHT) + 2);
  line(values, 0, "--ink");
  context.lineWidth = 2;
  line(quantiles.map((row) => row[middle]!), now + 1, "--bar");
}

/** Pixels that a step needs for what stands above the strips. */
export function stepWidth(shown: string[], numbers: boolean): number {
  const letters = shown.map((one) => one.length).sort((a, b) => a - b);
  const most = letters[Math.floor(WHOLE * (letters.length - 1))] ?? 1;
  return sized(numbers || most <= 1 ? NARROW : Math.min(WIDEST, LETTER * most + 6));
}

/** The steps in view, and where they are. */
export interface View {
  /** The step at the left edge, a fraction of one too. */
  first: number;
  /** Pixels of a step, and of one that is wide enough for its token. */
  wide: number;
  needed: number;
  width: number;
  chosen: number;
}

/** What was read, above the strips: tokens as text, numbers as lines. */
export function ruler(canvas: HTMLCanvasElement, shown: string[], numbers: Row[] | null, view: View): void {
  const { first, wide, needed, width, chosen } = view;
  const height = sized(numbers === null ? RULER.tokens : RULER.numbers);
  const context = sheet(canvas, width, height);
  context.fillStyle = context.strokeStyle = colour(canvas, "--ink");
  const from = Math.floor(first);
  const to = Math.min(shown.length, from + width / wide + 2);
  if (numbers === null) {
    // A character needs less than the room that it usually has.
    const room = needed <= sized(NARROW) ? sized(LETTER) : needed;
    const size = sized(FONT) * Math.min(1, wide / room);
    context.font = `${size < sized(LEGIBLE) ? sized(FONT) : size}px ui-monospace, monospace`;
    if (size < sized(LEGIBLE)) around(context, shown, chosen, (chosen + 0.5 - first) * wide, height);
    else for (let step = from; step < to; step++) label(context, shown[step]!, (step - first) * wide, wide, height);
    return;
  }
  const known = numbers.flatMap((row) => Array.from(row)).filter(Number.isFinite);
  const low = known.reduce((a, b) => Math.min(a, b), Infinity);
  const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  for (let column = 0; column < (numbers[0]?.length ?? 0); column++) {
    const y = (value: number): number => height - 4 - ((value - low) * (height - 8)) / (high - low || 1);
    const values = numbers.slice(from, to).map((row) => row[column]!);
    draw(context, values, (t) => (from + t + 0.5 - first) * wide, y);
  }
}

/** Okabe and Ito's colours, which colour-blind readers distinguish too. */
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#999999"];

/** One channel of several series as lines over the strips' columns, between 0 and 1, or -1 and 1. Returns their colours. */
export function lines(
  canvas: HTMLCanvasElement, all: Series[], channel: number, { first, wide, width, chosen }: View,
): string[] {
  const height = sized(HEIGHT);
  const context = sheet(canvas, width, height);
  const from = Math.floor(first);
  const to = Math.min(all[0]!.length, from + width / wide + 2);
  const values = all.map((series) => Array.from({ length: Math.max(0, to - from) }, (_, n) => series.at(from + n, channel)));
  const low = values.flat().some((value) => value < 0) ? -1 : 0;
  const y = (value: number): number => height - 4 - ((value - low) * (height - 8)) / (1 - low);
  context.strokeStyle = colour(canvas, "--line");
  context.fillStyle = colour(canvas, "--quiet");
  context.font = `${sized(11)}px system-ui, sans-serif`;
  for (const level of new Set([low, 0, 1])) {
    context.strokeRect(-1, y(level), width + 2, 0);
    context.fillText(String(level), 2, level === 1 ? y(level) + sized(11) : y(level) - 3);
  }
  context.strokeStyle = colour(canvas, "--ink");
  context.strokeRect((chosen - first) * wide + 0.5, 0.5, Math.max(1, wide - 1), height - 1);
  context.lineWidth = sized(2);
  values.forEach((line, n) => {
    context.strokeStyle = COLOURS[n % COLOURS.length]!;
    context.beginPath();
    line.forEach((value, t) => context.lineTo((from + t + 0.5 - first) * wide, y(value)));
    context.stroke();
  });
  return all.map((_, n) => COLOURS[n % COLOURS.length]!);
}

/** The loss of each token in its column, from 0 to `top`, with a line at the mean. */
export function bars(canvas: HTMLCanvasElement, losses: readonly number[], mean: number, top: number, view: View, said: string): void {
  const { first, wide, width, chosen } = view;
  const height = sized(LOSS);
  const context = sheet(canvas, width, height);
  const from = Math.floor(first);
  const to = Math.min(losses.length, from + width / wide + 2);
  const high = (loss: number): number => ((height - sized(13)) * Math.min(loss, top)) / top;
  for (let step = from; step < to; step++) {
    context.fillStyle = colour(canvas, step === chosen ? "--accent" : "--bar");
    const loss = losses[step]!;
    const left = (step - first) * wide;
    if (loss > 0) context.fillRect(left, height - high(loss), Math.max(0.5, wide - Math.min(1, wide / 8)), high(loss));
  }
  context.strokeStyle = colour(canvas, "--ink");
  context.setLineDash([4, 3]);
  if (Number.isFinite(mean)) context.strokeRect(-1, height - high(mean), width + 2, 0);
  context.setLineDash([]);
  context.strokeRect((chosen - first) * wide + 0.5, 0.5, Math.max(1, wide - 1), height - 1);
  context.fillStyle = colour(canvas, "--quiet");
  context.font = `${sized(11)}px system-ui, sans-serif`;
  context.fillText(said, 2, sized(11));
}

/** A line that is broken where a value is missing; one between two gaps is a dot. */
function draw(context: CanvasRenderingContext2D, values: ArrayLike<number>, x: (n: number) => number, y: (value: number) => number): void {
  context.beginPath();
  let drawn = false;
  for (let n = 0; n < values.length; n++) {
    const value = values[n]!;
    if (Number.isFinite(value)) {
      if (!drawn) context.moveTo(x(n) - 1, y(value));
      context.lineTo(x(n), y(value));
    }
    drawn = Number.isFinite(value);
  }
  context.stroke();
}

/** A token in its column. */
function label(context: CanvasRenderingContext2D, text: string, x: number, wide: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(x, 0, Math.max(wide - 1, 1), height);
  context.clip();
  const written = context.measureText(text).width;
  context.fillText(text, x + Math.max(0, Math.min(2, (wide - written) / 2)), 0.73 * height);
  context.restore();
}

/** The chosen token where its step is, and as many beside it as there is room for: steps are too narrow for tokens. */
function around(context: CanvasRenderingContext2D, shown: string[], chosen: number, x: number, height: number): void {
  const own = shown[chosen] || "·";
  const half = context.measureText(own).width / 2;
  const before = shown.slice(Math.max(0, chosen - AROUND), chosen).join("");
  const { canvas } = context;
  context.fillText(before, x - half - 1 - context.measureText(before).width, 0.73 * height);
  context.fillText(shown.slice(chosen + 1, chosen + 1 + AROUND).join(""), x + half + 1, 0.73 * height);
  context.fillStyle = colour(canvas, "--accent");
  context.fillRect(x - half - 1, 0, 2 * half + 2, height);
  context.fillStyle = colour(canvas, "--ground");
  context.fillText(own, x - half, 0.73 * height);
}

function axes(canvas: HTMLCanvasElement, steps: number, { low, high }: Bounds) {
  const width = canvas.clientWidth || 300;
  const height = sized(HEIGHT);
  const context = sheet(canvas, width, height);
  const x = (step: number): number => 4 + (step * (width - 8)) / Math.max(1, steps - 1);
  const y = (value: number): number => height - 5 - ((value - low) * (height - 10)) / (high - low || 1);
  return { context, x, y };
}

function colour(canvas: HTMLCanvasElement, name: string): string {
  return getComputedStyle(canvas).getPropertyValue(name);
}
