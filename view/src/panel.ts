/** One model in the page: its gates over the steps, what it says after the chosen one, and the chosen channel. */

import { Answer } from "./answer.ts";
import { Channel } from "./channel.ts";
import { make } from "./dom.ts";
import type { Model } from "./models.ts";
import { save } from "./picture.ts";
import { presets, type Found, type Name } from "./presets.ts";
import { Reach } from "./reach.ts";
import type { Reader, Reading } from "./reading.ts";
import type { Runner } from "./runner.ts";
import { AT_START, type Chosen } from "./state.ts";
import { Track } from "./track.ts";
import { say } from "./words.ts";

/** Milliseconds between two pictures of steps as they are computed. */
const REDRAW_MS = 60;

/** What the reader does in a panel. */
export interface Asked {
  choose(change: Partial<Chosen>): void;
  preset(name: Name): void;
  play(): void;
}

export class Panel {
  readonly root: HTMLElement;
  readonly track: Track;
  shown: string[] = [];
  chosen: Chosen = AT_START;
  /** What is worth a look in what was read. */
  found: Found[] = [];
  private readonly answer: Answer;
  private readonly reach: Reach;
  private readonly channel: Channel;

  constructor(
    readonly runner: Runner,
    reader: Reader,
    number: number,
    private readonly asked: Asked,
  ) {
    const { parameters, layers, whole, pooling } = runner.model;
    const title = titleOf(runner.model);
    this.root = make("section", { "aria-labelledby": `title-${number}` });
    this.track = new Track(runner, asked.choose);
    this.answer = new Answer(runner, reader);
    this.reach = new Reach(runner);
    this.channel = new Channel(runner, this.track.layers, this.answer, asked.choose);
    const about = make("p", { class: "quiet about" }, `${say.parameters(parameters)} · ${say.from} `);
    const signed = make("span", { class: "signed" }, ` · ${say.negative} `);
    signed.append(make("span", { class: "scale", role: "img", "aria-label": say.to }), ` ${say.toMinusOne}`);
    about.append(make("span", { class: "scale", role: "img", "aria-label": say.to }), ` ${say.toOne}`, signed);
    if (whole) about.append(` · ${say.whole}`);
    if (pooling.length > 0) about.append(` · ${say.pooling(pooling.map((how) => say.pooled[how]))}`);
    const equations = make("details", { class: "equations" });
    equations.append(make("summary", {}, say.equations));
    for (const one of new Set(layers.map((layer) => layer.equations))) equations.append(make("pre", {}, one));
    const heading = make("h2", { id: `title-${number}` }, title);
    const step = make("h3", { class: "step", "aria-live": "polite" });
    const saves = make("button", { type: "button", class: "save" }, say.save);
    saves.addEventListener("click", () => {
      if (runner.read.length === 0) return;
      save(this.track.picture([heading, step], this.channel.gateName), `gates-${title.split(/[^\p{L}\p{N}]+/u).join("-")}.png`);
    });
    this.track.root.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      asked.play();
    });
    this.root.append(
      heading, about, equations, make("div", { class: "row presets", role: "group", "aria-label": say.look }),
      make("p", { class: "quiet preset-says", role: "status" }), this.track.root, saves, step,
      this.answer.root, this.reach.root, this.channel.root,
    );
  }

  /** Follow a text, drawing as the steps are computed, until there is another one. */
  async follow(reading: Reading, current: () => boolean): Promise<void> {
    const atEnd = this.chosen.step >= this.shown.length - 1;
    this.shown = reading.shown;
    this.track.begin(reading);
    let painted = performance.now();
    await this.runner.follow(reading.read, async () => {
      if (performance.now() - painted > REDRAW_MS) {
        this.track.paint();
        await new Promise((next) => setTimeout(next));
        painted = performance.now();
      }
      return current();
    });
    if (!current()) return;
    this.track.sort();
    this.root.querySelector<HTMLElement>(".signed")!.hidden = !this.track.signed;
    this.found = this.runner.read.length === 0 ? [] : this.presets();
    this.show({ step: atEnd ? reading.read.length - 1 : this.chosen.step, held: null });
  }

  /** Show what was chosen, as far as this model has it. */
  show(change: Partial<Chosen>): void {
    const asked = { ...this.chosen, ...change };
    const { seen } = this.runner;
    const layer = within(asked.layer, seen.length);
    const { channels } = seen[layer]!.layer;
    const channel = within(asked.channel, channels);
    const gate = seen[layer]!.gates.has(asked.gate) ? asked.gate : "";
    const another = layer !== this.chosen.layer || channel !== this.chosen.channel;
    const held = another && change.held === undefined ? null : asked.held;
    this.chosen = { ...asked, step: within(asked.step, this.shown.length), layer, channel, gate, held };
    this.track.show(this.chosen);
    this.root.querySelector(".step")!.textContent = this.says();
    this.answer.show(this.chosen.step);
    this.channel.show(this.chosen, this.shown);
    this.mark();
    void this.reach.show(this.chosen);
  }

  /** What a preset chooses; what it leaves open stays. */
  of({ layer, gate, channel, end, step }: Found): Partial<Chosen> {
    return { layer, gate, channel, end, ...(step === null ? {} : { step }) };
  }

  /** Whether each step is read aloud; not while they are played. */
  aloud(each: boolean): void {
    this.root.querySelector(".step")!.setAttribute("aria-live", each ? "polite" : "off");
  }

  private presets(): Found[] {
    const { model, seen } = this.runner;
    const found = presets(seen, model.reads === "text" ? this.shown : [], this.track.losses);
    const buttons = found.map(({ name }) => {
      const button = make("button", { type: "button", "data-preset": name }, say.presets[name]);
      button.addEventListener("click", () => this.asked.preset(name));
      return button;
    });
    const row = this.root.querySelector<HTMLElement>(".presets")!;
    const focused = row.querySelector<HTMLElement>(":focus")?.dataset["preset"];
    row.replaceChildren(make("span", { class: "quiet" }, `${say.look}:`), ...buttons);
    row.hidden = buttons.length === 0;
    buttons.find((button) => button.dataset["preset"] === focused)?.focus();
    return found;
  }

  /** Mark the preset that is shown, and say what it measured. */
  private mark(): void {
    const { layer, channel, gate, step } = this.chosen;
    const now = this.found.find((one) =>
      one.layer === layer && one.channel === channel && one.gate === gate && (one.name !== "surprise" || one.step === step));
    for (const button of this.root.querySelectorAll<HTMLElement>(".presets button")) {
      button.setAttribute("aria-pressed", String(button.dataset["preset"] === now?.name));
    }
    this.root.querySelector(".preset-says")!.textContent = now === undefined ? "" : `${say.presets[now.name]}: ${now.says}`;
  }

  /** The chosen step in words. */
  private says(): string {
    const { step, layer: number, channel } = this.chosen;
    const { layer, gates } = this.runner.seen[number]!;
    const { length } = this.runner.read;
    if (length === 0) return "";
    const open = [...gates].map(([gate, series]): [string, string] => [say.gate(gate), series.at(step, channel).toFixed(2)]);
    return say.chosenStep(step + 1, length, this.shown[step] || say.start, say.layer(layer.name), channel, open);
  }
}

/** A model's name in the page. */
export function titleOf({ title, trained }: Model): string {
  return trained ? title : say.untrained(title);
}

/** The nearest of `count` numbers from 0 on. */
function within(number: number, count: number): number {
  return Math.max(0, Math.min(count - 1, number));
}
