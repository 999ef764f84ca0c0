//! The configurations that a data set's card, its `README.md`, lists under `configs` in its YAML
//! front matter. A card that cannot be parsed lists none.

use serde_json::Value;

const FENCE: &str = "---";

/// One configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) is_default: bool,
    /// The folder of its files, where it lists no patterns.
    pub(crate) folder: Option<String>,
    /// File patterns by split.
    pub(crate) splits: Vec<(String, Vec<String>)>,
}

/// Returns the configurations in order.
pub(crate) fn configs(card: &str) -> Vec<Config> {
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

/// Reads `data_files`: a map or a list that names splits, or patterns of the training split.
fn splits(files: &Value) -> Vec<(String, Vec<String>)> {
    match files {
        Value::Object(map) => {
            map.iter().map(|(split, paths)| (split.clone(), patterns(paths))).collect()
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().filter_map(named_split).collect()
        }
        unnamed => vec![("train".to_owned(), patterns(unnamed))],
    }
}

fn named_split(item: &Value) -> Option<(String, Vec<String>)> {
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
    fn what_is_no_card_lists_no_configuration() {
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
