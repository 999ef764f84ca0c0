//! Fine-tuning on rows in the layouts of axolotl and LLaMA-Factory, from several sets.

use std::fs;

use serde_json::{Value, json};
use traind_tests::{Draft, Host};

use crate::training::sft::{draft, fixture, lines};

/// The same questions and answers in several layouts.
const CHATS: [(&str, &str); 4] = [
    ("what is the word", "the movie"),
    ("one two", "three four"),
    ("hello world", "the file was great"),
    ("and the words", "were too"),
];

fn rows(row: impl Fn(&str, &str) -> Value) -> Vec<Value> {
    CHATS.iter().map(|(question, answer)| row(question, answer)).collect()
}

/// A job on `layouts.jsonl`, with plain TRL rows beside it.
fn job(host: &Host, name: &str, rows: &[Value], keys: &[(&str, &str)]) -> Draft {
    let mut run = fixture("sft/sft.json");
    run["data"] = json!({"max_length": 64});
    let mut draft = draft(host, name, "sft", &run).write("train.jsonl", lines(rows));
    for (key, value) in keys {
        draft = draft.set(key, value);
    }
    draft.set("train.per_device_train_batch_size", 2).set("train.max_steps", 2)
}

async fn losses(host: &Host, draft: &Draft) -> Vec<f64> {
    host.complete(draft).await;
    draft.output("out").trainer_state().series("loss")
}

/// Messages under any names train as messages do, and the template that rendered them is saved.
#[tokio::test]
async fn layouts_of_one_conversation_train_alike() {
    let host = Host::started(1).await;
    let messages = rows(|question, answer| {
        json!({"messages": [{"role": "user", "content": question},
            {"role": "assistant", "content": answer}]})
    });
    let sharegpt = rows(|question, answer| {
        json!({"conversations": [{"from": "human", "value": question},
            {"from": "gpt", "value": answer}]})
    });
    let renamed = rows(
        |question, answer| json!({"talk": [{"who": "me", "says": question}, {"who": "it", "says": answer}]}),
    );
    let alpaca =
        rows(|question, answer| json!({"instruction": question, "input": "", "output": answer}));
    let ends = ("data.eot_tokens", "['<|im_end|>']");
    let chatml = ("data.chat_template", "chatml");
    let own = [
        ("data.format", "messages"),
        chatml,
        ends,
        ("data.messages", "talk"),
        ("data.message_property_mappings", "{role: who, content: says}"),
        ("data.roles", "{user: [me], assistant: [it]}"),
    ];
    let expected =
        losses(&host, &job(&host, "messages", &messages, &[("data.format", "chatml"), ends])).await;
    let sharegpt = job(&host, "sharegpt", &sharegpt, &[("data.format", "sharegpt"), chatml, ends]);
    assert_eq!(losses(&host, &sharegpt).await, expected);
    assert_eq!(losses(&host, &job(&host, "own", &renamed, &own)).await, expected);
    let alpaca = job(&host, "alpaca", &alpaca, &[("data.format", "alpaca"), chatml, ends]);
    assert_eq!(losses(&host, &alpaca).await, expected);
    let template = fs::read_to_string(sharegpt.output("out").folder().join("chat_template.jinja"));
    assert!(template.unwrap().contains("<|im_start|>"));
}

/// Sets with layouts of their own are read in turns, and the ledger has the file of each row.
#[tokio::test]
async fn several_sets_take_turns() {
    let host = Host::started(1).await;
    let alpaca = rows(|question, answer| json!({"instruction": question, "output": answer}));
    let sharegpt = rows(|question, answer| {
        json!({"conversations": [{"from": "human", "value": question},
            {"from": "gpt", "value": answer}]})
    });
    let sets = "[{path: train.jsonl, limit: 3}, \
        {path: chats.jsonl, format: sharegpt, split: 'train[50%:]'}]";
    let draft = job(
        &host,
        "sets",
        &alpaca,
        &[
            ("data.train", sets),
            ("data.validation", "[{path: chats.jsonl, format: sharegpt}]"),
            ("data.format", "alpaca"),
            ("data.template", "default"),
            ("data.mixing", "first_exhausted"),
        ],
    );
    let draft = draft.write("chats.jsonl", lines(&sharegpt));
    host.complete(&draft).await;
    let ledger = |step: &str| {
        let printed = host.cli(host.path("sets").as_path(), &["samples", "sets", "--step", step]);
        let rows = printed.stdout.lines().map(|line| line.rsplit('/').next().unwrap().to_owned());
        rows.collect::<Vec<_>>()
    };
    assert_eq!(ledger("1"), ["train.jsonl\t0\t0", "chats.jsonl\t2\t1"]);
    assert_eq!(ledger("2"), ["train.jsonl\t1\t0", "chats.jsonl\t3\t1"]);
}

/// The file of a chat template is one that the job may read, and it is looked up at submission.
#[tokio::test]
async fn a_template_outside_the_allowed_folders_is_refused() {
    let mut host = Host::prepared(1);
    let root = host.path("").display().to_string();
    host.add_options(&["--allow-root", &root]);
    host.start().await;
    let rows = rows(|question, answer| json!({"instruction": question, "output": answer}));
    let keys = [("data.format", "alpaca"), ("data.chat_template", "/etc/passwd")];
    let outside = job(&host, "outside", &rows, &keys);
    let details = format!("{:?}", host.create(&outside).await.unwrap_err());
    assert!(details.contains("/etc/passwd is outside the folders"), "{details}");
    let missing = job(&host, "missing", &rows, &[("data.chat_template", "chat.jinja")]);
    let details = format!("{:?}", host.create(&missing).await.unwrap_err());
    assert!(details.contains("there is no file") && details.contains("chat.jinja"), "{details}");
}
