/** Every word of the window, in English and in Korean. */

import { LANGUAGE } from "./language.ts";

const TERMS: Record<string, string> = {
  input: "입력", forget: "망각", output: "출력", update: "업데이트", reset: "리셋", decay: "감쇠", recurrence: "순환", highway: "하이웨이",
};

const en = {
  /** Of the page. */
  title: "Gates of a trained model",
  titleOf: (models: string[]) => `Gates of ${models.join(" and ")}`,
  intro: "Type, and watch the gates. Each column is a step, each row a channel, the longest memory at the top. Click into a strip, or go to the strips with Tab and move with the arrow keys, to choose a step and a channel; the space bar plays the steps.",
  text: "Text",
  textOf: (model: string) => `Text of ${model}`,
  symbols: (count: number) => `Symbols, 0 to ${count - 1}`,
  numbers: (columns: number) =>
    columns === 1 ? "Numbers, with spaces or commas between them" : `Numbers, ${columns} a line, a line a step`,
  oldBrowser: "This browser has no WebAssembly or no DecompressionStream: open the page in one of 2023 or later.",
  opening: "opening the models …",
  noStart: (why: string) => `The page could not start: ${why}`,
  cut: (longest: number, cut: number) => `Cut after ${longest} steps; ${cut} are left out.`,
  unknown: (count: number) => `Tokens outside the vocabulary: ${count}; the model reads <unk>.`,
  differ: "The models cut the text into different tokens, so that their steps differ; linked ones stand at the same place of the text.",

  /** Of the bar. */
  controls: "What the page shows",
  link: "Link both: step, text and channel",
  previous: "Previous",
  next: "Next",
  play: "Play",
  stop: "Stop",
  steps: "Steps",
  zoom: "Width of a step",
  narrower: "narrower",
  fit: "fit",
  wider: "wider",
  big: "Projector size",
  copy: "Copy a link to this view",
  copied: "The link is copied.",
  copyThis: "A link to this view:",
  language: "한국어",
  guided: "Guided",
  reset: "Reset",

  /** Of what is read. */
  nothing: "Nothing is typed: the page shows what a model does as it reads.",
  onlySymbols: (count: number, wrong: string) => `This model reads 0 to ${count - 1}, not ${wrong}.`,
  commas: (line: number) => `Line ${line} has commas and other separators: write decimals with a point.`,
  columnsOf: (line: number, found: number, columns: number) =>
    `Line ${line} has ${found} numbers; a step of this model has ${columns}.`,
  noNumber: (step: number, piece: string, missing: boolean) =>
    `Step ${step}: “${piece}” is no number${missing ? "; nan stands for a missing one" : ""}.`,
  begins: "A series begins with a number; leave out what is missing before it.",

  /** Of a panel. */
  layer: (name: string) => name,
  gate: (name: string) => `${name} gate`,
  decay: "decay of the state",
  state: "state",
  isDecay: (inverted: boolean): string => (inverted ? "; the decay of the state is 1 − it" : ", which is the decay of the state"),
  parameters: (count: number) => `${count.toLocaleString("en")} parameters`,
  from: "gates from 0",
  to: "to",
  toOne: "to 1",
  negative: "negative from 0",
  toMinusOne: "to −1: the state keeps its size and changes its sign",
  whole: "The model reads all that is typed before it answers; layers that read from the end are shown in the order of the text.",
  pooled: {
    last: "the output of the last step (of each direction its own last)",
    mean: "the mean of the outputs over the steps",
    max: "the largest output of each channel over the steps",
  },
  pooling: (read: string[]) => `Pooled: the answer is made of ${read.join(", and of ")}.`,
  untrained: (title: string) => `${title}, untrained`,
  exampleOf: {
    run: "These numbers are the last window of the series that the model was trained on.",
    waves: "These numbers are made up: waves of the size that the model was trained on.",
    "": "",
  },
  equations: "Equations",
  save: "Save the chosen gate, as far as it is in view, as a picture",
  chosenStep: (step: number, length: number, token: string, layer: string, channel: number, gates: [string, string][]) =>
    `Step ${step} of ${length}, “${token}”; ${layer}, channel ${channel}: ${gates.map(([gate, value]) => `${gate} ${value}`).join(", ")}`,
  start: "start",
  strips: "Gates over the steps: arrow keys choose a step and a channel, the space bar plays",
  whatIsRead: "What is read, step by step",
  channelOf: (layer: string, channel: number) => `${layer}, channel ${channel}: `,
  loss: (mean: number, here: number, p: number) =>
    `Loss of each token, −log p: mean ${mean.toFixed(2)} nats${Number.isNaN(here) ? "" : `; here ${here.toFixed(2)} (${(100 * p).toFixed(1)} %)`}`,
  lossTop: (top: number) => `${top.toFixed(1)} nats`,

  /** Of the presets. */
  look: "Look at",
  presets: {
    stop: "closes most at full stops", minus: "channel nearest to −1", memory: "longest memory", surprise: "least expected token",
  },
  stopSays: (gate: string, at: number, elsewhere: number, above: number, others: number) =>
    `${gate} ${at.toFixed(2)} at the full stops, ${elsewhere.toFixed(2)} elsewhere; more closed at each full stop than at ${above === others ? "any other step" : `${above} of the other ${others} steps`}`,
  stopUnclear: (gates: number, at: number, elsewhere: number) =>
    `no gate closes clearly at the full stops: the strongest of ${gates} goes from ${elsewhere.toFixed(2)} to ${at.toFixed(2)}. A model that is trained for longer may have one`,
  minusSays: (share: number) => `its decay is nearer to −1 than to 0 at ${(100 * share).toFixed(0)} % of the steps`,
  memorySays: (half: string) => `half of its state is left after so many steps: ${half}`,
  surpriseSays: (loss: number, gate: string) => `loss ${loss.toFixed(2)} nats, the highest of the text; the ${gate} of this channel is farthest from its mean here`,
  situations: {
    stop: ["A full stop", "The line above the strips says which gate closes most where the sentences end, and how far; its row is outlined. Is it closed at the spaces too?"],
    memory: ["A long memory", "A bracket opens, and closes much later. The line above the strips gives the half-life of the channel that keeps longest; its row is outlined. Does it reach from one bracket to the other? Does its state change between them, and how much is left of a change, in the line below the answer?"],
    surprise: ["A surprise", "“zyxqb” is no word. Is the loss highest within it? Which gates open at the marked step, and how many steps does it take until the loss is low again?"],
  } as Record<string, [string, string]>,

  /** Of the answer. */
  temperature: "Temperature",
  aheadOf: "Values, and the forecast after the chosen step",
  captions: {
    next: "What comes next",
    "label of the step": "The label of this step",
    "label so far": "The label, if this step were the last",
    "numbers so far": "The answer, if this step were the last",
    label: "The label of all that was typed",
    labels: "The labels of all that was typed, each likely or not by itself",
    numbers: "The answer to all that was typed",
    forecast: "The steps ahead, by quantile",
  },
  first: (count: number, all: number) => `, the first ${count} of ${all}`,
  step: "step",
  part: (name: string) => name,
  lossIs: "loss",
  nats: "nats a token",
  errorIs: "mean error one step ahead",
  atEnd: "at the end",

  /** Of the reach. */
  measuring: "measuring …",
  exact: (step: number, reverse: boolean) =>
    `How much of a change of the state after each step is left after step ${step}${reverse ? ", read from the end" : ""}: products of decays, exact`,
  differences: (step: number, reverse: boolean, apart: string) =>
    `How much of a change of the state is left after step ${step}${reverse ? ", read from the end" : ""}${apart === "" ? "" : `, from ${apart} steps back`}: finite differences, along one direction`,

  /** Of a channel. */
  aChannel: "A channel",
  layerLabel: "Layer",
  channelLabel: "Channel",
  gateLabel: "Gate",
  half: (channel: number, half: string) => `${channel}, half-life ${half}`,
  endless: "endless",
  unknownHalf: "unknown",
  opens: "Choose the channel where it opens most at this step",
  closes: "… closes most",
  stepsWhere: "Steps where it is",
  mostOpen: "most open",
  mostClosed: "most closed",
  inBrackets: "(the gate; what the step added to the decayed state)",
  memory: (channel: number, low: number, high: number) =>
    `State of channel ${channel} over the steps, from ${low.toFixed(2)} to ${high.toFixed(2)}`,
  rank: (here: number, open: boolean, more: number, others: number) =>
    `Here it is ${here.toFixed(2)}; it is more ${open ? "open" : "closed"} at ${more} of the other ${others} steps.`,
  holdZero: "Hold the channel at 0",
  holdOne: "Hold it at 1",
  notHeld: "No channel can be held: the answer is found before the steps are shown.",
  twoSteps: "Two steps at least are needed to compare.",
  again: "reading again …",
  held: (layer: string, channel: number, value: number, found: string) => `${layer}, channel ${channel} held at ${value}: ${found}`,
};

const ko: typeof en = {
  title: "학습된 모델의 게이트",
  titleOf: (models) => `${models.join(", ")}의 게이트`,
  intro: "글을 입력하면서 게이트를 살펴보십시오. 열은 스텝, 행은 채널이며 기억이 가장 긴 채널이 맨 위에 있습니다. 띠를 클릭하거나, Tab으로 띠에 들어가 화살표 키로 스텝과 채널을 고릅니다. 스페이스 바를 누르면 스텝이 차례로 재생됩니다.",
  text: "텍스트",
  textOf: (model) => `${model}의 텍스트`,
  symbols: (count) => `기호, 0–${count - 1}`,
  numbers: (columns) => (columns === 1 ? "숫자(공백이나 쉼표로 구분)" : `숫자(한 줄이 한 스텝, 한 줄에 ${columns}개)`),
  oldBrowser: "이 브라우저에는 WebAssembly 또는 DecompressionStream이 없습니다. 2023년 이후의 브라우저에서 여십시오.",
  opening: "모델을 여는 중 …",
  noStart: (why) => `페이지를 시작할 수 없습니다: ${why}`,
  cut: (longest, cut) => `${longest}스텝까지만 읽었습니다. 나머지 ${cut}스텝은 생략되었습니다.`,
  unknown: (count) => `어휘에 없는 토큰: ${count}개. 모델은 이를 <unk>로 읽습니다.`,
  differ: "두 모델은 텍스트를 서로 다른 토큰으로 나누므로 스텝이 다릅니다. 연결된 스텝은 텍스트에서 같은 자리를 가리킵니다.",

  controls: "보기 설정",
  link: "둘을 연결: 스텝, 텍스트, 채널",
  previous: "이전",
  next: "다음",
  play: "재생",
  stop: "정지",
  steps: "스텝",
  zoom: "스텝의 폭",
  narrower: "좁게",
  fit: "맞춤",
  wider: "넓게",
  big: "큰 글씨(강의실용)",
  copy: "이 화면의 링크 복사",
  copied: "링크를 복사했습니다.",
  copyThis: "이 화면의 링크:",
  language: "English",
  guided: "안내",
  reset: "초기화",

  nothing: "입력된 것이 없습니다. 이 페이지는 모델이 읽으면서 하는 일을 보여 줍니다.",
  onlySymbols: (count, wrong) => `이 모델은 0–${count - 1}만 읽습니다. 읽을 수 없는 입력: ${wrong}`,
  commas: (line) => `${line}번째 줄에 쉼표와 다른 구분 기호가 섞여 있습니다. 소수점은 점으로 쓰십시오.`,
  columnsOf: (line, found, columns) => `${line}번째 줄에 숫자가 ${found}개 있습니다. 이 모델의 한 스텝은 ${columns}개입니다.`,
  noNumber: (step, piece, missing) => `스텝 ${step}: “${piece}”은(는) 숫자가 아닙니다.${missing ? " 결측값은 nan으로 씁니다." : ""}`,
  begins: "시계열은 숫자로 시작해야 합니다. 앞의 결측값은 빼십시오.",

  layer: (name) =>
    name.replace(/network (\d+), /, "네트워크 $1, ").replace(/layer (\d+)/, "$1층").replace(", forwards", ", 정방향").replace(", backwards", ", 역방향"),
  gate: (name) => `${TERMS[name] ?? name} 게이트`,
  decay: "상태의 감쇠 계수",
  state: "상태",
  isDecay: (inverted) => (inverted ? "(상태의 감쇠 계수는 1 − 이 값)" : "(상태의 감쇠 계수)"),
  parameters: (count) => `파라미터 ${count.toLocaleString("ko")}개`,
  from: "게이트 0",
  to: "부터",
  toOne: "1",
  negative: "음수 0",
  toMinusOne: "−1: 상태는 크기를 유지하고 부호가 바뀝니다",
  whole: "모델은 입력 전체를 읽은 뒤에 답합니다. 끝에서부터 읽는 층도 텍스트 순서대로 표시됩니다.",
  pooled: {
    last: "마지막 스텝의 출력(방향마다 그 방향의 마지막)",
    mean: "모든 스텝의 출력의 평균",
    max: "채널마다 모든 스텝의 출력 가운데 가장 큰 값",
  },
  pooling: (read) => `풀링: 답은 다음 값에서 구합니다. ${read.join("; ")}.`,
  untrained: (title) => `${title}, 학습 전`,
  exampleOf: {
    run: "이 숫자는 모델이 학습한 시계열의 마지막 구간입니다.",
    waves: "이 숫자는 실제 데이터가 아니라, 모델이 학습한 데이터와 크기가 같은 인공 파형입니다.",
    "": "",
  },
  equations: "수식",
  save: "고른 게이트의 보이는 부분을 그림으로 저장",
  chosenStep: (step, length, token, layer, channel, gates) =>
    `스텝 ${step}/${length}, “${token}”; ${layer}, 채널 ${channel}: ${gates.map(([gate, value]) => `${gate} ${value}`).join(", ")}`,
  start: "시작",
  strips: "스텝별 게이트: 화살표 키로 스텝과 채널을 고르고, 스페이스 바로 재생합니다",
  whatIsRead: "스텝마다 읽는 것",
  channelOf: (layer, channel) => `${layer}, 채널 ${channel}: `,
  loss: (mean, here, p) =>
    `토큰별 손실(−log p): 평균 ${mean.toFixed(2)} nat${Number.isNaN(here) ? "" : `, 여기서 ${here.toFixed(2)} nat(${(100 * p).toFixed(1)} %)`}`,
  lossTop: (top) => `${top.toFixed(1)} nat`,

  look: "살펴볼 것",
  presets: {
    stop: "마침표에서 가장 많이 닫히는 게이트", minus: "감쇠 계수가 −1에 가장 가까운 채널", memory: "기억이 가장 긴 채널", surprise: "예측이 가장 어긋난 토큰",
  },
  stopSays: (gate, at, elsewhere, above, others) =>
    `${gate}, 마침표에서 ${at.toFixed(2)}, 다른 곳에서 평균 ${elsewhere.toFixed(2)}. 모든 마침표에서 ${above === others ? "다른 어느 스텝보다도" : `나머지 ${others}스텝 가운데 ${above}스텝보다`} 더 닫힙니다`,
  stopUnclear: (gates, at, elsewhere) =>
    `마침표에서 뚜렷하게 닫히는 게이트가 없습니다. 게이트 ${gates}개 가운데 차이가 가장 큰 것도 평균 ${elsewhere.toFixed(2)}에서 ${at.toFixed(2)}까지만 닫힙니다. 더 오래 학습한 모델에는 있을 수 있습니다`,
  minusSays: (share) => `전체 스텝의 ${(100 * share).toFixed(0)} %에서 감쇠 계수가 0보다 −1에 가깝습니다`,
  memorySays: (half) => `상태의 반감기(스텝): ${half}`,
  surpriseSays: (loss, gate) => `손실 ${loss.toFixed(2)} nat로 텍스트에서 가장 높습니다. 이 스텝에서 평균과 가장 다른 것은 이 채널의 ${gate}입니다`,
  situations: {
    stop: ["마침표", "문장이 끝나는 곳에서 어느 게이트가 가장 많이 닫히는지, 얼마나 닫히는지가 띠 위에 적혀 있습니다. 그 행에는 테두리가 있습니다. 이 게이트는 공백에서도 닫힙니까?"],
    memory: ["긴 기억", "괄호가 열리고 한참 뒤에 닫힙니다. 가장 오래 기억하는 채널의 반감기가 띠 위에 적혀 있고, 그 행에는 테두리가 있습니다. 반감기가 괄호의 길이만큼 됩니까? 괄호 안에서 이 채널의 상태가 바뀝니까? 그리고 답 아래의 그래프에서, 상태의 변화는 얼마나 남아 있습니까?"],
    surprise: ["뜻밖의 단어", "“zyxqb”는 없는 단어입니다. 이 단어 안에서 손실이 가장 높습니까? 표시된 스텝에서 어느 게이트가 열립니까? 손실이 다시 낮아지기까지 몇 스텝이 걸립니까?"],
  },

  temperature: "온도",
  aheadOf: "값과, 고른 스텝 이후의 예측",
  captions: {
    next: "다음 토큰의 예측",
    "label of the step": "이 스텝의 레이블",
    "label so far": "이 스텝이 마지막일 때의 레이블",
    "numbers so far": "이 스텝이 마지막일 때의 답",
    label: "입력 전체의 레이블",
    labels: "입력 전체의 레이블(확률은 각각 따로)",
    numbers: "입력 전체에 대한 답",
    forecast: "앞으로의 스텝, 분위수별",
  },
  first: (count, all) => `(${all}스텝 중 처음 ${count}스텝)`,
  step: "스텝",
  part: (name) =>
    ({ "network and linear path": "네트워크와 선형 경로", "the network alone": "네트워크만", "the linear path alone": "선형 경로만" })[name] ?? name,
  lossIs: "손실",
  nats: "nat/토큰",
  errorIs: "한 스텝 앞의 평균 오차",
  atEnd: "끝에서",

  measuring: "측정 중 …",
  exact: (step, reverse) =>
    `각 스텝 뒤 상태의 변화가 스텝 ${step} 뒤에${reverse ? "(끝에서부터 읽음)" : ""} 남아 있는 비율: 감쇠 계수의 곱, 정확한 값`,
  differences: (step, reverse, apart) =>
    `상태의 변화가 스텝 ${step} 뒤에${reverse ? "(끝에서부터 읽음)" : ""} 남아 있는 비율${apart === "" ? "" : `, ${apart}스텝 전부터`}: 한 방향의 유한 차분`,

  aChannel: "채널 하나",
  layerLabel: "층",
  channelLabel: "채널",
  gateLabel: "게이트",
  half: (channel, half) => `${channel}, 반감기 ${half}`,
  endless: "무한",
  unknownHalf: "알 수 없음",
  opens: "이 스텝에서 가장 많이 열리는 채널 고르기",
  closes: "… 가장 많이 닫히는 채널",
  stepsWhere: "게이트가",
  mostOpen: "가장 열린 스텝",
  mostClosed: "가장 닫힌 스텝",
  inBrackets: "(게이트; 감쇠된 상태에 이 스텝이 더한 값)",
  memory: (channel, low, high) => `채널 ${channel}의 스텝별 상태, ${low.toFixed(2)}에서 ${high.toFixed(2)}까지`,
  rank: (here, open, more, others) =>
    `여기서는 ${here.toFixed(2)}입니다. 다른 ${others}스텝 가운데 ${more}스텝에서 더 ${open ? "열려" : "닫혀"} 있습니다.`,
  holdZero: "채널을 0으로 고정",
  holdOne: "1로 고정",
  notHeld: "채널을 고정할 수 없습니다. 답은 스텝이 표시되기 전에 구해집니다.",
  twoSteps: "비교하려면 두 스텝 이상이 필요합니다.",
  again: "다시 읽는 중 …",
  held: (layer, channel, value, found) => `${layer}, 채널 ${channel}, ${value}로 고정: ${found}`,
};

export const say = { en, ko }[LANGUAGE];
