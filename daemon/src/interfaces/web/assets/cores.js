// A heat map of the cores by utilization.

import { el } from "./dom.js";
import { bytes } from "./format.js";

// Most cores that are shown with details.
const DETAILED_MAX = 32;

export function heatMap(cores) {
  const kind = cores.length > DETAILED_MAX ? "cores many" : "cores";
  return el("div", { class: kind }, cores.map(cell));
}

function cell(core) {
  const held = core.job_id !== "";
  const known = core.utilization_1s != null;
  const value = known ? `${Math.round(core.utilization_1s)} %` : held ? "…" : "free";
  const tag = held ? "a" : "div";
  const target = held ? { href: `#/jobs/${core.job_id}` } : {};
  const cell = el(tag, { class: "core", title: title(core), ...target },
    el("span", { class: "dim" }, `${core.host ? `${core.host}/` : ""}${core.platform}:${core.core}`),
    el("b", { class: "num" }, value),
    el("span", { class: "more dim" }, known ? details(core) : ""),
    el("span", { class: "more" }, core.job_name));
  cell.style.setProperty("--heat", known ? 0.06 + (core.utilization_1s / 100) * 0.5 : 0);
  return cell;
}

function details(core) {
  return [core.phase, bytes(core.memory_used_bytes), core.stage].filter(Boolean).join(", ");
}

function title(core) {
  const parts = [core.host ? `${core.host}, ${core.platform}:${core.core}` : core.device];
  if (core.job_name) parts.push(core.job_name);
  if (core.phase) parts.push(`${core.phase}, ${Math.round(core.utilization_1m)} % over the last minute`);
  if (core.tflops) parts.push(`${core.tflops.toPrecision(3)} TFLOP/s`);
  if (core.mfu) parts.push(`${core.mfu.toFixed(1)} % of its peak`);
  if (core.stage) parts.push(core.stage);
  if (core.communication) parts.push(`sends ${core.communication}`);
  if (core.temperature != null) parts.push(`${core.temperature} °C`);
  if (core.power != null) parts.push(`${core.power.toFixed(0)} W`);
  if (core.errors) parts.push(`${core.errors} errors`);
  return parts.join("\n");
}
