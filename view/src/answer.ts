/** What a model says after a step: what comes next, a label, numbers, or the steps ahead. */

import { make, sheet } from "./dom.ts";
import { eachAlone, errorAhead, likeliest, lossOf } from "./loss.ts";
import { fan } from "./plot.ts";
import type { Reader, Row } from "./reading.ts";
import type { Runner } from "./runner.ts";
import { say } from "./words.ts";

const LIKELIEST = 8;
/** Steps before the chosen one in the picture of a forecast, in units of the horizon. */
const BEFORE = 3;

/** Answers whose probabilities have a temperature. */
const TEMPERED = ["next", "label of the step", "label so far", "label"];

export class Answer {
  readonly root = make("div");
  private temperature = 1;
  private shown = 0;

  constructor(
    private readonly runner: Runner,
    private readonly reader: Reader,
  ) {
    const { answers } = runner.model;
    this.root.innerHTML = `
      <div class="row probabilities"><label>${say.temperature} <input class="temperature" type="range" min="0" max="2" step="0.1" value="1"></label><output>1.0</output></div>
      <figure class="ahead"><canvas class="line" role="img" aria-label="${say.aheadOf}"></canvas></figure>
      <table class="next"><caption class="quiet">${say.captions[answers]}</caption><tbody></tbody></table>`;
    if (!TEMPERED.includes(answers)) this.find(".probabilities").remove();
    if (answers !== "forecast") this.find(".ahead").remove();
    this.root.querySelector(".temperature")?.addEventListener("input", ({ target }) => {
      this.temperature = Number((target as HTMLInputElement).value);
      this.find("output").textContent = this.temperature.toFixed(1);
      this.show(this.shown);
    });
  }

  /** Show what is said after a step. */
  show(step: number): void {
    this.shown = step;
    const body = this.find("tbody");
    body.replaceChildren();
    const { model, answers } = this.runner;
    const ahead = this.root.querySelector<HTMLCanvasElement>(".ahead canvas");
    if (ahead !== null) sheet(ahead, ahead.clientWidth, ahead.clientHeight);
    if (step >= answers.length) return;
    const answer = answers.row(step);
    if (model.answers === "forecast") this.ahead(step, answer);
    else if (model.parts.length === 0) body.append(...this.rows(answer));
    else {
      const size = answer.length / model.parts.length;
      model.parts.forEach((part, n) => {
        const head = make("tr");
        head.append(make("th", { scope: "colgroup", colspan: "3", class: "quiet" }, say.part(part)));
        body.append(head, ...this.rows(answer.subarray(n * size, (n + 1) * size)));
      });
    }
  }

  /** An answer that is no forecast, as rows. */
  private rows(answer: Float32Array): HTMLElement[] {
    const { answers } = this.runner.model;
    if (answers === "numbers so far" || answers === "numbers") return Array.from(answer, (value) => line("", number(value)));
    const found = answers === "labels" ? eachAlone(answer, LIKELIEST) : likeliest(answer, this.temperature, LIKELIEST);
    return found.map(([which, p]) => {
      const bar = make("td", { class: "bar" });
      bar.append(make("span", { style: `width: ${100 * p}%` }));
      const row = line(this.word(which), `${(100 * p).toFixed(1)} %`);
      row.insertBefore(bar, row.lastChild);
      return row;
    });
  }

  /** In a sentence, what other answers to the same steps make of it. */
  compared(others: Float32Array[]): string {
    const { model, read, answers } = this.runner;
    const own = read.map((_, step) => answers.row(step));
    if (model.answers === "next") return change(say.lossIs, lossOf(own, read), lossOf(others, read), say.nats);
    if (model.answers === "forecast") {
      const middle = model.levels.indexOf(0.5);
      return change(say.errorIs, errorAhead(own, read, middle), errorAhead(others, read, middle), "");
    }
    return `${say.atEnd} ${this.inWords(own.at(-1)!)} → ${this.inWords(others.at(-1)!)}`;
  }

  private inWords(answer: Row): string {
    if (this.runner.model.answers === "numbers so far") return Array.from(answer, number).join(", ");
    const [which, p] = likeliest(answer, 1, 1)[0]!;
    return `${this.word(which)} ${(100 * p).toFixed(1)} %`;
  }

  private word(which: number): string {
    const { model } = this.runner;
    return model.answers === "next" ? this.reader.word(which) : model.labels[which]!;
  }

  /** A picture of the forecast after a step, and its first steps in numbers. */
  private ahead(step: number, answer: Float32Array): void {
    const { levels } = this.runner.model;
    const size = levels.length;
    const quantiles = Array.from({ length: answer.length / size }, (_, h) => answer.subarray(h * size, (h + 1) * size));
    const from = Math.max(0, step - BEFORE * quantiles.length);
    const values = this.runner.read.slice(from, step + 1 + quantiles.length).map((row) => row[0]!);
    fan(this.find<HTMLCanvasElement>(".ahead canvas"), values, step - from, quantiles, levels.indexOf(0.5));
    const count = Math.min(LIKELIEST, quantiles.length);
    this.find("caption").textContent = say.captions.forecast + (count < quantiles.length ? say.first(count, quantiles.length) : "");
    const body = this.find("tbody");
    const head = make("tr");
    head.append(make("th", { scope: "col" }, say.step));
    head.append(...levels.map((level) => make("th", { scope: "col", class: "number" }, String(level))));
    body.append(head);
    quantiles.slice(0, count).forEach((row, h) => body.append(line(`+${h + 1}`, ...Array.from(row, number))));
  }

  private find<E extends Element = Element>(selector: string): E {
    return this.root.querySelector<E>(selector)!;
  }
}

function line(name: string, ...numbers: string[]): HTMLElement {
  const row = make("tr");
  row.append(make("th", { scope: "row" }, name), ...numbers.map((value) => make("td", { class: "number" }, value)));
  return row;
}

function change(what: string, before: number, after: number, unit: string): string {
  const sign = after >= before ? "+" : "−";
  return `${what} ${before.toFixed(4)} → ${after.toFixed(4)} ${unit} (${sign}${Math.abs(after - before).toFixed(4)})`;
}

function number(value: number): string {
  return value.toPrecision(5);
}
