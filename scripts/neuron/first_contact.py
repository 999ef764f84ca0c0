"""Finds out what NeuronCores and their plugin do where no public document says it, and writes a report.

Each part of the report has `seconds`, and either `found` or `error`; one that fails does not end the others. Parts come
in the order of their importance.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import training

# The version of the C API whose sizes traind passes.
API = "0.81"
FLAGS = "--model-type=transformer -O1 --auto-cast=none"
# Newer compilers may refuse integers in float32 without it.
INTEGER_FLAGS = " --implicit-integer-downcast=all"
FIRST_WITH_INTEGER_FLAGS = (2, 27)
# The version of the C API from which an SDK is newer than the one that traind was written for.
NEXT_API = 105
PART_SECONDS = 600
# Codes with which traind begins the explanation of a failure.
CODE = re.compile(r"NRT \d+|NCC_[A-Z]+\d+|TEN\d+|VerifyAliasing")


class Contact:
    def __init__(self, arguments):
        folder = arguments.bin or os.environ.get("TRAIND_BIN_DIR")
        self.programs = {name: program(name, folder) for name in ("traind", "traind-runner")}
        self.plugin = os.environ.get("TRAIND_PLUGIN_NEURON", "")
        self.cpu_plugin = arguments.cpu_plugin
        self.cache_dir = arguments.cache_dir
        self.tools = Path(arguments.tools)
        self.sysfs = Path(arguments.sysfs)
        self.libraries = Path(arguments.libraries)
        self.brief = arguments.brief
        self.end = time.monotonic() + 60 * arguments.minutes
        if compiler_version() >= FIRST_WITH_INTEGER_FLAGS:
            os.environ.setdefault("NEURON_CC_FLAGS", FLAGS + INTEGER_FLAGS)

    def probe(self, cores, platform="neuron", plugin=None, ask=None, **variables):
        """The findings of `traind-runner probe`, of all that it tries or of what is asked, with variables of the runtime."""
        request = {"platform": platform, "plugin": plugin or self.plugin, "cores": cores, **(ask or {})}
        environment = os.environ | needed(cores) | variables
        done = run([self.programs["traind-runner"], "probe"], json.dumps(request), environment)
        return json.loads(done.stdout)

    def held_cores(self):
        """The findings of a second process while one has the first core: its error, and whether it could compile for it."""
        ask = [self.programs["traind-runner"], "probe"]
        request = {"platform": "neuron", "plugin": self.plugin, "cores": 1}
        environment = os.environ | needed(1)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen(ask, env=environment, **pipes) as holder:
            holder.stdin.write(json.dumps(request | {"hold": True}) + "\n")
            holder.stdin.flush()
            holder.stdout.readline()
            target = self.probe_tools_target()
            without = {"NEURON_FORCE_PJRT_PLUGIN_REGISTRATION": "1", "NEURON_PLATFORM_TARGET_OVERRIDE": target}
            outcomes = [self.collective_outcome(1, variables) for variables in ({}, without)]
            holder.stdin.close()
        return {"busy": outcomes[0], "compile_without_cores": outcomes[1]}

    def collective_outcome(self, cores, variables):
        """The error of opening the cores and compiling for them; None without one."""
        try:
            return self.collective_problem(cores, **variables)
        except RuntimeError as error:
            return str(error)

    def probe_tools_target(self):
        """The name of the device for the compiler: `trn1`, `trn2` and so on."""
        name = read(self.sysfs / "neuron0/info/architecture/device_name") or ""
        return name.replace("Trainium", "trn").replace("Inferentia", "inf")

    def collective_problem(self, cores, **variables):
        """The error of a collective over so many cores; None if it compiles."""
        request = {"platform": "neuron", "plugin": self.plugin, "cores": cores, "only_collective": True}
        environment = os.environ | needed(cores) | variables
        done = run([self.programs["traind-runner"], "probe"], json.dumps(request), environment)
        return json.loads(done.stdout)["collective"]

    def run_job(self, folder, job, platform, cores):
        """Runs a job file in its folder with `traind-runner`."""
        plugins = {"TRAIND_PLUGIN_NEURON": self.plugin, "TRAIND_PLUGIN_CPU": self.cpu_plugin or ""}
        # Kernels of traind's, which NeuronCores lack, round otherwise.
        own = {"TRAIND_CACHE_DIR": f"{folder}/cache", "TRAIND_KERNELS": "off"}
        of_platform = needed(cores) if platform == "neuron" else {}
        run([self.programs["traind-runner"], job], "", os.environ | plugins | own | of_platform, folder)

    def run(self, command):
        return run(command, "", os.environ | {"TRAIND_PYTHON": os.environ.get("TRAIND_PYTHON", sys.executable)})

    def core_counts(self):
        """Numbers of cores that one device has, besides one."""
        cores = self.probe_tools()[0]["neuroncore_ids"]
        return [count for count in (2, 4) if count == len(cores)]

    def probe_tools(self):
        return json.loads(run([str(self.tools / "neuron-ls"), "-j"]).stdout)

    def probe_error(self, cores, **variables):
        """The last line of the error with which a client fails; None if it works."""
        try:
            self.probe(cores, **variables)
        except RuntimeError as error:
            return str(error)
        return None


def needed(cores):
    """The variables of a process with the first cores of a host."""
    return {
        "NEURON_INTERNAL_PJRT_C_API_VERSION": API,
        "NEURON_CC_FLAGS": os.environ.get("NEURON_CC_FLAGS", FLAGS),
        "NEURON_RT_VISIBLE_CORES": f"0-{cores - 1}" if cores > 1 else "0",
        "NEURON_RT_ROOT_COMM_ID": "127.0.0.1:61100",
    }


def program(name, folder):
    found = str(Path(folder) / name) if folder else shutil.which(name)
    if not found or not os.access(found, os.X_OK):
        raise SystemExit(f"no {name}: put its folder on PATH, or in TRAIND_BIN_DIR")
    return found


def run(command, text="", environment=None, folder=None):
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=PART_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"{command[0]} ended with {done.returncode}"]
        raise RuntimeError(next((line for line in lines if CODE.search(line)), lines[-1]))
    return done


def compiler_version():
    """The first two numbers of the compiler's version; zeros where it does not say it."""
    try:
        found = re.search(r"(\d+)\.(\d+)", run(["neuronx-cc", "--version"]).stdout)
    except (OSError, RuntimeError):
        return (0, 0)
    return tuple(map(int, found.groups())) if found else (0, 0)


def versions(contact):
    library = contact.libraries / "libnrt.so.1"
    return {
        "runtime": os.readlink(library).removeprefix("libnrt.so.") if library.is_symlink() else None,
        "compiler": run(["neuronx-cc", "--version"]).stdout.strip().splitlines()[-1],
        "driver": read(Path("/sys/module/neuron/version")) or read(contact.sysfs / "version"),
        "plugin": contact.plugin,
    }


def read(path):
    return path.read_text().strip() if path.is_file() else None


def instance(contact):
    devices = contact.probe_tools()
    first = devices[0]
    return {
        "devices": len(devices),
        "cores": sum(len(device["neuroncore_ids"]) for device in devices),
        "logical_config": first.get("logical_neuroncore_config"),
        "memory_bytes": first.get("memory_size"),
    }


def client(contact):
    """Kinds, order and memories of the cores, and which functions the plugin has."""
    cores = min(2, instance(contact)["cores"])
    found = contact.probe(cores)
    numbers = [device["local_hardware_id"] for device in found["devices"]]
    return found | {"is_reversed": numbers != sorted(numbers)}


def core_counts(contact):
    """Whether collectives compile for each power of two of the cores, and the error where not."""
    cores = instance(contact)["cores"]
    counts = [1 << power for power in range(1, cores.bit_length())]
    return {str(count): contact.collective_problem(count) for count in counts}


def held_cores(contact):
    """The outcome for a second process while one has the cores."""
    return contact.held_cores()


def index_outside(contact):
    """Reads and writes by each operation at an index behind the end of a tensor: `clamped`, `dropped`, or the error."""
    return {
        operation: contact.probe(1, ask={"index_outside": operation})["index_outside"]
        for operation in ("gather", "dynamic_slice", "dynamic_update_slice", "scatter")
    }


def null_events(contact):
    """The outcome of an execution that asks for no events of completion: `works`, `leaks`, or the error."""
    try:
        return contact.probe(1, ask={"without_events": True})["without_events"]
    except RuntimeError as error:
        # It may end the process.
        return str(error)


def work_folder(contact):
    """The folder in which the plugin gives programs to the compiler: that of TMPDIR, or torch's below /tmp."""
    user = os.environ.get("USER", "root")
    with tempfile.TemporaryDirectory(prefix="traind-work-") as folder:
        folders = {"tmpdir": Path(folder), "tmp": Path("/tmp") / user / "neuroncc_compile_workdir"}
        before = {name: changed(path) for name, path in folders.items()}
        contact.collective_problem(1, TMPDIR=folder)
        return {name: changed(path) != before[name] for name, path in folders.items()}


def changed(path):
    """The time of the last change of a folder; None without it."""
    return path.stat().st_mtime_ns if path.is_dir() else None


def profile(contact):
    """The files of the profile that the runtime writes while programs run."""
    with tempfile.TemporaryDirectory(prefix="traind-profile-") as folder:
        settings = {"ENABLE": "1", "DEVICE_PROFILE": "1", "OUTPUT_DIR": folder}
        contact.probe(1, **{f"NEURON_RT_INSPECT_{name}": value for name, value in settings.items()})
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        names = sorted(str(path.relative_to(folder)) for path in files)
        return {"files": names[:20], "bytes": sum(path.stat().st_size for path in files)}


def families(contact):
    """One step of a model of each family beside CPU devices, as many as there is time for."""
    return training.families(contact)


def processors(contact):
    """The same of CPU devices, to compare."""
    if not contact.cpu_plugin:
        return None
    return contact.probe(1, "cpu", contact.cpu_plugin)


def refusals(contact):
    """The answers of the plugin and the runtime to wrong settings."""
    return {
        "other_api_version": contact.probe_error(1, NEURON_INTERNAL_PJRT_C_API_VERSION="0.30"),
        "cores_with_a_gap": contact.probe_error(2, NEURON_RT_VISIBLE_CORES="0,2"),
        "unknown_compiler_flag": contact.probe_error(1, NEURON_CC_FLAGS="--no-such-flag"),
        "other_logical_config": contact.probe_error(1, NEURON_CC_FLAGS=FLAGS + " --lnc=2"),
    }


def monitor(contact):
    """The first line that neuron-monitor prints."""
    command = [str(contact.tools / "neuron-monitor")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.kill()
    found = json.loads(line)
    return found.get("neuron_hardware_info", {}) | found.get("instance_info", {})


def doctor(contact):
    done = subprocess.run(
        [contact.programs["traind"], "doctor", "--platform", "neuron"], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()


def quickstart(contact):
    """Steps of the quickstart's job, with its model and texts, beside CPU devices."""
    return training.quickstart(contact)


def jobs(contact):
    """Jobs of a few families beside CPU devices, on several cores, and resumed."""
    return training.train(contact)


PARTS = [
    versions,
    instance,
    client,
    jobs,
    quickstart,
    held_cores,
    core_counts,
    index_outside,
    null_events,
    work_folder,
    refusals,
    monitor,
    profile,
    processors,
    doctor,
    families,
]
# Numbers of cores of each generation for which AWS documents collectives.
DOCUMENTED = {"NC_v2": {1, 2, 4, 8, 32}, "NC_v3": {1, 4, 16, 64}, "NC_v4": {1, 4, 16, 64}}


def options(report):
    """The options with which the twin would be as this host; None where nothing was found."""
    part = {name: entry.get("found") or {} for name, entry in report.items()}
    client, errors = part.get("client", {}), [entry.get("error", "") for entry in report.values()]
    failed = report.get("jobs", {}).get("error", "")
    code = CODE.search(failed)
    return {
        "instance": part.get("monitor", {}).get("instance_type"),
        "init_ms": milliseconds(client.get("client_seconds")),
        "compile_ms": milliseconds(client.get("compile_seconds")),
        "reversed": client.get("is_reversed"),
        "chlo": client.get("chlo"),
        "analysis": client.get("cost_analysis"),
        "any_count": any_count(client, part.get("core_counts", {})),
        "compiles_without_cores": compiles_without_cores(part.get("held_cores")),
        "version_2": any("struct_size" in error for error in errors),
        "inexact": not client["random_bits_are_exact"] if client else None,
        "donation": donation(client) if client else None,
        "driver": part.get("versions", {}).get("driver"),
        "runtime": part.get("versions", {}).get("runtime"),
        "dispatch_us": None if not client else round(1e6 * client["execute_seconds"]),
        "next_sdk": next_sdk(client) if client else None,
        "errors": errors_of(part.get("held_cores")),
        "null_events": null_events_of(part.get("null_events")),
        "work_folder": next((name for name, is_used in part.get("work_folder", {}).items() if is_used), None),
        "kind": client["devices"][0]["kind"] if client else None,
        "extensions": bool(client["extensions"]) if client else None,
        "failure": code.group() if code else None,
    }


def milliseconds(seconds):
    return None if seconds is None else round(1000 * seconds)


def compiles_without_cores(held):
    """Whether a second process compiles for cores that another has; None if that was not tried."""
    return held["busy"] is not None and held["compile_without_cores"] is None if held else None


def errors_of(held):
    """Whether the plugin's errors have the texts of the runtime, or say no more than that something failed."""
    if not held or not held["busy"]:
        return None
    return "brief" if "num_devices" in held["busy"] else "whole"


def null_events_of(outcome):
    """Whether executions without events work, leak or fail; None if that was not tried."""
    return outcome if outcome in ("works", "leaks") else "error" if outcome else None


def any_count(client, counts):
    """Whether other numbers of cores work than those documented; None if the host has no others."""
    if not client:
        return None
    documented = DOCUMENTED.get(client["devices"][0]["kind"].rstrip("d"), set())
    others = [problem is None for count, problem in counts.items() if int(count) not in documented]
    return any(others) if others else None


def next_sdk(client):
    """Whether the plugin is newer than the one that traind was written for, and serves the sizes of older clients."""
    if int(client["api_version"].split(".")[1]) < NEXT_API:
        return "no"
    return "serves" if client["device_memory_stats"] else "strict"


def donation(client):
    outcome = client["donation_of_reports"]
    if outcome == "right":
        return "works" if client["donation"] else "ignored"
    return "garbage" if outcome == "wrong" else "refused"


def write(report, path):
    """Writes the report in one piece."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(report, indent=2) + "\n")
    part.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path)
    names = [part.__name__ for part in PARTS]
    parser.add_argument("--without", action="append", default=[], choices=names, help="a part to leave out")
    parser.add_argument("--brief", action="store_true", help="one family and a few steps")
    parser.add_argument("--bin")
    parser.add_argument("--cpu-plugin")
    parser.add_argument("--cache-dir", help="where the quickstart's model is or will be [default: traind's]")
    parser.add_argument("--tools", default="/opt/aws/neuron/bin")
    parser.add_argument("--sysfs", default="/sys/devices/virtual/neuron_device")
    parser.add_argument("--libraries", default="/opt/aws/neuron/lib", help="where the runtime is")
    parser.add_argument("--minutes", type=float, default=30, help="the time after which no further family begins")
    arguments = parser.parse_args()
    if not arguments.out.parent.is_dir() or arguments.out.is_dir():
        parser.error(f"argument --out: {arguments.out} is not a file in an existing folder")
    contact = Contact(arguments)
    report = {}
    for part in PARTS:
        if part.__name__ in arguments.without or (part is families and contact.brief):
            continue
        start = time.monotonic()
        try:
            result = {"found": part(contact)}
        except Exception as error:  # noqa: BLE001: the report is what a failure is written to
            result = {"error": f"{type(error).__name__}: {error}"}
        result["seconds"] = round(time.monotonic() - start, 3)
        report[part.__name__] = result
        # A contact that is interrupted leaves what it found.
        write(report | {"options": {"found": options(report)}}, arguments.out)
        print(f"{part.__name__}: {'error' if 'error' in result else 'done'}", file=sys.stderr)
    return 1 if any("error" in result for result in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
