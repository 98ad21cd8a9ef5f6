/** One channel: its state over the steps, where a gate of it opens and what it lets in, and what holding it changes. */

import type { Answer } from "./answer.ts";
import { make } from "./dom.ts";
import { plot } from "./plot.ts";
import { areWords } from "./reading.ts";
import type { Runner } from "./runner.ts";
import { mostOpen, rankOf, standsOut, type Series } from "./series.ts";
import type { Arranged, Chosen } from "./track.ts";

const OPEN_STEPS = 8;
/** Tokens, and numbers, before and after a step in the list of steps. */
const AROUND = { tokens: [12, 6], numbers: [4, 3] } as const;

export class Channel {
  readonly root = make("div");
  private chosen: Chosen = { step: 0, layer: 0, channel: 0 };
  private shown: string[] = [];

  constructor(
    private readonly runner: Runner,
    private readonly layers: Arranged[],
    private readonly answer: Answer,
    private readonly choose: (chosen: Chosen) => void,
  ) {
    this.root.innerHTML = `
      <h3>A channel</h3>
      <div class="row"><label>Layer <select class="layer"></select></label><label>Channel <select class="channel"></select></label></div>
      <figure><canvas class="line memory" role="img"></canvas><figcaption class="memory-says"></figcaption></figure>
      <div class="row">
        <label>Gate <select class="gate"></select></label>
        <button type="button" class="opens">Choose the channel where it opens most at this step</button>
        <button type="button" class="closes">… closes most</button>
      </div>
      <p class="rank"></p>
      <div class="row steps"><label>Steps where it is <select class="end"><option value="1">most open</option><option value="-1">most closed</option></select></label><span class="quiet">(the gate; what the step added to the decayed state)</span></div>
      <ol class="open"></ol>
      <div class="row hold"><button type="button" class="zero">Hold the channel at 0</button><button type="button" class="one">Hold it at 1</button></div>
      <p class="held" role="status"></p>`;
    const select = this.find<HTMLSelectElement>(".layer");
    select.append(...layers.map(({ seen }, n) => new Option(`${seen.layer.name}, ${seen.layer.cell}`, String(n))));
    select.addEventListener("change", () => {
      const layer = Number(select.value);
      choose({ ...this.chosen, layer, channel: layers[layer]!.order[0]! });
    });
    this.find<HTMLSelectElement>(".channel").addEventListener("change", ({ target }) => {
      choose({ ...this.chosen, channel: Number((target as HTMLSelectElement).value) });
    });
    for (const one of [".gate", ".end"]) this.find(one).addEventListener("change", () => this.open());
    this.find(".opens").addEventListener("click", () => this.goTo(1));
    this.find(".closes").addEventListener("click", () => this.goTo(-1));
    if (runner.model.whole) {
      this.find(".hold").replaceWith(make("p", { class: "quiet" }, "No channel can be held: the answer is found before the steps are shown."));
      return;
    }
    this.find(".zero").addEventListener("click", () => void this.hold(0));
    this.find(".one").addEventListener("click", () => void this.hold(1));
  }

  /** The name of the chosen gate; "" for a cell without one. */
  get gateName(): string {
    return this.find<HTMLSelectElement>(".gate").value;
  }

  show(chosen: Chosen, shown: string[]): void {
    if (shown !== this.shown) this.find(".held").textContent = "";
    this.chosen = chosen;
    this.shown = shown;
    const { order, halves, seen } = this.layers[chosen.layer]!;
    this.find<HTMLSelectElement>(".layer").value = String(chosen.layer);
    const channels = this.find<HTMLSelectElement>(".channel");
    const named = (c: number): string => (halves === null ? `${c}` : `${c}, half-life ${steps(halves[c]!)}`);
    channels.replaceChildren(...order.map((c) => new Option(named(c), String(c))));
    channels.value = String(chosen.channel);
    const gates = this.find<HTMLSelectElement>(".gate");
    const names = [...seen.gates.keys()];
    if ([...gates.options].map((option) => option.value).join() !== names.join()) {
      gates.replaceChildren(...names.map((name) => new Option(name, name)));
    }
    for (const part of [gates.closest<HTMLElement>(".row")!, this.find<HTMLElement>(".steps")]) part.hidden = names.length === 0;
    this.memory();
    this.open();
  }

  private get gate(): Series | undefined {
    return this.layers[this.chosen.layer]!.seen.gates.get(this.gateName);
  }

  /** Choose the channel whose gate is most above, or below, its mean at the chosen step. */
  private goTo(sign: number): void {
    this.find<HTMLSelectElement>(".end").value = String(sign);
    if (this.gate !== undefined) this.choose({ ...this.chosen, channel: standsOut(this.gate, this.chosen.step, sign) });
  }

  private memory(): void {
    const { seen } = this.layers[this.chosen.layer]!;
    const canvas = this.find<HTMLCanvasElement>(".memory");
    const { low, high } = plot(canvas, seen.memory.column(this.chosen.channel), this.chosen.step);
    const says = `State of channel ${this.chosen.channel} over the steps, from ${low.toFixed(2)} to ${high.toFixed(2)}`;
    this.find(".memory-says").textContent = says;
    canvas.setAttribute("aria-label", says);
  }

  private open(): void {
    const { seen } = this.layers[this.chosen.layer]!;
    const { channel } = this.chosen;
    const list = this.find(".open");
    list.replaceChildren();
    const gate = this.gate;
    const rank = this.find(".rank");
    rank.textContent = "";
    if (gate === undefined || gate.length === 0) return;
    const sign = Number(this.find<HTMLSelectElement>(".end").value);
    const { step: now } = this.chosen;
    const more = rankOf(gate, channel, now, sign);
    rank.textContent = `Here it is ${gate.at(now, channel).toFixed(2)}; it is more ${sign > 0 ? "open" : "closed"} at ${more} of the other ${gate.length - 1} steps.`;
    const numbers = this.runner.model.reads === "numbers";
    const [before, after] = numbers ? AROUND.numbers : AROUND.tokens;
    const apart = numbers || areWords(this.shown) ? " " : "";
    const around = (from: number, to: number): string =>
      this.shown.slice(Math.max(0, from), to).join(apart).replaceAll(" ##", "");
    for (const step of mostOpen(gate, channel, OPEN_STEPS, sign)) {
      const wrote = seen.written === null ? "" : `; ${seen.written.at(step, channel).toFixed(2)}`;
      const item = make("li");
      item.append(
        around(step - before, step), apart, make("mark", {}, this.shown[step] || "start"), apart,
        around(step + 1, step + after), ` (${gate.at(step, channel).toFixed(2)}${wrote})`,
      );
      list.append(item);
    }
  }

  private async hold(value: number): Promise<void> {
    const { runner } = this;
    const { layer, channel } = this.chosen;
    const { seen } = this.layers[layer]!;
    const says = this.find(".held");
    if (runner.read.length < 2) {
      says.textContent = "Two steps at least are needed to compare.";
      return;
    }
    const buttons = [...this.root.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    says.textContent = "reading again …";
    const found = await runner.holding({ state: seen.layer.memory, channel, value });
    says.textContent = `${seen.layer.name}, channel ${channel} held at ${value}: ${this.answer.compared(found)}`;
    buttons.forEach((button) => (button.disabled = false));
  }

  private find<E extends Element = Element>(selector: string): E {
    return this.root.querySelector<E>(selector)!;
  }
}

function steps(half: number): string {
  return half === Infinity ? "endless" : Number.isNaN(half) ? "unknown" : half < 10 ? half.toFixed(1) : half.toFixed(0);
}
