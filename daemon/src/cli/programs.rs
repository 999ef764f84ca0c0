//! `traind programs`.

use traind_proto::v1::{self, program_piece::Piece};

use super::Global;
use super::connect::client;
use super::exit::Exit;
use crate::interfaces::text::printable;

/// Print the programs that a job has compiled: inputs, memory and collectives of each
#[derive(clap::Args)]
pub(crate) struct Programs {
    /// The job's id, a prefix of it, or its name
    job: String,
    /// Print the StableHLO text of each program too
    #[arg(long)]
    text: bool,
    /// Print every argument and result of each program too
    #[arg(long)]
    shapes: bool,
}

impl Programs {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut jobs = client::jobs(&global).await?;
        let request = v1::ListProgramsRequest { job_id: self.job, with_text: self.text };
        let mut pieces = jobs.list_programs(request).await?.into_inner();
        while let Some(v1::ProgramPiece { piece }) = pieces.message().await? {
            match piece {
                Some(Piece::Program(program)) => {
                    print!("{}", printable(&program.to_string()));
                    if self.shapes {
                        print_shapes(&program);
                    }
                }
                Some(Piece::Text(text)) => print!("{}", printable(&text)),
                None => {}
            }
        }
        Ok(Exit::Done)
    }
}

fn print_shapes(program: &v1::Program) {
    for v1::ProgramArgument { name, shape, donated, .. } in &program.arguments {
        let replaced = if *donated { ", replaced" } else { "" };
        println!("  argument     {} {}{replaced}", printable(name), printable(shape));
    }
    for shape in &program.results {
        println!("  result       {}", printable(shape));
    }
}
