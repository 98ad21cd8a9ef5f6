/** What `gatedrnn view` writes into the page: `gatedrnn.view.record` has the same fields. */

export interface Layer {
  name: string;
  /** Whether it reads a sequence from its end. */
  reverse: boolean;
  cell: string;
  channels: number;
  /** Names of gates, as the graph's outputs have them: `layer_0_gate_forget`. */
  gates: string[];
  /** Whether the graph has the factor of each channel's state, and what a step adds to it. */
  decay: boolean;
  written: boolean;
  /** The gate that is that factor, or 1 minus it where `decay_inverted`; "" for none. */
  decay_gate: string;
  decay_inverted: boolean;
  /** Whether gates read the input alone, so that a product of decays is the gradient. */
  scan: boolean;
  /** Which of the model's states keeps what was read. */
  memory: number;
  equations: string;
}

export interface State {
  name: string;
  size: number;
}

export interface Model {
  title: string;
  /** Whether its weights are the trained ones, and not those that the run began with. */
  trained: boolean;
  reads: "text" | "symbols" | "numbers";
  /** Numbers of a step, and whether one of them may be missing. */
  columns: number;
  missing: boolean;
  /** Of the graph's input `read`. */
  read_type: "int64" | "float32" | "float64";
  /** A graph of all that is read together: numbers (time, columns) to what each step reads. */
  context: string | null;
  answers: "next" | "label of the step" | "label so far" | "numbers so far" | "label" | "labels" | "numbers" | "forecast";
  /** Whether `context` has read all that was typed and answers, so that a state that is held changes no answer. */
  whole: boolean;
  /** The outputs that a classifier of sequences reads: "last", "mean", "max"; none where each step has an answer. */
  pooling: ("last" | "mean" | "max")[];
  /** What answers, one after another in an answer; none where that is the model alone. */
  parts: string[];
  answer_size: number;
  /** Of a forecast: which quantiles, for each step ahead. */
  levels: number[];
  parameters: number;
  /** An ONNX graph of one step, gzip and base64. */
  step: string;
  states: State[];
  /** The states before the first step, one after another: float32, base64. */
  initial: string;
  layers: Layer[];
  tokenizer: { json: object; config: object; by_line: boolean } | null;
  /** The token before a text; null for none. */
  begin: number | null;
  unknown: number | null;
  /** How many tokens there are. */
  symbols: number;
  labels: string[];
  example: string;
  /** Of numbers: the end of the series that the run was trained on, or waves that are made up. */
  example_of: "run" | "waves" | "";
}

/** The bytes of a base64 text. */
export function decoded(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Bytes that were compressed by gzip. */
export async function unzipped(base64: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([decoded(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
