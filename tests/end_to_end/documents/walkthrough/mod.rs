//! Pages that a newcomer follows: their commands are run as the page shows them, in its order and in one
//! folder, against a daemon of the test. Files and jobs that a page takes for granted are made first. A
//! command that cannot be run here is skipped with its reason.

mod coming_from;
mod pages;
mod python;
mod small_runs;
mod walk;

use walk::{Skipped, Walk};
