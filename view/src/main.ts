/** The page: the models that were given to it, over one text. */

import * as ort from "onnxruntime-web/wasm";
import { unzipped, type Model } from "./models.ts";
import { Panel } from "./panel.ts";
import { LONGEST, Reader } from "./reading.ts";
import { Runner } from "./runner.ts";

const QUIET_MS = 120;
const note = document.getElementById("note")!;
const box = document.getElementById("text") as HTMLTextAreaElement;

async function start(): Promise<void> {
  if (typeof WebAssembly === "undefined" || typeof DecompressionStream === "undefined") {
    note.textContent = "This browser has no WebAssembly or no DecompressionStream: open the page in one of 2023 or later.";
    return;
  }
  note.textContent = "opening the models …";
  const models = JSON.parse(document.getElementById("given")!.textContent!) as Model[];
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = (await unzipped(document.getElementById("runtime")!.textContent!)).buffer;
  const panels: Panel[] = [];
  const readers = models.map((model) => new Reader(model));
  for (const [n, model] of models.entries()) {
    const panel = new Panel(await Runner.open(model, ort), readers[n]!, n);
    document.getElementById("models")!.append(panel.root);
    panels.push(panel);
  }
  document.title = `Gates of ${models.map((model) => model.title).join(" and ")}`;
  document.querySelector("label[for=text]")!.textContent = asked(models[0]!);

  let turn = 0;
  let running: Promise<void> = Promise.resolve();
  const read = async (): Promise<void> => {
    const mine = ++turn;
    await running;
    if (mine !== turn) return;
    running = (async () => {
      const notes: string[] = [];
      const tokens = new Set<string>();
      for (const [n, panel] of panels.entries()) {
        const reading = readers[n]!.read(box.value);
        if (reading.fault !== null) notes.push(reading.fault);
        if (reading.cut > 0) notes.push(`Cut after ${LONGEST} steps; ${reading.cut} are left out.`);
        if (reading.unknown > 0) notes.push(`Tokens outside the vocabulary: ${reading.unknown}; the model reads <unk>.`);
        tokens.add(reading.shown.join("\0"));
        await panel.follow(reading, () => mine === turn);
      }
      if (tokens.size > 1) notes.push("The models cut the text into different tokens, so that their steps differ.");
      if (mine === turn) note.textContent = [...new Set(notes)].join(" ");
      document.body.dataset["read"] = box.value;
    })();
    await running;
  };
  let timer = 0;
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void read(), QUIET_MS);
  });
  box.value = models[0]!.example;
  Object.assign(window, { gatedrnn: { panels } }); // for tests, and for whoever opens the console
  await read();
}

/** What is to be typed. */
function asked({ reads, symbols, columns }: Model): string {
  if (reads === "text") return "Text";
  if (reads === "symbols") return `Symbols, 0 to ${symbols - 1}`;
  return columns === 1 ? "Numbers, with spaces or commas between them" : `Numbers, ${columns} a line, a line a step`;
}

start().catch((error: unknown) => {
  note.textContent = `The page could not start: ${error instanceof Error ? error.message : String(error)}`;
});
