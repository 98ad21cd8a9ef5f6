/** One model in the page: its gates over the steps, what it says after the chosen one, and the chosen channel. */

import { Answer } from "./answer.ts";
import { Channel } from "./channel.ts";
import { make } from "./dom.ts";
import { save } from "./picture.ts";
import { Reach } from "./reach.ts";
import type { Reader, Reading } from "./reading.ts";
import type { Runner } from "./runner.ts";
import { Track, type Chosen } from "./track.ts";

/** Milliseconds between two pictures of steps as they are computed. */
const REDRAW_MS = 60;

export class Panel {
  readonly root: HTMLElement;
  readonly track: Track;
  private readonly answer: Answer;
  private readonly reach: Reach;
  private readonly channel: Channel;
  private shown: string[] = [];
  private chosen: Chosen = { step: 0, layer: 0, channel: 0 };

  constructor(
    readonly runner: Runner,
    reader: Reader,
    number: number,
  ) {
    const { title, parameters, layers, whole } = runner.model;
    this.root = make("section", { "aria-labelledby": `title-${number}` });
    const choose = (chosen: Chosen): void => this.choose(chosen);
    this.track = new Track(runner, choose);
    this.answer = new Answer(runner, reader);
    this.reach = new Reach(runner);
    this.channel = new Channel(runner, this.track.layers, this.answer, choose);
    const about = make("p", { class: "quiet" }, `${parameters.toLocaleString("en")} parameters · gates from 0 `);
    about.append(make("span", { class: "scale", role: "img", "aria-label": "to" }), " to 1");
    if (whole) about.append(" · The model reads all that is typed before it answers; layers that read from the end are shown in the order of the text.");
    const equations = make("details");
    equations.append(make("summary", {}, "Equations"));
    for (const one of new Set(layers.map((layer) => layer.equations))) equations.append(make("pre", {}, one));
    const heading = make("h2", { id: `title-${number}` }, title);
    const step = make("h3", { class: "step", "aria-live": "polite" });
    const saves = make("button", { type: "button", class: "save" }, "Save the chosen gate, as far as it is in view, as a picture");
    saves.addEventListener("click", () => {
      if (runner.read.length === 0) return;
      save(this.track.picture([heading, step], this.channel.gateName), `gates-${title.split(/[^\p{L}\p{N}]+/u).join("-")}.png`);
    });
    this.root.append(
      heading, about, equations, this.track.root, saves, step,
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
    const last = Math.max(0, reading.read.length - 1);
    const step = atEnd ? last : Math.min(this.chosen.step, last);
    if (atEnd) this.track.reveal(step);
    this.choose({ ...this.chosen, step });
  }

  private choose(chosen: Chosen): void {
    this.chosen = chosen;
    this.track.show(chosen);
    this.root.querySelector(".step")!.textContent = this.says();
    this.answer.show(chosen.step);
    this.channel.show(chosen, this.shown);
    void this.reach.show(chosen);
  }

  /** The chosen step in words. */
  private says(): string {
    const { step, layer: number, channel } = this.chosen;
    const { layer, gates } = this.runner.seen[number]!;
    const { length } = this.runner.read;
    if (length === 0) return "";
    const open = [...gates].map(([gate, series]) => `${gate} gate ${series.at(step, channel).toFixed(2)}`);
    return `Step ${step + 1} of ${length}, “${this.shown[step] || "start"}”; ${layer.name}, channel ${channel}: ${open.join(", ")}`;
  }
}
