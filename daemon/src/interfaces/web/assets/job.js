// One job: progress, curves, step time, evaluations, checkpoints and live log.

import { chart } from "./chart.js";
import { bar, el, progress, state, swap } from "./dom.js";
import { ago, bytes, clock, duration, fixed, number, percent } from "./format.js";

const PERIOD_MS = 2000;
const DRAW_PERIOD_MS = 300;
// Most lines of the log, and how many of them from before the page was opened.
const LINES_MAX = 1000;
const PAST_LINES = 300;
const POINTS_MAX = 2000;
// Most classes of a split that are shown.
const CLASSES_MAX = 20;
const ENDED = ["completed", "failed", "cancelled"];
const CURVES = [["Loss", "loss"], ["Learning rate", "learning_rate"], ["Gradient norm", "grad_norm"], ["Samples per second", "samples_per_second"]];

export function job(page, id) {
  const head = el("section");
  const charts = CURVES.map(([title, field]) => ({ field, ...chart(title) }));
  const time = el("section");
  const evaluations = el("section");
  const saves = el("section");
  const data = el("section");
  const log = el("pre", { class: "log", tabindex: 0, "aria-label": "log" });
  const lines = logOf(log);
  const file = el("pre");
  page.main.replaceChildren(head,
    el("div", { class: "grid charts" }, charts.map(({ root }) => root)), time, evaluations, saves, data,
    el("h2", {}, "Log"), log, el("details", {}, el("summary", {}, "Job file"), file));

  const known = { steps: [], evaluations: [], saves: [], parent: [] };
  const draw = atMostOnce(DRAW_PERIOD_MS, () => {
    drawCurves(charts, known);
    showTime(time, known.steps.at(-1));
    showEvaluations(evaluations, known.evaluations);
    showSaves(saves, known.saves);
    lines.show();
  });
  page.onResize(draw);
  let asked = false;
  follow(page, id, known, lines, draw);
  page.every(PERIOD_MS, async () => {
    const now = await page.get(`/api/jobs/${id}`);
    if (now.parent && !asked) {
      asked = true;
      // The curves of the job whose checkpoint this one started with, drawn beside its own.
      page.get(`/api/jobs/${now.parent.job_id}/curves`).then(({ steps }) => { known.parent = steps; draw(); }, () => {});
    }
    showHead(page, head, now);
    showData(data, now.data);
    file.textContent = now.job_file;
  });
}

// Past events are downsampled and loaded at once; new ones are streamed. The stream starts a little earlier, for the
// newest lines of the log.
async function follow(page, id, known, lines, draw) {
  const past = await page.get(`/api/jobs/${id}/curves`).catch(() => ({ steps: [], evaluations: [], saves: [], last_sequence: 0 }));
  Object.assign(known, past);
  draw();
  page.stream(`/api/jobs/${id}/events`, Math.max(1, past.last_sequence - PAST_LINES), (event) => {
    if (event.sequence > past.last_sequence) take(known, event);
    lines.add(event);
    draw();
  });
}

// A resumed attempt repeats some steps, which replace the earlier ones.
function take(known, { kind, data }) {
  if (kind === "step") {
    while (known.steps.length && known.steps.at(-1).step >= data.step) known.steps.pop();
    known.steps.push(data);
    // Removing every second point keeps the shape of the curve.
    if (known.steps.length > POINTS_MAX) known.steps = known.steps.filter((_, at) => at % 2 === 1);
  }
  if (kind === "evaluated") known.evaluations.push(data);
  if (kind === "saved") known.saves.push(data);
}

function atMostOnce(period, draw) {
  let asked = false;
  let last = 0;
  return () => {
    if (asked) return;
    asked = true;
    setTimeout(() => {
      asked = false;
      last = Date.now();
      draw();
    }, Math.max(0, last + period - Date.now()));
  };
}

// The log follows its end unless the user has scrolled up.
function logOf(place) {
  let fresh = [];
  return {
    add: (event) => fresh.push(event),
    show() {
      const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
      place.append(...fresh.slice(-LINES_MAX).map(({ kind, time, text }) =>
        el("div", {}, el("span", { class: "time" }, `${clock(time)}  `), el("span", { class: `log-${kind}` }, text))));
      fresh = [];
      while (place.childElementCount > LINES_MAX) place.firstChild.remove();
      if (atEnd) place.scrollTop = place.scrollHeight;
    },
  };
}

function showHead(page, head, job) {
  const step = job.progress;
  const share = step?.max_steps ? step.step / step.max_steps : 0;
  const over = ENDED.includes(job.state);
  const cancel = el("button", { class: "danger", onclick: async () => {
    if (confirm(`Cancel ${job.name}?`)) await page.post(`/api/jobs/${job.id}/cancel`);
  } }, "cancel job");
  const cores = job.cores.length ? `${job.platform} cores ${job.cores.join(", ")}` : `${job.core_count} ${job.platform} cores`;
  document.title = `${job.name}: ${job.state}`;
  swap(head, ...[
    el("div", { class: "row" }, el("h1", {}, job.name), state(job.state), el("span", { class: "push" }),
      el("a", { class: "button", href: `#/plan/${job.id}` }, "compare meshes"), over ? null : cancel),
    el("p", { class: "dim" }, `${job.id} by ${job.owner}, ${cores}, submitted ${ago(job.create_time)}${job.restarts ? `, restarted ${job.restarts} times` : ""}`),
    job.billed_seconds ? el("p", { class: "dim" }, billed(job)) : null,
    job.energy_joules !== undefined ? el("p", { class: "dim" }, `Used ${energy(job.energy_joules)}`) : null,
    job.parent ? el("p", { class: "dim" }, "Continues ", el("a", { href: `#/jobs/${job.parent.job_id}` }, job.parent.job_id), ` from step ${job.parent.step}`) : null,
    job.waiting_reason ? el("p", { class: "note card" }, `${job.queue_position ? `Number ${job.queue_position} in the queue. ` : ""}Waiting: ${job.waiting_reason}`) : null,
    job.failure ? el("p", { class: "note bad card" }, `${job.failure.reason}: ${job.failure.message}`) : null,
    ...job.warnings.map((warning) => el("p", { class: "note dim" }, warning)),
    step ? progress(share, "progress") : null,
    step ? tiles(step, share, over) : null,
    job.state === "completed" ? el("p", { class: "note" }, "Output: ", el("code", {}, job.output_dir)) : null,
  ].filter(Boolean));
}

function billed(job) {
  const cost = (price) => price * job.billed_seconds / 3600;
  const text = [`Held its cores for ${duration(job.billed_seconds)}`];
  if (job.price_per_hour !== undefined) text.push(`which cost ${cost(job.price_per_hour).toFixed(2)}`);
  if (job.on_demand_price_per_hour !== undefined) {
    text.push(`${cost(job.on_demand_price_per_hour - job.price_per_hour).toFixed(2)} less than on demand`);
  }
  return text.join(", ");
}

function energy(joules) {
  const wattHours = joules / 3600;
  if (wattHours >= 1000) return `${(wattHours / 1000).toFixed(2)} kWh`;
  return wattHours >= 1 ? `${wattHours.toFixed(1)} Wh` : `${joules.toFixed(0)} J`;
}

function tiles(step, share, over) {
  const tile = (value, name) => el("div", { class: "card tile" }, el("b", {}, value), el("span", {}, name));
  return el("div", { class: "tiles" },
    tile(percent(share), `step ${step.step} of ${step.max_steps}`),
    over ? tile(fixed(step.epoch, 2), "epochs") : tile(duration(step.eta_seconds), "left"),
    tile(number(step.loss), "loss"),
    tile(number(step.learning_rate), "learning rate"),
    tile(number(step.grad_norm), "gradient norm"),
    tile(fixed(step.samples_per_second, 1), "samples/s"),
    tile(fixed(step.tokens_per_second, 0), "tokens/s"));
}

function drawCurves(charts, known) {
  for (const { field, update } of charts) {
    const curves = [{ name: "training", color: 0, points: known.steps.map((step) => [step.step, step[field]]) }];
    if (known.parent.length) curves.push({ name: "parent", color: 2, points: known.parent.map((step) => [step.step, step[field]]) });
    if (field === "loss") {
      const points = known.evaluations.filter(({ metrics }) => "eval_loss" in metrics).map(({ step, metrics }) => [step, metrics.eval_loss]);
      if (points.length) curves.push({ name: "evaluation", points, dots: points.length < 3, color: 1 });
    }
    update(curves);
  }
}

function showTime(section, step) {
  if (!step) return swap(section);
  const parts = Object.entries(step.time);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!total) return swap(section);
  swap(section, el("h2", {}, "Step time"), el("div", { class: "card" },
    bar(parts.map(([, seconds], at) => [seconds / total, `k${at}`])),
    el("div", { class: "legend" }, parts.map(([name, seconds], at) =>
      el("span", {}, el("i", { class: `k${at}` }), `${name} ${percent(seconds / total)}, ${(seconds * 1000).toFixed(1)} ms`)))));
}

function showEvaluations(section, evaluations) {
  if (!evaluations.length) return swap(section);
  const names = [...new Set(evaluations.flatMap(({ metrics }) => Object.keys(metrics)))].sort();
  const rows = evaluations.toReversed().map((of) => el("tr", {}, el("td", {}, of.split), el("td", { class: "num" }, of.step),
    names.map((name) => el("td", { class: "num" }, number(of.metrics[name]))), el("td", { class: "dim num" }, duration(of.seconds))));
  const head = ["split", "step", ...names.map((name) => name.replace(/^eval_/, "")), "took"].map((title) => el("th", {}, title));
  swap(section, el("h2", {}, "Evaluations"),
    el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))));
}

function showSaves(section, saves) {
  if (!saves.length) return swap(section);
  const rows = saves.toReversed().map((of) => el("tr", {}, el("td", {}, of.kind), el("td", { class: "num" }, of.step),
    el("td", { class: "path" }, el("code", {}, of.path)), el("td", { class: "num" }, bytes(of.bytes)), el("td", { class: "dim num" }, duration(of.seconds))));
  const head = ["kind", "step", "folder", "size", "took"].map((title) => el("th", {}, title));
  swap(section, el("h2", {}, "Checkpoints and output"),
    el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))));
}

function showData(section, splits) {
  if (!splits?.length) return swap(section);
  const rows = splits.map((of) => el("tr", {}, el("td", {}, of.split), [of.rows, of.tokens, of.lengths?.p50, of.lengths?.p90, of.lengths?.p99, of.lengths?.max, of.truncated_rows]
    .map((value) => el("td", { class: "num" }, value)), el("td", { class: "path" }, classes(of))));
  const head = ["split", "rows", "tokens", "length p50", "p90", "p99", "max", "truncated", "classes"].map((title) => el("th", {}, title));
  swap(section, el("h2", {}, "Data"),
    el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))));
}

function classes({ classes = [], rows: all }) {
  const shown = classes.length > CLASSES_MAX ? classes.toSorted((one, other) => other.rows - one.rows).slice(0, CLASSES_MAX) : classes;
  const more = classes.length - shown.length;
  return shown.map(({ label, rows }) => `${label} ${rows} (${percent(rows / all)})`).join(", ") + (more ? ` and ${more} more` : "");
}
