//! Command lines of transformers' example scripts.

use std::path::Path;

use traind_convert::{convert_command, convert_script_with};

use super::{check, check_fields, check_refused, command};

const RUN: &str = "--do_train --do_eval";

#[test]
fn glue_by_the_name_of_a_task() {
    let line = "python run_glue.py --model_name_or_path google-bert/bert-base-cased --task_name mrpc --do_train \
        --do_eval --max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3 \
        --output_dir /tmp/mrpc/";
    check(
        command(line),
        &[
            ("name", "mrpc"),
            ("model.name_or_path", "google-bert/bert-base-cased"),
            ("model.task", "sequence-classification"),
            ("model.num_labels", "2"),
            ("data.train.patterns", "null"),
            ("data.dataset_config_name", "mrpc"),
            ("data.text", "sentence1"),
            ("data.text_pair", "sentence2"),
            ("data.max_length", "128"),
            ("train.per_device_train_batch_size", "32"),
            ("train.learning_rate", "2e-5"),
            ("output_dir", "/tmp/mrpc"),
        ],
        &[],
    );
}

#[test]
fn glue_tasks_have_their_columns_and_labels() {
    for (task, text, labels) in
        [("sst2", "sentence", "2"), ("mnli", "premise", "3"), ("stsb", "sentence1", "1")]
    {
        let line =
            format!("run_glue.py --model_name_or_path x/y --task_name {task} {RUN} --output_dir o");
        check(command(&line), &[("data.text", text), ("model.num_labels", labels)], &[]);
    }
    let line =
        format!("run_glue.py --model_name_or_path x/y --task_name boolq {RUN} --output_dir o");
    check_refused(command(&line), &[("task_name", "none of GLUE's tasks")]);
}

#[test]
fn glue_on_files_says_which_column_is_read() {
    let line = "run_glue.py --model_name_or_path x/y --train_file train.csv --validation_file dev.csv \
        --do_train --do_eval --output_dir out --overwrite_output_dir --fp16";
    let values = [
        ("data.max_length", "128"),
        ("train.fp16", "true"),
        ("train.overwrite_output_dir", "true"),
    ];
    check(command(line), &values, &["data.text"]);
}

/// The scripts' parser adds `--no_…` to each argument that is true by default.
#[test]
fn arguments_are_negated() {
    let line = "python run_glue.py --model_name_or_path x/y --train_file a.csv --do_train --output_dir out \
        --no_pad_to_max_length";
    check(command(line), &[("data.pad_to_max_length", "false")], &["data.text"]);
}

#[test]
fn classification_of_a_data_set() {
    let line = "python run_classification.py --model_name_or_path x/y --dataset_name imdb --text_column_names text \
        --label_column_name label --shuffle_train_dataset --metric_name accuracy --do_train --do_eval \
        --max_seq_length 512 --output_dir out";
    let notes = ["shuffle_train_dataset", "metric_name"];
    check(command(line), &[("data.text", "text"), ("data.max_length", "512")], &notes);
}

/// TrainingArguments sets do_eval where eval_strategy is not `no`.
#[test]
fn a_strategy_of_evaluation_evaluates() {
    let line =
        "run_mlm.py --model_name_or_path x/y --dataset_name wikitext --do_train --output_dir out";
    for strategy in ["--eval_strategy epoch", "--evaluation_strategy epoch --do_eval False"] {
        check(
            command(&format!("{line} {strategy}")),
            &[
                ("train.do_eval", "null"),
                ("data.validation", "['hf://datasets/Salesforce/wikitext']"),
            ],
            &[],
        );
    }
    let expect = [("train.do_eval", "false"), ("data.validation", "null")];
    check(command(&format!("{line} --eval_strategy no")), &expect, &[]);
}

#[test]
fn numbers_may_have_underscores_as_in_python() {
    let line =
        "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train --save_steps 10_000";
    check(command(line), &[("train.save_steps", "10000")], &[]);
}

#[test]
fn mappings_on_a_command_line_are_json() {
    let line = "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train \
        --lr_scheduler_type cosine_with_restarts --lr_scheduler_kwargs '{\"num_cycles\": 2}'";
    check(command(line), &[("train.lr_scheduler_kwargs.num_cycles", "2")], &[]);
}

#[test]
fn checkpoints_to_resume_from_are_those_of_traind() {
    let line = "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train \
        --resume_from_checkpoint out/checkpoint-2";
    let expect = [("train.resume_from_checkpoint", "/base/out/checkpoint-2")];
    check(command(line), &expect, &["resume_from_checkpoint"]);
}

#[test]
fn short_names_of_data_sets_are_ids_of_the_hub() {
    let rest = "--model_name_or_path google-t5/t5-small --do_train --do_eval --output_dir out";
    let line = format!(
        "run_summarization.py {rest} --dataset_name cnn_dailymail --dataset_config \"3.0.0\" \
         --source_prefix \"summarize: \""
    );
    let expect = [
        ("data.train", "['hf://datasets/abisee/cnn_dailymail']"),
        ("data.dataset_config_name", "'3.0.0'"),
        ("data.target", "highlights"),
    ];
    check(command(&line), &expect, &[]);
    let line = format!(
        "run_translation.py {rest} --dataset_name wmt16 --dataset_config_name ro-en --source_lang en --target_lang ro"
    );
    check(command(&line), &[("data.train", "['hf://datasets/wmt/wmt16']")], &[]);
    // mBART's codes, which also name the texts of `translation`.
    let line = format!(
        "run_translation.py {rest} --train_file a.json --source_lang en_XX --target_lang ro_RO"
    );
    let languages = [("data.source_lang", "en_XX"), ("data.target_lang", "ro_RO")];
    check(command(&line), &languages, &[]);
}

#[test]
fn xnli_needs_files_of_its_own() {
    let line =
        "run_xnli.py --model_name_or_path x/y --language de --do_train --do_eval --output_dir out";
    check_refused(command(line), &[("language", "files of each language")]);
}

#[test]
fn ner_by_data_set_and_by_file() {
    let line = "python run_ner.py --model_name_or_path x/y --dataset_name conll2003 --output_dir /tmp/ner --do_train \
        --do_eval";
    let expect = [
        ("data.tokens", "tokens"),
        ("data.labels", "ner_tags"),
        ("model.task", "token-classification"),
    ];
    check(command(line), &expect, &[]);
    let line = "run_ner.py --model_name_or_path x/y --train_file t.json --validation_file v.json --do_train --do_eval \
        --text_column_name words --label_column_name tags --return_entity_level_metrics --output_dir out";
    let expect = [("data.tokens", "words"), ("data.labels", "tags")];
    check(command(line), &expect, &["return_entity_level_metrics"]);
    let line = "run_ner.py --model_name_or_path x/y --dataset_name conll2003 --task_name pos --do_train --output_dir out";
    check(command(line), &[("data.labels", "pos_tags")], &[]);
}

#[test]
fn question_answering_with_and_without_answers() {
    let line = "python run_qa.py --model_name_or_path x/y --dataset_name squad --do_train --do_eval \
        --per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 \
        --doc_stride 128 --output_dir /tmp/debug_squad/";
    let expect = [("name", "debug_squad"), ("data.max_length", "384"), ("data.doc_stride", "128")];
    check(command(line), &expect, &[]);
    let line = "run_qa.py --model_name_or_path x/y --dataset_name squad_v2 --version_2_with_negative --do_train \
        --do_eval --null_score_diff_threshold -1.5 --output_dir out";
    let expect =
        [("data.version_2_with_negative", "true"), ("data.null_score_diff_threshold", "-1.5")];
    check(command(line), &expect, &[]);
}

#[test]
fn masked_language_models() {
    let line = "python run_mlm.py --model_name_or_path FacebookAI/roberta-base --dataset_name wikitext \
        --dataset_config_name wikitext-2-raw-v1 --per_device_train_batch_size 8 --do_train --do_eval \
        --output_dir /tmp/test-mlm";
    check(
        command(line),
        &[("model.task", "masked-lm"), ("data.dataset_config_name", "wikitext-2-raw-v1")],
        &[],
    );
    let line = "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train --do_eval --line_by_line \
        --pad_to_max_length --max_seq_length 64 --output_dir out";
    let expect = [("data.validation_split", "0.05"), ("data.line_by_line", "true")];
    check(command(line), &expect, &["validation_split_percentage"]);
    let line = "run_mlm.py --model_type bert --tokenizer_name x/y --config_name x/y --train_file a.txt --do_train";
    let scratch = "random weights";
    check_refused(
        command(line),
        &[("config_name", scratch), ("model_type", scratch), ("tokenizer_name", "model's")],
    );
    // Earlier versions of the scripts asked for the type in any case.
    let line =
        "run_mlm.py --model_type bert --model_name_or_path x/y --train_file a.txt --do_train";
    check(command(line), &[("model.name_or_path", "x/y")], &["model_type"]);
    let line = "run_ner.py --data_dir ./ --labels ./labels.txt --model_name_or_path x/y --do_train";
    check_refused(command(line), &[("data_dir", "train_file"), ("labels", "rows to train on")]);
}

#[test]
fn causal_language_models() {
    let line = "python run_clm.py --model_name_or_path openai-community/gpt2 --train_file t.txt --validation_file v.txt \
        --per_device_train_batch_size 8 --do_train --do_eval --block_size 256 --torch_dtype bfloat16 --bf16 True \
        --low_cpu_mem_usage --output_dir /tmp/test-clm --config_overrides n_layer=2,resid_pdrop=0.0";
    let expect = [
        ("model.config_overrides", "{n_layer: 2, resid_pdrop: 0.0}"),
        ("data.block_size", "256"),
        ("train.bf16", "true"),
    ];
    check(command(line), &expect, &["torch_dtype", "low_cpu_mem_usage"]);
    let line = "run_clm.py --model_name_or_path x/y --dataset_name some_set --do_train --max_train_samples 100 \
        --hub_token hf_x --output_dir out";
    check_refused(
        command(line),
        &[
            ("hub_token", "HF_TOKEN"),
            ("dataset_name", "org/name"),
            ("max_train_samples", "max_steps"),
        ],
    );
}

#[test]
fn scripts_of_what_is_not_supported_yet() {
    for (line, key, sentence) in [
        ("run_seq2seq_qa.py --do_train", "run_seq2seq_qa", "train task seq2seq-lm"),
        ("run_swag.py --do_train", "run_swag", "multiple choice"),
    ] {
        check_refused(command(line), &[(key, sentence)]);
    }
}

#[test]
fn images_in_folders_or_data_sets() {
    let line = format!("run_image_classification.py --output_dir out {RUN} --train_dir data/train");
    check(
        command(&format!("{line} --image_column_name picture --ignore_mismatched_sizes True")),
        &[
            ("model.task", "image-classification"),
            ("model.name_or_path", "google/vit-base-patch16-224-in21k"),
            ("model.ignore_mismatched_sizes", "true"),
            ("data.image", "picture"),
            ("data.validation_split", "0.15"),
        ],
        &[],
    );
    let quarter = command(&format!("{line} --train_val_split 0.25"));
    check(quarter, &[("data.validation_split", "0.25")], &[]);
    let evaluated = command(&format!("{line} --validation_dir data/dev"));
    check(evaluated, &[("data.validation_split", "null")], &[]);
    let processor = command(&format!("{line} --image_processor_name x/z"));
    check_refused(processor, &[("image_processor_name", "preprocessor_config.json")]);
}

#[test]
fn texts_from_texts_need_their_columns_or_languages() {
    let rest = "--model_name_or_path x/y --do_train --train_file a.jsonl --output_dir out";
    check_refused(
        command(&format!("run_translation.py {rest} --source_lang en")),
        &[("target_lang", "translation")],
    );
    check_refused(
        command(&format!("run_summarization.py {rest} --text_column body")),
        &[("summary_column", "--set data.target=")],
    );
}

#[test]
fn command_lines_that_run_no_example() {
    check_refused(
        command("python train.py --epochs 3"),
        &[("", "train.py is not a known example script")],
    );
    check_refused(command("ls -l"), &[("", "no example script")]);
    check_refused(command("python run_glue.py --task_name $TASK_NAME"), &[("", "$TASK_NAME")]);
}

#[test]
fn a_command_line_of_words_has_no_operators() {
    let words =
        ["run_mlm.py", "--do_train", "--model_name_or_path", "x/y", "--train_file", "a;b.txt"];
    let converted = convert_command(&words.map(str::to_owned), &[], &|_| None);
    check(converted, &[("data.train", "[/base/a;b.txt]")], &[]);
    assert!(convert_command(&[], &[], &|_| None).is_err());
}

/// The most tokens of a generated text are those of a target, in the script.
#[test]
fn lengths_of_generated_texts_are_those_of_targets() {
    let line = "run_summarization.py --model_name_or_path x/y --dataset_name xsum --do_train --do_eval \
        --predict_with_generate";
    for (options, length) in [
        ("", "128"),
        ("--max_target_length 60", "60"),
        ("--max_target_length 60 --val_max_target_length 60", "60"),
        ("--max_target_length 60 --generation_max_length 30", "30"),
    ] {
        let expect = [("train.generation_max_length", length)];
        check(command(&format!("{line} {options}")), &expect, &[]);
    }
}

/// Arguments in a file, which the scripts read where it is their only argument, were once passed over.
#[test]
fn arguments_in_a_json_file_are_read() {
    let file = r#"{"model_name_or_path": "x/y", "train_file": "a.txt", "do_train": true, "learning_rate": 1e-3}"#;
    let files = |path: &Path| path.ends_with("config.json").then(|| file.to_owned());
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let expect = [("model.name_or_path", "x/y"), ("train.learning_rate", "1e-3")];
    check(convert_command(&words("python run_mlm.py config.json"), &[], &files), &expect, &[]);
    let script = "#!/bin/sh\npython run_mlm.py config.json\n";
    check(convert_script_with(script, &[], &files), &expect, &[]);
    let none = command("python run_mlm.py config.json");
    check_refused(none, &[("config.json", "cannot be read; give its path")]);
    let word = command("python run_mlm.py extra --do_train");
    check_refused(word, &[("", "`extra` comes before the first option")]);
}

#[test]
fn the_first_rows_of_a_split_are_a_limit() {
    let line = "run_classification.py --model_name_or_path x/y --do_train --do_eval --train_file a.csv \
        --validation_file b.csv --text_column_names t --max_train_samples 10 --max_eval_samples 5";
    let converted = command(line).unwrap();
    for entry in
        [r#"train: [{"path":"a.csv","limit":10}]"#, r#"validation: [{"path":"b.csv","limit":5}]"#]
    {
        assert!(converted.job_file.contains(entry), "{}", converted.job_file);
    }
    let drawn = "run_image_classification.py --train_dir a --do_train --max_train_samples 10";
    check_refused(command(drawn), &[("max_train_samples", "files with fewer rows")]);
}

#[test]
fn commands_of_other_tools_are_named() {
    for (line, sentence) in [
        ("axolotl train a.yml", "`traind convert a.yml --output job.yaml`"),
        ("cd x\nllamafactory-cli train b.yaml\n", "runs LLaMA-Factory: convert its file"),
        ("python run_clm_no_trainer.py --model_name_or_path gpt2", "those of run_clm.py"),
        (
            "python run_glue.py --do_train --model_name_or_path x/tune --no_such 1",
            "docs/job-file.md",
        ),
    ] {
        let refused = command(line).unwrap_err().to_string();
        assert!(refused.contains(sentence), "{line}: {refused}");
    }
}

/// Every refusal of an argument says what to do instead.
#[test]
fn refusals_say_what_to_do() {
    let line = "run_glue.py --model_name_or_path x/y --task_name sst2 --do_train";
    for (option, sentence) in [
        ("--tokenizer_name other", "leave the argument out"),
        ("--train_language en", "leave the argument out"),
        ("--no_such_option 1", "look for its key in docs/job-file.md"),
    ] {
        let key = option.trim_start_matches("--").split(' ').next().unwrap_or_default();
        check_refused(command(&format!("{line} {option}")), &[(key, sentence)]);
    }
    check_refused(command("python train.py --lr 1"), &[("", "traind init MODEL DATA")]);
    // A supported model needs no code of its own, and layers are wrapped in any case.
    for option in ["trust_remote_code true", "fsdp_transformer_layer_cls_to_wrap BertLayer"] {
        let key = option.split(' ').next().unwrap_or_default();
        check(command(&format!("{line} --{option}")), &[("model.num_labels", "2")], &[key]);
    }
}

/// The file that a tool's command names is read with the values that follow it.
#[test]
fn commands_with_files_of_settings_are_read() {
    let files = |path: &Path| {
        match path.to_str()? {
        "a.yml" => Some(
            "base_model: x/y\ndatasets:\n  - path: org/rows\n    type: alpaca\nmicro_batch_size: 2\n\
            learning_rate: 1e-5\n"
                .to_owned(),
        ),
        "l.yaml" => Some(
            "model_name_or_path: x/y\nstage: sft\nfinetuning_type: full\ndataset: alpaca_en_demo\ntemplate: llama3\n\
            do_train: true\nlearning_rate: 1e-5\n"
                .to_owned(),
        ),
        _ => None,
    }
    };
    let converted = |command: &str| {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        convert_command(&words, &[], &files)
            .unwrap_or_else(|refused| panic!("{command}: {refused}"))
    };
    let check = |command: &str, expect: &[(&str, &str)]| {
        check_fields(command, &converted(command).job_file, expect);
    };
    let axolotl =
        "axolotl train a.yml --learning-rate 2e-5 --launcher torchrun -- --nproc_per_node=2";
    let expect = [
        ("train.learning_rate", "2e-5"),
        ("train.per_device_train_batch_size", "2"),
        ("resources.cores", "2"),
    ];
    check(axolotl, &expect);
    let module = "accelerate launch --num_processes 4 -m axolotl.cli.train a.yml";
    check(module, &[("resources.cores", "4"), ("train.learning_rate", "1e-5")]);
    let factory = "FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train l.yaml learning_rate=3e-5 logging_steps=1";
    let expect = [
        ("train.learning_rate", "3e-5"),
        ("train.logging_steps", "1"),
        ("resources.cores", "2"),
        ("data.template", "llama3"),
    ];
    check(factory, &expect);
    let options = "llamafactory-cli train --stage sft --model_name_or_path x/y --dataset alpaca_en_demo \
        --template llama3 --do_train --finetuning_type full --output_dir o";
    check(options, &[("data.template", "llama3"), ("output_dir", "/base/o")]);
    // Scripts of earlier versions.
    for script in ["src/train_bash.py", "src/train.py"] {
        let command = options.replace("llamafactory-cli train", &format!("python {script}"));
        check(&command, &[("data.template", "llama3"), ("output_dir", "/base/o")]);
    }
}

/// The trainers of optimum-neuron have arguments of their own.
#[test]
fn arguments_for_trainium_are_fields() {
    let command = "torchrun --nproc_per_node=32 run_clm.py --model_name_or_path x/y --train_file a.txt --do_train \
        --zero_1 --tensor_parallel_size 8 --disable_sequence_parallel --output_dir o";
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let expect = [
        ("parallel.fsdp", "shard_optimizer"),
        ("parallel.tensor", "8"),
        ("resources.platform", "neuron"),
    ];
    check(convert_command(&words, &[], &|_| None), &expect, &["disable_sequence_parallel"]);
}

/// The script makes one text of several columns, which were once read as a pair.
#[test]
fn columns_that_a_script_joins_are_refused() {
    let line = "run_classification.py --model_name_or_path x/y --train_file a.csv --do_train --text_column_names a,b";
    check_refused(command(line), &[("text_column_names", "join them in a column of the file")]);
}

/// An option without its value was "not true", and to be put in quotes.
#[test]
fn options_without_their_values_are_named() {
    let line = "run_mlm.py --model_name_or_path --train_file a.txt --learning_rate --do_train";
    let expect =
        [("model_name_or_path", "needs a value"), ("train.learning_rate", "needs a value")];
    check_refused(command(line), &expect);
}
