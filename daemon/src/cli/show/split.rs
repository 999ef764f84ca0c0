//! The statistics of a split with a histogram of its classes.

use traind_proto::v1;

use crate::interfaces::text::{self, events};

/// The width of the bar of the class with the most rows.
const BAR: u64 = 30;

/// Prints a line of statistics, and a histogram of the classes, if there are any.
pub(crate) fn print(data: &v1::DataPrepared) {
    lines(data).iter().for_each(|line| println!("{line}"));
}

fn lines(data: &v1::DataPrepared) -> Vec<String> {
    let first = format!("{:<10} {}", text::one_line(&data.split), events::split(data));
    let width = data.classes.iter().map(|count| count.label.chars().count()).max();
    let (width, most) =
        (width.unwrap_or_default(), data.classes.iter().map(|count| count.rows).max());
    // Rows have several labels for several classes, and one for each word.
    let labels: u64 = data.classes.iter().map(|count| count.rows).sum();
    let (all, units) = match labels > data.rows {
        true => (labels, ["label", "labels"]),
        false => (data.rows, ["row", "rows"]),
    };
    let of_class = |count: &v1::ClassCount| {
        let share = 100.0 * count.rows as f64 / all.max(1) as f64;
        let bar = (BAR * count.rows).div_ceil(most.unwrap_or_default().max(1));
        let (label, bar) = (text::one_line(&count.label), "#".repeat(bar as usize));
        let (unit, unit_width) = (units[usize::from(count.rows != 1)], units[1].len());
        let line = format!(
            "{:<10} {label:<width$}  {:>8} {unit:<unit_width$}  {share:5.1} %  {bar}",
            "", count.rows
        );
        line.trim_end().to_owned()
    };
    std::iter::once(first).chain(data.classes.iter().map(of_class)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_bars_by_their_rows() {
        let count = |label: &str, rows| v1::ClassCount { label: label.to_owned(), rows };
        let data = v1::DataPrepared {
            split: "train".to_owned(),
            rows: 11,
            tokens: 80,
            classes: vec![count("negative", 10), count("neutral", 0), count("positive", 1)],
            ..v1::DataPrepared::default()
        };
        let expect = [
            "train      11 rows, 80 tokens".to_owned(),
            format!("           negative        10 rows   90.9 %  {}", "#".repeat(30)),
            "           neutral          0 rows    0.0 %".to_owned(),
            format!("           positive         1 row     9.1 %  {}", "#".repeat(3)),
        ];
        assert_eq!(lines(&data), expect);
    }

    #[test]
    fn labels_of_words_are_shares_of_all_labels() {
        let count = |label: &str, rows| v1::ClassCount { label: label.to_owned(), rows };
        let classes = vec![count("B-PER", 10), count("O", 30)];
        let data = v1::DataPrepared {
            split: "train".to_owned(),
            rows: 4,
            classes,
            ..v1::DataPrepared::default()
        };
        let found = &lines(&data)[1..];
        assert!(found[0].contains("B-PER        10 labels   25.0 %"), "{found:?}");
        assert!(found[1].contains("O            30 labels   75.0 %"), "{found:?}");
    }
}
