/** The gates of a model over the steps: what was read, a strip for each gate, and the lines of the chosen channel. */

import { make } from "./dom.ts";
import { lossesOf, meanLoss } from "./loss.ts";
import { bars, lines, ruler, stepWidth, type View } from "./plot.ts";
import { picture, type Part } from "./picture.ts";
import type { Reading, Row } from "./reading.ts";
import type { Runner, Seen } from "./runner.ts";
import { byMemory, halfLives, type Series } from "./series.ts";
import { AT_START, type Chosen } from "./state.ts";
import { RAMPS, Strip } from "./strip.ts";
import { say } from "./words.ts";

/** A layer's strips; its channels from top to bottom, the longest memory first. */
export interface Arranged {
  seen: Seen;
  titles: string[];
  /** The gate of each strip; "" for what is none. */
  gates: string[];
  strips: Strip[];
  order: number[];
  halves: Float64Array | null;
}

const KEYS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0],
};
/** A short text does not fill the page: so many times the width that a step needs, at most. */
const WIDEST = 8;
const dark = matchMedia("(prefers-color-scheme: dark)");

export class Track {
  readonly root: HTMLElement;
  readonly layers: Arranged[];
  /** Milliseconds of each redraw. */
  readonly frames: number[] = [];
  /** -log p of each token that was read, once all is; none but of a language model. */
  losses: number[] = [];
  private shown: string[] = [];
  private typed: Row[] = [];
  private zoom = 0;
  private wide = 1;
  private needed = 1;
  private chosen: Chosen = AT_START;
  private waiting = false;

  constructor(
    private readonly runner: Runner,
    private readonly choose: (change: Partial<Chosen>) => void,
  ) {
    this.root = make("div", {
      class: "track", tabindex: "0", role: "group", "aria-label": say.strips,
    });
    this.root.innerHTML = `
      <div class="inner">
        <div class="stay"><canvas class="ruler" role="img" aria-label="${say.whatIsRead}"></canvas></div>
        <figure class="stay losses"><figcaption class="loss-says"></figcaption><canvas class="loss" role="img"></canvas></figure>
        <figure class="stay"><figcaption class="lines-says"></figcaption><canvas class="lines" role="img"></canvas></figure>
      </div>`;
    if (runner.model.answers !== "next") this.find(".losses").remove();
    this.layers = runner.seen.map((seen) => this.arrange(seen));
    this.listen();
  }

  /** What is read next, of other length and width than before. */
  begin(reading: Reading): void {
    this.shown = reading.shown;
    this.typed = reading.read;
    this.needed = stepWidth(reading.shown, this.runner.model.reads === "numbers");
    this.scale();
  }

  /** Widths of a step, as many as it needs; 0 for what fits the page. */
  resize(zoom: number): void {
    this.zoom = zoom;
    this.needed = stepWidth(this.shown, this.runner.model.reads === "numbers");
    this.draw();
    this.reveal(this.chosen.step);
  }

  /** How wide a step is, in what it needs. */
  get scaled(): number {
    return this.wide / this.needed;
  }

  /** Paint the steps that are new. */
  paint(): void {
    this.layers.forEach(({ strips }) => strips.forEach((strip) => strip.update()));
    this.draw();
  }

  /** Put the channels in the order of their memory over all that was read. */
  sort(): void {
    const { answers, read, model } = this.runner;
    if (model.answers === "next") {
      this.losses = lossesOf((step) => answers.row(step), read, this.losses.slice(0, Math.min(answers.changed, read.length)));
      answers.changed = answers.length;
    }
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
    this.reveal(chosen.step);
    this.draw();
  }

  /** Whether a number here is below 0. */
  get signed(): boolean {
    return this.layers.some(({ strips }) => strips.some(({ series }) => series.lowest() < 0));
  }

  /** Scroll the page to the strip of the chosen gate. */
  bring(): void {
    this.find(".chosen").scrollIntoView({ block: "nearest" });
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
    const { layer, channel } = this.chosen;
    this.scale();
    const view: View = {
      first: this.root.scrollLeft / this.wide, wide: this.wide, needed: this.needed, width: this.root.clientWidth,
      chosen: this.chosen.step,
    };
    this.root.style.setProperty("--view", `${view.width}px`);
    const numbers = this.runner.model.reads === "numbers" ? this.typed : null;
    ruler(this.find<HTMLCanvasElement>(".ruler"), this.shown, numbers, view);
    if (this.runner.model.answers === "next") this.loss(view);
    const { seen, titles, strips } = this.layers[layer]!;
    const colours = lines(this.find<HTMLCanvasElement>(".lines"), strips.map(({ series }) => series), channel, view);
    const says = this.find(".lines-says");
    says.replaceChildren(say.channelOf(say.layer(seen.layer.name), channel));
    titles.forEach((title, n) => says.append(make("span", { style: `color: ${colours[n]}` }, "■ "), `${title} `));
    this.find(".lines").setAttribute("aria-label", says.textContent!);
    this.layers.forEach(({ strips, gates }, n) => strips.forEach((strip, k) => {
      const here = n === layer;
      strip.draw(view, here ? channel : null);
      strip.canvas.closest("figure")!.classList.toggle("chosen", here && k === Math.max(0, gates.indexOf(this.chosen.gate)));
    }));
    this.frames.push(performance.now() - started);
  }

  /** The loss of each token, on a scale whose top is at least that of guessing. */
  private loss(view: View): void {
    const { losses } = this;
    const mean = meanLoss(losses);
    const top = losses.reduce((most, loss) => (loss > most ? loss : most), Math.log(this.runner.model.symbols));
    const canvas = this.find<HTMLCanvasElement>(".loss");
    bars(canvas, losses, mean, top, view, say.lossTop(top));
    const here = losses[view.chosen] ?? NaN;
    const says = losses.length < 2 ? "" : say.loss(mean, here, Math.exp(-here));
    this.find(".loss-says").textContent = says;
    canvas.setAttribute("aria-label", says);
  }

  /** How wide a step is. */
  private scale(): void {
    const steps = Math.max(1, this.typed.length);
    const fit = Math.min(WIDEST * this.needed, this.root.clientWidth / steps);
    this.wide = this.zoom === 0 ? fit || 1 : this.zoom * this.needed;
    this.find<HTMLElement>(".inner").style.width = this.zoom === 0 ? "100%" : `${steps * this.wide}px`;
  }

  private arrange(seen: Seen): Arranged {
    const { layer } = seen;
    const named: [string, string, Series][] = [...seen.gates].map(([gate, series]) => [gate, say.gate(gate), series]);
    // Of a decay that is a gate, or 1 minus one, a strip says the same twice.
    if (seen.decay !== null && layer.decay_gate === "") named.push(["", say.decay, seen.decay]);
    if (named.length === 0) named.push(["", say.state, seen.memory]);
    const order = [...Array(layer.channels).keys()];
    const strips = named.map(([gate, title, series]) => {
      const canvas = make("canvas", { role: "img", class: "strip" }) as HTMLCanvasElement;
      const also = gate === layer.decay_gate && !["", "decay"].includes(gate) ? say.isDecay(layer.decay_inverted) : "";
      const caption = make("figcaption", {}, `${say.layer(layer.name)}, ${layer.cell}: ${title}${also}`);
      const figure = make("figure", { class: "stay" });
      canvas.setAttribute("aria-label", caption.textContent!);
      figure.append(caption, canvas);
      this.find(".inner").append(figure);
      const strip = new Strip(canvas, series, this.ramp());
      strip.arrange(order, this.ramp());
      return strip;
    });
    return { seen, titles: named.map(([, title]) => title), gates: named.map(([gate]) => gate), strips, order, halves: null };
  }

  private listen(): void {
    this.root.addEventListener("scroll", () => this.later());
    this.root.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
    new ResizeObserver(() => this.later()).observe(this.root);
    dark.addEventListener("change", () => {
      this.sort();
      this.choose({});
    });
    this.layers.forEach(({ strips, gates }, layer) => strips.forEach((strip, n) => {
      strip.canvas.addEventListener("click", ({ offsetX, offsetY }) => {
        const at = strip.at(offsetX, offsetY, this.root.scrollLeft / this.wide, this.wide);
        this.choose({ layer, ...at, ...(gates[n] === "" ? {} : { gate: gates[n]! }) });
      });
    }));
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
    this.choose({ step: moved, channel: order[row]! });
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
