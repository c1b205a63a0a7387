// Elements without HTML text: whatever comes from the data is set as text and can be nothing else.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** make("p", { class: "small", hidden: true }, "text", child, …) */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const STAR = "M12 2.6l2.85 5.95 6.55.85-4.8 4.52 1.22 6.48L12 17.25 6.18 20.4l1.22-6.48L2.6 9.4l6.55-.85z";

/** A star, or its left or right half. */
export function star(half) {
  const viewBox = { left: "0 0 12 24", right: "12 0 12 24" }[half] ?? "0 0 24 24";
  const shape = { viewBox, class: half ? `star-shape ${half}` : "star-shape", "aria-hidden": "true" };
  return draw("svg", shape, draw("path", { d: STAR }));
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Say something to screen readers, once things have come to rest. */
let waiting = 0;
export function announce(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => (byId("status").textContent = text), 350);
}
