//! The stand-in for `neuronx-cc`: takes its arguments, checks the program, and writes and prints where the real one
//! does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use traind_neuron::{COMPILER, Cause, Generation};
use traind_xla::verify::neuron::{DOWNCAST, Finding, Limits, check};

use crate::options::NextSdk;
use crate::{Machine, Options};

/// The programs of jobs, which alone fail with an injected code.
const STEP: &str = "module @step ";
/// The runtime's name of an index outside of a tensor.
const OUTSIDE: &str = "NRT_EXEC_OOB";
/// The exit status of refused programs, and of wrong arguments.
const REFUSED: u8 = 70;
const USAGE: u8 = 2;
/// Flags with a value that the compiler's reference documents, or that users report.
const FLAGS: &[&str] = &[
    "--framework",
    "--target",
    "--output",
    "--model-type",
    "--auto-cast",
    "--auto-cast-type",
    "--lnc",
    "--logfile",
    "--logfile-verbose",
    "--verbose",
    "--optlevel",
    "--dump",
    "--distribution-strategy",
    "--hbm-scratchpad-page-size",
    "--internal-max-instruction-limit",
    "--implicit-integer-downcast",
    "--compile_workdir",
];
const SWITCHES: &[&str] = &[
    "--enable-internal-neff-wrapper",
    "--enable-mixed-precision-accumulation",
    "--enable-saturate-infinity",
    "--enable-fast-loading-neuron-binaries",
    "--enable-fast-context-switch",
    "--native-int64",
];

#[derive(Default)]
struct Arguments {
    program: PathBuf,
    output: PathBuf,
    logfile: Option<PathBuf>,
    work_folder: Option<PathBuf>,
    target: String,
    lnc: Option<u32>,
    instructions_max: Option<u64>,
    /// `--implicit-integer-downcast`.
    downcast: Option<String>,
}

/// Runs the compiler with these arguments, and returns its exit status.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the compiler's interface")]
pub fn neuronx_cc(arguments: &[String]) -> u8 {
    if arguments.first().is_some_and(|it| it == "--version") {
        let options = Options::of_environment().unwrap_or_default();
        println!("NeuronX Compiler version {}", options.versions().compiler);
        return 0;
    }
    let parsed = Arguments::parse(arguments);
    let outcome = parsed
        .map_err(|error| (USAGE, error))
        .and_then(|arguments| arguments.compile().map_err(|error| (REFUSED, error)));
    match outcome {
        Ok(()) => {
            println!(".\nCompiler status PASS");
            0
        }
        Err((status, error)) => {
            eprintln!("{error}");
            status
        }
    }
}

impl Arguments {
    fn parse(arguments: &[String]) -> Result<Arguments, String> {
        let (command, rest) = arguments.split_first().ok_or("neuronx-cc: error: no command")?;
        if command != "compile" {
            return Err(format!("neuronx-cc: error: invalid choice: '{command}'"));
        }
        let mut found = Arguments::default();
        let mut rest = rest.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None if FLAGS.contains(&argument) => (argument, rest.next()),
                None => (argument, None),
            };
            found.take(name, value, argument)?;
        }
        Ok(found)
    }

    /// Takes an argument with its value, which stands behind `=` or by itself.
    fn take(&mut self, name: &str, value: Option<&str>, whole: &str) -> Result<(), String> {
        let missing = || format!("neuronx-cc: error: argument {name}: expected one argument");
        let value = match FLAGS.contains(&name) {
            true => value.filter(|it| !it.is_empty()).ok_or_else(missing)?,
            false => value.unwrap_or_default(),
        };
        let number = || {
            value.parse::<u64>().map_err(|_| format!("neuronx-cc: error: argument {name}: {value}"))
        };
        match name {
            "--output" => self.output = value.into(),
            "--logfile" => self.logfile = Some(value.into()),
            "--compile_workdir" => self.work_folder = Some(value.into()),
            "--target" => self.target = value.to_owned(),
            "--lnc" => self.lnc = Some(number()? as u32),
            "--implicit-integer-downcast" => self.downcast = Some(value.to_owned()),
            "--internal-max-instruction-limit" => self.instructions_max = Some(number()?),
            _ if FLAGS.contains(&name) || SWITCHES.contains(&name) || name.starts_with("-O") => {}
            _ if name.starts_with('-') => {
                return Err(format!("neuronx-cc: error: unrecognized arguments: {whole}"));
            }
            _ => self.program = whole.into(),
        }
        Ok(())
    }

    #[allow(clippy::print_stdout, reason = "the compiler's interface")]
    fn compile(&self) -> Result<(), String> {
        let options = Options::of_environment()?;
        note_process()?;
        let _work = WorkFolder::new(self.work_folder.as_deref())?;
        std::thread::sleep(Duration::from_millis(options.compile_ms));
        let log = self.logfile.clone().unwrap_or_else(|| "log-neuron-cc.txt".into());
        let write = |path: &PathBuf, text: &str| {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(&log, &format!("neuronx-cc {}\n", options.versions().compiler))?;
        let text = fs::read_to_string(&self.program)
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        if !options.compile_code.is_empty() && text.contains(STEP) {
            return Err(injected(&options.compile_code));
        }
        let (limits, other_config) = self.limits(&options)?;
        let mut report = check(&text, &limits, &[]);
        // The compiler does not see them, and the plugin compares them while the program runs.
        report.findings.retain(|finding| finding.code != OUTSIDE);
        // It knows no ranges of numbers, by which the checks decide whether float32 holds them.
        let is_downcast = |finding: &Finding| DOWNCAST.contains(&finding.code);
        let (downcast, findings): (Vec<Finding>, Vec<Finding>) =
            report.findings.into_iter().partition(is_downcast);
        let downcast: Vec<Finding> = report.warnings.into_iter().chain(downcast).collect();
        if let Some(refused) = downcast.first().filter(|_| !self.downcasts(&options)) {
            return Err(format!("[ERROR] [{}] {refused}", refused.code));
        }
        for warning in &downcast {
            println!("[WARNING] [{}] {warning}", warning.code);
        }
        let (at_load, refused): (Vec<Finding>, Vec<Finding>) =
            findings.into_iter().partition(|finding| finding.code.starts_with("NRT_"));
        if let Some(finding) = refused.first() {
            return Err(format!("[ERROR] [{}] {finding}", finding.code));
        }
        // What the runtime refuses when it loads the file.
        let lines = at_load.iter().map(ToString::to_string).chain(other_config);
        let lines = lines.map(|line| line + "\n");
        write(&self.output, &lines.collect::<String>())
    }

    /// Whether integer operations are computed in float32 with a warning, in place of an error.
    fn downcasts(&self, options: &Options) -> bool {
        match self.downcast.as_deref() {
            Some(flag) => flag == "all",
            None => options.next_sdk == NextSdk::No,
        }
    }

    /// The limits of programs, and the runtime's words about cores of another size than its own.
    fn limits(&self, options: &Options) -> Result<(Limits, Option<String>), String> {
        let generation = Generation::of_device(&self.target)
            .ok_or_else(|| format!("neuronx-cc: error: invalid target '{}'", self.target))?;
        let config = self.lnc.unwrap_or(generation.default_logical_config());
        let core = generation.core_kind(config).ok_or_else(|| {
            format!("[ERROR] [NCC_EARG001] --lnc={config} is not supported by {}", self.target)
        })?;
        let machine = Machine::of_environment(options)?;
        let other_config = (machine.kind != core).then(|| {
            let own = machine.kind.logical_config;
            format!(
                "NRT_LOAD_NOT_ENOUGH_NC status=9: compiled for {} with --lnc={config}, and the cores have {own}",
                self.target
            )
        });
        let counts = if options.any_count { &[][..] } else { generation.documented_core_counts() };
        let of_core = Limits::of_core(core);
        let limits = Limits {
            replica_groups_max: traind_neuron::replica_groups_max(Some(options.runtime()?)),
            instructions_max: self.instructions_max.unwrap_or(of_core.instructions_max),
            accepts_chlo: options.chlo,
            core_counts: counts.to_vec(),
            ..of_core
        };
        Ok((limits, other_config))
    }
}

/// The error with a code, as the compiler words it.
fn injected(code: &str) -> String {
    if code.starts_with('F') {
        return format!("[{code}] neuronx-cc was forcibly killed - injected by the twin");
    }
    let known = COMPILER.iter().find(|known| code.starts_with(known.code));
    match known.is_some_and(|known| known.cause == Cause::Operation) {
        true => {
            format!("[ERROR] [NCC_{code}] Operation dot_general is not supported, says the twin")
        }
        false => format!("[ERROR] [NCC_{code}] injected by the twin"),
    }
}

/// The folder that the compiler makes in the current one, or in that of `--compile_workdir`, and removes at the end.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn new(parent: Option<&Path>) -> Result<WorkFolder, String> {
        let parent = parent.unwrap_or(Path::new("."));
        let folder = parent.join(format!("neuronxcc-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(WorkFolder(folder))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes the number of this process into the twin's folder, by which tests wait for a compiler.
fn note_process() -> Result<(), String> {
    let Some(folder) = std::env::var_os("TRAIND_TWIN_LOCKS").map(PathBuf::from) else {
        return Ok(());
    };
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("compiling"), std::process::id().to_string()));
    written.map_err(|error| format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use Cause::{Defect, Indices, Integers, Operation, Setup, Size};

    /// The codes that AWS documents for SDK 2.32, and some that users report, with their causes and a part of the
    /// meaning.
    #[rustfmt::skip]
    const CODES: &[(&str, Cause, &str)] = &[
        ("EARG001", Setup, "logical configuration"),
        ("EBIR023", Size, "4096"),
        ("EBVF030", Size, "too many instructions"), ("EXTP004", Size, "5,000,000"),
        ("EVRF007", Size, "too many instructions"),
        ("EHCA005", Operation, "custom call"), ("EVRF015", Operation, "custom call"),
        ("EMOD025", Operation, "dynamic shape"),
        ("EOOM001", Size, "memory"), ("EOOM002", Size, "memory"), ("EVRF009", Size, "memory"),
        ("EXSP001", Size, "memory"),
        ("ESFH002", Integers, "64-bit unsigned"),
        ("ESMP002", Indices, "outside"), ("EVRF031", Indices, "outside"), ("EVRF056", Indices, "outside"),
        ("ESPP004", Operation, "a type"), ("ESPP047", Operation, "8 bits"),
        ("EUOC002", Operation, "does not support an operation"),
        ("EVRF001", Operation, "does not support an operation"),
        ("EVRF004", Operation, "complex"), ("EVRF005", Operation, "FNUZ"),
        ("EVRF006", Operation, "random generator"),
        ("EVRF010", Operation, "both its input and its kernel"), ("EVRF011", Operation, "strides"),
        ("EVRF013", Operation, "top-k"), ("EVRF014", Operation, "16384"),
        ("EVRF016", Integers, "scatter"),
        ("EVRF017", Operation, "reduce-window has a dilated input"),
        ("EVRF018", Operation, "dilated windows"),
        ("EVRF019", Operation, "several tensors"),
        ("EVRF022", Integers, "shift"), ("EVRF024", Size, "4 GB"), ("EVRF029", Operation, "sort"),
        ("EVRF035", Integers, "dot"), ("EVRF051", Operation, "f8E4M3FN"),
        ("EVRF052", Operation, "f8E4M3"),
        ("EVRF059", Setup, "NKI"), ("EVRF065", Setup, "NKI"), ("EVRF066", Setup, "logical configuration"),
        ("EVRF036", Operation, "quantizes"), ("EVRF037", Operation, "quantizes"), ("EVRF038", Operation, "quantizes"),
        ("EVRF039", Operation, "quantizes"), ("EVRF040", Operation, "quantizes"), ("EVRF041", Operation, "quantizes"),
        ("EVRF042", Operation, "quantizes"), ("EVRF057", Operation, "quantizes"), ("EVRF058", Operation, "quantizes"),
        ("EVRF043", Operation, "matrices"), ("EVRF044", Operation, "matrices"), ("EVRF045", Operation, "matrices"),
        ("EVRF046", Operation, "matrices"), ("EVRF047", Operation, "matrices"), ("EVRF048", Operation, "matrices"),
        ("EVRF049", Operation, "matrices"), ("EVRF050", Operation, "matrices"), ("EVRF053", Operation, "matrices"),
        ("EVRF054", Operation, "matrices"), ("EVRF055", Operation, "matrices"),
        ("EVRF060", Integers, "scatter"), ("EVRF061", Integers, "all-reduce"),
        ("EVRF062", Integers, "power"), ("EVRF063", Integers, "reduce-scatter"),
        ("EVRF064", Operation, "invalid"),
        ("IXLV002", Defect, "defect of the compiler"),
    ];

    /// The error of a compile as the plugin passes it on, whose command has other codes.
    #[test]
    fn each_code_is_explained() {
        for (code, cause, meaning) in CODES {
            let text = format!(
                "RunNeuronCCImpl: error condition error != 0: Command '['neuronx-cc', '--dump=/NCC_EARG002']' \
                 returned non-zero exit status 70.\n.\n{}\n",
                injected(code)
            );
            let found = traind_neuron::explain(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.code.as_str(), found.cause), (&*format!("NCC_{code}"), *cause));
            assert!(found.meaning.contains(meaning) && !found.remedy.is_empty(), "{found}");
            // Compiling the same program again does not help.
            assert!(!found.cause.may_pass(), "{code}");
            assert_eq!(found.is_refusal(), !matches!(cause, Setup | Defect), "{code}");
        }
        // Each documented code has an entry of its own, and each entry of a whole code is in the list.
        let own = COMPILER.iter().map(|known| known.code).filter(|code| code.len() == 7);
        let documented = CODES.iter().map(|(code, ..)| *code).filter(|code| !code.starts_with('I'));
        assert_eq!(own.collect::<BTreeSet<_>>(), documented.collect::<BTreeSet<_>>());
    }
}
