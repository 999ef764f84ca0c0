"""Runs jobs on Kubernetes through the daemon and a real kubectl, with an API server of this script whose pods are real
runners on this machine, and compares their losses with those of local jobs."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from clusters import LONG_STEPS, compare, outlives_the_daemon, soak, trains, until

OUTAGE_SECONDS = 15


def main():
    checks = [trains, cancels, loses_a_pod, misses_the_server, outlives_the_daemon]
    soak("kubernetes", Cluster, checks, __doc__)


def cancels(daemon, cluster, hosts):
    name = daemon.submit("cancelled", hosts=hosts, steps=LONG_STEPS)
    daemon.until_step(name, 20)
    daemon.cancel(name)
    until(lambda: not cluster.jobs_of(name), "the Job is gone")
    return f"the pods ended with codes {cluster.codes}"


def loses_a_pod(daemon, cluster, hosts):
    whole = daemon.long_losses(hosts)
    name = daemon.submit("hurt", hosts=hosts, steps=LONG_STEPS)
    daemon.until_step(name, 600)
    cluster.kill_pod(hosts - 1)
    job = daemon.complete(name)
    assert job["attempt"] == 2, job
    return f"resumed as {job['cluster_job']}; {compare(whole, daemon.losses(job)):.1e}"


def misses_the_server(daemon, cluster, hosts):
    name = daemon.submit("alone", hosts=hosts, steps=LONG_STEPS)
    daemon.until_step(name, 20)
    cluster.answers = False
    time.sleep(OUTAGE_SECONDS)
    cluster.answers = True
    job = daemon.complete(name)
    assert job["attempt"] == 1, job
    return f"one attempt; {compare(daemon.long_losses(hosts), daemon.losses(job)):.1e}"


class Cluster:
    """An API server with Jobs, services and pods. A Job's pods start when its service is there."""

    def __init__(self, arguments, folder):
        self.jobs, self.pods, self.processes, self.codes = {}, {}, {}, []
        self.lock, self.answers = threading.RLock(), True
        path = f"{arguments.programs}:{os.environ['PATH']}"
        self.configuration = folder / "kubeconfig"
        self.environment = os.environ | {"PATH": path, "KUBECONFIG": str(self.configuration)}

    def __enter__(self):
        handler = type("Handler", (Handler,), {"cluster": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{self.server.server_port}"
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "soak", "cluster": {"server": address}}],
            "users": [{"name": "soak", "user": {}}],
            "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": "soak"}}],
            "current-context": "soak",
        }
        self.configuration.write_text(json.dumps(configuration))
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        for process in self.running():
            process.kill()
            process.wait()

    def running(self):
        return [process for pods in self.processes.values() for process in pods if process.poll() is None]

    def jobs_of(self, name):
        with self.lock:
            return [job for job in self.jobs.values() if job["metadata"]["annotations"]["traind/name"] == name]

    def kill_pod(self, index):
        self.running()[index].kill()

    def answer(self, method, path, query, body):
        """The code and the object of an answer."""
        name = path.rsplit("/", 1)[1]
        if method == "POST":
            return self.create(body)
        if name == "pods":
            selected = parse_qs(query)["labelSelector"][0].split("=")[1]
            return 200, {"kind": "PodList", "apiVersion": "v1", "items": self.pods.get(selected, [])}
        if name not in self.jobs:
            return 404, status(404, "NotFound", f'jobs.batch "{name}" not found')
        if method == "DELETE":
            self.jobs[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            for process in self.processes[name]:
                process.send_signal(signal.SIGTERM)
        return 200, self.jobs[name]

    def create(self, made):
        name = made["metadata"]["name"]
        made["metadata"]["uid"] = f"uid-of-{name}"
        if made["kind"] == "Job":
            self.jobs[name] = made
        else:
            self.start(name, self.jobs[name]["spec"])
        return 201, made

    def start(self, name, spec):
        template = spec["template"]
        container = template["spec"]["containers"][0]
        self.pods[name], self.processes[name] = [], []
        for index in range(spec["completions"]):
            node = f"n{index}"
            environment = {variable["name"]: variable.get("value", node) for variable in container["env"]}
            environment |= {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{name}-{index}"}
            kept = {variable: self.environment[variable] for variable in ["PATH", "HOME"]}
            process = subprocess.Popen(container["command"], env=kept | environment, start_new_session=True)
            self.processes[name].append(process)
            metadata = {"name": f"{name}-{index}", "labels": template["metadata"]["labels"]}
            pod = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}
            self.pods[name].append(pod)
        threading.Thread(target=self.follow, args=(name,), daemon=True).start()

    def follow(self, name):
        codes = [process.wait() for process in self.processes[name]]
        with self.lock:
            self.codes = codes
            for pod, code in zip(self.pods[name], codes, strict=True):
                ended = {"terminated": {"exitCode": code % 256, "reason": "Error" if code else "Completed"}}
                phase = "Failed" if code else "Succeeded"
                pod["status"] = {"phase": phase, "containerStatuses": [{"state": ended}]}
            kind = "Failed" if any(codes) else "Complete"
            if "deletionTimestamp" in self.jobs[name]["metadata"]:
                del self.jobs[name], self.pods[name]
            else:
                self.jobs[name]["status"] = {"conditions": [{"type": kind, "status": "True"}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster = None

    def respond(self):
        body = self.body()
        if not self.cluster.answers:
            self.close_connection = True
            return
        parts = urlsplit(self.path)
        if parts.path == "/version":
            code, answer = 200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
        else:
            with self.cluster.lock:
                code, answer = self.cluster.answer(self.command, parts.path, parts.query, body)
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(text)

    do_GET = do_POST = do_DELETE = respond

    def body(self):
        """The request's object; kubectl sends it in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return None
        text = b""
        while length := int(self.rfile.readline(), 16):
            text += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return json.loads(text)

    def log_message(self, *_):
        """Says nothing for a request."""


def status(code, reason, message):
    explained = {"message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **explained}


if __name__ == "__main__":
    main()
