//! The description of a program for readers.

use std::fmt;

use traind_wording::counted;

use crate::v1;

impl fmt::Display for v1::Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.name, counted(self.replicas, "core"))?;
        let donated = self.arguments.iter().filter(|argument| argument.donated).count();
        let (arguments, results) = (self.arguments.len(), self.results.len());
        let (arguments, results) = (counted(arguments, "argument"), counted(results, "result"));
        writeln!(f, "  {arguments}, {donated} replaced in place, {results}")?;
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
        let (times, axes) = (counted(count, "time"), axes.join(", "));
        let groups = counted(group_count, "group");
        write!(f, "{operation:<12} {times}, {bytes}, {groups} of {group_size}")?;
        if axes.is_empty() { Ok(()) } else { write!(f, " along {axes}") }
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
