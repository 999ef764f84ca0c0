// The overview: cores, active jobs, waiting jobs with their reasons, and finished jobs.

import { heatMap } from "./cores.js";
import { sparkline } from "./chart.js";
import { el, progress, state, swap } from "./dom.js";
import { ago, duration, fixed, number, percent, until } from "./format.js";

const ACTIVE = ["running", "starting", "cancelling"];
const PERIOD_MS = 2000;
const CURVE_PERIOD_MS = 6000;

export function overview(page) {
  const cores = el("section");
  const active = el("section");
  const waiting = el("section");
  const ended = el("section");
  page.main.replaceChildren(cores, active, waiting, ended);
  const curves = new Map();
  const selected = new Set();

  async function refresh() {
    const { host, user, ...now } = await page.get("/api/overview");
    const own = now.cores.filter((core) => !core.host);
    const others = now.cores.filter((core) => core.host);
    page.setHeader(`${own.length} ${host.platform} cores, ${host.device}`, user);
    const held = own.filter((core) => core.job_id).length;
    swap(cores, el("h2", {}, `Cores: ${held} of ${own.length} held`), heatMap(own),
      ...(others.length ? [el("h2", {}, `On other hosts: ${others.length}`), heatMap(others)] : []));
    const inState = (...states) => now.jobs.filter((job) => states.includes(job.state));
    const running = inState(...ACTIVE);
    follow(running);
    swap(active, el("h2", {}, `Active: ${running.length}`), running.length
      ? el("div", { class: "grid" }, running.map((job) => card(job, curves.get(job.id)?.points ?? [])))
      : el("p", { class: "dim" }, "no active jobs"));
    showWaiting(waiting, inState("pending"), now.more_wait);
    showEnded(ended, inState("completed", "failed", "cancelled"), selected);
  }

  // Curves change slowly, so they are requested less often.
  function follow(jobs) {
    for (const job of jobs) {
      const known = curves.get(job.id);
      if (known && Date.now() - known.at < CURVE_PERIOD_MS) continue;
      curves.set(job.id, { at: Date.now(), points: known?.points ?? [] });
      page.get(`/api/jobs/${job.id}/curves`).then(({ steps }) => {
        curves.set(job.id, { at: Date.now(), points: steps.map(({ step, loss }) => [step, loss]) });
      }).catch(() => {});
    }
  }

  page.every(PERIOD_MS, refresh);
}

function card(job, points) {
  const step = job.progress;
  const share = step?.max_steps ? step.step / step.max_steps : 0;
  return el("article", { class: "card job-card", "data-key": job.id },
    el("div", { class: "row" }, el("a", { href: `#/jobs/${job.id}` }, job.name), state(job.state)),
    progress(share, `progress of ${job.name}`),
    el("div", { class: "row num dim" },
      el("span", {}, step ? `${step.step} of ${step.max_steps}, ${percent(share)}` : "preparing"),
      el("span", {}, step ? `${duration(step.eta_seconds)} left` : "")),
    sparkline(points),
    el("div", { class: "row num" },
      el("span", {}, step ? `loss ${number(step.loss)}` : ""),
      el("span", { class: "dim" }, step ? `${fixed(step.samples_per_second, 1)} samples/s` : "")));
}

function showWaiting(section, jobs, more) {
  if (!jobs.length) return swap(section);
  // By position in the queue; jobs without one are last, in the order of submission.
  const place = (job) => job.queue_position || Infinity;
  const inOrder = jobs.toReversed().toSorted((a, b) => (place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0));
  const rows = inOrder.map((job) => el("tr", { "data-key": job.id },
    el("td", { class: "dim num" }, String(job.queue_position || "–")),
    el("td", { class: "name" }, el("a", { href: `#/jobs/${job.id}` }, job.name)),
    el("td", { class: "why" }, job.waiting_reason || "about to start"),
    el("td", { class: "num wide" }, until(job.estimated_start_time)),
    el("td", { class: "dim wide" }, job.owner),
    el("td", { class: "dim num" }, ago(job.create_time))));
  const title = more ? `Waiting: the newest ${jobs.length}` : `Waiting: ${jobs.length}`;
  swap(section, el("h2", {}, title), table(["", "job", "reason", "starts", "owner", "submitted"], rows, [3, 4]));
}

function showEnded(section, jobs, selected) {
  if (!jobs.length) return swap(section);
  const compare = el("button", { onclick: () => { location.hash = `#/compare/${[...selected].join(",")}`; } }, "compare selected");
  compare.disabled = selected.size < 2;
  const changed = () => { section.querySelector("button").disabled = selected.size < 2; };
  const rows = jobs.map((job) => el("tr", { "data-key": job.id },
    el("td", {}, choice(job, selected, changed)),
    el("td", { class: "name" }, el("a", { href: `#/jobs/${job.id}` }, job.name)),
    el("td", {}, state(job.state)),
    el("td", { class: "num why" }, el("div", { class: "clamped" }, remark(job))),
    el("td", { class: "dim num wide" }, duration(job.end_time - (job.start_time ?? job.end_time))),
    el("td", { class: "dim num" }, ago(job.end_time))));
  swap(section,
    el("div", { class: "row" }, el("h2", {}, "Ended"), el("span", { class: "push" }), compare),
    table(["", "job", "state", "result", "took", "ended"], rows, [4]));
}

function choice(job, selected, changed) {
  const box = el("input", { type: "checkbox", "aria-label": `compare ${job.name}`, onchange: ({ target }) => {
    if (target.checked) selected.add(job.id);
    else selected.delete(job.id);
    changed();
  } });
  box.checked = selected.has(job.id);
  return box;
}

function remark(job) {
  if (job.failure) return `${job.failure.reason}: ${oneLine(job.failure.message)}`;
  const evaluated = Object.entries(job.metrics).filter(([name]) => name.startsWith("eval_") && !name.endsWith("_per_second") && name !== "eval_runtime");
  if (evaluated.length) return evaluated.slice(0, 3).map(([name, value]) => `${name.slice(5)} ${number(value)}`).join(", ");
  return job.progress ? `loss ${number(job.progress.loss)}` : "";
}

// The first line, with the last one of a runner's output where it introduces them.
function oneLine(message) {
  const [first, ...lines] = message.split("\n");
  const said = lines.filter((line) => /[\p{L}\p{N}]/u.test(line) && !line.trim().startsWith("note: "));
  return first.endsWith("; its last lines:") && said.length ? `${first} ${said.at(-1).trim()}` : first;
}

function table(titles, rows, wide) {
  const head = titles.map((title, at) => el("th", { scope: "col", class: wide.includes(at) ? "wide" : null }, title));
  return el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}
