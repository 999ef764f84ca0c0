//! PNG, JPEG and WebP to pixels, under limits: an image of a few bytes may claim to be of any size.

use std::io::Cursor;
use std::ops::Range;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::jpeg;
use super::pixels::Pixels;
use crate::error::ImageProblem;
use crate::guard::panic_message;
use crate::stand_in::stand_in_of;

/// The largest file of an image.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// The most pixels of an image, those that Pillow takes for a decompression bomb.
const PIXELS_MAX: u64 = 89_478_485;

/// The memory that a decoder may take, enough for so many pixels of four channels of 16 bits.
const DECODER_BYTES_MAX: u64 = 8 * PIXELS_MAX;

/// The bytes of a PNG that hold its bit depth and its color type.
const PNG_KIND: Range<usize> = 24..26;

/// Grey of 16 bits, of which one value may be transparent.
const WIDE_GREY: [u8; 2] = [16, 0];

/// Decodes an image as Pillow's `convert("RGB")` has it, upright by its EXIF orientation as `datasets`
/// turns it. A panic of a decoder is an error like any other.
pub(crate) fn decode(bytes: &[u8]) -> Result<Pixels, ImageProblem> {
    let decoded = std::panic::catch_unwind(|| try_decode(bytes));
    decoded.unwrap_or_else(|panic| {
        Err(ImageProblem::Damaged { message: panic_message(panic.as_ref()) })
    })
}

fn try_decode(bytes: &[u8]) -> Result<Pixels, ImageProblem> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(ImageProblem::Bytes { found: bytes.len() as u64, max: BYTES_MAX });
    }
    let format = image::guess_format(bytes).ok();
    let known = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP];
    let format = format.filter(|format| known.contains(format));
    let format = format.ok_or_else(|| ImageProblem::Format { found: other_kind(bytes) })?;
    let (mut decoded, orientation) = match format {
        ImageFormat::Jpeg => jpeg::decode(bytes, DECODER_BYTES_MAX, check_size)?,
        format => decode_with_limits(bytes, format)?,
    };
    decoded.apply_orientation(orientation);
    let is_wide_grey = format == ImageFormat::Png && bytes.get(PNG_KIND) == Some(&WIDE_GREY);
    Ok(red_green_blue(decoded, is_wide_grey))
}

/// Says what a file is that is no image which is read, and what to do; nothing where that is not known.
fn other_kind(bytes: &[u8]) -> &'static str {
    if let Some(found) = stand_in_of(bytes) {
        return found;
    }
    match bytes {
        [] => "the file is empty",
        [b'G', b'I', b'F', b'8', ..] => "it is a GIF; save it as one of these",
        [b'B', b'M', ..] => "it is a BMP; save it as one of these",
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => {
            "it is a TIFF; save it as one of these"
        }
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => {
            "it is a HEIC or an AVIF; save it as one of these"
        }
        _ => "",
    }
}

fn check_size(width: u32, height: u32) -> Result<(), ImageProblem> {
    match u64::from(width) * u64::from(height) {
        1..=PIXELS_MAX => Ok(()),
        _ => Err(ImageProblem::Pixels { width, height, max: PIXELS_MAX }),
    }
}

fn decode_with_limits(
    bytes: &[u8],
    format: ImageFormat,
) -> Result<(DynamicImage, Orientation), ImageProblem> {
    let damaged = |error: image::ImageError| ImageProblem::Damaged { message: error.to_string() };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(DECODER_BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((DynamicImage::from_decoder(decoder).map_err(damaged)?, orientation))
}

/// The colors, whatever the transparency. Where they have 16 bits, grey without an alpha channel is cut off at 255,
/// and everything else keeps its upper 8 bits, as in Pillow.
fn red_green_blue(image: DynamicImage, is_wide_grey: bool) -> Pixels {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let to_byte = |value: u16| if is_wide_grey { value.min(255) as u8 } else { (value >> 8) as u8 };
    let values = match image {
        DynamicImage::ImageLuma16(_)
        | DynamicImage::ImageLumaA16(_)
        | DynamicImage::ImageRgb16(_)
        | DynamicImage::ImageRgba16(_) => {
            image.into_rgb16().into_raw().into_iter().map(to_byte).collect()
        }
        other => other.into_rgb8().into_raw(),
    };
    Pixels { width, height, values }
}
