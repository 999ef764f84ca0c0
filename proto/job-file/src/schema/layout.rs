//! Parts of `data` about the layout of rows: columns, prompts, and the turns that are targets.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// The columns of rows in the layout `alpaca`, and of the system's text in all layouts.
    pub struct RowFields {
        /// Column that holds the instruction.
        instruction: String = "instruction".to_owned();
        /// Column that holds the input of the instruction, which may be empty or absent; null reads
        /// none.
        input: Option<String> = Some("input".to_owned());
        /// Column that holds the answer.
        output: String = "output".to_owned();
        /// Column that holds earlier turns, a list of pairs of a question and its answer; null reads
        /// none.
        history: Option<String> = Some("history".to_owned());
        /// Column that holds the system's text; null reads none.
        system: Option<String> = Some("system".to_owned());
    }
}

section! {
    /// A prompt of your own for rows in the layout `alpaca`, under the names of axolotl's
    /// user-defined types. `{instruction}`, `{input}` and `{system}` are places that rows fill, and
    /// `{{` and `}}` are braces.
    pub struct PromptTemplate {
        /// Text around `{instruction}` and `{input}`.
        format: Option<String> = None;
        /// Text around `{instruction}` of rows without an input; defaults to `{instruction} `.
        no_input_format: Option<String> = None;
        /// The system's text of rows without one.
        system_prompt: Option<String> = None;
        /// Text around `{system}`.
        system_format: String = "{system}".to_owned();
    }
}

spelled! {
    /// The layout of rows, under the names of axolotl and LLaMA-Factory.
    pub enum DataLayout {
        /// Columns `instruction`, `input` and `output`, and `history` and `system` where rows have
        /// them.
        Alpaca = "alpaca",
        /// A list of `{from: human, value: ...}` in the column `conversations`.
        Sharegpt = "sharegpt",
        /// A list of `{role: user, content: ...}` in the column `messages`, which the chat template
        /// `chatml` renders.
        Chatml = "chatml",
        /// A list of `{role: user, content: ...}` in the column `messages`, which the chat template of the model or of
        /// the job renders.
        Messages = "messages",
        /// A text that ends with the end-of-sequence token; long ones become several rows.
        Completion = "completion",
        /// Token ids in the column `input_ids`, and `labels` where not all tokens are targets.
        Pretokenized = "pretokenized",
    }
}

spelled! {
    /// The prompt of instructions, as axolotl's types `alpaca:STYLE`.
    pub enum PromptStyle {
        /// `### Instruction:`, `### Input:` and `### Response:`.
        Instruct = "instruct",
        /// `USER:` and `ASSISTANT:`.
        Chat = "chat",
        /// `<|im_start|>user` and `<|im_start|>assistant`.
        Chatml = "chatml",
        /// `<|user|>` and `<|assistant|>`.
        Phi = "phi",
    }
}

spelled! {
    /// The turns whose last token is a target.
    pub enum TrainOn {
        /// All of them.
        All = "all",
        /// The turns that are targets themselves.
        Turn = "turn",
        /// The last one.
        Last = "last",
        /// None of them.
        None = "none",
    }
}

spelled! {
    /// The treatment of rows that are longer than `max_length`.
    pub enum ExcessLength {
        /// They are cut.
        Truncate = "truncate",
        /// They are left out.
        Drop = "drop",
    }
}

spelled! {
    /// The order of the rows of several sets, as `interleave_datasets` of `datasets` mixes them, or of their
    /// batches, as `multi_dataset_batch_sampler` of sentence-transformers does.
    pub enum Mixing {
        /// One set after the other.
        Concatenate = "concatenate",
        /// In turns, until one of the sets ends.
        FirstExhausted = "first_exhausted" | "interleave",
        /// In turns, until all sets have ended; those that end before begin again.
        AllExhausted = "all_exhausted",
        /// In turns, each row once.
        AllExhaustedWithoutReplacement = "all_exhausted_without_replacement",
        /// Batches of one set each, for embedding: all batches of all sets, in random order.
        Proportional = "proportional",
        /// Batches of one set each, for embedding: in turns, until one of the sets has no further batch.
        RoundRobin = "round_robin",
    }
}
