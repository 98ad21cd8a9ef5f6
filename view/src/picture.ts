/** Several canvases with their captions as one picture, to be saved. */

/** A caption, and what it is of; null for a line of text alone. */
export type Part = [string, HTMLCanvasElement | null];

const LINE = 22;
const MARGIN = 12;
/** Pixels of the picture to one of the screen. */
const SCALE = 2;

export function picture(parts: Part[]): HTMLCanvasElement {
  const width = Math.max(...parts.map(([, canvas]) => canvas?.width ?? 0));
  const high = ([caption, canvas]: Part): number => (caption === "" ? 0 : LINE) + (canvas?.height ?? 0);
  const whole = document.createElement("canvas");
  whole.width = SCALE * (width + 2 * MARGIN);
  whole.height = SCALE * (parts.reduce((total, part) => total + high(part), 0) + 2 * MARGIN);
  const style = getComputedStyle(document.body);
  const context = whole.getContext("2d")!;
  context.scale(SCALE, SCALE);
  context.imageSmoothingEnabled = false;
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, width + 2 * MARGIN, whole.height);
  context.font = "14px system-ui, sans-serif";
  context.fillStyle = style.color;
  let y = MARGIN;
  for (const [caption, canvas] of parts) {
    if (caption !== "") context.fillText(caption, MARGIN, y + LINE - 7);
    if (canvas !== null) context.drawImage(canvas, MARGIN, y + (caption === "" ? 0 : LINE));
    y += high([caption, canvas]);
  }
  return whole;
}

/** Let the reader save a picture as a PNG file. */
export function save(canvas: HTMLCanvasElement, name: string): void {
  const link = document.createElement("a");
  link.href = canvas.toDataURL("image/png");
  link.download = name;
  link.click();
}
