"""Uploads a run by `wandb sync` to a server of this program, and prints as JSON what arrives there."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TIMEOUT_SECONDS = 120
# The server's account of itself and of the user.
VIEWER = {
    "id": "1",
    "username": "ann",
    "email": "",
    "admin": False,
    "flags": "{}",
    "entity": "ann",
    "teams": {"edges": []},
}
SERVER = {"cliVersionInfo": {}, "latestLocalVersionInfo": None, "features": []}


class Arrived:
    """The parts of the run."""

    def __init__(self):
        self.run, self.files, self.stream, self.ending = {}, {}, {}, {}

    def upsert(self, variables):
        self.run.update({name: value for name, value in variables.items() if value is not None})
        project = {"id": "1", "name": self.run["project"], "entity": {"id": "1", "name": "ann"}}
        bucket = {"id": "1", "name": self.run["name"], "displayName": self.run["displayName"], "description": None}
        bucket |= {"config": "{}", "sweepName": None, "historyLineCount": 0, "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def add_lines(self, body):
        for name, chunk in (body.get("files") or {}).items():
            lines = self.stream.setdefault(name, [])
            lines[chunk["offset"] :] = chunk["content"]
        self.ending.update({name: body[name] for name in ("complete", "exitcode") if name in body})

    def shown(self):
        summary = self.stream.get("wandb-summary.json") or ["{}"]
        config = json.loads(self.run["config"])
        return {
            "id": self.run["name"],
            "project": self.run["project"],
            "name": self.run["displayName"],
            "config": {name: entry["value"] for name, entry in config.items() if name != "_wandb"},
            "metrics": config["_wandb"]["value"]["m"],
            "history": [json.loads(line) for line in self.stream.get("wandb-history.jsonl", [])],
            "summary": json.loads(summary[-1]),
            "files": sorted(self.files),
            **self.ending,
        }


arrived = Arrived()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def body(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def respond(self, answer):
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_PUT(self):
        arrived.files[self.path.removeprefix("/storage/")] = self.body().decode()
        self.respond({})

    def do_POST(self):
        body = json.loads(self.body())
        if self.path.endswith("/file_stream"):
            arrived.add_lines(body)
            return self.respond({})
        query, variables = body["query"], body.get("variables") or {}
        if "upsertBucket" in query:
            return self.respond({"data": arrived.upsert(variables)})
        if "createRunFiles" in query:
            address = f"http://{self.headers['Host']}/storage/"
            files = [{"name": name, "uploadUrl": address + name} for name in variables["files"]]
            return self.respond({"data": {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}})
        self.respond({"data": {"viewer": VIEWER, "serverInfo": SERVER}})


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        address = f"http://127.0.0.1:{server.server_port}"
        own = {"HOME": home, "WANDB_BASE_URL": address, "WANDB_API_KEY": "a" * 40, "WANDB_ERROR_REPORTING": "false"}
        wandb = Path(sys.executable).with_name("wandb")
        sync = [wandb, "sync", sys.argv[1]]
        done = subprocess.run(
            sync, cwd=home, env={**os.environ, **own}, timeout=TIMEOUT_SECONDS, capture_output=True, text=True
        )
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    print(json.dumps(arrived.shown()))


if __name__ == "__main__":
    main()
