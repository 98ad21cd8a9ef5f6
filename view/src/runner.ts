/** A model over a text, a step at a time, by its ONNX graph: every number here was computed by that graph. */

import type { InferenceSession, Tensor, TensorConstructor } from "onnxruntime-web/wasm";
import { decoded, unzipped, type Layer, type Model } from "./models.ts";
import type { Row } from "./reading.ts";
import { Series } from "./series.ts";

/** What the page needs of onnxruntime-web. */
export interface Runtime {
  InferenceSession: { create(bytes: Uint8Array): Promise<InferenceSession> };
  Tensor: TensorConstructor;
}

/** A layer's numbers over time. */
export interface Seen {
  layer: Layer;
  gates: Map<string, Series>;
  decay: Series | null;
  written: Series | null;
  memory: Series;
}

/** A state's channel that is held at a value. */
export interface Held {
  state: number;
  channel: number;
  value: number;
}

let last: Promise<unknown> = Promise.resolve();

/** One call after the other, of all models: the runtime has one thread, and calls that overlap break it. */
function inTurn<T>(call: () => Promise<T>): Promise<T> {
  const found = last.then(call);
  last = found.catch(() => undefined);
  return found;
}

export class Runner {
  /** What was read, a row a step. */
  read: Row[] = [];
  readonly answers: Series;
  readonly states: Series[];
  /** Each layer in the order in which it reads: of one that reads from the end, the last step is the first. */
  readonly ordered: Seen[];
  /** Each layer in the order of the text; of one that reads from the end, once all is read. */
  readonly seen: Seen[];
  private readonly initial: Float32Array[];

  private constructor(
    readonly model: Model,
    private readonly runtime: Runtime,
    private readonly session: InferenceSession,
    private readonly context: InferenceSession | null,
  ) {
    this.answers = new Series(model.answer_size);
    this.states = model.states.map((state) => new Series(state.size));
    this.ordered = model.layers.map((layer) => nothingOf(layer, this.states[layer.memory]!));
    this.seen = this.ordered.map((one) => (one.layer.reverse ? nothingOf(one.layer, new Series(one.memory.channels)) : one));
    const all = new Float32Array(decoded(model.initial).buffer);
    let first = 0;
    this.initial = model.states.map((state) => all.subarray(first, (first += state.size)));
  }

  static async open(model: Model, runtime: Runtime): Promise<Runner> {
    const open = async (graph: string): Promise<InferenceSession> =>
      runtime.InferenceSession.create(await unzipped(graph));
    const context = model.context === null ? null : await open(model.context);
    return new Runner(model, runtime, await open(model.step), context);
  }

  /** Read again from the first step that differs. `onStep` is called after each step; false stops. */
  async follow(typed: Row[], onStep: (done: number) => boolean | Promise<boolean>): Promise<void> {
    const read = await this.rows(typed);
    let same = 0;
    while (same < Math.min(read.length, this.answers.length) && equal(read[same]!, this.read[same]!)) same++;
    this.cut(same);
    this.read = read.slice();
    for (let step = same; step < read.length; step++) {
      const before = step === 0 ? this.initial : this.states.map((state) => state.row(step - 1));
      const found = await this.step(read[step]!, before);
      this.keep(step, found);
      if (!(await onStep(step + 1))) {
        this.read.length = step + 1;
        return;
      }
    }
    this.turn();
  }

  /** Answers of the text if a state's channel is held, from the initial state on; nothing here changes. */
  async holding(held: Held): Promise<Float32Array[]> {
    const answers: Float32Array[] = [];
    let states = this.initial.map((state) => state.slice());
    states[held.state]![held.channel] = held.value;
    for (const value of this.read) {
      const found = await this.step(value, states);
      answers.push((found["answer"]!.data as Float32Array).slice());
      states = this.model.states.map((state) => (found[`${state.name}_after`]!.data as Float32Array).slice());
      states[held.state]![held.channel] = held.value;
    }
    return answers;
  }

  /**
   * How much of a small change of a layer's memory after step `from` is left after step `to`: the ratio of lengths, by
   * finite differences along a given direction.
   */
  async reachOf(layer: Layer, direction: Float32Array, from: number, to: number): Promise<number> {
    const small = 1e-3;
    const states = this.states.map((state) => state.row(from).slice());
    const memory = states[layer.memory]!;
    for (let c = 0; c < memory.length; c++) memory[c]! += small * direction[c]!;
    let current = states;
    for (let step = from + 1; step <= to; step++) {
      const found = await this.step(this.read[step]!, current);
      current = this.model.states.map((state) => (found[`${state.name}_after`]!.data as Float32Array).slice());
    }
    const end = this.states[layer.memory]!.row(to);
    let squares = 0;
    for (let c = 0; c < end.length; c++) squares += (current[layer.memory]![c]! - end[c]!) ** 2;
    return Math.sqrt(squares) / small;
  }

  /** What each step reads, where that depends on all that was typed. */
  private async rows(typed: Row[]): Promise<Row[]> {
    if (this.context === null || typed.length === 0) return typed.slice();
    const values = Float64Array.from(typed.flatMap((row) => Array.from(row)));
    const feeds = { values: new this.runtime.Tensor("float64", values, [typed.length, this.model.columns]) };
    const found = await inTurn(() => this.context!.run(feeds));
    const rows = found["rows"]!.data as Float32Array | Float64Array;
    const width = rows.length / typed.length;
    return typed.map((_, step) => rows.slice(step * width, (step + 1) * width));
  }

  private async step(row: Row, states: Float32Array[]): Promise<InferenceSession.OnnxValueMapType> {
    const { Tensor } = this.runtime;
    const feeds: Record<string, Tensor> = { read: this.tensor(row) };
    this.model.states.forEach((state, n) => {
      feeds[state.name] = new Tensor("float32", states[n]!, [1, state.size]);
    });
    return inTurn(() => this.session.run(feeds));
  }

  private tensor(row: Row): Tensor {
    const { Tensor } = this.runtime;
    switch (this.model.read_type) {
      case "int64":
        return new Tensor("int64", BigInt64Array.of(BigInt(row[0]!)), [1]);
      case "float32":
        return new Tensor("float32", Float32Array.from(row), [1, row.length]);
      case "float64":
        return new Tensor("float64", Float64Array.from(row), [1, row.length]);
    }
  }

  private keep(step: number, found: InferenceSession.OnnxValueMapType): void {
    const values = (name: string): Float32Array => found[name]!.data as Float32Array;
    this.answers.set(step, values("answer"));
    this.model.states.forEach((state, n) => this.states[n]!.set(step, values(`${state.name}_after`)));
    this.ordered.forEach(({ gates, decay, written }, n) => {
      gates.forEach((series, gate) => series.set(step, values(`layer_${n}_gate_${gate}`)));
      decay?.set(step, values(`layer_${n}_decay`));
      written?.set(step, values(`layer_${n}_written`));
    });
  }

  private cut(length: number): void {
    this.answers.cut(length);
    this.states.forEach((state) => state.cut(length));
    for (const one of this.ordered) seriesOf(one).forEach((series) => series.cut(length));
    for (const one of this.turned()) seriesOf(one).forEach((series) => series.cut(0));
  }

  /** Put what was read from the end in the order of the text. */
  private turn(): void {
    this.seen.forEach((one, n) => {
      if (one === this.ordered[n]) return;
      const from = seriesOf(this.ordered[n]!);
      seriesOf(one).forEach((series, k) => {
        series.cut(0);
        for (let step = 0; step < from[k]!.length; step++) series.set(step, from[k]!.row(from[k]!.length - 1 - step));
      });
    });
  }

  private turned(): Seen[] {
    return this.seen.filter((one, n) => one !== this.ordered[n]);
  }
}

/** A layer before anything is read. */
function nothingOf(layer: Layer, memory: Series): Seen {
  return {
    layer,
    gates: new Map(layer.gates.map((gate) => [gate, new Series(layer.channels)])),
    decay: layer.decay ? new Series(layer.channels) : null,
    written: layer.written ? new Series(layer.channels) : null,
    memory,
  };
}

/** All numbers of a layer, always in the same order. */
function seriesOf({ gates, decay, written, memory }: Seen): Series[] {
  return [...gates.values(), decay, written, memory].filter((series) => series !== null);
}

function equal(a: Row, b: Row): boolean {
  for (let n = 0; n < a.length; n++) if (!Object.is(a[n], b[n])) return false;
  return true;
}
