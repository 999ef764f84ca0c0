//! Tables on standard output.

use crate::interfaces::text::printable;

/// Prints a table with aligned columns and without trailing spaces.
pub(crate) fn print_table(header: &[&str], rows: &[Vec<String>]) {
    print!("{}", table(header, rows));
}

fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    let cell = |text: &String| printable(text).replace(['\n', '\t'], " ");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let lines = || std::iter::once(&header).chain(&rows);
    let width = |column: usize| {
        let cells = lines().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    for row in lines() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_owned(), "long".to_owned()], vec!["bbb".to_owned(), String::new()]];
        assert_eq!(table(&["ID", "X"], &rows), "ID   X\na    long\nbbb\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(table(&["X"], &[vec!["a\u{1b}[2J\nb".to_owned()]]), "X\na\u{fffd}[2J b\n");
    }
}
