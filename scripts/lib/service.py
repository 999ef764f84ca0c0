"""A private daemon in a scratch folder and jobs run on it, for scripts that compare or measure.

Nothing outlives the `with` block: runners, which outlive a daemon by design, are found by their run
folder and stopped before it.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import stubs

jobs, jobs_grpc, events, _ = stubs.load("jobs", "events")
COMPLETED = events.JobState.Value("JOB_STATE_COMPLETED")


class JobFailed(Exception):
    """A job that did not complete, with the daemon's message."""


@dataclass
class Run:
    """A completed job and all its events."""

    job: object
    events: list

    def of_kind(self, kind):
        """The events of one kind, for example "step", with their times: pairs of seconds and message."""
        return [
            (seconds(event.time), getattr(event, kind)) for event in self.events if event.WhichOneof("kind") == kind
        ]

    def trainer_state(self):
        return json.loads((Path(self.job.output_dir) / "trainer_state.json").read_text())


def seconds(timestamp):
    return timestamp.seconds + timestamp.nanos / 1e9


class Daemon:
    """`traind serve`, running within a `with` block."""

    def __init__(self, traind, cache_dir=None, cores=None, options=()):
        self.traind = traind
        self.options = [*(["--cores", str(cores)] if cores else []), *options]
        self.environment = os.environ | ({"TRAIND_CACHE_DIR": str(cache_dir)} if cache_dir else {})

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="traind.")
        self.scratch = Path(self.folder.name)
        socket = self.scratch / "socket"
        command = [self.traind, "serve", "--socket", socket, "--state-dir", self.scratch / "state", *self.options]
        with open(self.scratch / "daemon.log", "wb") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])
        try:
            grpc.channel_ready_future(self.channel).result(timeout=30)
        except grpc.FutureTimeoutError:
            log = (self.scratch / "daemon.log").read_text(errors="replace")
            self.__exit__()
            raise RuntimeError(f"the daemon did not start: {log}") from None
        self.stub = jobs_grpc.JobsStub(self.channel)
        return self

    def __exit__(self, *_):
        self.channel.close()
        for runner in self.runners():
            stop(runner)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def run(self, job, on_event=lambda event: None):
        """Submits a job, given as a dictionary, and waits for its end."""
        job_id = self.submit(job)
        history = []
        for event in self.stub.WatchJob(jobs.WatchJobRequest(job_id=job_id)):
            history.append(event)
            on_event(event)
        job = self.stub.GetJob(jobs.GetJobRequest(job_id=job_id))
        if job.state != COMPLETED:
            state = events.JobState.Name(job.state)
            raise JobFailed(f"{state} {job.failure.reason}: {job.failure.message}\n{self.runner_log(job_id)}")
        return Run(job, history)

    def cancel_at(self, job, kind):
        """Submits a job and cancels it after its first event of a kind; returns that and the job."""
        job_id = self.submit(job)
        found = None
        for event in self.stub.WatchJob(jobs.WatchJobRequest(job_id=job_id)):
            if found is None and event.WhichOneof("kind") == kind:
                found = event
                self.stub.CancelJob(jobs.CancelJobRequest(job_id=job_id))
        job = self.stub.GetJob(jobs.GetJobRequest(job_id=job_id))
        if found is None:
            raise JobFailed(f"no {kind}: {job.failure.message}\n{self.runner_log(job_id)}")
        return found, job

    def submit(self, job):
        # Scripts run their jobs again in the same folders.
        job = job | {"train": {"overwrite_output_dir": True} | job.get("train", {})}
        request = jobs.CreateJobRequest(job_file=json.dumps(job, indent=1), base_dir=str(Path.cwd()))
        try:
            return self.stub.CreateJob(request).id
        except grpc.RpcError as refused:
            raise JobFailed("\n".join([refused.details(), *violations(refused)])) from None

    def runner_log(self, job_id):
        path = self.scratch / "state" / "jobs" / job_id / "runner.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def runners(self):
        """Process ids of this daemon's runners."""
        state = f"{self.scratch}/state/".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if state in command and int(folder.name) != self.process.pid:
                yield int(folder.name)


def violations(refused):
    """The violations of a rejected job file, one per line."""
    status = rpc_status.from_call(refused)
    for detail in status.details if status else []:
        request = error_details_pb2.BadRequest()
        if detail.Unpack(request):
            yield from (f"{found.field}: {found.description}" for found in request.field_violations)


def stop(process):
    """Sends SIGTERM to a process that is not a child, and SIGKILL after ten seconds."""
    try:
        os.kill(process, signal.SIGTERM)
        for _ in range(100):
            time.sleep(0.1)
            os.kill(process, 0)
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
