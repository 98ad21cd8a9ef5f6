/** Three texts to begin a lecture with, each with what to look at. */

import type { Name } from "./presets.ts";
import type { Reader } from "./reading.ts";
import type { State } from "./state.ts";

export interface Situation {
  /** Of its name and its sentence in `words.ts`, and of the preset that it begins with. */
  name: Name;
  text: string;
}

const SITUATIONS: Situation[] = [
  { name: "stop", text: "The gate opens. The state remembers. The gate closes again. It opens again." },
  { name: "memory", text: "The gate opens (it remembers the state, and the state is as large as it can be) and closes again." },
  { name: "surprise", text: "The gate opens and the gate closes and the gate zyxqb opens and the gate closes again." },
];
/** Share of tokens at most that a model may lack of a text that is made for it. */
const STRANGE = 0.1;

/** Those that models of English text can read. */
export function situations(readers: readonly Reader[], predicts: boolean): Situation[] {
  return SITUATIONS.filter(({ name, text }) => (predicts || name !== "surprise") && readers.every((reader) => {
    const { unknown, read } = reader.read(text);
    return unknown <= STRANGE * read.length;
  }));
}

/**
 * A state with the text of the situation that it names. It names none where these models have no such situation, or where
 * its text is another one: the situation's sentence speaks of its own text.
 */
export function guidedBy(found: readonly Situation[], state: State): State {
  const text = found.find(({ name }) => name === state.guide)?.text;
  const [given = null, ...others] = state.texts;
  if (text === undefined || (given !== null && given !== text)) return { ...state, guide: "" };
  return { ...state, texts: [text, ...others] };
}
