//! `torch.nn.Conv2d` whose kernels stand side by side: a linear layer on the patches of an image.
//!
//! B rows, C channels, P and Q the height and width of a patch, N patches, H hidden size.

use traind_xla::{DType, Tensor};

use crate::config::PixelNormalization;
use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath, Role};

/// The sizes of images and of the patches that they are cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageSizes {
    /// Height and width.
    pub image: [usize; 2],
    /// Height and width.
    pub patch: [usize; 2],
    /// The channels of images.
    pub channels: usize,
}

impl ImageSizes {
    /// The number of whole patches from top to bottom and from left to right.
    fn grid(&self) -> [usize; 2] {
        [self.image[0] / self.patch[0], self.image[1] / self.patch[1]]
    }

    /// The number of whole patches in an image.
    pub(crate) fn patches(&self) -> usize {
        self.grid().iter().product()
    }

    /// The number of values in a patch.
    pub(crate) fn patch_values(&self) -> usize {
        self.channels * self.patch.iter().product::<usize>()
    }
}

/// A linear layer of the pixels of each patch, whose weight is that of a convolution.
#[derive(Debug)]
pub(crate) struct PatchEmbedding {
    weight: String,
    bias: String,
    sizes: ImageSizes,
    normalization: PixelNormalization,
}

impl PatchEmbedding {
    /// `weight` [H, C, P, Q], normal with `std`, and `bias` [H], zero.
    pub(crate) fn new(
        path: ParameterPath<'_>,
        sizes: ImageSizes,
        hidden_size: usize,
        std: f64,
        normalization: PixelNormalization,
    ) -> PatchEmbedding {
        let mut path = path.beside_tokens();
        let dims = [hidden_size, sizes.channels, sizes.patch[0], sizes.patch[1]];
        let init = Init::Normal { std };
        let weight = path.declare("weight", Role::Projection, &dims.map(Into::into), init);
        let bias = path.bias("bias", hidden_size.into());
        PatchEmbedding { weight, bias, sizes, normalization }
    }

    /// Pixels u8[B, height, width, C] to the patches' states f32[B, N, H].
    pub(crate) fn forward(&self, cx: &Forward<'_>, pixels: &Tensor) -> Result<Tensor> {
        let rows = pixels.dims().first().copied().unwrap_or_default();
        let patches = self.normalized(&self.patches(pixels, rows)?)?;
        let weight = cx.factor(&self.weight)?;
        let hidden_size = weight.dims()[0];
        let weight = weight.reshape(&[hidden_size, self.sizes.patch_values()])?;
        let patches = patches.convert(cx.compute_dtype())?;
        let states = cx.linear(&patches, &weight, Some(&cx.factor(&self.bias)?))?;
        let dims = [rows, self.sizes.patches(), hidden_size];
        Ok(states.convert(DType::F32)?.reshape(&dims)?)
    }

    /// The values of each patch in the order of the kernel's, u8[B N, C, P Q]. Pixels beyond the last
    /// whole patch are left out.
    fn patches(&self, pixels: &Tensor, rows: usize) -> Result<Tensor> {
        let ImageSizes { patch: [height, width], channels, .. } = self.sizes;
        let [down, across] = self.sizes.grid();
        let whole = pixels.slice(1, 0, down * height)?.slice(2, 0, across * width)?;
        let cut = whole.reshape(&[rows, down, height, across, width, channels])?;
        let by_patch = cut.transpose(&[0, 1, 3, 5, 2, 4])?;
        Ok(by_patch.reshape(&[rows * down * across, channels, height * width])?)
    }

    /// Patches u8[B N, C, P Q] as numbers f32[B N, C P Q] near zero.
    fn normalized(&self, patches: &Tensor) -> Result<Tensor> {
        let PixelNormalization { rescale_factor, image_mean, image_std } = &self.normalization;
        let channels = self.sizes.channels;
        let of_channels = |values: &[f64]| {
            let values: Vec<f64> = values.iter().copied().cycle().take(channels).collect();
            patches.trace().constant(DType::F32, &[channels, 1], &values)
        };
        let values = patches.convert(DType::F32)?.mul_scalar(*rescale_factor)?;
        let values = values.sub(&of_channels(image_mean)?)?.div(&of_channels(image_std)?)?;
        Ok(values.reshape(&[patches.dims()[0], self.sizes.patch_values()])?)
    }
}
