/** A gate as a picture: a column for each step, a row for each channel, drawn where the reader has scrolled to. */

import { sheet, sized, RATIO } from "./dom.ts";
import type { View } from "./plot.ts";
import type { Series } from "./series.ts";

/** Pixels of a strip's height at least; as many as channels, where there are more. */
const HIGH = 96;

/** Colours of 0 to 1, and of -1 for what has a sign: light and dark pages have their own. */
export interface Ramp {
  low: [number, number, number];
  high: [number, number, number];
  negative: [number, number, number];
}

export const RAMPS: { light: Ramp; dark: Ramp } = {
  light: { low: [247, 247, 250], high: [24, 60, 140], negative: [170, 60, 20] },
  dark: { low: [24, 26, 32], high: [150, 200, 255], negative: [255, 160, 90] },
};

export class Strip {
  private picture: HTMLCanvasElement;
  private order: number[] = [];
  private drawn = 0;

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly series: Series,
    private ramp: Ramp,
  ) {
    this.picture = document.createElement("canvas");
    this.picture.height = series.channels;
  }

  /** Channels from top to bottom. */
  arrange(order: number[], ramp: Ramp): void {
    if (ramp === this.ramp && order.length === this.order.length && order.every((c, n) => c === this.order[n])) return;
    this.order = order;
    this.ramp = ramp;
    this.drawn = 0;
  }

  /** Paint the steps that are new. */
  update(): void {
    const steps = this.series.length;
    this.drawn = Math.min(this.drawn, this.series.changed);
    this.series.changed = steps;
    if (this.picture.width < steps || this.drawn === 0) {
      const larger = document.createElement("canvas");
      larger.width = Math.max(256, 2 ** Math.ceil(Math.log2(Math.max(1, steps))));
      larger.height = this.series.channels;
      if (this.drawn > 0) larger.getContext("2d")!.drawImage(this.picture, 0, 0);
      this.picture = larger;
    }
    if (this.drawn >= steps) return;
    const width = steps - this.drawn;
    const image = new ImageData(width, this.series.channels);
    for (let t = 0; t < width; t++) {
      const row = this.series.row(this.drawn + t);
      this.order.forEach((channel, y) => paint(image.data, 4 * (y * width + t), row[channel]!, this.ramp));
    }
    this.picture.getContext("2d")!.putImageData(image, this.drawn, 0);
    this.drawn = steps;
  }

  /** Draw what is in view, with the chosen step and channel. */
  draw({ first, wide, width, chosen }: View, channel: number | null): void {
    const height = Math.max(sized(HIGH), this.series.channels);
    const context = sheet(this.canvas, width, height);
    context.imageSmoothingEnabled = RATIO * wide < 1; // several steps in a pixel: their mean
    const count = Math.min(width / wide, this.series.length - first);
    if (count <= 0) return;
    context.drawImage(this.picture, first, 0, count, this.series.channels, 0, 0, count * wide, height);
    context.strokeStyle = context.fillStyle = getComputedStyle(this.canvas).color;
    context.strokeRect((chosen - first) * wide + 0.5, 0.5, Math.max(1, wide - 1), height - 1);
    const y = channel === null ? -1 : this.order.indexOf(channel);
    if (y >= 0) {
      const high = height / this.series.channels;
      context.strokeRect(0.5, y * high, count * wide - 1, Math.max(2, high));
    }
  }

  /** The step and the channel at a place of the canvas. */
  at(x: number, y: number, first: number, wide: number): { step: number; channel: number } {
    const row = Math.floor((y / this.canvas.clientHeight) * this.series.channels);
    const step = Math.floor(first + x / wide);
    const clamped = Math.min(this.series.length - 1, Math.max(0, step));
    return { step: clamped, channel: this.order[Math.min(this.order.length - 1, Math.max(0, row))]! };
  }
}

function paint(data: Uint8ClampedArray, at: number, value: number, ramp: Ramp): void {
  const end = value < 0 ? ramp.negative : ramp.high;
  const part = Math.min(1, Math.abs(value));
  for (let c = 0; c < 3; c++) data[at + c] = ramp.low[c]! + part * (end[c]! - ramp.low[c]!);
  data[at + 3] = 255;
}
