// Building elements. Text is always set as text: nothing that a job says is taken for markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

// A bar of parts: pairs of a share, 0 to 1, and a class.
export function bar(parts) {
  return el("div", { class: "bar" }, parts.map(([share, kind]) => {
    const part = el("i", { class: kind });
    part.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    return part;
  }));
}

export function state(name) {
  return el("span", { class: `state ${name}` }, name);
}
