//! Faults of data and settings that a run would have are found by the plan.

use std::fs;

use serde_json::{Value, json};
use traind_job_file::commands::PlanRequest;

use crate::plan::plan;

const CONFIG: &str = r#"{"model_type": "bert", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2}"#;

fn request(job: Value) -> PlanRequest {
    PlanRequest {
        job: serde_json::from_value(job).unwrap(),
        bytes_per_core_max: None,
        may_fetch: true,
        device: String::new(),
        instructions_max: None,
        with_effects: false,
        search: None,
    }
}

/// Plans a job in a folder with `files`, and compares the refusal, of which `expect` has the field and some words.
fn check(files: &[(&str, &str)], edit: impl Fn(&mut Value), expect: Option<(&str, &str)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("config.json"), CONFIG).unwrap();
    for (name, content) in files {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), content).unwrap();
    }
    let mut job = json!({
        "name": "planned",
        "model": {"name_or_path": folder.path(), "task": "sequence-classification"},
        "data": {"train": "train.csv"},
        "resources": {"cores": 1},
        "output_dir": "/out",
    });
    edit(&mut job);
    for split in ["train", "validation", "test"] {
        if let Some(name) = job["data"][split].as_str() {
            job["data"][split] = json!(path(name));
        }
    }
    let request = request(job);
    let found = plan(&request)
        .err()
        .map(|error| crate::plan::violations(&request.job, error).unwrap().remove(0));
    match (&found, expect) {
        (None, None) => {}
        (Some(found), Some((field, words))) if found.field == field => {
            assert!(found.description.contains(words), "{}", found.description);
        }
        _ => panic!("{found:?}, expected {expect:?}"),
    }
}

/// A decoder, and its tokenizer without a token that ends texts.
const DECODER: [(&str, &str); 3] = [
    (
        "config.json",
        r#"{"model_type": "gpt2", "vocab_size": 20, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 1}"#,
    ),
    (
        "tokenizer.json",
        r#"{"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
            "post_processor": null, "decoder": null, "added_tokens": [{"id": 1, "content": "<end>", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
            "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"a": 0, "<unk>": 2}}}"#,
    ),
    ("tokenizer_config.json", "{}"),
];

/// An encoder-decoder model of 16 positions.
const SUMMARIZER: (&str, &str) = (
    "config.json",
    r#"{"model_type": "bart", "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 1, "decoder_attention_heads": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
        "decoder_start_token_id": 2, "max_position_embeddings": 16}"#,
);

const ROWS: (&str, &str) = ("train.csv", "text,label\na,0\nb,1\n");

#[test]
fn data_that_a_run_could_not_read_are_found() {
    let none = |_: &mut Value| {};
    check(&[ROWS], none, None);
    // Not there yet.
    check(&[], none, None);
    check(&[("train.csv", "")], none, Some(("data.train", "train.csv: the file is empty")));
    check(&[("train.csv", "text,label\n")], none, Some(("data.train", "train.csv: no rows")));
    let other = |key: &'static str, value: &'static str| {
        move |job: &mut Value| job["data"][key] = value.into()
    };
    let lacking = r#"no column "body"; it has text, label (data.text names the column)"#;
    check(&[ROWS], other("text", "body"), Some(("data.train", lacking)));
    check(&[ROWS], other("label", "y"), Some(("data.train", "(data.label names the column)")));
    let format = [ROWS, ("rows.xml", "<a/>")];
    check(&format, other("train", "rows.xml"), Some(("data.train", "unknown data format")));
    check(&[ROWS], other("encoding", "klingon"), Some(("data.encoding", "klingon")));
    let validation = [ROWS, ("v.jsonl", "{\"text\": \"a\"}\n")];
    let evaluated = |job: &mut Value| {
        job["data"]["validation"] = "v.jsonl".into();
        job["train"]["eval_strategy"] = "epoch".into();
    };
    check(&validation, evaluated, Some(("data.validation", r#"no column "label""#)));
    let files = [("rows/a.csv", "text,label\na,0\n"), ("rows/b.csv", "text\na\n")];
    check(&files, other("train", "rows/*.csv"), Some(("data.train", "which")));
    let dropped = |job: &mut Value| job["data"]["columns"] = json!({"drop": ["label"]});
    check(&[ROWS], dropped, Some(("data.train", r#"no column "label"; it has text"#)));
    check(&[("c/x/a.txt", "b"), ("c/y/a.txt", "b")], other("train", "c"), None);
    let words = "has the one label \"x\" in all rows";
    check(&[("c/x/a.txt", "b")], other("train", "c"), Some(("data.train", words)));
    check(&[("c/a.txt", "b")], other("train", "c"), Some(("data.train", "is a folder")));
}

#[test]
fn pointers_in_the_place_of_files_are_found() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let none = |_: &mut Value| {};
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        let expect = Some(("model.name_or_path", "is a pointer of Git LFS"));
        check(&[ROWS, (name, pointer)], none, expect);
    }
    check(&[("train.csv", pointer)], none, Some(("data.train", "it is a pointer of Git LFS")));
}

/// Another job may write the file before this one starts.
#[test]
fn data_of_a_job_after_another_are_left_to_the_run() {
    let after = |job: &mut Value| job["resources"]["after"] = "other".into();
    check(&[("train.csv", "other\n1\n")], after, None);
}

#[test]
fn rows_to_predict_need_no_labels() {
    let predicted = |job: &mut Value| {
        job["data"]["test"] = "test.csv".into();
        job["train"]["do_predict"] = true.into();
    };
    check(&[ROWS, ("test.csv", "text\na\n")], predicted, None);
    let expect = Some(("data.test", r#"no column "text""#));
    check(&[ROWS, ("test.csv", "body\na\n")], predicted, expect);
}

#[test]
fn metrics_that_no_evaluation_computes_are_found() {
    let metric = |name: &'static str| {
        move |job: &mut Value| {
            job["data"]["validation"] = "train.csv".into();
            job["train"] = json!({"eval_strategy": "epoch", "metric_for_best_model": name});
        }
    };
    for name in ["loss", "accuracy", "eval_f1", "eval_samples_per_second"] {
        check(&[ROWS], metric(name), None);
    }
    let field = "train.metric_for_best_model";
    check(&[ROWS], metric("rouge"), Some((field, r#"names "rouge": evaluations compute"#)));
}

#[test]
fn vocabularies_larger_than_the_embedding_are_found() {
    let tokens = |count: usize| {
        let vocab: serde_json::Map<_, _> =
            (0..count).map(|id| (id.to_string(), json!(id))).collect();
        json!({"model": {"type": "WordLevel", "vocab": vocab}}).to_string()
    };
    check(&[ROWS, ("tokenizer.json", &tokens(20))], |_| {}, None);
    let larger = [ROWS, ("tokenizer.json", &tokens(21))];
    let words = "the tokenizer has 21 tokens and the embedding 20 rows";
    check(&larger, |_| {}, Some(("model.name_or_path", words)));
    let given = |job: &mut Value| {
        job["model"]["from_config"] = true.into();
        job["model"]["config_overrides"] = json!({"vocab_size": 12});
    };
    let words = "the embedding 12 rows";
    check(&larger, given, Some(("model.config_overrides", words)));
}

#[test]
fn texts_that_nothing_ends_are_found_in_the_first_row() {
    let pairs = r#"{"prompt": "a", "chosen": "a", "rejected": "b", "completion": "a", "label": true, "text": "a"}"#;
    let chats = r#"{"messages": [{"role": "user", "content": "a"}]}"#;
    let of_task = |task: &'static str, rows: &'static str, edit: fn(&mut Value)| {
        move |expect: Option<(&str, &str)>| {
            let files = [&DECODER[..], &[("train.jsonl", rows)]].concat();
            let edit = |job: &mut Value| {
                job["model"]["task"] = task.into();
                job["data"] = json!({"train": "train.jsonl", "max_length": 8});
                edit(job);
            };
            check(&files, edit, expect);
        }
    };
    let required =
        Some(("data.eos_token", "is required, since tokenizer_config.json names no token"));
    for task in ["sft", "dpo", "reward", "kto", "cpo", "orpo"] {
        of_task(task, pairs, |_| {})(required);
        of_task(task, pairs, |job| job["data"]["eos_token"] = "<end>".into())(None);
        of_task(task, pairs, |job| job["resources"]["after"] = "other".into())(None);
        let new = |job: &mut Value| {
            job["model"]["add_special_tokens"] = json!({"eos_token": "<new>"});
        };
        of_task(task, pairs, new)(None);
    }
    let none = |job: &mut Value| job["data"]["eos_token"] = "<none>".into();
    of_task("sft", pairs, none)(Some(("data.eos_token", "the tokenizer has no such token")));
    let expect = Some(("model.name_or_path", "the tokenizer has no chat template"));
    of_task("sft", chats, |_| {})(expect);
    let named = |job: &mut Value| job["data"]["chat_template"] = "chatml".into();
    of_task("sft", chats, named)(None);
    let missing = |job: &mut Value| job["data"]["chat_template"] = "none.jinja".into();
    of_task("sft", chats, missing)(Some(("data.chat_template", "there is neither a file nor")));
    let failing =
        |job: &mut Value| job["data"]["chat_template"] = "{{ raise_exception('no') }}".into();
    of_task("sft", chats, failing)(Some(("data.chat_template", "the chat template fails")));
    // A row that is left out is no fault, and a file of such rows is one.
    let lacking = r#"{"prompt": "a", "completion": null}"#;
    of_task("sft", lacking, |_| {})(Some(("data.train", "the only row was left out")));
    let ended = |job: &mut Value| job["data"]["eos_token"] = "<end>".into();
    let rows =
        "{\"prompt\": \"a\", \"completion\": null}\n{\"prompt\": \"a\", \"completion\": \"b\"}";
    of_task("sft", rows, ended)(None);
}

/// Rows that are too long once failed a run that had waited for its cores.
#[test]
fn files_without_a_row_that_fits_are_found() {
    let words = DECODER[1]
        .1
        .replace(r#""pre_tokenizer": null"#, r#""pre_tokenizer": {"type": "WhitespaceSplit"}"#);
    let row = |prompt: &str| {
        json!({"prompt": prompt, "chosen": " a", "rejected": " b", "completion": " a", "label": true}).to_string()
    };
    let (long, short) = (row(&"a ".repeat(12)), row("a"));
    let check = |task: &str, rows: &[&str], expect: Option<&str>| {
        let rows = rows.join("\n");
        let files = [DECODER[0], ("tokenizer.json", &words), DECODER[2], ("train.jsonl", &rows)];
        let edit = |job: &mut Value| {
            job["model"]["task"] = task.into();
            job["data"] = json!({"train": "train.jsonl", "max_length": 8, "eos_token": "<end>"});
        };
        check(&files, edit, expect.map(|words| ("data.train", words)));
    };
    for task in ["sft", "dpo", "reward", "kto", "cpo", "orpo"] {
        let words =
            "all 2 rows were left out: they have nothing to train on within data.max_length";
        check(task, &[&long, &long], Some(words));
        check(task, &[&long, &short], None);
        // The run reads as many.
        check(task, &vec![&*long; 300], None);
    }
}

#[test]
fn all_columns_that_a_file_lacks_are_named_at_once() {
    let others = |job: &mut Value| {
        job["data"]["text"] = "body".into();
        job["data"]["label"] = "stars".into();
    };
    let words = r#"no columns "body", "stars"; it has text, label (data.text, data.label name the columns)"#;
    check(&[ROWS], others, Some(("data.train", words)));
}

#[test]
fn lengths_beyond_the_positions_of_the_model_are_found() {
    let length =
        |key: &'static str, value: u32| move |job: &mut Value| job["data"][key] = value.into();
    check(&[ROWS], length("max_length", 16), None);
    let expect = Some(("data.max_length", "the model has 16 positions"));
    check(&[ROWS], length("max_length", 17), expect);
    let texts = [SUMMARIZER, ("train.csv", "source,target\na,b\n")];
    let writes = |data: Value, train: Value| {
        move |job: &mut Value| {
            job["model"]["task"] = "seq2seq-lm".into();
            job["data"] =
                json!({"train": "train.csv", "max_source_length": 16, "max_target_length": 16});
            job["train"] = json!({"predict_with_generate": true, "generation_max_length": 16});
            job["data"].as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
            job["train"].as_object_mut().unwrap().extend(train.as_object().unwrap().clone());
        }
    };
    check(&texts, writes(json!({}), json!({})), None);
    // Defaults are cut to the model.
    check(&texts, writes(json!({"max_source_length": null}), json!({})), None);
    check(&texts, writes(json!({"max_target_length": null}), json!({})), None);
    for key in ["max_source_length", "max_target_length"] {
        let field = format!("data.{key}");
        let expect = Some((field.as_str(), "the model has 16 positions"));
        check(&texts, writes(json!({key: 17}), json!({})), expect);
    }
    let multiple = Some(("data.pad_to_multiple_of", "rows of 16 tokens would be padded beyond 16"));
    let data = json!({"pad_to_multiple_of": 5, "max_target_length": 5});
    check(&texts, writes(data, json!({})), multiple);
    let multiple = Some(("data.pad_to_multiple_of", "targets of 16 tokens would be padded"));
    let data = json!({"pad_to_multiple_of": 5, "max_source_length": 10});
    check(&texts, writes(data, json!({})), multiple);
    let field = "train.generation_max_length";
    let expect = Some((field, "texts of 17 tokens, and the model has 16 positions"));
    check(&texts, writes(json!({}), json!({"generation_max_length": 17})), expect);
    let least = json!({"generation_max_length": null, "generation_config": {"min_new_tokens": 18}});
    let field = "train.generation_config.min_new_tokens";
    check(&texts, writes(json!({}), least), Some((field, "texts of at least 18 tokens")));
}

#[test]
fn evaluations_with_other_numbers_of_texts_and_their_metrics_are_found() {
    let pairs = ("train.csv", "anchor,positive\na,b\n");
    let triplets = ("other.csv", "anchor,positive,negative\na,b,c\n");
    let scored = ("other.csv", "anchor,positive,label\na,b,0.5\n");
    let embeds = |data: Value, metric: &'static str| {
        move |job: &mut Value| {
            job["model"]["task"] = "embedding".into();
            job["train"] = json!({"eval_strategy": "epoch", "metric_for_best_model": metric});
            job["data"].as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        }
    };
    let validated = || json!({"validation": "other.csv"});
    check(&[pairs, triplets], embeds(validated(), "loss"), None);
    let words = "rows have 3 texts, and those of data.validation have 2";
    let tested = json!({"validation": "train.csv", "test": "other.csv"});
    check(&[pairs, triplets], embeds(tested, "loss"), Some(("data.test", words)));
    let (field, words) = ("train.metric_for_best_model", "evaluations compute");
    let split = || json!({"validation_split": 0.5});
    check(&[pairs], embeds(split(), "cosine_ndcg@10"), None);
    for metric in ["cosine_accuracy", "spearman_cosine"] {
        check(&[pairs], embeds(split(), metric), Some((field, words)));
    }
    check(&[pairs, scored], embeds(validated(), "spearman_cosine"), None);
    check(&[pairs, scored], embeds(validated(), "cosine_ndcg@10"), Some((field, words)));
    let own = [("train.csv", triplets.1)];
    check(&own, embeds(split(), "cosine_accuracy"), None);
    let prompts = json!({"validation_split": 0.5, "prompts": {"query": "q: "}});
    check(&[pairs], embeds(prompts, "loss"), Some(("data.prompts", "query is not one of these")));
}

/// Files of other tools and without a header once named their missing columns alone.
#[test]
fn settings_that_other_rows_need_are_named() {
    let headless = [("train.csv", "good,1\nbad,0\n")];
    check(&headless, |_| {}, Some(("data.train", "unless data.names gives them")));
    let parts = [("parts/label=0/a.csv", "text\na\n"), ("parts/label=1/a.csv", "text\nb\n")];
    let all = |job: &mut Value| job["data"]["train"] = "parts/*/*.csv".into();
    check(
        &parts,
        all,
        Some(("data.train", "\"label\" is only in names of folders such as label=0")),
    );
    let translates = |job: &mut Value| job["model"]["task"] = "seq2seq-lm".into();
    check(&[ROWS], translates, Some(("model.name_or_path", "bert is no encoder-decoder")));
    let tuned = |row: &str, words: &str| {
        let files = [DECODER.as_slice(), &[("train.jsonl", row)]].concat();
        let edit = |job: &mut Value| {
            job["model"]["task"] = "sft".into();
            job["data"] = json!({"train": "train.jsonl", "max_length": 8, "eos_token": "<end>"});
        };
        check(&files, edit, Some(("data.train", words)));
    };
    tuned(r#"{"instruction": "a", "input": "", "output": "b"}"#, "`data.format: alpaca` reads");
    tuned(r#"{"conversations": []}"#, "`data.format: sharegpt` reads conversations");
    tuned(r#"{"question": "a", "answer": "b"}"#, "data.prompt and data.completion those of pairs");
}

#[test]
fn first_rows_of_other_types_are_found() {
    let rows = [("train.jsonl", "{\"text\": 7, \"label\": 0}\n{\"text\": \"b\", \"label\": 1}\n")];
    let of_rows = |job: &mut Value| job["data"]["train"] = "train.jsonl".into();
    let words = "row 0 (line 1), column \"text\": expected text, found an integer";
    check(&rows, of_rows, Some(("data.train", words)));
    let of_words = |job: &mut Value| {
        of_rows(job);
        job["model"]["task"] = "token-classification".into();
    };
    let tags = [("train.jsonl", "{\"tokens\": \"a b\", \"labels\": [\"O\", \"O\"]}\n")];
    let words = "column \"tokens\": expected a list of texts, found text";
    check(&tags, of_words, Some(("data.train", words)));
}

#[test]
fn labels_images_and_languages_of_first_rows_are_found() {
    let rows = [("train.csv", "text,label\na,0.5\nb,x\n")];
    let words = "row 1 (line 3), column \"label\": \"x\" is not a number to regress on";
    let of_numbers = |job: &mut Value| job["model"]["num_labels"] = 1.into();
    check(&rows, of_numbers, Some(("data.train", words)));
    let texts = r#"{"translation": {"en": "a", "de": "b"}}"#;
    let translates = |job: &mut Value| {
        job["model"]["task"] = "seq2seq-lm".into();
        let languages = json!({"source_lang": "en", "target_lang": "fr"});
        job["data"] = json!({"train": "train.jsonl", "source": "translation",
            "target": "translation", "max_source_length": 16, "max_target_length": 16});
        job["data"].as_object_mut().unwrap().extend(languages.as_object().unwrap().clone());
    };
    let words = "the only row was left out: it has no text in column \"translation.fr\"";
    check(&[SUMMARIZER, ("train.jsonl", texts)], translates, Some(("data.train", words)));
    let some = [r#"{"translation": {"en": "a", "fr": "b"}}"#, texts].join("\n");
    check(&[SUMMARIZER, ("train.jsonl", &some)], translates, None);
    let classifies = |job: &mut Value| {
        job["model"]["task"] = "image-classification".into();
        job["data"] = json!({"train": "train.jsonl"});
    };
    let images = [
        (
            "config.json",
            r#"{"model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1,
                "num_attention_heads": 1, "intermediate_size": 8, "image_size": 4, "patch_size": 2}"#,
        ),
        ("preprocessor_config.json", r#"{"size": {"height": 4, "width": 4}}"#),
        ("train.jsonl", r#"{"image": "none.png", "label": 0}"#),
    ];
    check(&images, classifies, Some(("data.train", "none.png")));
}

/// Tokens are windows already, and texts are cut into windows.
#[test]
fn strides_and_lengths_beyond_the_windows_of_contexts_are_found() {
    let answers = |data: Value| {
        move |job: &mut Value| {
            job["model"]["task"] = "question-answering".into();
            job["data"] = json!({"train": "train.jsonl"});
            job["data"].as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        }
    };
    let texts =
        r#"{"question": "a", "context": "b", "answers": {"text": ["b"], "answer_start": [0]}}"#;
    let texts = [("train.jsonl", texts)];
    check(&texts, answers(json!({})), None);
    let expect = Some(("data.doc_stride", "128 must be below max_length 16"));
    check(&texts, answers(json!({"doc_stride": 128})), expect);
    let expect = Some(("data.doc_stride", "8 must be below max_length 8"));
    check(&texts, answers(json!({"doc_stride": 8, "max_length": 8})), expect);
    check(&texts, answers(json!({"doc_stride": 8})), None);
    let tokens = |count: usize| {
        let ids = vec![1; count];
        json!({"input_ids": ids, "start_positions": 0, "end_positions": 1}).to_string()
    };
    check(&[("train.jsonl", &tokens(16))], answers(json!({})), None);
    let words = "has 17 tokens, and rows may have 16 (the positions of the model)";
    check(&[("train.jsonl", &tokens(17))], answers(json!({})), Some(("data.train", words)));
}

/// All rows of small files are read, and no more of them than the run reads.
#[test]
fn faults_of_later_rows_are_found() {
    let rows = |last: &str| format!("text,label\n{}{last}\n", "a,cat\nb,dog\n".repeat(20));
    let check = |last: &str, keys: Value, expect| {
        let files = [("train.csv", &rows(last)[..]), ("other.csv", &rows("c,fox"))];
        let edit = |job: &mut Value| {
            for (section, keys) in keys.as_object().unwrap() {
                job[section].as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
            }
        };
        check(&files, edit, expect);
    };
    let of_train = |words| Some(("data.train", words));
    check("c,dog", json!({}), None);
    let two = json!({"model": {"num_labels": 2}});
    let of_model = Some(("model.num_labels", "num_labels is 2, but there are 3 labels"));
    check("c,fox", two.clone(), of_model);
    check("c,dog,1", two, of_train("row 40 (line 42): 3 fields"));
    let map = json!({"label_map": {"cat": "cat", "dog": "dog"}});
    check("c,fox", json!({"data": map.clone()}), of_train("row 40 (line 42), column \"label\": "));
    let mut limited = map;
    limited["max_samples"] = 40.into();
    check("c,fox", json!({"data": limited}), None);
    let cast = json!({"data": {"columns": {"cast": {"text": "int64"}}}});
    check("c,dog", cast, of_train("row 0 (line 2), column \"text\": \"a\" cannot be cast"));
    // Classes are those that were trained.
    let evaluated = json!({"data": {"validation": "other.csv"}});
    let words = "row 40 (line 42), column \"label\": ";
    check("c,dog", evaluated.clone(), Some(("data.validation", words)));
    check("c,fox", evaluated, None);
}

/// Only a table of positions ends.
#[test]
fn rows_may_be_longer_than_the_positions_of_rotary_models() {
    let config = r#"{"model_type": "llama", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 16}"#;
    let files = [("config.json", config), ("train.csv", "text\na b\n")];
    let reads = |job: &mut Value| {
        job["model"]["task"] = "causal-lm".into();
        job["data"]["block_size"] = 24.into();
    };
    check(&files, reads, None);
}

/// Programs of evaluations read as many passages as those of predictions, but others than those of training.
#[test]
fn rows_with_other_numbers_of_passages_are_found() {
    let pairs = "query,passage,label\na,b,1\n";
    let lists = "query,positive,negative\na,b,c\n";
    let files = [("train.csv", pairs), ("pairs.csv", pairs), ("lists.csv", lists)];
    let ranks = |loss: &'static str, test: Option<&'static str>| {
        move |job: &mut Value| {
            job["model"]["task"] = "reranker".into();
            job["reranker"] = json!({"loss": loss});
            job["data"]["validation"] = "lists.csv".into();
            if let Some(test) = test {
                job["data"]["test"] = test.into();
            }
        }
    };
    check(&files, ranks("binary_cross_entropy", None), None);
    check(&files, ranks("binary_cross_entropy", Some("lists.csv")), None);
    let words = "rows have 1 passage, and those of data.validation have 2; all splits that are evaluated need as many";
    check(&files, ranks("binary_cross_entropy", Some("pairs.csv")), Some(("data.test", words)));
}

/// A query with a list of passages is evaluated beside pairs that are trained on, unless the loss compares passages.
#[test]
fn pairs_beside_lists_of_passages_are_found() {
    let pairs = "{\"query\": \"a\", \"passage\": \"b\", \"label\": 1}\n";
    let lists = "{\"query\": \"a\", \"passages\": [\"b\", \"c\"], \"label\": [1, 0]}\n";
    let files = [("train.jsonl", pairs), ("lists.jsonl", lists)];
    let ranks = |loss: &'static str| {
        move |job: &mut Value| {
            job["model"]["task"] = "reranker".into();
            job["reranker"] = json!({"loss": loss, "list_size": 3});
            job["data"]["train"] = "train.jsonl".into();
            job["data"]["validation"] = "lists.jsonl".into();
        }
    };
    check(&files, ranks("binary_cross_entropy"), None);
    let words = "the loss compares the passages of a row";
    check(&files, ranks("list_net"), Some(("data.texts", words)));
}

/// Who corrects one need not submit again to be told of the next.
#[test]
fn faults_that_do_not_depend_on_each_other_are_found_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("config.json"), CONFIG).unwrap();
    fs::write(path("train.csv"), "body,label\na,0\n").unwrap();
    let job = json!({
        "name": "planned",
        "model": {"name_or_path": folder.path(), "task": "sequence-classification", "num_labels": 2},
        "data": {"train": path("train.csv"), "max_length": 17},
        "output_dir": "/out",
    });
    let request = request(job);
    let found = crate::plan::violations(&request.job, plan(&request).unwrap_err()).unwrap();
    let fields: Vec<&str> = found.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(fields, ["data.max_length", "data.train"]);
    assert_eq!(found[0].description, "is 17: the model has 16 positions");
}
