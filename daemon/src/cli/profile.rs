//! `traind profile`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use traind_proto::profile_steps;
use traind_proto::v1::profile_piece::Piece;
use traind_proto::v1::{Profile, ProfileJobRequest, ProfilePiece, ProfiledPart};
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::endings;
use super::exit::Exit;
use super::submit::is_standard;
use crate::interfaces::text::printable;
use crate::percent::percent;

/// The layers and the operations that are printed.
const PARTS: usize = 10;

/// Record the next steps of a running job: print where their time goes, and write a trace that Perfetto
/// (ui.perfetto.dev) opens
#[derive(clap::Args)]
pub(crate) struct ProfileCommand {
    /// The job's id, a prefix of it, or its name
    job: String,
    /// The number of steps to record, 1 to 100
    #[arg(
        long,
        default_value_t = profile_steps::DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(profile_steps::MAX)),
    )]
    steps: u32,
    /// The file for the trace, which must not exist yet; - is standard output [default: JOB-step-N.trace.json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ProfileCommand {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let to_file = !self.output.as_deref().is_some_and(is_standard);
        self.output.as_deref().filter(|_| to_file).map_or(Ok(()), check_output)?;
        let mut jobs = client::jobs(&global).await?;
        let request = ProfileJobRequest { job_id: self.job.clone(), steps: self.steps };
        let mut pieces = jobs.profile_job(request).await?.into_inner();
        let mut next = async || {
            let piece = pieces.message().await?;
            anyhow::Ok(piece.and_then(|ProfilePiece { piece }| piece))
        };
        let Some(Piece::Profile(profile)) = next().await? else {
            bail!("the daemon has sent no profile");
        };
        let path = self.output.clone().unwrap_or_else(|| self.file_of(&profile));
        let context = || format!("write {}", path.display());
        let described = printable(&described(&profile));
        if !to_file {
            while let Some(Piece::Trace(part)) = next().await? {
                std::io::stdout().write_all(&part).context("write to standard output")?;
            }
            eprint!("{described}");
            return Ok(Exit::Done);
        }
        let mut file = std::fs::File::create_new(&path).with_context(context)?;
        while let Some(Piece::Trace(part)) = next().await? {
            file.write_all(&part).with_context(context)?;
        }
        file.sync_all().with_context(context)?;
        print!("{described}");
        println!("trace: {}, for ui.perfetto.dev or chrome://tracing", path.display());
        Ok(Exit::Done)
    }

    fn file_of(&self, profile: &Profile) -> PathBuf {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let job: String = self.job.chars().map(safe).collect();
        PathBuf::from(format!("{job}-step-{}.trace.json", profile.first_step))
    }
}

/// Finds before the recording what would lose it.
fn check_output(path: &Path) -> anyhow::Result<()> {
    ensure!(!path.exists(), "{} exists already", path.display());
    endings::refuse_others(path, "a trace is JSON", &["json"])?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let exists = folder.is_none_or(Path::is_dir);
    ensure!(exists, "write {}: its folder does not exist", path.display());
    Ok(())
}

fn described(profile: &Profile) -> String {
    let mut text = String::new();
    let (first, steps) = (profile.first_step, profile.steps.max(1));
    let _ = writeln!(
        text,
        "steps {first} to {}: {:.4} s each",
        first + steps - 1,
        profile.seconds / steps as f64
    );
    text.push_str("\nthe training loop:\n");
    for phase in &profile.phases {
        let _ =
            writeln!(text, "  {:5.1} %  {}", percent(phase.seconds, profile.seconds), phase.name);
    }
    let core_seconds = profile.seconds * profile.cores.len().max(1) as f64;
    text.push_str("\nthe cores:\n");
    let rest = profile.program_seconds - profile.kernel_seconds;
    let mut uses = match profile.operations.is_empty() {
        true => vec![("programs", profile.program_seconds)],
        false => vec![
            ("kernels of traind", profile.kernel_seconds),
            ("code of the plugin in programs", rest),
        ],
    };
    uses.push(("idle", core_seconds - profile.program_seconds));
    for (name, seconds) in uses {
        let _ = writeln!(text, "  {:5.1} %  {name}", percent(seconds.max(0.0), core_seconds));
    }
    text.push_str(&limits(profile));
    text.push_str(&table("layers", &profile.layers, core_seconds));
    text.push_str(&table("operations", &profile.operations, core_seconds));
    for note in &profile.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text.push('\n');
    text
}

fn limits(profile: &Profile) -> String {
    let mut limits = Vec::new();
    if profile.core_flops > 0.0 {
        limits.push(format!("{:.1} GFLOP/s", profile.core_flops / 1e9));
    }
    if profile.core_bytes_per_second > 0.0 {
        limits.push(format!("{:.1} GB/s", profile.core_bytes_per_second / 1e9));
    }
    match limits.is_empty() {
        true => String::new(),
        false => format!("a core could reach: {}\n", limits.join(", ")),
    }
}

fn table(name: &str, parts: &[ProfiledPart], core_seconds: f64) -> String {
    let mut text = String::new();
    if parts.is_empty() {
        return text;
    }
    let _ =
        writeln!(text, "\n{:>7}  {:>9}  {:>8}  {:>7}  {name}", "time", "GFLOP/s", "GB/s", "calls");
    for part in parts.iter().take(PARTS) {
        let rate = |work: f64| match work > 0.0 && part.seconds > 0.0 {
            true => format!("{:.1}", work / part.seconds / 1e9),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "{:5.1} %  {:>9}  {:>8}  {:>7}  {}",
            percent(part.seconds, core_seconds),
            rate(part.flops),
            rate(part.bytes),
            part.calls,
            part.name
        );
    }
    if parts.len() > PARTS {
        let rest: f64 = parts[PARTS..].iter().map(|part| part.seconds).sum();
        let others = counted(parts.len() - PARTS, "other");
        let _ = writeln!(text, "{:5.1} %  {:>28}  {others}", percent(rest, core_seconds), "");
    }
    text
}

#[cfg(test)]
mod tests {
    use traind_proto::v1::ProfiledPhase;

    use super::*;

    fn part(name: &str, seconds: f64, flops: f64) -> ProfiledPart {
        ProfiledPart { name: name.to_owned(), seconds, calls: 4, flops, bytes: 2e9 }
    }

    #[test]
    fn the_longest_parts_are_printed_with_their_rates() {
        let layers: Vec<_> = (0..12).map(|it| part(&format!("layer.{it}"), 0.1, 1e10)).collect();
        let profile = Profile {
            first_step: 5,
            steps: 2,
            seconds: 1.0,
            cores: vec![0, 1],
            phases: vec![ProfiledPhase { name: "execute".to_owned(), seconds: 0.9 }],
            program_seconds: 1.6,
            kernel_seconds: 1.2,
            layers,
            operations: vec![part("matmul", 1.2, 0.0)],
            core_flops: 2e11,
            core_bytes_per_second: 1e10,
            notes: Vec::new(),
        };
        let expect = "\
steps 5 to 6: 0.5000 s each

the training loop:
   90.0 %  execute

the cores:
   60.0 %  kernels of traind
   20.0 %  code of the plugin in programs
   20.0 %  idle
a core could reach: 200.0 GFLOP/s, 10.0 GB/s

   time    GFLOP/s      GB/s    calls  layers
";
        let found = described(&profile);
        assert!(found.starts_with(expect), "{found}");
        assert!(found.contains("  5.0 %      100.0      20.0        4  layer.0\n"), "{found}");
        assert!(!found.contains("layer.10") && found.contains("  2 others\n"), "{found}");
        assert!(found.contains(" 60.0 %                  1.7        4  matmul\n"), "{found}");
    }

    #[test]
    fn programs_without_known_parts_are_printed_as_a_whole() {
        let profile = Profile {
            first_step: 1,
            steps: 1,
            seconds: 1.0,
            cores: vec![0],
            program_seconds: 0.75,
            notes: vec!["why".to_owned()],
            ..Profile::default()
        };
        let found = described(&profile);
        assert!(found.contains(" 75.0 %  programs\n   25.0 %  idle\n"), "{found}");
        assert!(found.contains("note: why") && !found.contains("could reach"), "{found}");
    }
}
