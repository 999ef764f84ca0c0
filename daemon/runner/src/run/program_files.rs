//! Writes each compiled program and its description to the run folder, where the daemon finds them for
//! `traind programs`, and as text to the folder that `TRAIND_DUMP_PROGRAMS` names. Nothing depends on
//! these files, so failures are ignored.

use std::fs;
use std::path::{Path, PathBuf};

use traind_durable::Replacement;
use traind_proto::program_folder::{DESCRIPTION, PROGRAM_FOLDER, TEXT, encode, program_file};
use traind_proto::v1;
use traind_xla::analysis::Collective;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::Participants;
use traind_xla::runtime::ProgramArgument;

use crate::session::{CompiledReport, ProgramDescription, ProgramMemory};

/// Names a folder that also gets the programs, each job's in a folder of its own.
const DUMP_VARIABLE: &str = "TRAIND_DUMP_PROGRAMS";

/// The folders that a run's programs are written to.
#[derive(Debug)]
pub(super) struct ProgramFiles {
    folder: PathBuf,
    dump: Option<PathBuf>,
}

impl ProgramFiles {
    pub(super) fn new(run_dir: &Path) -> ProgramFiles {
        let job = run_dir.file_name().unwrap_or_default();
        let dump = std::env::var_os(DUMP_VARIABLE).map(|folder| PathBuf::from(folder).join(job));
        ProgramFiles { folder: run_dir.join(PROGRAM_FOLDER), dump }
    }

    /// Writes a program and its description.
    pub(super) fn write(&self, compiled: &CompiledReport<'_>) {
        let program = described(compiled);
        let text = compiled.text.as_bytes();
        write(&self.folder, &program.name, &[(TEXT, text), (DESCRIPTION, &encode(&program))]);
        if let Some(dump) = &self.dump {
            let description = program.to_string();
            write(dump, &program.name, &[(TEXT, text), ("txt", description.as_bytes())]);
        }
    }
}

fn write(folder: &Path, name: &str, files: &[(&str, &[u8])]) {
    let _ = fs::create_dir_all(folder);
    for (extension, content) in files {
        let path = program_file(folder, name, extension);
        let _ = Replacement::of(&path).without_folder().write(|file| {
            use std::io::Write as _;
            file.write_all(content)
        });
    }
}

fn described(compiled: &CompiledReport<'_>) -> v1::Program {
    let ProgramDescription { name, mesh, arguments, results, collectives, .. } =
        compiled.description;
    v1::Program {
        name: name.clone(),
        replicas: mesh.replica_count() as u32,
        arguments: arguments.iter().map(argument).collect(),
        results: results.iter().map(ToString::to_string).collect(),
        collectives: counted(mesh, collectives),
        memory: compiled.memory.map(memory),
        planned_temporary_bytes: compiled.description.planned_temporary_bytes,
        flops: compiled.flops,
    }
}

fn argument(argument: &ProgramArgument) -> v1::ProgramArgument {
    v1::ProgramArgument {
        name: argument.name.clone(),
        shape: argument.shape.to_string(),
        is_input: argument.is_input,
        donated: argument.is_donated,
    }
}

fn memory(memory: ProgramMemory) -> v1::ProgramMemory {
    v1::ProgramMemory {
        argument_bytes: memory.argument_bytes,
        result_bytes: memory.result_bytes,
        alias_bytes: memory.alias_bytes,
        temporary_bytes: memory.temporary_bytes,
        code_bytes: memory.code_bytes,
    }
}

/// Counts equal collectives, in the order of their first.
fn counted(mesh: &Mesh, all: &[Collective]) -> Vec<v1::Collectives> {
    let mut counted: Vec<(&Collective, v1::Collectives)> = Vec::new();
    for collective in all {
        let same = |(it, _): &&mut (&Collective, v1::Collectives)| {
            it.operation == collective.operation && it.participants == collective.participants
        };
        match counted.iter_mut().find(same) {
            Some((_, sum)) => {
                sum.count += 1;
                sum.operand_bytes += collective.operand_bytes;
                sum.result_bytes += collective.result_bytes;
            }
            None => counted.push((collective, one(mesh, collective))),
        }
    }
    counted.into_iter().map(|(_, sum)| sum).collect()
}

fn one(mesh: &Mesh, collective: &Collective) -> v1::Collectives {
    let axes = mesh.axes_between(&collective.participants.first());
    let hosts = matches!(collective.participants, Participants::Hosts(_)).then_some("hosts");
    v1::Collectives {
        operation: collective.operation.to_owned(),
        count: 1,
        operand_bytes: collective.operand_bytes,
        result_bytes: collective.result_bytes,
        group_size: collective.participants.group_size() as u32,
        group_count: collective.participants.group_count(mesh.replica_count()) as u32,
        axes: axes.iter().map(Axis::to_string).chain(hosts.map(str::to_owned)).collect(),
    }
}
