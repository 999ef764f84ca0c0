//! JPEG as libjpeg-turbo decodes it, which Pillow uses: values are equal to the bit.
//!
//! Like Pillow, damaged parts of an image are passed over with what could be read, and a file that ends before its
//! image does is refused.

use image::metadata::Orientation;
use image::{DynamicImage, RgbImage};
use libjpeg_turbo_rs::{DecodeWarning, Decoder, Image, JpegError, PixelFormat};
use memchr::memmem::rfind;

use crate::error::ImageProblem;

/// The markers before the values of a scan, and behind the image.
const START_OF_SCAN: [u8; 2] = [0xff, 0xda];
const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];

/// The only depth of values that Pillow reads.
const PRECISION: u8 = 8;

/// Decodes an image to its colors, with the orientation in its EXIF data. `check` is called with its width
/// and height before memory is taken for it; the decoder takes at most `memory_max` bytes.
pub(super) fn decode(
    bytes: &[u8],
    memory_max: u64,
    check: impl FnOnce(u32, u32) -> Result<(), ImageProblem>,
) -> Result<(DynamicImage, Orientation), ImageProblem> {
    let decoder = Decoder::new(bytes).map_err(damaged)?;
    let header = decoder.header();
    check(u32::from(header.width), u32::from(header.height))?;
    if header.precision != PRECISION {
        return Err(problem(&format!("its values have {} bits, not 8", header.precision)));
    }
    let orientation = decoder.exif_orientation().and_then(Orientation::from_exif);
    let decoder = decoder
        .with_output_format(PixelFormat::Rgb)
        .with_max_memory(usize::try_from(memory_max).unwrap_or(usize::MAX))
        .with_lenient(true);
    let image = decoder.decode_image().map_err(damaged)?;
    check_warnings(&image, bytes)?;
    let size = [image.width, image.height].map(|size| size as u32);
    let colors = RgbImage::from_raw(size[0], size[1], image.data);
    let colors = colors.ok_or_else(|| problem("it has too few values"))?;
    Ok((DynamicImage::ImageRgb8(colors), orientation.unwrap_or(Orientation::NoTransforms)))
}

/// Refuses images that Pillow refuses, though the decoder made something of them.
fn check_warnings(image: &Image, bytes: &[u8]) -> Result<(), ImageProblem> {
    // A preview in front of the image may have an end of its own.
    let end = rfind(bytes, &END_OF_IMAGE);
    let is_cut = end.is_none_or(|end| rfind(bytes, &START_OF_SCAN).is_some_and(|scan| end < scan));
    for warning in &image.warnings {
        match warning {
            DecodeWarning::TruncatedData { .. } if is_cut => {
                return Err(problem("the file ends before its image does"));
            }
            DecodeWarning::UnsupportedRecovered { detail } => return Err(problem(detail)),
            _ => {}
        }
    }
    Ok(())
}

fn damaged(error: JpegError) -> ImageProblem {
    problem(&error.to_string())
}

fn problem(message: &str) -> ImageProblem {
    ImageProblem::Damaged { message: message.to_owned() }
}
