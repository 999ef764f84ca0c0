//! The crops and flips of training: `RandomResizedCrop` and `RandomHorizontalFlip` of torchvision with
//! their defaults, as transformers' `run_image_classification` uses them. What is drawn for a row
//! depends on seed, epoch and row alone.

use super::pixels::{Pixels, Region};
use crate::random::SplitMix64;

/// Shares of the image's area that a crop may have.
const SCALE: [f64; 2] = [0.08, 1.0];
/// Ratios of a crop's width to its height.
const RATIO: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];
/// Crops that are drawn before one in the middle is taken.
const TRIES: usize = 10;

/// The source of random crops and flips.
#[derive(Clone, Copy, Debug)]
pub struct Augmentation {
    /// Determines the crops and flips.
    pub seed: u64,
}

/// The part of an image that is trained on, and whether it is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) region: Region,
    pub(super) mirrored: bool,
}

impl Augmentation {
    /// The view of an image that row `row` has in `epoch`.
    pub(super) fn view(self, image: &Pixels, epoch: u64, row: u64) -> View {
        let mut random = SplitMix64::of_row(self.seed, epoch, row);
        let region = region(image.width, image.height, &mut random);
        View { region, mirrored: random.unit() < 0.5 }
    }
}

fn region(width: usize, height: usize, random: &mut SplitMix64) -> Region {
    let drawn = (0..TRIES).find_map(|_| drawn_region(width, height, random));
    drawn.unwrap_or_else(|| middle_region(width, height))
}

/// A region of a random area and ratio; none where it does not fit.
fn drawn_region(width: usize, height: usize, random: &mut SplitMix64) -> Option<Region> {
    let mut within = |[low, high]: [f64; 2]| low + random.unit() * (high - low);
    let area = (width * height) as f64 * within(SCALE);
    let ratio = within(RATIO.map(f64::ln)).exp();
    let region_width = rounded((area * ratio).sqrt());
    let region_height = rounded((area / ratio).sqrt());
    if !(1..=width).contains(&region_width) || !(1..=height).contains(&region_height) {
        return None;
    }
    let mut place = |room: usize| random.below(room as u64 + 1) as isize;
    let top = place(height - region_height);
    let left = place(width - region_width);
    Some(Region { left, top, width: region_width, height: region_height })
}

/// The largest region in the middle with a ratio in bounds.
fn middle_region(width: usize, height: usize) -> Region {
    let ratio = width as f64 / height as f64;
    let region_height = if ratio < RATIO[0] { rounded(width as f64 / RATIO[0]) } else { height };
    let region_width = if ratio > RATIO[1] { rounded(height as f64 * RATIO[1]) } else { width };
    Region {
        left: (width.saturating_sub(region_width) / 2) as isize,
        top: (height.saturating_sub(region_height) / 2) as isize,
        width: region_width.max(1),
        height: region_height.max(1),
    }
}

/// The nearest integer, of two the even one, as Python rounds.
fn rounded(size: f64) -> usize {
    size.round_ties_even() as usize
}
