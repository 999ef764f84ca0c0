//! `strftime_now`: the date and time in UTC, formatted as C's `strftime` does.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The current date and time, formatted.
pub(super) fn strftime_now(format: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    strftime(format, now.as_secs())
}

/// A time in seconds since 1970, formatted. Unknown directives stay as they are.
fn strftime(format: &str, seconds: u64) -> String {
    let moment = Moment::at(seconds);
    let (mut text, mut letters) = (String::new(), format.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '%' => match letters.next() {
                Some(directive) => text.push_str(&moment.formatted(directive)),
                None => text.push('%'),
            },
            _ => text.push(letter),
        }
    }
    text
}

struct Moment {
    year: u64,
    /// The number of the month, from 0.
    month: usize,
    /// The day of the month, from 1.
    day: u64,
    /// The day of the year, from 1.
    day_of_year: u64,
    days: u64,
    second_of_day: u64,
}

impl Moment {
    fn at(seconds: u64) -> Moment {
        let days = seconds / DAY;
        let (mut year, mut left) = (1970, days);
        while left >= days_of(year) {
            left -= days_of(year);
            year += 1;
        }
        let (day_of_year, mut month) = (left + 1, 0);
        while left >= days_of_month(year, month) {
            left -= days_of_month(year, month);
            month += 1;
        }
        Moment { year, month, day: left + 1, day_of_year, days, second_of_day: seconds % DAY }
    }

    fn formatted(&self, directive: char) -> String {
        let Moment { year, month, day, second_of_day, .. } = *self;
        let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
        let weekday = WEEKDAYS[(self.days % 7) as usize];
        let month_name = MONTHS[month];
        match directive {
            'Y' => year.to_string(),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{:02}", month + 1),
            'd' => format!("{day:02}"),
            'e' => format!("{day:2}"),
            'j' => format!("{:03}", self.day_of_year),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'A' => weekday.to_owned(),
            'a' => weekday[..3].to_owned(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'M' => format!("{minute:02}"),
            'S' => format!("{:02}", second_of_day % 60),
            'F' => format!("{year}-{:02}-{day:02}", month + 1),
            'T' => format!("{hour:02}:{minute:02}:{:02}", second_of_day % 60),
            'Z' => "UTC".to_owned(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        }
    }
}

fn days_of(year: u64) -> u64 {
    (0..12).map(|month| days_of_month(year, month)).sum()
}

fn days_of_month(year: u64, month: usize) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 if is_leap => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_in_python() {
        let check = |seconds, expect: &str| {
            assert_eq!(strftime("%a %d %b %Y, %A %B %j %H:%M:%S %I %p %q%%", seconds), expect);
        };
        check(0, "Thu 01 Jan 1970, Thursday January 001 00:00:00 12 AM %q%");
        check(951_827_696, "Tue 29 Feb 2000, Tuesday February 060 12:34:56 12 PM %q%");
        check(1_798_761_599, "Thu 31 Dec 2026, Thursday December 365 23:59:59 11 PM %q%");
    }
}
