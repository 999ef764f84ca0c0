//! CSV in the dialect of other tools.

use traind_tests::{Draft, Host};

/// Quotes and backslashes are escaped, and two lines have too many fields.
const ESCAPED: &str = r#""tweet","label"
"she said \"cat\"","animal"
"a plum \\ an apple, or both","fruit"
"too","many","fields"
"saw and
hammer","tool"
"dog","animal","2014","x"
"fig","fruit"
"#;

/// The same rows.
const PLAIN: &str = r#"{"tweet": "she said \"cat\"", "label": "animal"}
{"tweet": "a plum \\ an apple, or both", "label": "fruit"}
{"tweet": "saw and\nhammer", "label": "tool"}
{"tweet": "fig", "label": "fruit"}
"#;

fn draft(host: &Host, name: &str, file: &str, content: &str) -> Draft {
    Draft::new(host, name)
        .write(file, content)
        .set("data.train", file)
        .set("data.validation", "null")
        .set("data.text", "tweet")
        .set("train.per_device_train_batch_size", 2)
}

#[tokio::test]
async fn escaped_rows_train_as_plain_ones_and_bad_lines_are_counted() {
    let host = Host::started(1).await;
    let plain = host.complete(&draft(&host, "plain", "tweets.jsonl", PLAIN)).await;
    let escaped = draft(&host, "escaped", "tweets.csv", ESCAPED)
        .set("data.quoting", "QUOTE_ALL")
        .set("data.escapechar", "'\\'")
        .set("data.on_bad_lines", "warn");
    let escaped = host.complete(&escaped).await;
    let losses = |history: &traind_tests::History| {
        history.steps().iter().map(|step| step.loss.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(losses(&escaped), losses(&plain));
    let warnings = format!("{:?}", escaped.events);
    assert!(warnings.contains("left out 2 lines with too many fields (line 4, 7)"), "{warnings}");
}
