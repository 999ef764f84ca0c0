//! What the card of a data set, its `README.md`, says of its configurations: the `configs` of
//! the YAML at its beginning. A card that cannot be read says nothing.

use serde_json::Value;

const FENCE: &str = "---";

/// One configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) name: String,
    pub(super) is_default: bool,
    /// Where its files are, if it says no more.
    pub(super) folder: Option<String>,
    /// Patterns of files by their split.
    pub(super) splits: Vec<(String, Vec<String>)>,
}

/// All configurations, in order; none where the card has no such list.
pub(super) fn configs(card: &str) -> Vec<Config> {
    let Some(yaml) = front_matter(card) else { return Vec::new() };
    let Ok(about) = serde_saphyr::from_str::<Value>(yaml) else { return Vec::new() };
    let configs = about.get("configs").and_then(Value::as_array);
    configs.into_iter().flatten().map(config).collect()
}

fn front_matter(card: &str) -> Option<&str> {
    let rest = card.strip_prefix(FENCE)?.trim_start_matches('\r').strip_prefix('\n')?;
    rest.split_once("\n---").map(|(yaml, _)| yaml)
}

fn config(config: &Value) -> Config {
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("config_name").unwrap_or_else(|| "default".to_owned());
    Config {
        is_default: name == "default" || config.get("default") == Some(&Value::Bool(true)),
        name,
        folder: text("data_dir"),
        splits: config.get("data_files").map(splits).unwrap_or_default(),
    }
}

/// Patterns alone are of the training split; a list may say of each its split, and so may a map.
fn splits(files: &Value) -> Vec<(String, Vec<String>)> {
    match files {
        Value::Object(map) => {
            map.iter().map(|(split, paths)| (split.clone(), patterns(paths))).collect()
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().filter_map(of_split).collect()
        }
        alone => vec![("train".to_owned(), patterns(alone))],
    }
}

fn of_split(item: &Value) -> Option<(String, Vec<String>)> {
    Some((item.get("split")?.as_str()?.to_owned(), patterns(item.get("path")?)))
}

fn patterns(paths: &Value) -> Vec<String> {
    match paths {
        Value::String(path) => vec![path.clone()],
        Value::Array(paths) => paths.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read_in_all_their_spellings() {
        let card = "---\nlicense: mit\nconfigs:\n\
            - config_name: en\n  data_files:\n  - split: train\n    path: en/train-*\n  \
            - split: test\n    path: [a.csv, b.csv]\n  default: true\n\
            - config_name: de\n  data_files: {train: de.csv, validation: [v.csv]}\n\
            - data_files: all.csv\n- config_name: folder\n  data_dir: sub\n---\n# A set\n";
        let found = configs(card);
        let strings =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
            ["en", "de", "default", "folder"]
        );
        assert_eq!(
            found.iter().map(|it| it.is_default).collect::<Vec<_>>(),
            [true, false, true, false]
        );
        let expect = [
            ("train".to_owned(), strings(&["en/train-*"])),
            ("test".to_owned(), strings(&["a.csv", "b.csv"])),
        ];
        assert_eq!(found[0].splits, expect);
        assert_eq!(found[1].splits[1], ("validation".to_owned(), strings(&["v.csv"])));
        assert_eq!(found[2].splits, [("train".to_owned(), strings(&["all.csv"]))]);
        assert_eq!(found[3].folder.as_deref(), Some("sub"));
    }

    #[test]
    fn what_is_no_card_says_nothing() {
        for card in [
            "",
            "# A set",
            "---\nconfigs: 7\n---\n",
            "---\na: [\n---\n",
            "---\nconfigs:",
            "---\nconfigs: [7]",
        ] {
            assert_eq!(configs(card), [], "{card:?}");
        }
    }
}
