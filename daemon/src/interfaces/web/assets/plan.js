// A job file, the machines to plan it for, and the meshes that their cores can form, the best first.

import { bar, el, swap } from "./dom.js";
import { bytes, fixed, percent } from "./format.js";

const NUMBERS = { min: 0, type: "number", placeholder: "as the job" };
// Values of the platform and the device.
const MACHINES = [
  ["", "", "as the job"], ["cpu", "", "CPU cores like this host's"],
  ["neuron", "trn1", "trn1"], ["neuron", "trn2", "trn2"],
  ["cuda", "h100", "H100"], ["cuda", "h200", "H200"], ["cuda", "a100-80", "A100, 80 GB"], ["cuda", "a100-40", "A100, 40 GB"], ["cuda", "v100", "V100"],
];
const OF_STEP = [["compute", "compute_seconds"], ["communication", "communication_seconds"], ["idle", "idle_seconds"]];
const OF_CORE = [["weights", "weights_bytes"], ["gradients", "gradients_bytes"], ["optimizer", "optimizer_bytes"], ["activations", "activations_bytes"]];

// With the id of a job, the form starts with its job file.
export async function plan(page, id) {
  const start = id ? await page.get(`/api/jobs/${id}`) : { job_file: "", base_dir: "" };
  document.title = "plan";
  const fields = form(start);
  const found = el("section", { "aria-live": "polite" });
  const button = el("button", { type: "submit" }, "compare meshes");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    swap(found, el("p", { class: "dim" }, "recording programs; this can take a minute"));
    const shown = await page.ask("/api/plan", asked(fields)).then(results, (error) => [el("p", { class: "note bad card" }, error.message)]);
    swap(found, ...shown);
    button.disabled = false;
  };
  page.main.replaceChildren(el("h1", {}, start.name ? `Plan of ${start.name}` : "Plan"),
    el("p", { class: "dim" }, "Compares the meshes that a job's cores can form. Nothing is submitted."),
    el("form", { onsubmit: submit },
      el("label", {}, "Job file", fields.file),
      el("div", { class: "fields" }, el("label", {}, "Base folder", fields.folder), el("label", {}, "Machines", fields.machine),
        el("label", {}, "Hosts", fields.hosts), el("label", {}, "Cores per host", fields.cores), el("label", {}, "Price per hour", fields.price),
        el("label", {}, "Rows of data", fields.rows), button)),
    found);
}

function form({ job_file, base_dir }) {
  const file = el("textarea", { rows: 14, required: true, spellcheck: "false" });
  file.value = job_file;
  return {
    file,
    folder: el("input", { value: base_dir, placeholder: "/", pattern: "/.*" }),
    machine: el("select", {}, MACHINES.map(([, , name], at) => el("option", { value: at }, name))),
    hosts: el("input", NUMBERS),
    cores: el("input", NUMBERS),
    price: el("input", { ...NUMBERS, step: "any", placeholder: "the job's" }),
    rows: el("input", { ...NUMBERS, placeholder: "unknown" }),
  };
}

function asked({ file, folder, machine, hosts, cores, price, rows }) {
  const [platform, device] = MACHINES[machine.value];
  return {
    job_file: file.value, base_dir: folder.value || "/", platform, device,
    hosts: Number(hosts.value), cores_per_host: Number(cores.value), price_per_hour: Number(price.value),
    rows: Number(rows.value),
  };
}

function results(plan) {
  const most = plan.bytes_per_core_max;
  const lines = [
    `${plan.model_type}, ${plan.parameters.toLocaleString("en")} parameters, up to ${plan.positions} positions per row`,
    `A checkpoint takes ${bytes(plan.checkpoint_bytes)}, the job ${bytes(plan.disk_bytes)} on disk${most ? `; a core has ${bytes(most)}` : ""}`,
    ...(plan.network ? [`Between hosts: ${plan.network}`] : []),
    ...plan.warnings.map((warning) => `Warning: ${warning}`),
    ...plan.notes,
  ];
  return [el("h2", {}, `${plan.meshes.length} meshes`), ...lines.map((line) => el("p", { class: "dim" }, line)), legend(), table(plan.meshes)];
}

function legend() {
  const names = (title, parts) => [el("span", {}, title), parts.map(([name], at) => el("span", {}, el("i", { class: `k${at}` }), name))];
  return el("div", { class: "legend" }, names("Step:", OF_STEP).flat(), names("Core:", OF_CORE).flat());
}

function table(meshes) {
  const titles = ["data", "tensor", "pipeline", "settings", "step", "rows/s", "time", "per core", "memory", "sent over data, tensor, pipeline", ""];
  const head = titles.map((title) => el("th", { scope: "col" }, title));
  return el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, meshes.map(row))));
}

function row(mesh) {
  const cell = (value) => el("td", { class: "num" }, value);
  return el("tr", { class: mesh.fits ? "" : "dim" }, cell(mesh.data), cell(mesh.tensor), cell(mesh.pipeline),
    el("td", { class: "name" }, mesh.settings), cell(`${mesh.step_seconds.toPrecision(3)} s`), cell(fixed(mesh.rows_per_second, 1)),
    el("td", {}, parts(mesh, OF_STEP)), cell(bytes(mesh.bytes_per_core)), el("td", {}, parts(mesh, OF_CORE)),
    cell(mesh.sent_bytes.map(bytes).join(", ")), el("td", {}, remark(mesh)));
}

// A bar of the shares of these fields.
function parts(mesh, fields) {
  const total = fields.reduce((sum, [, field]) => sum + mesh[field], 0) || 1;
  const name = fields.map(([title, field]) => `${title} ${percent(mesh[field] / total)}`).join(", ");
  return bar(fields.map(([, field], at) => [mesh[field] / total, `k${at}`]), { role: "img", "aria-label": name, title: name });
}

function remark({ fits, compiled }) {
  if (!fits) return "does not fit";
  return compiled ? "compiled" : "";
}
