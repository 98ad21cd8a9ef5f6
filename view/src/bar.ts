/** The controls of the whole page: what is linked, steps, widths, size, language, the link and the guided situations. */

import { make } from "./dom.ts";
import { LANGUAGE } from "./language.ts";
import type { Situation } from "./situations.ts";
import type { State } from "./state.ts";
import { say } from "./words.ts";

/** Widths of a step to choose from, in what it needs. */
const WIDTHS = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4];

export interface Controls {
  link(linked: boolean): void;
  move(by: number): void;
  play(): void;
  /** Whether the reader wants less motion, so that nothing is played. */
  still: boolean;
  zoom(to: number): void;
  /** How wide a step is, in what it needs. */
  scaled(): number;
  big(big: boolean): void;
  language(): void;
  guide(situation: Situation): void;
  reset(): void;
  /** The address of what is shown. */
  address(): string;
}

export class Bar {
  readonly root = make("div");

  constructor(
    private readonly controls: Controls,
    models: number,
    situations: readonly Situation[],
  ) {
    const button = (name: string, text: string): string => `<button type="button" class="${name}">${text}</button>`;
    const check = (name: string, text: string): string => `<label><input type="checkbox" class="${name}"> ${text}</label>`;
    this.root.innerHTML = `
      <div class="row" role="group" aria-label="${say.controls}">
        ${check("link", say.link)}
        <span class="together" role="group" aria-label="${say.steps}">${button("step-previous", `◀ ${say.previous}`)}${button("play", `▶ ${say.play}`)}${button("step-next", `${say.next} ▶`)}</span>
        <span class="together" role="group" aria-label="${say.zoom}"><span class="quiet" aria-hidden="true">${say.zoom}</span>${button("narrower", "−")}${button("fit", say.fit)}${button("wider", "+")}</span>
        ${check("big", say.big)}
        ${button("copy", say.copy)}
        ${button("language", say.language)}
      </div>
      <p class="link-says" role="status"></p>
      <div class="row guides" role="group" aria-label="${say.guided}"><span class="quiet" aria-hidden="true">${say.guided}:</span></div>
      <p class="guide-says" role="status"></p>`;
    this.find(".narrower").setAttribute("aria-label", say.narrower);
    this.find(".wider").setAttribute("aria-label", say.wider);
    this.find(".language").setAttribute("lang", LANGUAGE === "ko" ? "en" : "ko");
    const on = (selector: string, does: () => void): void => this.find(selector).addEventListener("click", does);
    on(".link", () => controls.link(this.find<HTMLInputElement>(".link").checked));
    on(".big", () => controls.big(this.find<HTMLInputElement>(".big").checked));
    on(".step-previous", () => controls.move(-1));
    on(".step-next", () => controls.move(1));
    on(".play", () => controls.play());
    on(".fit", () => controls.zoom(0));
    on(".narrower", () => controls.zoom(WIDTHS.filter((width) => width < controls.scaled() - 0.01).at(-1) ?? WIDTHS[0]!));
    on(".wider", () => controls.zoom(WIDTHS.find((width) => width > controls.scaled() + 0.01) ?? WIDTHS.at(-1)!));
    on(".language", () => controls.language());
    on(".copy", () => void this.copy());
    if (models < 2) this.find(".link").closest("label")!.remove();
    if (controls.still) this.find(".play").remove();
    const guides = this.find(".guides");
    for (const situation of situations) {
      const guide = make("button", { type: "button", "data-guide": situation.name }, say.situations[situation.name]![0]);
      guide.addEventListener("click", () => controls.guide(situation));
      guides.append(guide);
    }
    if (situations.length === 0) guides.replaceChildren();
    guides.insertAdjacentHTML("beforeend", button("reset", say.reset));
    on(".reset", () => controls.reset());
  }

  show({ linked, zoom, big, guide }: State): void {
    const link = this.root.querySelector<HTMLInputElement>(".link");
    if (link !== null) link.checked = linked;
    this.find<HTMLInputElement>(".big").checked = big;
    this.find(".fit").setAttribute("aria-pressed", String(zoom === 0));
    for (const button of this.root.querySelectorAll<HTMLElement>("[data-guide]")) {
      button.setAttribute("aria-pressed", String(button.dataset["guide"] === guide));
    }
    this.find(".guide-says").textContent = say.situations[guide]?.[1] ?? "";
  }

  playing(playing: boolean): void {
    const button = this.root.querySelector(".play");
    if (button !== null) button.textContent = playing ? `■ ${say.stop}` : `▶ ${say.play}`;
  }

  /** To the clipboard, or, where a page may not write there, into a field to copy from. */
  private async copy(): Promise<void> {
    const says = this.find(".link-says");
    const address = this.controls.address();
    try {
      await navigator.clipboard.writeText(address);
      says.textContent = say.copied;
    } catch {
      const label = make("label", {}, `${say.copyThis} `);
      const field = make("input", { readonly: "", class: "address" }) as HTMLInputElement;
      field.value = address;
      label.append(field);
      says.replaceChildren(label);
      field.select();
    }
  }

  private find<E extends Element = Element>(selector: string): E {
    return this.root.querySelector<E>(selector)!;
  }
}
