/** The language of a page: the one that its address asks for, or the browser's. */

export type Language = "en" | "ko";

export function language(address: string, browser: string): Language {
  const asked = /[#?&]lang=(en|ko)\b/.exec(address)?.[1];
  return (asked as Language | undefined) ?? (browser.startsWith("ko") ? "ko" : "en");
}

/** What a page speaks until it is opened anew; tests without a browser read English. */
export const LANGUAGE: Language = typeof document === "undefined" ? "en" : language(location.href, navigator.language);
