// Line charts in SVG, with axes, a legend, and the values at the pointer.

import { el, svg } from "./dom.js";
import { number } from "./format.js";

const WIDTH = 640;
const LEFT = 52;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;

// A curve is { name, points: [[x, y]], dots }. `update` replaces the curves.
export function chart(title, { tall = false } = {}) {
  const height = tall ? 320 : 190;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `curve of ${title.toLowerCase()}` });
  const tip = el("div", { class: "tip", hidden: true });
  const legend = el("div", { class: "legend" });
  const root = el("figure", { class: `card chart${tall ? " tall" : ""}` }, el("h3", {}, title), drawing, tip, legend);
  root.style.margin = "0";
  let shown = [];
  let scale = null;

  function update(curves) {
    shown = curves.filter((curve) => curve.points.some(isFinitePoint));
    // Drawn in the displayed size, so that text is not distorted.
    const width = drawing.clientWidth || WIDTH;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawing.replaceChildren();
    legend.replaceChildren(...(curves.length > 1 ? shown.map((curve, at) =>
      el("span", {}, el("i", { class: `k${curve.color ?? at % 6}` }), curve.name)) : []));
    if (!shown.length) {
      drawing.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, curves.some((curve) => curve.points.length) ? "no finite values" : "no values yet"));
      return;
    }
    scale = scales(shown, width, height);
    drawing.append(...axes(scale, width, height), ...shown.flatMap((curve, at) => line(curve, curve.color ?? at % 6, scale)));
  }

  drawing.addEventListener("pointermove", (event) => {
    if (!shown.length) return;
    const at = event.clientX - drawing.getBoundingClientRect().left;
    const x = scale.toX(at);
    const found = shown.map((curve) => [curve, nearest(curve.points, x)]);
    drawing.querySelector(".hair")?.remove();
    const place = scale.x(found[0][1][0]);
    drawing.append(svg("line", { class: "hair", x1: place, x2: place, y1: TOP, y2: height - BOTTOM }));
    tip.hidden = false;
    tip.textContent = found.map(([curve, [step, value]]) => `${shown.length > 1 ? `${curve.name} ` : ""}step ${step}: ${number(value)}`).join("\n");
    tip.style.whiteSpace = "pre";
  });
  drawing.addEventListener("pointerleave", () => {
    tip.hidden = true;
    drawing.querySelector(".hair")?.remove();
  });
  return { root, update };
}

// A small curve without axes.
export function sparkline(points) {
  const drawing = svg("svg", { class: "spark", viewBox: "0 0 300 46", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (points.length > 1) {
    const [x, y] = [range(points.map(([x]) => x)), range(points.map(([, y]) => y))];
    const place = ([px, py]) => `${(((px - x.low) / x.size) * 298 + 1).toFixed(1)},${(43 - ((py - y.low) / y.size) * 40).toFixed(1)}`;
    drawing.append(...unbroken(points).map((part) =>
      svg("polyline", { class: "k0", points: part.map(place).join(" "), fill: "none", "stroke-width": 1.6, "vector-effect": "non-scaling-stroke" })));
  }
  return drawing;
}

function isFinitePoint([, y]) {
  return Number.isFinite(y);
}

// Splits a curve at points that are not finite.
function unbroken(points) {
  const parts = [[]];
  for (const point of points) {
    if (isFinitePoint(point)) parts.at(-1).push(point);
    else if (parts.at(-1).length) parts.push([]);
  }
  return parts.filter((part) => part.length);
}

// The range of values; equal values are in its middle.
function range(values) {
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const around = low === high ? Math.abs(low) / 10 || 1 : 0;
  return { low: low - around, high: high + around, size: high - low + 2 * around };
}

function scales(curves, width, height) {
  const points = curves.flatMap((curve) => curve.points);
  const [x, y] = [range(points.map(([x]) => x)), range(points.map(([, y]) => y))];
  const across = width - LEFT - RIGHT;
  const down = height - TOP - BOTTOM;
  return {
    xRange: x,
    yRange: y,
    x: (value) => LEFT + ((value - x.low) / x.size) * across,
    y: (value) => TOP + (1 - (value - y.low) / y.size) * down,
    toX: (place) => x.low + ((place - LEFT) / across) * x.size,
  };
}

function axes(scale, width, height) {
  const marks = ticks(scale.yRange, 4);
  const across = marks.flatMap((value) => {
    const y = scale.y(value);
    return [
      svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
      svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, short(value, marks[1] - marks[0])),
    ];
  });
  const down = ticks(scale.xRange, Math.max(2, Math.floor(width / 110))).filter((value) => Number.isInteger(value) && value >= 0).map((value) => {
    const x = scale.x(value);
    // The last label would extend beyond the edge.
    const isLast = x > width - RIGHT - 4 * String(value).length;
    return svg("text", { x: isLast ? width : x, y: height - 5, "text-anchor": isLast ? "end" : "middle" }, String(value));
  });
  return [...across, ...down];
}

function ticks({ low, size }, count) {
  const rough = size / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: count + 2 }, (_, at) => Number(((first + at) * step).toPrecision(12)))
    .filter((value) => value <= low + size * (1 + 1e-9));
}

// Formats with as many digits as distinguish it from its neighbours.
function short(value, step) {
  const size = Math.abs(value);
  const digits = Math.min(8, Math.max(1, Math.ceil(Math.log10(size / step || 1) + 1e-9) + 1));
  if (size >= 1e4 || (size > 0 && size < 1e-3)) return value.toExponential(digits - 1).replace(/\.?0*e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(Math.max(digits, 3))));
}

function line(curve, color, scale) {
  return unbroken(curve.points).flatMap((part) => {
    if (curve.dots || part.length === 1) {
      return part.map(([x, y]) => svg("circle", { class: `k${color}`, cx: scale.x(x), cy: scale.y(y), r: 3.2 }));
    }
    const points = part.map(([x, y]) => `${scale.x(x).toFixed(1)},${scale.y(y).toFixed(1)}`);
    return [svg("polyline", { class: `line k${color}`, points: points.join(" ") })];
  });
}

function nearest(points, x) {
  return points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
}
