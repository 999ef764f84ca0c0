// Creates elements. Text is always set as text, so that text of jobs is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

const HANDLERS = ["onclick", "onchange"];

// Replaces the children of a place. Unchanged elements are kept, so that focus, selection and scroll positions survive;
// children with a `data-key` keep their elements when they move.
export function swap(place, ...children) {
  const keyed = new Map([...place.children].filter((old) => old.dataset.key).map((old) => [old.dataset.key, old]));
  children.forEach((child, at) => {
    const fresh = typeof child === "string" ? document.createTextNode(child) : child;
    const here = place.childNodes[at];
    const key = fresh.dataset?.key;
    const old = key ? keyed.get(key) : here?.dataset?.key ? null : here;
    if (!old || old.nodeName !== fresh.nodeName) return place.insertBefore(fresh, here ?? null);
    if (old !== here) place.insertBefore(old, here ?? null);
    become(old, fresh);
  });
  while (place.childNodes.length > children.length) place.lastChild.remove();
}

function become(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const handler of HANDLERS) old[handler] = fresh[handler];
  if ("checked" in fresh) old.checked = fresh.checked;
  swap(old, ...fresh.childNodes);
}

// A progress bar, 0 to 1.
export function progress(share, name) {
  const attributes = { role: "progressbar", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(share * 100) };
  return bar([[share, ""]], attributes);
}

// A bar of parts: pairs of a share, 0 to 1, and a class.
export function bar(parts, attributes = {}) {
  return el("div", { class: "bar", ...attributes }, parts.map(([share, kind]) => {
    const part = el("i", { class: kind });
    part.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    return part;
  }));
}

export function state(name) {
  return el("span", { class: `state ${name}` }, name);
}
