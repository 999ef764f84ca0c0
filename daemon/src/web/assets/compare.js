// Several jobs beside each other: their losses in one chart, their results, and what their job files say differently.

import { chart } from "./chart.js";
import { el, state } from "./dom.js";
import { duration, number } from "./format.js";

export async function compare(page, ids) {
  page.main.replaceChildren(el("p", { class: "dim" }, "loading"));
  const found = await Promise.all(ids.map(async (id) => {
    const [job, curves] = await Promise.all([page.get(`/api/jobs/${id}`), page.get(`/api/jobs/${id}/curves`)]);
    return { job, ...curves };
  }));
  const losses = chart("Training loss", { tall: true });
  const scores = chart("Evaluation loss");
  page.main.replaceChildren(el("div", { class: "row" }, el("h1", {}, "Comparison")),
    el("p", { class: "dim" }, "Where the job files differ, their lines are marked."),
    losses.root, el("h2", {}, "Results"), results(found), scores.root, el("h2", {}, "Job files"), files(found));
  const draw = () => {
    losses.update(found.map(({ job, steps }) => ({ name: job.name, points: steps.map(({ step, loss }) => [step, loss]) })));
    scores.update(found.map(({ job, evaluations }) => ({
      name: job.name,
      points: evaluations.filter(({ metrics }) => "eval_loss" in metrics).map(({ step, metrics }) => [step, metrics.eval_loss]),
    })));
  };
  scores.root.hidden = !found.some(({ evaluations }) => evaluations.length > 1);
  draw();
  page.onResize(draw);
}

function grid(found, rows, mark) {
  const names = found.map(({ job }, at) =>
    el("th", {}, el("i", { class: `swatch k${at % 6}` }), el("a", { href: `#/jobs/${job.id}` }, job.name)));
  const body = rows.map(([name, values]) => el("tr", { class: mark && new Set(values).size > 1 ? "differs" : "" },
    el("td", { class: "dim" }, name), values.map((value) => el("td", { class: "num" }, value))));
  return el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, ""), names)), el("tbody", {}, body)));
}

function results(found) {
  const metrics = [...new Set(found.flatMap(({ job }) => Object.keys(job.metrics)))].sort();
  const took = ({ job }) => (job.start_time ? duration((job.end_time ?? Date.now() / 1000) - job.start_time) : "–");
  const table = grid(found, [
    ["steps", found.map(({ job }) => String(job.progress?.step ?? "–"))],
    ["loss", found.map(({ job }) => number(job.progress?.loss))],
    ["samples/s", found.map(({ job }) => job.progress?.samples_per_second.toFixed(1) ?? "–")],
    ["took", found.map(took)],
    ...metrics.map((name) => [name, found.map(({ job }) => number(job.metrics[name]))]),
  ], false);
  const states = el("tr", {}, el("td", { class: "dim" }, "state"), found.map(({ job }) => el("td", {}, state(job.state))));
  table.querySelector("tbody").prepend(states);
  return table;
}

// Lines as they stand in the job files: keys of a section carry its name.
function files(found) {
  const settings = found.map(({ job }) => keys(job.job_file));
  const names = [...new Set(settings.flatMap((of) => [...of.keys()]))];
  return grid(found, names.map((name) => [name, settings.map((of) => of.get(name) ?? "–")]), true);
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
