//! `preprocessor_config.json`: how images become inputs of a model.

use std::path::Path;

use serde_json::{Map, Value as Json};
use traind_durable::read_description;

use super::Augmentation;
use super::pixels::{Pixels, Region};
use super::resample::{Resampling, resize};
use crate::error::{Error, Result};

/// The name of the file in a model folder.
const FILE_NAME: &str = "preprocessor_config.json";

/// The largest height and width of the images that a model reads.
const SIZE_MAX: u64 = 4096;

/// An image processor of transformers: resizes and crops. The last steps, rescaling and normalizing,
/// are the model's, which takes their settings from here.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageProcessor {
    resize: Option<Resize>,
    resample: Resampling,
    /// Height and width of the part in the middle, if one is cut out.
    center_crop: Option<[usize; 2]>,
    output: [usize; 2],
    /// The factor of pixels; 1 where they are not rescaled.
    pub rescale_factor: f64,
    /// The mean of each channel, or one for all.
    pub image_mean: Vec<f64>,
    /// The deviation of each channel, or one for all.
    pub image_std: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resize {
    /// Resizes to a height and a width.
    To([usize; 2]),
    /// Resizes the shorter edge to a length; the other one follows.
    ShortestEdge(usize),
}

impl ImageProcessor {
    /// Opens the image processor of a model folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE_NAME);
        let bytes = read_description(&file).map_err(Error::io(&file, "read"))?;
        let keys = serde_json::from_slice(&bytes);
        let keys = keys.map_err(|error| Error::bad_processor(&file, error))?;
        Self::of_keys(&Keys { keys }).map_err(|problem| Error::bad_processor(&file, problem))
    }

    fn of_keys(keys: &Keys) -> Result<Self, String> {
        let crops = keys.flag("do_center_crop", keys.is_deit())?;
        let resizes = keys.flag("do_resize", true)?;
        let center_crop = crops.then(|| keys.center_crop()).transpose()?;
        let resize = resizes.then(|| keys.resize()).transpose()?;
        let output = match (center_crop, resize) {
            (Some(size), _) | (None, Some(Resize::To(size))) => size,
            _ => return Err("do_center_crop is false, and size is not a height and width: images would differ in size".to_owned()),
        };
        let rescales = keys.flag("do_rescale", true)?;
        let normalizes = keys.flag("do_normalize", true)?;
        let of_channels = |key, otherwise: f64| match normalizes {
            true => keys.channels(key),
            false => Ok(vec![otherwise]),
        };
        let image_std = of_channels("image_std", 1.0)?;
        if image_std.contains(&0.0) {
            return Err("image_std: expected numbers other than 0".to_owned());
        }
        Ok(Self {
            resize,
            resample: keys.resample()?,
            center_crop,
            output,
            rescale_factor: if rescales {
                keys.number("rescale_factor", 1.0 / 255.0)?
            } else {
                1.0
            },
            image_mean: of_channels("image_mean", 0.0)?,
            image_std,
        })
    }

    /// Height and width of all images that it makes.
    pub fn size(&self) -> [usize; 2] {
        self.output
    }

    /// The image as evaluations see it.
    pub(crate) fn whole(&self, image: &Pixels) -> Pixels {
        let resized = self.resize.map(|to| {
            let [height, width] = to.size(image);
            resize(image, width, height, self.resample)
        });
        let image = resized.as_ref().unwrap_or(image);
        let [height, width] = self.output;
        match (image.height, image.width) == (height, width) {
            true => image.clone(),
            false => image.crop(middle(image, height, width)),
        }
    }

    /// The part of the image that row `row` is trained on in `epoch`.
    pub(crate) fn view(
        &self,
        image: &Pixels,
        augmentation: Augmentation,
        epoch: u64,
        row: u64,
    ) -> Pixels {
        let view = augmentation.view(image, epoch, row);
        let [height, width] = self.output;
        let resized = resize(&image.crop(view.region), width, height, self.resample);
        if view.mirrored { resized.mirrored() } else { resized }
    }
}

impl Resize {
    /// Height and width of the resized image.
    fn size(self, image: &Pixels) -> [usize; 2] {
        match self {
            Self::To(size) => size,
            Self::ShortestEdge(edge) => {
                let (short, long) = (image.width.min(image.height), image.width.max(image.height));
                let other = (edge * long / short).clamp(1, 1 << 20);
                if image.width <= image.height { [other, edge] } else { [edge, other] }
            }
        }
    }
}

/// The region in the middle that transformers cuts out, half a pixel up and left of the center where
/// sizes differ by an odd number.
fn middle(image: &Pixels, height: usize, width: usize) -> Region {
    let first = |size: usize, cut: usize| (size as isize - cut as isize).div_euclid(2);
    Region { left: first(image.width, width), top: first(image.height, height), width, height }
}

/// The keys of the file. What is absent has the default of the processor's class.
struct Keys {
    keys: Map<String, Json>,
}

impl Keys {
    fn get(&self, key: &str) -> Option<&Json> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Returns true for DeiT's processor, whose defaults are others.
    fn is_deit(&self) -> bool {
        let names = ["image_processor_type", "feature_extractor_type"];
        let mut names = names.iter().filter_map(|key| self.get(key)?.as_str());
        names.any(|name| name.starts_with("DeiT"))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| format!("{key}: expected true or false, found {value}"))
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{key}: expected a number, found {value}"))
    }

    /// A number for each of three channels, or one for all.
    fn channels(&self, key: &str) -> Result<Vec<f64>, String> {
        const DEFAULT: f64 = 0.5;
        let Some(value) = self.get(key) else { return Ok(vec![DEFAULT]) };
        let numbers: Option<Vec<f64>> = match value {
            Json::Array(items) => items.iter().map(Json::as_f64).collect(),
            other => other.as_f64().map(|number| vec![number]),
        };
        let numbers = numbers.filter(|numbers| matches!(numbers.len(), 1 | 3));
        numbers.ok_or_else(|| format!("{key}: expected three numbers, found {value}"))
    }

    fn resample(&self) -> Result<Resampling, String> {
        let default = if self.is_deit() { Resampling::Bicubic } else { Resampling::Bilinear };
        let Some(value) = self.get("resample") else { return Ok(default) };
        let filter = value.as_u64().and_then(Resampling::of_number);
        filter.ok_or_else(|| {
            format!("resample: expected a filter of Pillow from 0 to 5, found {value}")
        })
    }

    fn resize(&self) -> Result<Resize, String> {
        let default = if self.is_deit() { 256 } else { 224 };
        let Some(value) = self.get("size") else { return Ok(Resize::To([default; 2])) };
        if let Some(size) = height_and_width(value) {
            return Ok(Resize::To(size));
        }
        let edge = value.get("shortest_edge").and_then(size);
        let edge = edge.filter(|_| value.get("longest_edge").is_none_or(Json::is_null));
        edge.map(Resize::ShortestEdge).ok_or_else(|| {
            format!("size: expected a height and a width or a shortest_edge from 1 to {SIZE_MAX}, found {value}")
        })
    }

    fn center_crop(&self) -> Result<[usize; 2], String> {
        const DEFAULT: usize = 224;
        let Some(value) = self.get("crop_size") else { return Ok([DEFAULT; 2]) };
        height_and_width(value).ok_or_else(|| {
            format!("crop_size: expected a height and a width from 1 to {SIZE_MAX}, found {value}")
        })
    }
}

/// A height and a width, or one number for both.
fn height_and_width(value: &Json) -> Option<[usize; 2]> {
    if let Some(both) = size(value) {
        return Some([both; 2]);
    }
    Some([size(value.get("height")?)?, size(value.get("width")?)?])
}

fn size(value: &Json) -> Option<usize> {
    value.as_u64().filter(|size| (1..=SIZE_MAX).contains(size)).map(|size| size as usize)
}
