//! Resampling as Pillow's `Image.resize` does it, to the bit: two passes with weights in fixed point,
//! each rounded to bytes. Reducing an image widens the filter, so that every pixel counts.
//! The order of the passes is Pillow 13's.

use std::borrow::Cow;

use super::pixels::{CHANNELS, Pixels};

/// A filter, by Pillow's names and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resampling {
    Nearest,
    Lanczos,
    Bilinear,
    Bicubic,
    Box,
    Hamming,
}

/// Weights are integers in units of 2^-22: 8 bits of a pixel and two of headroom fit beside them.
const PRECISION_BITS: u32 = 32 - 8 - 2;

impl Resampling {
    /// The filter with a number of `PIL.Image.Resampling`.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        let filters =
            [Self::Nearest, Self::Lanczos, Self::Bilinear, Self::Bicubic, Self::Box, Self::Hamming];
        filters.get(usize::try_from(number).ok()?).copied()
    }

    /// The distance in pixels beyond which the filter is zero.
    fn support(self) -> f64 {
        match self {
            Self::Nearest | Self::Box => 0.5,
            Self::Bilinear | Self::Hamming => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    /// The filter at a distance of `x` pixels.
    fn at(self, x: f64) -> f64 {
        let distance = x.abs();
        match self {
            Self::Nearest | Self::Box => f64::from(u8::from(x > -0.5 && x <= 0.5)),
            Self::Bilinear => (1.0 - distance).max(0.0),
            Self::Hamming if distance < 1.0 => {
                sinc(x) * (0.54 + 0.46 * (distance * std::f64::consts::PI).cos())
            }
            Self::Bicubic if distance < 1.0 => {
                ((BICUBIC + 2.0) * distance - (BICUBIC + 3.0)) * distance * distance + 1.0
            }
            Self::Bicubic if distance < 2.0 => {
                (((distance - 5.0) * distance + 8.0) * distance - 4.0) * BICUBIC
            }
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Hamming | Self::Bicubic | Self::Lanczos => 0.0,
        }
    }
}

/// Keys' parameter of cubic convolution.
const BICUBIC: f64 = -0.5;

fn sinc(x: f64) -> f64 {
    let angle = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { angle.sin() / angle }
}

/// Resamples an image to another size.
pub(crate) fn resize(image: &Pixels, width: usize, height: usize, filter: Resampling) -> Pixels {
    if filter == Resampling::Nearest {
        return nearest(image, width, height);
    }
    if is_down_first(image, width, height) {
        return resize_width(&resize_height(image, height, filter), width, filter).into_owned();
    }
    resize_height(&resize_width(image, width, filter), height, filter).into_owned()
}

/// Returns true for images whose height shrinks by more than twice what their width shrinks by. The order
/// counts, since each pass rounds.
fn is_down_first(image: &Pixels, width: usize, height: usize) -> bool {
    let narrowed = image.width.saturating_sub(width);
    image.height > height && image.height - height > 2 * narrowed
}

fn resize_width(image: &Pixels, width: usize, filter: Resampling) -> Cow<'_, Pixels> {
    match width == image.width {
        true => Cow::Borrowed(image),
        false => Cow::Owned(across(image, &weights(image.width, width, filter))),
    }
}

fn resize_height(image: &Pixels, height: usize, filter: Resampling) -> Cow<'_, Pixels> {
    match height == image.height {
        true => Cow::Borrowed(image),
        false => Cow::Owned(down(image, &weights(image.height, height, filter))),
    }
}

/// The weights of the pixels that an output pixel is made of.
struct Weights {
    first: usize,
    weights: Vec<i32>,
}

/// The weights of `outputs` pixels that are made of `inputs`.
fn weights(inputs: usize, outputs: usize, filter: Resampling) -> Vec<Weights> {
    let scale = inputs as f64 / outputs as f64;
    let widening = scale.max(1.0);
    let support = filter.support() * widening;
    let one = |output: usize| {
        let center = (output as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(inputs);
        let weight = |x: usize| filter.at((x as f64 - center + 0.5) * (1.0 / widening));
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let share = |weight: &f64| if sum == 0.0 { *weight } else { weight / sum };
        Weights { first, weights: weights.iter().map(|weight| fixed(share(weight))).collect() }
    };
    (0..outputs).map(one).collect()
}

/// A weight in fixed point, rounded half away from zero.
fn fixed(weight: f64) -> i32 {
    (weight * f64::from(1 << PRECISION_BITS) + 0.5_f64.copysign(weight)) as i32
}

/// A weighted sum as a byte.
fn byte(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (PRECISION_BITS - 1);

/// Resamples each row.
fn across(image: &Pixels, columns: &[Weights]) -> Pixels {
    let mut resampled = Pixels::black(columns.len(), image.height);
    for (y, row) in resampled.values.chunks_mut(columns.len() * CHANNELS).enumerate() {
        let source = image.row(y);
        for (pixel, Weights { first, weights }) in row.chunks_mut(CHANNELS).zip(columns) {
            let mut sums = [HALF; CHANNELS];
            for (from, weight) in source[first * CHANNELS..].chunks(CHANNELS).zip(weights) {
                sums.iter_mut()
                    .zip(from)
                    .for_each(|(sum, value)| *sum += i32::from(*value) * weight);
            }
            pixel.iter_mut().zip(sums).for_each(|(value, sum)| *value = byte(sum));
        }
    }
    resampled
}

/// Resamples each column.
fn down(image: &Pixels, rows: &[Weights]) -> Pixels {
    let mut resampled = Pixels::black(image.width, rows.len());
    let bytes = (image.width * CHANNELS).max(1);
    let mut sums = vec![HALF; bytes];
    for (row, Weights { first, weights }) in resampled.values.chunks_mut(bytes).zip(rows) {
        sums.fill(HALF);
        for (y, weight) in weights.iter().enumerate() {
            let source = image.row(first + y);
            sums.iter_mut().zip(source).for_each(|(sum, value)| *sum += i32::from(*value) * weight);
        }
        row.iter_mut().zip(&sums).for_each(|(value, sum)| *value = byte(*sum));
    }
    resampled
}

/// Takes the pixel that each new pixel's center lies in.
fn nearest(image: &Pixels, width: usize, height: usize) -> Pixels {
    let (columns, rows) =
        (nearest_places(image.width, width), nearest_places(image.height, height));
    let mut resampled = Pixels::black(width, height);
    for (row, y) in resampled.values.chunks_mut(width * CHANNELS).zip(rows) {
        let source = image.row(y);
        for (pixel, x) in row.chunks_mut(CHANNELS).zip(&columns) {
            pixel.copy_from_slice(&source[x * CHANNELS..(x + 1) * CHANNELS]);
        }
    }
    resampled
}

/// The pixel of `inputs` for each of `outputs`. Pillow adds up the places of the centers, and the rounding
/// of the sums decides where a center lies between two pixels.
fn nearest_places(inputs: usize, outputs: usize) -> Vec<usize> {
    let step = inputs as f64 / outputs as f64;
    let centers = std::iter::successors(Some(step * 0.5), |center| Some(center + step));
    centers.take(outputs).map(|center| (center as usize).min(inputs - 1)).collect()
}
