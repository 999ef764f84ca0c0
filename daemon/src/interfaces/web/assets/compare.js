// Several jobs side by side: their losses in one chart, their results, and the differences of their job files.

import { chart } from "./chart.js";
import { el, state } from "./dom.js";
import { duration, fixed, number } from "./format.js";

export async function compare(page, ids) {
  page.main.replaceChildren(el("p", { class: "dim" }, "loading"));
  const found = await Promise.all(ids.map(async (id) => {
    const [job, curves] = await Promise.all([page.get(`/api/jobs/${id}`), page.get(`/api/jobs/${id}/curves`)]);
    return { job, ...curves };
  }));
  const evaluates = found.some(({ evaluations }) => evaluations.length > 1);
  document.title = "comparison of jobs";
  const losses = chart("Training loss", { tall: true });
  const scores = chart("Evaluation loss");
  page.main.replaceChildren(el("div", { class: "row" }, el("h1", {}, "Comparison")),
    el("p", { class: "dim" }, "Lines in which the job files differ are marked."),
    losses.root, el("h2", {}, "Results"), results(found), el("h2", { hidden: !evaluates }, "Evaluations"), scores.root, el("h2", {}, "Job files"), files(found));
  const draw = () => {
    // The colours of the tables, whether or not every job has a curve.
    losses.update(found.map(({ job, steps }, at) => ({ name: job.name, color: at % 6, points: steps.map(({ step, loss }) => [step, loss]) })));
    scores.update(found.map(({ job, evaluations }, at) => ({
      name: job.name,
      color: at % 6,
      points: evaluations.filter(({ metrics }) => "eval_loss" in metrics).map(({ step, metrics }) => [step, metrics.eval_loss]),
    })));
  };
  scores.root.hidden = !evaluates;
  draw();
  page.onResize(draw);
}

function grid(found, rows, mark) {
  const names = found.map(({ job }, at) =>
    el("th", { scope: "col", class: "name" }, el("i", { class: `swatch k${at % 6}` }), el("a", { href: `#/jobs/${job.id}` }, job.name)));
  const body = rows.map(([name, values]) => el("tr", { class: mark && new Set(values).size > 1 ? "differs" : "" },
    el("td", { class: "dim" }, name), values.map((value) => el("td", { class: "num why" }, value))));
  return el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, ""), names)), el("tbody", {}, body)));
}

function results(found) {
  const metrics = [...new Set(found.flatMap(({ job }) => Object.keys(job.metrics)))].sort();
  const took = ({ job }) => (job.start_time ? duration((job.end_time ?? Date.now() / 1000) - job.start_time) : "–");
  const table = grid(found, [
    ["steps", found.map(({ job }) => String(job.progress?.step ?? "–"))],
    ["loss", found.map(({ job }) => number(job.progress?.loss))],
    ["samples/s", found.map(({ job }) => fixed(job.progress?.samples_per_second, 1))],
    ["took", found.map(took)],
    ...metrics.map((name) => [name, found.map(({ job }) => number(job.metrics[name]))]),
  ], false);
  const states = el("tr", {}, el("td", { class: "dim" }, "state"), found.map(({ job }) => el("td", {}, state(job.state))));
  table.querySelector("tbody").prepend(states);
  return table;
}

// The settings of the job files, with the names of their sections.
function files(found) {
  const settings = found.map(({ job }) => (job.job_file.trimStart().startsWith("{") ? members(job.job_file) : keys(job.job_file)));
  const names = [...new Set(settings.flatMap((of) => [...of.keys()]))];
  return grid(found, names.map((name) => [name, settings.map((of) => of.get(name) ?? "–")]), true);
}

// A job file may be JSON, which is YAML too.
function members(json) {
  const found = new Map();
  const visit = (value, path) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      for (const [key, member] of Object.entries(value)) visit(member, path ? `${path}.${key}` : key);
    } else found.set(path, JSON.stringify(value));
  };
  try {
    visit(JSON.parse(json), "");
  } catch {
    return keys(json);
  }
  return found;
}

function keys(yaml) {
  const found = new Map();
  let path = [];
  for (const line of yaml.split("\n")) {
    const match = line.match(/^(\s*)([A-Za-z_][\w.-]*):\s*(.*?)\s*(?:\s#.*)?$/);
    if (!match) continue;
    const [, indent, key, value] = match;
    path = [...path.filter((of) => of.indent < indent.length), { indent: indent.length, key }];
    if (value) found.set(path.map((of) => of.key).join("."), value);
  }
  return found;
}
