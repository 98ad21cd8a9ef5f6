/** What the reader has chosen in the page, and its place in the address: a link shows what its sender saw. */

/** What is chosen of one model. */
export interface Chosen {
  step: number;
  layer: number;
  channel: number;
  /** "" for the first of the layer, or for a cell without gates. */
  gate: string;
  /** Which steps are listed: 1, where the gate is most open; -1, most closed. */
  end: 1 | -1;
  /** What the channel is held at. */
  held: 0 | 1 | null;
}

export interface State {
  /** What is typed, of each model; null for the example of the first, and what the first reads of the others. */
  texts: (string | null)[];
  /** The guided situation; "" for none. */
  guide: string;
  linked: boolean;
  /** Widths of a step, as many as its label needs; 0 for what fits the page. */
  zoom: number;
  big: boolean;
  /** "" for the browser's. */
  lang: string;
  /** Of each model; null before anything was chosen. */
  chosen: (Chosen | null)[];
}

export const AT_START: Chosen = { step: 0, layer: 0, channel: 0, gate: "", end: 1, held: null };

/** The state of a page that nobody has touched. */
export function untouched(models: number): State {
  return {
    texts: Array(models).fill(null), guide: "", linked: true, zoom: 0, big: false, lang: "", chosen: Array(models).fill(null),
  };
}

/** The part of an address after `#`; what is as it was at the start is left out. Steps and layers count from 1, as in the page. */
export function written(state: State): string {
  const fields = new URLSearchParams();
  const put = (name: string, value: string | number, usual: string | number): void => {
    if (value !== usual) fields.set(name, String(value));
  };
  state.texts.forEach((text, n) => text !== null && fields.set(`text${suffix(n)}`, text));
  put("guide", state.guide, "");
  put("link", Number(state.linked), 1);
  put("zoom", state.zoom, 0);
  put("big", Number(state.big), 0);
  put("lang", state.lang, "");
  state.chosen.forEach((chosen, n) => {
    if (chosen === null) return;
    fields.set(`step${suffix(n)}`, String(chosen.step + 1));
    fields.set(`layer${suffix(n)}`, String(chosen.layer + 1));
    fields.set(`channel${suffix(n)}`, String(chosen.channel));
    put(`gate${suffix(n)}`, chosen.gate, "");
    put(`end${suffix(n)}`, chosen.end, 1);
    if (chosen.held !== null) fields.set(`held${suffix(n)}`, String(chosen.held));
  });
  return fields.toString();
}

/** What an address asks for; what is not there, or no such thing, is as at the start. */
export function parsed(hash: string, models: number): State {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const start = untouched(models);
  const whole = (name: string): number | null => (/^\d+$/.test(fields.get(name) ?? "") ? Number(fields.get(name)) : null);
  const zoom = Number(fields.get("zoom"));
  return {
    texts: start.texts.map((_, n) => fields.get(`text${suffix(n)}`)),
    guide: fields.get("guide") ?? "",
    linked: fields.get("link") !== "0",
    zoom: zoom > 0 && zoom <= 16 ? zoom : 0,
    big: fields.get("big") === "1",
    lang: fields.get("lang") ?? "",
    chosen: start.chosen.map((_, n) => {
      const end = suffix(n);
      const [step, layer, channel, held] = ["step", "layer", "channel", "held"].map((name) => whole(name + end));
      if (step === null && layer === null && channel === null) return null;
      return {
        step: Math.max(0, (step ?? 1) - 1), layer: Math.max(0, (layer ?? 1) - 1), channel: channel ?? 0,
        gate: fields.get(`gate${end}`) ?? "", end: fields.get(`end${end}`) === "-1" ? -1 : 1,
        held: held === 0 || held === 1 ? held : null,
      };
    }),
  };
}

function suffix(model: number): string {
  return model === 0 ? "" : String(model + 1);
}

/**
 * The step of other tokens at the same place of the text as `step`: the same where the tokens are, else after as many
 * letters.
 */
export function sameStep(shown: readonly string[], step: number, others: readonly string[]): number {
  if (shown.length === others.length && shown.every((token, n) => token === others[n])) return step;
  const letters = (token: string): number => token.replace(/^##|[\s␣⏎⇥]/g, "").length;
  const place = shown.slice(0, step + 1).reduce((sum, token) => sum + letters(token), 0);
  let read = 0;
  const found = others.findIndex((token) => (read += letters(token)) >= place);
  return found < 0 ? Math.max(0, others.length - 1) : found;
}
