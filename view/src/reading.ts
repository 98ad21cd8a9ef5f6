/** Text to the tokens that a model reads, and back to what is shown above each step. */

import { Tokenizer } from "@huggingface/tokenizers";
import type { Model } from "./models.ts";
import { say } from "./words.ts";

/** Steps at most: a longer text is cut, with a note. */
export const LONGEST = 4000;

/** What a model reads at a step: the number of a token, or numbers. */
export type Row = ArrayLike<number>;

export interface Reading {
  /** What the model reads, the token before the text included. */
  read: Row[];
  /** What stands above each step. */
  shown: string[];
  /** How many tokens the vocabulary lacks. */
  unknown: number;
  /** How many steps were cut off. */
  cut: number;
  /** Why nothing can be read. */
  fault: string | null;
}

const MISSING = /^(nan|na|\?)$/i;
const NOTHING = { read: [], shown: [], unknown: 0, cut: 0 };

export class Reader {
  private readonly tokenizer: Tokenizer | null;

  constructor(private readonly model: Model) {
    const given = model.tokenizer;
    this.tokenizer = given === null ? null : new Tokenizer(given.json, given.config);
  }

  read(text: string): Reading {
    if (text.trim() === "") return { ...NOTHING, fault: say.nothing };
    const found = this.found(text);
    const cut = Math.max(0, found.read.length - LONGEST);
    return { ...found, read: found.read.slice(0, LONGEST), shown: found.shown.slice(0, LONGEST), cut };
  }

  /** The text of a token. */
  word(token: number): string {
    return this.tokenizer === null ? String(token) : visible(this.tokenizer.id_to_token(token) ?? "");
  }

  private found(text: string): Reading {
    if (this.tokenizer !== null) return this.tokens(text, this.tokenizer);
    return this.model.reads === "symbols" ? symbols(text, this.model.symbols) : numbers(text, this.model);
  }

  private tokens(text: string, tokenizer: Tokenizer): Reading {
    const { begin, unknown: unk, tokenizer: given } = this.model;
    const read = begin === null ? [] : [[begin]];
    const shown = begin === null ? [] : [""];
    let unknown = 0;
    const pieces = given!.by_line ? text.split("\n") : [text];
    pieces.forEach((piece, line) => {
      if (line > 0 && begin !== null) {
        read.push([begin]);
        shown.push("⏎");
      }
      const { ids, tokens } = tokenizer.encode(piece, { add_special_tokens: false });
      ids.forEach((id, n) => {
        read.push([id]);
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
    return { ...NOTHING, fault: say.onlySymbols(count, wrong.slice(0, 3).join(", ")) };
  }
  return { read: read.map((one) => [one]), shown: pieces, unknown: 0, cut: 0, fault: null };
}

/** Numbers with spaces, commas, semicolons or tabs between them, a line a step where a step has several of them. */
export function numbers(text: string, { columns, missing, answers }: Pick<Model, "columns" | "missing" | "answers">): Reading {
  const pieces = (line: string): string[] => line.split(/[\s,;]+/).filter((piece) => piece !== "");
  const lines = columns === 1 ? pieces(text).map((piece) => [piece]) : text.trim().split("\n").map(pieces);
  const fault = (said: string): Reading => ({ ...NOTHING, fault: said });
  const mixed = text.split("\n").findIndex((line) => /\d,\d/.test(line) && /\d[ \t;]+[-+.\d]/.test(line));
  if (mixed >= 0) return fault(say.commas(mixed + 1));
  const read = lines.map((line) => line.map((piece) => (MISSING.test(piece) ? NaN : Number(piece))));
  for (const [n, line] of lines.entries()) {
    if (line.length !== columns) return fault(say.columnsOf(n + 1, line.length, columns));
    const wrong = line.find((piece, c) => (missing && MISSING.test(piece) ? false : !Number.isFinite(read[n]![c]!)));
    if (wrong !== undefined) return fault(say.noNumber(n + 1, wrong, missing));
  }
  if (answers === "forecast" && Number.isNaN(read[0]![0]!)) return fault(say.begins);
  return { read, shown: lines.map((line) => line[0]!), unknown: 0, cut: 0, fault: null };
}

/** Whether tokens are words or their pieces, which hold no space between them; characters and subwords do. */
export function areWords(tokens: readonly string[]): boolean {
  return tokens.some((token) => token.length > 1) && !tokens.some((token) => /\s/.test(token));
}
