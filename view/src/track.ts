/** The gates of a model over the steps: what was read, a strip for each gate, and the lines of the chosen channel. */

import { make } from "./dom.ts";
import { lines, ruler, stepWidth } from "./plot.ts";
import { picture, type Part } from "./picture.ts";
import type { Reading, Row } from "./reading.ts";
import type { Runner, Seen } from "./runner.ts";
import { byMemory, halfLives, type Series } from "./series.ts";
import { RAMPS, Strip } from "./strip.ts";

/** What the reader has chosen. */
export interface Chosen {
  step: number;
  layer: number;
  channel: number;
}

/** A layer's strips; its channels from top to bottom, the longest memory first. */
export interface Arranged {
  seen: Seen;
  titles: string[];
  strips: Strip[];
  order: number[];
  halves: Float64Array | null;
}

const KEYS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0],
};
const dark = matchMedia("(prefers-color-scheme: dark)");

export class Track {
  readonly root: HTMLElement;
  readonly layers: Arranged[];
  /** Milliseconds of each redraw. */
  readonly frames: number[] = [];
  private shown: string[] = [];
  private typed: Row[] = [];
  private wide = 1;
  private chosen: Chosen = { step: 0, layer: 0, channel: 0 };
  private waiting = false;

  constructor(
    private readonly runner: Runner,
    private readonly choose: (chosen: Chosen) => void,
  ) {
    this.root = make("div", {
      class: "track", tabindex: "0", role: "group", "aria-label": "Gates over the steps: arrow keys choose a step and a channel",
    });
    this.root.innerHTML = `
      <div class="inner">
        <div class="stay"><canvas class="ruler" role="img" aria-label="What is read, step by step"></canvas></div>
        <figure class="stay"><figcaption class="lines-says"></figcaption><canvas class="lines" role="img"></canvas></figure>
      </div>`;
    this.layers = runner.seen.map((seen) => this.arrange(seen));
    this.listen();
  }

  /** What is read next, of other length and width than before. */
  begin(reading: Reading): void {
    this.shown = reading.shown;
    this.typed = reading.read;
    this.wide = stepWidth(reading.shown, this.runner.model.reads === "numbers");
    this.find<HTMLElement>(".inner").style.width = `${Math.max(1, reading.read.length) * this.wide}px`;
  }

  /** Paint the steps that are new. */
  paint(): void {
    this.layers.forEach(({ strips }) => strips.forEach((strip) => strip.update()));
    this.draw();
  }

  /** Put the channels in the order of their memory over all that was read. */
  sort(): void {
    for (const arranged of this.layers) {
      const { decay, layer } = arranged.seen;
      arranged.halves = decay === null ? null : halfLives(decay);
      arranged.order = arranged.halves === null ? [...Array(layer.channels).keys()] : byMemory(arranged.halves);
      arranged.strips.forEach((strip) => strip.arrange(arranged.order, this.ramp()));
    }
    this.paint();
  }

  show(chosen: Chosen): void {
    this.chosen = chosen;
    this.draw();
  }

  /** Scroll to a step that is out of view. */
  reveal(step: number): void {
    const left = step * this.wide;
    const { scrollLeft, clientWidth } = this.root;
    if (left < scrollLeft || left + this.wide > scrollLeft + clientWidth) this.root.scrollLeft = left - clientWidth / 2;
  }

  /** What is in view of one gate of the chosen layer, below titles: what was read, the channel's lines, the strip. */
  picture(titles: Element[], gate: string): HTMLCanvasElement {
    const { seen, strips } = this.layers[this.chosen.layer]!;
    const strip = strips[Math.max(0, [...seen.gates.keys()].indexOf(gate))]!;
    const canvases = [this.find<HTMLCanvasElement>(".ruler"), this.find<HTMLCanvasElement>(".lines"), strip.canvas];
    const parts = canvases.map((canvas): Part => [canvas.closest("figure")?.querySelector("figcaption") ?? null, canvas]);
    const width = Math.min(this.root.clientWidth, this.shown.length * this.wide - this.root.scrollLeft);
    return picture([...titles.map((title): Part => [title, null]), ...parts], width);
  }

  private draw(): void {
    const started = performance.now();
    const { layer, channel, step } = this.chosen;
    const first = this.root.scrollLeft / this.wide;
    const width = this.root.clientWidth;
    this.root.style.setProperty("--view", `${width}px`);
    const numbers = this.runner.model.reads === "numbers" ? this.typed : null;
    ruler(this.find<HTMLCanvasElement>(".ruler"), this.shown, numbers, first, this.wide, width);
    const { seen, titles, strips } = this.layers[layer]!;
    const colours = lines(
      this.find<HTMLCanvasElement>(".lines"), strips.map(({ series }) => series), channel, first, this.wide, width, step,
    );
    const says = this.find(".lines-says");
    says.replaceChildren(`${seen.layer.name}, channel ${channel}: `);
    titles.forEach((title, n) => says.append(make("span", { style: `color: ${colours[n]}` }, "■ "), `${title} `));
    this.find(".lines").setAttribute("aria-label", says.textContent!);
    this.layers.forEach(({ strips }, n) => {
      for (const strip of strips) {
        strip.draw(first, this.wide, width, step, n === layer ? channel : null);
      }
    });
    this.frames.push(performance.now() - started);
  }

  private arrange(seen: Seen): Arranged {
    const named: [string, Series][] = [...seen.gates].map(([gate, series]) => [`${gate} gate`, series]);
    if (seen.decay !== null && !seen.layer.decay_is_gate) named.push(["decay of the state", seen.decay]);
    if (named.length === 0) named.push(["state", seen.memory]);
    const order = [...Array(seen.layer.channels).keys()];
    const strips = named.map(([title, series]) => {
      const canvas = make("canvas", { role: "img", class: "strip" }) as HTMLCanvasElement;
      const caption = make("figcaption", {}, `${seen.layer.name}, ${seen.layer.cell}: ${title}`);
      const figure = make("figure", { class: "stay" });
      canvas.setAttribute("aria-label", caption.textContent!);
      figure.append(caption, canvas);
      this.find(".inner").append(figure);
      const strip = new Strip(canvas, series, this.ramp());
      strip.arrange(order, this.ramp());
      return strip;
    });
    return { seen, titles: named.map(([title]) => title), strips, order, halves: null };
  }

  private listen(): void {
    this.root.addEventListener("scroll", () => this.later());
    this.root.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
    new ResizeObserver(() => this.later()).observe(this.root);
    dark.addEventListener("change", () => {
      this.sort();
      this.choose(this.chosen);
    });
    this.layers.forEach(({ strips }, layer) => {
      for (const strip of strips) {
        strip.canvas.addEventListener("click", ({ offsetX, offsetY }) => {
          this.choose({ layer, ...strip.at(offsetX, offsetY, this.root.scrollLeft / this.wide, this.wide) });
        });
      }
    });
  }

  private key(event: KeyboardEvent): void {
    const move = KEYS[event.key];
    if (move === undefined) return;
    event.preventDefault();
    if (this.runner.read.length === 0) return;
    const { step, layer, channel } = this.chosen;
    const { order } = this.layers[layer]!;
    const row = Math.min(order.length - 1, Math.max(0, order.indexOf(channel) + move[1]));
    const moved = Math.max(0, Math.min(this.runner.read.length - 1, step + move[0]));
    this.reveal(moved);
    this.choose({ step: moved, layer, channel: order[row]! });
  }

  private later(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  private ramp() {
    return dark.matches ? RAMPS.dark : RAMPS.light;
  }

  private find<E extends Element = Element>(selector: string): E {
    return this.root.querySelector<E>(selector)!;
  }
}
