"""The client against a daemon with scripted answers."""

import asyncio
import io
import json
import unittest
import warnings
from pathlib import Path
from unittest import mock

import grpc
import support
from daemon import Daemon, Refusal, completed, cores_pb2, jobs_pb2
from support import evaluated, event, moved, step

import traind
import traind.aio
from traind.v1 import events_pb2

STORY = [
    moved(1, "pending"),
    moved(2, "running"),
    step(3, 1, loss=2.0),
    step(4, 2, loss=1.0),
    evaluated(5, 2, eval_loss=0.5),
    moved(6, "completed"),
]
AWAY = Refusal(grpc.StatusCode.UNAVAILABLE, "the socket is closed")


class WithDaemon(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)
        self.client = traind.Client(socket=self.daemon.socket)
        self.addCleanup(self.client.close)

    def job(self, *answers):
        self.daemon.answers = [support.job(last_sequence=6), *answers]
        return self.client.job("tiny")


class Costs(WithDaemon):
    def test_a_cost_needs_a_price(self):
        free = self.job()
        self.assertEqual((free.billed_seconds, free.cost, free.savings), (0.0, None, None))

    def test_costs_are_those_of_the_time_that_cores_were_held(self):
        self.daemon.answers = [support.job(billed_seconds=1800, price_per_hour=2.0, on_demand_price_per_hour=5.0)]
        job = self.client.job("tiny")
        self.assertEqual((job.billed_seconds, job.cost, job.savings), (1800.0, 1.0, 1.5))

    def test_energy_is_known_where_the_host_reports_it(self):
        self.assertIsNone(self.job().energy_joules)
        self.daemon.answers = [support.job(energy_joules=7200.0)]
        self.assertEqual(self.client.job("tiny").energy_joules, 7200.0)


class Planning(WithDaemon):
    def plan(self, **keywords):
        self.daemon.answers = [jobs_pb2.Plan(parameters=7, meshes=[jobs_pb2.MeshPlan(data=4, step_seconds=0.5)])]
        return self.client.plan({"name": "x"}, **keywords), self.daemon.requests[-1]

    def test_a_plan_is_of_the_jobs_own_mesh(self):
        plan, request = self.plan(overrides={"resources.cores": 4})
        self.assertEqual(plan["parameters"], 7)
        self.assertEqual(dict(request.overrides), {"resources.cores": "4"})
        self.assertFalse(request.HasField("search"))

    def test_a_search_compares_meshes(self):
        plan, request = self.plan(search={"platform": "cuda", "hosts": 2, "rows": 1000})
        self.assertEqual([(mesh["data"], mesh["step_seconds"]) for mesh in plan["meshes"]], [(4, 0.5)])
        self.assertEqual((request.search.platform, request.search.hosts, request.search.rows), ("cuda", 2, 1000))
        own = self.plan(search={})[1]
        self.assertTrue(own.HasField("search"))

    def test_an_unknown_key_of_a_search_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "machines"):
            self.plan(search={"machines": 2})


class Submitting(WithDaemon):
    def submit(self, *arguments, **keywords):
        self.daemon.answers.append(support.job("pending"))
        self.client.submit(*arguments, **keywords)
        return self.daemon.requests[-1]

    def test_a_mapping_is_sent_as_yaml(self):
        request = self.submit({"name": "é", "train": {"learning_rate": 1e-5}, "output_dir": Path("out")})
        sent = {"name": "é", "train": {"learning_rate": 1e-5}, "output_dir": "out"}
        self.assertEqual(json.loads(request.job_file), sent)
        self.assertIn("é", request.job_file)
        self.assertEqual(request.base_dir, str(Path.cwd()))

    def test_a_path_is_read_and_text_is_sent(self):
        path = self.daemon.socket.with_name("job.yaml")
        path.write_text("name: x\n")
        self.assertEqual(self.submit(path).job_file, "name: x\n")
        self.assertEqual(self.submit(str(path), base_dir="/data").base_dir, "/data")
        self.assertEqual(self.submit("name: y\noutput_dir: out\n").job_file, "name: y\noutput_dir: out\n")

    def test_a_job_file_that_is_too_large_is_not_sent(self):
        at_most = "name: x\n" + "#" * ((1 << 20) - 8)
        self.assertEqual(self.submit(at_most).job_file, at_most)
        sent = len(self.daemon.requests)
        with self.assertRaisesRegex(
            traind.JobFileInvalid, "has 1,048,577 bytes, .* at most 1,048,576: name data files"
        ):
            self.client.submit(at_most + "#")
        with self.assertRaises(traind.JobFileInvalid):
            self.client.submit({"name": "é" * (1 << 19)})
        self.assertEqual(len(self.daemon.requests), sent)

    def test_overrides_are_yaml(self):
        request = self.submit("name: x\n", overrides={"train.bf16": True, "name": "it's", "data.label_map": ["a"]})
        self.assertEqual(dict(request.overrides), {"train.bf16": "true", "name": '"it\'s"', "data.label_map": '["a"]'})

    def test_a_fork_names_job_and_step(self):
        message = support.job("pending")
        message.parent.job_id, message.parent.step = "first", 8
        self.daemon.answers.append(message)
        job = self.client.fork("first", at=8, overrides={"train.learning_rate": 1e-5})
        request = self.daemon.requests[-1]
        self.assertEqual((request.job_id, request.step), ("first", 8))
        self.assertEqual(dict(request.overrides), {"train.learning_rate": "1e-05"})
        self.assertEqual(job.parent, ("first", 8))

    def test_a_submission_is_repeated_with_its_id(self):
        self.daemon.answers = [AWAY, Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", "BUSY", retry_seconds=0.001)]
        self.submit("name: x\n")
        ids = {request.request_id for request in self.daemon.requests}
        self.assertEqual((len(self.daemon.requests), len(ids)), (3, 1))
        self.assertNotEqual(ids, {""})

    def test_a_refused_job_file_has_reason_and_violations(self):
        violations = [("train.learning_rat", "is not a known key"), ("name", "is required")]
        refusal = Refusal(
            grpc.StatusCode.INVALID_ARGUMENT, "the job file has 2 mistakes", "JOB_FILE_INVALID", violations
        )
        self.daemon.answers = [refusal]
        with self.assertRaises(traind.JobFileInvalid) as caught:
            self.client.submit("name: x\n")
        error = caught.exception
        self.assertEqual((error.code, error.reason), ("INVALID_ARGUMENT", "JOB_FILE_INVALID"))
        self.assertEqual([(found.field, found.description) for found in error.violations], violations)
        self.assertIn("train.learning_rat: is not a known key", str(error))

    def test_a_mapping_has_no_lines(self):
        violations = [("train.fp16", "must be true or false, not the text `yes` (line 17)")]
        refusal = Refusal(
            grpc.StatusCode.INVALID_ARGUMENT, "the job file has 1 mistake", "JOB_FILE_INVALID", violations
        )
        self.daemon.answers = [refusal, refusal, refusal]
        for job, says_line in (({"name": "x"}, False), ("name: x\n", True)):
            with self.assertRaises(traind.JobFileInvalid) as caught:
                self.client.submit(job)
            self.assertEqual("(line 17)" in str(caught.exception), says_line)
            self.assertIn("not the text `yes`", str(caught.exception))
        with self.assertRaises(traind.JobFileInvalid) as caught:
            self.client.plan({"name": "x"})
        self.assertNotIn("line", caught.exception.violations[0].description)
        warning = events_pb2.Warning(code="ALIAS_USED", message="line 2: is read as `text`")
        self.daemon.answers = [support.job("pending", warnings=[warning])]
        with self.assertWarnsRegex(traind.JobFileWarning, "^is read as `text`$"):
            self.client.submit({"name": "x"})

    def test_values_that_no_job_file_holds_are_named(self):
        nan = {"train": {"learning_rate": float("nan")}}
        for call, expect in (
            (lambda: self.client.submit(nan), "train.learning_rate: nan is no number"),
            (lambda: self.client.submit({"data": {"train": [b"a"]}}), r"data.train\[0\]: a job file cannot hold b'a'"),
            (lambda: self.client.submit(7), "a job is a mapping of sections, .* not 7"),
            (lambda: self.client.submit({}, overrides=["train.max_steps=3"]), "overrides is a mapping"),
            (
                lambda: self.client.submit({}, overrides={"train.max_grad_norm": float("inf")}),
                "train.max_grad_norm: inf",
            ),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), expect):
                call()
        self.assertEqual(self.daemon.requests, [])

    def test_warnings_of_a_job_file_are_warnings(self):
        warning = events_pb2.Warning(code="ALIAS_USED", message="line 2: is read as `text`")
        self.daemon.answers = [support.job("pending", warnings=[warning])]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.client.submit("name: x\n")
        self.assertEqual([(found.category, found.filename) for found in caught], [(traind.JobFileWarning, __file__)])


class Following(WithDaemon):
    def test_events_are_values_and_lines(self):
        events = list(self.job(STORY).events())
        self.assertEqual([found.sequence for found in events], [1, 2, 3, 4, 5, 6])
        self.assertEqual(events[1].data, {"from": "unspecified", "to": "running", "reason": ""})
        self.assertEqual(events[4].data["metrics"], {"eval_loss": 0.5})
        self.assertEqual(str(events[2]).split(" learning_rate")[0], "step 1/4 epoch 0.50 loss 2.0000")

    def test_following_goes_on_where_it_was_when_the_daemon_is_back(self):
        job = self.job([*STORY[:3], AWAY], AWAY, STORY[3:])
        self.assertEqual([found.sequence for found in job.events()], [1, 2, 3, 4, 5, 6])
        self.assertEqual([request.from_sequence for request in self.daemon.requests[1:]], [1, 4, 4])

    def test_metrics_have_the_trainers_names(self):
        job = self.job(support.job(last_sequence=6), STORY)
        metrics = job.metrics()
        self.assertEqual([(row["step"], row.get("loss"), row.get("eval_loss")) for row in metrics],
                         [(1, 2.0, None), (2, 1.0, None), (2, None, 0.5)])  # fmt: skip
        self.assertEqual(metrics.series("eval_loss"), [(2, 0.5)])
        self.assertIn("<td>0.5000</td>", metrics._repr_html_())

    def test_steps_that_a_resumed_run_does_again_count_once(self):
        resumed = event(5, resumed=events_pb2.Resumed(step=1))
        job = self.job(support.job(last_sequence=6), [*STORY[2:4], resumed, step(6, 2, loss=3.0)])
        self.assertEqual(job.metrics().series("loss"), [(1, 2.0), (2, 3.0)])

    def test_what_happened_is_read_without_waiting_for_more(self):
        job = self.job(support.job(last_sequence=3), STORY)
        self.assertEqual(len(list(job.logs())), 3)

    def test_waiting_ends_with_the_job(self):
        job = self.job(*completed(STORY)).wait()
        self.assertEqual((job.state, job.final_metrics), ("completed", {"eval_loss": 0.5}))

    def test_waiting_for_a_failed_job_raises_its_failure(self):
        failure = events_pb2.Failure(
            reason="LABEL_INVALID", message="label 9", file="/data/train.csv", row=7, host="node-7"
        )
        job = self.job([moved(1, "failed")], support.job("failed", failure=failure))
        with self.assertRaises(traind.JobFailed) as caught:
            job.wait()
        found = caught.exception.failure
        self.assertEqual((found.reason, found.row, found.tensor, found.host), ("LABEL_INVALID", 7, None, "node-7"))

    def test_waiting_has_a_limit(self):
        job = self.job(Refusal(grpc.StatusCode.DEADLINE_EXCEEDED))
        with self.assertRaises(TimeoutError):
            job.wait(timeout=0.5)

    def test_lines_are_printed_where_they_are_asked_for(self):
        with mock.patch("sys.stderr", io.StringIO()) as printed:
            self.job(*completed(STORY)).wait(progress=True)
        self.assertIn("job j1 completed\neval_loss 0.5000\n", printed.getvalue())


class Looking(WithDaemon):
    def test_pages_of_jobs_are_one_list(self):
        self.daemon.answers = [
            jobs_pb2.ListJobsResponse(jobs=[support.job(), support.job()], next_page_token="more"),
            jobs_pb2.ListJobsResponse(jobs=[support.job("failed")]),
        ]
        found = self.client.jobs(states=["running", "failed"])
        self.assertEqual([job.state for job in found], ["running", "running", "failed"])
        first, second = self.daemon.requests
        self.assertEqual((first.page_token, second.page_token), ("", "more"))
        self.assertEqual(list(first.states), [support.state("running"), support.state("failed")])

    def test_a_limit_asks_for_no_more(self):
        self.daemon.answers = [jobs_pb2.ListJobsResponse(jobs=[support.job()] * 2, next_page_token="more")]
        self.assertEqual(len(self.client.jobs(limit=2)), 2)
        self.assertEqual(self.daemon.requests[0].page_size, 2)

    def test_arguments_of_other_types_are_named(self):
        job = self.job()
        for call, expect in (
            (lambda: self.client.jobs(states=["done"]), "'done' is no state of a job: these are pending, .*completed"),
            (lambda: self.client.jobs(limit="3"), "limit is a whole number, not '3'"),
            (lambda: job.wait(timeout="3"), "timeout is a number of seconds, not '3'"),
            (lambda: job.samples("3"), "step is a whole number, not '3'"),
            (lambda: job.generate("a", at="3"), "at is a whole number, not '3'"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), expect):
                call()

    def test_one_state_needs_no_list(self):
        self.daemon.answers = [jobs_pb2.ListJobsResponse()]
        self.client.jobs(states="completed")
        self.assertEqual(list(self.daemon.requests[0].states), [support.state("completed")])

    def test_a_core_without_a_job_has_no_usage(self):
        busy = cores_pb2.Core(core=1, platform="cpu", job_id="j1", usage=cores_pb2.CoreUsage(phase="PHASE_COMPUTE"))
        self.daemon.answers = [cores_pb2.ListCoresResponse(cores=[cores_pb2.Core(platform="cpu"), busy])]
        free, held = self.client.cores()
        self.assertEqual((free.usage, held.usage["phase"]), (None, "compute"))

    def test_an_unknown_job_is_not_found(self):
        self.daemon.answers = [Refusal(grpc.StatusCode.NOT_FOUND, "no job has the id", "JOB_NOT_FOUND")]
        with self.assertRaises(traind.JobNotFound):
            self.client.job("absent")

    def test_texts_are_of_the_checkpoint_and_the_settings_asked_for(self):
        texts = jobs_pb2.GeneratedTexts(step=3, texts=[jobs_pb2.GeneratedText(prompt="a", text="b")])
        self.assertEqual(self.job(texts).generate("a", at=3, max_new_tokens=4, do_sample=True), ["b"])
        request = self.daemon.requests[-1]
        self.assertEqual((list(request.prompts), request.step, request.seed), (["a"], 3, 42))
        self.assertEqual(dict(request.settings), {"max_new_tokens": "4", "do_sample": "true"})

    def test_samples_name_files_and_rows(self):
        samples = jobs_pb2.Samples(files=["a", "b"], samples=[jobs_pb2.Sample(file=1, row=3)])
        self.assertEqual(self.job(samples).samples(1), [("b", 3)])


class Asynchronous(WithDaemon):
    def test_a_job_is_submitted_and_followed(self):
        self.daemon.answers = [
            AWAY,
            support.job("pending"),
            [*STORY[:2], AWAY],
            STORY[2:],
            support.job("completed"),
            support.job("completed", last_sequence=6),
            STORY,
        ]

        async def story():
            async with traind.aio.Client(socket=self.daemon.socket) as client:
                job = await client.submit("name: x\n")
                await job.wait()
                return job.state, (await job.metrics()).series("loss")

        self.assertEqual(asyncio.run(story()), ("completed", [(1, 2.0), (2, 1.0)]))

    def test_refusals_are_the_same(self):
        self.daemon.answers = [Refusal(grpc.StatusCode.NOT_FOUND, "no job has the id", "JOB_NOT_FOUND")]

        async def story():
            async with traind.aio.Client(socket=self.daemon.socket) as client:
                await client.job("absent")

        with self.assertRaises(traind.JobNotFound):
            asyncio.run(story())


if __name__ == "__main__":
    unittest.main()
