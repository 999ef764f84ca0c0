//! The templates of LLaMA-Factory by their names. Those of models that read images or sound, and those
//! whose calls of tools differ alone, are left out.

use super::template::Slot::{Bos, Eos, Text};
use super::template::{PLAIN, Slot, TurnTemplate};
use super::thoughts::Thoughts;

const THINK: Option<Thoughts> = Some(Thoughts { begin: "<think>\n", end: "\n</think>\n\n" });
/// A tool's answer as a turn of its own.
const TOOL: &[Slot] = &[Text("<|im_start|>tool\n{}<|im_end|>\n<|im_start|>assistant\n")];
/// A tool's answer as a turn of the user.
const TOOL_RESPONSE: &[Slot] = &[Text(
    "<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
)];
/// Turns between `<|im_start|>` and `<|im_end|>`.
const IM: TurnTemplate = TurnTemplate {
    system: &[Text("<|im_start|>system\n{}<|im_end|>\n")],
    user: &[Text("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")],
    assistant: &[Text("{}<|im_end|>\n")],
    ..PLAIN
};

/// All templates, sorted by name.
pub(super) static TEMPLATES: &[TurnTemplate] = &[
    TurnTemplate {
        name: "alpaca",
        user: &[Text("### Instruction:\n{}\n\n### Response:\n")],
        assistant: &[Text("{}"), Eos, Text("\n\n")],
        default_system: "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n",
        ..PLAIN
    },
    TurnTemplate {
        name: "bailing",
        system: &[Text("<role>SYSTEM</role>{}")],
        user: &[Text("<role>HUMAN</role>{}<role>ASSISTANT</role>")],
        assistant: &[Text("{}")],
        observation: Some(&[Text("<role>OBSERVATION</role>{}<role>ASSISTANT</role>")]),
        efficient_eos: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "breeze",
        prefix: &[Bos],
        user: &[Text("[INST] {} [/INST] ")],
        assistant: &[Text("{}")],
        efficient_eos: true,
        ..PLAIN
    },
    TurnTemplate { name: "chatml", observation: Some(TOOL), eos_token: Some("<|im_end|>"), ..IM },
    TurnTemplate {
        name: "chatml_de",
        observation: Some(TOOL),
        default_system: "Du bist ein freundlicher und hilfsbereiter KI-Assistent.",
        eos_token: Some("<|im_end|>"),
        ..IM
    },
    TurnTemplate {
        name: "cohere",
        prefix: &[Bos],
        system: &[Text("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{}<|END_OF_TURN_TOKEN|>")],
        user: &[Text(
            "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        )],
        ..PLAIN
    },
    TurnTemplate { name: "cpm4", prefix: &[Bos], observation: Some(TOOL), ..IM },
    TurnTemplate {
        name: "deepseek",
        prefix: &[Bos],
        system: &[Text("{}\n\n")],
        user: &[Text("User: {}\n\nAssistant:")],
        ..PLAIN
    },
    TurnTemplate {
        name: "deepseek3",
        prefix: &[Bos],
        user: &[Text("<｜User｜>{}<｜Assistant｜>")],
        ..PLAIN
    },
    TurnTemplate {
        name: "deepseekcoder",
        prefix: &[Bos],
        user: &[Text("### Instruction:\n{}\n### Response:")],
        assistant: &[Text("\n{}\n<|EOT|>\n")],
        default_system: "You are an AI programming assistant, utilizing the DeepSeek Coder model, developed by DeepSeek Company, and you only answer questions related to computer science. For politically sensitive questions, security and privacy issues, and other non-computer science questions, you will refuse to answer.\n",
        ..PLAIN
    },
    TurnTemplate {
        name: "deepseekr1",
        prefix: &[Bos],
        user: &[Text("<｜User｜>{}<｜Assistant｜>")],
        thoughts: THINK,
        ..PLAIN
    },
    TurnTemplate {
        name: "default",
        system: &[Text("System: {}"), Eos, Text("\n")],
        user: &[Text("Human: {}"), Eos, Text("\nAssistant:")],
        assistant: &[Text("{}"), Eos, Text("\n")],
        ..PLAIN
    },
    TurnTemplate { name: "empty", assistant: &[Text("{}")], ..PLAIN },
    TurnTemplate {
        name: "ernie_nothink",
        prefix: &[Text("<|begin_of_sentence|>")],
        system: &[Text("{}\n")],
        user: &[Text("User: {}\nAssistant: ")],
        assistant: &[Text("{}<|end_of_sentence|>")],
        ..PLAIN
    },
    TurnTemplate {
        name: "exaone",
        system: &[Text("[|system|]{}[|endofturn|]\n")],
        user: &[Text("[|user|]{}\n[|assistant|]")],
        assistant: &[Text("{}"), Eos, Text("\n")],
        ..PLAIN
    },
    TurnTemplate {
        name: "falcon",
        user: &[Text("User: {}\nFalcon:")],
        assistant: &[Text("{}\n")],
        efficient_eos: true,
        ..PLAIN
    },
    TurnTemplate { name: "falcon_h1", prefix: &[Bos], observation: Some(TOOL), ..IM },
    TurnTemplate { name: "fewshot", assistant: &[Text("{}\n\n")], efficient_eos: true, ..PLAIN },
    TurnTemplate {
        name: "gemma",
        prefix: &[Bos],
        system: &[Text("{}\n\n")],
        user: &[Text("<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n")],
        assistant: &[Text("{}<end_of_turn>\n")],
        observation: Some(&[Text("<start_of_turn>tool\n{}<end_of_turn>\n<start_of_turn>model\n")]),
        eos_token: Some("<end_of_turn>"),
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "gemma2",
        prefix: &[Bos],
        system: &[Text("{}\n\n")],
        user: &[Text("<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n")],
        assistant: &[Text("{}<end_of_turn>\n")],
        observation: Some(&[Text("<start_of_turn>tool\n{}<end_of_turn>\n<start_of_turn>model\n")]),
        efficient_eos: true,
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "gemma3",
        prefix: &[Bos],
        system: &[Text("{}\n\n")],
        user: &[Text("<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n")],
        assistant: &[Text("{}<end_of_turn>\n")],
        observation: Some(&[Text("<start_of_turn>tool\n{}<end_of_turn>\n<start_of_turn>model\n")]),
        eos_token: Some("<end_of_turn>"),
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "glm4",
        prefix: &[Text("[gMASK]<sop>")],
        system: &[Text("<|system|>\n{}")],
        user: &[Text("<|user|>\n{}<|assistant|>")],
        assistant: &[Text("\n{}")],
        observation: Some(&[Text("<|observation|>\n{}<|assistant|>")]),
        efficient_eos: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "glmz1",
        prefix: &[Text("[gMASK]<sop>")],
        system: &[Text("<|system|>\n{}")],
        user: &[Text("<|user|>\n{}<|assistant|>")],
        assistant: &[Text("\n{}")],
        observation: Some(&[Text("<|observation|>\n{}<|assistant|>")]),
        efficient_eos: true,
        thoughts: THINK,
        ..PLAIN
    },
    TurnTemplate {
        name: "granite3",
        system: &[Text("<|start_of_role|>system<|end_of_role|>{}<|end_of_text|>\n")],
        user: &[Text(
            "<|start_of_role|>user<|end_of_role|>{}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>",
        )],
        assistant: &[Text("{}<|end_of_text|>\n")],
        ..PLAIN
    },
    TurnTemplate {
        name: "granite4",
        system: &[Text("<|start_of_role|>system<|end_of_role|>{}<|end_of_text|>\n")],
        user: &[Text(
            "<|start_of_role|>user<|end_of_role|>{}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>",
        )],
        assistant: &[Text("{}<|end_of_text|>\n")],
        observation: Some(&[Text(
            "<|start_of_role|>tool<|end_of_role|>{}<|end_of_text|>\n<|start_of_role|>assistant\n",
        )]),
        default_system: "You are Granite, developed by IBM. You are a helpful AI assistant.",
        ..PLAIN
    },
    TurnTemplate {
        name: "hunyuan",
        prefix: &[Text("<|startoftext|>")],
        system: &[Text("{}<|extra_4|>")],
        user: &[Text("{}<|extra_0|>")],
        assistant: &[Text("{}<|eos|>")],
        ..PLAIN
    },
    TurnTemplate {
        name: "intern2",
        prefix: &[Bos],
        default_system: "You are an AI assistant whose name is InternLM (书生·浦语).\n- InternLM (书生·浦语) is a conversational language model that is developed by Shanghai AI Laboratory (上海人工智能实验室). It is designed to be helpful, honest, and harmless.\n- InternLM (书生·浦语) can understand and communicate fluently in the language chosen by the user such as English and 中文.",
        ..IM
    },
    TurnTemplate {
        name: "lfm2",
        observation: Some(&[Text(
            "<|im_start|>tool\n<|tool_response_start|>{}<|tool_response_end|><|im_end|>\n<|im_start|>assistant\n",
        )]),
        default_system: "You are a helpful AI assistant.",
        eos_token: Some("<|im_end|>"),
        ..IM
    },
    TurnTemplate {
        name: "llama2",
        system: &[Text("<<SYS>>\n{}\n<</SYS>>\n\n")],
        user: &[Bos, Text("[INST] {} [/INST]")],
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "llama2_zh",
        system: &[Text("<<SYS>>\n{}\n<</SYS>>\n\n")],
        user: &[Bos, Text("[INST] {} [/INST]")],
        default_system: "You are a helpful assistant. 你是一个乐于助人的助手。",
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "llama3",
        prefix: &[Bos],
        system: &[Text("<|start_header_id|>system<|end_header_id|>\n\n{}<|eot_id|>")],
        user: &[Text(
            "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        )],
        assistant: &[Text("{}<|eot_id|>")],
        observation: Some(&[Text(
            "<|start_header_id|>ipython<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        )]),
        eos_token: Some("<|eot_id|>"),
        ..PLAIN
    },
    TurnTemplate {
        name: "llama4",
        prefix: &[Bos],
        system: &[Text("<|header_start|>system<|header_end|>\n\n{}<|eot|>")],
        user: &[Text(
            "<|header_start|>user<|header_end|>\n\n{}<|eot|><|header_start|>assistant<|header_end|>\n\n",
        )],
        assistant: &[Text("{}<|eot|>")],
        observation: Some(&[Text(
            "<|header_start|>ipython<|header_end|>\n\n{}<|eot|><|header_start|>assistant<|header_end|>\n\n",
        )]),
        eos_token: Some("<|eot|>"),
        ..PLAIN
    },
    TurnTemplate {
        name: "mimo",
        observation: Some(TOOL_RESPONSE),
        default_system: "You are a helpful assistant.",
        eos_token: Some("<|im_end|>"),
        thoughts: THINK,
        ..IM
    },
    TurnTemplate {
        name: "ministral",
        prefix: &[Bos],
        system: &[Text("{}\n\n")],
        user: &[Text("[INST]{}[/INST]")],
        observation: Some(&[Text("[TOOL_RESULTS]{\"content\": {}}[/TOOL_RESULTS]")]),
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "mistral",
        prefix: &[Bos],
        system: &[Text("{}\n\n")],
        user: &[Text("[INST] {}[/INST]")],
        assistant: &[Text(" {}"), Eos],
        observation: Some(&[Text("[TOOL_RESULTS] {\"content\": {}}[/TOOL_RESULTS]")]),
        system_in_question: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "mistral_small",
        prefix: &[Bos],
        system: &[Text("[SYSTEM_PROMPT]{}[/SYSTEM_PROMPT]")],
        user: &[Text("[INST]{}[/INST]")],
        observation: Some(&[Text("[TOOL_RESULTS]{\"content\": {}}[/TOOL_RESULTS]")]),
        ..PLAIN
    },
    TurnTemplate {
        name: "moonlight",
        system: &[Text("<|im_system|>system<|im_middle|>{}<|im_end|>")],
        user: &[Text(
            "<|im_user|>user<|im_middle|>{}<|im_end|><|im_assistant|>assistant<|im_middle|>",
        )],
        assistant: &[Text("{}<|im_end|>")],
        default_system: "You are a helpful assistant provided by Moonshot-AI.",
        eos_token: Some("<|im_end|>"),
        ..PLAIN
    },
    TurnTemplate {
        name: "olmo",
        prefix: &[Eos],
        user: &[Text("<|user|>\n{}<|assistant|>\n")],
        ..PLAIN
    },
    TurnTemplate {
        name: "openchat",
        prefix: &[Bos],
        user: &[Text("GPT4 Correct User: {}"), Eos, Text("GPT4 Correct Assistant:")],
        ..PLAIN
    },
    TurnTemplate {
        name: "openchat-3.6",
        prefix: &[Bos],
        user: &[Text(
            "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\n",
        )],
        ..PLAIN
    },
    TurnTemplate {
        name: "opencoder",
        observation: Some(TOOL),
        default_system: "You are OpenCoder, created by OpenCoder Team.",
        ..IM
    },
    TurnTemplate {
        name: "phi",
        system: &[Text("<|system|>\n{}<|end|>\n")],
        user: &[Text("<|user|>\n{}<|end|>\n<|assistant|>\n")],
        assistant: &[Text("{}<|end|>\n")],
        eos_token: Some("<|end|>"),
        ..PLAIN
    },
    TurnTemplate {
        name: "phi4",
        system: &[Text("<|im_start|>system<|im_sep|>{}<|im_end|>")],
        user: &[Text("<|im_start|>user<|im_sep|>{}<|im_end|><|im_start|>assistant<|im_sep|>")],
        assistant: &[Text("{}<|im_end|>")],
        eos_token: Some("<|im_end|>"),
        ..PLAIN
    },
    TurnTemplate {
        name: "phi4_mini",
        system: &[Text("<|system|>{}<|end|>")],
        user: &[Text("<|user|>{}<|end|><|assistant|>")],
        assistant: &[Text("{}<|end|>")],
        eos_token: Some("<|end|>"),
        ..PLAIN
    },
    TurnTemplate {
        name: "qwen",
        observation: Some(TOOL_RESPONSE),
        default_system: "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
        eos_token: Some("<|im_end|>"),
        ..IM
    },
    TurnTemplate {
        name: "qwen3",
        observation: Some(TOOL_RESPONSE),
        eos_token: Some("<|im_end|>"),
        thoughts: THINK,
        ..IM
    },
    TurnTemplate {
        name: "qwen3_5",
        observation: Some(TOOL_RESPONSE),
        eos_token: Some("<|im_end|>"),
        thoughts: THINK,
        ..IM
    },
    TurnTemplate {
        name: "qwen3_5_nothink",
        observation: Some(TOOL_RESPONSE),
        eos_token: Some("<|im_end|>"),
        ..IM
    },
    TurnTemplate {
        name: "qwen3_6",
        observation: Some(TOOL_RESPONSE),
        eos_token: Some("<|im_end|>"),
        thoughts: THINK,
        ..IM
    },
    TurnTemplate {
        name: "qwen3_nothink",
        observation: Some(TOOL_RESPONSE),
        eos_token: Some("<|im_end|>"),
        ..IM
    },
    TurnTemplate {
        name: "sailor",
        system: &[Text("<|im_start|>system\n{}<|im_end|>\n")],
        user: &[Text("<|im_start|>question\n{}<|im_end|>\n<|im_start|>answer\n")],
        assistant: &[Text("{}<|im_end|>\n")],
        default_system: "You are an AI assistant named Sailor created by Sea AI Lab. Your answer should be friendly, unbiased, faithful, informative and detailed.",
        ..PLAIN
    },
    TurnTemplate {
        name: "seed_coder",
        system: &[Bos, Text("system\n{}"), Eos],
        user: &[Bos, Text("user\n{}"), Eos, Bos, Text("assistant\n")],
        default_system: "You are an AI programming assistant, utilizing the Seed-Coder model, developed by ByteDance Seed, and you only answer questions related to computer science. For politically sensitive questions, security and privacy issues, and other non-computer science questions, you will refuse to answer.\n\n",
        ..PLAIN
    },
    TurnTemplate { name: "smollm", ..IM },
    TurnTemplate {
        name: "smollm2",
        default_system: "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
        ..IM
    },
    TurnTemplate {
        name: "solar",
        system: &[Text("### System:\n{}\n\n")],
        user: &[Text("### User:\n{}\n\n### Assistant:\n")],
        assistant: &[Text("{}")],
        efficient_eos: true,
        ..PLAIN
    },
    TurnTemplate {
        name: "starchat",
        system: &[Text("<|system|>\n{}<|end|>\n")],
        user: &[Text("<|user|>\n{}<|end|>\n<|assistant|>")],
        assistant: &[Text("{}<|end|>\n")],
        ..PLAIN
    },
    TurnTemplate {
        name: "telechat2",
        system: &[Text("<_system>{}")],
        user: &[Text("<_user>{}<_bot>")],
        default_system: "你是中国电信星辰语义大模型，英文名是TeleChat，你是由中电信人工智能科技有限公司和中国电信人工智能研究院（TeleAI）研发的人工智能助手。",
        ..PLAIN
    },
    TurnTemplate {
        name: "vicuna",
        user: &[Text("USER: {} ASSISTANT:")],
        default_system: "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions.",
        ..PLAIN
    },
    TurnTemplate {
        name: "xuanyuan",
        user: &[Text("Human: {} Assistant:")],
        default_system: "以下是用户和人工智能助手之间的对话。用户以Human开头，人工智能助手以Assistant开头，会对人类提出的问题给出有帮助、高质量、详细和礼貌的回答，并且总是拒绝参与与不道德、不安全、有争议、政治敏感等相关的话题、问题和指示。\n",
        ..PLAIN
    },
    TurnTemplate { name: "yi", ..IM },
    TurnTemplate {
        name: "youtu",
        prefix: &[Bos],
        user: &[Text("<|User|>{}<|Assistant|>")],
        assistant: &[Text("{}<|end_of_text|>")],
        observation: Some(&[Text("<tool_response>\n{}\n</tool_response><|Assistant|>")]),
        eos_token: Some("<|end_of_text|>"),
        thoughts: THINK,
        ..PLAIN
    },
    TurnTemplate {
        name: "zephyr",
        system: &[Text("<|system|>\n{}"), Eos],
        user: &[Text("<|user|>\n{}"), Eos, Text("<|assistant|>\n")],
        default_system: "You are Zephyr, a helpful assistant.",
        ..PLAIN
    },
];
