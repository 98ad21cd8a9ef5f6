/** The page as a whole: what is typed and chosen, which panels follow it, and the address that keeps it. */

import { Bar } from "./bar.ts";
import { make } from "./dom.ts";
import { LANGUAGE } from "./language.ts";
import type { Name } from "./presets.ts";
import { Panel, titleOf } from "./panel.ts";
import { LONGEST, type Reader } from "./reading.ts";
import type { Runner } from "./runner.ts";
import { guidedBy, situations, type Situation } from "./situations.ts";
import { parsed, sameStep, untouched, written, type Chosen, type State } from "./state.ts";
import { say } from "./words.ts";

const QUIET_MS = 120;
const PLAY_MS = 400;
/** Milliseconds between two changes of the address: browsers refuse more than a hundred in half a minute. */
const KEEP_MS = 350;

export class Page {
  readonly panels: Panel[];
  private readonly bar: Bar;
  private readonly boxes: HTMLTextAreaElement[];
  private readonly situations: Situation[];
  private state: State;
  /** The panel whose steps the bar moves. */
  private active = 0;
  /** Whether what is chosen comes from an address, or from nowhere yet, instead of from the page. */
  private restoring = true;
  private turn = 0;
  private running: Promise<void> = Promise.resolve();
  private typing = 0;
  private keeping = 0;
  private player = 0;

  constructor(
    runners: readonly Runner[],
    private readonly readers: readonly Reader[],
    private readonly note: HTMLElement,
    box: HTMLTextAreaElement,
    place: { bar: HTMLElement; models: HTMLElement },
  ) {
    const models = runners.map(({ model }) => model);
    this.state = untouched(models.length);
    this.panels = runners.map((runner, n) => new Panel(runner, readers[n]!, n, {
      choose: (change) => this.choose(n, change),
      preset: (name) => this.preset(n, name),
      play: () => this.play(),
    }));
    place.models.append(...this.panels.map(({ root }) => root));
    this.boxes = [box, ...this.panels.slice(1).map((panel, n) => boxOf(panel, titleOf(models[n + 1]!)))];
    this.boxes.forEach((one, n) => one.addEventListener("input", () => this.typed(n)));
    const predict = models.every(({ answers }) => answers === "next");
    this.situations = models[0]!.reads === "text" ? situations(readers, predict) : [];
    this.bar = new Bar({
      link: (linked) => this.link(linked),
      move: (by) => this.move(by),
      play: () => this.play(),
      still: still(),
      zoom: (zoom) => this.look({ zoom }),
      scaled: () => this.panels[this.active]!.track.scaled,
      big: (big) => this.look({ big }),
      language: () => this.speak(LANGUAGE === "en" ? "ko" : "en"),
      guide: ({ name }) => void this.restore({ ...untouched(models.length), ...this.kept(), guide: name }),
      reset: () => void this.restore({ ...untouched(models.length), lang: this.state.lang }),
      address: () => this.address(),
    }, models.length, this.situations);
    place.bar.append(this.bar.root);
    window.addEventListener("hashchange", ({ newURL }) => {
      const asked = parsed(new URL(newURL).hash, this.panels.length); // not location.hash, which `keep` may have written since
      if (asked.lang !== this.state.lang) location.reload();
      else void this.restore(asked);
    });
  }

  /** Show a state, as an address has it; a guided situation brings its text. */
  async restore(state: State): Promise<void> {
    this.stop();
    this.state = guidedBy(this.situations, state);
    this.restoring = true;
    this.boxes.forEach((box, n) => (box.value = this.state.texts[n] ?? (n === 0 ? this.panels[0]!.runner.model.example : this.boxes[0]!.value)));
    this.look({});
    await this.read();
  }

  /** Read what is typed. */
  private async read(): Promise<void> {
    const mine = ++this.turn;
    const current = (): boolean => mine === this.turn;
    await this.running;
    if (!current()) return;
    this.running = (async () => {
      const notes: string[] = [];
      const tokens = new Set<string>();
      for (const [n, panel] of this.panels.entries()) {
        const reading = this.readers[n]!.read(this.textOf(n));
        if (reading.fault !== null) notes.push(reading.fault);
        if (reading.cut > 0) notes.push(say.cut(LONGEST, reading.cut));
        if (reading.unknown > 0) notes.push(say.unknown(reading.unknown));
        tokens.add(reading.shown.join("\0"));
        await panel.follow(reading, current);
      }
      const { example, example_of } = this.panels[0]!.runner.model;
      if (this.textOf(0) === example && example_of !== "") notes.push(say.exampleOf[example_of]);
      if (tokens.size > 1 && this.state.linked) notes.push(say.differ);
      if (current()) {
        this.note.textContent = [...new Set(notes)].join(" ");
        if (this.restoring) this.open();
        this.restoring = false;
        this.keep();
      }
      document.body.dataset["read"] = this.boxes[0]!.value;
    })();
    await this.running;
  }

  /** Choose what an address asks for, or else what is worth a look. */
  private open(): void {
    const { chosen: given, guide } = this.state;
    if (!this.panels.some(({ found }) => found.some(({ name }) => name === guide))) this.state.guide = ""; // nothing to look at
    this.bar.show(this.state);
    this.panels.forEach((panel, n) => {
      const preset = panel.found.find(({ name }) => name === this.state.guide) ?? panel.found[0];
      panel.show(given[n] ?? (preset === undefined ? {} : { step: panel.shown.length - 1, ...panel.of(preset) }));
    });
    const first = given.findIndex((chosen) => chosen !== null);
    if (this.state.linked) {
      this.follow(Math.max(0, first), first < 0 ? ["step"] : ["step", "layer", "channel"], (m) => given[m] === null);
      if (first < 0) this.compare(0);
    }
    if (this.state.guide !== "" && this.state.big) this.panels[0]!.track.bring();
  }

  private choose(n: number, change: Partial<Chosen>): void {
    this.active = n;
    this.panels[n]!.show(change);
    if (this.state.big && (change.layer !== undefined || change.gate !== undefined)) this.panels[n]!.track.bring();
    if (this.state.linked) this.follow(n, (Object.keys(change) as (keyof Chosen)[]).filter((field) => field !== "held"));
    this.keep();
  }

  /** What a preset finds in each linked model, at the step of the one that was asked. */
  private preset(n: number, name: Name): void {
    this.active = n;
    const linked = this.panels.filter((_, m) => m === n || this.state.linked);
    for (const panel of linked) {
      const found = panel.found.find((one) => one.name === name);
      if (found !== undefined) panel.show(panel.of(found));
    }
    if (this.state.linked) this.follow(n, ["step"]);
    this.compare(n);
    this.panels[n]!.track.bring();
    this.keep();
  }

  /** Let the other panels choose the same as panel `n`, as far as they have it. */
  private follow(n: number, fields: readonly (keyof Chosen)[], which: (m: number) => boolean = () => true): void {
    const { chosen, shown } = this.panels[n]!;
    this.panels.forEach((panel, m) => {
      if (m === n || fields.length === 0 || panel.shown.length === 0 || !which(m)) return;
      const change: Partial<Chosen> = Object.fromEntries(fields.map((field) => [field, chosen[field]]));
      if (change.step !== undefined) change.step = sameStep(shown, chosen.step, panel.shown);
      const seen = panel.runner.seen[change.layer ?? panel.chosen.layer];
      if (seen === undefined) delete change.layer;
      if (change.channel !== undefined && change.channel >= (seen?.layer.channels ?? 0)) delete change.channel;
      if (change.gate !== undefined && !seen?.gates.has(change.gate)) delete change.gate;
      panel.show(change);
    });
  }

  /** Beside an untrained model, what a preset found in one panel is looked at in the other too. */
  private compare(n: number): void {
    if (!this.state.linked || this.panels.every(({ runner }) => runner.model.trained)) return;
    this.follow(n, ["step", "layer", "gate", "channel", "end"]);
  }

  private typed(n: number): void {
    this.state.texts[n] = this.boxes[n]!.value;
    this.state.guide = "";
    this.bar.show(this.state);
    this.stop();
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => void this.read(), QUIET_MS);
  }

  private link(linked: boolean): void {
    this.state.texts = this.state.texts.map((text, n) => (n === 0 ? text : linked ? null : this.boxes[0]!.value));
    this.boxes.slice(1).forEach((box) => (box.value = this.boxes[0]!.value));
    this.look({ linked });
    void this.read().then(() => {
      if (linked) this.follow(this.active, ["step", "layer", "channel"]);
      this.keep();
    });
  }

  private look(change: Partial<Pick<State, "linked" | "zoom" | "big">>): void {
    Object.assign(this.state, change);
    const { linked, zoom, big } = this.state;
    document.documentElement.classList.toggle("projector", big);
    this.boxes.slice(1).forEach((box) => (box.closest<HTMLElement>(".own")!.hidden = linked));
    for (const panel of this.panels) {
      panel.track.resize(zoom);
      if (change.big !== undefined) panel.show({});
    }
    if (change.big === true) this.panels[this.active]!.track.bring();
    this.bar.show(this.state);
    this.keep();
  }

  private move(by: number): void {
    this.stop();
    this.to(this.panels[this.active]!.chosen.step + by);
  }

  private to(step: number): boolean {
    const { length } = this.panels[this.active]!.shown;
    if (step < 0 || step >= length) return false;
    this.choose(this.active, { step });
    return true;
  }

  /** Play the steps to the end, or stop; from the first, where the last is chosen. */
  private play(): void {
    if (still()) return;
    if (this.player !== 0) {
      this.stop();
      return;
    }
    const { chosen, shown } = this.panels[this.active]!;
    if (chosen.step >= shown.length - 1) this.to(0);
    this.panels.forEach((panel) => panel.aloud(false));
    this.player = window.setInterval(() => this.to(this.panels[this.active]!.chosen.step + 1) || this.stop(), PLAY_MS);
    this.bar.playing(true);
  }

  private stop(): void {
    clearInterval(this.player);
    this.player = 0;
    this.panels.forEach((panel) => panel.aloud(true));
    this.bar.playing(false);
  }

  private speak(lang: string): void {
    this.state.lang = lang;
    history.replaceState(null, "", this.address());
    location.reload();
  }

  private textOf(n: number): string {
    return this.boxes[this.state.linked ? 0 : n]!.value;
  }

  /** How the page looks, which no situation changes. */
  private kept(): Pick<State, "zoom" | "big" | "lang"> {
    const { zoom, big, lang } = this.state;
    return { zoom, big, lang };
  }

  /** The address of what is shown. */
  private address(): string {
    if (!this.restoring) this.state.chosen = this.panels.map(({ chosen, shown }) => (shown.length === 0 ? null : chosen));
    return `${location.href.replace(/#.*/s, "")}#${written(this.state)}`;
  }

  private keep(): void {
    if (this.restoring || this.keeping !== 0) return;
    this.keeping = window.setTimeout(() => {
      this.keeping = 0;
      if (this.restoring) return;
      try {
        history.replaceState(null, "", this.address());
      } catch {
        // A frame without an address of its own keeps none.
      }
    }, KEEP_MS);
  }
}

/** Whether the reader wants less motion. */
function still(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** A box for a text of a panel's own, for when the panels are not linked. */
function boxOf({ root }: Panel, title: string): HTMLTextAreaElement {
  const own = make("label", { class: "own" }, say.textOf(title));
  const box = make("textarea", { rows: "3", spellcheck: "false" }) as HTMLTextAreaElement;
  own.append(box);
  own.hidden = true;
  root.querySelector("h2")!.after(own);
  return box;
}
