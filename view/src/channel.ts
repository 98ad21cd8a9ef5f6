/** One channel: its state over the steps, where a gate of it opens and what it lets in, and what holding it changes. */

import type { Answer } from "./answer.ts";
import { make } from "./dom.ts";
import { plot } from "./plot.ts";
import { halfLife } from "./presets.ts";
import { areWords } from "./reading.ts";
import type { Runner } from "./runner.ts";
import { mostOpen, rankOf, standsOut, type Series } from "./series.ts";
import { AT_START, type Chosen } from "./state.ts";
import type { Arranged } from "./track.ts";
import { say } from "./words.ts";

const OPEN_STEPS = 8;
/** Tokens, and numbers, before and after a step in the list of steps. */
const AROUND = { tokens: [12, 6], numbers: [4, 3] } as const;

export class Channel {
  readonly root = make("div");
  private chosen: Chosen = AT_START;
  private shown: string[] = [];

  constructor(
    private readonly runner: Runner,
    private readonly layers: Arranged[],
    private readonly answer: Answer,
    private readonly choose: (change: Partial<Chosen>) => void,
  ) {
    this.root.innerHTML = `
      <h3>${say.aChannel}</h3>
      <div class="row"><label>${say.layerLabel} <select class="layer"></select></label><label>${say.channelLabel} <select class="channel"></select></label></div>
      <figure><canvas class="line memory" role="img"></canvas><figcaption class="memory-says"></figcaption></figure>
      <div class="row">
        <label>${say.gateLabel} <select class="gate"></select></label>
        <button type="button" class="opens">${say.opens}</button>
        <button type="button" class="closes">${say.closes}</button>
      </div>
      <p class="rank"></p>
      <div class="row steps"><label>${say.stepsWhere} <select class="end"><option value="1">${say.mostOpen}</option><option value="-1">${say.mostClosed}</option></select></label><span class="quiet">${say.inBrackets}</span></div>
      <ol class="open"></ol>
      <div class="row hold"><button type="button" class="zero">${say.holdZero}</button><button type="button" class="one">${say.holdOne}</button></div>
      <p class="held" role="status"></p>`;
    const select = this.find<HTMLSelectElement>(".layer");
    select.append(...layers.map(({ seen }, n) => new Option(`${say.layer(seen.layer.name)}, ${seen.layer.cell}`, String(n))));
    select.addEventListener("change", () => {
      const layer = Number(select.value);
      choose({ layer, channel: layers[layer]!.order[0]! });
    });
    const chosenOf = (selector: string, change: (value: string) => Partial<Chosen>): void => {
      this.find(selector).addEventListener("change", ({ target }) => choose(change((target as HTMLSelectElement).value)));
    };
    chosenOf(".channel", (value) => ({ channel: Number(value) }));
    chosenOf(".gate", (gate) => ({ gate }));
    chosenOf(".end", (value) => ({ end: value === "-1" ? -1 : 1 }));
    this.find(".opens").addEventListener("click", () => this.goTo(1));
    this.find(".closes").addEventListener("click", () => this.goTo(-1));
    if (runner.model.whole) {
      this.find(".hold").replaceWith(make("p", { class: "quiet" }, say.notHeld));
      return;
    }
    this.find(".zero").addEventListener("click", () => choose({ held: 0 }));
    this.find(".one").addEventListener("click", () => choose({ held: 1 }));
  }

  /** The name of the chosen gate; "" for a cell without one. */
  get gateName(): string {
    return this.find<HTMLSelectElement>(".gate").value;
  }

  show(chosen: Chosen, shown: string[]): void {
    const anew = shown !== this.shown;
    if (anew) this.find(".held").textContent = "";
    const { held, layer, channel } = this.chosen;
    const same = !anew && held === chosen.held && layer === chosen.layer && channel === chosen.channel;
    this.chosen = chosen;
    this.shown = shown;
    const { order, halves, seen } = this.layers[chosen.layer]!;
    this.find<HTMLSelectElement>(".layer").value = String(chosen.layer);
    const channels = this.find<HTMLSelectElement>(".channel");
    const named = (c: number): string => (halves === null ? `${c}` : say.half(c, halfLife(halves[c]!)));
    channels.replaceChildren(...order.map((c) => new Option(named(c), String(c))));
    channels.value = String(chosen.channel);
    const gates = this.find<HTMLSelectElement>(".gate");
    const names = [...seen.gates.keys()];
    if ([...gates.options].map((option) => option.value).join() !== names.join()) {
      gates.replaceChildren(...names.map((name) => new Option(say.gate(name), name)));
    }
    if (chosen.gate !== "") gates.value = chosen.gate;
    this.find<HTMLSelectElement>(".end").value = String(chosen.end);
    for (const part of [gates.closest<HTMLElement>(".row")!, this.find<HTMLElement>(".steps")]) part.hidden = names.length === 0;
    this.memory();
    this.open();
    if (chosen.held !== null && !same && !this.runner.model.whole) void this.hold(chosen.held);
  }

  private get gate(): Series | undefined {
    return this.layers[this.chosen.layer]!.seen.gates.get(this.gateName);
  }

  /** Choose the channel whose gate is most above, or below, its mean at the chosen step. */
  private goTo(end: 1 | -1): void {
    const { gate } = this;
    if (gate !== undefined) this.choose({ gate: this.gateName, end, channel: standsOut(gate, this.chosen.step, end) });
  }

  private memory(): void {
    const { seen } = this.layers[this.chosen.layer]!;
    const canvas = this.find<HTMLCanvasElement>(".memory");
    const { low, high } = plot(canvas, seen.memory.column(this.chosen.channel), this.chosen.step);
    const says = say.memory(this.chosen.channel, low, high);
    this.find(".memory-says").textContent = says;
    canvas.setAttribute("aria-label", says);
  }

  private open(): void {
    const { seen } = this.layers[this.chosen.layer]!;
    const { channel, end, step: now } = this.chosen;
    const list = this.find(".open");
    list.replaceChildren();
    const gate = this.gate;
    const rank = this.find(".rank");
    rank.textContent = "";
    if (gate === undefined || gate.length === 0) return;
    rank.textContent = say.rank(gate.at(now, channel), end > 0, rankOf(gate, channel, now, end), gate.length - 1);
    const numbers = this.runner.model.reads === "numbers";
    const [before, after] = numbers ? AROUND.numbers : AROUND.tokens;
    const apart = numbers || areWords(this.shown) ? " " : "";
    const around = (from: number, to: number): string =>
      this.shown.slice(Math.max(0, from), to).join(apart).replaceAll(" ##", "");
    for (const step of mostOpen(gate, channel, OPEN_STEPS, end)) {
      const wrote = seen.written === null ? "" : `; ${seen.written.at(step, channel).toFixed(2)}`;
      const item = make("li");
      item.append(
        around(step - before, step), apart, make("mark", {}, this.shown[step] || say.start), apart,
        around(step + 1, step + after), ` (${gate.at(step, channel).toFixed(2)}${wrote})`,
      );
      list.append(item);
    }
  }

  private async hold(value: number): Promise<void> {
    const { runner, shown } = this;
    const { layer, channel } = this.chosen;
    const { seen } = this.layers[layer]!;
    const says = this.find(".held");
    if (runner.read.length < 2) {
      says.textContent = say.twoSteps;
      return;
    }
    const buttons = [...this.root.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    says.textContent = say.again;
    const found = await runner.holding({ state: seen.layer.memory, channel, value });
    buttons.forEach((button) => (button.disabled = false));
    if (shown === this.shown) says.textContent = say.held(say.layer(seen.layer.name), channel, value, this.answer.compared(found));
  }

  private find<E extends Element = Element>(selector: string): E {
    return this.root.querySelector<E>(selector)!;
  }
}
