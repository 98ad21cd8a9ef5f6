/** How far back the state of a layer reaches from a step. */

import { make } from "./dom.ts";
import { plot } from "./plot.ts";
import type { Runner } from "./runner.ts";
import { reachOfDecays } from "./series.ts";
import type { Chosen } from "./track.ts";

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
    const { layer, decay } = this.runner.seen[number]!;
    if (step >= this.runner.answers.length) {
      this.draw(new Float64Array(), "");
      return;
    }
    if (layer.scan && decay !== null) {
      const left = `How much of a change of the state after each step is left after step ${step + 1}`;
      this.draw(reachOfDecays(decay, step), `${left}: products of decays, exact`);
      return;
    }
    this.root.querySelector("figcaption")!.textContent = "measuring …";
    const size = this.runner.states[layer.memory]!.channels;
    const direction = new Float32Array(size).fill(1 / Math.sqrt(size));
    const reach = new Float64Array(step + 1).fill(NaN);
    reach[step] = 1;
    const back = BACK.filter((steps) => steps <= step);
    for (const steps of back) {
      const found = await this.runner.reachOf(layer, direction, step - steps, step);
      if (turn !== this.measuring) return;
      reach[step - steps] = found;
    }
    const from = back.length > 0 ? `, from ${back.join(", ")} steps back` : "";
    this.draw(reach, `How much of a change of the state is left after step ${step + 1}${from}: finite differences, along one direction`);
  }

  private draw(reach: Float64Array, says: string): void {
    const canvas = this.root.querySelector("canvas")!;
    plot(canvas, reach, reach.length - 1);
    canvas.setAttribute("aria-label", says);
    this.root.querySelector("figcaption")!.textContent = says;
  }
}
