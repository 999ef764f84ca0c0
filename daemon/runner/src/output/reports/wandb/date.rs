//! Dates in the names of folders.

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// Formats a time in seconds since 1970 as `YYYYMMDD_HHMMSS` in UTC.
pub(super) fn compact(unix_seconds: i64) -> String {
    let (days, seconds) =
        (unix_seconds.div_euclid(SECONDS_PER_DAY), unix_seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = civil(days);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}_{hours:02}{minutes:02}{seconds:02}")
}

/// Returns year, month and day of the Gregorian calendar, from days since 1970.
fn civil(mut days: i64) -> (i64, usize, i64) {
    let mut year = 1970;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = if days_of_year(year) == 366 { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

fn days_of_year(year: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_leap_years() {
        assert_eq!(compact(0), "19700101_000000");
        assert_eq!(compact(951_782_399), "20000228_235959");
        assert_eq!(compact(951_782_400), "20000229_000000");
        assert_eq!(compact(1_795_466_716), "20261123_204516");
        assert_eq!(compact(4_107_542_399), "21000228_235959");
        assert_eq!(compact(4_107_542_400), "21000301_000000");
    }
}
