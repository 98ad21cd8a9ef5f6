/** Elements by their name, attributes and text. */
export function make(name: string, attributes: Record<string, string> = {}, text = ""): HTMLElement {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** Pixels of a canvas to one of the page: sharp on fine screens, and in a saved picture. */
export const RATIO = 2;

/** Pixels of what is drawn: more of them where the page is shown to a room. */
export function sized(pixels: number): number {
  return document.documentElement.classList.contains("projector") ? Math.round(1.5 * pixels) : pixels;
}

/** An empty canvas of a size in pixels of the page. */
export function sheet(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  if (canvas.width !== RATIO * width) canvas.width = RATIO * width;
  if (canvas.height !== RATIO * height) canvas.height = RATIO * height;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(RATIO, 0, 0, RATIO, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
