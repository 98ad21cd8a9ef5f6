/** Text to the tokens that a model reads, and back to what is shown above each step. */

import { Tokenizer } from "@huggingface/tokenizers";
import type { Model } from "./models.ts";

/** Steps at most: a longer text is cut, with a note. */
export const LONGEST = 4000;

export interface Reading {
  /** What the model reads, the token before the text included. */
  read: number[];
  /** What stands above each step. */
  shown: string[];
  /** How many tokens the vocabulary lacks. */
  unknown: number;
  /** How many steps were cut off. */
  cut: number;
  /** Why nothing can be read. */
  fault: string | null;
}

const NOTHING = { read: [], shown: [], unknown: 0, cut: 0 };

export class Reader {
  private readonly tokenizer: Tokenizer | null;

  constructor(private readonly model: Model) {
    const given = model.tokenizer;
    this.tokenizer = given === null ? null : new Tokenizer(given.json, given.config);
  }

  read(text: string): Reading {
    if (text.trim() === "") return { ...NOTHING, fault: "The text is empty: type one." };
    const found = this.tokenizer === null ? symbols(text, this.model.symbols) : this.tokens(text, this.tokenizer);
    const cut = Math.max(0, found.read.length - LONGEST);
    return { ...found, read: found.read.slice(0, LONGEST), shown: found.shown.slice(0, LONGEST), cut };
  }

  /** The text of a token. */
  word(token: number): string {
    return this.tokenizer === null ? String(token) : visible(this.tokenizer.id_to_token(token) ?? "");
  }

  private tokens(text: string, tokenizer: Tokenizer): Reading {
    const { begin, unknown: unk, tokenizer: given } = this.model;
    const read = begin === null ? [] : [begin];
    const shown = begin === null ? [] : [""];
    let unknown = 0;
    const pieces = given!.by_line ? text.split("\n") : [text];
    pieces.forEach((piece, line) => {
      if (line > 0 && begin !== null) {
        read.push(begin);
        shown.push("⏎");
      }
      const { ids, tokens } = tokenizer.encode(piece, { add_special_tokens: false });
      ids.forEach((id, n) => {
        read.push(id);
        shown.push(visible(tokens[n] ?? ""));
        if (id === unk) unknown++;
      });
    });
    return { read, shown, unknown, cut: 0, fault: null };
  }
}

function visible(token: string): string {
  return token.replace(/[ Ġ]/g, "␣").replace(/[\nĊ]/g, "⏎").replace(/\t/g, "⇥");
}

/** Numbers of tokens: digits one after another where there are ten tokens at most, else with spaces between them. */
export function symbols(text: string, count: number): Reading {
  const pieces = count <= 10 ? text.replace(/\s/g, "").split("") : text.trim().split(/\s+/);
  const read = pieces.map(Number);
  const wrong = pieces.filter((_, n) => !Number.isInteger(read[n]) || read[n]! < 0 || read[n]! >= count);
  if (wrong.length > 0) {
    return { ...NOTHING, fault: `This model reads 0 to ${count - 1}, not ${wrong.slice(0, 3).join(", ")}.` };
  }
  return { read, shown: pieces, unknown: 0, cut: 0, fault: null };
}
