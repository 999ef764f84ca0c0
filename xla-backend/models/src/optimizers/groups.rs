//! The optimizers of a model's parameters, as PyTorch's parameter groups: those of each group, and one for all others.

use std::sync::Arc;

use regex::Regex;
use traind_xla::Tensor;

use super::{NOT_NEGATIVE, Optimizer, Scalars, Settings, build, not_negative};
use crate::error::{Error, Result, check_setting};
use crate::parameters::ParameterSpec;

/// The names of the parameters of a group.
///
/// A pattern that begins with `*` is a glob for whole names, in which `*` stands for any letters and `?` for one. Any
/// other is a regular expression that is found somewhere in a name.
#[derive(Clone, Debug)]
pub struct Pattern {
    given: String,
    expression: Regex,
}

impl Pattern {
    /// Fails where a regular expression is none.
    pub fn new(given: &str) -> Result<Pattern> {
        let expression = if given.starts_with('*') { of_glob(given) } else { given.to_owned() };
        let expression = Regex::new(&expression).map_err(|error| Error::Pattern {
            pattern: given.to_owned(),
            problem: error.to_string(),
        })?;
        Ok(Pattern { given: given.to_owned(), expression })
    }

    /// Returns whether a parameter's name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.expression.is_match(name)
    }
}

fn of_glob(glob: &str) -> String {
    let parts = glob.chars().map(|letter| match letter {
        '*' => ".*".to_owned(),
        '?' => ".".to_owned(),
        letter => regex::escape(letter.encode_utf8(&mut [0; 4])),
    });
    format!("^{}$", parts.collect::<String>())
}

/// The settings of a group of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSettings {
    /// The names of its parameters, as a [`Pattern`].
    pub pattern: String,
    /// The multiple of the step's learning rate.
    pub rate: f64,
    /// The weight decay of all of its parameters. Without it, the job's applies to those that are decayed elsewhere.
    pub weight_decay: Option<f64>,
    /// The name of its optimizer with the settings of its own, if it has another than the job.
    pub optim: Option<(String, Settings)>,
}

/// The optimizers of all trained parameters.
pub struct Optimizers {
    /// Optimizers of groups in their order; the first that matches a parameter updates it.
    groups: Vec<Group>,
    /// The optimizer of all other parameters.
    others: Group,
}

/// The parameters that are updated alike.
struct Group {
    /// The names of its parameters; absent for those that no other group has.
    pattern: Option<Pattern>,
    name: String,
    optimizer: Arc<dyn Optimizer>,
    rate: f64,
    /// Whether all of its parameters are decayed, or none, whatever their names.
    decays: Option<bool>,
}

impl Optimizers {
    /// The optimizer that `optim` names for all parameters but those of `groups`.
    pub fn new(optim: &str, settings: &Settings, groups: &[GroupSettings]) -> Result<Optimizers> {
        let others = Optimizers::of_one(optim, build(optim, settings)?.into()).others;
        let groups = groups.iter().map(|group| Group::new(group, optim, settings));
        Ok(Optimizers { groups: groups.collect::<Result<_>>()?, others })
    }

    /// One optimizer for all parameters, of which messages speak as `name`.
    pub fn of_one(name: &str, optimizer: Arc<dyn Optimizer>) -> Optimizers {
        let name = name.to_owned();
        let others = Group { pattern: None, name, optimizer, rate: 1.0, decays: None };
        Optimizers { groups: Vec::new(), others }
    }

    /// Refuses a group without any trained parameter among `specs`, those of a whole model.
    pub fn check(&self, specs: &[ParameterSpec]) -> Result<()> {
        let trained: Vec<_> = specs.iter().filter(|spec| spec.trainable).collect();
        for (place, group) in self.groups.iter().enumerate() {
            if trained.iter().any(|spec| self.group(spec) == place) {
                continue;
            }
            let Some(Pattern { given, expression }) = &group.pattern else { continue };
            let by_earlier = trained.iter().any(|spec| expression.is_match(&spec.name));
            let is_frozen = specs.iter().any(|spec| expression.is_match(&spec.name));
            return Err(Error::EmptyGroup {
                pattern: given.clone(),
                problem: match (by_earlier, is_frozen) {
                    (true, _) => "matches only parameters of earlier groups",
                    (false, true) => "matches only frozen parameters",
                    (false, false) => "matches no parameter of the model",
                },
                example: trained.first().map(|spec| spec.name.clone()).unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// The number of a parameter's group; parameters without one have the last number.
    pub fn group(&self, spec: &ParameterSpec) -> usize {
        let matches =
            |group: &Group| group.pattern.as_ref().is_some_and(|it| it.matches(&spec.name));
        self.groups.iter().position(matches).unwrap_or(self.groups.len())
    }

    /// The optimizer of a parameter.
    pub fn of(&self, spec: &ParameterSpec) -> &dyn Optimizer {
        self.in_group(self.group(spec))
    }

    /// The optimizer of the group with a number.
    pub fn in_group(&self, number: usize) -> &dyn Optimizer {
        self.groups.get(number).unwrap_or(&self.others).optimizer.as_ref()
    }

    /// The name of a parameter's optimizer.
    pub fn name(&self, spec: &ParameterSpec) -> &str {
        &self.groups.get(self.group(spec)).unwrap_or(&self.others).name
    }

    /// Returns whether a parameter is decayed.
    pub fn decays(&self, spec: &ParameterSpec) -> bool {
        let group = self.groups.get(self.group(spec)).unwrap_or(&self.others);
        group.decays.unwrap_or_else(|| spec.weight_decay())
    }

    fn all(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain([&self.others])
    }

    /// The number of [`Optimizers::scalars`].
    pub fn scalar_count(&self) -> usize {
        self.all().map(|group| group.optimizer.scalar_names().len()).sum()
    }

    /// The learning rate of each group for one update, and last that of all other parameters. Optimizers that warm up
    /// by themselves get `warmup_share` of theirs.
    pub fn rates(&self, learning_rate: f64, warmup_share: f64) -> Vec<f64> {
        let rates = self.all().map(|group| {
            let share = if group.optimizer.warms_up() { warmup_share } else { 1.0 };
            learning_rate * share * group.rate
        });
        rates.collect()
    }

    /// The scalars of one update at the [`Optimizers::rates`], of all groups one behind the other. `step` counts
    /// updates from 1.
    pub fn scalars(&self, step: u64, learning_rate: f64, warmup_share: f64) -> Vec<f32> {
        self.scalars_at(step, &self.rates(learning_rate, warmup_share))
    }

    /// The scalars of one update at one rate for each group, and the last for all other parameters.
    pub fn scalars_at(&self, step: u64, rates: &[f64]) -> Vec<f32> {
        let groups = self.all().zip(rates);
        groups.flat_map(|(group, rate)| group.optimizer.scalars(step, *rate)).collect()
    }

    /// Takes apart one input f32`[n]` with [`Optimizers::scalars`]: those of each group, by its number.
    pub fn split(&self, packed: &Tensor) -> Result<Vec<Scalars>> {
        let mut first = 0;
        let scalars = self.all().map(|group| {
            let found = Scalars::split_from(group.optimizer.as_ref(), packed, first);
            first += group.optimizer.scalar_names().len();
            found
        });
        scalars.collect()
    }

    /// [`Optimizer::evaluated_offset`] of those optimizers that have one.
    pub fn evaluated_offset(&self) -> Option<(&'static str, f64)> {
        self.all().find_map(|group| group.optimizer.evaluated_offset())
    }
}

impl Group {
    fn new(group: &GroupSettings, optim: &str, settings: &Settings) -> Result<Group> {
        let (name, own) = match &group.optim {
            Some((name, own)) => (name.as_str(), own),
            None => (optim, settings),
        };
        check_setting("the rate of a group", NOT_NEGATIVE, group.rate, not_negative)?;
        let weight_decay = group.weight_decay.unwrap_or(settings.weight_decay);
        let settings = Settings { weight_decay, ..own.clone() };
        Ok(Group {
            pattern: Some(Pattern::new(&group.pattern)?),
            name: name.to_owned(),
            optimizer: build(name, &settings)?.into(),
            rate: group.rate,
            decays: group.weight_decay.map(|decay| decay > 0.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Init, ParameterPath, Role};

    fn group(pattern: &str) -> GroupSettings {
        GroupSettings { pattern: pattern.to_owned(), rate: 1.0, weight_decay: None, optim: None }
    }

    /// A frozen matrix, a trained one and its bias.
    fn specs() -> Vec<ParameterSpec> {
        let mut specs = Vec::new();
        let mut root = ParameterPath::root(&mut specs);
        let matrix = [2.into(), 2.into()];
        root.at("bert.embeddings").frozen().declare(
            "weight",
            Role::Embedding,
            &matrix,
            Init::Zeros,
        );
        let mut layer = root.at("bert.layer.1");
        layer.declare("weight", Role::Projection, &matrix, Init::Zeros);
        layer.bias("bias", 2.into());
        specs
    }

    fn optimizers(groups: &[GroupSettings]) -> Result<Optimizers> {
        let settings = Settings { weight_decay: 0.1, ..Settings::default() };
        Optimizers::new("adamw_torch", &settings, groups)
    }

    #[test]
    fn patterns_are_expressions_or_globs() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).unwrap().matches(name);
        assert!(matches(r"layer\.[01]\.", "bert.layer.1.weight"));
        assert!(!matches(r"layer\.[01]\.", "bert.layer.11.weight"));
        assert!(matches("*.bias", "bert.layer.1.bias") && !matches("*.bias", "bias.weight"));
        assert!(matches("*layer.?.*", "bert.layer.1.bias"));
        assert!(!matches("*layer.?.*", "bert.layer.12.bias"), "a `?` is one letter");
        assert!(matches("*(a)*", "b(a)b"), "other letters of a glob stand for themselves");
        let error = Pattern::new("layer.(").unwrap_err().to_string();
        assert!(error.starts_with("layer.( is not a regular expression:"), "{error}");
    }

    #[test]
    fn the_first_group_that_matches_has_a_parameter() {
        let decayed = GroupSettings { weight_decay: Some(0.2), ..group("*.bias") };
        let sgd = Some(("sgd".to_owned(), Settings::default()));
        let layer = GroupSettings { rate: 10.0, optim: sgd, ..group("layer") };
        let (found, specs) = (optimizers(&[decayed, layer]).unwrap(), specs());
        found.check(&specs).unwrap();
        let numbers: Vec<usize> = specs.iter().map(|spec| found.group(spec)).collect();
        assert_eq!(numbers, [2, 1, 0]);
        let names: Vec<&str> = specs.iter().map(|spec| found.name(spec)).collect();
        assert_eq!(names, ["adamw_torch", "sgd", "adamw_torch"]);
        // An explicit decay is that of biases too, and otherwise names decide.
        let decays: Vec<bool> = specs.iter().map(|spec| found.decays(spec)).collect();
        assert_eq!(decays, [true, true, true]);
        let scalars = found.scalars(1, 0.5, 1.0);
        assert_eq!(scalars.len(), found.scalar_count());
        // AdamW's decay factor in a group of its own and without one, and the rate and decay of SGD.
        assert_eq!([scalars[0], scalars[11]], [0.9, 0.95]);
        assert_eq!(scalars[7..9], [5.0, 0.1]);
    }

    #[test]
    fn rates_of_groups_are_checked() {
        for rate in [f64::NAN, -1.0] {
            let error = optimizers(&[GroupSettings { rate, ..group("bias") }]).err().unwrap();
            let expect = "the rate of a group: expected a finite number of at least 0";
            assert!(error.to_string().starts_with(expect), "{error}");
        }
    }

    #[test]
    fn a_group_without_parameters_is_named() {
        let error = |patterns: &[&str]| {
            let groups: Vec<_> = patterns.iter().map(|pattern| group(pattern)).collect();
            optimizers(&groups).unwrap().check(&specs()).unwrap_err().to_string()
        };
        assert_eq!(
            error(&["classifier"]),
            "train.param_groups: `classifier` matches no parameter of the model; one is named bert.layer.1.weight"
        );
        assert!(error(&["*embeddings*"]).contains("matches only frozen parameters"));
        assert!(error(&["bert", "*bias"]).contains("`*bias` matches only parameters of earlier"));
    }
}
