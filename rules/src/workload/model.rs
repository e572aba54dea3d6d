//! The weights of a language model that a server loads: the number of parameters in its name or in a table, and the
//! number of bytes of each.

use crate::facts::text::is_digits;
use crate::tree::node::Node;
use crate::workload::command::OptionValue;
use crate::workload::launcher::Launch;
use crate::workload::server::ServerId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Number of parameters in millions.
    pub(crate) parameters: u64,
    pub(crate) precision: Precision,
    /// Number of parameters in millions that stay in 16 bits whatever the precision of the others is: those of tokens.
    pub(crate) of_tokens: u64,
}

/// Parameters of the input and output of models with a large vocabulary and two tables of it, which quantized ones keep in 16 bits: a
/// part of the name, the numbers of all parameters, and of these, in millions (`vocab_size`, `hidden_size` and `tie_word_embeddings` of
/// `config.json`).
const OF_TOKENS: [(&str, std::ops::RangeInclusive<u64>, u64); 9] = [
    ("qwen2", 6_500..=8_500, 1_090),
    ("qwen2", 13_500..=15_500, 1_557),
    ("qwen2", 31_500..=34_500, 1_557),
    ("qwen2", 71_500..=74_500, 2_491),
    ("qwen3", 8_000..=8_500, 1_245),
    ("qwen3", 13_500..=15_500, 1_556),
    ("qwen3", 31_500..=33_500, 1_556),
    ("llama-3", 8_000..=8_500, 1_051),
    ("llama-3", 69_500..=71_500, 2_101),
];

fn of_tokens(name: &str, parameters: u64) -> u64 {
    let name = name.to_ascii_lowercase();
    let is_it = |(part, all, _): &&(&str, std::ops::RangeInclusive<u64>, u64)| {
        name.contains(part) && all.contains(&parameters)
    };
    OF_TOKENS.iter().find(is_it).map_or(0, |(.., millions)| *millions)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// float32.
    Single,
    /// bfloat16 or float16.
    Half,
    /// fp8, int8 and similar types.
    EightBits,
    /// AWQ, GPTQ, int4, fp4 and similar types, including their scales.
    FourBits,
}

/// Size of a parameter of AWQ or GPTQ in thousandths of a byte: four bits, and a scale and a zero for each 128.
const ALL_IN_FOUR_BITS: u64 = 520;

impl Precision {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Precision::Single => "float32",
            Precision::Half => "bf16",
            Precision::EightBits => "8 bits",
            Precision::FourBits => "4 bits",
        }
    }

    /// Size of a parameter in thousandths of a byte.
    fn size(self) -> u64 {
        match self {
            Precision::Single => 4000,
            Precision::Half => 2000,
            Precision::EightBits => 1000,
            Precision::FourBits => 600,
        }
    }
}

impl Weights {
    /// The memory for the weights in MB (10^6 bytes).
    pub(crate) fn megabytes(&self) -> u64 {
        let (half, size) = (Precision::Half.size(), self.precision.size());
        if self.of_tokens == 0 || size >= half {
            return self.parameters * size / 1000;
        }
        // With the tables of tokens apart, the size of the others is that of their bits and scales.
        let size = if self.precision == Precision::FourBits { ALL_IN_FOUR_BITS } else { size };
        ((self.parameters - self.of_tokens) * size + self.of_tokens * half) / 1000
    }

    /// The number of parameters as in names of models, such as `70B`.
    pub(crate) fn parameters_text(&self) -> String {
        match (self.parameters / 1000, self.parameters % 1000 / 100) {
            (whole, 0) => format!("{whole}B"),
            (whole, tenths) => format!("{whole}.{tenths}B"),
        }
    }
}

/// Options that store a part of the weights outside the memory of the GPUs, change the model, or distribute it in ways
/// that the other options do not show.
const ELSEWHERE: [&str; 12] = [
    "cpu-offload-gb",
    "offload-backend",
    "offload-group-size",
    "n-gpu-layers",
    "device",
    "hf-overrides",
    "json-model-override-args",
    "torchao-config",
    "enable-expert-parallel",
    "prefill-context-parallel-size",
    "worker-cls",
    "model-loader-extra-config",
];

/// Options that distribute the experts of a mixture of experts, so that a GPU holds a part of them only.
const EXPERT_PARALLEL: [&str; 4] = ["expert-parallel-size", "ep", "ep-size", "moe-a2a-backend"];

/// A model whose name does not contain the number of all its parameters.
struct KnownModel {
    /// The names of the models of this size, without their owners, in lower case.
    names: &'static [&'static str],
    /// Number of parameters in millions.
    parameters: u64,
    /// The precision in which it is published.
    precision: Precision,
    /// Whether it is a mixture of experts.
    is_mixture: bool,
}

impl KnownModel {
    /// The precision if it is not the type that a server chooses by default, and that `--dtype` changes.
    fn published(&self) -> Option<Precision> {
        (self.precision != Precision::Half).then_some(self.precision)
    }
}

const fn mixture(names: &'static [&'static str], parameters: u64, precision: Precision) -> KnownModel {
    KnownModel { names, parameters, precision, is_mixture: true }
}

const fn dense(names: &'static [&'static str], parameters: u64) -> KnownModel {
    KnownModel { names, parameters, precision: Precision::Half, is_mixture: false }
}

/// Models that people serve, with the totals of their model cards, read on 2026-11-27 in copies and summaries of the cards.
/// Not looked up were DeepSeek V2.5, V3.1 and V3.2, GLM-4.6 and Command R+ 08-2024, which have the sizes of their lines,
/// and phi-4. The weights for the prediction of several tokens, which servers may leave out, are not counted.
const KNOWN_MODELS: &[KnownModel] = &[
    mixture(
        &[
            "deepseek-r1",
            "deepseek-r1-zero",
            "deepseek-r1-0528",
            "deepseek-v3",
            "deepseek-v3-base",
            "deepseek-v3-0324",
            "deepseek-v3.1",
            "deepseek-v3.1-base",
            "deepseek-v3.1-terminus",
            "deepseek-v3.2",
            "deepseek-v3.2-exp",
        ],
        671_000,
        Precision::EightBits,
    ),
    mixture(
        &[
            "deepseek-v2",
            "deepseek-v2-chat",
            "deepseek-v2-chat-0628",
            "deepseek-v2.5",
            "deepseek-v2.5-1210",
            "deepseek-coder-v2-base",
            "deepseek-coder-v2-instruct",
            "deepseek-coder-v2-instruct-0724",
        ],
        236_000,
        Precision::Half,
    ),
    mixture(&["kimi-k2-base", "kimi-k2-instruct", "kimi-k2-instruct-0905"], 1_000_000, Precision::EightBits),
    mixture(&["kimi-k2-thinking"], 1_000_000, Precision::FourBits),
    mixture(&["llama-4-scout-17b-16e", "llama-4-scout-17b-16e-instruct"], 109_000, Precision::Half),
    mixture(&["llama-4-maverick-17b-128e", "llama-4-maverick-17b-128e-instruct"], 400_000, Precision::Half),
    mixture(&["glm-4.5", "glm-4.5-base", "glm-4.6"], 355_000, Precision::Half),
    mixture(&["glm-4.5-air", "glm-4.5-air-base"], 106_000, Precision::Half),
    mixture(&["dbrx-base", "dbrx-instruct"], 132_000, Precision::Half),
    dense(&["mistral-large-instruct-2407", "mistral-large-instruct-2411"], 123_000),
    dense(&["pixtral-large-instruct-2411"], 124_000),
    dense(&["c4ai-command-r-plus", "c4ai-command-r-plus-08-2024"], 104_000),
    dense(&["c4ai-command-a-03-2025"], 111_000),
    dense(&["c4ai-command-r-v01", "c4ai-command-r-08-2024"], 35_000),
    dense(&["phi-4"], 14_000),
];

/// The words that may follow the name of a known model in that of a copy: its precision and the tools that made it.
const COPY_SUFFIXES: [&str; 18] = [
    "awq", "gptq", "bf16", "fp16", "fp8", "fp4", "nvfp4", "int4", "int8", "4bit", "8bit", "w4a16", "w8a8",
    "w8a16", "dynamic", "block", "hf", "bnb",
];

/// The known model of a name such as `deepseek-ai/DeepSeek-R1` or `acme/DeepSeek-R1-AWQ`. `None` for a path, and for a name
/// without an owner: in the library of Ollama `deepseek-r1` is a small model.
fn known_model(name: &str) -> Option<&'static KnownModel> {
    if is_path(name) {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let (_, name) = name.split_once('/')?;
    let is_copy = |rest: &str| {
        rest.is_empty()
            || rest
                .strip_prefix('-')
                .is_some_and(|rest| rest.split('-').all(|word| COPY_SUFFIXES.contains(&word)))
    };
    KNOWN_MODELS
        .iter()
        .find(|known| known.names.iter().any(|one| name.strip_prefix(one).is_some_and(is_copy)))
}

/// Whether a name is that of a mixture of experts: `Mixtral-8x7B`, `Qwen3-30B-A3B`, `gpt-oss-120b`.
fn is_mixture_by_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let number = |text: &str| !text.is_empty() && thousandths(text).is_some();
    name.contains("gpt-oss")
        || name.split(['-', '_', '/']).any(|word| {
            let is_active =
                word.strip_prefix('a').and_then(|rest| rest.strip_suffix('b')).is_some_and(number);
            let experts = word.strip_suffix('b').and_then(|rest| rest.split_once('x'));
            is_active || experts.is_some_and(|(count, each)| number(count) && number(each))
        })
}

/// The number in a model's name is rounded: the weights, and their files, may be smaller by this share, in
/// percent.
pub(crate) const ROUNDED: u64 = 5;

/// The model that a server loads, with the item that names it. `None` if its size is unknown, or the weights may need
/// less memory.
pub(crate) fn weights_of<'a>(launch: &Launch<'a>, container: &Node<'a>) -> Option<(Weights, Node<'a>)> {
    if launch.may_have_more_options() || launch.has(&ELSEWHERE) {
        return None;
    }
    let (name, node) = launch.model(container)?;
    let known = known_model(&name);
    let parameters = known.map(|known| known.parameters).or_else(|| parameters(&name))?;
    let is_mixture = known.map_or_else(|| is_mixture_by_name(&name), |known| known.is_mixture);
    // Data-parallel ranks share the experts: each has a part of them only.
    if is_mixture && (launch.is_data_parallel() || launch.has(&EXPERT_PARALLEL)) {
        return None;
    }
    let is_tgi = launch.program.is(ServerId::Tgi);
    let setting = launch.setting(container, if is_tgi { &["quantize"] } else { &["quantization", "q"] });
    let loader = launch.option(&["load-format"]);
    if matches!(loader, OptionValue::Unknown) {
        return None;
    }
    let loaded_in_four_bits = loader.is("bitsandbytes");
    let by_name = precision_in_name(&name)?;
    let precision = match setting {
        OptionValue::Unknown => return None,
        _ if loaded_in_four_bits => Precision::FourBits,
        OptionValue::Text(method, _) if method != "none" => {
            let stated = precision_of_method(&method, is_tgi);
            [stated, by_name].into_iter().flatten().min_by_key(|precision| precision.size())?
        }
        _ => match by_name.or_else(|| special_precision(&name, known, parameters)) {
            Some(precision) => precision,
            None => match launch.setting(container, &["dtype"]) {
                OptionValue::Unknown => return None,
                OptionValue::Text(text, _) if matches!(text.as_str(), "float32" | "float") => {
                    Precision::Single
                }
                _ => Precision::Half,
            },
        },
    };
    Some((Weights { parameters, precision, of_tokens: of_tokens(&name, parameters) }, node))
}

/// The weights of a model as its owner publishes them, by its name. `None` if its size is unknown.
pub(crate) fn published_weights(name: &str) -> Option<Weights> {
    let known = known_model(name);
    let parameters = known.map(|known| known.parameters).or_else(|| parameters(name))?;
    let precision = precision_in_name(name)?.or_else(|| special_precision(name, known, parameters));
    let precision = precision.unwrap_or(Precision::Half);
    Some(Weights { parameters, precision, of_tokens: of_tokens(name, parameters) })
}

/// The least size in MB of a file of llama.cpp's weights, by the parameters and the bits of a parameter in its name:
/// `chat-7b.Q4_K_M.gguf`. Scales, and layers with more bits, are not counted.
pub(crate) fn megabytes_of_file(file: &str) -> Option<u64> {
    let name = file.to_ascii_lowercase();
    let name = name.strip_suffix(".gguf")?;
    let bits = |word: &str| word.strip_prefix("iq").or_else(|| word.strip_prefix('q'))?.parse::<u64>().ok();
    let bits = name.split(['.', '-', '_']).find_map(bits).filter(|bits| (2..=8).contains(bits))?;
    // One of several files has a part of the weights.
    (!name.contains("-of-"))
        .then_some(parameters(&name.replace(".q", "-q").replace(".iq", "-iq"))? * bits / 8)
}

/// The precision of a model whose name does not contain it, if it is not the type that a server chooses by default.
fn special_precision(name: &str, known: Option<&KnownModel>, parameters: u64) -> Option<Precision> {
    known.map_or_else(|| native_precision(name, parameters), KnownModel::published)
}

/// The number of parameters, in millions, in the name of a model, such as 70,000 for `Llama-3.1-70B-Instruct`. `None`
/// if the name has no or several numbers, is that of an adapter, or is a path.
fn parameters(name: &str) -> Option<u64> {
    if is_path(name) {
        return None;
    }
    let name = name.rsplit('/').next()?.to_ascii_lowercase();
    let mut found = None;
    for word in name.split(['-', '_', ':', '@', ' ']) {
        if ["lora", "qlora", "adapter", "adapters", "peft"].contains(&word) || is_experts(word) {
            return None;
        }
        let Some(number) = word.strip_suffix('b') else { continue };
        let millions = match number {
            // Experts share the layers outside of them.
            "8x7" => 46_700,
            "8x22" => 141_000,
            number if number.contains('x') => return None,
            number => match thousandths(number) {
                Some(millions) => millions,
                None => continue,
            },
        };
        if found.is_some_and(|known| known != millions) {
            return None;
        }
        found = Some(millions);
    }
    found.filter(|millions| (1..=5_000_000).contains(millions))
}

/// The owner of a model and its name there, as in `meta-llama/Llama-3.1-8B`. `None` for a path, an address, and a name without an
/// owner.
pub(crate) fn owner_and_name(name: &str) -> Option<(&str, &str)> {
    let (owner, name) = name.split_once('/')?;
    let is_owner = !owner.is_empty() && !owner.starts_with(['.', '~']) && !owner.contains(':');
    (is_owner && !name.contains('/')).then_some((owner, name))
}

/// Whether the name of a model is a path or an address instead of an owner and a name.
fn is_path(name: &str) -> bool {
    name.starts_with(['/', '.', '~']) || name.contains("://") || name.matches('/').count() > 1
}

/// `16e`: the number of experts. In such names the number of parameters is that of the active ones.
fn is_experts(word: &str) -> bool {
    word.strip_suffix('e').is_some_and(is_digits)
}

/// Parses a decimal number, times 1,000.
fn thousandths(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1000 + fraction)
}

/// The precision in the name of a model; `Some(None)` without one, `None` if it is not one of these.
fn precision_in_name(name: &str) -> Option<Option<Precision>> {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if has(&["exl2", "exl3", "aqlm", "hqq", "quip", "bitnet", "mlx", "gguf", "ggml", "onnx", "unquantized"])
        || has(&["1bit", "2bit", "3bit", "int2", "int3", "2of4", "pruned", "sparse", "bit"])
    {
        return None;
    }
    if has(&["fp8", "int8", "8bit", "w8a8", "w8a16", "q8"]) {
        return Some(Some(Precision::EightBits));
    }
    if has(&["awq", "gptq", "int4", "4bit", "w4a16", "w4a8", "fp4", "nvfp4", "mxfp4", "q4", "bnb", "nf4"]) {
        return Some(Some(Precision::FourBits));
    }
    if has(&["quantized", "quant", "compressed", "qat"]) {
        return None;
    }
    if has(&["bf16", "fp16"]) {
        return Some(Some(Precision::Half));
    }
    Some(if has(&["fp32", "f32"]) { Some(Precision::Single) } else { None })
}

/// The precision in which some models are published, although their names do not contain it.
fn native_precision(name: &str, parameters: u64) -> Option<Precision> {
    let name = name.to_ascii_lowercase();
    if name.contains("gpt-oss") {
        return Some(Precision::FourBits);
    }
    (name.contains("deepseek") && parameters > 600_000).then_some(Precision::EightBits)
}

/// The precision for a value of `--quantization`; `None` if it depends on the files of the model.
fn precision_of_method(method: &str, is_tgi: bool) -> Option<Precision> {
    let method = method.to_ascii_lowercase();
    let is = |signs: &[&str]| signs.iter().any(|sign| method.contains(sign));
    if method == "bitsandbytes" && is_tgi || is(&["fp8", "int8", "eetq"]) {
        Some(Precision::EightBits)
    } else if is(&["awq", "gptq", "bitsandbytes", "fp4", "int4"]) {
        Some(Precision::FourBits)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_state_parameters() {
        for (name, expected) in [
            ("meta-llama/Llama-3.1-70B-Instruct", Some(70_000)),
            ("Qwen/Qwen2.5-1.5B", Some(1_500)),
            ("Qwen/Qwen2.5-7B-Instruct-1M", Some(7_000)),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some(46_700)),
            ("mistralai/Mixtral-8x22B-v0.1", Some(141_000)),
            ("Qwen/Qwen3-30B-A3B", Some(30_000)),
            ("openai/gpt-oss-120b", Some(120_000)),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", Some(32_000)),
            ("some/merge-4x8B", None),
            ("meta-llama/Llama-4-Scout-17B-16E-Instruct", None),
            ("google/gemma-3n-E4B-it", None),
            ("allenai/OLMoE-1B-7B-0924", None),
            ("deepseek-ai/DeepSeek-V3", None),
            ("acme/llama-70b-lora", None),
            ("/models/llama-70b", None),
            ("s3://models/llama-70b", None),
            ("models/acme/llama-70b", None),
            ("llama-70b-instruct", Some(70_000)),
            ("bigscience/bloomz-7b1", None),
            ("acme/b", None),
            ("acme/x-123456b", None),
        ] {
            assert_eq!(parameters(name), expected, "{name}");
        }
    }

    #[test]
    fn models_are_known_by_their_names_and_those_of_copies() {
        for (name, expected) in [
            ("deepseek-ai/DeepSeek-R1", Some(671_000)),
            ("deepseek-ai/DeepSeek-V3.1-Terminus", Some(671_000)),
            ("acme/DeepSeek-R1-AWQ", Some(671_000)),
            ("acme/DeepSeek-V3-0324-BF16", Some(671_000)),
            ("moonshotai/Kimi-K2-Instruct-0905", Some(1_000_000)),
            ("meta-llama/Llama-4-Scout-17B-16E-Instruct", Some(109_000)),
            ("acme/Llama-4-Maverick-17B-128E-Instruct-FP8", Some(400_000)),
            ("microsoft/phi-4", Some(14_000)),
            // Smaller models, parts and other formats.
            ("microsoft/Phi-4-mini-instruct", None),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", None),
            ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", None),
            ("deepseek-ai/DeepSeek-V2-Lite", None),
            ("acme/DeepSeek-R1-GGUF", None),
            ("acme/DeepSeek-R1-pruned", None),
            ("deepseek-r1", None),
            ("/models/DeepSeek-R1", None),
            ("./DeepSeek-R1", None),
            ("s3://models/DeepSeek-R1", None),
        ] {
            assert_eq!(known_model(name).map(|known| known.parameters), expected, "{name}");
        }
    }

    #[test]
    fn names_of_mixtures() {
        for (name, expected) in [
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", true),
            ("Qwen/Qwen3-235B-A22B", true),
            ("openai/gpt-oss-120b", true),
            ("meta-llama/Llama-3.1-70B-Instruct", false),
            ("acme/xb-ab", false),
        ] {
            assert_eq!(is_mixture_by_name(name), expected, "{name}");
        }
    }

    #[test]
    fn names_state_precision() {
        let (four, eight) = (Some(Some(Precision::FourBits)), Some(Some(Precision::EightBits)));
        for (name, expected) in [
            ("meta-llama/Llama-3.1-70B-Instruct", Some(None)),
            ("TheBloke/Llama-2-70B-chat-AWQ", four),
            ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", four),
            ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", eight),
            ("neuralmagic/Meta-Llama-3.1-405B-Instruct-FP8-dynamic", eight),
            ("acme/Llama-3.3-70B-Instruct-quantized.w4a16", four),
            ("acme/Llama-3.3-70B-Instruct-quantized", None),
            ("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", four),
            ("acme/Llama-70B-GGUF", None),
            ("acme/Llama-70B-exl2", None),
            ("acme/DeepSeek-R1-BF16", Some(Some(Precision::Half))),
        ] {
            assert_eq!(precision_in_name(name), expected, "{name}");
        }
    }

    #[test]
    fn sizes_are_decimal() {
        let weights = |parameters, precision| Weights { parameters, precision, of_tokens: 0 };
        let quantized = published_weights("Qwen/Qwen2.5-7B-Instruct-AWQ").map(|weights| weights.megabytes());
        assert_eq!(quantized, Some(5_253));
        assert_eq!(weights(70_000, Precision::Half).megabytes(), 140_000);
        assert_eq!(weights(46_700, Precision::FourBits).megabytes(), 28_020);
        assert_eq!(weights(1_500, Precision::Half).parameters_text(), "1.5B");
        assert_eq!(weights(141_000, Precision::Half).parameters_text(), "141B");
    }
}
