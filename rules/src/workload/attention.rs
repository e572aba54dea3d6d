//! The attention of language models: what decides how far one can be divided, and how large its KV cache is.

use crate::workload::model::owner_and_name;

/// A model's attention, from the `config.json` that it is published with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attention {
    pub(crate) layers: u64,
    /// `num_attention_heads`.
    pub(crate) heads: u64,
    /// `num_key_value_heads`.
    pub(crate) cached_heads: u64,
    /// `head_dim`.
    pub(crate) size: u64,
    /// `max_position_embeddings`: the tokens of a request without a limit.
    pub(crate) context: u64,
}

impl Attention {
    /// Bytes of the KV cache for each token, with two bytes for a number.
    pub(crate) fn bytes_of_token(&self) -> u64 {
        2 * self.layers * self.cached_heads * self.size * 2
    }
}

const fn of(layers: u64, heads: u64, cached_heads: u64, size: u64, context: u64) -> Attention {
    Attention { layers, heads, cached_heads, size, context }
}

/// Names of models without their owners, in lower case.
const MODELS: &[(&[&str], Attention)] = &[
    (&["meta-llama-3-8b"], of(32, 32, 8, 128, 8192)),
    (&["meta-llama-3-70b"], of(80, 64, 8, 128, 8192)),
    (&["llama-3.1-8b", "meta-llama-3.1-8b", "deepseek-r1-distill-llama-8b"], of(32, 32, 8, 128, 131_072)),
    (
        &["llama-3.1-70b", "meta-llama-3.1-70b", "llama-3.3-70b", "deepseek-r1-distill-llama-70b"],
        of(80, 64, 8, 128, 131_072),
    ),
    (&["llama-3.2-1b"], of(16, 32, 8, 64, 131_072)),
    (&["llama-3.2-3b"], of(28, 24, 8, 128, 131_072)),
    (&["qwen2.5-0.5b-instruct", "qwen2.5-coder-0.5b-instruct"], of(24, 14, 2, 64, 32_768)),
    (&["qwen2.5-1.5b-instruct", "qwen2.5-coder-1.5b-instruct"], of(28, 12, 2, 128, 32_768)),
    (&["qwen2.5-3b-instruct", "qwen2.5-coder-3b-instruct"], of(36, 16, 2, 128, 32_768)),
    (&["qwen2.5-7b-instruct", "qwen2.5-coder-7b-instruct"], of(28, 28, 4, 128, 32_768)),
    (&["qwen2.5-14b-instruct", "qwen2.5-coder-14b-instruct"], of(48, 40, 8, 128, 32_768)),
    (&["qwen2.5-32b-instruct", "qwen2.5-coder-32b-instruct"], of(64, 40, 8, 128, 32_768)),
    (&["qwen2.5-72b-instruct"], of(80, 64, 8, 128, 32_768)),
    (&["deepseek-r1-distill-qwen-7b"], of(28, 28, 4, 128, 131_072)),
    (&["deepseek-r1-distill-qwen-14b"], of(48, 40, 8, 128, 131_072)),
    (&["deepseek-r1-distill-qwen-32b"], of(64, 40, 8, 128, 131_072)),
    (&["qwen3-0.6b", "qwen3-1.7b"], of(28, 16, 8, 128, 40_960)),
    (&["qwen3-4b", "qwen3-8b"], of(36, 32, 8, 128, 40_960)),
    (&["qwen3-14b"], of(40, 40, 8, 128, 40_960)),
    (&["qwen3-32b"], of(64, 64, 8, 128, 40_960)),
    (&["mistral-7b-instruct-v0.2", "mistral-7b-instruct-v0.3"], of(32, 32, 8, 128, 32_768)),
];

/// Names of further models, with `num_attention_heads` and `num_key_value_heads` of their `config.json`: images are tokens as well, or
/// layers look back at a part of the context only, so that the size of their KV cache is not known here.
const HEADS: &[(&[&str], u64, u64)] = &[
    (&["qwen2-vl-2b"], 12, 2),
    (&["qwen2.5-vl-3b"], 16, 2),
    (&["qwen2-vl-7b", "qwen2.5-vl-7b"], 28, 4),
    (&["qwen2.5-vl-32b", "qwq-32b"], 40, 8),
    (&["qwen2-vl-72b", "qwen2.5-vl-72b"], 64, 8),
    (&["qwen3-4b-instruct-2507", "qwen3-4b-thinking-2507"], 32, 8),
    (&["qwen3-30b-a3b", "qwen3-30b-a3b-instruct-2507", "qwen3-30b-a3b-thinking-2507"], 32, 4),
    (&["qwen3-235b-a22b", "qwen3-235b-a22b-instruct-2507", "qwen3-235b-a22b-thinking-2507"], 64, 4),
    (&["phi-3-medium-4k", "phi-3-medium-128k", "phi-4"], 40, 10),
    (&["gemma-2-9b", "gemma-2-9b-it", "gemma-3-12b-it"], 16, 8),
    (&["gemma-2-27b", "gemma-2-27b-it", "gemma-3-27b-it"], 32, 16),
    (&["gpt-oss-20b", "gpt-oss-120b"], 64, 8),
    (&["mistral-small-24b-instruct-2501", "mistral-nemo-instruct-2407", "mixtral-8x7b-instruct-v0.1"], 32, 8),
    (&["mixtral-8x22b-instruct-v0.1"], 48, 8),
    (&["llama-4-scout-17b-16e", "llama-4-maverick-17b-128e"], 40, 8),
    (&["llama-3.1-405b", "meta-llama-3.1-405b"], 128, 8),
];

/// Names of models that are not in [`MODELS`], with `max_position_embeddings` of their `config.json`, which no `rope_scaling` extends.
const CONTEXTS: &[(&[&str], u64)] = &[
    (&["phi-3-mini-4k", "phi-3-medium-4k"], 4096),
    (&["llama-2-7b", "llama-2-7b-chat", "llama-2-13b", "llama-2-13b-chat", "llama-2-70b-chat"], 4096),
    (&["gemma-2-2b-it", "gemma-2-9b-it", "gemma-2-27b-it"], 8192),
    (&["phi-4"], 16_384),
    (&["mixtral-8x7b-instruct-v0.1"], 32_768),
    (&["qwen3-30b-a3b", "qwen3-235b-a22b"], 40_960),
    (&["qwen3-4b-instruct-2507", "qwen3-4b-thinking-2507"], 262_144),
    (&["qwen3-30b-a3b-instruct-2507", "qwen3-30b-a3b-thinking-2507"], 262_144),
];

/// Owners whose copies have the configuration of the original: those who train a model, and those who quantize many.
const FAITHFUL: [&str; 12] = [
    "qwen",
    "meta-llama",
    "deepseek-ai",
    "mistralai",
    "microsoft",
    "google",
    "redhatai",
    "neuralmagic",
    "nvidia",
    "hugging-quants",
    "unsloth",
    "nousresearch",
];

/// Words that may follow a name in that of a copy: they change neither the layers nor the context.
const SUFFIXES: [&str; 18] = [
    "instruct",
    "awq",
    "gptq",
    "int4",
    "int8",
    "fp8",
    "dynamic",
    "hf",
    "bnb",
    "4bit",
    "8bit",
    "w4a16",
    "w8a8",
    "nvfp4",
    "quantized.w4a16",
    "quantized.w8a8",
    "quantized.w8a16",
    "original",
];

/// The attention of a model by its name, such as `meta-llama/Llama-3.1-8B-Instruct`. `None` for a path, and for a name
/// without an owner.
pub(crate) fn attention_of(name: &str) -> Option<Attention> {
    row_of(name, MODELS, |(names, _)| names).map(|row| row.1)
}

/// The attention heads of a model, and those of its KV cache, by its name as for [`attention_of`].
pub(crate) fn heads_of(name: &str) -> Option<(u64, u64)> {
    let known = attention_of(name).map(|attention| (attention.heads, attention.cached_heads));
    known.or_else(|| row_of(name, HEADS, |(names, ..)| names).map(|row| (row.1, row.2)))
}

/// The attention heads of a model by the last folder of a path, which is mostly called after the model: a reason for a warning, and for
/// no more.
pub(crate) fn heads_of_folder(path: &str) -> Option<(u64, u64)> {
    let path = path.strip_prefix('/')?.trim_end_matches('/');
    heads_of(&format!("folder/{}", path.rsplit('/').next()?))
}

/// The most tokens of a request for a model, by its name as for [`attention_of`], of an owner who leaves the configuration as it is.
/// `None` for the models of Mistral, of which servers may read `params.json` instead.
pub(crate) fn context_of(name: &str) -> Option<u64> {
    let (owner, own) = owner_and_name(name)?;
    if !FAITHFUL.contains(&owner.to_ascii_lowercase().as_str())
        || own.to_ascii_lowercase().contains("mistral")
    {
        return None;
    }
    let known = attention_of(name).map(|attention| attention.context);
    known.or_else(|| row_of(name, CONTEXTS, |(names, _)| names).map(|row| row.1))
}

/// A number of tokens: `16384`, `16k` (thousands) or `16K` (times 1,024), as vLLM reads it. `None` for `auto` and -1.
pub(crate) fn tokens(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1000),
        None => text.strip_suffix('K').map_or((text, 1), |number| (number, 1024)),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn row_of<'t, T>(name: &str, rows: &'t [T], names: impl Fn(&T) -> &[&'static str]) -> Option<&'t T> {
    let name = name.to_ascii_lowercase();
    let (_, name) = owner_and_name(&name)?;
    let is_copy = |rest: &str| {
        rest.is_empty()
            || rest.strip_prefix('-').is_some_and(|rest| rest.split('-').all(|word| SUFFIXES.contains(&word)))
    };
    rows.iter().find(|row| names(row).iter().any(|one| name.strip_prefix(one).is_some_and(is_copy)))
}

#[cfg(test)]
mod tests {
    use super::{attention_of, context_of, heads_of, heads_of_folder};

    #[test]
    fn names_of_copies_are_known() {
        let bytes = |name: &str| attention_of(name).map(|attention| attention.bytes_of_token());
        assert_eq!(bytes("meta-llama/Llama-3.1-8B-Instruct"), Some(131_072));
        assert_eq!(bytes("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4"), Some(327_680));
        assert_eq!(bytes("Qwen/Qwen2.5-7B-Instruct"), Some(57_344));
        assert_eq!(bytes("Qwen/Qwen3-4B-Instruct-2507"), None);
        assert_eq!(bytes("Qwen/Qwen2.5-7B-Instruct-1M"), None);
        assert_eq!(bytes("gradientai/Llama-3-8B-Instruct-262k"), None);
        assert_eq!(bytes("/models/acme/llama-3.1-8b"), None);
        assert_eq!(bytes("llama-3.1-8b"), None);
        assert_eq!(bytes("Qwen/Qwen2.5-VL-7B-Instruct"), None);
        assert_eq!(heads_of("Qwen/Qwen2.5-VL-7B-Instruct"), Some((28, 4)));
        assert_eq!(heads_of("RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8"), Some((28, 4)));
        assert_eq!(heads_of("microsoft/phi-4"), Some((40, 10)));
        assert_eq!(heads_of("microsoft/Phi-4-mini-instruct"), None);
        assert_eq!(heads_of_folder("/models/Llama-3.1-70B-Instruct/"), Some((64, 8)));
        assert_eq!(heads_of_folder("/mnt/models"), None);
        assert_eq!(heads_of_folder("meta-llama/Llama-3.1-70B-Instruct"), None);
    }
    #[test]
    fn the_context_is_known_of_faithful_copies() {
        for (name, expected) in [
            ("Qwen/Qwen3-8B-AWQ", Some(40_960)),
            ("Qwen/Qwen3-4B-Instruct-2507-FP8", Some(262_144)),
            ("Qwen/Qwen2.5-7B-Instruct-1M", None),
            ("unsloth/Llama-3.2-3B-Instruct", Some(131_072)),
            ("unsloth/Qwen3-8B-128K", None),
            ("microsoft/phi-4", Some(16_384)),
            ("microsoft/Phi-4-mini-instruct", None),
            ("acme/Qwen3-8B", None),
            ("models/qwen3-8b", None),
            ("mistralai/Mistral-7B-Instruct-v0.3", None),
        ] {
            assert_eq!(context_of(name), expected, "{name}");
        }
    }
}
