/** How far back the state of a layer reaches from a step. */

import { make } from "./dom.ts";
import { plot } from "./plot.ts";
import type { Runner } from "./runner.ts";
import { reachOfDecays } from "./series.ts";
import type { Chosen } from "./state.ts";
import { say } from "./words.ts";

/** Steps back at which the reach is measured by finite differences. */
const BACK = [1, 2, 4, 8, 16, 32, 64];

export class Reach {
  readonly root = make("figure");
  private measuring = 0;

  constructor(private readonly runner: Runner) {
    this.root.innerHTML = `<canvas class="line reach" role="img"></canvas><figcaption class="reach-says"></figcaption>`;
  }

  async show({ step, layer: number }: Chosen): Promise<void> {
    const turn = ++this.measuring;
    const { layer, decay } = this.runner.ordered[number]!;
    const steps = this.runner.answers.length;
    if (step >= steps) {
      this.draw(new Float64Array(), "", false);
      return;
    }
    const at = layer.reverse ? steps - 1 - step : step;
    if (layer.scan && decay !== null) {
      this.draw(reachOfDecays(decay, at), say.exact(step + 1, layer.reverse), layer.reverse);
      return;
    }
    this.root.querySelector("figcaption")!.textContent = say.measuring;
    const size = this.runner.states[layer.memory]!.channels;
    const direction = new Float32Array(size).fill(1 / Math.sqrt(size));
    const reach = new Float64Array(at + 1).fill(NaN);
    reach[at] = 1;
    const back = BACK.filter((apart) => apart <= at);
    for (const apart of back) {
      const found = await this.runner.reachOf(layer, direction, at - apart, at);
      if (turn !== this.measuring) return;
      reach[at - apart] = found;
    }
    this.draw(reach, say.differences(step + 1, layer.reverse, back.join(", ")), layer.reverse);
  }

  /** Draw it in the order of the text. */
  private draw(reach: Float64Array, says: string, reverse: boolean): void {
    const canvas = this.root.querySelector("canvas")!;
    plot(canvas, reverse ? reach.slice().reverse() : reach, reverse ? 0 : reach.length - 1);
    canvas.setAttribute("aria-label", says);
    this.root.querySelector("figcaption")!.textContent = says;
  }
}
