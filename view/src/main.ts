/** The page: the models that were given to it, over one text. */

import * as ort from "onnxruntime-web/wasm";
import { LANGUAGE } from "./language.ts";
import { unzipped, type Model } from "./models.ts";
import { Page } from "./page.ts";
import { titleOf } from "./panel.ts";
import { Reader } from "./reading.ts";
import { Runner } from "./runner.ts";
import { parsed } from "./state.ts";
import { say } from "./words.ts";

const find = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;
const note = find("note");

async function start(): Promise<void> {
  document.documentElement.lang = LANGUAGE;
  document.querySelector("h1")!.textContent = say.title;
  find("intro").textContent = say.intro;
  if (typeof WebAssembly === "undefined" || typeof DecompressionStream === "undefined") {
    note.textContent = say.oldBrowser;
    return;
  }
  note.textContent = say.opening;
  const models = JSON.parse(find("given").textContent!) as Model[];
  document.title = say.titleOf(models.map(titleOf));
  document.querySelector("label[for=text]")!.textContent = asked(models[0]!);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = (await unzipped(find("runtime").textContent!)).buffer;
  const runners: Runner[] = [];
  for (const model of models) runners.push(await Runner.open(model, ort));
  const readers = models.map((model) => new Reader(model));
  const page = new Page(runners, readers, note, find("text"), { bar: find("bar"), models: find("models") });
  Object.assign(window, { gatedrnn: page }); // for tests, and for whoever opens the console
  await page.restore(parsed(location.hash, models.length));
}

/** What is to be typed. */
function asked({ reads, symbols, columns }: Model): string {
  if (reads === "text") return say.text;
  return reads === "symbols" ? say.symbols(symbols) : say.numbers(columns);
}

start().catch((error: unknown) => {
  note.textContent = say.noStart(error instanceof Error ? error.message : String(error));
});
