/** One model in the page: its strips over the text, the chosen step, the chosen channel. */

import { Answer } from "./answer.ts";
import { make } from "./dom.ts";
import { plot, ruler, stepWidth } from "./plot.ts";
import type { Reader, Reading, Row } from "./reading.ts";
import type { Runner, Seen } from "./runner.ts";
import { byMemory, halfLives, mostOpen, reachOfDecays, type Series } from "./series.ts";
import { RAMPS, Strip } from "./strip.ts";

const OPEN_STEPS = 8;
/** Steps back at which the reach is measured by finite differences. */
const BACK = [1, 2, 4, 8, 16, 32, 64];
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Channels of a layer, the longest memory at the top. */
interface Arranged {
  seen: Seen;
  strips: Strip[];
  order: number[];
  halves: Float64Array | null;
}

export class Panel {
  readonly root: HTMLElement;
  /** Milliseconds of each redraw after a scroll. */
  readonly frames: number[] = [];
  private readonly answer: Answer;
  private readonly layers: Arranged[];
  private shown: string[] = [];
  private typed: Row[] = [];
  private wide = 1;
  private chosen = 0;
  private layer = 0;
  private channel = 0;
  private waiting = false;
  private measuring = 0;

  constructor(
    readonly runner: Runner,
    reader: Reader,
    number: number,
  ) {
    const model = runner.model;
    this.root = make("section", { "aria-labelledby": `title-${number}` });
    this.root.innerHTML = `
      <h2 id="title-${number}"></h2>
      <p class="quiet about"></p>
      <details><summary>Equations</summary></details>
      <div class="track" tabindex="0" role="group" aria-label="Gates over the steps: arrow keys choose a step and a channel">
        <div class="inner"><div class="stay"><canvas class="ruler" role="img" aria-label="What is read, step by step"></canvas></div></div>
      </div>
      <h3 class="step" aria-live="polite"></h3>
      <div class="answer"></div>
      <figure><canvas class="line reach" role="img"></canvas><figcaption class="reach-says"></figcaption></figure>
      <h3>A channel</h3>
      <div class="row"><label>Layer <select class="layer"></select></label><label>Channel <select class="channel"></select></label></div>
      <figure><canvas class="line memory" role="img"></canvas><figcaption class="memory-says"></figcaption></figure>
      <div class="row"><label>Gate <select class="gate"></select></label></div>
      <ol class="open"></ol>
      <div class="row"><button type="button" class="zero">Hold the channel at 0</button><button type="button" class="one">Hold it at 1</button></div>
      <p class="held" role="status"></p>`;
    this.find("h2").textContent = model.title;
    this.find(".about").textContent = `${model.parameters.toLocaleString("en")} parameters`;
    for (const equations of new Set(model.layers.map((layer) => layer.equations))) {
      this.find("details").append(make("pre", {}, equations));
    }
    this.answer = new Answer(runner, reader);
    this.find(".answer").replaceWith(this.answer.root);
    this.layers = runner.seen.map((seen) => this.arrange(seen));
    this.listen();
  }

  /** Follow a text, drawing as the steps are computed. False stops. */
  async follow(reading: Reading, current: () => boolean): Promise<void> {
    this.shown = reading.shown;
    this.typed = reading.read;
    this.wide = stepWidth(reading.shown, this.runner.model.reads === "numbers");
    this.find<HTMLElement>(".inner").style.width = `${Math.max(1, reading.read.length) * this.wide}px`;
    let painted = performance.now();
    await this.runner.follow(reading.read, async (done) => {
      if (performance.now() - painted > 60) {
        this.paint();
        await new Promise((next) => setTimeout(next));
        painted = performance.now();
      }
      return current() || done === 0;
    });
    if (!current()) return;
    this.chosen = Math.min(this.chosen, Math.max(0, reading.read.length - 1));
    this.sort();
    this.choose(this.chosen);
  }

  /** Draw the strips where the reader has scrolled to. */
  draw(): void {
    const started = performance.now();
    const track = this.find(".track");
    const first = track.scrollLeft / this.wide;
    const width = track.clientWidth;
    (track as HTMLElement).style.setProperty("--view", `${width}px`);
    const numbers = this.runner.model.reads === "numbers" ? this.typed : null;
    ruler(this.find<HTMLCanvasElement>(".ruler"), this.shown, numbers, first, this.wide, width);
    this.layers.forEach(({ strips }, layer) => {
      for (const strip of strips) {
        if (strip.canvas.width !== width) strip.canvas.width = width;
        strip.draw(first, this.wide, this.chosen, layer === this.layer ? this.channel : null);
      }
    });
    this.frames.push(performance.now() - started);
  }

  private arrange(seen: Seen): Arranged {
    const named: [string, Series][] = [...seen.gates].map(([gate, series]) => [`${gate} gate`, series]);
    if (seen.decay !== null && !seen.layer.decay_is_gate) {
      named.push(["decay of the state", seen.decay]);
    }
    if (named.length === 0) named.push(["state", seen.memory]);
    const strips = named.map(([title, series]) => {
      const canvas = make("canvas", { role: "img", class: "strip" }) as HTMLCanvasElement;
      const caption = make("figcaption", { class: "stay" }, `${seen.layer.name}, ${seen.layer.cell}: ${title}`);
      const figure = make("figure", { class: "stay" });
      canvas.setAttribute("aria-label", caption.textContent!);
      figure.append(caption, canvas);
      this.find(".inner").append(figure);
      return new Strip(canvas, series, this.ramp());
    });
    const order = [...Array(seen.layer.channels).keys()];
    strips.forEach((strip) => strip.arrange(order, this.ramp()));
    return { seen, strips, order, halves: null };
  }

  private listen(): void {
    const track = this.find(".track");
    track.addEventListener("scroll", () => this.later());
    track.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
    new ResizeObserver(() => this.later()).observe(track);
    dark.addEventListener("change", () => {
      this.sort();
      this.choose(this.chosen);
    });
    this.layers.forEach(({ strips }, layer) => {
      for (const strip of strips) {
        strip.canvas.addEventListener("click", ({ offsetX, offsetY }) => {
          const at = strip.at(offsetX, offsetY, track.scrollLeft / this.wide, this.wide);
          this.layer = layer;
          this.channel = at.channel;
          this.choose(at.step);
        });
      }
    });
    const layers = this.find<HTMLSelectElement>(".layer");
    layers.append(...this.layers.map(({ seen }, n) => new Option(`${seen.layer.name}, ${seen.layer.cell}`, String(n))));
    layers.addEventListener("change", () => {
      this.layer = Number(layers.value);
      this.channel = this.layers[this.layer]!.order[0]!;
      this.choose(this.chosen);
    });
    this.find<HTMLSelectElement>(".channel").addEventListener("change", ({ target }) => {
      this.channel = Number((target as HTMLSelectElement).value);
      this.choose(this.chosen);
    });
    this.find<HTMLSelectElement>(".gate").addEventListener("change", () => this.open());
    this.find(".zero").addEventListener("click", () => void this.hold(0));
    this.find(".one").addEventListener("click", () => void this.hold(1));
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
      Home: [-Infinity, 0], End: [Infinity, 0],
    };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const { order } = this.layers[this.layer]!;
    const row = Math.min(order.length - 1, Math.max(0, order.indexOf(this.channel) + move[1]));
    this.channel = order[row]!;
    this.choose(Math.min(this.runner.read.length - 1, Math.max(0, this.chosen + move[0])), true);
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

  private sort(): void {
    for (const arranged of this.layers) {
      const { decay, layer } = arranged.seen;
      arranged.halves = decay === null ? null : halfLives(decay);
      arranged.order = arranged.halves === null ? [...Array(layer.channels).keys()] : byMemory(arranged.halves);
      arranged.strips.forEach((strip) => strip.arrange(arranged.order, this.ramp()));
    }
    this.paint();
  }

  private paint(): void {
    this.layers.forEach(({ strips }) => strips.forEach((strip) => strip.update()));
    this.draw();
  }

  private choose(step: number, follow = false): void {
    this.chosen = step;
    if (follow) {
      const track = this.find(".track");
      const left = step * this.wide;
      if (left < track.scrollLeft || left + this.wide > track.scrollLeft + track.clientWidth) {
        track.scrollLeft = left - track.clientWidth / 2;
      }
    }
    this.draw();
    this.says();
    this.answer.show(step);
    this.channels();
    this.memory();
    this.open();
    void this.reach();
  }

  private says(): void {
    const { read } = this.runner;
    const { seen } = this.layers[this.layer]!;
    const gates = [...seen.gates].map(([gate, series]) => `${gate} gate ${series.at(this.chosen, this.channel).toFixed(2)}`);
    this.find(".step").textContent = read.length === 0 ? "" :
      `Step ${this.chosen + 1} of ${read.length}, “${this.shown[this.chosen] ?? ""}”; ${seen.layer.name}, channel ${this.channel}: ${gates.join(", ")}`;
  }

  private channels(): void {
    const { order, halves, seen } = this.layers[this.layer]!;
    this.find<HTMLSelectElement>(".layer").value = String(this.layer);
    const select = this.find<HTMLSelectElement>(".channel");
    select.replaceChildren(...order.map((c) => new Option(halves === null ? `${c}` : `${c}, half-life ${steps(halves[c]!)}`, String(c))));
    select.value = String(this.channel);
    const gates = this.find<HTMLSelectElement>(".gate");
    const names = [...seen.gates.keys()];
    if ([...gates.options].map((o) => o.value).join() !== names.join()) {
      gates.replaceChildren(...names.map((name) => new Option(name, name)));
    }
  }

  private memory(): void {
    const { seen } = this.layers[this.layer]!;
    const values = seen.memory.column(this.channel);
    const bounds = plot(this.find<HTMLCanvasElement>(".memory"), values, this.chosen);
    this.find(".memory-says").textContent =
      `State of channel ${this.channel} over the steps, from ${bounds.low.toFixed(2)} to ${bounds.high.toFixed(2)}`;
    this.find(".memory").setAttribute("aria-label", this.find(".memory-says").textContent!);
  }

  private open(): void {
    const { seen } = this.layers[this.layer]!;
    const gate = seen.gates.get(this.find<HTMLSelectElement>(".gate").value);
    const list = this.find(".open");
    list.replaceChildren();
    if (gate === undefined) return;
    const apart = this.runner.model.reads === "numbers" ? " " : "";
    for (const step of mostOpen(gate, this.channel, OPEN_STEPS)) {
      const item = make("li");
      const around = (a: number, b: number): string => this.shown.slice(Math.max(0, a), Math.max(0, b)).join(apart);
      item.append(around(step - 12, step), apart, make("mark", {}, this.shown[step] || "start"), apart, around(step + 1, step + 6));
      const wrote = seen.written === null ? "" : `, lets in ${seen.written.at(step, this.channel).toFixed(2)}`;
      item.append(` (${gate.at(step, this.channel).toFixed(2)}${wrote})`);
      list.append(item);
    }
  }

  private async reach(): Promise<void> {
    const turn = ++this.measuring;
    const { seen } = this.layers[this.layer]!;
    const canvas = this.find<HTMLCanvasElement>(".reach");
    const says = this.find(".reach-says");
    const to = this.chosen;
    if (to >= this.runner.answers.length) return;
    if (seen.layer.scan && seen.decay !== null) {
      const reach = reachOfDecays(seen.decay, to);
      plot(canvas, reach, to);
      says.textContent = `How much of a change of the state after each step is left after step ${to + 1}: products of decays, exact`;
    } else {
      says.textContent = "measuring …";
      const size = this.runner.states[seen.layer.memory]!.channels;
      const direction = new Float32Array(size).fill(1 / Math.sqrt(size));
      const reach = new Float64Array(to + 1).fill(NaN);
      reach[to] = 1;
      for (const back of BACK) {
        if (back > to) break;
        const found = await this.runner.reachOf(seen.layer, direction, to - back, to);
        if (turn !== this.measuring) return;
        reach[to - back] = found;
      }
      plot(canvas, reach, to);
      says.textContent = `How much of a change of the state is left after step ${to + 1}, from ${BACK.filter((b) => b <= to).join(", ")} steps back: finite differences, along one direction`;
    }
    canvas.setAttribute("aria-label", says.textContent);
  }

  private async hold(value: number): Promise<void> {
    const { runner } = this;
    const { seen } = this.layers[this.layer]!;
    const out = this.find(".held");
    if (runner.read.length < 2) return;
    const buttons = [...this.root.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    out.textContent = "reading again …";
    const found = await runner.holding({ state: seen.layer.memory, channel: this.channel, value });
    out.textContent = `${seen.layer.name}, channel ${this.channel} held at ${value}: ${this.answer.compared(found)}`;
    buttons.forEach((button) => (button.disabled = false));
  }

  private find<E extends Element = Element>(selector: string): E {
    return this.root.querySelector<E>(selector)!;
  }
}

function steps(half: number): string {
  return half === Infinity ? "endless" : Number.isNaN(half) ? "unknown" : half < 10 ? half.toFixed(1) : half.toFixed(0);
}
