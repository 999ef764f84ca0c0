//! The programs that start a script, such as `srun -N 2 torchrun --nproc_per_node 8`, and their
//! options.

use serde_json::{Map, Value};

use super::command_line::pairs;
use super::{Files, config_file, launcher_options};
use crate::Refused;
use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{nearest, unknown};
use crate::values::{is_flag, is_off, shown};

/// Processes and hosts that a script is started on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// Number of hosts.
    pub hosts: u32,
    /// Processes on each host.
    pub processes: Option<u32>,
}

/// Meaning of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Processes on each host.
    Processes,
    /// Processes on all hosts.
    AllProcesses,
    Hosts,
    /// Read with other options of the program.
    Own,
}

use Meaning::{AllProcesses, Hosts, Own, Processes};

struct Program {
    /// File names, or modules that Python runs.
    names: &'static [&'static str],
    options: &'static [(&'static str, Meaning)],
    /// Options without an equivalent.
    others: &'static [&'static str],
    /// Whether these are all options, so that any other is a mistake. Otherwise only one that is close to
    /// a known one is.
    are_all: bool,
}

const PROGRAMS: &[Program] = &[
    Program {
        names: &["torchrun", "torch.distributed.run", "torch.distributed.launch"],
        options: &[("nproc_per_node", Processes), ("nnodes", Hosts)],
        others: launcher_options::TORCHRUN,
        are_all: true,
    },
    Program {
        names: &["accelerate", "accelerate-launch", "accelerate.commands.launch"],
        options: &[
            ("num_processes", AllProcesses),
            ("num_machines", Hosts),
            ("mixed_precision", Own),
            ("use_fsdp", Own),
            ("fsdp_sharding_strategy", Own),
            ("fsdp_reshard_after_forward", Own),
            ("fsdp_offload_params", Own),
            ("fsdp_activation_checkpointing", Own),
            ("use_deepspeed", Own),
            ("zero_stage", Own),
            ("offload_optimizer_device", Own),
        ],
        others: launcher_options::ACCELERATE,
        are_all: true,
    },
    Program {
        names: &["deepspeed"],
        options: &[("num_gpus", Processes), ("num_accelerators", Processes), ("num_nodes", Hosts)],
        others: launcher_options::DEEPSPEED,
        are_all: true,
    },
    Program {
        names: &["srun"],
        options: &[
            ("n", AllProcesses),
            ("ntasks", AllProcesses),
            ("ntasks_per_node", Processes),
            ("N", Hosts),
            ("nodes", Hosts),
        ],
        others: launcher_options::SRUN,
        are_all: false,
    },
    Program {
        names: &["mpirun", "mpiexec", "mpiexec.hydra"],
        options: &[("n", AllProcesses), ("np", AllProcesses), ("ppn", Processes)],
        others: &[],
        are_all: false,
    },
    Program {
        names: &["xla_spawn.py"],
        options: &[("num_cores", Processes)],
        others: &["h", "help"],
        are_all: true,
    },
];

/// Programs whose own options have no part in training.
const OTHERS: &[&str] =
    &["python", "python3", "nohup", "env", "time", "nice", "exec", "neuron_parallel_compile"];

/// A program on the command line with its options.
struct Started {
    program: &'static Program,
    options: Map<String, Value>,
}

/// Reads the words before the script. Options without an equivalent are noted as dropped. `arguments`
/// are those of the script, which precede the launcher's.
pub(super) fn read(
    words: &[String],
    arguments: &Map<String, Value>,
    files: Files,
    draft: &mut Draft,
) -> Result<Launch, Refused> {
    let mut started = started(words);
    let known: Vec<&str> = of_accelerate().collect();
    for it in started.iter_mut().filter(|it| it.program.is_accelerate()) {
        config_file::read(&mut it.options, &known, files, draft)?;
    }
    // The program nearest to the script starts its processes.
    let hosts = started.iter().rev().find_map(|it| it.number(Hosts).transpose()).transpose();
    let hosts = hosts.map(|hosts| hosts.map_or(1, |(_, hosts)| hosts));
    let hosts = draft.refuse_all(hosts).unwrap_or(1);
    let counts = |it: &&Started| it.has(Processes) || it.has(AllProcesses);
    let counted = started.iter().rev().find(counts);
    let processes = counted.map(|it| it.processes(hosts)).transpose();
    let processes = draft.refuse_all(processes).flatten().flatten();
    for it in &started {
        let is_inner = counted.is_none_or(|counted| std::ptr::eq(it, counted));
        it.note_dropped(is_inner, draft);
        if it.program.is_accelerate() {
            accelerate(&it.options, arguments, draft);
        }
    }
    Ok(Launch { hosts, processes })
}

/// The programs with their options, outermost first.
fn started(words: &[String]) -> Vec<Started> {
    let mut found: Vec<(Option<&'static Program>, Vec<String>)> = Vec::new();
    for word in words {
        let name = word.rsplit('/').next().unwrap_or_default();
        let program = PROGRAMS.iter().find(|program| program.names.contains(&name));
        let is_other = OTHERS.contains(&name) || name.starts_with("python3.");
        match found.last_mut() {
            _ if program.is_some() || is_other => found.push((program, Vec::new())),
            Some((_, options)) => options.extend(apart(word)),
            None => {}
        }
    }
    let started = |(program, words): (Option<_>, Vec<String>)| {
        Some(Started { program: program?, options: pairs(&words) })
    };
    found.into_iter().filter_map(started).collect()
}

/// `-N2` as `-N 2`.
fn apart(word: &str) -> Vec<String> {
    match word.strip_prefix('-').and_then(|rest| rest.split_at_checked(1)) {
        Some((letter, number))
            if letter.starts_with(|c: char| c.is_ascii_alphabetic())
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            vec![format!("-{letter}"), number.to_owned()]
        }
        _ => vec![word.to_owned()],
    }
}

impl Program {
    fn known(&self) -> impl Iterator<Item = &'static str> {
        self.options.iter().map(|(name, _)| *name).chain(self.others.iter().copied())
    }

    /// Why an option is a mistake, if it is one.
    fn mistake(&self, option: &str) -> Option<String> {
        let is_of_family =
            launcher_options::ACCELERATE_FAMILIES.iter().any(|family| option.starts_with(family));
        if self.known().any(|known| known == option) || is_of_family && self.is_accelerate() {
            return None;
        }
        // Parsers in Python take the beginning of a name.
        let begins = |known: &&str| option.len() > 2 && known.starts_with(option);
        let begun: Vec<&str> = self.known().filter(begins).collect();
        if let ([begun], true) = (begun.as_slice(), self.are_all) {
            return Some(format!("is not known here; did you mean `{begun}`?"));
        }
        let is_mistake = self.are_all || nearest(option, self.known()).is_some();
        is_mistake.then(|| {
            let advice = format!("{} has no such option; leave it out", self.names[0]);
            unknown(option, self.known(), &advice)
        })
    }

    fn is_accelerate(&self) -> bool {
        self.names.contains(&"accelerate")
    }
}

/// The options of `accelerate launch`.
fn of_accelerate() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().filter(|program| program.is_accelerate()).flat_map(Program::known)
}

impl Started {
    fn meaning(&self, option: &str) -> Option<Meaning> {
        self.program.options.iter().find(|(name, _)| *name == option).map(|(_, meaning)| *meaning)
    }

    fn has(&self, meaning: Meaning) -> bool {
        self.options.keys().any(|option| self.meaning(option) == Some(meaning))
    }

    /// The first option of a meaning, with its value. Words that follow it, such as `bash`, are of a
    /// program that is not known.
    fn number(&self, meaning: Meaning) -> Result<Option<(&str, u32)>, Refused> {
        let given = self.options.iter().find(|(option, _)| self.meaning(option) == Some(meaning));
        let Some((option, value)) = given else { return Ok(None) };
        let value = value.as_array().and_then(|values| values.first()).unwrap_or(value);
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| *number > 0) {
            Some(number) => Ok(Some((option, number))),
            None => Err(Refused::because(option, "must be a number from 1 up")),
        }
    }

    /// Processes on each host.
    fn processes(&self, hosts: u32) -> Result<Option<u32>, Refused> {
        match (self.number(Processes)?, self.number(AllProcesses)?) {
            (Some((_, processes)), _) => Ok(Some(processes)),
            (None, Some((key, all))) if all % hosts != 0 => {
                let text = format!("{all} processes cannot be divided among {hosts} hosts");
                Err(Refused::because(key, text))
            }
            (None, all) => Ok(all.map(|(_, all)| all / hosts)),
        }
    }

    /// Notes the options that have no equivalent, and numbers of processes that another program
    /// replaces.
    fn note_dropped(&self, counts: bool, draft: &mut Draft) {
        for (option, value) in &self.options {
            let reason = match self.meaning(option) {
                Some(Processes | AllProcesses) if !counts => {
                    "the program that it starts has the number of processes"
                }
                Some(_) => continue,
                None if let Some(text) = self.program.mistake(option) => {
                    draft.refuse(option, text);
                    continue;
                }
                None if is_off(value) => continue,
                None => reason(option),
            };
            draft.note(option, format!("dropped: {reason}"));
        }
    }
}

/// Why an option has no equivalent.
fn reason(option: &str) -> &'static str {
    match option {
        "config_file" => {
            "the file cannot be read; give its path from this folder, its processes, precision and \
             sharding as options, or resources.cores, train.bf16 and parallel.fsdp by --set"
        }
        "gpu_ids" | "include" | "exclude" | "gpus" | "gpus_per_node" | "gpus_per_task" | "gres" => {
            "the daemon assigns cores; resources.cores is their number"
        }
        _ if option.starts_with("fsdp_") => "each layer is gathered by itself",
        "p" | "partition" | "A" | "account" | "q" | "qos" | "t" | "time" | "C" | "constraint" => {
            "options of Slurm are in section slurm"
        }
        "gradient_accumulation_steps" | "gradient_clipping" => "the script has an argument for it",
        _ => "the daemon starts a job's processes",
    }
}

/// Precision and sharding, which `accelerate launch` hands to the Trainer.
fn accelerate(options: &Map<String, Value>, arguments: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |map: &Map<String, Value>, key: &str| map.get(key).is_some_and(|it| !is_off(it));
    let text = |key: &str| options.get(key).map(shown).unwrap_or_default().to_lowercase();
    let key = "mixed_precision";
    let of_script = ["bf16", "fp16"].into_iter().find(|key| is_on(arguments, key));
    match (text(key).as_str(), of_script) {
        ("" | "no", _) => {}
        (precision, Some(own)) if precision == own => {}
        (_, Some(own)) => draft.note(key, format!("dropped: the script's argument {own} wins")),
        (precision @ ("bf16" | "fp16"), None) => {
            draft.set(&format!("train.{precision}"), true.into(), key);
        }
        (other, None) => draft.refuse(key, format!("must be bf16, fp16 or no, not {other}")),
    }
    if is_on(options, "use_fsdp") {
        fsdp(options, draft);
    }
    if is_on(options, "use_deepspeed") {
        zero(options, draft);
    }
}

fn fsdp(options: &Map<String, Value>, draft: &mut Draft) {
    let text = |key: &str| options.get(key).map(shown).map(|text| text.to_lowercase());
    let (strategy, reshard) = ("fsdp_sharding_strategy", "fsdp_reshard_after_forward");
    let named = [strategy, reshard].into_iter().find(|key| options.contains_key(*key));
    let key = named.unwrap_or("use_fsdp");
    let strategy = match text(key).as_deref() {
        None | Some("1" | "true") => "full_shard".to_owned(),
        Some("2" | "false") => "shard_grad_op".to_owned(),
        Some("3") => "no_shard".to_owned(),
        Some("4") => "hybrid_shard".to_owned(),
        Some("5") => "hybrid_shard_zero2".to_owned(),
        Some(name) => name.to_owned(),
    };
    apply(&[], "fsdp", &strategy.into(), draft);
    let key = "fsdp_offload_params";
    if is_switched_on(key, options, draft) {
        draft.note(key, "offload: the optimizer's state is kept in host memory, and nothing else");
        draft.set("parallel.offload", serde_json::json!(["optimizer"]), key);
    }
    let key = "fsdp_activation_checkpointing";
    if is_switched_on(key, options, draft) {
        draft.set("train.gradient_checkpointing", true.into(), key);
    }
}

/// Whether an option is true, as text too; refuses what is neither true nor false.
fn is_switched_on(key: &str, options: &Map<String, Value>, draft: &mut Draft) -> bool {
    let Some(value) = options.get(key) else { return false };
    if !is_flag(value) {
        draft.refuse(key, format!("must be true or false, not {}", shown(value)));
    }
    !is_off(value)
}

/// DeepSpeed's ZeRO, whose stage is 2 by default.
fn zero(options: &Map<String, Value>, draft: &mut Draft) {
    let text = |key: &str| options.get(key).map(shown).unwrap_or_default();
    let key = "zero_stage";
    match text(key).as_str() {
        "0" => draft.set("parallel.fsdp", "no".into(), key),
        "1" => draft.set("parallel.fsdp", "shard_optimizer".into(), key),
        "" | "2" => draft.set("parallel.fsdp", "shard_grad_op".into(), key),
        "3" => draft.set("parallel.fsdp", "full_shard".into(), key),
        other => draft.refuse(key, format!("must be 0, 1, 2 or 3, not {other}")),
    }
    let key = "offload_optimizer_device";
    match text(key).as_str() {
        "" | "none" => {}
        "cpu" => draft.set("parallel.offload", serde_json::json!(["optimizer"]), key),
        _ => draft.refuse(key, "state is offloaded to host memory, not to disks; give cpu or none"),
    }
}
