/** Several canvases with their captions as one picture, to be saved. */

import { RATIO } from "./dom.ts";

/** A caption (null for none), and what it is of (null for the caption alone). */
export type Part = [Element | null, HTMLCanvasElement | null];

const LINE = 22;
const MARGIN = 12;

/** The first `width` pixels of the page of each canvas, one below the other. */
export function picture(parts: Part[], width: number): HTMLCanvasElement {
  const whole = document.createElement("canvas");
  const context = whole.getContext("2d")!;
  const font = "14px system-ui, sans-serif";
  context.font = font;
  const high = ([caption, canvas]: Part): number => (caption === null ? 0 : LINE) + (canvas?.height ?? 0) / RATIO;
  const widest = Math.max(width, ...parts.map(([caption]) => context.measureText(caption?.textContent ?? "").width));
  whole.width = RATIO * (widest + 2 * MARGIN);
  whole.height = RATIO * (parts.reduce((total, part) => total + high(part), 0) + 2 * MARGIN);
  context.scale(RATIO, RATIO);
  context.imageSmoothingEnabled = false;
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, whole.width, whole.height);
  context.font = font;
  let y = MARGIN;
  for (const [caption, canvas] of parts) {
    if (caption !== null) write(context, caption, MARGIN, y + LINE - 7);
    if (canvas !== null) {
      const seen = Math.min(width, canvas.width / RATIO);
      const high = canvas.height / RATIO;
      context.drawImage(canvas, 0, 0, RATIO * seen, canvas.height, MARGIN, y + (caption === null ? 0 : LINE), seen, high);
    }
    y += high([caption, canvas]);
  }
  return whole;
}

/** A caption in one line, each part of it in its own colour. */
function write(context: CanvasRenderingContext2D, caption: Element, x: number, y: number): void {
  for (const node of caption.childNodes) {
    context.fillStyle = node instanceof HTMLElement ? getComputedStyle(node).color : getComputedStyle(document.body).color;
    context.fillText(node.textContent!, x, y);
    x += context.measureText(node.textContent!).width;
  }
}

/** Let the reader save a picture as a PNG file. */
export function save(canvas: HTMLCanvasElement, name: string): void {
  const link = document.createElement("a");
  link.href = canvas.toDataURL("image/png");
  link.download = name;
  link.click();
}
