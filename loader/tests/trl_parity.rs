//! Rows of supervised fine-tuning are those of TRL's SFTTrainer, and rows of preferences those of its DPOTrainer,
//! RewardTrainer, CPOTrainer and KTOTrainer. The fixture is written by `scripts/fixtures/chat.py`.

// A fixture of another shape is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use traind_loader::{
    ArrayValues, BatchAxis, BatchPlan, BatchSizes, ChatTemplate, Collator, Cpo, DatasetOptions,
    Dpo, HuggingFaceTokenizer, Kto, Labels, PackingStrategy, Padding, Reward, ScheduledBatch, Sft,
    TaskSpec, TokenLimits, TokenizedSet, TokenizerOptions, bos_token, eos_token, prepare,
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat")
}

/// A folder with the tokenizer and a template.
fn model_folder(template: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: PathBuf, name: &str| std::fs::copy(from, folder.path().join(name)).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        copy(fixtures().join("tokenizer").join(name), name);
    }
    if let Some(template) = template {
        let file = fixtures().join("templates").join(template).with_extension("jinja");
        copy(file, "chat_template.jinja");
    }
    folder
}

/// The task with TRL's settings.
fn task(folder: &Path, settings: &Json) -> Sft {
    let given = settings["eos_token"].as_str();
    Sft {
        messages: "messages".to_owned(),
        prompt: "prompt".to_owned(),
        completion: "completion".to_owned(),
        text: "text".to_owned(),
        template: ChatTemplate::open(folder, given).unwrap(),
        eos_token: given.map(str::to_owned).or(eos_token(folder).unwrap()),
        max_length: settings["max_length"].as_u64().unwrap() as u32,
        assistant_only_loss: settings["assistant_only_loss"].as_bool().unwrap_or(false),
        completion_only_loss: settings["completion_only_loss"].as_bool(),
        packing: settings["packing_strategy"].as_str().map(|name| match name {
            "bfd" => PackingStrategy::Bfd,
            _ => PackingStrategy::Wrapped,
        }),
        layouts: None,
        position_ids: settings["packing_strategy"] == "bfd",
    }
}

fn pairs(folder: &Path, settings: &Json) -> Dpo {
    Dpo {
        prompt: "prompt".to_owned(),
        chosen: "chosen".to_owned(),
        rejected: "rejected".to_owned(),
        template: ChatTemplate::open(folder, None).unwrap(),
        eos_token: eos_token(folder).unwrap(),
        layouts: None,
        max_length: settings["max_length"].as_u64().unwrap() as u32,
    }
}

fn set(
    rows: &Json,
    task: TaskSpec,
    folder: &Path,
) -> Result<Arc<TokenizedSet>, traind_loader::Error> {
    let file = folder.join("rows.jsonl");
    let lines: Vec<String> = rows.as_array().unwrap().iter().map(Json::to_string).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let tokenizer = HuggingFaceTokenizer::open(folder, &TokenizerOptions::default()).unwrap();
    let options = DatasetOptions {
        files: [file.to_str().unwrap().to_owned()].into_iter().collect(),
        task,
        token_limits: TokenLimits::default(),
        cache_dir: Some(folder.join("cache")),
    };
    let made = prepare(&options, &tokenizer)?;
    let cached = prepare(&options, &tokenizer)?;
    assert!(cached.cache_hit && cached.set.lengths() == made.set.lengths());
    Ok(cached.set)
}

/// Row `row` alone in a batch: the values of an array.
fn array(collator: &Collator, row: u32, length: u32, name: &str) -> Json {
    let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, length);
    let plan = BatchPlan { sizes, rows: vec![row], cores: 1 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let batch = collator.collate(scheduled).unwrap();
    let array = batch.cores[0].array(name).unwrap_or_else(|| panic!("no {name}"));
    let ArrayValues::S32(values) = &array.values else { panic!("{array:?}") };
    json!(values)
}

#[test]
fn rows_are_those_of_trl() {
    let text = std::fs::read_to_string(fixtures().join("chat.json")).unwrap();
    let expected: Json = serde_json::from_str(&text).unwrap();
    for (name, case) in expected["sets"].as_object().unwrap() {
        let folder = model_folder(case["template"].as_str());
        let task = task(folder.path(), &case["settings"]);
        let set = set(&case["rows"], TaskSpec::Sft(task), folder.path());
        let set = set.unwrap_or_else(|error| panic!("{name}: {error}"));
        let collator = Collator::new(Arc::clone(&set), Padding::behind(2));
        let columns = case["expected"].as_object().unwrap();
        assert_eq!(set.len(), columns["input_ids"].as_array().unwrap().len(), "{name}");
        for (column, rows) in columns {
            for (row, expect) in rows.as_array().unwrap().iter().enumerate() {
                let found = array(&collator, row as u32, set.lengths()[row], column);
                // Nothing predicts the first token of a row, so its label counts nowhere.
                let behind = usize::from(column == "labels");
                let [found, expect] =
                    [&found, expect].map(|ids| &ids.as_array().unwrap()[behind..]);
                assert_eq!(found, expect, "{name}, {column} of row {row}");
            }
        }
    }
}

/// The two sequences of each pair are rows of the arrays, one behind the other.
#[test]
fn pairs_are_those_of_trl() {
    let text = std::fs::read_to_string(fixtures().join("chat.json")).unwrap();
    let expected: Json = serde_json::from_str(&text).unwrap();
    for (name, case) in expected["pair_sets"].as_object().unwrap() {
        let folder = model_folder(case["template"].as_str());
        let task = TaskSpec::Dpo(pairs(folder.path(), &case["settings"]));
        check_rows(name, case, task, folder.path());
    }
}

/// Checks the batch of all rows of a case, in which the sequences of a row are rows of the arrays.
fn check_rows(name: &str, case: &Json, task: TaskSpec, folder: &Path) {
    let set = set(&case["rows"], task, folder).unwrap();
    let longest = (0..set.len()).map(|row| set.positions(row)).max().unwrap();
    let sizes = BatchSizes::of_rows(set.len()).with(BatchAxis::Positions, longest);
    let plan = BatchPlan { sizes, rows: (0..set.len() as u32).collect(), cores: 1 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let collator = Collator::new(Arc::clone(&set), Padding::behind(2));
    let batch = collator.collate(scheduled).unwrap();
    let sequences = set.sequences_per_row();
    for (column, expect) in case["expected"].as_object().unwrap() {
        // Numbers of rows are those of each sequence.
        let (column, of_rows) = match column.as_str() {
            "margins" => ("labels", true),
            "desirable" => ("desirable", true),
            column => (column, false),
        };
        let array = batch.cores[0].array(column).unwrap();
        let found = match &array.values {
            ArrayValues::F32(values) if of_rows => {
                json!(values.iter().step_by(sequences).collect::<Vec<_>>())
            }
            ArrayValues::S32(values) => {
                assert_eq!(array.dims, [sequences * set.len(), longest as usize], "{name}");
                json!(values)
            }
            _ => panic!("{array:?}"),
        };
        assert_eq!(&found, expect, "{name}, {column}");
    }
    assert_eq!(batch.cores[0].spans.len(), set.len());
    assert_eq!(batch.tokens, set.tokens(), "{name}");
}

#[test]
fn other_preferences_are_those_of_trl() {
    let text = std::fs::read_to_string(fixtures().join("chat.json")).unwrap();
    let expected: Json = serde_json::from_str(&text).unwrap();
    for key in ["reward_sets", "cpo_sets", "kto_sets"] {
        for (name, case) in expected[key].as_object().unwrap() {
            let folder = model_folder(case["template"].as_str());
            let settings = &case["settings"];
            let pairs = pairs(folder.path(), settings);
            let task = match key {
                "reward_sets" => TaskSpec::Reward(Reward::new(pairs, "margin".to_owned())),
                "cpo_sets" => {
                    let bos_token = bos_token(folder.path()).unwrap();
                    TaskSpec::Cpo(Cpo { pairs, bos_token })
                }
                _ => TaskSpec::Kto(Kto {
                    pairs,
                    completion: "completion".to_owned(),
                    label: "label".to_owned(),
                    rotation: settings["per_device_train_batch_size"].as_u64().map(|it| it as u32),
                    is_paired: false,
                }),
            };
            check_rows(&format!("{key}, {name}"), case, task, folder.path());
        }
    }
}

/// A completion whose tokens grow together with those of its prompt, and one for which the prompt leaves no room.
#[test]
fn prompts_give_way_to_their_completions() {
    let folder = model_folder(None);
    let rows = json!([
        {"prompt": "hello", "chosen": "world", "rejected": " again"},
        {"prompt": "hello hello hello hello hello hello hello", "chosen": " a", "rejected": " b"},
    ]);
    let bos_token = bos_token(folder.path()).unwrap();
    let pairs = pairs(folder.path(), &json!({"max_length": 6}));
    let task = TaskSpec::Cpo(Cpo { pairs, bos_token });
    let set = set(&rows, task, folder.path()).unwrap();
    assert_eq!(set.len(), 1);
    assert!(set.about_rows_too_long().unwrap().starts_with("1 row has nothing to train on"));
}

/// Labels of completions are true or false, in one way of writing or another.
#[test]
fn labels_of_completions_are_true_or_false() {
    let labels_of = |label: Json| {
        let folder = model_folder(None);
        let rows = json!([{"prompt": "a", "completion": " b", "label": label}]);
        let task = TaskSpec::Kto(Kto {
            pairs: pairs(folder.path(), &json!({"max_length": 8})),
            completion: "completion".to_owned(),
            label: "label".to_owned(),
            rotation: None,
            is_paired: false,
        });
        Ok::<_, traind_loader::Error>(set(&rows, task, folder.path())?.labels().clone())
    };
    for (label, expect) in [(json!(true), 1.0), (json!(0), 0.0), (json!("FALSE"), 0.0)] {
        let values = vec![expect];
        assert_eq!(labels_of(label).unwrap(), Labels::Numbers { width: 1, values });
    }
    let error = labels_of(json!("good")).unwrap_err().to_string();
    for part in ["rows.jsonl, row 0", "\"label\": must be true for a desirable", "found \"good\""] {
        assert!(error.contains(part), "{error}");
    }
}

/// Completions of axolotl's and LLaMA-Factory's pairs are single messages.
#[test]
fn a_completion_may_be_one_message() {
    let message = |text: &str| json!({"role": "assistant", "content": text});
    let row = |wrap: fn(Json) -> Json| {
        json!({"prompt": [{"role": "user", "content": "a"}], "chosen": wrap(message("b c")),
            "rejected": wrap(message("d"))})
    };
    let tokens = |row: Json| {
        let folder = model_folder(Some("phi"));
        let task = TaskSpec::Dpo(pairs(folder.path(), &json!({"max_length": 64})));
        let set = set(&json!([row]), task, folder.path()).unwrap();
        let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, set.positions(0));
        let plan = BatchPlan { sizes, rows: vec![0], cores: 1 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let batch = Collator::new(set, Padding::behind(2)).collate(scheduled).unwrap();
        ["input_ids", "labels"].map(|name| batch.cores[0].array(name).unwrap().values.clone())
    };
    assert_eq!(tokens(row(|message| message)), tokens(row(|message| json!([message]))));
}

/// An empty slot has two rows without weight.
#[test]
fn pairs_on_several_cores_are_whole() {
    let folder = model_folder(None);
    let rows = json!([{"chosen": "a b", "rejected": "a c"}]);
    let task = TaskSpec::Dpo(pairs(folder.path(), &json!({"max_length": 8})));
    let set = set(&rows, task, folder.path()).unwrap();
    let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, 8);
    let plan = BatchPlan { sizes, rows: vec![0], cores: 2 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let batch = Collator::new(set, Padding::behind(2)).collate(scheduled).unwrap();
    let weights = batch.cores.iter().map(|core| &core.array("sample_weights").unwrap().values);
    let expect = [[1.0, 1.0], [0.0, 0.0]].map(|weights| ArrayValues::F32(weights.to_vec()));
    assert!(weights.eq(&expect));
}

#[test]
fn rows_that_are_no_conversations_are_named() {
    let check = |template: Option<&str>, settings: Json, row: Json, expect: &str| {
        let folder = model_folder(template);
        let task = match row.get("chosen") {
            Some(_) => TaskSpec::Dpo(pairs(folder.path(), &settings)),
            None => TaskSpec::Sft(task(folder.path(), &settings)),
        };
        let error = set(&json!([row]), task, folder.path());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let plain = json!({"max_length": 16});
    let assistant = json!({"max_length": 16, "assistant_only_loss": true});
    let chat = json!({"messages": [{"role": "user", "content": "a"}]});
    let turns = json!([{"role": "assistant", "content": "b"}]);
    check(
        None,
        plain.clone(),
        chat.clone(),
        "rows.jsonl, row 0 (line 1), column \"messages\": the tokenizer has no chat template",
    );
    check(Some("phi"), assistant.clone(), chat.clone(), "{% generation %}");
    check(Some("phi_generation"), assistant.clone(), chat, "no text of the assistant");
    check(Some("phi"), plain.clone(), json!({"messages": "a"}), "found text");
    check(
        Some("phi"),
        plain.clone(),
        json!({"prompt": "a", "completion": turns.clone()}),
        "\"prompt\": is text",
    );
    check(Some("phi_generation"), assistant, json!({"text": "a"}), "needs messages");
    let pair = |chosen: Json, rejected: Json| json!({"chosen": chosen, "rejected": rejected});
    check(Some("phi"), plain.clone(), pair(json!("a"), turns.clone()), "\"chosen\": is text");
    check(Some("phi"), plain.clone(), pair(turns.clone(), json!("a")), "\"rejected\": is text");
    let mut answers = pair(json!({"role": "assistant"}), json!({"role": "assistant"}));
    answers["prompt"] = json!("a");
    check(Some("phi"), plain.clone(), answers, "\"prompt\": is text");
    check(None, plain.clone(), pair(turns.clone(), turns), "no chat template");
    check(None, plain.clone(), json!({"chosen": "a"}), "no column \"rejected\"");
    check(None, plain, json!({"other": "a"}), "no column \"text\"");
}
