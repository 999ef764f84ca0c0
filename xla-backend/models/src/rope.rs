//! Reads a config's rotary embedding: `rope_parameters`, or `rope_theta` and
//! `rope_scaling` as configs had them before transformers 5. The formulas are those
//! of transformers' `modeling_rope_utils`, in float32 as there: scores of attention that are large make a last bit of
//! a frequency visible in gradients.

use std::f32::consts::TAU;
use std::f64::consts::PI;

use serde_json::{Map, Value};

use crate::config::ModelConfig;
use crate::error::Result;
use crate::layers::{LongRotary, Rotary};

/// The default of `Phi3Config.original_max_position_embeddings`.
const PHI_3_POSITIONS: usize = 4096;

/// The rotary embedding of a config for heads of `head_dim`, with a base of `theta` where the config
/// has none.
pub(crate) fn resolve(config: &ModelConfig, head_dim: usize, theta: f64) -> Result<Rotary> {
    let kind = LayerKind { section: None, theta_key: "rope_theta", theta, is_scaled: true };
    resolve_of_kind(config, head_dim, &kind)
}

/// The layers of a rotary embedding, in configs where not all have the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerKind {
    /// Their section of `rope_parameters`.
    pub section: Option<&'static str>,
    /// The base of frequencies outside of the section.
    pub theta_key: &'static str,
    pub theta: f64,
    /// Whether `rope_scaling` applies to them.
    pub is_scaled: bool,
}

/// The rotary embedding of each layer: that of the `local` kind where the layer is local, and else of the `global` one.
pub(crate) fn resolve_by_window(
    config: &ModelConfig,
    head_dim: usize,
    is_local: &[bool],
    [global, local]: [&LayerKind; 2],
) -> Result<Vec<Rotary>> {
    let global = resolve_of_kind(config, head_dim, global)?;
    let local = resolve_of_kind(config, head_dim, local)?;
    Ok(is_local.iter().map(|it| if *it { &local } else { &global }).cloned().collect())
}

/// The rotary embedding of the layers of a kind.
pub(crate) fn resolve_of_kind(
    config: &ModelConfig,
    head_dim: usize,
    kind: &LayerKind,
) -> Result<Rotary> {
    let rope = RopeConfig::read(config, kind)?;
    let share = rope.number_or("partial_rotary_factor", 1.0)?;
    let dim = (head_dim as f64 * share) as usize;
    if dim < 2 || !dim.is_multiple_of(2) || dim > head_dim {
        let problem = format!("{share} of head size {head_dim} is not an even width");
        return Err(rope.error("partial_rotary_factor", problem));
    }
    let theta = rope.theta()?;
    let powers = powers(theta, dim);
    let plain: Vec<f32> = powers.iter().map(|power| 1.0 / power).collect();
    let mut attention_factor = 1.0;
    let mut long = None;
    let inverse_frequencies = match rope.kind()? {
        "default" => plain,
        // transformers leaves the last coordinates in their pairs there, with angles of 0.
        "linear" if dim < head_dim => {
            let problem = format!("{share} is not supported with the rope_type linear");
            return Err(rope.error("partial_rotary_factor", problem));
        }
        "linear" => divided(plain, rope.number("factor")?),
        // Rows never exceed `max_position_embeddings`, up to which it is the plain one.
        "dynamic" => plain,
        "llama3" => llama3(&plain, &rope)?,
        "yarn" => {
            attention_factor = yarn_attention_factor(&rope)?;
            yarn(&powers, theta, &rope)?
        }
        // Names of earlier versions.
        "longrope" | "su" => {
            attention_factor = longrope_attention_factor(&rope)?;
            long = Some(LongRotary {
                positions: rope.original_positions()?,
                inverse_frequencies: widened(divided_each(&powers, "long_factor", &rope)?),
            });
            divided_each(&powers, "short_factor", &rope)?
        }
        other => {
            let problem = format!(
                "expected one of default, linear, dynamic, llama3, yarn, longrope, found {other}"
            );
            return Err(rope.error("rope_type", problem));
        }
    };
    let inverse_frequencies = widened(inverse_frequencies);
    Ok(Rotary { inverse_frequencies, attention_factor, long })
}

/// theta^(2i/dim), with an exponent and a power that are rounded to float32.
fn powers(theta: f64, dim: usize) -> Vec<f32> {
    let exponent = |i: usize| f64::from((2 * i) as f32 / dim as f32);
    (0..dim / 2).map(|i| f64::from(theta as f32).powf(exponent(i)) as f32).collect()
}

fn widened(frequencies: Vec<f32>) -> Vec<f64> {
    frequencies.into_iter().map(f64::from).collect()
}

fn divided(frequencies: Vec<f32>, factor: f64) -> Vec<f32> {
    frequencies.into_iter().map(|frequency| frequency / factor as f32).collect()
}

/// Long waves are stretched, short ones are not, and those between are mixed.
fn llama3(plain: &[f32], rope: &RopeConfig<'_>) -> Result<Vec<f32>> {
    let factor = rope.number("factor")? as f32;
    let (low, high) = (rope.number("low_freq_factor")?, rope.number("high_freq_factor")?);
    if high <= low {
        return Err(rope.error("high_freq_factor", "must be above low_freq_factor"));
    }
    let positions = rope.number("original_max_position_embeddings")?;
    let (longest, shortest) = ((positions / low) as f32, (positions / high) as f32);
    let mixed = plain.iter().map(|frequency| match TAU / frequency {
        wave if wave > longest => frequency / factor,
        wave if wave < shortest => *frequency,
        wave => {
            let kept = (positions as f32 / wave - low as f32) / (high - low) as f32;
            (1.0 - kept) * frequency / factor + kept * frequency
        }
    });
    Ok(mixed.collect())
}

/// Yarn (Peng et al., 2023): coordinates that turn slowly are stretched.
fn yarn(powers: &[f32], theta: f64, rope: &RopeConfig<'_>) -> Result<Vec<f32>> {
    let factor = rope.number("factor")? as f32;
    let positions = rope.number("original_max_position_embeddings")?;
    let dim = 2.0 * powers.len() as f64;
    let coordinate = |turns: f64| dim * (positions / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let mut low = coordinate(rope.number_or("beta_fast", 32.0)?);
    let mut high = coordinate(rope.number_or("beta_slow", 1.0)?);
    if rope.flag_or("truncate", true)? {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    let width = (high - low) as f32;
    let mixed = powers.iter().enumerate().map(|(i, power)| {
        let kept = 1.0 - ((i as f32 - low as f32) / width).clamp(0.0, 1.0);
        1.0 / (factor * power) * (1.0 - kept) + 1.0 / power * kept
    });
    Ok(mixed.collect())
}

fn yarn_attention_factor(rope: &RopeConfig<'_>) -> Result<f64> {
    if let Some(given) = rope.optional_number("attention_factor")? {
        return Ok(given);
    }
    let factor = rope.number("factor")?;
    let scale = |weight: f64| if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 };
    let mscale = rope.optional_number("mscale")?;
    Ok(match (mscale, rope.optional_number("mscale_all_dim")?) {
        (Some(mscale), Some(all_dim)) => scale(mscale) / scale(all_dim),
        _ => scale(1.0),
    })
}

/// LongRoPE (Ding et al., 2024): every frequency has a divisor of its own in the list `key`.
fn divided_each(powers: &[f32], key: &str, rope: &RopeConfig<'_>) -> Result<Vec<f32>> {
    let factors = rope.numbers(key)?;
    if factors.len() != powers.len() {
        let problem = format!("has {} numbers, the heads turn {}", factors.len(), powers.len());
        return Err(rope.error(key, problem));
    }
    Ok(powers.iter().zip(factors).map(|(power, factor)| 1.0 / (factor as f32 * power)).collect())
}

fn longrope_attention_factor(rope: &RopeConfig<'_>) -> Result<f64> {
    if let Some(given) = rope.optional_number("attention_factor")? {
        return Ok(given);
    }
    let original = rope.original_positions()? as f64;
    let factor = match rope.optional_number("factor")? {
        Some(factor) => factor,
        None => rope.number("max_position_embeddings")? / original,
    };
    Ok(if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() })
}

/// The keys of a rotary embedding, wherever the file has them.
struct RopeConfig<'a> {
    config: &'a ModelConfig,
    section: &'static str,
    keys: Option<&'a Map<String, Value>>,
    kind: LayerKind,
}

impl<'a> RopeConfig<'a> {
    fn read(config: &'a ModelConfig, kind: &LayerKind) -> Result<RopeConfig<'a>> {
        let section = match config.object("rope_scaling")? {
            Some(_) if kind.is_scaled => "rope_scaling",
            _ => "rope_parameters",
        };
        let keys = config.object(section)?;
        let of_kind = || keys?.get(kind.section?)?.as_object();
        let keys = match (section, kind.section) {
            ("rope_parameters", Some(_)) => of_kind(),
            _ => keys,
        };
        Ok(RopeConfig { config, section, keys, kind: *kind })
    }

    /// The base of frequencies, of the section or else of the config itself.
    fn theta(&self) -> Result<f64> {
        let own = self.keys.is_some_and(|keys| keys.contains_key("rope_theta"));
        let key = if own { "rope_theta" } else { self.kind.theta_key };
        self.number_or(key, self.kind.theta)
    }

    /// `rope_type`, which was once `type`.
    fn kind(&self) -> Result<&'a str> {
        let named = ["rope_type", "type"].iter().find_map(|key| self.get(key));
        let Some(value) = named else { return Ok("default") };
        let name = value.as_str();
        let name =
            name.ok_or_else(|| self.error("rope_type", format!("{value} is not a string")))?;
        // Phi-3's first configs called it so.
        let is_long = name == "yarn" && self.get("long_factor").is_some();
        Ok(if is_long { "longrope" } else { name })
    }

    fn number(&self, key: &str) -> Result<f64> {
        self.optional_number(key)?.ok_or_else(|| self.error(key, "expected a number, found none"))
    }

    fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        Ok(self.optional_number(key)?.unwrap_or(default))
    }

    /// The positions of the longest row with the angles of short ones. A Phi-3 has them outside of the section, where
    /// its class has a default, whatever stands in the section.
    fn original_positions(&self) -> Result<usize> {
        let key = "original_max_position_embeddings";
        if self.config.model_type()? == "phi3" {
            return self.config.size_or(key, PHI_3_POSITIONS);
        }
        let number = self.number(key)?;
        let whole = number.fract() == 0.0 && number < f64::from(1 << 24);
        let problem = || self.error(key, format!("expected a number of positions, found {number}"));
        if whole { Ok(number as usize) } else { Err(problem()) }
    }

    /// A list of numbers above zero.
    fn numbers(&self, key: &str) -> Result<Vec<f64>> {
        let list = self.get(key).and_then(Value::as_array);
        let positive = |value: &Value| value.as_f64().filter(|it| it.is_finite() && *it > 0.0);
        let numbers = list.and_then(|list| list.iter().map(positive).collect());
        numbers.ok_or_else(|| self.error(key, "expected a list of numbers above 0"))
    }

    /// A number above zero, of the section or else of the config itself.
    fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(key, format!("expected a number above 0, found {value}"))),
        }
    }

    fn flag_or(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let problem = || self.error(key, format!("expected true or false, found {value}"));
        value.as_bool().ok_or_else(problem)
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        let own = self.keys.and_then(|keys| keys.get(key));
        own.or_else(|| self.config.keys().get(key)).filter(|value| !value.is_null())
    }

    fn error(&self, key: &str, problem: impl Into<String>) -> crate::Error {
        self.config.error(&format!("{}.{key}", self.section), problem)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Frequencies in PyTorch 2.9, by their places: `1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))`.
    #[test]
    fn frequencies_have_the_bits_of_pytorch() {
        let found = powers(1e6, 96);
        let expect = [
            (5, 0x3e72_d425),
            (7, 0x3e08_8d78),
            (20, 0x3b4f_3e39),
            (30, 0x393a_7753),
            (40, 0x3727_c5b0),
            (47, 0x35b2_fb6f),
        ];
        for (place, bits) in expect {
            assert_eq!((1.0 / found[place]).to_bits(), bits, "place {place}");
        }
    }

    /// As `Phi3Config`, which replaces the number of the section.
    #[test]
    fn a_phi_3_has_its_original_positions_outside_of_the_section() {
        let positions = |model_type: &str, own: Value| {
            let rope = json!({
                "rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0],
                "original_max_position_embeddings": 8,
            });
            let keys = json!({
                "model_type": model_type, "max_position_embeddings": 64, "rope_scaling": rope,
                "original_max_position_embeddings": own,
            });
            let config = ModelConfig::new("config.json", keys.as_object().unwrap().clone());
            resolve(&config, 2, 10000.0).unwrap().long.unwrap().positions
        };
        assert_eq!(positions("phi3", json!(16)), 16);
        assert_eq!(positions("phi3", Value::Null), PHI_3_POSITIONS);
        assert_eq!(positions("llama", json!(16)), 8);
    }
}
