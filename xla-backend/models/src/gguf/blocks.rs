//! The types of ggml's tensors, and their numbers as float32, equal to the bit to those of `gguf.quants.dequantize`,
//! which transformers calls.
//!
//! A block of 256 numbers (K-quants) consists of groups with a scale each, and a block of 32 is one group.

use half::{bf16, f16};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// Type, number in the file, name, numbers of a block and its bytes.
const TYPES: &[(BlockType, u32, &str, usize, usize)] = &[
    (BlockType::F32, 0, "F32", 1, 4),
    (BlockType::F16, 1, "F16", 1, 2),
    (BlockType::Q4_0, 2, "Q4_0", 32, 18),
    (BlockType::Q4_1, 3, "Q4_1", 32, 20),
    (BlockType::Q5_0, 6, "Q5_0", 32, 22),
    (BlockType::Q5_1, 7, "Q5_1", 32, 24),
    (BlockType::Q8_0, 8, "Q8_0", 32, 34),
    (BlockType::Q2K, 10, "Q2_K", 256, 84),
    (BlockType::Q3K, 11, "Q3_K", 256, 110),
    (BlockType::Q4K, 12, "Q4_K", 256, 144),
    (BlockType::Q5K, 13, "Q5_K", 256, 176),
    (BlockType::Q6K, 14, "Q6_K", 256, 210),
    (BlockType::Bf16, 30, "BF16", 1, 2),
];

impl BlockType {
    /// The type of a number in the file.
    pub(super) fn of(number: u32) -> Option<BlockType> {
        TYPES.iter().find(|(_, known, ..)| *known == number).map(|(kind, ..)| *kind)
    }

    pub(super) fn names() -> Vec<&'static str> {
        TYPES.iter().map(|(_, _, name, ..)| *name).collect()
    }

    /// The numbers of a block and its bytes.
    pub(super) fn layout(self) -> (usize, usize) {
        let entry = TYPES.iter().find(|(kind, ..)| *kind == self);
        entry.map_or((1, 4), |(.., numbers, bytes)| (*numbers, *bytes))
    }

    /// The numbers of whole blocks.
    pub(super) fn dequantize(self, bytes: &[u8]) -> Vec<f32> {
        let (numbers, size) = self.layout();
        let mut out = Vec::with_capacity(bytes.len() / size * numbers);
        for block in bytes.chunks_exact(size) {
            self.block(block, &mut out);
        }
        out
    }

    fn block(self, b: &[u8], out: &mut Vec<f32>) {
        match self {
            BlockType::F32 => out.push(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            BlockType::F16 => out.push(half(b, 0)),
            BlockType::Bf16 => out.push(bf16::from_le_bytes([b[0], b[1]]).to_f32()),
            BlockType::Q8_0 => out.extend(b[2..].iter().map(|q| f32::from(*q as i8) * half(b, 0))),
            BlockType::Q4_0 => {
                out.extend(nibbles(&b[2..]).map(|q| half(b, 0) * (f32::from(q) - 8.0)))
            }
            BlockType::Q4_1 => {
                out.extend(nibbles(&b[4..]).map(|q| half(b, 0) * f32::from(q) + half(b, 2)));
            }
            BlockType::Q5_0 => {
                let fives = fives(&b[6..], &b[2..6]);
                out.extend(fives.map(|q| half(b, 0) * (f32::from(q) - 16.0)));
            }
            BlockType::Q5_1 => {
                let fives = fives(&b[8..], &b[4..8]);
                out.extend(fives.map(|q| half(b, 0) * f32::from(q) + half(b, 2)));
            }
            BlockType::Q2K => q2_k(b, out),
            BlockType::Q3K => q3_k(b, out),
            BlockType::Q4K => q4_k(b, out),
            BlockType::Q5K => q5_k(b, out),
            BlockType::Q6K => q6_k(b, out),
        }
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The low halves of bytes, then the high ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4))
}

/// Nibbles with a fifth bit each, the bits of a word.
fn fives(bytes: &[u8], high: &[u8]) -> impl Iterator<Item = u8> {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    nibbles(bytes).zip(0..).map(move |(low, at)| low | (((high >> at) & 1) as u8) << 4)
}

/// The field of `bits` bits at `place` of a plane: of each run of `width` bytes first the lowest fields of all, then
/// the next ones.
fn field(plane: &[u8], place: usize, width: usize, bits: usize) -> u8 {
    let per_byte = 8 / bits;
    let run = place / (width * per_byte);
    let shift = place / width % per_byte * bits;
    (plane[run * width + place % width] >> shift) & ((1 << bits) - 1)
}

fn q2_k(b: &[u8], out: &mut Vec<f32>) {
    let (scales, quants, d, least) = (&b[..16], &b[16..80], half(b, 80), half(b, 82));
    out.extend((0..256).map(|place| {
        let scale = scales[place / 16];
        let (scale, minimum) = (d * f32::from(scale & 15), least * f32::from(scale >> 4));
        scale * f32::from(field(quants, place, 32, 2)) - minimum
    }));
}

fn q3_k(b: &[u8], out: &mut Vec<f32>) {
    let (high, quants, scales, d) = (&b[..32], &b[32..96], &b[96..108], half(b, 108));
    out.extend((0..256).map(|place| {
        let group = place / 16;
        let scale = field(&scales[..8], group, 8, 4) | field(&scales[8..], group, 4, 2) << 4;
        let scale = d * f32::from(scale as i8 - 32);
        // The offset applies where the bit is clear.
        let offset = (field(high, place, 32, 1) ^ 1) << 2;
        scale * f32::from(field(quants, place, 32, 2) as i8 - offset as i8)
    }));
}

/// The scales and minimums of the eight groups of Q4_K and Q5_K, of six bits each.
fn scales_of_six_bits(packed: &[u8]) -> [(f32, f32); 8] {
    std::array::from_fn(|group| {
        let (scale, minimum) = match group {
            0..4 => (packed[group] & 63, packed[group + 4] & 63),
            _ => {
                let (both, low, high) = (packed[group + 4], packed[group - 4], packed[group]);
                ((both & 15) | (low >> 6) << 4, (both >> 4) | (high >> 6) << 4)
            }
        };
        (f32::from(scale), f32::from(minimum))
    })
}

fn q4_k(b: &[u8], out: &mut Vec<f32>) {
    let (d, least, scales) = (half(b, 0), half(b, 2), scales_of_six_bits(&b[4..16]));
    out.extend((0..256).map(|place| {
        let (scale, minimum) = scales[place / 32];
        (d * scale) * f32::from(field(&b[16..], place, 32, 4)) - least * minimum
    }));
}

fn q5_k(b: &[u8], out: &mut Vec<f32>) {
    let (d, least, scales) = (half(b, 0), half(b, 2), scales_of_six_bits(&b[4..16]));
    let (high, low) = (&b[16..48], &b[48..]);
    out.extend((0..256).map(|place| {
        let (scale, minimum) = scales[place / 32];
        let quant = field(low, place, 32, 4) | field(high, place, 32, 1) << 4;
        (d * scale) * f32::from(quant) - least * minimum
    }));
}

fn q6_k(b: &[u8], out: &mut Vec<f32>) {
    let (low, high, scales, d) = (&b[..128], &b[128..192], &b[192..208], half(b, 208));
    out.extend((0..256).map(|place| {
        let scale = d * f32::from(scales[place / 16] as i8);
        let quant = field(low, place, 64, 4) | field(high, place, 32, 2) << 4;
        scale * f32::from(quant as i8 - 32)
    }));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// Each type against `gguf.dequantize`.
    #[test]
    fn numbers_are_those_of_gguf_to_the_bit() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gguf/blocks.json");
        let text = std::fs::read(file).unwrap();
        let blocks: BTreeMap<String, BTreeMap<String, String>> =
            serde_json::from_slice(&text).unwrap();
        assert_eq!(blocks.len(), TYPES.len() - 3);
        for (name, block) in &blocks {
            let (kind, ..) = TYPES.iter().find(|(_, _, known, ..)| known == name).unwrap();
            let found = kind.dequantize(&bytes(&block["bytes"]));
            let found: Vec<u8> = found.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert_eq!(found, bytes(&block["numbers"]), "{name}");
        }
    }
}
