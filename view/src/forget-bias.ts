/** The page of the forget bias: how long an untrained LSTM remembers, by the bias of its forget gate. */

import { make } from "./dom.ts";
import { LANGUAGE } from "./language.ts";
import { drawn, halfLife, left, noise, run } from "./lstm.ts";
import { plotShares, powerOfTen } from "./plot.ts";
import { byMemory, halfLives } from "./series.ts";
import { RAMPS, Strip } from "./strip.ts";

const INPUTS = 8;
const HIDDEN = 32;
const STEPS = 60;
const SEED = 1;
const MAX_BIAS = 6;
/** Biases that have a tick: torch's own, 1, that of the course's figure, and that of a half-life of 100 steps. */
const TICKS = [0, 1, 3, 5];
/** Milliseconds between two changes of the address. */
const KEEP_MS = 350;

const en = {
  title: "The forget bias of an LSTM",
  intro: `An LSTM with ${HIDDEN} channels and weights as they are drawn, before any training, reads ${STEPS} steps of random numbers. The slider is what its forget gate has as a bias. Nothing else changes.`,
  bias: "Forget bias",
  other: "한국어",
  says: (gate: number, half: number, rest: string) =>
    `The forget gate is ${gate.toFixed(2)} in the mean. Half of a state is left after ${half.toFixed(1)} steps; after ${STEPS - 1} steps ${rest} of it.`,
  gate: "Forget gate: a column for each step, a row for each channel; light is 0, dark is 1",
  darkGate: "Forget gate: a column for each step, a row for each channel; dark is 0, light is 1",
  cell: "Cell state, on the same steps and channels; negative numbers in another colour",
  left: `How much of the state after the first step is left after 0 to ${STEPS - 1} more: the product of the gates, mean over channels, on a logarithmic axis; the mark is at the half-life, where it is not beyond them`,
  why: "Along the cell state, a gradient travels back by the same factors: each step multiplies it by its forget gate. At a bias of 0 the gates are half open, and the gradient of a loss at the end does not reach the beginning; with gates near 1 it arrives. That is why an LSTM begins with a forget bias of 1 or more where it has to remember long.",
};
const ko: typeof en = {
  title: "LSTM의 망각 게이트 편향",
  intro: `학습하기 전, 초기화만 한 LSTM(채널 ${HIDDEN}개)이 난수를 ${STEPS}스텝 읽습니다. 슬라이더는 망각 게이트의 편향입니다. 다른 것은 바뀌지 않습니다.`,
  bias: "망각 게이트 편향",
  other: "English",
  says: (gate, half, rest) =>
    `망각 게이트의 평균은 ${gate.toFixed(2)}입니다. 상태의 반감기는 ${half.toFixed(1)}스텝이며, ${STEPS - 1}스텝 뒤에는 ${rest}만 남습니다.`,
  gate: "망각 게이트: 열은 스텝, 행은 채널. 밝을수록 0, 어두울수록 1",
  darkGate: "망각 게이트: 열은 스텝, 행은 채널. 어두울수록 0, 밝을수록 1",
  cell: "셀 상태: 같은 스텝과 채널. 음수는 다른 색",
  left: `첫 스텝 뒤의 상태가 0–${STEPS - 1}스텝 뒤에 남아 있는 비율: 게이트의 곱을 채널에 대해 평균한 값(로그 축). 표시는 반감기이며, 이 범위를 넘으면 없습니다`,
  why: "셀 상태의 경로에서는 기울기도 같은 계수로 전달됩니다. 스텝마다 그 스텝의 망각 게이트가 곱해집니다. 편향이 0이면 게이트가 절반만 열려 있어 끝에서 얻은 기울기가 처음까지 전달되지 않습니다. 게이트가 1에 가까우면 기울기가 끝까지 전달됩니다. 그래서 오래 기억해야 하는 LSTM은 망각 게이트 편향을 1 이상으로 두고 시작합니다.",
};
const say = { en, ko }[LANGUAGE];

const dark = matchMedia("(prefers-color-scheme: dark)");
const lstm = drawn(INPUTS, HIDDEN, SEED);
const read = noise(STEPS, INPUTS, SEED + 1);
const main = document.querySelector("main")!;
document.documentElement.lang = LANGUAGE;
document.title = say.title;
main.innerHTML = `
  <h1>${say.title}</h1>
  <p id="intro">${say.intro}</p>
  <div class="row"><label>${say.bias} <input class="bias" type="range" min="0" max="${MAX_BIAS}" step="0.1" list="ticks"></label><datalist id="ticks">${TICKS.map((bias) => `<option value="${bias}" >`).join("")}</datalist><output></output><button type="button" class="language">${say.other}</button></div>
  <p class="says" role="status"></p>`;
const figure = (caption: string, look: string): HTMLCanvasElement => {
  const whole = make("figure");
  const canvas = make("canvas", { role: "img", class: look, "aria-label": caption }) as HTMLCanvasElement;
  whole.append(make("figcaption", {}, caption), canvas);
  main.append(whole);
  return canvas;
};
const ramp = () => (dark.matches ? RAMPS.dark : RAMPS.light);
const canvases = { forget: figure(dark.matches ? say.darkGate : say.gate, "strip"), cell: figure(say.cell, "strip"), left: figure(say.left, "line") };
main.append(make("p", {}, say.why));
const slider = main.querySelector<HTMLInputElement>(".bias")!;
// The same order at every bias, so that a row stays the same channel.
const halfOpen = run(lstm, read, 0).forget;
const order = byMemory(halfLives(halfOpen));
/** The same axis at every bias: that of the shortest memory. */
const lowest = Math.floor(Math.log10(left(halfOpen)[STEPS - 1]!));
let keeping = 0;

function show(): void {
  const bias = Number(slider.value);
  const { forget, cell } = run(lstm, read, bias);
  const half = halfLife(forget);
  const rest = left(forget);
  const width = canvases.forget.clientWidth;
  for (const [canvas, series] of [[canvases.forget, forget], [canvases.cell, cell]] as const) {
    const strip = new Strip(canvas, series, ramp());
    strip.arrange(order, ramp());
    strip.update();
    strip.draw({ first: 0, wide: width / STEPS, needed: 1, width, chosen: -2 }, null);
  }
  plotShares(canvases.left, rest, lowest, half < STEPS ? half : null);
  let sum = 0;
  for (let step = 0; step < STEPS; step++) sum += forget.row(step).reduce((a, b) => a + b, 0);
  main.querySelector("output")!.textContent = bias.toFixed(1);
  const end = rest[STEPS - 1]!;
  const share = end >= 0.001 ? `${(100 * end).toFixed(1)} %` : end.toExponential(0).replace(/e(-\d+)/, (_, power: string) => ` · ${powerOfTen(Number(power))}`);
  main.querySelector(".says")!.textContent = say.says(sum / (STEPS * HIDDEN), half, share);
  Object.assign(window, { gatedrnn: { lstm, read, bias, forget, cell, rest, half } }); // for tests, and for whoever opens the console
}

/** The address of what is shown, in a language. */
function address(lang: string): string {
  return `${location.href.replace(/#.*/s, "")}#bias=${slider.value}${lang === "" ? "" : `&lang=${lang}`}`;
}

function fromAddress(url: string): void {
  const asked = Number(new URLSearchParams(new URL(url).hash.slice(1)).get("bias"));
  slider.value = String(asked >= 0 && asked <= MAX_BIAS ? asked : 0);
  show();
}

const asked = /[#&]lang=(en|ko)\b/.exec(location.hash)?.[1] ?? "";
slider.addEventListener("input", () => {
  show();
  clearTimeout(keeping);
  keeping = window.setTimeout(() => history.replaceState(null, "", address(asked)), KEEP_MS);
});
const other = main.querySelector<HTMLButtonElement>(".language")!;
other.lang = LANGUAGE === "en" ? "ko" : "en";
other.addEventListener("click", () => {
  clearTimeout(keeping);
  history.replaceState(null, "", address(other.lang));
  location.reload();
});
window.addEventListener("hashchange", ({ newURL }) => fromAddress(newURL)); // location.hash may have been written since
window.addEventListener("resize", show);
dark.addEventListener("change", () => location.reload()); // the captions name its colours
fromAddress(location.href);
