"""The estimator's job files, and its refusals."""

import json
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace

import support
from daemon import Daemon, completed
from support import moved

import traind
from traind import HuggingFace, UnsupportedArgument
from traind.sagemaker import tables
from traind.sagemaker.hyperparameters import job_keys

#: Arguments with the job file that they become, which the tests of `traind convert` read too.
CASES = Path(__file__).resolve().parents[2] / "convert/tests/convert/files/sagemaker/cases.json"
MODEL_PARALLEL = {
    "smdistributed": {
        "modelparallel": {
            "enabled": True,
            "parameters": {"pipeline_parallel_degree": 2, "microbatches": 4, "placement_strategy": "spread"},
        }
    },
    "mpi": {"enabled": True, "processes_per_host": 4},
}


#: Arguments of SageMaker's estimator.
SAGEMAKERS = """
py_version entry_point transformers_version tensorflow_version pytorch_version source_dir hyperparameters image_uri
distribution compiler_config training_recipe recipe_overrides container_log_level code_location git_config
checkpoint_s3_uri checkpoint_local_path enable_sagemaker_metrics dependencies role instance_count instance_type
keep_alive_period_in_seconds volume_size volume_kms_key max_run input_mode output_path output_kms_key base_job_name
sagemaker_session tags subnets security_group_ids model_uri model_channel_name metric_definitions
encrypt_inter_container_traffic use_spot_instances max_wait rules debugger_hook_config tensorboard_output_config
enable_network_isolation profiler_config disable_profiler environment max_retry_attempts instance_groups
training_repository_access_mode training_repository_credentials_provider_arn enable_infra_check
container_entry_point container_arguments disable_output_compression enable_remote_debug training_plan
instance_placement_config enable_session_tag_chaining
""".split()


def estimator(**arguments):
    usual = {"model": "distilbert-base-uncased", "task": "sequence-classification"}
    return HuggingFace(**{**usual, **arguments})


def job_file(inputs="s3://bucket/train", **arguments):
    return estimator(**arguments).job_file(inputs, "tweets")


def model_parallel(parameters):
    """The job file with parameters of SageMaker's model-parallel library."""
    distribution = {"smdistributed": {"modelparallel": {"enabled": True, "parameters": parameters}}}
    return job_file(distribution=distribution, instance_type="ml.p4d.24xlarge")


class SharedCases(unittest.TestCase):
    def test_arguments_become_the_job_file_that_convert_writes(self):
        for case in json.loads(CASES.read_text()):
            with self.subTest(case["about"]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if "refused" in case:
                    with self.assertRaises((UnsupportedArgument, ValueError, TypeError)) as caught:
                        HuggingFace(**case["arguments"]).job_file(case.get("inputs"))
                    self.assertIn(case["refused"], str(caught.exception))
                    continue
                found = HuggingFace(**case["arguments"]).job_file(case.get("inputs"))
                name = found.pop("name")
                self.assertEqual(name, case.get("name", name))
                del found["output_dir"]
                self.assertEqual(found, case["job"])

    def test_every_script_of_the_table_trains_or_is_refused(self):
        for script, known in tables.SCRIPTS.items():
            with self.subTest(script):
                if "unsupported" in known:
                    with self.assertRaisesRegex(UnsupportedArgument, "support|are texts"):
                        job_file(entry_point=f"{script}.py", task=None)
                else:
                    self.assertEqual(tables.SCRIPTS[script]["task"], known["task"])


class JobFiles(unittest.TestCase):
    def test_a_notebooks_arguments_are_a_job_file(self):
        with warnings.catch_warnings(record=True) as ignored:
            warnings.simplefilter("always")
            found = job_file(
                {"train": "s3://bucket/train", "test": "s3://bucket/test"},
                instance_type="ml.p3.8xlarge",
                instance_count=1,
                role="arn:role",
                transformers_version="4.26",
                pytorch_version="1.13",
                py_version="py39",
                use_spot_instances=True,
                max_run=3600,
                max_wait=7200,
                output_path="/models",
                hyperparameters={"epochs": 1, "train_batch_size": "32", "learning_rate": "3e-5", "fp16": "True"},
            )
        expected = {
            "name": "tweets",
            "output_dir": "/models/tweets",
            "model": {"task": "sequence-classification", "name_or_path": "distilbert-base-uncased"},
            "data": {"train": "s3://bucket/train/*.arrow", "validation": "s3://bucket/test/*.arrow"},
            "train": {
                "num_train_epochs": 1,
                "per_device_train_batch_size": 32,
                "learning_rate": 3e-5,
                "fp16": True,
            },
            "resources": {"platform": "cuda", "cores": 4, "max_run_seconds": 3600, "max_wait_seconds": 3600},
        }
        self.assertEqual(found, expected)
        names = [str(warning.message).split(" ")[0] for warning in ignored]
        self.assertEqual(names, ["role", "transformers_version", "pytorch_version", "py_version", "use_spot_instances"])
        self.assertEqual({warning.filename for warning in ignored}, {__file__})

    def test_an_example_script_says_the_task_and_its_files_are_in_channels(self):
        found = job_file(
            {"train": "s3://bucket/data", "test": "s3://bucket/data"},
            entry_point="run_glue.py",
            model=None,
            task=None,
            hyperparameters={
                "model_name_or_path": "bert-base-cased",
                "train_file": "/opt/ml/input/data/train/train.csv",
                "validation_file": "/opt/ml/input/data/test/dev.csv",
                "max_seq_length": 128,
                "do_train": True,
            },
        )
        self.assertEqual(found["model"], {"task": "sequence-classification", "name_or_path": "bert-base-cased"})
        self.assertEqual(
            found["data"],
            {"train": "s3://bucket/data/train.csv", "validation": "s3://bucket/data/dev.csv", "max_length": 128},
        )

    def test_a_hyperparameter_with_a_dot_is_a_field(self):
        found = job_file(
            hyperparameters={"data.label_map": {1: "bad", 2: "good"}, "data.columns.rename": {"t": "text"}}
        )
        self.assertEqual(found["data"]["label_map"], {1: "bad", 2: "good"})
        self.assertEqual(found["data"]["columns"], {"rename": {"t": "text"}})

    def test_texts_are_values_in_every_section(self):
        found = job_file(
            hyperparameters={
                "data.validation_split": "0.2",
                "pad_to_max_length": "True",
                "model.from_config": "False",
                "max_seq_length": "128",
                "text_column_name": "1",
                "weight_decay": "0.01",
                "model.revision": "7",
                "data.on_bad_lines": "nan",
            }
        )
        self.assertEqual(
            found["data"],
            {
                "train": "s3://bucket/train/*.arrow",
                "validation_split": 0.2,
                "pad_to_max_length": True,
                "max_length": 128,
                "text": "1",
                "on_bad_lines": "nan",
            },
        )
        self.assertEqual((found["model"]["from_config"], found["model"]["revision"]), (False, "7"))
        self.assertEqual(found["train"], {"weight_decay": 0.01})

    def test_an_experiment_of_fit_is_warned_of(self):
        client = SimpleNamespace(submit=lambda _: None)
        with self.assertWarnsRegex(UserWarning, "report_to"):
            estimator(client=client).fit("train.csv", wait=False, experiment_config={"TrialName": "x"})

    def test_parallel_degrees_are_parallel_keys(self):
        found = job_file(distribution=MODEL_PARALLEL, instance_type="ml.p4d.24xlarge")
        self.assertEqual(found["parallel"], {"pipeline": 2, "microbatches": 4, "placement": "spread"})
        self.assertEqual(found["resources"]["cores"], 4)

    def test_activations_move_to_host_memory_as_in_the_library(self):
        kept = {"pipeline": 2, "offload": ["activations"], "activation_loading_horizon": 2}
        for name in ("offload_activations", "sm_activation_offloading"):
            for is_on, parallel in ((True, kept), (False, {"pipeline": 2, "activation_loading_horizon": 2})):
                parameters = {name: is_on, "pipeline_parallel_degree": 2, "activation_loading_horizon": 2}
                self.assertEqual(model_parallel(parameters).get("parallel"), parallel)

    def test_positions_are_divided_by_either_name(self):
        for name in ("sequence_parallel", "sequence_parallel_enabled"):
            found = model_parallel({"tensor_parallel_degree": 2, name: True})
            self.assertEqual(found["parallel"], {"tensor": 2, "sequence_parallel": True})

    def test_texts_are_values_of_parameters_too(self):
        found = model_parallel({"tensor_parallel_degree": "2", "horovod": "False", "placement_strategy": "TPD"})
        self.assertEqual(found["parallel"], {"tensor": 2, "placement": "TPD"})

    def test_cores_that_share_layers_share_the_rows_of_a_batch(self):
        for prescaled, expected in ((False, ["multiply per_device_train_batch_size by 4"]), (True, [])):
            with warnings.catch_warnings(record=True) as ignored:
                warnings.simplefilter("always")
                model_parallel({"tensor_parallel_degree": 4, "prescaled_batch": prescaled})
            found = [str(warning.message) for warning in ignored]
            self.assertEqual(len(found), len(expected))
            for text, part in zip(found, expected):
                self.assertIn(part, text)

    def test_sharded_data_parallelism_is_fsdp(self):
        for degree, parallel in ((8, {"fsdp": "full_shard"}), (1, None)):
            found = model_parallel({"sharded_data_parallel_degree": degree})
            self.assertEqual(found.get("parallel"), parallel)

    def test_data_parallelism_is_by_itself(self):
        enabled = {"enabled": True}
        for distribution in ({"smdistributed": {"dataparallel": enabled}}, {"torch_distributed": enabled}):
            found = job_file(distribution=distribution, instance_type="ml.trn1.2xlarge")
            self.assertNotIn("parallel", found)
            self.assertEqual(found["resources"], {"platform": "neuron", "cores": 2})

    def test_instances_are_hosts_of_a_cluster(self):
        wanted = {"platform": "neuron", "cores": 32, "engine": "slurm", "hosts": 2}
        several = {"instance_type": "ml.trn1.32xlarge", "instance_count": 2}
        self.assertEqual(job_file(**several, engine="slurm")["resources"], wanted)
        found = job_file(**several, hyperparameters={"resources.engine": "slurm", "slurm.partition": "long"})
        self.assertEqual(found["resources"], wanted)
        self.assertEqual(found["slurm"], {"partition": "long"})
        self.assertEqual(job_file(engine="kubernetes")["resources"]["engine"], "kubernetes")

    def test_an_instance_has_its_devices(self):
        for instance_type, platform, cores in [
            ("ml.trn2.48xlarge", "neuron", 64),
            ("ml.trn2.3xlarge", "neuron", 4),
            ("ml.p5en.48xlarge", "cuda", 8),
            ("ml.p6-b200.48xlarge", "cuda", 8),
            ("ml.p6e-gb200.36xlarge", "cuda", 4),
            ("ml.g6e.2xlarge", "cuda", 1),
            ("ml.g6e.48xlarge", "cuda", 8),
            ("ml.m5.large", "cpu", 1),
        ]:
            with self.subTest(instance_type):
                self.assertEqual(
                    job_file(instance_type=instance_type)["resources"], {"platform": platform, "cores": cores}
                )

    def test_evaluations_and_checkpoints_have_one_rhythm(self):
        with self.assertWarnsRegex(UserWarning, "HF_TOKEN"):
            found = job_file(hyperparameters={"strategy": "steps", "steps": 5000, "hub_token": "hf_x"})
        rhythm = {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 5000, "save_steps": 5000}
        self.assertEqual(found["train"], rhythm)

    def test_scripts_have_arguments_of_their_own(self):
        images = job_file(
            None,
            task=None,
            entry_point="run_image_classification.py",
            hyperparameters={"train_dir": "/photos", "train_val_split": 0.1},
        )
        self.assertEqual(images["model"]["task"], "image-classification")
        self.assertEqual(images["data"], {"train": "/photos", "validation_split": 0.1})
        summaries = job_file(
            "train.csv",
            task=None,
            entry_point="run_summarization.py",
            hyperparameters={"text_column": "dialogue", "summary_column": "summary", "num_beams": 4},
        )
        expected = {"train": "train.csv", "source": "dialogue", "target": "summary", "max_source_length": 1024}
        self.assertEqual(summaries["data"], expected)
        self.assertEqual(summaries["train"], {"generation_num_beams": 4})

    def test_words_and_their_labels_are_columns_of_their_own(self):
        script = {"task": None, "entry_point": "run_ner.py"}
        named = {"text_column_name": "words", "label_column_name": "tags"}
        for arguments, columns in [
            ({**script, "hyperparameters": named}, {"tokens": "words", "labels": "tags"}),
            (script, {"tokens": "tokens", "labels": "ner_tags"}),
            (
                {"task": None, "hyperparameters": {"task": "token-classification", **named}},
                {"tokens": "words", "labels": "tags"},
            ),
            ({"hyperparameters": named}, {"text": "words", "label": "tags"}),
            ({"hyperparameters": {"text_column_names": "title, body"}}, {"text": "title", "text_pair": "body"}),
        ]:
            with self.subTest(arguments):
                self.assertEqual(job_file("train.json", **arguments)["data"], {"train": "train.json", **columns})

    def test_a_regression_is_a_type_of_problem(self):
        for given, kind in [("True", "regression"), (False, "single_label_classification")]:
            model = job_file(hyperparameters={"do_regression": given})["model"]
            self.assertEqual(model["problem_type"], kind)

    def test_the_type_of_a_model_is_its_own(self):
        with self.assertWarnsRegex(UserWarning, "model_type has no effect"):
            found = job_file(hyperparameters={"model_type": "bert"})
        self.assertEqual(found["model"]["name_or_path"], "distilbert-base-uncased")

    def test_a_data_set_of_the_hub_has_the_splits_that_the_script_reads(self):
        for phases, splits in [({}, ["train"]), ({"do_eval": True, "do_predict": "False"}, ["train", "validation"])]:
            found = job_file(None, hyperparameters={"dataset_name": "imdb", **phases})["data"]
            self.assertEqual(found, dict.fromkeys(splits, "stanfordnlp/imdb"))

    def test_a_task_of_glue_names_data_columns_and_labels(self):
        hyperparameters = {
            "model_name_or_path": "roberta-large",
            "tokenizer_name": "roberta-large",
            "task_name": "mnli",
            "do_eval": True,
            "max_steps": 500,
        }
        found = job_keys(hyperparameters, {}, "sequence-classification")
        expected = {
            "model.name_or_path": "roberta-large",
            "data.train": "nyu-mll/glue",
            "data.validation": "hf://datasets/nyu-mll/glue/mnli/validation_matched-*.parquet",
            "data.dataset_config_name": "mnli",
            "data.text": "premise",
            "data.text_pair": "hypothesis",
            "model.num_labels": 3,
            "train.max_steps": 500,
        }
        self.assertEqual({path: found.get(path) for path in expected}, expected)

    def test_channels_are_splits(self):
        wanted = {
            "training": ("train", "s3://b/x.csv", "s3://b/x.csv"),
            "eval": ("validation", "file:///data/dev", "/data/dev"),
            "test": ("test", ["s3://b/a", "hf"], ["s3://b/a/*.csv", "hf"]),
        }
        inputs = {channel: given for channel, (_, given, _) in wanted.items()}
        found = job_file(inputs, input_format="csv")["data"]
        self.assertEqual(found, {split: files for split, _, files in wanted.values()})

    def test_a_training_input_is_its_uri(self):
        source = {"DataSource": {"S3DataSource": {"S3Uri": "s3://b/train.parquet"}}}
        self.assertEqual(job_file(SimpleNamespace(config=source))["data"], {"train": "s3://b/train.parquet"})


class Buckets(unittest.TestCase):
    def test_the_model_and_the_checkpoints_may_be_in_buckets(self):
        found = job_file(output_path="s3://b/models/", checkpoint_s3_uri="s3://b/checkpoints")
        self.assertEqual(found["output_dir"], "s3://b/models/tweets")
        self.assertEqual(found["checkpoint_dir"], "s3://b/checkpoints")
        self.assertEqual(found["train"]["resume_from_checkpoint"], "auto")


class Refusals(unittest.TestCase):
    def check(self, name, advice, **arguments):
        with self.assertRaises(UnsupportedArgument) as caught:
            job_file(**arguments)
        self.assertIn(name, caught.exception.name)
        self.assertIn(advice, str(caught.exception))

    def test_what_means_nothing_here_is_refused_by_name(self):
        for name, advice, arguments in [
            ("entry_point", "task", {"entry_point": "train.py", "task": None}),
            ("instance_count", "engine='slurm'", {"instance_count": 2}),
            ("instance_count", "engine='slurm'", {"instance_count": 2, "engine": "local"}),
            ("instance_type", "cores", {"instance_type": "ml.x9.large"}),
            ("image_uri", "containers", {"image_uri": "image"}),
            ("checkpoint_s3_uri", "s3://", {"checkpoint_s3_uri": "gs://b/c"}),
            ("output_path", "s3://", {"output_path": "https://b/out"}),
            ("parameter_server", "leave it out", {"distribution": {"parameter_server": {"enabled": True}}}),
            ("task_name", "none of GLUE's tasks", {"hyperparameters": {"task_name": "ax"}}),
            ("task_name", "their columns", {"hyperparameters": {"task_name": "mnli"}, "task": "question-answering"}),
            ("tokenizer_name", "the model's", {"hyperparameters": {"tokenizer_name": "other"}}),
            ("max_train_samples", "max_steps", {"hyperparameters": {"max_train_samples": 100}, "task": "masked-lm"}),
            ("text_column_names", "one text or two", {"hyperparameters": {"text_column_names": "a,b,c"}}),
            ("inputs", "channels", {"inputs": {"images": "s3://b/i"}}),
        ]:
            with self.subTest(name):
                self.check(name, advice, **arguments)

    def test_true_is_no_degree_of_one(self):
        for value in (True, 1):
            with self.subTest(value), self.assertRaisesRegex(UnsupportedArgument, "leave it out"):
                model_parallel({"horovod": value})
        self.assertNotIn("parallel", model_parallel({"horovod": False}))
        with self.assertRaisesRegex(UnsupportedArgument, "number of GPUs"):
            model_parallel({"sharded_data_parallel_degree": True})

    def test_values_of_another_kind_are_refused_in_a_sentence(self):
        enabled = {"smdistributed": {"modelparallel": True}}
        for arguments, sentence in [
            ({"hyperparameters": ["epochs"]}, "hyperparameters is a mapping"),
            ({"hyperparameters": {1: 2}}, "a hyperparameter has a name"),
            ({"distribution": "mpi"}, "distribution is a mapping"),
            ({"distribution": {"mpi": True}}, r"distribution\['mpi'\] is a mapping"),
            ({"distribution": enabled}, r"\['modelparallel'\] is a mapping"),
            ({"instance_type": 8}, "instance_type is a text"),
            ({"instance_count": "2"}, "instance_count is a whole number"),
            ({"max_run": True}, "max_run is a whole number"),
            ({"entry_point": 1}, "entry_point is a text"),
            ({"model": 5}, "model is a text"),
            ({"output_path": []}, "output_path is a text"),
            ({"hyperparameters": {"max_train_samples": "many"}}, "max_train_samples'\\] is a number"),
            ({"inputs": {1: "s3://b/x"}}, "a channel has a name"),
        ]:
            with self.subTest(arguments), self.assertRaisesRegex(TypeError, sentence):
                job_file(**arguments)
        with self.assertRaisesRegex(UnsupportedArgument, "no TrainingInput"):
            job_file(SimpleNamespace(config=None))

    def test_every_argument_of_sagemakers_estimator_is_known(self):
        # The names in HuggingFace, Framework and EstimatorBase of SageMaker's SDK 2.
        for name in SAGEMAKERS:
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    estimator(**{name: "x"})
                except (UnsupportedArgument, ValueError):
                    continue
                except TypeError as error:
                    self.assertNotIn("has no argument", str(error))

    def test_an_attribute_of_sagemakers_estimator_is_named_with_its_counterpart(self):
        for name, sentence in (
            ("training_job_analytics", "metrics"),
            ("register", "transformers"),
            ("fitt", "job_file"),
        ):
            with self.subTest(name), self.assertRaisesRegex(AttributeError, sentence):
                getattr(estimator(), name)
        self.assertFalse(hasattr(estimator(), "transformer"))

    def test_hyperparameters_are_added_before_fit(self):
        notebook = estimator(hyperparameters={"epochs": 1})
        notebook.set_hyperparameters(lr=1e-4)
        self.assertEqual(notebook.job_file("a.csv")["train"], {"num_train_epochs": 1, "learning_rate": 1e-4})

    def test_a_value_that_is_given_twice_is_no_choice(self):
        for hyperparameters in ({"model_name": "bert-base-cased"}, {"epochs": 1, "num_train_epochs": 2}):
            with self.assertRaisesRegex(ValueError, "twice"):
                job_file(hyperparameters=hyperparameters)

    def test_an_unknown_argument_is_a_mistake(self):
        with self.assertRaisesRegex(TypeError, "instance_typ"):
            estimator(instance_typ="local")


class Training(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)
        self.client = traind.Client(socket=self.daemon.socket)
        self.addCleanup(self.client.close)

    def test_fit_waits_and_names_the_model_folder(self):
        done = support.job("completed", output_dir="/models/x")
        self.daemon.answers = [support.job("pending"), *completed([moved(1, "completed")]), done]
        trained = estimator(client=self.client)
        trained.fit("train.csv")
        self.assertEqual(trained.model_data, "/models/x")
        self.assertEqual(trained.latest_training_job.id, "j1")

    def test_a_job_that_runs_has_no_model(self):
        self.daemon.answers = [support.job("pending"), support.job("running")]
        trained = estimator(client=self.client)
        trained.fit("train.csv", wait=False)
        with self.assertRaisesRegex(RuntimeError, "running"):
            _ = trained.model_data

    def test_a_job_is_found_again(self):
        self.daemon.answers = [support.job("running")]
        self.assertEqual(HuggingFace.attach("tiny", client=self.client).latest_training_job.name, "tiny")


if __name__ == "__main__":
    unittest.main()
