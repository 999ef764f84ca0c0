//! The description of a program for people.

use std::fmt;

use crate::v1;

impl fmt::Display for v1::Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {} {}", self.name, self.replicas, plural("core", self.replicas))?;
        let donated = self.arguments.iter().filter(|argument| argument.donated).count();
        let (arguments, results) = (self.arguments.len(), self.results.len());
        writeln!(f, "  {arguments} arguments, {donated} replaced in place, {results} results")?;
        for input in self.arguments.iter().filter(|argument| argument.is_input) {
            writeln!(f, "  input        {} {}", input.name, input.shape)?;
        }
        if let Some(memory) = &self.memory {
            writeln!(f, "  arguments    {}", mebibytes(memory.argument_bytes))?;
            let new = memory.result_bytes.saturating_sub(memory.alias_bytes);
            writeln!(f, "  new results  {}", mebibytes(new))?;
            writeln!(f, "  temporaries  {}", mebibytes(memory.temporary_bytes))?;
        }
        writeln!(f, "  planned      {}", mebibytes(self.planned_temporary_bytes))?;
        if self.flops > 0.0 {
            writeln!(f, "  FLOP         {:.3e}", self.flops)?;
        }
        self.collectives.iter().try_for_each(|collectives| writeln!(f, "  {collectives}"))
    }
}

impl fmt::Display for v1::Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v1::Collectives { operation, count, group_count, group_size, axes, .. } = self;
        let bytes = mebibytes(self.operand_bytes.max(self.result_bytes));
        let (times, axes) = (plural("time", *count), axes.join(", "));
        let groups = plural("group", *group_count);
        write!(
            f,
            "{operation:<12} {count} {times}, {bytes}, {group_count} {groups} of {group_size}"
        )?;
        if axes.is_empty() { Ok(()) } else { write!(f, " along {axes}") }
    }
}

fn plural(word: &str, count: u32) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
