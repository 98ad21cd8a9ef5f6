/** Elements by their name, attributes and text. */
export function make(name: string, attributes: Record<string, string> = {}, text = ""): HTMLElement {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}
