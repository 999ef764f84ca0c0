"""A daemon with scripted answers, on a real unix socket or through TLS."""

import tempfile
from concurrent import futures
from pathlib import Path

import grpc
import support
from google.protobuf import any_pb2, duration_pb2

from traind.rpc import status_pb2
from traind.v1 import cores_pb2, cores_pb2_grpc, jobs_pb2, jobs_pb2_grpc


class Refusal(Exception):
    """Aborts a call with the details that the daemon gives."""

    def __init__(self, code, message="", reason="", violations=(), retry_seconds=None):
        self.code = code
        self.message = message
        details = []
        if reason:
            details.append(("ErrorInfo", status_pb2.ErrorInfo(reason=reason, domain="traind")))
        if violations:
            entries = [status_pb2.BadRequest.FieldViolation(field=f, description=d) for f, d in violations]
            details.append(("BadRequest", status_pb2.BadRequest(field_violations=entries)))
        if retry_seconds is not None:
            delay = duration_pb2.Duration(nanos=int(retry_seconds * 1e9))
            details.append(("RetryInfo", status_pb2.RetryInfo(retry_delay=delay)))
        packed = [
            any_pb2.Any(type_url=f"type.googleapis.com/google.rpc.{name}", value=detail.SerializeToString())
            for name, detail in details
        ]
        self.status = status_pb2.Status(code=code.value[0], message=message, details=packed)

    def abort(self, context):
        context.set_trailing_metadata([("grpc-status-details-bin", self.status.SerializeToString())])
        context.abort(self.code, self.message)


class Daemon(jobs_pb2_grpc.JobsServicer, cores_pb2_grpc.CoresServicer):
    """Answers each call with the next of its `answers`: a message, a list of events, or a refusal."""

    def __init__(self, credentials=None):
        self.answers = []
        self.requests = []
        self._folder = tempfile.TemporaryDirectory(prefix="traind-daemon.")
        self.socket = Path(self._folder.name) / "socket"
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        jobs_pb2_grpc.add_JobsServicer_to_server(self, self._server)
        cores_pb2_grpc.add_CoresServicer_to_server(self, self._server)
        if credentials is None:
            self._server.add_insecure_port(f"unix:{self.socket}")
        else:
            self.address = f"localhost:{self._server.add_secure_port('localhost:0', credentials)}"
        self._server.start()

    def close(self):
        self._server.stop(None).wait()
        self._folder.cleanup()

    def _next(self, request, context):
        self.requests.append(request)
        self.metadata = dict(context.invocation_metadata())
        self.caller = context.auth_context().get("x509_common_name")
        answer = self.answers.pop(0)
        if isinstance(answer, Refusal):
            answer.abort(context)
        return answer

    CreateJob = ForkJob = PlanJob = GetJob = ListJobs = CancelJob = GetSamples = GenerateTexts = ListCores = _next

    def WatchJob(self, request, context):
        for answer in self._next(request, context):
            if isinstance(answer, Refusal):
                answer.abort(context)
            yield answer


def completed(events):
    """The answers to following a job: its events, then how it stands."""
    return [events, support.job("completed", output_dir="/out", metrics={"eval_loss": 0.5})]


__all__ = ["Daemon", "Refusal", "completed", "cores_pb2", "jobs_pb2"]
